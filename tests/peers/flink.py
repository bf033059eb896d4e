"""Apache Paimon on Flink SQL, in one long-lived process: the referee of what a table holds."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime, time, timezone
from decimal import Decimal
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.peers import install
from tests.peers.rpc import Driver, PeerError

KINDS = {"INSERT": "+I", "UPDATE_BEFORE": "-U", "UPDATE_AFTER": "+U", "DELETE": "-D"}
# Hadoop's thousand defaults would be written and read with every operator of a job, a quarter of what Flink does here.
NO_DEFAULTS = Path(__file__).with_name("hadoop")
CODE = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"  # 48 MB are full after some hundred statements
JVM = f"-Xmx1g -XX:+UseSerialGC {CODE} -Duser.timezone=UTC -Xbootclasspath/a:{NO_DEFAULTS}"
START_SECONDS = 180.0


@dataclass(frozen=True)
class Result:
    """What one statement returned.

    `kinds` has one of +I -U +U -D for each row. Values: DECIMAL is Decimal; BINARY and BYTES bytes; DATE date; TIME
    time; TIMESTAMP a naive and TIMESTAMP_LTZ a UTC datetime, but text with 9 digits where the precision is above 6;
    ARRAY list; MAP dict, or pairs if its keys do not hash; ROW tuple. What Python's calendar lacks stays ISO text.
    """

    columns: list[str]
    types: list[str]
    rows: list[tuple[Any, ...]]
    kinds: list[str]

    def dicts(self) -> list[dict[str, Any]]:
        """The rows as dictionaries by column name."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

    def scalar(self) -> Any:
        """The value of a result of one row and one column."""
        ((value,),) = self.rows
        return value


class FlinkPaimon:
    """Flink SQL over one warehouse folder at a time; the session's time zone is UTC.

    Starting costs some seconds, a statement that runs a job about half a second. Catalogs do not cache, so every
    statement sees what others did to the warehouse meanwhile.
    """

    def __init__(self, warehouse: str | Path, *, parallelism: int = 1) -> None:
        home = install.ensure("flink")
        env = {"JVM_ARGS": JVM, "PEER_PARALLELISM": str(parallelism)}
        java = install.java_home(home)
        if java is not None:
            env["JAVA_HOME"] = str(java)
        self._driver = Driver(install.python_of(home), "tests.peers.flink_driver", env)
        try:
            self.use(warehouse)
        except BaseException:
            self._driver.close()
            raise

    def __enter__(self) -> FlinkPaimon:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the process."""
        self._driver.close()

    def use(self, warehouse: str | Path) -> FlinkPaimon:
        """Switch to another warehouse folder (made if absent) and its database `default`."""
        folder = Path(warehouse).resolve()
        self._driver.call("use", {"warehouse": str(folder)}, START_SECONDS)
        return self

    def configure(self, options: Mapping[str, str]) -> None:
        """Set options of the Flink session, until changed again."""
        self._driver.call("configure", {"options": dict(options)}, 30)

    @contextmanager
    def jvm_zone(self, name: str) -> Iterator[None]:
        """Have the JVM's own time zone, which ORC files name, be this one meanwhile; the session's stays UTC."""
        self._driver.call("zone", {"name": name}, 30)
        try:
            yield
        finally:
            self._driver.call("zone", {"name": "UTC"}, 30)

    def run(self, statements: Sequence[str], *, streaming: bool = False, timeout: float = 300) -> list[Result]:
        """Run statements in order, each to its end, INSERT and CALL included.

        The first that fails raises PeerError with the root cause's message; those before it stay done.
        """
        mode = "streaming" if streaming else "batch"
        return [self._one(text, mode, timeout) for text in statements]

    def api(self, operation: str, timeout: float = 120, **args: Any) -> Any:
        """What a method of tests.peers.paimon_api.PaimonApi returns: Paimon without a Flink job."""
        return self._driver.call("api", {"method": operation, "args": args}, timeout)

    def sql(self, text: str, *, streaming: bool = False, timeout: float = 300) -> Result:
        """Run one statement to its end."""
        return self._one(text, "streaming" if streaming else "batch", timeout)

    def collect(self, sql: str, limit_rows: int, timeout: float = 30) -> Result:
        """The first `limit_rows` changes of a streaming query, or those of `timeout` seconds; then it is cancelled."""
        args = {"sql": sql, "limit_rows": limit_rows, "timeout": timeout}
        return _decode(self._driver.call("collect", args, timeout + 60))

    def _one(self, text: str, mode: str, timeout: float) -> Result:
        try:
            (reply,) = self._driver.call("run", {"statements": [text], "mode": mode}, timeout)
        except PeerError as error:
            raise PeerError(f"{error}\nstatement: {text}", error.chain) from error
        return _decode(reply)


def _decode(reply: Mapping[str, Any]) -> Result:
    decoders = [_decoder(each) for each in reply["types"]]
    rows = json.loads(reply["rows"])
    return Result(
        columns=reply["columns"],
        types=[each["text"] for each in reply["types"]],
        rows=[_fields(decoders, row["fieldByPosition"]) for row in rows],
        kinds=[KINDS[row["kind"]] for row in rows],
    )


def _fields(decoders: Sequence[Callable[[Any], Any]], values: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(decode(value) for decode, value in zip(decoders, values, strict=True))


def _decoder(described: Mapping[str, Any]) -> Callable[[Any], Any]:
    """A function from the JSON form of a value of this type to its Python form; null passes through."""
    known = _known_decoder(described)
    return lambda value: None if value is None else known(value)


def _known_decoder(described: Mapping[str, Any]) -> Callable[[Any], Any]:
    root = described["root"]
    children = [_decoder(child) for child in described["children"]]
    if root == "ARRAY":
        return lambda values: [children[0](value) for value in _items(values)]
    if root == "MAP":
        return lambda entries: _map((children[0](key), children[1](value)) for key, value in entries.items())
    if root == "MULTISET":
        return lambda entries: _map((children[0](key), count) for key, count in entries.items())
    if root == "ROW":
        return lambda row: _fields(children, row["fieldByPosition"])
    if root.startswith("TIMESTAMP"):
        local_zone = root == "TIMESTAMP_WITH_LOCAL_TIME_ZONE"
        return lambda text: _timestamp(text, described["precision"], local_zone)
    return SIMPLE.get(root, lambda value: value)


def _items(values: Any) -> list[Any]:
    """The elements of an array; one of TINYINT NOT NULL comes as the base64 of its bytes."""
    if isinstance(values, str):
        return [byte - 256 if byte > 127 else byte for byte in base64.b64decode(values)]
    return list(values)


def _map(entries: Any) -> Any:
    pairs = list(entries)
    try:
        return dict(pairs)
    except TypeError:
        return pairs


def _date(text: str) -> date | str:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return text


def _time(text: str) -> time | str:
    clock, _, fraction = text.partition(".")
    if fraction[6:].strip("0"):
        return text
    hours, minutes, seconds = [*map(int, clock.split(":")), 0][:3]
    return time(hours, minutes, seconds, int(fraction[:6].ljust(6, "0") or 0))


def _timestamp(text: str, precision: int, local_zone: bool) -> datetime | str:
    body = text.removesuffix("Z")
    minutes, _, rest = body.partition("T")
    clock, _, fraction = rest.partition(".")
    clock = clock if clock.count(":") == 2 else clock + ":00"
    zone = "Z" if local_zone else ""
    if precision > 6:
        return f"{minutes}T{clock}.{fraction.ljust(9, '0')}{zone}"
    whole = f"{minutes}T{clock}.{fraction[:6].ljust(6, '0')}"
    try:
        value = datetime.fromisoformat(whole)
    except ValueError:
        return whole + zone
    return value.replace(tzinfo=timezone.utc) if local_zone else value


SIMPLE: dict[str, Callable[[Any], Any]] = {
    "BOOLEAN": lambda value: value == "true" if isinstance(value, str) else value,
    "TINYINT": int,
    "SMALLINT": int,
    "INTEGER": int,
    "BIGINT": int,
    "FLOAT": float,
    "DOUBLE": float,
    "DECIMAL": Decimal,
    "BINARY": base64.b64decode,
    "VARBINARY": base64.b64decode,
    "DATE": _date,
    "TIME_WITHOUT_TIME_ZONE": _time,
}
