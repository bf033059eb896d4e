"""Session-scoped peers for pytest: `pytest_plugins = ["tests.peers.fixtures"]` in the root conftest.

A peer that cannot be installed skips its tests with a reason that starts with PEER MISSING, which CI looks for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from tests.peers.flink import FlinkPaimon
from tests.peers.python_peers import PaimonRust, PyPaimon
from tests.peers.rpc import PeerMissing

P = TypeVar("P", FlinkPaimon, PyPaimon, PaimonRust)


def _started(peer: Callable[[Path], P], warehouse: Path) -> P:
    try:
        return peer(warehouse)
    except PeerMissing as error:
        pytest.skip(f"PEER MISSING: {peer.__name__}: {error}")


@pytest.fixture(scope="session")
def flink(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlinkPaimon]:
    """Apache Paimon on Flink; `flink.use(folder)` to work elsewhere than in a folder of its own."""
    with _started(FlinkPaimon, tmp_path_factory.mktemp("flink")) as peer:
        yield peer


@pytest.fixture(scope="session")
def pypaimon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PyPaimon]:
    """Upstream's pypaimon; `pypaimon.use(folder)` first."""
    with _started(PyPaimon, tmp_path_factory.mktemp("pypaimon")) as peer:
        yield peer


@pytest.fixture(scope="session")
def paimon_rust(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PaimonRust]:
    """Upstream's paimon-rust; `paimon_rust.use(folder)` first."""
    with _started(PaimonRust, tmp_path_factory.mktemp("rust")) as peer:
        yield peer
