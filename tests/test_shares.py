"""Which worker runs what."""

from __future__ import annotations

from .shares import LONG, place_of, share_of


def test_shares() -> None:
    assert (
        share_of("tests/interop/test_expiry.py::test_x[a]") == share_of("tests/peers/test_peers.py::test_y") == "peers"
    )
    connect = [f"tests/{file}.py::test_x[connect-a]" for file in ("sql/test_merge", "spark/test_rows")]
    assert {share_of(test) for test in connect} == {"connect"}
    assert share_of("tests/sql/test_merge.py::test_x[classic-a]") == "tests/sql/test_merge.py"


def test_what_takes_longest_comes_first() -> None:
    files = ("tests/interop/test_expiry.py", *LONG, "tests/core/test_types.py")
    places = [place_of(f"{file}::test_x") for file in files]
    assert places == sorted(set(places))
