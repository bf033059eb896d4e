from __future__ import annotations

import pickle

import pytest

from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.options.options import (
    OPTIONS,
    TableOptions,
    find_option,
    immutable,
    option_text,
    parse_duration,
    parse_memory_size,
    refuse_options,
    validate,
)


@pytest.mark.parametrize("key", list(OPTIONS))
def test_every_default_parses_and_every_row_is_told(key):
    row = OPTIONS[key]
    TableOptions().get(key)
    assert row.doc
    assert row.effect in ("honoured", "kept", "refused")


@pytest.mark.parametrize(
    ("text", "millis"),
    [("10 s", 10_000), ("1h", 3_600_000), ("5 MIN", 300_000), ("250", 250), ("2 days", 172_800_000), ("1500 µs", 1),
     ("1 milli", 1), ("999 ns", 0), (" 7  ms ", 7)],
)  # fmt: skip
def test_durations(text, millis):
    assert parse_duration(text) == millis


@pytest.mark.parametrize(
    ("text", "size"),
    [("128 mb", 1 << 27), ("1 GB", 1 << 30), ("64k", 65536), ("12", 12), ("3 bytes", 3), ("1t", 1 << 40)],
)
def test_memory_sizes(text, size):
    assert parse_memory_size(text) == size


@pytest.mark.parametrize("text", ["", "mb", "-1 mb", "1.5 gb", "1 parsec", "99999999999999999999", "9999999999999 tb"])
def test_malformed_sizes_and_durations(text):
    with pytest.raises(InvalidError):
        parse_memory_size(text)
    with pytest.raises(InvalidError):
        parse_duration(text.replace("9999999999999 tb", "x"))


def test_typed_access():
    options = TableOptions({"bucket": "4", "write.compaction-skip": "TRUE", "file.format.per.level": "0:avro, 5:orc"})
    assert options.get("bucket") == 4
    assert options.get("write-only") is True  # by its older name
    assert options.get("file.format.per.level") == {"0": "avro", "5": "orc"}
    assert options.get("snapshot.time-retained") == 3_600_000
    assert options.get("snapshot.num-retained.max") == 2**31 - 1
    assert options.get("target-file-size") is None
    assert options.get("my-own") is None
    assert TableOptions({"merge-engine": "PARTIAL_UPDATE"}).get("merge-engine") == "partial-update"
    assert TableOptions({"sequence.field": "a, b"}).names("sequence.field") == ["a", "b"]
    assert not options.is_set("bucket-key")
    assert options.is_set("write-only")


def test_options_laid_over():
    options = TableOptions({"bucket": "4", "write-only": "true"}).with_({"write-only": False, "bucket": None, "x": 1})
    assert options.raw == {"write-only": "false", "x": "1"}
    assert pickle.loads(pickle.dumps(options)) == options


@pytest.mark.parametrize(
    ("key", "value"), [("bucket", "four"), ("write-only", "yes"), ("merge-engine", "lsm"), ("target-file-size", "big")]
)
def test_malformed_values_name_their_option(key, value):
    with pytest.raises(InvalidError, match=f"Could not parse value .* for key '{key}'"):
        TableOptions({key: value}).get(key)
    with pytest.raises(InvalidError, match=key):
        validate({key: value})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("bucket", str(2**31)),
        ("bucket", "4_0"),
        ("bucket", "\u0663"),
        ("bucket", " 4"),
        ("num-levels", "1"),
        ("num-levels", str(2**31 - 1)),
        ("scan.snapshot-id", str(2**63)),
        ("target-file-size", "0 b"),
        ("manifest.target-file-size", "0"),
        ("compaction.small-file-ratio", "nan"),
        ("compaction.small-file-ratio", "inf"),
        ("compaction.offpeak.end.hour", "24"),
        ("file.compression.zstd-level", "23"),
        ("commit.max-retries", "-1"),
        ("write-buffer-size", "-1"),
        ("snapshot.time-retained", "-1 h"),
        ("snapshot.num-retained.min", "0"),
        ("file.compression", ""),
        ("manifest.compression", " "),
        ("partition.default-name", ""),
        ("merge-engine", ""),
        ("merge-engine", "FIRST_ROW"),  # Paimon could not read the table: it knows FIRST-ROW
        ("merge-engine", " first-row"),
        ("partition.sink-strategy", "partition-dynamic"),
        ("write-only", "true "),
        ("compaction.small-file-ratio", "0.1_0"),
        ("fields.a.sequence-group", "b, c"),  # Paimon: Field  c can not be found
        ("upsert-key", "a ,b"),
    ],
)
def test_values_out_of_range_name_their_option(key, value):
    with pytest.raises(InvalidError, match=f"option={key}"):
        validate({key: value})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("bucket", "-2"),
        ("bucket", "+4"),
        ("scan.timestamp-millis", str(2**40)),
        ("num-sorted-run.stop-trigger", str(2**31 - 1)),
        ("target-file-row-num", str(2**63 - 1)),
        ("data-file.prefix", ""),
        ("file.compression.zstd-level", "-7"),
        ("merge-engine", "FIRST-ROW"),
        ("partition.sink-strategy", "PARTITION_DYNAMIC"),
        ("write-only", "TRUE"),
        ("sequence.field", "a, b"),
        ("fields.a.sequence-group", "b,c"),
    ],
)
def test_values_at_the_edge_are_fine(key, value):
    assert validate({key: value}) == []


@pytest.mark.parametrize("key", list(OPTIONS))
def test_every_default_may_be_set(key):
    if OPTIONS[key].default is not None:
        assert validate({key: OPTIONS[key].default}) == []


def test_near_misses_are_warned_of():
    (warning,) = validate({"buckets": "4", "something.of-my-own": "1", "fields.a.aggregate-function": "sum"})
    assert "'buckets'" in warning
    assert "'bucket'" in warning


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("type", "format-table"),
        ("query-auth.enabled", "true"),
        ("blob-view-field", "b"),
        ("vector.file.format", "vortex"),
        ("file.format", "lance"),
        ("file.format.per.level", "0:csv"),
        ("manifest.format", "orc"),
    ],
)
def test_what_could_make_rows_wrong_is_refused_for_reading_too(key, value):
    for writing in (True, False):
        with pytest.raises(UnsupportedError, match=key.split(".")[0]):
            refuse_options({key: value}, for_writing=writing)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("metadata.iceberg.storage", "table-location"),
        ("commit.callbacks", "x.Y"),
        ("tag.callback.x.param", "1"),
        ("pk-vector.index.columns", "v"),
    ],
)
def test_what_only_writers_must_do_is_refused_for_writing(key, value):
    refuse_options({key: value}, for_writing=False)
    with pytest.raises(UnsupportedError, match=key.split(".")[0]):
        refuse_options({key: value})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("row-tracking.enabled", "false"),
        ("type", "TABLE"),
        ("type", "materialized-table"),
        ("materialized-table.refresh-mode", "FULL"),
        ("file.format", "ORC"),
    ],
)
def test_refused_options_at_rest_are_fine(key, value):
    refuse_options({key: value})


def test_immutable_keys():
    assert immutable("merge-engine")
    assert immutable("bucket-key")
    assert not immutable("bucket")
    assert not immutable("write-only")
    assert not immutable("unknown")


def test_families_of_keys():
    for key in (
        "fields.a,b.sequence-group",
        "file-index.bloom-filter.columns",
        "parquet.block.size",
        "sink.parallelism",
    ):
        assert find_option(key) is not None
    assert find_option("first-row.ignore-delete") is OPTIONS["ignore-delete"]
    assert find_option("nothing.like-it") is None


def test_the_text_of_a_value():
    assert [option_text(value) for value in (True, 4, "a", ["a", "b"], ("a", 2, False))] == [
        *("true", "4", "a", "a,b", "a,2,false")
    ]
    for value in ({"a": 1}, {"a"}):
        with pytest.raises(InvalidError, match="no text"):
            option_text(value)
