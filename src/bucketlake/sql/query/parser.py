"""Statements as the parser cuts them: trees whose nodes know where they stand in the text, and what the session says.

Spec: docs/spec/pushdown.md
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ErrorLevel, SqlglotError
from sqlglot.tokens import Token

from bucketlake.spark.instants import UTC
from bucketlake.spark.settings import quotes_hold, setting_of
from bucketlake.sql.text import lexemes
from bucketlake.types.model import DataField
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Settings:
    """What the session says of the meaning of a text; asked only where it matters."""

    spark: SparkSession

    def on(self, key: str) -> bool:
        """Whether a flag that is off by default is set."""
        return (setting_of(self.spark, key) or "false").lower() != "false"

    @cached_property
    def case_sensitive(self) -> bool:
        """Whether names differ by case."""
        return self.on("spark.sql.caseSensitive")

    @cached_property
    def utc(self) -> bool:
        """Whether local times of the session are UTC's."""
        zoned = (setting_of(self.spark, "spark.sql.timestampType") or "TIMESTAMP_LTZ") == "TIMESTAMP_LTZ"
        return zoned and str(self.spark.conf.get("spark.sql.session.timeZone")) in UTC

    @cached_property
    def own_functions_first(self) -> bool:
        """Whether Spark is certain to take the name of a function of its own for that, whatever the user registered."""
        return (setting_of(self.spark, "spark.sql.functionResolution.sessionOrder") or "first").lower() != "first"

    @cached_property
    def dates_beside_text(self) -> bool:
        """Whether a text beside a DATE or TIMESTAMP is read as one."""
        return not self.on("spark.sql.legacy.typeCoercion.datetimeToString.enabled")

    def reads(self, text: str) -> bool:
        """Whether the quotes of a text mean what they do by default."""
        return quotes_hold(text, self.on)


@dataclass(frozen=True, slots=True)
class Parsed:
    """A statement that the parser knows, with its tokens."""

    text: str
    tree: exp.Expr
    tokens: list[Token]


@dataclass(frozen=True)
class Source:
    """A table in a statement: the node that names it, the name that qualifies its columns, and its columns. `unproved`:
    those of which a comparison says nothing about what is stored."""

    node: exp.Table | None
    exposed: str
    fields: Sequence[DataField]
    unproved: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Statement:
    """A statement as the parser has it, and as written, OPTIONS hints and AS OF clauses blanked in both.

    `whole`: the whole statement, in which a name may stand anywhere."""

    text: str
    tree: exp.Expr
    settings: Settings
    whole: str

    def source_of(self, node: exp.Expr | None) -> str | None:
        """A literal or identifier as written."""
        if not isinstance(node, (exp.Literal, exp.Identifier, exp.RawString)) or "start" not in node.meta:
            return None
        return self.text[node.meta["start"] : node.meta["end"] + 1]


# What the parser raises for what it does not know, and where it breaks: at `map(a)`, which has no pairs.
UNREAD = (SqlglotError, RecursionError, LookupError, ValueError)
# What the parser does not know it logs as a warning, which would reach the terminal of a user whose statement is right.
_here = threading.local()
logging.getLogger("sqlglot").addFilter(lambda _: not getattr(_here, "parsing", False))


def parse(statement: str) -> Parsed | None:
    """The tree of a statement, None for what the parser does not know. It sees no quotes and escapes within strings."""
    masked = lexemes.masked(statement)
    _here.parsing = True
    try:
        tokens = Spark().tokenize(masked)
        trees = Spark().parser(error_level=ErrorLevel.IMMEDIATE).parse(tokens, masked)
    except UNREAD:
        return None
    finally:
        _here.parsing = False
    return Parsed(statement, trees[0], tokens) if len(trees) == 1 and trees[0] is not None else None


def only(node: exp.Expr, known: set[str]) -> bool:
    """Whether a node has nothing but these parts."""
    return all(key in known for key, value in node.args.items() if value)


def parts(node: exp.Expr, kind: type[exp.Expr]) -> Iterator[exp.Expr]:
    """The operands of a chain, without recursion along it, brackets around a part taken off."""
    stack = [node]
    while stack:
        top = stack.pop()
        while type(top) is exp.Paren:
            top = top.this
        if type(top) is kind:
            stack += [top.args["expression"], top.this]
        else:
            yield top


def bare(node: exp.Expr) -> exp.Expr:
    """An expression without the brackets around it."""
    while type(node) is exp.Paren:
        node = node.this
    return node
