"""TAB-separated lines to codes of their distinct cells, by compiled code."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from rulerag.arrays import Ints

_PRIME, _NONE = np.uint64(0x9E3779B97F4A7C15), np.uint64(0)


class CodedLines(NamedTuple):
    """Lines of cells as codes.

    Args:
        codes: int32 array of shape (n, width): the first three columns number ``names``, the others
            ``times``, in the order of first appearance.
        names: the distinct cells of the first three columns.
        times: those of the others.
    """

    codes: Ints
    names: list[str]
    times: list[str]


def code_lines(data: bytes, width: int) -> CodedLines | None:
    """The cells of lines of one width; None where a line has another form, or is no UTF-8.

    Args:
        data: lines that end with LF, the last one with or without.
        width: cells of a line, 3 or more; none is empty.
    """
    text = np.frombuffer(data if data.endswith(b"\n") else data + b"\n", np.uint8)
    codes, cells = _coded(text, width)
    if not len(codes):
        return None
    parts = [_joined(text, cells[cells[:, 3] == is_time]) for is_time in (0, 1)]
    try:
        names, times = (part.tobytes().decode().split("\n")[:-1] for part in parts)
    except UnicodeDecodeError:
        return None
    return CodedLines(codes, names, times)


@njit(cache=True, nogil=True)
def _joined(data: Any, cells: Any) -> Any:
    """The cells, each with an LF."""
    joined = np.empty((cells[:, 2] - cells[:, 1] + 1).sum(), np.uint8)
    place = 0
    for cell in range(len(cells)):
        for source in range(cells[cell, 1], cells[cell, 2]):
            joined[place] = data[source]
            place += 1
        joined[place] = 10
        place += 1
    return joined


@njit(cache=True, nogil=True)
def _coded(data: Any, width: int) -> Any:
    """The codes, and where each distinct cell first stands; no codes where a line is odd."""
    lines = 0
    for byte in data:
        lines += byte == 10
    codes = np.empty((lines, width), np.int32)
    cells = np.empty((1 << 15, 4), np.int64)  # hash, start, end, whether it is a time
    # The first 16 bytes, the size beside twice the code plus whether it is a time, and which cell
    # it is: half a line of the processor's cache, which most cells are found by alone.
    slots = np.zeros((1 << 16, 4), np.uint64)
    found, counts = 0, np.zeros(2, np.int64)
    row, column, begin = 0, 0, 0
    word, first, second, value = _NONE, _NONE, _NONE, _NONE
    for place in range(len(data)):
        byte = data[place]
        size = place - begin
        if byte != 9 and byte != 10:
            word |= np.uint64(byte) << np.uint64(8 * (size & 7))
            if size & 7 == 7:
                if size == 7:
                    first = word
                elif size == 15:
                    second = word
                value = _mixed(value, word)
                word = _NONE
            continue
        if not size or (byte == 10) != (column == width - 1):
            return codes[:0], cells[:0]
        if size < 8:
            first = word
        elif size < 16:
            second = word
        value = _mixed(_mixed(value, word), np.uint64(size))
        is_time = int(column >= 3)
        slot = np.int64(value) & (len(slots) - 1)
        while slots[slot, 2]:
            about = np.int64(slots[slot, 2])
            if (
                slots[slot, 0] == first
                and slots[slot, 1] == second
                and about >> 32 == size
                and about & 1 == is_time
            ):
                offset, start = 16, 0
                if size > 16:
                    start = cells[np.int64(slots[slot, 3]), 1]
                while offset < size and data[start + offset] == data[begin + offset]:
                    offset += 1
                if offset >= size:
                    break
            slot = (slot + 1) & (len(slots) - 1)
        if not slots[slot, 2]:
            if 10 * found > 7 * len(slots):
                slots = _grown(slots, cells)
                slot = _free(slots, np.int64(value))
            if found == len(cells):
                cells = np.append(cells, cells, axis=0)
            slots[slot, 0], slots[slot, 1] = first, second
            slots[slot, 2] = np.uint64(size << 32 | counts[is_time] << 1 | is_time)
            slots[slot, 3] = np.uint64(found)
            cells[found] = np.int64(value), begin, place, is_time
            counts[is_time] += 1
            found += 1
        codes[row, column] = (np.int64(slots[slot, 2]) & 0xFFFFFFFF) >> 1
        begin, column = place + 1, column + 1
        word, first, second, value = _NONE, _NONE, _NONE, _NONE
        if byte == 10:
            row, column = row + 1, 0
    return codes, cells[:found]


@njit(cache=True, nogil=True, inline="always")
def _mixed(value: Any, word: Any) -> Any:
    """A hash that takes in eight more bytes."""
    value = (value ^ word) * _PRIME
    return value ^ (value >> np.uint64(29))


@njit(cache=True, nogil=True)
def _free(slots: Any, value: Any) -> Any:
    """The first free slot for a hash."""
    slot = value & (len(slots) - 1)
    while slots[slot, 2]:
        slot = (slot + 1) & (len(slots) - 1)
    return slot


@njit(cache=True, nogil=True)
def _grown(slots: Any, cells: Any) -> Any:
    """Twice as many slots."""
    larger = np.zeros((2 * len(slots), 4), np.uint64)
    for slot in range(len(slots)):
        if slots[slot, 2]:
            larger[_free(larger, cells[np.int64(slots[slot, 3]), 0])] = slots[slot]
    return larger
