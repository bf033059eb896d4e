"""What a batch asks of the tables that it is for: their schemas before its rows, and where each column comes from.

Everything is checked before anything is changed: a batch that a table cannot take changes no table.

Spec: docs/cdc.md#schema-changes
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING

from bucketlake.cdc.computed import Computed
from bucketlake.cdc.evolution import changes_for
from bucketlake.cdc.shapes import Reading, Shape, SourceColumn
from bucketlake.errors import BucketlakeError, InvalidError, UnsupportedError
from bucketlake.schema.change import SchemaChange, UpdateColumnType
from bucketlake.schema.schema import TableSchema
from bucketlake.schema.versions import apply, create_schema
from bucketlake.types.model import BIGINT, INT, STRING, DataField, DataType, Root, type_text
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from bucketlake.table import Table

METADATA: dict[str, DataType] = {
    "topic": STRING,
    "partition": INT,
    "offset": BIGINT,
    "timestamp": DataType(Root.TIMESTAMP_LTZ, precision=3),
    "timestamp_type": STRING,
    "file": STRING,
    "database_name": STRING,
    "table_name": STRING,
    "schema_name": STRING,
    "op_ts": DataType(Root.TIMESTAMP_LTZ, precision=3),
}


@dataclass(frozen=True)
class Rules:
    """How tables follow their source. `strict`: keys that are asked for must be there; `metadata`: kinds of metadata
    columns; `partition_keys_of`: by source table."""

    primary_keys: tuple[str, ...] = ()
    partition_keys: tuple[str, ...] = ()
    partition_keys_of: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    computed: tuple[Computed, ...] = ()
    metadata: tuple[str, ...] = ()
    metadata_prefix: str = ""
    modes: frozenset[str] = frozenset()
    table_options: Mapping[str, str] = field(default_factory=dict)
    case_sensitive: bool = True
    keys_from_source: bool = True
    strict: bool = True

    def name(self, given: str) -> str:
        """A column's name in the lake."""
        return given if self.case_sensitive else given.lower()

    def metadata_columns(self) -> dict[str, str]:
        """By column in the lake: the kind of metadata."""
        return {self.name(self.metadata_prefix + kind): kind for kind in self.metadata}


@dataclass(frozen=True)
class From:
    """Where the values of a column come from, in events of these shapes (empty: of all)."""

    name: str
    reading: Reading
    shapes: frozenset[int]


@dataclass(frozen=True)
class TablePlan:
    """What one table needs. `base`: its schema as it is, None where it is to be made; `schema`: as it has to be;
    `changes`: from one to the
    other; `shapes`: of its events; `columns`: by column, where values come from."""

    target: str
    base: TableSchema | None
    schema: TableSchema
    changes: tuple[SchemaChange, ...]
    shapes: tuple[Shape, ...]
    columns: Mapping[str, tuple[From, ...]]


def plan_table(
    target: str, table: Table | None, shapes: Sequence[Shape], rules: Rules, renames: Mapping[str, str]
) -> TablePlan:
    """What a table needs for events of these shapes, in the order in which they came first. `renames`: columns that the
    source renamed within the batch, old to new; none is changed yet.

    Errors: InvalidError, UnsupportedError naming table and column.
    """
    renames = {rules.name(old): rules.name(new) for old, new in renames.items()}
    named = [(shape, _named(shape, rules, renames, target)) for shape in shapes if shape.columns]
    draft = _Draft(target, table, None if table is None else table.schema, rules)
    if table is not None:
        _check_keys(target, table.schema, rules)
    for _, columns in named:
        draft.follow([replace(column, name=name) for name, column in columns.items()], renames)
    if draft.schema is None:
        raise InvalidError("events name no column", table=target)
    draft.follow(
        _computed_columns(_types(draft.schema.fields), rules, target) if named else [], {} if named else renames
    )
    base, schema = None if table is None else table.schema, draft.schema
    if base is None:
        schema = _keyed(target, schema, [shape for shape, _ in named], rules)
    return TablePlan(target, base, schema, tuple(draft.changes), tuple(shapes), _sources(named))


@dataclass
class _Draft:
    """A table's schema that follows one shape after the other. `changes`: what it took."""

    target: str
    table: Table | None
    schema: TableSchema | None
    rules: Rules
    changes: list[SchemaChange] = field(default_factory=list)

    def follow(self, given: Sequence[SourceColumn], renames: Mapping[str, str]) -> None:
        """Take in columns."""
        if self.schema is None:  # of a new table: its keys come last, that their types may follow too
            made = [
                DataField(i, one.name, (one.type or STRING).with_nullable(True), one.comment)
                for i, one in enumerate(given)
            ]
            self.schema = create_schema(made)
            return
        changes = changes_for(self.schema.fields, given, self.rules.modes, renames, self.target)
        if not changes:
            return
        _refuse_keys(self.schema, changes, self.target)
        used = self.table is not None and self.table.latest_snapshot() is not None
        time = self.schema.time_millis
        try:
            self.schema = apply(self.schema, changes, has_snapshots=used, time_millis=time, table=self.target)
        except BucketlakeError as error:
            columns = sorted({".".join(getattr(change, "column", None) or ()) for change in changes})
            raise InvalidError(
                "the table cannot follow its source", table=self.target, columns=columns, reason=str(error)
            ) from error
        self.changes.extend(changes)


def _named(shape: Shape, rules: Rules, renames: Mapping[str, str], target: str) -> dict[str, SourceColumn]:
    """By name in the lake: the columns of a shape."""
    found: dict[str, SourceColumn] = {}
    have = {rules.name(column.name) for column in shape.columns}
    given = {new for old, new in renames.items() if old in have}  # names that other columns are about to get
    for column in shape.columns:
        name = rules.name(column.name)
        new = renames.get(name, name)
        # Where its name is a newer one of a column that goes by none of its older names, the rename has been.
        if (name in given or name not in renames.values()) and (new not in have or new in renames):
            name = new
        if name in found:
            raise InvalidError(
                "two columns of the source have one name in the lake",
                table=target,
                column=name,
                source=[found[name].name, column.name],
                remedy="case_sensitive=True",
            )
        found[name] = column
    made = {item.name for item in rules.computed} | rules.metadata_columns().keys()
    for name in sorted(made & found.keys()):
        raise InvalidError(
            "a computed or metadata column has the name of a column of the source", table=target, column=name
        )
    return found


def _refuse_keys(schema: TableSchema, changes: Sequence[SchemaChange], target: str) -> None:
    """The types of keys stay: they decide where rows lie."""
    for change in changes:
        if isinstance(change, UpdateColumnType) and change.column[0] in (*schema.primary_keys, *schema.partition_keys):
            raise UnsupportedError(
                "the source gave a column another type, and it is in the table's primary key or partition",
                table=target,
                column=change.column[0],
                source=type_text(change.type.with_nullable(True)),
                type=type_text(schema.field(change.column[0]).type),
                remedy="write to another table",
            )


def _keyed(target: str, schema: TableSchema, shapes: Sequence[Shape], rules: Rules) -> TableSchema:
    """The schema of a new table with its keys and options."""
    names = {item.name for item in schema.fields}
    primary = tuple(rules.name(key) for key in rules.primary_keys)
    if rules.strict or set(primary) <= names:
        _require(target, "primary_keys", primary, names)
    else:
        primary = ()
    said = next((shape.keys for shape in shapes if shape.keys), ())
    if not primary and rules.keys_from_source:
        primary = tuple(rules.name(key) for key in said)
        _require(target, "keys of the source", primary, names)
    wanted = rules.partition_keys_of.get(shapes[0].table or "", rules.partition_keys)
    partition = tuple(rules.name(key) for key in wanted)
    if rules.strict or set(partition) <= names:
        _require(target, "partition_keys", partition, names)
    else:
        partition = ()
    return create_schema(schema.fields, partition, primary, dict(rules.table_options))


def _require(target: str, what: str, keys: Sequence[str], names: set[str]) -> None:
    missing = [key for key in keys if key not in names]
    if missing:
        raise InvalidError(
            f"not all {what} are columns of the source or computed",
            table=target,
            missing=missing,
            columns=sorted(names),
        )


def _types(fields: Sequence[DataField]) -> dict[str, DataType]:
    return {item.name: item.type for item in fields}


def _computed_columns(types: dict[str, DataType], rules: Rules, target: str) -> list[SourceColumn]:
    found = []
    known = dict(types)
    for item in rules.computed:
        if item.column is not None and item.column not in known:
            raise InvalidError(
                "a computed column refers to a column that does not exist",
                table=target,
                column=item.column,
                computed=item.name,
            )
        kind = item.type_of(None if item.column is None else known[item.column])
        known[item.name] = kind
        found.append(SourceColumn(item.name, kind.with_nullable(True)))
    columns = rules.metadata_columns()
    return found + [SourceColumn(name, METADATA[kind]) for name, kind in columns.items()]


def _check_keys(target: str, schema: TableSchema, rules: Rules) -> None:
    """Keys that are asked for must be those of a table that is there."""
    for what, given, own in (
        ("primary_keys", rules.primary_keys, schema.primary_keys),
        ("partition_keys", rules.partition_keys, schema.partition_keys),
    ):
        wanted = [rules.name(key) for key in given]
        if rules.strict and wanted and wanted != list(own):
            raise InvalidError(
                f"the table has other {what}", table=target, given=wanted, own=list(own), remedy="leave them out"
            )


def _sources(named: Sequence[tuple[Shape, Mapping[str, SourceColumn]]]) -> dict[str, tuple[From, ...]]:
    found: dict[str, dict[tuple[str, Reading], set[int]]] = {}
    for shape, columns in named:
        for name, column in columns.items():
            found.setdefault(name, {}).setdefault((column.name, column.reading), set()).add(shape.number)
    return {
        name: tuple(From(source, reading, frozenset(shapes)) for (source, reading), shapes in ways.items())
        for name, ways in found.items()
    }
