"""Random tables that Bucketlake and Apache Paimon write, alter, compact and expire in turns; see co_writing.py.

In `make soak` 200; BUCKETLAKE_SEED is the first.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.interop.co_writing import History, World
from tests.interop.peer_fails import FAILS, KnownFail
from tests.interop.random_tables import draw
from tests.interop.rarer_tables import rarer
from tests.peers.flink import FlinkPaimon
from tests.peers.python_peers import PyPaimon
from tests.profile import SOAK, seeds

pytestmark = pytest.mark.peer

FIRST = int(os.environ.get("BUCKETLAKE_SEED") or 1361)  # four tables that are little alike
TURNS = 12 if SOAK else 6


@pytest.mark.parametrize("seed", seeds(4, 200))
def test_both_write_one_table(flink: FlinkPaimon, pypaimon: PyPaimon, tmp_path: Path, seed: int) -> None:
    history = History(World(tmp_path, flink, pypaimon), rarer(draw(FIRST + seed)), TURNS)
    history.play()
    assert not history.problems, "\n".join([repr(history.spec), *history.log, *history.problems])


@pytest.mark.slow
@pytest.mark.parametrize("fail", FAILS, ids=lambda fail: f"{fail.told} {fail.seed}")
def test_paimon_fails_as_it_is_known_to(
    flink: FlinkPaimon, pypaimon: PyPaimon, tmp_path: Path, fail: KnownFail
) -> None:
    history = History(World(tmp_path, flink, pypaimon), rarer(draw(fail.seed)), fail.turns)
    history.play()
    assert fail in history.known, "mended: take it off the list"
    assert not history.problems, "\n".join([repr(history.spec), *history.log, *history.problems])
