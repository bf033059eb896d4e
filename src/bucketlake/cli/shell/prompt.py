"""The shell's conversation: a prompt with history, completion and colours; a statement may take several lines."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from prompt_toolkit import PromptSession
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, ThreadedCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.lexers import PygmentsLexer
from pygments.lexers.sql import SqlLexer

import bucketlake
from bucketlake.cli.output import DONE, Console
from bucketlake.cli.shell import helpers
from bucketlake.cli.shell.running import SHOWN
from bucketlake.cli.shell.words import Known, suggestions, word_before
from bucketlake.cli.text import clean, look_of
from bucketlake.env import user_files
from bucketlake.errors import BucketlakeError, InvalidError
from bucketlake.lazy import lazy
from bucketlake.redaction import redact

if TYPE_CHECKING:
    from bucketlake.cli.shell.running import Runner
    from bucketlake.sql.text import scripts, tokens
else:
    scripts, tokens = lazy("bucketlake.sql.text.scripts"), lazy("bucketlake.sql.text.tokens")


LEAVING = ("exit", "quit")
HELPING = ("help", "?")


def talk(runner: Runner, session: PromptSession[str] | None = None) -> int:
    """Read statements and run them until Ctrl-D; the exit status."""
    runner.is_paged, runner.console = True, Console()  # what is said is for people, whatever rows are written as
    runner.limit = runner.limit or SHOWN
    words = Words(runner)
    session = session or _session(words)
    runner.console.note(
        f"bucketlake {bucketlake.__version__}, warehouse {runner.start.catalog.warehouse}. "
        "Statements end with ; and \\? helps."
    )
    while True:
        words.refresh()
        try:
            line = session.prompt(f"{clean(runner.start.database)}> ").strip()
        except KeyboardInterrupt:
            continue  # the line is thrown away
        except EOFError:
            return DONE
        try:
            if line.rstrip(";").lower() in LEAVING:
                return DONE
            if line.rstrip(";").lower() in HELPING:
                helpers.run(runner, "\\?")
            elif line.startswith("\\"):
                helpers.run(runner, line)
            elif line:
                runner.script(line)
        except helpers.LeaveError:
            return DONE
        except KeyboardInterrupt:
            print(file=sys.stderr)
            runner.console.note(clean(runner.cancelled()))


def is_whole(text: str) -> bool:
    """Whether Enter ends what is typed: a semicolon outside literals and comments ends a statement, behind the END of
    one that begins with BEGIN; the line's end a command of the shell."""
    stripped = text.strip()
    if not stripped or stripped.startswith("\\") or stripped.lower() in LEAVING + HELPING:
        return True
    try:
        found = tokens.tokenize(text)
    except InvalidError:
        return False  # a literal is still open
    if not found or found[-1].kind != "sign" or found[-1].value != ";":
        return not found
    places = scripts.statement_places(text)
    return not places or places[-1][1] <= found[-1].start


class Words(Completer):
    """Completion over the warehouse's names as of this prompt."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self.refresh()

    def refresh(self) -> None:
        """Forget what was looked up: the last statement may have changed it."""
        start = self._runner.start
        self._known = Known(start.catalog, lambda: start.database)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """What may come next."""
        text = document.text_before_cursor
        if text.startswith("\\"):
            named = text.partition(" ")[0]
            if named == text:
                yield from (
                    Completion(name, -len(text), display_meta=one.about)
                    for name, one in helpers.HELPERS.items()
                    if name.startswith(text)
                )
                return
            text = "FROM " + text.partition(" ")[2]
        before = word_before(text)
        for name, kind in suggestions(text, self._known):
            yield Completion(name, -len(before), display=clean(name), display_meta=kind)


class _OwnHistory(FileHistory):
    """Statements of earlier sessions, but those that hold a secret."""

    def store_string(self, string: str) -> None:
        if redact(string) == string:
            super().store_string(string)


def history() -> History:
    """The history in the user's folder for state, readable by the user alone; in memory where there is no place."""
    base = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    path = os.path.join(base, "bucketlake", "history")
    try:
        if user_files.read(path) is None:
            user_files.write_private(path, "")
        return _OwnHistory(path)
    except (BucketlakeError, OSError):
        return InMemoryHistory()


def _session(words: Words, **more: Any) -> PromptSession[str]:
    keys = KeyBindings()

    @Condition
    def whole() -> bool:
        return is_whole(made.default_buffer.text)

    @keys.add("enter", filter=whole)
    def _(event: Any) -> None:
        event.current_buffer.validate_and_handle()

    coloured = look_of(sys.stdout).colours
    made: PromptSession[str] = PromptSession(
        history=history(),
        auto_suggest=AutoSuggestFromHistory(),
        completer=ThreadedCompleter(words),
        complete_while_typing=True,
        lexer=PygmentsLexer(SqlLexer) if coloured else None,
        multiline=True,
        prompt_continuation=lambda width, line, is_soft_wrap: "" if is_soft_wrap else f"{'-> ':>{width}}",
        key_bindings=keys,
        **more,
    )
    return made
