from __future__ import annotations

import json
import pickle
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketlake.errors import CorruptError, InvalidError, NotFoundError, UnsupportedError
from bucketlake.schema.given import new_schema
from bucketlake.schema.schema import BucketMode, TableSchema, pretty_json
from bucketlake.schema.validation import refuse_undelivered, validate_schema
from bucketlake.schema.versions import create_schema
from bucketlake.types.model import DataField, type_text

from .strategies import columns, names, types

CORPUS = Path(__file__).parent.parent / "corpus" / "paimon-2.0.0.tar.gz"


def create(options=None, *, partition=(), primary=(), **fields):
    return create_schema(columns(**fields), partition, primary, options or {})


# ---- the file


@pytest.mark.skipif(not CORPUS.exists(), reason="the corpus of tables that Paimon wrote is not here")
def test_schema_files_that_paimon_wrote_are_reproduced_byte_for_byte():
    count = 0
    with tarfile.open(CORPUS) as archive:
        for member in archive:
            if member.isfile() and Path(member.name).name.startswith("schema-"):
                data = archive.extractfile(member).read()
                schema = TableSchema.decode(data)
                assert schema.encode() == data, member.name
                validate_schema(schema)
                count += 1
    assert count > 50


@given(
    st.dictionaries(names, types(), min_size=1, max_size=4),
    st.dictionaries(st.text("abc.-", min_size=1), st.text('a"\\ü\n', max_size=4), max_size=3),
    st.none() | st.text(max_size=5),
)
def test_json_round_trip(fields, options, comment):
    made = [DataField(i, name, t) for i, (name, t) in enumerate(fields.items())]
    schema = TableSchema(3, made, 9, options=options, comment=comment, time_millis=1)
    assert TableSchema.decode(schema.encode()) == schema
    assert pickle.loads(pickle.dumps(schema)) == schema
    assert json.loads(schema.encode())["options"] == options


def test_layout_of_the_text():
    assert pretty_json({"a": [], "b": {}, "c": [1, {"d": "ü"}]}) == (
        '{\n  "a" : [ ],\n  "b" : { },\n  "c" : [ 1, {\n    "d" : "ü"\n  } ]\n}'
    )


def test_older_versions_get_the_defaults_of_their_time():
    old = {"id": 0, "fields": [], "highestFieldId": 0, "partitionKeys": [], "primaryKeys": [], "options": {}}
    first = TableSchema.decode(json.dumps(old))
    assert (first.version, first.options) == (1, {"bucket": "1", "file.format": "orc"})
    second = TableSchema.decode(json.dumps({**old, "version": 2}))
    assert second.options == {"file.format": "orc"}


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"id": 0}', b"\xff"])
def test_broken_files(data):
    with pytest.raises(CorruptError):
        TableSchema.decode(data)


# ---- creation


def test_field_ids_are_unique_and_nested_ones_counted_as_paimon_does():
    schema = create(a="INT", r="ROW<x INT, y ROW<z INT>>", m="MAP<INT, ROW<k INT>>", b="INT")
    row = schema.field("r").type
    assert [f.id for f in schema.fields] == [0, 1, 5, 7]
    assert [f.id for f in row.fields] == [2, 4]
    assert row.fields[1].type.fields[0].id == 3
    assert schema.field("m").type.element.fields[0].id == 6
    assert schema.highest_field_id == 7


def test_keys_come_out_of_the_options():
    schema = create({"primary-key": "a, b", "partition": "b", "x": True}, a="INT", b="INT", c="INT")
    assert (schema.primary_keys, schema.partition_keys) == (("a", "b"), ("b",))
    assert schema.options == {"x": "true"}
    assert [type_text(f.type) for f in schema.fields] == ["INT NOT NULL", "INT NOT NULL", "INT"]
    assert schema.trimmed_primary_keys == schema.bucket_keys == ("a",)


@pytest.mark.parametrize(
    ("options", "partition", "primary", "mode"),
    [
        ({}, (), (), BucketMode.UNAWARE),
        ({"bucket": 2, "bucket-key": "a"}, (), (), BucketMode.FIXED),
        ({}, (), ("a",), BucketMode.DYNAMIC),
        ({}, ("b",), ("a", "b"), BucketMode.DYNAMIC),
        ({}, ("b",), ("a",), BucketMode.KEY_DYNAMIC),
        ({"bucket": 2}, ("b",), ("a",), BucketMode.FIXED),
        ({"bucket": -2}, (), ("a",), BucketMode.POSTPONE),
    ],
)
def test_bucket_modes(options, partition, primary, mode):
    assert create(options, partition=partition, primary=primary, a="INT", b="INT").bucket_mode is mode


def test_layout_of_key_value_files():
    schema = create({"bucket": 1}, primary=("p", "a"), partition=("p",), v="STRING", a="INT", p="INT")
    assert [(f.id, f.name) for f in schema.file_fields] == [
        (1073741824, "_KEY_a"),
        (2147483646, "_SEQUENCE_NUMBER"),
        (2147483645, "_VALUE_KIND"),
        (0, "v"),
        (1, "a"),
        (2, "p"),
    ]
    thin = create({"bucket": 1, "data-file.thin-mode": "true"}, primary=("a",), a="INT")
    assert [f.name for f in thin.file_fields] == ["_SEQUENCE_NUMBER", "_VALUE_KIND", "a"]
    assert [f.name for f in thin.key_value_fields] == ["_KEY_a", "_SEQUENCE_NUMBER", "_VALUE_KIND", "a"]
    assert create(a="INT").file_fields == create(a="INT").fields


def test_no_such_column():
    with pytest.raises(NotFoundError, match="column=x"):
        create(a="INT").field("x")


@pytest.mark.parametrize(
    ("options", "partition", "primary", "message"),
    [
        (
            {"bucket": -1, "bucket-key": "a"}, (), (),
            "Cannot define 'bucket-key' with bucket = -1, please remove the 'bucket-key' setting or specify a bucket "
            "number.",
        ),
        ({"bucket": 2}, (), (), "You should define a 'bucket-key' for bucketed append mode."),
        ({"bucket": 0}, (), ("a",), "The number of buckets needs to be greater than 0."),
        ({"bucket": -2}, (), (), "The number of buckets needs to be greater than 0."),
        ({"bucket": 2, "bucket-key": "n"}, (), (), "nested type can not in bucket-key, in your table these key are"),
        ({"bucket": 2, "bucket-key": "q"}, (), (), "should contains all bucket keys [q]"),
        ({"bucket": 2, "bucket-key": "b"}, ("b",), (), "Bucket keys [b] should not in partition keys [b]."),
        ({"bucket": 2, "bucket-key": "b"}, (), ("a",), "Primary keys [a] should contains all bucket keys [b]."),
        ({"bucket": 2, "bucket-key": "s", "bucket-function.type": "mod"}, (), (), "bucket key"),
        ({}, ("a",), ("a",), "this will result in only one record in a partition"),
        ({}, (), ("n",), "The type ArrayType in primary key field n is unsupported"),
        ({}, ("n",), (), "The type ArrayType in partition field n is unsupported"),
        ({}, (), ("q",), "should include all primary key constraint [q]"),
        ({}, ("q",), (), "should include all partition fields [q]"),
        ({}, ("a", "a"), (), "must not contain duplicate columns. Found: [a]"),
        ({"primary-key": "a"}, (), ("a",), "Cannot define primary key on DDL and table options at the same time."),
        ({"changelog-producer": "input"}, (), (), "Can not set changelog-producer on table without primary keys"),
        ({"sequence.field": "q"}, (), ("a",), "Sequence field: 'q' can not be found in table schema."),
        ({"sequence.field": "b,b"}, (), ("a",), "Sequence field 'b' is defined repeatedly."),
        ({"sequence.field": "b"}, ("b",), ("a",), "You can not use sequence.field in cross partition update case"),
        ({"fields.q.aggregate-function": "sum"}, (), ("a",), "Field q can not be found in table schema."),
        ({"snapshot.num-retained.min": 0}, (), (), "snapshot.num-retained.min should be at least 1"),
        ({"snapshot.num-retained.max": 5}, (), (), "snapshot.num-retained.min should not be larger than"),
        ({"rowkind.field": "q"}, (), ("a",), "Rowkind field: 'q' can not be found in table schema."),
        ({"record-level.time-field": "s"}, (), ("a",), "The record level time field type should be one of"),
        ({"streaming-read-overwrite": "true"}, (), (), "streaming-read-append-overwrite"),
        ({"merge-engine": "first-row", "changelog-producer": "input"}, (), ("a",), "FIRST_ROW merge engine"),
        ({"file.format": "avro"}, (), (), "Avro supports timestamp precision up to 6"),
        ({"scan.mode": "from-timestamp"}, (), (), "must set only one key in [scan.timestamp-millis,scan.timestamp]"),
        ({"scan.mode": "latest", "scan.snapshot-id": 1}, (), (), "scan.snapshot-id must be null when you use latest"),
        ({"scan.mode": "incremental", "incremental-between": "1,2", "scan.tag-name": "x"}, (), (), "must be null when you"),
        ({"scan.mode": "incremental", "incremental-between": "1,2", "scan.version": "x"}, (), (), "must be null when you"),
    ],
)  # fmt: skip
def test_what_cannot_be_a_table(options, partition, primary, message):
    with pytest.raises(InvalidError) as caught:
        create(
            options,
            partition=partition,
            primary=primary,
            a="INT",
            b="INT",
            s="STRING",
            n="ARRAY<INT>",
            t="TIMESTAMP(9)",
        )
    assert message in str(caught.value)


@pytest.mark.parametrize("name", ["_KEY_a", "_SEQUENCE_NUMBER", "rowkind", " "])
def test_reserved_names(name):
    with pytest.raises(InvalidError):
        create(**{name: "INT"})


def test_binary_partitions_need_folders_with_names():
    with pytest.raises(
        InvalidError, match=r"BINARY columns cannot partition .*column=b.*'partition.legacy-name' = 'false'"
    ):
        create(partition=["b"], a="INT", b="BINARY(3)")
    assert create({"partition.legacy-name": "false"}, partition=["b"], a="INT", b="BYTES").partition_keys == ("b",)


@pytest.mark.parametrize(
    "word", ["primaryKey", "PRIMARY_KEY", "primary_keys", "pk", "partitionBy", "partitioned_by", "primry-key"]
)
@pytest.mark.filterwarnings("ignore:option")
def test_other_words_for_keys_are_told(word):
    """A table without its key was made, with a warning at most: its rows were added where they were to replace others."""
    fields = columns(id="INT", p="INT")
    with pytest.raises(InvalidError, match=f"no such option .*option={word}"):
        new_schema(fields, (), (), {word: "ID, p"}, None)
    assert new_schema(fields, (), (), {word: "mine"}, None).options == {word: "mine"}
    keyed = new_schema(fields, ("p",), ("id", "p"), {word: "id"}, None)
    assert keyed.primary_keys == ("id", "p")
    other = create_schema(fields, options={word: "id"})  # another engine's, as LIKE and clones copy it
    assert new_schema(other, (), (), {}, None).options == {word: "id"}


def test_duplicate_columns():
    fields = columns(a="INT") + columns(a="INT")
    with pytest.raises(InvalidError, match=r"must not contain duplicate fields. Found: \[a\]"):
        create_schema(fields)
    with pytest.raises(InvalidError, match="Field names must be unique"):
        create(r="ROW<a INT, a INT>")


# ---- what is not there yet


def test_delivered_tables_pass():
    refuse_undelivered(create(a="INT"))
    refuse_undelivered(create({"bucket": 2, "bucket-key": "a"}, a="INT"))
    refuse_undelivered(create({"bucket": -1}, partition=("b",), primary=("a", "b"), a="INT", b="INT"))
    refuse_undelivered(create({"bucket": -1}, partition=("b",), primary=("a",), a="INT", b="INT"))
    refuse_undelivered(create({"bucket": -2}, primary=("a",), a="INT", b="INT"))
    refuse_undelivered(create({"bucket": 2}, primary=("a",), a="INT", b="ROW<x INT>"))
    refuse_undelivered(create({"bucket": 2, "merge-engine": "aggregation"}, primary=("a",), a="INT", b="INT"))


def test_columns_without_values_are_refused():
    with pytest.raises(UnsupportedError, match="MULTISET"):
        refuse_undelivered(create(a="INT", m="MULTISET<INT>"), for_writing=False)
