"""TPC-H lineitem as one parquet file, made once by `tpchgen-cli`."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent / "data"


def lineitem(scale: float) -> str:
    """Path of lineitem at a scale factor (6.0M rows a unit), generated on first use."""
    folder = FOLDER / f"sf{scale:g}"
    path = folder / "lineitem.parquet"
    if not path.exists():
        command = shutil.which("tpchgen-cli", path=str(Path(sys.executable).parent)) or shutil.which("tpchgen-cli")
        if command is None:
            raise SystemExit("tpchgen-cli is missing: pip install 'bucketlake[bench]'")
        folder.mkdir(parents=True, exist_ok=True)
        partial = folder / "partial"
        arguments = ["parquet", "-s", f"{scale:g}", "--tables=lineitem", f"--output-dir={partial}"]
        subprocess.run([command, *arguments], check=True, stdout=subprocess.DEVNULL)
        (partial / "lineitem.parquet").rename(path)
        shutil.rmtree(partial)
    return str(path)
