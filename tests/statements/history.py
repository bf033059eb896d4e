"""Random statements, run on a table of a lake and on its model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Row as SparkRow

from bucketlake.errors import BucketlakeError
from bucketlake.spark.session import Lake

from . import evolving
from .merging import Merge
from .model import Column, Model, Row, assigned
from .terms import CARRIED, PLACED, TEXTS, Name, Term, condition, literal, typed, value

TABLE = "db.t"
ALL = Term("true", lambda env: True)
MODE = "spark.sql.sources.partitionOverwriteMode"


@dataclass(frozen=True)
class Kind:
    """Tables of one kind. `key`: its columns; `parts`: whether it is partitioned by `p`, one is chosen; `without`: steps
    that it refuses."""

    options: Mapping[str, str]
    key: tuple[str, ...] = ()
    parts: tuple[bool, ...] = (True, False)
    formats: tuple[str, ...] = ("parquet", "orc", "avro")
    without: tuple[str, ...] = ()

    @property
    def engine(self) -> str:
        return self.options.get("merge-engine", "deduplicate")

    @property
    def rescales(self) -> bool:
        return int(self.options.get("bucket", -1)) > 0 and not self.has("pk-clustering-override")

    def has(self, option: str) -> bool:
        return self.options.get(option) == "true"


@dataclass
class History:
    """One table with its model and what was done to both."""

    lake: Lake
    kind: Kind
    chance: Random
    partitioned: bool
    model: Model
    told: list[str] = field(default_factory=list)
    tags: dict[str, Model] = field(default_factory=dict)
    added: int = 0
    branch: Model | None = None
    properties: str = ""  # of the table: its partitions and options as SQL

    @classmethod
    def begin(cls, lake: Lake, kind: Kind, seed: object) -> History:
        chance = Random(f"{seed}")
        partitioned = chance.choice(kind.parts)
        model = Model(kind.key, kind.engine)
        for place in "kp":
            if chance.random() < 0.5:
                of = chance.choice([name for name in PLACED if name != "BOOLEAN" or place == "p"])
                model.columns[model.at(place)] = Column(place, place, of, values=PLACED[of])
        model.columns.append(Column("z", "z", chance.choice(list(CARRIED))))
        options = {
            **kind.options,
            "file.format": chance.choice(kind.formats),
            "num-sorted-run.compaction-trigger": chance.choice("35"),
        }
        if partitioned and model.columns[model.at("p")].kind == "BINARY":
            options["partition.legacy-name"] = "false"
        if kind.key:
            options["primary-key"] = ",".join(kind.key)
        columns = ", ".join(f"{column.name} {column.sql}" for column in model.columns)
        parts = " PARTITIONED BY (p)" if partitioned else ""
        texts = ", ".join(f"'{name}' = '{text}'" for name, text in options.items())
        found = cls(lake, kind, chance, partitioned, model, properties=f"{parts} TBLPROPERTIES ({texts})")
        found.say(f"CREATE TABLE {TABLE} ({columns}){found.properties}")
        return found

    def say(self, statement: str) -> list[Any]:
        self.told.append(statement)
        return self.lake.sql(statement).collect()

    # ---- rows

    def some_rows(self, most: int = 5) -> list[Row]:
        """New rows: of a table with a key no key twice."""
        found = [self._row() for _ in range(self.chance.randrange(1, most + 1))]
        return list({self.model.keyed(row): row for row in found}.values()) if self.kind.key else found

    def _row(self) -> Row:
        chance = self.chance
        row: Row = {}
        for column in self.model.columns:
            if column.kind == "ROW":
                members = {name: self._plain(kind) for name, kind in column.members}
                row[column.place] = None if chance.random() < 0.2 else members
            else:
                row[column.place] = self._plain(column.kind)
        keys, (one, two, *more) = self._column("k").values or range(8), self._parts
        row["k"] = chance.choice(keys) if self.kind.key or chance.random() < 0.9 else None
        row["p"] = chance.choice([one, two] if self.kind.key else [one, two, two, None, *more])
        return row

    @property
    def _parts(self) -> tuple[Any, ...]:
        return self._column("p").values[:4] or ("a", "b", "", "c/d")

    def _column(self, place: str) -> Column:
        return self.model.columns[self.model.at(place)]

    def _plain(self, kind: str) -> Any:
        if kind in CARRIED:
            return self.chance.choice([None, *CARRIED[kind]])
        return self.chance.choice([None, *TEXTS] if kind == "STRING" else [None, *range(-2, 9)])

    def values(self, rows: list[Row], columns: list[Column]) -> str:
        """Rows as a query with these columns."""
        listed = ", ".join(
            "(" + ", ".join(typed(row.get(column.place), column.kind) for column in columns) + ")" for row in rows
        )
        names = ", ".join(column.name for column in columns)
        casts = ", ".join(f"CAST({column.name} AS {column.sql}) AS {column.name}" for column in columns)
        hint = self.chance.choice(["", "/*+ REPARTITION(2) */ "])
        return f"SELECT {hint}{casts} FROM VALUES {listed} AS w({names})"

    # ---- steps

    def insert(self) -> None:
        rows, columns = self.some_rows(), list(self.model.columns)
        form = self.chance.randrange(4)
        if form == 0:
            listed = ", ".join(
                "(" + ", ".join(typed(row[column.place], column.kind) for column in columns) + ")" for row in rows
            )
            self.say(f"INSERT INTO {TABLE} VALUES {listed}")
        elif form == 1:
            self.say(f"INSERT INTO {TABLE} {self.values(rows, columns)}")
        else:
            self.chance.shuffle(columns)
            spare = [column for column in columns if column.place not in ("k", "p") and self.chance.random() < 0.7]
            kept = [column for column in columns if column in spare or column.place in ("k", "p")]
            rows = [self.model.filled({column.place: row[column.place] for column in kept}) for row in rows]
            names = "BY NAME" if form == 2 else "(" + ", ".join(column.name for column in kept) + ")"
            self.say(f"INSERT INTO {TABLE} {names} {self.values(rows, kept)}")
        self.model.put(rows)

    def copy_rows(self) -> None:
        """INSERT of rows of the table itself."""
        where = condition(self.chance, self._own())
        rows = [row for row in self.model.rows if where.value({"t": row})]
        listed = ", ".join("v + 1" if column.place == "v" else column.name for column in self.model.columns)
        self.say(f"INSERT INTO {TABLE} SELECT {listed} FROM {TABLE} WHERE {where.text}")
        self.model.put([{**row, "v": None if row["v"] is None else row["v"] + 1} for row in rows])

    def overwrite(self) -> None:
        rows, columns = self.some_rows(3), list(self.model.columns)
        form = self.chance.randrange(4) if self.partitioned else 0
        if form == 0:
            self.say(f"SET {MODE}=static")
            self.say(f"INSERT OVERWRITE {TABLE} {self.values(rows, columns)}")
            self.model.rows = []
        elif form == 1:
            self.say(f"SET {MODE}=dynamic")
            self.say(f"INSERT OVERWRITE {TABLE} {self.values(rows, columns)}")
            self.say(f"RESET {MODE}")
            gone = {row["p"] for row in rows}
            self.model.rows = [row for row in self.model.rows if row["p"] not in gone]
        else:
            part = self.chance.choice(self._parts[:2])
            rows = [{**row, "p": part} for row in rows]
            if self.kind.key:
                rows = list({self.model.keyed(row): row for row in rows}.values())
            if form == 2:
                others = [column for column in columns if column.place != "p"]
                query = self.values(rows, others)
                self.say(f"INSERT OVERWRITE {TABLE} PARTITION (p = {literal(part)}) {query}")
            else:
                self.say(f"INSERT INTO {TABLE} REPLACE WHERE p = {literal(part)} {self.values(rows, columns)}")
            self.model.rows = [row for row in self.model.rows if row["p"] != part]
        self.model.put(rows)

    def delete(self) -> None:
        alias, where = self._where()
        self._settled()
        self.say(f"DELETE FROM {TABLE}{alias} WHERE {where.text}")
        self.model.rows = [row for row in self.model.rows if not where.value({"t": row})]
        self._settled()

    def update(self) -> None:
        alias, where = self._where()
        names = self._own(alias and "q.")
        sets: dict[str, Term] = {}
        for column in self.chance.sample(self.model.columns, len(self.model.columns)):
            if len(sets) == 2 or not self._may_set(column):
                continue
            if column.kind == "ROW" and self.chance.random() < 0.7:
                name, kind = self.chance.choice(column.members)
                sets[f"{column.name}.{name}"] = self._value(column, names, kind)
            else:
                sets[column.name] = self._value(column, names)
        texts = ", ".join(f"{name} = {term.text}" for name, term in sets.items())
        self.say(f"UPDATE {TABLE}{alias} SET {texts} WHERE {where.text}")
        changed = [row for row in self.model.rows if where.value({"t": row})]
        after = [assigned(self.model, row, sets, {"t": row}) for row in changed]
        if self.kind.key:
            keep = [row for row in self.model.rows if not where.value({"t": row})]
            if self.kind.engine == "deduplicate":
                self.model.rows = keep
        else:
            self.model.rows = [row for row in self.model.rows if not where.value({"t": row})]
        self.model.put(after)

    def merge(self) -> None:
        self._settled()
        Merge(self).run()
        self._settled()

    def truncate(self) -> None:
        self.say(f"TRUNCATE TABLE {TABLE}")
        self.model.rows = []

    def drop_partition(self) -> None:
        there = {row["p"] for row in self.model.rows} - {None, ""}
        if not self.partitioned or not there:
            return
        part = self.chance.choice(sorted(there))
        self.say(f"ALTER TABLE {TABLE} DROP PARTITION (p = {literal(part)})")
        self.model.rows = [row for row in self.model.rows if row["p"] != part]

    def alter(self) -> None:
        columns, chance = self.model.columns, self.chance
        form = chance.randrange(5)
        free = [column for column in columns if column.place not in ("k", "p", "v", "x")]
        self.added += 1
        if form == 0 or (form == 1 and len(free) < 2):
            column = Column(f"c{self.added}", f"c{self.added}", chance.choice(["INT", "STRING"]))
            place = chance.choice(["", " FIRST", " AFTER v"])
            self.say(f"ALTER TABLE {TABLE} ADD COLUMN {column.name} {column.sql}{place}")
            at = {"": len(columns), " FIRST": 0}.get(place)
            columns.insert(self.model.at("v") + 1 if at is None else at, column)
        elif form == 1:
            column = chance.choice(free)
            self.say(f"ALTER TABLE {TABLE} DROP COLUMN {column.name}")
            columns.remove(column)
        elif form == 2 and free:
            column = chance.choice(free)
            name = f"r{self.added}"
            self.say(f"ALTER TABLE {TABLE} RENAME COLUMN {column.name} TO {name}")
            columns[columns.index(column)] = replace(column, name=name)
        elif form == 3:
            at = self.model.at("x")
            self.say(f"ALTER TABLE {TABLE} ADD COLUMN x.m{self.added} INT")
            columns[at] = replace(columns[at], members=(*columns[at].members, (f"m{self.added}", "INT")))
        elif wider := [column for column in free if column.kind == "INT"]:
            column = chance.choice(wider)
            self.say(f"ALTER TABLE {TABLE} ALTER COLUMN {column.name} TYPE BIGINT")
            columns[columns.index(column)] = replace(column, kind="BIGINT")
        self.model.settle()

    def compact(self) -> None:
        more = self.chance.choice(["", ", compact_strategy => 'full'", ", compact_strategy => 'minor'"])
        if self.partitioned and self.chance.random() < 0.3:
            part = literal(self.chance.choice(self._parts[:2])).replace("'", "''")
            more += f", where => 'p = {part}'"
        if not self.kind.key and not self.kind.rescales and not self.kind.has("data-evolution.enabled"):
            more = self.chance.choice([more, ", order_strategy => 'zorder', order_by => 'k,v'"])
        self.say(f"CALL sys.compact(table => '{TABLE}'{more})")

    def rescale(self) -> None:
        if not self.kind.rescales:
            return
        count = self.chance.randrange(1, 5)
        self.say(f"ALTER TABLE {TABLE} SET TBLPROPERTIES ('bucket' = '{count}')")
        self.say(f"CALL sys.rescale(table => '{TABLE}', bucket_num => {count})")

    def tag(self) -> None:
        name = f"tag{len(self.told)}"
        table = self.lake.catalog.table(TABLE)
        newest = table.latest_snapshot()
        if newest is None or newest.schema_id != table.schema.id:  # a tag has the columns of its snapshot
            return
        self.say(f"CALL sys.create_tag(table => '{TABLE}', tag => '{name}')")
        self.tags[name] = self.model.copy()

    def look_back(self) -> None:
        if not self.tags:
            return
        name = self.chance.choice(list(self.tags))
        past = self.tags[name]
        rows = self.say(f"SELECT * FROM {TABLE} VERSION AS OF '{name}'")
        self._equal(counted(rows), past.shown(), f"as of {name}")

    def roll_back(self) -> None:
        if not self.tags:
            return
        names = list(self.tags)
        name = self.chance.choice(names)
        self.say(f"CALL sys.rollback(table => '{TABLE}', version => '{name}')")
        self.model.rows = self.tags[name].copy().rows
        self.model.settle()
        self.tags = {one: self.tags[one] for one in names[: names.index(name) + 1]}

    # ---- parts of steps

    def _own(self, prefix: str = "") -> list[Name]:
        return self.model.names(prefix)

    def _where(self, subqueries: bool = True) -> tuple[str, Term]:
        alias = self.chance.choice(["", " AS q"])
        names = self._own("q." if alias else "")
        if subqueries and self.chance.random() < 0.2:
            return alias, self._among(names)
        return alias, condition(self.chance, names)

    def _among(self, names: list[Name]) -> Term:
        """A condition with a subquery over the table itself."""
        inner = condition(self.chance, self.model.names("i."))
        mine = next(name for name in names if name.text.endswith("k"))
        found = {row["k"] for row in self.model.rows if inner.value({"t": row})} - {None}
        text = f"{mine.text} IN (SELECT i.k FROM {TABLE} i WHERE {inner.text} AND i.k IS NOT NULL)"
        return Term(text, lambda env: mine.value(env) in found)

    def _value(self, column: Column, names: list[Name], member: str = "") -> Term:
        """A value for a column, or for its member of this type."""
        kind = member or column.kind
        if column.values or kind == "ROW":
            constant = self._row()[column.place]
            return Term(f"CAST({literal(constant)} AS {column.sql})", lambda env: constant)
        return value(self.chance, {"STRING": "text", "INT": "int", "BIGINT": "int"}.get(kind, kind), names)

    def _may_set(self, column: Column) -> bool:
        if column.place == "p":
            return "p" not in self.kind.key and not (self.partitioned and self.kind.has("data-evolution.enabled"))
        return column.place not in self.kind.key

    def _settled(self) -> None:
        """Tables of some engines remember of a deleted row what it was, and rewrite files that need no merge alone."""
        if self.kind.engine != "deduplicate":
            self.say(f"CALL sys.compact(table => '{TABLE}', compact_strategy => 'full')")

    # ---- what is there

    def check(self, table: str = TABLE) -> None:
        """All rows without Spark, and those of a condition with it."""
        found = self.lake.catalog.table(table.replace("`", "")).to_arrow().to_pylist()
        self._equal(Counter(repr(list(row.values())) for row in found), self.model.shown(), "rows without Spark")
        where = condition(self.chance, self._own()) if self.chance.random() < 0.7 else ALL
        rows = [row for row in self.model.rows if where.value({"t": row})]
        self._equal(counted(self.say(f"SELECT * FROM {table} WHERE {where.text}")), self.model.shown(rows), "rows")

    def check_files(self) -> None:
        """Whether the table is whole, and rows have ids of their own."""
        report = self.lake.catalog.table(TABLE).fsck("keys")
        assert not report.findings, self._story(str(report.findings))
        if self.kind.has("row-tracking.enabled"):
            (row,) = self.say(f"SELECT count(*), count(DISTINCT _ROW_ID) FROM {TABLE}")
            assert row[0] == row[1] == len(self.model.rows), self._story(f"row ids: {row}")

    def _equal(self, found: Counter[str], expected: Counter[str], what: str) -> None:
        if found != expected:
            story = f"{what}\n only table: {found - expected}\n only model: {expected - found}"
            raise AssertionError(self._story(story))

    def _story(self, end: str) -> str:
        return ";\n".join([*self.told, end])


def counted(rows: Iterable[Iterable[Any]]) -> Counter[str]:
    """Rows as the model shows its own."""
    return Counter(repr([plain(item) for item in row]) for row in rows)


def plain(item: Any) -> Any:
    if isinstance(item, SparkRow):
        return {name: plain(one) for name, one in item.asDict().items()}
    return list(item.items()) if isinstance(item, dict) else bytes(item) if isinstance(item, bytearray) else item


Step = Callable[[History], None]
STEPS: Mapping[str, tuple[int, Step]] = {
    "insert": (5, History.insert),
    "copy": (1, History.copy_rows),
    "overwrite": (2, History.overwrite),
    "delete": (3, History.delete),
    "update": (4, History.update),
    "merge": (8, History.merge),
    "truncate": (1, History.truncate),
    "drop partition": (1, History.drop_partition),
    "alter": (3, History.alter),
    "compact": (2, History.compact),
    "rescale": (1, History.rescale),
    "tag": (1, History.tag),
    "look back": (1, History.look_back),
    "roll back": (1, History.roll_back),
    "bring": (1, evolving.bring),
    "default": (1, evolving.set_default),
    "member": (1, evolving.alter_member),
    "branch": (1, evolving.branch),
    "write branch": (2, evolving.write_branch),
    "forward": (1, evolving.forward),
    "replace": (1, evolving.replace_table),
}


def played(lake: Lake, kind: Kind, seed: object, steps: int) -> History:
    """A history of so many steps, looked at after each."""
    found = History.begin(lake, kind, seed)
    names = [name for name in STEPS if name not in kind.without]
    weights = [STEPS[name][0] for name in names]
    found.insert()
    for _ in range(steps):
        (name,) = found.chance.choices(names, weights)
        before = len(found.told)
        try:
            STEPS[name][1](found)
        except (BucketlakeError, PySparkException, ValueError) as error:
            raise AssertionError(found._story(f"{type(error).__name__}: {error}")) from error
        if len(found.told) > before:
            found.check()
    found.check_files()
    return found
