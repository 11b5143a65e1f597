"""Linear layers by oneDNN, which multiplies twice as fast on some processors as torch's own."""

from __future__ import annotations

from functools import partial
from typing import Any


def with_fast_linear(model: Any) -> Any:
    """The same model, whose linear layers infer in float32 on a CPU by oneDNN.

    Torch multiplies by MKL, which takes its fast path on Intel's processors alone. Results differ
    by rounding, some 1e-6 of the largest. Training, other types and devices stay torch's own.
    """
    import torch

    backend: Any = torch.backends.mkldnn
    if backend.is_available():
        layer: Any
        for layer in model.modules():
            if type(layer) is torch.nn.Linear:
                vars(layer)["forward"] = partial(_linear, layer)
    return model


def _linear(layer: Any, rows: Any) -> Any:
    import torch

    if torch.is_grad_enabled() or rows.device.type != "cpu" or rows.dtype != torch.float32:
        return torch.nn.Linear.forward(layer, rows)
    by_onednn = torch.ops.mkldnn._linear_pointwise
    return by_onednn(rows, layer.weight, layer.bias, "none", [], "")
