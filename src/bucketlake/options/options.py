"""Table options: typed access, and which of them are honoured, kept without effect or refused.

One row per option in `options.table`; nothing else in the package knows a key's type or default.

Spec: docs/spec/schema.md#options
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from difflib import get_close_matches
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from bucketlake.errors import InvalidError, UnsupportedError, check_types
from bucketlake.file_names import check_path_options
from bucketlake.options.map_layout import SUFFIXES
from bucketlake.options.model import ENGINE, SPEED, WRITES, Effect, of
from bucketlake.options.table import HONOURED, KEPT, REFUSED, ROWS, Option
from bucketlake.redaction import repr_of
from bucketlake.traces import warn
from bucketlake.values import dataclass

__all__ = [
    "HONOURED",
    "KEPT",
    "OPTIONS",
    "REFUSED",
    "Effect",
    "Option",
    "TableOptions",
    "find_option",
    "immutable",
    "near_key",
    "near_misses",
    "option_keys",
    "option_text",
    "parse_duration",
    "parse_memory_size",
    "refuse_key_words",
    "refuse_options",
    "undone",
    "validate",
    "warn_of_undone",
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


@lru_cache(64)  # a plan asks for some once a bucket
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
        if kind in ("int", "long"):
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
            f"Could not parse value '{text[:100]}' for key '{option.key}'",
            option=option.key,
            value=text,
            remedy=f"use {choice}",
        ) from error
    return text


def _plain(text: str) -> str:
    return text.strip().lower().replace("_", "-")


_KIND_TEXT = {
    "bool": "true | false",
    "int": "a whole number of 32 bits",
    "long": "a whole number of 64 bits",
    "float": "a number",
    "memory": "a size such as 128 mb",
    "duration": "a duration such as 10 s",
    "map": "key:value,key:value",
    "enum": "a listed value",
}


def _check_value(option: Option, text: str) -> None:
    """Refuse to set what other engines could not read, or what no reader of the option can mean.

    Values that stand in a schema already are taken as they are: another engine may have its own view.
    """
    value = _parse_value(option, text)
    kind, least, most = option.kind, option.least, option.most
    if kind in ("int", "long"):
        bits = 31 if kind == "int" else 63
        fits = re.fullmatch(r"[+-]?[0-9]+", text) is not None and -(1 << bits) <= value < 1 << bits
    elif kind == "float":
        fits = math.isfinite(value) and "_" not in text
    elif kind in ("bool", "enum"):  # Paimon takes any case, and neither blanks nor other signs
        fits = text.lower() in (("true", "false") if kind == "bool" else map(str.lower, option.values))
    else:
        named = kind == "string" and option.effect == HONOURED and option.default is not None
        fits = not named or bool(text.strip()) or option.key.endswith(".prefix")
    if not fits:
        raise InvalidError(
            "option has an invalid value",
            option=option.key,
            value=text,
            remedy=f"use {' | '.join(option.values) or _KIND_TEXT.get(kind, 'a text that is not blank')}",
        )
    if (least is not None and value < least) or (most is not None and value > most):
        bounds = f"at least {least}" + (f" and at most {most}" if most is not None else "")
        raise InvalidError(f"{option.key} should be {bounds}", option=option.key, value=text)


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


def written_formats(options: TableOptions) -> frozenset[str]:
    """The names of all formats that the options name for new files, of whatever level, and of changelogs."""
    names = {options.get("file.format"), *(options.get("file.format.per.level") or {}).values()}
    names.add(options.get("changelog-file.format") or options.get("file.format"))
    return frozenset(name.strip().lower() for name in names)


def option_text(value: Any) -> str:
    """The text of an option's value as it stands in a schema file: True is "true", a list its items between commas.

    Raises InvalidError for what has no such text: a mapping, a set, an object that is no value (a session, a function).
    """
    if isinstance(value, (list, tuple)):
        return ",".join(map(option_text, value))
    spelled: Any = type(value).__str__
    is_object = spelled is object.__str__ and not isinstance(value, (int, float))
    if is_object or isinstance(value, (Mapping, set, frozenset)):
        raise InvalidError(
            "an option's value has no text", value=value, type=type(value).__name__, remedy="give a text or a list"
        )
    return str(value).lower() if isinstance(value, bool) else str(value)


_FIELD_KEYS = (
    *("aggregate-function", "ignore-retract", "distinct", "list-agg-delimiter", "nested-key", "count-limit"),
    *("sequence-group", "nested-sequence-field", "nested-key-null-strategy", "ts-field", "stats-mode"),
)
_MAP_KEYS = tuple(suffix.rsplit(".", 1)[-1] for suffix in SUFFIXES)
_MAPS = "|".join(SUFFIXES).replace(".", r"\.")
FAMILIES: tuple[tuple[re.Pattern[str], Effect], ...] = (
    (re.compile(r"metadata\.iceberg\..+"), WRITES),
    (re.compile(r"(commit|tag)\.callback\..+\.param"), WRITES),
    (re.compile(rf"fields\..+\.({_MAPS})"), HONOURED),
    (re.compile(r"fields\..+\.pk-(btree|bitmap)\.index\.options"), HONOURED),
    (re.compile(r"fields\..+\.pk-[a-z-]+\.index\..+"), WRITES),
    (re.compile(rf"fields\..+\.({'|'.join(_FIELD_KEYS)})"), HONOURED),
    (re.compile(r"field\..+\.vector-dim"), HONOURED),
    (re.compile(r"file-index\..+"), HONOURED),
    (re.compile(r"parquet\.(enable\.dictionary|compression)#.+"), HONOURED),
    (re.compile(r"parquet\.(encryption|crypto)\..+"), WRITES),
    (re.compile(r"(parquet|orc|avro)\..+"), SPEED),
    (re.compile(r"(csv|json|text)\..+"), of("type")),
    (re.compile(r"(bucketlake|flink|hive|spark|sink|source|lookup|log|kafka|unaware-bucket|precommit)\..+"), ENGINE),
    (re.compile(r"changelog\.precommit-compact\..+"), ENGINE),
)


def find_option(key: str) -> Option | None:
    """The row of a key, of the key that it is a fallback of, or of the family that it belongs to; None if unknown."""
    option = OPTIONS.get(key) or _FALLBACKS.get(key)
    if option is not None:
        return option
    for pattern, effect in FAMILIES:
        if pattern.fullmatch(key):
            return Option(key, "string", None, effect, "One of a family of keys.")
    return None


# Lists of columns in which Paimon leaves blanks as they are (`bucket-key` is checked with the columns).
_UNTRIMMED = {
    *("upsert-key", "vector-field", "partial-update.remove-record-on-sequence-group"),
    "changelog-producer.row-deduplicate-ignore-fields",
}
_FALLBACKS = {name: row for row in ROWS for name in row.fallback if name not in OPTIONS}


def immutable(key: str) -> bool:
    """Whether the key cannot be altered once a snapshot exists (`bucket` follows its own rule)."""
    option = OPTIONS.get(key)
    return option is not None and not option.mutable


def validate(options: Mapping[str, str]) -> list[str]:
    """Check options that are being set: every value's form, and that none is refused. Keys that look like typing
    errors, one sentence each.

    Raises: InvalidError for a malformed value; UnsupportedError naming a refused option.
    """
    for key, value in options.items():
        option = find_option(key)
        if option is not None:
            if option.effect == REFUSED and _is_set(option, value):
                raise _refusal(option, key, value)
            _check_value(option, value)
        if (key in _UNTRIMMED or key.endswith(".sequence-group")) and value != _trimmed(value):
            raise InvalidError(
                "a blank beside a comma is part of the name for Apache Paimon, which would not find the column",
                option=key,
                value=value,
                remedy=f"write '{_trimmed(value)}'",
            )
    check_path_options(options)
    _refuse_formats(options)
    _refuse_marks(options)
    return near_misses(options)


def _trimmed(names: str) -> str:
    return ",".join(name.strip() for name in names.split(","))


def near_misses(options: Mapping[str, str]) -> list[str]:
    """One sentence for each key that is unknown and looks like one that is known."""
    found = []
    for key in options:
        near = None if find_option(key) is not None else near_key(key)
        if near is not None:
            found.append(f"option '{key}' is not known and has no effect; did you mean '{near}'?")
    return found


def near_key(key: str) -> str | None:
    """The known key that an unknown one looks like, whatever its case and signs."""
    parts = _spelling(key).split(".")
    if parts[0] == "fields" and len(parts) > 2:
        near = get_close_matches(parts[-1], (*_FIELD_KEYS, *_MAP_KEYS), n=1, cutoff=0.75)
        return ".".join((*key.split(".")[:-1], near[0])) if near else None
    near = get_close_matches(_spelling(key), _SPELLINGS, n=1, cutoff=0.8)
    return _SPELLINGS[near[0]] if near else None


def given_options(options: Mapping[str, Any] | None, **more: Any) -> dict[str, Any]:
    """Options as a caller gave them, and what stood beside them, in one; InvalidError for what names no values."""
    check_types((Mapping, type(None)), "give keys and values: {'scan.snapshot-id': 1}", options=options)
    for key in options or ():
        check_types(str, "name each option by a text", option=key)
    return {**(options or {}), **more}


def option_keys(given: Mapping[str, Any], unknown: bool = False) -> dict[str, Any]:
    """Options by their true keys: Python names become the option that they spell (`scan_snapshot_id`); InvalidError
    for those that spell none or look like a slip (`scan.snapshotid`: the read would be of another snapshot), but where
    `unknown` ones may stand, as among the properties of a table."""
    return {_option_key(key, unknown): value for key, value in given.items()}


_PYTHON_NAMES = {key.replace("-", "_").replace(".", "_"): key for key in OPTIONS}
# Parameters of the calls that take options by Python names.
_READS = ("columns", "where", "limit", "mode", "partition")
_UPKEEP = ("partitions", "order_by", "full", "idle", "bucket_num", "retain_max", "retain_min", "older_than")
_WRITES = ("partition_by", "by_position", "checkpoint", "trigger", "on_batch")
_IN_ONE = ("option", "options", "properties", "scan_options", "table_options", "table_properties", "tblproperties")

# What other libraries call what is read, and what is made.
_OF_OTHERS = {
    **dict.fromkeys(("filter", "filters", "predicate", "condition", "row_filter"), "where"),
    **dict.fromkeys(("select", "selected_fields", "cols"), "columns"),
    **dict.fromkeys(("partitionBy", "partitioned_by", "partition_cols", "partition_keys"), "partition_by"),
    **dict.fromkeys(("pk", "keys", "primary_keys", "primaryKey", "key"), "primary_key"),
    **dict.fromkeys(("mergeSchema", "merge_schema", "schema_mode"), "write_merge_schema"),
    **dict.fromkeys(("as_of", "timestamp_as_of", "timestampAsOf"), "timestamp"),
    **dict.fromkeys(("version_as_of", "versionAsOf"), "version"),
}

_MAKING = ("primary_key", "partition_by", "write_merge_schema")


def _letters(key: str) -> str:
    return re.sub("[-_]", "", key.lower())


# Keys by their letters, and what others call what a table is made with.
_DEFINING = {
    **{_letters(key): key for key in OPTIONS},
    **{_letters(word): name for word, name in _OF_OTHERS.items() if name in _MAKING},
}


def _near_defining(key: str) -> str | None:
    """What a slip of the pen (`primry-key`) defines of a table."""
    return {"primary-key": "primary_key", "partition": "partition_by"}.get(near_key(key) or "")


def _refuse_other_words(key: str) -> None:
    """InvalidError for what would be a property of the caller's own, though it is meant to define the table."""
    meant = _DEFINING.get(_letters(key))
    if meant is None or key in _PYTHON_NAMES or find_option(key) is not None:
        return
    remedy = f"did you mean '{meant}'?"
    if meant == "partition_by":
        remedy = "partitions are no option: df.write.partitionBy('c'), or partition_by='c' of lake.write_table"
    raise InvalidError("no such option", option=key, remedy=remedy)


def refuse_key_words(options: Mapping[str, Any], columns: Sequence[str], *, keyed: bool, partitioned: bool) -> None:
    """InvalidError for an option of a new table that is another word for its key or its partitions, or a slip of one,
    and names columns, where the table gets none: its rows would be added where they are to replace others. With other
    values it is a property of the table's own, as all unknown ones."""
    known = {name.lower() for name in columns}
    for key, value in options.items():
        meant = None if find_option(key) is not None else _DEFINING.get(_letters(key)) or _near_defining(key)
        named = {name.strip().lower() for name in str(value).split(",")}
        if named <= known and ((meant == "primary_key" and not keyed) or (meant == "partition_by" and not partitioned)):
            remedy = "write PARTITIONED BY, or give partition_keys"
            if meant == "primary_key":
                remedy = "the option is 'primary-key'; create_table has primary_keys"
            raise InvalidError("no such option", option=key, value=value, remedy=remedy)


def _option_key(key: str, unknown: bool) -> str:
    if key in OPTIONS:
        return key
    if unknown:
        _refuse_other_words(key)
    if "-" in key or "." in key:
        slip = None if unknown or find_option(key) is not None else near_key(key)
        if slip is not None:
            raise InvalidError("no such option", option=key, remedy=f"did you mean '{slip}'?")
        return key
    found = _PYTHON_NAMES.get(key) or _PYTHON_NAMES.get(f"scan_{key}")
    if found is not None or unknown:
        return found or key
    if key.lower() in _IN_ONE:
        remedy = "each option is an argument of its own: scan_snapshot_id=1, or **{'scan.snapshot-id': 1}"
    elif key in (*_READS, *_UPKEEP, *_WRITES):
        remedy = "other calls take it, this one does not"
    elif key in _OF_OTHERS:
        remedy = f"did you mean '{_OF_OTHERS[key]}'?"
    else:
        short = (name.removeprefix("scan_") for name in _PYTHON_NAMES)
        near = get_close_matches(key, (*_READS, *_UPKEEP, *_WRITES, *short, *_PYTHON_NAMES), 1)
        remedy = f"did you mean '{near[0]}'?" if near else "keys of your own are TBLPROPERTIES, or have a '.' or '-'"
    raise InvalidError("no such option", option=key, remedy=remedy)


def _spelling(key: str) -> str:
    return key.strip().lower().replace("_", "-")


_SPELLINGS = {_spelling(key): key for key in (*OPTIONS, *_FALLBACKS)}
DATA_FORMATS = ("parquet", "orc", "avro")
MARK_DONE = {"success-file": True, "done-partition": False, "mark-event": True, "http-report": True, "custom": False}
"""Ways to mark partitions done, and whether that can be done here."""


def refuse_options(options: Mapping[str, str], *, for_writing: bool = True) -> None:
    """Raise UnsupportedError naming the first option of a table without which rows would be read, or `for_writing`
    written, wrongly. What only a call is about, and work beside the rows, does not count: see `undone`.
    """
    stakes = ("reads", "writes") if for_writing else ("reads",)
    for key, value in options.items():
        option = find_option(key)
        if option is not None and option.effect.stake in stakes and _is_set(option, value):
            raise _refusal(option, key, value)
    _refuse_formats(options)


def refuse_of_calls(options: Mapping[str, str]) -> None:
    """UnsupportedError for an option that a table is to be made or altered with, and that holds for calls alone."""
    for key, value in options.items():
        option = find_option(key)
        of_calls = option is not None and option.effect == HONOURED and option.effect.stake == "calls"
        if option is not None and of_calls and _is_set(option, value):
            raise _refusal(option, key, value)


def undone(options: Mapping[str, str]) -> list[str]:
    """The options of a table that ask for work which writers here leave undone, though the rows come out right."""
    if TableOptions(options).get("write-only"):
        return []  # the work is another job's
    found = []
    for key, value in options.items():
        option = find_option(key)
        if option is None or option.effect.stake != "upkeep" or not _is_set(option, value):
            continue
        master = option.effect.only_with
        if not master or _is_set(OPTIONS[master], TableOptions(options).text(master) or ""):
            found.append(key)
    return found


MOST_WARNED = 10_000
_warned: set[tuple[str, str]] = set()  # of this process: a table's folder and an option


def warn_of_undone(name: str, path: str, options: Mapping[str, str]) -> None:
    """Say once a process and table which work beside the rows its options ask for that writers here leave undone."""
    found = [(path, key) for key in undone(options)]
    if set(found) <= _warned:
        return
    if len(_warned) >= MOST_WARNED:
        _warned.clear()
    _warned.update(found)
    warn(
        f"{name} is written, but work beside its rows that these options ask for is not supported and left undone: "
        f"{', '.join(key for _, key in found)}; leave it to the engine that made the table, or reset them"
    )


def _refusal(option: Option, key: str, value: str) -> UnsupportedError:
    """The error that names a refused option; texts, which may be secrets, stay out of it."""
    shown = {"value": value} if option.kind != "string" or option.default is not None else {}
    remedy = option.effect.remedy or "use a table without it"
    return UnsupportedError(f"option '{key}' is not supported", option=key, **shown, remedy=remedy)


def _refuse_formats(options: Mapping[str, str]) -> None:
    typed = TableOptions(options)
    formats = [(key, typed.text(key)) for key in ("file.format", "changelog-file.format")]
    formats += [("file.format.per.level", value) for value in (typed.get("file.format.per.level") or {}).values()]
    for key, name in formats:
        if name is not None and name.strip().lower() not in DATA_FORMATS:
            raise UnsupportedError(
                "file format is not supported", option=key, format=name, remedy="use parquet, orc or avro"
            )


def _refuse_marks(options: Mapping[str, str]) -> None:
    """Ways to mark partitions done that need a metastore or a Java class."""
    key = "partition.mark-done-action"
    names = [part.strip().lower() for part in options.get(key, "success-file").split(",")]
    unknown = sorted(set(names) - set(MARK_DONE))
    if unknown:
        raise InvalidError("no such way to mark partitions done", option=key, actions=unknown, known=list(MARK_DONE))
    foreign = [name for name in names if not MARK_DONE[name]]
    if foreign:
        remedy = "use success-file or http-report"
        raise UnsupportedError(f"option '{key}' is not supported", option=key, value=",".join(foreign), remedy=remedy)


def _is_set(option: Option, value: str) -> bool:
    """Whether an option has a value other than its default."""
    text = value.strip().lower()
    if text in option.served:
        return False
    if option.default is None:
        return text not in ("", "false")
    try:
        return bool(_parse_value(option, value) != _parse_value(option, option.default)) and text != option.default
    except InvalidError:
        return True
