"""What a command answers: plain values under names that stay, from which text and JSON are both made.

Column(name, about, kind)      a value: the name that JSON and CSV have, what it means, how text shows it
Rows(rows)                     many, a tuple each in the order of the command's columns
Facts(values)                  one
Streamed(schema, batches)      rows of a table, as Arrow
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from datetime import date, datetime, timezone
from typing import TYPE_CHECKING, Any

from bucketlake.amounts import size_text
from bucketlake.cli.text import clean
from bucketlake.errors import BucketlakeError
from bucketlake.values import dataclass

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "Answer",
    "Column",
    "Facts",
    "Rows",
    "Streamed",
    "UsageError",
    "columns",
    "document",
    "local_millis",
    "plain",
    "shown",
]

KINDS = ("text", "count", "id", "number", "size", "time", "flag", "list", "map", "json")


class UsageError(BucketlakeError):
    """The command was called in a way that makes no sense: exit status 2."""


@dataclass(frozen=True, slots=True)
class Column:
    """A value of an answer. `kind`: text, count (a whole number), id (one too), number, size (bytes), time (as epoch
    milliseconds, ISO 8601 in UTC for programs), flag, list (of texts), map (texts by texts), json (anything)."""

    name: str
    about: str
    kind: str = "text"


def columns(**given: str) -> tuple[Column, ...]:
    """Columns said briefly: `name="kind: what it means"`; without a kind it is text."""
    made = []
    for name, text in given.items():
        kind, sign, about = text.partition(": ")
        named = bool(sign) and kind in KINDS
        made.append(Column(name, about if named else text, kind if named else "text"))
    return tuple(made)


@dataclass(frozen=True, slots=True)
class Rows:
    """Many values, taken one by one where they are written so. `hint`: what to do next where there are none, told on a
    terminal. `status`: of the exit, known when all were taken. `notes`: what text says besides, a line each."""

    rows: Iterable[Sequence[Any]]
    hint: str = ""
    status: int | Callable[[], int] = 0
    notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Facts:
    """One value of several parts. `text`: the lines that people see instead of the parts. `status`: of the exit."""

    values: Mapping[str, Any]
    text: Sequence[str] | None = None
    status: int = 0


@dataclass(frozen=True, slots=True)
class Streamed:
    """Rows as Arrow, in bounded memory; the answer's columns are those of `schema`. `close`: called at the end."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    status: int = 0
    given: Mapping[str, Any] = field(default_factory=dict)


Answer = Rows | Facts | Streamed


def plain(value: Any, kind: str = "json") -> Any:
    """A value as JSON has it."""
    if value is None or isinstance(value, (bool, int, str)):
        return iso(value) if kind == "time" and isinstance(value, int) else value
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else None
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(inner) for inner in value]
    if isinstance(value, bytes):
        return value.hex()
    return value.isoformat() if isinstance(value, (date, datetime)) else str(value)


def iso(millis: int) -> str:
    """A moment in UTC: `2026-01-31T10:00:00.000Z`; the number itself where no calendar has it."""
    moment = _moment(millis)
    return str(millis) if moment is None else f"{moment:%Y-%m-%dT%H:%M:%S}.{millis % 1000:03}Z"


def _moment(millis: int) -> datetime | None:
    try:
        return datetime.fromtimestamp(millis // 1000, timezone.utc)
    except (ValueError, OverflowError, OSError):
        return None


def shown(value: Any, kind: str) -> str:
    """A value as people see it, in one line."""
    if value is None or value == "" or value == [] or value == {}:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if kind == "size":
        return size_text(value)
    if kind == "time":
        moment = _moment(value)
        return str(value) if moment is None else f"{moment.astimezone():%Y-%m-%d %H:%M:%S}"
    if kind == "count":
        return f"{value:,}"
    if kind == "number":
        return f"{value:,.2f}".rstrip("0").rstrip(".")
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={shown(inner, 'json')}" for key, inner in value.items())
    if isinstance(value, (list, tuple, set, frozenset)):
        return ", ".join(shown(inner, "json") for inner in value)
    return str(value)


def local_millis(moment: datetime | None) -> int | None:
    """Epoch milliseconds of a time by this machine's clock."""
    return None if moment is None else round(moment.timestamp() * 1000)


def document(value: Any) -> str:
    """One JSON document on one line, printable everywhere."""
    return json.dumps(value, ensure_ascii=True, allow_nan=False)


def line(value: Any) -> str:
    """A value as one line of text."""
    return clean(shown(value, "json"))
