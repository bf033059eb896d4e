"""Pictures: every one of every kind of table, what they show, and that names of tables and tags are only text."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib
import pytest
from tests.profile import first
from tests.report.tables import hostile_table, lake_of_all_modes

from bucketlake import InvalidError, UnsupportedError
from bucketlake.plot import style

matplotlib.use("Agg")
import matplotlib.pyplot as plt

KINDS = ("levels", "buckets", "history", "amplification", "file_sizes")
TABLES = ("fixed", "dynamic", "postpone", "cross", "log", "empty", "parts")


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return lake_of_all_modes(tmp_path_factory.mktemp("plots"))


def texts(ax: Any) -> str:
    found = [ax.get_title(loc="left"), *(text.get_text() for text in ax.texts)]
    return "\n".join([*found, *(label.get_text() for label in (*ax.get_xticklabels(), *ax.get_yticklabels()))])


def test_every_picture_of_every_table(lake: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in first(TABLES, 4):
            figure, axes = plt.subplots(2, 3, figsize=(16, 9))
            for kind, ax in zip(KINDS, axes.flat, strict=False):
                drawn = getattr(lake.table(f"shop.{name}").plot, kind)(ax=ax)
                assert drawn is ax and f"shop.{name}: {kind.replace('_', ' ')}" in texts(ax)
            figure.canvas.draw()


def test_what_they_show(lake: Any) -> None:
    fixed = lake.table("shop.fixed")
    facts = fixed.report.heat()
    (partition,) = facts.partitions
    heat = fixed.plot.buckets("rows")
    assert heat.get_images()[0].get_array().tolist() == [[cell.rows for cell in partition.cells]]
    assert f"{facts.files} files" in texts(heat)
    levels = fixed.plot.levels(bucket=1)
    listed = fixed.report.levels(None, 1)
    assert len(levels.patches) == len(listed.files) and "bucket 1" in texts(levels)
    assert {"level 0", f"level {max(file.level for file in listed.files)}"} <= set(texts(levels).splitlines())
    widths = sorted(patch.get_x() for patch in levels.patches)
    assert widths == sorted(file.low for file in listed.files)

    fixed.create_tag("first", 1)
    history, commits = fixed.plot.history(), fixed.report.timeline().commits
    above = [patch.get_height() for patch in history.patches if patch.get_height() > 0]
    assert sorted(above) == sorted(commit.added_bytes for commit in commits if commit.added_bytes)
    assert "first" in texts(history)
    sizes, bins = fixed.plot.file_sizes(), fixed.report.file_sizes().bins
    assert [patch.get_height() for patch in sizes.patches] == [one.files for one in bins]
    written = fixed.plot.amplification().lines[0].get_ydata()[-1]
    assert written == fixed.report.amplification().moments[-1].write
    assert "1 older snapshot not shown" in texts(fixed.plot.history(limit=len(commits) - 1))
    assert fixed.plot.buckets(snapshot=1) is not None and fixed.plot.levels(snapshot=1) is not None


def test_names_are_only_text(tmp_path: Path) -> None:
    table, _ = hostile_table(tmp_path)
    table.create_tag("$frac{$")
    table.create_tag("\u202eevil" * 20)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # glyphs that the font has not
        for kind in KINDS:
            drawn = getattr(table.plot, kind)()
            drawn.figure.canvas.draw()
            assert "\u202e" not in texts(drawn)
    assert style.named("a$b\n" + "x" * 99 + "end") == "a\\$b·" + "x" * 10 + "…" + "x" * 10 + "end"


def test_what_is_wrong_is_named(lake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidError, match="choose from bytes, rows"):
        lake.table("shop.fixed").plot.buckets("heat")
    with pytest.raises(InvalidError, match="partition"):
        lake.table("shop.parts").plot.levels(bucket=1)
    monkeypatch.setattr(style, "import_module", lambda name: (_ for _ in ()).throw(ImportError(name)))
    with pytest.raises(UnsupportedError, match=r"pip install 'bucketlake\[plot\]'"):
        lake.table("shop.fixed").plot.history()


def test_amounts_as_text() -> None:
    assert [style.size_text(n) for n in (0, 1023, 1024, 1536, 20 << 20, 5 << 50)] == [
        "0 B",
        "1023 B",
        "1 KiB",
        "1.5 KiB",
        "20 MiB",
        "5 PiB",
    ]
    assert [style.count_text(n) for n in (0, 9999, 12_345, 1_200_000)] == ["0", "9999", "12.3 k", "1.2 M"]


def test_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = Path(__file__).parents[2] / "docs" / "plots.md"
    names: dict[str, object] = {}
    for block in re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
        exec(compile(block, str(page), "exec"), names)
    assert all((tmp_path / name).read_bytes()[:4] == b"\x89PNG" for name in ("levels.png", "buckets.png", "orders.png"))
