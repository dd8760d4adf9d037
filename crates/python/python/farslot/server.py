"""Memory of this process, lent to others."""

from __future__ import annotations

from typing import Self

from . import _native


class Server(_native.RawServer):
    """Lends memory of this process, until it is closed; see `serve`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<farslot.Server at {', '.join(self.addresses)}>"


def serve(
    *addresses: str,
    memory: int = 1 << 30,
    secret: bytes | str | None = None,
    threads: int | None = None,
) -> Server:
    """Serves `memory` bytes of this process at addresses: `shm://NAME`, `tcp://HOST:PORT`.

    Port 0 stands for any that is free: `addresses` of the result has it. What is not used takes no
    memory. An address beyond loopback needs a secret of 16 bytes or more. The program `farslot serve`
    has more options: TLS, grants, Redis.
    """
    return Server(list(addresses), memory, secret, threads)
