"""The table of faults in `docs/maintenance.md`: `python -m tests.docs.maintenance` writes it anew."""

from __future__ import annotations

from pathlib import Path

from bucketlake.ops.check.faults import page

PAGE = Path(__file__).parents[2] / "docs" / "maintenance.md"
MARK = "<!-- made of the code: python -m tests.docs.maintenance -->\n\n"
END = "\n## Repair\n"


def written(text: str) -> str:
    """The page with the table as the code has it."""
    head, rest = text.split(MARK)
    return head + MARK + page() + END + rest.partition(END)[2]


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
