"""Numbers of events as they were written: JSON texts that are whole, odd and hostile against Python's parser."""

from __future__ import annotations

import json
import random

from pyspark.sql import functions as F

from bucketlake.cdc.values import MARK, exact_numbers, unmarked
from bucketlake.spark.session import Lake

_NUMBERS = ("1", "0", "-0.0", "1.5", "-1.50", "0.10", "1e5", "1E-3", "12345678901234567890.123456789", "1.0E+2", "7.0")
_TEXTS = (
    "",
    "a",
    ":1.5,",
    ": 2.50",
    '":1.50,',
    "\\",
    '{"a":1.50}',
    ",1.50",
    "[1.50",
    "1.50",
    "it's",
    "':1.50",
    ":",
    "1.50:",
)
_DECIMAL = "org.apache.kafka.connect.data.Decimal"


def _space(draw: random.Random) -> str:
    return draw.choice(("", "", "", " ", "\t", "\n "))


def _value(draw: random.Random, depth: int) -> str:
    chance = draw.random()
    if depth < 3 and chance < 0.15:
        return _object(draw, depth + 1)
    if depth < 3 and chance < 0.25:
        items = [_space(draw) + _value(draw, depth + 1) + _space(draw) for _ in range(draw.randint(0, 3))]
        return f"[{','.join(items)}]"
    if chance < 0.55:
        return json.dumps(draw.choice(_TEXTS))
    return draw.choice(_NUMBERS)


def _object(draw: random.Random, depth: int) -> str:
    names = draw.sample(("id", "v", "w", "a:", "", "1.50", 'q"', "it's", _DECIMAL), draw.randint(0, 5))
    members = [f"{json.dumps(name)}{_space(draw)}:{_space(draw)}{_value(draw, depth)}{_space(draw)}" for name in names]
    return "{" + _space(draw) + ",".join(members) + "}"


def test_numbers_stay_as_they_are_written(classic: Lake) -> None:
    draw = random.Random(5)
    texts = ["{" + f'"n":{number},"d":{json.dumps(_DECIMAL)}' + "}" for number in _NUMBERS]
    texts += [_object(draw, 0) for _ in range(1500)]
    frame = classic.spark.createDataFrame([(text,) for text in texts], "value string").repartition(2)
    marked = exact_numbers(F.col("value"))
    read = F.from_json(marked, "MAP<STRING,STRING>")
    plain = F.transform_values(read, lambda _, item: unmarked(item))
    seen = frame.select("value", unmarked(marked).alias("back"), plain.alias("read")).collect()
    assert len(seen) == len(texts)
    for text, back, found in seen:
        assert MARK not in back and json.loads(back) == json.loads(text)
        for name, value in json.loads(text, parse_float=str, parse_int=str).items():
            if isinstance(value, str):
                assert found[name] == value, text
            else:
                assert MARK not in str(found[name]), text
