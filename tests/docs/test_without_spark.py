"""Every block of docs/without-spark.md runs, in order, in one namespace; Ray's where Ray is installed."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "without-spark.md"


def test_every_block_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^(<!-- needs ray -->\n)?^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) > 8
    names: dict[str, object] = {}
    for ray, block in blocks:
        if not ray or find_spec("ray"):
            exec(compile(block, str(PAGE), "exec"), names)
