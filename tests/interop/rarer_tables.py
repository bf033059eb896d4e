"""What random tables have more rarely: rows that expire, sketches, rarer options, keys of rarer types; see random_tables."""

from __future__ import annotations

import datetime as dt
import random
import struct
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import datasketches
from pyroaring import BitMap, BitMap64
from tests.interop.random_tables import ADDS, UTC, Spec, kind_of, some

from bucketlake.lsm.aggregates.rbm64 import decode, encode
from bucketlake.types.model import Root

_MODE, _REGISTERS, _FIRST_REGISTER, _FIRST = 7, 2, 40, {0: 8, 1: 12}  # where an HLL sketch's bytes say what
SKETCHES = ("rbm32", "rbm64", "hll_sketch", "theta_sketch")
OLD, NEW = dt.datetime(2001, 2, 3), dt.datetime(2200, 2, 3)
TIMES: dict[str, Sequence[Any]] = {  # what a row's time is: past, to come, or not known
    "INT": [None, 0, 1_000_000_000, 2_100_000_000],
    "BIGINT": [None, 1_000_000_000, 9_000_000_000, 1_000_000_000_000, 9_000_000_000_000],
    **{f"TIMESTAMP({digits})": [None, OLD, NEW] for digits in (3, 6)},
    **{f"TIMESTAMP_LTZ({digits})": [None, *(at.replace(tzinfo=UTC) for at in (OLD, NEW))] for digits in (3, 6)},
}
RARE_KEYS = ("TINYINT", "BOOLEAN", "FLOAT", "DOUBLE", "VARCHAR(8)", "BINARY(3)", "BYTES", "TIMESTAMP(0)")
# Options that say how files are written or when they are compacted, not what rows mean.
HOW = {
    "manifest.target-file-size": ["1 kb"],
    "manifest.full-compaction-threshold-size": ["1 b"],
    "parquet.enable.dictionary": ["false"],
    "num-levels": ["2", "3"],
    "compaction.max-size-amplification-percent": ["1", "400"],
    "compaction.size-ratio": ["100"],
    "compaction.force-rewrite-all-files": ["true"],
    "compaction.force-up-level-0": ["true"],
    "commit.force-compact": ["true"],
    "write-buffer-spillable": ["true"],
}


def rarer(spec: Spec) -> Spec:
    """The table with some of what is rarer; the same for the same table."""
    chance = random.Random(f"rarer {spec.seed}")
    columns, options = dict(spec.columns), dict(spec.options)
    special: dict[str, str] = {}
    pools: dict[str, Sequence[Any]] = {}
    options |= some(chance, 0.12, HOW)
    if spec.keys:
        _keys(chance, spec, columns, options)
        _engines(chance, spec, columns, options)
        # Where vectors mark old rows, Paimon's compaction does not find those that are past their time: a key comes twice.
        vectors = "deletion-vectors.enabled" in options
        if chance.random() < 0.2 and options["merge-engine"] != "first-row" and not spec.crosses and not vectors:
            columns["e"] = chance.choice(list(TIMES))
            options |= {"record-level.expire-time": "30 d", "record-level.time-field": "e"}
            special["e"], pools["e"] = "time", TIMES[columns["e"]]
        if options["merge-engine"] == "aggregation" and spec.kinds == ADDS and chance.random() < 0.5:
            for at in range(chance.choice([1, 2])):
                function = chance.choice(SKETCHES)
                columns[f"s{at}"] = "BYTES"
                options[f"fields.s{at}.aggregate-function"] = function
                special[f"s{at}"], pools[f"s{at}"] = function, [None, *images(function)]
    if "deletion-vectors.enabled" in options:
        options |= some(chance, 0.4, {"deletion-vectors.bitmap64": ["true"]})
    return replace(spec, columns=columns, options=options, special=special, pools=pools)


def _keys(chance: random.Random, spec: Spec, columns: dict[str, str], options: dict[str, str]) -> None:
    """Keys of other types, buckets by a part of the key or by other functions."""
    if chance.random() < 0.25:
        columns[chance.choice([name for name in spec.keys if name in "kl"])] = f"{chance.choice(RARE_KEYS)} NOT NULL"
    if int(options["bucket"]) < 1:
        return
    if "l" in columns and chance.random() < 0.4:
        options["bucket-key"] = chance.choice(["k", "l", "l,k"])
    named = options.get("bucket-key", ",".join(name for name in spec.keys if name in "kl")).split(",")
    if len(named) == 1 and kind_of(columns[named[0]]).root in (Root.INT, Root.BIGINT):
        options |= some(chance, 0.3, {"bucket-function.type": ["mod"]})


def _engines(chance: random.Random, spec: Spec, columns: Mapping[str, str], options: dict[str, str]) -> None:
    """Options of merge engines and changelogs."""
    engine = options["merge-engine"]
    if "changelog-producer" in options and options["changelog-producer"] in ("lookup", "full-compaction"):
        options |= some(chance, 0.4, {"changelog-producer.row-deduplicate": ["true"]})
    if engine == "partial-update" and "fields.v.sequence-group" in options and chance.random() < 0.4:
        both = [options.pop(f"fields.{name}.sequence-group", "") for name in "vw"]
        options["fields.v,w.sequence-group"] = ",".join(filter(None, both))
    if engine == "aggregation":
        retracts = spec.kinds != ADDS
        for key in [key for key in options if key.endswith(".aggregate-function")]:
            name, function = key.split(".")[1], options[key]
            if function == "listagg":
                options |= some(chance, 0.5, {f"fields.{name}.list-agg-delimiter": [";", "--"]})
                options |= some(chance, 0.3, {f"fields.{name}.distinct": ["true"]})
            if function == "nested_update":
                options |= some(chance, 0.5, {f"fields.{name}.nested-key": ["a"]})
            if retracts:
                options |= some(chance, 0.2, {f"fields.{name}.ignore-retract": ["true"]})
        if retracts and not any("ignore-retract" in key for key in options):
            options |= some(chance, 0.2, {"aggregation.remove-record-on-delete": ["true"]})
        if not retracts and "sequence.field" not in options:
            options |= some(chance, 0.2, {"fields.default-aggregate-function": ["last_value", "first_value"]})
    plain = not {"sequence.field", "changelog-producer"} & options.keys() and int(options["bucket"]) > 0
    if plain and engine == "deduplicate" and chance.random() < 0.2 and "deletion-vectors.enabled" not in options:
        options |= {"sequence.snapshot-ordering": "true", "write-only": "true"}
        options.pop("commit.force-compact", None)
    elif options["bucket"] != "-2":
        options |= some(chance, 0.1, {"write-only": ["true"]})


@cache
def images(function: str) -> Sequence[bytes]:
    """Serialized sketches or bitmaps of a function."""
    chance = random.Random(function)
    sets = [{chance.randrange(1 << bits) for _ in range(count)} for bits in (3, 16, 31) for count in (1, 5, 300)]
    if function == "rbm32":
        return [BitMap(numbers).serialize() for numbers in [*sets, {*range(5000)}]]
    if function == "rbm64":
        wide = [{number << 20 for number in numbers} for numbers in sets]
        return [encode(BitMap64(numbers)) for numbers in [*sets, *wide, {*range(5000)}]]
    found = []
    for numbers in sets:
        sketch = datasketches.hll_sketch(12) if function == "hll_sketch" else datasketches.update_theta_sketch(12)
        for number in numbers:
            sketch.update(number)
        found.append(sketch.serialize_compact() if function == "hll_sketch" else sketch.compact().serialize())
    return found


def meant(function: str, image: Any) -> Any:
    """What bytes of a sketch or bitmap mean: libraries write the same one in several ways."""
    if image is None:
        return None
    if function == "rbm32":
        return sorted(BitMap.deserialize(image))
    if function == "rbm64":
        return sorted(decode(image))
    if function == "theta_sketch":
        return sorted(datasketches.compact_theta_sketch.deserialize(image))
    sketch = datasketches.hll_sketch.deserialize(image)
    if sketch.is_empty():
        return []
    union = datasketches.hll_union(sketch.lg_config_k)
    union.update(sketch)
    registers = union.get_result(datasketches.tgt_hll_type.HLL_8).serialize_updatable()
    mode = registers[_MODE] & 3  # a list, a set, or registers behind estimates that depend on the order of unions
    if mode == _REGISTERS:
        return registers[_FIRST_REGISTER:].hex()
    found = struct.unpack_from(f"<{(len(registers) - _FIRST[mode]) // 4}i", registers, _FIRST[mode])
    return sorted(number for number in found if number)
