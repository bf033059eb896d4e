"""A moto S3 server as a process on the loopback interface. moto itself looks for a name and writes it in two steps: of
several puts with a condition more than one may win. `server.py` serves them one at a time."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def served() -> Iterator[str]:
    """Its endpoint, while this lasts."""
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("server.py"))], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
