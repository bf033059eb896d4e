"""Errors where people read them, in a notebook or a console: where in their own code, what, and the remedy.

    told(error) -> [line]      the frames that are not of libraries, then the message without the JVM's trace

With BUCKETLAKE_TRACE set it is the whole traceback.
"""

from __future__ import annotations

import os
import re
import sys
import traceback
import warnings

VARIABLE = "BUCKETLAKE_TRACE"
MOST_FRAMES = 5
_OURS = os.path.dirname(os.path.abspath(__file__)) + os.sep
_LIBRARIES = re.compile(r"[/\\](?:site-packages|dist-packages|pyspark|IPython|ipykernel)[/\\]|<frozen |pyspark\.zip")
_JVM = re.compile(r"\n+(?:\s*at [\w.$/]+\(|\tat |\s*\.\.\. \d+ more|Driver stacktrace:|JVM stacktrace:).*", re.DOTALL)
_PLAN = re.compile(r";\n(?=['+\w]).*\Z", re.DOTALL)


def told(error: BaseException) -> list[str]:
    """The lines that say what went wrong, and where in the user's own code."""
    if os.environ.get(VARIABLE):
        return "".join(traceback.format_exception(type(error), error, error.__traceback__)).splitlines()
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_users(frame.filename)]
    lines = []
    for frame in frames[-MOST_FRAMES:]:
        lines.append(f"{frame.filename}, line {frame.lineno}" + (f": {frame.line}" if frame.line else ""))
    return [*lines, *f"{type(error).__name__}: {message(error)}".splitlines()]


def warn(text: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line of the user's own code that led here; at the caller's where there is none."""
    level, frame = 2, sys._getframe(1)
    while (above := frame.f_back) is not None and not _is_users(frame.f_code.co_filename):
        level, frame = level + 1, above
    warnings.warn(text, category, stacklevel=level if _is_users(frame.f_code.co_filename) else 2)


def message(error: BaseException) -> str:
    """The error's message with its notes, without a trace or plan of the JVM's."""
    text = _PLAN.sub("", _JVM.sub("", str(error).strip()))
    return "\n".join([text, *getattr(error, "__notes__", [])])


def _is_users(path: str) -> bool:
    standard = os.path.dirname(os.__file__) + os.sep
    outside = not path.startswith((_OURS, standard, sys.prefix + os.sep + "lib"))
    return outside and not _LIBRARIES.search(path)
