"""Tables that Apache Paimon 2.0.0 wrote, pinned by checksum, with what Flink says they hold: see README.md.

`unpack(folder)` gives the warehouse, `expected(name)` one table's truth, `names()` all tables.
"""

from __future__ import annotations

import functools
import hashlib
import json
import tarfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ARCHIVE = HERE / "paimon-2.0.0.tar.gz"
SUMS = HERE / "SHA256SUMS"
DATABASE = "corpus"


@dataclass(frozen=True)
class Version:
    """What Flink returned for a read of something else; of a snapshot, by the newest schema, as its hints do."""

    columns: list[str]
    rows: list[tuple[Any, ...]]


@dataclass(frozen=True)
class Expected:
    """What Flink returned for one table.

    `rows` are tuples in `sort_rows` order, values as tests.peers.flink.Result documents. `versions` holds
    other reads: "snapshot 1", "tag first", … `files` and `snapshots` are those system tables' rows as dictionaries;
    a file has `file_name` instead of its path.
    """

    name: str
    covers: str
    statements: list[str]
    columns: list[str]
    types: list[str]
    rows: list[tuple[Any, ...]]
    versions: dict[str, Version]
    files: list[dict[str, Any]]
    snapshots: list[dict[str, Any]]


def unpack(into: Path) -> Path:
    """Unpack the archive below `into` and return the warehouse folder; an archive that was changed is refused."""
    digest, name = SUMS.read_text().split()
    found = hashlib.sha256(ARCHIVE.read_bytes()).hexdigest()
    if name != ARCHIVE.name or found != digest:
        raise ValueError(f"{ARCHIVE.name}: sha256 {found}, but {SUMS.name} says {digest} for {name}")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(into, filter="data")
    return into / "warehouse"


@functools.cache
def _all_expected() -> dict[str, Any]:
    with tarfile.open(ARCHIVE) as archive:
        members = [member for member in archive.getmembers() if member.name.startswith("expected/")]
        files = {Path(member.name).stem: archive.extractfile(member) for member in members}
        return {name: json.load(file) for name, file in files.items() if file is not None}


def names() -> list[str]:
    """The tables' names, sorted."""
    return sorted(_all_expected())


def expected(name: str) -> Expected:
    """What Flink says of the table `corpus.<name>`."""
    found = _all_expected()[name]
    return Expected(
        name=name,
        covers=found["covers"],
        statements=found["statements"],
        columns=found["columns"],
        types=found["types"],
        rows=_rows(found["rows"]),
        versions={
            label: Version(version["columns"], _rows(version["rows"])) for label, version in found["versions"].items()
        },
        files=[{key: decode(value) for key, value in file.items()} for file in found["files"]],
        snapshots=[{key: decode(value) for key, value in snapshot.items()} for snapshot in found["snapshots"]],
    )


def _rows(encoded: list[list[Any]]) -> list[tuple[Any, ...]]:
    return [tuple(decode(value) for value in row) for row in encoded]


def sort_rows(rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Rows in the order of their JSON text: one order for rows of any types, nulls included."""
    return sorted(rows, key=lambda row: json.dumps(encode(row)))


def encode(value: Any) -> Any:
    """A value as JSON; what JSON lacks becomes an object of one key that names its type."""
    if isinstance(value, dict):
        return {"map": sorted(([encode(key), encode(item)] for key, item in value.items()), key=json.dumps)}
    if isinstance(value, tuple):
        return {"row": [encode(item) for item in value]}
    if isinstance(value, list):
        return [encode(item) for item in value]
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, Decimal):
        return {"decimal": f"{value:f}"}
    if isinstance(value, float):
        return {"float": repr(value)}
    for kind, label in ((datetime, "timestamp"), (date, "date"), (time, "time")):
        if isinstance(value, kind):
            return {label: value.isoformat()}
    return value


def decode(value: Any) -> Any:
    """The value that `encode` made `value` of."""
    if isinstance(value, list):
        return [decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    ((label, body),) = value.items()
    return DECODERS[label](body)


DECODERS: dict[str, Callable[[Any], Any]] = {
    "map": lambda pairs: {decode(key): decode(item) for key, item in pairs},
    "row": lambda items: tuple(decode(item) for item in items),
    "bytes": bytes.fromhex,
    "decimal": Decimal,
    "float": float,
    "timestamp": datetime.fromisoformat,
    "date": date.fromisoformat,
    "time": time.fromisoformat,
}
