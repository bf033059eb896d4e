"""The documents say what the code does: options, files, links and the version; README's blocks run."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import quick

import bucketlake
from bucketlake.env.object_store import STORAGE_PREFIXES
from bucketlake.options.catalog import CATALOG_KEYS
from bucketlake.options.options import OPTIONS
from bucketlake.sql.procedures.document import page as procedures_page

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "tests").rglob("*.md")])
DOCUMENTS += sorted((ROOT / "benchmarks").glob("*.md"))
# Words in backticks that look like an option and are something else: module folders, property keys, values.
NO_OPTIONS = {
    "bucketlake.rows-stay": "a property of snapshots",
    "compacted-full": "a value of scan.mode",
    "values-time": "a value of partition.expiration-strategy",
    "update-time": "a value of partition.expiration-strategy",
    "paimon-api": "a module of upstream's",
    "paimon-common": "a module of upstream's",
    "allowed-external-paths": "an option of catalogs and reads, never of a table",
    "paimon-core": "a module of upstream's",
    "paimon-format": "a module of upstream's",
    "paimon.map.storage-layout": "metadata of a file's column",
    "paimon.map.shared-shredding.version": "metadata of a file's column",
    "schema-0": "a file",
    "shared-shredding": "a value of fields.….map.storage-layout",
    "success-file": "a value of partition.mark-done-action",
    "sequence.generation.max-sequence-number": "a property of snapshots",
    "timestamp-millis": "a logical type of avro",
}
OPTION = re.compile(r"`([a-z][a-z0-9]*(?:[.-][a-z0-9]+)*-[a-z0-9]+(?:[.-][a-z0-9]+)*)`")
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
VALUES = {value for option in OPTIONS.values() for value in option.values}  # merge engines, producers, modes
PATH = re.compile(r"`([\w./]+(?:\.py|\.md|/))`")
SOURCES = ROOT / "src" / "bucketlake"


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _options() -> Iterator[tuple[str, str]]:
    for document in (path for path in DOCUMENTS if "tests" not in path.relative_to(ROOT).parts):
        for word in sorted(set(OPTION.findall(document.read_text()))):
            if word not in NO_OPTIONS and word not in VALUES and not word.startswith(STORAGE_PREFIXES):
                yield _name(document), word


@pytest.mark.parametrize(("document", "option"), list(_options()))
def test_every_option_that_is_named_exists(document: str, option: str) -> None:
    assert option in OPTIONS or option in CATALOG_KEYS, f"{document} names '{option}'"


def test_what_is_excused_is_no_option() -> None:
    assert not NO_OPTIONS.keys() & OPTIONS.keys()


def _links() -> Iterator[tuple[str, str]]:
    for document in DOCUMENTS:
        for target in LINK.findall(document.read_text()):
            if not re.match(r"[a-z]+:", target):
                yield _name(document), target


@pytest.mark.parametrize(("document", "target"), list(_links()))
def test_every_link_leads_somewhere(document: str, target: str) -> None:
    path, _, anchor = target.partition("#")
    found = (ROOT / document).parent / path if path else ROOT / document
    assert found.exists(), f"{document} links {target}"
    if anchor:
        assert anchor in _anchors(found.read_text()), f"{document} links {target}"


def _anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    titles = re.findall(r"^#+ +(.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def _named_paths() -> list[str]:
    """Paths in ARCHITECTURE.md; `schema*.py` stands for many and is left to the eye."""
    return sorted(set(PATH.findall((ROOT / "ARCHITECTURE.md").read_text())))


@pytest.mark.parametrize("path", _named_paths())
def test_every_file_that_the_architecture_names_exists(path: str) -> None:
    assert any((base / path).exists() for base in (ROOT, SOURCES)), path


def test_the_specs_name_code_that_exists() -> None:
    missing = []
    for document in sorted((ROOT / "docs" / "spec").glob("*.md")):
        head = "\n".join(line for line in document.read_text().splitlines() if line.startswith("Code:"))
        for path in re.findall(r"`([\w/]+\.py)`", head):
            if not (SOURCES / path).exists():
                missing.append(f"{document.name}: {path}")
    assert not missing


def test_every_spec_that_a_docstring_names_exists() -> None:
    missing = []
    for module in sorted(SOURCES.rglob("*.py")):
        for page, _, anchor in (
            match.partition("#") for match in re.findall(r"docs/[\w/]+\.md(?:#[\w-]+)?", module.read_text())
        ):
            if not (ROOT / page).exists():
                missing.append(f"{module.name}: {page}")
            elif anchor and anchor not in _anchors((ROOT / page).read_text()):
                missing.append(f"{module.name}: {page}#{anchor}")
    assert not missing


def test_the_changelog_begins_with_this_version() -> None:
    versions = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    versions = [version for version in versions if version != "Unreleased"]
    assert versions[0] == bucketlake.__version__
    assert f'version = "{versions[0]}"' in (ROOT / "pyproject.toml").read_text()


def test_every_test_folder_is_in_the_catalogue() -> None:
    text = (ROOT / "tests" / "README.md").read_text()
    folders = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir() and list(path.glob("*.py"))}
    assert {f"`{name}/`" for name in folders} <= set(re.findall(r"`\w+/`", text))


SETS_UP = ("pip install ", "make ")  # what brings the package, and what is tried by itself


def _commands(text: str) -> str:
    """A block for the shell as Python: commands of ours in this process, the machine's own as they are."""
    lines = []
    for line in text.splitlines():
        if line.startswith("bucketlake "):
            lines.append(f"assert main({shlex.split(line, comments=True)[1:]!r}) == 0, {line!r}")
        elif line.startswith("export "):
            key, _, value = line.removeprefix("export ").partition("=")
            lines.append(f"os.environ[{key!r}] = {value!r}")
        elif line.strip() and not line.startswith(SETS_UP):
            lines.append(f"subprocess.run({line!r}, shell=True, check=True)")
    return "\n".join(lines)


@pytest.mark.slow
@pytest.mark.spark
def test_the_readme_runs(tmp_path: Path) -> None:
    """Every block, in order, in one session and one namespace, in a process that starts in an empty folder."""
    found = re.findall(r"^```(python|bash)\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    assert {kind for kind, _ in found} == {"python", "bash"}
    lines = ["import os, subprocess", "from bucketlake.cli import main"]
    lines += [text if kind == "python" else _commands(text) for kind, text in found]
    (tmp_path / "readme.py").write_text("\n".join(lines))
    path = os.pathsep.join(filter(None, [str(SOURCES.parent), os.environ.get("PYTHONPATH")]))
    environment = quick.environment(tmp_path / "quick")
    environment.pop("BUCKETLAKE_WAREHOUSE", None)
    done = subprocess.run(
        [sys.executable, "readme.py"],
        cwd=tmp_path,
        env={**environment, "PYTHONPATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    catalog = bucketlake.open(tmp_path / "warehouse")
    prices = {row["id"]: row["price"] for row in catalog.table("trips").to_arrow().to_pylist()}
    assert prices == {1: 25.0, 2: 9.0, 3: 60.5, 4: 14.0, 5: 7.0}
    assert {row["id"]: row["price"] for row in catalog.table("rides").to_arrow().to_pylist()}[2] == 9.0
    orders = {row["id"]: row["status"] for row in catalog.table("shop.orders").to_arrow().to_pylist()}
    assert orders == {1: "paid", 3: "new"}


def test_what_the_readme_installs_and_makes_is_there() -> None:
    text = (ROOT / "README.md").read_text()
    project = (ROOT / "pyproject.toml").read_text()
    for extras in re.findall(r"bucketlake\[([\w,]+)\]", text):
        for extra in extras.split(","):
            assert re.search(rf"^{extra} = \[", project, re.MULTILINE), extra
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^make (\w+)", text, re.MULTILINE):
        assert f"\n{target}:" in makefile, target


def test_the_page_of_procedures_is_of_the_code() -> None:
    told = (ROOT / "docs" / "sql" / "procedures.md").read_text()
    assert told == procedures_page(), "python -m bucketlake.sql.procedures.document > docs/sql/procedures.md"
