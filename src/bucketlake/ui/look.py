"""What the page asks: each question a function of the catalog and the query, its answer plain and bounded.

    ANSWERS["heat"](catalog, Query({"database": …, "table": …})) -> dict

Spec: docs/page.md#the-facts-in-python
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from bucketlake.catalog import Catalog, check_name
from bucketlake.errors import InvalidError
from bucketlake.ops.check import remedy
from bucketlake.redaction import redact
from bucketlake.report.history import COMMITS, MOST_COMMITS, cut
from bucketlake.report.places import MOST_LISTED, Wanted
from bucketlake.report.report import TableReport
from bucketlake.table import Table
from bucketlake.ui.difference import difference
from bucketlake.ui.rows import MOST_ROWS, sample
from bucketlake.values import dataclass

MOST_TABLES = 2_000
MOST_DATABASES = 500
MOST_ADVICE = 200
LONGEST_STEP = 10_000  # letters
LARGEST_ID = 1 << 62
Answer = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Query:
    """The parameters of a question, checked as they are taken. Errors: InvalidError."""

    given: Mapping[str, str]

    def text(self, name: str, default: str | None = None) -> str:
        """A text that is not empty."""
        found = self.given.get(name) or default
        if not found:
            raise InvalidError("a parameter is missing", parameter=name)
        return found

    def number(self, name: str, default: int | None, low: int = 0, high: int = LARGEST_ID) -> int | None:
        """A whole number, or the default."""
        found = self.given.get(name)
        if found is None or found == "":
            return default
        digits = found.removeprefix("-")
        if not digits.isascii() or not digits.isdigit() or len(digits) > 19 or not low <= int(found) <= high:
            raise InvalidError("not a number that fits", parameter=name, value=cut(found, 40))
        return int(found)

    def whole(self, name: str, default: int | None = None, low: int = 0, high: int = LARGEST_ID) -> int:
        """A whole number that must be there if it has no default."""
        found = self.number(name, default, low, high)
        if found is None:
            raise InvalidError("a parameter is missing", parameter=name)
        return found


def table_of(catalog: Catalog, query: Query) -> Table:
    """The table, or branch of it, that a question is about. Errors: InvalidError for what is no name, NotFoundError."""
    database, name, branch = query.text("database"), query.text("table"), query.given.get("branch")
    check_name(database, "database")
    check_name(name, "table")
    if branch:
        check_name(branch, "branch")
    if "`" in database + name or "$" in name:
        raise InvalidError("a name with characters that names do not have", name=cut(f"{database}.{name}", 100))
    options = {"branch": branch} if branch and branch != "main" else None
    return catalog.table(f"`{database}`.`{name}`", options)


def place_of(catalog: Catalog) -> str:
    """The warehouse as a command to copy says it; empty where it holds what nobody may see."""
    place = catalog.warehouse
    return place if redact(place) == place else ""


def _databases(catalog: Catalog, query: Query) -> Answer:
    names = catalog.list_databases()
    found = []
    room = MOST_TABLES
    for name in names[:MOST_DATABASES]:
        tables = catalog.list_tables(name)
        found.append({"name": name, "tables": tables[:room], "left_out": len(tables) - len(tables[:room])})
        room = max(0, room - len(tables))
    return {"warehouse": redact(catalog.warehouse), "databases": found, "left_out": max(0, len(names) - MOST_DATABASES)}


def _of_report(tell: Callable[[TableReport, Query], Any]) -> Callable[[Catalog, Query], Answer]:
    def answer(catalog: Catalog, query: Query) -> Answer:
        found = tell(table_of(catalog, query).report, query)
        return {"settings": [one.to_dict() for one in found]} if isinstance(found, list) else dict(found.to_dict())

    return answer


def _limit(query: Query) -> int:
    return query.whole("limit", COMMITS, 1, MOST_COMMITS)


def _snapshot(query: Query) -> int | None:
    return query.number("snapshot", None, 1)


def _wanted(report: TableReport, query: Query) -> Wanted:
    partition = query.given.get("partition")
    return Wanted(
        sort=query.text("sort", "size"),
        descending=query.text("descending", "true") == "true",
        start=query.whole("start", 0, 0, 1 << 40),
        count=query.whole("count", 100, 1, MOST_LISTED),
        partition=None if partition is None else report.partition_key(partition),
        bucket=query.number("bucket", None, -2, 1 << 31),
    )


def _advice(catalog: Catalog, query: Query) -> Answer:
    table = table_of(catalog, query)
    found = table.advise()
    told = [
        {
            "topic": one.topic,
            "partition": None if one.partition is None else cut(one.partition),
            "measure": one.measure,
            "threshold": one.threshold,
            "reason": cut(redact(one.reason), 1_000),
            "steps": [
                {"sql": step.sql, "shell": remedy.command_line(step, place_of(catalog))}
                for step in one.steps
                if len(step.sql) <= LONGEST_STEP  # a part of one would do something else
            ],
        }
        for one in found[:MOST_ADVICE]
    ]
    return {"advice": told, "left_out": len(found) - len(told)}


def _sample(catalog: Catalog, query: Query) -> Answer:
    return sample(table_of(catalog, query), _snapshot(query), query.whole("limit", 50, 1, MOST_ROWS))


def _difference(catalog: Catalog, query: Query) -> Answer:
    table = table_of(catalog, query)
    before, after = query.whole("before", None, 1), query.whole("after", None, 1)
    return difference(table, before, after, query.whole("limit", 50, 1, MOST_ROWS))


ANSWERS: Mapping[str, Callable[[Catalog, Query], Answer]] = {
    "databases": _databases,
    "overview": _of_report(lambda report, query: report.overview()),
    "timeline": _of_report(lambda report, query: report.timeline(_limit(query))),
    "amplification": _of_report(lambda report, query: report.amplification(_limit(query))),
    "heat": _of_report(lambda report, query: report.heat(_snapshot(query))),
    "levels": _of_report(
        lambda report, query: report.levels(
            query.given.get("partition") or None, query.whole("bucket", 0, -2, 1 << 31), _snapshot(query)
        )
    ),
    "sizes": _of_report(lambda report, query: report.file_sizes(_snapshot(query))),
    "files": _of_report(lambda report, query: report.files(_wanted(report, query), _snapshot(query))),
    "evolution": _of_report(lambda report, query: report.evolution()),
    "settings": _of_report(lambda report, query: report.settings()),
    "activity": _of_report(lambda report, query: report.activity()),
    "advice": _advice,
    "sample": _sample,
    "difference": _difference,
}
