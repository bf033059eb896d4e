"""Core seconds of each test: `pytest -p tests.cost …` adds up what the process and all below it took, and ranks files.

Wall time says little on a machine that others use. User and system time of the whole tree (Spark's JVM, its Python
workers, peers) are read from /proc after each test that took long enough to tell; short ones before it are part of its
figure, a file's is whole. Linux only, and in one process (no `-n`).
`TESTS_COST=<file>` keeps the figures, a line of JSON a reading.
"""

from __future__ import annotations

import ctypes
import json
import os
import time
from collections import defaultdict
from collections.abc import Iterator

import pytest

TICK = os.sysconf("SC_CLK_TCK")
SHORT = 0.05  # seconds
SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER: orphans stay below this process, where they are counted


class Cost:
    """The tests that ran, each with its core seconds."""

    def __init__(self) -> None:
        ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
        self.before, self.tests = core_seconds(os.getpid()), dict[str, float]()
        self.at, self.last = time.monotonic(), ""

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        if self.last and nodeid.partition("::")[0] != self.last.partition("::")[0]:
            self._count(self.last)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self.last = nodeid
        if time.monotonic() - self.at > SHORT:
            self._count(nodeid)

    def _count(self, test: str) -> None:
        after = core_seconds(os.getpid())
        self.tests[test] = self.tests.get(test, 0.0) + after - self.before
        if path := os.environ.get("TESTS_COST"):
            with open(path, "a") as out:
                out.write(json.dumps({"test": test, "seconds": round(after - self.before, 2)}) + "\n")
        self.at, self.before = time.monotonic(), after

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        self._count(self.last)
        files: dict[str, float] = defaultdict(float)
        for test, seconds in self.tests.items():
            files[test.partition("::")[0]] += seconds
        terminalreporter.section(f"core seconds: {sum(files.values()):.1f}")
        for found in (files, self.tests):
            for name, seconds in sorted(found.items(), key=lambda pair: -pair[1])[:40]:
                terminalreporter.line(f"{seconds:8.2f} {name}")
            terminalreporter.line("")


def core_seconds(root: int) -> float:
    """What a process and those below it took, the ended ones too."""
    found = {process: (parent, ticks) for process, parent, ticks in _processes()}
    children = defaultdict(list)
    for process, (parent, _) in found.items():
        children[parent].append(process)
    todo, total = [root], 0
    while todo:
        process = todo.pop()
        total += found.get(process, (0, 0))[1]
        todo += children[process]
    return total / TICK


def _processes() -> Iterator[tuple[int, int, int]]:
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat") as stat:
                    fields = stat.read().rpartition(")")[2].split()
            except OSError:
                continue
            yield int(name), int(fields[1]), sum(int(field) for field in fields[11:15])


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Cost(), "cost-of-tests")
