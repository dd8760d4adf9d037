"""Queues: what is pushed and popped."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self, TypeVar

from . import _native

V = TypeVar("V", bytes, str, int)


class Queue(_native.RawQueue[V]):
    """A FIFO queue of a store. All threads may use it at the same time.

    Each push and each pop is one call to the node that the queue lies on, which executes it at most
    once. Where an error's `may_have_taken_effect` is true, the item may be in the queue, or may
    have been taken. Two queues are equal if they are the same object.

    A pickled queue is opened again where it is unpickled, by its name and with its store.
    """

    def __init__(self, store: _native.RawStore, name: str, value: type[V]) -> None:
        self._store = store

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._store, self.name, self.value_type)

    def __bool__(self) -> bool:
        return len(self) > 0

    def __iter__(self) -> Iterator[V]:
        """The items that are there now, the first first. They stay."""
        return iter(self._items())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<farslot.Queue {self.name!r}>"
