"""Times, medians, and the table of results."""

from __future__ import annotations

import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

_SHOWN = ("pyspark", "pyarrow", "numpy")


@dataclass
class Case:
    """One measured workload. `floor`: name of the case that it is told in ("" for plain seconds); `mark`: the figure
    that it should stay under, in floors or seconds."""

    name: str
    floor: str = ""
    mark: float | None = None
    seconds: list[float] = field(default_factory=list)
    floors: list[float] = field(default_factory=list)  # measured between the runs of this case
    notes: dict[str, Any] = field(default_factory=dict)

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


class Measurements:
    """Cases in order of measuring; prints each as it is done."""

    def __init__(self, runs: int, paired: bool = True) -> None:
        self.runs = runs
        self.paired = paired
        self.cases: dict[str, Case] = {}
        self._floors: dict[str, Callable[[], Any]] = {}

    def floor(self, name: str, case: str, action: Callable[[], Any]) -> None:
        """Name a case as a floor; with `paired`, it is measured again before every run of what is told in it, so that
        a machine that slows down slows both."""
        self.cases[name] = self.cases[case]
        self._floors[name] = action

    def measure(
        self,
        name: str,
        action: Callable[[], Any],
        *,
        floor: str = "",
        mark: float | None = None,
        before: Callable[[], Any] | None = None,
        runs: int | None = None,
        warm: int = 0,
    ) -> Any:
        """Time `action` some times, `before` outside of the clock; the last result."""
        case = self.cases[name] = Case(name, floor, mark)
        result = None
        for run in range(warm + (runs or self.runs)):
            if before is not None:
                before()
            if floor in self._floors and self.paired and run >= warm:
                start = time.perf_counter()
                self._floors[floor]()
                case.floors.append(time.perf_counter() - start)
            start = time.perf_counter()
            result = action()
            if run >= warm:
                case.seconds.append(time.perf_counter() - start)
        print(self.line(case), flush=True)
        return result

    def note(self, name: str, **notes: Any) -> None:
        """Attach facts to a case."""
        self.cases[name].notes.update(notes)
        print(f"    {', '.join(f'{key} {value}' for key, value in notes.items())}", flush=True)

    def ratio(self, case: Case) -> float:
        """The median in the case's floors, or seconds."""
        if not case.floor:
            return case.median
        return case.median / (statistics.median(case.floors) if case.floors else self.cases[case.floor].median)

    def line(self, case: Case) -> str:
        """A case as a line of the report."""
        spread = f"{min(case.seconds):.2f}–{max(case.seconds):.2f}"
        told = f"{self.ratio(case):6.2f} {case.floor or 's'}"
        mark = "" if case.mark is None else f"mark {case.mark:g} {'ok' if self.ratio(case) <= case.mark else 'MISSED'}"
        return f"{case.name:<44} {case.median:8.3f} s  ({spread})  {told:<10} {mark}"

    def write(self, path: Path, **facts: Any) -> None:
        """All figures as JSON."""
        cases = [
            {
                "name": case.name,
                "seconds": case.seconds,
                "floors": case.floors,
                "median": case.median,
                "floor": case.floor,
                "ratio": self.ratio(case),
                "mark": case.mark,
                **case.notes,
            }
            for case in {case.name: case for case in self.cases.values()}.values()  # a floor has two names
        ]
        versions = {"Python": platform.python_version(), **{name: version(name) for name in _SHOWN}}
        facts = {"machine": platform.machine(), "cores": os.cpu_count(), "versions": versions, **facts}
        path.write_text(json.dumps({**facts, "cases": cases}, indent=1))
