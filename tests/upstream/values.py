"""Scala's values where Python has none of its own, how they print, when they are equal."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from pyspark.sql import Row
from pyspark.sql.types import VariantVal


class Unknown(Exception):
    """What this tool does not understand: the test is skipped for this reason."""


class Skipped(Unknown):
    """A test that says itself that it does not apply."""


class Thrown(Exception):
    """What a test itself throws."""


class Opaque:
    """What a loose run goes on with where a value was not understood: equal to everything, and every condition holds."""

    def same(self, *_: Any, **__: Any) -> Opaque:
        return self

    def yes(self, *_: Any) -> bool:
        return True

    def none(self) -> Iterator[Any]:
        return iter(())

    __call__ = __getattr__ = __getitem__ = __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = same
    __truediv__ = __rtruediv__ = __mod__ = __rmod__ = __invert__ = __neg__ = same
    by_name = typed = False
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __contains__ = yes  # type: ignore[assignment]
    __iter__ = none

    def __hash__(self) -> int:
        return 0

    def __len__(self) -> int:
        return 0

    def __bool__(self) -> bool:
        return True

    def __str__(self) -> str:
        return "?"


class Long(int):
    """An int of 64 bits: a DataFrame of such has the type BIGINT."""


class Float(float):
    """A float of 32 bits."""


class Small(int):
    """A Byte or a Short, with the name of its type."""

    kind = "short"


class Byte(Small):
    kind = "byte"


class Typed:
    """`classOf[X]`, a name of a class."""

    def __init__(self, name: str) -> None:
        self.name = name


class Single:
    """A member that was found, whatever its value."""

    def __init__(self, value: Any) -> None:
        self.value = value


class Option:
    """Some value or none; Java's Optional too."""

    def __init__(self, *value: Any) -> None:
        self.value = value

    def __iter__(self) -> Iterator[Any]:
        return iter(self.value)

    def __len__(self) -> int:
        return len(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Option) and equal(list(self.value), list(other.value))

    def __hash__(self) -> int:
        return hash(self.value)


KINDS: dict[str, Any] = {
    "String": str,
    "Int": int,
    "Long": int,
    "Integer": int,
    "Boolean": bool,
    "Double": float,
    "Float": float,
    "Row": Row,
    "Seq": list,
    "List": list,
    "Map": dict,
    "Set": set,
    "Array": (list, bytes),
    "Any": object,
    "AnyRef": object,
    "Throwable": Exception,
    "Option": Option,
    "Some": Option,
    "BigDecimal": Decimal,
    "Timestamp": datetime,
    "LocalDateTime": datetime,
    "Date": date,
}


def equal(left: Any, right: Any) -> bool:
    """Scala's ==, deep; Array by its elements, as QueryTest compares it. Numbers by their values."""
    if isinstance(left, Opaque) or isinstance(right, Opaque):
        return True
    if left is None or right is None:
        return left is right
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, float) and isinstance(right, float) and math.isnan(left) and math.isnan(right):
        return True
    if isinstance(left, bytes | bytearray | memoryview) or isinstance(right, bytes | bytearray | memoryview):
        return raw(left) == raw(right)
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(equal(one, other) for one, other in zip(left, right, strict=True))
    if isinstance(left, dict) and isinstance(right, dict):
        return len(left) == len(right) and all(key in right and equal(value, right[key]) for key, value in left.items())
    if (isinstance(left, Decimal) and isinstance(right, float)) or (
        isinstance(left, float) and isinstance(right, Decimal)
    ):
        return Decimal(str(left)) == Decimal(str(right))
    if (isinstance(left, Float) and isinstance(right, float)) or (isinstance(right, Float) and isinstance(left, float)):
        return math.isclose(left, right, rel_tol=1e-6)
    if isinstance(left, VariantVal) and isinstance(right, VariantVal):
        return str(left.toJson()) == str(right.toJson())
    if type(left).__module__.startswith("pyspark") and not isinstance(left, Row):
        return bool(left == right) if "DataType" in str(type(left).__mro__) else left is right
    return bool(left == right)


def raw(value: Any) -> bytes | None:
    if isinstance(value, list) and all(isinstance(one, int) for one in value):
        return bytes(one & 255 for one in value)
    return bytes(value) if isinstance(value, bytes | bytearray | memoryview) else None


class JavaList(list[Any]):
    """A list that prints as Java's do."""


def shown(value: Any) -> str:
    """Scala's toString."""
    if isinstance(value, Opaque):
        return "?"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    if isinstance(value, Row):
        return (
            "["
            + ",".join(
                shown(one).replace("List(", "ArraySeq(") if isinstance(one, list) else shown(one) for one in value
            )
            + "]"
        )
    if isinstance(value, float):
        return repr(float(value)) if abs(value) < 1e7 else repr(value)
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, tuple):
        return "(" + ",".join(shown(one) for one in value) + ")"
    if isinstance(value, JavaList):
        return "[" + ", ".join(shown(one) for one in value) + "]"
    if isinstance(value, list):
        return "List(" + ", ".join(shown(one) for one in value) + ")"
    if isinstance(value, set | frozenset):
        return "Set(" + ", ".join(shown(one) for one in value) + ")"
    if isinstance(value, dict):
        return "Map(" + ", ".join(f"{shown(key)} -> {shown(one)}" for key, one in value.items()) + ")"
    if isinstance(value, Option):
        return f"Some({shown(value.value[0])})" if value.value else "None"
    if isinstance(value, datetime):
        fraction = f"{value.microsecond:06d}".rstrip("0") or "0"
        return value.strftime("%Y-%m-%d %H:%M:%S.") + fraction
    if isinstance(value, Exception):
        return f"{type(value).__name__}: {value}"
    told = getattr(value, "toString", None)
    if callable(told):
        return str(told())
    if "pyspark.sql.types" in str(type(value)):
        return type(value).__name__
    return str(value)
