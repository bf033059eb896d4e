"""All pairs: few cases in which every two values meet."""

from __future__ import annotations

from itertools import combinations, product
from pathlib import Path

import pytest
from tests.costly import ROUNDS, STAY, TURNS, waiting
from tests.on_connect import CHOSEN, LATER
from tests.profile import chosen, pairwise
from tests.shares import LONG, PEERS

AXES = [
    [range(4)],
    [range(3), range(5)],
    [range(4), range(3), range(2)],
    [range(3)] * 5,
    [("a", "b"), (None, True, False), ("x",), range(6)],
]


def met(cases) -> set[object]:
    return {pair for case in cases for pair in combinations(enumerate(case), min(2, len(case)))}


@pytest.mark.parametrize("axes", AXES, ids=str)
def test_every_two_values_meet(axes) -> None:
    found, whole = pairwise(*axes), list(product(*axes))
    assert met(found) == met(whole)
    assert set(found) <= set(whole) and len(set(found)) == len(found)
    assert found == pairwise(*axes), "the same cases every time"


def test_few_cases_do() -> None:
    assert len(pairwise(*[range(3)] * 5)) <= 16  # of 243
    assert len(pairwise(range(4), range(3), range(2))) == 12


def test_what_may_not_meet_does_not() -> None:
    def even(a: int, b: int, c: int) -> bool:
        return (a + b) % 2 == 0

    axes = [range(4)] * 3
    found = pairwise(*axes, when=even)
    assert all(even(*case) for case in found)
    assert met(found) == met(case for case in product(*axes) if even(*case))


def test_each_test_is_in_one_share() -> None:
    names = [f"tests/test_a.py::test_{number}" for number in range(300)]
    assert all(sum(chosen(name, f"{place}/3") for place in (1, 2, 3)) == 1 for name in names)
    assert all(60 < sum(chosen(name, f"{place}/3") for name in names) < 140 for place in (1, 2, 3))
    assert all(chosen(name, "1/1") for name in names)


def test_as_many_cases_of_a_costly_test_stay_as_it_says() -> None:
    for function, count in STAY.items():
        if function in TURNS:
            continue
        names = [f"{function}[{number}]" for number in range(count + 17)]
        assert len(set(names) - waiting([*names, "tests/test_a.py::test_b"])) == count
        assert waiting([function]) == (set() if count else {function})


def test_dear_tests_take_turns() -> None:
    cases = 3 * ROUNDS
    names = [f"{function}[{number}]" for function in TURNS for number in range(STAY.get(function, cases))]
    runs = [set(names) - waiting(names, turn) for turn in range(ROUNDS)]
    assert set().union(*runs) == set(names) and sum(map(len, runs)) == len(names)
    assert max(map(len, runs)) - min(map(len, runs)) <= 1
    assert waiting(names, ROUNDS) == waiting(names, 0)


def test_no_value_no_case() -> None:
    assert pairwise(range(3), ()) == []


def test_files_and_tests_that_are_named_exist() -> None:
    root = Path(__file__).parents[1]
    assert [file for file in (*LONG, *PEERS) if not (root / file).exists()] == []
    missing = [
        (file, name)
        for file, name in (
            *((file, name) for file, names in CHOSEN.items() for name in names),
            *(test.split("::") for test in (*STAY, *TURNS, *LATER)),
        )
        if f"def {name}(" not in (root / file).read_text()
    ]
    assert missing == []
