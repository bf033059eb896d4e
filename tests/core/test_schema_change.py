from __future__ import annotations

from dataclasses import replace

import pytest

from bucketlake.errors import AlreadyExistsError, InvalidError, NotFoundError, UnsupportedError
from bucketlake.options.options import find_option
from bucketlake.schema.change import (
    AddColumn,
    DropColumn,
    DropPrimaryKey,
    RemoveOption,
    RenameColumn,
    SetOption,
    UpdateColumnDefault,
    UpdateColumnNullability,
    UpdateColumnType,
    UpdateComment,
    UpdatePosition,
)
from bucketlake.schema.column_options import renamed_in_options
from bucketlake.schema.versions import apply, create_schema
from bucketlake.types.model import BIGINT, INT, STRING, TINYINT, type_text
from bucketlake.types.parse import parse_type_text

from .strategies import columns


def table(options=None, *, partition=("p",), primary=("p", "k")):
    fields = columns(
        k="INT", p="INT", v="INT", r="ROW<x INT, y ROW<z INT>>", l="ARRAY<INT>", m="MAP<INT, ARRAY<ROW<q INT>>>"
    )
    return create_schema(fields, partition, primary, {"bucket": 2, **(options or {})})


def after(*changes, schema=None, **flags):
    return apply(schema or table(), changes, **flags)


def texts(schema):
    return {item.name: type_text(item.type) for item in schema.fields}


def test_a_change_makes_the_next_version():
    found = after(SetOption("write-only", "true"), time_millis=7)
    assert (found.id, found.time_millis, found.options["write-only"]) == (1, 7, "true")
    assert after(RemoveOption("write-only"), schema=found).options == {"bucket": "2"}


def test_added_columns_get_fresh_ids_even_after_a_drop():
    one = after(DropColumn("m"))
    two = after(AddColumn("n", parse_type_text("ROW<a INT>"), "why"), schema=one)
    added = two.field("n")
    assert added.id == one.highest_field_id + 1
    assert added.type.fields[0].id == two.highest_field_id == one.highest_field_id + 2
    assert added.description == "why"


@pytest.mark.parametrize(
    ("change", "names"),
    [
        (AddColumn("n", INT), "k p v r l m n"),
        (AddColumn("n", INT, first=True), "n k p v r l m"),
        (AddColumn("n", INT, after="k"), "k n p v r l m"),
        (UpdatePosition("v", first=True), "v k p r l m"),
        (UpdatePosition("v", after="r"), "k p r v l m"),
        (UpdatePosition("m", after="k"), "k m p v r l"),
        (UpdatePosition("k", before="r"), "p v k r l m"),
        (UpdatePosition("k"), "p v r l m k"),
    ],
)
def test_positions(change, names):
    assert list(after(change).field_names) == names.split()


def test_columns_before_partitions():
    found = after(AddColumn("n", INT), schema=table({"add-column-before-partition": "true"}))
    assert list(found.field_names)[:3] == ["k", "n", "p"]


def test_nested_changes():
    found = after(
        AddColumn(("r", "n"), INT, first=True),
        RenameColumn(("r", "y", "z"), "zz"),
        DropColumn(("r", "x")),
        AddColumn(("m", "value", "element", "w"), STRING),
        UpdateColumnType(("l", "element"), BIGINT),
        UpdateColumnType(("m", "value", "element", "q"), BIGINT),
        UpdateComment(("r", "y"), "inner"),
    )
    assert texts(found)["r"] == "ROW<`n` INT, `y` ROW<`zz` INT> COMMENT 'inner'>"
    assert texts(found)["l"] == "ARRAY<BIGINT>"
    assert texts(found)["m"] == "MAP<INT, ARRAY<ROW<`q` BIGINT, `w` STRING>>>"


def test_a_rename_reaches_keys_and_options():
    schema = table({"bucket-key": "k", "fields.v.aggregate-function": "sum", "fields.v.sequence-group": "l,k"})
    found = after(RenameColumn("k", "kk"), RenameColumn("v", "w"), schema=schema)
    assert found.primary_keys == ("p", "kk")
    assert found.options == {
        "bucket": "2", "bucket-key": "kk", "fields.w.aggregate-function": "sum", "fields.w.sequence-group": "l,kk",
    }  # fmt: skip
    assert found.field("kk").id == schema.field("k").id


def test_a_rename_reaches_every_option_that_names_the_column():
    schema = {
        "sequence.field": "v,k", "rowkind.field": "s", "merge-engine": "partial-update",
        "fields.v,k.sequence-group": "l", "fields.l.aggregate-function": "nested_update",
        "partial-update.remove-record-on-sequence-group": "v", "fields.l.nested-key": "v", "fields.l.count-limit": "5",
        "fields.v.stats-mode": "full", "changelog-producer.row-deduplicate-ignore-fields": "v,s",
        "file-index.bloom-filter.columns": "v,m[v]", "file-index.bloom-filter.v.fpp": "0.1",
        "file-index.bloom-filter.m[v].items": "9", "fields.default-aggregate-function": "last_value",
    }  # fmt: skip
    changed = renamed_in_options(schema, {"v": "w"})
    assert changed == {
        "sequence.field": "w,k", "rowkind.field": "s", "merge-engine": "partial-update",
        "fields.w,k.sequence-group": "l", "fields.l.aggregate-function": "nested_update",
        "partial-update.remove-record-on-sequence-group": "w", "fields.l.nested-key": "v", "fields.l.count-limit": "5",
        "fields.w.stats-mode": "full", "changelog-producer.row-deduplicate-ignore-fields": "w,s",
        "file-index.bloom-filter.columns": "w,m[v]", "file-index.bloom-filter.w.fpp": "0.1",
        "file-index.bloom-filter.m[v].items": "9", "fields.default-aggregate-function": "last_value",
    }  # fmt: skip
    assert renamed_in_options({"sequence.field": "v,k"}, {"v": "k", "k": "v"}) == {"sequence.field": "k,v"}
    assert renamed_in_options({"upsert-key": "v"}, {"v": "w"}) == {"upsert-key": "w"}
    assert renamed_in_options(changed, {"l": "ll"})["fields.ll.count-limit"] == "5"
    assert renamed_in_options(changed, {"m": "n"})["file-index.bloom-filter.columns"] == "w,n[v]"
    assert renamed_in_options(changed, {"m": "n"})["file-index.bloom-filter.n[v].items"] == "9"


def test_a_renamed_member_is_renamed_in_the_options_of_its_column():
    fields = columns(k="INT", l="ARRAY<ROW<a INT, b INT>>", m="MAP<INT, ROW<x INT, t BIGINT>>")
    options = {
        "bucket": 1, "merge-engine": "aggregation", "fields.l.aggregate-function": "nested_update",
        "fields.l.nested-key": "a", "fields.m.aggregate-function": "merge_map_with_keytime", "fields.m.ts-field": "t",
    }  # fmt: skip
    schema = create_schema(fields, (), ("k",), options)
    found = after(RenameColumn(("l", "element", "a"), "aa"), RenameColumn(("m", "value", "t"), "at"), schema=schema)
    assert (found.options["fields.l.nested-key"], found.options["fields.m.ts-field"]) == ("aa", "at")
    assert find_option("fields.m.ts-field").effect is find_option("fields.l.nested-key").effect


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sequence.field": "v"}, "v"),
        ({"fields.v.ignore-retract": "true"}, "Field v can not be found in table schema."),
        ({"merge-engine": "partial-update", "fields.v.sequence-group": "l"}, "Field v can not be found"),
        ({"merge-engine": "partial-update", "fields.l.sequence-group": "v"}, "Field v can not be found"),
    ],
)
def test_a_column_that_options_name_is_not_dropped(options, message):
    with pytest.raises(InvalidError, match=message):
        after(DropColumn("v"), schema=table(options))


def test_ignoring_retractions_and_removing_records_conflict():
    options = {
        "merge-engine": "aggregation", "aggregation.remove-record-on-delete": "true", "fields.v.ignore-retract": "true",
    }  # fmt: skip
    with pytest.raises(InvalidError, match=r"aggregation.remove-record-on-delete and fields.v.ignore-retract have"):
        table(options)


def test_comments_defaults_nullability():
    found = after(UpdateComment(None, "t"), UpdateComment("v", "c"), UpdateColumnDefault("v", "3"))
    assert (found.comment, found.field("v").description, found.field("v").default) == ("t", "c", "3")
    strict = after(
        UpdateColumnNullability("v", False), schema=table({"alter-column-null-to-not-null.disabled": "false"})
    )
    assert not strict.field("v").type.nullable
    assert after(UpdateColumnNullability("v", True), schema=strict).field("v").type.nullable


def test_a_type_keeps_its_nullability():
    strict = table({"alter-column-null-to-not-null.disabled": "false"})
    strict = after(UpdateColumnNullability("v", False), UpdateColumnType("v", BIGINT), schema=strict)
    assert texts(strict)["v"] == "BIGINT NOT NULL"


def test_a_bucket_key_keeps_its_type_once_rows_lie_by_it():
    keyed = table({"bucket-key": "v"}, partition=(), primary=())
    assert texts(after(UpdateColumnType("v", BIGINT), schema=keyed, has_snapshots=False))["v"] == "BIGINT"
    with pytest.raises(InvalidError, match=r"Cannot update bucket key column: \[v\]"):
        after(UpdateColumnType("v", BIGINT), schema=keyed, has_snapshots=True)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (DropColumn("k"), InvalidError, "Cannot drop partition key or primary key: [k]"),
        (DropColumn("p"), InvalidError, "Cannot drop partition key or primary key: [p]"),
        (RenameColumn("p", "q"), InvalidError, "Cannot rename partition column: [p]"),
        (UpdateColumnType("p", BIGINT), InvalidError, "Cannot update partition column: [p]"),
        (UpdateColumnType("k", BIGINT), InvalidError, "Cannot update primary key"),
        (UpdateColumnNullability("k", True), InvalidError, "Cannot change nullability of primary key"),
        (UpdateColumnNullability("v", False), InvalidError, "Cannot update column type from nullable to non nullable"),
        (UpdateColumnType("v", parse_type_text("ARRAY<INT>")), InvalidError, "without losing information"),
        (
            UpdateColumnType("v", parse_type_text("DATE")),
            InvalidError,
            "Column type v[INT] cannot be converted to DATE",
        ),
        (AddColumn("n", INT.with_nullable(False)), InvalidError, "cannot specify NOT NULL"),
        (AddColumn("v", INT), AlreadyExistsError, "column=v"),
        (AddColumn("n", INT, after="q"), NotFoundError, "column=q"),
        (RenameColumn("v", "r"), AlreadyExistsError, "column=r"),
        (RenameColumn("q", "w"), NotFoundError, "column=q"),
        (DropColumn(("r", "q")), NotFoundError, "column=q"),
        (UpdatePosition("v", after="v"), InvalidError, "Cannot move itself for column v"),
        (UpdatePosition("k", first=True), InvalidError, "Cannot move itself for column k"),
        (SetOption("merge-engine", "first-row"), InvalidError, "Change 'merge-engine' is not supported yet."),
        (SetOption("bucket-key", "k"), InvalidError, "Change 'bucket-key' is not supported yet."),
        (SetOption("primary-key", "k"), InvalidError, "Change 'primary-key' is not supported yet."),
        (SetOption("bucket", "-1"), InvalidError, "Cannot change bucket to -1."),
        (RemoveOption("bucket"), InvalidError, "Cannot reset bucket."),
        (SetOption("type", "object-table"), InvalidError, "Change 'type' is not supported yet."),
        (SetOption("deletion-vectors.enabled", "true"), InvalidError, "Cannot change deletion vectors mode"),
        (SetOption("row-tracking.enabled", "true"), InvalidError, "Change 'row-tracking.enabled'"),
        (SetOption("write-only", "maybe"), InvalidError, "write-only"),
        (DropPrimaryKey(), InvalidError, "Cannot drop primary keys on a non-empty table."),
        (SetOption("query-auth.enabled", "true"), UnsupportedError, "query-auth.enabled"),
    ],
)
def test_what_cannot_be_changed(change, error, message):
    with pytest.raises(error) as caught:
        after(change)
    assert message in str(caught.value)


def test_an_empty_table_may_change_how_its_data_will_lie():
    schema = after(SetOption("bucket-key", "k"), SetOption("bucket", "4"), has_snapshots=False)
    assert (schema.bucket, schema.bucket_keys) == (4, ("k",))
    append = table({"bucket": 2, "bucket-key": "k"}, partition=(), primary=("k",))
    assert apply(append, [DropPrimaryKey()], has_snapshots=False).primary_keys == ()


def test_bucket_numbers_may_change_between_fixed_ones():
    assert after(SetOption("bucket", "8")).bucket == 8
    dynamic = create_schema(columns(k="INT"), (), ("k",))
    with pytest.raises(InvalidError, match="Cannot change bucket when it is -1"):
        apply(dynamic, [SetOption("bucket", "8")])


def test_setting_what_is_so_already_changes_nothing():
    assert after(SetOption("bucket", "2"), SetOption("primary-key", "p,k"), SetOption("type", "TABLE")).options == {
        "bucket": "2"
    }


def test_explicit_casts_can_be_switched_off():
    wide = table({"disable-explicit-type-casting": "true"})
    assert texts(after(UpdateColumnType("v", BIGINT), schema=wide))["v"] == "BIGINT"
    with pytest.raises(InvalidError, match="without losing information"):
        after(UpdateColumnType("v", TINYINT), schema=wide)
    assert texts(after(UpdateColumnType("v", TINYINT)))["v"] == "TINYINT"


def test_the_last_column_stays():
    with pytest.raises(InvalidError, match="Cannot drop all fields in table"):
        apply(create_schema(columns(a="INT")), [DropColumn("a")])


def test_older_names_of_options_follow_the_same_rules():
    ignoring = table({"first-row.ignore-delete": "true"})
    for key in ("ignore-delete", "first-row.ignore-delete", "deduplicate.ignore-delete"):
        with pytest.raises(InvalidError, match="Cannot change ignore-delete from true to false"):
            after(SetOption(key, "false"), schema=ignoring)


def test_only_options_that_are_set_are_checked():
    """Another engine may have set what is refused here."""
    foreign = table({"bucket": "1"})
    foreign = replace(
        foreign, options={**foreign.options, "tag.automatic-creation": "batch", "clustering.columns": "v"}
    )
    assert after(SetOption("write-only", "true"), schema=foreign).options["tag.automatic-creation"] == "batch"
    assert after(RenameColumn("v", "w"), schema=foreign).options["clustering.columns"] == "w"
    assert "clustering.columns" not in after(RemoveOption("clustering.columns"), schema=foreign).options
    for key, value in {
        "row-tracking.enabled": "true",
    }.items():
        with pytest.raises((UnsupportedError, InvalidError), match=key):
            after(SetOption(key, value), schema=foreign)
