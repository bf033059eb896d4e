"""Data files in folders outside of the table's: which file goes where, and what every operation makes of them there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import bucketlake
from bucketlake.catalog import Catalog
from bucketlake.errors import InvalidError
from bucketlake.ops.clean.orphans import remove_orphans
from bucketlake.ops.rows.places import hashed_folders, murmur3
from bucketlake.options.options import TableOptions
from bucketlake.schema.change import SetOption
from bucketlake.schema.external_folders import external_folders
from bucketlake.table import Table

FUTURE = 1 << 60
PATHS, STRATEGY = "data-file.external-paths", "data-file.external-paths.strategy"
COLUMNS = pa.schema(
    [pa.field("p", pa.string(), nullable=False), pa.field("id", pa.int64(), nullable=False), ("v", pa.string())]
)


def folders(text: str, strategy: str, **more: str) -> Any:
    return external_folders(
        TableOptions({PATHS: text, STRATEGY: strategy, **{f"{PATHS}.{k}": v for k, v in more.items()}})
    )


def test_what_the_options_say() -> None:
    assert folders("file:///a", "none") is None
    assert external_folders(TableOptions({STRATEGY: "round-robin"})) is None
    found = folders(" file:///a/b/ ,s3://c/d", "round-robin")
    assert found.folders == ("file:/a/b", "s3://c/d")
    assert [found.first(chance) for chance in (0.0, 0.49, 0.5, 0.99)] == [0, 0, 1, 1]
    assert folders("file:///a, S3://c", "specific-fs", **{"specific-fs": "s3"}).folders == ("S3://c",)
    weighted = folders("file:///a,file:///b,file:///c", "weight-robin", weights="1, 2,1")
    assert [weighted.first(chance) for chance in (0.0, 0.24, 0.25, 0.74, 0.75, 0.999)] == [0, 0, 1, 1, 2, 2]
    assert folders("file:///a", "weight-robin", weights="1,2").weights == ()
    assert folders("file:///a,file:///b", "weight-robin").weights == ()
    for wrong, says in [
        (("/a", "round-robin"), "scheme should not be null"),
        (("file:///a", "specific-fs"), "specificFS should not be null"),
    ]:
        with pytest.raises(InvalidError, match=says):
            folders(*wrong)
    for more, says in [
        ({"weights": "1,2,3"}, "should be the same. Paths: 2, Weights: 3"),
        ({"weights": "1,0"}, "Weight must be positive"),
        ({"weights": "1,x"}, "Weight must be positive"),
    ]:
        with pytest.raises(InvalidError, match=says):
            folders("file:///a,file:///b", "weight-robin", **more)
    with pytest.raises(InvalidError, match="should not be empty"):
        folders("file:///a", "specific-fs", **{"specific-fs": "oss"})


def test_hashes_are_guavas() -> None:
    assert [
        murmur3(data) for data in (b"", b"a", b"abc", b"hello", b"The quick brown fox jumps over the lazy dog")
    ] == [*(0, 0x3C2569B2, 0xB3DD93FA, 0x248BFA47, 0x2E4FF723)]
    bits = f"{0x248BFA47 | 1 << 31:032b}"[-20:]
    assert hashed_folders("hello") == "/".join((bits[:4], bits[4:8], bits[8:12], bits[12:]))


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    opened = bucketlake.open(tmp_path / "wh", {"allowed-external-paths": str(tmp_path / "out")})
    opened.create_database("db")
    yield opened


def places(tmp_path: Path, count: int) -> str:
    return ",".join(f"file://{tmp_path}/out/{number}" for number in range(count))


def made(catalog: Catalog, tmp_path: Path, strategy: str, count: int = 2, **options: str) -> Table:
    keyed = options.pop("keyed", "true") == "true"
    own = {PATHS: places(tmp_path, count), STRATEGY: strategy, "bucket": "2" if keyed else "-1", **options}
    keys = ("p", "id") if keyed else ()
    return catalog.create_table("db.t", COLUMNS, partition_keys=("p",), primary_keys=keys, options=own)


def rows(*ids: int, value: str = "x") -> pa.Table:
    return pa.table({"p": ["a"] * len(ids), "id": list(ids), "v": [value] * len(ids)}, COLUMNS)


def on_disk(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("strategy", ["round-robin", "entropy-inject", "specific-fs", "weight-robin"])
def test_a_table_lives_outside(catalog: Catalog, tmp_path: Path, strategy: str) -> None:
    """Written, read, merged, checked, expired, cleaned and overwritten there; what lies beside stays."""
    more = {f"{PATHS}.specific-fs": "file", f"{PATHS}.weights": "1,3", "file-index.bloom-filter.columns": "v"}
    more |= {"file-index.in-manifest-threshold": "1 b", "data-file.path-directory": "data"}
    table, out = made(catalog, tmp_path, strategy, **more), tmp_path / "out"
    for number in range(3):
        table.write_arrow(rows(*range(8), value=str(number)))
    assert not [name for name in on_disk(Path(table.path)) if "bucket-" in name]
    found = [Path(file.path).relative_to(out) for file in table.files()]
    assert {path.parts[0] for path in found} <= {"0", "1"}
    assert all(path.parts[1:3] == ("data", "p=a") and path.parts[3].startswith("bucket-") for path in found)
    assert all(len(path.parts) == (9 if strategy == "entropy-inject" else 5) for path in found)
    assert {row["v"] for row in table.to_arrow().to_pylist()} == {"2"}
    assert {row["file_path"] for row in catalog.table("db.t$files").to_arrow().to_pylist()} == {
        f"file:{out / path}" for path in found
    }
    table.compact(full=True)
    assert table.to_arrow(where="id = 3").to_pylist() == [{"p": "a", "id": 3, "v": "2"}]
    assert not table.fsck(level="rows").findings
    table.expire_snapshots(retain_max=1, retain_min=1)
    live = {str(Path(file.path).relative_to(out)) for file in table.files()}
    assert {name.removesuffix(".index") for name in on_disk(out)} == live
    stray = out / Path(sorted(live)[0]).parent / "data-stray-0.parquet"
    (out / "0").mkdir(exist_ok=True)
    for path in (stray, out / "0" / "of others.parquet"):
        path.write_bytes(b"1")
    assert list(remove_orphans(table.store, FUTURE).paths) == [str(stray)]
    table.write_arrow(rows(1), mode="overwrite")
    table.expire_snapshots(retain_max=1, retain_min=1)
    assert len([name for name in on_disk(out) if name.endswith(".parquet")]) == 2


def test_files_take_turns_and_failed_writes_leave_none(catalog: Catalog, tmp_path: Path) -> None:
    table = made(catalog, tmp_path, "round-robin", 3, keyed="false", **{"target-file-row-num": "1"})
    table.write_arrow(rows(*range(7)))
    used = [Path(file.path).relative_to(tmp_path / "out").parts[0] for file in table.files()]
    assert sorted(map(used.count, "012")) == [2, 2, 3]
    before = on_disk(tmp_path / "out")
    bad = pa.table({"p": ["a", "a"], "id": [8, None], "v": ["x", "y"]})
    with pytest.raises(InvalidError, match="null"):
        table.write_arrow([rows(1, 2).to_batches()[0], bad.to_batches()[0]])
    assert on_disk(tmp_path / "out") == before
    table.alter(SetOption(STRATEGY, "none"))
    catalog.table("db.t").compact(full=True)
    assert [file.path.startswith(table.path) for file in catalog.table("db.t").files()] == [True]
    assert sorted(row["id"] for row in catalog.table("db.t").to_arrow().to_pylist()) == list(range(7))


def test_a_drop_says_which_folders_stay(catalog: Catalog, tmp_path: Path) -> None:
    made(catalog, tmp_path, "round-robin").write_arrow(rows(1))
    before = on_disk(tmp_path / "out")
    with pytest.warns(UserWarning, match=r"out/0, .*out/1; remove the folders"):
        catalog.drop_table("db.t")
    assert before and on_disk(tmp_path / "out") == before


def test_what_the_session_does_not_allow_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    catalog = bucketlake.open(tmp_path / "wh", {"allowed-external-paths": f"{tmp_path}/out/0,s3://bucket"})
    catalog.create_database("db")
    table = made(catalog, tmp_path, "round-robin", 2)
    with pytest.raises(InvalidError, match="allowed-external-paths"):
        table.write_arrow(rows(1))
    table.alter(SetOption(PATHS, "s3://bucket/a"))
    with pytest.raises(InvalidError, match="another storage"):
        catalog.table("db.t").write_arrow(rows(1))
    assert not (tmp_path / "out").exists()
    assert table.latest_snapshot() is None
    for wrong in ({PATHS: "/plain", STRATEGY: "round-robin"}, {PATHS: "s3://a", STRATEGY: "specific-fs"}):
        with pytest.raises(InvalidError):
            catalog.create_table("db.u", COLUMNS, options=wrong)
