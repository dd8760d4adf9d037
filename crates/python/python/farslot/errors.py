"""Exceptions: one for each kind of error of the library. All are `FarslotError`s."""

from __future__ import annotations

from typing import Any


class FarslotError(Exception):
    """A store or a table could not do what it was asked. The message names the value and the limit."""

    may_have_taken_effect: bool = False
    """Whether the operation may have taken effect, or may still, although it failed."""

    index: int | None = None
    """Of a batch: the number of the first record that failed. All others were tried, too."""

    failed: Any = None
    """Of a batch: an array that says of each record whether it failed."""


class FullError(FarslotError):
    """No slot is left for a new key. The table goes on serving."""


class OutOfMemoryError(FarslotError):
    """No memory is left: for a record, for a table to grow, or for a table in the store."""


class DoesNotFitError(FarslotError, ValueError):
    """A key or a value that the table does not hold, mostly of another size."""


class WriterBusyError(FarslotError):
    """Another client is the table's only writer, or has become it."""


class SealedError(FarslotError):
    """The table never changes again."""


class NotBuiltError(FarslotError):
    """The table is to be built whole, and has not been."""


class UnsupportedError(FarslotError):
    """The scheme of the table cannot do that."""


class NoSuchTableError(FarslotError, LookupError):
    """There is no such table."""


class TableGoneError(FarslotError, LookupError):
    """The table was dropped, cleared or renamed. What there is now can be opened."""


class TableExistsError(FarslotError):
    """There is a table of that name."""


class BadInputError(FarslotError, ValueError):
    """An address, a name or an option that cannot be used."""


class NodeDownError(FarslotError, ConnectionError):
    """A node cannot be reached."""


class TimedOutError(FarslotError, TimeoutError):
    """A node did not answer in time: what was asked of it may have taken effect."""


class NodeRestartedError(FarslotError, ConnectionError):
    """A node came back empty."""


class AccessDeniedError(FarslotError, PermissionError):
    """The secret or the grant does not allow it."""


class ContendedError(FarslotError):
    """Others were faster, time and again."""


class ConflictError(ContendedError):
    """Another transaction was in the way of this one. Nothing was changed: run it again, as
    `Store.transact` does by itself."""


class BusyError(FarslotError):
    """Too much is under way: later there may be room."""


class ClosedError(FarslotError, ValueError):
    """What was used was closed by this program, or was opened before a fork."""


class DamagedError(FarslotError):
    """What is in the memory is not what clients leave there."""


_BY_KIND: dict[str, type[FarslotError]] = {
    error.__name__.removesuffix("Error"): error
    for error in (*FarslotError.__subclasses__(), ConflictError)
}


def _make(
    kind: str,
    message: str,
    may_have_taken_effect: bool,
    index: int | None,
    failed: bytes | None,
) -> FarslotError:
    """The exception for an error of this kind; a plain `FarslotError` for any other."""
    error = _BY_KIND.get(kind, FarslotError)(message)
    error.may_have_taken_effect = may_have_taken_effect
    error.index = index
    if failed is not None:
        import numpy

        error.failed = numpy.frombuffer(failed, dtype=bool)
    return error
