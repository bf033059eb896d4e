"""Paimon's data types as plain values, and their two borders: schema JSON and Arrow.

A type is one frozen `DataType`; which attributes count is decided by `root`. Arrow data inside the engine is
always in the canonical layout of `arrow_type` (what arrives in another layout passes `canonical_batch` once).

Spec: docs/spec/types.md
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum


class Root(str, Enum):
    """The name that a type's text starts with."""

    BOOLEAN = "BOOLEAN"
    TINYINT = "TINYINT"
    SMALLINT = "SMALLINT"
    INT = "INT"
    BIGINT = "BIGINT"
    FLOAT = "FLOAT"
    DOUBLE = "DOUBLE"
    DECIMAL = "DECIMAL"
    CHAR = "CHAR"
    VARCHAR = "VARCHAR"  # STRING is VARCHAR(2147483647)
    BINARY = "BINARY"
    VARBINARY = "VARBINARY"  # BYTES is VARBINARY(2147483647)
    DATE = "DATE"
    TIME = "TIME"
    TIMESTAMP = "TIMESTAMP"
    TIMESTAMP_LTZ = "TIMESTAMP WITH LOCAL TIME ZONE"
    ARRAY = "ARRAY"
    MAP = "MAP"
    ROW = "ROW"
    MULTISET = "MULTISET"
    VARIANT = "VARIANT"
    BLOB = "BLOB"
    VECTOR = "VECTOR"


MAX_LENGTH = 2147483647


@dataclass(frozen=True, slots=True)
class DataType:
    """One Paimon type. `length` for CHAR/VARCHAR/BINARY/VARBINARY; `precision` for DECIMAL, TIME and timestamps;
    `scale` for DECIMAL; `key` for MAP; `element` for ARRAY, MULTISET and the value of MAP; `fields` for ROW."""

    root: Root
    nullable: bool = True
    length: int | None = None
    precision: int | None = None
    scale: int | None = None
    key: DataType | None = None
    element: DataType | None = None
    fields: tuple[DataField, ...] = ()

    def with_nullable(self, nullable: bool) -> DataType:
        """The same type, nullable or not."""
        return self if nullable == self.nullable else replace(self, nullable=nullable)


@dataclass(frozen=True, slots=True)
class DataField:
    """One column or ROW member; `id` is unique in its table, nested fields included, and survives renames."""

    id: int
    name: str
    type: DataType
    description: str | None = None
    default: str | None = None


STRING = DataType(Root.VARCHAR, length=MAX_LENGTH)
BYTES = DataType(Root.VARBINARY, length=MAX_LENGTH)
TINYINT = DataType(Root.TINYINT)
INT = DataType(Root.INT)
BIGINT = DataType(Root.BIGINT)
