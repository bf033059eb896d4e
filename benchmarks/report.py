"""`python -m benchmarks.report FILE …`: what `benchmarks.run` and `benchmarks.statements` wrote, as tables of Markdown.

Cases in the order of measuring, each with its median, the spread, and how many of its floors that is, beside the mark.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def main() -> None:
    """Print a table a file."""
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    for path in sys.argv[1:]:
        told = json.loads(Path(path).read_text())
        versions = ", ".join(f"{name} {number}" for name, number in told["versions"].items())
        print(f"Scale {told['scale']:g}, {told['cores']} cores, {versions}.\n")
        print("| case | median | spread | ratio | mark | |\n|---|---|---|---|---|---|")
        print("\n".join(map(line, told["cases"])), "\n")


def line(case: dict[str, Any]) -> str:
    """A case as a row of the table. Cases that two names mean, as floors are, have one."""
    low, high, mark, ratio = min(case["seconds"]), max(case["seconds"]), case["mark"], case["ratio"]
    spread = f"{_seconds(low)} to {_seconds(high)}" if high > low else "one run"
    told = f"{ratio:.2f} {case['floor'].split(':')[0]}" if case["floor"] else ""
    unit = case["floor"].split(":")[0] or "s"
    marked = ("", "") if mark is None else (f"{mark:g} {unit}", "met" if ratio <= mark else "**missed**")
    return f"| {case['name']} | {_seconds(case['median'])} s | {spread} | {told} | {' | '.join(marked)} |"


def _seconds(value: float) -> str:
    return f"{value:.2f}" if value >= 1 else f"{value:.3f}"


if __name__ == "__main__":
    main()
