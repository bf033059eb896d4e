"""Text for people: what may reach a terminal, how wide it is, and tables of it.

Names, comments and values come from files that others wrote: whatever is not printable is shown by its escape
(`\\x1b`), so that nothing but this program moves the cursor, colours the screen or ends a line.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Sequence
from typing import IO

from bucketlake.values import dataclass

__all__ = ["Look", "aligned", "clean", "count", "cut", "is_terminal", "look_of", "table"]

GAP = "  "
LEAST = 6  # columns that a shortened cell keeps
TEXT = 24  # columns beyond which a value is a text, of which a part says something: of a number or a time none does
_JOINERS = "\u200c\u200d"  # within words and pictures of some scripts; harmless


@dataclass(frozen=True, slots=True)
class Look:
    """How text is written to a stream: with colours or not, in how many columns (None: as many as it takes)."""

    colours: bool = False
    width: int | None = None

    def style(self, text: str, code: str) -> str:
        """The text in a colour (`1` bold, `2` dim, `31` red, …), where there are colours."""
        return f"\x1b[{code}m{text}\x1b[0m" if self.colours and text else text


def is_terminal(stream: IO[str]) -> bool:
    """Whether somebody looks at the stream."""
    try:
        return stream.isatty()
    except (AttributeError, ValueError):
        return False


def look_of(stream: IO[str]) -> Look:
    """How text goes to a stream: colours and a width only on a terminal; NO_COLOR and TERM=dumb mean no colours."""
    if not is_terminal(stream):
        return Look()
    plain_terminal = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return Look(not plain_terminal, _terminal_width(stream))


def _terminal_width(stream: IO[str]) -> int:
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and int(given) > 0:
        return int(given)
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


def clean(text: str) -> str:
    """The text with everything that is not printable as escapes; one line."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one in _JOINERS else _escape(one) for one in text)


def _escape(one: str) -> str:
    return {"\n": "\\n", "\t": "\\t", "\r": "\\r"}.get(one) or one.encode("unicode_escape").decode()


def wide(text: str) -> int:
    """How many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(one) or one in _JOINERS else 1 + (unicodedata.east_asian_width(one) in "WF")
        for one in text
    )


def cut(text: str, width: int) -> str:
    """The text in at most so many columns, `…` for what is left out."""
    if wide(text) <= width:
        return text
    kept, used = [], 0
    for one in text:
        used += wide(one)
        if used > width - 1:
            break
        kept.append(one)
    return "".join(kept) + "…"


def _pad(text: str, width: int, right: bool) -> str:
    blank = " " * (width - wide(text))
    return blank + text if right else text + blank


def _narrowed(widths: list[int], least: Sequence[int], room: int) -> None:
    """Take columns from the widest, down to what each keeps at least, until the line fits."""
    while sum(widths) > room and widths != list(least):
        widths[max(range(len(widths)), key=lambda place: (widths[place] - least[place] > 0, widths[place]))] -= 1


def _widths(heads: Sequence[int], values: Sequence[int], room: int | None) -> list[int]:
    """The columns' widths: what their cells take; where the line does not fit, long texts are shortened first, then
    other values, down to their heads; then heads, down to their values; then all."""
    widths = [max(pair) for pair in zip(heads, values, strict=True)]
    if room is None:
        return widths
    kept = [max(head, min(value, LEAST)) for head, value in zip(heads, values, strict=True)]
    texts = [least if width > TEXT else width for least, width in zip(kept, widths, strict=True)]
    short = [min(width, max(LEAST, value)) for width, value in zip(kept, values, strict=True)]
    for least in (texts, kept, short, [min(width, LEAST) for width in kept]):
        _narrowed(widths, [min(pair) for pair in zip(widths, least, strict=True)], room)
    return widths


def table(head: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[bool], look: Look) -> list[str]:
    """A table's lines: the head, then a line a row. `right`: which columns stand to the right, as numbers do. Heads of
    several words stand on several lines where one line does not fit. Where numbers would have to be cut, which then
    say something else, every row is a block instead, a line a value."""
    if not head:
        return []
    cells = [[clean(cell) for cell in row] for row in rows]
    heads = [clean(name) for name in head]
    values = [max((wide(row[place]) for row in cells), default=0) for place in range(len(heads))]
    room = None if look.width is None else look.width - len(GAP) * (len(heads) - 1)
    stacked = room is not None and sum(map(max, map(wide, heads), values)) > room
    words = [(name.split(" ") if stacked else [name]) for name in heads]
    widths = _widths([max(map(wide, one)) for one in words], values, room)
    if any(width < value and side for width, value, side in zip(widths, values, right, strict=True)):
        blocks = [aligned(list(zip(heads, row, strict=True)), look) for row in cells]
        return [line for place, block in enumerate(blocks) for line in ([""] if place else []) + block]
    deep = max(map(len, words))
    above = [[one[place - deep] if deep - place <= len(one) else "" for one in words] for place in range(deep)]
    lines = [_line(row, widths, right) for row in (*above, *cells)]
    return [look.style(line, "1") if number < deep else line for number, line in enumerate(lines)]


def _line(row: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    parts = [_pad(cut(cell, width), width, side) for cell, width, side in zip(row, widths, right, strict=True)]
    return GAP.join(parts).rstrip()


def aligned(pairs: Sequence[tuple[str, str]], look: Look) -> list[str]:
    """Names and values, a line each, the values below each other."""
    width = max((wide(clean(name)) for name, _ in pairs), default=0)
    return [f"{look.style(_pad(clean(name), width, False), '1')}{GAP}{clean(value)}".rstrip() for name, value in pairs]


def count(number: int, one: str, many: str | None = None) -> str:
    """`1 file`, `1,200 files`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
