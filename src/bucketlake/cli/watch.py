"""`watch`: the maintainer of a warehouse in the foreground, until it is told to stop."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

from bucketlake.amounts import span_text
from bucketlake.cli.answer import UsageError, columns, document, plain
from bucketlake.cli.command import CHANGING, add
from bucketlake.cli.grammar import Exit, Group, Option
from bucketlake.cli.progress import Drawn
from bucketlake.cli.text import clean
from bucketlake.cli.warehouse import EXCLUDING, TABLES, InWarehouse
from bucketlake.errors import InvalidError
from bucketlake.lazy import lazy

if TYPE_CHECKING:
    from bucketlake.env import user_files
    from bucketlake.maintenance import rules, service
    from bucketlake.maintenance.rules import Event, Rule
else:
    user_files = lazy("bucketlake.env.user_files")
    rules, service = lazy("bucketlake.maintenance.rules"), lazy("bucketlake.maintenance.service")

EXIT = "0 told to stop, or one pass without failures; 1 an action failed in one pass, or it was stopped; 2 wrong usage"


class Watch(InWarehouse):
    """What `watch` takes."""

    tables: TABLES = None
    excluding: EXCLUDING = None
    only: Annotated[str | None, Option("--only", metavar="ACTIONS", help="Only these actions of the usual rules.")] = (
        None
    )
    rules: Annotated[str | None, Option("--rules", metavar="FILE", help="Rules as JSON: a list of objects.")] = None
    once: Annotated[bool, Option("--once", help="One pass over everything, for a scheduler.")] = False
    lease: Annotated[str, Option("--lease", metavar="TIME", help="How long the leadership is taken.")] = "5 min"


def watch(given: Watch) -> None:
    """Maintain the tables of a warehouse, until Ctrl-C.

    Compacts, expires, removes orphans when due; SIGTERM ends it, too.
    Of several watchers of a warehouse one works and the others wait. With --json an event a line.
    """
    chosen = _rules(given)
    drawn = Drawn()

    def tell(event: Event) -> None:
        drawn.clear()
        if event.kind == "nothing" and not given.json:
            return
        line = document(_object(event, given.catalog.env.clock.now_millis())) if given.json else _line(event)
        print(line, flush=True)

    made = service.Service(chosen, lease=given.lease, on_event=tell, on_progress=drawn)
    events = service.maintain(given.catalog, made, once=given.once)
    if given.once and not given.json and all(event.kind in ("leads", "nothing") for event in events):
        print("nothing was due", flush=True)
    lacking = given.once and any(event.kind in ("failed", "stopped") for event in events)
    raise Exit(1 if lacking else 0)


def _rules(given: Watch) -> tuple[Rule, ...]:
    if given.rules is not None:
        if given.tables or given.excluding or given.only:
            raise UsageError("rules say which tables and actions", remedy="leave --tables, --excluding, --only out")
        return rules.rules_of(_read(given.rules))
    only = None if given.only is None else [one.strip() for one in given.only.split(",")]
    strange = [one for one in only or () if one not in rules.ACTIONS]
    if strange:
        raise UsageError("no such action", action=strange[0], remedy=f"one of {', '.join(rules.ACTIONS)}")
    which = {"tables": given.tables, "excluding": given.excluding}
    said = {name: value for name, value in which.items() if value is not None}
    usual = [one for one in rules.DEFAULT_RULES if only is None or one.action in only]
    return rules.rules_of([{"action": one.action, "every": one.every, **said} for one in usual])


def _read(path: str) -> list[dict[str, Any]]:
    text = user_files.read(path)
    if text is None:
        raise InvalidError("no such file", path=path)
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidError("not JSON", path=path, reason=str(error)) from error
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise InvalidError("not a list of rules", path=path, remedy='[{"action": "compact", "every": "1 min"}, …]')
    return found


def _object(event: Event, now: int) -> dict[str, Any]:
    return {
        "time": plain(now, "time"),
        "kind": event.kind,
        "table": event.table or None,
        "action": event.action or None,
        "what": None if event.what is None else str(event.what),
        "error": None if event.error is None else str(event.error),
        "seconds": event.seconds,
    }


def _line(event: Event) -> str:
    told = {"leads": "leads: this one maintains the warehouse", "waits": "waits: another one maintains it"}
    took = f" in {span_text(event.seconds)}" if event.seconds else ""
    return clean(told.get(event.kind, f"{event}{took}"))


def register(app: Group) -> None:
    """Register the family."""
    event = columns(
        time="time: when it was told",
        kind="leads, waits, did, nothing (it was not due), failed, lost (the lease), stopped",
        table="the table; null for what is about none",
        action="compact, expire_snapshots, …; null as before",
        what="what it gave: a snapshot, a number",
        error="why it failed; null otherwise",
        seconds="number: how long it took",
    )
    add(app, watch, panel=CHANGING, answers=("lines", event), exits=EXIT)
