"""What a call that the command line does not take may mean: the nearest right option, argument or command.

No such option '--snapsho'. Did you mean '--snapshot'?
Unexpected argument '4': rescale takes TABLE. Did you mean '--buckets 4'?
'--json' stands behind the command: bucketlake tag create … --json
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher

import click

__all__ = ["command_told", "option_told", "surplus_told"]

# What other tools call an option → what it may be called here; a command has some of these.
_OPTIONS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("primary-key", "primary-keys", "pk", "keys", "key-columns"), ("--key",)),
    **dict.fromkeys(("partitioned-by", "partition-keys", "partitions", "partition"), ("--partition-by",)),
    **dict.fromkeys(("mode", "append", "overwrite", "save-mode", "replace", "if-not-exists"), ("--if-exists",)),
    **dict.fromkeys(("force", "assume-yes", "no-confirm"), ("--yes", "--overwrite")),
    **dict.fromkeys(("filter", "condition", "predicate", "query"), ("--where",)),
    **dict.fromkeys(("version", "version-as-of", "snapshot-id", "at"), ("--snapshot",)),
    **dict.fromkeys(("timestamp", "timestamp-as-of", "time"), ("--as-of", "--older-than")),
    **dict.fromkeys(("select", "fields", "cols", "project"), ("--columns",)),
    **dict.fromkeys(("schema", "ddl"), ("--columns", "--type")),
    **dict.fromkeys(("out", "file", "to"), ("--output",)),
    "path": ("--output", "--warehouse"),
    **dict.fromkeys(("root", "catalog", "dir", "location"), ("--warehouse",)),
    **dict.fromkeys(("set", "property", "prop", "options", "config"), ("--option", "--table-option", "--conf")),
    **dict.fromkeys(("simulate", "preview", "dryrun", "noop"), ("--dry-run",)),
    **dict.fromkeys(("sep", "separator", "field-delimiter"), ("--delimiter",)),
    **dict.fromkeys(("num-buckets", "bucket-num", "parallelism"), ("--buckets", "--bucket")),
    **dict.fromkeys(("columns", "sort", "sort-by"), ("--by", "--order-by")),
    **dict.fromkeys(("strategy", "order-strategy", "curve"), ("--order",)),
    **dict.fromkeys(("retention", "older", "age"), ("--older-than", "--keep")),
    **dict.fromkeys(("fix", "mend"), ("--repair",)),
    **dict.fromkeys(("max-rows", "head", "n", "rows"), ("--limit",)),
    **dict.fromkeys(("output", "output-format", "as"), ("--format",)),
    **dict.fromkeys(("sql", "command", "statement"), ("--execute",)),
    **dict.fromkeys(("bootstrap-servers", "brokers", "servers"), ("--kafka",)),
}
# Within a group of commands: what others call one, and names for the list that a command of its own gives.
_COMMANDS = {
    **dict.fromkeys(("rm", "remove", "drop", "del", "forget"), ("delete", "remove")),
    **dict.fromkeys(("delete",), ("remove",)),
    **dict.fromkeys(("add", "new", "set", "make"), ("create", "add", "reset")),
    **dict.fromkeys(("merge", "ff", "publish"), ("fast-forward",)),
    **dict.fromkeys(("show", "ls", "get", "view"), ("list",)),
    **dict.fromkeys(("use", "switch"), ("default",)),
}
_LISTS = frozenset(("list", "ls", "show", "get", "all"))
_NEAR, _AS_GOOD_AS_SAID = 0.6, 0.8
_FEW = 3
_TIME = re.compile(r"\d{4}-\d{2}|\d+ ?(d|h|m|min|s|days?|hours?|minutes?)$")
_STATEMENT = re.compile(
    r"(SELECT|WITH|FROM|SHOW|DESC\w*|INSERT|UPDATE|DELETE|MERGE|CREATE|ALTER|DROP|CALL)\s", re.IGNORECASE
)
_FILE = re.compile(r"[/\\]|\.(csv|tsv|json|jsonl|parquet|arrow|sql)(\.\w+)?$")


def option_told(context: click.Context, error: click.NoSuchOption, words: Sequence[str]) -> str:
    """What is wrong with an option that this command, or group of commands, does not have."""
    command, given = context.command, _as_written(error.option_name, words)
    said = f"No such option {given!r}."
    near = _withheld(command, given) or _nearest(given, _options(command))
    if near:
        return f"{said} Did you mean {_alternatives(near)}?"
    if isinstance(command, click.Group):
        return _of_a_command(context, command, given, words) or said
    if "full".startswith(_bare(given)) and "--minor" in _options(command):
        return f"{said} It is what {command.name} does without '--minor'."
    return said


def _withheld(command: click.Command, given: str) -> list[str]:
    """What says that there is to be none, where `--no-…` was written and the option takes that word."""
    bare = _bare(given)
    meant = (f"--{bare.removeprefix('no-')}", *_OPTIONS.get(bare.removeprefix("no-"), ()))
    options = [one for one in command.params if isinstance(one, click.Option) and "`none`" in (one.help or "")]
    return [f"{name} none" for one in options for name in one.opts if bare.startswith("no-") and name in meant]


def _as_written(option: str, words: Sequence[str]) -> str:
    """The option as it was written: click takes `-limit` for `-l` and more."""
    if option.startswith("--"):
        return option
    return next((word for word in words if word.startswith(option) and not word.startswith("--")), option)


def _of_a_command(context: click.Context, group: click.Group, given: str, words: Sequence[str]) -> str | None:
    """What is said of an option that stands before the name of the command it belongs to."""
    having = [name for name, one in _below(group) if given in _options(one)]
    meant = [name for name in having if name.split()[0] in words] or having
    if not meant:
        return None
    place = f"{context.command_path} {meant[0]} … {given}"
    more = "" if len(meant) == 1 else ", for example"
    return f"{given!r} stands behind the command{more}: {place}"


def _below(group: click.Group, prefix: str = "") -> Iterator[tuple[str, click.Command]]:
    for name, one in group.commands.items():
        if isinstance(one, click.Group):
            yield from _below(one, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}", one


def command_told(context: click.Context, group: click.Group, given: str) -> str:
    """What is wrong with the name of a command within a group."""
    said = f"No such command {given!r}."
    if given in _LISTS and context.parent is not None and "list" not in group.commands:
        plural = f"{group.name}es" if str(group.name).endswith("ch") else f"{group.name}s"
        return f"{said} The list is had by '{context.parent.command_path} {plural} TABLE'."
    meant = [one for one in _COMMANDS.get(given.lower(), ()) if one in group.commands]
    if meant:
        return f"{said} Did you mean {meant[0]!r}?"
    near = _nearest(given, group.commands)
    if near:
        return f"{said} Did you mean {_alternatives(near)}?"
    return said if context.parent is None else f"{said} There are: {', '.join(group.commands)}."


def surplus_told(context: click.Context, surplus: Sequence[str]) -> str:
    """What is wrong with arguments behind those that a command takes."""
    command = context.command
    takes = [one.make_metavar(context) for one in command.params if isinstance(one, click.Argument)]
    said = f"Unexpected {'argument' if len(surplus) == 1 else 'arguments'} {' '.join(map(repr, surplus))}:"
    said = f"{said} {command.name} takes {' '.join(takes) or 'options alone'}."
    if len(surplus) > 1:
        return said
    like = [f"{names[0]} {_quoted(surplus[0])}" for names in _taking(command, surplus[0])]
    return f"{said} Did you mean {_alternatives(like[:_FEW])}?" if like else said


def _taking(command: click.Command, value: str) -> Iterator[list[str]]:
    """Long names of the options that take such a value, by what help calls theirs."""
    kinds = _kinds(value)
    for one in command.params:
        if isinstance(one, click.Option) and not one.is_flag:
            kind = one.metavar or ("N" if isinstance(one.type, click.types.IntParamType) else "")
            names = [name for name in one.opts if name.startswith("--")]
            if kind in kinds and names:
                yield names


def _kinds(value: str) -> frozenset[str]:
    if value.lstrip("-").isdigit():
        return frozenset(("N", "ID", "INTEGER"))
    if _STATEMENT.match(value):
        return frozenset(("STATEMENTS",))
    if _TIME.match(value):
        return frozenset(("TIME",))
    if re.search(r"[<>]| (AND|OR|IN|IS|LIKE) ", value, re.IGNORECASE):
        return frozenset(("CONDITION",))
    if re.match(r"[\w.-]+=", value):
        return frozenset(("CONDITION", "SPEC", "KEY=VALUE"))
    if _FILE.search(value):
        return frozenset(("FILE",))
    return frozenset(("COLUMNS", "NAMES", "LIST")) if "," in value else frozenset()


def _quoted(value: str) -> str:
    return f'"{value}"' if re.search(r"[\s<>$&;|*]", value) else value


def _options(command: click.Command) -> list[str]:
    return [name for one in command.params if isinstance(one, click.Option) for name in one.opts]


def _bare(option: str) -> str:
    return option.lstrip("-").lower().replace("_", "-")


def _nearest(given: str, names: Iterable[str]) -> list[str]:
    """Names that may be meant, the nearest first: one where it is as good as said, else at most three."""
    there, bare = list(names), _bare(given)
    exact = [one for one in there if len(bare) > 1 and _bare(one) == bare]
    by_others = [one for one in _OPTIONS.get(bare, ()) if one in there] if given.startswith("-") else []
    if exact or by_others:
        return (exact or by_others)[:_FEW]
    begun = [one for one in there if len(bare) > 2 and _bare(one).startswith(bare)]
    if len(begun) == 1:
        return begun
    likeness = {one: SequenceMatcher(None, bare, _bare(one)).ratio() for one in there if len(_bare(one)) > 1}
    near = sorted((one for one, ratio in likeness.items() if ratio >= _NEAR), key=lambda one: -likeness[one])
    if near and likeness[near[0]] >= _AS_GOOD_AS_SAID:
        return near[:1]
    return list(dict.fromkeys([*begun, *near]))[:_FEW] if len(bare) > 1 else []


def _alternatives(names: Sequence[str]) -> str:
    return " or ".join(f"'{one}'" for one in names)
