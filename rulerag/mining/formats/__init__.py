"""Rule files of this library and of AMIE, AnyBURL and TLogic."""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.mining.formats.amie import load_amie as load_amie
    from rulerag.mining.formats.files import (
        FORMATS as FORMATS,
        detect_format as detect_format,
        export_rules as export_rules,
        import_rules as import_rules,
    )
else:
    __getattr__ = lazy_names(__name__)
