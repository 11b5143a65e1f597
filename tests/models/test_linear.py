"""Linear layers by oneDNN: torch's own numbers, its gradients, its copies."""

from __future__ import annotations

import copy

import pytest

torch = pytest.importorskip("torch")
from rulerag.models import with_fast_linear  # noqa: E402


def test_layers_give_the_numbers_gradients_and_copies_of_torch() -> None:
    torch.manual_seed(0)
    plain = torch.nn.Sequential(torch.nn.Linear(64, 48), torch.nn.GELU(), torch.nn.Linear(48, 8))
    fast = with_fast_linear(copy.deepcopy(plain))
    assert "forward" in vars(fast[0])
    for shape in ((1, 64), (3, 5, 64), (0, 64)):
        rows = torch.randn(shape)
        with torch.inference_mode():
            torch.testing.assert_close(fast(rows), plain(rows), rtol=1e-5, atol=1e-6)
            half = copy.deepcopy(plain).bfloat16()(rows.bfloat16())
            own = with_fast_linear(copy.deepcopy(plain)).bfloat16()(rows.bfloat16())
            torch.testing.assert_close(own, half, rtol=0, atol=0)
    for model in (plain, fast):
        model(torch.ones(2, 64)).sum().backward()
    torch.testing.assert_close(fast[0].weight.grad, plain[0].weight.grad)
    other = copy.deepcopy(fast)
    other[0].weight.data.zero_()
    with torch.inference_mode():  # a copy computes with its own weights
        rows = torch.ones(1, 64)
        assert not torch.equal(other(rows), fast(rows))
        before = fast(rows)
        torch.testing.assert_close(fast(rows), plain(rows), rtol=1e-5, atol=1e-6)
    fast(torch.ones(2, 64)).sum().backward()
    torch.optim.AdamW(fast.parameters(), lr=0.1, fused=True).step()
    with torch.inference_mode():  # and with the weights that it has by then
        assert not torch.equal(fast(rows), before)
        plain.load_state_dict(fast.state_dict())
        torch.testing.assert_close(fast(rows), plain(rows), rtol=1e-5, atol=1e-6)
