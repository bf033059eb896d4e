"""The blocks of the documents run, and print what the pages say."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.docs import blocks, options_page

ROOT = Path(__file__).parents[2]
# Pages whose blocks are pieces: what they are about is tried elsewhere.
PIECES = {
    "docs/without-spark.md": "run by test_without_spark.py, without what is not installed",
    "docs/maintenance.md": "names a job's arguments",
    "docs/streaming.md": "names two calls",
    "docs/sql/merge.md": "grammar",
    "docs/sql/copy-into.md": "grammar",
    "docs/sql/system-tables.md": "grammar",
}
PAGES = [
    path.relative_to(ROOT).as_posix()
    for path in sorted((ROOT / "docs").rglob("*.md"))
    if blocks.blocks(path.read_text()) and path.relative_to(ROOT).as_posix() not in PIECES
]


def _needs_spark(page: str) -> bool:
    text = (ROOT / page).read_text()
    return any(
        block.kind == "sql" or "connect(" in block.text or "attach(" in block.text for block in blocks.blocks(text)
    )


@pytest.mark.parametrize("page", [page for page in PAGES if not _needs_spark(page)])
def test_the_blocks_of_a_page_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks.run(ROOT / page, {"__name__": "page"})


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("page", [page for page in PAGES if _needs_spark(page)])
def test_the_blocks_of_a_page_run_on_spark(
    page: str, classic_session: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks.run(ROOT / page, {"__name__": "page"})


def test_pages_do_not_meet_in_one_warehouse() -> None:
    """Who tries one page after the other in one folder finds no database or table of an earlier one in the way."""
    made: dict[str, str] = {}
    for page in ["README.md", *PAGES, "docs/without-spark.md"]:
        text = "\n".join(block.text for block in blocks.blocks((ROOT / page).read_text()))
        tables = re.findall(r"CREATE TABLE (?!IF NOT)([\w.]+)|create_table\(\s*\"([\w.]+)\"", text)
        databases = re.findall(r"CREATE DATABASE (?!IF NOT)(\w+)|create_database\(\"(\w+)\"\)", text)
        for name in sorted({"".join(found) for found in tables} | {f"{''.join(found)}.*" for found in databases}):
            assert made.setdefault(name, page) == page, f"{page} makes {name}, as {made[name]} does"


def test_what_is_pasted_at_the_prompt_ends() -> None:
    """The prompt of `bucketlake sql` waits for a semicolon."""
    for page in PAGES:
        for block in blocks.blocks((ROOT / page).read_text()):
            assert block.kind != "sql" or block.text.rstrip().endswith(";"), f"{page}:{block.line}"


def test_what_is_excused_is_there() -> None:
    assert all(blocks.blocks((ROOT / page).read_text()) for page in PIECES)


def test_the_page_of_options_is_of_the_code() -> None:
    assert options_page.PAGE.read_text() == options_page.page(), "python -m tests.docs.options_page"


@pytest.mark.slow
@pytest.mark.skipif(not importlib.util.find_spec("mkdocs"), reason="mkdocs is not installed")
def test_the_site_is_built_and_has_every_page(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-d", str(tmp_path / "site")],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    nav = (ROOT / "mkdocs.yml").read_text()
    left_out = [path for path in _site_pages() if f" {path}\n" not in nav]
    assert not left_out, "in mkdocs.yml's nav"


def _site_pages() -> list[str]:
    return [path.relative_to(ROOT / "docs").as_posix() for path in sorted((ROOT / "docs").rglob("*.md"))]
