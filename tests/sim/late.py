"""A store whose LIST is late: what is gone is still listed for a while."""

from __future__ import annotations

import io
import random
from collections.abc import Iterator
from typing import BinaryIO

from tests.sim.storage import MapStorage

from bucketlake.env.storage import FileInfo

MOST = 60  # calls that a LIST may be late


class LateLists(MapStorage):
    """Reads, HEADs and puts are of now, and what is new is listed."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._chance, self._calls = random.Random(f"late {seed}"), 0
        self._gone: dict[str, tuple[int, bytes]] = {}  # until which call a deleted file is, and what it was

    def write(self, path: str, data: bytes) -> None:
        super().write(path, data)
        self._gone.pop(path, None)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        put = super().put_if_absent(path, data)
        if put:
            self._gone.pop(path, None)
        return put

    def open_output(self, path: str) -> BinaryIO:
        store = self

        class Output(io.BytesIO):
            def close(self) -> None:
                if not self.closed:
                    store.write(path, self.getvalue())
                super().close()

        return Output()

    def delete(self, path: str) -> None:
        if path in self.files:
            self._gone[path] = (self._calls + self._chance.randrange(MOST), self.files.pop(path))

    def rename(self, source: str, target: str) -> None:
        """As object stores do: file by file."""
        for name in [name for name in self.files if name == source or name.startswith(f"{source}/")]:
            self.write(target + name[len(source) :], self.files[name])
            self.delete(name)

    def link(self, source: str, target: str) -> None:
        super().link(source, target)
        self._gone.pop(target, None)

    def info(self, path: str) -> FileInfo | None:
        return super().info(path) if path in self.files else self._listed().info(path)

    def list(self, path: str) -> list[FileInfo]:
        return self._listed().list(path)

    def walk(self, path: str) -> Iterator[FileInfo]:
        return self._listed().walk(path)

    def _listed(self) -> MapStorage:
        self._calls += 1
        self._gone = {path: one for path, one in self._gone.items() if one[0] > self._calls}
        found = MapStorage()
        found.files = dict(self.files)
        for path, (_, data) in self._gone.items():
            found.files.setdefault(path, data)
        return found
