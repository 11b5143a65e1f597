"""Bodies of three atoms: counted under what their shorter parts leave, measured until they fail."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from rulerag.mining.amie.candidates import CandidateRules, Shape
from rulerag.mining.amie.kernels import equal_groups
from rulerag.mining.amie.three_atom_kernels import (
    Outgoing,
    count_long_paths,
    count_short_bodies,
    outgoing,
)
from rulerag.mining.amie.three_atom_sizes import long_sizes, short_sizes
from rulerag.mining.amie.two_atoms import Tasks, ThreadBuffers, measured
from rulerag.mining.indexes import StaticIndex, functional_on_object

if TYPE_CHECKING:
    from rulerag.arrays import Longs
    from rulerag.mining.runtime import Arrays, TaskRunner

# What a body is when it is read from ?y to ?x.
_TURNED = np.arange(len(Shape))
_TURNED[[Shape.TWIN_SUBJECT, Shape.TWIN_OBJECT]] = Shape.TWIN_OBJECT, Shape.TWIN_SUBJECT
_TURNED[[Shape.TWIN_FIRST, Shape.TWIN_LAST]] = Shape.TWIN_LAST, Shape.TWIN_FIRST
# Which atoms are then read in which places, and which of them from their other ends.
_PLACES = {
    Shape.LONG_PATH: ((2, 1, 0), (True, True, True)),
    Shape.TRIANGLE: ((1, 0, 2), (True, True, True)),
    Shape.TWIN_SUBJECT: ((0, 1, 2), (False, False, True)),
    Shape.TWIN_OBJECT: ((0, 1, 2), (False, False, True)),
    Shape.TWIN_FIRST: ((2, 0, 1), (True, True, True)),
    Shape.TWIN_LAST: ((1, 2, 0), (True, True, True)),
    Shape.TRIPLE: ((0, 1, 2), (True, True, True)),
}
# Of a body as it is read: the atom that begins it.
_LEAD = {Shape.TRIPLE: 0, Shape.TWIN_FIRST: 0, Shape.TWIN_LAST: 0}


def three_atom_candidates(
    index: StaticIndex,
    min_support: Longs,
    confidences: tuple[float, float],
    shorter: CandidateRules,
    runner: TaskRunner,
) -> CandidateRules:
    """Every three-atom body with enough support, counted, sorted by head and body.

    Bodies whose atoms all have the head's relation are left out, as by AMIE's recursivity limit.

    Args:
        index: the graph.
        min_support: int64 array of shape (R,), least support by head; 0 leaves a head out.
        confidences: least PCA and standard confidence; bodies that are certain to stay below one
            are not counted to the end.
        shorter: every body of one and two atoms with enough support.
        runner: where relations are worked on.
    """
    out, directed = outgoing(index), 2 * index.num_relations
    heads = np.flatnonzero(min_support)
    heads = heads[np.argsort(-index.head_size[heads], kind="stable")]
    task = partial(_count_bodies, index, out, min_support, shorter)
    counted = runner.map("counting three-atom bodies", "count-3", task, heads.tolist())
    keys, support = (np.concatenate(column) for column in zip(*counted, strict=True))
    head = np.repeat(heads, [len(keys) for keys, _ in counted])
    order = np.lexsort((keys, head))
    head, keys, support = head[order], keys[order], support[order]
    body = np.stack([keys // directed**2, keys // directed, keys]) % directed
    shape = keys // directed**3

    flip = functional_on_object(index)[head]
    known = np.where(flip, index.inverse(head), head)
    read_shape, read = shape.copy(), body.copy()
    for kind, (places, turned) in _PLACES.items():
        rows = np.flatnonzero(flip & (shape == kind))
        read_shape[rows] = _TURNED[kind]
        for place, (source, back) in enumerate(zip(places, turned, strict=True)):
            atoms = body[source, rows]
            read[place, rows] = index.inverse(atoms) if back else atoms
    sizes = np.zeros((2, len(head)), dtype=np.int64)
    same_as = equal_groups(index.group_bounds, index.group_starts, index.target)
    equal = same_as, np.bincount(same_as, minlength=len(same_as))
    buffers = ThreadBuffers(index.num_entities)
    rows = np.flatnonzero(shape == Shape.LONG_PATH)
    kernel = partial(_size_long, index, out, confidences, equal, buffers)
    columns = (read[1], read[2], read[0], known, support)
    sizes[:, rows] = measured(
        runner, "measuring long paths", "long", kernel, *(one[rows] for one in columns)
    )
    rows = np.flatnonzero(shape != Shape.LONG_PATH)
    begins = np.array([_LEAD.get(kind, 2) for kind in Shape])
    lead = read[begins[read_shape], np.arange(len(head))]
    short = partial(_size_short, index, out, confidences, buffers)
    columns = (lead, read_shape, *read, known, support)
    sizes[:, rows] = measured(
        runner, "measuring short bodies", "short", short, *(one[rows] for one in columns)
    )
    return CandidateRules(head, shape, body[0], body[1], body[2], support, sizes[0], sizes[1])


def _count_bodies(
    index: StaticIndex, out: Outgoing, min_support: Longs, shorter: CandidateRules, head: int
) -> Arrays:
    directed, least = 2 * index.num_relations, int(min_support[head])
    own = shorter.rows(shorter.head == head)
    beside = np.zeros(directed, dtype=np.int64)
    beside[own.first[own.shape == Shape.ATOM]] = 1
    paths = own.rows(own.shape == Shape.PATH)
    table = count_short_bodies(
        index, out, head, beside, np.sort(paths.first * directed + paths.second)
    )
    enough = (table[0] >= 0) & (table[1] >= least)
    found = [(table[0, enough], table[1, enough])]
    # From the end where fewer ways have to be followed.
    turned = head + index.num_relations
    if _ways(index, head) <= _ways(index, turned):
        keys, support = count_long_paths(index, out, head, least)
    else:
        keys, support = count_long_paths(index, out, turned, least)
        atoms = index.inverse(np.stack([keys, keys // directed, keys // directed**2]) % directed)
        keys = (atoms[0] * directed + atoms[1]) * directed + atoms[2]
    found.append((Shape.LONG_PATH * directed**3 + keys, support))
    keys, support = (np.concatenate(column) for column in zip(*found, strict=True))
    relations = np.stack([keys // directed**2, keys // directed, keys]) % index.num_relations
    other = (relations != head).any(axis=0)
    return keys[other], support[other]


def _ways(index: StaticIndex, head: int) -> int:
    """About how much :func:`count_long_paths` does for a directed head."""
    degree = np.bincount(index.source, minlength=index.num_entities)
    two = np.bincount(index.source, degree[index.target], index.num_entities)
    groups = slice(*index.group_bounds[head : head + 2])
    facts = slice(*index.relation_bounds[head : head + 2])
    return int(two[index.group_source[groups]].sum() + 16 * degree[index.target[facts]].sum())


def _size_long(
    index: StaticIndex,
    out: Outgoing,
    least: tuple[float, float],
    equal: tuple[Longs, Longs],
    buffers: ThreadBuffers,
    tasks: Tasks,
    second: int,
) -> Arrays:
    columns = tasks[second]
    cuts = np.flatnonzero(np.diff(columns[0])) + 1
    parts = zip(*(np.split(column, cuts) for column in columns), strict=True)
    sizes = [
        long_sizes(
            index, out, second, int(third[0]), first, head, support, *least, *equal, buffers.seen
        )
        for third, first, head, support in parts
    ]
    both = np.concatenate(sizes, axis=1)
    return both[0], both[1]


def _size_short(
    index: StaticIndex,
    out: Outgoing,
    least: tuple[float, float],
    buffers: ThreadBuffers,
    tasks: Tasks,
    lead: int,
) -> Arrays:
    shape, one, two, three, head, support = tasks[lead]
    body = np.stack([one, two, three], axis=1)
    sizes = short_sizes(index, out, lead, shape, body, head, support, *least, buffers.seen)
    return sizes[0], sizes[1]
