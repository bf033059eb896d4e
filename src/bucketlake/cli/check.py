"""`fsck`, `advise`: whether a table is whole, and what would make it better."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

from bucketlake.amounts import size_text
from bucketlake.cli import remedies
from bucketlake.cli.answer import Facts, Rows, UsageError, columns, plain
from bucketlake.cli.command import CHANGING, WithFormat, add
from bucketlake.cli.grammar import Group, Option
from bucketlake.cli.maintain import Changing
from bucketlake.cli.output import confirmed
from bucketlake.cli.progress import Drawn, working
from bucketlake.cli.text import clean, count, look_of
from bucketlake.cli.warehouse import OfTable, pairs_of
from bucketlake.lazy import lazy

if TYPE_CHECKING:
    from bucketlake.ops.check import fault, findings
    from bucketlake.ops.check.findings import Finding, Report
    from bucketlake.ops.check.repair import Repair
else:
    fault, findings = lazy("bucketlake.ops.check.fault"), lazy("bucketlake.ops.check.findings")

LEVELS = ("metadata", "footers", "keys", "rows")
EXIT = "0 whole, or all mended; 1 something found or failed; 2 wrong usage"


class Fsck(Changing):
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


def fsck(given: Fsck) -> Facts:
    """Check that a table is intact; --repair mends it."""
    if given.level not in LEVELS:
        raise UsageError("no such level", level=given.level, remedy=f"one of {', '.join(LEVELS)}")
    if (given.allow or given.dry_run) and not given.repair:
        raise UsageError("--allow and --dry-run are about repairs", remedy="add --repair")
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
        "findings": [_object(one, states.get(id(one))) for one in report.findings],
        "repaired_by": None if done is None or done.snapshot is None else done.snapshot.id,
    }
    return Facts(values, text=list(_report_text(given, report, done, values)), status=1 if left else 0)


def _object(finding: Finding, state: str | None) -> dict[str, object]:
    """A finding as JSON."""
    row = dict(zip(findings.SCHEMA.names, findings.row_of(finding), strict=True))
    return {**{name: plain(value) for name, value in row.items()}, "state": state}


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
        if done is None:
            yield clean(f"  do: {remedies.of_finding(one, given)}")
        else:
            yield clean(f"  {told['state']}" if told["state"] else "  not mended")
    if done is not None and done.snapshot is not None:
        yield f"mended by snapshot {done.snapshot.id}"


class Advise(OfTable, WithFormat):
    """What `advise` takes."""


def advise(given: Advise) -> Rows:
    """Advise what would make a table better, and how."""
    found = given.plain_table().advise()
    if given.console.form == "table":
        for one in found:
            place = f" ({one.partition})" if one.partition else ""
            given.console.write([clean(f"{one.topic}{place}: {one.reason}")])
            if one.command:
                given.console.write([clean(f"  do: {remedies.own_command(one.command, given)}")])
        return Rows([], hint="" if found else "nothing to advise")
    return Rows([(o.topic, o.partition, o.measure, o.threshold, o.reason, o.command) for o in found])


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
        topic="what it is about",
        partition="the partition; null for the whole table",
        measure="number: what was measured",
        threshold="number: from where on it matters",
        reason="why",
        command="the SQL statement that does it; null where there is none",
    )
    add(app, advise, panel=CHANGING, answers=("rows", advice))
