"""A quiet start of a session of our own: no banner of log4j, no warnings about the host, no traces for a wrong query.

Public settings alone, and only of a session that is made here; where the user has a log4j2 configuration it stays.

Spec: docs/sessions.md
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from pathlib import Path

import pyspark
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from bucketlake.redaction import redact
from bucketlake.spark.cluster import is_connect
from bucketlake.spark.java import quiet_java_home

_OPTIONS = "spark.driver.defaultJavaOptions"
_CONFIGURATION = Path(__file__).with_name("log4j2.properties")
# PySpark logs every error of a query as one line of JSON, with the JVM's trace, beside raising it.
_QUERY_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


def java_settings(verbose: bool = False) -> dict[str, str]:
    """What the JVM of a local session is started with, where the user does not say that.

    It compiles methods of any size: of those that Spark generates for a statement over many columns it would interpret
    each that has more than 8,000 bytes. Not `verbose`: nothing but fatal errors is logged, where the user did not
    configure logging.
    """
    folder = Path(os.environ.get("SPARK_CONF_DIR") or _home() / "conf")
    defaults = folder / "spark-defaults.conf"
    said = defaults.read_text(errors="replace") if defaults.is_file() else ""
    if _OPTIONS in said:
        return {}
    options = ["-XX:-DontCompileHugeMethods"]
    if not (verbose or any(folder.glob("log4j2*")) or "log4j" in said) and _CONFIGURATION.is_file():
        options.append(f"-Dlog4j2.configurationFile={_CONFIGURATION.as_uri()}")
    return {_OPTIONS: " ".join(options)}


def _home() -> Path:
    return Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)


@contextmanager
def quiet_java(environment: MutableMapping[str, str] | None = None) -> Iterator[None]:
    """While a JVM is started, JAVA_HOME leads to one that does not speak of incubator modules."""
    environment = os.environ if environment is None else environment
    given = environment.get("JAVA_HOME")
    java = os.path.join(given, "bin", "java") if given else shutil.which("java", path=environment.get("PATH"))
    home = None if java is None else quiet_java_home(java)
    if home is None:
        yield
        return
    environment["JAVA_HOME"] = home
    try:
        yield
    finally:
        if given is None:
            del environment["JAVA_HOME"]
        else:
            environment["JAVA_HOME"] = given


def quiet_queries() -> None:
    """Let PySpark not log the errors of queries that it raises, unless somebody listens to that."""
    for name in _QUERY_LOGGERS:
        logger = PySparkLogger.getLogger(name)
        if logger.level <= logging.WARNING:
            logger.setLevel(logging.CRITICAL)


def announce(spark: SparkSession, warehouse: str) -> str:
    """The one line about a session that was made: Spark's version, the warehouse, the address of its page."""
    if is_connect(spark):
        return f"Spark {spark.version} (Connect), warehouse {redact(warehouse)}"
    page = spark.sparkContext.uiWebUrl or "is off (spark.ui.enabled)"
    return f"Spark {spark.version}, warehouse {redact(warehouse)}, Spark's UI {page}"


def is_interactive() -> bool:
    """Whether somebody types: a Python prompt, or a notebook."""
    shell = sys.modules.get("IPython")
    return hasattr(sys, "ps1") or (shell is not None and shell.get_ipython() is not None)
