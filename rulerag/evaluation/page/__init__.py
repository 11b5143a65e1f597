"""Reports of runs and of explained answers as one HTML page without a server.

``report`` puts the page together, of what was measured (``runs``) and explained (``explained``).
"""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.evaluation.page.report import (
        render_report as render_report,
        rule_rows as rule_rows,
        write_report as write_report,
    )
else:
    __getattr__ = lazy_names(__name__)
