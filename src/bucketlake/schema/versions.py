"""The versions of a table's schema: how the first comes about, and what each next one may be.

    create_schema(fields, …)           schema 0 of a new table
    apply(schema, changes)             the next version
    refuse_change(base, following, …)  what a change may not bring in
    is_replaced(past, current)         whether two versions are of different tables under one name

Spec: docs/spec/schema.md
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from bucketlake.errors import InvalidError, UnsupportedError, did_you_mean
from bucketlake.options.options import immutable, option_text, refuse_of_calls, validate
from bucketlake.schema.change import RemoveOption, SchemaChange, SetOption, UpdateComment, changed
from bucketlake.schema.default import kept_default
from bucketlake.schema.keyed_indexes import keyed_indexes, refuse_merge_on_read
from bucketlake.schema.marked import COLUMN_KEYS, declared
from bucketlake.schema.schema import VERSION, TableSchema
from bucketlake.schema.validation import refuse_nameless_folders, refuse_shape, refuse_undelivered, validate_schema
from bucketlake.traces import warn
from bucketlake.types.ids import with_fresh_ids
from bucketlake.types.model import DataField


def create_schema(
    fields: Sequence[DataField],
    partition_keys: Sequence[str] = (),
    primary_keys: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
    comment: str | None = None,
    time_millis: int = 0,
) -> TableSchema:
    """The validated schema 0 of a new table; field ids are given out anew, in order, nested ones included.

    The options 'primary-key' and 'partition' become keys; primary-key columns become NOT NULL.
    Raises: InvalidError in Paimon's words for what cannot be a table, UnsupportedError for what is not honoured.
    Spec: docs/spec/schema.md#creation
    """
    fresh, highest = with_fresh_ids(fields)
    texts = {key: option_text(value) for key, value in (options or {}).items() if value is not None}
    described = texts.pop("comment", None)  # Spark's word for it among properties
    comment = described if comment is None else comment
    fresh, texts = declared(fresh, texts)
    draft = TableSchema(0, fresh, highest, tuple(partition_keys), tuple(primary_keys), texts, comment, time_millis)
    schema = normalised(draft)
    _warn(validate(schema.options))
    refuse_of_calls(schema.options)
    validate_schema(schema)
    refuse_nameless_folders(schema)
    refuse_merge_on_read(schema)
    return replace(schema, fields=tuple(map(kept_default, schema.fields)))


def normalised(schema: TableSchema) -> TableSchema:
    """Keys taken out of the options, checked against the columns, primary-key columns made NOT NULL."""
    options = dict(schema.options)
    partitions = _keys(options, "partition", schema.partition_keys, "partition")
    primary = _keys(options, "primary-key", schema.primary_keys, "primary key")
    names = list(schema.field_names)
    _unique(names, f"Table column {_listed(names)} must not contain duplicate fields.")
    for keys, what in ((partitions, "Partition key"), (primary, "Primary key")):
        _unique(keys, f"{what} constraint {_listed(keys)} must not contain duplicate columns.")
    for keys, what in ((partitions, "partition fields"), (primary, "primary key constraint")):
        missing = [key for key in keys if not schema.has_column(key)]
        if missing:
            spark = f": Couldn't find column {missing[0]}" if what == "partition fields" else ""
            raise InvalidError(
                f"Table column {_listed(names)} should include all {what} {_listed(keys)}{spark}",
                remedy=did_you_mean(missing[0], names),
            )
    keyed = set(primary)
    fields = [replace(f, type=f.type.with_nullable(False)) if f.name in keyed else f for f in schema.fields]
    return replace(
        schema, fields=tuple(fields), partition_keys=tuple(partitions), primary_keys=tuple(primary), options=options
    )


def _keys(options: dict[str, str], option: str, given: Sequence[str], what: str) -> list[str]:
    if option not in options:
        return list(given)
    if given:
        raise InvalidError(f"Cannot define {what} on DDL and table options at the same time.")
    return [name.strip() for name in options.pop(option).split(",") if name.strip()]


def _unique(names: Sequence[str], what: str) -> None:
    repeated = sorted(name for name, times in Counter(names).items() if times > 1)
    if repeated:
        raise InvalidError(f"{what} Found: {_listed(repeated)}")


def _listed(names: Sequence[str]) -> str:
    return "[" + ", ".join(names) + "]"


def apply(
    schema: TableSchema,
    changes: Sequence[SchemaChange],
    *,
    has_snapshots: bool = True,
    time_millis: int = 0,
    table: str = "table",
    retypable: Collection[str] = (),
) -> TableSchema:
    """The next version of a schema: all changes in order, validated as a whole.

    `has_snapshots`: options that fix how data lies cannot be changed then. `table` names it in errors. `retypable`:
    key columns that may get another type, as none of their rows would lie elsewhere then. Options that stay as they
    are may be such that could not be set here: another engine may have set them.
    Raises: InvalidError in Paimon's words, NotFoundError and AlreadyExistsError for columns, UnsupportedError.
    Spec: docs/spec/schema.md#evolution
    """
    draft = changed(schema, changes, has_snapshots=has_snapshots, table=table, retypable=retypable)
    following = normalised(replace(draft, id=schema.id + 1, version=VERSION, time_millis=time_millis))
    keys = {change.key for change in changes if isinstance(change, SetOption)} & following.options.keys()
    _warn(validate({key: following.options[key] for key in keys if following.options[key] != schema.options.get(key)}))
    validate_schema(following)
    return following


_OPTION_CHANGES = (SetOption, RemoveOption, UpdateComment)


def refuse_change(base: TableSchema, following: TableSchema, changes: Sequence[SchemaChange]) -> None:
    """Raise UnsupportedError for a change that brings in what is not done here, or that concerns the columns of a table
    that cannot be written. Options that another engine set stay, and can be taken away."""
    if not (keyed_indexes(base) and base.table_options.get("deletion-vectors.merge-on-read")):
        refuse_merge_on_read(following)
    refuse_of_calls({change.key: change.value for change in changes if isinstance(change, SetOption)})
    if not all(isinstance(change, _OPTION_CHANGES) for change in changes):
        refuse_undelivered(base)
    before, after = (_refused_shape(schema) for schema in (base, following))
    if after is not None and str(after) != str(before):
        raise after


def _refused_shape(schema: TableSchema) -> UnsupportedError | None:
    try:
        refuse_shape(schema)
    except UnsupportedError as error:
        return error
    return None


def _warn(near_misses: Sequence[str]) -> None:
    for text in near_misses:
        warn(text)


def is_replaced(past: TableSchema, current: TableSchema, strictly: bool = False) -> bool:
    """Whether REPLACE TABLE came between two schemas of one table, so that rows of the one mean nothing to the other:
    they have no column in common, or (not `strictly`: others number new columns from 0) differ in what no ALTER
    changes.

    Spec: docs/spec/catalog.md#replace-table
    """
    if past.id == current.id:
        return False
    known = {item.id for item in current.fields}
    if not any(item.id in known for item in past.fields):
        return True
    decided = {key for key in (*past.options, *current.options) if immutable(key)} if not strictly else set()
    decided.difference_update(COLUMN_KEYS)
    return any(past.options.get(key) != current.options.get(key) for key in decided)
