"""Tables, with the manners of a mapping."""

from __future__ import annotations

from collections.abc import (
    ItemsView,
    Iterator,
    KeysView,
    Mapping,
    MutableMapping,
    ValuesView,
)
from itertools import chain, islice
from typing import Any, Self, TypeVar, overload

from . import _native

K = TypeVar("K", bytes, str, int)
V = TypeVar("V", bytes, str, int)
T = TypeVar("T")
U = TypeVar("U")

_PIECE = 4096
"""Records that `update` and `clear` take at a time."""
_MISSING: Any = object()


class Table(_native.RawTable[K, V], MutableMapping[K, V]):
    """A table of a store. All threads may use it at the same time.

    It is a mapping whose records others may change at any moment. `len` is what all clients have
    counted: those of others, and of other threads, may be behind a little. Iteration yields what is
    there all along once, and what is put or removed meanwhile perhaps. Two tables are equal if they
    are the same object.

    A pickled table is opened again where it is unpickled, by its name and with its store.

    Each thread that uses the table opens it for itself. `close`, also by `with` or when nothing
    refers to the table any more, closes it for all: for the calling thread at once, for others when
    they next use any table, or end.
    """

    def __init__(self, store: _native.RawStore, name: str, key: type[K], value: type[V]) -> None:
        self._store = store

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._store, self.name, self.key_type, self.value_type)

    # As of any object, not as of a mapping: to compare contents would read all of the memory.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __iter__(self) -> Iterator[K]:
        return self._records("keys")

    def keys(self) -> KeysView[K]:
        """The keys: iterating over them reads the table in large pieces."""
        return _Keys(self)

    def values(self) -> ValuesView[V]:
        """The values, likewise."""
        return _Values(self)

    def items(self) -> ItemsView[K, V]:
        """Keys and values, likewise."""
        return _Items(self)

    @overload
    def pop(self, key: K) -> V: ...
    @overload
    def pop(self, key: K, default: V | T) -> V | T: ...
    def pop(self, key: K, default: Any = _MISSING) -> Any:
        """Removes the key and returns its value.

        In linear, race, chained and ordered tables in one step: of all who pop a value, one gets
        it.
        """
        value = self._take(key)
        if value is not None:
            return value
        if default is _MISSING:
            raise KeyError(key)
        return default

    def popitem(self) -> tuple[K, V]:
        """Removes some key and returns it with its value. Each call searches from the start."""
        for key in self:
            value = self._take(key)
            if value is not None:
                return key, value
        raise KeyError("the table is empty")

    def setdefault(self, key: K, default: V = None) -> V:  # type: ignore[assignment]
        """Puts the value if the key is absent, in one step; returns the value that is there then."""
        found = self.find_or_put(key, default)
        return default if found is None else found

    def update(self, other: Any = (), /, **more: V) -> None:
        """Puts all records of a mapping, or of pairs, in batches."""
        if isinstance(other, Mapping):
            other = other.items()
        elif hasattr(other, "keys"):
            other = ((key, other[key]) for key in other.keys())
        records = chain(other, more.items())
        # Of a batch's records of one key, any may stay.
        while piece := dict(islice(records, _PIECE)):
            self.put_many(list(piece.keys()), list(piece.values()))

    def clear(self) -> None:
        """Removes all records that are there, in batches. `Store.empty` is faster."""
        keys = iter(self)
        while piece := list(islice(keys, _PIECE)):
            self.remove_many(piece)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<farslot.Table {self.name!r}>"


class _Keys(KeysView[T]):
    def __init__(self, table: Table[Any, Any]) -> None:
        super().__init__(table)
        self._table = table

    def __iter__(self) -> Iterator[T]:
        return iter(self._table)


class _Values(ValuesView[T]):
    def __init__(self, table: Table[Any, Any]) -> None:
        super().__init__(table)
        self._table = table

    def __iter__(self) -> Iterator[T]:
        return self._table._records("values")


class _Items(ItemsView[T, U]):
    def __init__(self, table: Table[Any, Any]) -> None:
        super().__init__(table)
        self._table = table

    def __iter__(self) -> Iterator[tuple[T, U]]:
        return self._table._records("items")
