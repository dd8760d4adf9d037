"""Far-memory hash tables: open a store by its address, and its tables by their names.

    import farslot

    with farslot.open("embedded") as store:      # or "tcp://node-1:7000", "shm://work"
        users = store.create("users", key=str, value=str)
        users["ada"] = "Ada Lovelace"
        assert users["ada"] == "Ada Lovelace"

All threads may use all objects of this package at the same time. Nothing but `close` waits for
another thread, and the GIL is released around everything that touches a table.
"""

from __future__ import annotations

import atexit
import os
from importlib.metadata import version as _version_of

from . import _native, errors
from ._native import Transaction
from .errors import FarslotError
from .queue import Queue
from .server import Server, serve
from .store import OpenOptions, Store, TableOptions, open
from .table import Table

__all__ = [
    "FarslotError",
    "OpenOptions",
    "Queue",
    "Server",
    "Store",
    "Table",
    "TableOptions",
    "Transaction",
    "__version__",
    "errors",
    "open",
    "serve",
]

__version__ = _version_of("farslot")

# Tables of the main thread are closed while there is an interpreter, those of others when they end.
atexit.register(_native.close_thread)
os.register_at_fork(after_in_child=_native.after_fork)
