"""Which partitions a procedure speaks of: texts as procedures take them, conditions, idle time.

    specs   := spec {";" spec}          dt=2024-01-01,hh=0;dt=2024-01-02
    spec    := column "=" value {"," column "=" value}      value: bare, or in quotes

Spec: docs/sql/procedures.md#partitions
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bucketlake.errors import InvalidError, check_types
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.lazy import lazy
from bucketlake.ops.scan.scan import live_entries
from bucketlake.ops.table.partitions import PartitionFilter, matching, spec_filter
from bucketlake.ops.table.store import Store
from bucketlake.ops.table.wall_clock import local_to_epoch
from bucketlake.predicate.tree import Predicate, columns_of
from bucketlake.schema.evolution import value_of

if TYPE_CHECKING:
    from bucketlake.predicate import parse as parsing
else:
    parsing = lazy("bucketlake.predicate.parse")

# Partitions by values of all or some partition columns: one, several, or text as procedures take it.
PartitionSpecs = str | Mapping[str, Any] | Sequence[Mapping[str, Any]]
_NEEDS_PARTITIONS = "Table should be a partitioned table when using partition predicate."


def parse_specs(text: str) -> list[dict[str, str]]:
    """`pt=a,hr=1;pt=b` as column → text, quotes around a value taken off; InvalidError for anything else."""
    specs: list[dict[str, str]] = []
    for part in filter(None, (piece.strip() for piece in text.split(";"))):
        spec: dict[str, str] = {}
        for pair in part.split(","):
            column, equals, value = pair.partition("=")
            if not equals or not column.strip():
                raise InvalidError("not a partition", text=part, remedy="write column=value,column=value;…")
            if column.strip() in spec:
                raise InvalidError(
                    "a partition has one value of a column",
                    column=column.strip(),
                    text=part,
                    remedy="write ; between partitions: column=value;column=value",
                )
            spec[column.strip()] = _unquoted(value.strip())
        specs.append(spec)
    if text.strip() and not specs:
        raise InvalidError("no partition is named", text=text, remedy="write column=value,column=value;…")
    return specs


def listed(given: PartitionSpecs) -> Sequence[Mapping[str, Any]]:
    """Specs one by one; InvalidError for what is none."""
    if isinstance(given, str):
        return parse_specs(given)
    check_types(Iterable, "give columns and values: [{'dt': '2024-01-01'}, …]", partitions=given)
    specs = [given] if isinstance(given, Mapping) else list(given)
    for spec in specs:
        if not isinstance(spec, Mapping):
            remedy = "give columns and values: [{'dt': '2024-01-01'}, …], or text: \"dt=2024-01-01;dt=2024-01-02\""
            raise InvalidError("not a partition", given=spec, remedy=remedy)
    return specs


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text


def by_specs(store: Store, specs: Sequence[Mapping[str, object]]) -> PartitionFilter:
    """Partitions that match any spec (all or some partition columns; texts are read as the columns' types, and the
    table's default partition name is null). InvalidError for other columns and for values that are none of the type."""
    keys = store.schema.partition_keys
    if not keys:
        raise InvalidError(_NEEDS_PARTITIONS)
    strangers = sorted({name for spec in specs for name in spec} - set(keys))
    if strangers:
        raise InvalidError(
            f"Partition keys [{', '.join(strangers)}] are invalid. Available partition keys are [{', '.join(keys)}]"
        )
    return spec_filter(store, [{name: _typed(store, name, value) for name, value in spec.items()} for spec in specs])


def _typed(store: Store, name: str, value: object) -> object:
    if not isinstance(value, str):
        return value
    if value == store.options.get("partition.default-name"):
        return None
    try:
        found: object = value_of(value, store.schema.field(name).type, exact=True).as_py()
    except InvalidError:
        return value  # a folder's name, or what `spec_filter` refuses
    return found


def check_columns(store: Store, predicate: Predicate) -> None:
    """InvalidError where a condition over partition columns speaks of others, or the table has none."""
    keys, named = store.schema.partition_keys, columns_of(predicate)
    if not keys:
        raise InvalidError(_NEEDS_PARTITIONS)
    if not named <= set(keys):
        raise InvalidError("Only partition predicate is supported", columns=sorted(named), partition_keys=list(keys))


def by_condition(store: Store, predicate: Predicate) -> PartitionFilter:
    """Partitions that satisfy a condition over partition columns; InvalidError where it speaks of others,
    UnsupportedError where only Spark can evaluate it."""
    check_columns(store, predicate)
    parsing.exact_where(predicate, store.schema.fields)
    decided: dict[bytes, bool] = {}

    def matches(partition: bytes) -> bool:
        if partition not in decided:
            decided[partition] = bool(matching(store, predicate, [partition]))
        return decided[partition]

    return matches


def chosen_partitions(store: Store, specs: PartitionSpecs | None, where: Predicate | None) -> PartitionFilter | None:
    """Partitions that match any spec and satisfy the condition; None where neither is given: all. Errors as `listed`,
    `by_specs` and `by_condition`."""
    named = None if specs is None else by_specs(store, listed(specs))
    return both(named, None if where is None else by_condition(store, where))


def idle(store: Store, snapshot: Snapshot | None, millis: int) -> PartitionFilter:
    """Partitions in which no file of the snapshot is younger than `millis`."""
    newest: dict[bytes, int] = {}
    for entry in live_entries(store, snapshot) if snapshot is not None else ():
        created = entry.file.creation_time or 0
        newest[entry.partition] = max(newest.get(entry.partition, created), created)
    before = store.env.clock.now_millis() - millis
    quiet = frozenset(partition for partition, created in newest.items() if local_to_epoch(created) <= before)
    return quiet.__contains__


def both(left: PartitionFilter | None, right: PartitionFilter | None) -> PartitionFilter | None:
    """Partitions that pass both filters; None passes all."""
    if left is None or right is None:
        return right if left is None else left
    first, second = left, right
    return lambda partition: first(partition) and second(partition)
