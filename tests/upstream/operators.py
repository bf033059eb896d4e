"""Scala's operators and texts over Python's values; what a term's placeholders and casts mean."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any

from tree_sitter import Node

from .source import named
from .values import Long, Thrown, equal, shown

ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\", "'": "'", "b": "\b", "f": "\f"}


class NoMatch(Exception):
    """No case fits a value, as Scala's MatchError; collect leaves such values out."""


def placeholders(node: Node) -> Iterable[Node]:
    """The `_` of an expression that stand for the arguments of the function that it is."""
    for one in named(node):
        if one.type == "wildcard" and node.type not in ("binding", "lambda_expression", "case_clause", "enumerator"):
            yield one
        elif one.type in ("arguments", "tuple_expression", "parenthesized_expression"):
            for each in named(one):
                if each.type == "wildcard":
                    yield each
        elif one.type not in (
            "type_arguments",
            "block",
            "indented_block",
            "case_block",
            "lambda_expression",
            "template_body",
            "interpolated_string_expression",
            "vararg",
            "for_expression",
        ):
            yield from placeholders(one)


TYPED = ("isInstanceOf", "getAs", "as", "asInstanceOf", "empty")


def thrown(value: Any) -> Exception:
    return value if isinstance(value, Exception) else Thrown(shown(value))


def unescaped(word: str) -> str:
    def one(found: re.Match[str]) -> str:
        code = found.group(1)
        return chr(int(code[-4:], 16)) if code[0] == "u" else ESCAPES.get(code, code)

    return re.sub(r"\\(u+[0-9a-fA-F]{4}|.)", one, word)


def extend(held: Any, more: Any) -> None:
    if isinstance(held, list):
        held.extend(more)
    elif isinstance(held, set):
        held.update(more)
    else:
        held.update(dict(more))


def operate(word: str, left: Any, right: Any) -> Any:
    if word in ("==", "eq") or (word == "===" and not hasattr(left, "isNull")):
        return equal(left, right)
    if word in ("!=", "ne"):
        return not equal(left, right)
    if word == "+" and (isinstance(left, str) or isinstance(right, str)):
        return shown(left) + shown(right)
    if word == "+" and isinstance(left, dict):
        return {**left, right[0]: right[1]}
    if word == "+" and isinstance(left, set):
        return left | {right}
    if word == "/" and isinstance(left, int) and isinstance(right, int):
        return int(Decimal(left) / Decimal(right))
    return OPERATORS[word](left, right)


def joined(left: Any, right: Any) -> Any:
    if isinstance(left, dict):
        return {**left, **dict(right)}
    if isinstance(left, set):
        return left | set(right)
    return [*left, *right]


def without(left: Any, right: Any) -> Any:
    if isinstance(left, dict):
        return {key: value for key, value in left.items() if key not in list(right)}
    return type(left)(one for one in left if one not in list(right))


OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "==": equal,
    "===": lambda a, b: a == b,
    "=!=": lambda a, b: a != b,
    "<=>": lambda a, b: a.eqNullSafe(b),
    "!=": lambda a, b: not equal(a, b),
    "eq": equal,
    "ne": lambda a, b: not equal(a, b),
    "+": lambda a, b: kept(a, b, a + b),
    "-": lambda a, b: kept(a, b, a - b) if not isinstance(a, dict | set) else without(a, [b]),
    "*": lambda a, b: kept(a, b, a * b),
    "/": lambda a, b: a / b,
    "%": lambda a, b: a % b,
    ">": lambda a, b: a > b,
    "<": lambda a, b: a < b,
    ">=": lambda a, b: a >= b,
    "<=": lambda a, b: a <= b,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "<<": lambda a, b: a << b,
    ">>>": lambda a, b: a >> b,
    "->": lambda a, b: (a, b),
    "++": joined,
    "--": without,
    ":+": lambda a, b: [*a, b],
    "+:": lambda a, b: [a, *b],
    ":::": joined,
    "to": lambda a, b: list(range(a, b + 1)),
    "until": lambda a, b: list(range(a, b)),
    "by": lambda a, b: a[::b],
}


def kept(left: Any, right: Any, result: Any) -> Any:
    return Long(result) if isinstance(left, Long) or (isinstance(right, Long) and isinstance(result, int)) else result
