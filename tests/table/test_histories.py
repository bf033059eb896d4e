"""Random histories of every merge engine, table mode and changelog producer, against a dict.

After each step the rows are the model's, each key once, and the changelog files so far, applied to a dict, give them too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings
from tests.histories.changes import changes_of, replay
from tests.histories.engines import ALL_KINDS, COLUMNS, DELETE, ENGINES, INSERT, Engine, Values
from tests.histories.model import MODES, Change, Key, Mode, Model, as_rows, goes, is_strict, key_of, mode_of
from tests.histories.tables import arrow, create, rows_of
from tests.profile import examples, first

import bucketlake
from bucketlake.ops.write.prepare import new_commit_user, prepare_write
from bucketlake.ops.write.write import write_batches
from bucketlake.schema.schema import KIND_FIELD
from bucketlake.table import Table

EXAMPLES = examples(2, 60)  # the first one is the simplest
FAMILIES = {
    "plain": ["merge-on-read", "copy-on-write", "force-lookup"],
    "vectors": ["vectors", "vectors-64", "vectors-lookup", "vectors-input", "vectors-gentle"],
    "lookup": ["lookup", "lookup-deduplicated", "lookup-gentle"],
    "told": ["input", "full-compaction", "full-compaction-deduplicated"],
}
assert sorted(mode for modes in FAMILIES.values() for mode in modes) == sorted(MODES)
CASES = [
    (engine, family)
    for engine in ENGINES
    for family, modes in FAMILIES.items()
    if any(goes(ENGINES[engine], mode) for mode in modes)
]

partitions = st.sampled_from("ab")
small = st.none() | st.integers(-3, 6)
rows = st.lists(
    st.tuples(
        st.sampled_from([*ALL_KINDS, INSERT, INSERT]),
        st.fixed_dictionaries(
            {
                "p": partitions,
                "k": st.integers(0, 7),
                **dict.fromkeys("vwsr", small),
                "t": st.none() | st.sampled_from(["x", "y", "z" * 20]),
            }
        ),
    ),
    min_size=1,
    max_size=14,
)
spans = st.tuples(st.integers(0, 7), st.integers(1, 3))
operations = st.one_of(
    st.tuples(st.just("write"), rows, st.booleans(), st.sampled_from(["500 b", "1 mb"])),
    st.tuples(st.just("write"), rows, st.just(False), st.just("1 mb")),
    st.tuples(st.just("together"), rows, rows, st.booleans()),
    st.tuples(st.just("delete"), spans),
    st.tuples(st.just("update"), spans, st.integers(100, 120)),
    st.tuples(st.just("overwrite"), partitions, rows),
    st.tuples(st.just("compact"), st.booleans()),
)
layouts = st.fixed_dictionaries(
    {
        "bucket": st.sampled_from(["2", "1", "-1"]),
        "file.format": st.sampled_from(["parquet", "parquet", "orc", "avro"]),
        "dynamic-bucket.target-row-num": st.just("3"),
    },
    optional={
        "compaction.small-file-ratio": st.just("0.0001"),
        "target-file-size": st.just("1 kb"),
        "data-file.thin-mode": st.just("true"),
        "deletion-vectors.merge-on-read": st.just("false"),
    },
)


@dataclass
class History:
    """A table and its model. `shown`: the rows as of when nothing was hidden last; `told`: what the changelog gives."""

    table: Table
    model: Model
    mode: Mode
    partitioned: bool
    shown: list[tuple[Any, ...]] = field(default_factory=list)
    told: dict[Key, Values] = field(default_factory=dict)
    written: list[Change] = field(default_factory=list)
    snapshots: int = 0
    behind: bool = False
    unsure: bool = False

    @property
    def engine(self) -> Engine:
        return self.model.engine

    def write(self, changes: Sequence[Change], quiet: bool, buffer: str) -> None:
        changes = self.admitted(changes)
        self.table.write_arrow(arrow(changes), write_only=quiet, write_buffer_size=buffer)
        self.wrote(quiet)

    def together(self, first: Sequence[Change], second: Sequence[Change], quiet: bool) -> None:
        """Two handles write at the same time; the second one's rows are newer."""
        table = self.table.with_options(write_only=quiet)
        prepared = []
        for changes in (self.admitted(first), self.admitted(second)):
            user = new_commit_user(table.store)
            task = prepare_write(table.store, table.latest_snapshot(), commit_user=user)
            batches = arrow(changes).to_batches()
            prepared.append((user, write_batches(table.store, batches, task, KIND_FIELD.name)))
        for user, messages in prepared:
            snapshot = table.commit(messages, user)
            table.compacted(snapshot, messages)
        self.wrote(quiet)

    def admitted(self, changes: Sequence[Change]) -> list[Change]:
        found = self.model.put(changes)
        self.written += [change for change in found if change[0] not in self.engine.ignored]
        return found

    def delete(self, span: tuple[int, int]) -> None:
        if self.engine.deletes and self.settled(span):
            self.table.delete(condition(span))
            self.changed(DELETE, self.matching(span))

    def update(self, span: tuple[int, int], value: int) -> None:
        if self.engine.updates and self.settled(span):
            self.table.update({"v": value}, condition(span))
            self.changed(INSERT, [{**row, "v": value} for row in self.matching(span)])

    def matching(self, span: tuple[int, int]) -> list[Values]:
        low, count = span
        return [row for key, row in self.model.rows.items() if low <= key[1] < low + count]

    def settled(self, span: tuple[int, int]) -> bool:
        """Whether a statement sees all rows of these keys and may write them."""
        return not self.behind and not any(key_of(row) in self.model.waiting for row in self.matching(span))

    def changed(self, kind: int, found: list[Values]) -> None:
        self.model.statement(kind, found)
        self.written += [(kind, row) for row in found]
        self.wrote(False)

    def overwrite(self, partition: str, changes: Sequence[Change]) -> None:
        """The changelog says nothing of it."""
        gone = partition if self.partitioned else None
        self.model.clear(gone)
        inserts = [(INSERT, {**row, "p": partition}) for _, row in changes]
        fixed = {"p": partition} if self.partitioned else None
        admitted = self.model.put(inserts)
        self.table.write_arrow(arrow(admitted), "overwrite", fixed, dynamic_partition_overwrite=False)
        for key in [key for key in self.told if gone in (None, key[0])]:
            del self.told[key]
        self.told.update({key: row for key, row in self.model.rows.items() if gone in (None, key[0])})
        self.wrote(False)

    def compact(self, full: bool) -> None:
        self.table.compact(full=full)
        if full or not self.mode.gentle:
            self.behind = False
        if full:
            self.model.compacted()
            self.unsure = False

    def wrote(self, quiet: bool) -> None:
        late = quiet or self.mode.gentle
        self.behind = self.behind or (late and (self.mode.hides or self.mode.tells == "lookup"))
        self.unsure = True

    def check(self) -> None:
        found: list[Change] = []
        for snapshot in self.table.snapshots()[self.snapshots :]:
            found += changes_of(self.table, snapshot)
            self.snapshots += 1
        if self.mode.tells == "input":
            assert counted(found) == counted(self.written)
            self.written = []
        else:
            replay(self.told, found, is_strict(self.engine), pairs=self.mode.pairs)
        expected = self.model.expected()
        if not (self.mode.hides and self.behind):
            self.shown = expected
            assert rows_of(self.table) == expected
        elif not self.mode.gentle:
            rows_of(self.table)
        told = {"lookup": not self.behind, "full-compaction": not self.unsure}
        if told.get(self.mode.tells):
            assert as_rows(self.told) == expected


def condition(span: tuple[int, int]) -> str:
    low, count = span
    return f"k >= {low} AND k < {low + count}"


def counted(changes: Sequence[Change]) -> Counter[tuple[Any, ...]]:
    return Counter((kind, *(row[name] for name in COLUMNS)) for kind, row in changes)


@pytest.mark.parametrize(("engine", "family"), first(CASES, 28))
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_history_equals_model(
    engine: str, family: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    name = data.draw(st.sampled_from([mode for mode in FAMILIES[family] if goes(ENGINES[engine], mode)]), "mode")
    mode, partitioned = mode_of(ENGINES[engine], name), data.draw(st.booleans(), "partitioned")
    catalog = bucketlake.open(tmp_path_factory.mktemp("histories"))
    table = create(catalog, "default.t", ENGINES[engine], mode, partitioned, data.draw(layouts, "layout"))
    history = History(table, Model(ENGINES[engine]), mode, partitioned)
    for kind, *arguments in data.draw(st.lists(operations, min_size=2, max_size=7), "operations"):
        getattr(history, kind)(*arguments)
        history.check()
    history.compact(True)
    history.check()
    for columns in (["v"], ["t", "k"], ["p", "w", "r"]):
        places = [list(COLUMNS).index(column) for column in columns]
        expected = Counter(tuple(row[place] for place in places) for row in history.shown)
        assert Counter(tuple(row.values()) for row in table.to_arrow(columns=columns).to_pylist()) == expected
    assert rows_of(table, where="k = 3") == [row for row in history.shown if row[1] == 3]
