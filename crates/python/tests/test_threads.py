"""Threads and processes: what is shared, and what happens when they end."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import socket
import subprocess
import sys
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy
import pytest

import farslot
from farslot import errors


def test_threads_share_everything(store: farslot.Store) -> None:
    threads, each = 4, 50
    table = store.create("shared", key=int, value=int, capacity=1000)
    counter = store.create("counter")
    start = threading.Barrier(threads)

    def work(thread: int) -> int:
        start.wait(timeout=60)
        for number in range(thread * each, (thread + 1) * each):
            table[number] = number + 1
            counter.increment(b"all")
        keys = numpy.arange(thread * each, (thread + 1) * each, dtype=numpy.uint64)
        values, found = table.get_many(keys)
        assert found.all() and (values == keys + 1).all()
        return sum(1 for number in range(threads * each) if table.setdefault(-1 % 2**64, thread) == thread)

    with ThreadPoolExecutor(threads) as pool:
        won = list(pool.map(work, range(threads)))
    # Of all who set a default, one did.
    assert sorted(won)[:-1] == [0] * (threads - 1)
    assert counter[b"all"] == b"%d" % (threads * each)
    assert sorted(table) == [*range(threads * each), 2**64 - 1]


def test_of_all_that_pop_a_value_one_gets_it(local: farslot.Store) -> None:
    table = local.create("queue", key=int, value=int, capacity=1000)
    table.update((number, number) for number in range(300))

    def take(_: int) -> list[int]:
        popped = (table.pop(number, None) for number in range(300))
        return [value for value in popped if value is not None]

    with ThreadPoolExecutor(4) as pool:
        taken = [value for got in pool.map(take, range(4)) for value in got]
    assert sorted(taken) == list(range(300)) and len(table) == 0


def test_closing_in_one_thread_closes_in_all(local: farslot.Store) -> None:
    table = local.create("users")
    opened, closed = threading.Event(), threading.Event()

    def use() -> None:
        table[b"ada"] = b"Lovelace"
        opened.set()
        closed.wait(timeout=60)
        with pytest.raises(errors.ClosedError):
            table[b"ada"]

    with ThreadPoolExecutor(1) as pool:
        used = pool.submit(use)
        assert opened.wait(timeout=60)
        table.close()
        closed.set()
        used.result()
    assert local.open_table("users")[b"ada"] == b"Lovelace"


def test_other_threads_run_while_a_store_is_opened() -> None:
    opening = True
    seen: list[bool] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def hang_up() -> None:
            with listener.accept()[0]:
                seen.append(opening)

        thread = threading.Thread(target=hang_up)
        thread.start()
        address = f"tcp://127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(farslot.FarslotError):
            farslot.open(address, connect_timeout=60)
        opening = False
        thread.join()
    assert seen == [True]


def test_other_threads_run_during_a_batch(local: farslot.Store) -> None:
    table = local.create("words", capacity=100_000, key_size=8, value_size=8)
    keys = numpy.arange(100_000, dtype=numpy.uint64)
    table.put_many(keys, keys)
    gate = threading.Lock()
    ran: list[int] = []
    interval = sys.getswitchinterval()
    gate.acquire()

    def run() -> None:
        with gate:
            ran.append(1)

    thread = threading.Thread(target=run)
    thread.start()
    # From here on the interpreter itself takes the GIL from no thread.
    sys.setswitchinterval(1e6)
    try:
        gate.release()
        for _ in range(100_000):
            table.get_many(keys, dtype=numpy.uint64)
            if ran:
                break
        assert ran
    finally:
        sys.setswitchinterval(interval)
        thread.join()


# Of Python 3.12 and later, when any library has started threads.
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_leaves_what_its_parent_opened(shm: str) -> None:
    with farslot.open(shm) as store, store.create("forked", capacity=10, scheme="cuckoo") as table:
        table[b"key"] = b"parent"
        child = os.fork()
        if child == 0:
            # No test may go on here, whatever happens.
            code = 1
            try:
                with pytest.raises(errors.ClosedError, match="fork"):
                    table[b"key"]
                with pytest.raises(errors.ClosedError, match="fork"):
                    store.tables()
                table.close()
                with farslot.open(shm) as own:
                    assert own.open_table("forked")[b"key"] == b"parent"
                    with pytest.raises(errors.WriterBusyError):
                        own.open_table("forked")[b"key"] = b"child"
                del table, store
                code = 0
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        # It is the writer still.
        table[b"key"] = b"again"
        assert table[b"key"] == b"again"
    with farslot.open(shm) as store:
        store.drop("forked")


ENDS = """
import sys, threading, farslot
store = farslot.open(sys.argv[1])
main, other, daemon = (store.open_table(f"ends-{number}") for number in range(3))
main[b"key"] = b"main"

def use(table, then):
    table[b"key"] = b"thread"
    then()

threading.Thread(target=use, args=(other, lambda: None)).start()
started, never = threading.Event(), threading.Event()
wait = lambda: (started.set(), never.wait())
threading.Thread(target=use, args=(daemon, wait), daemon=True).start()
started.wait()
"""


@pytest.mark.parametrize("end", ["", "sys.exit()", "del store, main, other, daemon", "store.close()"])
def test_programs_end_as_they_like(shm: str, end: str) -> None:
    names = [f"ends-{number}" for number in range(3)]
    with farslot.open(shm) as store:
        for name in names:
            store.create(name, capacity=10, scheme="cuckoo").close()
        ended = subprocess.run(
            [sys.executable, "-c", ENDS + end, shm], capture_output=True, text=True
        )
        assert (ended.returncode, ended.stderr) == (0, "")
        # The tables of its main thread and of threads that have ended were closed with them.
        for name in names[:2]:
            store.open_table(name)[b"key"] = b"ours"
        assert store.open_table(names[2])[b"key"] == b"thread"
        for name in names:
            store.drop(name)


def test_a_table_is_closed_when_nothing_refers_to_it(local: farslot.Store) -> None:
    for number in range(3):
        # Each is the table's writer in its turn.
        local.create(f"cuckoo-{number}", capacity=10, scheme="cuckoo")[b"key"] = b"first"
        local.open_table(f"cuckoo-{number}")[b"key"] = b"second"
        assert list(local.open_table(f"cuckoo-{number}").values()) == [b"second"]


def test_a_server_ends_with_its_block() -> None:
    name = f"shm://pytest-block-{os.getpid()}"
    with farslot.serve(name, "tcp://127.0.0.1:0", memory=1 << 24) as server:
        assert server.addresses[0] == name
        with farslot.open(server.addresses[1]) as store:
            store.create("users")[b"ada"] = b"Lovelace"
        with farslot.open(name) as store:
            assert store.open_table("users")[b"ada"] == b"Lovelace"
    with pytest.raises(farslot.FarslotError):
        farslot.open(name)


def count(table: farslot.Table[int, bytes]) -> int:
    table[os.getpid()] = b"a process"
    return len(list(table))


def test_pickled_tables_are_opened_again_in_other_processes(shm: str, tcp: str) -> None:
    for address in (shm, tcp):
        with farslot.open(address, timeout=20.0) as store:
            table = store.create("pickled", key=int, key_size=8)
            again: farslot.Table[int, bytes] = pickle.loads(pickle.dumps(table))
            table[1] = b"one"
            assert again[1] == b"one" and again.key_type is int and again.name == "pickled"
            both = pickle.loads(pickle.dumps((store, table)))
            assert both[0].address == address and both[1]._store is both[0]
            # As data loaders start theirs.
            with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
                seen = list(pool.map(count, [table] * 4))
            assert max(seen) == len(table) >= 2 and min(seen) >= 2
            again.close()
            both[0].close()
            store.drop("pickled")


def test_memory_of_a_process_cannot_be_pickled(local: farslot.Store) -> None:
    with farslot.open("sim://cx5-edr?seed=1") as simulated:
        for store in (local, simulated):
            table = store.create("mine")
            for mine in (store, table):
                with pytest.raises(TypeError, match="farslot.serve"):
                    pickle.dumps(mine)
