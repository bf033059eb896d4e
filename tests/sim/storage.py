"""Storage for tests: in memory, and one that fails or dies at chosen calls."""

from __future__ import annotations

import io
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

from bucketlake.env.storage import FileInfo, deleted_one_by_one
from bucketlake.errors import AlreadyExistsError, NotFoundError, StorageError


class Killed(BaseException):
    """The process is gone: nothing after this runs, as no `except Exception` sees it."""


class MapStorage:
    """Files in a dict. Not thread safe beyond what a dict is; the simulation runs one thread at a time."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        if path not in self.files:
            raise NotFoundError("no such file", path=path)
        data = self.files[path]
        return data[offset:] if length is None else data[offset : offset + length]

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        return [self.read(path, offset, length) for offset, length in ranges]

    def open_input(self, path: str) -> BinaryIO:
        return io.BytesIO(self.read(path))

    def open_output(self, path: str) -> BinaryIO:
        files = self.files

        class Output(io.BytesIO):
            def close(self) -> None:
                if not self.closed:
                    files[path] = self.getvalue()
                super().close()

        return Output()

    def write(self, path: str, data: bytes) -> None:
        self.files[path] = bytes(data)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        if path in self.files:
            return False
        self.files[path] = bytes(data)
        return True

    def info(self, path: str) -> FileInfo | None:
        data = self.files.get(path)
        if data is None and any(name.startswith(path + "/") for name in list(self.files)):
            return FileInfo(path, is_dir=True)
        return None if data is None else FileInfo(path, len(data))

    def list(self, path: str) -> list[FileInfo]:
        prefix = path.rstrip("/") + "/"
        found: dict[str, FileInfo] = {}
        for name, data in list(self.files.items()):
            if name.startswith(prefix):
                head, _, rest = name[len(prefix) :].partition("/")
                found[head] = FileInfo(prefix + head, is_dir=True) if rest else FileInfo(name, len(data))
        return list(found.values())

    def walk(self, path: str) -> Iterator[FileInfo]:
        prefix = path.rstrip("/") + "/"
        return iter([FileInfo(name, len(data)) for name, data in list(self.files.items()) if name.startswith(prefix)])

    def make_dir(self, path: str) -> None:
        pass

    def delete(self, path: str) -> None:
        self.files.pop(path, None)

    def delete_all(self, paths: Sequence[str]) -> int:
        return deleted_one_by_one(self.delete, paths)

    def delete_tree(self, path: str) -> None:
        for info in self.walk(path):
            self.delete(info.path)

    def delete_empty(self, path: str) -> bool:
        return False

    def rename(self, source: str, target: str) -> None:
        if target in self.files:
            raise AlreadyExistsError("target of a rename exists", path=target)
        self.files[target] = self.files.pop(source)

    def link(self, source: str, target: str) -> None:
        if target in self.files:
            raise AlreadyExistsError("target of a link exists", path=target)
        self.files[target] = self.read(source)


class NotingStorage:
    """Passes calls on to files in a dict, and notes what those that look met: while that is so, so is what follows."""

    def __init__(self, inner: MapStorage) -> None:
        self.inner = inner
        self.met: dict[tuple[str, str], Any] = {}

    def __getattr__(self, operation: str) -> Any:
        real = getattr(self.inner, operation)

        def call(path: str, *rest: Any) -> Any:
            self.met[operation, path] = self._look(operation, path)
            return real(path, *rest)

        return call

    def is_as_met(self, met: dict[tuple[str, str], Any]) -> bool:
        return all(self._look(*place) == found for place, found in met.items())

    def _look(self, operation: str, path: str) -> Any:
        return (
            list(getattr(self.inner, operation)(path)) if operation in ("list", "walk") else self.inner.files.get(path)
        )


FAIL_BEFORE, FAIL_AFTER, KILL_BEFORE, KILL_AFTER = "fail before", "fail after", "kill before", "kill after"


@dataclass(frozen=True)
class Raised:
    """An error that is not ours, or an interrupt, before or after the effect; the process lives on."""

    error: type[BaseException]
    after: bool = False


Plan = Callable[[int, str, str], "str | Raised | None"]


class FaultStorage:
    """Passes calls on; `plan(k, operation, path)` says what goes wrong with the k-th call, counted from 0.

    "fail": StorageError before or after the effect (after: the answer is lost); "kill": as if the process died there.
    After a kill every further call dies too.
    """

    def __init__(self, inner: Any, plan: Plan = lambda k, operation, path: None) -> None:
        self.inner = inner
        self.plan = plan
        self.calls: list[tuple[str, str]] = []
        self.dead = False

    def _call(self, operation: str, path: str, *rest: Any) -> Any:
        if self.dead:
            raise Killed
        fault = self.plan(len(self.calls), operation, path)
        self.calls.append((operation, path))
        if fault == KILL_BEFORE:
            self.dead = True
            raise Killed
        if fault == FAIL_BEFORE:
            raise StorageError("injected before the effect", path=path, operation=operation)
        if isinstance(fault, Raised) and not fault.after:
            raise fault.error("injected before the effect")
        try:
            return getattr(self.inner, operation)(path, *rest)
        finally:
            if isinstance(fault, Raised) and fault.after:
                raise fault.error("injected after the effect")
            if fault == KILL_AFTER:
                self.dead = True
                raise Killed
            if fault == FAIL_AFTER:
                raise StorageError("injected after the effect", path=path, operation=operation)

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        return self._call("read", path, offset, length)

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        return self._call("read_ranges", path, ranges)

    def open_input(self, path: str) -> BinaryIO:
        return self._call("open_input", path)

    def open_output(self, path: str) -> BinaryIO:
        return self._call("open_output", path)

    def write(self, path: str, data: bytes) -> None:
        self._call("write", path, data)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        return self._call("put_if_absent", path, data)

    def info(self, path: str) -> FileInfo | None:
        return self._call("info", path)

    def list(self, path: str) -> list[FileInfo]:
        return self._call("list", path)

    def walk(self, path: str) -> Iterator[FileInfo]:
        return self._call("walk", path)

    def make_dir(self, path: str) -> None:
        self._call("make_dir", path)

    def delete(self, path: str) -> None:
        self._call("delete", path)

    def delete_all(self, paths: Sequence[str]) -> int:
        return deleted_one_by_one(self.delete, paths)

    def delete_tree(self, path: str) -> None:
        self._call("delete_tree", path)

    def delete_empty(self, path: str) -> bool:
        return self._call("delete_empty", path)

    def rename(self, source: str, target: str) -> None:
        self._call("rename", source, target)

    def link(self, source: str, target: str) -> None:
        self._call("link", source, target)


def fault_at(call: int, fault: str | Raised) -> Plan:
    """The fault at the call of this number."""
    return lambda k, operation, path: fault if k == call else None


def fault_on(operation: str, part: str, fault: str | Raised, times: int = 1) -> Plan:
    """The fault at the first `times` calls of an operation on paths with this part."""
    left = [times]

    def plan(k: int, called: str, path: str) -> str | Raised | None:
        if called == operation and part in path and left[0]:
            left[0] -= 1
            return fault
        return None

    return plan


def fault_by_chance(seed: int, faults: float, pause: Callable[[], None]) -> Plan:
    """A fault at this share of the calls, each of which lets others go first by `pause`."""
    chance = random.Random(seed)

    def plan(k: int, operation: str, path: str) -> str | None:
        pause()
        if chance.random() >= faults:
            return None
        return chance.choices([FAIL_BEFORE, FAIL_AFTER, KILL_BEFORE, KILL_AFTER], [8, 4, 1, 1])[0]

    return plan
