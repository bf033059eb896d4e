"""Faults of snapshots, schemas, tags, branches, consumers, changelogs and statistics."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.check.cases.case import appended, case, keyed
from tests.check.forged import (
    Row,
    live,
    newest,
    path_of,
    put,
    read,
    settle,
    some,
    table_of,
    with_file,
)

from bucketlake.schema.change import SetOption
from bucketlake.table import Table


@case("hint-latest")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = keyed(folder)
    Path(table.store.paths.latest_hint).write_text("17")
    return table, read(table)


@case("hint-earliest")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = keyed(folder)
    Path(table.store.paths.earliest_hint).write_text("not a number")
    return table, read(table)


@case("hint-changelog")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = table_of(
        folder,
        bucket="1",
        changelog_producer="input",
        **{"changelog.num-retained.max": "9", "changelog.num-retained.min": "9"},
    )
    table = table.with_options({"changelog.num-retained.min": "9", "changelog.time-retained": "9 d"})
    for start in range(3):
        table.write_arrow(some(start, start + 2))
    table.with_options({"changelog.num-retained.max": "9"}).expire_snapshots(retain_max=1, retain_min=1)
    Path(table.store.paths.changelog_latest_hint).write_text("1")
    return table, read(table)


@case("snapshot-broken")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = keyed(folder)
    Path(table.store.paths.snapshot(1)).write_text("{")
    return table, None


@case("newest-broken")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = keyed(folder)
    rows = read(table)
    table.write_arrow(some(3, 6, "lost"))
    Path(table.store.paths.snapshot(newest(table).id)).write_text("{")
    return table, rows


@case("snapshot-zombie")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = keyed(folder)
    put(table, replace(newest(table), id=9))
    Path(table.store.paths.latest_hint).write_text("9")
    Path(table.store.paths.earliest_hint).write_text("9")
    return table, read(table)


@case("snapshot-count")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = keyed(folder)
    put(table, replace(newest(table), total_record_count=3))
    return table, None


TRACKED = {"row-tracking.enabled": "true"}


@case("row-ids-free")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = appended(folder, **TRACKED)
    put(table, replace(newest(table), next_row_id=5))
    return table, None


@case("row-ids-shared")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = appended(folder, **TRACKED)
    one, two = live(table)
    settle(table, [one, with_file(two, first_row_id=3)])
    return table, None


@case("row-ids-missing")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = appended(folder, **TRACKED)
    one, two = live(table)
    settle(table, [one, with_file(two, first_row_id=None, write_cols=("k",))])
    return table, None


@case("chain-lost", "snapshot-count")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = appended(folder)
    last, first = newest(table), table.store.snapshot(1)
    put(table, replace(last, base_manifest_list=first.base_manifest_list, base_manifest_list_size=None))
    return table, None


@case("chain-extra", "snapshot-count")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = appended(folder)
    first = table.store.snapshot(1)
    empty = first.base_manifest_list
    put(table, replace(first, delta_manifest_list=empty, delta_manifest_list_size=None, total_record_count=0))
    return table, None


@case("schema-missing")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = keyed(folder)
    put(table, replace(newest(table), schema_id=7))
    return table, None


@case("schema-broken")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = keyed(folder)
    table = table.alter(SetOption("snapshot.num-retained.max", "77"))
    Path(table.store.paths.schema(0)).write_text("[]")
    return table, None


@case("schema-chain")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = keyed(folder)
    schema = table.schema
    Path(table.store.paths.schema(2)).write_bytes(replace(schema, id=2).encode())
    return table, None


@case("tag-broken")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = keyed(folder)
    table.create_tag("one")
    Path(table.store.paths.tag("one")).write_text("{}")
    return table, None


@case("tag-dead", "data-file-missing")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = appended(folder)
    table.create_tag("one", 1)
    gone = live(table)[0]
    table.truncate()
    table.expire_snapshots(retain_max=1, retain_min=1)
    path_of(table, gone).unlink()
    return table, None


@case("branch-dead")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = keyed(folder)
    table.create_tag("one")
    table.create_branch("b", "one")
    Path(table.store.on_branch("b").paths.schema(0)).unlink()
    return table, None


@case("consumer-broken")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = keyed(folder)
    _consumer(table, "[]")
    return table, None


@case("consumer-ahead")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = keyed(folder)
    _consumer(table, '{"nextSnapshot": 90}')
    return table, read(table)


@case("consumer-behind")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = keyed(folder)
    table.expire_snapshots(retain_max=1, retain_min=1)
    _consumer(table, '{"nextSnapshot": 1}')
    return table, None


def _consumer(table: Table, text: str) -> None:
    path = Path(table.store.paths.consumer("c"))
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)


@case("changelog-broken")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = keyed(folder)
    path = Path(table.store.paths.changelog(1))
    path.parent.mkdir()
    path.write_text("no")
    return table, None


@case("statistics-missing")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = keyed(folder)
    put(table, replace(newest(table), statistics="stat-gone"))
    return table, read(table)


@case("statistics-broken")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = keyed(folder)
    path = Path(table.store.paths.statistics("stat-1"))
    path.parent.mkdir()
    path.write_text('{"snapshotId": "x"}')
    put(table, replace(newest(table), statistics="stat-1"))
    return table, read(table)
