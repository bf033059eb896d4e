"""A process that damages files of its own copy of the tables and says what came of it, one JSON line a case.

python -m tests.hostile.child <warehouse> <folder of its own>        cases on stdin, answers on stdout
"""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any

from tests.hostile import tables
from tests.hostile.damage import DAMAGES
from tests.hostile.forge import FORGERIES, WRONG

from bucketlake.errors import BucketlakeError
from bucketlake.ops.table.store import clear_cache

MEMORY = 2 << 30  # beyond what the libraries take when they are loaded


def damaged(path: Path, how: str, seed: int) -> bytes | None:
    """What is put in the file's place, None where that changes nothing."""
    data, rng = path.read_bytes(), random.Random(seed)
    if how in DAMAGES:
        found = DAMAGES[how](data, rng)
    else:
        try:
            found = FORGERIES[how](data, rng)
        except WRONG:
            return None
    return None if found == data else found


def outcome(case: dict[str, Any], folder: Path, expected: dict[str, Any]) -> dict[str, Any]:
    """What becomes of one case. Outcomes: same, as written, named, unnamed, raw, panic, fewer, other."""
    path = folder / case["path"]
    original = path.read_bytes()
    found = damaged(path, case["how"], case["seed"])
    if found is None:
        return {"outcome": "same"}
    path.write_bytes(found)
    try:
        answer = tables.act(folder, case["table"])
    except BucketlakeError as error:
        named = names_a_file(str(error), path, folder, case["kind"])
        detail = f"{type(error).__name__}: {error}"[:600]
        return {"outcome": "named" if named else "unnamed", "detail": detail}
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        kind = "panic" if type(error).__name__ == "PanicException" else "raw"
        where = "".join(traceback.format_exception(error)[-4:])
        return {"outcome": kind, "detail": f"{type(error).__name__}: {str(error)[:200]}\n{where}"[-1500:]}
    finally:
        path.write_bytes(original)
    return _compared(answer, expected)


def names_a_file(text: str, path: Path, folder: Path, kind: str) -> bool:
    """Whether an error says where to look: the damaged file, another file of the table (what a damaged one leads to:
    a missing file, an entry's data file), or for a schema the option or column that is wrong."""
    if path.name in text or f"path={folder}" in text or "data-" in text:
        return True
    return (kind == "schema" and any(f"{word}=" in text for word in ("option", "column", "stored"))) or (
        kind in ("schema", "manifest") and "set the option '" in text
    )


def _compared(answer: dict[str, Any], expected: dict[str, Any]) -> dict[str, Any]:
    if answer == expected:
        return {"outcome": "as written"}
    wrong = [question for question in expected if answer[question] != expected[question]]
    counts = [(len(answer[question]), len(expected[question])) for question in wrong]
    kind = "other" if all(left == right for left, right in counts) else "fewer"
    return {"outcome": kind, "detail": f"{wrong} {counts}"}


def main(source: str, own: str) -> None:
    """Answer cases until the input ends."""
    warnings.simplefilter("ignore")
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    folder = Path(own)
    shutil.copytree(source, folder)
    expected: dict[str, Any] = {}
    for name in tables.TABLES:
        expected[name] = tables.act(folder, name)
    shutil.rmtree(folder)
    shutil.copytree(source, folder)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        case = json.loads(line)
        clear_cache()
        result = outcome(case, folder, expected[case["table"]])
        if case["table"] in tables.WRITING and result["outcome"] != "same":
            place = next(folder.glob("*.db")) / case["table"]
            shutil.rmtree(place)
            shutil.copytree(next(Path(source).glob("*.db")) / case["table"], place)
        print(json.dumps(result), file=answers, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:3])
