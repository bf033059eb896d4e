"""What rows bring that a table's columns do not hold, as changes of its schema (`write.merge-schema`).

Columns and ROW members that the table lacks are added, nullable and at the end; types change only with
`write.merge-schema.type-widening`, and with loss only with `write.merge-schema.explicit-cast` besides.

Spec: docs/spec/schema.md#merging
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace

from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.options.options import TableOptions
from bucketlake.schema.change import AddColumn, SchemaChange, UpdateColumnType
from bucketlake.schema.evolution import cast_allowed
from bucketlake.types.model import LISTS, DataField, DataType, Root, all_nullable, decimal_type, type_text
from bucketlake.values import dataclass

MERGE_SCHEMA = "write.merge-schema"
TYPE_WIDENING = "write.merge-schema.type-widening"
EXPLICIT_CAST = "write.merge-schema.explicit-cast"
_INSIDE = {Root.ARRAY: "element", Root.MAP: "value"}
_LENGTHS = (Root.CHAR, Root.VARCHAR, Root.BINARY, Root.VARBINARY)
_TIMES = (Root.TIME, Root.TIMESTAMP, Root.TIMESTAMP_LTZ)


@dataclass(frozen=True, slots=True)
class Merging:
    """What a merge may do. `widen`: change types without loss; `explicit`: with loss too; `sensitive`: names that
    differ in case are two columns."""

    widen: bool = False
    explicit: bool = False
    sensitive: bool = False

    @classmethod
    def of(cls, options: TableOptions, sensitive: bool = False) -> Merging | None:
        """What the options of a write allow, None if they leave the schema alone."""
        if not options.get(MERGE_SCHEMA):
            return None
        return cls(bool(options.get(TYPE_WIDENING)), bool(options.get(EXPLICIT_CAST)), sensitive)


def merging(fields: Sequence[DataField], given: Sequence[DataField], rules: Merging) -> list[SchemaChange]:
    """The changes after which columns `fields` hold rows of the columns `given`, none if they do.

    Nullability, comments and the order of what is there stay. Errors: InvalidError for a name that is given twice,
    UnsupportedError for types that cannot be merged.
    """
    return list(_columns(fields, given, (), rules))


def besides(
    base: DataType, update: DataType, paths: Collection[tuple[str, ...]], fold: Callable[[str], str]
) -> DataType:
    """The type with the members that `update` has besides: those at `paths` and all that lies in what they name, `()`
    the type itself. Names count as `fold` has them. What both have stays as it is."""
    whole = () in paths
    if base.root is Root.ROW and update.root is Root.ROW:
        own = {fold(item.name): item for item in base.fields}
        kept = {name: item.type for name, item in own.items()}
        more: list[DataField] = []
        for item in update.fields:
            name = fold(item.name)
            below = {()} if whole else {path[1:] for path in paths if path[0] == name}
            if name in own and below:
                kept[name] = besides(kept[name], item.type, below, fold)
            elif below:
                kind = item.type if () in below else besides(replace(item.type, fields=()), item.type, below, fold)
                more.append(replace(item, type=kind))
        return replace(base, fields=(*(replace(item, type=kept[name]) for name, item in own.items()), *more))
    if whole and base.root is update.root and base.root in _INSIDE and base.element and update.element:
        return replace(base, element=besides(base.element, update.element, paths, fold))
    return base


def _columns(
    own: Sequence[DataField], given: Sequence[DataField], path: tuple[str, ...], rules: Merging
) -> Iterator[SchemaChange]:
    exact = rules.sensitive or len({item.name.lower() for item in own}) < len(own)

    def key(name: str) -> str:
        return name if exact else name.lower()

    found: dict[str, DataField] = {}
    for item in given:
        if key(item.name) in found:
            name = ".".join((*path, item.name))
            condition = "INCOMPATIBLE_DATA_FOR_TABLE.AMBIGUOUS_COLUMN_NAME"
            what = f"[{condition}] Cannot write, due to ambiguous column name `{name}`"
            raise InvalidError(what, remedy="name each column once")
        found[key(item.name)] = item
    for column in own:
        update = found.pop(key(column.name), None)
        if update is not None:
            yield from _type(column.type, update.type, (*path, column.name), rules)
    for item in found.values():
        # nulls are allowed: what these rows happen to lack, later ones may not
        yield AddColumn((*path, item.name), all_nullable(item.type), item.description)


def _type(base: DataType, update: DataType, path: tuple[str, ...], rules: Merging) -> Iterator[SchemaChange]:
    if base.with_nullable(True) == update.with_nullable(True):
        return
    if base.root is Root.VECTOR and update.root in LISTS:
        return  # rows of others bring its values as arrays
    if base.root is Root.ROW and update.root is Root.ROW:
        yield from _columns(base.fields, update.fields, path, rules)
    elif base.root is update.root and base.root in _INSIDE and base.element and update.element:
        if base.key is not None and update.key is not None and list(_type(base.key, update.key, path, rules)):
            raise _unmerged(base, update, path, "the keys of a MAP do not change")
        inner = (*path, _INSIDE[base.root])
        for change in _type(base.element, update.element, inner, rules):
            if isinstance(change, UpdateColumnType) and change.column == inner:
                raise _unmerged(base, update, path, "elements of ARRAY and MAP are not widened")
            yield change
    elif rules.widen:
        wanted = _widened(base, update, path, rules)
        if wanted.with_nullable(True) != base.with_nullable(True):
            yield UpdateColumnType(path, wanted)


def _widened(base: DataType, update: DataType, path: tuple[str, ...], rules: Merging) -> DataType:
    """The type that holds the values of both."""
    if base.root is Root.DECIMAL and update.root is Root.DECIMAL:
        if base.scale != update.scale:
            raise _unmerged(base, update, path, "decimal types with different scale")
        return decimal_type(max(base.precision or 0, update.precision or 0), base.scale or 0, nullable=base.nullable)
    if not cast_allowed(base, update.with_nullable(base.nullable), explicit=rules.explicit):
        raise _unmerged(base, update, path, f"{EXPLICIT_CAST} allows more changes")
    if not rules.explicit and _narrows(base, update):
        raise _unmerged(base, update, path, "the target type has a smaller length or precision")
    return update.with_nullable(base.nullable)


def _narrows(base: DataType, update: DataType) -> bool:
    if base.root in _LENGTHS and update.root in _LENGTHS:
        return (base.length or 1) > (update.length or 1)
    if base.root in _TIMES and update.root in _TIMES:
        return (base.precision or 0) > (update.precision or 0)
    return False


def _unmerged(base: DataType, update: DataType, path: tuple[str, ...], why: str) -> UnsupportedError:
    return UnsupportedError(
        f"Failed to merge data types {type_text(base)} and {type_text(update)}",
        column=".".join(path),
        reason=why,
        remedy="cast the column, or ALTER TABLE first",
    )
