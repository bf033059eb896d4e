"""pypaimon and paimon-rust read what Bucketlake wrote without Spark; where they are wrong, that is listed."""

from __future__ import annotations

import pytest
from tests.interop.cases import Maker
from tests.interop.catalogue import catalogue
from tests.interop.engines import DATABASE, read_by
from tests.peers.python_peers import PaimonRust, PyPaimon

import bucketlake

pytestmark = pytest.mark.peer

CASES = {case.name: case for case in catalogue()}
PYPAIMON_FAILS = {
    "pk_types_parquet": "cuts nanoseconds to microseconds when it merges",
    "pk_types_orc": "cuts nanoseconds to microseconds when it merges",
}
RUST_FAILS = {
    "pt_float": "no FLOAT partitions",
    "pt_double": "no DOUBLE partitions",
    "pt_time_plain": "names the folder of a TIME otherwise than Paimon",
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Maker]:
    """Every case."""
    catalog = bucketlake.open(tmp_path_factory.mktemp("interop"))
    catalog.create_database(DATABASE)
    return {name: case.make(catalog, DATABASE) for name, case in CASES.items()}


@pytest.mark.parametrize("name", CASES)
def test_pypaimon_reads_equal_rows(pypaimon: PyPaimon, made: dict[str, Maker], name: str) -> None:
    _compare(pypaimon, made[name], PYPAIMON_FAILS.get(name))


@pytest.mark.parametrize("name", CASES)
def test_rust_reads_equal_rows(paimon_rust: PaimonRust, made: dict[str, Maker], name: str) -> None:
    _compare(paimon_rust, made[name], RUST_FAILS.get(name))


def _compare(peer: PyPaimon | PaimonRust, maker: Maker, known: str | None) -> None:
    """Equal rows; where a failure is known, it must still be there, or else it goes off the list."""
    peer.use(maker.table.path.rsplit("/", 2)[0])
    try:
        found = read_by(peer, maker.table)
    except Exception:
        if known is None:
            raise
        return
    assert (found == maker.expected()) is (known is None), known or "unequal rows"
