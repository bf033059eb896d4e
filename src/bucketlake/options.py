"""Table options: typed access, and which of them are honoured, kept without effect or refused.

One row per option in `options_table`; nothing else in the package knows a key's type or default.

Spec: docs/spec/schema.md#options
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any

from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.file_names import check_path_options
from bucketlake.options_table import HONOURED, KEPT, REFUSED, ROWS, Option
from bucketlake.redaction import repr_of

__all__ = [
    "HONOURED",
    "KEPT",
    "OPTIONS",
    "REFUSED",
    "Option",
    "TableOptions",
    "find_option",
    "immutable",
    "parse_duration",
    "parse_memory_size",
    "refuse_options",
    "validate",
]

OPTIONS: Mapping[str, Option] = MappingProxyType({row.key: row for row in ROWS})

_NANOS = {
    **dict.fromkeys(("d", "day", "days"), 86_400_000_000_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000_000_000),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60_000_000_000),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1_000_000_000),
    **dict.fromkeys(("", "ms", "milli", "millis", "millisecond", "milliseconds"), 1_000_000),
    **dict.fromkeys(("µs", "micro", "micros", "microsecond", "microseconds"), 1_000),
    **dict.fromkeys(("ns", "nano", "nanos", "nanosecond", "nanoseconds"), 1),
}
_BYTES = {
    **dict.fromkeys(("", "b", "bytes"), 1),
    **dict.fromkeys(("k", "kb", "kibibytes"), 1 << 10),
    **dict.fromkeys(("m", "mb", "mebibytes"), 1 << 20),
    **dict.fromkeys(("g", "gb", "gibibytes"), 1 << 30),
    **dict.fromkeys(("t", "tb", "tebibytes"), 1 << 40),
}
_LONG_MAX = (1 << 63) - 1


def parse_duration(text: str) -> int:
    """Milliseconds of a text such as "10 s", "1h", "5 min" or "250" (a bare number is milliseconds).

    Raises: InvalidError.
    """
    number, unit = _split_unit(text)
    if unit not in _NANOS:
        raise InvalidError("unknown time unit", value=text, remedy="use d, h, min, s, ms, µs or ns")
    return number * _NANOS[unit] // 1_000_000


def parse_memory_size(text: str) -> int:
    """Bytes of a text such as "128 mb", "1g" or "512" (a bare number is bytes; units are powers of 1024).

    Raises: InvalidError.
    """
    number, unit = _split_unit(text)
    if unit not in _BYTES:
        raise InvalidError("unknown memory size unit", value=text, remedy="use b, kb, mb, gb or tb")
    size = number * _BYTES[unit]
    if size > _LONG_MAX:
        raise InvalidError("memory size does not fit 64 bits", value=text)
    return size


def _split_unit(text: str) -> tuple[int, str]:
    found = re.fullmatch(r"\s*([0-9]+)\s*(.*?)\s*", text)
    if found is None:
        raise InvalidError("value does not start with a number", value=text)
    number = int(found[1])
    if number > _LONG_MAX:
        raise InvalidError("number does not fit 64 bits", value=text)
    return number, found[2].lower()


def _parse_value(option: Option, text: str) -> Any:
    """The typed value: bool, int (also bytes and milliseconds), float, str, or dict of str for maps."""
    kind = option.kind
    try:
        if kind == "bool":
            return {"true": True, "false": False}[text.strip().lower()]
        if kind == "int":
            return int(text)
        if kind == "float":
            return float(text)
        if kind == "memory":
            return parse_memory_size(text)
        if kind == "duration":
            return parse_duration(text)
        if kind == "map":
            pairs = (part.partition(":") for part in text.split(",") if part.strip())
            return {key.strip(): value.strip() for key, _, value in pairs}
        if kind == "enum":
            return {_plain(value): value for value in option.values}[_plain(text)]
    except (KeyError, ValueError) as error:
        choice = " | ".join(option.values) if option.values else _KIND_TEXT[kind]
        raise InvalidError(
            "option has an invalid value", option=option.key, value=text, remedy=f"use {choice}"
        ) from error
    return text


def _plain(text: str) -> str:
    return text.strip().lower().replace("_", "-")


_KIND_TEXT = {
    "bool": "true | false",
    "int": "a whole number",
    "float": "a number",
    "memory": "a size such as 128 mb",
    "duration": "a duration such as 10 s",
    "map": "key:value,key:value",
    "enum": "a listed value",
}


@dataclass(frozen=True, slots=True)
class TableOptions:
    """The options of one table (or of one call, laid over the table's), as written: text to text. Picklable."""

    raw: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        """Without the secrets that options may hold."""
        return repr_of(self)

    def get(self, key: str) -> Any:
        """The typed value: what is set under the key or a fallback key, else the default (None where there is none).

        bool, int, float, str; sizes in bytes, durations in milliseconds, enums lower-case text, maps as dict.
        Keys without a row in `OPTIONS` give their text, or None.
        Raises: InvalidError naming key and value.
        """
        option = OPTIONS.get(key)
        text = self.text(key)
        if option is None or text is None:
            return text
        return _parse_value(option, text)

    def text(self, key: str) -> str | None:
        """The value as written, else the default's text."""
        option = OPTIONS.get(key)
        for name in (key, *(option.fallback if option else ())):
            if name in self.raw:
                return self.raw[name]
        return option.default if option else None

    def is_set(self, key: str) -> bool:
        """Whether the key or one of its fallback keys is there."""
        option = OPTIONS.get(key)
        return key in self.raw or any(name in self.raw for name in (option.fallback if option else ()))

    def names(self, key: str) -> list[str]:
        """The comma-separated column names of an option, empty if it is not set."""
        return [name.strip() for name in (self.text(key) or "").split(",") if name.strip()]

    def with_(self, extra: Mapping[str, Any]) -> TableOptions:
        """These options with others laid over; values become their text (True → "true"); None takes a key away."""
        merged = {**self.raw, **{key: option_text(value) for key, value in extra.items() if value is not None}}
        return TableOptions({k: v for k, v in merged.items() if not (k in extra and extra[k] is None)})


def option_text(value: Any) -> str:
    """The text of an option's value as it stands in a schema file."""
    return str(value).lower() if isinstance(value, bool) else str(value)


_PATTERNS = (
    (re.compile(r"metadata\.iceberg\..+"), REFUSED),
    (re.compile(r"(commit|tag)\.callback\..+\.param"), REFUSED),
    (re.compile(r"fields\..+\.map\.(storage-layout|shared-shredding\..+)"), REFUSED),
    (re.compile(r"fields\..+\.pk-[a-z-]+\.index\..+"), REFUSED),
    (
        re.compile(
            r"fields\..+\.(aggregate-function|ignore-retract|distinct|list-agg-delimiter|nested-key|count-limit)"
        ),
        HONOURED,
    ),
    (
        re.compile(r"fields\..+\.(sequence-group|nested-sequence-field|nested-key-null-strategy|ts-field|stats-mode)"),
        HONOURED,
    ),
    (re.compile(r"file-index\..+"), HONOURED),
    (re.compile(r"(parquet|orc|avro)\..+"), HONOURED),
    (
        re.compile(r"(bucketlake|flink|hive|spark|sink|source|lookup|log|kafka|unaware-bucket|precommit|csv|json)\..+"),
        KEPT,
    ),
)


def find_option(key: str) -> Option | None:
    """The row of a key, of the key that it is a fallback of, or of the family that it belongs to; None if unknown."""
    option = OPTIONS.get(key) or _FALLBACKS.get(key)
    if option is not None:
        return option
    for pattern, effect in _PATTERNS:
        if pattern.fullmatch(key):
            return Option(key, "string", None, effect, "One of a family of keys.")
    return None


_FALLBACKS = {name: row for row in ROWS for name in row.fallback if name not in OPTIONS}


def immutable(key: str) -> bool:
    """Whether the key cannot be altered once a snapshot exists (`bucket` follows its own rule)."""
    option = OPTIONS.get(key)
    return option is not None and not option.mutable


def validate(options: Mapping[str, str], *, for_writing: bool = True) -> list[str]:
    """Check every value's form, refuse what is not honoured, and warn of keys that look like typing errors.

    Raises: InvalidError for a malformed value; UnsupportedError naming a refused option.
    """
    warnings = []
    for key, value in options.items():
        option = find_option(key)
        if option is None:
            near = get_close_matches(key, OPTIONS, n=1, cutoff=0.85)
            if near:
                warnings.append(f"option '{key}' is not known and has no effect; did you mean '{near[0]}'?")
            continue
        _parse_value(option, value)
    check_path_options(options)
    refuse_options(options, for_writing=for_writing)
    return warnings


_DATA_FORMATS = ("parquet", "orc", "avro")
# Refused, but reading the rows is not affected by them.
_READ_SAFE = re.compile(
    r"commit\.callback.*|tag\.callback.*|metadata\.iceberg\..*|upsert-key|visibility-callback\.enabled|pk-.*\.index\..*"
    r"|fields\..+\.pk-.*|blob-descriptor\.source-table"
)


def refuse_options(options: Mapping[str, str], *, for_writing: bool = True) -> None:
    """Raise UnsupportedError naming the first option that is refused (for reading: that changes rows)."""
    for key, value in options.items():
        option = find_option(key)
        if option is None or not _asks(option, key, value):
            continue
        if for_writing or not _READ_SAFE.fullmatch(key):
            raise UnsupportedError(
                f"option '{key}' is not supported", option=key, value=value, remedy="use a table without it"
            )
    typed = TableOptions(options)
    formats = [
        ("file.format", typed.text("file.format")),
        ("changelog-file.format", typed.text("changelog-file.format")),
    ]
    formats += [("file.format.per.level", value) for value in (typed.get("file.format.per.level") or {}).values()]
    for key, name in formats:
        if name is not None and name.strip().lower() not in _DATA_FORMATS:
            raise UnsupportedError(
                "file format is not supported", option=key, format=name, remedy="use parquet, orc or avro"
            )
    if (typed.text("manifest.format") or "avro").lower() != "avro":
        raise UnsupportedError(
            "manifest format is not supported", format=typed.text("manifest.format"), remedy="use avro"
        )


def _asks(option: Option, key: str, value: str) -> bool:
    """Whether a refused option is set to something other than what it is without being set."""
    if option.effect != REFUSED:
        return False
    if key.endswith("map.storage-layout"):
        return value.strip().lower() == "shared-shredding"
    text = value.strip().lower()
    return text not in ("", "false") if option.default is None else text != option.default.lower()
