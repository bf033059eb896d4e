"""Messages of debezium-avro as events of debezium-json: types, values, damaged messages. No Spark."""

from __future__ import annotations

import io
import json
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from bucketlake.cdc.avro import Decoding, known_schema, schemas
from bucketlake.cdc.shapes import columns_of
from bucketlake.errors import InvalidError, StorageError, UnsupportedError
from bucketlake.spark.session import Lake
from bucketlake.types.model import type_text

from .feeds import Feed

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


@contextmanager
def serving(answers: dict[int, tuple[int, bytes]]) -> Iterator[tuple[str, list[str]]]:
    """A registry: its URL, and what it is asked."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            status, body = answers.get(int(self.path.rpartition("/")[2]), (404, b"{}"))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/", asked
    finally:
        server.shutdown()
        server.server_close()


def told(number: int) -> tuple[int, bytes]:
    return 200, json.dumps({"schema": _REGISTRY[number]}).encode()


def test_a_registry_is_asked_once_for_each_schema() -> None:
    with serving({7: told(7), 8: told(8), 9: (500, b""), 10: (200, b"<html>"), 11: (200, b"[]")}) as (url, asked):
        assert schemas(url, [7, 8]) == schemas(_REGISTRY.__getitem__, [7, 8]) == schemas(url, [8, 7])
        assert asked == ["/schemas/ids/7", "/schemas/ids/8"]
        for number, error in ((6, InvalidError), (9, StorageError), (10, StorageError), (11, StorageError)):
            with pytest.raises(error, match=str(number)):
                schemas(url, [number])
    with pytest.raises(StorageError):
        schemas(url, [12])


@pytest.mark.slow
def test_events_by_a_registry_over_http(classic: Lake, tmp_path: Path) -> None:
    with serving({7: told(7), 8: told(8)}) as (url, _):
        feed = Feed(classic, "debezium-avro", "db.t", tmp_path, registry=url)
        keys = [_message(8, _KEY, {"id": number}) for number in (1, 2)]
        rows = [{**_DATA, "id": number} for number in (1, 2)]
        feed.give([(key, _event("c", None, row)) for key, row in zip(keys, rows, strict=True)])
        feed.give([(keys[0], _event("u", rows[0], {**rows[0], "s": "new"})), (keys[1], _event("d", rows[1], None))])
    assert feed.rows("(SELECT id, n, s, b, x FROM db.t)") == [(1, Decimal("-2.46"), "new", True, b"\xff\x00")]


def test_names_are_found_in_their_namespaces() -> None:
    inner = {"type": "record", "name": "Value", "fields": [{"name": "a", "type": "int"}]}
    other = {"type": "record", "name": "O", "namespace": "b", "fields": [{"name": "v", "type": "a.Value"}]}
    fields = [{"name": "before", "type": inner}, {"name": "after", "type": other}]
    known = known_schema(json.dumps({"type": "record", "name": "E", "namespace": "a", "fields": fields}))
    assert known.bare["fields"][1]["type"]["fields"][0]["type"]["fields"][0]["type"] == "int"


def test_what_is_not_read_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="does not define"):
        known_schema(json.dumps({"type": "record", "name": "r", "fields": [{"name": "a", "type": "elsewhere.Value"}]}))
    with pytest.raises(UnsupportedError, match="several types"):
        known_schema(json.dumps({"type": "record", "name": "r", "fields": [{"name": "a", "type": ["int", "string"]}]}))
    with pytest.raises(UnsupportedError, match="map"):
        known_schema(
            json.dumps(
                {"type": "record", "name": "r", "fields": [{"name": "a", "type": {"type": "map", "values": "int"}}]}
            )
        )
