"""Names and folders: layout, partition texts both ways, and the folders that Paimon made."""

from __future__ import annotations

import datetime as dt
import pickle
from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import corpus
from tests.format.rows import BOOLEAN, DATE, DOUBLE, FLOAT, KINDS, TIME, decimal, stamp, values_of, zoned
from tests.sim.clock import FakeClock

from bucketlake.env.env import Env
from bucketlake.env.local import LocalStorage
from bucketlake.errors import CorruptError, InvalidError
from bucketlake.format.index.index_manifest import IndexFile
from bucketlake.format.metadata.manifest import DataFile, decode_manifest
from bucketlake.format.metadata.stats import EMPTY_STATS
from bucketlake.format.row.binary_row import EMPTY_ROW, serialized
from bucketlake.paths import TablePaths, escape, unescape
from bucketlake.schema.schema import TableSchema
from bucketlake.types.model import BYTES, INT, STRING, DataField, DataType, Root

UTC = dt.timezone.utc
FILE = DataFile("data-a-0.parquet", 1, 1, EMPTY_ROW, EMPTY_ROW, EMPTY_STATS, EMPTY_STATS, 0, 0, 0, 0)


def paths_of(*kinds: DataType, **options: str) -> TablePaths:
    fields = tuple(DataField(i, f"p{i}", kind) for i, kind in enumerate(kinds))
    return TablePaths("/wh/db.db/t", fields, {key.replace("__", "."): value for key, value in options.items()})


def text_of(value, kind: DataType, legacy: bool = True) -> str:
    paths = replace(paths_of(kind), options={"partition.legacy-name": str(legacy).lower()})
    return paths.partition_texts(serialized([value], [kind]))["p0"]


def test_metadata_layout():
    paths = paths_of()
    assert paths.schema(3) == "/wh/db.db/t/schema/schema-3"
    assert paths.snapshot(7) == "/wh/db.db/t/snapshot/snapshot-7"
    assert paths.latest_hint == "/wh/db.db/t/snapshot/LATEST"
    assert paths.earliest_hint == "/wh/db.db/t/snapshot/EARLIEST"
    assert paths.changelog(2) == "/wh/db.db/t/changelog/changelog-2"
    assert paths.manifest("m") == "/wh/db.db/t/manifest/m"
    assert paths.index("i") == "/wh/db.db/t/index/i"
    assert paths.statistics("s") == "/wh/db.db/t/statistics/s"
    assert paths.tag("v1") == "/wh/db.db/t/tag/tag-v1"
    assert paths.consumer("c") == "/wh/db.db/t/consumer/consumer-c"
    assert paths.branch("b") == "/wh/db.db/t/branch/branch-b"


def test_branches_have_their_own_metadata_and_share_files():
    paths = replace(paths_of(), options={"branch": "b"})
    assert paths.schema(0) == "/wh/db.db/t/branch/branch-b/schema/schema-0"
    assert paths.snapshot(1) == "/wh/db.db/t/branch/branch-b/snapshot/snapshot-1"
    assert paths.tag("x") == "/wh/db.db/t/branch/branch-b/tag/tag-x"
    assert paths.manifest("m") == "/wh/db.db/t/manifest/m"
    assert paths.bucket_dir(EMPTY_ROW, 0) == "/wh/db.db/t/bucket-0"


def test_bucket_folders():
    paths = paths_of(INT, STRING)
    row = serialized([5, "a/b"], [INT, STRING])
    assert paths.bucket_dir(row, 3) == "/wh/db.db/t/p0=5/p1=a%2Fb/bucket-3"
    assert paths.bucket_dir(row, -2) == "/wh/db.db/t/p0=5/p1=a%2Fb/bucket-postpone"
    moved = replace(paths, options={"data-file.path-directory": "data/x"})
    assert moved.bucket_dir(row, 0) == "/wh/db.db/t/data/x/p0=5/p1=a%2Fb/bucket-0"


def test_file_paths():
    paths = paths_of()
    folder = paths.bucket_dir(EMPTY_ROW, 0)
    assert paths.file_path(folder, FILE) == f"{folder}/data-a-0.parquet"
    assert paths.extra_path(folder, FILE, "x.index") == f"{folder}/x.index"
    away = replace(FILE, external_path="s3://other/t/bucket-0/data-a-0.parquet")
    open_to = replace(paths, options={"data-file.external-paths": "s3://more, s3://other/t/"}, external=("s3://other",))
    assert open_to.file_path(folder, away) == away.external_path
    assert open_to.extra_path(folder, away, "x.index") == "s3://other/t/bucket-0/x.index"
    assert open_to.external_roots == ("s3://other/t",)
    with pytest.raises(CorruptError, match=r"outside of the table's folder.*s3://other/t/bucket-0"):
        paths.file_path(folder, away)
    with pytest.raises(InvalidError, match="allowed-external-paths"):
        replace(open_to, external=("s3://another",)).file_path(folder, away)
    for wrong in ("s3://other/t/../u/x", "s3://other/tx/y", "/etc/passwd", "file:///etc/passwd", "s3://other/t//x"):
        with pytest.raises(CorruptError):
            open_to.file_path(folder, replace(FILE, external_path=wrong))
    index = IndexFile("HASH", "index-a-0", 1, 1)
    assert paths.index_path(EMPTY_ROW, 2, index) == "/wh/db.db/t/index/index-a-0"
    near = replace(paths, options={"index-file-in-data-file-dir": "true"})
    assert near.index_path(EMPTY_ROW, 2, index) == "/wh/db.db/t/bucket-2/index-a-0"
    there = replace(open_to, options={"global-index.external-path": "s3://other/i"})
    assert there.index_path(EMPTY_ROW, 2, replace(index, external_path="s3://other/i/x")) == "s3://other/i/x"
    with pytest.raises(CorruptError):
        near.index_path(EMPTY_ROW, 2, replace(index, external_path="s3://o/i"))


@pytest.mark.parametrize("own", ["s3", "s3a"])
def test_external_paths_are_one_under_each_scheme_of_a_store(own):
    """Files that the manifests name by one scheme are where the folder of the other one is looked through."""
    options = {"data-file.external-paths": "s3://out/t/, gs://out/t"}
    paths = replace(paths_of(), root=f"{own}://wh/t", options=options, external=("s3a://out/t", "gcs://out"))
    for scheme in ("s3", "s3a", "s3n"):
        away = replace(FILE, external_path=f"{scheme}://out/t/bucket-0/data-a-0.parquet")
        assert paths.file_path("", away) == f"{own}://out/t/bucket-0/data-a-0.parquet"
        inside = replace(FILE, external_path=f"{scheme}://wh/t/bucket-0/data-a-0.parquet")
        assert paths.file_path("", inside) == f"{own}://wh/t/bucket-0/data-a-0.parquet"
    assert paths.external_roots == (f"{own}://out/t",)
    with pytest.raises(InvalidError, match="allowed-external-paths"):
        paths.file_path("", replace(FILE, external_path="gs://out/t/x"))


def test_fresh_names():
    env = Env(LocalStorage(), FakeClock())
    paths = paths_of()
    drawn = [paths.new_manifest(env), paths.new_manifest(env), paths.new_manifest_list(env), paths.new_index(env)]
    assert len(set(drawn)) == 4
    assert drawn[2].startswith("manifest-list-")
    assert paths.new_index_manifest(env).startswith("index-manifest-")
    assert paths.data_file_name("u", 3, "parquet", "zstd") == "data-u-3.parquet"
    assert paths.data_file_name("u", 3, "orc", "zstd", changelog=True) == "changelog-u-3.orc"
    named = replace(
        paths,
        options={"data-file.prefix": "d_", "changelog-file.prefix": "c_", "file.suffix.include.compression": "true"},
    )
    assert named.data_file_name("u", 0, "parquet", "zstd") == "d_u-0.zst.parquet"
    assert named.data_file_name("u", 0, "parquet", "snappy", changelog=True) == "c_u-0.snappy.parquet"
    assert named.data_file_name("u", 0, "avro", "none") == "d_u-0.avro"


@pytest.mark.parametrize(
    ("value", "kind", "legacy", "plain"),
    [
        (True, BOOLEAN, "true", "true"),
        (-5, INT, "-5", "-5"),
        (Decimal("-1.50"), decimal(10, 2), "-1.50", "-1.50"),
        (Decimal("0.0000000001"), decimal(38, 10), "0.0000000001", "0.0000000001"),
        (dt.date(2024, 1, 1), DATE, "19723", "2024-01-01"),
        (dt.date(1, 2, 3), DATE, "-719129", "0001-02-03"),
        (dt.time(1, 2, 3), TIME, "3723000", "01:02:03.0"),
        (dt.time(1, 2, 3, 120000), TIME, "3723120", "01:02:03.12"),
        (dt.datetime(2024, 1, 1), stamp(3), "2024-01-01T00:00", "2024-01-01 00:00:00.000"),
        (dt.datetime(2024, 1, 1, 12, 30), stamp(0), "2024-01-01T12:30", "2024-01-01 12:30:00"),
        (dt.datetime(2024, 1, 1, 12, 30, 0, 500), stamp(6), "2024-01-01T12:30:00.000500", "2024-01-01 12:30:00.000500"),
        (dt.datetime(1, 1, 1, 0, 0, 9), stamp(3), "0001-01-01T00:00:09", "0001-01-01 00:00:09.000"),
        (1, stamp(9), "1970-01-01T00:00:00.000000001", "1970-01-01 00:00:00.000000001"),
        (dt.datetime(2024, 1, 1, tzinfo=UTC), zoned(3), "2024-01-01T00:00", None),
        (1.0, DOUBLE, "1.0", "1.0"),
        (1e7, DOUBLE, "1.0E7", "1.0E7"),
        (0.001, DOUBLE, "0.001", "0.001"),
        (0.00012, DOUBLE, "1.2E-4", "1.2E-4"),
        (-1234567.5, DOUBLE, "-1234567.5", "-1234567.5"),
        (0.10000000149011612, FLOAT, "0.1", "0.1"),
        (3.4028234663852886e38, FLOAT, "3.4028235E38", "3.4028235E38"),
        (float("nan"), DOUBLE, "NaN", "NaN"),
        (None, INT, "__DEFAULT_PARTITION__", "__DEFAULT_PARTITION__"),
        ("", STRING, "__DEFAULT_PARTITION__", "__DEFAULT_PARTITION__"),
        (" \t\u2003", STRING, "__DEFAULT_PARTITION__", "__DEFAULT_PARTITION__"),
        ("\u00a0", STRING, "\u00a0", "\u00a0"),
    ],
)
def test_texts_of_values(value, kind, legacy, plain):
    assert text_of(value, kind) == legacy
    assert plain is None or text_of(value, kind, legacy=False) == plain


def test_default_name_is_an_option():
    paths = replace(paths_of(STRING), options={"partition.default-name": "none"})
    assert paths.partition_path(serialized([None], [STRING])) == "p0=none"
    assert paths.partition_bytes({"p0": "none"}) == serialized([None], [STRING])


def test_binary_columns_make_paths_where_values_are_cast():
    assert text_of("2021/ü".encode(), BYTES, legacy=False) == "2021/ü"
    paths = paths_of(BYTES, **{"partition.legacy-name": "false"})
    stored = serialized([b"2021"], [BYTES])
    assert paths.partition_path(stored) == "p0=2021"
    assert paths.partition_bytes({"p0": "2021"}) == stored
    with pytest.raises(InvalidError, match="partition.legacy-name"):
        text_of(b"x", BYTES)
    with pytest.raises(InvalidError, match="UTF-8.*value=ff00"):
        text_of(b"\xff\x00", BYTES, legacy=False)


def test_escaping():
    assert escape("a\x01\"#%'*/:=?\\\x7f{}[]^b") == "a%01%22%23%25%27%2A%2F%3A%3D%3F%5C%7F%7B%7D%5B%5D%5Eb"
    assert escape("ü 🦭+&.") == "ü 🦭+&."
    assert unescape("100%") == "100%"
    assert unescape("%zz%2F") == "%zz/"
    with pytest.raises(InvalidError, match="empty"):
        escape("")


@given(st.text(min_size=1))
def test_escaping_round_trips(text):
    assert unescape(escape(text)) == text
    assert not set(escape(text)) & set("/=:*?\"'\\#[]{}^\x00\n\x7f")


@given(st.data())
def test_texts_lead_back_to_values(data):
    kind = data.draw(st.sampled_from([k for k in KINDS if k.root is not Root.VARBINARY and k.root is not Root.CHAR]))
    value = data.draw(values_of(kind))
    paths = paths_of(kind)
    stored = serialized([value], [kind])
    texts = paths.partition_texts(stored)
    segment = paths.partition_path(stored).rstrip("/")
    assert {"p0": unescape(segment.removeprefix("p0="))} == texts
    if texts["p0"] != "__DEFAULT_PARTITION__" and kind.root is not Root.TIMESTAMP_LTZ:
        assert paths.partition_bytes(texts) == stored


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("x", INT),
        ("99999999999", INT),
        ("1.234", decimal(5, 2)),
        ("maybe", BOOLEAN),
        ("2024-13-01", DATE),
        ("noon", stamp(3)),
    ],
)
def test_texts_that_are_no_values_are_named(text, kind):
    with pytest.raises(InvalidError, match="not a value of its column"):
        paths_of(kind).partition_bytes({"p0": text})


def test_specs_need_all_columns():
    with pytest.raises(InvalidError, match="partition_keys"):
        paths_of(INT, STRING).partition_bytes({"p0": "1"})
    assert paths_of().partition_bytes({}) == EMPTY_ROW


def test_paths_travel():
    paths = paths_of(INT, data__file="x")
    assert pickle.loads(pickle.dumps(paths)) == paths


def test_paimons_files_are_where_we_look_for_them(tmp_path):
    warehouse = corpus.unpack(tmp_path)
    seen = 0
    for root in sorted((warehouse / "corpus.db").iterdir()):
        schema = TableSchema.decode((root / "schema" / "schema-0").read_bytes())
        paths = TablePaths(str(root), schema.partition_fields, schema.options)
        stored = {str(path) for path in root.rglob("*") if path.is_file()}
        listed = set()
        for manifest in root.glob("manifest/manifest-[0-9a-f]*"):
            for entry in decode_manifest(manifest.read_bytes(), manifest.name):
                listed.add(paths.file_path(paths.bucket_dir(entry.partition, entry.bucket), entry.file))
        data = {path for path in stored if "/bucket-" in path and not path.endswith(".index")}
        assert data <= listed or root.name in ("index_dir", "expired"), (root.name, sorted(data - listed)[:2])
        seen += len(data)
    assert seen > 200
