"""Names: what may be one, at which doors they are checked, and numbers in the names of files."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pyarrow as pa
import pytest

import bucketlake
from bucketlake import Catalog, CorruptError, InvalidError, NotFoundError
from bucketlake.file_names import check_names, fault_of, number_of
from bucketlake.paths import TablePaths
from bucketlake.schema.change import SetOption
from bucketlake.table import open_table

SCHEMA = pa.schema([pa.field("k", pa.int64()), pa.field("v", pa.int64())])
ROWS = pa.table({"k": [1], "v": [1]})
NO_NAMES = ["", ".", "..", "a/b", "../x", "/x", "a\\b", "a\0", "a\nb", "\x7f", "x" * 256, "ü" * 128, "\ud800"]
TRAVERSALS = ["../other", "a/../../../other", "/etc", "a\\..\\b", "a\0b", ".."]


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return bucketlake.open(tmp_path / "wh")


@pytest.mark.parametrize("name", NO_NAMES)
def test_what_is_no_name(name: str) -> None:
    assert fault_of(name)
    with pytest.raises(CorruptError, match="holder"):
        check_names(["data-a-0.parquet", name], "/t/manifest/holder")
    paths = TablePaths("/t")
    for build in (paths.manifest, paths.index, paths.statistics, paths.tag, paths.branch, paths.consumer):
        with pytest.raises(InvalidError, match="not the name of"):
            build(name)


def test_what_is_a_name() -> None:
    names = ["a", "a b", "ü🦭", "...", "a..b", "-", "x" * 255, "data-%2F-0.parquet", "000000_0"]
    assert [fault_of(name) for name in names] == [None] * len(names)
    check_names(names, "holder")


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("7", 7),
        (str(2**63 - 1), 2**63 - 1),
        *[
            (text, None)
            for text in ("", "²", "٣", "007", "+7", "-7", " 7", "7\n", "1e3", "7_0", str(2**63), "9" * 5000)
        ],
    ],
)
def test_numbers_in_names(text: str, number: int | None) -> None:
    assert number_of(text) == number


PATH_OPTIONS = ["branch", "data-file.prefix", "changelog-file.prefix", "data-file.path-directory"]
# Slashes around a folder are left out: it lies in the table's. A prefix alone is no name.
HARMLESS = {("data-file.path-directory", "/etc"), ("data-file.prefix", ".."), ("changelog-file.prefix", "..")}


@pytest.mark.parametrize(("option", "value"), [c for c in product(PATH_OPTIONS, TRAVERSALS) if c not in HARMLESS])
def test_options_that_lead_elsewhere(catalog: Catalog, option: str, value: str) -> None:
    with pytest.raises(InvalidError, match=r"not the name|leads out"):
        catalog.create_table("bad", SCHEMA, options={option: value})
    assert not catalog.table_exists("bad")
    table = catalog.create_table("t", SCHEMA)
    with pytest.raises(InvalidError):
        table.with_options({option: value})
    with pytest.raises(InvalidError):
        table.alter(SetOption(option, value))
    with pytest.raises(InvalidError):
        open_table(table.path, catalog.env, options={option: value})


@pytest.mark.parametrize("option", ["branch", "data-file.prefix", "data-file.path-directory"])
def test_a_schema_file_that_leads_elsewhere(catalog: Catalog, option: str) -> None:
    """`branch` in a stored schema published into another table once."""
    catalog.create_table("other", SCHEMA)
    table = catalog.create_table("t", SCHEMA)
    file = Path(table.path) / "schema" / "schema-0"
    stored = file.read_text()
    for start in ('"options" : { }', '"options" : {'):
        if start in stored:
            hostile = f'"options" : {{ "{option}" : "a/../../../other"' + (" }" if start.endswith("{ }") else ",")
            file.write_text(stored.replace(start, hostile, 1))
            break
    with pytest.raises(CorruptError, match="schema-0"):
        catalog.table("t").write_arrow(ROWS)
    assert catalog.table("other").snapshots() == []


@pytest.mark.parametrize(
    "name", ["a/b", "`..`", "`../x`.t", "db.`a/b`", "`a\0`", "`x\n`", "x" * 300, "t$branch_../other"]
)
def test_names_in_the_catalog(catalog: Catalog, name: str) -> None:
    with pytest.raises(InvalidError, match="not a"):
        catalog.table(name)
    with pytest.raises(InvalidError, match="not a"):
        catalog.create_table(name, SCHEMA)
    with pytest.raises(InvalidError, match="not a"):
        catalog.drop_table(name)


def test_names_of_databases(catalog: Catalog) -> None:
    for name in ("../x", "..", "a/b", "a\0", "x" * 253):
        for action in (catalog.create_database, catalog.database_path):
            with pytest.raises(InvalidError, match="not a database name"):
                action(name)
    with pytest.raises((InvalidError, NotFoundError)):
        catalog.drop_database("../x", cascade=True)


def test_names_in_reads(catalog: Catalog) -> None:
    table = catalog.create_table("t", SCHEMA)
    table.write_arrow(ROWS)
    for option, value in (
        ("scan.tag-name", "../../x"),
        ("scan.version", "../x"),
        ("incremental-between", "../a,../b"),
    ):
        with pytest.raises(InvalidError, match="not the name of a tag"):
            table.to_arrow(**{option.replace("-", "_").replace(".", "_"): value})
    for version in ("²", "9" * 5000):
        with pytest.raises((NotFoundError, InvalidError)):
            table.to_arrow(scan_version=version)


@pytest.mark.parametrize("what", ["tag", "branch", "consumer"])
@pytest.mark.parametrize("name", ["..", ".", "a\nb", "a\\b"])
def test_a_name_that_nobody_can_say_is_told_with_its_file(catalog: Catalog, what: str, name: str) -> None:
    """What it holds on to is not known: no file goes before it is looked at."""
    table = catalog.create_table("t", SCHEMA)
    table.write_arrow(ROWS)
    file = Path(table.path, what, f"{what}-{name}")
    if what == "branch":
        file.mkdir(parents=True)
    else:
        file.parent.mkdir()
        file.write_bytes(Path(table.path, "snapshot", "snapshot-1").read_bytes() if what == "tag" else b"{}")
    asks = {"tag": table.tags, "branch": table.branches, "consumer": table.consumers}
    for call in (asks[what],) if what == "consumer" else (asks[what], table.fsck, table.remove_orphan_files):
        with pytest.raises(CorruptError, match=f"no {what} has") as raised:
            call()
        assert raised.value.details["path"] == str(file)
        assert "by hand" in str(raised.value)
