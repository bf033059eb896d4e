"""Settings under which small work on Spark costs little: tests run each plan once, over few rows.

What a JVM compiles at length, and the code that Spark generates, would be thrown away.
"""

from __future__ import annotations

import os
from pathlib import Path

from tests import archive

JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto" + archive.options()
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
