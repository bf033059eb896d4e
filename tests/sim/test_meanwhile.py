"""A whole other change between any two calls of a change: what comes out is what one after the other makes, and neither is
half there. Whoever looks and then acts finds here what changes between the two."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from tests.profile import seeds
from tests.sim.storage import FaultStorage, MapStorage
from tests.sim.test_gone import replace_table
from tests.sim.test_interrupted import CHANGES, KINDS, OPTIONS, SCHEMA, copied, faults, rows_of, state, through

from bucketlake.catalog import Catalog
from bucketlake.errors import BucketlakeError, NotFoundError
from bucketlake.schema.change import DropColumn, SetOption, UpdateColumnDefault, UpdateColumnType

BOTH: dict[str, Callable[[Catalog], Any]] = {
    **CHANGES,
    "overwrite partition": lambda c: c.table("t").write_arrow(rows_of([7], 7), mode="overwrite", partition={"p": 1}),
    "replace rows": lambda c: c.table("t").write_arrow(rows_of([3, 4], 9)),
    "drop column": lambda c: c.table("t").alter(DropColumn("v")),
    "option": lambda c: c.table("t").alter(SetOption("snapshot.num-retained.max", "70")),
    "rescale": lambda c: c.table("t").rescale(3),
    "compact due": lambda c: c.table("t").compact(),
    "cluster": lambda c: c.table("t").compact(order_by="v", order_strategy="order"),
    "expire changelogs": lambda c: c.table("t").expire_changelogs(everything=True),
    "materialize": lambda c: c.table("t").materialize_deletion_vectors(),
    "update": lambda c: c.table("t").update({"v": 8}, "k = 4"),
    "rollback": lambda c: c.table("t").rollback_to(1),
    "rollback to tag": lambda c: c.table("t").rollback_to("v2"),
    "expire to two": lambda c: c.table("t").expire_snapshots(retain_max=2, retain_min=1),
    "delete tag": lambda c: c.table("t").delete_tag("v1"),
    "delete branch": lambda c: c.table("t").delete_branch("dev"),
    "branch": lambda c: c.table("t").create_branch("new"),
    "branch of tag": lambda c: c.table("t").create_branch("old", "v1"),
    "fast forward": lambda c: c.table("t").fast_forward("dev"),
    "write branch": lambda c: c.table("t").with_options(branch="dev").write_arrow(rows_of([6], 6)),
    "retype": lambda c: c.table("t").alter(UpdateColumnType("v", "DOUBLE")),
    "default": lambda c: c.table("t").alter(UpdateColumnDefault("v", "5")),
    "replace table": replace_table,
    "repair": lambda c: c.table("t").repair(c.table("t").fsck(), dry_run=False),
    "drop": lambda c: c.drop_table("t"),
}
BACKWARDS = {"rollback", "rollback to tag", "rollback as latest", "fast forward"}
State = dict[str, list[tuple[Any, ...]]] | None
POINTS = 12  # of a change's calls, in one seed


def became(storage: MapStorage) -> State:
    """What `state` says; None where the table is gone."""
    return state(storage) if through(storage).table_exists("t") else None


def done(change: Callable[[Catalog], Any], storage: Any) -> bool:
    """Whether a change succeeds."""
    try:
        change(through(storage))
    except BucketlakeError:
        return False
    return True


def in_turn(kind: str, *changes: Callable[[Catalog], Any]) -> State:
    storage = copied(kind)
    for change in changes:
        done(change, storage)
    return became(storage)


def _rows(found: State) -> list[tuple[Any, ...]] | None:
    return None if found is None else found[""]


@pytest.mark.parametrize("seed", seeds(10, 20_000))
def test_what_comes_out_is_what_one_after_the_other_makes(seed: int) -> None:
    chance = Random(seed)
    kind, first, second = chance.choice(list(KINDS)), chance.choice(list(BOTH)), chance.choice(list(BOTH))
    change, other = BOTH[first], BOTH[second]
    plain = FaultStorage(copied(kind))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what was given up behind a commit
        if not done(change, plain) or not done(other, copied(kind)):
            return  # not of this kind of table
        before, alone, beside = in_turn(kind), in_turn(kind, change), in_turn(kind, other)
        serial = [in_turn(kind, change, other), in_turn(kind, other, change)]
        for at in sorted(chance.sample(range(len(plain.calls)), min(POINTS, len(plain.calls)))):
            storage = copied(kind)
            begun: list[int] = []
            went: list[bool] = []

            def meanwhile(k: int, operation: str, path: str, storage: MapStorage = storage, at: int = at) -> None:
                if k == at and not begun:  # what a stream does counts as its opening
                    begun.append(k)
                    went.append(done(other, storage))
                    through(storage)  # forgets what was read

            ended = done(change, FaultStorage(storage, meanwhile))
            if not ended and first == "fast forward":  # it says that it is to be called again
                ended = done(change, storage)
            said = f"seed {seed}: {kind}, {first} and at call {at}, {plain.calls[at]}, {second}; {ended}, {went}"
            try:
                now = became(storage)
            except NotFoundError as error:
                raise AssertionError(f"{said}: {error}") from error
            wanted = [*serial, *([] if ended else [beside]), *([] if went == [True] else [alone])]
            if {first, second} <= BACKWARDS:  # either may have read what the other takes away, and be the last
                wanted += [alone, beside]
            assert _rows(now) in [_rows(one) for one in wanted], f"{said}\nnow    {now}\nwanted {wanted}"
            known = [before, alone, beside, *serial]
            for name, rows in (now or {}).items():  # of what was renamed while it was replaced both are left
                assert rows in [(one or {}).get(name) for one in known], f"{said}\n{name} {rows}\nknown {known}"
            if now is not None:
                # A rollback that is refused only where it has begun leaves what it was to go back to.
                left = [one for one in faults(storage) if ended or "snapshot-zombie" not in one]
                assert not left, f"{said}: {left}"
            else:  # nothing that a table of its name would take for its own
                left = [one for one in storage.files if "/schema/" in one or "/snapshot/snapshot-" in one]
                assert not left, f"{said} {left}"


@pytest.mark.parametrize("take", ["merge branch", "fast forward"])
def test_a_branch_is_taken_over_while_its_rows_are_replaced_and_expire(take: str) -> None:
    """What was read of it was published though its files were gone: nothing of the table could be read any more."""
    made = MapStorage()
    table = through(made).create_table("t", SCHEMA, ["p"], [], {**OPTIONS, "bucket": "-1"})
    table.write_arrow(rows_of([1, 2], 1))
    table.create_tag("v1", 1)
    table.create_branch("dev", "v1")
    table.with_options(branch="dev").write_arrow(rows_of([9], 3))
    table.with_options(branch="dev").create_tag("theirs")
    table.write_arrow(rows_of([4], 1))

    def expire(catalog: Catalog) -> None:
        branch = catalog.table("t").with_options(branch="dev")
        branch.write_arrow(rows_of([77], 7), mode="overwrite")
        branch.truncate()
        branch.expire_snapshots(retain_max=1, retain_min=1)
        branch.delete_tag("theirs")

    def copy() -> MapStorage:
        storage = MapStorage()
        storage.files = dict(made.files)
        return storage

    plain = FaultStorage(copy())
    BOTH[take](through(plain))
    for at in range(0, len(plain.calls), 5):
        storage, went = copy(), list[bool]()

        def meanwhile(k: int, operation: str, path: str, storage: MapStorage = storage, at: int = at, went: Any = went):  # type: ignore[no-untyped-def]
            if k == at and not went:
                went.append(True)
                assert done(expire, storage)
                through(storage)

        ended = done(BOTH[take], FaultStorage(storage, meanwhile))
        found = through(storage).table("t")
        for number in found.store.snapshot_ids():
            assert found.to_arrow(scan_snapshot_id=number) is not None, f"{at} {plain.calls[at]}: {ended}"
        state(storage)


def test_a_branch_that_is_deleted_while_it_expires_is_gone() -> None:
    """The hint where its history begins made its folder anew: a branch that could be neither opened nor made again."""

    def expire(catalog: Catalog) -> None:
        catalog.table("t").with_options(branch="dev").expire_snapshots(retain_max=1, retain_min=1)

    plain = FaultStorage(copied("append"))
    expire(through(plain))
    for at in range(len(plain.calls) * 3 // 4, len(plain.calls)):
        storage, went = copied("append"), list[bool]()

        def meanwhile(k: int, operation: str, path: str, storage: MapStorage = storage, at: int = at, went: Any = went):  # type: ignore[no-untyped-def]
            if k == at and not went:
                went.append(done(lambda catalog: catalog.table("t").delete_branch("dev"), storage))
                through(storage)

        done(expire, FaultStorage(storage, meanwhile))
        assert went != [True] or not through(storage).table("t").branches(), plain.calls[at]
