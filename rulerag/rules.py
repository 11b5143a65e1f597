"""Horn rules and the rule bank: one form for static and temporal rules, one JSON line each."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from rulerag.errors import DataFormatError, UnknownNameError, did_you_mean
from rulerag.folders import HubMixin
from rulerag.io import (
    STANDARD_OUTPUT,
    StoredRecords,
    fingerprint_object,
    read_json,
    read_records,
    to_json,
    write_json,
    write_jsonl,
    write_text,
)


def readable(name: str) -> str:
    """The readable form of a relation without a label of its own: underscores become spaces."""
    return name.replace("_", " ").strip()


@dataclass(frozen=True, slots=True)
class Atom:
    """One atom of a rule, ``relation(subject, object)``; variables start with ``?``."""

    relation: str
    subject: str
    object: str


@dataclass(frozen=True, slots=True)
class RuleQuality:
    """The counts behind a rule; those that do not apply are None.

    Static rules (AMIE, Galárraga et al. 2015): ``support`` is the number of head pairs that the
    body predicts and the graph holds, ``head_coverage = support / |head|``, ``standard_confidence
    = support / body_size``, ``pca_confidence = support / pca_body_size``, where ``pca_body_size``
    counts the body's pairs whose functional end has some fact of the head relation.

    Temporal rules (TLogic, Liu et al. 2022): ``support`` is TLogic's rule support, ``body_size``
    its body support, ``confidence`` their ratio: how often a grounding of the body is followed by
    the head at a strictly later time.
    """

    support: int | None = None
    head_coverage: float | None = None
    standard_confidence: float | None = None
    pca_confidence: float | None = None
    body_size: int | None = None
    pca_body_size: int | None = None
    confidence: float | None = None

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> RuleQuality:
        """The counts in the object of one ``rules.jsonl`` line.

        Raises:
            DataFormatError: one is no number; names the key.
        """
        counts = {key: row.get(key) for key in _QUALITY}
        for key, value in counts.items():
            if value is None:
                continue
            kinds, words = (int, "whole number") if key in _WHOLE else (int | float, "number")
            infinite = isinstance(value, float) and not math.isfinite(value)
            if isinstance(value, bool) or not isinstance(value, kinds) or infinite:
                raise DataFormatError(f"expected a {words} or null", key=key)
        return cls(**counts)

    def joined(self, other: RuleQuality) -> RuleQuality:
        """These counts, with those that are missing here taken from another count of the rule.

        Where the two differ in a count that both hold, they were made on other facts or samples,
        and nothing is taken: counts of two kinds of facts would make no whole.
        """
        mine, theirs = ({key: getattr(one, key) for key in _QUALITY} for one in (self, other))
        both = [key for key in mine if mine[key] is not None and theirs[key] is not None]
        if any(mine[key] != theirs[key] for key in both):
            return self
        return RuleQuality(**{k: theirs[k] if mine[k] is None else mine[k] for k in mine})


_NO_QUALITY = RuleQuality()
_QUALITY = tuple(field.name for field in fields(RuleQuality))
_WHOLE = frozenset({"support", "body_size", "pca_body_size"})


@dataclass(frozen=True, slots=True)
class Rule:
    """A Horn rule ``body => head`` with its counts.

    In a temporal rule the body atoms hold in the order given, none later than the next, and all
    strictly before the head.

    Args:
        head: the atom that the rule predicts.
        body: one atom or more.
        temporal: whether the atoms carry the time order above.
        quality: the counts.
        text: the rule in words (the paper's form); made from the relation names when empty.
        miner: the name of what produced the rule.

    Attributes:
        id: a stable identifier made from the atoms, the same in every bank and process.
    """

    head: Atom
    body: tuple[Atom, ...]
    temporal: bool = False
    quality: RuleQuality = field(default=_NO_QUALITY, compare=False)
    text: str = field(default="", compare=False)
    miner: str = field(default="", compare=False)
    id: str = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not self.body:
            raise DataFormatError(
                f"the rule for {self.head.relation!r} has an empty body",
                key="body",
                hint="give one body atom",
            )
        if not self.text:
            object.__setattr__(self, "text", rule_text(self))
        parts = [str(self.temporal)]
        for atom in (self.head, *self.body):
            parts += [atom.relation, atom.subject, atom.object]
        digest = hashlib.sha256("\x1f".join(parts).encode()).hexdigest()
        object.__setattr__(self, "id", "r" + digest[:10])

    @property
    def ranking_confidence(self) -> float:
        """The confidence that ranks rules: temporal confidence, else PCA, else standard, else 0."""
        quality = self.quality
        for value in (quality.confidence, quality.pca_confidence, quality.standard_confidence):
            if value is not None:
                return value
        return 0.0

    @property
    def restates_head(self) -> bool:
        """Whether the body says no more than the head: what is stated is no reason for it."""
        return {one.relation for one in self.body} == {self.head.relation.removeprefix("^")}

    @property
    def is_inverse(self) -> bool:
        """Whether a one-atom body holds between the head's ends in the other direction."""
        return len(self.body) == 1 and (
            self.body[0].subject == self.head.object and self.body[0].object == self.head.subject
        )

    def to_json(self) -> dict[str, Any]:
        """The object written to ``rules.jsonl``."""
        row: dict[str, Any] = {
            "head": _atom_to_json(self.head),
            "body": [_atom_to_json(atom) for atom in self.body],
            "temporal": self.temporal,
        }
        row.update({key: getattr(self.quality, key) for key in _QUALITY})
        row["text"] = self.text
        row["miner"] = self.miner
        return row

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Rule:
        """Read the object of one ``rules.jsonl`` line.

        Raises:
            DataFormatError: a key is missing or has the wrong type; names the key.
        """
        if not isinstance(row.get("body"), list):
            raise DataFormatError("expected a list of atoms", key="body")
        temporal = row.get("temporal", False)
        if not isinstance(temporal, bool):
            raise DataFormatError("expected true or false", key="temporal")
        return cls(
            head=_atom_from_json(row.get("head"), "head"),
            body=tuple(_atom_from_json(atom, "body") for atom in row["body"]),
            temporal=temporal,
            quality=RuleQuality.from_json(row),
            text=str(row.get("text") or ""),
            miner=str(row.get("miner") or ""),
        )


def _atom_to_json(atom: Atom) -> dict[str, str]:
    return {"relation": atom.relation, "subject": atom.subject, "object": atom.object}


def _atom_from_json(value: Any, key: str) -> Atom:
    if isinstance(value, dict):
        relation, subject, object_ = map(value.get, ("relation", "subject", "object"))
        if isinstance(relation, str) and isinstance(subject, str) and isinstance(object_, str):
            return Atom(relation, subject, object_)
    raise DataFormatError(
        "expected an atom with the texts 'relation', 'subject' and 'object'", key=key
    )


def rule_text(rule: Rule, label: Callable[[str], str] = readable) -> str:
    """The rule in RuleRAG's words (arXiv:2410.22353, section 2).

    ``[Entity 1, r1, Entity 2] leads to [Entity 1, r2, Entity 2]``; the head's ends are Entity 1
    and Entity 2, further variables Entity 3, Entity 4 in order of appearance.

    Args:
        rule: the rule.
        label: the words of a raw relation.
    """
    names: dict[str, str] = {}
    for atom in (rule.head, *rule.body):
        for variable in (atom.subject, atom.object):
            if variable.startswith("?"):
                names.setdefault(variable, f"Entity {len(names) + 1}")

    def words(atom: Atom) -> str:
        ends = (names.get(end, end) for end in (atom.subject, atom.object))
        return f"[{f', {label(atom.relation)}, '.join(ends)}]"

    return f"{' and '.join(words(atom) for atom in rule.body)} leads to {words(rule.head)}"


class RuleBank(HubMixin):
    """An ordered set of rules, indexed by head relation and by id.

    Two rules with the same atoms are the same rule; the first one given stays.

    Args:
        rules: the rules, in the order to keep.
        origin: what they were mined from and how, for people who read the bank later.
    """

    def __init__(self, rules: Iterable[Rule] = (), origin: Mapping[str, Any] | None = None) -> None:
        self._given = tuple(rules)
        self.origin = dict(origin or {})

    @cached_property
    def _by_id(self) -> dict[str, Rule]:
        found: dict[str, Rule] = {}
        for rule in self._given:
            found.setdefault(rule.id, rule)
        return found

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Rule]:
        return iter(self._by_id.values())

    def __contains__(self, rule: object) -> bool:
        return isinstance(rule, Rule) and rule.id in self._by_id

    def __repr__(self) -> str:
        return f"RuleBank({len(self)} rules for {len(self.head_relations)} head relations)"

    def get(self, rule_id: str) -> Rule:
        """The rule with this id.

        Raises:
            UnknownNameError: no rule has it.
        """
        try:
            return self._by_id[rule_id]
        except KeyError:
            raise UnknownNameError(
                f"no rule has the id {rule_id!r}", hint=did_you_mean(rule_id, self._by_id)
            ) from None

    @cached_property
    def _by_head(self) -> dict[str, tuple[Rule, ...]]:
        groups: dict[str, list[Rule]] = {}
        for rule in self:
            groups.setdefault(rule.head.relation, []).append(rule)
        return {head: tuple(sorted(group, key=_rank_key)) for head, group in groups.items()}

    @property
    def head_relations(self) -> list[str]:
        """The relations that some rule predicts, sorted."""
        return sorted(self._by_head)

    def for_head(self, relation: str) -> list[Rule]:
        """The rules with this head relation, most confident first; empty when there is none.

        Ties go to the larger support, then to the text in alphabetical order.
        """
        return list(self._by_head.get(relation, ()))

    def filter(
        self,
        *,
        min_confidence: float = 0.0,
        min_support: int = 0,
        max_body_atoms: int | None = None,
        heads: Collection[str] | None = None,
    ) -> RuleBank:
        """The rules that pass every condition, in the same order.

        Args:
            min_confidence: least ranking confidence, a fraction.
            min_support: least support, in facts.
            max_body_atoms: longest body, in atoms.
            heads: the head relations to keep; all when None.
        """
        if min_confidence <= 0 and min_support <= 0 and max_body_atoms is None and heads is None:
            return self
        kept = [
            rule
            for rule in self
            if rule.ranking_confidence >= min_confidence
            and (rule.quality.support or 0) >= min_support
            and (max_body_atoms is None or len(rule.body) <= max_body_atoms)
            and (heads is None or rule.head.relation in heads)
        ]
        return self if len(kept) == len(self) else RuleBank(kept)

    def merge(self, *others: RuleBank) -> RuleBank:
        """The union. Of a rule in several banks the counts are joined (:meth:`RuleQuality.joined`).

        Where counts differ those of the earlier bank stay. Rules are the same when their atoms are
        equal; :func:`rulerag.mining.paths.merge_rules` knows rules of other tools again too.

        Args:
            others: further banks.
        """
        found = dict(self._by_id)
        for bank in others:
            for rule in bank:
                known = found.get(rule.id)
                found[rule.id] = rule if known is None else _joined(known, rule)
        return RuleBank(found.values())

    @cached_property
    def fingerprint(self) -> str:
        """A fingerprint of every rule and count, independent of the file it came from."""
        return fingerprint_object([rule.to_json() for rule in self])

    def save(self, path: str | Path) -> None:
        """Write ``rules.jsonl``, one rule a line, atomically; its origin beside it."""
        write_jsonl(path, (rule.to_json() for rule in self))
        if self.origin and path != STANDARD_OUTPUT:
            write_json(_origin_file(path), self.origin)

    @classmethod
    def load(cls, path: str | Path) -> RuleBank:
        """Read ``rules.jsonl``, or that of a folder.

        Raises:
            DataError: the file cannot be read.
            DataFormatError: a line is not a rule; names file, line and key.
        """
        file = Path(path) / "rules.jsonl" if Path(path).is_dir() else Path(path)
        origin = _origin_file(file)
        known = read_json(origin) if origin.is_file() else None
        return cls(read_records(file, Rule.from_json), known)

    def card(self) -> str:
        """The card of the bank in Markdown, made from what it holds alone."""
        graph = self.origin.get("graph", {})
        atoms = Counter(len(rule.body) for rule in self)
        best = sorted(self, key=_rank_key)[:10]
        rows = [
            f"| {rule.text} | {rule.ranking_confidence:.3f} | {rule.quality.support or 0:,} |"
            for rule in best
        ]
        lines = [
            "---\ntags: [rulerag, rule-bank, knowledge-graph]",
            "configs: [{config_name: rules, data_files: rules.jsonl}]\n---\n\n# Rule bank\n",
            f"{len(self):,} rules for {len(self.head_relations):,} relations; body atoms: "
            + ", ".join(f"{count:,} of {size}" for size, count in sorted(atoms.items())),
            f"\nFingerprint of the rules: `{self.fingerprint}`",
            *(f"\nGraph, {key}: {value}" for key, value in graph.items()),
            *(f"\n{key}: `{to_json(self.origin[key])}`" for key in self.origin if key != "graph"),
            "\n| most confident rules | confidence | support |\n| --- | ---: | ---: |",
            *rows,
            "\n```python\nfrom rulerag import RuleBank\n",
            'bank = RuleBank.from_pretrained("owner/name")\n```',
        ]
        return "\n".join(lines) + "\n"

    def _write_repository(self, folder: Path) -> None:
        self.save(folder / "rules.jsonl")
        write_text(folder / "README.md", self.card())

    @classmethod
    def _read_repository(cls, folder: Path) -> RuleBank:
        return cls.load(folder)


def _origin_file(rules: str | Path) -> Path:
    return Path(rules).with_suffix(".origin.json")


class StoredRuleBank(RuleBank):
    """The rules of a file that was read whole before, each built when it is used.

    Args:
        rules: of the file; no two have the same atoms.
        heads: by head relation the places of its rules.
        fingerprint: that of the bank when it was read whole.
    """

    def __init__(
        self, rules: StoredRecords[Rule], heads: Mapping[str, Sequence[int]], fingerprint: str
    ) -> None:
        self._rules, self._heads, self.origin = rules, heads, {}
        self.__dict__["fingerprint"] = fingerprint

    @cached_property
    def _by_id(self) -> dict[str, Rule]:
        return {rule.id: rule for rule in self._rules}

    def __len__(self) -> int:
        return len(self._rules)

    @property
    def head_relations(self) -> list[str]:
        """See :attr:`RuleBank.head_relations`."""
        return sorted(self._heads)

    def for_head(self, relation: str) -> list[Rule]:
        """See :meth:`RuleBank.for_head`."""
        return sorted((self._rules[row] for row in self._heads.get(relation, ())), key=_rank_key)


def _joined(known: Rule, other: Rule) -> Rule:
    """One rule of two that have the same atoms."""
    quality = known.quality.joined(other.quality)
    if quality == known.quality:
        return known
    miners = dict.fromkeys(name for rule in (known, other) for name in rule.miner.split("+"))
    return replace(known, quality=quality, miner="+".join(name for name in miners if name))


def _rank_key(rule: Rule) -> tuple[float, int, str]:
    return (-rule.ranking_confidence, -(rule.quality.support or 0), rule.text)
