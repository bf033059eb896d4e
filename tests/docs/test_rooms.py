"""`docs/rooms.md` and `ARCHITECTURE.md` speak of the code that there is."""

from __future__ import annotations

import re

from tests.docs import rooms
from tests.test_structure import ROOMS


def test_the_page_of_rooms_is_what_the_docstrings_say() -> None:
    assert rooms.PAGE.read_text() == rooms.page(), "run: python -m tests.docs.rooms"


def test_architecture_shows_every_room() -> None:
    text = (rooms.ROOT / "ARCHITECTURE.md").read_text()
    missing = [room for room in ROOMS if f"`{room}`" not in text]
    assert not missing, missing


def test_architecture_names_no_module_that_is_not_there() -> None:
    text = (rooms.ROOT / "ARCHITECTURE.md").read_text()
    named = set(re.findall(r"`((?:[a-z_]+/)*[a-z_]+\.py)`", text))
    gone = sorted(name for name in named if not (rooms.PACKAGE / name).is_file() and not (rooms.ROOT / name).is_file())
    assert not gone, gone
