"""Values of every type: some for plain columns, many for keys."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

UTC = dt.timezone.utc


def _moment(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text)


def _local(text: str) -> dt.datetime:
    return _moment(text).replace(tzinfo=UTC)


LONG = "a text that is longer than the sixteen characters of truncated statistics"
WIDE = "žluťoučký kůň úpěl ďábelské ódy 🦭"
NANOS = [-1, 1_709_210_096_123_456_789, -8_520_336_000_000_000_000, 9_223_372_036_000_000_001]

# Column -> type, then four values: one row each. A row of nulls is added.
PLAIN: dict[str, tuple[str, Sequence[Any]]] = {
    "c_boolean": ("BOOLEAN", [False, True, True, False]),
    "c_tinyint": ("TINYINT", [-128, 127, 7, 0]),
    "c_smallint": ("SMALLINT", [-32768, 32767, 7, -1]),
    "c_int": ("INT", [-(2**31), 2**31 - 1, 7, 0]),
    "c_bigint": ("BIGINT", [-(2**63), 2**63 - 1, 7, -1]),
    "c_float": ("FLOAT", [-1.5, 3.0e38, 1.25, 0.1]),
    "c_double": ("DOUBLE", [-1.7976931348623157e308, 1.7976931348623157e308, 0.1, 5e-324]),
    "c_decimal_5_2": ("DECIMAL(5, 2)", [Decimal("-999.99"), Decimal("999.99"), Decimal("1.50"), Decimal("-0.01")]),
    "c_decimal_18_4": (
        "DECIMAL(18, 4)",
        [Decimal("-99999999999999.9999"), Decimal("99999999999999.9999"), Decimal("1.5"), Decimal("-0.0001")],
    ),
    "c_decimal_38_10": (
        "DECIMAL(38, 10)",
        [Decimal(f"-{'9' * 28}.{'9' * 10}"), Decimal(f"{'9' * 28}.{'9' * 10}"), Decimal("1.5"), Decimal("-1e-10")],
    ),
    "c_char_5": ("CHAR(5)", ["abcde", "zzzzz", "äöüß€", "12345"]),
    "c_varchar_10": ("VARCHAR(10)", ["", "zzzzzzzzzz", "żółć", " "]),
    "c_string": ("STRING", ["", WIDE, LONG, "line\nbreak\tand \"'"]),
    "c_binary_4": ("BINARY(4)", [b"\0\0\0\0", b"\xff\xff\xff\xff", b"\x01\x02\x03\x7f", b"\x80\0\0\0"]),
    "c_varbinary_8": ("VARBINARY(8)", [b"", b"\xff" * 8, b"\0", b"\x80"]),
    "c_bytes": ("BYTES", [b"", b"\xff" * 40, bytes(range(30)), b"\xc3"]),
    "c_date": ("DATE", [dt.date(1700, 1, 1), dt.date(2262, 4, 11), dt.date(2024, 2, 29), dt.date(1969, 12, 31)]),
    "c_time_3": ("TIME(3)", [dt.time(0, 0, 0, 1000), dt.time(23, 59, 59, 999000), dt.time(12, 34, 56), dt.time(0)]),
    **{
        f"c_{name}_{digits}": (
            f"{kind}({digits})",
            [
                make("1700-01-01T00:00:00"),
                make(f"2262-04-11T23:47:16.{'854775807'[:digits]}" if digits else "2262-04-11T23:47:16"),
                make("2024-02-29T12:34:56"),
                make(f"1969-12-31T23:59:59.{'999999'[:digits]}" if digits else "1969-12-31T23:59:59"),
            ],
        )
        for name, kind, make, all_digits in (
            ("timestamp", "TIMESTAMP", _moment, (0, 3, 6)),
            ("ltz", "TIMESTAMP_LTZ", _local, (3, 6)),
        )
        for digits in all_digits
    },
    "c_timestamp_9": ("TIMESTAMP(9)", NANOS),
    "c_ltz_9": ("TIMESTAMP_LTZ(9)", NANOS),
    "c_array": ("ARRAY<INT>", [[1, 2, 3], [None], [], [0, None, -1]]),
    "c_array_string": ("ARRAY<STRING>", [["", "b"], [None, "ü"], ["x"], []]),
    "c_map": ("MAP<STRING, INT>", [[("a", 1), ("b", None)], [], [("ü", -1)], [("k", 2**31 - 1)]]),
    "c_map_int_array": (
        "MAP<INT, ARRAY<STRING>>",
        [[(1, ["a", "b"])], [(-1, [])], [(0, [""])], [(2, ["d"]), (3, ["e"])]],
    ),
    "c_row": (
        "ROW<a INT, b ROW<c STRING, d DECIMAL(10, 2)>>",
        [
            {"a": 1, "b": {"c": "x", "d": Decimal("1.25")}},
            {"a": None, "b": {"c": "", "d": Decimal("-1")}},
            {"a": 3, "b": None},
            {"a": 4, "b": {"c": None, "d": None}},
        ],
    ),
    "c_array_row": (
        "ARRAY<ROW<a INT, b STRING>>",
        [[{"a": 1, "b": "x"}], [{"a": 2, "b": ""}, {"a": 3, "b": "ü"}], [], [{"a": -1, "b": None}]],
    ),
}


def plain_columns(form: str) -> dict[str, str]:
    """The columns that files of this format can hold: Paimon's avro ends at microseconds."""
    held = {name: kind for name, (kind, _) in PLAIN.items() if form != "avro" or not name.endswith("_9")}
    return {"id": "INT", **held}


def plain_rows(form: str) -> list[tuple[Any, ...]]:
    """Rows for `plain_columns`."""
    names = [name for name in plain_columns(form) if name != "id"]
    rows = [(at, *(_held(form, PLAIN[name][1][at], name) for name in names)) for at in range(4)]
    return [*rows, (4, *(None for _ in names))]


def _held(form: str, value: Any, name: str) -> Any:
    """The value; in orc, none of the last second before 1970, which Java's ORC library moves (see the corpus)."""
    if form != "orc" or not name.startswith(("c_timestamp", "c_ltz")):
        return value
    if isinstance(value, int):
        return value if value > 0 else value - 10**9
    return value if value.year >= 1970 else value - dt.timedelta(seconds=1)


def _spread(count: int, low: int, high: int) -> list[int]:
    """Extremes, small numbers, and numbers all over a range."""
    generator = np.random.Generator(np.random.PCG64(7))
    drawn = [int(value) for value in generator.integers(low, high, count, endpoint=True, dtype=np.int64)]
    edges = [value for value in (low, high, 0, 1, -1, 42) if low <= value <= high]
    return list(dict.fromkeys([*edges, *drawn]))


def _texts() -> list[str]:
    few = ["", " ", "a", "seven77", "eight888", LONG, WIDE, "\u0000", "ÿ", "𝒳", "a\u0000", "A"]
    return few + [f"key-{number}" * (number % 4 + 1) for number in range(40)]


def _decimals(digits: int, scale: int) -> list[Decimal]:
    edge = int("9" * digits)
    whole = [*_spread(40, -(10 ** min(digits, 18)) + 1, 10 ** min(digits, 18) - 1), edge, -edge]
    if digits > 18:
        whole += [value * 10 ** (digits - 18) + 3 for value in whole[6:30]]
    return list(dict.fromkeys(Decimal(f"{value}E-{scale}") for value in whole))


def _instants(step: int, local: bool) -> list[dt.datetime]:
    """`step`: microseconds that the precision can hold."""
    start = dt.datetime(1970, 1, 1, tzinfo=UTC if local else None)
    micros = [value // step * step for value in _spread(40, -8_520_336_000_000_000, 9_000_000_000_000_000)]
    return [start + dt.timedelta(microseconds=value) for value in dict.fromkeys(micros)]


# Label -> type, distinct values.
KEYS: dict[str, tuple[str, Callable[[], Sequence[Any]]]] = {
    "boolean": ("BOOLEAN", lambda: [True, False]),
    "tinyint": ("TINYINT", lambda: _spread(40, -128, 127)),
    "smallint": ("SMALLINT", lambda: _spread(40, -32768, 32767)),
    "int": ("INT", lambda: _spread(40, -(2**31), 2**31 - 1)),
    "bigint": ("BIGINT", lambda: _spread(40, -(2**63), 2**63 - 1)),
    "float": ("FLOAT", lambda: [-0.0, *(value / 8 for value in _spread(40, -(2**20), 2**20)), 3e38, 1e-40]),
    "double": ("DOUBLE", lambda: [-0.0, *(value / 8 for value in _spread(40, -(2**40), 2**40)), 1e300, 5e-324]),
    "string": ("STRING", _texts),
    "varchar": ("VARCHAR(20)", lambda: [text for text in _texts() if len(text) <= 20]),
    "char": ("CHAR(6)", lambda: [f"{number:06d}" for number in _spread(40, 0, 999_999)]),
    "bytes": ("BYTES", lambda: [b"", b"\xff", *(text.encode() for text in _texts()[2:])]),
    "varbinary": ("VARBINARY(9)", lambda: [b"", b"\0", *(str(v).encode() for v in _spread(40, 0, 999_999_999))]),
    "binary": ("BINARY(4)", lambda: [value.to_bytes(4, "big") for value in _spread(40, 0, 2**32 - 1)]),
    "decimal_small": ("DECIMAL(10, 2)", lambda: _decimals(10, 2)),
    "decimal_18": ("DECIMAL(18, 0)", lambda: _decimals(18, 0)),
    "decimal_large": ("DECIMAL(30, 5)", lambda: _decimals(30, 5)),
    "date": ("DATE", lambda: [dt.date(1970, 1, 1) + dt.timedelta(days=v) for v in _spread(40, -98_000, 98_000)]),
    "time": (
        "TIME(3)",
        lambda: [(dt.datetime(1970, 1, 1) + dt.timedelta(milliseconds=v)).time() for v in _spread(40, 0, 86_399_999)],
    ),
    "timestamp_0": ("TIMESTAMP(0)", lambda: _instants(1_000_000, False)),
    "timestamp_3": ("TIMESTAMP(3)", lambda: _instants(1_000, False)),
    "timestamp_6": ("TIMESTAMP(6)", lambda: _instants(1, False)),
    "timestamp_9": ("TIMESTAMP(9)", lambda: _spread(40, -8_520_336_000_000_000_000, 2**63 - 1)),
    "ltz_3": ("TIMESTAMP_LTZ(3)", lambda: _instants(1_000, True)),
    "ltz_6": ("TIMESTAMP_LTZ(6)", lambda: _instants(1, True)),
    "ltz_9": ("TIMESTAMP_LTZ(9)", lambda: _spread(40, -8_520_336_000_000_000_000, 2**63 - 1)),
}
