"""Methods of strings, numbers, sequences, maps, options, rows and errors, by their Scala and Java names."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import cmp_to_key
from pathlib import PurePosixPath
from typing import Any

from pyspark.sql import Row

from .functions import Thunk, is_of
from .operators import NoMatch, extend, operate, without
from .values import Byte, Float, Long, Option, Small, Typed, Unknown, equal, shown

Words = dict[str, Callable[..., Any]]


def forced(value: Any) -> Any:
    return value() if isinstance(value, Thunk) else value


def collected(held: Any, function: Any) -> Any:
    """Scala's collect, by cases; Java's, by a collector."""
    if getattr(function, "collector", False):
        return function(held)
    found = []
    for one in held:
        try:
            found.append(function(one))
        except NoMatch:
            continue
    return found


def matched(held: Any, function: Any) -> Option:
    for one in held:
        try:
            return Option(function(one))
        except NoMatch:
            continue
    return Option()


def grouped(held: Any, key: Any) -> dict[Any, list[Any]]:
    found: dict[Any, list[Any]] = {}
    for one in held:
        found.setdefault(hashable(key(one)), []).append(one)
    return found


def hashable(value: Any) -> Any:
    return tuple(hashable(one) for one in value) if isinstance(value, list) else value


def folded(held: Any, start: Any, function: Any) -> Any:
    for one in held:
        start = function(start, one)
    return start


def ordered(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return tuple(ordered(one) for one in value)
    return (value is not None, value)


def strip_margin(value: str, mark: str = "|") -> str:
    return re.sub(rf"^[ \t]*{re.escape(mark)}", "", value, flags=re.MULTILINE)


def each(held: Any, function: Any) -> None:
    for one in list(held.items()) if isinstance(held, dict) else list(held):
        function(one)


def like(held: Any, values: Any) -> Any:
    return set(map(hashable, values)) if isinstance(held, set) else list(values)


def first(held: Any, test: Any = None) -> Any:
    found = [one for one in held if test is None or test(one)]
    if not found:
        raise AssertionError("head of an empty collection")
    return found[0]


def flat(values: Any) -> list[Any]:
    return [one for value in values for one in (value.items() if isinstance(value, dict) else value)]


def joined(held: Any, *words: Any) -> str:
    start, between, end = ("", words[0] if words else "", "") if len(words) < 2 else words
    return start + between.join(shown(one) for one in items(held)) + end


def items(held: Any) -> Any:
    return [(key, value) for key, value in held.items()] if isinstance(held, dict) else held


SEQUENCE: Words = {
    "map": lambda a, f: like(a, (f(one) for one in items(a))),
    "flatMap": lambda a, f: like(a, flat(f(one) for one in items(a))),
    "foreach": each,
    "forEach": each,
    "filter": lambda a, f: like(a, (one for one in a if f(one))),
    "withFilter": lambda a, f: like(a, (one for one in a if f(one))),
    "filterNot": lambda a, f: like(a, (one for one in a if not f(one))),
    "collect": lambda a, f: collected(a, f),
    "collectFirst": matched,
    "find": lambda a, f: next((Option(one) for one in a if f(one)), Option()),
    "exists": lambda a, f: any(f(one) for one in a),
    "forall": lambda a, f: all(f(one) for one in a),
    "count": lambda a, f=lambda _: True: sum(1 for one in a if f(one)),
    "size": len,
    "length": len,
    "isEmpty": lambda a: not len(a),
    "nonEmpty": lambda a: bool(len(a)),
    "head": first,
    "headOption": lambda a: Option(list(a)[0]) if len(a) else Option(),
    "lastOption": lambda a: Option(list(a)[-1]) if len(a) else Option(),
    "last": lambda a: list(a)[-1],
    "tail": lambda a: list(a)[1:],
    "init": lambda a: list(a)[:-1],
    "take": lambda a, n: list(a)[:n],
    "drop": lambda a, n: list(a)[n:],
    "slice": lambda a, n, m: list(a)[n:m],
    "indexOf": lambda a, b: next((at for at, one in enumerate(a) if equal(one, b)), -1),
    "contains": lambda a, b: any(equal(one, b) for one in a),
    "containsAll": lambda a, b: all(any(equal(one, other) for one in a) for other in b),
    "mkString": joined,
    "sum": sum,
    "max": lambda a: max(a),
    "min": lambda a: min(a),
    "maxBy": lambda a, f: max(a, key=f),
    "minBy": lambda a, f: min(a, key=f),
    "reverse": lambda a: list(a)[::-1],
    "sort": lambda a, key: list.sort(a, key=key),
    "sorted": lambda a: sorted(a, key=ordered),
    "sortBy": lambda a, f: sorted(a, key=lambda one: ordered(f(one))),
    "sortWith": lambda a, f: sorted(
        a, key=cmp_to_key(lambda one, other: -1 if f(one, other) else 1 if f(other, one) else 0)
    ),
    "distinct": lambda a: [one for at, one in enumerate(a) if not any(equal(one, b) for b in list(a)[:at])],
    "zip": lambda a, b: list(zip(a, b, strict=False)),
    "zipWithIndex": lambda a: [(one, at) for at, one in enumerate(a)],
    "unzip": lambda a: tuple(map(list, zip(*a, strict=True))) if a else ([], []),
    "toMap": lambda a: {hashable(key): value for key, value in a},
    "groupBy": grouped,
    "flatten": flat,
    "sliding": lambda a, n: [list(a)[at : at + n] for at in range(len(a) - n + 1)],
    "grouped": lambda a, n: [list(a)[at : at + n] for at in range(0, len(a), n)],
    "takeWhile": lambda a, f: list(a)[: next((at for at, one in enumerate(a) if not f(one)), len(a))],
    "foldLeft": lambda a, start: lambda f: folded(a, start, f),
    "reduce": lambda a, f: folded(list(a)[1:], list(a)[0], f),
    "updated": lambda a, at, value: [*a[:at], value, *a[at + 1 :]],
    "sameElements": lambda a, b: equal(list(a), list(b)),
    "diff": lambda a, b: [one for one in a if not any(equal(one, other) for other in b)],
    "intersect": lambda a, b: like(a, (one for one in a if any(equal(one, other) for other in b))),
    "subsetOf": lambda a, b: all(one in b for one in a),
    "partition": lambda a, f: ([one for one in a if f(one)], [one for one in a if not f(one)]),
    "indices": lambda a: list(range(len(a))),
    "add": lambda a, *b: a.insert(*b) if len(b) > 1 else a.append(*b) if isinstance(a, list) else a.add(*b),
    "append": lambda a, b: a.append(b),
    "addAll": lambda a, b: extend(a, b),
    "clear": lambda a: a.clear(),
    "subList": lambda a, n, m: a[n:m],
    "asScala": lambda a: a,
    "asJava": lambda a: a,
    "toSeq": lambda a: list(items(a)),
    "toList": lambda a: list(items(a)),
    "toArray": lambda a, *kind: list(a),
    "toIndexedSeq": lambda a: list(a),
    "toIterator": lambda a: list(a),
    "iterator": lambda a: list(a),
    "toBuffer": lambda a: list(a),
    "toVector": lambda a: list(a),
    "stream": lambda a: list(a),
    "toSet": lambda a: set(map(hashable, a)),
    "apply": lambda a, at: a[at] if isinstance(a, list | tuple | bytes) else at in a,
    "get": lambda a, at: a[at],
    "equals": equal,
    "union": lambda a, b: like(a, [*a, *b]),
    "copyToArray": lambda a, b: None,
    "clone": lambda a: list(a),
    "product": lambda a: folded(a, 1, lambda x, y: x * y),
    "fold": lambda a, start: lambda f: folded(a, start, f),
    "deep": lambda a: a,
    "view": lambda a: a,
    "par": lambda a: a,
    "removeFirst": lambda a: a.pop(0),
}

MAP: Words = {
    "get": lambda a, key: Option(a[key]) if key in a else Option(),
    "getOrElse": lambda a, key, other: a[key] if key in a else forced(other),
    "getOrDefault": lambda a, key, other: a.get(key, other),
    "contains": lambda a, key: key in a,
    "containsKey": lambda a, key: key in a,
    "apply": lambda a, key: a[hashable(key)],
    "keys": lambda a: list(a),
    "keySet": lambda a: set(a),
    "values": lambda a: list(a.values()),
    "entrySet": lambda a: list(a.items()),
    "toMap": lambda a: dict(a),
    "mapValues": lambda a, f: {key: f(value) for key, value in a.items()},
    "filter": lambda a, f: {key: value for key, value in a.items() if f((key, value))},
    "filterKeys": lambda a, f: {key: value for key, value in a.items() if f(key)},
    "map": lambda a, f: pairs([f(one) for one in items(a)]),
    "foreach": lambda a, f: [f(one) for one in items(a)] and None,
    "exists": lambda a, f: any(f(one) for one in items(a)),
    "forall": lambda a, f: all(f(one) for one in items(a)),
    "put": lambda a, key, value: a.__setitem__(key, value),
    "updated": lambda a, key, value: {**a, key: value},
    "remove": lambda a, key: a.pop(key, None),
    "head": lambda a: items(a)[0],
    "find": lambda a, f: SEQUENCE["find"](items(a), f),
    "asScala": lambda a: a,
    "toSet": lambda a: set(items(a)),
}


class JavaMap(dict[Any, Any]):
    """Whose get answers null for what is not there."""


def pairs(values: list[Any]) -> Any:
    return dict(values) if values and all(isinstance(one, tuple) and len(one) == 2 for one in values) else values


OPTION: Words = {
    "get": lambda a: first(a.value),
    "getAsLong": lambda a: first(a.value),
    "getOrElse": lambda a, other: a.value[0] if a.value else forced(other),
    "orElse": lambda a, other: a.value[0] if a.value else forced(other),
    "isDefined": lambda a: bool(a.value),
    "isPresent": lambda a: bool(a.value),
    "nonEmpty": lambda a: bool(a.value),
    "isEmpty": lambda a: not a.value,
    "map": lambda a, f: Option(*(f(one) for one in a.value)),
    "flatMap": lambda a, f: f(a.value[0]) if a.value else a,
    "foreach": lambda a, f: [f(one) for one in a.value] and None,
    "exists": lambda a, f: any(f(one) for one in a.value),
    "forall": lambda a, f: all(f(one) for one in a.value),
    "contains": lambda a, b: any(equal(one, b) for one in a.value),
    "filter": lambda a, f: Option(*(one for one in a.value if f(one))),
    "orNull": lambda a: a.value[0] if a.value else None,
    "toSeq": lambda a: list(a.value),
    "toList": lambda a: list(a.value),
    "orElseThrow": lambda a, *b: first(a.value),
}


def split(value: str, by: str, *most: int) -> list[str]:
    found = re.split(by if len(by) > 1 else re.escape(by), value)
    while found and not found[-1] and not most:
        found.pop()
    return found


STRING: Words = {
    "stripMargin": strip_margin,
    "stripPrefix": lambda a, b: a.removeprefix(b),
    "stripSuffix": lambda a, b: a.removesuffix(b),
    "length": len,
    "size": len,
    "contains": lambda a, b: b in a,
    "startsWith": lambda a, b: a.startswith(b),
    "endsWith": lambda a, b: a.endswith(b),
    "toLowerCase": lambda a, *b: a.lower(),
    "toUpperCase": lambda a, *b: a.upper(),
    "equalsIgnoreCase": lambda a, b: a.lower() == b.lower(),
    "trim": lambda a: a.strip(),
    "strip": lambda a: a.strip(),
    "split": split,
    "replace": lambda a, b, c: a.replace(b, c),
    "replaceAll": lambda a, b, c: re.sub(b, c.replace("$", "\\"), a),
    "matches": lambda a, b: re.fullmatch(b, a) is not None,
    "substring": lambda a, n, m=None: a[n:m],
    "indexOf": lambda a, b: a.find(b),
    "lastIndexOf": lambda a, b: a.rfind(b),
    "isEmpty": lambda a: not a,
    "nonEmpty": bool,
    "toInt": int,
    "toLong": lambda a: Long(a),
    "toDouble": float,
    "toBoolean": lambda a: a == "true",
    "getBytes": lambda a, *b: a.encode(),
    "charAt": lambda a, n: a[n],
    "apply": lambda a, n: a[n],
    "format": lambda a, *b: a % tuple(b),
    "equals": equal,
    "hashCode": hash,
    "capitalize": lambda a: a[:1].upper() + a[1:],
    "lines": lambda a: a.splitlines(),
    "linesIterator": lambda a: a.splitlines(),
    "toSeq": list,
    "map": lambda a, f: [f(one) for one in a],
    "count": lambda a, f: sum(1 for one in a if f(one)),
    "exists": lambda a, f: any(f(one) for one in a),
    "r": lambda a: re.compile(a),
    "padTo": lambda a, n, b: a.ljust(n, b),
    "take": lambda a, n: a[:n],
    "mkString": lambda a: a,
    "compareTo": lambda a, b: (a > b) - (a < b),
    "concat": lambda a, b: a + b,
    "toArray": list,
    "value": lambda a: a,
    "name": lambda a: a,
    "typeName": lambda a: a,
    "repeat": lambda a, n: a * n,
    "getPath": lambda a: a,
    "toUri": lambda a: a,
}

NUMBER: Words = {
    "toInt": int,
    "toLong": lambda a: Long(a),
    "toByte": lambda a: Byte(a),
    "toShort": lambda a: Small(a),
    "toDouble": float,
    "toFloat": lambda a: Float(a),
    "longValue": lambda a: Long(a),
    "intValue": int,
    "doubleValue": float,
    "equals": equal,
    "abs": abs,
    "max": max,
    "min": min,
    "compareTo": lambda a, b: (a > b) - (a < b),
    "compare": lambda a, b: (a > b) - (a < b),
    "hashCode": hash,
    "second": lambda a: a,
    "seconds": lambda a: a,
    "minutes": lambda a: a * 60,
    "minute": lambda a: a * 60,
    "millis": lambda a: a / 1000,
    "toHexString": lambda a: f"{a:x}",
    "stripTrailingZeros": lambda a: a,
    "setScale": lambda a, *n: a,
}

ROW: Words = {
    **{
        word: (lambda a, at: a[at])
        for word in (
            "get",
            "apply",
            "getString",
            "getInt",
            "getLong",
            "getBoolean",
            "getDouble",
            "getFloat",
            "getShort",
            "getByte",
            "getDecimal",
            "getTimestamp",
            "getDate",
            "getStruct",
            "getSeq",
            "getMap",
            "getJavaMap",
            "getList",
            "getLocalDate",
            "getInstant",
        )
    },
    "getAs": lambda a, at, types=(): a[at],
    "isNullAt": lambda a, at: a[at] is None,
    "size": len,
    "length": len,
    "toSeq": list,
    "mkString": joined,
    "anyNull": lambda a: any(one is None for one in a),
    "equals": equal,
    "fieldIndex": lambda a, name: a.__fields__.index(name),
}

TUPLE: Words = {
    **{f"_{at}": (lambda a, at=at: a[at - 1]) for at in range(1, 15)},
    "productIterator": list,
    "swap": lambda a: a[::-1],
    "equals": equal,
    "getLeft": lambda a: a[0],
    "getRight": lambda a: a[1],
    "getKey": lambda a: a[0],
    "getValue": lambda a: a[1],
    "zipped": lambda a: list(zip(*a, strict=False)),
}


def message(error: Exception) -> str:
    told = getattr(error, "getMessage", None)
    return str(told() if callable(told) and told() else error)


def causes(error: Exception) -> Any:
    return error.__cause__


ERROR: Words = {
    "getMessage": message,
    "getLocalizedMessage": message,
    "getCause": causes,
    "getSuppressed": lambda a: [],
    "printStackTrace": lambda a: None,
    "getStackTrace": lambda a: [],
    "getErrorClass": lambda a: a.getCondition(),
    "getCondition": lambda a: a.getCondition(),
    "errorClass": lambda a: Option(a.getCondition()),
    "getSqlState": lambda a: a.getSqlState(),
}

TIME: Words = {
    "getTime": lambda a: Long(a.timestamp() * 1000),
    "toLocalDateTime": lambda a: a,
    "toInstant": lambda a, *zone: a,
    "toEpochMilli": lambda a: Long(a.timestamp() * 1000),
    "plusDays": lambda a, n: a + timedelta(days=n),
    "minusDays": lambda a, n: a - timedelta(days=n),
    "plusSeconds": lambda a, n: a + timedelta(seconds=n),
    "minusSeconds": lambda a, n: a - timedelta(seconds=n),
    "plusHours": lambda a, n: a + timedelta(hours=n),
    "minusHours": lambda a, n: a - timedelta(hours=n),
    "toLocalDate": lambda a: a.date() if isinstance(a, datetime) else a,
    "equals": equal,
    "atZone": lambda a, zone: a,
    "format": lambda a, pattern: pattern.format(a),
    "truncatedTo": lambda a, unit: a,
    "isAfter": lambda a, b: a > b,
    "isBefore": lambda a, b: a < b,
    "getYear": lambda a: a.year,
}

PATTERN: Words = {
    "findFirstMatchIn": lambda a, b: Option(found) if (found := a.search(b)) else Option(),
    "findFirstIn": lambda a, b: Option(found.group()) if (found := a.search(b)) else Option(),
    "findAllIn": lambda a, b: [one.group() for one in a.finditer(b)],
    "findAllMatchIn": lambda a, b: list(a.finditer(b)),
    "replaceAllIn": lambda a, b, c: a.sub(c, b),
    "pattern": lambda a: a,
}

MATCH: Words = {"group": lambda a, n: a.group(n), "matched": lambda a: a.group()}

BY_TYPE: list[tuple[Any, Words]] = [
    (str, STRING),
    (bool, {"equals": equal, "booleanValue": lambda a: a}),
    (int | float | Decimal, NUMBER),
    (Option, OPTION),
    (dict, {**SEQUENCE, **MAP}),
    (Row, {**SEQUENCE, **TUPLE, **ROW}),
    (tuple, TUPLE),
    (list | set | frozenset | bytes | bytearray | range, SEQUENCE),
    (BaseException, ERROR),
    (datetime | date, TIME),
    (re.Pattern, PATTERN),
    (re.Match, MATCH),
    (Typed, {"getName": lambda a: a.name, "getSimpleName": lambda a: a.name, "getCanonicalName": lambda a: a.name}),
    (PurePosixPath, {}),
]


def of_all(value: Any, word: str, values: list[Any], names: dict[str, Any]) -> Any:
    """What every value has; NotImplemented for what is none of it."""
    if word == "isInstanceOf":
        return is_of(value, names["types"][0].split("[")[0].split(".")[-1])
    if word in ("asInstanceOf", "self"):
        return value
    if word == "toString" and not values:
        return shown(value)
    if word in ("equals", "canEqual"):
        return equal(value, values[0])
    if word == "hashCode":
        return hash(shown(value))
    if word == "getClass":
        return Typed(type(value).__name__)
    if word in ("->", "==", "!="):
        return operate(word, value, values[0])
    return NotImplemented


def native(value: Any, word: str, values: list[Any], names: dict[str, Any]) -> Any:
    """A word of a value of Python's own kinds; NotImplemented if it has none of this name."""
    for kind, words in BY_TYPE:
        if not isinstance(value, kind):
            continue
        if isinstance(value, JavaMap) and word == "get":
            return value.get(values[0])
        if word in words:
            function = words[word]
            if (
                values
                and word in ("toSeq", "keys", "values", "toList", "asScala", "toArray", "productIterator")
                and isinstance(values[0], int)
            ):
                return list(function(value))[values[0]]
            return function(value, *values, **names)
        return NotImplemented
    return NotImplemented


__all__ = ["JavaMap", "Unknown", "native", "of_all", "without"]
