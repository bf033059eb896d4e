"""The faults in `docs/maintenance.md`, a table for each severity: `python -m tests.docs.maintenance` writes them anew."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from bucketlake.ops.check.faults import FAULTS, Fault, Mend, Severity
from bucketlake.ops.check.remedy import in_words

PAGE = Path(__file__).parents[2] / "docs" / "maintenance.md"
MARK = "<!-- made of the code: python -m tests.docs.maintenance -->\n\n"
END = "\n## Repair\n"
HEADINGS = {
    Severity.ERROR: ("Errors", "Rows are wrong, or cannot be read or written."),
    Severity.WARNING: ("Warnings", "Something works worse than it should."),
    Severity.INFO: ("Information", "Worth knowing."),
}
STATEMENT = re.compile(r"((?:CALL sys\.\w+|ANALYZE TABLE|ALTER TABLE|INSERT \w+(?: … SELECT)?)(?:\([^)]*\))?)")


def written(text: str) -> str:
    """The page with the tables as the code has them."""
    head, rest = text.split(MARK)
    return head + MARK + "\n".join(_tables()) + END + rest.partition(END)[2]


def _tables() -> Iterator[str]:
    for severity, (title, meaning) in HEADINGS.items():
        yield from (f"### {title}", "", meaning, "", "| Fault | Consequence | What to do |", "|---|---|---|")
        yield from (_row(fault) for fault in FAULTS.values() if fault.severity is severity)
        yield ""


def _row(fault: Fault) -> str:
    remedy = STATEMENT.sub(r"`\1`", _sentence(in_words(fault.remedies())))
    if fault.mend is not Mend.NONE:
        remedy += f"<br>*Repair{', if named' if fault.loses else ''}:* {fault.mend.value}."
    name = f"**{fault.code}** ({fault.level})<br>{_sentence(fault.what)}"
    return f"| {name} | {_sentence(fault.consequence)} | {remedy} |"


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
