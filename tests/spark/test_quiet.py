"""A session of our own says nothing but what it is asked for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests import quick

import bucketlake
from bucketlake.errors import InvalidError
from bucketlake.spark import quiet
from bucketlake.spark.java import java_of_every_name
from bucketlake.spark.session import Lake

START = """
import json, sys, bucketlake
lake = bucketlake.connect(sys.argv[1], settings=json.loads(sys.argv[2]))
for text in ("SELEC 1", "SELECT nope FROM range(1)", "SELECT * FROM nowhere"):
    try:
        lake.sql(text)
    except bucketlake.BucketlakeError as error:
        print("raised", str(error).split()[0])
try:
    lake.sql("SELECT raise_error('mine')").collect()
except Exception as error:
    print("raised", "mine" in str(error))
lake.spark.range(3).mapInArrow(lambda batches: batches, "id long").count()
"""


@pytest.mark.slow
@pytest.mark.spark
def test_a_session_of_our_own_is_quiet(tmp_path: Path) -> None:
    """From the start of the JVM to its end, wrong queries and failing tasks included."""
    known = {key: value for key, value in os.environ.items() if not key.startswith(("SPARK", "JDK_JAVA", "BUCKETLAKE"))}
    settings = {key: value for key, value in {**quick.SETTINGS, **quick.INTERPRETED}.items() if "log" not in key}
    done = subprocess.run(
        [sys.executable, "-c", START, str(tmp_path), json.dumps(settings)],
        env=known,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:-1] == [
        "raised [PARSE_SYNTAX_ERROR]",
        "raised [UNRESOLVED_COLUMN.WITH_SUGGESTION]",
        "raised [TABLE_OR_VIEW_NOT_FOUND]",
        "raised True",
    ]
    assert done.stderr == ""


NAMES = """
import json, sys, bucketlake
lake = bucketlake.connect(sys.argv[1], settings=json.loads(sys.argv[2]))
lake.sql("CREATE DATABASE d")
lake.sql("CREATE TABLE d.t (id BIGINT, p STRING) PARTITIONED BY (p)")
lake.sql("INSERT INTO d.t SELECT id, 'ü' FROM range(300000)")
print(lake.sql("SELECT p, count(id), sum(id) FROM d.t GROUP BY p").collect() == [("ü", 300000, 44999850000)])
"""


@pytest.mark.slow
@pytest.mark.spark
def test_java_in_the_c_locale_sees_every_file(tmp_path: Path) -> None:
    known = {key: value for key, value in os.environ.items() if not key.startswith(("SPARK", "LC_", "LANG"))}
    settings = json.dumps({**quick.SETTINGS, **quick.INTERPRETED})
    done = subprocess.run(
        [sys.executable, "-c", NAMES, str(tmp_path / "wärme"), settings],
        env={**known, "LC_ALL": "C"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "True\n", done.stderr[-2000:]


@pytest.mark.parametrize(
    ("given", "meanwhile"),
    [
        ({}, {"LC_CTYPE": "C.UTF-8"}),
        ({"LC_ALL": "C", "LANG": "de_DE.UTF-8"}, {"LC_ALL": "C.UTF-8", "LANG": "de_DE.UTF-8"}),
        ({"LC_ALL": "", "LANG": "POSIX"}, {"LC_ALL": "", "LANG": "POSIX", "LC_CTYPE": "C.UTF-8"}),
        ({"LANG": "de_DE.UTF-8"}, {"LANG": "de_DE.UTF-8"}),
        ({"LC_CTYPE": "C.UTF-8", "LANG": "C"}, {"LC_CTYPE": "C.UTF-8", "LANG": "C"}),
    ],
)
def test_java_is_told_that_names_are_utf_8(given: dict[str, str], meanwhile: dict[str, str]) -> None:
    environment = dict(given)
    with java_of_every_name(environment):
        assert environment == meanwhile
    assert environment == given


def test_a_configuration_of_the_users_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    [(key, quiet_options)] = quiet.java_settings().items()
    [(_, options)] = quiet.java_settings(verbose=True).items()
    assert (key, options) == ("spark.driver.defaultJavaOptions", "-XX:-DontCompileHugeMethods")
    assert quiet_options.startswith(options) and "log4j2" in quiet_options
    defaults = tmp_path / "spark-defaults.conf"
    defaults.write_text("spark.driver.defaultJavaOptions -Xss4m\n")
    assert quiet.java_settings() == {}
    defaults.write_text("spark.driver.extraJavaOptions -Dlog4j2.configurationFile=x\n")
    assert quiet.java_settings() == {key: options}
    defaults.write_text("spark.driver.memory 1g\n")
    assert quiet.java_settings() == {key: quiet_options}
    (tmp_path / "log4j2.xml").write_text("<a/>")
    assert quiet.java_settings() == {key: options}


def test_java_speaks_of_no_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arguments, status and all else that the JVM says stay; JAVA_HOME is what it was after."""
    java = tmp_path / "home of java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(
        '#!/bin/sh\necho "WARNING: Using incubator modules: x" >&2\n'
        'echo "WARNING: package sun.security.action not in java.base" >&2\necho "$@" >&2\nprintf "last" >&2\necho out\nexit 3\n'
    )
    java.chmod(0o755)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for given in ({"JAVA_HOME": str(java.parent.parent)}, {"PATH": str(java.parent)}):
        environment = dict(given)
        with quiet.quiet_java(environment):
            home = Path(environment["JAVA_HOME"])
            run = subprocess.run([home / "bin" / "java", "a b", "c"], capture_output=True, text=True, check=False)
        assert (run.returncode, run.stdout, run.stderr) == (3, "out\n", "a b c\nlast")
        assert environment == given
    trace = (
        'Traceback (most recent call last):\n  File "/a/pyspark/daemon.py", line 264, in manager\n    code = worker()\n'
    )
    other = trace + "OSError: 28\n"
    kept = f"    x\n{other}Traceback (most recent call last):\nBrokenPipeError: mine\n".replace(
        "\nBroken", "\n  File mine\nBroken"
    )
    runner = trace.replace("daemon.py", "sql/streaming/python_streaming_source_runner.py")
    entered = '  File "/usr/lib/python3.11/contextlib.py", line 137, in __enter__\n    return next(self.gen)\n'
    runner = runner.replace(":\n", f':\n  File "<frozen runpy>", line 88, in _run_code\n{entered}', 1)
    during = "\nDuring handling of the above exception, another exception occurred:\n\n"
    cause = f"{trace}FileNotFoundError: [Errno 2] No such file or directory\n{during}"
    refused = "pyspark.errors.exceptions.base.PySparkRuntimeError: [CANNOT_OPEN_SOCKET] x\n"
    kept += f"{cause}{runner}ValueError: 1\n"
    trace = f"{cause}{runner}{refused}{runner}{refused}{trace}"
    java.write_text(
        f"#!/bin/sh\ncat >&2 <<'.'\n{kept}{trace}BrokenPipeError: [Errno 32] Broken pipe\nend\n{trace}.\nprintf '  Fi' >&2\n"
    )
    with quiet.quiet_java(environment):
        run = subprocess.run(
            [Path(environment["JAVA_HOME"]) / "bin" / "java"], capture_output=True, text=True, check=False
        )
    assert run.stderr == kept + "end\n"
    alone = cause.partition("\nDuring")[0]
    java.write_text(f"#!/bin/sh\ncat >&2 <<'.'\n{alone}.\n")
    with quiet.quiet_java(environment):
        run = subprocess.run(
            [Path(environment["JAVA_HOME"]) / "bin" / "java"], capture_output=True, text=True, check=False
        )
    assert run.stderr == alone, "a trace that ended with another error is told"
    environment = {"PATH": str(tmp_path / "nothing")}
    with quiet.quiet_java(environment):
        assert "JAVA_HOME" not in environment


def test_what_is_said_of_a_session(lake: Lake, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    line = quiet.announce(lake.spark, "s3://me:secret@host/wh")
    assert line.startswith(f"Spark {lake.spark.version}")
    assert "secret" not in line
    capfd.readouterr()
    bucketlake.connect(tmp_path, spark=lake.spark, verbose=True)
    assert capfd.readouterr().err == ""  # the session is the user's
    with pytest.raises(InvalidError, match="a session that is made here"):
        bucketlake.connect(tmp_path, spark=lake.spark, settings={"spark.driver.memory": "1g"})
