"""A PostgreSQL database that a lake follows: rows are inserted, updated, deleted, and tables altered, while it runs.

    pip install 'bucketlake[spark]' psycopg
    python examples/cdc.py [--files]

It starts a PostgreSQL server and a Kafka broker of its own, in a temporary folder: `postgres` has to be installed, and
`mvn`, which brings the broker and Spark's package for Kafka, or KAFKA_HOME and KAFKA_JARS say where they are. With
`--files`, events go to a folder instead of a topic. A small connector reads PostgreSQL's logical decoding (pgoutput) and
writes events as Debezium does; a real one would stand in its place.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import pwd
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any

import psycopg
import pyspark

import bucketlake
from bucketlake import cdc
from bucketlake.spark.java import ensure_java
from bucketlake.spark.session import new_session

KAFKA = "4.1.1"
SPARK_KAFKA = ("4.2.0",)  # newest releases of Spark's package for Kafka, where there is none of the version at hand
TOPIC = "shop"


# ---------------------------------------------------------------------------------------------- PostgreSQL


@contextmanager
def postgres(folder: Path) -> Iterator[str]:
    """A server of its own with logical decoding; how to connect to it."""
    found = shutil.which("postgres")
    if found is None:
        raise SystemExit("PEER MISSING: postgres is not installed")
    programs = Path(found).resolve().parent
    data, user = folder / "postgres", "postgres" if os.getuid() == 0 else pwd.getpwuid(os.getuid()).pw_name
    data.mkdir()
    who: dict[str, Any] = {"user": user} if os.getuid() == 0 else {}
    if who:  # a server does not run as root
        os.chmod(folder, 0o755)
        shutil.chown(data, user)
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": "/"}
    make = [str(programs / "initdb"), "-D", str(data), "-U", "lake", "--auth=trust", "--no-sync", "-E", "UTF8"]
    subprocess.run(make, check=True, **quiet, **who)
    settings = {"wal_level": "logical", "listen_addresses": "", "unix_socket_directories": str(data), "fsync": "off"}
    told = [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
    server = subprocess.Popen([found, "-D", str(data), *told], **quiet, **who)
    try:
        where = f"host={data} user=lake dbname=postgres"
        until(lambda: _answers(where), "PostgreSQL")
        yield where
    finally:
        server.terminate()
        server.wait(30)


def _answers(where: str) -> bool:
    try:
        psycopg.connect(where).close()
    except psycopg.OperationalError:
        return False
    return True


# ---------------------------------------------------------------------------------------------- the connector

_KINDS = {16: "boolean", 21: "int16", 23: "int32", 20: "int64", 700: "float", 701: "double"}
_EPOCH = datetime(1970, 1, 1)


def _field(name: str, oid: int, modifier: int) -> dict[str, Any]:
    """A column as Kafka Connect describes it."""
    field: dict[str, Any] = {"field": name, "optional": True, "type": _KINDS.get(oid, "string")}
    if oid == 1082:
        field |= {"type": "int32", "name": "io.debezium.time.Date"}
    elif oid == 1114:
        field |= {"type": "int64", "name": "io.debezium.time.MicroTimestamp"}
    elif oid == 1184:
        field |= {"name": "io.debezium.time.ZonedTimestamp"}
    elif oid == 1700 and modifier >= 4:
        digits, scale = (modifier - 4) >> 16, (modifier - 4) & 0xFFFF
        told = {"scale": str(scale), "connect.decimal.precision": str(digits)}
        field |= {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": told}
    return field


def _value(field: dict[str, Any], text: str | None) -> Any:
    """A value as Debezium writes it, of PostgreSQL's text."""
    if text is None:
        return None
    logical = field.get("name", "")
    if logical.endswith("time.Date"):
        return (date.fromisoformat(text) - _EPOCH.date()).days
    if logical.endswith("MicroTimestamp"):
        since = datetime.fromisoformat(text) - _EPOCH
        return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    if logical.endswith("ZonedTimestamp"):
        padded = text if ":" in text[-6:] and text[-3] == ":" and text[-6] in "+-" else f"{text}:00"
        return datetime.fromisoformat(padded).astimezone(timezone.utc).isoformat().replace("+00:00", "Z")
    if logical.endswith("Decimal"):
        scale = int(field["parameters"]["scale"])
        whole, _, fraction = text.partition(".")
        number = int(whole + fraction.ljust(scale, "0"))
        return _base64(number)
    if field["type"] == "boolean":
        return text == "t"
    if field["type"] in ("int16", "int32", "int64"):
        return int(text)
    return float(text) if field["type"] in ("float", "double") else text


def _base64(number: int) -> str:
    size = max(1, (number.bit_length() + 8) // 8)
    return base64.b64encode(number.to_bytes(size, "big", signed=True)).decode()


class Connector:
    """Reads what a database logs and hands it on as Debezium's events, each at least once."""

    def __init__(self, where: str) -> None:
        self.connection = psycopg.connect(where, autocommit=True)
        self.tables: dict[int, tuple[str, list[dict[str, Any]], list[str]]] = {}

    def start(self) -> None:
        """From now on, changes are kept until they are handed on."""
        self.connection.execute("CREATE PUBLICATION lake FOR ALL TABLES")
        self.connection.execute("SELECT pg_create_logical_replication_slot('lake', 'pgoutput')")

    def hand_on(self, send: Callable[[list[tuple[str, str]]], None]) -> int:
        """Send the changes since the last time, then forget them; how many there were."""
        options = "'proto_version', '1', 'publication_names', 'lake'"
        found = self.connection.execute(
            f"SELECT lsn::text, data FROM pg_logical_slot_peek_binary_changes('lake', NULL, NULL, {options})"
        ).fetchall()
        events = [event for _, data in found for event in self._events(bytes(data))]
        if events:
            send(events)
        if found:
            self.connection.execute("SELECT pg_replication_slot_advance('lake', %s::pg_lsn)", (found[-1][0],))
        return len(events)

    def _events(self, data: bytes) -> Iterator[tuple[str, str]]:
        kind, at = chr(data[0]), 1
        if kind == "R":
            self._relation(data)
        elif kind in "IUD":
            number = struct.unpack_from(">I", data, at)[0]
            images: dict[str, dict[str, Any]] = {}
            at += 4
            while at < len(data):
                which = chr(data[at])
                images[which], at = self._row(data, at + 1, number)
            before, after = images.get("O", images.get("K")), images.get("N")
            yield self._event({"I": "c", "U": "u", "D": "d"}[kind], number, before, after)
        elif kind == "T":
            count = struct.unpack_from(">I", data, at)[0]
            for number in struct.unpack_from(f">{count}I", data, at + 5):
                yield self._event("t", number, None, None)

    def _relation(self, data: bytes) -> None:
        number = struct.unpack_from(">I", data, 1)[0]
        _, at = _text(data, 5)
        table, at = _text(data, at)
        count = struct.unpack_from(">H", data, at + 1)[0]
        at += 3
        fields, names = [], []
        for _ in range(count):
            name, next_at = _text(data, at + 1)
            oid, modifier = struct.unpack_from(">Ii", data, next_at)
            fields.append(_field(name, oid, modifier))
            names.append(name)
            at = next_at + 8
        keys = self.connection.execute(
            "SELECT a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey)"
            " WHERE i.indrelid = %s::oid AND i.indisprimary",
            (number,),
        ).fetchall()
        self.tables[number] = (table, fields, [key for (key,) in keys])

    def _row(self, data: bytes, at: int, number: int) -> tuple[dict[str, Any], int]:
        _, fields, _ = self.tables[number]
        count = struct.unpack_from(">H", data, at)[0]
        at += 2
        row: dict[str, Any] = {}
        for field in fields[:count]:
            kind = chr(data[at])
            at += 1
            if kind == "t":
                size = struct.unpack_from(">I", data, at)[0]
                row[field["field"]] = _value(field, data[at + 4 : at + 4 + size].decode())
                at += 4 + size
            else:
                row[field["field"]] = "__debezium_unavailable_value" if kind == "u" else None
        return row, at

    def _event(self, op: str, number: int, before: Any, after: Any) -> tuple[str, str]:
        table, fields, keys = self.tables[number]
        row = after or before or {}
        images = [{"type": "struct", "field": name, "fields": fields} for name in ("before", "after")]
        source = {"db": "shop", "schema": "public", "table": table, "ts_ms": time.time_ns() // 1_000_000}
        payload = {"op": op, "before": before, "after": after, "source": source, "pkNames": keys}
        key = json.dumps({"payload": {name: row.get(name) for name in keys}}) if keys else ""
        return key, json.dumps({"schema": {"type": "struct", "fields": images}, "payload": payload})


def _text(data: bytes, at: int) -> tuple[str, int]:
    end = data.index(0, at)
    return data[at:end].decode(), end + 1


# ---------------------------------------------------------------------------------------------- Kafka


@contextmanager
def kafka(folder: Path, jars: Path) -> Iterator[str]:
    """A broker of its own, KRaft's way; its address."""
    ports = [_free_port(), _free_port()]
    listeners = f"PLAINTEXT://127.0.0.1:{ports[0]},CONTROLLER://127.0.0.1:{ports[1]}"
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{ports[1]}",
        "listeners": listeners,
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{ports[0]}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": str(folder / "kafka"),
        "offsets.topic.replication.factor": "1",
        "group.initial.rebalance.delay.ms": "0",
        "num.partitions": "1",
    }
    file = folder / "kafka.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    ensure_java()
    java = [shutil.which("java") or str(Path(os.environ["JAVA_HOME"]) / "bin" / "java"), "-Xmx256m", "-cp", f"{jars}/*"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    number = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    subprocess.run([*java, "kafka.tools.StorageTool", "format", "-t", number, "-c", str(file)], check=True, **quiet)
    broker = subprocess.Popen([*java, "kafka.Kafka", str(file)], **quiet)
    try:
        until(lambda: broker.poll() is not None or _listens(ports[0]), "Kafka")
        if broker.poll() is not None:
            raise SystemExit("the broker did not start")
        yield f"127.0.0.1:{ports[0]}"
    finally:
        broker.terminate()
        broker.wait(30)


def _free_port() -> int:
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _listens(port: int) -> bool:
    with closing(socket.socket()) as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


def jars_of(group: str, name: str, versions: tuple[str, ...], given: str | None, also: str = "") -> Path:
    """A folder with the jars of an artifact and what it needs, brought by Maven where it is not there yet."""
    if given:
        return Path(given)
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "bucketlake" / "jars"
    maven = shutil.which("mvn")
    for version in versions:
        folder = cache / f"{name}-{version}"
        if folder.is_dir():
            return folder
        if maven is None:
            continue
        with tempfile.TemporaryDirectory() as scratch:
            project = "<project><modelVersion>4.0.0</modelVersion><groupId>x</groupId><artifactId>x</artifactId>"
            project += f"<version>1</version><dependencies><dependency><groupId>{group}</groupId><artifactId>{name}"
            project += f"</artifactId><version>{version}</version></dependency></dependencies></project>"
            (Path(scratch) / "pom.xml").write_text(project)
            made = Path(scratch) / "jars"
            copy = [maven, "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={made}", *also.split()]
            if subprocess.run(copy, cwd=scratch, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0:
                cache.mkdir(parents=True, exist_ok=True)
                shutil.move(made, folder)
                return folder
    raise SystemExit(f"PEER MISSING: {group}:{name} {' or '.join(versions)} cannot be had from Maven")


def until(holds: Callable[[], bool], what: str) -> None:
    """Wait for something, a minute at most."""
    end = time.monotonic() + 60
    while not holds():
        if time.monotonic() > end:
            raise SystemExit(f"{what} does not answer")
        time.sleep(0.1)


# ---------------------------------------------------------------------------------------------- the shop

_BEGIN = """
CREATE TABLE orders (id INT PRIMARY KEY, customer TEXT, amount NUMERIC(10, 2), placed TIMESTAMP, due DATE, open BOOLEAN);
ALTER TABLE orders REPLICA IDENTITY FULL;
INSERT INTO orders SELECT i, 'customer ' || i % 7, i * 1.25, TIMESTAMP '2024-01-01' + i * INTERVAL '1 hour 1 microsecond',
    DATE '2024-01-01' + i, i % 2 = 0 FROM generate_series(1, 200) i;
"""
_CHANGES = """
UPDATE orders SET amount = amount + 0.50, open = NOT open WHERE id % 3 = 0;
DELETE FROM orders WHERE id % 10 = 0;
UPDATE orders SET id = 1001 WHERE id = 1;
INSERT INTO orders VALUES (300, 'änne "x"', -1.05, NULL, NULL, NULL);
"""
_ALTER = """
ALTER TABLE orders ADD COLUMN note VARCHAR(40);
ALTER TABLE orders ADD COLUMN seen TIMESTAMPTZ;
ALTER TABLE orders ALTER COLUMN amount TYPE NUMERIC(14, 4);
UPDATE orders SET note = 'checked ' || id, seen = TIMESTAMPTZ '2024-02-03 04:05:06.789+02' WHERE id % 4 = 0;
CREATE TABLE customers (name TEXT PRIMARY KEY, visits BIGINT);
INSERT INTO customers SELECT customer, count(*) FROM orders GROUP BY customer;
UPDATE customers SET visits = visits + 1 WHERE visits > 20;
"""
_QUERIES = {
    "orders": "SELECT id, customer, amount, placed, due, open, note, seen FROM {} ORDER BY id",
    "customers": "SELECT name, visits FROM {} ORDER BY name",
}


def run(folder: Path, files: bool) -> None:
    """Play the story, then compare both sides."""
    jars = None if files else jars_of("org.apache.kafka", "kafka_2.13", (KAFKA,), os.environ.get("KAFKA_HOME"))
    settings = {}
    if not files:
        name, versions = "spark-sql-kafka-0-10_2.13", tuple(dict.fromkeys((pyspark.__version__, *SPARK_KAFKA)))
        scala = "-DexcludeGroupIds=org.scala-lang -DincludeScope=runtime"
        spark_jars = jars_of("org.apache.spark", name, versions, os.environ.get("KAFKA_JARS"), scala)
        own = ("spark-sql-kafka", "spark-token-provider", "kafka-clients", "commons-pool2")  # Spark has the others
        settings["spark.jars"] = ",".join(str(path) for path in spark_jars.glob("*.jar") if path.name.startswith(own))
    with postgres(folder) as where:
        if jars is None:
            (folder / "events").mkdir()
            play(folder, where, new_session(), None)
        else:
            with kafka(folder, jars / "libs" if (jars / "libs").is_dir() else jars) as address:
                play(folder, where, new_session(**settings), address)


def play(folder: Path, where: str, spark: Any, address: str | None) -> None:
    """Change the database and follow it."""
    sent = 0

    def send(events: list[tuple[str, str]]) -> None:
        nonlocal sent
        sent += 1
        if address is None:
            made = folder / f"{sent}.part"
            made.write_text("".join(f"{value}\n" for _, value in events))
            made.rename(folder / "events" / f"{sent}.json")
        else:
            rows = spark.createDataFrame(events, "key string, value string").coalesce(1)
            rows.write.format("kafka").option("kafka.bootstrap.servers", address).option("topic", TOPIC).save()

    lake = bucketlake.connect(str(folder / "lake"), spark=spark)
    lake.sql("CREATE DATABASE shop")
    connector = Connector(where)
    connector.start()
    database = psycopg.connect(where, autocommit=True)
    database.execute(_BEGIN)
    print(f"handed on {connector.hand_on(send)} events")
    if address is None:
        source = cdc.files(str(folder / "events"), format="debezium-json", maxFilesPerTrigger="1")
    else:
        source = cdc.kafka(address, TOPIC, format="debezium-json")
    every = {"processingTime": "1 second"}
    query = cdc.sync_database(lake, source, "shop", checkpoint=str(folder / "checkpoint"), on_batch=tell, trigger=every)
    for statements in (_CHANGES, _ALTER):
        database.execute(statements)
        print(f"handed on {connector.hand_on(send)} events")
        query.processAllAvailable()
    query.stop()
    compare(database, lake)
    spark.stop()


def tell(done: cdc.SyncDone) -> None:
    """One line a batch."""
    tables = ", ".join(f"{item.table} {dict(item.rows)}" for item in done.tables)
    print(f"batch {done.batch}: {done.events} events, {tables}; {done.dead_letters} dead letters, {done.millis} ms")


def compare(database: Any, lake: Any) -> None:
    """Both sides hold the same rows."""
    for table, text in _QUERIES.items():
        rows = [tuple(_plain(item) for item in row) for row in database.execute(text.format(table)).fetchall()]
        found = [tuple(_plain(item) for item in row) for row in lake.sql(text.format(f"shop.{table}")).collect()]
        if rows != found:
            odd = [pair for pair in zip(rows, found, strict=False) if pair[0] != pair[1]][:3]
            raise SystemExit(f"{table} differs: {len(rows)} rows there, {len(found)} here, such as {odd}")
        print(f"{table}: {len(rows)} rows, the same on both sides")


def _plain(item: Any) -> Any:
    if isinstance(item, datetime) and item.tzinfo is not None:
        return item.astimezone(timezone.utc).replace(tzinfo=None)
    return item


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", action="store_true", help="events go through a folder instead of Kafka")
    with tempfile.TemporaryDirectory(prefix="bucketlake-cdc-") as temporary:
        sys.exit(run(Path(temporary), parser.parse_args().files))
