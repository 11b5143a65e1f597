"""The command ``explain``: answers of a dataset (``command``), or of any system (``own``)."""

from typing import TYPE_CHECKING

from rulerag.lazy import front_door

if TYPE_CHECKING:
    from rulerag.cli.explaining.command import explain
else:
    __getattr__ = front_door(__name__)
