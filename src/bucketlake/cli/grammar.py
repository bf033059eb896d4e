"""What a command line is made of, on click: annotations of a class become options and arguments, classes commands.

    limit: Annotated[int | None, Option("--limit", "-n", min=0, help="…")] = None
    table: Annotated[str, Argument(metavar="TABLE", help="…", completed=names)]
    Group(name, help).add(Command(…))

Types: str, int, bool (a flag) and `list[str]` (an option again and again, an argument of many), each `| None`. What has
no default is required. Help lists commands by their panel and arguments with what they mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin

import click
from click import Abort, ClickException, Context, get_current_context
from click.exceptions import Exit, NoArgsIsHelpError

from bucketlake.cli import slips
from bucketlake.lazy import lazy
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from click import shell_completion
else:
    shell_completion = lazy("click.shell_completion")

__all__ = [
    "Abort",
    "Argument",
    "ClickException",
    "Command",
    "Context",
    "Exit",
    "Group",
    "NoArgsIsHelpError",
    "Option",
    "REQUIRED",
    "get_current_context",
    "parameter",
    "said_of",
]

HELP: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
REQUIRED: Any = object()
# What other tools call a command → what it is called here.
_OF_OTHERS = {
    **dict.fromkeys(("show", "ls", "list"), "tables"),
    **dict.fromkeys(("history", "log", "versions"), "snapshots"),
    **dict.fromkeys(("query", "shell", "exec", "run", "delete", "update", "merge", "alter"), "sql"),
    **dict.fromkeys(("read", "head", "select", "scan"), "cat"),
    **dict.fromkeys(("info", "schema", "desc", "inspect"), "describe"),
    **dict.fromkeys(("load", "insert", "write", "ingest", "append", "upsert"), "import"),
    **dict.fromkeys(("vacuum", "clean", "gc"), "expire"),
    **dict.fromkeys(("restore", "revert", "undo"), "rollback"),
    **dict.fromkeys(("health", "doctor", "diagnose", "tune", "stats"), "advise"),
    **dict.fromkeys(("page", "serve", "web", "server"), "ui"),
    **{"optimize": "compact", "maintain": "watch", "check": "fsck", "repair": "fsck", "zorder": "cluster"},
    "explain": "plan",
}


class Option:
    """An option: its names (made of the attribute's where there are none), what it means, the least and the most."""

    def __init__(
        self, *names: str, help: str, metavar: str | None = None, min: int | None = None, max: int | None = None
    ) -> None:
        self.names, self.help, self.metavar, self.min, self.max = names, help, metavar, min, max


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument: how usage writes it, what it means, and what the shell offers for its beginning."""

    metavar: str
    help: str
    completed: Callable[[Context, str], list[str]] | None = None


def said_of(hint: Any) -> Option | Argument | None:
    """What an annotation says of the command line."""
    if get_origin(hint) is not Annotated:
        return None
    return next((one for one in get_args(hint)[1:] if isinstance(one, (Option, Argument))), None)


def parameter(name: str, hint: Any, default: Any = REQUIRED) -> click.Parameter:
    """The parameter of an annotated attribute. TypeError for a type that a command line does not have."""
    said, kind = said_of(hint), _plain(get_args(hint)[0] if get_origin(hint) is Annotated else hint)
    many = get_origin(kind) is list
    if said is None or (kind not in (str, int, bool) and kind != list[str]):
        raise TypeError(f"{name}: {hint}")
    how: dict[str, Any] = {"required": True} if default is REQUIRED else {"default": default, "required": False}
    if isinstance(said, Argument):
        if many:
            del how["default" if "default" in how else "required"]
            how["required"] = default is REQUIRED
        return _Positional([name], said, nargs=-1 if many else 1, type=str, **how)
    names = [name, *(said.names or (f"--{name.replace('_', '-')}",))]
    if kind is bool:
        return click.Option(names, is_flag=True, help=said.help, **how)
    ranged = kind is int and (said.min is not None or said.max is not None)
    taken = _Number(said.min, said.max) if ranged else int if kind is int else str
    shown = isinstance(default, (str, int)) and default != ""
    told = f"{said.help} May be given more than once." if many else said.help
    return click.Option(names, type=taken, multiple=many, metavar=said.metavar, help=told, show_default=shown, **how)


def _plain(hint: Any) -> Any:
    """The type without `| None`."""
    if get_origin(hint) in (Union, UnionType):
        return next(one for one in get_args(hint) if one is not type(None))
    return hint


class _Number(click.IntRange):
    """A whole number from the least to the most."""

    name = "integer"


class _Positional(click.Argument):
    """An argument that help explains."""

    def __init__(self, names: Sequence[str], said: Argument, **how: Any) -> None:
        completed = said.completed
        if completed is not None:
            how["shell_complete"] = lambda context, _, begun: [
                shell_completion.CompletionItem(one) for one in completed(context, begun)
            ]
        super().__init__(names, metavar=said.metavar, **how)
        self.about = said.help

    def make_metavar(self, *_: Any) -> str:
        """As it was said, brackets and dots too."""
        return self.metavar or self.human_readable_name


def _explained(command: click.Command, context: Context, formatter: click.HelpFormatter) -> None:
    """Arguments, then options, each with what it means."""
    both = command.get_params(context)
    arguments = [(one.make_metavar(), one.about) for one in both if isinstance(one, _Positional)]
    records = [one.get_help_record(context) for one in both if not isinstance(one, click.Argument)]
    for title, rows in (("Arguments", arguments), ("Options", [one for one in records if one is not None])):
        if rows:
            with formatter.section(title):
                formatter.write_dl(rows)


@contextmanager
def _told(context: Context, words: Sequence[str]) -> Iterator[None]:
    """In the block, what is wrong with a call names the command, and what may be meant."""
    try:
        yield
    except click.NoSuchOption as error:
        raise click.UsageError(slips.option_told(context, error, words), context) from error
    except click.MissingParameter as error:
        missing, context = error.param, error.ctx or context
        if isinstance(missing, _Positional):
            raise click.UsageError(f"Missing argument {missing.make_metavar()!r}: {missing.about}", context) from error
        if isinstance(missing, click.Option) and missing.help:
            text = f"Missing option '{missing.opts[0]} {missing.make_metavar(context)}': {missing.help}"
            raise click.UsageError(text, context) from error
        error.ctx = context
        raise
    except click.UsageError as error:
        error.ctx = error.ctx or context
        raise


_WHOLE = 500  # letters: a sentence is wrapped, not cut


class Command(click.Command):
    """A command: `run` gets the values by name. `made`: what it was registered as, of no concern here."""

    def __init__(
        self, name: str, run: Callable[..., Any], parameters: Sequence[click.Parameter], panel: str, made: Any = None
    ) -> None:
        super().__init__(name, callback=run, params=list(parameters), help=run.__doc__, context_settings=dict(HELP))
        self.panel, self.made = panel, made

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """As click does; its errors say of which command, and what is nearest to what it does not have."""
        words = list(args)
        ctx.allow_extra_args = True  # told here, with what they may mean
        with _told(ctx, words):
            super().parse_args(ctx, args)
        if ctx.args and not ctx.resilient_parsing:
            raise click.UsageError(slips.surplus_told(ctx, ctx.args), ctx)
        return []

    def format_options(self, ctx: Context, formatter: click.HelpFormatter) -> None:
        """What help says of arguments and options."""
        _explained(self, ctx, formatter)

    def format_arguments(self, ctx: Context, formatter: click.HelpFormatter) -> None:
        """Nothing: they stand before the options."""


class Group(click.Group):
    """Commands under one name. `run` is called first, with the values of `parameters`; without it, and without a
    command, help is shown."""

    def __init__(
        self,
        name: str,
        help: str,
        panel: str = "Commands",
        parameters: Sequence[click.Parameter] = (),
        run: Callable[..., Any] | None = None,
    ) -> None:
        super().__init__(
            name,
            help=help,
            callback=run,
            params=list(parameters),
            invoke_without_command=run is not None,
            no_args_is_help=run is None,
            context_settings=dict(HELP),
        )
        self.panel = panel

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """As click does; of an option that is a command's, where to write it."""
        with _told(ctx, list(args)):
            return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that is meant; what another name may mean is told."""
        if args[0] in self.commands or args[0].startswith("-") or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        meant = _OF_OTHERS.get(args[0].lower())
        if ctx.parent is None and meant is not None and meant in self.commands:
            raise click.UsageError(f"No such command {args[0]!r}. Did you mean {meant!r}?", ctx)
        raise click.UsageError(slips.command_told(ctx, self, args[0]), ctx)

    def format_options(self, ctx: Context, formatter: click.HelpFormatter) -> None:
        """What help says of options, and of the commands, panel by panel."""
        _explained(self, ctx, formatter)
        self.format_commands(ctx, formatter)

    def format_arguments(self, ctx: Context, formatter: click.HelpFormatter) -> None:
        """Nothing: a group has none."""

    def format_commands(self, ctx: Context, formatter: click.HelpFormatter) -> None:
        """The commands with the first sentences of what they do."""
        width = max((len(name) for name in self.commands), default=0)
        panels: dict[str, list[tuple[str, str]]] = {}
        for name, command in self.commands.items():
            rows = panels.setdefault(getattr(command, "panel", "Commands"), [])
            rows.append((name.ljust(width), command.get_short_help_str(_WHOLE)))
        for title, rows in panels.items():
            with formatter.section(title if len(panels) > 1 else "Commands"):
                formatter.write_dl(rows)

    def list_commands(self, ctx: Context) -> list[str]:
        """Their names, in the order in which they were registered."""
        return list(self.commands)
