"""Events of one table as rows to write: values converted, computed and metadata columns, row kinds in their order.

An update whose key and partition stay is `-U`, `+U`; one that moves its row deletes it where it was and inserts it
where it is.

Spec: docs/cdc.md#rows
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from bucketlake.cdc.computed import PARTS, Computed
from bucketlake.cdc.formats import DELETE, INSERT, ROW, UPDATE
from bucketlake.cdc.plan import From, Rules, TablePlan
from bucketlake.cdc.shapes import Coding, Shape
from bucketlake.cdc.values import unmarked, value
from bucketlake.schema.schema import KIND_FIELD, TableSchema
from bucketlake.spark.conform import same_key
from bucketlake.spark.types import quoted, spark_type
from bucketlake.types.model import DataField, DataType, Root, type_text

KIND, ORDER, REASON = KIND_FIELD.name, "__at", "__reason"
_WHOLE = (Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT)
_TEXTS = (Root.CHAR, Root.VARCHAR)
_SHOWN = 100  # characters of a value in a reason
_SUPERSEDED = ("deduplicate", "first-row")  # engines to which the new row alone says what the two of an update say


def converted(events: DataFrame, plan: TablePlan, rules: Rules) -> DataFrame:
    """Events of the plan's shapes, with structs `b` and `a` of the table's columns (null where there is no such image),
    and `__reason` where an event cannot be written."""
    fields = {item.name: item for item in plan.schema.fields}
    shapes = [shape.number for shape in plan.shapes]
    taken = events.where((F.col("what") == ROW) & F.col("shape").isin(*shapes))
    kept = [name for name in events.columns if name not in ("what", "types", "names", "keys", "sql", "reason")]
    # Step by step: each refers to columns of the one before, so that no text is taken apart twice.
    texts = {(one, name): f"__{one}{i}" for one in "ba" for i, name in enumerate(plan.columns)}
    step = taken.select(*kept, *[_text(one, plan.columns[name]).alias(text) for (one, name), text in texts.items()])
    images = [_image(one, plan, fields, texts).alias(one) for one in "ba"]
    step = step.select(*step.columns, *images)
    faults = [_misread(one, name, texts[one, name], fields[name].type) for one, name in texts]
    step = step.select(*kept, "b", "a", F.coalesce(*faults, F.lit(None).cast("string")).alias(REASON))
    rest = [name for name in step.columns if name not in ("a", "b")]
    step = step.select(*rest, *[_completed(one, plan, rules, fields).alias(one) for one in "ba"])
    uncomputed = [_uncomputed(item, name) for name in "ba" for item in rules.computed]
    wrong = [*uncomputed, *_lacking(plan, rules)]
    return step.withColumn(REASON, F.coalesce(F.col(REASON), *wrong))


_IMAGES = {"b": "before", "a": "after"}


def _text(one: str, ways: Sequence[From]) -> Column:
    """The text of a column in the image before or after."""
    image = F.col(_IMAGES[one])
    found = [F.element_at(image, way.name) for way in ways]
    marked = [
        item if way.reading.coding is Coding.UNSCALED else unmarked(item) for item, way in zip(found, ways, strict=True)
    ]
    return _chosen(ways, marked)


def _image(one: str, plan: TablePlan, fields: Mapping[str, DataField], texts: Mapping[tuple[str, str], str]) -> Column:
    """A struct of the values of the source's columns."""
    values: list[Column] = []
    for name, ways in plan.columns.items():
        target, text = fields[name].type, F.col(texts[one, name])
        read = {way.reading: value(text, way.reading, target) for way in ways}
        made = _chosen(ways, [read[way.reading] for way in ways]) if len(read) > 1 else read[ways[0].reading]
        values.append(made.cast(spark_type(target)).alias(name))
    return F.when(F.col(_IMAGES[one]).isNotNull(), F.struct(*values))


def _chosen(ways: Sequence[From], made: Sequence[Column]) -> Column:
    """The column of the way that the event's shape takes."""
    if len(ways) == 1:
        return made[0]
    found = F.when(F.col("shape").isin(*ways[0].shapes), made[0])
    for way, column in zip(ways[1:], made[1:], strict=True):
        found = found.when(F.col("shape").isin(*way.shapes), column)
    return found


def _misread(one: str, name: str, text: str, target: DataType) -> Column:
    """What is wrong with a column's text, null where nothing is."""
    shown = F.substring(unmarked(F.col(text)), 1, _SHOWN)
    told = F.concat(
        F.lit(f"column {name}: '"), shown, F.lit(f"' is not of type {type_text(target.with_nullable(True))}")
    )
    return F.when(F.col(one)[name].isNull() & F.col(text).isNotNull(), told)


def _lacking(plan: TablePlan, rules: Rules) -> list[Column]:
    """What is wrong with an event as a whole, for this table."""
    found, schema = [], plan.schema
    if not schema.primary_keys:
        update = F.col("kind").isin(UPDATE, DELETE)
        found.append(F.when(update, F.lit("an update or delete, and the table has no primary key")))
        return found
    blind = (F.col("kind") == UPDATE) & F.col("b").isNull()
    if needs_before(schema):
        found.append(F.when(blind, F.lit("an update without the row before it, which this table needs")))
    moving = [shape.number for shape in plan.shapes if _may_move(shape, schema, rules)]
    if moving:
        unknown = blind & F.col("shape").isin(*moving)
        found.append(F.when(unknown, F.lit("an update without the row before it: its partition or key may be another")))
    required = [item.name for item in schema.fields if not item.type.nullable and item.default is None]
    for name in dict.fromkeys((*schema.primary_keys, *required)):
        for image in "ba":
            empty = F.col(image).isNotNull() & F.col(image)[name].isNull()
            found.append(F.when(empty, F.lit(f"no value for column {name}")))
    return found


def _may_move(shape: Shape, schema: TableSchema, rules: Rules) -> bool:
    """Whether an update that does not bring the row before it may have moved it: the key of the source does not hold
    all columns of the table's."""
    if shape.keys:
        return not set(schema.primary_keys) <= {rules.name(key) for key in shape.keys}
    return bool(set(schema.partition_keys) & set(schema.primary_keys))


def needs_before(schema: TableSchema) -> bool:
    """Whether updates have to bring the row before them: it is written, or says which partition the row leaves."""
    options = schema.options
    if options.get("changelog-producer", "none") == "input":
        return True
    if options.get("merge-engine", "deduplicate") == "aggregation":
        return True
    return any(key.startswith("fields.") and key.endswith(".sequence-group") for key in options)


# ---------------------------------------------------------------------------------------------- computed, metadata


def _completed(name: str, plan: TablePlan, rules: Rules, fields: Mapping[str, DataField]) -> Column:
    """The struct with its computed and metadata columns."""
    made: dict[str, Column] = {one: F.col(name)[one] for one in plan.columns}
    types: dict[str, DataType] = {one: fields[one].type for one in fields}
    for item in rules.computed:
        given = None if item.column is None else made.get(item.column, F.lit(None).cast("string"))
        kind = None if item.column is None else types.get(item.column)
        made[item.name] = _computed(item, given, kind).try_cast(spark_type(fields[item.name].type))
    for column, kind_of in rules.metadata_columns().items():
        made[column] = _metadata(kind_of).cast(spark_type(fields[column].type))
    return F.when(F.col(name).isNotNull(), F.struct(*[item.alias(one) for one, item in made.items()]))


def _metadata(kind: str) -> Column:
    columns = {"database_name": "db", "table_name": "tbl", "op_ts": "millis"}
    found = F.col(columns.get(kind, kind))
    return F.timestamp_millis(found) if kind == "op_ts" else found


def _computed(item: Computed, given: Column | None, kind: DataType | None) -> Column:
    if item.function == "cast" or given is None:
        now = F.current_timestamp().cast("timestamp_ntz")
        return now if item.function == "now" else F.lit(item.constant)
    if item.function in PARTS:
        return F.date_part(F.lit(item.function), _time(item, given, kind)).cast("int")
    if item.function == "date_format":
        return F.date_format(_time(item, given, kind), item.arguments[0])
    if item.function == "substring":
        begin = int(item.arguments[0])
        end = int(item.arguments[1]) if len(item.arguments) > 1 else None
        text, size = given.cast("string"), F.char_length(given.cast("string"))
        inside = size >= (begin if end is None else end)
        return F.when(inside, F.substring(text, begin + 1, (1 << 30) if end is None else end - begin))
    if item.function == "truncate":
        return _truncated(given, kind, int(item.arguments[0]))
    text = given.cast("string")
    return {"upper": F.upper, "lower": F.lower, "trim": F.trim}[item.function](text)


def _truncated(given: Column, kind: DataType | None, width: int) -> Column:
    if kind is None or kind.root in _TEXTS:
        return F.when(F.char_length(given) >= width, F.substring(given, 1, width))
    if kind.root is Root.DECIMAL:
        step = F.lit(width).cast("decimal(20,0)") * F.lit("1e-" + str(kind.scale or 0)).cast(
            f"decimal(38,{kind.scale or 0})"
        )
        return given - F.pmod(given, step)
    return given - F.pmod(given, F.lit(width))


def _time(item: Computed, given: Column, kind: DataType | None) -> Column:
    """The time that a column stands for: itself, a text, or a number of seconds and the like since 1970."""
    root = Root.VARCHAR if kind is None else kind.root
    precision = item.precision
    if root in _WHOLE or (root in _TEXTS and precision is not None):
        number = given.try_cast("bigint")
        micros = {0: F.try_multiply(number, F.lit(1_000_000)), 3: F.try_multiply(number, F.lit(1_000)), 6: number}.get(
            precision or 0, F.floor(number / F.lit(1_000)).cast("bigint")
        )
        inside = micros.between(-62_135_596_800_000_000, 253_402_300_799_999_999)
        seconds = (micros.cast("decimal(20,0)") / F.lit(1_000_000).cast("decimal(7,0)")).cast("decimal(18,6)")
        return F.when(inside, F.expr("TIMESTAMP_NTZ'1970-01-01 00:00:00'") + F.make_dt_interval(secs=seconds))
    return given.try_cast("timestamp_ntz")


def _uncomputed(item: Computed, image: str) -> Column:
    """What is wrong where a column that has a value gives none."""
    if item.column is None:
        return F.lit(None).cast("string")
    lost = F.col(image)[item.column].isNotNull() & F.col(image)[item.name].isNull()
    return F.when(lost, F.lit(f"computed column {item.name}: {item.function} of {item.column} is no value"))


# ---------------------------------------------------------------------------------------------- kinds and order


def rows(events: DataFrame, schema: TableSchema) -> DataFrame:
    """Rows to write, of `converted` events: the table's columns, `_VALUE_KIND`, and `__at`, their order."""
    before, after, kind = F.col("b"), F.col("a"), F.col("kind")

    def image(name: str, of: Column) -> Column:
        return F.struct(F.lit(name).alias("kind"), of.alias("row"))

    if not schema.primary_keys:
        made = F.array(image("+I", after))
    else:
        moved = _moved(before, after, schema)
        options = schema.options
        engine = options.get("merge-engine", "deduplicate")
        stays = F.array(image("-U", before), image("+U", after))
        if engine in _SUPERSEDED and options.get("changelog-producer", "none") != "input":
            stays = F.array(image("+U", after))
        changed = F.when(before.isNull(), F.array(image("+U", after)))
        changed = changed.when(moved, F.array(image("-D", before), image("+I", after))).otherwise(stays)
        made = F.when(kind == INSERT, F.array(image("+I", after)))
        made = made.when(kind == DELETE, F.array(image("-D", before))).otherwise(changed)
    flat = events.where(F.col(REASON).isNull()).select("at", "item", F.posexplode(made).alias("step", "change"))
    order = F.struct("at", "item", "step").alias(ORDER)
    return flat.select(order, "change.row.*", F.col("change.kind").alias(KIND))


def _moved(before: Column, after: Column, schema: TableSchema) -> Column:
    names = dict.fromkeys((*schema.primary_keys, *schema.partition_keys))
    return reduce(lambda x, y: x | y, [~same_key(schema.field(name).type, before[name], after[name]) for name in names])


def in_order(frame: DataFrame, schema: TableSchema) -> DataFrame:
    """The rows with those of one key in one partition, in their order, for as long as the frame is kept (`persist`):
    what is laid over it keeps the order within a partition."""
    names = schema.primary_keys or schema.options.get("bucket-key", "").split(",")
    keys = [F.col(quoted(name.strip())) for name in names if name.strip()]
    if not keys:
        return frame
    return frame.repartition(*keys).sortWithinPartitions(ORDER)
