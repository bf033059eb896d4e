"""Values and objects of Scala, Java and Paimon that upstream's tests name: rows, sequences, maps, random numbers, constants."""

from __future__ import annotations

import os
import random
import re
import time
from datetime import datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyspark.sql.types as T
from pyspark.sql import Row

from bucketlake.options.options import OPTIONS

from .judged import LIMIT, Skipped, TooLong, by_name, is_products
from .source import text
from .tables import Place
from .values import Long, Opaque, Unknown, equal, shown
from .words import JavaMap

if TYPE_CHECKING:
    from .harness import Bench


def dropping_functions(bench: Bench, around: Any) -> Any:
    def enter(*names: Any) -> Any:
        def undo() -> None:
            for name, temporary in names:
                bench.quietly(f"DROP {'TEMPORARY ' if temporary else ''}FUNCTION IF EXISTS {name}")

        return undo

    return around(enter)


def too_long(*_: Any) -> None:
    raise TooLong(f"more than {LIMIT} seconds")


def set_zone(zone: Any) -> None:
    if zone is None:
        os.environ.pop("TZ", None)
    else:
        os.environ["TZ"] = str(zone)
    time.tzset()


def short(value: Any) -> str:
    found = shown(value)
    return found if len(found) < 900 else found[:450] + " … " + found[-450:]


def kind_of(value: Any) -> str:
    return value.name if isinstance(value, Package) else type(value).__name__


def unknown(word: str) -> Any:
    raise Unknown(word)


def to_python(value: Any) -> Any:
    if isinstance(value, JavaMap | dict):
        return {key: shown(one) if isinstance(one, bool) else one for key, one in value.items()}
    if isinstance(value, Place):
        return str(value)
    return value


def timestamp(word: str) -> datetime:
    word = re.sub(r"(\.\d{6})\d*", r"\1", word.replace("T", " ").rstrip("Z"))
    return datetime.fromisoformat(re.sub(r"\.(\d{1,5})$", lambda found: "." + found[1].ljust(6, "0"), word))


def iterate(start: Any) -> Any:
    """`Iterator.iterate(e)(_.getCause)`, up to the first null."""

    def go(function: Any) -> list[Any]:
        found = [start]
        while found[-1] is not None and len(found) < 100:
            found.append(function(found[-1]))
        return found

    return go


class Package:
    def __init__(self, name: str) -> None:
        self.name = name


class Lazy:
    def __init__(self, function: Any) -> None:
        self.function = function


class Formats(list[str]):
    """`fileFormats`: two formats; called with a function, three."""

    def __init__(self) -> None:
        super().__init__(["orc", "parquet"])

    def __call__(self, function: Any) -> None:
        for one in ("parquet", "orc", "avro"):
            function(one)


class Rows:
    def __call__(self, *values: Any) -> Row:
        return Row(*values)

    def apply(self, *values: Any) -> Row:
        return Row(*values)

    def fromSeq(self, values: Any) -> Row:
        return Row(*values)

    fromTuple = fromSeq

    def empty(self, **_: Any) -> Row:
        return Row()


class Sequence:
    def __init__(self, kind: Any) -> None:
        self.kind = kind

    def __call__(self, *values: Any, **_: Any) -> Any:
        return self.kind(values)

    def apply(self, *values: Any) -> Any:
        return self.kind(values)

    def empty(self, **_: Any) -> Any:
        return self.kind()

    def fill(self, count: int) -> Any:
        return by_name(lambda body: self.kind(body() for _ in range(count)))

    def tabulate(self, count: int) -> Any:
        return lambda function: self.kind(function(at) for at in range(count))

    def range(self, start: int, end: int, *step: int) -> Any:
        return list(range(start, end, *step))

    def concat(self, *values: Any) -> Any:
        return [one for each in values for one in each]


class Maps:
    def __init__(self, kind: Any) -> None:
        self.kind = kind

    def __call__(self, *pairs: Any, **_: Any) -> Any:
        return self.kind(pairs)

    apply = __call__

    def empty(self, **_: Any) -> Any:
        return self.kind()


class Made:
    """A class that is called, and functions of its companion."""

    def __init__(self, function: Any, **more: Any) -> None:
        self.function = function
        self.__dict__.update(more)

    def __call__(self, *values: Any, **_: Any) -> Any:
        return self.function(*values)

    def apply(self, *values: Any) -> Any:
        return self.function(*values)

    valueOf = apply


class Constants:
    def __getattr__(self, word: str) -> str:
        return word


class Engines:
    """`CoreOptions.MergeEngine`; an engine prints as its option's value."""

    DEDUPLICATE, PARTIAL_UPDATE, AGGREGATE, FIRST_ROW = "deduplicate", "partial-update", "aggregation", "first-row"

    def values(self) -> list[str]:
        return [self.DEDUPLICATE, self.PARTIAL_UPDATE, self.AGGREGATE, self.FIRST_ROW]


class OptionNames:
    """`CoreOptions.BUCKET.key()`: the option's key."""

    def __getattr__(self, word: str) -> Any:
        if not word.isupper():
            return Engines() if word == "MergeEngine" else Constants()
        key = word.lower().replace("_", "-")
        return SimpleNamespace(key=lambda: next((one for one in OPTIONS if one.replace(".", "-") == key), key))


class TypesByName:
    def __getattr__(self, word: str) -> Any:
        if word == "createDecimalType":
            return T.DecimalType
        return getattr(T, word)()


class Counter:
    def __init__(self, value: int = 0) -> None:
        self.value = value

    def get(self) -> int:
        return self.value

    def incrementAndGet(self) -> int:
        self.value += 1
        return self.value

    def getAndIncrement(self) -> int:
        self.value += 1
        return self.value - 1


class Randoms:
    def __init__(self) -> None:
        self.chance = random.Random(1)

    def __call__(self, *_: Any) -> Randoms:
        return self

    def nextInt(self, *most: int) -> int:
        return self.chance.randrange(*most) if most else self.chance.randrange(2**31)

    def nextBoolean(self) -> bool:
        return self.chance.random() < 0.5

    def nextLong(self) -> Long:
        return Long(self.chance.randrange(2**62))

    def nextString(self, length: int) -> str:
        """Letters of three bytes, as most of Scala's are: sizes of files decide what is compacted."""
        return "".join(chr(0x4E00 + self.chance.randrange(20_000)) for _ in range(length))

    def nextBytes(self, held: list[int]) -> None:
        held[:] = list(self.chance.randbytes(len(held)))

    def shuffle(self, values: Any) -> Any:
        found = list(values)
        self.chance.shuffle(found)
        return found


class That:
    """AssertJ's assertThat."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def _must(self, condition: bool, word: str, *other: Any) -> That:
        if not condition and not isinstance(self.value, Opaque) and not any(isinstance(one, Opaque) for one in other):
            raise AssertionError(f"{word}: {short(self.value)} {' '.join(short(one) for one in other)}")
        return self

    def isEqualTo(self, other: Any) -> That:
        return self._must(equal(self.value, other), "isEqualTo", other)

    def isNotEqualTo(self, other: Any) -> That:
        return self._must(not equal(self.value, other), "isNotEqualTo", other)

    def isTrue(self) -> That:
        return self._must(self.value is True, "isTrue")

    def isFalse(self) -> That:
        return self._must(self.value is False, "isFalse")

    def isNull(self) -> That:
        return self._must(self.value is None, "isNull")

    def isNotNull(self) -> That:
        return self._must(self.value is not None, "isNotNull")

    def isGreaterThan(self, other: Any) -> That:
        return self._must(self.value > other, "isGreaterThan", other)

    def isGreaterThanOrEqualTo(self, other: Any) -> That:
        return self._must(self.value >= other, "isGreaterThanOrEqualTo", other)

    def isLessThanOrEqualTo(self, other: Any) -> That:
        return self._must(self.value <= other, "isLessThanOrEqualTo", other)

    def isLessThan(self, other: Any) -> That:
        return self._must(self.value < other, "isLessThan", other)

    def isEmpty(self) -> That:
        return self._must(not len(self.value), "isEmpty")

    def isNotEmpty(self) -> That:
        return self._must(bool(len(self.value)), "isNotEmpty")

    def hasSize(self, size: int) -> That:
        return self._must(len(self.value) == size, "hasSize", size)

    def contains(self, *others: Any) -> That:
        return self._must(all(one in self.value for one in others), "contains", *others)

    def startsWith(self, other: Any) -> That:
        return self._must(self.value.startswith(other), "startsWith", other)

    def containsExactlyElementsOf(self, other: Any) -> That:
        return self._must(equal(list(self.value), list(other)), "containsExactly", other)

    def containsExactly(self, *others: Any) -> That:
        return self._must(equal(list(self.value), list(others)), "containsExactly", others)

    def containsExactlyInAnyOrder(self, *others: Any) -> That:
        same = len(self.value) == len(others) and all(any(equal(one, other) for other in others) for one in self.value)
        return self._must(same, "containsExactlyInAnyOrder", others)

    def containsExactlyInAnyOrderElementsOf(self, others: Any) -> That:
        return self.containsExactlyInAnyOrder(*others)

    def isInstanceOf(self, kind: Any) -> That:
        return self

    def hasMessage(self, other: str) -> That:
        return self._must(other in str(self.value), "hasMessage", other)

    hasMessageContaining = hasMessage
    hasRootCauseMessage = hasMessage
    hasStackTraceContaining = hasMessage

    def doesNotContain(self, *others: Any) -> That:
        return self._must(not any(one in self.value for one in others), "doesNotContain", *others)

    def containsEntry(self, key: Any, value: Any) -> That:
        return self._must(equal(self.value.get(key), value), "containsEntry", key, value)

    def containsKey(self, key: Any) -> That:
        return self._must(key in self.value, "containsKey", key)

    def doesNotContainKey(self, key: Any) -> That:
        return self._must(key not in self.value, "doesNotContainKey", key)

    def allMatch(self, test: Any) -> That:
        return self._must(all(test(one) for one in self.value), "allMatch")

    def noneMatch(self, test: Any) -> That:
        return self._must(not any(test(one) for one in self.value), "noneMatch")

    def exists(self) -> That:
        return self._must(self.value.exists(), "exists")

    def doesNotExist(self) -> That:
        return self._must(not self.value.exists(), "doesNotExist")

    def satisfies(self, *wanted: Any) -> That:
        for one in wanted:
            if callable(one):
                one(self.value)
        return self

    def satisfiesAnyOf(self, *wanted: Any) -> That:
        wrong: list[str] = []
        for one in wanted:
            try:
                one(self.value)
            except AssertionError as error:
                wrong.append(str(error))
        return self._must(len(wrong) < len(wanted), " or ".join(wrong))

    def described(self, *_: Any) -> That:
        return self


setattr(That, "as", That.described)


PLAIN = {str, list, dict, set, tuple, int, float, bool, Long, JavaMap, Row}
CONSTANTS = {"COMPACT", "OVERWRITE", "APPEND", "ANALYZE", "MERGE", "TRUNCATE"}
__all__ = ["Bench", "Skipped", "TooLong", "is_products", "text"]
