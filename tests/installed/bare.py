"""New virtual environments, and what runs in them; the registry is asked by pip."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


class Bare:
    """A new environment with these requirements and nothing else."""

    def __init__(self, folder: Path, *requirements: str) -> None:
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        self.python = str(folder / "bin" / "python")
        self.folder = folder
        self.run(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements])

    def run(self, arguments: list[str], **environment: str) -> str:
        """What a process of it writes; AssertionError with what it complains of where it fails."""
        plain = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        given = {**plain, "PYSPARK_PYTHON": self.python, **environment}
        done = subprocess.run([self.python, *arguments], capture_output=True, text=True, env=given, cwd=self.folder)
        assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
        return done.stdout
