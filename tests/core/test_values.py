"""Dataclasses compiled late are those of the standard library in all that can be seen."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import itertools
import pickle
from typing import Any

import pytest

from bucketlake.values import dataclass

HOW = [dict(zip(("frozen", "slots", "eq"), flags, strict=True)) for flags in itertools.product((False, True), repeat=3)]
CLASSES: dict[tuple[str, str], type] = {}


def _bodies(decorate: Any, how: dict[str, bool]) -> dict[str, type]:
    @decorate(**how)
    class Plain:
        """Fields with and without defaults."""

        a: int
        b: str = "b"
        c: list[int] = dataclasses.field(default_factory=list, repr=False)
        d: float = dataclasses.field(default=0.5, kw_only=True, compare=False)

    @decorate(**how)
    class Checked:
        a: int

        def __post_init__(self) -> None:
            if self.a < 0:
                raise ValueError("negative")

    @decorate(**how)
    class Own:
        a: int

        def __repr__(self) -> str:
            return "own"

        def __hash__(self) -> int:
            return 7

    @decorate(**how)
    class Equal:
        a: int

        def __eq__(self, other: object) -> bool:
            return True

    return {made.__name__: made for made in (Plain, Checked, Own, Equal)}


def _outcome(action: Any) -> Any:
    try:
        return repr(action()).replace("test_values.", "")
    except Exception as error:
        return type(error), str(error).split(".")[-1]


def sets_no_field(k: Any) -> None:
    k["Checked"](1).z = 2


ACTIONS: list[Any] = [
    lambda k: k["Plain"](1),
    lambda k: k["Plain"](1, "x", [3], d=2.0),
    lambda k: k["Plain"](),
    lambda k: k["Plain"](1, "x", [3], 2.0),
    lambda k: k["Plain"](1, e=2),
    lambda k: k["Plain"](1, d=1.0) == k["Plain"](1, d=2.0),
    lambda k: (k["Plain"](1) == k["Plain"](2), k["Plain"](1) == 1, k["Plain"](1) != k["Plain"](1)),
    lambda k: len({hash(one) for one in [k["Checked"](1), k["Checked"](1)]}),
    lambda k: hash(k["Plain"](1)) > -(1 << 70),
    lambda k: {k["Checked"](1), k["Checked"](1), k["Checked"](2)}.__len__(),
    lambda k: k["Checked"](-1),
    lambda k: (k["Own"](1), hash(k["Own"](1))),
    lambda k: (k["Equal"](1) == k["Equal"](2), k["Equal"].__hash__ is None),
    lambda k: hash(k["Equal"](1)) is not None,
    lambda k: setattr(k["Checked"](1), "a", 2),
    sets_no_field,
    lambda k: delattr(k["Checked"](1), "a"),
    lambda k: dataclasses.replace(k["Plain"](1), a=5, d=3.0),
    lambda k: dataclasses.replace(k["Checked"](1), a=-5),
    lambda k: dataclasses.asdict(k["Plain"](1)),
    lambda k: [(f.name, f.default) for f in dataclasses.fields(k["Plain"])][:2],
    lambda k: k["Plain"].__match_args__,
    lambda k: hasattr(k["Plain"](1), "__dict__"),
    lambda k: str(inspect.signature(k["Plain"])),
    lambda k: str(inspect.signature(type("Narrower", (k["Plain"],), {}))),
    lambda k: copy.deepcopy(k["Plain"](1, "x", [2])).c,
]


@pytest.mark.parametrize("how", HOW, ids=str)
@pytest.mark.parametrize("place", range(len(ACTIONS)))
def test_as_the_standard_decorator(how: dict[str, bool], place: int) -> None:
    if how["slots"] and how["frozen"] and ACTIONS[place] is sets_no_field:
        return  # both refuse; the standard one trips over its own super()
    ours, theirs = (
        _outcome(lambda k=_bodies(each, how): ACTIONS[place](k)) for each in (dataclass, dataclasses.dataclass)
    )
    assert ours == theirs


@dataclass(frozen=True, slots=True)
class Kept:
    a: int
    b: tuple[Any, ...] = ()


def test_the_first_call_may_be_any() -> None:
    made = pickle.loads(pickle.dumps(Kept(1, (2,))))
    assert made == Kept(1, (2,)) and hash(made) == hash(Kept(1, (2,))) and repr(made) == "Kept(a=1, b=(2,))"


def test_each_method_compiles_them_all() -> None:
    for name in ("__repr__", "__eq__", "__hash__"):
        made: Any = dataclass(frozen=True, slots=True)(
            type("One", (), {"__annotations__": {"a": int}, "__module__": __name__})
        )
        one = object.__new__(made)
        object.__setattr__(one, "a", 3)
        getattr(one, name)(*([one] if name == "__eq__" else []))
        assert made(3) == one and repr(one) == "One(a=3)"


@pytest.mark.parametrize("base", [dataclass, dataclasses.dataclass])
@pytest.mark.parametrize("derived", [dataclass, dataclasses.dataclass])
@pytest.mark.parametrize("frozen", [False, True])
def test_one_may_inherit_from_the_other(base: Any, derived: Any, frozen: bool) -> None:
    @base(frozen=frozen, slots=True)
    class Base:
        a: int

    @derived(frozen=frozen, slots=True)
    class Derived(Base):
        b: int = 2

    assert Derived(1) == Derived(1, 2) != Derived(1, 3)
    assert repr(Derived(1)).endswith("Derived(a=1, b=2)")
    with pytest.raises(TypeError, match="frozen"):
        derived(frozen=not frozen)(type("Other", (Base,), {"__annotations__": {}}))
