"""`compact`, `rescale`, `cluster`, `expire`, `orphans`: a table's files in better shape, and fewer of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Annotated, Any

from bucketlake.amounts import size_text
from bucketlake.cli.answer import Facts, UsageError, columns
from bucketlake.cli.command import CHANGING, add
from bucketlake.cli.grammar import Group, Option
from bucketlake.cli.output import confirmed
from bucketlake.cli.progress import Drawn
from bucketlake.cli.text import clean, count
from bucketlake.cli.warehouse import OfTable, Where, millis_of, pairs_of
from bucketlake.errors import InvalidError
from bucketlake.lazy import lazy
from bucketlake.options.options import option_keys

if TYPE_CHECKING:
    from bucketlake.cli.shell import running
    from bucketlake.env import rehearsal
    from bucketlake.env.rehearsal import Rehearsal
    from bucketlake.format.metadata.snapshot import Snapshot
    from bucketlake.ops.check import remedy
    from bucketlake.options import options as known_options
    from bucketlake.table import Table
else:
    running = lazy("bucketlake.cli.shell.running")
    rehearsal = lazy("bucketlake.env.rehearsal")
    remedy = lazy("bucketlake.ops.check.remedy")
    known_options = lazy("bucketlake.options.options")


class Changing(OfTable):
    """A command that commits to a table; after Ctrl-C it says what was committed."""

    def started(self) -> Table:
        """The table, and from now on what is committed to it is what the command did."""
        found = self.plain_table()
        self.__dict__["_before"] = (found, _newest(found))
        return found

    def kept(self) -> str:
        """The snapshots since the command began."""
        before = self.__dict__.get("_before")
        if before is None or "_left" in self.__dict__:
            return super().kept()
        found, number = before
        newest = _newest(found)
        if newest == number:
            return "nothing was committed"
        return f"what was finished is committed: {found.name} is at snapshot {newest}, and was at {number}"


def _newest(found: Table) -> int:
    """The newest snapshot's number, 0 before the first commit; also where its file is damaged, for `fsck` to say so."""
    return found.store.newest_id() or 0


class Rewriting(Changing, Where):
    """A command that writes files anew."""

    partition: Annotated[
        list[str] | None,
        Option("--partition", "-p", metavar="SPEC", help="Only of this partition: dt=2026-01-01,hour=5."),
    ] = None
    option: Annotated[
        list[str] | None, Option("--option", metavar="KEY=VALUE", help="An option of the table, for this run.")
    ] = None
    spark: Annotated[bool, Option("--spark", help="Start Spark, and let its tasks do the work.")] = False

    def partitions(self) -> list[dict[str, str]] | None:
        """The partitions said; None: all."""
        if not self.partition:
            return None
        return [pairs_of(one.replace("/", ",").split(","), "--partition") for one in self.partition]

    def said_options(self) -> dict[str, str]:
        """The options said, by their keys; InvalidError for another argument of the call."""
        return option_keys(pairs_of(self.option, "--option"))

    @contextmanager
    def handle(self, found: Table) -> Iterator[Any]:
        """What does the work: the table itself, or its handle on a Spark that lasts as long as the block."""
        if not self.spark:
            yield found
            return
        lake = running.Start(self.warehouse, None, {}).lake()  # beside: its client would tell Ctrl-C by traces
        try:
            yield lake.table(self.named())
        finally:
            lake.spark.stop()


class Compact(Rewriting):
    """What `compact` takes."""

    minor: Annotated[
        bool, Option("--minor", help="Only what the table's policy picks, not everything into one sorted run.")
    ] = False
    order_by: Annotated[
        str | None, Option("--order-by", metavar="COLUMNS", help="Append tables: rows in this order.")
    ] = None
    order: Annotated[str | None, Option("--order", metavar="NAME", help="order, zorder or hilbert.")] = None


def compact(given: Compact) -> Facts:
    """Merge a table's files.

    Sorted runs of a primary-key table into one, small files of an append table into larger ones. What is finished is
    committed on the way, so Ctrl-C loses little.
    """
    if given.order and not given.order_by:
        raise UsageError("which columns?", remedy="add --order-by COLUMNS")
    order = {"order_strategy": given.order} if given.order else {}

    def run(handle: Any) -> Snapshot | None:
        asked = {"partitions": given.partitions(), "where": given.where, "order_by": given.order_by, **order}
        full = False if given.minor else None
        done: Snapshot | None = handle.compact(full=full, on_progress=Drawn(), **asked, **given.said_options())
        return done

    return _rewritten(given, run, "compact")


class Cluster(Rewriting):
    """What `cluster` takes."""

    by: Annotated[str, Option("--by", metavar="COLUMNS", help="Columns that rows are often looked up by.")]
    order: Annotated[str, Option("--order", metavar="NAME", help="order (one column), zorder (some) or hilbert.")] = (
        "zorder"
    )


def cluster(given: Cluster) -> Facts:
    """Sort rows, so that queries skip files."""

    def run(handle: Any) -> Snapshot | None:
        asked = {"partitions": given.partitions(), "where": given.where, "order_by": given.by}
        done: Snapshot | None = handle.compact(
            on_progress=Drawn(), order_strategy=given.order, **asked, **given.said_options()
        )
        return done

    return _rewritten(given, run, "cluster")


class Rescale(Rewriting):
    """What `rescale` takes."""

    buckets: Annotated[
        int | None, Option("--buckets", "-b", metavar="N", help="The new number; the option bucket by default.")
    ] = None


def rescale(given: Rescale) -> Facts:
    """Change the number of buckets.

    Of the whole table or of some partitions, while others read and write. The
    option bucket stays: set it, too, as writers go by it.
    """

    def run(handle: Any) -> Snapshot | None:
        asked = {"partitions": given.partitions(), "where": given.where, **given.said_options()}
        done: Snapshot | None = handle.rescale(given.buckets, on_progress=Drawn(), **asked)
        return done

    found = given.plain_table()
    own = found.schema.bucket
    wanted = own if given.buckets is None else given.buckets
    if wanted == own and {file.total_buckets for file in found.files()} == {own}:
        return _rescaled_already(given, found)
    told = _rewritten(given, run, "rescale")
    if told.values["snapshot"] is None:
        return told
    more = [f"each partition that was rescaled has {count(wanted, 'bucket')} now"]
    if own > 0 and wanted != own:
        step = remedy.set_options(found.name, {"bucket": str(given.buckets)})
        more += [
            f"the option bucket is {own}, and writers refuse what has another number of buckets: set it, too",
            f"  do: {remedy.command_line(step, given.place)}",
        ]
    return replace(told, text=[*(told.text or ()), *map(clean, more)])


def _rescaled_already(given: Rescale, found: Table) -> Facts:
    """Nothing: a rewrite into the number that every partition has would cost as much and change nothing."""
    files, size = _extent(found)
    told = f"rescale {found.name}: nothing to do, each partition has {count(found.schema.bucket, 'bucket')} already"
    do = "" if given.buckets is not None else "  do: name another number, --buckets N"
    values = {"table": found.name, "snapshot": None, "seconds": 0.0}
    values |= {"files_before": files, "files": files, "bytes_before": size, "bytes": size}
    return Facts(values, text=[clean(line) for line in (told, do) if line])


def _rewritten(given: Rewriting, run: Callable[[Any], Snapshot | None], what: str) -> Facts:
    found = given.started()
    clock = found.store.env.clock
    began, before = clock.now_millis(), _extent(found)
    with given.handle(found) as handle:
        snapshot = run(handle)
    after = _extent(found.refresh())
    seconds = (clock.now_millis() - began) / 1000
    values = {
        "table": found.name,
        "snapshot": None if snapshot is None else snapshot.id,
        "files_before": before[0],
        "files": after[0],
        "bytes_before": before[1],
        "bytes": after[1],
        "seconds": seconds,
    }
    if snapshot is None:
        return Facts(values, text=[clean(f"{what} {found.name}: nothing to do")])
    told = f"{what} {found.name}: snapshot {snapshot.id}, {count(before[0], 'file')} -> {after[0]:,}"
    return Facts(values, text=[clean(f"{told}, {size_text(before[1])} -> {size_text(after[1])}, {seconds:.1f}s")])


def _extent(found: Table) -> tuple[int, int]:
    """Files and bytes of the newest snapshot."""
    planned = found.plan()
    return sum(len(part.entries) for _, part in planned.parts(found.store)), planned.size


# ---- what is not needed any more


class Removing(Changing):
    """A command that removes files."""

    older_than: Annotated[
        str | None,
        Option("--older-than", metavar="TIME", help="2026-01-31 10:00:00, or an age: '7 d', '12 h'."),
    ] = None
    dry_run: Annotated[bool, Option("--dry-run", help="Only say what would go.")] = False
    yes: Annotated[bool, Option("--yes", "-y", help="Do not ask.")] = False

    def before(self) -> datetime | None:
        """The time that `--older-than` means."""
        if self.older_than is None:
            return None
        try:
            age = known_options.parse_duration(self.older_than) if not self.older_than.strip().isdecimal() else None
        except InvalidError:
            age = None
        now = self.catalog.env.clock.now_millis()
        millis = millis_of(self.older_than, ", or an age: '7 d', '12 h'") if age is None else now - age
        return datetime.fromtimestamp(millis / 1000, timezone.utc)

    def rehearsing(self, found: Table) -> tuple[Table, Rehearsal]:
        """The table on a storage on which nothing happens, and what would have happened."""
        env, notes = rehearsal.rehearsed(found.store.env)
        return replace(found, store=replace(found.store, env=env)), notes


class Expire(Removing):
    """What `expire` takes."""

    what: Annotated[
        str | None,
        Option("--only", metavar="WHAT", help="snapshots, changelogs, tags or partitions; by default all due."),
    ] = None
    retain_max: Annotated[int | None, Option("--retain-max", metavar="N", help="Keep at most this many.")] = None
    retain_min: Annotated[int | None, Option("--retain-min", metavar="N", help="Keep at least this many.")] = None
    max_deletes: Annotated[int | None, Option("--max-deletes", metavar="N", help="Remove at most this many.")] = None


EXPIRES = ("snapshots", "changelogs", "tags", "partitions")


def expire(given: Expire) -> Facts:
    """Remove snapshots, changelogs, tags, partitions that are due.

    What is due say the table's options; files that nothing else needs go with it.
    --older-than, --retain-max and --retain-min take the place of the options on snapshots and changelogs.
    """
    kinds = EXPIRES if given.what is None else tuple(one.strip() for one in given.what.split(","))
    strange = [one for one in kinds if one not in EXPIRES]
    if strange:
        raise UsageError("nothing of this name expires", only=strange[0], remedy=f"one of {', '.join(EXPIRES)}")
    found = given.started()
    if given.what is None and not _expires_partitions(found):
        kinds = kinds[:3]
    rehearsed, notes = given.rehearsing(found)
    if given.dry_run or not given.yes:
        values = _expired(given, rehearsed, kinds, Drawn("look at"))
        values |= {"bytes": notes.bytes, "dry_run": True}
        if not _any(values):
            return Facts(values, text=[clean(_told(values)), *_kept_by_consumers(found, given)])
        if given.dry_run:
            return Facts(values, text=[clean(f"would remove {_told(values)}"), *_at_once(found, given, values)])
        confirmed(f"Remove {_told(values)} of {found.name}?", given.yes)
    given.begin("what was removed is gone; the same command removes the rest")
    values = _expired(given, found, kinds, Drawn())
    values |= {"bytes": notes.bytes if notes.removed else None, "dry_run": False}
    if not _any(values):
        return Facts(values, text=[clean(_told(values)), *_kept_by_consumers(found, given)])
    return Facts(values, text=[clean(f"removed {_told(values)}"), *_at_once(found, given, values)])


def _at_once(found: Table, given: Expire, values: dict[str, Any]) -> list[str]:
    """That there may be more, where a bound that nobody named ended it."""
    most = found.options.get("snapshot.expire.limit")
    if given.max_deletes is not None or values["snapshots"] < most:
        return []
    return ["  that is the most at once (snapshot.expire.limit): the same command, or --max-deletes, removes more"]


def _kept_by_consumers(found: Table, given: Expire) -> list[str]:
    """Why nothing may be due: who is still to read it."""
    name, following = min(found.consumers().items(), key=lambda one: one[1], default=("", None))
    if following is None or not following.snapshots:
        return []
    told = f"consumer {name} reads snapshot {following.next_snapshot} next: this and all later ones stay for it"
    return [clean(told), clean(f"  do: {given.said('consumers')}")]


def _any(values: dict[str, Any]) -> bool:
    return any(values[kind] for kind in EXPIRES)


def _expires_partitions(found: Table) -> bool:
    return found.options.get("partition.expiration-time") is not None and bool(found.schema.partition_keys)


def _expired(given: Expire, found: Table, kinds: tuple[str, ...], drawn: Drawn) -> dict[str, Any]:
    limits = (given.retain_max, given.retain_min, given.before(), given.max_deletes)
    values: dict[str, Any] = {"table": found.name, "snapshots": 0, "changelogs": 0, "tags": [], "partitions": []}
    files = 0
    if "partitions" in kinds:
        gone = found.expire_partitions(on_progress=drawn)
        values["partitions"] = ["/".join(f"{name}={value}" for name, value in one.items()) for one in gone]
    if "tags" in kinds:
        values["tags"] = found.expire_tags(given.before() if given.what == "tags" else None)
    if "snapshots" in kinds:
        done = found.expire_snapshots(*limits, on_progress=drawn)
        values["snapshots"], files = done.snapshots, files + done.files
    if "changelogs" in kinds:
        done = found.expire_changelogs(*limits, on_progress=drawn)
        values["changelogs"], files = done.changelogs, files + done.files
    return {**values, "files": files}


def _told(values: dict[str, Any]) -> str:
    parts = [count(values[kind], kind[:-1]) for kind in ("snapshots", "changelogs") if values[kind]]
    parts += [
        f"{count(len(values[kind]), kind[:-1])} ({', '.join(values[kind])})" for kind in EXPIRES[2:] if values[kind]
    ]
    if not parts:
        return "nothing to remove"
    return f"{', '.join(parts)} with {count(values['files'], 'file')}"


class Orphans(Removing):
    """What `orphans` takes."""


def orphans(given: Orphans) -> Facts:
    """Remove files that nothing in the table refers to.

    Those that are more than a day old, unless --older-than says otherwise: younger ones may be being written.
    """
    found = given.started()
    before = given.before()
    values: dict[str, Any] = {"table": found.name, "dry_run": True}
    if given.dry_run or not given.yes:
        seen = found.remove_orphan_files(before, dry_run=True, on_progress=Drawn("look for orphans"))
        values |= {"files": seen.count, "bytes": seen.size, "paths": list(seen.paths)}
        told = f"{count(seen.count, 'orphan file')}, {size_text(seen.size)}"
        if given.dry_run or not seen.count:
            lines = [f"would remove {told}", *seen.paths] if seen.count else ["no orphan files"]
            return Facts({**values, "dry_run": given.dry_run}, text=[clean(line) for line in lines])
        confirmed(f"Remove {told} of {found.name}?", given.yes)
    given.begin("what was removed is gone; the same command removes the rest")
    done = found.remove_orphan_files(before, on_progress=Drawn())
    values |= {"files": done.count, "bytes": done.size, "paths": list(done.paths), "dry_run": False}
    return Facts(values, text=[f"removed {count(done.count, 'orphan file')}, {size_text(done.size)}"])


REWRITTEN = columns(
    table="its full name",
    snapshot="id: the newest snapshot that the command committed; null where there was nothing to do",
    files_before="count: live data files before",
    files="count: live data files now",
    bytes_before="size: of the files before",
    bytes="size: of the files now",
    seconds="number: how long it took",
)
EXPIRED = columns(
    table="its full name",
    snapshots="count: snapshots that went",
    changelogs="count: changelogs that went",
    tags="list: tags that went",
    partitions="list: partitions that were dropped",
    files="count: files that went with them",
    bytes="size: of these files; null where they were not looked at before",
    dry_run="flag: whether nothing was removed",
)
ORPHANED = columns(
    table="its full name",
    files="count: orphan files",
    bytes="size: their size",
    paths="list: their paths",
    dry_run="flag: whether nothing was removed",
)


def register(app: Group) -> None:
    """Register the family."""
    for run in (compact, rescale, cluster):
        add(app, run, panel=CHANGING, answers=("facts", REWRITTEN))
    add(app, expire, panel=CHANGING, answers=("facts", EXPIRED))
    add(app, orphans, panel=CHANGING, answers=("facts", ORPHANED))
