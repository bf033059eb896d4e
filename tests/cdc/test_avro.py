"""Messages of debezium-avro as events of debezium-json: types, values, damaged messages. No Spark."""

from __future__ import annotations

import io
import json
import struct
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from bucketlake.cdc.avro import Decoding, known_schema, schemas
from bucketlake.cdc.shapes import columns_of
from bucketlake.errors import UnsupportedError
from bucketlake.types.model import type_text

_NUMBER = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}
_ROW = {
    "type": "record",
    "name": "Value",
    "namespace": "shop.t",
    "fields": [
        {"name": "id", "type": "long", "doc": "the key"},
        {"name": "n", "type": ["null", {**_NUMBER, "connect.name": "org.apache.kafka.connect.data.Decimal"}]},
        {"name": "d", "type": ["null", {"type": "int", "connect.name": "io.debezium.time.Date"}]},
        {"name": "t", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}]},
        {"name": "s", "type": ["null", "string"]},
        {"name": "b", "type": ["null", "boolean"]},
        {"name": "f", "type": ["null", "double"]},
        {"name": "x", "type": ["null", "bytes"]},
        {"name": "a", "type": ["null", {"type": "array", "items": "string"}]},
    ],
}
_SOURCE = [{"name": "db", "type": "string"}, {"name": "table", "type": "string"}, {"name": "ts_ms", "type": "long"}]
_ENVELOPE = {
    "type": "record",
    "name": "Envelope",
    "namespace": "shop.t",
    "fields": [
        {"name": "before", "type": ["null", _ROW], "default": None},
        {"name": "after", "type": ["null", "Value"], "default": None},
        {"name": "source", "type": {"type": "record", "name": "Source", "fields": _SOURCE}},
        {"name": "op", "type": "string"},
        {"name": "ts_ms", "type": ["null", "long"]},
    ],
}
_KEY = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "long"}]}
_REGISTRY = {7: json.dumps(_ENVELOPE), 8: json.dumps(_KEY)}
_DATA = {
    "id": 1 << 40, "n": Decimal("-2.46"), "d": 19000, "t": None, "s": 'a"é\n', "b": True, "f": 0.1, "x": b"\xff\x00",
    "a": ["x", '"'],
}  # fmt: skip


def _message(number: int, schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(json.dumps(schema))), value)
    return b"\0" + struct.pack(">I", number) + out.getvalue()


def _event(op: str, before: Any, after: Any) -> bytes:
    source = {"db": "shop", "table": "t", "ts_ms": 5}
    return _message(7, _ENVELOPE, {"before": before, "after": after, "source": source, "op": op, "ts_ms": None})


def _decode(values: list[bytes | None], keys: list[bytes | None]) -> list[dict[str, Any]]:
    decoding = Decoding(schemas(_REGISTRY.__getitem__, [7]), schemas(_REGISTRY.__getitem__, [8]))
    places = pa.array(range(len(values)))
    batch = pa.RecordBatch.from_pydict(
        {"value": pa.array(values, pa.binary()), "key": pa.array(keys, pa.binary()), "at": places}
    )
    return [row for made in decoding(iter([batch])) for row in made.to_pylist()]


def test_messages_become_events() -> None:
    less = {**_DATA, "n": None, "s": None, "a": None}
    found = _decode(
        [_event("c", None, _DATA), None, _event("u", _DATA, less), _event("d", less, None)],
        [_message(8, _KEY, {"id": 3}), None, _message(8, _KEY, {"id": 4}), None],
    )
    assert [row["at"] for row in found] == [0, 1, 2, 3]
    assert [row["key"] for row in found] == ['{"id":"3"}', None, '{"id":"4"}', None]
    first, update, delete = (json.loads(found[place]["value"])["payload"] for place in (0, 2, 3))
    assert found[1]["value"] is None
    assert first["before"] is None
    assert first["after"] == {
        "id": "1099511627776", "n": "/wo=", "d": "19000", "t": None, "s": 'a"é\n', "b": "true", "f": "0.1", "x": "/wA=",
        "a": '["x","\\""]',
    }  # fmt: skip
    assert first["source"] == {"db": "shop", "table": "t", "schema": None, "ts_ms": "5"}
    assert (update["op"], update["after"]["s"], update["before"]["s"]) == ("u", None, 'a"é\n')
    assert (delete["op"], delete["after"]) == ("d", None)
    types = json.dumps(json.loads(found[0]["value"])["schema"])
    columns = columns_of(None, types, frozenset())
    assert [type_text(item.type) for item in columns if item.type] == [
        *("BIGINT", "DECIMAL(10, 2)", "DATE", "TIMESTAMP(6)", "STRING", "BOOLEAN", "DOUBLE", "BYTES", "STRING"),
    ]
    assert columns[0].comment == "the key"


def test_a_damaged_message_harms_no_other() -> None:
    good = [_event("c", None, {**_DATA, "id": number}) for number in range(9)]
    bad = {2: good[2][:-3], 4: good[4] + b"\x02", 5: b"junk", 6: b"\0\0\0\0\x63" + good[6][5:], 7: good[7][:5]}
    found = _decode([bad.get(place, one) for place, one in enumerate(good)], [None] * 9)
    for place, row in enumerate(found):
        if place in bad:
            assert not row["value"].startswith("{")
        else:
            assert json.loads(row["value"])["payload"]["after"]["id"] == str(place)


def test_what_is_not_read_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="several types"):
        known_schema(json.dumps({"type": "record", "name": "r", "fields": [{"name": "a", "type": ["int", "string"]}]}))
    with pytest.raises(UnsupportedError, match="map"):
        known_schema(
            json.dumps(
                {"type": "record", "name": "r", "fields": [{"name": "a", "type": {"type": "map", "values": "int"}}]}
            )
        )
