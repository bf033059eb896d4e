"""What a table is and came to be: columns at a glance, its schemas one after the other, its options.

overview(store, name) -> Overview      evolution(store) -> Evolution      settings(store) -> [Setting]
column_changes(before, after) -> [ColumnChange]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bucketlake.errors import BucketlakeError, InvalidError
from bucketlake.file_names import number_of
from bucketlake.ops.table.store import Store
from bucketlake.options.options import OPTIONS, TableOptions, find_option
from bucketlake.redaction import HIDDEN, is_secret, redact
from bucketlake.report.facts import (
    ColumnChange,
    ColumnFact,
    Evolution,
    OptionChange,
    Overview,
    SchemaStep,
    Setting,
)
from bucketlake.report.frames import live
from bucketlake.report.history import cut
from bucketlake.schema.schema import TableSchema
from bucketlake.types.model import DataField, type_text

MOST_SCHEMAS = 200
MOST_COLUMNS = 2_000
MOST_SETTINGS = 2_000


def overview(store: Store, name: str) -> Overview:
    """A table at a glance. Errors: StorageError, CorruptError of its newest snapshot."""
    snapshot = store.latest_snapshot()
    schema = store.schema
    earliest = None if snapshot is None else store.earliest_snapshot()
    sums: tuple[int | None, int | None, int | None] = (None, None, None)
    damaged = None
    try:
        files = live(store, snapshot)
        sums = files.height, int(files["file_size"].sum()), int(files["partition"].n_unique())
    except BucketlakeError as error:
        damaged = cut(str(error))
    return Overview(
        name=name,
        path=redact(store.paths.root),
        branch=str(store.options.text("branch") or "main"),
        comment=None if schema.comment is None else cut(schema.comment, 2_000),
        keyed=bool(schema.primary_keys),
        merge_engine=str(store.options.text("merge-engine") or ""),
        bucket_mode=schema.bucket_mode.value,
        bucket=schema.bucket,
        primary_key=list(schema.primary_keys),
        partition_key=list(schema.partition_keys),
        columns=[_column(schema, field) for field in schema.fields[:MOST_COLUMNS]],
        schema_id=schema.id,
        snapshot=None if snapshot is None else snapshot.id,
        time=None if snapshot is None else snapshot.time_millis,
        earliest=None if earliest is None else earliest.id,
        rows=0 if snapshot is None else snapshot.total_record_count,
        files=sums[0],
        bytes=sums[1],
        partitions=sums[2] if schema.partition_keys else None,
        damaged=damaged,
    )


def _column(schema: TableSchema, field: DataField) -> ColumnFact:
    roles = [
        word
        for word, names in (("partition", schema.partition_keys), ("key", schema.primary_keys))
        if field.name in names
    ]
    return ColumnFact(
        field.id,
        cut(field.name),
        cut(type_text(field.type.with_nullable(True))),
        field.type.nullable,
        None if field.description is None else cut(field.description, 1_000),
        None if field.default is None else cut(field.default),
        " ".join(roles),
    )


# ---------------------------------------------------------------------------------------------- schemas


def evolution(store: Store, limit: int = MOST_SCHEMAS) -> Evolution:
    """What each schema changed. A damaged one is named and left out. Errors: StorageError."""
    names = [info.name for info in store.env.storage.list(store.paths.schema_dir)]
    found = {number_of(name.removeprefix("schema-")) for name in names if name.startswith("schema-")}
    ids = sorted(number for number in found if number is not None)
    shown = ids[-max(1, min(limit, MOST_SCHEMAS)) :]
    steps: list[SchemaStep] = []
    unreadable: list[int] = []
    last: TableSchema | None = None
    for number in shown:
        try:
            schema = store.schema_of(number) if number != store.schema.id else store.schema
        except BucketlakeError:
            unreadable.append(number)
            continue
        steps.append(_step(last, schema, current=number == store.schema.id))
        last = schema
    return Evolution(steps, len(ids) - len(shown), unreadable)


def _step(last: TableSchema | None, schema: TableSchema, *, current: bool) -> SchemaStep:
    changes = column_changes(() if last is None else last.fields, schema.fields)
    before = {} if last is None else _named(last)
    after = _named(schema)
    told = [OptionChange(key, before.get(key), after.get(key)) for key in sorted({*before, *after})]
    return SchemaStep(
        id=schema.id,
        time=schema.time_millis,
        columns=[_shortened(one) for one in changes[:MOST_COLUMNS]],
        options=[one for one in told if one.before != one.after][:MOST_SETTINGS],
        fields=len(schema.fields),
        current=current,
    )


def _named(schema: TableSchema) -> dict[str, str]:
    """Options, keys and comment as texts."""
    options = {cut(key): _shown(key, value) or "" for key, value in schema.options.items()}
    keys = {"primary key": schema.primary_keys, "partitioned by": schema.partition_keys}
    texts = {name: ", ".join(columns) for name, columns in keys.items() if columns}
    return {**options, **texts, **({"comment": cut(schema.comment)} if schema.comment else {})}


def _shortened(one: ColumnChange) -> ColumnChange:
    before, after = (None if text is None else cut(text) for text in (one.before, one.after))
    return ColumnChange(cut(one.column), one.change, before, after)


def column_changes(before: Sequence[DataField], after: Sequence[DataField]) -> list[ColumnChange]:
    """What became of columns from one schema to another; a column is known by its id, whatever its name."""
    old = {field.id: field for field in before}
    new = {field.id: field for field in after}
    found = [ColumnChange(f.name, "dropped", type_text(f.type), None) for f in before if f.id not in new]
    for field in after:
        known = old.get(field.id)
        if known is None:
            found.append(ColumnChange(field.name, "added", None, type_text(field.type)))
        else:
            found += _changes(known, field)
    kept = [field.id for field in before if field.id in new]
    order = [field.id for field in after if field.id in old]
    places = {number: place for place, number in enumerate(kept)}
    # What moved: all that is not in the longest stretch that kept its order would be exact; a first difference tells.
    moved = next((number for place, number in enumerate(order) if places[number] != place), None)
    if moved is not None:
        found.append(ColumnChange(new[moved].name, "moved", str(places[moved]), str(order.index(moved))))
    return found


def _changes(old: DataField, new: DataField) -> list[ColumnChange]:
    kinds = [type_text(field.type.with_nullable(True)) for field in (old, new)]
    null = ["NULL" if field.type.nullable else "NOT NULL" for field in (old, new)]
    pairs = (
        ("renamed", old.name, new.name),
        ("type", *kinds),
        ("nullability", *null),
        ("comment", old.description, new.description),
        ("default", old.default, new.default),
    )
    return [ColumnChange(new.name, change, a, b) for change, a, b in pairs if a != b]


# ---------------------------------------------------------------------------------------------- options


def settings(store: Store) -> list[Setting]:
    """Every option with what holds for this table, those that differ from their default first. Secrets are hidden."""
    options = store.options
    rows = [_setting(options, key) for key in OPTIONS]
    extra = [key for key in options.raw if key not in OPTIONS]
    aliases = {name for option in OPTIONS.values() for name in option.fallback}
    rows += [_setting(options, key) for key in extra if key not in aliases]
    return sorted(rows, key=lambda one: (not one.differs, not one.set, one.key))[:MOST_SETTINGS]


def _setting(options: TableOptions, key: str) -> Setting:
    option = find_option(key)
    value = options.text(key)
    default = None if option is None else option.default
    given = options.is_set(key)
    return Setting(
        key=cut(key),
        value=_shown(key, value),
        default=default,
        set=given,
        differs=given and _differs(options.raw, key, default),
        effect="unknown" if option is None else str(option.effect),
        why="" if option is None else option.effect.why,
        doc="No option of this name is known." if option is None else option.doc,
        mutable=option is None or option.mutable,
    )


def _differs(raw: Mapping[str, str], key: str, default: str | None) -> bool:
    """Whether a value means another thing than the default: `1024 kb` is `1 mb`."""
    if default is None:
        return True
    try:
        return bool(TableOptions(raw).get(key) != TableOptions({}).get(key))
    except InvalidError:
        return True


def _shown(key: str, value: str | None) -> str | None:
    if value is None:
        return None
    return HIDDEN if is_secret(key) else cut(redact(value), 2_000)
