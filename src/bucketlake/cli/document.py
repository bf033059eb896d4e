"""docs/command-line.md, made of the commands as they are registered.

python -m bucketlake.cli.document > docs/command-line.md
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from bucketlake.cli.app import build
from bucketlake.cli.command import CHANGING, OTHER, READING, Command, commands

_HEAD = """# The command line

`pip install 'bucketlake[cli]'` brings the command `bucketlake`; the extras `spark` and `demo` bring it along.
`python -m bucketlake` is the same command.

Only `sql`, `demo`, `cdc` and calls with `--spark` start Spark.

This page is generated from the code: `python -m bucketlake.cli.document > docs/command-line.md`.

## A first hour

The rows of a CSV file become a table. Types, key and buckets are found out from all of its rows:

```sh
printf 'id,city,price\\n1,Oslo,12.50\\n2,Rome,8.00\\n3,Oslo,30.25\\n' > trips.csv
printf 'id,city,price\\n2,Rome,9.00\\n4,Kyiv,14.00\\n' > corrections.csv
bucketlake config add lake ./warehouse --default
bucketlake import trips.csv --dry-run
bucketlake import trips.csv
bucketlake describe trips
bucketlake cat trips --where "price > 10" --columns id,price
bucketlake import corrections.csv trips --if-exists append
bucketlake snapshots trips
bucketlake diff trips 1 2
bucketlake cat trips --snapshot 1 --format csv
bucketlake tag create trips before-compaction
bucketlake compact trips
bucketlake files trips --json
bucketlake fsck trips --level rows
bucketlake advise trips
bucketlake expire trips --retain-max 1 --retain-min 1 --dry-run
bucketlake export trips trips.parquet
bucketlake watch --once
```

## Common to all commands

### Which warehouse

The first of these counts:

1. `--warehouse` (`-w`), before or after the command;
2. `$BUCKETLAKE_WAREHOUSE`;
3. the default of `bucketlake config`.

A warehouse is a folder, a URI (`s3://bucket/warehouse`), or a name of the configuration. The configuration holds
storage options, but of secrets only where they are (`env:NAME`, `keyring`).

### Which table

| Name | Table |
|---|---|
| `db.table` | a table of a database |
| `table` | a table of the database `default` |
| `db.table$branch_dev`, or `--branch dev` | a branch |
| `'db.table$files'` | a system table, where rows are shown |

### Output

**Text** is for people. Columns are aligned. On a terminal there are colours, and lines keep to its width; in a pipe
neither. `NO_COLOR` and `TERM=dumb` switch colours off.

- What others wrote (names, comments, values) is shown with escapes for what is not printable.
- Empty columns are left out. If the rest is wider than the terminal, heads stand on several lines, and long texts are
  shortened before the others.
- Notes, warnings, progress and questions go to standard error, progress only to a terminal.

**`--json`** prints one document on standard output: an object, or a list of objects where this page says *rows*.

- The names below do not change; new ones may be added.
- Missing values are null. Times are texts in UTC (`2026-01-31T10:00:00.000Z`), sizes are bytes.

**`--format`** writes rows as `table`, `json`, `jsonl` (an object a line), `csv` or `arrow` (an Arrow stream). In JSON
and CSV, decimals and bytes (hexadecimal) of a table's rows are texts, times are ISO 8601, and maps are lists of `key`
and `value`; `import` reads them back into columns of these types. JSON has null for NaN and infinity,
and NaN in a CSV is read as null.

### Exit status

| Status | Meaning |
|---|---|
| 0 | done |
| 1 | failed, refused, or a fault was found (`fsck`) |
| 2 | wrong usage |
| 130 | Ctrl-C |
| 141 | nobody reads the output any more |
| 143, 129 | ended by SIGTERM, SIGHUP: as by Ctrl-C, what was finished stays and is told; a second one ends at once |

Others are listed at the command.

### Errors

Errors are two or three lines on standard error: what happened, where, what to do. With `--json` they are one object
there: `{"error": {"kind": …, "what": …, "place": {…}, "remedy": …}}`. `BUCKETLAKE_TRACE=1` shows where in the code.

### Safety

- **Before anything is deleted** a question is asked. `--yes` answers it. Without it, the command is refused if standard
  input is no terminal.
- **`--dry-run`** runs the operation itself on a storage where nothing happens, and says what would have gone.
- **Ctrl-C** ends a command. It says what it kept, and what it had finished stays committed.

### Completion

Shell completion knows commands, options and names of tables.

| Shell | How |
|---|---|
| bash | `source <(bucketlake completion bash)` in `~/.bashrc` |
| zsh | the same with `zsh` in `~/.zshrc` |
| fish | `bucketlake completion fish`, into `~/.config/fish/completions/bucketlake.fish` |

### Common options

Most commands take these. The sections below name them, and explain only the others.

| Option | Meaning |
|---|---|"""

# Options that most commands have: how they are written, and what their help says.
_COMMON = {
    "warehouse": ("`--warehouse`, `-w` `PLACE`", "Folder, URI or configured name; by default $BUCKETLAKE_WAREHOUSE."),
    "branch": ("`--branch` `NAME`", "A branch of the table, as TABLE$branch_NAME."),
    "format": ("`--format` `FORMAT`", "How rows are written: table, json, jsonl, csv, arrow."),
    "json": ("`--json`", "One JSON document instead of text."),
}


def page() -> str:
    """The page's text."""
    app = build()
    known = list(commands(app))
    lines = [_HEAD, *(f"| {name} | {_cell(about)} |" for name, about in _COMMON.values()), ""]
    for panel in (READING, CHANGING, OTHER):
        chosen = [one for one in known if _panel(one[1], one[0]) == panel]
        lines += [f"## {panel}", ""] if chosen else []
        for name, command, made in chosen:
            lines += _section(name, command, made)
    return "\n".join(lines).rstrip() + "\n"


def _panel(command: Command, name: str) -> str:
    if name.startswith(("tag ", "branch ")):
        return CHANGING
    return command.panel if command.panel in (READING, CHANGING) else OTHER


def _section(name: str, command: Command, made: Any) -> Iterator[str]:
    yield f"### `bucketlake {name}`"
    yield ""
    yield inspect.cleandoc(made.help or "")
    yield ""
    yield f"    bucketlake {name} {' '.join(_pieces(made))}".rstrip()
    yield ""
    shown = [one for one in made.params if not getattr(one, "hidden", False)]
    rows = [_row(one) for one in shown if one.name not in _COMMON or _about(one) != _COMMON[one.name][1]]
    if rows:
        yield from ("| Argument | Meaning |", "|---|---|", *rows, "")
    common = [f"`--{one.name}`" for one in shown if one.name in _COMMON and _about(one) == _COMMON[one.name][1]]
    if common:
        yield from (f"[Common options](#common-options): {', '.join(sorted(common))}.", "")
    shape = {"rows": "rows, each with", "facts": "an object with", "lines": "an object a line, each with"}
    if command.shape == "stream":
        yield f"JSON: rows with the table's columns{_besides(command)}."
        yield ""
    elif command.answers:
        yield f"JSON: {shape[command.shape]}"
        yield ""
        yield from ("| Name | Type | Meaning |", "|---|---|---|")
        yield from (f"| `{one.name}` | {one.kind} | {_cell(one.about)} |" for one in command.answers)
        yield ""
    if command.exits != Command.__dataclass_fields__["exits"].default:
        yield f"Exit status: {command.exits}."
        yield ""


def _besides(command: Command) -> str:
    named = {one.name: one.about for one in command.answers}
    if "rowkind" in named:
        return f", and `rowkind`: {named['rowkind']}"
    return "; with `--output` an object with `file`, `format`, `rows`, `bytes`" if "file" in named else ""


def _pieces(made: Any) -> Iterator[str]:
    for one in made.params:
        if one.param_type_name == "argument":
            yield one.metavar or one.name.upper()
    if any(one.param_type_name == "option" for one in made.params):
        yield "[OPTIONS]"


def _row(one: Any) -> str:
    if one.param_type_name == "argument":
        return f"| `{_cell(one.metavar or one.name.upper())}` | {_cell(_about(one))} |"
    names = ", ".join(f"`{name}`" for name in one.opts)
    value = "" if one.is_flag else f" `{_cell(one.metavar or 'VALUE')}`"
    usual = one.default if isinstance(one.default, (str, int)) and not isinstance(one.default, bool) else None
    said = f" By default `{usual}`." if usual not in (None, "") and not one.is_flag else ""
    return f"| {names}{value} | {_cell(_about(one))}{said} |"


def _about(one: Any) -> str:
    return getattr(one, "about", None) or getattr(one, "help", None) or ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    print(page(), end="")
