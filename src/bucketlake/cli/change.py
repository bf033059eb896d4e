"""`create`, `drop`, `rollback`, `tag …`, `branch …`, `consumer …`: tables and names in history that come and go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from bucketlake.cli.answer import Facts, UsageError, columns
from bucketlake.cli.command import CHANGING, Arguments, add
from bucketlake.cli.grammar import Argument, Group, Option
from bucketlake.cli.maintain import Changing
from bucketlake.cli.output import confirmed
from bucketlake.cli.text import clean, count
from bucketlake.cli.warehouse import (
    InWarehouse,
    OfTable,
    millis_of,
    names_in,
    numbered,
    open_warehouse,
    pairs_of,
    told_options,
)
from bucketlake.errors import AlreadyExistsError, CorruptError, InvalidError, NotFoundError
from bucketlake.lazy import lazy

if TYPE_CHECKING:
    from bucketlake import catalog as catalogs
    from bucketlake.format.metadata.snapshot import Snapshot
    from bucketlake.ops.table.store import Store
    from bucketlake.types import parse
else:
    catalogs = lazy("bucketlake.catalog")
    parse = lazy("bucketlake.types.parse")


class Asking(Arguments):
    """A command that asks before it takes something away."""

    yes: Annotated[bool, Option("--yes", "-y", help="Do not ask.")] = False


class Rehearsing(Asking):
    """A command that can be rehearsed."""

    dry_run: Annotated[bool, Option("--dry-run", help="Only say what would go.")] = False


# ---- tables


class Create(InWarehouse):
    """What `create` takes."""

    name: Annotated[str, Argument(metavar="TABLE", help="db.table; its database is made if it is missing.")]
    columns: Annotated[
        str, Option("--columns", "-c", metavar="LIST", help="As SQL: 'id BIGINT NOT NULL, name STRING'.")
    ]
    key: Annotated[str | None, Option("--key", "-k", metavar="COLUMNS", help="Primary key.")] = None
    partition_by: Annotated[
        str | None, Option("--partition-by", "-p", metavar="COLUMNS", help="Partition columns.")
    ] = None
    option: Annotated[list[str] | None, Option("--option", metavar="KEY=VALUE", help="An option.")] = None
    comment: Annotated[str | None, Option("--comment", metavar="TEXT", help="A comment.")] = None
    if_not_exists: Annotated[bool, Option("--if-not-exists", help="Do nothing if it exists.")] = False


def create(given: Create) -> Facts:
    """Create an empty table."""
    catalog = open_warehouse(given.warehouse, must_exist=False)
    found = catalogs.parse_name(given.name)
    fields = parse.parse_type_text(f"ROW<{given.columns}>", "flink").fields
    made = not catalog.database_exists(found.database) or not catalog.table_exists(given.name)
    if not made and not given.if_not_exists:
        raise AlreadyExistsError("table exists", table=found.text, remedy="--if-not-exists is fine with it")
    if made:
        if not catalog.database_exists(found.database):
            catalog.create_database(found.database, ignore_if_exists=True)
        options = pairs_of(given.option, "--option")
        told_options(given.console, options)
        given.begin(f"look whether {found.text} is there")
        catalog.create_table(
            given.name,
            fields,
            names_in(given.partition_by),
            names_in(given.key),
            options,
            given.comment,
            ignore_if_exists=given.if_not_exists,
        )
    text = f"made {found.text}" if made else f"{found.text} is there"
    return Facts({"table": found.text, "created": made}, text=[clean(text)])


class Drop(OfTable, Rehearsing):
    """What `drop` takes."""

    if_exists: Annotated[bool, Option("--if-exists", help="Do nothing if it does not exist.")] = False


def drop(given: Drop) -> Facts:
    """Remove a table with everything in its folder."""
    catalog = given.catalog
    found = catalogs.parse_name(given.named())
    if found.system is not None:
        raise InvalidError("only tables are dropped", table=found.text, remedy="branches: bucketlake branch delete")
    if not catalog.database_exists(found.database) or not catalog.table_exists(given.named()):
        if not given.if_exists:
            catalog.table(given.named())  # says what is near
        missing = {"table": found.text, "dropped": False, "dry_run": given.dry_run}
        return Facts(missing, text=[clean(f"there is no {found.text}")])
    told = f"{found.text}, {_records(given)}"
    values = {"table": found.text, "dropped": not given.dry_run, "dry_run": given.dry_run}
    if given.dry_run:
        return Facts(values, text=[clean(f"would drop {told}")])
    confirmed(f"Drop {told}? It cannot be undone.", given.yes)
    given.begin(f"{found.text} may be gone in part; drop it again")
    catalog.drop_table(given.named())
    return Facts(values, text=[clean(f"dropped {told}")])


def _records(given: Drop) -> str:
    try:
        last = given.opened().latest_snapshot()
    except (CorruptError, NotFoundError) as error:
        return f"which cannot be read ({error.what})"
    return count(last.total_record_count if last else 0, "record")


# ---- going back


class Rollback(Changing, Rehearsing):
    """What `rollback` takes."""

    to: Annotated[str | None, Argument(metavar="[TO]", help="A snapshot's id, else a tag's name; or give --as-of.")] = (
        None
    )
    as_of: Annotated[
        str | None, Option("--as-of", metavar="TIME", help="To the newest snapshot that is not later.")
    ] = None
    as_latest: Annotated[
        bool, Option("--as-latest", help="As a new snapshot, that holds what the old one held: nothing goes.")
    ] = False


def rollback(given: Rollback) -> Facts:
    """Go back to an older snapshot: what came later goes.

    Tags of later snapshots go, too; with --as-latest nothing does.
    """
    if (given.to is None) == (given.as_of is None):
        raise UsageError("back to what?", remedy="give a snapshot's id, a tag's name, or --as-of")
    found = given.started()
    target = _target(found.store, given)
    if target is None:
        remedy = f"{given.said('snapshots')} lists them"
        raise NotFoundError("no such snapshot or tag", to=given.to or given.as_of, remedy=remedy)
    later = [] if given.as_latest else [number for number in found.store.snapshot_ids() if number > target.id]
    gone = [] if given.as_latest else [name for name, tag in found.tags().items() if tag.id > target.id]
    values = {"table": found.name, "snapshot": target.id, "removed": later, "tags": gone, "dry_run": given.dry_run}
    told = f"{count(len(later), 'snapshot')}" + (f" and {count(len(gone), 'tag')} ({', '.join(gone)})" if gone else "")
    if given.dry_run:
        return Facts(values, text=[clean(f"would go back to snapshot {target.id}, and remove {told}")])
    version = target.id if given.as_of is not None or numbered(found.store, given.to) else given.to or target.id
    if given.as_latest:
        made = found.rollback_to_as_latest(version)
        return Facts({**values, "snapshot": made.id}, text=[f"snapshot {made.id} holds what {target.id} held"])
    if later or gone:
        confirmed(f"Remove {told} of {found.name}?", given.yes)
    given.begin("it may have gone back half-way; the same command finishes it")
    done = found.rollback_to(version)
    return Facts({**values, "snapshot": done.id}, text=[clean(f"back at snapshot {done.id}; removed {told}")])


def _target(store: Store, given: Rollback) -> Snapshot | None:
    if given.as_of is not None:
        return store.snapshot_at(millis_of(given.as_of))
    return numbered(store, given.to) or store.find_tag(given.to or "")


# ---- tags


class OfTag(OfTable):
    """A command about a tag."""

    name: Annotated[str, Argument(metavar="NAME", help="The tag's name.")]


class TagCreate(OfTag):
    """What `tag create` takes."""

    snapshot: Annotated[
        int | None, Option("--snapshot", metavar="ID", help="What it holds; the newest by default.")
    ] = None
    keep: Annotated[str | None, Option("--keep", metavar="TIME", help="How long to keep it: '7 d'.")] = None
    replace: Annotated[bool, Option("--replace", help="Move an existing tag.")] = False


def tag_create(given: TagCreate) -> Facts:
    """Tag a snapshot: its files stay when it expires."""
    found = given.plain_table()
    there = found.store.find_tag(given.name) is not None
    given.begin(f"look whether tag {given.name} is there, and which snapshot it holds")
    if there and given.replace:
        found.replace_tag(given.name, given.snapshot, given.keep)
    else:
        found.create_tag(given.name, given.snapshot, given.keep)
    held = found.store.tag(given.name).id
    values = {"table": found.name, "tag": given.name, "snapshot": held}
    return Facts(values, text=[clean(f"tag {given.name} holds snapshot {held} of {found.name}")])


class TagDelete(OfTag, Rehearsing):
    """What `tag delete` takes."""


def tag_delete(given: TagDelete) -> Facts:
    """Delete a tag, and the files that only it kept."""
    found = given.plain_table()
    held = found.store.find_tag(given.name)
    if held is None:
        known = ", ".join(sorted(found.store.tag_names())) or "there are none"
        raise NotFoundError("no such tag", table=found.name, tag=given.name, remedy=f"tags: {known}")
    values = {"table": found.name, "tag": given.name, "snapshot": held.id}
    if given.dry_run:
        return Facts(values, text=[clean(f"would remove tag {given.name}, which holds snapshot {held.id}")])
    confirmed(f"Remove tag {given.name} of {found.name}, which holds snapshot {held.id}?", given.yes)
    given.begin(f"look whether tag {given.name} is there; files that it alone kept may be orphans")
    found.delete_tag(given.name)
    return Facts(values, text=[clean(f"removed tag {given.name} of {found.name}")])


# ---- branches


class OfBranch(OfTable):
    """A command about a branch."""

    name: Annotated[str, Argument(metavar="NAME", help="The branch's name.")]


class BranchCreate(OfBranch):
    """What `branch create` takes."""

    tag: Annotated[str | None, Option("--tag", metavar="NAME", help="Start from this tag.")] = None


def branch_create(given: BranchCreate) -> Facts:
    """Create a branch of a table, empty or from a tag."""
    found = given.plain_table()
    given.begin(f"look whether branch {given.name} is there; if it cannot be read, delete it")
    found.create_branch(given.name, given.tag)
    rows = "without rows: --tag makes one of a tag's" if given.tag is None else f"with the rows of tag {given.tag}"
    return _branched(found, given.name, f"made branch {given.name} of {found.name}, {rows}")


class BranchDelete(OfBranch, Rehearsing):
    """What `branch delete` takes."""


def branch_delete(given: BranchDelete) -> Facts:
    """Delete a branch. Files that only it had become orphans."""
    found = given.plain_table()
    _require_branch(found, given.name)
    if given.dry_run:
        return _branched(found, given.name, f"would remove branch {given.name} of {found.name}")
    confirmed(f"Remove branch {given.name} of {found.name}?", given.yes)
    given.begin(f"branch {given.name} may be gone in part; delete it again")
    found.delete_branch(given.name)
    return _branched(found, given.name, f"removed branch {given.name} of {found.name}")


class FastForward(OfBranch, Rehearsing):
    """What `branch fast-forward` takes."""


def fast_forward(given: FastForward) -> Facts:
    """Replace the table's history by the branch's, from the branch's first snapshot on."""
    found = given.plain_table()
    _require_branch(found, given.name)
    ids = found.with_options(branch=given.name).store.snapshot_ids()
    gone = [number for number in found.store.snapshot_ids() if ids and number >= ids[0]]
    told = f"{count(len(gone), 'snapshot')} of {found.name} by {count(len(ids), 'snapshot')} of {given.name}"
    if given.dry_run:
        return _branched(found, given.name, f"would replace {told}")
    confirmed(f"Replace {told}?", given.yes)
    given.begin("it may have gone half-way; the same command finishes it")
    found.fast_forward(given.name)
    return _branched(found, given.name, f"replaced {told}")


def _require_branch(found: Any, name: str) -> None:
    if name not in found.branches():
        known = ", ".join(found.branches()) or "there are none"
        raise NotFoundError("no such branch", table=found.name, branch=name, remedy=f"branches: {known}")


def _branched(found: Any, name: str, text: str) -> Facts:
    return Facts({"table": found.name, "branch": name}, text=[clean(text)])


# ---- consumers


class OfConsumer(OfTable):
    """A command about a consumer."""

    name: Annotated[str, Argument(metavar="NAME", help="The consumer's name.")]


class ConsumerReset(OfConsumer):
    """What `consumer reset` takes."""

    snapshot: Annotated[str, Argument(metavar="SNAPSHOT", help="What it reads next: a snapshot's id.")]


def consumer_reset(given: ConsumerReset) -> Facts:
    """Let a consumer go on with another snapshot. Its reader does so once it is started again."""
    if not given.snapshot.isdecimal():
        raise UsageError("not a snapshot's id", snapshot=given.snapshot, remedy=given.said("snapshots"))
    found, following = given.plain_table(), int(given.snapshot)
    given.begin(f"look what consumer {given.name} reads next: {given.said('consumers')}")
    found.reset_consumer(given.name, following)
    values = {"table": found.name, "consumer": given.name, "next_snapshot": following}
    return Facts(values, text=[clean(f"consumer {given.name} of {found.name} reads snapshot {following} next")])


class ConsumerDelete(OfConsumer, Rehearsing):
    """What `consumer delete` takes."""


def consumer_delete(given: ConsumerDelete) -> Facts:
    """Forget a consumer: what it has not read may expire."""
    found = given.plain_table()
    known = found.store.consumers()
    if given.name not in known:
        names = ", ".join(sorted(known)) or "there are none"
        raise NotFoundError("no such consumer", table=found.name, consumer=given.name, remedy=f"consumers: {names}")
    following = known[given.name]
    told = f"consumer {given.name} of {found.name}, which reads snapshot {following} next"
    values = {"table": found.name, "consumer": given.name, "next_snapshot": following}
    if given.dry_run:
        return Facts(values, text=[clean(f"would forget {told}")])
    confirmed(f"Forget {told}?", given.yes)
    given.begin(f"look whether consumer {given.name} is there")
    found.reset_consumer(given.name)
    return Facts(values, text=[clean(f"forgot {told}")])


def register(app: Group) -> None:
    """Register the family."""
    table = {"table": "its full name"}
    made = columns(**table, created="flag: whether it was made now")
    add(app, create, panel=CHANGING, answers=("facts", made))
    gone = columns(**table, dropped="flag: whether it was dropped now", dry_run="flag: whether nothing was removed")
    add(app, drop, panel=CHANGING, answers=("facts", gone))
    back = columns(
        **table,
        snapshot="id: the newest snapshot now, or that it would go back to",
        removed="list: ids of later snapshots, which went",
        tags="list: tags of later snapshots, which went",
        dry_run="flag: whether nothing was removed",
    )
    add(app, rollback, panel=CHANGING, answers=("facts", back))
    tags = Group("tag", "Make and remove names of snapshots.", CHANGING)
    tag = columns(**table, tag="its name", snapshot="id: the snapshot that it holds, or held")
    add(tags, tag_create, "create", answers=("facts", tag))
    add(tags, tag_delete, "delete", answers=("facts", tag))
    app.add_command(tags)
    branches = Group("branch", "Make, remove and take over branches.", CHANGING)
    branch = columns(**table, branch="its name")
    add(branches, branch_create, "create", answers=("facts", branch))
    add(branches, branch_delete, "delete", answers=("facts", branch))
    add(branches, fast_forward, "fast-forward", answers=("facts", branch))
    app.add_command(branches)
    consumers = Group("consumer", "Move and forget consumers.", CHANGING)
    consumer = columns(**table, consumer="its name", next_snapshot="id: the snapshot that it reads next, or would have")
    add(consumers, consumer_reset, "reset", answers=("facts", consumer))
    add(consumers, consumer_delete, "delete", answers=("facts", consumer))
    app.add_command(consumers)
