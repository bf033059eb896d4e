"""Which file indexes a table's options ask for, and what columns they may be built on.

    file-index.<type>.columns = a,b,m[key]         m[key]: the values of one key of a MAP column
    file-index.<type>.<column>.<option> = …        for `m`: of all its keys, unless m[key] has its own

Spec: docs/spec/file_index.md#options
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bucketlake.errors import InvalidError
from bucketlake.options.options import parse_memory_size
from bucketlake.types.model import DataField, DataType, Root, type_text
from bucketlake.values import dataclass

BLOOM_FILTER = "bloom-filter"
BITMAP = "bitmap"
RANGE_BITMAP = "range-bitmap"
BSI = "bsi"

_PREFIX = "file-index."
_COLUMNS = ".columns"
_WHOLE = {Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT}
_TIMES = {Root.DATE, Root.TIME, Root.TIMESTAMP, Root.TIMESTAMP_LTZ}
_TEXTS = {Root.CHAR, Root.VARCHAR}
_FLOATS = {Root.FLOAT, Root.DOUBLE}
_TYPES = {
    BLOOM_FILTER: _WHOLE | _TIMES | _TEXTS | _FLOATS | {Root.BINARY, Root.VARBINARY},
    BITMAP: _WHOLE | _TIMES | _TEXTS | _FLOATS | {Root.BOOLEAN},
    RANGE_BITMAP: _WHOLE | _TIMES | _TEXTS | _FLOATS | {Root.BOOLEAN, Root.DECIMAL},
    BSI: _WHOLE | _TIMES | {Root.DECIMAL},
}
_LONG_DIGITS = 18  # of decimals whose unscaled value fits 64 bits


@dataclass(frozen=True, slots=True)
class IndexSpec:
    """One index on one column. `key`: the key of a MAP column whose values are indexed."""

    kind: str
    column: str
    key: str | None
    options: Mapping[str, str]

    @property
    def name(self) -> str:
        """The column's name in the index: `column` or `column[key]`."""
        return self.column if self.key is None else f"{self.column}[{self.key}]"


def index_specs(options: Mapping[str, str]) -> tuple[IndexSpec, ...]:
    """The indexes that the options declare, in their order.

    Raises: InvalidError for an empty column name, and for options of a column that is not declared.
    Spec: docs/spec/file_index.md#options
    """
    declared: dict[tuple[str, str], dict[str, str]] = {}
    shared: dict[tuple[str, str], dict[str, str]] = {}
    for key, value in options.items():
        if key.startswith(_PREFIX) and key.endswith(_COLUMNS):
            kind = key[len(_PREFIX) : -len(_COLUMNS)]
            for name in value.split(","):
                if not name.strip():
                    raise InvalidError(f"Wrong option in {key}, should not have empty column", value=value)
                declared.setdefault((kind, name.strip()), {})
                column, nested = _parts(name.strip())
                if nested is not None:
                    shared.setdefault((kind, column), {})
    for key, value in options.items():
        parts = key[len(_PREFIX) :].split(".")
        if not key.startswith(_PREFIX) or key.endswith(_COLUMNS) or len(parts) != 3:
            continue
        kind, name, option = parts
        target = declared.get((kind, name))
        target = shared.get((kind, name)) if target is None else target
        if target is None:
            raise InvalidError(
                f"Wrong file index option '{key}': column '{name}' is not declared in '{_PREFIX}{kind}{_COLUMNS}'.",
                remedy=f"add '{_PREFIX}{kind}{_COLUMNS}' = '{name}'; for one key of a map, '<map-column>[<map-key>]'",
            )
        target[option] = value
    return tuple(
        IndexSpec(kind, *_parts(name), {**shared.get((kind, _parts(name)[0]), {}), **own})
        if _parts(name)[1] is not None
        else IndexSpec(kind, name, None, own)
        for (kind, name), own in declared.items()
    )


def _parts(name: str) -> tuple[str, str | None]:
    start = name.find("[")
    return (name[:start], name[start + 1 : -1]) if start >= 0 and name.endswith("]") else (name, None)


def indexed_type(spec: IndexSpec, field: DataField) -> DataType:
    """The type of the values that an index is built on: the column's, or of the map's values."""
    return field.type if spec.key is None or field.type.element is None else field.type.element


def indexed_field(spec: IndexSpec, by_name: Mapping[str, DataField]) -> DataField:
    """The column that an index is of, among those of the table; InvalidError where there is none of its name."""
    if spec.column in by_name:
        return by_name[spec.column]
    raise InvalidError(
        f"Column '{spec.column}' specified in 'file-index.<index-type>.columns' does not exist in table schema."
        f" Existing columns: [{', '.join(by_name)}]."
    )


def validate_file_indexes(options: Mapping[str, str], fields: Sequence[DataField]) -> None:
    """Raise InvalidError for an index of an unknown type, on an unknown column, on a type that it does not take, or
    with an option that has no meaning.

    Spec: docs/spec/file_index.md#options
    """
    by_name = {item.name: item for item in fields}
    for spec in index_specs(options):
        field = indexed_field(spec, by_name)
        if spec.kind not in _TYPES:
            raise InvalidError(
                f"Can't find file index for type: {spec.kind}", column=spec.name, remedy=f"use {' | '.join(_TYPES)}"
            )
        if spec.key is not None:
            _check_map(spec, field)
        _check_type(spec, indexed_type(spec, field))
        for option in spec.options:
            option_value(spec, option)


def _check_map(spec: IndexSpec, field: DataField) -> None:
    where = f"Column '{spec.column}' is configured as nested column in 'file-index.<index-type>.columns'"
    if field.type.root is not Root.MAP:
        raise InvalidError(f"{where} but is not a map type. Only map type supports nested column.")
    if field.type.key is None or field.type.key.root not in _TEXTS:
        kind = "" if field.type.key is None else type_text(field.type.key)
        raise InvalidError(f"{where}, but its map key type is {kind}. Only CHAR/VARCHAR/STRING is supported.")


def _check_type(spec: IndexSpec, kind: DataType) -> None:
    reason = None
    if kind.root not in _TYPES[spec.kind]:
        reason = "choose a column of another type, or another index"
    elif spec.kind == RANGE_BITMAP and kind.root is Root.DECIMAL and (kind.precision or 0) > _LONG_DIGITS:
        reason = f"The {RANGE_BITMAP} index only supports DECIMAL with a precision in [0, {_LONG_DIGITS}]."
    elif spec.kind == RANGE_BITMAP and kind.root in (Root.TIMESTAMP, Root.TIMESTAMP_LTZ) and (kind.precision or 0) > 6:
        reason = f"The {RANGE_BITMAP} index only supports TIMESTAMP with a precision in [0, 6]."
    if reason is not None:
        raise InvalidError(
            f"Column '{spec.name}' with type '{type_text(kind)}' is not supported by '{spec.kind}' index", remedy=reason
        )


def _positive(text: str) -> int:
    number = int(text)
    if not 0 < number < 1 << 31:
        raise ValueError(text)
    return number


def _share(text: str) -> float:
    number = float(text)
    if not 0 < number < 1:
        raise ValueError(text)
    return number


def _version(text: str) -> int:
    return {"1": 1, "2": 2}[text.strip()]


_OPTIONS: dict[tuple[str, str], tuple[Callable[[str], Any], str, str]] = {
    (BLOOM_FILTER, "items"): (_positive, "1000000", "a number of distinct values"),
    (BLOOM_FILTER, "fpp"): (_share, "0.1", "a probability between 0 and 1"),
    (BITMAP, "version"): (_version, "2", "1 | 2"),
    (BITMAP, "index-block-size"): (parse_memory_size, "16kb", "a size such as 16kb"),
    (RANGE_BITMAP, "chunk-size"): (parse_memory_size, "", "a size such as 16kb"),
}


def option_value(spec: IndexSpec, option: str) -> Any:
    """The typed value of an index's option, by default what Paimon takes; None for one that no index knows, and for
    one without default.

    Raises: InvalidError naming it.
    """
    parse, default, form = _OPTIONS.get((spec.kind, option), (None, "", ""))
    text = spec.options.get(option, default)
    if parse is None or not text:
        return None
    try:
        return parse(text)
    except (ValueError, KeyError) as error:
        key = f"{_PREFIX}{spec.kind}.{spec.name}.{option}"
        raise InvalidError("option has an invalid value", option=key, value=text, remedy=f"use {form}") from error
