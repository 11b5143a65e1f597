"""Folders that one process writes at a time, and folders on the Hugging Face Hub."""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.folders.hub import HubMixin, local_copy, push_folder
    from rulerag.folders.output import LOCK, hold_folder, locked, output_folder
else:
    __getattr__ = lazy_names(__name__)
