"""The parts of a dataset folder, each read when it is used: queries, judgements, rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rulerag.errors import DataFormatError
from rulerag.io import StoredRecords, read_lines, read_records
from rulerag.rules import Rule, RuleBank, StoredRuleBank
from rulerag.types import Query

Qrels = dict[str, dict[str, int]]
TEST = "test"
"""The split of the questions that are asked."""


def stored_rules(
    path: Path, digests: Mapping[str, str], known: Mapping[str, Any] | None
) -> RuleBank | None:
    """The bank of a folder: read when it is used, where it was read whole before.

    Args:
        path: the file of the rules.
        digests: of the folder's files, by name; None is returned where the file is none of them.
        known: what was remembered of the folder: the places of ``rules`` by head, ``heads``, and
            their fingerprint.

    Raises:
        DataFormatError: a line is not a rule; names file, line and key.
    """
    if path.name not in digests:
        return None
    if known is not None:
        rules = StoredRecords(path, Rule.from_json, digests[path.name])
        if len(rules) == sum(map(len, known["heads"].values())):  # else some stand there twice
            return StoredRuleBank(rules, known["heads"], known["rules"])
    return RuleBank.load(path)


def read_queries(path: Path) -> tuple[dict[str, list[Query]], dict[str, set[str]]]:
    """The queries of a file by split, and the ids of those of each named set.

    Raises:
        DataFormatError: a line cannot be read; names file, line and key.
    """
    queries: dict[str, list[Query]] = {}
    query_sets: dict[str, set[str]] = {}
    for query, metadata in read_records(
        path, lambda row: (Query.from_json(row), row.get("metadata") or {})
    ):
        queries.setdefault(metadata.get("split", TEST), []).append(query)
        for name in metadata.get("sets", ()):
            query_sets.setdefault(name, set()).add(query.id)
    return queries, query_sets


class StoredQrels(Mapping[str, Qrels]):
    """The judgement files of a folder by split, each read when it is used."""

    def __init__(self, folder: Path) -> None:
        self._files = {path.stem: path for path in sorted(folder.glob("*.tsv"))}
        self._read: dict[str, Qrels] = {}

    def __getitem__(self, split: str) -> Qrels:
        if split not in self._read:
            self._read[split] = read_qrels(self._files[split])
        return self._read[split]

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)


def read_qrels(path: Path) -> Qrels:
    """Query id → document id → grade of one judgement file; a header in its first line or none.

    Raises:
        DataFormatError: a line cannot be read; names file and line.
    """
    qrels: Qrels = {}
    for number, line in read_lines(path):
        cells = line.split("\t")
        if number == 1 and not cells[-1].strip().lstrip("-").isdigit():
            continue
        try:
            query, document, grade = cells
            qrels.setdefault(query, {})[document] = int(grade)
        except ValueError:
            raise DataFormatError(
                f"expected query-id, corpus-id and a whole number, found {line!r}",
                path=path,
                line=number,
                hint="three columns parted by TAB",
            ) from None
    return qrels
