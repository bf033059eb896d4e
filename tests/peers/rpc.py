"""One request a line in, one reply a line out: JSON between the test process and a peer's own Python.

Request: {"op": name, "args": {...}}. Reply: {"ok": true, "value": ...} or
{"ok": false, "error": message, "chain": [outermost … root cause]}.
This module runs in both processes, so it imports the standard library only.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from queue import Empty, Queue
from typing import Any

REPO = Path(__file__).resolve().parents[2]
KEPT_LOG_LINES = 60


class PeerMissing(RuntimeError):
    """The peer cannot be had on this machine; the message says why."""


class PeerError(RuntimeError):
    """The peer refused or failed.

    `str(error)` is the root cause's message; `chain` holds every cause, the outermost first.
    """

    def __init__(self, message: str, chain: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.chain = list(chain)


class Failure(Exception):
    """Raised in a driver to report a chain of causes instead of a Python traceback."""

    def __init__(self, chain: Sequence[str]) -> None:
        super().__init__(chain[-1])
        self.chain = list(chain)


def serve(start: Callable[[], Mapping[str, Callable[..., Any]]]) -> None:
    """Answer requests from standard input, by the operations that `start` returns, until it ends.

    Anything else that this process or its children print to standard output goes to standard error.
    """
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    ops = start()
    for line in sys.stdin:
        request = json.loads(line)
        reply: dict[str, Any]
        try:
            reply = {"ok": True, "value": ops[request["op"]](**request["args"])}
        except Failure as failure:
            reply = {"ok": False, "error": failure.chain[-1], "chain": failure.chain}
        except BaseException as error:  # a panic of a native library is no Exception, and must not end the driver
            if isinstance(error, (KeyboardInterrupt, SystemExit)):
                raise
            chain = _python_chain(error)
            reply = {"ok": False, "error": chain[-1], "chain": chain}
        replies.write(json.dumps(reply) + "\n")
        replies.flush()


def _python_chain(error: BaseException) -> list[str]:
    chain: list[str] = []
    link: BaseException | None = error
    while link is not None:
        chain.append(f"{type(link).__name__}: {link}")
        link = link.__cause__
    return chain


class Driver:
    """A driver module running in a peer's Python; not safe for concurrent calls."""

    def __init__(self, python: Path, module: str, env: Mapping[str, str] | None = None) -> None:
        self._name = module.rsplit(".", 1)[-1]
        self._process = subprocess.Popen(
            [str(python), "-u", "-m", module],
            cwd=REPO,
            env=_clean_environment() | dict(env or {}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        self._replies: Queue[str | None] = Queue()
        self._log: deque[str] = deque(maxlen=KEPT_LOG_LINES)
        self._readers = [
            threading.Thread(target=self._pump_replies, daemon=True),
            threading.Thread(target=self._pump_log, daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    def _pump_replies(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._replies.put(line)
        self._replies.put(None)

    def _pump_log(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._log.append(line.rstrip())

    def call(self, op: str, args: Mapping[str, Any], timeout: float) -> Any:
        """The value that the driver returns for `op`.

        Raises PeerError if it reports a failure, dies, or does not answer in `timeout` seconds (it is then ended).
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"op": op, "args": dict(args)}) + "\n")
            self._process.stdin.flush()
        except (BrokenPipeError, ValueError) as error:
            raise PeerError(self._death()) from error
        try:
            line = self._replies.get(timeout=timeout)
        except Empty:
            self.close(patience=0)
            raise PeerError(f"{self._name}: no answer to {op} in {timeout:g} s; ended\n{self._tail()}") from None
        if line is None:
            raise PeerError(self._death())
        reply = json.loads(line)
        if not reply["ok"]:
            raise PeerError(reply["error"], reply["chain"])
        return reply["value"]

    def _death(self) -> str:
        self.close()
        return f"{self._name}: exited with status {self._process.returncode}\n{self._tail()}"

    def _tail(self) -> str:
        return "\n".join(self._log)

    def close(self, patience: float = 20) -> None:
        """End the driver: first by closing its input, then, after `patience` seconds, by a signal."""
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        try:
            self._process.wait(timeout=patience)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for reader in self._readers:
            reader.join(timeout=2)
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None and not any(reader.is_alive() for reader in self._readers):
                pipe.close()


def _clean_environment() -> dict[str, str]:
    """This process's environment without what would lead a peer's Python or JVM astray."""
    astray = ("PYTHON", "FLINK_", "HADOOP_", "SPARK_", "PYSPARK_", "COVERAGE_", "COV_CORE_", "VIRTUAL_ENV")
    return {key: value for key, value in os.environ.items() if not key.startswith(astray)}
