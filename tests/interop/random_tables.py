"""Random tables: columns of every type, keys, partitions, options; and rows for them. A number is a table."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from bucketlake.types.model import DataField, DataType, Root
from bucketlake.types.parse import parse_type_text

ADDS, ALL = (0, 2), (0, 1, 2, 3)
SCALARS = (
    *("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(5, 2)", "DECIMAL(18, 4)"),
    *("DECIMAL(38, 10)", "CHAR(4)", "VARCHAR(8)", "STRING", "BINARY(3)", "VARBINARY(6)", "BYTES", "DATE", "TIME(3)"),
    *("TIMESTAMP(0)", "TIMESTAMP(3)", "TIMESTAMP(6)", "TIMESTAMP_LTZ(3)", "TIMESTAMP_LTZ(6)"),
)
NINES = ("TIMESTAMP(9)", "TIMESTAMP_LTZ(9)")  # which avro cannot hold
KEY_KINDS = (
    *("INT", "BIGINT", "STRING", "DATE", "CHAR(4)", "VARBINARY(6)", "DECIMAL(18, 4)", "DECIMAL(38, 10)", "TIME(3)"),
    *("TIMESTAMP(6)", "TIMESTAMP_LTZ(3)", "SMALLINT"),
)
# Without TIMESTAMP: Paimon's `$partitions` fails on them.
PARTITION_KINDS = ("INT", "STRING", "DATE", "BOOLEAN", "BIGINT", "SMALLINT", "DECIMAL(5, 2)")
NUMBERS = {Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT, Root.FLOAT, Root.DOUBLE, Root.DECIMAL}
ORDERED = {Root.CHAR, Root.VARCHAR, Root.DATE, Root.TIME, Root.TIMESTAMP, Root.TIMESTAMP_LTZ}
TEXTS = ("", "a", "b", " ", "abcdefgh", "žl", "seven77", "\U0001f9ad", "the quick brown fox jumps over", "A", "0")
INDEXED = {
    "bloom-filter": {Root.SMALLINT, Root.INT, Root.BIGINT, Root.VARCHAR, Root.DATE},
    "bitmap": {Root.INT, Root.BIGINT, Root.VARCHAR, Root.DATE, Root.BOOLEAN},
    "bsi": {Root.INT, Root.BIGINT, Root.DATE},
    "range-bitmap": {Root.INT, Root.BIGINT, Root.VARCHAR, Root.DATE},
}
EPOCH, UTC = dt.datetime(1970, 1, 1), dt.timezone.utc
Row = dict[str, Any]
Change = tuple[int, Row]


@dataclass(frozen=True)
class Spec:
    """A table. `columns`: name -> type in Flink's spelling; `keys`: the primary key; `kinds`: of rows that it takes;
    `engine`: its merge engine, "append" without a key; `special`: what columns are for
    whose values come from `pools`: rarer_tables has them."""

    seed: int
    columns: Mapping[str, str]
    partitions: Sequence[str]
    keys: Sequence[str]
    options: Mapping[str, str]
    kinds: tuple[int, ...]
    engine: str
    form: str
    special: Mapping[str, str] = field(default_factory=dict)
    pools: Mapping[str, Sequence[Any]] = field(default_factory=dict, repr=False)

    def fields(self) -> list[DataField]:
        """The columns."""
        return [DataField(at, name, kind_of(text)) for at, (name, text) in enumerate(self.columns.items())]

    @property
    def crosses(self) -> bool:
        """Whether a key may move to another partition."""
        return bool(self.keys) and not set(self.partitions) <= set(self.keys)

    @property
    def postpones(self) -> bool:
        """Whether rows wait for a compaction."""
        return self.options.get("bucket") == "-2"

    @property
    def evolves(self) -> bool:
        """Whether columns of a row may lie in several files."""
        return "data-evolution.enabled" in self.options

    @property
    def extreme(self) -> bool:
        """Whether the largest numbers do no harm: sums overflow, and Paimon's index of bits takes no -2^63."""
        return self.engine in ("deduplicate", "append", "first-row") and not any(
            "index." in key for key in self.options
        )

    @property
    def moves(self) -> bool:
        """Whether its rows depend on when it is compacted: what is taken back, or comes late, meets what is there."""
        options, retracts = self.options, 3 in self.kinds or 1 in self.kinds
        if (
            self.postpones
            or "record-level.expire-time" in options
            or ("sequence.field" in options and (retracts or self.engine != "deduplicate"))
        ):
            return True
        # A sequence group's column stays beside a sequence that is null until the row is merged.
        groups = any(key.endswith(".sequence-group") for key in options)
        return self.engine in ("aggregation", "partial-update") and (retracts or groups)

    @property
    def unordered(self) -> bool:
        """Whether elements of its lists stand in no order: those of a Java HashSet."""
        return any(key.endswith(".distinct") for key in self.options)


def kind_of(text: str) -> DataType:
    """A type from Flink's spelling."""
    return parse_type_text(text, "flink")


def draw(seed: int) -> Spec:
    """The table of this number."""
    chance = random.Random(f"table {seed}")
    form = chance.choice(["parquet", "parquet", "orc", "avro"])
    keyed, nines = chance.random() < 0.75, form != "avro" and chance.random() < 0.5
    partitions = ["p", "q"][: chance.choice([0, 0, 1, 1, 2])]
    keys = ["k", "l"][: chance.choice([1, 1, 2])] if keyed else []
    columns = {name: chance.choice(PARTITION_KINDS) + (" NOT NULL" if keyed else "") for name in partitions}
    columns |= {name: chance.choice(KEY_KINDS) + " NOT NULL" for name in keys}
    values = [f"c{at}" for at in range(chance.randint(2, 6))]
    columns |= {name: some_kind(chance, nines) for name in values} | {"v": "BIGINT", "w": "INT"}
    names = list(columns)
    chance.shuffle(names)
    columns = {name: columns[name] for name in names}
    values += ["v", "w"]
    options = {"file.format": form}
    engine, kinds = _keyed(chance, columns, values, options) if keyed else ("append", _plain(chance, options))
    fixed = {"changelog-producer", "sequence.field"}.intersection(options)
    if keyed and options["bucket"] == "-1" and not fixed and chance.random() < 0.3:
        columns |= {name: columns[name].removesuffix(" NOT NULL") for name in partitions}
        primary, kinds = keys, ADDS if engine != "first-row" else (0,)
    else:
        primary = [*partitions, *keys] if keyed else []
    _files(chance, columns, values, options, nines)
    return Spec(seed, columns, partitions, primary, options, kinds, engine, form)


def some_kind(chance: random.Random, nines: bool, depth: int = 0) -> str:
    """A type, nested or not."""
    if depth < 2 and chance.random() < 0.22:
        part = some_kind(chance, nines, depth + 1)
        lot = chance.random()
        if lot < 0.4:
            return f"ARRAY<{part}>"
        if lot < 0.65:
            return f"MAP<STRING NOT NULL, {part}>"
        members = [f"{name} {some_kind(chance, nines, depth + 1)}" for name in "bc"[: chance.randint(0, 2)]]
        return f"ROW<{', '.join([f'a {part}', *members])}>"
    return chance.choice(SCALARS + NINES if nines else SCALARS)


def _keyed(
    chance: random.Random, columns: Mapping[str, str], values: Sequence[str], options: dict[str, str]
) -> tuple[str, tuple[int, ...]]:
    """Options of a table with a key; its engine, and the kinds of rows that it takes."""
    engine = chance.choice(["deduplicate"] * 3 + ["partial-update"] * 2 + ["aggregation"] * 3 + ["first-row"])
    options |= {"bucket": chance.choice(["1", "2", "3", "-1"]), "merge-engine": engine}
    if engine == "deduplicate":
        kinds = _deduplicate(chance, options)
    elif engine == "first-row":
        kinds = _first_row(chance, options)
    else:
        rule = _partial if engine == "partial-update" else _aggregation
        kinds = rule(chance, columns, values, options)
    producers = {"first-row": ["none", "lookup"]}.get(engine, ["none"] * 4 + ["input", "lookup", "full-compaction"])
    producer = chance.choice(producers)
    if producer != "none":
        options["changelog-producer"] = producer
        options |= some(chance, 0.3, {"changelog-file.prefix": ["chg-"], "changelog-file.stats-mode": ["none", "full"]})
    if producer != "full-compaction" and engine != "first-row":
        options |= some(chance, 0.3, {"deletion-vectors.enabled": ["true"]})
    if chance.random() < 0.08 and producer in ("none", "lookup") and "deletion-vectors.enabled" not in options:
        options |= {"bucket": "-2", "postpone.default-bucket-num": "2"}
    options["num-sorted-run.compaction-trigger"] = chance.choice(["2", "3", "5"])
    options |= some(chance, 0.3, {"data-file.thin-mode": ["true"]})
    if options["bucket"] == "-1":
        options |= some(chance, 0.5, {"dynamic-bucket.target-row-num": ["3", "10"]})
    return engine, kinds


def some(chance: random.Random, share: float, choices: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Some of the options, each with this chance."""
    return {key: chance.choice(values) for key, values in choices.items() if chance.random() < share}


def _plain(chance: random.Random, options: dict[str, str]) -> tuple[int, ...]:
    if chance.random() < 0.35:
        options |= {"bucket": chance.choice(["2", "3"]), "bucket-key": chance.choice(["v", "w", "v,w"])}
    else:
        tracked, vectors = {"row-tracking.enabled": "true"}, {"deletion-vectors.enabled": "true"}
        evolving = {**tracked, "data-evolution.enabled": "true"}
        options |= chance.choice([{}, {}, tracked, vectors, {**tracked, **vectors}, evolving, {**evolving, **vectors}])
    options["compaction.min.file-num"] = chance.choice(["2", "3", "5"])
    return (0,)


def _deduplicate(chance: random.Random, options: dict[str, str]) -> tuple[int, ...]:
    options |= some(chance, 0.25, {"sequence.field": ["v", "w", "v,w"], "ignore-delete": ["true"]})
    if "sequence.field" in options:
        options |= some(chance, 0.4, {"sequence.field.sort-order": ["descending"]})
    return ALL


def _first_row(chance: random.Random, options: dict[str, str]) -> tuple[int, ...]:
    options |= some(chance, 0.4, {"ignore-delete": ["true"]})
    return ALL if "ignore-delete" in options else (0,)


def _partial(
    chance: random.Random, columns: Mapping[str, str], values: Sequence[str], options: dict[str, str]
) -> tuple[int, ...]:
    lot = chance.random()
    if lot < 0.4:
        rest = [name for name in values if name not in ("v", "w")]
        half = max(1, len(rest) // 2)
        options["fields.v.sequence-group"] = ",".join(rest[:half])
        options |= {"fields.w.sequence-group": ",".join(rest[half:])} if rest[half:] else {}
        for name in rest:
            if chance.random() < 0.4:
                _function(chance, columns[name], name, True, options)
        if chance.random() < 0.5:
            options["partial-update.remove-record-on-sequence-group"] = "v"
            return (*ADDS, 3)
    elif lot < 0.55:
        options["partial-update.remove-record-on-delete"] = "true"
        return (*ADDS, 3)
    elif lot < 0.7:
        options["ignore-delete"] = "true"
        return ALL
    return ADDS


def _aggregation(
    chance: random.Random, columns: Mapping[str, str], values: Sequence[str], options: dict[str, str]
) -> tuple[int, ...]:
    retracts = chance.random() < 0.4
    for name in values:
        if chance.random() < 0.85:
            _function(chance, columns[name], name, retracts, options)
    if not retracts:
        options |= some(chance, 0.2, {"sequence.field": ["v"]})
        if "sequence.field" in options:
            options.pop("fields.v.aggregate-function", None)
        return ADDS
    return ALL


def _function(chance: random.Random, text: str, name: str, retracts: bool, options: dict[str, str]) -> None:
    """An aggregate function for a column, with options of its own."""
    kind = kind_of(text)
    found = ["last_value", "last_non_null_value"]
    if kind.root in NUMBERS:
        found += ["sum", "sum"]
    if not retracts:
        found += ["first_value", "first_non_null_value"]
        found += ["max", "min"] if kind.root in NUMBERS | ORDERED else []
        found += ["listagg"] if text == "STRING" else []
        found += ["bool_and", "bool_or"] if kind.root is Root.BOOLEAN else []
    if kind.root is Root.ARRAY:
        found += ["collect", "collect"]
        found += ["nested_update"] if kind.element is not None and kind.element.root is Root.ROW else []
    if kind.root is Root.MAP:
        found += ["merge_map", "merge_map"]
    chosen = chance.choice(found)
    options[f"fields.{name}.aggregate-function"] = chosen
    if chosen == "collect" and chance.random() < 0.4:
        options[f"fields.{name}.distinct"] = "true"


def _files(
    chance: random.Random, columns: Mapping[str, str], values: Sequence[str], options: dict[str, str], nines: bool
) -> None:
    """Where files lie, how they are named and written, and what is known of them."""
    form, keyed = options["file.format"], "merge-engine" in options
    choices = {
        "metadata.stats-mode": ["full", "counts", "none", "truncate(4)"],
        "metadata.stats-dense-store": ["true", "false"],
        "metadata.stats-keep-first-n-columns": ["1", "3"],
        "file.suffix.include.compression": ["true"],
        "data-file.prefix": ["dat-"],
        "data-file.path-directory": ["data"],
        "index-file-in-data-file-dir": ["true"],
        "partition.default-name": ["__none__"],
        "partition.legacy-name": ["false"],
        "manifest.compression": ["zstd", "null", "snappy"],
        "manifest.merge-min-count": ["2"],
        "manifest.delete-file-drop-stats": ["true"],
        "target-file-size": ["1 kb"],
        **{f"fields.{name}.stats-mode": ["full", "none", "truncate(2)"] for name in values},
    }
    options |= some(chance, 0.17, choices)
    if keyed and not nines:
        options |= some(chance, 0.15, {"file.format.per.level": ["0:avro"]})
    if "file.format.per.level" not in options:
        codecs = {"parquet": ["zstd", "snappy", "gzip", "none"], "orc": ["zstd", "snappy"], "avro": ["zstd", "snappy"]}
        options |= some(chance, 0.3, {"file.compression": codecs[form]})
    index = chance.choice(list(INDEXED))
    fit = [name for name in values if kind_of(columns[name]).root in INDEXED[index]]
    if chance.random() < 0.3:
        options[f"file-index.{index}.columns"] = ",".join(chance.sample(fit, 2))
        options |= some(chance, 0.3, {"file-index.in-manifest-threshold": ["1 b", "1 mb"]})


def rows(chance: random.Random, spec: Spec, columns: Mapping[str, str], count: int) -> list[Change]:
    """Rows with their kinds, of few keys; `columns`: as they are by now."""
    found = []
    for _ in range(count):
        row = {name: _cell(chance, spec, name, text) for name, text in columns.items()}
        found.append((chance.choice(spec.kinds) if chance.random() < 0.5 else 0, row))
    return found


def _cell(chance: random.Random, spec: Spec, name: str, text: str) -> Any:
    kind = kind_of(text)
    if name in spec.pools:
        return chance.choice(spec.pools[name])
    if name in spec.partitions:
        if kind.nullable and chance.random() < 0.1:
            return None
        pool = random.Random(f"partitions {spec.seed} {name}")
        values = ["x", "a b:="] if kind.root is Root.VARCHAR else [_value(pool, kind, "", False) for _ in range(2)]
        return chance.choice(values)
    if name in spec.keys:
        return _value(chance, kind, spec.form, False)
    return some_value(chance, kind, spec.form, spec.extreme)


def some_value(chance: random.Random, kind: DataType, form: str, extreme: bool) -> Any:
    """A value of a type, null now and then where it may be."""
    return None if kind.nullable and chance.random() < 0.15 else _value(chance, kind, form, extreme)


def _value(chance: random.Random, kind: DataType, form: str, extreme: bool) -> Any:
    if kind.root is Root.ARRAY:
        assert kind.element is not None
        return [some_value(chance, kind.element, form, extreme) for _ in range(chance.choice([0, 1, 1, 2, 3]))]
    if kind.root is Root.MAP:
        assert kind.element is not None
        keys = chance.sample(TEXTS, chance.choice([0, 1, 1, 2, 3]))
        return {key: some_value(chance, kind.element, form, extreme) for key in keys}
    if kind.root is Root.ROW:
        return {item.name: some_value(chance, item.type, form, extreme) for item in kind.fields}
    if kind.root in NUMBERS:
        return _number(chance, kind, form, extreme)
    if kind.root in (Root.TIMESTAMP, Root.TIMESTAMP_LTZ):
        return _instant(chance, kind, form)
    length = kind.length or 0
    return {
        Root.BOOLEAN: lambda: chance.random() < 0.5,
        Root.CHAR: lambda: "".join(chance.choice("abxy") for _ in range(length)),
        Root.VARCHAR: lambda: chance.choice(TEXTS)[:length],
        Root.BINARY: lambda: bytes(chance.choice(b"\0\x01ab\xff") for _ in range(length)),
        Root.VARBINARY: lambda: bytes(chance.choice(b"\0\x01ab\xff") for _ in range(chance.choice([0, 1, 2, 5]))),
        Root.DATE: lambda: dt.date(1970, 1, 1) + dt.timedelta(days=chance.choice([0, -1, 19723, 19724, 30000])),
        Root.TIME: lambda: dt.time(chance.randint(0, 23), chance.choice([0, 59]), 1, chance.choice([0, 999_000])),
    }[kind.root]()


def _number(chance: random.Random, kind: DataType, form: str, extreme: bool) -> Any:
    small = chance.randint(-3, 12)
    if kind.root is Root.DECIMAL:
        largest = 10 ** ((kind.precision or 0) - 1)
        unscaled = chance.choice([largest, -largest]) if extreme and small == 12 else small * 7
        return Decimal(unscaled).scaleb(-(kind.scale or 0))
    if kind.root in (Root.FLOAT, Root.DOUBLE):
        # Java's ORC takes 0.0, -0.0 for one value that repeats.
        odd = [1e30, float("nan"), float("inf"), *([] if form == "orc" else [-0.0])]
        return chance.choice(odd) if extreme and small > 9 else small / 8
    bits = {Root.TINYINT: 8, Root.SMALLINT: 16, Root.INT: 32, Root.BIGINT: 64}[kind.root]
    return chance.choice([-(1 << bits - 1), (1 << bits - 1) - 1]) if extreme and small == 12 else small


def _instant(chance: random.Random, kind: DataType, form: str) -> Any:
    precision = kind.precision or 0
    nanos = chance.choice([0, 1, 1_700_000_000_123_456_789, chance.randint(0, 2**60), -chance.randint(10**9, 2**59)])
    nanos = abs(nanos) if form == "orc" else nanos
    nanos -= nanos % 10 ** (9 - precision)
    if precision > 6:
        return nanos
    value = EPOCH + dt.timedelta(microseconds=nanos // 1000)
    return value.replace(tzinfo=UTC) if kind.root is Root.TIMESTAMP_LTZ else value
