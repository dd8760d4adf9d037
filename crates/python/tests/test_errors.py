"""Errors are typed, and say what the library says."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Literal

import pytest

import farslot
from farslot import errors


def test_every_error_is_a_farslot_error() -> None:
    kinds = [name for name in dir(errors) if name.endswith("Error")]
    assert len(kinds) == 21
    for name in kinds:
        assert issubclass(getattr(errors, name), farslot.FarslotError)


def test_a_store_that_cannot_be_opened() -> None:
    with pytest.raises(errors.BadInputError, match="carrier-pigeon"):
        farslot.open("carrier-pigeon://home")
    with pytest.raises(ValueError, match="shm"):
        farslot.open("shm://")
    with pytest.raises(ConnectionError):
        farslot.open("tcp://127.0.0.1:1", connect_timeout=5)
    with pytest.raises(farslot.FarslotError):
        farslot.open("shm://nobody-serves-this")
    with pytest.raises(TypeError, match="no option"):
        farslot.open("embedded", colour="red")  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="memory"):
        farslot.open("shm://nobody-serves-this", memory=1 << 20)
    for wrong in (
        {"access": "maybe"},
        {"stale_for": 1},
        {"timeout": -1},
        {"tls_pin": "xyz"},
        {"secret": "sixteen bytes ok", "secret_file": __file__},
    ):
        options: Any = wrong
        with pytest.raises(errors.BadInputError):
            farslot.open("embedded", **options)
    with pytest.raises(errors.BadInputError, match="it needs tls_key"):
        farslot.open("embedded", tls_cert=__file__)
    with pytest.raises(errors.BadInputError, match="No such file"):
        farslot.open("embedded", tls_ca=Path("/no/such/file"))


def test_a_secret_is_needed() -> None:
    secret = b"sixteen bytes ok"
    with farslot.serve("tcp://127.0.0.1:0", memory=1 << 24, secret=secret) as server:
        (address,) = server.addresses
        for options in ({}, {"secret": "another one that is long enough"}):
            with pytest.raises(PermissionError):
                farslot.open(address, **options)  # type: ignore[arg-type]
        with farslot.open(address, secret=secret) as store:
            store.create("users")[b"ada"] = b"Lovelace"
    with pytest.raises(errors.BadInputError, match="16"):
        farslot.serve("tcp://127.0.0.1:0", secret="short")


def test_tables_that_are_not_there_or_are(local: farslot.Store) -> None:
    with pytest.raises(errors.NoSuchTableError, match="users") as caught:
        local.open_table("users")
    assert isinstance(caught.value, LookupError) and not caught.value.may_have_taken_effect
    local.create("users")
    with pytest.raises(errors.TableExistsError):
        local.create("users")
    with pytest.raises(errors.BadInputError):
        local.create("")


def test_options_that_no_table_can_have(local: farslot.Store) -> None:
    for wrong in (
        {"capacity": 10, "ways": 3},
        {"capacity": 10, "load_factor": 1.5},
        {"scheme": "cuckoo"},
        {"scheme": "bonsai"},
        {"capacity": 10, "grow_to": 100},
        {"capacity": 10, "scheme": "chained", "heap": 1000},
        {"capacity": 10, "key_size": 8, "max_key": 8},
        {"capacity": "many"},
        {"capacity": 10, "multi_key": 1},
    ):
        options: Any = wrong
        with pytest.raises(errors.BadInputError):
            local.create("odd", **options)
    with pytest.raises(TypeError, match="no option"):
        local.create("odd", colour=1)  # type: ignore[call-overload]
    assert local.tables() == []


def test_records_that_do_not_fit(local: farslot.Store) -> None:
    table = local.create("short", capacity=10, key_size=4, max_value=4)
    with pytest.raises(errors.DoesNotFitError, match="exactly 4"):
        table[b"five!"] = b""
    with pytest.raises(ValueError, match="at most 4"):
        table[b"four"] = b"five!"
    text = local.create("text")
    text[b"key"] = b"seven"
    with pytest.raises(errors.DoesNotFitError, match="whole number"):
        text.increment(b"key")


def test_a_scheme_that_cannot(local: farslot.Store) -> None:
    table = local.create("cuckoo", capacity=10, scheme="cuckoo")
    table[b"key"] = b"1"
    with pytest.raises(errors.UnsupportedError):
        table.compare_and_set(b"key", b"1", b"2")
    words = local.create("words", key=int, value=int, capacity=10)
    with pytest.raises(TypeError, match="decimal text"):
        words.increment(5)


def test_one_writer_at_a_time(local: farslot.Store) -> None:
    table = local.create("cuckoo", capacity=10, scheme="cuckoo")
    table[b"key"] = b"main"

    def write() -> None:
        assert table[b"key"] == b"main"
        with pytest.raises(errors.WriterBusyError):
            table[b"key"] = b"thread"
        table.take_over()
        table[b"key"] = b"thread"

    in_thread(write)
    # The thread has ended, and is the writer no longer.
    other = local.open_table("cuckoo")
    other[b"key"] = b"again"
    other.resign()

    def write_now() -> None:
        table[b"key"] = b"thread"

    in_thread(write_now)


WRITE = """
import sys, farslot
store = farslot.open(sys.argv[1])
table = store.open_table(sys.argv[2])
table[b"key"] = b"theirs"
print("written", flush=True)
sys.stdin.readline()
try:
    table[b"other key"] = b"theirs"
except farslot.errors.WriterBusyError:
    print("refused", flush=True)
"""


@pytest.mark.parametrize("scheme", ["cuckoo", "duo"])
def test_a_writer_that_is_alive_is_replaced_by_force(shm: str, scheme: Literal["cuckoo", "duo"]) -> None:
    name = f"alive-{scheme}"
    with farslot.open(shm) as store:
        table = store.create(name, capacity=10, scheme=scheme)
        command = [sys.executable, "-c", WRITE, shm, name]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as writer:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "written\n"
            with pytest.raises(errors.WriterBusyError, match=f"process {writer.pid}, .* is alive"):
                table.take_over()
            table.take_over(force=True)
            table[b"key"] = b"mine"
            # Lets it go on, and waits for its end.
            said, _ = writer.communicate("\n")
            assert said == "refused\n"
        assert dict(table.items()) == {b"key": b"mine"}
        table.close()
        store.drop(name)


def test_tables_that_others_drop(local: farslot.Store) -> None:
    table = local.create("users")
    table[b"ada"] = b"Lovelace"
    local.drop("users")
    with pytest.raises(errors.TableGoneError):
        table[b"ada"]
    local.create("users")

    def use() -> None:
        # A thread that has not opened it yet does not take another table for it.
        with pytest.raises(errors.TableGoneError, match="another table's"):
            table[b"ada"]

    in_thread(use)


def test_nothing_closed_is_used(local: farslot.Store) -> None:
    table = local.create("users")
    keys = iter(table)
    with table:
        table[b"ada"] = b"Lovelace"
    table.close()
    for use in (lambda: table[b"ada"], lambda: len(table), lambda: next(keys)):
        with pytest.raises(errors.ClosedError, match="the table is closed"):
            use()
    other = local.open_table("users")
    local.close()
    local.close()
    with pytest.raises(errors.ClosedError, match="the store is closed"):
        other[b"ada"]
    with pytest.raises(errors.ClosedError, match="the store is closed"):
        local.tables()
    other.close()


def in_thread(run: Any) -> None:
    """Runs something in a thread of its own; fails if that fails."""
    failures: list[BaseException] = []

    def guarded() -> None:
        try:
            run()
        except BaseException as failure:
            failures.append(failure)

    thread = threading.Thread(target=guarded)
    thread.start()
    thread.join()
    if failures:
        raise failures[0]


def test_the_version_is_that_of_the_package() -> None:
    assert farslot.__version__ == importlib.metadata.version("farslot")
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*", farslot.__version__)
