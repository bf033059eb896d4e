"""How pictures look: colours, sizes as text, names that are shown as they are; matplotlib loaded when one is drawn.

Colours are those of the page (ui/static/page.css), and readable beside each other without colour vision; what is light
or dark follows the user's style.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime, timezone
from importlib import import_module
from typing import Any

from bucketlake.errors import UnsupportedError

KINDS = {"APPEND": "#2a8391", "OVERWRITE": "#b4481b", "COMPACT": "#e0a030", "ANALYZE": "#8a949a"}
WORDS = {"APPEND": "write", "OVERWRITE": "overwrite", "COMPACT": "compaction", "ANALYZE": "statistics"}
TEAL, ORANGE, GREY, INK = "#2a8391", "#d1720b", "#8a949a", "#1d2226"
RAMP = ("#e9f1f1", "#b3d2d5", "#5a98a1", "#0e6673", "#084650")
LEVELS = ("#e0a030", "#8dbcc2", "#5a98a1", "#327884", "#0e6673", "#084650")
LONGEST = 28  # characters of a name beside a picture


def pyplot() -> Any:
    """matplotlib's pyplot, which draws without a display too. UnsupportedError, with the extra, without matplotlib."""
    try:
        return import_module("matplotlib.pyplot")
    except ImportError as error:
        raise UnsupportedError(
            "pictures need a package that cannot be loaded",
            package="matplotlib",
            reason=str(error),
            remedy="pip install 'bucketlake[plot]'",
        ) from error


def axes(ax: Any, width: float, height: float) -> Any:
    """The axes to draw on: those given, else of a new figure of so many inches."""
    plt = pyplot()
    if ax is not None:
        return ax
    _, made = plt.subplots(figsize=(width, height), layout="constrained")
    return made


def ramp() -> Any:
    """The colour map of amounts."""
    return import_module("matplotlib.colors").LinearSegmentedColormap.from_list("bucketlake", RAMP)


def level_colour(level: int, top: int) -> str:
    """Level 0 stands out; the deeper the darker."""
    if level <= 0:
        return LEVELS[0]
    return LEVELS[min(1 + (level - 1) * (len(LEVELS) - 2) // max(1, top - 1), len(LEVELS) - 1)]


def named(text: str, longest: int = LONGEST) -> str:
    """A text of the user's as it is shown: cut in the middle, nothing in it is read as a formula or a control."""
    plain = "".join(letter if letter.isprintable() else "·" for letter in text)
    if len(plain) > longest:
        plain = f"{plain[: longest // 2]}…{plain[-(longest // 2 - 1) :]}"
    return plain.replace("$", r"\$")


def size_text(count: float, _: object = None) -> str:
    """Bytes as a person reads them; also the formatter of an axis."""
    value, sign = abs(float(count)), "-" if count < 0 else ""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if value < 1024 or unit == "PiB":
            break
        value /= 1024
    return (
        f"{sign}{value:.0f} {unit}"
        if value >= 10 or unit == "B" or value == int(value)
        else f"{sign}{value:.1f} {unit}"
    )


def byte_axis(axis: Any, low: float, high: float) -> None:
    """Ticks at sizes that are read at a glance, removed bytes without a sign."""
    ticker = import_module("matplotlib.ticker")
    span = max(high - low, 1.0)
    axis.set_major_locator(ticker.MultipleLocator(2.0 ** math.ceil(math.log2(span / 6))))
    axis.set_major_formatter(lambda value, _: size_text(abs(value)))


def whole_axis(axis: Any) -> None:
    """Ticks at whole numbers."""
    axis.set_major_locator(import_module("matplotlib.ticker").MaxNLocator(integer=True))
    axis.set_major_formatter(count_text)


def count_text(count: float, _: object = None) -> str:
    """A number as a person reads it: 1.2 M."""
    value = float(count)
    for step, unit in ((1e12, " T"), (1e9, " G"), (1e6, " M"), (1e4, " k")):
        if abs(value) >= step:
            scale = 1e3 if unit == " k" else step
            return f"{value / scale:.3g}{unit}"
    return f"{value:g}"


def moment(millis: int) -> str:
    """A time in UTC, to the minute."""
    return datetime.fromtimestamp(millis / 1000, timezone.utc).strftime("%Y-%m-%d %H:%M")


def title(ax: Any, text: str, about: str) -> None:
    """What the picture shows, and under it of what."""
    ax.set_title(text, loc="left", fontsize="large", fontweight="bold", pad=22 if about else 8)
    if about:
        ax.text(0, 1.02, about, transform=ax.transAxes, fontsize="small", color=GREY, va="bottom")


def bare(ax: Any, grid: str | None = "y") -> None:
    """Only the lines that are read."""
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    ax.set_axisbelow(True)
    if grid:
        ax.grid(axis=grid, alpha=0.25, linewidth=0.6)


def nothing(ax: Any, heading: str, about: str) -> Any:
    """A picture of a table that has nothing to show."""
    title(ax, heading, "")
    ax.set_axis_off()
    ax.text(0.5, 0.5, about, ha="center", va="center", color=GREY, transform=ax.transAxes)
    return ax


def ticks(ax: Any, labels: Sequence[str], most: int = 12) -> None:
    """Labels at 0, 1, 2, … of the x axis; where they are many, evenly spaced ones."""
    step = max(1, -(-len(labels) // most))
    places = list(range(0, len(labels), step))
    ax.set_xticks(places, [labels[place] for place in places])
