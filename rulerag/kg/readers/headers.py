"""Tables with a header: how a file parts its columns, and which of them make a fact."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from rulerag.errors import ConfigError, DataFormatError, EmptyDataError, did_you_mean
from rulerag.io import decode, excerpt, is_utf16, read_bytes

#: What a column can be, in the order in which columns are looked for.
ROLES = ("subject", "relation", "object", "time")
#: The words that headers use, those that say most first: where a table has "subject" and "from",
#: the second one is something else.
WORDS: Mapping[str, tuple[str, ...]] = {
    "subject": ("subject", "subj", "head", "source", "src", "from", "start node", "s", "h"),
    "relation": (
        *("relation", "predicate", "relationship", "rel", "edge", "property", "verb"),
        *("type", "label", "p", "r"),
    ),
    "object": ("object", "obj", "tail", "target", "tgt", "dst", "to", "end node", "o", "t"),
    "time": (
        *("time", "timestamp", "date", "datetime", "day", "year", "when"),
        *("since", "valid from", "start date", "start time", "start year", "start"),
    ),
}
#: A column of Neo4j's format: a name, its kind, and maybe the space of ids.
NEO4J_FIELD = re.compile(r"(.*?):(ID|START_ID|END_ID|TYPE|LABEL)(?:\((.*)\))?")
#: As the column of a role: there is none.
NONE = "none"

_DELIMITERS = ("\t", ",", ";", "|")
_NAMES = {"\t": "TAB", ",": "comma", ";": "semicolon", "|": "bar"}
_HEAD, _SAMPLE = 1 << 16, 50  # bytes and rows looked at
_AFTER = {"entity", "node", "name", "id", "label", "type", "column"}  # as in "source node"
#: Endings of files that hold no text, and what works with them.
NOT_TEXT = {
    **dict.fromkeys((".xlsx", ".xls", ".ods", ".numbers"), "save the sheet as CSV (UTF-8)"),
    **dict.fromkeys(
        (".parquet", ".feather", ".arrow"),
        "read it with pandas or polars, then KnowledgeGraph.from_frame(frame)",
    ),
    **dict.fromkeys(
        (".db", ".sqlite", ".sqlite3"),
        "read it with pandas.read_sql, then KnowledgeGraph.from_frame(frame)",
    ),
    **dict.fromkeys((".zip", ".7z", ".tar"), "unpack it first"),
}
_DATE = re.compile(r"\d{4}([-/.]\d{1,2}){0,2}([T ].*)?|\d{1,2}[./-]\d{1,2}[./-]\d{4}( .*)?")


@dataclass(frozen=True)
class Header:
    """Which columns make a fact.

    Args:
        columns: by role, the number of the column, from 0; without ``time`` for undated facts.
        names: the names of all columns; empty for a table without a header.
    """

    columns: Mapping[str, int]
    names: tuple[str, ...] = ()

    def name(self, role: str) -> str:
        """What the column of a role is called: its name, or ``column 3``."""
        number = self.columns[role]
        return self.names[number] if self.names else f"column {number + 1}"

    @property
    def others(self) -> list[str]:
        """The columns that no role takes."""
        used = set(self.columns.values())
        return [name for number, name in enumerate(self.names) if number not in used]


@dataclass(frozen=True)
class Sheet:
    """A file of rows.

    Args:
        path: the file.
        delimiter: what parts its columns.
    """

    path: Path
    delimiter: str

    @property
    def parted_by(self) -> str:
        """The delimiter in words."""
        return _NAMES[self.delimiter]

    def rows(self, limit: int = -1) -> Iterator[tuple[int, list[str]]]:
        """The rows that are not empty, each with the line on which it starts, from 1.

        Args:
            limit: read the whole lines among the first so many bytes; all when negative.

        Raises:
            DataError: the file cannot be read.
            DataFormatError: it is not text, or a quote is not closed.
        """
        yield from parse_rows(read_table_text(self.path, limit), self.delimiter, self.path)


def read_table_text(path: Path, limit: int = -1) -> str:
    """The text of a table.

    Raises:
        DataError: the file cannot be read.
        DataFormatError: it holds no UTF-8 text.
    """
    name = path.name.lower().removesuffix(".gz")
    for ending, hint in NOT_TEXT.items():
        if name.endswith(ending):
            raise DataFormatError("is no text file", path=path, hint=hint)
    data = read_bytes(path, limit)
    if len(data) == limit:
        data = data[: data.rfind(b"\n") + 1] or data
    if b"\0" in data[:_HEAD] and not is_utf16(data):
        raise DataFormatError(
            "is no text file: it holds zero bytes",
            path=path,
            hint="a table is UTF-8 text; save it as CSV (UTF-8)",
        )
    return decode(data, path).removeprefix("\ufeff")


def parse_rows(text: str, delimiter: str, path: Path) -> Iterator[tuple[int, list[str]]]:
    """The rows of a text that are not empty, each with the line on which it starts."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True)
    start = 1
    try:
        for row in reader:
            if any(row):
                # Names are compared letter by letter: a break inside a cell is a space.
                yield start, [" ".join(cell.split()) for cell in row]
            start = reader.line_num + 1
    except csv.Error as error:
        raise DataFormatError(
            f"cannot be read as a table ({error})",
            path=path,
            line=start,
            hint="a quotation mark may be missing; inside a quoted cell it is written twice",
        ) from error


def find_sheet(path: Path) -> Sheet:
    """How a file parts its columns: the sign that gives most rows the header's width.

    Raises:
        EmptyDataError: the file holds no row.
        DataFormatError: no sign gives three columns.
    """
    text = read_table_text(path, _HEAD)
    best, delimiter_found = (0, 0), ""
    for delimiter in _DELIMITERS:
        try:
            rows = [row for _, row in islice(parse_rows(text, delimiter, path), _SAMPLE)]
        except DataFormatError:
            continue
        width = len(rows[0]) if rows else 0
        score = (sum(len(row) == width for row in rows), width) if width >= 3 else (0, 0)
        if score > best:
            best, delimiter_found = score, delimiter
    if delimiter_found:
        return Sheet(path, delimiter_found)
    first = next(((n, line) for n, line in enumerate(text.splitlines(), 1) if line.strip()), None)
    if first is None:
        raise EmptyDataError("holds no fact", path=path)
    raise DataFormatError(
        f"found no table of three columns or more: {excerpt(first[1])}",
        path=path,
        line=first[0],
        hint="one fact a row: subject, relation and object, parted by comma, semicolon, TAB or |",
    )


def has_header(path: Path) -> bool:
    """Whether the first row of a text file names the columns of facts in words of headers."""
    try:
        sheet = find_sheet(path)
    except (DataFormatError, EmptyDataError):
        return False
    _, first = next(sheet.rows(_HEAD))
    columns = by_words(first)
    return all(len(columns.get(role, ())) == 1 for role in ROLES[:3])


def is_neo4j(path: Path) -> bool:
    """Whether the first row of a text file names columns of Neo4j's."""
    text = read_table_text(path, _HEAD)
    for delimiter in _DELIMITERS:
        first = next(parse_rows(text.partition("\n")[0], delimiter, path), (1, [""]))[1]
        kinds = {match[2] for cell in first if (match := NEO4J_FIELD.fullmatch(cell))}
        if "ID" in kinds or {"START_ID", "END_ID"} <= kinds:
            return True
    return False


def find_header(sheet: Sheet, columns: str | Mapping[str, str] | None) -> Header:
    """Which columns of a file make a fact.

    Args:
        sheet: the file.
        columns: the columns by role, as :func:`read_columns` takes them; found when None.

    Raises:
        DataFormatError: they cannot be found; names the columns and the option.
        ConfigError: ``columns`` names a role or a column that is not there.
    """
    sample = list(islice(sheet.rows(_HEAD), _SAMPLE))
    line, first = sample[0]
    return choose_columns(
        first, [row for _, row in sample[1:]], columns, path=sheet.path, line=line
    )


def read_columns(columns: str | Mapping[str, str]) -> dict[str, str]:
    """The column of each role, from ``subject=Person,relation=Does,object=What,time=Day``.

    Raises:
        ConfigError: another form, or an unknown role.
    """
    form = "write subject=NAME,relation=NAME,object=NAME and maybe time=NAME (or time=none)"
    if isinstance(columns, str):
        parts = [part.partition("=") for part in columns.split(",")]
        if not all(sign for _, sign, _ in parts):
            raise ConfigError(f"{columns!r} names no columns", key="columns", hint=form)
        columns = {role.strip(): name.strip() for role, _, name in parts}
    for role in columns:
        if role not in ROLES:
            raise ConfigError(f"there is no role {role!r} of a column", key="columns", hint=form)
    return dict(columns)


def choose_columns(
    first: Sequence[str],
    rows: Sequence[Sequence[str]],
    columns: str | Mapping[str, str] | None = None,
    *,
    path: Path | None = None,
    line: int | None = None,
) -> Header:
    """The columns of facts, of a header or of a first row of facts.

    Args:
        first: the first row.
        rows: some rows that follow.
        columns: columns by role; names, or numbers from 1.
        path: the file, for messages.
        line: the line of the first row, for messages.

    Raises:
        DataFormatError: a role has no column, or several.
        ConfigError: a named column is not there.
    """
    named = read_columns(columns) if columns is not None else {}
    given = {
        role: _column_number(name, role, first) for role, name in named.items() if name != NONE
    }
    by_name = {r: c for r, c in by_words(first).items() if r not in named}
    if not given and not all(by_name.get(role) for role in ROLES[:3]):
        plain = _without_header(first, rows)
        if plain is not None:
            return Header({r: c for r, c in plain.items() if named.get(r) != NONE})
    header = () if _numbers_only(named, given, first) else tuple(first)
    chosen = dict(given)
    for role in ROLES:
        choice = [n for n in by_name.get(role, ()) if n not in chosen.values()]
        if role in named or (role == "time" and not choice):
            continue
        if len(choice) != 1:
            raise _unclear(role, [first[n] for n in choice], first, path, line)
        chosen[role] = choice[0]
    return Header({role: chosen[role] for role in ROLES if role in chosen}, header)


def _column_number(name: str, role: str, first: Sequence[str]) -> int:
    """The number of a column that was named by its name, or by its number from 1."""
    for form in (str, str.casefold):
        places = [n for n, known in enumerate(first) if form(known) == form(name)]
        if len(places) == 1:
            return places[0]
    if name.isdigit() and 1 <= int(name) <= len(first):
        return int(name) - 1
    raise ConfigError(
        f"there is no column {name!r} for the {role}",
        key="columns",
        hint=did_you_mean(name, first),
    )


def _numbers_only(named: Mapping[str, str], given: Mapping[str, int], first: Sequence[str]) -> bool:
    """Whether columns go by numbers because the first row is a fact already, as far as it shows."""
    if not given or not all(named[role].isdigit() and named[role] not in first for role in given):
        return False
    if "time" in given:
        return _is_time(first[given["time"]])
    return not any(by_words(first).get(role) for role in ROLES)


def _unclear(
    role: str, several: Sequence[str], first: Sequence[str], path: Path | None, line: int | None
) -> DataFormatError:
    columns = ", ".join(first[:12]) + (" …" if len(first) > 12 else "")
    example = ",".join(f"{one}={name}" for one, name in zip(ROLES, first, strict=False))
    what = (
        f"several columns may be the {role}: {', '.join(several)}"
        if several
        else f"no column is called as a {role} is ({', '.join(WORDS[role][:4])} …)"
    )
    return DataFormatError(
        f"{what}; the columns are: {columns}",
        path=path,
        line=line,
        key=role,
        hint=f"a row is one fact; say which columns make it, as in --columns {example!r} "
        "(in Python columns=…)",
    )


def by_words(first: Sequence[str]) -> dict[str, list[int]]:
    """By role, the columns whose name is the strongest of :data:`WORDS` that occurs."""
    forms = [" ".join(re.findall(r"[^\W_]+", _humps(name).casefold())) for name in first]
    short = [_shortened(form) for form in forms]
    places_of: dict[str, list[int]] = {}
    taken: set[int] = set()
    for role in ROLES:
        for word in WORDS[role]:
            for names in (forms, short):
                places = [n for n, name in enumerate(names) if name == word and n not in taken]
                if places and role not in places_of:
                    places_of[role] = places
                    taken.update(places)
    return places_of


def _humps(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)


def _shortened(form: str) -> str:
    """``source node id`` as ``source``."""
    words = form.split()
    while len(words) > 1 and words[-1] in _AFTER:
        words.pop()
    return " ".join(words)


def _without_header(first: Sequence[str], rows: Sequence[Sequence[str]]) -> dict[str, int] | None:
    """Subject, relation, object and maybe time in this order, where the first row is a fact.

    It is one when its fourth cell is a time, or its relation stands in another row too.
    """
    if len(first) not in (3, 4) or not all(first):
        return None
    dated = len(first) == 4
    if dated and not _is_time(first[3]):
        return None
    seen = Counter(row[1] for row in rows if len(row) == len(first))
    if not dated and first[1] not in seen:
        return None
    return {role: number for number, role in enumerate(ROLES[: len(first)])}


def _is_time(text: str) -> bool:
    return _DATE.fullmatch(text) is not None or text.removeprefix("-").isdigit()
