"""Mending what a check found: in one commit, which can be rolled back; hints and consumers beside it.

    repair(store, findings, RepairRequest(allow, dry_run)) -> Repair(actions, snapshot)

What the table means stays: rows move to where they belong, files are written anew, indexes are built from keys. Where
a run has a key twice the merge engine says what stays, as it would in a compaction. What would lose rows is done for
those codes alone that the caller names in `allow`.

Every attempt is planned on the newest snapshot; where another commit comes between, it is planned again.

Spec: docs/maintenance.md#repair
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from bucketlake.errors import InvalidError
from bucketlake.format.metadata.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind, Snapshot
from bucketlake.format.metadata.statistics import TableStatistics, encode_statistics
from bucketlake.ops.check.faults import FAULTS, Mend
from bucketlake.ops.check.findings import Finding
from bucketlake.ops.check.mending import Draft, Work
from bucketlake.ops.check.roots import attempted
from bucketlake.ops.clean.damaged import begin_behind, begin_changelogs_behind
from bucketlake.ops.commit.conflicts import CommitName
from bucketlake.ops.commit.outcome import Attempt, Attempts
from bucketlake.ops.commit.publish import Publisher, Request
from bucketlake.ops.commit.strays import remove_stray, strays
from bucketlake.ops.refs.rollback import go_back_to_intact
from bucketlake.ops.table.changes import ROWS_STAY_PROPERTY
from bucketlake.ops.table.store import Store
from bucketlake.ops.write.prepare import new_commit_user
from bucketlake.paths import MAIN
from bucketlake.schema.schema import pretty_json
from bucketlake.values import dataclass

__all__ = ["Action", "Repair", "RepairRequest", "repair"]

_IN_COMMIT = (Mend.MERGE, Mend.MOVE, Mend.HASHES, Mend.VECTORS, Mend.TAKE_OUT, Mend.UNMARK, Mend.MANIFESTS)
_MERGING = {"manifest.full-compaction-threshold-size": "1 b", "manifest.merge-min-count": "1"}


@dataclass(frozen=True, slots=True)
class RepairRequest:
    """`allow`: codes whose repair loses what may be wanted, and is to be done all the same. `dry_run`: only say what
    would be done."""

    allow: frozenset[str] = frozenset()
    dry_run: bool = True


@dataclass(frozen=True, slots=True)
class Action:
    """What was done, or would be, about one finding. `state`: "mended", "would mend", "to be named" (only if the code
    is named), "cannot"."""

    finding: Finding
    state: str

    @property
    def mend(self) -> str:
        """How."""
        return self.finding.fault.mend.value


@dataclass(frozen=True, slots=True)
class Repair:
    """`snapshot`: the commit that mended, None where none was needed, or `dry_run`."""

    actions: tuple[Action, ...]
    snapshot: Snapshot | None = None


def repair(store: Store, findings: Sequence[Finding], request: RepairRequest) -> Repair:
    """Mend what can be mended of a report's findings.

    Errors: InvalidError (codes that are none, or need not be named), ConflictError where others kept changing the files
    concerned, and those of a commit: what the commit was to mend is as it was then.
    Spec: docs/maintenance.md#repair
    """
    _check_allowed(request.allow)
    chosen = [one for one in findings if _is_chosen(one, request.allow)]
    snapshot: Snapshot | None = None
    if not request.dry_run:
        _beside(store, chosen)
        snapshot = _committed(store, [one for one in chosen if one.fault.mend in _IN_COMMIT])
    done = "would mend" if request.dry_run else "mended"
    states = {id(one): done for one in chosen}
    actions = tuple(Action(one, states.get(id(one)) or _undone(one)) for one in findings)
    return Repair(actions, snapshot)


def _check_allowed(allow: Collection[str]) -> None:
    for code in sorted(allow):
        fault = FAULTS.get(code)
        if fault is None or not fault.loses:
            named = [one.code for one in FAULTS.values() if one.loses]
            what = "no such fault" if fault is None else "repair of this fault loses nothing, and needs not be named"
            raise InvalidError(what, allow=code, remedy=f"choose from {', '.join(named)}")


def _is_chosen(finding: Finding, allow: Collection[str]) -> bool:
    fault = finding.fault
    return finding.repair != "no" and (not fault.loses or fault.code in allow)


def _undone(finding: Finding) -> str:
    return "cannot" if finding.repair == "no" else "to be named"


# ---------------------------------------------------------------------------------------------- beside the commit


def _beside(store: Store, chosen: Sequence[Finding]) -> None:
    """Hints, consumers, strays: what no snapshot holds; and first of all a newest snapshot."""
    stores = [store.on_branch(name) for name in (MAIN, *store.branches())]
    for finding in sorted(chosen, key=lambda one: one.fault.mend is not Mend.BACK):
        path = finding.place.file or ""
        own = max((one for one in stores if path.startswith(f"{one.paths.meta_root}/")), key=_depth, default=store)
        if finding.fault.mend is Mend.HINTS:
            _write_hint(own, path)
        elif finding.fault.mend is Mend.CONSUMER:
            newest = own.latest_snapshot_id() or 0
            own.env.storage.write(path, pretty_json({"nextSnapshot": newest + 1}).encode())
        elif finding.fault.mend is Mend.BACK:
            go_back_to_intact(own, finding.place.snapshot or 0)
        elif finding.fault.mend is Mend.BEHIND:
            begin_behind(own, finding.place.snapshot or 0)
        elif finding.fault.mend is Mend.CHANGES_BEHIND:
            begin_changelogs_behind(own, finding.place.snapshot or 0)
        elif finding.fault.mend is Mend.STRAYS and finding.place.snapshot in strays(own.snapshot_ids()):
            found = attempted(lambda s=own, f=finding: s.find_snapshot(f.place.snapshot or 0))  # type: ignore[misc]
            if isinstance(found, Snapshot):
                remove_stray(own, found)


def _depth(store: Store) -> int:
    return len(store.paths.meta_root)


def _write_hint(store: Store, path: str) -> None:
    """The hint as it should be; none where there is nothing to name."""
    paths = store.paths
    changelog = path in (paths.changelog_latest_hint, paths.changelog_earliest_hint)
    ids = store.changelog_ids() if changelog else store.snapshot_ids()
    below = set() if changelog else set(strays(ids))
    ids = [number for number in ids if number not in below]
    if not ids:
        store.env.storage.delete(path)
        return
    wanted = ids[0] if path.endswith("/EARLIEST") else ids[-1]
    store.env.storage.write(path, str(wanted).encode())


# ---------------------------------------------------------------------------------------------- the commit


def _committed(store: Store, findings: Sequence[Finding]) -> Snapshot | None:
    """Publish all that is to be mended as one snapshot, planned anew where it is overtaken."""
    if not findings or store.latest_snapshot() is None:
        return None
    user = new_commit_user(store)
    drafts: list[Draft] = []

    def discard(_: object) -> None:
        for draft in drafts:
            draft.abort()
        drafts.clear()

    def once(attempt: Attempt) -> Snapshot | None:
        newest = attempt.on(store.latest_snapshot())
        if newest is None:
            return None
        draft = Draft(store, newest, Work.of(findings))
        drafts.append(draft)
        changes = draft.changes()
        statistics = _statistics(store, newest, findings)
        manifests = any(one.code in ("manifest-bounds", "manifest-hides") for one in findings)
        if not (changes.table or changes.indexes or statistics or manifests):
            return None
        name = CommitName(0, user, BATCH_COMMIT_IDENTIFIER, draft.kind)
        properties = {ROWS_STAY_PROPERTY: user} if draft.kind is CommitKind.OVERWRITE and not draft.loses else {}
        # the same on any base: what they delete must be live there, which the commit checks
        request = Request(name, lambda _: changes, properties=properties, statistics=statistics, mends=True)
        published = Publisher(_publishing(store, newest, manifests)).publish(request, attempt.outcome)
        draft.tidy()
        return published

    return Attempts(store, discard).run(once)


def _publishing(store: Store, newest: Snapshot, manifests: bool) -> Store:
    """A store that writes all manifests of the base anew, where their bounds lie or one hides a file."""
    if not manifests:
        return store
    largest = max((item.file_size for item in store.data_manifests(newest)), default=0)
    target = max(largest + 1, store.options.get("manifest.target-file-size"))
    return store.with_options({**_MERGING, "manifest.target-file-size": f"{target} b"})


def _statistics(store: Store, newest: Snapshot, findings: Sequence[Finding]) -> str | None:
    """The name of fresh statistics that say nothing, where those of the newest snapshot cannot be carried on."""
    told = {one.place.file for one in findings if one.code.startswith("statistics-")}
    if newest.statistics is None or store.paths.statistics(newest.statistics) not in told:
        return None
    name = f"stat-{store.env.clock.new_uuid()}-0"
    data = encode_statistics(TableStatistics(newest.id, newest.schema_id))
    store.env.storage.write(store.paths.statistics(name), data)
    return name
