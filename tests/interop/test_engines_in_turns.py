"""Every merge engine, table mode and changelog producer, written and compacted by Bucketlake and Apache Paimon in turns.

All tables go through their seeded histories together, so that Flink runs few jobs. After each round both engines read the
same rows, which are the model's; at the end both read the same changelog, which makes the table out of nothing. Twins:
two tables that take the same rows, one from each engine, hold the same rows and tell the same changes after each round.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pytest
from tests.histories.changes import changes_of, replay
from tests.histories.engines import COLUMNS, DELETE, ENGINES, INSERT, Engine, Values
from tests.histories.model import MODES, Change, Key, Mode, Model, as_rows, goes, is_strict, key_of, mode_of
from tests.histories.tables import FIELDS, KIND_TEXTS, PROMPT, SCHEMA, some_rows
from tests.interop.engines import AT_ONCE, DATABASE, select_each
from tests.interop.values import arrow_rows, canonical, shortest
from tests.peers.flink import FlinkPaimon
from tests.peers.rpc import PeerError
from tests.profile import SOAK, first

import bucketlake
from bucketlake.catalog import Catalog
from bucketlake.table import Table
from bucketlake.types.model import STRING, DataField

pytestmark = pytest.mark.peer

KIND = "op"
NAMES = (*COLUMNS, KIND)
ROUNDS = 4 if SOAK else 2
TWIN_ROUNDS = 3 if SOAK else 2
SEED = 20
SINKS = 14  # in one job; more want more network buffers than the peer has
SPARED = {**{f"fields.{KIND}.ignore-retract": "true"}}
Case = tuple[str, str]


def cases() -> list[Case]:
    """Every engine and every mode, each engine in several modes, in one in `make test`."""
    modes = list(MODES)
    found = []
    for number, engine in enumerate(ENGINES):
        possible = [mode for mode in modes if goes(ENGINES[engine], mode)]
        found += sorted(
            {(engine, possible[(number * 3 + step) % len(possible)]) for step in ((0, 5) if SOAK else (0,))}
        )
    return found


def twins() -> list[Case]:
    """Engines whose producers tell changes with every write, so that both engines must tell the same."""
    producers = ("lookup", "vectors-lookup", "input", "full-compaction", "lookup-deduplicated")
    plain = ("deduplicate", "sequence", "partial-removes", "groups", "aggregation-retracts", "first-row")
    found = [(engine, mode) for engine in plain for mode in producers if goes(ENGINES[engine], mode)]
    return first(found, 5)


CASES, TWINS = cases(), twins()
FAILS: Mapping[Case, str] = {}
TWIN_FAILS: Mapping[Case, str] = {}


def name_of(case: Case) -> str:
    return "_".join(case).replace("-", "_")


def create(catalog: Catalog, case: Case, name: str, bucket: str) -> Table:
    engine = ENGINES[case[0]]
    options = {**PROMPT, **engine.options, **MODES[case[1]].options, "rowkind.field": KIND, "bucket": bucket}
    if case[0] == "aggregation-ignores":
        options |= SPARED
    fields = [*FIELDS, DataField(len(FIELDS), KIND, STRING)]
    return catalog.create_table(name, fields, ["p"] if bucket != "1" else [], ["p", "k"], options)


def arrow(changes: Sequence[Change]) -> pa.Table:
    """Rows with their kinds in the table's own column."""
    columns = {item.name: pa.array([row[item.name] for _, row in changes], item.type) for item in SCHEMA}
    return pa.table({**columns, KIND: pa.array([KIND_TEXTS[kind] for kind, _ in changes], pa.string())})


class Stage:
    """Rows for Flink to insert, in their order: VALUES of more than one row are a union of sources to it, in none."""

    def __init__(self, flink: FlinkPaimon, catalog: Catalog) -> None:
        self._flink = flink
        fields = [DataField(0, "into", STRING), *FIELDS, DataField(len(FIELDS) + 1, KIND, STRING)]
        fields = [replace(item, id=number) for number, item in enumerate(fields)]
        self._table = catalog.create_table(f"{DATABASE}.staged", fields, options={"bucket": "-1"})
        self._rows: list[pa.Table] = []
        self._statements: list[str] = []

    def insert(self, name: str, changes: Sequence[Change], quiet: bool = False) -> None:
        """Have these rows written by Flink with the next `run`; `quiet`: it does not compact."""
        rows = arrow(changes)
        self._rows.append(rows.add_column(0, "into", pa.array([name] * len(rows))))
        hint = " /*+ OPTIONS('write-only'='true') */" if quiet else ""
        self._statements.append(
            f"INSERT INTO `{DATABASE}`.`{name}`{hint}"
            f" SELECT {', '.join(NAMES)} FROM `{DATABASE}`.`staged` WHERE `into` = '{name}'"
        )

    def run(self) -> None:
        """Write all, in few jobs."""
        self._table.write_arrow(pa.concat_tables(self._rows), "overwrite")
        for start in range(0, len(self._statements), SINKS):
            part = self._statements[start : start + SINKS]
            self._flink.sql(f"EXECUTE STATEMENT SET BEGIN {'; '.join(part)}; END" if len(part) > 1 else part[0])
        self._rows, self._statements = [], []


def rows_of(table: Table) -> list[tuple[Any, ...]]:
    table = table.refresh()
    return sorted(arrow_rows(table.to_arrow(), table.schema.fields), key=lambda row: row[:2])


def without_kind(row: Mapping[str, Any]) -> Values:
    return {name: row[name] for name in COLUMNS}


@dataclass
class Turn:
    """One table of both engines, and its model; `problems`: what went wrong. The rest: as in tests/table."""

    table: Table
    model: Model
    mode: Mode
    chance: random.Random
    written: list[Change] = field(default_factory=list)
    behind: bool = False
    problems: list[str] = field(default_factory=list)

    @property
    def engine(self) -> Engine:
        return self.model.engine

    @property
    def name(self) -> str:
        return self.table.name.split(".")[-1]

    def drawn(self) -> tuple[list[Change], bool]:
        """Rows to write, and whether not to compact."""
        admitted: list[Change] = []
        while not admitted:
            admitted = self.model.put(some_rows(self.chance, 8))
        self.written += [change for change in admitted if change[0] not in self.engine.ignored]
        quiet = self.chance.random() < 0.25
        self.wrote(quiet)
        return admitted, quiet

    def wrote(self, quiet: bool) -> None:
        late = quiet or self.mode.gentle
        self.behind = self.behind or (late and (self.mode.hides or self.mode.tells == "lookup"))

    def ours(self) -> None:
        """Bucketlake writes, deletes, updates or compacts."""
        self.table = self.table.refresh()
        lot, low = self.chance.random(), self.chance.randint(0, 6)
        found = [row for key, row in self.model.rows.items() if key[1] in (low, low + 1)]
        settled = not self.behind and not any(key_of(row) in self.model.waiting for row in found)
        if lot < 0.3 and settled and self.engine.deletes:
            self.table.delete(f"k IN ({low}, {low + 1})")
            self.stated(DELETE, found)
        elif lot < 0.4 and settled and self.engine.updates:
            self.table.update({"v": 50}, f"k IN ({low}, {low + 1})")
            self.stated(INSERT, [{**row, "v": 50} for row in found])
        else:
            if lot > 0.9:
                self.table.compact(full=False)
            changes, quiet = self.drawn()
            self.table.write_arrow(arrow(changes), write_only=quiet)

    def stated(self, kind: int, found: list[Values]) -> None:
        self.model.statement(kind, found)
        self.written += [(kind, row) for row in found]
        self.wrote(False)

    def compacted(self) -> None:
        self.behind = False
        self.model.compacted()

    def compare(self, when: str, theirs: Any) -> None:
        try:
            ours = rows_of(self.table)
        except Exception as error:
            self.problems.append(f"{when}: not read here: {error!r}")
            return
        if isinstance(theirs, PeerError) or theirs != canonical(ours):
            self.problems.append(f"{when}: ours {canonical(ours)}, theirs {theirs}")
        found, expected = [row[:-1] for row in ours], self.model.expected()
        if not (self.mode.hides and self.behind) and found != expected:
            self.problems.append(f"{when}: {different(found, expected)}")

    def changes(self) -> list[Change]:
        table = self.table.refresh()
        return [change for snapshot in table.snapshots() for change in changes_of(table, snapshot)]

    def tells_truly(self) -> None:
        """The changelog of both engines' files in order: the rows as they came, or what makes the table."""
        changes = self.changes()
        if self.mode.tells == "input":
            found = Counter(repr((kind, without_kind(row))) for kind, row in changes)
            wanted = Counter(repr((kind, without_kind(row))) for kind, row in self.written)
            if found != wanted:
                self.problems.append(f"told {found - wanted}, not told {wanted - found}")
            return
        told: dict[Key, Values] = {}
        try:
            replay(told, changes, is_strict(self.engine), pairs=self.mode.pairs)
        except AssertionError as error:
            self.problems.append(f"changelog: {error}")
        rows = as_rows({key: without_kind(row) for key, row in told.items()})
        if rows != self.model.expected():
            self.problems.append(f"changelog: {different(rows, self.model.expected())}")


def different(found: Sequence[tuple[Any, ...]], expected: Sequence[tuple[Any, ...]]) -> str:
    """The rows that are in one only."""
    left, right = [row for row in found if row not in expected], [row for row in expected if row not in found]
    return f"found {left}, expected {right}"


@pytest.fixture(scope="module")
def turns(flink: FlinkPaimon, tmp_path_factory: pytest.TempPathFactory) -> dict[Case, Turn]:
    """All histories, played."""
    catalog = bucketlake.open(tmp_path_factory.mktemp("turns"))
    catalog.create_database(DATABASE)
    flink.use(catalog.warehouse)
    stage = Stage(flink, catalog)
    found: dict[Case, Turn] = {}
    for number, case in enumerate(CASES):
        engine = ENGINES[case[0]]
        table = create(catalog, case, f"{DATABASE}.{name_of(case)}", ("2", "-1", "1")[number % 3])
        found[case] = Turn(table, Model(engine), mode_of(engine, case[1]), random.Random(f"{SEED} {case}"))
    for number in range(ROUNDS):
        play(stage, list(found.values()), number)
        compare(flink, list(found.values()), f"round {number}")
        if number == ROUNDS // 2:
            compact_by_flink(flink, list(found.values()))
            compare(flink, list(found.values()), f"round {number}, compacted by Flink")
    for turn in found.values():
        turn.table = turn.table.refresh()
        turn.table.compact()
        turn.compacted()
    compare(flink, list(found.values()), "compacted by Bucketlake")
    return found


def play(stage: Stage, turns: Sequence[Turn], number: int) -> None:
    """A round: Flink writes to every other table, Bucketlake to the rest."""
    for place, turn in enumerate(turns):
        if (place + number) % 2:
            stage.insert(turn.name, *turn.drawn())
        else:
            turn.ours()
    stage.run()


def compare(flink: FlinkPaimon, turns: Sequence[Turn], when: str) -> None:
    by_name = {turn.table.name: turn for turn in turns}
    names = list(by_name)
    for start in range(0, len(names), AT_ONCE):
        for name, theirs in select_each(flink, ", ".join(NAMES), names[start : start + AT_ONCE]).items():
            by_name[name].compare(when, theirs)


def compact_by_flink(flink: FlinkPaimon, turns: Sequence[Turn]) -> None:
    flink.sql(
        f"CALL sys.compact_database(including_databases => '{DATABASE}', mode => 'combined', excluding_tables => '.*staged')"
    )
    for turn in turns:
        turn.compacted()


def known(cases: Sequence[Case], fails: Mapping[Case, str]) -> list[Any]:
    found = []
    for case in cases:
        marks = [pytest.mark.xfail(reason=fails[case], strict=True)] if case in fails else []
        found.append(pytest.param(case, id="-".join(case), marks=marks))
    return found


@pytest.mark.parametrize("case", known(CASES, FAILS))
def test_rows_in_turns(turns: Mapping[Case, Turn], case: Case) -> None:
    assert not turns[case].problems, "\n".join(turns[case].problems)


TOLD = [case for case in CASES if mode_of(ENGINES[case[0]], case[1]).tells != "none"]


@pytest.fixture(scope="module")
def audited(flink: FlinkPaimon, turns: Mapping[Case, Turn]) -> dict[str, list[str]]:
    """Table name -> its whole changelog as Flink reads it, in no order."""
    found: dict[str, list[str]] = defaultdict(list)
    selects = []
    for case in TOLD:
        table = turns[case].table.refresh()
        newest = table.latest_snapshot()
        assert newest is not None
        span = f"'incremental-between'='0,{newest.id}','incremental-between-scan-mode'='changelog'"
        selects.append(
            f"SELECT CAST('{turns[case].name}' AS STRING), rowkind, {', '.join(NAMES)}"
            f" FROM `{DATABASE}`.`{turns[case].name}$audit_log` /*+ OPTIONS({span}) */"
        )
    for start in range(0, len(selects), AT_ONCE):
        result = flink.sql(" UNION ALL ".join(selects[start : start + AT_ONCE]))
        for row in shortest(result.rows, result.types):
            found[row[0]].append(row[1:])
    return {name: canonical(rows) for name, rows in found.items()}


@pytest.mark.parametrize("case", known(TOLD, FAILS))
def test_changelog_of_both(turns: Mapping[Case, Turn], audited: Mapping[str, list[str]], case: Case) -> None:
    turn = turns[case]
    turn.tells_truly()
    assert not turn.problems, "\n".join(turn.problems)
    changes = [(KIND_TEXTS[kind], *(row[name] for name in NAMES)) for kind, row in turn.changes()]
    assert audited[turn.name] == canonical(changes)


@dataclass
class Twins:
    """Two tables that take the same rows. `told`: a list of changes per key and table, of each round."""

    ours: Table
    theirs: Table
    model: Model
    problems: list[str] = field(default_factory=list)
    seen: list[int] = field(default_factory=lambda: [0, 0])

    def compare(self, when: str) -> None:
        found = [rows_of(self.ours), rows_of(self.theirs)]
        expected = self.model.expected()
        for rows, who in zip(found, ("Bucketlake", "Flink"), strict=True):
            if [row[:-1] for row in rows] != expected:
                self.problems.append(f"{when}: {who}: {different([row[:-1] for row in rows], expected)}")
        told = [self._told(0, self.ours.refresh()), self._told(1, self.theirs.refresh())]
        if told[0] != told[1]:
            keys = [key for key in {**told[0], **told[1]} if told[0].get(key) != told[1].get(key)]
            self.problems += [f"{when}: told here {told[0].get(key)}, by Flink {told[1].get(key)}" for key in keys]

    def _told(self, which: int, table: Table) -> dict[Key, list[str]]:
        found: dict[Key, list[str]] = defaultdict(list)
        for snapshot in table.snapshots()[self.seen[which] :]:
            self.seen[which] += 1
            for kind, row in changes_of(table, snapshot):
                found[row["p"], row["k"]].append(f"{KIND_TEXTS[kind]} {[row[name] for name in NAMES]}")
        return dict(sorted(found.items()))


@pytest.fixture(scope="module")
def twin_tables(flink: FlinkPaimon, tmp_path_factory: pytest.TempPathFactory) -> dict[Case, Twins]:
    catalog = bucketlake.open(tmp_path_factory.mktemp("twins"))
    catalog.create_database(DATABASE)
    flink.use(catalog.warehouse)
    stage = Stage(flink, catalog)
    found = {}
    for case in TWINS:
        pair = [create(catalog, case, f"{DATABASE}.{name_of(case)}_{who}", "2") for who in ("ours", "theirs")]
        found[case] = Twins(*pair, Model(ENGINES[case[0]]))
    for number in range(TWIN_ROUNDS):
        for case, pair in found.items():
            changes = pair.model.put(some_rows(random.Random(f"{SEED} {number} {case}"), 10))
            if changes:
                pair.ours.write_arrow(arrow(changes))
                stage.insert(pair.theirs.name.split(".")[-1], changes)
        stage.run()
        for case, pair in found.items():
            pair.compare(f"round {number}")
    return found


@pytest.mark.parametrize("case", known(TWINS, TWIN_FAILS))
def test_twins(twin_tables: Mapping[Case, Twins], case: Case) -> None:
    assert not twin_tables[case].problems, "\n".join(twin_tables[case].problems)
