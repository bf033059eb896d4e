"""Values that a process remembers: bounded by their weight, and by how long nobody asked for them.

A process that commits, or follows a table, for days decodes files that are dead soon: they go by age, long before they
weigh enough to go.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any


class Cache:
    """A bounded map of decoded immutable files, least recently used out first. `weight`: as the capacity counts; `age`:
    what nobody asked for during so many calls is forgotten, however little it weighs."""

    def __init__(self, capacity: int, age: int | None = None) -> None:
        self.capacity = capacity
        self.age = age
        self._items: OrderedDict[Any, tuple[int, int, Any]] = OrderedDict()  # weight, call of the last use, value
        self._weight = 0
        self._calls = 0
        self._lock = threading.Lock()

    def get(self, key: Any) -> Any:
        """The value, or None."""
        with self._lock:
            self._calls += 1
            found = self._items.get(key)
            if found is None:
                return None
            weight, _, value = found
            self._items[key] = (weight, self._calls, value)
            self._items.move_to_end(key)
            return value

    def take(self, key: Any) -> Any:
        """The value, which is forgotten, or None."""
        with self._lock:
            weight, _, value = self._items.pop(key, (0, 0, None))
            self._weight -= weight
            return value

    def put(self, key: Any, weight: int, value: Any) -> None:
        """Remember a value, forgetting old ones beyond the capacity and the age."""
        with self._lock:
            self._calls += 1
            old = self._items.pop(key, None)
            self._weight += weight - (old[0] if old else 0)
            self._items[key] = (weight, self._calls, value)
            while len(self._items) > 1 and (self._weight > self.capacity or self._is_old()):
                _, (dropped, _, _) = self._items.popitem(last=False)
                self._weight -= dropped

    def _is_old(self) -> bool:
        """Whether nobody asked for the item that was used least recently for long."""
        _, used, _ = next(iter(self._items.values()))
        return self.age is not None and used < self._calls - self.age

    def __contains__(self, key: Any) -> bool:
        """Whether a value is remembered."""
        return key in self._items

    def __len__(self) -> int:
        """How many values are remembered."""
        return len(self._items)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._items.clear()
            self._weight = 0
