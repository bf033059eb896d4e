"""Tables of TPC-H as one parquet file each, made once by `tpchgen-cli`."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent / "data"


def lineitem(scale: float) -> str:
    """Path of lineitem at a scale factor (6.0M rows a unit), generated on first use."""
    return table("lineitem", scale)


def table(name: str, scale: float) -> str:
    """Path of a table at a scale factor, generated on first use."""
    folder = FOLDER / f"sf{scale:g}"
    path = folder / f"{name}.parquet"
    if not path.exists():
        command = shutil.which("tpchgen-cli", path=str(Path(sys.executable).parent)) or shutil.which("tpchgen-cli")
        if command is None:
            raise SystemExit("tpchgen-cli is missing: pip install 'bucketlake[bench]'")
        folder.mkdir(parents=True, exist_ok=True)
        partial = folder / "partial"
        arguments = ["parquet", "-s", f"{scale:g}", f"--tables={name}", f"--output-dir={partial}"]
        subprocess.run([command, *arguments], check=True, stdout=subprocess.DEVNULL)
        (partial / f"{name}.parquet").rename(path)
        shutil.rmtree(partial)
    return str(path)
