"""Reports as one HTML page without a server: the page and its pictures."""

from typing import TYPE_CHECKING

from rulerag.lazy import front_door

if TYPE_CHECKING:
    from rulerag.evaluation.page.html import rule_rows, write_report
else:
    __getattr__ = front_door(__name__)
