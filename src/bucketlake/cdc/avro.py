"""debezium-avro: messages in Confluent's wire format as events of debezium-json, a schema at a time.

    message := 0, schema id (4 bytes, big endian), the record in Avro's binary encoding

Messages of one schema are put together as one file of Avro and decoded by polars; those that are none are left for
what reads JSON to find. Values become texts as Kafka Connect's JSON has them (bytes in base64), types its schema.

Spec: docs/cdc.md#formats
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa

from bucketlake.env.http import Request, request
from bucketlake.errors import CorruptError, InvalidError, StorageError, UnsupportedError
from bucketlake.format.avro.container import Block, Header, encode_block, encode_header, encode_long
from bucketlake.format.guard import decoding
from bucketlake.lazy import pc, pl
from bucketlake.types.arrow import binary_content
from bucketlake.values import dataclass

MAGIC = 0
HEAD = 5  # bytes before the record
MOST_SCHEMAS = 1_000  # of one batch
END = 0x5B1D_A7C3_92E4_F06B  # stands behind every record while it is decoded: one that is too short or long is seen
Registry = str | Callable[[int], str]
_IMAGES = ("before", "after")
_LOGICAL = {  # of Avro's own, where no name of Connect's stands beside it: by the name that Connect has for it
    "date": ("int32", "org.apache.kafka.connect.data.Date"),
    "timestamp-millis": ("int64", "io.debezium.time.Timestamp"),
    "timestamp-micros": ("int64", "io.debezium.time.MicroTimestamp"),
    "local-timestamp-millis": ("int64", "io.debezium.time.Timestamp"),
    "local-timestamp-micros": ("int64", "io.debezium.time.MicroTimestamp"),
    "time-millis": ("int32", "io.debezium.time.Time"),
    "time-micros": ("int64", "io.debezium.time.MicroTime"),
}
_PRIMITIVE = frozenset(("null", "boolean", "int", "long", "float", "double", "bytes", "string"))
_PLAIN = {"int": "int32", "long": "int64", "float": "float", "double": "double", "boolean": "boolean", "bytes": "bytes"}


@dataclass(frozen=True)
class Known:
    """A schema of the registry. `bare`: reduced to its encoding; `types`: of the rows, as Connect's JSON has them, ""
    for a schema that is no envelope; `names`: of the record's fields; `rows`, `source`: those of the records inside."""

    bare: Any
    types: str
    names: tuple[str, ...]
    source: tuple[str, ...] = ()


def known_schema(text: str) -> Known:
    """What a schema's JSON says. UnsupportedError for one with types that are not read."""
    named: dict[str, Any] = {}
    told = json.loads(text)
    bare = _bare(told, named, 0)
    if not isinstance(told, dict) or told.get("type") != "record":
        raise UnsupportedError("a message's schema is not a record")
    fields = {item["name"]: _resolved(item["type"], named) for item in told["fields"]}
    row = next(
        (fields[name] for name in _IMAGES if isinstance(fields.get(name), dict) and "fields" in fields[name]), None
    )
    bare = {**bare, "fields": [*bare["fields"], {"name": "__end", "type": "long"}]}
    types = ""
    if row is not None:
        columns = [_column(item, named) for item in row["fields"]]
        types = json.dumps({"fields": [{"field": name, "fields": columns} for name in _IMAGES]})
    source = fields.get("source")
    inside = tuple(item["name"] for item in source["fields"]) if isinstance(source, dict) else ()
    return Known(bare, types, tuple(fields), inside)


def _bare(told: Any, named: dict[str, Any], depth: int, space: str = "") -> Any:
    """The schema as polars decodes it: no logical types, no names that Avro knows by reference. `space`: the namespace
    that names without one are of."""
    if depth > 60:
        raise UnsupportedError("a message's schema nests too deep")
    if isinstance(told, str):
        if told in named:
            return _bare(named[told], named, depth + 1, space)
        if told not in _PRIMITIVE:
            raise UnsupportedError("a message's schema refers to a type that it does not define", type=told[:100])
        return told
    if isinstance(told, list):
        if len([item for item in told if item != "null"]) > 1:
            raise UnsupportedError("a union of several types", types=[str(item)[:50] for item in told])
        return [_bare(item, named, depth + 1, space) for item in told]
    kind = told["type"]
    if isinstance(kind, (dict, list)):
        return _bare(kind, named, depth + 1, space)
    if "name" in told:
        space = told.get("namespace") or space
        named[told["name"]] = named[f"{space}.{told['name']}" if space else told["name"]] = told
    if kind == "record":
        types = [_bare(item["type"], named, depth + 1, space) for item in told["fields"]]
        fields = [{"name": item["name"], "type": type} for item, type in zip(told["fields"], types, strict=True)]
        return {"type": "record", "name": f"r{depth}_{len(named)}", "fields": fields}
    if kind == "array":
        return {"type": "array", "items": _bare(told["items"], named, depth + 1, space)}
    if kind in ("map", "fixed"):
        raise UnsupportedError("types of Avro that are not read in events", type=kind)
    if kind == "enum":
        return {"type": "enum", "name": f"e{depth}_{len(named)}", "symbols": told["symbols"]}
    return kind


def _resolved(kind: Any, named: Mapping[str, Any]) -> Any:
    """The type behind nulls and names."""
    if isinstance(kind, list):
        kind = next((item for item in kind if item != "null"), "null")
    if isinstance(kind, str) and kind in named:
        kind = named[kind]
    if isinstance(kind, dict) and isinstance(kind.get("type"), (dict, list)):
        return _resolved(kind["type"], named)
    return kind


def _column(item: Mapping[str, Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """A column as Connect's JSON schema has it."""
    kind = _resolved(item["type"], named)
    told = kind if isinstance(kind, dict) else {"type": kind}
    found: dict[str, Any] = {"field": item["name"], "type": _PLAIN.get(str(told["type"]), "string")}
    logical, parameters = told.get("connect.name"), dict(told.get("connect.parameters") or {})
    if told.get("logicalType") == "decimal":
        logical = "org.apache.kafka.connect.data.Decimal"
        parameters |= {"scale": str(told.get("scale", 0)), "connect.decimal.precision": str(told["precision"])}
    elif logical is None and told.get("logicalType") in _LOGICAL:
        found["type"], logical = _LOGICAL[told["logicalType"]]
    if logical:
        found["name"] = logical
    if parameters:
        found["parameters"] = parameters
    if item.get("doc"):
        found["doc"] = item["doc"]
    return found


# ---------------------------------------------------------------------------------------------- the registry


def schemas(registry: Registry, numbers: Sequence[int]) -> dict[int, Known]:
    """The schemas of these numbers. Errors: InvalidError for a number that the registry does not know, StorageError
    where it does not answer, UnsupportedError and CorruptError for a schema that is not read, or is none."""
    return {number: _read(_asked(registry, number), number) for number in numbers}


def _read(text: str, number: int) -> Known:
    with decoding("what the schema registry gives is no Avro schema", None, id=number):
        return known_schema(text)


def _asked(registry: Registry, number: int) -> str:
    if not isinstance(registry, str):
        return registry(number)
    return _fetched(registry, number)


@lru_cache(MOST_SCHEMAS)
def _fetched(registry: str, number: int) -> str:
    """What a registry says of a number: it never says anything else."""
    answer = request(Request("GET", f"{registry.rstrip('/')}/schemas/ids/{number}"))
    if answer.status == 404:
        raise InvalidError("the schema registry does not know a schema", id=number)
    if answer.status != 200:
        raise StorageError("the schema registry does not answer", id=number, status=answer.status)
    try:
        found = json.loads(answer.body)
        text, kind = found["schema"], found.get("schemaType") or "AVRO"
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise StorageError("not what a schema registry answers", id=number, reason=str(error)) from error
    if kind != "AVRO":
        raise UnsupportedError("the schema of a message is not an Avro schema", id=number, type=str(kind)[:50])
    return str(text)


# ---------------------------------------------------------------------------------------------- messages


@dataclass(frozen=True)
class Decoding:
    """Turns columns `value` and `key` of Arrow batches, messages, into texts of events. Travels to tasks."""

    values: Mapping[int, Known]
    keys: Mapping[int, Known]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Batches with the same further columns."""
        for batch in batches:
            arrays = {name: batch.column(name) for name in batch.schema.names}
            arrays["value"] = _texts(arrays["value"], self.values, _events)
            arrays["key"] = _texts(arrays["key"], self.keys, _keys)
            yield pa.RecordBatch.from_pydict(arrays)


def _texts(messages: pa.Array, known: Mapping[int, Known], shown: Callable[[Any, Known], pa.Array]) -> pa.Array:
    """Messages as texts; null for null, "" is none, what cannot be decoded becomes base64, which is no JSON."""
    messages = messages.cast(pa.large_binary())
    heads = pc.binary_slice(messages, 0, HEAD)
    raw = pl.Series("m", messages).bin.encode("base64").to_arrow().cast(pa.large_string())
    for number, schema in known.items():
        chosen = pc.equal(heads, pa.scalar(bytes([MAGIC]) + number.to_bytes(4, "big"), pa.large_binary()))
        chosen = pc.fill_null(chosen, False)
        places = pc.indices_nonzero(chosen)
        if len(places):
            made = _decoded(messages.take(places), schema, shown, raw.take(places))
            raw = pc.replace_with_mask(raw, chosen, made.cast(pa.large_string()))
    return raw.cast(pa.string())


def _decoded(messages: pa.Array, schema: Known, shown: Callable[[Any, Known], pa.Array], raw: pa.Array) -> pa.Array:
    """The texts of messages of one schema. Those among which one is damaged are halved until it stands alone."""
    bodies = pc.binary_slice(messages, HEAD, 2**31 - 1)  # without an end Arrow fails on short ones
    bodies = pc.binary_join_element_wise(
        bodies, pa.scalar(encode_long(END), pa.large_binary()), pa.scalar(b"", pa.large_binary())
    )
    header = Header(schema.bare, "null", bytes(16))
    file = encode_header(header) + encode_block(Block(len(messages), bytes(binary_content(bodies))), header, 0)
    try:
        with decoding("a damaged message", None):
            frame = pl.read_avro(io.BytesIO(file))
        if len(frame) == len(messages) and (frame["__end"] == END).all():
            return shown(frame, schema)
    except CorruptError:
        pass
    if len(messages) == 1:
        return raw
    half = len(messages) // 2
    parts = [(messages[:half], raw[:half]), (messages[half:], raw[half:])]
    return pa.concat_arrays([_decoded(one, schema, shown, text).cast(pa.large_string()) for one, text in parts])


def _events(frame: Any, schema: Known) -> pa.Array:
    """Debezium's JSON of decoded envelopes."""
    parts = [
        pl.lit('{"schema":' + (schema.types or "null") + ',"payload":{"op":'),
        _quoted(_field(schema, "op")),
    ]
    for image in _IMAGES:
        parts += [pl.lit(f',"{image}":'), _object(frame, image) if image in schema.names else pl.lit("null")]
    for name in ("db", "table", "schema", "ts_ms"):
        inside = (
            pl.col("source").struct.field(name).cast(pl.String) if name in schema.source else pl.lit(None, pl.String)
        )
        parts += [pl.lit((',"source":{' if name == "db" else ",") + f'"{name}":'), _quoted(inside)]
    parts.append(pl.lit("}}}"))
    return frame.select(pl.concat_str(parts)).to_series().to_arrow()


def _keys(frame: Any, schema: Known) -> pa.Array:
    """A key's fields as a JSON object."""
    texts = pl.struct([_text(frame.schema[name], pl.col(name)).alias(name) for name in schema.names])
    return frame.select(texts.struct.json_encode()).to_series().to_arrow()


def _field(schema: Known, name: str) -> Any:
    return pl.col(name).cast(pl.String) if name in schema.names else pl.lit(None, pl.String)


def _quoted(text: Any) -> Any:
    """A text as JSON."""
    inside = pl.struct(text.alias("x")).struct.json_encode()
    return pl.when(text.is_null()).then(pl.lit("null")).otherwise(inside.str.slice(5).str.head(-1))


def _object(frame: Any, image: str) -> Any:
    """A record as a JSON object of texts."""
    kind = frame.schema[image]
    texts = [_text(item.dtype, pl.col(image).struct.field(item.name)).alias(item.name) for item in kind.fields]
    return pl.when(pl.col(image).is_null()).then(pl.lit("null")).otherwise(pl.struct(texts).struct.json_encode())


def _text(kind: Any, column: Any) -> Any:
    """A value as text: bytes in base64, records and lists as JSON."""
    if kind == pl.Binary:
        return column.bin.encode("base64")
    if isinstance(kind, pl.Struct):
        return column.struct.json_encode()
    if isinstance(kind, pl.List):
        wrapped = pl.struct(column.alias("x")).struct.json_encode()
        return pl.when(column.is_null()).then(None).otherwise(wrapped.str.slice(5).str.head(-1))
    return column.cast(pl.String)
