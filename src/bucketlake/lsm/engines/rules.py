"""A table's merge engine and the order of its rows: the one place that turns options into them.

    engine_of(schema, options) -> MergeEngine
    check_merges(schema)                raises what the first write would: beside CREATE and ALTER
    order_of(schema, options) -> KeyOrder
    refused_retracts(options) -> str | None

Flush, read and compaction all ask here, so a key has one result wherever its rows meet.

Spec: docs/spec/merge.md#engines
"""

from __future__ import annotations

from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.lsm.aggregates.functions import Aggregate, AggregateOptions, aggregate
from bucketlake.lsm.engines.aggregation import Aggregation
from bucketlake.lsm.engines.engines import FIRST_ROW_RETRACTS, Deduplicate, FirstRow, MergeEngine
from bucketlake.lsm.engines.partial_update import PARTIAL_UPDATE_RETRACTS, Deletes, PartialUpdate, SequenceGroup
from bucketlake.lsm.keys import KeyOrder
from bucketlake.options.options import TableOptions
from bucketlake.schema.schema import TableSchema
from bucketlake.schema.validation import aggregate_function, sequence_groups

__all__ = ["check_merges", "engine_of", "order_of", "refused_retracts"]

ON_GROUP = "partial-update.remove-record-on-sequence-group"


def engine_of(schema: TableSchema, options: TableOptions) -> MergeEngine:
    """What becomes of the rows of one key, by `merge-engine` and the options of that engine.

    Raises InvalidError for options that contradict each other, UnsupportedError naming the package that an aggregate
    needs.
    """
    engine = options.get("merge-engine") if schema.primary_keys else "deduplicate"
    ignore_delete = bool(options.get("ignore-delete"))
    if engine == "first-row":
        return FirstRow(ignore_delete)
    if engine == "aggregation":
        return _aggregation(schema, options)
    if engine == "partial-update":
        return _partial_update(schema, options)
    return Deduplicate(ignore_delete)


def check_merges(schema: TableSchema, base: TableSchema | None = None) -> None:
    """InvalidError for a schema whose rows no engine merges (`sum` of texts), unless those of `base`, which it follows,
    are refused for the same. A package that is missing on this machine is no fault of the schema's."""
    fault = _fault(schema)
    if fault is not None and (base is None or str(fault) != str(_fault(base))):
        raise fault


def _fault(schema: TableSchema) -> InvalidError | None:
    try:
        engine_of(schema, schema.table_options)
    except InvalidError as error:
        return error
    except UnsupportedError:
        pass
    return None


def order_of(schema: TableSchema, options: TableOptions) -> KeyOrder:
    """The order of rows in a sorted run of key-value rows: key, then `sequence.field`, then sequence number.

    Rows need the columns in `sequence` of the result besides those of the key; key and partition columns are left out
    of it, because they are the same in all rows of a key.
    """
    constant = {*schema.trimmed_primary_keys, *schema.partition_keys}
    names = [name for name in options.names("sequence.field") if name not in constant]
    descending = options.get("sequence.field.sort-order") == "descending"
    return KeyOrder(schema.key_fields, schema.select(names), descending)


def refused_retracts(options: TableOptions) -> str | None:
    """Why rows of kind -U and -D cannot be written, in Paimon's words; None where they can."""
    if options.get("ignore-delete"):
        return None
    engine = options.get("merge-engine")
    if engine == "first-row":
        return FIRST_ROW_RETRACTS
    if engine == "partial-update" and _deletes(options) is Deletes.REFUSED and not sequence_groups(options):
        return PARTIAL_UPDATE_RETRACTS
    return None


def _aggregation(schema: TableSchema, options: TableOptions) -> Aggregation:
    sequence = options.names("sequence.field")
    aggregates: dict[str, Aggregate] = {}
    for item in schema.fields:
        if item.name in schema.primary_keys:
            continue
        name = aggregate_function(options, item.name) or "last_non_null_value"
        name = "last_value" if item.name in sequence else name
        aggregates[item.name] = aggregate(name, item, AggregateOptions.of(options, item.name))
    return Aggregation(aggregates, bool(options.get("aggregation.remove-record-on-delete")))


def _partial_update(schema: TableSchema, options: TableOptions) -> PartialUpdate:
    removing = set(options.names(ON_GROUP))
    groups: list[SequenceGroup] = []
    aggregates: dict[str, Aggregate] = {}
    for fields, columns in sequence_groups(options):
        groups.append(SequenceGroup(fields, columns, bool(removing.intersection(fields))))
        for name in columns:
            function = aggregate_function(options, name)
            if function is not None:
                aggregates[name] = aggregate(function, schema.field(name), AggregateOptions.of(options, name))
    grouped = {name for group in groups for name in (*group.fields, *group.columns)}
    grouped.update(schema.primary_keys)
    plain = tuple(name for name in schema.field_names if name not in grouped)
    return PartialUpdate(plain, tuple(groups), aggregates, _deletes(options))


def _deletes(options: TableOptions) -> Deletes:
    if options.get("ignore-delete"):
        return Deletes.IGNORED
    return Deletes.REMOVE if options.get("partial-update.remove-record-on-delete") else Deletes.REFUSED


def removing_kinds(options: TableOptions) -> list[int]:
    """The kinds of rows after which a key is not in the table, as far as the kind alone says."""
    engine = options.get("merge-engine")
    if engine == "deduplicate":
        return [1, 3]
    if engine == "partial-update":
        return [3] if _deletes(options) is Deletes.REMOVE else []
    return [3] if engine == "aggregation" and options.get("aggregation.remove-record-on-delete") else []
