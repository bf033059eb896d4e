"""The faults that a check of a table knows: what each means, and what mends it.

    FAULTS[code] -> Fault(severity, level, what, consequence, remedy, mend, loses)

One row a fault: documentation, findings and repair follow from it.

Spec: docs/maintenance.md
"""

from __future__ import annotations

from bucketlake.ops.check.fault import LEVELS, Fault, Mend, Severity
from bucketlake.ops.check.faults_of_files import ROWS as FILES
from bucketlake.ops.check.faults_of_history import ROWS as HISTORY

__all__ = ["FAULTS", "LEVELS", "Fault", "Mend", "Severity"]

FAULTS: dict[str, Fault] = {str(row[0]): Fault(*row) for row in (*HISTORY, *FILES)}  # type: ignore[arg-type]
