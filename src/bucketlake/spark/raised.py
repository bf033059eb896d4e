"""What Spark raises while a call of ours runs, as an error of ours that is Spark's as well, with its condition.

with interrupts_stay(): …     Ctrl-C is raised as such, and a job that was cancelled by its condition
with told_as_ours(): …        the same, and errors of a call's own expressions and rows
made(error)                   one of them as ours, without its place
of_task(error)                what our own code raised in a task
brief                         errors of ours without the frames that they passed
brief_in_batch()              the same of what a micro-batch raises
of_query(error)               what ended a streaming query
told_by(query)                a query that raises and returns that
in_one_process(given, …)      why a handle is not pickled
what(error)                   its message, without plans, traces and texts of ours
"""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from pyspark.errors import (
    AnalysisException,
    ArithmeticException,
    ArrayIndexOutOfBoundsException,
    DateTimeException,
    NumberFormatException,
    ParseException,
    PySparkException,
    PythonException,
    SparkRuntimeException,
    StreamingQueryException,
    UnsupportedOperationException,
)

from bucketlake import errors
from bucketlake.errors import (
    AlreadyExistsError,
    BucketlakeError,
    CorruptError,
    InvalidError,
    NotFoundError,
    StorageError,
    UnsupportedError,
    is_interrupt,
)
from bucketlake.spark import faults

P = ParamSpec("P")
R = TypeVar("R")
FILE_CHANGED = "a data file changed while it was read, or is not what its metadata says: read again"
_IN_TASK = re.compile(r"^bucketlake\.errors\.(\w+): (.*?)$(?=\n*\Z|\n\s*\n|\n\tat |\n\w)", re.MULTILINE | re.DOTALL)
# Of a query's error: what Python raised in its batch, and what Spark's own message begins with.
_IN_BATCH = re.compile(r"^([\w.]*?)(\w+): (.*?)(?=\n? SQLSTATE: |\n=== |\n\tat |\Z)", re.MULTILINE | re.DOTALL)
_STACK = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n)+")
_OF_QUERY = re.compile(r".*?terminated with exception: (.*?)(?= SQLSTATE: |\n=== |\n\tat |\Z)", re.DOTALL)
# What the JVM raised in a batch: how the bridge's error begins, its causes by class and message, what tells of a stop.
_CALL = re.compile(r"\w+\.protocol\.Py4JJavaError: An error occurred while calling")
_CAUSE = re.compile(r"^(?:: |Caused by: )([\w.$]+(?:Exception|Error)\b.*)$", re.MULTILINE)
_INTERRUPT = re.compile(
    r"java\.lang\.InterruptedException|java\.io\.InterruptedIOException|java\.nio\.channels\.ClosedByInterruptException"
)
_NO_FORMAT = "DATA_SOURCE_NOT_FOUND"
_LET_THROUGH = re.compile(
    r"\[(SPARK_JOB_CANCELLED|(?:SCALAR|ROW)_SUBQUERY_TOO_MANY_ROWS|DATA_SOURCE_NOT_FOUND)\] (.*?)"
    r"(?: SQLSTATE: (\w{5}))?$",
    re.MULTILINE,
)
_NO_FILE_SYSTEM = re.compile(
    r'UnsupportedFileSystemException: No FileSystem for scheme "([^"]*)"'
    r"|ClassNotFoundException: Class (org\.apache\.hadoop\.fs\.\S+) not found"
)
_NAMED = re.compile(r"\[([A-Z][A-Z0-9_.]+)\] ")
_STATES = {  # of what our own messages say in Spark's words
    "TABLE_OR_VIEW_NOT_FOUND": "42P01",
    "TABLE_OR_VIEW_ALREADY_EXISTS": "42P07",
    "SCHEMA_NOT_FOUND": "42704",
    "SCHEMA_ALREADY_EXISTS": "42P06",
    "PARTITIONS_NOT_FOUND": "428FT",
    "PARTITIONS_ALREADY_EXIST": "428FT",
    "CAST_INVALID_INPUT": "22018",
    "CAST_OVERFLOW_IN_TABLE_INSERT": "22003",
    "EXCEED_LIMIT_LENGTH": "54006",
    "MERGE_CARDINALITY_VIOLATION": "23K01",
    "NOT_NULL_ASSERT_VIOLATION": "42000",
    "COLUMN_ALREADY_EXISTS": "42711",
    "FIELD_ALREADY_EXISTS": "42710",
    "INCOMPATIBLE_DATA_FOR_TABLE": "KD000",
    "EXPECT_TABLE_NOT_VIEW": "42809",
    "VIEW_WRITE_NOT_ALLOWED": "42809",
    "INSERT_COLUMN_ARITY_MISMATCH": "21S01",
    "NON_PARTITION_COLUMN": "42000",
    "UNRESOLVED_COLUMN": "42703",
    "UNRESOLVED_VARIABLE": "42883",
    "VARIABLE_ALREADY_EXISTS": "42723",
    "DATATYPE_MISMATCH": "42K09",
    "DUPLICATE_KEY": "23505",
    "FIELD_NOT_FOUND": "42704",
    "INVALID_EXTRACT_BASE_FIELD_TYPE": "42000",
    "MERGE_INSERT_VALUE_COUNT_MISMATCH": "21S01",
    "NON_LAST_MATCHED_CLAUSE_OMIT_CONDITION": "42613",
    "NON_LAST_NOT_MATCHED_BY_TARGET_CLAUSE_OMIT_CONDITION": "42613",
    "NON_LAST_NOT_MATCHED_BY_SOURCE_CLAUSE_OMIT_CONDITION": "42613",
    "UNBOUND_SQL_PARAMETER": "42P02",
    "UNSUPPORTED_EXPR_FOR_OPERATOR": "42K0E",
    "UNSUPPORTED_EXPR_FOR_PARAMETER": "42K0E",
    "UNSUPPORTED_GENERATOR": "42K0E",
}
_RAISED = re.compile(r"\[USER_RAISED_EXCEPTION\] (.*?)(?: SQLSTATE: \w{5})?\Z", re.DOTALL)
_UNFIT = re.compile(r"\[(\w+)\] value does not fit its column \[")  # what `spark.types.stored` raises


def condition_of(error: BaseException) -> tuple[str | None, str | None]:
    """Spark's name for an error, and its SQLSTATE: of ours those that the message begins with."""
    if isinstance(error, PySparkException) and not isinstance(error, BucketlakeError):
        return error.getCondition(), error.getSqlState()
    found = _NAMED.match(str(error.args[0])) if error.args else None
    own = (getattr(error, "_condition", None), getattr(error, "_state", None))
    return own if found is None or own[0] else (found[1], own[1] or _STATES.get(_main(found[1])))


def _main(condition: str) -> str:
    """A condition without its part, as `UNRESOLVED_COLUMN.WITH_SUGGESTION` has one."""
    return condition.partition(".")[0]


class ToldError(BucketlakeError):
    """An error of ours that is one of Spark's as well: it says what ours does."""

    _condition: str | None = None
    _state: str | None = None

    def __str__(self) -> str:
        return str(self.args[0])

    def getMessage(self) -> str:
        """The message."""
        return str(self.args[0])

    def getCondition(self) -> str | None:
        """Spark's name for the error."""
        return self._condition or condition_of(self)[0]

    def getSqlState(self) -> str | None:
        """SQLSTATE."""
        return self._state or condition_of(self)[1]

    def getMessageParameters(self) -> dict[str, str]:
        """None are kept: they may name what the user did not write."""
        return {}

    def getQueryContext(self) -> list[Any]:
        """None is kept: it is of another text."""
        return []


class JobCancelledError(ToldError, PySparkException):  # type: ignore[misc]
    """A job of the call was cancelled (`cancelJobGroup`, `interruptTag`, Spark's page), under Spark's condition."""


class RaisedError(ToldError, InvalidError):
    """What Spark cannot do with the caller's text or rows. `place`: where in the text, from 0; None where unknown."""

    place: int | None = None
    length: int = 0

    def point(self, text: str, start: int) -> None:
        """Let the message show the place in `text`, where the statement starts at `start`, and the remedy; `details`
        have its line and column."""
        if self.place is None and self.details:
            return  # the message says them
        where = []
        if self.place is not None:
            at = start + self.place
            where = [faults.pointed(text, at, self.length)]
            line, column = faults.line_and_column(text, at)
            self.details = {**self.details, "line": line, "column": column}
        self.args = ("\n\n".join([self.what, *where, *([f"do: {self.remedy}"] if self.remedy else [])]),)


class StatementError(RaisedError, AnalysisException):  # type: ignore[misc]
    """A statement that Spark cannot make sense of."""


class StatementSyntaxError(StatementError, ParseException):  # type: ignore[misc]
    """A statement that Spark cannot read."""


class MissingNameError(ToldError, NotFoundError, AnalysisException):  # type: ignore[misc]
    """A name that a statement or call needs is not there: Spark's own error to those who look for that."""


class TakenNameError(ToldError, AlreadyExistsError, AnalysisException):  # type: ignore[misc]
    """A name that a statement or call gives is taken: Spark's own error to those who look for that."""


_OF_NAMES: dict[type, type[BucketlakeError]] = {NotFoundError: MissingNameError, AlreadyExistsError: TakenNameError}
_ROWS = (
    NumberFormatException,
    ArithmeticException,
    ArrayIndexOutOfBoundsException,
    DateTimeException,
    SparkRuntimeException,
    UnsupportedOperationException,
)
# Spark's class for what a row made it raise, or for what it knows and does not do -> ours, which is both.
_OF_ROWS = {base: type(base.__name__, (RaisedError, base), {"__doc__": base.__doc__}) for base in _ROWS}
_OURS_FOR: dict[type, type[RaisedError]] = {
    **_OF_ROWS,
    AnalysisException: StatementError,
    ParseException: StatementSyntaxError,
}
# A condition that messages of ours about rows, or what gives them, begin with -> the class that Spark raises for it.
_OF_CONDITION = {
    "CAST_INVALID_INPUT": SparkRuntimeException,
    "CAST_OVERFLOW_IN_TABLE_INSERT": ArithmeticException,
    "EXCEED_LIMIT_LENGTH": SparkRuntimeException,
    "MERGE_CARDINALITY_VIOLATION": SparkRuntimeException,
    "NOT_NULL_ASSERT_VIOLATION": SparkRuntimeException,
    "COLUMN_ALREADY_EXISTS": AnalysisException,
    "INCOMPATIBLE_DATA_FOR_TABLE": AnalysisException,
    "INSERT_COLUMN_ARITY_MISMATCH": AnalysisException,
    "NON_PARTITION_COLUMN": AnalysisException,
    "EXPECT_TABLE_NOT_VIEW": AnalysisException,
    "VIEW_WRITE_NOT_ALLOWED": AnalysisException,
    "UNRESOLVED_COLUMN": AnalysisException,
    "UNRESOLVED_VARIABLE": AnalysisException,
    "DATATYPE_MISMATCH": AnalysisException,
    "DUPLICATE_KEY": ParseException,
    "FIELD_NOT_FOUND": AnalysisException,
    "INVALID_EXTRACT_BASE_FIELD_TYPE": AnalysisException,
    "MERGE_INSERT_VALUE_COUNT_MISMATCH": ParseException,
    "NON_LAST_MATCHED_CLAUSE_OMIT_CONDITION": ParseException,
    "NON_LAST_NOT_MATCHED_BY_TARGET_CLAUSE_OMIT_CONDITION": ParseException,
    "NON_LAST_NOT_MATCHED_BY_SOURCE_CLAUSE_OMIT_CONDITION": ParseException,
    "UNBOUND_SQL_PARAMETER": AnalysisException,
    "UNSUPPORTED_EXPR_FOR_OPERATOR": AnalysisException,
    "UNSUPPORTED_EXPR_FOR_PARAMETER": AnalysisException,
    "UNSUPPORTED_GENERATOR": AnalysisException,
}
_ENDED: dict[type[BucketlakeError], type[BucketlakeError]] = {}  # by the kind of what ended a query
# The name of an error of ours -> one that is also what Spark raises for it where a task did.
_OURS = {
    kind.__name__: type(kind.__name__, (ToldError, kind, PythonException), {"__doc__": kind.__doc__})
    for kind in (InvalidError, UnsupportedError, NotFoundError, CorruptError, StorageError)
}


def made(error: PySparkException) -> RaisedError | None:
    """The error as ours, without a place; None for one that is ours already, or about neither text nor rows."""
    kind = _kind(error)
    if kind is None:
        return None
    told = what(error).what
    unfit = _UNFIT.match(told) if error.getCondition() == "USER_RAISED_EXCEPTION" else None
    if unfit is not None:
        return _of_condition(unfit[1], told)
    found: RaisedError = kind(told)
    if found.what.startswith("Queries with streaming sources"):
        found.remedy = "write_stream() writes a stream"
    found._condition, found._state = error.getCondition(), error.getSqlState()
    return found


def of_task(error: PySparkException) -> BucketlakeError | None:
    """What our own code raised in a task, as it was raised there, without traces; None for other errors."""
    found = _IN_TASK.findall(str(error)) if isinstance(error, PythonException) else []
    kind = _OURS.get(found[-1][0]) if found else None
    if kind is None:
        return None
    text = found[-1][1].strip()
    named = _NAMED.match(text)
    return _of_condition(named[1], text) if named is not None and _main(named[1]) in _OF_CONDITION else kind(text)


def as_sparks(error: BucketlakeError) -> BucketlakeError:
    """An error about rows or names whose message begins with a condition of Spark's, as one that is Spark's as well,
    wherever it was found; others as they are."""
    named = _NAMED.match(error.what)
    if named is None or isinstance(error, PySparkException):
        return error
    if isinstance(error, InvalidError) and _main(named[1]) in _OF_CONDITION:
        return _of_condition(named[1], error.what, remedy=error.remedy, **error.details)
    kind = _OF_NAMES.get(type(error))
    return error if kind is None else kind(error.what, remedy=error.remedy, **error.details)


def _of_condition(condition: str, told: str, **given: Any) -> RaisedError:
    found: RaisedError = _OURS_FOR[_OF_CONDITION[_main(condition)]](told, **given)
    found._condition, found._state = condition, _STATES[_main(condition)]
    return found


def of_query(error: Exception) -> BucketlakeError | None:
    """What ended a streaming query, as ours and Spark's: an error of ours as its batch or source raised it, else what
    is told, without traces and plans. None for other errors."""
    if not isinstance(error, StreamingQueryException) or isinstance(error, BucketlakeError):
        return None
    text = str(error)
    stack = [found.end() for found in _STACK.finditer(text)]
    raised = _IN_BATCH.match(text, stack[-1]) if stack else None
    if raised is None:
        found = _OF_QUERY.match(text)
        return _ended(error, BucketlakeError, "the query has ended", reason=(found[1] if found else text).strip())
    kind = _kind_named(raised[1], raised[2])
    if kind is None:
        return _ended(error, BucketlakeError, "the query has ended", reason=f"{raised[2]}: {raised[3].strip()}")
    told, sign, remedy = raised[3].strip().rpartition("]: ")
    return _ended(error, kind, f"{told}]", remedy=remedy) if sign else _ended(error, kind, remedy)


def _kind_named(module: str, name: str) -> type[BucketlakeError] | None:
    """The kind of an error of ours whose class a trace names; None for other classes."""
    if not module.startswith("bucketlake."):
        return None
    kinds = (*vars(errors).values(), *_OURS_FOR.values(), *_OF_NAMES.values())
    ours = (kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BucketlakeError))
    found = next((kind for kind in ours if kind.__name__ == name), BucketlakeError)
    return next(kind for kind in found.__mro__ if kind.__module__ == errors.__name__)


def _ended(error: StreamingQueryException, kind: type[BucketlakeError], told: str, **given: Any) -> BucketlakeError:
    made_of: type[BucketlakeError] = _ENDED.setdefault(
        kind, type(kind.__name__, (ToldError, kind, StreamingQueryException), {"__doc__": kind.__doc__})
    )
    found = made_of(told, **given)
    found._condition, found._state = error.getCondition(), error.getSqlState()  # type: ignore[attr-defined]
    return found


def told_by(query: Any) -> Any:
    """The streaming query, which tells its end as `of_query`: Spark's own error is frames of ours and Spark's plan, and
    what went wrong somewhere among them."""
    wait, failed = query.awaitTermination, query.exception

    def await_termination(timeout: int | None = None) -> bool | None:
        """Wait until the query ends, at most so many seconds; raise what ended it."""
        try:
            ended: bool | None = wait(timeout)
            return ended
        except StreamingQueryException as error:
            raise of_query(error) or error from None

    def exception() -> Exception | None:
        """What ended the query; None while it runs, and where nothing failed."""
        error: Exception | None = failed()
        return None if error is None else of_query(error) or error

    query.awaitTermination, query.exception = await_termination, exception
    return query


def in_one_process(given: str, instead: str) -> UnsupportedError:
    """What a handle with a Spark session says to being pickled, as for a function that tasks are to run."""
    remedy = f"give other processes and tasks {instead}, which reads and writes without Spark"
    return UnsupportedError("it holds a Spark session, which stays in its process", given=given, remedy=remedy)


def what(error: PySparkException) -> faults.Told:
    """What the message says: no plan, no trace of the JVM; what an expression raised on purpose as it was raised."""
    told = faults.read_message(str(getattr(error, "_desc", None) or getattr(error, "_message", None) or error))
    raised = _RAISED.match(told.what)
    return told if raised is None else replace(told, what=raised[1])


class _Brief:
    """Within it, and in methods that it decorates, errors for users come without the frames that they passed: Spark
    puts them into its message."""

    def __call__(self, method: Callable[P, R]) -> Callable[P, R]:
        """The method, brief."""

        @wraps(method)
        def called(*args: P.args, **named: P.kwargs) -> R:
            try:
                return method(*args, **named)
            except JobCancelledError:
                raise
            except BucketlakeError as error:
                raise error.with_traceback(None) from None

        return called

    def __enter__(self) -> None:
        """Nothing to do."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """The error once more, from here."""
        if isinstance(error, BucketlakeError):
            raise error.with_traceback(None) from None


brief = _Brief()


@contextmanager
def brief_in_batch() -> Iterator[None]:
    """What a micro-batch raises, brief: ours without frames, and of what Spark's JVM raises what it says.

    Spark tells by the text whether a query that is being stopped failed, or was interrupted or its job cancelled. It
    looks through all that follows `_CALL` by an expression that overflows the stack where that is long, as the frames
    of the JVM are."""
    try:
        with brief:
            yield
    except Exception as error:
        text = "".join(traceback.format_exception(error))
        call, interrupt = _CALL.search(text), _INTERRUPT.search(text)
        if call is not None and interrupt is not None:
            raise BucketlakeError(f"the query was stopped ({call[0]}: {interrupt[0]})") from None
        if isinstance(error, JobCancelledError):
            raise JobCancelledError(f"org.apache.spark.SparkException: {error.what}") from None
        found = None
        if isinstance(error, PySparkException) and not isinstance(error, BucketlakeError):
            found = of_task(error) or made(error)
        if found is None and call is not None and _CALL.search("".join(traceback.format_exception_only(error))) is None:
            raise error from None  # somebody's own, about one of the JVM's
        if found is None and call is not None:
            causes = _CAUSE.findall(text)
            deepest = next((cause for cause in causes if "cancelled" in cause), causes[-1] if causes else str(error))
            found = BucketlakeError("Spark failed in the batch", reason=deepest[:300])
        if found is None:
            raise
        raise found from None


@contextmanager
def interrupts_stay() -> Iterator[None]:
    """Ctrl-C as KeyboardInterrupt: while PySpark collects, the error of the job that it cancelled takes its place.
    A job that was cancelled otherwise as JobCancelledError, a subquery of one row that has several as RaisedError, a
    place that Spark has no connector for as UnsupportedError."""
    before = sys.exc_info()[1]
    try:
        yield
    except Exception as error:
        if is_interrupt(error, before):
            raise KeyboardInterrupt from error
        known = isinstance(error, PySparkException) and error.getCondition() != _NO_FORMAT  # by Connect another one
        told = None if known else _LET_THROUGH.search(str(error))
        if told is None:
            _refuse_unconnected(error)
            raise
        # PySpark knows no class for it, and lets Py4J's through.
        is_cancelled = told[1] == "SPARK_JOB_CANCELLED"
        found = JobCancelledError(told[2]) if is_cancelled else RaisedError(told[0])
        found._condition, found._state = told[1], told[3]
        if isinstance(found, RaisedError) and told[1] == _NO_FORMAT:
            found.remedy = "USING paimon, for a name of the lake, or a format that this Spark session has"
            found.point("", 0)
        raise found from (error if is_cancelled else None)  # which shows names that the user did not write


def _refuse_unconnected(error: Exception) -> None:
    """UnsupportedError where Spark itself was to read or write at a place that it has no file system for."""
    found = _NO_FILE_SYSTEM.search(str(error))
    if found is not None:
        raise UnsupportedError(
            "Spark reads and writes at this place by itself, and has no connector for it",
            **({"scheme": found[1]} if found[2] is None else {"connector": found[2]}),
            remedy="give the session the connector (for s3a hadoop-aws), or a path of another kind; the lake's own "
            "tables need none",
        ) from None


@contextmanager
def told_as_ours(remedy: str | None = None) -> Iterator[None]:
    """Errors of Spark's about the expressions or rows of a call as ours; `remedy`: of an expression not understood."""
    try:
        with interrupts_stay():
            yield
    except PySparkException as error:
        own = of_task(error)
        if own is not None:
            raise own from None  # Spark's shows traces of ours
        found = made(error)
        if found is None:
            raise
        if isinstance(found, StatementError):
            found.remedy = remedy or found.remedy
        found.point("", 0)
        raise found from None  # Spark's own shows plans that the user did not write
    except BucketlakeError as error:
        told = as_sparks(error)
        if told is error:
            raise
        raise told.with_traceback(error.__traceback__) from None


def _kind(error: PySparkException) -> type[RaisedError] | None:
    if isinstance(error, BucketlakeError) or FILE_CHANGED in str(error):
        return None
    if isinstance(error, AnalysisException):
        return StatementSyntaxError if isinstance(error, ParseException) else StatementError
    return next((kind for base, kind in _OF_ROWS.items() if isinstance(error, base)), None)
