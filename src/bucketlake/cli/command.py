"""A command of the command line: what it takes, what it answers, and how it runs between the two.

    class Cat(OfTable):                                   what it takes: annotated class attributes, one an option
        limit: Annotated[int, Option(help=…)] = 20
    def cat(given: Cat) -> Rows: …                        what it does; its docstring is its help
    add(app, cat, panel=…, answers=columns(…))            registers it

`perform` runs it: answers are shown, errors told, and the exit status follows.
"""

from __future__ import annotations

import os
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Annotated, Any, get_type_hints

from bucketlake.cli import grammar
from bucketlake.cli.answer import Answer, Column, UsageError
from bucketlake.cli.ending import interrupt
from bucketlake.cli.grammar import Abort, Exit, Option, get_current_context
from bucketlake.cli.output import FAILED, FORMATS, INTERRUPTED, PIPE, Console, drop_output
from bucketlake.errors import is_interrupt
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
_VALUE = r"\[?(['\"]?)([^'\"\],; ]+)\1\]?"  # of an argument, as an error writes it
EXIT = "0 done; 1 failed or refused; 2 wrong usage"

Json = Annotated[bool, Option("--json", help="One JSON document instead of text.")]
Form = Annotated[str | None, Option("--format", help=f"How rows are written: {', '.join(FORMATS)}.", metavar="FORMAT")]


class Arguments:
    """What a command takes. Each annotated attribute of a class below this one is an option or an argument."""

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)
        self.console = Console(self._form(), spelled=self._spelled)

    def _form(self) -> str:
        return "json" if getattr(self, "json", False) else "table"

    def _spelled(self, text: str) -> str:
        """What an error says to do, with this command's options in place of the arguments of Python they stand for."""
        said = {name: grammar.said_of(hint) for name, hint in _hints(type(self)).items()}
        names = {name: one.names[0] for name, one in said.items() if isinstance(one, Option) and "_" in name}
        for name, option in names.items():
            text = re.sub(rf"(?<![\w.]){name}={_VALUE}", rf"{option} \2", text)
            text = re.sub(rf"(?<![\w.]){name}(?![\w(=])", option, text)
        return text

    def check(self) -> None:
        """UsageError for what makes no sense together."""

    def begin(self, left: str) -> None:
        """From here on something changes; `left`: what an interrupt may leave, and what to do then."""
        self.__dict__["_left"] = left

    def next_step(self, error: BaseException) -> str | None:
        """What to do about an error that names no remedy itself."""
        return None

    def kept(self) -> str:
        """What stays when the command is interrupted: told after Ctrl-C."""
        return str(self.__dict__.get("_left", "nothing was changed"))


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
    app: grammar.Group,
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
    defaults = _defaults(takes)

    def called(**values: Any) -> None:
        above = get_current_context().obj or {}
        given = {key: _taken(value, defaults.get(key)) for key, value in values.items()}
        raise Exit(perform(made, takes(**{**defaults, **above, **_set(given, above)})))

    called.__doc__ = run.__doc__
    app.add_command(grammar.Command(named, called, _parameters(takes), panel, made))
    return made


def commands(group: grammar.Group, prefix: str = "") -> Iterator[tuple[str, Command, grammar.Command]]:
    """All commands that a group has: full name, what was registered by `add`, the command itself."""
    for name, one in group.commands.items():
        if isinstance(one, grammar.Group):
            yield from commands(one, f"{prefix}{name} ")
        elif isinstance(one, grammar.Command):
            yield f"{prefix}{name}", one.made, one


def _taken(value: Any, default: Any) -> Any:
    """A value as commands have it: many are a list, and none said is what holds otherwise."""
    return (list(value) or default) if isinstance(value, tuple) else value


def _set(values: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """What was said at the command itself, which goes before what was said to the left of its name."""
    return {key: value for key, value in values.items() if value is not None or key not in above}


def _defaults(takes: type[Arguments]) -> dict[str, Any]:
    return {name: getattr(takes, name) for name in _names(takes) if hasattr(takes, name)}


def _names(takes: type[Arguments]) -> Iterable[str]:
    """The attributes that a class of arguments annotates: arguments first, those of its bases before its own; then
    options, its own before those of its bases."""
    orders = [[name for one in chain for name in _own_hints(one)] for chain in (takes.__mro__[::-1], takes.__mro__)]
    hints = _hints(takes)
    positional = [name for name in orders[0] if isinstance(grammar.said_of(hints[name]), grammar.Argument)]
    return dict.fromkeys([*positional, *(name for name in orders[1] if name not in positional)])


def _hints(takes: type[Arguments]) -> dict[str, Any]:
    return get_type_hints(takes, include_extras=True)


def _own_hints(one: type) -> Mapping[str, Any]:
    found: Mapping[str, Any] = vars(one).get("__annotations__", {})
    return found


def _parameters(takes: type[Arguments]) -> list[Any]:
    """What the command line of a class of arguments has, in the order of its names."""
    hints, defaults = _hints(takes), _defaults(takes)
    return [grammar.parameter(name, hints[name], defaults.get(name, grammar.REQUIRED)) for name in _names(takes)]


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
    except SystemExit as end:  # a signal
        return _interrupted(given, _status(end))
    except (Exit, Abort):
        raise
    except Exception as error:
        ended = interrupt()
        if isinstance(ended, SystemExit):  # it came of the signal, whatever it is
            return _interrupted(given, _status(ended))
        return _interrupted(given) if is_interrupt(error) else _failed(given, error)


def _status(end: SystemExit) -> int:
    return end.code if isinstance(end.code, int) else FAILED


def _failed(given: Arguments, error: Exception) -> int:
    if os.environ.get("BUCKETLAKE_TRACE"):
        traceback.print_exception(error)
    return given.console.failure(error, given.next_step(error))


def _interrupted(given: Arguments, status: int = INTERRUPTED) -> int:
    kept = "what was kept is not known"
    with suppress(Exception, KeyboardInterrupt):  # the storage does not answer, or somebody is in a hurry
        kept = given.kept()
    print(file=sys.stderr)
    given.console.warn(f"interrupted: {kept}")
    return status


def _nobody_reads() -> int:
    """The reader of our output has gone, as `head` does: end without a word, as other programs do."""
    drop_output()
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
