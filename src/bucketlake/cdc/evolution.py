"""What events bring that a table does not hold, as changes of its schema: added columns, wider types, other names.

Types change as Apache Paimon's ingestion changes them: within a family (text, bytes, whole numbers, floating point,
decimals, times) to what holds both, never to less; across families it is refused by the column's name.

Spec: docs/cdc.md#schema-changes
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from bucketlake.cdc.mysql import MOST_DIGITS
from bucketlake.cdc.shapes import SourceColumn
from bucketlake.errors import UnsupportedError
from bucketlake.schema.change import AddColumn, RenameColumn, SchemaChange, UpdateColumnType, UpdateComment
from bucketlake.schema.merging import Merging, merging
from bucketlake.types.model import LISTS, MAX_LENGTH, STRING, DataField, DataType, Root, type_text

_TEXTS = (Root.CHAR, Root.VARCHAR)
_BYTES = (Root.BINARY, Root.VARBINARY)
_WHOLE = (Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT)
_FLOAT = (Root.FLOAT, Root.DOUBLE)
_NESTED = (*LISTS, Root.MAP, Root.ROW)


def changes_for(
    fields: Sequence[DataField],
    given: Sequence[SourceColumn],
    modes: frozenset[str],
    renames: Mapping[str, str],
    table: str,
) -> list[SchemaChange]:
    """The changes after which columns `fields` hold rows of the columns `given`, none if they do. `renames`: old name
    to new, where the source says so.

    Errors: UnsupportedError naming the column whose type cannot become what is needed, or that has a name which another
    is to get and cannot leave it.
    """
    own = {item.name: item for item in fields}
    changes: list[SchemaChange] = []
    waiting = {old: new for old, new in renames.items() if old in own}
    while free := [old for old, new in waiting.items() if new not in own]:
        old, new = free[0], waiting.pop(free[0])  # it may leave its name to one that waits
        changes.append(RenameColumn((old,), new))
        own[new] = replace(own.pop(old), name=new)
    for old in waiting:
        if any(new == old and taker in own for taker, new in renames.items()):
            raise UnsupportedError(
                "a column of the source takes the name of another, which the table's column cannot leave",
                table=table,
                column=old,
                new=waiting[old],
                remedy=f"rename or drop the table's column '{waiting[old]}'",
            )
    for column in given:
        found = own.get(column.name)
        if found is None:
            made = (column.type or STRING).with_nullable(True)
            changes.append(AddColumn((column.name,), made, column.comment))
            own[column.name] = DataField(-1, column.name, made, column.comment)
            continue
        changed = _changed(found, column, modes, table)
        changes.extend(changed)
        for change in changed:
            if isinstance(change, UpdateColumnType) and change.column == (column.name,):
                own[column.name] = replace(found, type=change.type)
    return changes


def _changed(found: DataField, column: SourceColumn, modes: frozenset[str], table: str) -> list[SchemaChange]:
    """The changes of one column that is there."""
    changes: list[SchemaChange] = []
    if column.comment and column.comment != found.description and column.type is not None:
        changes.append(UpdateComment((found.name,), column.comment))
    if column.type is None:
        return changes
    if found.type.root is Root.DECIMAL and "decimal-no-change" in modes:
        return changes
    alike = column.type.root is found.type.root or (found.type.root is Root.VECTOR and column.type.root in LISTS)
    if found.type.root in _NESTED and alike:
        given = replace(found, type=column.type)
        return [*changes, *merging([found], [given], Merging(widen=True, sensitive=True))]
    wider = widened(found.type, column.type, modes)
    if wider is None:
        raise UnsupportedError(
            "the type of a column in the source cannot become that of the table's column",
            table=table,
            column=found.name,
            source=type_text(column.type.with_nullable(True)),
            type=type_text(found.type.with_nullable(True)),
            remedy="alter the table's column, or write to another table",
        )
    if wider.with_nullable(True) != found.type.with_nullable(True):
        changes.append(UpdateColumnType((found.name,), wider))
    return changes


def widened(own: DataType, given: DataType, modes: frozenset[str] = frozenset()) -> DataType | None:
    """The type that holds values of both, with the nullability of `own`; None where there is none."""
    kind, other = own.root, given.root
    if own.with_nullable(True) == given.with_nullable(True):
        return own
    if kind in _TEXTS and other in _TEXTS:
        return _longer(own, given, Root.VARCHAR)
    if other in _TEXTS and "allow-non-string-to-string" in modes:
        return STRING.with_nullable(own.nullable)
    if kind in _BYTES and other in _BYTES:
        return _longer(own, given, Root.VARBINARY)
    for family in (_WHOLE, _FLOAT):
        if kind in family and other in family:
            return own if family.index(kind) >= family.index(other) else replace(own, root=other)
    if kind is Root.DECIMAL and other is Root.DECIMAL:
        scale = max(own.scale or 0, given.scale or 0)
        whole = max((own.precision or 0) - (own.scale or 0), (given.precision or 0) - (given.scale or 0))
        return replace(own, precision=whole + scale, scale=scale) if whole + scale <= MOST_DIGITS else None
    if kind is other and kind in (Root.TIMESTAMP, Root.TIMESTAMP_LTZ, Root.TIME):
        return replace(own, precision=max(own.precision or 0, given.precision or 0))
    return None


def _longer(own: DataType, given: DataType, varying: Root) -> DataType:
    length = max(own.length or 1, given.length or 1)
    if length == (own.length or 1):
        return own
    return replace(own, root=own.root if own.root is given.root else varying, length=min(length, MAX_LENGTH))
