"""`bucketlake ui`: what it prints, how it ends."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from bucketlake.cli.app import run
from bucketlake.ui.server import Running

ADDRESS = r"http://127\.0\.0\.1:\d+/\?token=[\w-]{43}"


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGHUP, 129)])
def test_it_prints_an_address_that_opens_the_page_and_ends_when_told(shop: Any, number: int, status: int) -> None:
    """A terminal that was closed made uvicorn tell of a cancelled task, with its traceback."""
    command = [sys.executable, "-m", "bucketlake.cli", "ui", "-w", shop.warehouse, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            url = process.stdout.readline().strip()  # type: ignore[union-attr]
            assert re.fullmatch(ADDRESS, url)
            with urllib.request.urlopen(url, timeout=120) as answer:
                assert answer.status == 200 and "HttpOnly" in answer.headers["set-cookie"]
            process.send_signal(number)
            assert process.wait(120) == status
            assert "Traceback" not in process.stderr.read()  # type: ignore[union-attr]
        finally:
            process.kill()


def test_programs_are_told_the_address_as_json(
    shop: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Running, "run", Running.stop)
    assert run(["ui", "-w", shop.warehouse, "--port", "0", "--allow-maintenance", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert re.fullmatch(ADDRESS, told["url"]) and told["maintenance"] is True


def test_one_that_listens_everywhere_tells_the_name_it_is_reached_by(
    shop: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Running, "run", Running.stop)
    how = ["--port", "0", "--host", "0.0.0.0", "--name", "localhost:8080", "--name", "lake.example"]
    assert run(["ui", "-w", shop.warehouse, *how]) == 0
    assert capsys.readouterr().out.startswith("http://localhost:8080/?token=")


def test_what_cannot_be_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["ui", "-w", str(tmp_path / "no/where"), "--json"]) == 1
    assert json.loads(capsys.readouterr().err)["error"]["kind"] == "NotFoundError"
    assert run(["ui", "-w", str(tmp_path), "--host", "0.0.0.0"]) == 2
    assert "--name" in capsys.readouterr().err
    assert run(["ui", "-w", str(tmp_path), "--port", "99999"]) == 2
    capsys.readouterr()
    for host in ("no.such.host.invalid", "203.0.113.7"):
        assert run(["ui", "-w", str(tmp_path), "--port", "0", "--host", host]) == 1
        assert "do: give an address of this machine as --host" in capsys.readouterr().err
