"""Formats of events, as Spark expressions from their text to one form: what was done to which table's row.

Spec: docs/cdc.md#formats
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from bucketlake.cdc.values import exact_numbers, unmarked
from bucketlake.errors import InvalidError, UnsupportedError, did_you_mean
from bucketlake.values import dataclass

ROW, TRUNCATE, DDL, BAD, NOTHING = "row", "truncate", "ddl", "bad", "nothing"  # what an event is
INSERT, UPDATE, DELETE = "I", "U", "D"  # what became of a row
_UNAVAILABLE = "__debezium_unavailable_value"  # stands for a large value that Postgres did not hand on
_MAP = "MAP<STRING,STRING>"
_OPERATIONS = {
    "debezium": {"c": INSERT, "r": INSERT, "u": UPDATE, "d": DELETE, "t": TRUNCATE, "m": NOTHING},
    "canal": {"INSERT": INSERT, "ROW": INSERT, "UPDATE": UPDATE, "DELETE": DELETE, "TRUNCATE": TRUNCATE}
    | dict.fromkeys(("QUERY", "TIDB_WATERMARK"), NOTHING)
    | dict.fromkeys(("CREATE", "ALTER", "ERASE", "RENAME", "CINDEX", "DINDEX"), DDL),
    "maxwell": {"insert": INSERT, "bootstrap-insert": INSERT, "update": UPDATE, "delete": DELETE}
    | dict.fromkeys(("bootstrap-start", "bootstrap-complete"), NOTHING)
    | {f"{what}-{did}": DDL for what in ("table", "database") for did in ("create", "alter", "drop")},
    "ogg": {"I": INSERT, "U": UPDATE, "D": DELETE, "T": TRUNCATE},
    "dms": {"load": INSERT, "insert": INSERT, "update": UPDATE, "delete": DELETE, "truncate-table": TRUNCATE}
    | dict.fromkeys(("create-table", "drop-table", "add-column", "drop-column", "rename-column", "rename-table"), DDL)
    | dict.fromkeys(("column-type-change",), DDL),
}


@dataclass(frozen=True)
class Parsed:
    """An event taken apart, as columns. `rows`: an array of (before, after), maps of texts, for formats whose events
    hold several rows; `types`: what `columns_of` reads; `millis`: when the change was made; `lacking`: what else may be
    wrong, a text and whether it holds."""

    before: Column
    after: Column
    database: Column
    table: Column
    keys: Column
    types: Column
    millis: Column
    sql: Column
    schema: Column
    rows: Column | None = None
    lacking: tuple[tuple[str, Column], ...] = ()


@dataclass(frozen=True)
class Format:
    """How events of one format are read: a Spark type for their JSON, of which `word` says what was done and `words`
    what it means; the rest is taken from the columns `__body`, `operation` (I, U, D, truncate, ddl, nothing) and
    `__key`, a map."""

    schema: str
    word: Callable[[Column], Column]
    words: Mapping[str, str]
    parse: Callable[[Column, Column], Parsed]
    body: Callable[[Column], Column] = lambda root: root
    means: Callable[[Column, Column], Column] = lambda body, found: found


def _null(kind: str = "string") -> Column:
    return F.lit(None).cast(kind)


def _overlaid(below: Column, above: Column) -> Column:
    """A map with the entries of another in place of its own; null where the other is null."""
    # Not map_concat: that ends the job where an event names a column twice.
    both = F.map_zip_with(
        below, above, lambda name, old, new: F.when(F.map_contains_key(above, name), new).otherwise(old)
    )
    return F.when(below.isNull(), above).otherwise(both)


def _does(kind: str) -> Column:
    return F.col("operation") == kind


# ---------------------------------------------------------------------------------------------- Debezium

_PART = f"op STRING, before {_MAP}, after {_MAP}, source STRUCT<db STRING, table STRING, schema STRING, ts_ms STRING>, "
_PART += "ts_ms STRING, pkNames ARRAY<STRING>, ddl STRING, databaseName STRING"
_PARTS = ("op", "before", "after", "source", "ts_ms", "pkNames", "ddl", "databaseName")


def _debezium_body(root: Column) -> Column:
    payload = root["payload"]
    flat = F.struct(*[root[name].alias(name) for name in _PARTS])
    chosen = F.when(payload.isNotNull(), payload).otherwise(flat)
    return F.when(root.isNotNull(), F.struct(chosen.alias("event"), root["schema"].alias("schema")))


def _debezium_means(body: Column, found: Column) -> Column:
    event = body["event"]
    silent = event["op"].isNull() & event["source"].isNull() & event["before"].isNull() & event["after"].isNull()
    return (
        F.when(event["ddl"].isNotNull(), F.lit(DDL))
        .when(silent & event["ts_ms"].isNotNull(), F.lit(NOTHING))
        .otherwise(found)
    )


def _debezium(body: Column, key: Column) -> Parsed:
    event = body["event"]
    before, after, source = event["before"], event["after"], event["source"]
    masked = F.col("value").contains(_UNAVAILABLE)
    held = F.transform_values(
        after, lambda name, item: F.when(item == _UNAVAILABLE, F.element_at(before, name)).otherwise(item)
    )
    lost = masked & F.coalesce(F.exists(F.map_entries(after), lambda entry: _lost(entry, before)), F.lit(False))
    row = F.col("operation").isin(INSERT, UPDATE, DELETE)
    return Parsed(
        before=F.when(_does(UPDATE) & ~_whole(before, after), _overlaid(after, before)).otherwise(before),
        after=F.when(masked, held).otherwise(after),
        database=F.coalesce(source["db"], event["databaseName"]),
        table=source["table"],
        keys=F.coalesce(event["pkNames"], F.map_keys(key)),
        types=F.when(row, unmarked(body["schema"])),
        millis=unmarked(source["ts_ms"]).try_cast("bigint"),
        sql=event["ddl"],
        schema=source["schema"],
        lacking=((f"a value that the database did not hand on ({_UNAVAILABLE})", lost),),
    )


def _whole(before: Column, after: Column) -> Column:
    """Whether an image has all columns of the other, as most have; true where it is missing."""
    return F.coalesce(F.map_keys(before) == F.map_keys(after), before.isNull())


def _lost(entry: Column, before: Column) -> Column:
    old = F.element_at(before, entry["key"])
    unknown = before.isNull() | ~F.map_contains_key(before, entry["key"]) | (old == _UNAVAILABLE)
    return (entry["value"] == _UNAVAILABLE) & unknown


# ---------------------------------------------------------------------------------------------- others


def _canal(body: Column, _: Column) -> Parsed:
    old, update, delete = body["old"], _does(UPDATE), _does(DELETE)

    def images(data: Column, place: Column) -> Column:
        previous = F.when(F.size(old) > place, F.get(old, place))
        changed = F.when(previous.isNotNull(), _overlaid(data, previous))
        before = F.when(update, changed).when(delete, data)
        return F.struct(before.alias("before"), F.when(~delete, data).alias("after"))

    return Parsed(
        before=_null(_MAP),
        after=_null(_MAP),
        database=body["database"],
        table=body["table"],
        keys=body["pkNames"],
        types=F.when(F.col("operation").isin(INSERT, UPDATE, DELETE), unmarked(body["mysqlType"])),
        millis=unmarked(F.coalesce(body["es"], body["ts"])).try_cast("bigint"),
        sql=body["sql"],
        schema=_null(),
        rows=F.transform(body["data"], images),
        lacking=(
            ("an event without 'data'", body["data"].isNull()),
            ("an update without 'old'", update & old.isNull()),
        ),
    )


def _canal_means(body: Column, found: Column) -> Column:
    return F.when((body["isDdl"] == "true") & (body["type"] != "TRUNCATE"), F.lit(DDL)).otherwise(found)


def _maxwell(body: Column, _: Column) -> Parsed:
    data, old, update, delete = body["data"], body["old"], _does(UPDATE), _does(DELETE)
    return Parsed(
        before=F.when(update & old.isNotNull(), _overlaid(data, old)).when(delete, data),
        after=F.when(~delete, data),
        database=body["database"],
        table=body["table"],
        keys=body["primary_key_columns"],
        types=_null(),
        millis=F.try_multiply(unmarked(body["ts"]).try_cast("bigint"), F.lit(1000)),
        sql=body["sql"],
        schema=_null(),
        lacking=(("an event without 'data'", data.isNull()), ("an update without 'old'", update & old.isNull())),
    )


def _ogg(body: Column, _: Column) -> Parsed:
    names = F.split(body["table"], r"\.")
    return Parsed(
        before=body["before"],
        after=body["after"],
        database=F.when(F.size(names) > 1, F.try_element_at(names, F.lit(-2))),
        table=F.try_element_at(names, F.lit(-1)),
        keys=body["primary_keys"],
        types=_null(),
        millis=F.unix_millis(F.concat(body["op_ts"], F.lit("Z")).try_cast("timestamp")),
        sql=_null(),
        schema=_null(),
        lacking=(("an update without 'before'", _does(UPDATE) & body["before"].isNull()),),
    )


def _dms(body: Column, _: Column) -> Parsed:
    data, about, update, delete = body["data"], body["metadata"], _does(UPDATE), _does(DELETE)
    old = F.map_filter(data, lambda name, _: name.startswith("BI_"))
    once = F.size(F.array_distinct(F.map_keys(old))) == F.size(old)  # transform_keys ends the job where not
    old = F.when(once, F.transform_keys(old, lambda name, _: F.substring(name, 4, 1 << 30)))
    new = F.when(update, F.map_filter(data, lambda name, _: ~name.startswith("BI_"))).otherwise(data)
    return Parsed(
        before=F.when(update & (F.size(old) > 0), _overlaid(new, old)).when(delete, data),
        after=F.when(~delete, new),
        database=about["schema-name"],
        table=about["table-name"],
        keys=_null("array<string>"),
        types=_null(),
        millis=F.unix_millis(about["timestamp"].try_cast("timestamp")),
        sql=_null(),
        schema=_null(),
        lacking=(("an event without 'data'", data.isNull()),),
    )


def _plain(body: Column, _: Column) -> Parsed:
    return Parsed(
        before=_null(_MAP),
        after=body,
        database=_null(),
        table=_null(),
        keys=_null("array<string>"),
        types=_null(),
        millis=_null("bigint"),
        sql=_null(),
        schema=_null(),
    )


_CANAL = f"isDdl STRING, type STRING, database STRING, table STRING, data ARRAY<{_MAP}>, old ARRAY<{_MAP}>, "
_CANAL += "mysqlType STRING, pkNames ARRAY<STRING>, sql STRING, es STRING, ts STRING"
_MAXWELL = f"type STRING, database STRING, table STRING, data {_MAP}, old {_MAP}, ts STRING, sql STRING, "
_MAXWELL += "primary_key_columns ARRAY<STRING>"
_OGG = f"table STRING, op_type STRING, op_ts STRING, before {_MAP}, after {_MAP}, primary_keys ARRAY<STRING>"
_DMS = f"data {_MAP}, metadata STRUCT<operation STRING, `schema-name` STRING, `table-name` STRING, timestamp STRING>"
FORMATS: dict[str, Format] = {
    "debezium-json": Format(
        f"schema STRING, payload STRUCT<{_PART}>, {_PART}",
        lambda body: body["event"]["op"],
        _OPERATIONS["debezium"],
        _debezium,
        _debezium_body,
        _debezium_means,
    ),
    "canal-json": Format(_CANAL, lambda body: body["type"], _OPERATIONS["canal"], _canal, means=_canal_means),
    "maxwell-json": Format(_MAXWELL, lambda body: body["type"], _OPERATIONS["maxwell"], _maxwell),
    "ogg-json": Format(_OGG, lambda body: body["op_type"], _OPERATIONS["ogg"], _ogg),
    "aws-dms-json": Format(_DMS, lambda body: body["metadata"]["operation"], _OPERATIONS["dms"], _dms),
    "json": Format(_MAP, lambda body: F.lit("insert"), {"insert": INSERT}, _plain),
}
AVRO = "debezium-avro"
NAMELESS = ("json",)  # formats whose events do not say which table they are of
_NOT_YET = ("debezium-bson", "aliyun-json")


def check_format(name: str) -> None:
    """Refuse a format that there is not."""
    if name in _NOT_YET:
        raise UnsupportedError("this format of events is not read here", format=name, formats=[*FORMATS, AVRO])
    if name not in FORMATS and name != AVRO:
        remedy = did_you_mean(name, [*FORMATS, AVRO])
        raise InvalidError("no such format of events", format=name, formats=[*FORMATS, AVRO], remedy=remedy)


def events(frame: DataFrame, format: str) -> DataFrame:
    """The events of a frame of `value` and `key` (texts) and further columns, which stay: one row a changed row.

    Columns: `what` (row, truncate, ddl, bad, nothing), `kind` (I, U, D), `before`, `after` (maps of texts), `db`,
    `tbl`, `schema_name`, `millis`, `keys`, `types`, `names` (texts, for `columns_of`), `sql`, `reason` (of bad ones),
    `item` (which row of its event), `shape` (a number that events with the same `db`, `tbl`, `keys`, `types` and
    `names` share).
    """
    how = FORMATS[format]
    # Step by step: each refers to columns of the one before, so that nothing is parsed twice.
    text, empty = F.col("value"), F.trim(F.col("value")) == ""
    own = list(frame.columns)
    step = frame.withColumn("__root", F.from_json(exact_numbers(text), how.schema))
    step = step.withColumn("__body", how.body(F.col("__root"))).withColumn("__key", _key_map(F.col("key")))
    step = step.withColumn("word", how.word(F.col("__body")))
    meaning = F.create_map(*[F.lit(part) for pair in how.words.items() for part in pair])
    step = step.withColumn("operation", how.means(F.col("__body"), F.element_at(meaning, F.col("word"))))
    parsed = how.parse(F.col("__body"), F.col("__key"))
    row = F.col("operation").isin(INSERT, UPDATE, DELETE)
    flat = step.select(
        *own,
        "word",
        "operation",
        parsed.database.alias("db"),
        parsed.table.alias("tbl"),
        parsed.schema.alias("schema_name"),
        parsed.millis.alias("millis"),
        F.when(row, F.to_json(parsed.keys)).alias("keys"),
        parsed.types.alias("types"),
        F.when(_does(DDL), parsed.sql).alias("sql"),
        F.when(~empty, _fault(text, parsed)).alias("fault"),
        (parsed.rows if parsed.rows is not None else _one_row(parsed)).alias("rows"),
    )
    held = F.when(row & (F.size("rows") > 0), F.col("rows"))
    kept = [name for name in flat.columns if name != "rows"]
    return _shaped(flat.select(*kept, F.posexplode_outer(held).alias("item", "images")))


def _one_row(parsed: Parsed) -> Column:
    return F.array(F.struct(parsed.before.alias("before"), parsed.after.alias("after")))


def _key_map(key: Column) -> Column:
    """The key of a message, as a map of texts: what stands in its payload where it has one."""
    found = F.from_json(key, f"payload {_MAP}")["payload"]
    return F.when(key.isNull(), _null(_MAP)).otherwise(F.coalesce(found, F.from_json(key, _MAP)))


def _fault(text: Column, parsed: Parsed) -> Column:
    """What is wrong with an event as a whole, null where nothing is."""
    word, operation = F.col("word"), F.col("operation")
    whole = F.json_array_length(F.concat(F.lit("["), text, F.lit("]")))
    found = F.when(~F.is_valid_utf8(text), F.lit("not UTF-8"))
    found = found.when(F.coalesce(whole != 1, F.lit(True)) | ~F.ltrim(text).startswith("{"), F.lit("not a JSON object"))
    found = found.when(word.isNull() & operation.isNull(), F.lit("it does not say what was done"))
    unknown = F.concat(F.lit("unknown operation '"), F.substring(word, 1, 50), F.lit("'"))
    found = found.when(operation.isNull(), unknown)
    for reason, holds in parsed.lacking:
        found = found.when(operation.isin(INSERT, UPDATE, DELETE) & holds, F.lit(reason))
    return found


def _shaped(flat: DataFrame) -> DataFrame:
    before, after = F.col("images.before"), F.col("images.after")
    kind, empty = F.col("operation"), F.coalesce(F.trim(F.col("value")) == "", F.lit(True))
    row = kind.isin(INSERT, UPDATE, DELETE)
    lacking = F.when(F.col("fault").isNotNull(), F.col("fault"))
    lacking = lacking.when(row & kind.isin(INSERT, UPDATE) & after.isNull(), F.lit("no row after the change"))
    lacking = lacking.when((kind == DELETE) & before.isNull(), F.lit("a delete without the row before it"))
    reason = F.when(~empty, lacking)
    what = F.when(empty, F.lit(NOTHING)).when(reason.isNotNull(), F.lit(BAD)).when(row, F.lit(ROW)).otherwise(kind)
    kept = [name for name in flat.columns if name not in ("word", "operation", "fault", "images")]
    names = F.when(what == ROW, F.to_json(F.map_keys(F.coalesce(after, before))))
    shaped = flat.select(
        *kept,
        what.alias("what"),
        F.when(row, kind).alias("kind"),
        before.alias("before"),
        after.alias("after"),
        reason.alias("reason"),
        names.alias("names"),
    )
    told = [F.coalesce(F.col(name), F.lit("\0")) for name in ("db", "tbl", "keys", "types", "names")]
    return shaped.withColumn("shape", F.xxhash64(*told))
