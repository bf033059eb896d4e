"""Replay Apache Paimon's own Spark tests through `lake.sql`: python -m tests.upstream.replay --from <git directory>

Each test has a warehouse of its own; statements run through `lake.sql`, DataFrames through the attached session. A test passes, fails (with
what was expected and what came) or is skipped with the reason why it was not understood. Nothing of upstream's is kept here. Needs
`pip install tree-sitter tree-sitter-scala tree-sitter-java`.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import re
import sys
import time
import traceback
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.quick import INTERPRETED, SETTINGS, folders_in_memory, quick_look_ups

from bucketlake.spark.session import new_session

from .harness import Bench
from .judged import Skipped, TooLong, is_products
from .source import Checkout
from .values import Unknown


def main() -> None:
    reader = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    reader.add_argument("--from", dest="place", type=Path, required=True, help="a clone of apache/paimon, bare or not")
    reader.add_argument("--commit", default="HEAD")
    reader.add_argument("--suites", default="", help="suites whose names a regular expression finds")
    reader.add_argument("--tests", default="", help="tests whose names a regular expression finds")
    reader.add_argument("--out", type=Path, help="a line of JSON a test")
    reader.add_argument(
        "--all", action="store_true", help="also suites that differ by upstream's two ways to write only"
    )
    reader.add_argument(
        "--loose", action="store_true", help="go on where a value is not understood: what depends on it holds"
    )
    reader.add_argument("--trace", action="store_true", help="where a test failed, in this tool")
    asked = reader.parse_args()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    quick_look_ups()
    folders_in_memory()
    with TemporaryDirectory() as folder:
        session = new_session(
            **{**SETTINGS, **INTERPRETED, "spark.master": "local[2,4]", "spark.sql.warehouse.dir": f"{folder}/spark"}
        )
        results = list(replay(asked, session, Path(folder)))
        session.stop()
    report(results)


def replay(asked: Any, session: Any, folder: Path) -> Any:
    checkout = Checkout(asked.place, asked.commit)
    bench = Bench(checkout, session, folder)
    bench.machine.loose = [] if asked.loose else None
    lines = list(checkout.suites())
    names = {line[0].name for line in lines}
    out = asked.out.open("w") if asked.out else None
    for line in lines:
        name = line[0].name
        if not re.search(asked.suites, name) or (not asked.all and name.startswith("V2") and name[2:] in names):
            continue
        for one in suite(bench, line, asked):
            print(
                f"{one['result']:5} {one['suite']}: {one['test']}"
                + (f"\n      {one['why']}"[:600] if one["why"] else ""),
                flush=True,
            )
            if out:
                out.write(json.dumps(one) + "\n")
                out.flush()
            yield one


def suite(bench: Bench, line: Any, asked: Any) -> Any:
    name, file = line[0].name, line[0].file
    try:
        tests = list(bench.gather(line))
        settings = bench.settings()
    except Unknown as reason:
        yield {
            "suite": name,
            "test": "(all)",
            "result": "skip",
            "why": str(reason),
            "file": file,
            "said": [],
            "seconds": 0,
        }
        return
    for title, body, ignored in tests:
        if not re.search(asked.tests, title):
            continue
        start = time.monotonic()
        result, why = ("skip", "ignored upstream") if ignored else outcome(bench, body, settings, asked.trace)
        yield {
            "suite": name,
            "test": title,
            "result": result,
            "why": why,
            "file": file,
            "said": bench.said[-3:],
            "seconds": round(time.monotonic() - start, 1),
        }


def outcome(bench: Bench, body: Any, settings: dict[str, str], trace: bool) -> tuple[str, str]:
    try:
        bench.run(body, settings)
    except (Unknown, Skipped) as reason:
        return "skip", str(reason)
    except AssertionError as error:
        if trace:
            traceback.print_exc()
        return "FAIL", str(error)
    except TooLong as error:
        return "FAIL", f"time: {error}"
    except Exception as error:
        if trace:
            traceback.print_exc()
        if isinstance(error, ConnectionError):
            raise SystemExit("the session's JVM is gone") from error
        if not is_products(error):
            last = traceback.extract_tb(error.__traceback__)[-1]
            return "skip", f"tool: {type(error).__name__}: {error} at {Path(last.filename).name}:{last.lineno}"
        return "FAIL", f"{type(error).__name__}: {error}"
    if bench.machine.wrong:
        return "FAIL", "\n      ".join(dict.fromkeys(bench.machine.wrong))
    unknown = bench.machine.loose
    return ("part", "not understood: " + ", ".join(dict.fromkeys(unknown))) if unknown else ("pass", "")


def report(results: list[dict[str, Any]]) -> None:
    print(
        "\n"
        + ", ".join(f"{count} {kind}" for kind, count in collections.Counter(one["result"] for one in results).items())
    )
    skips = collections.Counter(one["why"].split(" at ")[0][:80] for one in results if one["result"] == "skip")
    for reason, count in skips.most_common(60):
        print(f"{count:5} skipped: {reason}")


if __name__ == "__main__":
    main()
