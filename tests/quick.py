"""Settings under which small work on Spark costs little: tests run each plan once, over few rows.

What a JVM compiles at length, and the code that Spark generates, would be thrown away.
"""

from __future__ import annotations

import gc
import os
import re
from pathlib import Path
from typing import Any

from py4j.java_gateway import JavaClass, JVMView
from pyspark.sql.conf import RuntimeConfig
from tests import archive

# Metaspace would grow from 21 MB on by a collection of the whole heap each time. The quick compiler alone has 48 MB for
# its code, which a JVM of thousands of tests fills: it stops compiling then.
CODE = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
JAVA = f"{CODE} -XX:+UseSerialGC -XX:MetaspaceSize=256m -Xshare:auto" + archive.options()
SETTINGS = {
    "spark.driver.memory": "2g",
    "spark.sql.shuffle.partitions": "4",
    "spark.ui.enabled": "false",
    "spark.log.level": "OFF",
    "spark.driver.extraJavaOptions": JAVA,
    "spark.executor.extraJavaOptions": JAVA,
}
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


def environment(folder: Path) -> dict[str, str]:
    """The environment of a process whose Spark session, made as anybody makes one, has these settings as defaults."""
    folder.mkdir(exist_ok=True)
    lines = [f"{key} {value}\n" for key, value in {**SETTINGS, **INTERPRETED}.items() if "Java" not in key]
    (folder / "spark-defaults.conf").write_text("".join(lines))
    return {**os.environ, "SPARK_CONF_DIR": str(folder), "JDK_JAVA_OPTIONS": JAVA}


def path_without_java(folder: Path) -> str:
    """The machine's programs but for java, as links in one folder."""
    programs = folder / "bin"
    programs.mkdir()
    for place in os.environ["PATH"].split(os.pathsep):
        for program in Path(place).glob("*") if place else ():
            link = programs / program.name
            if program.name != "java" and not link.is_symlink():
                link.symlink_to(program)
    return str(programs)


def few_collections() -> None:
    """Have Python's search for cycles leave alone what is loaded by now, and come less often: it would walk through
    all modules and tests thousands of times."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


GIB = 1 << 30


def folders_in_memory() -> None:
    """Have tests' folders in memory where Linux has enough of it, unless PYTEST_DEBUG_TEMPROOT says where: commits sync
    what they write, and a disk takes its time for that."""
    memory = Path("/dev/shm")
    if not memory.is_dir() or not os.access(memory, os.W_OK):
        return
    found = os.statvfs(memory)
    available = re.search(r"^MemAvailable: +(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
    if found.f_bavail * found.f_frsize >= 4 * GIB and available and int(available.group(1)) << 10 >= 12 * GIB:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(memory))


def quick_look_ups() -> None:
    """Have classic sessions look Java's classes up once, and `spark.conf.getAll` ask for each key that there is.

    A name without its package is looked for in all of Spark's jars, once for each package that PySpark imports. PySpark's
    own `getAll` walks a Java map until an exception ends it, which it compares with fourteen classes found that way. Both
    together were a third of what the JVM did in tests of statements.
    """

    def found(self: Any) -> dict[str, str]:
        keys = self._jconf.getAllAsJava().keySet().toString()[1:-1]
        return {key: self._jconf.get(key) for key in keys.split(", ") if key}

    RuntimeConfig.getAll = property(found)  # type: ignore[assignment]
    looked_up = JVMView.__getattr__

    def kept(self: JVMView, name: str) -> Any:
        value = looked_up(self, name)
        if isinstance(value, JavaClass):
            vars(self)[name] = value
        return value

    JVMView.__getattr__ = kept
