"""What a check finds: values with their place, in a report of bounded size.

    Report.findings      at most `MOST` a code; beyond, one more that counts them
    Report.to_arrow()    a table for programs

Spec: docs/maintenance.md#findings
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import field, replace

import pyarrow as pa

from bucketlake.errors import BucketlakeError
from bucketlake.ops.check.faults import FAULTS, Fault, Mend, Severity
from bucketlake.ops.check.remedy import Call, in_words
from bucketlake.values import dataclass

MOST = 1000  # findings of one code that are kept one by one
_ORDER = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.INFO: 2}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a fault is. `partition`: as stored; `partition_text`: as SHOW PARTITIONS names it; `holder`: the snapshot,
    tag, branch … that leads there; `other`: the other bucket that is concerned; `newer`: None where the newest snapshot
    leads there, else only the past does, which no commit mends: how many snapshots are newer, 0 if no snapshot but a
    tag or another branch leads there."""

    file: str | None = None
    partition: bytes | None = None
    partition_text: str | None = None
    bucket: int | None = None
    level: int | None = None
    snapshot: int | None = None
    holder: str | None = None
    other: int | None = None
    newer: int | None = None


NOWHERE = Place()


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault at one place. `cause`: what was seen; `count`: how often there."""

    code: str
    cause: str
    place: Place = NOWHERE
    count: int = 1

    @property
    def fault(self) -> Fault:
        """What the code means."""
        return FAULTS[self.code]

    @property
    def severity(self) -> Severity:
        """How bad it is."""
        return self.fault.severity

    @property
    def repair(self) -> str:
        """Whether `repair` mends it: "yes", "named" (only if the code is named), "no"."""
        if self.fault.mend is Mend.NONE or self.place.newer is not None:
            return "no"
        return "named" if self.fault.loses else "yes"

    def remedies(self, table: str) -> tuple[str | Call, ...]:
        """What to do about it in a table, in words or as a call, the best first."""
        kind, _, name = (self.place.holder or "").partition(" ")
        newer = self.place.newer
        if newer is not None:
            return self.fault.of_past(table, newer, name if kind == "tag" else None)
        return self.fault.remedies(table, name if kind in ("tag", "branch", "consumer") else None)


SCHEMA = pa.schema(
    [
        pa.field("code", pa.string(), nullable=False),
        pa.field("severity", pa.string(), nullable=False),
        pa.field("level", pa.string(), nullable=False),
        pa.field("partition", pa.string()),
        pa.field("bucket", pa.int32()),
        pa.field("snapshot", pa.int64()),
        pa.field("holder", pa.string()),
        pa.field("file", pa.string()),
        pa.field("count", pa.int64(), nullable=False),
        pa.field("cause", pa.string(), nullable=False),
        pa.field("consequence", pa.string(), nullable=False),
        pa.field("remedy", pa.string(), nullable=False),
        pa.field("repair", pa.string(), nullable=False),
    ]
)


def row_of(finding: Finding, table: str) -> tuple[object, ...]:
    """A finding of a table as a row of `SCHEMA`."""
    fault, place = finding.fault, finding.place
    remedy = in_words(finding.remedies(table))
    return (
        *(fault.code, fault.severity.value, fault.level, place.partition_text, place.bucket, place.snapshot),
        *(place.holder, place.file, finding.count, finding.cause, fault.consequence, remedy, finding.repair),
    )


@dataclass(frozen=True, slots=True)
class Report:
    """What a check found, errors first. `files`, `rows`, `bytes`: how much was looked at; `table`: as statements name
    it."""

    level: str
    snapshot: int | None
    findings: tuple[Finding, ...]
    files: int = 0
    rows: int = 0
    bytes: int = 0
    table: str = "db.t"

    @property
    def errors(self) -> tuple[Finding, ...]:
        """Those of error severity."""
        return tuple(one for one in self.findings if one.severity is Severity.ERROR)

    @property
    def codes(self) -> frozenset[str]:
        """The codes found."""
        return frozenset(one.code for one in self.findings)

    def told(self) -> Iterator[tuple[object, ...]]:
        """The findings as rows of `SCHEMA`."""
        return (row_of(one, self.table) for one in self.findings)

    def remedy(self, finding: Finding) -> str:
        """What to do about a finding, statements among it as they are run."""
        return in_words(finding.remedies(self.table))

    def to_arrow(self) -> pa.Table:
        """The findings as rows."""
        columns = list(zip(*self.told(), strict=True)) or [()] * len(SCHEMA)
        return pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


@dataclass(slots=True)
class Findings:
    """Collects findings, in bounded memory."""

    kept: dict[str, list[Finding]] = field(default_factory=dict)
    more: dict[str, int] = field(default_factory=dict)

    def add(self, code: str, cause: str, place: Place = NOWHERE, count: int = 1) -> None:
        """Take one."""
        self.take(Finding(code, cause, place, count))

    def take(self, finding: Finding) -> None:
        """Take one."""
        known = self.kept.setdefault(finding.code, [])
        if len(known) < MOST:
            known.append(finding)
        else:
            self.more[finding.code] = self.more.get(finding.code, 0) + finding.count

    def take_all(self, findings: Iterable[Finding]) -> None:
        """Take several."""
        for finding in findings:
            self.take(finding)

    def listed(self) -> tuple[Finding, ...]:
        """All, errors first, then by code; what was not kept one by one counts as one of no place."""
        found = [one for code in self.kept for one in self.kept[code]]
        found += [Finding(code, f"{n} more", count=n) for code, n in self.more.items()]
        return tuple(sorted(found, key=lambda one: (_ORDER[one.severity], tuple(FAULTS).index(one.code))))


def shown(error: BucketlakeError) -> str:
    """What an error says, without its remedy."""
    details = ", ".join(f"{key}={value}" for key, value in error.details.items() if key != "path")
    return error.what + (f" [{details}]" if details else "")


def at(place: Place, **more: object) -> Place:
    """The place with some parts replaced."""
    return replace(place, **more)  # type: ignore[arg-type]
