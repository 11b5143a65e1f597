"""Linear layers by oneDNN, which multiplies twice as fast on some processors as torch's own."""

from __future__ import annotations

from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

_PACKED_BYTES = 2**30
"""Weights are laid out anew beside themselves where they take no more than this."""

_packed: WeakKeyDictionary[Any, tuple[Any, Any]] = WeakKeyDictionary()


def with_fast_linear(model: Any) -> Any:
    """The same model, whose linear layers infer in float32 and bfloat16 on a CPU by oneDNN.

    Torch multiplies by MKL, which takes its fast path on Intel's processors alone. Results differ
    by rounding, some 1e-6 of the largest in float32. Training, other types and devices stay
    torch's own. Weights of up to a gigabyte take their memory twice: in oneDNN's own layout a few
    rows, the next tokens of some prompts, are multiplied twice as fast again. Who changes weights
    through ``.data`` opens the model anew.
    """
    import torch

    backend: Any = torch.backends.mkldnn
    if backend.is_available():
        layers: list[Any] = [one for one in model.modules() if type(one) is torch.nn.Linear]
        packs = sum(one.weight.nbytes for one in layers) <= _PACKED_BYTES
        for layer in layers:
            vars(layer)["forward"] = partial(_linear, layer, packs)
    return model


def _linear(layer: Any, packs: bool, rows: Any) -> Any:
    import torch

    weight = layer.weight
    if torch.is_grad_enabled():
        _packed.pop(layer, None)  # a step of training follows; not each optimizer counts versions
    if (
        torch.is_grad_enabled()
        or rows.device.type != "cpu"
        or rows.dtype not in (torch.float32, torch.bfloat16)
        or rows.dtype != weight.dtype
    ):
        return torch.nn.Linear.forward(layer, rows)
    if packs and not weight.is_inference():
        state = weight.data_ptr(), weight._version  # another one once weights are loaded
        if _packed.get(layer, (None,))[0] != state:
            reordered = torch.ops.mkldnn._reorder_linear_weight
            _packed[layer] = state, reordered(weight.detach())
        weight = _packed[layer][1]
    by_onednn = torch.ops.mkldnn._linear_pointwise
    return by_onednn(rows, weight, layer.bias, "none", [], "")
