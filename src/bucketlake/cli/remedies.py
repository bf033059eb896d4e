"""What to do next, as a command of this program: it needs no Spark, and a shell takes it as it stands.

own_command(statement, given)   what a statement of advice does, as one
of_finding(finding, given)      what to do about what a check found
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from bucketlake.cli.text import quoted
from bucketlake.cli.warehouse import OfTable

if TYPE_CHECKING:
    from bucketlake.ops.check.findings import Finding

_CALL = re.compile(r"CALL sys\.(\w+)\((.*)\)", re.DOTALL)
_ARGUMENT = re.compile(r"(\w+) => (?:(\d+)|'((?:[^'\\]|\\.)*)')(?:, |$)", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
# procedure: the command, and how each argument is said to it; "" stands for an argument by its place.
_OWN: dict[str, tuple[str, Mapping[str, str]]] = {
    "compact": ("compact", {"partitions": "--partition", "where": "--where"}),
    "rescale": ("rescale", {"bucket_num": "--buckets", "partitions": "--partition", "where": "--where"}),
    "expire_snapshots": ("expire", {"retain_max": "--retain-max", "retain_min": "--retain-min"}),
    "remove_orphan_files": ("orphans", {}),
    "delete_tag": ("tag delete", {"tag": ""}),
    "delete_branch": ("branch delete", {"branch": ""}),
    "reset_consumer": ("consumer delete", {"consumer_id": ""}),
}
_REMEDIES = {
    "CALL sys.remove_orphan_files": "orphans",
    "CALL sys.rollback to an intact snapshot or tag": "rollback",
    "CALL sys.delete_tag": "tag delete",
    "CALL sys.delete_branch": "branch delete",
    "CALL sys.reset_consumer": "consumer delete",
    "CALL sys.expire_changelogs": "expire --only changelogs",
}
_WANTED = {"rollback": "SNAPSHOT", "tag delete": "TAG", "branch delete": "BRANCH", "consumer delete": "CONSUMER"}


def own_command(statement: str, given: OfTable) -> str:
    """The command that does what a statement says, else the statement for `bucketlake sql`."""
    called = _CALL.fullmatch(statement)
    command, flags = _OWN.get(called[1] if called else "", ("", {}))
    pairs = _ARGUMENT.findall(called[2]) if called else []
    arguments = {name: number or _ESCAPED.sub(r"\1", text) for name, number, text in pairs if name != "table"}
    # A partition is said with a slash between its columns, so that no value of one may have any.
    if not command or not flags.keys() >= arguments.keys() or "/" in arguments.get("partitions", ""):
        return f"bucketlake sql{given.place} -e {quoted(statement)}"
    return given.said(command, *(word for name, value in arguments.items() for word in (flags[name], value) if word))


def of_finding(finding: Finding, given: OfTable) -> str:
    """What to do about a finding: what `fsck` itself mends, else what its fault says, as commands."""
    if finding.repair == "yes":
        return given.said("fsck", "--repair")
    remedy = finding.fault.remedy
    if finding.repair == "named":
        first, comma, _ = remedy.partition(", or ")
        more = f"{first}; without one give up what it held: " if comma else ""
        return more + given.said("fsck", "--repair", "--allow", finding.code)
    for phrase, command in _REMEDIES.items():
        if phrase in remedy:
            names = [] if command not in _WANTED else [_holder(finding) or _WANTED[command]]
            before = "go back to an intact snapshot or tag: " if command == "rollback" else ""
            return remedy.replace(phrase, before + given.said(command, *names))
    return remedy


def _holder(finding: Finding) -> str | None:
    """The name of the tag, branch or consumer that a finding is about."""
    kind, _, name = (finding.place.holder or "").partition(" ")
    return name if kind in ("tag", "branch", "consumer") and name else None
