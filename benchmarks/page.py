"""The page over a table of many files: `python benchmarks/page.py [files] [--browser]`.

Prints, for every question of the page, milliseconds cold (manifests decoded) and warm, and the size of the answer; with
`--browser` also how many frames a second are drawn while the list of files, the heat map and the levels are scrolled.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.ui.browser import ARGUMENTS, Window, chromium, served

import bucketlake
from benchmarks.planning import build
from bucketlake.ops.table.store import clear_cache
from bucketlake.report import frames
from bucketlake.ui.look import ANSWERS, Query

QUESTIONS = (
    "overview",
    "timeline",
    "amplification",
    "heat",
    "levels",
    "sizes",
    "files",
    "evolution",
    "settings",
    "activity",
)
SCROLL = """async ([selector, step]) => {
  const box = document.querySelector(selector);
  box.scrollIntoView({block: "center"});
  const times = [];
  await new Promise(done => {
    const begun = performance.now();
    let last = begun;
    const tick = now => {
      times.push(now - last);
      last = now;
      box.scrollTop = box.scrollTop + step > box.scrollHeight - box.clientHeight ? 0 : box.scrollTop + step;
      now - begun < 3000 ? requestAnimationFrame(tick) : done();
    };
    requestAnimationFrame(tick);
  });
  times.shift();
  times.sort((a, b) => a - b);
  return [times.length / 3, times[Math.floor(times.length * 0.95)], times[times.length - 1]];
}"""


def main() -> None:
    files = int(sys.argv[1]) if len(sys.argv) > 1 and sys.argv[1].isdigit() else 100_000
    with tempfile.TemporaryDirectory() as folder:
        for keyed in (True, False):
            build(f"{folder}/default.db/{'keyed' if keyed else 'log'}", files, 50, keyed)
        catalog = bucketlake.open(folder)
        for name in ("keyed", "log"):
            place = {"database": "default", "table": name}
            part = catalog.table(f"default.{name}").report.heat().partitions[0]
            given = {**place, "partition": part.key, "bucket": str(part.cells[0].bucket)}
            for question in QUESTIONS:
                _time(catalog, name, question, given if question == "levels" else place)
        if "--browser" in sys.argv:
            _browse(catalog)


def _time(catalog: Any, name: str, question: str, given: dict[str, str]) -> None:
    clear_cache()
    frames.clear()
    took = []
    for _ in range(2):
        start = time.perf_counter()
        body = json.dumps(ANSWERS[question](catalog, Query(given)))
        took.append((time.perf_counter() - start) * 1000)
    print(
        f"{name:6} {question:14} {took[0]:7.0f} ms cold {took[1]:7.0f} ms warm {len(body) / 1024:8.0f} KiB", flush=True
    )


def _browse(catalog: Any) -> None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started, served(catalog) as running:
        browser = started.chromium.launch(executable_path=chromium(), args=list(ARGUMENTS), headless=True)
        for name in ("keyed", "log"):
            window = Window(browser, running)
            start = time.perf_counter()
            page = window.room(f"default/{name}", "layout")
            print(f"{name:6} all figures of Layout drawn after {time.perf_counter() - start:.1f} s")
            for figure, step in (("files", 300), ("files", 40_000), ("heat", 24), ("levels", 20)):
                rate, slow, worst = page.evaluate(SCROLL, [f"[data-figure={figure}]", step])
                told = f"{rate:5.1f} frames a second, 95 % within {slow:.0f} ms, worst {worst:.0f} ms"
                print(f"{name:6} {figure:8} {step:6} px a frame: {told}")
            print(f"{name:6} went wrong: {window.wrong}")
            window.close()
        browser.close()


if __name__ == "__main__":
    main()
