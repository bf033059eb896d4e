"""`bucketlake ui`: what it prints, how it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from typing import Any

import pytest


def started(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "bucketlake.cli", "ui", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ})


@pytest.mark.parametrize("as_json", [False, True])
def test_it_prints_an_address_that_opens_the_page_and_ends_with_ctrl_c(shop: Any, as_json: bool) -> None:
    with started("-w", shop.warehouse, "--port", "0", *(["--json"] if as_json else [])) as process:
        try:
            line = process.stdout.readline().strip()  # type: ignore[union-attr]
            url = json.loads(line)["url"] if as_json else line
            assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{43}", url)
            with urllib.request.urlopen(url, timeout=20) as answer:
                assert answer.status == 200 and "HttpOnly" in answer.headers["set-cookie"]
            process.send_signal(signal.SIGINT)
            assert process.wait(20) in (0, 130)
            assert "Traceback" not in process.stderr.read()  # type: ignore[union-attr]
        finally:
            process.kill()


def test_what_cannot_be_is_said(tmp_path: Any) -> None:
    with started("-w", str(tmp_path / "no/where"), "--json") as process:
        assert process.wait(60) == 1
        assert json.loads(process.stderr.read())["error"]["kind"] == "NotFoundError"  # type: ignore[union-attr]
    with started("-w", str(tmp_path), "--host", "0.0.0.0") as process:
        assert process.wait(60) == 2
        assert "--name" in process.stderr.read()  # type: ignore[union-attr]
