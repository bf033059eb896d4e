"""A table of the corpus, and Flink SQL statements for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

DATABASE = "corpus"
KV = "k INT, v STRING, PRIMARY KEY (k) NOT ENFORCED"


@dataclass(frozen=True)
class Table:
    """One table; `statements` run in order in the database `corpus`.

    `versions` are further reads, by a label, each a table expression with its hint.
    `history`: the rows of every snapshot are kept too.
    """

    name: str
    covers: str
    statements: Sequence[str]
    history: bool = False
    versions: dict[str, str] = field(default_factory=dict)


def create(name: str, columns: str, partitions: str = "", **options: str) -> str:
    """CREATE TABLE; the keyword file__format stands for the option file.format, bucket_key for bucket-key."""
    spelled = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    listed = ", ".join(f"'{key}' = '{value}'" for key, value in spelled.items())
    partitioned = f" PARTITIONED BY ({partitions})" if partitions else ""
    return f"CREATE TABLE {name} ({columns}){partitioned}" + (f" WITH ({listed})" if listed else "")


def insert(name: str, *rows: str) -> str:
    """INSERT of rows, each its values separated by commas."""
    return f"INSERT INTO {name} VALUES " + ", ".join(f"({row})" for row in rows)


def delete(name: str, where: str) -> str:
    """DELETE where the condition holds."""
    return f"DELETE FROM {name} WHERE {where}"


def compact(name: str) -> str:
    """Full compaction of the whole table."""
    return f"CALL sys.compact(`table` => '{DATABASE}.{name}')"


def set_options(name: str, **options: str) -> str:
    """ALTER TABLE SET, with keywords as in `create`."""
    spelled = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    return f"ALTER TABLE {name} SET (" + ", ".join(f"'{key}' = '{value}'" for key, value in spelled.items()) + ")"


def rows_of(start: int, stop: int, label: str) -> list[str]:
    """Rows for KV: the keys of a range, each with the label and itself as its value."""
    return [f"{key}, '{label}{key}'" for key in range(start, stop)]
