"""Every pair of colours that texts are set in has the contrast of WCAG's AA, in both themes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bucketlake.plot import style
from bucketlake.ui import server

CSS = (Path(server.__file__).parent / "static" / "page.css").read_text()
GROUNDS = ("paper", "raised", "accent-soft", "warn-soft", "came", "went")


def colours(theme: str) -> dict[str, str]:
    light, dark = re.findall(r":root[^{]*\{(.*?)\n\}", CSS, re.DOTALL)[:2]
    found = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", light))
    turn = re.findall(r"--ramp-turn: (\d)", light)[0]
    if theme == "dark":
        found |= dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", dark))
        turn = re.findall(r"--ramp-turn: (\d)", dark)[0]
    return {**found, "turn": turn}


def brightness(colour: str) -> float:
    parts = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, two: str) -> float:
    low, high = sorted((brightness(one), brightness(two)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_texts_can_be_read(theme: str) -> None:
    found = colours(theme)
    pairs = [("ink", ground) for ground in GROUNDS] + [
        ("muted", ground) for ground in ("paper", "raised", "accent-soft")
    ]
    pairs += [("accent", "paper"), ("accent", "raised"), ("accent", "accent-soft"), ("on-accent", "accent")]
    pairs += [("warn", ground) for ground in ("paper", "raised", "warn-soft")] + [("paper", "ink")]
    pairs += [("ink" if n <= int(found["turn"]) else "paper", f"ramp-{n}") for n in range(8)]
    poor = [(a, b, round(contrast(found[a], found[b]), 2)) for a, b in pairs if contrast(found[a], found[b]) < 4.5]
    assert poor == []
    assert contrast(found["focus"], found["paper"]) >= 3 and contrast(found["focus"], found["raised"]) >= 3


def test_pictures_of_the_page_and_of_matplotlib_have_the_same_colours() -> None:
    page = colours("light")
    kinds = {"APPEND": "teal", "COMPACT": "amber", "OVERWRITE": "rust", "ANALYZE": "grey"}
    assert {kind: page[name] for kind, name in kinds.items()} == style.KINDS
    assert (page["teal"], page["orange"], page["grey"], page["ink"]) == (
        style.TEAL,
        style.ORANGE,
        style.GREY,
        style.INK,
    )
    assert (page["amber"], *(page[f"ramp-{n}"] for n in range(3, 8))) == style.LEVELS
    assert set(style.RAMP) <= {page[f"ramp-{n}"] for n in range(8)}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_parts_of_figures_stand_out_from_the_ground(theme: str) -> None:
    found = colours(theme)
    poor = [
        (part, round(contrast(found[part], found["paper"]), 2))
        for part in ("teal", "rust", "orange", "amber-edge", "ramp-7")
        if contrast(found[part], found["paper"]) < 3
    ]
    assert poor == []
    assert contrast(found["on-amber"], found["amber"]) >= 4.5
    assert contrast(found["ink"], found["came-cell"]) >= 4.5
