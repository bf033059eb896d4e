"""Time and chance under control."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable


class FakeClock:
    """Moves only by `sleep` and one millisecond a question; identifiers and jitter come from the seed."""

    def __init__(self, seed: int = 0, on_sleep: Callable[[], None] = lambda: None) -> None:
        self.millis = 1_700_000_000_000
        self.slept = 0.0
        self._random = random.Random(seed)
        self._on_sleep = on_sleep

    def now_millis(self) -> int:
        self.millis += 1
        return self.millis

    def sleep(self, seconds: float) -> None:
        self.slept += seconds
        self.millis += int(seconds * 1000)
        self._on_sleep()

    def new_uuid(self) -> str:
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))

    def jitter(self) -> float:
        return self._random.random()
