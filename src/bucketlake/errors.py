"""The error tree, grouped by what the caller does next.

Constructors take a statement, `key=value` details and a remedy, and form the message:

    InvalidError("null in primary key", table="db.t", column="id", remedy="filter the nulls out before writing")
    -> null in primary key [table=db.t, column=id]: filter the nulls out before writing
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any

from bucketlake.redaction import printable, redact, redact_details
from bucketlake.traces import told

_SHOWN = 2000  # characters of a detail: names in damaged metadata may have any length
_LONGEST = 1 << 16  # of what is wrong and of its remedy, which may quote a statement


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """A remedy that names what is nearest to an unknown name, which may be no text; None where nothing is near."""
    spelled = {one.lower(): one for one in known}
    near = get_close_matches(str(name).lower(), spelled, 1)
    return f"did you mean '{spelled[near[0]]}'?" if near else None


def check_flags(**given: object) -> None:
    """InvalidError unless each of these arguments is True or False: "no", "false" and None would be one of them, too,
    and perhaps not the one that is meant."""
    for name, value in given.items():
        if not isinstance(value, bool):
            what = "an argument is neither True nor False"
            remedy = f"write {name}=True or {name}=False"
            raise InvalidError(what, argument=name, given=repr(value), remedy=remedy)


def check_types(kinds: type | tuple[type, ...], remedy: str, **given: object) -> None:
    """InvalidError unless each of these arguments is of one of the types: Python would tell of an attribute of ours
    that it lacks. A class is none of them: `int` has all that protocols ask of a number."""
    for name, value in given.items():
        if isinstance(value, type) or not isinstance(value, kinds):
            what = "an argument is of another type"
            raise InvalidError(what, argument=name, given=type(value).__name__, remedy=remedy)


def check_threads(threads: object) -> None:
    """InvalidError unless it is a number of threads, or None: as many as are of use."""
    if threads is not None and (isinstance(threads, bool) or not isinstance(threads, int) or threads < 1):
        raise InvalidError("not a number of threads", threads=threads, remedy="give a whole number from 1 on, or None")


def names_listed(columns: Any) -> list[str]:
    """Names that a caller lists; InvalidError for a text, which would be a list of its letters, and for no list."""
    if isinstance(columns, str) or not isinstance(columns, Iterable):
        raise InvalidError("columns must be a list of names", columns=columns, remedy=f"use [{columns!r}]")
    return list(columns)


def no_attribute(
    owner: object, name: str, elsewhere: Mapping[str, object], of_others: Mapping[str, str] | None = None
) -> AttributeError:
    """What `__getattr__` raises: Python's own error, with what to write for it: an expression among `elsewhere`
    (→ what it gives) that has an attribute of this name, or what other libraries' name for it is here (`of_others`).
    It raises the error of a property that raised an AttributeError itself."""
    try:
        object.__getattribute__(owner, name)
    except AttributeError as error:
        if name.startswith("_") or hasattr(type(owner), name):
            return error
    places = (f"{place}.{name}" for place, kind in elsewhere.items() if hasattr(kind, name))
    found = (of_others or {}).get(name) or next(places, None)
    told = f"'{type(owner).__name__}' object has no attribute '{name}'"
    return AttributeError(told if found is None else f"{told}: write {found}", name=name, obj=owner)


class BucketlakeError(Exception):
    """Root of everything that this package raises on purpose. Shows and keeps no secrets."""

    def __init__(self, what: str, *, remedy: str | None = None, **details: Any) -> None:
        self.what = what = _short(redact(what), _LONGEST)
        self.remedy = remedy = None if remedy is None else _short(redact(remedy), _LONGEST)
        self.details = redact_details(details)
        shown = ", ".join(f"{key}={_short(str(value))}" for key, value in self.details.items())
        message = printable(_message(what, redact(shown), remedy))
        super().__init__(message)
        Exception.__init__(self, message)  # `args`, which errors that are Spark's as well do not set

    def _render_traceback_(self) -> list[str]:
        """What IPython shows: where in the user's code, and the message. BUCKETLAKE_TRACE=1 shows the whole trace."""
        return told(self)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by fields: errors cross from Spark's workers to the driver."""
        return (_rebuild, (type(self), self.what, self.remedy, self.details))


def is_interrupt(error: BaseException | None, before: BaseException | None = None) -> bool:
    """Whether an error comes of Ctrl-C: before Python 3.12 one that arrives while a class is made is a RuntimeError;
    while PySpark collects it gives way to what became of the job, which was cancelled. `before`: what was being handled
    already, of which the error does not come."""
    while error is not None and error is not before and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None and error is not before


def _message(what: str, shown: str, remedy: str | None) -> str:
    """One sentence and its remedy behind a colon. Behind a full stop, or several lines, what to do begins anew."""
    lines = "\n" in what
    before = "\n" if lines else " "
    message = what + (f"{before}[{shown}]" if shown else "")
    if not remedy:
        return message
    if lines or message.endswith("."):
        return f"{message}{before * (1 + lines)}do: {remedy}"
    return f"{message}: {remedy}"


def _short(text: str, most: int = _SHOWN) -> str:
    return text if len(text) <= most else f"{text[:most]}… ({len(text)} characters)"


def _rebuild(kind: type[BucketlakeError], what: str, remedy: str | None, details: dict[str, Any]) -> BucketlakeError:
    return kind(what, remedy=remedy, **details)


class InvalidError(BucketlakeError, ValueError):
    """The call, schema, option, value or SQL is wrong: fix it."""


class UnsupportedError(BucketlakeError):
    """Valid Paimon that is not honoured here; raised before anything is written."""


class NotFoundError(BucketlakeError):
    """No such database, table, snapshot, tag or path."""


class AlreadyExistsError(BucketlakeError):
    """The name is taken."""


class CommitError(BucketlakeError):
    """A commit did not go through as asked."""


class ConflictError(CommitError):
    """Another commit changed what this one was planned on: plan again on the new base."""


class CommitUnknownError(CommitError):
    """The answer was lost and the commit may have landed: look for it before trying again."""


class StorageError(BucketlakeError):
    """The storage failed: try again."""


class NotWrittenError(StorageError):
    """The storage, or a catalog's server, failed before anything could come to a name that was to be taken, as where a
    disk is full."""


class CorruptError(BucketlakeError):
    """A file does not hold what its format says: do not retry."""


@contextmanager
def about(**details: Any) -> Iterator[None]:
    """What is raised in the block is about this, one thing of many: an error that does not say so gets the details."""
    try:
        yield
    except BucketlakeError as error:
        if not details.keys() <= error.details.keys():
            BucketlakeError.__init__(error, error.what, remedy=error.remedy, **{**details, **error.details})
        raise


@contextmanager
def already_done(what: str, remedy: str, **details: Any) -> Iterator[None]:
    """The block comes after something that is done and stays: a StorageError in it says so."""
    try:
        yield
    except StorageError as error:
        raise StorageError(what, **details, reason=str(error), remedy=remedy) from error
