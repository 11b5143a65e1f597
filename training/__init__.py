"""Fine-tuning, and the making of the models that are installed; part of a checkout alone."""

import sys
from importlib.abc import MetaPathFinder

_MOVED = {
    "training.merging": "rulerag.assembly.merging_weights, its command rulerag learn-merging",
    "training.nano_encoder": "training.shipped.encoder",
    "training.nano_llama": "training.shipped.reader",
    "training.nano_llama_figures": "training.shipped.reader.figures",
}


class _Moved(MetaPathFinder):
    """Names the new place of a command that was renamed."""

    def find_spec(self, name: str, *_: object) -> None:
        if name in _MOVED:
            raise ModuleNotFoundError(f"{name} is now {_MOVED[name]}", name=name)


sys.meta_path.append(_Moved())
