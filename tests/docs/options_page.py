"""`docs/reference/options.md`: every option of a table, from the code. `python -m tests.docs.options_page` writes it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bucketlake.options import (
    buckets,
    commit,
    compaction,
    engines,
    features,
    formats,
    layout,
    merge,
    read,
    retention,
    table,
    write,
)
from bucketlake.options.model import Option
from bucketlake.options.options import FAMILIES, OPTIONS

NO_LIMIT = (str((1 << 63) - 1), str((1 << 31) - 1))
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "options.md"
HEAD = """# Table options

This page lists every option that Apache Paimon's tables know, and what Bucketlake does with it. It is generated from the code.

## Set an option

| For | How |
|---|---|
| a table | `TBLPROPERTIES` in CREATE TABLE, or `ALTER TABLE … SET` |
| one statement | a hint `/*+ OPTIONS('key' = 'value') */` |
| a session | `SET spark.paimon.<key>` |
| a read or write in Python | an argument, with `_` for `.` and `-`: `scan_snapshot_id=3` |

Options do what they say, with two exceptions at the end of the page:

- Options [kept without effect](#kept-without-effect) are stored for other engines and mean nothing here.
- [Refused options](#refused) would change rows or files and are not built. Setting one is an error that names it.

*Fixed* options cannot be altered once a table has snapshots.
"""
SUBJECTS = {
    "Layout": layout,
    "Buckets": buckets,
    "Writing": write,
    "Merging": merge,
    "Compaction": compaction,
    "Commits": commit,
    "Reading": read,
    "Retention": retention,
    "Formats": formats,
    "Further": table,
    "Features": features,
    "Of other engines": engines,
}


def page() -> str:
    """The page as it has to be."""
    return "\n".join([HEAD, *_sections()])


def _sections() -> Iterator[str]:
    left: list[Option] = []
    told: set[str] = set()
    for title, module in SUBJECTS.items():
        found = [option for option in _of(module) if option.key not in told]
        told |= {option.key for option in found}
        left += [option for option in found if option.effect != "honoured"]
        honoured = [_row(option) for option in _sorted(found) if option.effect == "honoured"]
        if honoured:
            yield from (f"## {title}", "", "| Option | Default | Meaning |", "|---|---|---|", *honoured, "")
    missing = OPTIONS.keys() - told
    assert not missing, f"in no subject: {sorted(missing)}"
    yield from ("## Kept without effect", "", "| Option | Default | What it means elsewhere | Why it has no effect |")
    yield "|---|---|---|---|"
    yield from (_row(option, _sentence(option.effect.why)) for option in _sorted(left) if option.effect == "kept")
    yield from ("", "## Refused", "", "| Option | Default | Meaning | What to do instead |", "|---|---|---|---|")
    yield from (_row(option, _instead(option)) for option in _sorted(left) if option.effect == "refused")
    yield from ("", "## Keys with a name in them", "", "| Keys | |", "|---|---|")
    for pattern, effect in FAMILIES:
        yield f"| `{_spelled(pattern.pattern)}` | {effect}{f': {effect.why}' if effect.why else ''} |"
    yield ""


def _spelled(pattern: str) -> str:
    """A pattern of keys as people write it: `fields.….aggregate-function`."""
    plain = pattern.replace("\\.", ".").replace("[a-z-]+", "…").replace(".+", "…").replace("(", "{").replace(")", "}")
    return plain.replace("|", ", ")


def _sorted(options: list[Option]) -> list[Option]:
    return sorted(options, key=lambda option: option.key)


def _instead(option: Option) -> str:
    within = option.effect.within
    return _sentence(option.effect.remedy) + (f" Honoured by {within}." if within else "")


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}." if text else ""


def _of(module: object) -> Iterator[Option]:
    for value in vars(module).values():
        members = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else [value]
        yield from (member for member in members if isinstance(member, Option) and member.key in OPTIONS)


def _row(option: Option, *more: str) -> str:
    values = f" One of {', '.join(f'`{value}`' for value in option.values)}." if option.values else ""
    default = "" if option.default in (None, "") else f"`{option.default}`"
    default = "no limit" if str(option.default).removesuffix(" b") in NO_LIMIT else default
    key = f"`{option.key}`{'' if option.mutable else '<br>*fixed*'}"
    cells = (key, default, option.doc + values, *more)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


if __name__ == "__main__":
    PAGE.write_text(page())
