"""Record what Apache Paimon compacts: `python -m tests.corpus.make_picks [--only NAME ...] [--keep-others]`.

Sizes and times differ from run to run, so a new archive is a new corpus. `--keep-others` replaces only the tables named.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.corpus import picks
from tests.corpus.pick_cases import CASES, DATABASE, Case
from tests.corpus.picks import FIELDS, Change, Place, Step, Trace
from tests.peers.flink import FlinkPaimon

import bucketlake
from bucketlake.format.metadata.manifest import FileKind
from bucketlake.format.metadata.snapshot import CommitKind, Snapshot
from bucketlake.format.row.binary_row import decode_row, without_arity_header
from bucketlake.ops.scan.scan import delta_entries
from bucketlake.ops.table.store import Store
from bucketlake.types.model import BIGINT


class _Recorder:
    """Turns the snapshots of one table into steps; files are named f0, f1, … in the order of their appearance."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.places: list[Place] = []
        self.next_snapshot = 1
        self._names: dict[str, str] = {}
        self._marked: list[str] = []
        self._now = 0

    def step(self, kind: str) -> Step:
        """What the snapshots made since the last call did: one APPEND and one COMPACT at most."""
        changes: dict[CommitKind, Change] = {}
        marked = self._marked
        while (snapshot := self.store.find_snapshot(self.next_snapshot)) is not None:
            if snapshot.commit_kind in changes:
                raise ValueError(f"snapshot {snapshot.id}: a second {snapshot.commit_kind} of one statement")
            changes[snapshot.commit_kind] = self._change(snapshot)
            self._marked = [
                self._name(found.data_file_name)
                for entry in self.store.index_manifest(snapshot)
                for found in entry.file.dv_ranges or ()
            ]
            self._now, self.next_snapshot = snapshot.time_millis, snapshot.id + 1
        return Step(kind, self._now, changes.get(CommitKind.APPEND), changes.get(CommitKind.COMPACT), marked)

    def _change(self, snapshot: Snapshot) -> Change:
        change = Change()
        for entry in delta_entries(self.store, snapshot):
            place = (entry.partition.hex(), entry.bucket)
            if place not in self.places:
                self.places.append(place)
            row: list[Any] = [self.places.index(place), self._name(entry.file.file_name), entry.file.level]
            if entry.kind == FileKind.DELETE:
                change.removed.append(row)
                continue
            for name in FIELDS:
                value = getattr(entry.file, name)
                row.append(decode_row(without_arity_header(value), [BIGINT])[0] if name.endswith("_key") else value)
            change.added.append(row)
        return change

    def _name(self, name: str) -> str:
        return self._names.setdefault(name, f"f{len(self._names)}")


def record(flink: FlinkPaimon, warehouse: Path, case: Case) -> Trace:
    """Run a case's statements on Flink and record what they committed."""
    flink.run([f"CREATE DATABASE IF NOT EXISTS {DATABASE}", f"USE {DATABASE}", case.create()])
    table = bucketlake.open(str(warehouse)).table(f"{DATABASE}.{case.name}")
    recorder, steps = _Recorder(table.store), []
    for kind, statement in case.statements():
        flink.sql(statement)
        step = recorder.step(kind)
        if step.append or step.compact or not kind.startswith("write"):
            steps.append(step)
    return Trace(case.name, case.covers, dict(case.options), recorder.places, steps)


def main(arguments: Sequence[str]) -> int:
    """Record the cases; 1 if the policy differs from a record."""
    parser = argparse.ArgumentParser(description="Record what Apache Paimon compacts.")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="record these tables")
    parser.add_argument("--keep-others", action="store_true", help="leave the archive's other tables")
    given = parser.parse_args(arguments)
    made = {trace.name: trace for trace in picks.traces()} if given.keep_others and picks.ARCHIVE.exists() else {}
    failed = 0
    with tempfile.TemporaryDirectory(prefix="picks-") as folder, FlinkPaimon(folder) as flink:
        for case in [case for case in CASES if not given.only or case.name in given.only]:
            start = time.monotonic()
            trace = record(flink, Path(folder), case)
            differences = picks.replay(trace)
            print(
                f"{case.name}: {trace.compactions} of {len(trace.steps)}, {time.monotonic() - start:.1f} s", flush=True
            )
            print(*differences[:3], sep="\n", end="\n" if differences else "")
            failed |= bool(differences)
            made[case.name] = trace
            picks.save(made[case.name] for case in CASES if case.name in made)
    print(f"{picks.ARCHIVE.name}: {picks.ARCHIVE.stat().st_size} bytes", file=sys.stderr)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
