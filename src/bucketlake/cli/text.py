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

__all__ = ["Look", "aligned", "clean", "count", "cut", "is_terminal", "look_of", "size", "span", "table"]

GAP = "  "
LEAST = 6  # columns that a shortened cell keeps
_JOINERS = "\u200c\u200d"  # within words and pictures of some scripts; harmless
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


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


def _widths(cells: Sequence[Sequence[str]], limit: int | None) -> list[int]:
    """The columns' widths: what their cells take; where the line does not fit, heads are shortened before values, and
    then the widest until it does."""
    columns = list(zip(*cells, strict=True))
    widths = [max(map(wide, column)) for column in columns]
    room = None if limit is None else limit - len(GAP) * (len(widths) - 1)
    least = [max(min(LEAST, wide(head)), *map(wide, values), 0) for head, *values in columns]
    while room is not None and sum(widths) > room and widths != least:
        most = max(range(len(widths)), key=lambda place: widths[place] - least[place])
        widths[most] -= 1
    while room is not None and sum(widths) > room and max(widths) > LEAST:
        most = max(widths)
        next_most = max([one for one in widths if one < most], default=LEAST)
        those = [place for place, one in enumerate(widths) if one == most]
        over = sum(widths) - room
        down = max(next_most, LEAST, most - -(-over // len(those)))
        for place in those:
            widths[place] = down
    return widths


def table(head: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[bool], look: Look) -> list[str]:
    """A table's lines: the head, then a line a row. `right`: which columns stand to the right, as numbers do."""
    if not head:
        return []
    cells = [[clean(cell) for cell in row] for row in (head, *rows)]
    widths = _widths(cells, look.width)
    lines = []
    for number, row in enumerate(cells):
        parts = [_pad(cut(cell, width), width, side) for cell, width, side in zip(row, widths, right, strict=True)]
        line = GAP.join(parts).rstrip()
        lines.append(look.style(line, "1") if number == 0 else line)
    return lines


def aligned(pairs: Sequence[tuple[str, str]], look: Look) -> list[str]:
    """Names and values, a line each, the values below each other."""
    width = max((wide(clean(name)) for name, _ in pairs), default=0)
    return [f"{look.style(_pad(clean(name), width, False), '1')}{GAP}{clean(value)}".rstrip() for name, value in pairs]


def size(count_of_bytes: float) -> str:
    """Bytes as people read them: `12.3 MiB`."""
    value, unit = float(count_of_bytes), _UNITS[0]
    for unit in _UNITS:
        if abs(value) < 1024 or unit == _UNITS[-1]:
            break
        value /= 1024
    return f"{value:.0f} B" if unit == "B" else f"{value:.1f} {unit}"


def count(number: int, one: str, many: str | None = None) -> str:
    """`1 file`, `1,200 files`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def span(seconds: float) -> str:
    """A time as people read it: `1.5s`, `2m03s`, `1h05m`."""
    whole = int(seconds + 0.5)
    hours, minutes = whole // 3600, whole // 60 % 60
    if hours:
        return f"{hours}h{minutes:02}m"
    return f"{minutes}m{whole % 60:02}s" if minutes else f"{seconds:.1f}s"
