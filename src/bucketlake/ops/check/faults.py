"""The faults that a check of a table knows: what each means, and what mends it.

    FAULTS[code] -> Fault(severity, level, what, consequence, remedy, mend, loses)

One row a fault: documentation, findings and repair follow from it.

Spec: docs/maintenance.md
"""

from __future__ import annotations

from bucketlake.ops.check.fault import LEVELS, Fault, Mend, Severity
from bucketlake.ops.check.faults_of_files import ROWS as FILES
from bucketlake.ops.check.faults_of_history import ROWS as HISTORY

__all__ = ["FAULTS", "LEVELS", "Fault", "Mend", "Severity", "page"]

FAULTS: dict[str, Fault] = {str(row[0]): Fault(*row) for row in (*HISTORY, *FILES)}  # type: ignore[arg-type]


def page() -> str:
    """The table of faults as docs/maintenance.md shows it."""
    lines = ["| code | severity | level | fault | consequence | remedy | repair |", "|---|---|---|---|---|---|---|"]
    for fault in FAULTS.values():
        mend = fault.mend.value + (" (to be named)" if fault.loses else "") if fault.mend is not Mend.NONE else "no"
        cells = (
            f"**{fault.code}**",
            fault.severity.value,
            fault.level,
            fault.what,
            fault.consequence,
            fault.remedy,
            mend,
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
