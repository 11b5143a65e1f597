"""TAB-separated lines to codes of their distinct cells, by compiled code."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from rulerag.arrays import Ints

_PRIME, _BASIS = np.uint64(0x100000001B3), np.uint64(0xCBF29CE484222325)  # FNV-1a, 64 bits


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
    texts: tuple[list[str], list[str]] = [], []
    try:
        for start, end, code in cells[:, 1:].tolist():
            texts[code & 1].append(str(data[start:end], "utf-8"))
    except UnicodeDecodeError:
        return None
    return CodedLines(codes, *texts)


@njit(cache=True, nogil=True)
def _coded(data: Any, width: int) -> Any:
    """The codes, and where each distinct cell first stands; no codes where a line is odd."""
    lines = 0
    for byte in data:
        lines += byte == 10
    codes = np.empty((lines, width), np.int32)
    # Hash, start, end, twice the code plus whether it is a time: one place in memory for each cell.
    cells = np.empty((1 << 15, 4), np.int64)
    slots = np.full(1 << 17, -1, np.int32)
    found, counts = 0, np.zeros(2, np.int64)
    row, column, begin, value = 0, 0, 0, _BASIS
    for place in range(len(data)):
        byte = data[place]
        if byte != 9 and byte != 10:
            value = (value ^ np.uint64(byte)) * _PRIME
            continue
        size, kind = place - begin, int(column >= 3)
        if not size or (byte == 10) != (column == width - 1):
            return codes[:0], cells[:0]
        own = np.int64(value)
        slot = (own ^ (own >> 29)) & (len(slots) - 1)
        while slots[slot] >= 0:
            one = slots[slot]
            start = cells[one, 1]
            if cells[one, 0] == own and cells[one, 2] - start == size and cells[one, 3] & 1 == kind:
                offset = 0
                while offset < size and data[start + offset] == data[begin + offset]:
                    offset += 1
                if offset == size:
                    break
            slot = (slot + 1) & (len(slots) - 1)
        if slots[slot] < 0:
            if found == len(cells):
                cells = np.append(cells, cells, axis=0)
                slots = np.full(4 * len(cells), -1, np.int32)
                mask = len(slots) - 1
                for other in range(found):
                    slot = (cells[other, 0] ^ (cells[other, 0] >> 29)) & mask
                    while slots[slot] >= 0:
                        slot = (slot + 1) & mask
                    slots[slot] = other
                slot = (own ^ (own >> 29)) & mask
                while slots[slot] >= 0:
                    slot = (slot + 1) & mask
            slots[slot] = found
            cells[found] = own, begin, place, 2 * counts[kind] + kind
            counts[kind] += 1
            found += 1
        codes[row, column] = cells[slots[slot], 3] >> 1
        begin, value, column = place + 1, _BASIS, column + 1
        if byte == 10:
            row, column = row + 1, 0
    return codes, cells[:found]
