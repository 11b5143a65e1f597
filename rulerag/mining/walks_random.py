"""Random numbers for compiled walks: streams that depend on what they are for, on nothing else."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rulerag.mining.jit import compiled

__all__ = ["Stream", "below", "mixed", "stream", "uniform_number"]

Stream = npt.NDArray[np.uint64]


@compiled
def mixed(value: np.uint64) -> np.uint64:
    """Steele et al. 2014 (SplitMix64, doi:10.1145/2660193.2660195): the output function."""
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


@compiled
def stream(seed: int, kind: int, number: int) -> Stream:
    """A stream of random numbers of its own for every seed, kind and number."""
    state = mixed(np.uint64(seed) + np.uint64(0x9E3779B97F4A7C15))
    state = mixed(state ^ (np.uint64(kind) + np.uint64(0xD1B54A32D192ED03)))
    return np.full(1, mixed(state ^ np.uint64(number)), np.uint64)


@compiled
def uniform_number(state: Stream) -> float:
    """The next number of a stream, from 0 to below 1."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    return float(mixed(state[0]) >> np.uint64(11)) * 2.0**-53


@compiled
def below(state: Stream, count: int) -> int:
    """The next whole number of a stream, from 0 to below a count."""
    return min(int(uniform_number(state) * count), count - 1)
