"""What actors of the simulations do without Spark that takes more than a call: a MERGE, COPY INTO, clones, a stream's
reader."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from bucketlake.errors import InvalidError, NotFoundError
from bucketlake.ops.change.append_rows import Means, change_rows, found_here
from bucketlake.ops.change.row_conflicts import MergeRead
from bucketlake.ops.change.touched import Touched
from bucketlake.ops.clone.clone import CloneRequest, clone_into, clone_new, cloned_schemas
from bucketlake.ops.commit.loads import Loading, SourceFile, loaded, without_loaded
from bucketlake.ops.scan.system_tables import RowView, read_view
from bucketlake.ops.stream.position import Position
from bucketlake.ops.stream.source import Source
from bucketlake.ops.table.messages import CommitMessage
from bucketlake.ops.table.store import Store
from bucketlake.ops.write.prepare import new_commit_user, prepare_write
from bucketlake.ops.write.write import write_batches
from bucketlake.table import Table
from bucketlake.types.model import arrow_schema

MERGED, LOADED = 1_000_000, 2_000_000  # keys of rows that come by a MERGE, and from files
Rows = dict[tuple[int, int], tuple[int | None, int | None]]


def batch_of(store: Store, rows: Rows) -> pa.RecordBatch:
    """Rows with columns pt, k, a, b."""
    columns = [[key[0] for key in rows], [key[1] for key in rows], *zip(*rows.values(), strict=True)]
    schema = arrow_schema(store.schema.fields)
    arrays = [pa.array(list(column), item.type) for column, item in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def merge_rows(store: Store, part: int, keys: set[int], value: int, meant: Callable[[Rows], None]) -> None:
    """MERGE of a row for each key: WHEN MATCHED UPDATE, WHEN NOT MATCHED INSERT."""
    rows: Rows = {(part, key): (value, None) for key in sorted(keys)}
    where = Table(store, "t").predicate(f"pt = {part} AND k IN ({', '.join(map(str, sorted(keys)))})")
    assert where is not None

    def write(own: Store, snapshot: Any, touched: Sequence[Touched]) -> Iterator[CommitMessage]:
        yield from write_batches(own, [batch_of(own, rows)], prepare_write(own, snapshot))

    meant(rows)
    means = Means(found_here(where), write, anew=True, check=lambda base: MergeRead(store, base).check)
    change_rows(store, where, means, "MERGE")


def load_files(store: Store, numbers: Sequence[int], meant: Callable[[Rows], None]) -> list[int]:
    """COPY INTO of files, a row each, as the statement does it; the numbers of those that were loaded."""

    def once() -> list[int]:
        files = {number: SourceFile(f"file:/given/f{number}.csv", 10, 5) for number in numbers}
        skipped = loaded(store, list(files.values()))
        wanted = [number for number, file in files.items() if file not in skipped]
        if not wanted:
            return []
        rows: Rows = {(number % 2 + 1, LOADED + number): (number, None) for number in wanted}
        meant(rows)
        with Loading(store, new_commit_user(store), [(files[number], 1) for number in wanted]) as loading:
            task = prepare_write(store, store.latest_snapshot(), commit_user=loading.user)
            messages = write_batches(store, [batch_of(store, rows)], task)
            loading.begin()
            loading.finish(Table(store, "t").commit(messages, loading))
        return wanted

    return without_loaded(once)


CLONES = ("memory://wh/db.db/c0", "memory://wh/db.db/c1")


def clone(store: Store, root: str, request: CloneRequest) -> None:
    """A snapshot as a new table, or over one that is there."""
    target = Store.of(store.env, root, store.latest_schema())
    if store.env.storage.list(target.paths.schema_dir):
        clone_into(store, target.with_schema(target.latest_schema()), request)
    else:
        clone_new(store, target, cloned_schemas(store, {}), request)


class Follower:
    """A stream's reader that has a row for each key: what it was told of it last. Starts anew where its place is gone."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.at: Position | None = None
        self.state: dict[tuple[int, int], tuple[Any, ...]] = {}
        self.anew = 0

    def step(self) -> str | None:
        """Read up to the newest snapshot; its uuid, None where it is not certain that it is that one."""
        source = Source.of(self.store)
        state = dict(self.state)
        try:
            start = source.origin() if self.at is None else self.at
            if self.at is None:
                state = {}
            end = source.following(start)
            for group in source.batch(start, end):
                for split in group:
                    self._apply(state, split)
        except (NotFoundError, InvalidError):
            self.at, self.state = None, {}
            self.anew += 1
            raise
        self.at, self.state = end, state
        last = self.store.find_snapshot(end.snapshot - 1)
        return last.uuid if last is not None and last.delta_manifest_list == end.seen else None

    def _apply(self, state: dict[tuple[int, int], tuple[Any, ...]], split: Any) -> None:
        for batch in read_view(self.store, RowView("audit_log"), split):
            for row in batch.to_pylist():
                key = row["pt"], row["k"]
                if row["rowkind"] in ("+I", "+U"):
                    state[key] = row["a"], row["b"]
                else:
                    state.pop(key, None)
