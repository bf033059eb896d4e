"""The command line as a whole: which families of commands there are, and what is common to all.

A family is a module of this folder with `register(app)`. Of a call only the family that its first word names is
loaded; help and completion load all. A family whose module is not installed is left out.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Annotated, Any

import typer

import bucketlake
from bucketlake.cli.answer import document
from bucketlake.cli.output import DONE, FAILED, INTERRUPTED, PIPE, USAGE
from bucketlake.cli.text import clean, look_of

__all__ = ["FAMILIES", "build", "run"]

PROGRAM = "bucketlake"
# family: the words by which it is asked for. Others are found by loading all.
FAMILIES: dict[str, tuple[str, ...]] = {
    "demo": ("demo",),
    "look": ("databases", "tables", "describe", "schemas", "options", "partitions"),
    "state": ("files", "snapshots", "tags", "branches", "consumers", "usage", "plan"),
    "read": ("cat", "diff", "export"),
    "load": ("import",),
    "change": ("create", "drop", "rollback", "tag", "branch"),
    "maintain": ("compact", "rescale", "cluster", "expire", "orphans"),
    "check": ("fsck", "advise"),
    "watch": ("watch",),
    "setup": ("config", "completion"),
    "sql": ("sql",),
    "ui": ("ui",),
    "cdc": ("cdc",),
}
ClickError: Any = next(one for one in typer.BadParameter.__mro__ if one.__name__ == "ClickException")
HELP = """Tables of Apache Paimon's format from the command line, without Spark where none is needed.

Which warehouse: --warehouse, else $BUCKETLAKE_WAREHOUSE, else the default of `bucketlake config`."""


def _version(wanted: bool) -> None:
    if wanted:
        print(f"{PROGRAM} {bucketlake.__version__}")
        raise typer.Exit(DONE)


def _common(
    context: typer.Context,
    warehouse: Annotated[
        str | None, typer.Option("--warehouse", "-w", metavar="PLACE", help="Folder, URI or configured name.")
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="The version, and nothing else.")
    ] = False,
) -> None:
    context.obj = {} if warehouse is None else {"warehouse": warehouse}
    if context.invoked_subcommand is None:
        print(context.get_help())
        raise typer.Exit(USAGE)


def build(words: Sequence[str] = ()) -> typer.Typer:
    """The command line with the family that the words ask for, or with all."""
    app = typer.Typer(
        name=PROGRAM,
        help=HELP,
        rich_markup_mode=None,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    app.callback(invoke_without_command=True)(_common)
    for family in _asked_for(words):
        name = f"bucketlake.cli.{family}"
        if find_spec(name) is not None:
            import_module(name).register(app)
    return app


def _asked_for(words: Sequence[str]) -> list[str]:
    """The family of the first word that is a command's name; all where there is none, or help is asked for."""
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word in ("--warehouse", "-w"):
            skip = True
        elif not word.startswith("-"):
            found = [family for family, names in FAMILIES.items() if word in names]
            return found or list(FAMILIES)
        elif word == "--version":
            return []
    return list(FAMILIES)


def run(arguments: Sequence[str]) -> int:
    """Run the command line; the exit status."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    completing = bool(os.environ.get("_BUCKETLAKE_COMPLETE"))
    try:
        if completing:
            import_module("typer.completion").completion_init()
        app = build(() if completing else arguments)
        found: Any = app(args=list(arguments), prog_name=PROGRAM, standalone_mode=False)
        sys.stdout.flush()
        return found if isinstance(found, int) else DONE
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else FAILED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE
    except (KeyboardInterrupt, typer.Abort):
        print("\ninterrupted", file=sys.stderr)
        return INTERRUPTED
    except ClickError as error:
        return _misused(error, "--json" in arguments)


def _misused(error: Any, as_json: bool) -> int:
    """Say what is wrong with the call."""
    text, context = error.format_message(), getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        print(text, file=sys.stderr)
        return USAGE
    path = context.command_path if context is not None else PROGRAM
    if as_json:
        place = {"command": path}
        told = {"kind": "UsageError", "what": text, "place": place, "remedy": f"{path} --help"}
        print(document({"error": told}), file=sys.stderr)
        return USAGE
    lines = [f"{look_of(sys.stderr).style('error:', '1;31')} {clean(text)}"]
    if context is not None:
        lines.append(f"  at: {clean(' '.join(context.get_usage().split()))}")
    print("\n".join([*lines, f"  do: {path} --help"]), file=sys.stderr)
    return USAGE
