"""The native half. Use what `farslot` exports."""

from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, Unpack, final, overload

import numpy
from numpy.typing import ArrayLike, DTypeLike, NDArray
from typing_extensions import disjoint_base

from .store import OpenOptions, TableOptions

__all__ = [
    "RawQueue",
    "RawServer",
    "RawStore",
    "RawTable",
    "Records",
    "Transaction",
    "after_fork",
    "close_thread",
    "transact",
]

_K = TypeVar("_K")
_V = TypeVar("_V")
_T = TypeVar("_T")

def after_fork() -> None: ...
def close_thread() -> None: ...
def transact(store: RawStore, body: Callable[[Transaction], _T]) -> _T: ...

@final
class Records:
    def __iter__(self) -> Iterator[Any]: ...
    def __next__(self) -> Any: ...

@disjoint_base
class RawQueue(Generic[_V]):
    def __new__(cls, store: RawStore, name: str, value: type[_V]) -> Self: ...
    def __class_getitem__(cls, _type: Any) -> Any: ...
    @property
    def name(self) -> str: ...
    @property
    def value_type(self) -> type[_V]: ...
    def push(self, item: _V) -> int:
        """Adds an item behind all others; how many were added before it."""

    def push_all(self, items: Iterable[_V]) -> int:
        """Adds items one behind the other, all or none, by one call: at most 1,024, and of several
        no more than 64 KiB. How many were added before the first of them."""

    def pop(self) -> _V | None:
        """Takes the first item; None of an empty queue."""

    def pop_many(self, most: int) -> list[_V]:
        """Takes the first items, at most so many and no more than 1,024 or about 64 KiB, by one
        call. None at all of an empty queue alone."""

    def front(self) -> _V | None:
        """The first item, which stays; None of an empty queue."""

    def _items(self) -> list[_V]: ...
    def __len__(self) -> int: ...
    def close(self) -> None:
        """Closes the queue for all threads: for others when they next use any table, or end."""

@disjoint_base
class RawServer:
    def __new__(
        cls, addresses: list[str], memory: int, secret: bytes | str | None, threads: int | None
    ) -> Self: ...
    @property
    def addresses(self) -> list[str]: ...
    def close(self) -> None: ...

@disjoint_base
class RawStore:
    def __new__(cls, address: str, **options: Unpack[OpenOptions]) -> Self: ...
    @property
    def address(self) -> str: ...
    def _create(self, name: str, **options: Unpack[TableOptions]) -> None: ...
    def _build(
        self,
        name: str,
        key: type,
        value: type,
        keys: Any,
        values: Any,
        **options: Unpack[TableOptions],
    ) -> int: ...
    def drop(self, name: str) -> None:
        """Drops a table, and returns when its memory is free. Others get `TableGoneError`."""

    def rename(self, name: str, to: str) -> None:
        """Gives a table another name. Whoever has it open opens it again."""

    def clear(self, name: str) -> None:
        """Takes all records out of a table. Whoever has it open opens it again."""

    def accept_loss(self, name: str) -> list[str]:
        """Goes on without what nodes that came back empty had of a table; their addresses."""

    def tables(self) -> list[str]:
        """The tables' names."""

    def memory(self) -> dict[str, int]:
        """Bytes: `total`, `taken` by tables, and the `largest_free` piece."""

    def close(self) -> None:
        """Closes the store and all tables that were opened by it."""

@final
class Transaction:
    """A transaction of one thread, on `chained` and `ordered` tables of the store. Another thread
    can only give it up.

    It sees what it has changed itself. Others see nothing of it before it is committed. Once a step
    has failed, so do all that follow.
    """

    def __new__(cls, store: RawStore) -> Self: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None: ...
    @overload
    def get(self, table: RawTable[_K, _V], key: _K, default: None = None) -> _V | None: ...
    @overload
    def get(self, table: RawTable[_K, _V], key: _K, default: _V | _T) -> _V | _T:
        """The key's value, or `default`. A key that is read twice has the same value twice."""

    def get_many(self, table: RawTable[_K, _V], keys: Iterable[_K]) -> list[_V | None]:
        """The keys' values, read side by side; None for absent ones."""

    def put(self, table: RawTable[_K, _V], key: _K, value: _V) -> None:
        """Makes the key have this value."""

    def insert(self, table: RawTable[_K, _V], key: _K, value: _V) -> bool:
        """Puts the value of an absent key; False, and nothing changes, if the key is there."""

    def remove(self, table: RawTable[_K, _V], key: _K) -> bool:
        """Removes the key; False if it was absent."""

    def scan(
        self,
        table: RawTable[_K, _V],
        start: _K | None = None,
        stop: _K | None = None,
        *,
        limit: int | None = None,
        reverse: bool = False,
    ) -> list[tuple[_K, _V]]:
        """The first `limit` records of an `ordered` table whose keys are from `start` on and below
        `stop`, in the order of the keys' bytes; with `reverse` from the last one down. A change
        that would come into the range, or leave it, is a conflict."""

    def abort(self) -> None:
        """Gives up all that it has changed."""

@disjoint_base
class RawTable(Generic[_K, _V]):
    def __new__(cls, store: RawStore, name: str, key: type[_K], value: type[_V]) -> Self: ...
    def __class_getitem__(cls, _types: Any) -> Any: ...
    @property
    def name(self) -> str: ...
    @property
    def scheme(self) -> str: ...
    @property
    def key_type(self) -> type[_K]: ...
    @property
    def value_type(self) -> type[_V]: ...
    @property
    def key_size(self) -> int | None:
        """Bytes of every key; None if they may differ."""

    @property
    def max_key(self) -> int: ...
    @property
    def value_size(self) -> int | None:
        """Bytes of every value; None if they may differ."""

    @property
    def max_value(self) -> int: ...
    def __getitem__(self, key: _K, /) -> _V: ...
    def __setitem__(self, key: _K, value: _V, /) -> None: ...
    def __delitem__(self, key: _K, /) -> None: ...
    def __contains__(self, key: object, /) -> bool: ...
    def __len__(self) -> int: ...
    def get(self, key: _K, default: Any = None, /) -> Any:
        """The key's value, or `default`."""

    def get_all(self, key: _K) -> list[_V]:
        """The values of all records of the key, in a multi-key table."""

    def put(self, key: _K, value: _V, *, ttl: float | None = None) -> bool:
        """Makes the key have this value; True if the key is new.

        With `ttl`, for so many seconds: then the key is absent again. In tables that are made
        without numbers, or with `expiring=True`.
        """

    def time_to_live(self, key: _K) -> float | None:
        """The seconds that the key still has; None if it does not expire."""

    def set_time_to_live(self, key: _K, ttl: float | None) -> bool:
        """Lets the key live so many seconds from now on, or for ever; False if it is absent."""

    def replace(self, key: _K, value: _V) -> bool:
        """Replaces the value of a key that is there; False if it is absent."""

    def remove(self, key: _K) -> bool:
        """Removes the key; False if it was absent."""

    def find_or_put(self, key: _K, value: _V) -> _V | None:
        """Puts the value if the key is absent, else returns the one that is there."""

    def compare_and_set(self, key: _K, expected: _V | None, value: _V) -> bool:
        """Replaces the value if it is `expected`, in one step. With None, puts an absent key."""

    def compare_and_remove(self, key: _K, expected: _V) -> bool:
        """Removes the key if its value is `expected`, in one step."""

    def increment(self, key: _K, by: int = 1) -> int:
        """Adds to a number in decimal text, in one step; an absent key counts as 0."""

    def scan(
        self,
        start: _K | None = None,
        stop: _K | None = None,
        *,
        limit: int | None = None,
        reverse: bool = False,
    ) -> Iterator[tuple[_K, _V]]:
        """The first `limit` records of an `ordered` table whose keys are from `start` on and below
        `stop`, in the order of the keys' bytes; with `reverse` from the last one down. Each
        thousand of them are as they were at one moment."""

    def _take(self, key: _K) -> _V | None: ...
    def _records(self, part: str) -> Iterator[Any]: ...
    def get_many(
        self,
        keys: ArrayLike | Iterable[_K],
        *,
        dtype: DTypeLike | None = None,
        out: NDArray[Any] | None = None,
    ) -> tuple[NDArray[Any], NDArray[numpy.bool]]:
        """Looks up many keys: an array of values, and a mask of the keys that are there.

        `keys` is an array whose rows are the keys' bytes (of one dimension: its items), or a
        sequence of keys. The values are rows of bytes, or items of `dtype`, or what `out` has room
        for. Rows of absent keys are zeros; those of `out` stay as they are.
        """

    def get_many_ragged(
        self, keys: ArrayLike | Iterable[_K]
    ) -> tuple[NDArray[numpy.uint8], NDArray[numpy.int64], NDArray[numpy.bool]]:
        """Looks up many keys with values of any lengths: all their bytes, where the value of each
        key starts (and the last ends), and a mask of the keys that are there."""

    def put_many(
        self,
        keys: ArrayLike | Iterable[_K],
        values: ArrayLike | Iterable[_V],
        *,
        ttl: float | None = None,
    ) -> NDArray[numpy.bool]:
        """Puts many records, with `ttl` for so many seconds; a mask of the keys that are new. Of
        several records of a key, any may stay."""

    def replace_many(
        self, keys: ArrayLike | Iterable[_K], values: ArrayLike | Iterable[_V]
    ) -> NDArray[numpy.bool]:
        """Replaces the values of many keys; a mask of those that are there."""

    def find_or_put_many(
        self,
        keys: ArrayLike | Iterable[_K],
        values: ArrayLike | Iterable[_V],
        *,
        dtype: DTypeLike | None = None,
        out: NDArray[Any] | None = None,
    ) -> tuple[NDArray[Any], NDArray[numpy.bool]]:
        """Puts the records whose keys are absent: the values that the table has then, and a mask of
        the keys that were there."""

    def remove_many(self, keys: ArrayLike | Iterable[_K]) -> NDArray[numpy.bool]:
        """Removes many keys; a mask of those that were there."""

    def occupancy(self) -> dict[str, int]:
        """What clients have counted: `entries`, `used_slots`, `slots`, `heap_used`, `heap_bytes`,
        of the used `heap_dead` by records that are gone, and the records that were `evicted`."""

    def take_over(self, *, force: bool = False) -> None:
        """Becomes the writer in place of one that was killed, of a table that admits one. In shared
        memory this raises `WriterBusyError` while the writer's process is alive, even if it is
        stopped, unless forced. A writer that is alive after all is refused every later write, but a
        write that it was about to make when it was stopped can still destroy a record."""

    def resign(self) -> None:
        """Is the table's writer no longer, until the next write. For the calling thread."""

    def close(self) -> None:
        """Closes the table for all threads: for others when they next use any table, or end."""
