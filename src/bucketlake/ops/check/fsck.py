"""Checking a table: from its metadata alone down to every row.

    fsck(store, FsckRequest(level, partitions, snapshot), run=run_here, on_progress=None) -> Report

metadata   roots, hints, schemas, manifests, which files are there, what metadata says of the live ones
footers    and every live file's footer, deletion vectors, hash and file indexes
keys       and every key: order, bucket, range, sequence numbers, whether it is anywhere twice
rows       and every value of every column, and changelog files

A damaged file becomes a finding; only a storage that fails raises. Nothing is changed. What expires or is committed
meanwhile is not told of: files of snapshots that are gone are not missing.

Spec: docs/maintenance.md#levels
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from bucketlake.errors import BucketlakeError, InvalidError, NotFoundError
from bucketlake.ops.check.crossing import PlaceUnit, check_places, place_units
from bucketlake.ops.check.existence import check_chain, check_existence, check_unknown
from bucketlake.ops.check.faults import LEVELS
from bucketlake.ops.check.findings import Finding, Findings, Report, shown
from bucketlake.ops.check.inventory import Inventory
from bucketlake.ops.check.layout import Layout, check_layout, check_sequences, check_vectors_stay, layout_of
from bucketlake.ops.check.reach import Reach
from bucketlake.ops.check.roots import SNAPSHOT, Root, attempted, find_roots
from bucketlake.ops.check.unit import CheckUnit
from bucketlake.ops.check.units import UnitResult, check_unit, units_of
from bucketlake.ops.progress import Meter, OnProgress
from bucketlake.ops.scan.scan import changelog_entries
from bucketlake.ops.table.parallel import parallel
from bucketlake.ops.table.partitions import PartitionFilter
from bucketlake.ops.table.store import Store
from bucketlake.paths import MAIN
from bucketlake.values import dataclass

T = TypeVar("T")
Run = Callable[[Callable[[Any], Any], Sequence[Any]], list[Any]]  # the results of an action for each unit, in any order
WAVE = 256  # units between two reports of progress


@dataclass(frozen=True, slots=True)
class FsckRequest:
    """What to check. `level`: one of LEVELS; `partitions`: of these only, below the metadata of the whole table;
    `snapshot`: the live files of this one instead of the newest."""

    level: str = "metadata"
    partitions: PartitionFilter | None = None
    snapshot: int | None = None


def run_here(action: Callable[[Any], Any], units: Sequence[Any]) -> list[Any]:
    """Units by threads of this process."""
    return parallel(action, units)


def fsck(store: Store, request: FsckRequest, run: Run = run_here, on_progress: OnProgress | None = None) -> Report:
    """Check a table, all branches' metadata and the live files of one snapshot; what was found.

    Errors: InvalidError (level), NotFoundError (snapshot), StorageError.
    Spec: docs/maintenance.md#fsck
    """
    check_request(request)
    state = examine(store, request)
    level, findings = request.level, state.findings
    units = [] if level == "metadata" else units_of(store, state.layout, _told(findings))
    others = place_units(store, state.layout.snapshot) if level in ("keys", "rows") else []
    others = others if request.partitions is None else []
    meter = Meter("check", store.paths.root, store.env.clock, on_progress)
    meter.expect(units=len(units) + len(others))
    for start in range(0, len(units), WAVE):
        wave: list[CheckUnit] = units[start : start + WAVE]
        results: list[UnitResult] = run(partial(check_unit, store, level), wave)
        for result in results:
            findings.take_all(result.findings)
        meter.add(len(wave), sum(result.rows for result in results), sum(result.bytes for result in results))
    for start in range(0, len(others), WAVE):
        chosen: list[PlaceUnit] = others[start : start + WAVE]
        for found in run(partial(check_places, store), chosen):
            findings.take_all(found)
        meter.add(len(chosen))
    if level == "rows":
        _check_changelogs(store, state, request)
    done, snapshot, files = meter.finish(), state.layout.snapshot, len(state.layout.entries)
    return Report(level, None if snapshot is None else snapshot.id, findings.listed(), files, done.rows, done.bytes)


def check_request(request: FsckRequest) -> None:
    """InvalidError for a level that is none."""
    if request.level not in LEVELS:
        raise InvalidError("no such level of checking", level=request.level, remedy=f"use one of {', '.join(LEVELS)}")


@dataclass(slots=True)
class State:
    """What metadata shows of a table."""

    reach: Reach
    there: Inventory
    layout: Layout
    findings: Findings


def examine(store: Store, request: FsckRequest) -> State:
    """Check the metadata. Errors as `fsck`."""
    findings = Findings()
    roots = find_roots(store, findings)
    reach = Reach(store.on_branch(MAIN), findings)
    reach.follow_all(roots)
    there = Inventory.of(store)
    check_existence(store, reach, there, findings)
    check_unknown(store, reach, there, findings)
    check_chain(reach, findings)
    check_sequences(reach)
    check_vectors_stay(reach)
    layout = _chosen(store, reach, request)
    check_layout(replace(reach, store=store), layout, whole=request.partitions is None)
    return State(reach, there, layout, findings)


def _chosen(store: Store, reach: Reach, request: FsckRequest) -> Layout:
    """The live files to look at: of the newest snapshot of the handle's branch, or of the one asked for."""
    branch = store.branch_name
    own = [item for item in reach.roots if item[0].branch == branch and item[0].kind == SNAPSHOT]
    if request.snapshot is not None:
        chosen = [item for item in own if item[0].snapshot.id == request.snapshot]
        if not chosen:
            raise NotFoundError("no such snapshot", table=store.paths.root, snapshot=request.snapshot)
    else:
        chosen = own[-1:]
    if not chosen:
        return Layout(None)
    root, names, _ = chosen[0]
    found = layout_of(reach, root, names)
    if request.partitions is None:
        return found
    wanted = request.partitions
    return Layout(
        found.snapshot,
        tuple(entry for entry in found.entries if wanted(entry.partition)),
        tuple(entry for entry in found.indexes if wanted(entry.partition)),
    )


def _told(findings: Findings) -> frozenset[str]:
    """Files that need no further look."""
    codes = ["data-file-missing", "data-file-size", "file-index-missing"]
    codes += [f"{kind}-file-{what}" for kind in ("hash", "vector") for what in ("missing", "size")]
    kept = [finding for code in codes for finding in findings.kept.get(code, ())]
    return frozenset(finding.place.file for finding in kept if finding.place.file is not None)


def _check_changelogs(store: Store, state: State, request: FsckRequest) -> None:
    """Read the footers of changelog files of all snapshots of the handle's branch that are there."""
    told = frozenset(f.place.file for f in state.findings.kept.get("changelog-file-missing", ()))
    for root, _, _ in state.reach.roots:
        if root.kind != SNAPSHOT or root.branch != store.branch_name:
            continue
        entries = attempted(lambda s=root.snapshot: changelog_entries(store, s))  # type: ignore[misc]
        if isinstance(entries, BucketlakeError):
            continue  # told from metadata
        wanted = [e for e in entries if request.partitions is None or request.partitions(e.partition)]
        for entry in wanted:
            for finding in _changelog(store, state, root, entry, told):
                state.findings.take(finding)


def _changelog(store: Store, state: State, root: Root, entry: Any, told: frozenset[str | None]) -> list[Finding]:
    place = state.reach.place(entry, snapshot=root.snapshot.id, holder=root.label)
    if place.file in told:
        return []
    unit = CheckUnit(entry.partition, entry.bucket, entry.total_buckets, (entry.file,))
    found = check_unit(store, "footers", unit)
    broken = [one for one in found.findings if one.code in ("data-file-broken", "row-count", "column-missing")]
    return [Finding("changelog-file-broken", one.cause, place) for one in broken]


__all__ = ["FsckRequest", "Report", "Run", "State", "check_request", "examine", "fsck", "run_here", "shown"]
