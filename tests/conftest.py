"""Lakes over the kinds of Spark: `lake` runs a test on classic local Spark and, as `on_connect.py` says, on Spark Connect.

`BUCKETLAKE_TEST_MASTER=local-cluster[2,1,1024]` runs the classic half over executors in other processes.
The Connect server is a process of its own; PySpark decides by an environment variable which kind of columns its
functions make, so that is set while a Connect test runs.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyspark
import pytest
from hypothesis import settings
from pyspark.sql import SparkSession
from pyspark.sql.connect.session import SparkSession as RemoteSession

import bucketlake
from bucketlake.catalog import Catalog
from bucketlake.spark.java import ensure_java
from bucketlake.spark.session import Lake, new_session

from .costly import waiting
from .on_connect import LATER, left_out
from .profile import SHARE, SLOW, SOAK, TURN, chosen, examples
from .quick import INTERPRETED, SETTINGS, few_collections, folders_in_memory, quick_look_ups
from .shares import place_of, scheduler

MASTER = os.environ.get("BUCKETLAKE_TEST_MASTER", "local[2,4]")
REMOTE = "SPARK_CONNECT_MODE_ENABLED"
_SHARED: list[SparkSession] = []
SESSIONS = {"classic_session": "spark", "connect_url": "connect"}  # fixtures: marks of the tests that use them
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
settings.register_profile(
    "suite", deadline=None, max_examples=examples(40)
)  # machines differ, and other work runs on them
settings.load_profile("suite")
quick_look_ups()
folders_in_memory()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests with a session are marked so. In `make test` few run on Spark Connect too; one that is asked for by its
    whole name always does."""
    items.sort(key=lambda item: place_of(item.nodeid))
    for item in items:
        for fixture, mark in SESSIONS.items():
            if fixture in getattr(item, "fixturenames", ()):
                item.add_marker(mark)
    if SOAK or any("[" in argument for argument in config.args):
        return
    seen: set[str] = set()
    kept, left = [], []
    here = [item for item in items if not _is_remote(item) and not item.get_closest_marker("slow")]
    wait = waiting([item.nodeid for item in here], TURN)
    for item in items:
        remote = _is_remote(item)
        if item.nodeid in wait or (remote and item.nodeid.partition("[")[0] in LATER):
            item.add_marker("slow")
        slow = item.get_closest_marker("slow")
        later = item.get_closest_marker("soak") or (slow and not (SLOW and chosen(item.nodeid, SHARE)))
        if later and not any("::" in argument for argument in config.args):
            left.append(item)
            continue
        (left if remote and left_out(item.nodeid.partition("[")[0], seen) else kept).append(item)
    items[:] = kept
    config.hook.pytest_deselected(items=left)


def _is_remote(item: pytest.Item) -> bool:
    """Whether a test runs on Spark Connect."""
    case = getattr(item, "callspec", None)
    return case is not None and case.params.get("lake") == "connect"


def pytest_collection_finish() -> None:
    few_collections()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    return scheduler(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    """A catalog without Spark, with the database `db`; a file that needs another one has its own."""
    made = bucketlake.open(tmp_path)
    made.create_database("db")
    return made


@pytest.fixture(scope="session")
def classic_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    warehouse = str(tmp_path_factory.mktemp("spark-warehouse"))
    session = new_session(**{**SETTINGS, **INTERPRETED, "spark.master": MASTER, "spark.sql.warehouse.dir": warehouse})
    _SHARED.append(session)
    yield session
    _SHARED.clear()
    session.stop()


@pytest.fixture(scope="module", autouse=True)
def views_of_a_file_stay_in_it() -> Iterator[None]:
    """Tests of all files share a session: names of temporary views that are left there would hide tables of others."""
    yield
    for session in _SHARED:
        session._jsparkSession.sessionState().catalog().clearTempTables()


@pytest.fixture(scope="session")
def connect_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    ensure_java()
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {
        **SETTINGS,
        **INTERPRETED,
        "spark.connect.grpc.binding.port": str(port),
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("connect-warehouse")),
    }
    submit = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--master", "local[2,4]"]
    submit += [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
    submit += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
    # The server's workers must not find the package by themselves: it has to be sent to them.
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", REMOTE)}
    server = subprocess.Popen(
        submit, env=environment, cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    yield f"sc://127.0.0.1:{port}"
    server.terminate()
    server.wait(120)


@pytest.fixture(scope="session")
def connect_session(connect_url: str) -> Iterator[SparkSession]:
    os.environ[REMOTE] = "1"
    try:
        session = RemoteSession.builder.remote(connect_url).create()
        session.range(1).collect()
    finally:
        del os.environ[REMOTE]
    yield session  # type: ignore[misc]
    session.stop()


@pytest.fixture
def classic(classic_session: SparkSession, tmp_path: Path) -> Lake:
    return _lake(classic_session, tmp_path)


@pytest.fixture(
    params=[pytest.param("classic", marks=pytest.mark.spark), pytest.param("connect", marks=pytest.mark.connect)]
)
def lake(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    session = request.getfixturevalue(f"{request.param}_session")
    if request.param == "connect":
        monkeypatch.setenv(REMOTE, "1")
    return _lake(session, tmp_path)


def _lake(session: SparkSession, folder: Path) -> Lake:
    found = bucketlake.connect(str(folder / "warehouse"), spark=session)
    found.catalog.create_database("db")
    return found
