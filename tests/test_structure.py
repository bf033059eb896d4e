"""The shape of the code, as ARCHITECTURE.md promises it: layers, sizes, effects, exports."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "bucketlake"
MODULES = sorted(PACKAGE.rglob("*.py"))

# A layer imports only from those before it.
LAYERS = [
    {"errors", "redaction"},
    {"file_names"},
    {"types", "types_arrow", "types_ids"},
    {
        *("options", "options_catalog", "options_model", "options_table", "options_table_a_c", "options_table_d_l"),
        *("options_table_engines", "options_table_m_r", "options_table_s_z"),
    },
    {
        *("schema", "schema_change", "schema_constant", "schema_default", "schema_evolution", "schema_file_index"),
        "schema_validation",
    },
    {
        "predicate",
        "predicate_eval",
        "predicate_numbers",
        "predicate_scan",
        "predicate_sql",
        "predicate_times",
        "predicate_tree",
    },
    {"env", "env_object"},
    {"format"},
    {"paths"},
    {"lsm"},
    {"ops"},
    {"table"},
    {"catalog"},
    {"spark"},
    {"sql"},
    {"cli", "web"},
]

# Exceptions to the soft caps. These lists only shrink.
LONG_MODULES: dict[str, int] = {}
LONG_FUNCTIONS: dict[str, int] = {}
MANY_PARAMETERS: dict[str, int] = {"bucketlake/catalog.py:create_table": 7}
IN_FUNCTION_IMPORTS = {"bucketlake/__init__.py": "connect brings Spark in only when it is asked for"}


def _name(path: Path) -> str:
    return path.relative_to(PACKAGE.parent).as_posix()


def _layer(module: str) -> int:
    for number, names in enumerate(LAYERS):
        if module.split(".")[0] in names:
            return number
    pytest.fail(f"bucketlake.{module} is in no layer: add it to LAYERS and to ARCHITECTURE.md")


def _imports(tree: ast.AST) -> list[tuple[ast.stmt, str]]:
    """Modules of this package that a module imports at run time (not for type checking only)."""
    guarded = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for inner in ast.walk(node)
    }
    found: list[tuple[ast.stmt, str]] = []
    for node in ast.walk(tree):
        if id(node) in guarded:
            continue
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "bucketlake":
            rest = node.module.split(".")[1:]
            found.extend((node, ".".join(rest) or alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            found.extend((node, alias.name[11:]) for alias in node.names if alias.name.startswith("bucketlake."))
    return found


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_imports_only_earlier_layers(path: Path) -> None:
    if path.parent == PACKAGE and path.stem == "__init__":
        return
    own = _layer(path.relative_to(PACKAGE).with_suffix("").parts[0])
    for node, module in _imports(ast.parse(path.read_text())):
        assert _layer(module) <= own, f"{_name(path)}:{node.lineno} imports bucketlake.{module} from a later layer"


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_imports_stand_on_top(path: Path) -> None:
    if _name(path) in IN_FUNCTION_IMPORTS:
        return
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef):
            inner = [n for n in ast.walk(node) if isinstance(n, (ast.Import, ast.ImportFrom))]
            assert not inner, f"{_name(path)}:{inner[0].lineno} imports inside {node.name}"


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_only_spark_and_what_follows_knows_pyspark(path: Path) -> None:
    if _name(path) == "bucketlake/__init__.py" or _layer(
        path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    ) >= _layer("spark"):
        return
    assert not re.search(r"^\s*(import|from) pyspark", path.read_text(), re.MULTILINE), _name(path)


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_public_spark_api_only(path: Path) -> None:
    found = re.search(r"\._jvm|\._jdf|\._jsparkSession|\.rdd\b|py4j|\._sc\b|_gateway", path.read_text())
    assert found is None, f"{_name(path)} reaches behind Spark's public API: {found.group() if found else ''}"


EFFECTS = re.compile(
    r"\b(time\.(time|time_ns|sleep|monotonic)\(|datetime\.(now|utcnow|today)\(|uuid\d?\(\)|uuid\.uuid\d|"
    r"(?<![\w.])random\.|(?<![\w.])open\(|os\.(remove|unlink|rename|replace|link|makedirs|listdir|scandir)\(|shutil\.)"
)


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_effects_only_in_env(path: Path) -> None:
    if path.stem in ("env", "env_object") or _name(path) in LOCAL_DISK:
        return
    for number, line in enumerate(path.read_text().splitlines(), 1):
        code = line.split("#")[0]
        found = EFFECTS.search(code)
        assert found is None, f"{_name(path)}:{number}: {found.group() if found else ''} belongs in env"


# Modules that use this machine's own disk or tools, not the table's storage.
LOCAL_DISK = {"bucketlake/spark/java.py": "looks for a Java on this machine"}


def _functions(tree: ast.AST) -> list[ast.FunctionDef]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_soft_caps(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= LONG_MODULES.get(_name(path), 600), f"{_name(path)} is too long: split it"
    for function in _functions(ast.parse(text)):
        where = f"{_name(path)}:{function.name}"
        length = (function.end_lineno or 0) - function.lineno + 1
        assert length <= LONG_FUNCTIONS.get(where, 60), f"{where} has {length} lines"
        count = sum(arg.arg not in ("self", "cls") for arg in function.args.args) + len(function.args.kwonlyargs)
        assert count <= MANY_PARAMETERS.get(where, 6), f"{where} has {count} parameters"


def test_exports_are_sorted_and_there() -> None:
    package = importlib.import_module("bucketlake")
    assert package.__all__ == sorted(package.__all__)
    for name in package.__all__:
        assert getattr(package, name) is not None


def test_nothing_is_left_to_do() -> None:
    for path in MODULES:
        found = re.search(r"TODO|FIXME|XXX|NotImplementedError", path.read_text())
        assert found is None, f"{_name(path)}: {found.group() if found else ''}"
