"""The shape of the code, as ARCHITECTURE.md promises it: layers, sizes, effects, exports."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "bucketlake"
MODULES = sorted(PACKAGE.rglob("*.py"))

# The rooms, in order: a room imports from itself and from those before it. A room is a module, or a folder with all that
# has no room of its own in it.
ROOMS = (
    *("lazy", "values", "amounts"),
    *("redaction", "traces", "errors", "file_names", "types", "options", "schema", "env", "events"),
    *(
        "format.guard",
        "format.roaring",
        "format.numbers",
        "format.varints",
        "format.row",
        "format.avro",
        "format.metadata",
    ),
    "predicate",
    *("format.file_index", "format.index", "format.data"),
    "paths",
    *("lsm.words", "lsm.keys", "lsm.aggregates", "lsm.engines", "lsm.merge", "lsm.levels", "lsm.compaction"),
    *("lsm.changelog", "lsm.difference", "lsm.live_rows", "lsm.key_run"),
    *("ops.progress", "ops.table", "ops.rows", "ops.buckets", "ops.scan", "ops.lookup", "ops.key_index", "ops.write"),
    *("ops.rewrite", "ops.rebase", "ops.system", "ops.commit", "ops.cluster", "ops.compact", "ops.rescale"),
    *("ops.change", "ops.global_index", "ops.clean.removal", "ops.refs"),
    *("ops.migrate", "ops.clean", "ops.clone", "ops.check", "ops.stream"),
    *("report", "plot"),
    *(
        "shown",
        "history",
        "health",
        "streams",
        "upkeep",
        "frames",
        "table",
        "catalogs",
        "catalog_tables",
        "catalog",
        "creation",
        "maintenance",
    ),
    "ui",
    *(
        "spark.settings",
        "spark.assignment",
        "spark.beside",
        "spark.actions",
        "spark.types",
        "spark.conform",
        "spark.arrow_rows",
        "spark.column_text",
        "spark.cluster",
        "spark.java",
        "spark.quiet",
        "spark.faults",
        "spark.raised",
        "spark.handed",
        "spark.instants",
    ),
    *("spark.read", "spark.maintain"),
    *(
        "spark.write",
        "spark.changes",
        "spark.sort_compaction",
        "spark.maintainer",
        "spark.merge",
        "spark.copy",
        "spark.datasource",
        "spark.stream",
        "spark.daemon",
        "spark.table",
        "spark.session",
        "cdc",
    ),
    *(
        "sql.text",
        "sql.query",
        "sql.rows",
        "sql.tables",
        "sql.procedures",
        "sql.explained",
        "sql.compound",
        "sql.statements",
        "sql.script",
        "sql.attached",
        "sql",
    ),
    *("notebook", "demo", "cli", "__main__"),
)

# Exceptions to the soft caps. These lists only shrink.
LONG_MODULES: dict[str, int] = {}
LONG_FUNCTIONS: dict[str, int] = {}
MANY_PARAMETERS: dict[str, int] = {"bucketlake/catalog.py:create_table": 7}
# Loaded only where they are used, by way of bucketlake.lazy: an import of the package, or of a worker, has none of them.
LATE = ("pandas", "polars", "sqlglot", "fastavro", "datasketches", "obstore")


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def _nodes(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(_tree(path)))


def _name(path: Path) -> str:
    return path.relative_to(PACKAGE.parent).as_posix()


def _room(module: str) -> int:
    """The place of a module's room in the order."""
    parts = module.split(".")
    for length in range(len(parts), 0, -1):
        if ".".join(parts[:length]) in ROOMS:
            return ROOMS.index(".".join(parts[:length]))
    pytest.fail(f"bucketlake.{module} is in no room: add it to ROOMS and to ARCHITECTURE.md")


def _module(dotted: str) -> str:
    """The module that holds a dotted name, which may be the module itself."""
    path = PACKAGE / dotted.replace(".", "/")
    return dotted if path.is_dir() or path.with_suffix(".py").is_file() else dotted.rpartition(".")[0]


@cache
def _imports(path: Path, typing: bool = False) -> list[tuple[Any, str]]:
    """Modules of this package that a module imports at run time, at once or lazily; `typing`: those for type checking
    as well."""
    guarded = (
        set()
        if typing
        else {
            id(inner)
            for node in _nodes(path)
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
            for inner in ast.walk(node)
        }
    )
    found: list[tuple[Any, str]] = []
    for node in _nodes(path):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "lazy":
            name = node.args[0].value if isinstance(node.args[0], ast.Constant) else ""
            found.extend([(node, name[11:])] if str(name).startswith("bucketlake.") else [])
        if id(node) in guarded:
            continue
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "bucketlake":
            rest = node.module.split(".")[1:]
            found.extend((node, _module(".".join([*rest, alias.name]))) for alias in node.names)
        elif isinstance(node, ast.Import):
            found.extend((node, alias.name[11:]) for alias in node.names if alias.name.startswith("bucketlake."))
    return found


def of_every_module(check: Callable[[Path], None]) -> Callable[[], None]:
    """A test of all modules: a rule takes a moment, a test of its own for each module would take longer."""

    def test() -> None:
        problems = []
        for path in MODULES:
            try:
                check(path)
            except (AssertionError, pytest.fail.Exception) as error:
                problems.append(str(error))
        assert not problems, "\n".join(problems)

    return test


@of_every_module
def test_imports_only_earlier_rooms(path: Path) -> None:
    if (path.stem == "__init__" and not _imports(path)) or (path.parent == PACKAGE and path.stem == "__init__"):
        return
    own = _room(".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__"))
    for node, module in _imports(path, typing=True):
        assert _room(module) <= own, f"{_name(path)}:{node.lineno} imports bucketlake.{module} from a later room"


def test_no_modules_import_each_other() -> None:
    """Not by way of others, lazily or for type checking either."""
    behind = {
        ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__"): path for path in MODULES
    }
    graph = {
        name: {module for _, module in _imports(path, typing=True) if module in behind and module != name}
        for name, path in behind.items()
        if path != PACKAGE / "__init__.py"  # the package's face names what is asked of it
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"modules import each other: {' <- '.join(error.args[1])}")


@of_every_module
def test_imports_stand_on_top(path: Path) -> None:
    for node in _nodes(path):
        if isinstance(node, ast.FunctionDef):
            inner = [n for n in ast.walk(node) if isinstance(n, (ast.Import, ast.ImportFrom))]
            assert not inner, f"{_name(path)}:{inner[0].lineno} imports inside {node.name}"


@of_every_module
def test_only_spark_and_what_follows_knows_pyspark(path: Path) -> None:
    if path.relative_to(PACKAGE).parts[0].removesuffix(".py") in ("__init__", "spark", "cdc", "sql"):
        return
    assert not re.search(r"^\s*(import|from) pyspark", path.read_text(), re.MULTILINE), _name(path)


@of_every_module
def test_public_spark_api_only(path: Path) -> None:
    found = re.search(r"\._jvm|\._jdf|\._jsparkSession|\.rdd\b|py4j|\._sc\b|_gateway", path.read_text())
    assert found is None, f"{_name(path)} reaches behind Spark's public API: {found.group() if found else ''}"


@of_every_module
def test_rows_are_kept_in_one_place(path: Path) -> None:
    """What a lost executor may do to rows that are looked at twice is decided in spark/write/kept.py; CACHE TABLE is the user's."""
    if path.name == "kept.py" or _name(path) == "bucketlake/sql/tables/views.py":
        return
    found = re.search(r"\.(persist|cache|localCheckpoint|checkpoint)\(", path.read_text())
    assert found is None, f"{_name(path)} keeps rows by itself: {found.group() if found else ''}"


@of_every_module
def test_actions_of_spark_tell_of_vanished_files(path: Path) -> None:
    """What reads a table's files for a statement that may begin anew goes by spark/actions.py."""
    if _name(path).startswith(("bucketlake/spark/write/", "bucketlake/spark/merge/", "bucketlake/spark/read/")):
        text = re.sub(r"spark\.sql\(.*\)\.collect\(\)", "", path.read_text())
        found = re.search(r"\.(toArrow|collect|toPandas|foreach|first|head)\(|(?<!\))\.count\(\)", text)
        assert found is None, f"{_name(path)} runs a job by itself: {found.group() if found else ''}"


EFFECTS = re.compile(
    r"\b(time\.(time|time_ns|sleep|monotonic)\(|datetime\.(now|utcnow|today)\(|uuid\d?\(\)|uuid\.uuid\d|"
    r"(?<![\w.])random\.|(?<![\w.])open\(|os\.(remove|unlink|rename|replace|link|makedirs|listdir|scandir)\(|shutil\.)"
)


@of_every_module
def test_effects_only_in_env(path: Path) -> None:
    if path.parent.name == "env" or _name(path) in LOCAL_DISK:
        return
    for number, line in enumerate(path.read_text().splitlines(), 1):
        code = line.split("#")[0]
        found = EFFECTS.search(code)
        assert found is None, f"{_name(path)}:{number}: {found.group() if found else ''} belongs in env"


# Modules that use this machine's own disk or tools, not the table's storage.
LOCAL_DISK = {
    "bucketlake/spark/java.py": "looks for a Java on this machine",
    "bucketlake/spark/quiet.py": "looks for Spark's configuration on this machine",
}


def _functions(path: Path) -> list[ast.FunctionDef]:
    return [node for node in _nodes(path) if isinstance(node, ast.FunctionDef)]


@of_every_module
def test_soft_caps(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= LONG_MODULES.get(_name(path), 600), f"{_name(path)} is too long: split it"
    for function in _functions(path):
        where = f"{_name(path)}:{function.name}"
        length = (function.end_lineno or 0) - function.lineno + 1
        assert length <= LONG_FUNCTIONS.get(where, 60), f"{where} has {length} lines"
        count = sum(arg.arg not in ("self", "cls") for arg in function.args.args) + len(function.args.kwonlyargs)
        assert count <= MANY_PARAMETERS.get(where, 6), f"{where} has {count} parameters"


@of_every_module
def test_no_set_is_made_for_each_element(path: Path) -> None:
    """`[one for one in many if one in set(others)]` takes the product of both."""
    for made in _nodes(path):
        if not isinstance(made, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)):
            continue
        own = {node.id for part in made.generators for node in ast.walk(part.target) if isinstance(node, ast.Name)}
        for asked in (node for part in made.generators for one in part.ifs for node in ast.walk(one)):
            if isinstance(asked, ast.Call) and isinstance(asked.func, ast.Name):
                used = {node.id for node in ast.walk(asked) if isinstance(node, ast.Name)}
                anew = asked.func.id in ("set", "frozenset", "sorted", "dict") and not used & own
                assert not anew, f"{_name(path)}:{asked.lineno}: make {ast.unparse(asked)} once, before"


WORKERS = (
    "spark.write.writer",
    "spark.read.reader",
    "spark.maintain.compaction",
    "spark.maintain.orphans",
    "spark.datasource",
)


@pytest.mark.parametrize(
    ("code", "also"),
    [
        ("import bucketlake; bucketlake.open(sys.argv[1])", ("pyspark", "pyarrow", "numpy", "bucketlake.table")),
        (f"import pyarrow, {', '.join(f'bucketlake.{name}' for name in WORKERS)}", ("bucketlake.sql",)),
    ],
    ids=["open", "worker"],
)
def test_what_is_loaded_late(code: str, also: tuple[str, ...], tmp_path: Path) -> None:
    command = [sys.executable, "-c", f"import sys; {code}; print(*sys.modules)", str(tmp_path)]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert not {*LATE, *also} & {*loaded}


@of_every_module
def test_libraries_come_late(path: Path) -> None:
    if path.relative_to(PACKAGE).parts[0] in ("sql", "lazy.py"):  # a statement is parsed in the driver, always
        return
    found = re.search(rf"^(import|from) ({'|'.join(LATE)})\b", path.read_text(), re.MULTILINE)
    assert found is None, f"{_name(path)}: take {found[2] if found else ''} from bucketlake.lazy"
    made = re.search(r"^from dataclasses import .*\bdataclass\b", path.read_text(), re.MULTILINE)
    assert made is None or path.name == "values.py", f"{_name(path)}: take dataclass from bucketlake.values"


def test_exports_are_sorted_and_there() -> None:
    package = importlib.import_module("bucketlake")
    assert package.__all__ == sorted(package.__all__)
    for name in package.__all__:
        assert getattr(package, name) is not None
        assert name in dir(package)


def test_nothing_is_left_to_do() -> None:
    for path in MODULES:
        found = re.search(r"TODO|FIXME|XXX|\bNotImplementedError", path.read_text())
        assert found is None, f"{_name(path)}: {found.group() if found else ''}"
