"""Folders that one process writes at a time, and folders on the Hugging Face Hub."""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.folders.hub import (
        HubMixin as HubMixin,
        local_copy as local_copy,
        push_folder as push_folder,
    )
    from rulerag.folders.output import (
        LOCK as LOCK,
        hold_folder as hold_folder,
        locked as locked,
        output_folder as output_folder,
    )
else:
    __getattr__ = lazy_names(__name__)
