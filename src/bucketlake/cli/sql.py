"""`bucketlake sql`: SQL over a warehouse with local Spark: a shell, or the statements of `-e` and `-f`.

Spec: docs/shell.md
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

from bucketlake.cli.answer import UsageError
from bucketlake.cli.command import OTHER, add
from bucketlake.cli.grammar import Exit, Group, Option
from bucketlake.cli.output import FORMATS
from bucketlake.cli.text import clean, is_terminal
from bucketlake.cli.warehouse import WithWarehouse
from bucketlake.env import user_files
from bucketlake.errors import NotFoundError, UnsupportedError
from bucketlake.lazy import lazy

if TYPE_CHECKING:
    from bucketlake.cli.shell import prompt, running
else:
    prompt = lazy("bucketlake.cli.shell.prompt")
    running = lazy("bucketlake.cli.shell.running")


class Sql(WithWarehouse):
    """What `sql` takes."""

    execute: Annotated[
        list[str], Option("--execute", "-e", metavar="STATEMENTS", help="Run these statements and end.")
    ] = []  # noqa: RUF012
    file: Annotated[
        list[str], Option("--file", "-f", metavar="FILE", help="Run a file's statements and end; - is stdin.")
    ] = []  # noqa: RUF012
    database: Annotated[
        str | None, Option("--database", "-d", metavar="NAME", help="The database of names without one.")
    ] = None
    format: Annotated[
        str | None, Option("--format", help=f"How rows are written: {', '.join(FORMATS)}.", metavar="FORMAT")
    ] = None
    limit: Annotated[
        int | None, Option("--limit", min=1, help="At most this many rows of a statement; at the prompt 1000.")
    ] = None
    conf: Annotated[list[str], Option("--conf", metavar="KEY=VALUE", help="A setting of Spark's.")] = []  # noqa: RUF012
    verbose: Annotated[bool, Option("--verbose", help="What Spark logs, and which Spark it is.")] = False

    def _form(self) -> str:
        form = getattr(self, "format", None) or "table"
        return form if form in FORMATS else "table"

    def kept(self) -> str:
        """What stays after Ctrl-C."""
        runner: running.Runner | None = self.__dict__.get("_runner")
        ran = "nothing ran" if runner is None else runner.cancelled()
        return clean(ran) if ran == "nothing ran" else f"{clean(ran)}; what earlier ones committed stays"


def sql(given: Sql) -> None:
    """Run SQL: a shell, or the statements of -e and -f.

    Statements end with a semicolon. At the prompt, \\? lists what else there is.
    """
    _check(given)
    scripts = [("-e", text) for text in given.execute] + [(name, _text(name)) for name in given.file]
    piped = not scripts and not is_terminal(sys.stdin)
    if piped:
        scripts = [("-", sys.stdin.read())]
    if not scripts and find_spec("prompt_toolkit") is None:
        raise UnsupportedError(
            "the shell needs prompt_toolkit", remedy="pip install 'bucketlake[spark]', or use -e, -f"
        )
    start = running.Start(given.warehouse, given.database, _settings(given.conf), given.verbose)
    given.__dict__["_runner"] = runner = running.Runner(start, given.console, given.limit)
    if not scripts:
        raise Exit(prompt.talk(runner))
    for name, text in scripts:
        status = runner.script(text, name)
        if status:
            raise Exit(status)


def _check(given: Sql) -> None:
    if given.format is not None and given.format not in FORMATS:
        raise UsageError("no such format", format=given.format, remedy=f"one of {', '.join(FORMATS)}")
    if find_spec("pyspark") is None:
        raise UnsupportedError("SQL needs Spark", remedy="pip install 'bucketlake[spark]'; `bucketlake cat` needs none")


def _text(name: str) -> str:
    if name == "-":
        return sys.stdin.read()
    found = user_files.read(name)
    if found is None:
        raise NotFoundError("no such file", path=name)
    return found


def _settings(given: list[str]) -> dict[str, str]:
    pairs = [text.partition("=") for text in given]
    wrong = [key for key, sign, _ in pairs if not sign or not key.startswith("spark.")]
    if wrong:
        raise UsageError("not a setting of Spark's", conf=wrong[0], remedy="--conf spark.some.key=value")
    return {key: value for key, _, value in pairs}


def register(app: Group) -> None:
    """Register the family."""
    add(app, sql, panel=OTHER)
