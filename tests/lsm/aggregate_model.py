"""Aggregates row by row in plain Python: the rules that the vectorised functions are held to.

A fold keeps one accumulator; `add` puts a value on it, `add_in_front` puts it under it, `retract` takes it back.
"""

from __future__ import annotations

import math
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any

import numpy as np

from bucketlake.lsm.aggregates.functions import AggregateOptions
from bucketlake.types.model import DataType, Root


class Refused(Exception):
    """The fold raises: no retraction, overflow."""


class Fold:
    """Subclasses say what two values make; null rules are theirs too."""

    def __init__(self, kind: DataType, options: AggregateOptions) -> None:
        self.kind, self.options = kind, options

    def add(self, held: Any, given: Any) -> Any:
        raise NotImplementedError

    def add_in_front(self, held: Any, given: Any) -> Any:
        return self.add(given, held)

    def retract(self, held: Any, given: Any) -> Any:
        raise Refused("no retraction")


class BothPresent(Fold):
    def add(self, held: Any, given: Any) -> Any:
        if held is None or given is None:
            return given if held is None else held
        return self.join(held, given)

    def join(self, held: Any, given: Any) -> Any:
        raise NotImplementedError


def in_range(kind: DataType, number: Any) -> Any:
    """The number as the column holds it."""
    if kind.root is Root.DOUBLE:
        return float(number)
    if kind.root is Root.FLOAT:
        return np.float32(number)
    if kind.root is Root.DECIMAL:
        with localcontext() as context:
            context.prec = 200
            number = number.quantize(Decimal(1).scaleb(-kind.scale), ROUND_HALF_UP)
            if abs(number.scaleb(kind.scale)) >= 10**kind.precision:
                raise Refused("overflow")
        return number
    bits = {Root.TINYINT: 8, Root.SMALLINT: 16, Root.INT: 32, Root.BIGINT: 64}[kind.root]
    if not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise Refused("overflow")
    return number


def exactly(a: Any, b: Any, sign: str) -> Any:
    with localcontext() as context, np.errstate(all="ignore"):
        context.prec = 200
        return a + b if sign == "+" else a - b if sign == "-" else a * b


def negated(number: Any) -> Any:
    return number.copy_negate() if isinstance(number, Decimal) else -number


class Sum(BothPresent):
    def join(self, held: Any, given: Any) -> Any:
        return in_range(self.kind, exactly(held, given, "+"))

    def retract(self, held: Any, given: Any) -> Any:
        if given is None:
            return held
        return in_range(self.kind, exactly(held, given, "-") if held is not None else negated(given))


class Product(BothPresent):
    def join(self, held: Any, given: Any) -> Any:
        return in_range(self.kind, exactly(held, given, "*"))

    def retract(self, held: Any, given: Any) -> Any:
        if held is None or given is None:
            return held
        if self.kind.root in (Root.FLOAT, Root.DOUBLE):
            with np.errstate(all="ignore"):
                return type(held)(np.divide(held, given))
        if given == 0:
            raise Refused("division by zero")
        if self.kind.root is Root.DECIMAL:
            with localcontext() as context:
                context.prec = 200
                a, b = int(held.scaleb(self.kind.scale)), int(given.scaleb(self.kind.scale))
            rest = abs(b) // math.gcd(a, b)
            while rest % 2 == 0:
                rest //= 2
            while rest % 5 == 0:
                rest //= 5
            if rest != 1:
                raise Refused("does not terminate")
            with localcontext() as context:
                context.prec = 200
                return in_range(self.kind, held / given)
        return in_range(self.kind, abs(held) // abs(given) * (1 if (held < 0) == (given < 0) else -1))


def order_of(value: Any) -> Any:
    if isinstance(value, (float, np.floating)):
        return (2, 0.0) if math.isnan(value) else (1, value, math.copysign(1, value))
    return value.encode() if isinstance(value, str) else value


class Max(BothPresent):
    def join(self, held: Any, given: Any) -> Any:
        return given if order_of(held) < order_of(given) else held


class Min(BothPresent):
    def join(self, held: Any, given: Any) -> Any:
        return held if order_of(held) < order_of(given) else given


class BoolAnd(BothPresent):
    def join(self, held: Any, given: Any) -> Any:
        return held and given


class BoolOr(BothPresent):
    def join(self, held: Any, given: Any) -> Any:
        return held or given


class FirstValue(Fold):
    taken = False

    def wanted(self, given: Any) -> bool:
        return True

    def add(self, held: Any, given: Any) -> Any:
        if not self.taken and self.wanted(given):
            self.taken = True
            return given
        return held


class FirstNonNullValue(FirstValue):
    def wanted(self, given: Any) -> bool:
        return given is not None


class LastValue(Fold):
    def add(self, held: Any, given: Any) -> Any:
        return given

    def retract(self, held: Any, given: Any) -> Any:
        return None


class PrimaryKey(LastValue):
    def retract(self, held: Any, given: Any) -> Any:
        return given


class LastNonNullValue(Fold):
    def add(self, held: Any, given: Any) -> Any:
        return held if given is None else given

    def retract(self, held: Any, given: Any) -> Any:
        return held if given is None else None


def blank(text: str | None) -> bool:
    return text is None or not text.strip()


class Listagg(Fold):
    def add(self, held: Any, given: Any) -> Any:
        if blank(given):
            return held
        if blank(held):
            return given
        mark = self.options.delimiter
        if not self.options.distinct:
            return held + mark + given
        seen, parts = set(held.split(mark)), [held]
        for part in given.split(mark):
            if not blank(part) and part not in seen:
                seen.add(part)
                parts.append(part)
        return mark.join(parts)


def row(value: Any) -> Any:
    """A hashable image of a nested value."""
    if isinstance(value, dict):
        return tuple((name, row(part)) for name, part in sorted(value.items()))
    if isinstance(value, (list, tuple)):
        return tuple(row(part) for part in value)
    return value


class Collect(Fold):
    def add(self, held: Any, given: Any) -> Any:
        if held is None and given is None:
            return None
        found: list[Any] = []
        for item in [*(held or []), *(given or [])]:
            if not self.options.distinct or item not in found:
                found.append(item)
        return found

    def add_in_front(self, held: Any, given: Any) -> Any:
        return self.add(given, held) if self.options.ignore_retract else self.add(held, given)

    def retract(self, held: Any, given: Any) -> Any:
        if held is None or not given:
            return held
        back, left = list(given), []
        for item in held:
            if item in back:
                back.remove(item)
            else:
                left.append(item)
        return left


class MergeMap(BothPresent):
    def join(self, held: Any, given: Any) -> Any:
        return list({**dict(held), **dict(given)}.items())

    def retract(self, held: Any, given: Any) -> Any:
        if held is None or not given:
            return held
        gone = dict(given)
        return [(key, value) for key, value in held if key not in gone]


class MergeMapWithKeytime(BothPresent):
    def join(self, held: Any, given: Any) -> Any:
        found = dict(held)
        for key, value in given:
            old = found.get(key)
            if value is None:
                found.pop(key, None)
            elif value["ts"] is not None and (old is None or old["ts"] is None or value["ts"] > old["ts"]):
                found[key] = value
        return list(found.items())


class NestedUpdate(Fold):
    def key(self, item: Any) -> Any:
        return row([item[name] for name in self.options.nested_key])

    def usable(self, item: Any) -> bool:
        strategy = self.options.nested_key_null_strategy
        if None not in self.key(item) or strategy in (None, "merge"):
            return True
        if strategy == "error":
            raise Refused("null in nested key")
        return False

    def sequence(self, item: Any) -> Any:
        return [(item[name] is not None, item[name] or 0) for name in self.options.nested_sequence_field]

    def put(self, table: dict[Any, Any], items: Any, limit: float) -> None:
        for item in items or []:
            if item is None or not self.usable(item):
                continue
            old = table.get(self.key(item))
            if old is not None:
                if self.sequence(item) >= self.sequence(old):
                    table[self.key(item)] = item
            elif len(table) < limit:
                table[self.key(item)] = item

    def add(self, held: Any, given: Any) -> Any:
        if given is None:
            return held
        limit = self.options.count_limit
        if not self.options.nested_key:
            if held is not None and len(held) >= limit:
                return held
            news = [item for item in given if item is not None]
            return [item for item in held or [] if item is not None] + news[: limit - len(held or [])]
        table: dict[Any, Any] = {}
        self.put(table, held, math.inf)
        self.put(table, given, limit)
        return list(table.values())

    def add_in_front(self, held: Any, given: Any) -> Any:
        # Upstream takes a list that finds nothing as it is, with its nulls and repeated keys, until the next row comes.
        return self.add(given, held) if held is not None else self.add(None, given)

    def retract(self, held: Any, given: Any) -> Any:
        if held is None or given is None:
            return held
        items = [item for item in held if item is not None]
        if not self.options.nested_key:
            return [item for item in items if item not in given]
        gone = {self.key(item) for item in given if item is not None and self.usable(item)}
        return [item for item in items if self.usable(item) and self.key(item) not in gone]


class NestedPartialUpdate(NestedUpdate):
    def add(self, held: Any, given: Any) -> Any:
        if given is None:
            return held
        table: dict[Any, Any] = {}
        for item in [*(held or []), *given]:
            if item is not None and self.usable(item):
                old = table.setdefault(self.key(item), dict.fromkeys(item))
                old.update({name: part for name, part in item.items() if part is not None})
        return list(table.values())

    def retract(self, held: Any, given: Any) -> Any:
        raise Refused("no retraction")


FOLDS: dict[str, type[Fold]] = {
    "sum": Sum,
    "product": Product,
    "max": Max,
    "min": Min,
    "bool_and": BoolAnd,
    "bool_or": BoolOr,
    "first_value": FirstValue,
    "first_non_null_value": FirstNonNullValue,
    "last_value": LastValue,
    "last_non_null_value": LastNonNullValue,
    "primary-key": PrimaryKey,
    "listagg": Listagg,
    "collect": Collect,
    "merge_map": MergeMap,
    "merge_map_with_keytime": MergeMapWithKeytime,
    "nested_update": NestedUpdate,
    "nested_partial_update": NestedPartialUpdate,
}


def folded(name: str, kind: DataType, options: AggregateOptions, rows: list[tuple[str, Any]]) -> Any:
    """The fold of rows (what, value); what: "+" add, "-" retract, "<" add in front, "=" seed. Raises Refused."""
    fold, held = FOLDS[name](kind, options), None
    for what, value in rows:
        if what == "=":
            held = value
        elif what == "-":
            held = held if options.ignore_retract else fold.retract(held, value)
        else:
            held = fold.add(held, value) if what == "+" else fold.add_in_front(held, value)
    return held
