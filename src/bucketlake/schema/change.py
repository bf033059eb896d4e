"""Changes of a schema, and what they make of it. Columns are named by a name, or by a path into ROW columns.

Spec: docs/spec/schema.md#evolution
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import field, fields, is_dataclass, replace
from typing import Any

from bucketlake.errors import (
    AlreadyExistsError,
    InvalidError,
    UnsupportedError,
    check_flags,
    check_types,
)
from bucketlake.options.map_layout import without_column
from bucketlake.options.options import TableOptions, option_text
from bucketlake.schema.column_options import member_renamed_in_options, renamed_in_options
from bucketlake.schema.default import kept_default
from bucketlake.schema.evolution import cast_allowed
from bucketlake.schema.flink_columns import check_free, check_kept
from bucketlake.schema.keyed_indexes import indexed_columns
from bucketlake.schema.marked import added, dropped
from bucketlake.schema.members import change_inner, change_members, inner_depth, place_of
from bucketlake.schema.option_changes import ANEW, check_option_change
from bucketlake.schema.schema import TableSchema
from bucketlake.types.ids import with_fresh_ids
from bucketlake.types.model import DataField, DataType, Root, type_text
from bucketlake.types.parse import parse_type_text
from bucketlake.values import dataclass

ColumnPath = str | Sequence[str]
_FLAGS = ("first", "keep_nullability", "nullable")
_TEXTS = ("key", "name")


@dataclass(frozen=True, slots=True)
class SetOption:
    """Set one option."""

    key: str
    value: str


@dataclass(frozen=True, slots=True)
class RemoveOption:
    """Take one option away, so that its default holds again."""

    key: str


def _type_of(kind: object) -> DataType:
    """The type, or what a text of Spark's names."""
    found = parse_type_text(kind) if isinstance(kind, str) else kind
    if not isinstance(found, DataType):
        raise InvalidError("not a type of a column", given=kind, remedy="write it as text, as SQL does: 'INT'")
    return found


@dataclass(frozen=True, slots=True)
class AddColumn:
    """Add a nullable column at the end, first, or after another one. `type`: also as Spark's SQL writes it."""

    column: ColumnPath
    type: Any  # a DataType, or the text of one: kept as a DataType
    comment: str | None = None
    first: bool = False
    after: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "type", _type_of(self.type))


@dataclass(frozen=True, slots=True)
class DropColumn:
    """Drop a column that is no key."""

    column: ColumnPath


@dataclass(frozen=True, slots=True)
class RenameColumn:
    """Rename a column; keys and options that name it follow."""

    column: ColumnPath
    name: str


@dataclass(frozen=True, slots=True)
class UpdateColumnType:
    """Give a column another type to which its values can be cast; it keeps its nullability unless told otherwise."""

    column: ColumnPath
    type: Any  # a DataType, or the text of one: kept as a DataType
    keep_nullability: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "type", _type_of(self.type))


@dataclass(frozen=True, slots=True)
class UpdateColumnNullability:
    """Make a column nullable or not."""

    column: ColumnPath
    nullable: bool


@dataclass(frozen=True, slots=True)
class UpdateComment:
    """Set the comment of a column, or of the table if `column` is None."""

    column: ColumnPath | None
    comment: str | None


@dataclass(frozen=True, slots=True)
class UpdateColumnDefault:
    """Set the default value (SQL text) of a column, None to take it away."""

    column: ColumnPath
    default: str | None


@dataclass(frozen=True, slots=True)
class UpdatePosition:
    """Move a column, or a member among its ROW's: first, after or before another one, or last if none is given."""

    column: ColumnPath
    first: bool = False
    after: str | None = None
    before: str | None = None


@dataclass(frozen=True, slots=True)
class DropPrimaryKey:
    """Make a table without snapshots an append table."""


SchemaChange = (
    SetOption
    | RemoveOption
    | AddColumn
    | DropColumn
    | RenameColumn
    | UpdateColumnType
    | UpdateColumnNullability
    | UpdateComment
    | UpdateColumnDefault
    | UpdatePosition
    | DropPrimaryKey
)


def changed(
    schema: TableSchema,
    changes: Sequence[SchemaChange],
    *,
    has_snapshots: bool,
    table: str,
    retypable: Collection[str] = (),
) -> TableSchema:
    """The schema with all changes made in order; not yet validated, id as before.

    Raises: InvalidError, NotFoundError, AlreadyExistsError and UnsupportedError naming the column or option.
    """
    draft = _Draft(schema, has_snapshots, table, retypable)
    for change in changes:
        draft.apply(change)
    return replace(
        schema,
        fields=tuple(draft.fields),
        highest_field_id=draft.highest,
        primary_keys=tuple(draft.primary_keys),
        options=draft.options,
        comment=draft.comment,
    )


def _check_types(change: SchemaChange) -> None:
    """InvalidError for a name, comment or default that is no text, which no reader of the schema would take."""
    for item in fields(change) if is_dataclass(change) else ():
        value = getattr(change, item.name)
        if item.name in _FLAGS:
            check_flags(**{item.name: value})
        elif item.name == "column" and not isinstance(value, str) and isinstance(value, Sequence):
            for part in value:
                check_types(str, "name a column, or a member of rows, by texts: ('row', 'member')", column=part)
        elif item.name in _TEXTS or (item.name == "column" and not isinstance(change, UpdateComment)):
            check_types(str, "give a text", **{item.name: value})
        elif item.name not in ("type", "value"):
            check_types((str, type(None)), "give a text, or None", **{item.name: value})


@dataclass
class _Draft:
    """A schema being changed."""

    schema: TableSchema
    has_snapshots: bool
    table: str
    retypable: Collection[str]
    fields: list[DataField] = field(init=False)
    options: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.fields = list(self.schema.fields)
        self.options = dict(self.schema.options)
        self.highest = self.schema.next_field_id - 1
        self.primary_keys = list(self.schema.primary_keys)
        self.comment = self.schema.comment
        self.old = TableOptions(dict(self.schema.options))

    def apply(self, change: SchemaChange) -> None:
        _check_types(change)
        if isinstance(change, SetOption):
            self.set_option(change.key, option_text(change.value))
        elif isinstance(change, RemoveOption):
            self.remove_option(change.key)
        elif isinstance(change, AddColumn):
            self.add(change)
        elif isinstance(change, DropColumn):
            self.drop(_path(change.column))
        elif isinstance(change, RenameColumn):
            self.rename(_path(change.column), change.name)
        elif isinstance(change, UpdateColumnType):
            self.retype(change)
        elif isinstance(change, UpdateColumnNullability):
            path, nullable = _path(change.column), change.nullable
            if nullable:
                self.refuse_key(path, self.schema.primary_keys, "Cannot change nullability of primary key")
            self.update(path, lambda t: self.renullable(path, t, nullable))
        elif isinstance(change, UpdateComment):
            if change.column is None:
                self.comment = change.comment
            else:
                comment = change.comment
                self.edit(_path(change.column), lambda f: replace(f, description=comment))
        elif isinstance(change, UpdateColumnDefault):
            default = change.default
            self.edit(_path(change.column), lambda f: _with_default(f, default))
        elif isinstance(change, UpdatePosition):
            self.move(change)
        elif isinstance(change, DropPrimaryKey):
            if self.has_snapshots:
                raise InvalidError("Cannot drop primary keys on a non-empty table.", table=self.table)
            self.primary_keys = []
        else:
            raise InvalidError(
                "not a change of a schema",
                table=self.table,
                given=type(change).__name__,
                remedy="give changes of bucketlake.schema, as in table.alter(AddColumn(…), SetOption(…)); texts go to "
                "SQL's ALTER TABLE",
            )

    # ---- options

    def set_option(self, key: str, value: str) -> None:
        if key == "comment":  # Spark's word for it among properties
            self.comment = value
            self.options.pop(key, None)
            return
        present = self.schema.options.get(key)
        if present == value or self.means_the_same(key, present, value):
            return
        if key == "type":
            raise InvalidError("Change 'type' is not supported yet.", table=self.table, remedy=ANEW)
        if self.has_snapshots:
            check_option_change(self.old, key, value, bool(self.schema.partition_keys))
        self.options[key] = value

    def means_the_same(self, key: str, present: str | None, value: str) -> bool:
        if key == "type":
            return value.lower() == (present or "table").lower()
        keys = {"primary-key": self.schema.primary_keys, "partition": self.schema.partition_keys}.get(key)
        return keys is not None and [part.strip() for part in value.split(",") if part.strip()] == list(keys)

    def remove_option(self, key: str) -> None:
        if key == "comment":
            self.comment = None
        if key == "type":
            raise InvalidError("Change 'type' is not supported yet.", table=self.table, remedy=ANEW)
        if self.has_snapshots and key == "bucket":
            raise InvalidError("Cannot reset bucket.", table=self.table)
        if self.has_snapshots:
            check_option_change(self.old, key, None, bool(self.schema.partition_keys))
        self.options.pop(key, None)

    # ---- columns

    def add(self, change: AddColumn) -> None:
        path = _path(change.column)
        if not change.type.nullable:
            raise InvalidError(
                f"Column {'.'.join(path)} cannot specify NOT NULL in the {self.table} table.",
                remedy="leave NOT NULL out: rows that are there have no value",
            )
        new = DataField(0, path[-1], change.type, change.comment)
        if len(path) == 1:
            check_free(self.options, path[0])
            new = added(new, self.options)
        (new,), self.highest = with_fresh_ids([new], self.highest + 1)
        before_partition = self.old.get("add-column-before-partition") and len(path) == 1

        def insert(members: list[DataField]) -> None:
            names = [item.name for item in members]
            if path[-1] in names:
                raise AlreadyExistsError("column exists", column=".".join(path), table=self.table)
            at = len(members)
            if change.first:
                at = 0
            elif change.after is not None:
                at = place_of(members, change.after, self.table) + 1
            elif before_partition:
                at = min((names.index(name) for name in self.schema.partition_keys), default=at)
            members.insert(at, new)

        self.in_members(path, insert)

    def drop(self, path: tuple[str, ...]) -> None:
        keys = (*self.schema.partition_keys, *self.schema.primary_keys)
        self.refuse_key(path, keys, f"Cannot drop partition key or primary key: [{path[0]}]")
        self.refuse_indexed(path, "drop")
        check_kept(self.options, path)
        if len(path) == 1:
            for item in self.fields:
                self.options = dropped(item, self.options) if item.name == path[0] else self.options
            self.options = without_column(self.options, path[0])

        def remove(members: list[DataField]) -> None:
            del members[place_of(members, path[-1], self.table)]
            if not members:
                raise InvalidError("Cannot drop all fields in table", column=".".join(path))

        self.in_members(path, remove)

    def rename(self, path: tuple[str, ...], name: str) -> None:
        self.refuse_key(path, self.schema.partition_keys, f"Cannot rename partition column: [{path[0]}]")
        self.refuse_indexed(path, "rename")
        if self.is_blob(path):
            raise InvalidError(f"Cannot rename BLOB column: [{path[0]}]", table=self.table)
        check_kept(self.options, path)
        if len(path) == 1:
            check_free(self.options, name)

        def change(members: list[DataField]) -> None:
            at = place_of(members, path[-1], self.table)
            if any(item.name == name for item in members):
                raise AlreadyExistsError("column exists", column=".".join((*path[:-1], name)), table=self.table)
            members[at] = replace(members[at], name=name)

        self.in_members(path, change)
        if len(path) == 1:
            self.primary_keys = [name if key == path[0] else key for key in self.primary_keys]
            self.options = renamed_in_options(self.options, {path[0]: name})
        else:
            self.options = member_renamed_in_options(self.options, path, name)

    def retype(self, change: UpdateColumnType) -> None:
        path, wanted = _path(change.column), change.type
        self.refuse_key(path, self.schema.partition_keys, f"Cannot update partition column: [{path[0]}]")
        self.refuse_indexed(path, "update type of")
        if path[0] not in self.retypable:
            self.refuse_key(path, self.schema.primary_keys, "Cannot update primary key")
            if self.has_snapshots:  # rows lie where the hash of the old type put them
                self.refuse_key(path, self.schema.bucket_keys, f"Cannot update bucket key column: [{path[0]}]")

        def cast(present: DataType) -> DataType:
            if self.is_blob(path) or wanted.holds(Root.BLOB):
                texts = f"{type_text(present)} -> {type_text(wanted)}"
                raise InvalidError(f"Cannot change column type involving BLOB: [{path[-1]}] {texts}")
            target = wanted.with_nullable(present.nullable) if change.keep_nullability else wanted
            self.renullable(path, present, target.nullable)
            if not cast_allowed(present, target, explicit=not self.old.get("disable-explicit-type-casting")):
                raise InvalidError(
                    f"Column type {path[-1]}[{type_text(present)}] cannot be converted to {type_text(target)} "
                    "without losing information."
                )
            return present.with_nullable(target.nullable) if target.fields else target

        self.update(path, cast)

    def renullable(self, path: tuple[str, ...], present: DataType, nullable: bool) -> DataType:
        if present.nullable and not nullable and self.old.get("alter-column-null-to-not-null.disabled"):
            raise InvalidError(
                f"Cannot update column type from nullable to non nullable for {'.'.join(path)}. You can set table "
                "configuration option 'alter-column-null-to-not-null.disabled' = 'false' to allow converting null "
                "columns to not null"
            )
        return present.with_nullable(nullable)

    def move(self, change: UpdatePosition) -> None:
        path = _path(change.column)
        beside = change.after if change.after is not None else change.before
        if beside == path[-1]:
            raise InvalidError(f"Cannot move itself for column {path[-1]}")

        def reorder(members: list[DataField]) -> None:
            at = place_of(members, path[-1], self.table)
            if beside is None and at == (0 if change.first else len(members) - 1):
                raise InvalidError(f"Cannot move itself for column {path[-1]}")
            moved = members.pop(at)
            if change.first:
                target = 0
            elif beside is None:
                target = len(members)
            else:
                target = place_of(members, beside, self.table) + (change.after is not None)
            members.insert(target, moved)

        self.in_members(path, reorder)

    # ---- paths

    def is_blob(self, path: tuple[str, ...]) -> bool:
        return any(item.name == path[0] and item.type.holds(Root.BLOB) for item in self.fields)

    def refuse_key(self, path: tuple[str, ...], keys: Sequence[str], message: str) -> None:
        if len(path) == 1 and path[0] in keys:
            raise InvalidError(message, table=self.table)

    def refuse_indexed(self, path: tuple[str, ...], operation: str) -> None:
        if len(path) == 1 and path[0] in indexed_columns(TableOptions(self.options)):
            raise UnsupportedError(f"Cannot {operation} primary-key index column: [{path[0]}]", table=self.table)

    def in_members(self, path: tuple[str, ...], change: Callable[[list[DataField]], None]) -> None:
        """Change the list of columns, or of ROW members, that the path's last name belongs to."""
        change_members(self.fields, path, change, self.table)

    def edit(self, path: tuple[str, ...], change: Callable[[DataField], DataField]) -> None:
        """Change one column or ROW member."""

        def one(members: list[DataField]) -> None:
            at = place_of(members, path[-1], self.table)
            members[at] = change(members[at])

        self.in_members(path, one)

    def update(self, path: tuple[str, ...], change: Callable[[DataType], DataType]) -> None:
        """Change a type: of a column, a ROW member, or (path ending in `element` or `value`) of what is inside it."""
        depth = inner_depth(self.fields, path)
        names = path[: len(path) - depth] if depth else path
        self.edit(names, lambda f: _retyped(f, change_inner(f.type, depth, change)))


def _retyped(field: DataField, wanted: DataType) -> DataField:
    """With another type, which a default must be a value of too."""
    changed = replace(field, type=wanted)
    if wanted.with_nullable(True) != field.type.with_nullable(True):
        return kept_default(changed)
    return changed


def _with_default(field: DataField, default: str | None) -> DataField:
    return kept_default(replace(field, default=default))


def _path(column: ColumnPath) -> tuple[str, ...]:
    return (column,) if isinstance(column, str) else tuple(column)
