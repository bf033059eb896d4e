"""A command of the command line: what it takes, what it answers, and how it runs between the two.

    class Cat(OfTable):                                   what it takes: annotated class attributes, one an option
        limit: Annotated[int, typer.Option(help=…)] = 20
    def cat(given: Cat) -> Rows: …                        what it does; its docstring is its help
    add(app, cat, panel=…, answers=columns(…))            registers it

`perform` runs it: answers are shown, errors told, and the exit status follows.
"""

from __future__ import annotations

import inspect
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer
from typer.models import ArgumentInfo

from bucketlake.cli.answer import Answer, Column, UsageError
from bucketlake.cli.output import FAILED, FORMATS, INTERRUPTED, PIPE, Console
from bucketlake.errors import BucketlakeError
from bucketlake.values import dataclass

__all__ = [
    "READING",
    "CHANGING",
    "OTHER",
    "Arguments",
    "Command",
    "WithJson",
    "WithFormat",
    "add",
    "commands",
    "perform",
]

READING, CHANGING, OTHER = "Look", "Change and maintain", "Other"
EXIT = "0 done; 1 failed or refused; 2 wrong usage"

Json = Annotated[bool, typer.Option("--json", help="One JSON document instead of text.")]
Form = Annotated[
    str | None, typer.Option("--format", help=f"How rows are written: {', '.join(FORMATS)}.", metavar="FORMAT")
]


class Arguments:
    """What a command takes. Each annotated attribute of a class below this one is an option or an argument of typer."""

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)
        self.console = Console(self._form())

    def _form(self) -> str:
        return "json" if getattr(self, "json", False) else "table"

    def check(self) -> None:
        """UsageError for what makes no sense together."""

    def kept(self) -> str:
        """What stays when the command is interrupted: told after Ctrl-C."""
        return "nothing was changed"


class WithJson(Arguments):
    """A command that programs may read."""

    json: Json = False


class WithFormat(WithJson):
    """A command whose rows are had in several formats."""

    format: Form = None

    def _form(self) -> str:
        return "json" if self.json else self.format or "table"

    def check(self) -> None:
        """UsageError for a format that rows do not have."""
        if self.format is not None and self.format not in FORMATS:
            more = "; parquet: bucketlake export" if self.format == "parquet" else ""
            raise UsageError("no such format", format=self.format, remedy=f"one of {', '.join(FORMATS)}{more}")


@dataclass(frozen=True, slots=True)
class Command:
    """A registered command. `answers`: the values of its answer; `shape`: rows, facts, stream (rows of a table)."""

    name: str
    run: Callable[[Any], Answer | None]
    takes: type[Arguments]
    panel: str
    answers: tuple[Column, ...] = ()
    shape: str = "facts"
    exits: str = EXIT


def add(
    app: typer.Typer,
    run: Callable[[Any], Answer | None],
    name: str | None = None,
    *,
    panel: str = OTHER,
    answers: tuple[str, tuple[Column, ...]] = ("facts", ()),
    exits: str = EXIT,
) -> Command:
    """Register a command: `run` takes one value of a class of Arguments, which says what the command line has."""
    hints = get_type_hints(run)
    takes = next(hint for key, hint in hints.items() if key != "return")
    named = name or run.__name__.rstrip("_").replace("_", "-")
    made = Command(named, run, takes, panel, answers[1], answers[0], exits)
    parameters = _parameters(takes)

    def called(context: typer.Context, **values: Any) -> None:
        given = takes(**{**_defaults(takes), **(context.obj or {}), **_set(values, context.obj or {})})
        raise typer.Exit(perform(made, given))

    own = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    called.__signature__ = inspect.Signature([own, *parameters])  # type: ignore[attr-defined]
    called.__annotations__ = {one.name: one.annotation for one in (own, *parameters)}
    called.__doc__ = run.__doc__
    called.__name__ = run.__name__
    called.command = made  # type: ignore[attr-defined]
    app.command(named, rich_help_panel=panel)(called)
    return made


def commands(app: typer.Typer, prefix: str = "") -> Iterator[tuple[str, Command | None, Callable[..., Any]]]:
    """All commands that an app has: full name, what was registered by `add` (None by other ways), the function."""
    for info in app.registered_commands:
        if info.callback is not None:
            name = info.name or info.callback.__name__.replace("_", "-")
            yield f"{prefix}{name}", getattr(info.callback, "command", None), info.callback
    for group in app.registered_groups:
        if group.typer_instance is not None:
            yield from commands(group.typer_instance, f"{prefix}{group.name} ")


def _set(values: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """What was said at the command itself, which goes before what was said to the left of its name."""
    return {key: value for key, value in values.items() if value is not None or key not in above}


def _defaults(takes: type[Arguments]) -> dict[str, Any]:
    return {one.name: one.default for one in _parameters(takes) if one.default is not inspect.Parameter.empty}


def _parameters(takes: type[Arguments]) -> list[inspect.Parameter]:
    """The command line of a class of arguments: arguments first, those of its bases before its own; then options, its
    own before those of its bases."""
    hints = get_type_hints(takes, include_extras=True)
    order = [name for one in takes.__mro__ for name in vars(one).get("__annotations__", {})]
    base_first = [name for one in takes.__mro__[::-1] for name in vars(one).get("__annotations__", {})]
    positional = [name for name in base_first if _is_argument(hints[name])]
    names = dict.fromkeys([*positional, *(name for name in order if name not in positional)])
    kind = inspect.Parameter.KEYWORD_ONLY
    empty = inspect.Parameter.empty
    return [
        inspect.Parameter(name, kind, annotation=hints[name], default=getattr(takes, name, empty)) for name in names
    ]


def _is_argument(hint: Any) -> bool:
    return get_origin(hint) is Annotated and any(isinstance(one, ArgumentInfo) for one in get_args(hint)[1:])


def perform(command: Command, given: Arguments) -> int:
    """Run a command and show what it answers; the exit status."""
    console = given.console
    try:
        with _warnings_told(console):
            given.check()
            return console.show(command.run(given), command.answers)
    except BrokenPipeError:
        return _nobody_reads()
    except KeyboardInterrupt:
        return _interrupted(given)
    except BucketlakeError as error:
        return _failed(console, error)
    except (typer.Exit, typer.Abort):
        raise
    except Exception as error:
        return _failed(console, error)


def _failed(console: Console, error: Exception) -> int:
    if os.environ.get("BUCKETLAKE_TRACE"):
        traceback.print_exception(error)
    return console.failure(error)


def _interrupted(given: Arguments) -> int:
    kept = "what was kept is not known"
    with suppress(Exception, KeyboardInterrupt):  # the storage does not answer, or somebody is in a hurry
        kept = given.kept()
    print(file=sys.stderr)
    given.console.warn(f"interrupted: {kept}")
    return INTERRUPTED


def _nobody_reads() -> int:
    """The reader of our output has gone, as `head` does: end without a word, as other programs do."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        return FAILED
    return PIPE


@contextmanager
def _warnings_told(console: Console) -> Iterator[None]:
    """In the block, warnings are lines of the command's own."""
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        for quiet in (DeprecationWarning, ResourceWarning, ImportWarning, PendingDeprecationWarning):
            warnings.simplefilter("ignore", quiet)
        warnings.showwarning = lambda message, *_, **__: console.warn(str(message))
        yield
