"""Real databases for tests: PostgreSQL and MariaDB in a temporary folder, on a private socket and no port of the net."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

PASSWORD = "hunter2-of-the-catalog"


def _missing(what: str) -> None:
    pytest.skip(f"PEER MISSING: {what} is not installed")


def _tool(name: str, *folders: str) -> str | None:
    for folder in folders:
        if os.path.isfile(f"{folder}/{name}"):
            return f"{folder}/{name}"
    return shutil.which(name)


@contextlib.contextmanager
def _running(command: list[str], log: Path, **how: Any) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as out:
        server = subprocess.Popen(command, stdout=out, stderr=out, **how)
        try:
            yield server
        finally:
            server.kill()
            server.wait()


def _wait(server: subprocess.Popen[bytes], log: Path, connect: Any) -> None:
    until = time.monotonic() + 60
    while True:
        try:
            connect().close()
            return
        except Exception:
            if server.poll() is not None or time.monotonic() > until:
                raise AssertionError(log.read_text()[-3000:]) from None
            time.sleep(0.05)


@contextlib.contextmanager
def postgresql() -> Iterator[dict[str, str]]:
    """Options of a catalog in a fresh PostgreSQL."""
    psycopg = pytest.importorskip("psycopg", reason="PEER MISSING: psycopg is not installed")
    folders = [str(path) for path in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)]
    initdb, postgres = _tool("initdb", *folders), _tool("postgres", *folders)
    if initdb is None or postgres is None:
        _missing("PostgreSQL")
    assert initdb is not None
    assert postgres is not None
    how = {"user": "postgres"} if os.getuid() == 0 else {}  # it refuses to be run by root
    with tempfile.TemporaryDirectory(prefix="bl-pg-", dir="/tmp") as name:
        folder = Path(name)
        if how:
            shutil.chown(folder, "postgres")
        secret = folder / "secret"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        data, log = folder / "data", folder / "log"
        made = [
            initdb,
            "-D",
            str(data),
            "-U",
            "lake",
            "-A",
            "scram-sha-256",
            f"--pwfile={secret}",
            "--no-sync",
            "-E",
            "UTF8",
        ]
        subprocess.run(made, check=True, capture_output=True, **how)  # type: ignore[call-overload]
        command = [postgres, "-D", str(data), "-k", name, "-c", "listen_addresses=", "-c", "fsync=off"]
        with _running(command, log, **how) as server:
            _wait(
                server,
                log,
                lambda: psycopg.connect(host=name, user="lake", password=PASSWORD, dbname="postgres"),
            )
            yield {
                "metastore": "jdbc",
                "uri": "jdbc:postgresql:///postgres",
                "jdbc.host": name,
                "jdbc.user": "lake",
                "jdbc.password": PASSWORD,
            }


@contextlib.contextmanager
def mariadb() -> Iterator[dict[str, str]]:
    """Options of a catalog in a fresh MariaDB."""
    pymysql = pytest.importorskip("pymysql", reason="PEER MISSING: pymysql is not installed")
    server_tool, install = _tool("mariadbd", "/usr/sbin"), _tool("mariadb-install-db")
    if server_tool is None or install is None:
        _missing("mariadb-server")
    assert server_tool is not None
    assert install is not None
    with tempfile.TemporaryDirectory(prefix="bl-my-", dir="/tmp") as name:
        folder = Path(name)
        data, log, socket = folder / "data", folder / "log", f"{name}/s"
        mine = ["--user=root"] if os.getuid() == 0 else []
        quick = ["--innodb-log-file-size=4M", "--innodb-buffer-pool-size=8M", "--innodb-flush-method=nosync"]
        subprocess.run(
            [
                install,
                "--no-defaults",
                f"--datadir={data}",
                "--auth-root-authentication-method=normal",
                "--skip-test-db",
                *mine,
                *quick,
            ],
            check=True,
            capture_output=True,
        )
        start = folder / "start.sql"
        start.write_text(
            "CREATE DATABASE lake CHARACTER SET utf8mb4;\n"
            f"CREATE USER 'lake'@'localhost' IDENTIFIED BY '{PASSWORD}';\nGRANT ALL ON lake.* TO 'lake'@'localhost';\n"
        )
        command = [
            server_tool,
            "--no-defaults",
            f"--datadir={data}",
            f"--socket={socket}",
            "--skip-networking",
            f"--init-file={start}",
            *mine,
            *quick,
        ]
        with _running(command, log) as server:
            _wait(
                server,
                log,
                lambda: pymysql.connect(unix_socket=socket, user="lake", password=PASSWORD, database="lake"),
            )
            yield {
                "metastore": "jdbc",
                "uri": "jdbc:mysql:///lake",
                "jdbc.unix_socket": socket,
                "jdbc.user": "lake",
                "jdbc.password": PASSWORD,
            }


def sqlite(folder: Path) -> dict[str, str]:
    """Options of a catalog in a file."""
    return {"metastore": "jdbc", "uri": f"jdbc:sqlite:{folder}/catalog.db"}
