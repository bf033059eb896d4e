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

import bucketlake
from bucketlake.cli import completion
from bucketlake.cli.answer import document
from bucketlake.cli.ending import end_in_order
from bucketlake.cli.grammar import (
    Abort,
    ClickException,
    Exit,
    Group,
    NoArgsIsHelpError,
    Option,
    get_current_context,
    parameter,
)
from bucketlake.cli.output import DONE, FAILED, INTERRUPTED, PIPE, USAGE, Console, drop_output
from bucketlake.cli.text import clean, look_of

__all__ = ["FAMILIES", "build", "run"]

PROGRAM = "bucketlake"
# family: the words by which it is asked for. Others are found by loading all.
FAMILIES: dict[str, tuple[str, ...]] = {
    "look": ("databases", "tables", "describe", "schemas", "options", "partitions"),
    "state": ("files", "snapshots", "tags", "branches", "consumers", "usage", "plan"),
    "read": ("cat", "diff", "export"),
    "load": ("import",),
    "change": ("create", "drop", "rollback", "tag", "branch", "consumer"),
    "maintain": ("compact", "rescale", "cluster", "expire", "orphans"),
    "check": ("fsck", "advise"),
    "watch": ("watch",),
    "cdc": ("cdc",),
    "sql": ("sql",),
    "ui": ("ui",),
    "demo": ("demo",),
    "setup": ("config", "completion"),
}
WITHOUT_PANDAS = frozenset({"look", "state", "read", "load", "change", "maintain", "check"})
HELP = """Tables of Apache Paimon's format from the command line, without Spark where none is needed.

Which warehouse: --warehouse, else $BUCKETLAKE_WAREHOUSE, else the default of `bucketlake config`."""


WAREHOUSE = Annotated[str | None, Option("--warehouse", "-w", metavar="PLACE", help="Folder, URI or configured name.")]
VERSION = Annotated[bool, Option("--version", help="The version, and nothing else.")]


def _common(warehouse: str | None, version: bool) -> None:
    context = get_current_context()
    if version:
        print(f"{PROGRAM} {bucketlake.__version__}")
        raise Exit(DONE)
    context.obj = {} if warehouse is None else {"warehouse": warehouse}
    if context.invoked_subcommand is None:
        print(context.get_help())
        raise Exit(USAGE)


def build(words: Sequence[str] = ()) -> Group:
    """The command line with the family that the words ask for, or with all."""
    common = [parameter("warehouse", WAREHOUSE, None), parameter("version", VERSION, False)]
    app = Group(PROGRAM, HELP, parameters=common, run=_common)
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


class _NoPandas:
    """A finder for which there is no pandas. Compiled imports, such as Arrow's, take a None for a module."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        """ModuleNotFoundError for pandas; nothing is known of others."""
        if name == "pandas":
            raise ModuleNotFoundError("not needed here", name=name)


def _spare_pandas(families: Sequence[str]) -> None:
    """Let Arrow look for pandas in vain, which it would load for the first array of any kind.

    Only in a process that is the command's own, and for commands that hand nothing to pandas: Arrow looks once.
    """
    if not WITHOUT_PANDAS.issuperset(families) or "pyarrow" not in sys.modules or "pandas" in sys.modules:
        return
    sys.meta_path.insert(0, _NoPandas)
    try:
        sys.modules["pyarrow"].array([])
    finally:
        sys.meta_path.remove(_NoPandas)


def run(arguments: Sequence[str], alone: bool = False) -> int:
    """Run the command line; the exit status. `alone`: nothing else runs in this process."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        if alone:
            end_in_order()
        if os.environ.get(completion.VARIABLE):
            return completion.answer(build, PROGRAM)
        app = build(arguments)
        if alone:
            _spare_pandas(_asked_for(arguments))
        found: Any = app(args=list(arguments), prog_name=PROGRAM, standalone_mode=False)
        return _flushed(found if isinstance(found, int) else DONE)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else FAILED
    except BrokenPipeError:
        drop_output()
        return PIPE
    except OSError as error:
        return _unwritten(error)
    except (KeyboardInterrupt, Abort):
        print("\ninterrupted", file=sys.stderr)
        return INTERRUPTED
    except ClickException as error:
        return _misused(error, "--json" in arguments)


def _flushed(status: int) -> int:
    """The status, once the whole answer is written. Where its disk is full that is told, unless it was."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        if status == DONE:
            return _unwritten(error)
        drop_output()
    return status


def _unwritten(error: OSError) -> int:
    """Say that the answer cannot be written, and see that Python does not try again as it ends; the exit status."""
    drop_output()
    return Console().failure(error)


def _misused(error: ClickException, as_json: bool) -> int:
    """Say what is wrong with the call."""
    text, context = error.format_message(), getattr(error, "ctx", None)
    if isinstance(error, NoArgsIsHelpError):
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
