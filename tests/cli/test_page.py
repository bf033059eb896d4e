"""`docs/command-line.md` is of the code, its examples run, and every command says what its JSON holds."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest
from tests.cli.conftest import Run

from bucketlake.cli.app import FAMILIES, build
from bucketlake.cli.command import commands
from bucketlake.cli.document import page

PAGE = Path(__file__).parents[2] / "docs" / "command-line.md"


def test_the_page_is_of_the_code() -> None:
    assert PAGE.read_text() == page(), "python -m bucketlake.cli.document > docs/command-line.md"


def test_its_examples_run(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [
        line for block in re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL) for line in block.splitlines()
    ]
    assert len(lines) > 10
    for line in lines:
        words = shlex.split(line)
        if words[0] == "printf":
            subprocess.run(line, shell=True, check=True)
            continue
        assert words[0] == "bucketlake"
        result = run(*words[1:])
        assert result.status == 0, f"{line}: {result.err}"
    assert Path("trips.parquet").exists()


def test_the_first_word_finds_its_family() -> None:
    """What `FAMILIES` says is what the modules register, so that a call loads one module."""
    app = build()
    names = {name.partition(" ")[0] for name, _, _ in commands(app)}
    assert names == {word for words in FAMILIES.values() for word in words if word in names}
    for family, words in FAMILIES.items():
        own = {name.partition(" ")[0] for name, _, _ in commands(build([words[0]]))}
        assert own <= set(words), family


def test_every_command_is_told() -> None:
    for name, command, made in commands(build()):
        first = (made.help or "").strip().split("\n")[0]
        assert first, name
        if " " not in name:
            assert len(first) <= 64, f"{name}: the list of commands cuts its first line"
        assert command.name == name.rpartition(" ")[2]
