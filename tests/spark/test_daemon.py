"""Workers of a local session are forked from a process that has loaded what they need; where it cannot, from Spark's."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from bucketlake.spark.daemon import MODULE, daemon_settings, unzipped

NEEDED = ("pandas", "pyarrow.compute", "bucketlake.ops.write.write", "bucketlake.ops.rows.read")


def test_a_session_of_ours_has_it(classic_session: SparkSession) -> None:
    if not str(classic_session.conf.get("spark.master")).startswith("local["):
        pytest.skip("executors are other processes")
    assert classic_session.conf.get("spark.python.daemon.module") == MODULE


def test_workers_have_loaded_it_and_differ_in_chance(classic_session: SparkSession) -> None:
    needed = NEEDED

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        loaded = [name for name in needed if name in sys.modules]
        import os
        import random

        import numpy as np

        for _ in batches:
            pass
        chance = [np.random.random(), random.random()]
        yield pa.record_batch({"v": pa.array([json.dumps([os.getpid(), loaded, chance])])})

    rows = classic_session.range(0, 4, 1, 4).mapInArrow(task, "v string").toArrow().column("v").to_pylist()
    found: list[Any] = [json.loads(row) for row in rows]
    if str(classic_session.conf.get("spark.master")).startswith("local["):
        assert all(loaded == list(NEEDED) for _, loaded, _ in found)
    assert len({chance[0] for *_, chance in found}) == len({chance[1] for *_, chance in found}) == len(found)


def test_this_interpreter_finds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    assert daemon_settings() == {"spark.python.daemon.module": MODULE}


@pytest.mark.parametrize("says", ["", "exit 1", "echo /elsewhere/daemon.py", "echo None", "echo $0"])
def test_another_interpreter_keeps_sparks_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{says}\n")
    python.chmod(0o755)
    monkeypatch.setenv("PYSPARK_PYTHON", str(python))
    assert daemon_settings() == {}
    monkeypatch.setenv("PYSPARK_PYTHON", str(tmp_path / "none"))
    assert daemon_settings() == {}


def test_workers_take_pyspark_from_its_folder(classic_session: SparkSession) -> None:
    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyspark

        for _ in batches:
            pass
        yield pa.record_batch({"v": pa.array([str(pyspark.__file__)])})

    found = classic_session.range(1).mapInArrow(task, "v string").toArrow().column("v").to_pylist()
    if classic_session.conf.get("spark.python.daemon.module") == MODULE:
        assert not any(".zip" in place for place in found)


def _pyspark(folder: Path) -> tuple[str, str]:
    """A folder with a PySpark, and the archive inside of it."""
    archive = folder / "pyspark" / "python" / "lib" / "pyspark.zip"
    archive.parent.mkdir(parents=True)
    archive.touch()
    (folder / "pyspark" / "__init__.py").touch()
    return str(folder), str(archive)


def test_an_archive_is_left_out_only_where_its_own_folder_is_found(tmp_path: Path) -> None:
    (one, archive), (two, other), none = _pyspark(tmp_path / "1"), _pyspark(tmp_path / "2"), str(tmp_path / "none")
    assert unzipped([none, archive, "/spark/jars/x.jar", one]) == [none, "/spark/jars/x.jar", one]
    assert unzipped([archive, none]) == [archive, none]
    assert unzipped([archive, two, one]) == [archive, two, one]
    assert unzipped([other, one, archive]) == [other, one]
    (tmp_path / "link").symlink_to(one)
    assert unzipped([archive, str(tmp_path / "link")]) == [str(tmp_path / "link")]
    assert unzipped([str(tmp_path / "pyspark.zip"), "", one]) == [str(tmp_path / "pyspark.zip"), "", one]
