"""The end of a thread: what it has open is closed before `join` returns."""

from __future__ import annotations

import threading
from collections.abc import Callable

from . import _native

_here = threading.local()


class _End:
    """Goes with its thread. Without it tables would be closed by the system's thread, which may
    end a little later than `join` returns (before Python 3.13)."""

    def __del__(self, close: Callable[[], None] = _native.close_thread) -> None:
        close()


def watch() -> None:
    """To be called in a thread that opens its first table."""
    _here.end = _End()
