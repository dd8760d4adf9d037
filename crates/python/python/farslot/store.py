"""Stores: where the memory is, and the tables in it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal, Self, TypedDict, TypeVar, Unpack, overload

from . import _native
from ._native import Transaction
from .queue import Queue
from .table import Table

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

K = TypeVar("K", bytes, str, int)
V = TypeVar("V", bytes, str, int)
T = TypeVar("T")

Scheme = Literal[
    "linear", "cuckoo", "sealed", "race", "duo", "set", "chained", "ordered", "queue"
]


class OpenOptions(TypedDict, total=False):
    """How a store is opened, where the defaults do not fit. Spans are in seconds, sizes in bytes."""

    memory: int
    """Of an `embedded` store; by default half of what the machine has free."""
    secret: bytes | str
    """What a node at a `tcp://` or `verbs://` address must know, and wants to see proved."""
    secret_file: str | os.PathLike[str]
    """The same: the first line of this file."""
    grant: str
    """The grant under which it is used; `"read-only"` where the node has one."""
    read_only: bool
    """Refuse to write, on this side."""
    access: Literal["reads", "calls", "auto"]
    """One-sided verbs alone, calls of the owner, or whichever is cheaper."""
    cache: int
    """A cache of answers for each table and thread. Alone, of those that cannot change."""
    stale_for: float
    """How old cached answers may be that can change."""
    client_memory: int
    """The most of this process's memory that the client of one table may come to take."""
    connect_timeout: float
    """How long it may take to be connected and admitted."""
    timeout: float
    """After this long without an answer an operation fails."""
    tls_ca: str | os.PathLike[str]
    """Trust nodes at `tcps://` addresses with a certificate of this authority (a PEM file)."""
    tls_pin: str
    """Trust those whose certificate has this SHA-256 fingerprint; several with commas."""
    tls_cert: str | os.PathLike[str]
    """The certificate by which this program proves itself."""
    tls_key: str | os.PathLike[str]
    """Its private key."""


class TableOptions(TypedDict, total=False):
    """What a new table shall be: see `farslot create --help`, whose options have the same names."""

    capacity: int
    """Keys that it must have room for, or items of a queue. Without, it is a `race` table of any
    sizes, which grows."""
    scheme: Scheme
    key_size: int
    """Bytes of every key: fixed sizes make smaller, faster slots."""
    max_key: int
    value_size: int
    """Bytes of every value."""
    max_value: int
    load_factor: float
    multi_key: bool
    expiring: bool
    """Whether records may have a time to live: so it is without a capacity, unless False."""
    evict: Literal["all", "expiring"]
    """Makes it a cache, which forgets records when it is full: any, or those with a time to
    live."""
    slots: Literal["word", "pair", "inline", "heap", "hybrid", "signatures"]
    inline_bytes: int
    heap: int
    reserve_bytes: int
    """Memory that no other table takes, of a table without a capacity."""
    hash: Literal["xxh3", "knuth"]
    on_restart: Literal["refuse", "recreate"]
    """Over several nodes: whether the keys of a node that came back empty fail, or are absent."""
    grow_to: int
    ways: int
    bucket_slots: int
    fingerprint_bits: int
    writer_alone: bool
    perfect: bool
    """Of a `sealed` table: one slot for each key, which a perfect hash function names."""
    filter: bool
    """With `perfect`: lookups of absent keys mostly read nothing."""


class Store(_native.RawStore):
    """A store, for all threads. `with` closes it, and with it the tables that were opened.

    A pickled store is opened again where it is unpickled, by its address and options, as a data
    loader's processes do. The pickle has the options as they were given, also a `secret`.
    """

    def __init__(self, address: str, **options: Unpack[OpenOptions]) -> None:
        self._options = options

    def __reduce__(self) -> tuple[Any, ...]:
        if self.address == "embedded" or self.address.startswith("sim:"):
            raise TypeError(
                f"the store at {self.address!r} is memory of this process: another process cannot "
                "open it. Serve it with farslot.serve, at an address such as shm://NAME"
            )
        return _open, (self.address, self._options)

    # Keys and values are bytes unless `key` and `value` ask for `str` (UTF-8) or `int` (unsigned,
    # little-endian; of 1 to 8 bytes, which every key or value of the table has).

    @overload
    def create(self, name: str, **options: Unpack[TableOptions]) -> Table[bytes, bytes]: ...
    @overload
    def create(
        self, name: str, *, key: type[K], **options: Unpack[TableOptions]
    ) -> Table[K, bytes]: ...
    @overload
    def create(
        self, name: str, *, value: type[V], **options: Unpack[TableOptions]
    ) -> Table[bytes, V]: ...
    @overload
    def create(
        self, name: str, *, key: type[K], value: type[V], **options: Unpack[TableOptions]
    ) -> Table[K, V]: ...
    def create(
        self, name: str, *, key: Any = bytes, value: Any = bytes, **options: Unpack[TableOptions]
    ) -> Table[Any, Any]:
        """Makes a table, and opens it.

        Where `key` or `value` is `int` and no size is given, it has 8 bytes. What is made with
        `scheme="queue"` has no keys: `queue` opens it to push and pop.
        """
        self._create(name, **_with_sizes(options, key, value))
        return Table(self, name, key, value)

    @overload
    def open_table(self, name: str) -> Table[bytes, bytes]: ...
    @overload
    def open_table(self, name: str, *, key: type[K]) -> Table[K, bytes]: ...
    @overload
    def open_table(self, name: str, *, value: type[V]) -> Table[bytes, V]: ...
    @overload
    def open_table(self, name: str, *, key: type[K], value: type[V]) -> Table[K, V]: ...
    def open_table(self, name: str, *, key: Any = bytes, value: Any = bytes) -> Table[Any, Any]:
        """Opens a table that is there."""
        return Table(self, name, key, value)

    @overload
    def queue(self, name: str) -> Queue[bytes]: ...
    @overload
    def queue(self, name: str, *, value: type[V]) -> Queue[V]: ...
    def queue(self, name: str, *, value: Any = bytes) -> Queue[Any]:
        """Opens a table of the scheme `queue`, to push and pop."""
        return Queue(self, name, value)

    @overload
    def build(
        self,
        name: str,
        keys: ArrayLike | Iterable[bytes],
        values: ArrayLike | Iterable[bytes],
        **options: Unpack[TableOptions],
    ) -> Table[bytes, bytes]: ...
    @overload
    def build(
        self,
        name: str,
        keys: ArrayLike | Iterable[K],
        values: ArrayLike | Iterable[V],
        *,
        key: type[K],
        value: type[V],
        **options: Unpack[TableOptions],
    ) -> Table[K, V]: ...
    def build(
        self,
        name: str,
        keys: Any,
        values: Any,
        *,
        key: Any = bytes,
        value: Any = bytes,
        **options: Unpack[TableOptions],
    ) -> Table[Any, Any]:
        """Makes a table of exactly these records, which never changes: sealed, or cuckoo.

        Of several records of a key, the last stays.
        """
        self._build(name, key, value, keys, values, **_with_sizes(options, key, value))
        return Table(self, name, key, value)

    def transaction(self) -> Transaction:
        """A transaction over `chained` and `ordered` tables, on any nodes: `with` begins it.

        It is committed at the end of the block, all of it or nothing, and changes nothing if the
        block raises. If another transaction was in the way, a step of it or the end of the block
        raises `ConflictError`: nothing was changed, and the block is to be run again. `transact`
        does that by itself.
        """
        return Transaction(self)

    def transact(self, body: Callable[[Transaction], T]) -> T:
        """Runs `body(t)` as a transaction, again after each conflict, up to a thousand times.

        Returns what the body returns. It must do nothing else that cannot be done twice. Nothing is
        changed if it raises, or has called `t.abort()`. Begins and ends `t` itself: the body does
        not use it as a `with` block.
        """
        return _native.transact(self, body)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<farslot.Store at {self.address}>"


def _with_sizes(options: TableOptions, key: Any, value: Any) -> TableOptions:
    """The options, with sizes for integers where none is given."""
    sized = options.copy()
    if key is int and "max_key" not in sized:
        sized.setdefault("key_size", 8)
    if value is int and "max_value" not in sized:
        sized.setdefault("value_size", 8)
    return sized


def _open(address: str, options: OpenOptions) -> Store:
    """Opens a store that was pickled."""
    return Store(address, **options)


def open(address: str, **options: Unpack[OpenOptions]) -> Store:
    """Opens the store at an address.

    | address | where the memory is |
    |---|---|
    | `embedded` | in this process |
    | `shm://NAME` | in another process on this host |
    | `tcp://HOST:PORT`, `tcps://HOST:PORT` | in a process on any host; under TLS |
    | `verbs://HOST:PORT` | in a process on any host, served by its NIC |
    | `tcp://A:PORT,B:PORT,...` | in several such processes |
    | `sim://PROFILE?seed=N` | behind a simulated NIC, in virtual time |
    """
    return Store(address, **options)
