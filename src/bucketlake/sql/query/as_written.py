"""What Spark makes of a query as it was written, where that tells more than the text with tables bound: its grammar
has words that are aliases, or columns, only where they can begin no clause."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException, ParseException, PySparkException

from bucketlake.spark.settings import is_case_sensitive
from bucketlake.sql.query.retold import remember
from bucketlake.sql.query.travel import FOLLOWS
from bucketlake.sql.query.tree import named_tables
from bucketlake.sql.text.cursor import option_hints
from bucketlake.sql.text.tokens import blank, explain_length, splice, tokenize

if TYPE_CHECKING:
    from bucketlake.spark.session import Lake

_OPERATORS = ("LIKE", "ILIKE", "RLIKE", "REGEXP", "AND", "OR", "DIV", "NOT")  # of which the right side is missing


def refuse_operators(lake: Lake, statement: str) -> None:
    """Raise what Spark says of a SELECT in which FROM is an operator's right side, and no clause: in
    `SELECT a LIKE FROM t` the column is called `t`."""
    tokens = tokenize(statement)
    if any(after.is_word("FROM") and before.value.upper() in _OPERATORS for before, after in pairwise(tokens)):
        _refuse(lake, statement, "UNRESOLVED_COLUMN.WITHOUT_SUGGESTION")  # where it is a clause, `t` is what is missing


def meant(lake: Lake, statement: str) -> str | None:
    """What a query of which Spark cannot read the text with tables bound says, if it can be read as it was written.
    Raised is what Spark says of a SELECT then: in `SELECT FROM t` FROM is a column, and `t` its name."""
    _refuse(lake, statement, "UNRESOLVED_COLUMN", "TRAILING_COMMA")
    return _with_aliases(lake, statement)


def syntax_error(lake: Lake, statement: str) -> ParseException | None:
    """What Spark's grammar says against a statement as it was written, of which Spark has read parts by themselves;
    None where it has the statement."""
    hints = [(hint.start, hint.end) for hint in option_hints(statement, tokenize(statement))]
    return _unread(lake, blank(statement, hints))


def _refuse(lake: Lake, statement: str, *conditions: str) -> None:
    if statement.lstrip()[:7].upper().split() != ["SELECT"]:
        return
    try:
        lake.spark.sql(statement)
    except AnalysisException as error:
        if str(error.getCondition()).startswith(conditions):
            raise


def _with_aliases(lake: Lake, statement: str) -> str | None:
    """The query with AS before the words behind its tables that are aliases to Spark though they may begin a clause:
    `FROM t limit WHERE a = 1`. None if there are none."""
    hints = [(hint.start, hint.end) for hint in option_hints(statement, tokenize(statement))]
    plain = blank(statement, hints)
    tokens = tokenize(plain)
    places = {token.start: at for at, token in enumerate(tokens)}
    starts = []
    for named in named_tables(plain, None, is_case_sensitive(lake.spark)):
        word = next((token for token in tokens if token.start >= named.end), None)
        if not named.table or named.node is not None or word is None or word.value.upper() not in FOLLOWS:
            continue
        behind = tokens[places[word.start] + 1 :][:1]
        if word.kind == "word" and behind and behind[0].value != "(":  # WHERE (a): an alias with its columns' names
            starts.append(word.start)
    found = [start for start in starts if _is_read(lake, splice(plain, [(start, start, "AS ")]))]
    return splice(statement, [(start, start, "AS ") for start in found]) if found else None


def _is_read(lake: Lake, statement: str) -> bool:
    """Whether Spark's grammar has the statement."""
    return _unread(lake, statement) is None


def _unread(lake: Lake, statement: str) -> ParseException | None:
    """Why it has not. EXPLAIN has no effects, whatever it says of the rest."""
    text = statement if explain_length(tokenize(statement)) else "EXPLAIN " + statement
    try:
        lake.spark.sql(text)
    except ParseException as error:
        remember(error, text, False)
        return error
    except PySparkException:
        return None
    return None
