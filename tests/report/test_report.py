"""Facts about tables of every bucket mode, against what was done to them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.report.tables import hostile_table, lake_of_all_modes, rows

import bucketlake
from bucketlake.errors import CorruptError, InvalidError
from bucketlake.report import frames
from bucketlake.report.facts import Fact
from bucketlake.report.places import Wanted
from bucketlake.schema.change import AddColumn, RenameColumn, SetOption
from bucketlake.types.model import INT


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return lake_of_all_modes(tmp_path_factory.mktemp("lake"))


def plain(fact: Fact) -> Any:
    return json.loads(json.dumps(fact.to_dict()))


@pytest.mark.parametrize("name", ["fixed", "dynamic", "cross", "postpone", "log", "parts", "empty"])
def test_every_fact_of_every_mode_is_plain_and_adds_up(lake: Any, name: str) -> None:
    table = lake.table(f"shop.{name}")
    report, files = table.report, table.files(**{"scan.mode": "latest"})
    heat, sizes, listing = report.heat(), report.file_sizes(), report.files()
    everything = [heat, sizes, listing, report.timeline(), report.amplification(), report.evolution()]
    for fact in [*everything, report.overview(), report.activity(), *report.settings()]:
        plain(fact)
    cells = [cell for part in heat.partitions for cell in part.cells]
    assert (
        heat.files
        == sizes.files
        == listing.total
        == sum(cell.files for cell in cells)
        == sum(b.files for b in sizes.bins)
    )
    assert heat.bytes == sizes.bytes == sum(cell.bytes for cell in cells) == sum(b.bytes for b in sizes.bins)
    if name != "postpone":  # whose pending files a read does not open
        assert (heat.files, heat.bytes) == (len(files), sum(f.file.file_size for f in files))
    snapshots = table.snapshots()
    commits = report.timeline().commits
    assert [c.snapshot for c in commits] == [s.id for s in snapshots]
    assert sum(c.added_files - c.removed_files for c in commits) == heat.files
    moments = report.amplification().moments
    if moments:
        assert (moments[-1].live, moments[-1].files) == (heat.bytes, heat.files)
        assert sum(moments[-1].levels.values()) == heat.bytes
    for part in heat.partitions:
        for cell in part.cells:
            found = report.levels(part.key, cell.bucket)
            plain(found)
            assert (sum(level.size for level in found.levels), found.runs) == (cell.bytes, cell.runs)
            assert len(found.files) == cell.files
            for file in found.files if found.scale else ():
                assert 0 <= file.low <= file.high <= 1


def test_levels_show_runs_and_where_keys_lie(lake: Any) -> None:
    report = lake.table("shop.fixed").report
    found = report.levels(None, 0)
    assert (found.scale, found.key, found.trigger) == ("value", ["id"], 5)
    assert {level.level for level in found.levels} == {0, 5}
    top = [file for file in found.files if file.level == 5]
    fresh = [file for file in found.files if file.level == 0]
    assert len(fresh) == found.runs - 1
    assert fresh[0].run == 0 and top[0].run == len(fresh)
    assert [int(f.min_key) for f in fresh] == sorted((int(f.min_key) for f in fresh), reverse=True)  # newest first
    assert min(f.low for f in found.files) == 0 and max(f.high for f in found.files) == 1


def test_composite_and_text_keys_lie_by_rank(lake: Any) -> None:
    table = lake.create_table(
        "shop.ranked",
        pa.schema([("a", pa.string()), ("b", pa.int32())]),
        primary_keys=["a", "b"],
        options={"bucket": "1"},
    )
    for a, b in (("x", 5), ("x", 7), ("ä", 1)):
        table.write_arrow(pa.table({"a": [a], "b": pa.array([b], pa.int32())}))
    found = table.report.levels(None, 0)
    assert found.scale == "rank"
    assert {f.min_key: f.low for f in found.files} == {"x · 5": 0.0, "x · 7": 0.5, "ä · 1": 1.0}


def test_partitions_stand_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    columns = pa.schema([("p", pa.int32()), ("id", pa.int32())])
    table = bucketlake.open(tmp_path).create_table("t", columns, ["p"], options={"bucket": "-1"})
    table.write_arrow(pa.table({"p": pa.array(range(12), pa.int32()), "id": pa.array(range(12), pa.int32())}))
    assert [part.text for part in table.report.heat().partitions] == [f"p={n}" for n in range(12)]


def test_a_partition_is_named_by_its_values_or_its_key(lake: Any) -> None:
    report = lake.table("shop.parts").report
    part = next(p for p in report.heat().partitions if p.values == {"day": "2024-01-02"})
    assert part.text == "day=2024-01-02"
    assert report.levels({"day": "2024-01-02"}, 0) == report.levels(part.key, 0)
    for wrong in ("zz", "00", {"other": 1}, None):
        with pytest.raises((InvalidError, CorruptError)):
            report.levels(wrong, 0)


def test_compaction_is_no_growth_and_moved_files_were_not_written(lake: Any) -> None:
    table = lake.create_table("shop.moved", rows(0).schema, primary_keys=["id"], options={"bucket": "1"})
    table.write_arrow(rows(0))
    table.compact()
    last = table.report.timeline().commits[-1]
    assert (last.kind, last.moved_files, last.added_files, last.removed_files) == ("COMPACT", 1, 0, 0)
    assert table.report.amplification().moments[-1].write == 1.0
    table.write_arrow(rows(0))
    table.compact()
    end = table.report.amplification().moments[-1]
    assert end.write > 1 and end.overlap == 1.0 and end.space > 1
    assert table.report.timeline().commits[-1].words == "compaction of 2 files into 1"


def test_the_timeline_is_bounded_and_says_so(lake: Any) -> None:
    found = lake.table("shop.fixed").report.timeline(limit=2)
    assert (len(found), found.left_out) == (2, len(lake.table("shop.fixed").snapshots()) - 2)
    assert lake.table("shop.fixed").report.amplification(2).left_out == found.left_out


def test_tags_branches_and_consumers_stand_on_their_snapshots(lake: Any) -> None:
    table = lake.table("shop.log")
    table.create_tag("noon", 1)
    table.create_branch("try", tag="noon")
    table.reset_consumer("mails", 2)
    found = table.report.timeline()
    first, second = found.commits[:2]
    assert (first.tags, first.branches, second.consumers) == (["noon"], ["try"], ["mails"])
    assert found.consumers[0].lag == len(found.commits) - 1
    assert [(b.name, b.forked_from, b.commits) for b in found.branches] == [("try", 1, 1)]
    assert table.report.activity().consumers[0].name == "mails"


def test_schemas_tell_what_changed(lake: Any) -> None:
    table = lake.create_table("shop.evolving", rows(0).schema)
    table.alter(AddColumn("extra", INT), SetOption("snapshot.num-retained.min", "3"))
    table.alter(RenameColumn("extra", "more"))
    steps = table.report.evolution().steps
    assert [(c.column, c.change) for c in steps[1].columns] == [("extra", "added")]
    assert [(o.key, o.before, o.after) for o in steps[1].options] == [("snapshot.num-retained.min", None, "3")]
    assert [(c.column, c.change, c.before) for c in steps[2].columns] == [("more", "renamed", "extra")]
    assert [step.current for step in steps] == [True, False, False]  # the handle is older
    assert table.refresh().report.evolution().steps[-1].current


def test_settings_hide_secrets_and_compare_meanings(lake: Any) -> None:
    options = {"target-file-size": "131072 kb", "write-buffer-size": "64 mb", "my.secret-key": "hunter2"}
    table = lake.create_table("shop.set", rows(0).schema, primary_keys=["id"], options=options)
    found = {one.key: one for one in table.report.settings()}
    assert found["my.secret-key"].value == "***" and found["my.secret-key"].effect == "unknown"
    assert found["write-buffer-size"].differs
    assert found["bucket"].set is False and found["bucket"].value == "-1"
    assert found["write-buffer-size"].doc
    assert "hunter2" not in json.dumps([one.to_dict() for one in found.values()])
    assert "hunter2" not in json.dumps(table.report.evolution().to_dict())


def test_files_are_listed_in_stretches_of_any_order(lake: Any) -> None:
    report = lake.table("shop.fixed").report
    whole = report.files(Wanted("size", True, 0, 500)).files
    assert [f.size for f in whole] == sorted((f.size for f in whole), reverse=True)
    parts = [report.files(Wanted("size", True, start, 2)).files for start in range(0, len(whole), 2)]
    assert [f for part in parts for f in part] == whole
    with pytest.raises(InvalidError, match="order"):
        Wanted("colour")


def test_changes_between_two_snapshots_do_not_ask_what_came_between(lake: Any) -> None:
    table = lake.table("shop.fixed")
    first, last = table.snapshots()[0].id, table.snapshots()[-1].id
    forth, back = table.report.changes(first, last), table.report.changes(last, first)
    assert (forth.added_files, forth.removed_bytes) == (back.removed_files, back.added_bytes)
    assert table.report.changes(last, last).same_files == table.report.heat().files


def test_hostile_names_are_data(tmp_path: Path) -> None:
    table, names = hostile_table(tmp_path)
    report = table.report
    texts = {part.values["p"] for part in report.heat().partitions}
    assert texts == set(names)
    assert {tag.name for tag in report.timeline().tags} == {"<img src=x onerror=alert(1)>"}
    plain(report.overview())


def test_damage_is_said_where_it_is(tmp_path: Path) -> None:
    table, _ = hostile_table(tmp_path)
    snapshot = table.latest_snapshot()
    manifest = table.store.delta_manifests(snapshot)[0].file_name
    (Path(table.path) / "manifest" / manifest).write_bytes(b"no manifest")
    frames.clear()
    assert "cut short" in table.report.timeline().commits[-1].damaged
    assert "cut short" in table.report.overview().damaged
    with pytest.raises(CorruptError, match="cut short"):
        table.report.heat()


def test_a_stream_shows_its_batch(lake: Any) -> None:
    table = lake.table("shop.log")
    folder = Path(table.path) / "stream"
    folder.mkdir()
    (folder / "stream-orders").write_text(json.dumps({"version": 1, "batch": 7, "base": 1, "done": False}))
    (folder / "stream-<b>broken").write_text("{")
    states = {state.query: state for state in table.report.activity().streams}
    assert (states["orders"].batch, states["orders"].done) == (7, False)
    assert states["<b>broken"].batch is None
