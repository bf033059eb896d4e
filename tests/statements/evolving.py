"""Steps that change a table's columns as rows come, go to its branches, or put another table in its place."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from .model import Column
from .terms import literal

if TYPE_CHECKING:
    from .history import History

TABLE = "db.t"
BRANCH = "db.`t$branch_b`"
MERGING = "spark.paimon.write.merge-schema"


def bring(history: History) -> None:
    """INSERT of rows with a column that the table lacks, or a ROW's member."""
    model, chance = history.model, history.chance
    history.added += 1
    if chance.random() < 0.5:
        at = model.at("x")
        members = (*model.columns[at].members, (f"m{history.added}", "INT"))
        after = [*model.columns[:at], replace(model.columns[at], members=members), *model.columns[at + 1 :]]
    else:
        kind = chance.choice(["INT", "STRING"])
        after = [*model.columns, Column(f"c{history.added}", f"c{history.added}", kind)]
    model.columns = after
    rows = history.some_rows()
    history.say(f"SET {MERGING}=true")
    history.say(f"INSERT INTO {TABLE} BY NAME {history.values(rows, after)}")
    history.say(f"RESET {MERGING}")
    model.settle()
    model.put(rows)


def set_default(history: History) -> None:
    """What columns are that a later INSERT does not name."""
    model, chance = history.model, history.chance
    free = [column for column in model.columns if column.place not in ("k", "p") and column.kind in ("INT", "STRING")]
    column = chance.choice(free)
    value = chance.choice((None, 4 if column.kind == "INT" else "it's"))
    if value is None and column.default is not None:
        history.say(f"ALTER TABLE {TABLE} ALTER COLUMN {column.name} DROP DEFAULT")
    elif value is not None:
        history.say(f"ALTER TABLE {TABLE} ALTER COLUMN {column.name} SET DEFAULT {literal(value)}")
    else:
        return
    model.columns[model.columns.index(column)] = replace(column, default=value)


def alter_member(history: History) -> None:
    """A ROW's member dropped, renamed or widened."""
    model, chance = history.model, history.chance
    at = model.at("x")
    column = model.columns[at]
    name, kind = chance.choice(column.members)
    form = chance.randrange(2)
    history.added += 1
    if form == 0 and len(column.members) > 1:
        history.say(f"ALTER TABLE {TABLE} DROP COLUMN x.{name}")
        members = tuple(member for member in column.members if member[0] != name)
    elif kind == "INT":
        history.say(f"ALTER TABLE {TABLE} ALTER COLUMN x.{name} TYPE BIGINT")
        members = tuple((one, "BIGINT" if one == name else of) for one, of in column.members)
    else:
        return
    model.columns[at] = replace(column, members=members)
    model.settle()


# ---- branches


def branch(history: History) -> None:
    """A branch of what is there now, in place of the one before."""
    if history.lake.catalog.table(TABLE).latest_snapshot() is None:
        return
    if history.branch is not None:
        history.say(f"CALL sys.delete_branch(table => '{TABLE}', branch => 'b')")
    name = f"tag{len(history.told)}"
    history.say(f"CALL sys.create_tag(table => '{TABLE}', tag => '{name}')")
    history.tags[name] = history.model.copy()
    history.say(f"CALL sys.create_branch(table => '{TABLE}', branch => 'b', tag => '{name}')")
    history.branch = history.model.copy()


def write_branch(history: History) -> None:
    """Rows written to the branch, or deleted in it, which the table itself is not to see."""
    if history.branch is None:
        return
    main, history.model = history.model, history.branch
    try:
        if history.chance.random() < 0.7 or "delete" in history.kind.without or history.kind.engine != "deduplicate":
            rows = history.some_rows()
            history.say(f"INSERT INTO {BRANCH} {history.values(rows, history.model.columns)}")
            history.model.put(rows)
        else:
            alias, where = history._where(subqueries=False)
            history.say(f"DELETE FROM {BRANCH}{alias} WHERE {where.text}")
            history.model.rows = [row for row in history.model.rows if not where.value({"t": row})]
        history.check(BRANCH)
    finally:
        history.branch, history.model = history.model, main


def forward(history: History) -> None:
    """The branch becomes the table."""
    if history.branch is None or history.chance.random() < 0.5:
        return
    history.say(f"CALL sys.fast_forward(table => '{TABLE}', branch => 'b')")
    history.model = history.branch.copy()
    history.tags = {}


def replace_table(history: History) -> None:
    """CREATE OR REPLACE TABLE … AS SELECT of rows of the table itself, or of others."""
    columns = history.model.columns
    if history.branch is not None or any("CHAR" in column.kind for column in columns):  # casts have no length
        return
    rows = history.some_rows()
    query = history.values(rows, columns)
    history.say(f"CREATE OR REPLACE TABLE {TABLE}{history.properties} AS {query}")
    history.model.columns = [replace(column, default=None) for column in columns]
    history.model.rows = []
    history.model.put(rows)
    history.tags = {}
