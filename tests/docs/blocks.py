"""The blocks of a page, run in their order in one namespace, and what they print compared with what the page says.

```` ```python ```` runs as it stands; ```` ```sql ```` is a script for `lake.sql`, a statement after the other; a
```` ```text ```` directly after one of them is what it prints (a script shows the rows of its last statement). A block after a line
`<!-- not run: why -->` is left out. `bucketlake.connect` of a page takes the session that is active.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bucketlake.sql.text.tokens import tokenize

FENCE = re.compile(
    r"^(?P<left>[ \t]*<!-- not run:[^\n]*-->\s*\n)?^(?P<indent>[ \t]*)```(?P<kind>\w+)[^\n]*\n(?P<text>.*?)^(?P=indent)```[ \t]*$",
    re.MULTILINE | re.DOTALL,
)
RUN = ("python", "sql")


@dataclass(slots=True)
class Block:
    """A block that runs: its language, its text, its line on the page, and what it is to print, if that is told."""

    kind: str
    text: str
    line: int
    prints: str | None = field(default=None)


def blocks(page: str) -> list[Block]:
    """The blocks of a page that run."""
    found: list[Block] = []
    end = -1
    for fence in FENCE.finditer(page):
        text = re.sub(rf"^{fence['indent']}", "", fence["text"], flags=re.MULTILINE)
        if fence["kind"] == "text" and found and not page[end : fence.start()].strip():
            found[-1].prints = text
        elif fence["kind"] in RUN and not fence["left"]:
            found.append(Block(fence["kind"], text, page.count("\n", 0, fence.start("text")) + 1))
            end = fence.end()
    return found


def run(page: Path, names: dict[str, Any]) -> None:
    """Run a page's blocks in the working folder.

    Raises:
        AssertionError: a block fails or prints something else; it names the page and the line.
    """
    for block in blocks(page.read_text()):
        where = f"{page}:{block.line}"
        out = io.StringIO()
        try:
            with contextlib.redirect_stdout(out):
                if block.kind == "python":
                    exec(compile("\n" * (block.line - 1) + block.text, str(page), "exec"), names)
                else:
                    shown = [names["lake"].sql(statement) for statement in statements(block.text)][-1]
                    if shown.columns:
                        shown.show(100, truncate=False)
        except Exception as error:
            raise AssertionError(f"{where}: {type(error).__name__}: {error}") from error
        if block.prints is not None:
            assert _plain(out.getvalue()) == _plain(block.prints), f"{where} prints\n{out.getvalue()}"


def statements(text: str) -> Iterator[str]:
    """The statements of a script, cut at semicolons that are signs."""
    start = 0
    for token in tokenize(text):
        if token.kind == "sign" and token.value == ";":
            yield text[start : token.start].strip()
            start = token.end
    if text[start:].strip():
        yield text[start:].strip()


def _plain(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip().splitlines())
