"""The files of a folder as Spark sees them: it reads them, so it lists them, here and on Spark Connect alike."""

from __future__ import annotations

import posixpath
import re
from urllib.parse import urlsplit

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from bucketlake.errors import InvalidError, NotFoundError
from bucketlake.ops.commit.loads import SourceFile

_GLOB = re.compile(r"([{}\[\]*?\\])")


def literal_path(path: str) -> str:
    """A path that Spark does not take for a pattern."""
    return _GLOB.sub(r"\\\1", path)


def list_files(spark: SparkSession, folder: str, pattern: str | None = None) -> list[SourceFile]:
    """The files that lie directly in a folder (or the one file there), by name; hidden ones (`_`, `.`) left out.
    `pattern`: a regular expression to be found in their names.

    Errors: NotFoundError for a folder that is not there, InvalidError for a pattern that is none.
    """
    try:
        wanted = re.compile(pattern or "")
    except re.error as error:
        raise InvalidError("PATTERN is not a regular expression", pattern=pattern, reason=str(error)) from error
    rows = _found(spark, literal_path(folder))
    if rows is None:
        raise NotFoundError("no such folder", path=folder)
    root = plain_path(folder)
    if root.startswith("/"):
        found = [row for row in rows if root in (own := plain_path(row.path), posixpath.dirname(own))]
    else:  # Spark says where its own folder is only in what it finds: what lies deeper is found once more
        deeper = {row.path for row in _found(spark, f"{literal_path(folder)}/*/*") or ()}
        found = [row for row in rows if row.path not in deeper]
    return sorted((file for file in found if wanted.search(file.name)), key=lambda file: file.name)


def _found(spark: SparkSession, path: str) -> list[SourceFile] | None:
    """The files at and below a path; None where nothing is."""
    reader = spark.read.format("binaryFile").option("recursiveFileLookup", "true")
    try:
        frame = reader.load(path)
        rows = frame.select("path", "length", F.unix_millis("modificationTime")).collect()
    except AnalysisException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            return None
        raise
    return [SourceFile(path, size, modified) for path, size, modified in rows]


def plain_path(path: str) -> str:
    """A path without what names its file system: `file:/a//b/`, `/a/./b` and `/a/b` are one."""
    parts = urlsplit(path) if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", path) else None
    rest = path if parts is None else path[len(parts.scheme) + 1 :]
    if parts is not None and rest.startswith("//"):
        rest = "/" + rest[2:].partition("/")[2]
    return posixpath.normpath(re.sub(r"/+", "/", rest))
