"""`fsck`, `advise`: whether a table is whole, and what would make it better."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

from bucketlake.amounts import size_text
from bucketlake.cli.answer import Facts, Rows, UsageError, columns, plain
from bucketlake.cli.command import CHANGING, WithFormat, add
from bucketlake.cli.grammar import Exit, Group, Option
from bucketlake.cli.maintain import Changing
from bucketlake.cli.output import confirmed
from bucketlake.cli.progress import Drawn, working
from bucketlake.cli.text import clean, count, look_of
from bucketlake.cli.warehouse import OfTables, pairs_of
from bucketlake.lazy import lazy

if TYPE_CHECKING:
    from bucketlake.ops.check import fault, findings, remedy
    from bucketlake.ops.check.findings import Report
    from bucketlake.ops.check.repair import Repair
else:
    fault, findings = lazy("bucketlake.ops.check.fault"), lazy("bucketlake.ops.check.findings")
    remedy = lazy("bucketlake.ops.check.remedy")

_RESTORE = "nothing of the table can be checked without it: restore the file from a copy"
LEVELS = ("metadata", "footers", "keys", "rows")
EXIT = "0 whole, all mended, or only information left; 1 an error or a warning is left, or it failed; 2 wrong usage"


class Fsck(OfTables, Changing):
    """What `fsck` takes."""

    level: Annotated[str, Option("--level", "-l", metavar="NAME", help=f"How deep: {', '.join(LEVELS)}.")] = "metadata"
    partition: Annotated[
        list[str] | None,
        Option("--partition", "-p", metavar="SPEC", help="Only of this partition: dt=2026-01-01,hour=5."),
    ] = None
    snapshot: Annotated[int | None, Option("--snapshot", metavar="ID", help="Files of this snapshot.")] = None
    repair: Annotated[bool, Option("--repair", help="Mend what is found, in one commit.")] = False
    allow: Annotated[
        list[str] | None,
        Option("--allow", metavar="CODE", help="Mend this too, though it loses rows or more."),
    ] = None
    dry_run: Annotated[bool, Option("--dry-run", help="With --repair: only say what would be done.")] = False
    yes: Annotated[bool, Option("--yes", "-y", help="Do not ask.")] = False

    def check(self) -> None:
        """UsageError for what makes no sense together."""
        super().check()
        if self.level not in LEVELS:
            raise UsageError("no such level", level=self.level, remedy=f"one of {', '.join(LEVELS)}")
        if (self.allow or self.dry_run) and not self.repair:
            raise UsageError("--allow and --dry-run are about repairs", remedy="add --repair")
        if (self.partition or self.snapshot is not None) and not self.table:
            raise UsageError("partitions and snapshots are those of one table", remedy="name the table")

    def next_step(self, error: BaseException) -> str | None:
        """A file without which nothing can be checked is damaged or missing: this command was the next step."""
        return _RESTORE if super().next_step(error) else None


def fsck(given: Fsck) -> None:
    """Check that tables are intact; --repair mends them.

    Without a table all tables of the warehouse, one after the other; with --json an object a table, on a line of its
    own. A table that cannot be checked is told and stops no other.
    """
    statuses = list(given.each(_checked))
    raise Exit(max(given.failed, *statuses, 0))


def _checked(given: Fsck) -> int:
    found = given.started()
    chosen = [pairs_of(one.replace("/", ",").split(","), "--partition") for one in given.partition or ()]
    report = found.fsck(given.level, chosen or None, given.snapshot, on_progress=Drawn())
    done = None
    if given.repair and report.findings:
        if not given.dry_run:
            confirmed(f"Mend {count(len(report.findings), 'finding')} of {found.name}?", given.yes)
        with working(f"mend {found.name}"):
            done = found.repair(report, tuple(given.allow or ()), dry_run=given.dry_run)
    states = {} if done is None else {id(action.finding): action.state for action in done.actions}
    left = [one for one in report.findings if states.get(id(one)) != "mended"]
    values = {
        "table": found.name,
        "level": report.level,
        "snapshot": report.snapshot,
        "files": report.files,
        "bytes": report.bytes,
        "errors": len([one for one in left if one.severity is fault.Severity.ERROR]),
        "findings": [
            _object(row, states.get(id(one))) for one, row in zip(report.findings, report.told(), strict=True)
        ],
        "repaired_by": None if done is None or done.snapshot is None else done.snapshot.id,
    }
    status = 1 if any(one.severity is not fault.Severity.INFO for one in left) else 0
    return given.console.show(Facts(values, list(_report_text(given, report, done, values)), status), CHECKED)


def _object(row: tuple[object, ...], state: str | None) -> dict[str, object]:
    """A finding as JSON."""
    return {**dict(zip(findings.SCHEMA.names, map(plain, row), strict=True)), "state": state}


def _report_text(given: Fsck, report: Report, done: Repair | None, values: Mapping[str, Any]) -> Iterator[str]:
    look = look_of(sys.stdout)
    read = f", {size_text(report.bytes)} read" if report.bytes else ""
    looked = f"{count(report.files, 'file')}{read}, level {report.level}"
    if not report.findings:
        yield clean(f"{values['table']} is whole ({looked})")
        return
    yield clean(f"{values['table']}: {count(len(report.findings), 'finding')} ({looked})")
    colours = {"error": "31", "warning": "33", "info": "2"}
    for one, told in zip(report.findings, values["findings"], strict=True):
        severity = one.severity.value
        yield f"{look.style(severity, colours[severity])} {clean(one.code)}: {clean(one.cause)}"
        names = ("partition", "bucket", "snapshot", "holder", "file", "count")
        place = [f"{name}={told[name]}" for name in names if told[name] is not None and told[name] != ""]
        yield clean(f"  at: {', '.join(place)}")
        yield clean(f"  so: {told['consequence']}")
        if done is not None:
            yield clean(f"  {told['state']}" if told["state"] else "  not mended")
        if done is None or told["state"] in ("cannot", "to be named"):
            yield clean(f"  do: {remedy.in_words(one.remedies(report.table), given.place)}")
    if done is not None and done.snapshot is not None:
        yield f"mended by snapshot {done.snapshot.id}"


class Advise(OfTables, WithFormat):
    """What `advise` takes."""


def advise(given: Advise) -> Rows | None:
    """Advise what would make tables better, and how.

    Without a table all tables of the warehouse, one after the other.
    """
    if given.console.form != "table":
        return Rows((row for found in given.each(_advised) for row in found), status=lambda: given.failed)
    if not sum(given.each(_told)):
        given.console.note("nothing to advise")
    raise Exit(given.failed)


def _advised(given: Advise) -> list[tuple[object, ...]]:
    found = given.plain_table()
    return [(found.name, o.topic, o.partition, o.measure, o.threshold, o.reason, o.command) for o in found.advise()]


def _told(given: Advise) -> int:
    """Tell a table's advice; how much there is."""
    table = given.plain_table()
    found = table.advise()
    for one in found:
        place = table.name + (f" ({one.partition})" if one.partition else "")
        steps = [f"  do: {remedy.command_line(step, given.place)}" for step in one.steps]
        given.console.write(map(clean, (f"{place}: {one.topic}: {one.reason}", *steps)))
    return len(found)


CHECKED = columns(
    table="its full name",
    level="how deep it was looked",
    snapshot="id: whose files were looked at; null where nothing was committed",
    files="count: files looked at",
    bytes="size: their size",
    errors="count: findings of severity error that are left",
    findings="json: code, severity, level, partition, bucket, snapshot, holder, file, count, cause, consequence, "
    "remedy, repair (yes, named, no), state (null, mended, would mend, to be named, cannot) of each",
    repaired_by="id: the snapshot that mended; null where none did",
)


def register(app: Group) -> None:
    """Register the family."""
    add(app, fsck, panel=CHANGING, answers=("facts", CHECKED), exits=EXIT)
    advice = columns(
        table="its full name",
        topic="what it is about",
        partition="the partition; null for the whole table",
        measure="number: what was measured",
        threshold="number: from where on it matters",
        reason="why",
        command="the SQL that does it, `; ` between statements; null where there is none",
    )
    add(app, advise, panel=CHANGING, answers=("rows", advice))
