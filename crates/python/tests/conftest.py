"""Stores of several kinds, and processes that serve them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

import farslot

MEMORY = 1 << 28

SERVE = """
import sys, farslot
with farslot.serve(sys.argv[1], memory=int(sys.argv[2])) as server:
    print(server.addresses[0], flush=True)
    sys.stdin.read()
"""


def serve(address: str) -> Iterator[str]:
    """A process that serves memory, until this one lets go of it; its address."""
    command = [sys.executable, "-c", SERVE, address, str(MEMORY)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stdin is not None
        served = process.stdout.readline().strip()
        assert served, "the server has not started"
        yield served
        process.stdin.close()
        assert process.wait() == 0


@pytest.fixture(scope="session")
def shm() -> Iterator[str]:
    yield from serve(f"shm://pytest-{os.getpid()}")


@pytest.fixture(scope="session")
def tcp() -> Iterator[str]:
    yield from serve("tcp://127.0.0.1:0")


@pytest.fixture(params=["embedded", "shm", "tcp", "sim"])
def store(request: pytest.FixtureRequest) -> Iterator[farslot.Store]:
    """A store without tables, in each kind of memory."""
    match request.param:
        case "embedded":
            opened = farslot.open("embedded", memory=MEMORY)
        case "sim":
            opened = farslot.open(f"sim://cx5-edr?seed=1&memory={MEMORY}")
        case served:
            opened = farslot.open(request.getfixturevalue(served))
    with opened:
        yield opened
        # Which takes a second; the memory of others goes with them.
        if request.param in ("shm", "tcp"):
            for name in opened.tables():
                opened.drop(name)


@pytest.fixture
def local() -> Iterator[farslot.Store]:
    """A store in this process."""
    with farslot.open("embedded", memory=MEMORY) as opened:
        yield opened
