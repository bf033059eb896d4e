"""Columns that a statement of the source renamed: `ALTER TABLE t RENAME COLUMN a TO b`, MySQL's `CHANGE a b INT`.

What else a statement says follows from the events after it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from bucketlake.errors import UnsupportedError

_NAME = r"(?:`((?:[^`]|``)+)`|\"((?:[^\"]|\"\")+)\"|([\w$]+))"
_TABLE = rf"\s*ALTER\s+TABLE\s+(?:IF\s+EXISTS\s+)?(?:ONLY\s+)?(?:{_NAME}\s*\.\s*)*{_NAME}\s+"
_RENAME = re.compile(rf"RENAME\s+COLUMN\s+{_NAME}\s+TO\s+{_NAME}\s*", re.IGNORECASE)
_RENAME_SHORT = re.compile(
    rf"RENAME\s+(?!TO\b|AS\b|COLUMN\b|INDEX\b|KEY\b|CONSTRAINT\b){_NAME}\s+TO\s+{_NAME}\s*", re.IGNORECASE
)
_CHANGE = re.compile(rf"CHANGE\s+(?:COLUMN\s+)?{_NAME}\s+{_NAME}\s+\S.*", re.IGNORECASE | re.DOTALL)


def renames_in(statements: Iterable[str], table: str = "") -> dict[str, str]:
    """Every name that a column had, to its newest, over statements in their order; what one of them renames, it renames
    at once.

    Raises: UnsupportedError where columns change places, or a name had two columns: which of them an event means, its
    names do not say. `table`: told then.
    """
    found: dict[str, str] = {}
    for text in statements:
        pairs = {old: new for old, new in _renamed(text) if old != new}
        found = {old: pairs.get(now, now) for old, now in found.items()}
        for old, new in pairs.items():
            if found.setdefault(old, new) != new:
                raise _ambiguous([old, new, found[old]], table)
    found = {old: new for old, new in found.items() if old != new}
    for name in found:
        last, steps = name, 0
        while last in found and steps <= len(found):
            last, steps = found[last], steps + 1
        if last in found:
            raise _ambiguous([name, found[name]], table)
    return found


def _ambiguous(names: Iterable[str], table: str) -> UnsupportedError:
    return UnsupportedError(
        "renames of the source that give a column the name of another",
        table=table,
        columns=sorted(set(names)),
        remedy="rename the table's columns likewise, and start behind these statements under another checkpoint",
    )


def _renamed(text: str) -> list[tuple[str, str]]:
    """The renames of one statement, which was read to its end; none where it is another one."""
    head = re.match(_TABLE, text, re.IGNORECASE)
    if head is None:
        return []
    pairs = []
    for action in _actions(text[head.end() :].strip().rstrip(";")):
        for pattern in (_RENAME, _RENAME_SHORT, _CHANGE):
            found = pattern.fullmatch(action.strip())
            if found is not None:
                old, new = (_name(found.groups()[place : place + 3]) for place in (0, 3))
                pairs.append((old, new))
                break
    return pairs


def _name(groups: tuple[str | None, ...]) -> str:
    back, double, bare = groups
    if back is not None:
        return back.replace("``", "`")
    return double.replace('""', '"') if double is not None else str(bare)


def _actions(text: str) -> list[str]:
    """The parts between commas that stand in no brackets and quotes."""
    parts, depth, start, quote = [], 0, 0, ""
    for place, sign in enumerate(text):
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "'\"`":
            quote = sign
        elif sign in "()":
            depth += 1 if sign == "(" else -1
        elif sign == "," and depth == 0:
            parts.append(text[start:place])
            start = place + 1
    return [*parts, text[start:]]
