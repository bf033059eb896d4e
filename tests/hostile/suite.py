"""Runs cases of damage in child processes and counts what comes of them.

python -m tests.hostile.suite <cases> [seed] [processes]        a long run, with its counts as a table
"""

from __future__ import annotations

import json
import os
import random
import select
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.hostile import tables
from tests.hostile.damage import DAMAGES
from tests.hostile.forge import forgeries

SECONDS = 20.0  # a case that takes longer hangs; most take milliseconds
START = 120.0
SAYING_ELSE = (
    "avro_record",
    "json_value",
    "avro_container",
    "deletion_vector",
    "parquet_footer",
    "orc_footer",
)  # as a whole it fits
# Nothing sums up their values; of blob files not the lengths, of which the last can be a null's or a placeholder's.
WITHOUT_CHECKSUM = ("parquet data", "orc data", "avro data", "schema", "manifest", "blob data")
ROOT = Path(__file__).parents[2]


def kind_of(path: Path) -> str | None:
    """What a file of a table is; None for what no reader depends on."""
    name, folder = path.name, path.parent.name
    if folder == "manifest":
        starts = (("manifest-list-", "manifest list"), ("index-manifest-", "index manifest"), ("manifest-", "manifest"))
        return next(kind for start, kind in starts if name.startswith(start))
    if folder in ("snapshot", "schema", "tag", "consumer", "statistics"):
        return "hint" if name in ("LATEST", "EARLIEST") else folder
    if "-global-index-" in name:
        return "global index"
    if folder == "index":
        return "hash index" if "dynamic" in path.parts else "deletion vectors"
    if name.endswith(".index"):
        return "file index"
    return f"{path.suffix[1:]} data" if name.startswith("data-") else None


@dataclass
class Counts:
    """Outcomes by kind of file, and the cases that must not be."""

    by_kind: dict[str, Counter[str]] = field(default_factory=dict)
    failures: list[dict[str, Any]] = field(default_factory=list)

    def add(self, case: dict[str, Any], result: dict[str, Any]) -> None:
        """Count one case."""
        outcome = result["outcome"]
        if outcome == "same":
            return
        self.by_kind.setdefault(case["kind"], Counter())[outcome] += 1
        if not allowed(case, outcome):
            self.failures.append({**case, **result})

    def table(self) -> str:
        """The counts as a table in Markdown."""
        names = ["as written", "named", "other", "fewer", "unnamed", "raw", "panic", "death", "hang"]
        lines = ["| file | cases | " + " | ".join(names) + " |", "|---" * (len(names) + 2) + "|"]
        whole: Counter[str] = sum(self.by_kind.values(), Counter())
        for kind, found in [*sorted(self.by_kind.items()), ("all", whole)]:
            lines.append(f"| {kind} | {found.total()} | " + " | ".join(str(found[name]) for name in names) + " |")
        return "\n".join(lines)


def allowed(case: dict[str, Any], outcome: str) -> bool:
    """Whether an outcome keeps what docs/reliability.md promises."""
    if outcome in ("as written", "named"):
        return True
    if case["how"] in SAYING_ELSE:  # well-formed metadata that says something else: not told from the truth
        return outcome in ("other", "fewer")
    holds_filters = case["kind"] == "file index" or (case["kind"] == "manifest" and case["table"] == "indexed")
    if holds_filters:  # neither has a checksum, and a bit of a filter decides what is read
        return outcome in ("other", "fewer")
    return outcome == "other" and case["kind"] in WITHOUT_CHECKSUM


def cases(warehouse: Path, count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Cases over all files of all tables; every kind of file is hit equally often."""
    rng = random.Random(seed)
    files: dict[str, list[tuple[str, str]]] = {}
    for path in sorted(warehouse.rglob("*")):
        place = path.relative_to(warehouse)
        kind = kind_of(place) if path.is_file() else None
        if kind is not None:
            files.setdefault(kind, []).append((place.parts[1], str(place)))
    kinds = sorted(files)
    for number in range(count):
        kind = kinds[number % len(kinds)]
        table, path = rng.choice(files[kind])
        ways = forgeries(path, kind)
        how = rng.choice(ways if ways and rng.random() < 0.4 else sorted(DAMAGES))
        yield {"kind": kind, "table": table, "path": path, "how": how, "seed": rng.randrange(1 << 30)}


class Child:
    """One process that answers cases; started anew when it dies or hangs."""

    def __init__(self, warehouse: Path, scratch: Path) -> None:
        self._warehouse, self._scratch = warehouse, scratch
        self._process: subprocess.Popen[str] | None = None
        self._number = 0

    def ask(self, case: dict[str, Any]) -> dict[str, Any]:
        """The outcome of a case."""
        process = self._process or self._start()
        assert process.stdin is not None
        process.stdin.write(json.dumps(case) + "\n")
        process.stdin.flush()
        answer = self._line(SECONDS)
        if answer is None:
            outcome = "hang" if process.poll() is None else "death"
            self.close()
            return {"outcome": outcome, "detail": str(process.returncode)}
        found: dict[str, Any] = json.loads(answer)
        return found

    def _start(self) -> subprocess.Popen[str]:
        self._number += 1
        command = [sys.executable, "-m", "tests.hostile.child", str(self._warehouse)]
        self._process = subprocess.Popen(
            [*command, str(self._scratch / str(self._number))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=ROOT,
            env={**os.environ, "OMP_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1", "RUST_BACKTRACE": "0"},
        )
        assert self._line(START) is not None, "the child does not start"
        return self._process

    def _line(self, seconds: float) -> str | None:
        assert self._process is not None and self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], seconds)
        line = self._process.stdout.readline() if ready else ""
        if ready and not line:
            self._process.wait()
        return line or None

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def run(warehouse: Path, wanted: Sequence[dict[str, Any]], scratch: Path, processes: int = 1) -> Counts:
    """What comes of the cases."""
    counts = Counts()

    def one(share: int) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        child = Child(warehouse, scratch / f"child-{share}")
        (scratch / f"child-{share}").mkdir()
        try:
            return [(case, child.ask(case)) for case in wanted[share::processes]]
        finally:
            child.close()

    with ThreadPoolExecutor(processes) as pool:
        for found in pool.map(one, range(processes)):
            for case, result in found:
                counts.add(case, result)
    return counts


def prepared(folder: Path) -> list[Path]:
    """The tables twice: with the sizes recorded, and without."""
    whole, bare = folder / "sized", folder / "unsized"
    for place in (whole, bare):
        tables.make(place)
    tables.unsized(bare)
    return [whole, bare]


def main(count: int, seed: int = 1, processes: int = 1) -> None:
    """A long run."""
    for number in range(2):
        with tempfile.TemporaryDirectory(prefix="hostile-") as name:
            folder = Path(name)
            warehouse = prepared(folder)[number]
            counts = run(warehouse, list(cases(warehouse, count // 2, seed + number)), folder, processes)
        print(f"\n{('sized', 'unsized')[number]}\n\n{counts.table()}\n", flush=True)
        for failure in counts.failures:
            print(json.dumps(failure), file=sys.stderr, flush=True)


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:4]))
