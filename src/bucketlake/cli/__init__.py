"""The command `bucketlake`: no Spark where none is needed, nothing loaded that the call does not use."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module

__all__ = ["main"]

NEEDED = ("click",)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status: 0 done, 1 failed, refused or something found, 2 wrong usage."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if arguments is None:
        _open_closed_streams()
    try:
        app = import_module("bucketlake.cli.app")
        status: int = app.run(given, alone=arguments is None)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in NEEDED:
            raise
        print(f"bucketlake: the command line needs {error.name}\n  do: pip install 'bucketlake[cli]'", file=sys.stderr)
        return 1
    except KeyboardInterrupt:  # before there was a command
        print("\ninterrupted", file=sys.stderr)
        status = 130
    # CPython ends by the signal itself if Ctrl-C struck while a text was executed (a dataclass compiles its methods
    # so), even where it was handled; the next text that is executed makes it forget.
    exec("")
    return status


def _open_closed_streams() -> None:
    """Standard streams that the caller closed lead nowhere: else the next files that are opened, a table's, would get
    their numbers, and with them what libraries and programs that are started print."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            handle = os.open(os.devnull, os.O_RDWR)  # the lowest number that is free, which is the stream's
            os.set_inheritable(handle, True)
            setattr(sys, name, os.fdopen(handle, mode))
