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
from bucketlake.options.options import OPTIONS

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "options.md"
HEAD = """# Options of tables

Every option that Apache Paimon's tables know, and what becomes of it here; this page is made of the code. Set them with `TBLPROPERTIES`, `ALTER TABLE … SET`, for one statement with a hint `/*+ OPTIONS('key' = 'value') */`, for a session with
`SET spark.paimon.<key>`, or as arguments of a read or write (`scan_snapshot_id=3`: `_` for `.` and `-`).

**Honoured** options do what they say. **Kept** ones are stored for other engines and mean nothing here; the reason is given. **Refused** ones would change rows or files and are not built: setting one is an error that names it.
A * marks options that cannot be altered once a table has snapshots.
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
    told: set[str] = set()
    for title, module in SUBJECTS.items():
        found = [option for option in _of(module) if option.key not in told]
        told |= {option.key for option in found}
        if found:
            yield from (f"## {title}", "", "| option | default | | |", "|---|---|---|---|")
            yield from (_row(option) for option in sorted(found, key=lambda option: option.key))
            yield ""
    missing = OPTIONS.keys() - told
    assert not missing, f"in no subject: {sorted(missing)}"


def _of(module: object) -> Iterator[Option]:
    for value in vars(module).values():
        members = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else [value]
        yield from (member for member in members if isinstance(member, Option) and member.key in OPTIONS)


def _row(option: Option) -> str:
    effect = f"{option.effect}: {option.effect.why}" if getattr(option.effect, "why", "") else str(option.effect)
    effect += f", but honoured by {option.effect.within}" if option.effect.within else ""
    values = f" One of {', '.join(f'`{value}`' for value in option.values)}." if option.values else ""
    default = "" if option.default in (None, "") else f"`{option.default}`"
    return f"| `{option.key}`{'' if option.mutable else ' *'} | {default} | {effect} | {(option.doc + values).replace('|', chr(92) + '|')} |"


if __name__ == "__main__":
    PAGE.write_text(page())
