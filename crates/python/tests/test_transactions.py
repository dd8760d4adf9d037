"""Transactions, and scans of ordered tables."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import farslot
from farslot import Transaction, errors

from conftest import SERVE, serve
from test_errors import in_thread

HERE = Path(__file__).parent
EXAMPLE = HERE / "../examples/bank_transfer.py"
DOCUMENTS = [
    HERE / "../README.md",
    HERE / "../../../README.md",
    HERE / "../../../docs/guide/transactions.md",
]

Bank = tuple["farslot.Table[str, int]", "farslot.Table[str, str]"]


def bank(store: farslot.Store) -> Bank:
    accounts = store.create(
        "accounts", key=str, value=int, capacity=100, max_key=16, scheme="chained"
    )
    ledger = store.create(
        "ledger", key=str, value=str, capacity=100, max_key=16, max_value=16, scheme="ordered"
    )
    accounts["Ann"] = 100
    return accounts, ledger


def transfer(t: Transaction, bank: Bank, number: int) -> int:
    accounts, ledger = bank
    ann, bob = t.get(accounts, "Ann", 0), t.get(accounts, "Bob", 0)
    t.put(accounts, "Ann", ann - 1)
    t.put(accounts, "Bob", bob + 1)
    assert t.insert(ledger, f"{number:04}", "Ann to Bob")
    return ann


def test_the_example_is_short_and_printed_in_the_documents() -> None:
    program = EXAMPLE.read_text()
    assert len(program.splitlines()) <= 12
    for document in DOCUMENTS:
        assert f"```python\n{program}```\n" in document.read_text(), document


@pytest.fixture(scope="module")
def three() -> Iterator[str]:
    """Three nodes."""
    nodes = [serve("tcp://127.0.0.1:0") for _ in range(3)]
    addresses = [next(node).removeprefix("tcp://") for node in nodes]
    yield "tcp://" + ",".join(addresses)
    for node in nodes:
        assert next(node, None) is None


@pytest.mark.parametrize("kind", ["embedded", "shm", "tcp", "three"])
def test_a_transfer_over_every_address(kind: str, request: pytest.FixtureRequest) -> None:
    address = "embedded" if kind == "embedded" else request.getfixturevalue(kind)
    ran = subprocess.run(
        [sys.executable, EXAMPLE, address], check=True, stdout=subprocess.PIPE, text=True
    )
    assert ran.stdout == "Ann has 85 cents, Bob has 15\n"
    if kind != "embedded":
        with farslot.open(address) as store:
            store.drop("accounts")


def test_a_block_is_all_or_nothing(store: farslot.Store) -> None:
    accounts, ledger = both = bank(store)
    with store.transaction() as t:
        assert transfer(t, both, 1) == 100
        assert t.get_many(accounts, ["Bob", "Carl", "Ann"]) == [1, None, 99]
        assert t.get(accounts, "Carl") is None and "Bob" not in accounts
    assert accounts["Ann"] == 99 and dict(ledger.items()) == {"0001": "Ann to Bob"}
    with pytest.raises(ZeroDivisionError), store.transaction() as t:
        transfer(t, both, 2)
        t.put(accounts, "Carl", 1 // 0)
    with store.transaction() as t:
        transfer(t, both, 3)
        assert not t.insert(ledger, "0001", "")
        t.abort()
    assert accounts["Ann"] == 99 and len(ledger) == 1
    assert store.transact(lambda t: transfer(t, both, 2)) == 99
    with pytest.raises(ZeroDivisionError):
        store.transact(lambda t: transfer(t, both, 1 // 0))
    with store.transaction() as t:
        assert t.remove(ledger, "0002") and not t.remove(ledger, "0002")
        assert t.scan(ledger) == [("0001", "Ann to Bob")]


def test_conflicts(store: farslot.Store) -> None:
    accounts, ledger = both = bank(store)
    again = store.transaction()
    for attempt in count(1):
        try:
            with again as t:
                ann = t.get(accounts, "Ann", 0)
                if attempt == 1:
                    accounts["Ann"] = 50
                t.put(accounts, "Ann", ann - 1)
            break
        except errors.ConflictError as conflict:
            assert isinstance(conflict, errors.ContendedError)
            assert not conflict.may_have_taken_effect and "changed" in str(conflict)
            assert accounts["Ann"] == 50
    assert attempt == 2 and accounts["Ann"] == 49

    attempts = count(1)

    def body(t: Transaction) -> int:
        found = t.scan(ledger, "0001", "0003")
        attempt = next(attempts)
        if attempt == 1:
            ledger["0002"] = "another's"
        t.put(accounts, "Ann", len(found))
        return attempt

    assert store.transact(body) == 2
    assert accounts["Ann"] == 1


def test_a_body_that_hides_a_failure_is_not_committed(local: farslot.Store) -> None:
    accounts, ledger = both = bank(local)
    with pytest.raises(errors.DoesNotFitError, match="at most 16"), local.transaction() as t:
        transfer(t, both, 1)
        with pytest.raises(errors.DoesNotFitError):
            t.put(ledger, "0002", "far too long a text")

    def hides(t: Transaction) -> None:
        t.put(accounts, "Ann", 1)
        try:
            t.get(accounts, "x" * 17)
        except ValueError:
            pass

    with pytest.raises(errors.DoesNotFitError, match="at most 16"):
        local.transact(hides)

    def is_interrupted(t: Transaction) -> None:
        t.put(accounts, "Ann", t.get(accounts, "Ann", 0) + 1)
        accounts["Ann"] = 7
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        local.transact(is_interrupted)
    assert accounts["Ann"] == 7 and len(ledger) == 0


def test_tables_that_take_no_part(local: farslot.Store) -> None:
    accounts, ledger = bank(local)
    other = local.create("other")
    steps: list[Callable[[Transaction], object]] = [
        lambda t: t.get(other, b"key"),
        lambda t: t.put(other, b"key", b"value"),
        lambda t: t.scan(other),
    ]
    for step in steps:
        with pytest.raises(errors.UnsupportedError, match="farslot copy other"):
            local.transact(step)
    scans: list[Callable[[], object]] = [
        lambda: list(accounts.scan()),
        lambda: local.transact(lambda t: t.scan(accounts)),
    ]
    for scan in scans:
        with pytest.raises(errors.UnsupportedError, match="no order"):
            scan()
    with farslot.open("embedded", memory=1 << 24) as elsewhere:
        with pytest.raises(errors.BadInputError, match="another store"), elsewhere.transaction() as t:
            t.get(accounts, "Ann")
    wrong: Any = b"Ann"
    with pytest.raises(TypeError, match="str here"), local.transaction() as t:
        t.get(accounts, wrong)


def test_a_transaction_is_one_of_its_thread_and_its_block(local: farslot.Store) -> None:
    accounts, _ = bank(local)
    transaction = local.transaction()
    with pytest.raises(errors.ClosedError, match="not under way"):
        transaction.get(accounts, "Ann")
    with transaction as t:
        t.put(accounts, "Ann", 1)
        with pytest.raises(ValueError, match="under way already"):
            transaction.__enter__()

        def use() -> None:
            with pytest.raises(errors.ClosedError, match="not in this thread"):
                t.put(accounts, "Ann", 2)

        in_thread(use)
        # Others of the same thread go on beside it.
        with local.transaction() as beside:
            assert beside.get(accounts, "Ann") == 100
    assert accounts["Ann"] == 1
    kept: list[Transaction] = []
    local.transact(kept.append)
    with pytest.raises(errors.ClosedError):
        kept[0].put(accounts, "Ann", 2)
    # One that is not ended changes nothing.
    left = local.transaction().__enter__()
    left.put(accounts, "Ann", 3)
    del left
    assert accounts["Ann"] == 1


def fails_at_a_step(bank: Bank, then: Callable[[Transaction], None]) -> Callable[[Transaction], str]:
    """A body whose fifth run, which locks what it uses, is raised a conflict; the next is the
    last."""
    _, ledger = bank
    attempts = count(1)

    def body(t: Transaction) -> str:
        t.scan(ledger)
        attempt = next(attempts)
        if attempt <= 5:
            ledger["0002"] = f"another's {attempt}"
        t.put(ledger, "0001", "mine")
        # Those before the fifth fail when they are to be committed.
        assert attempt != 5, "no step has failed"
        if attempt > 5:
            then(t)
        return "done"

    return body


def test_what_the_last_run_ends_with_is_told(local: farslot.Store) -> None:
    _, ledger = both = bank(local)

    def hides(t: Transaction) -> None:
        with pytest.raises(errors.DoesNotFitError):
            t.put(ledger, "0003", "far too long a text")

    with pytest.raises(errors.DoesNotFitError, match="at most 16"):
        local.transact(fails_at_a_step(both, hides))
    assert list(ledger) == ["0002"]


def test_a_commit_in_doubt_is_told_after_a_conflict() -> None:
    command = [sys.executable, "-c", SERVE, "tcp://127.0.0.1:0", str(1 << 26)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as served:
        assert served.stdout is not None
        with farslot.open(served.stdout.readline().strip(), timeout=2.0) as store:

            def dies(_: Transaction) -> None:
                served.kill()
                served.wait()

            with pytest.raises(farslot.FarslotError) as told:
                store.transact(fails_at_a_step(bank(store), dies))
    assert not isinstance(told.value, errors.ConflictError)
    assert told.value.may_have_taken_effect


def test_a_body_neither_begins_nor_ends_its_transaction(local: farslot.Store) -> None:
    accounts, _ = bank(local)
    ended: Any = (None, None, None)
    wrong: list[Callable[[Transaction], object]] = [
        lambda t: t.__exit__(*ended),
        lambda t: t.__exit__(ValueError, ValueError(), None),
        lambda t: t.__enter__(),
        lambda t: in_thread(lambda: t.__exit__(*ended)),
    ]
    for step in wrong:
        refused: list[str] = []

        def raises(t: Transaction) -> None:
            t.put(accounts, "Ann", 1)
            step(t)

        def goes_on(t: Transaction) -> str:
            t.put(accounts, "Bob", t.get(accounts, "Bob", 0) + 1)
            try:
                step(t)
            except ValueError as error:
                refused.append(str(error))
            return "committed"

        with pytest.raises(ValueError, match="transact begins and ends"):
            local.transact(raises)
        assert local.transact(goes_on) == "committed" and len(refused) == 1
    assert (accounts["Ann"], accounts["Bob"]) == (100, len(wrong))
    kept: list[Transaction] = []
    local.transact(kept.append)
    with pytest.raises(ValueError, match="transact begins and ends"):
        kept[0].__enter__()


def test_one_that_another_thread_cannot_end_goes_on(local: farslot.Store) -> None:
    accounts, _ = bank(local)
    with local.transaction() as t:
        t.put(accounts, "Ann", 1)

        def end() -> None:
            with pytest.raises(errors.ClosedError, match="not in this thread"):
                t.__exit__(None, None, None)

        in_thread(end)
        assert t.get(accounts, "Ann") == 1
    assert accounts["Ann"] == 1


def mapped() -> int:
    """Bytes of this process's address space."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("how", ["dropped", "left"])
def test_one_given_up_in_another_thread_is_freed_by_its_own(how: str) -> None:
    memory = 1 << 30
    before = mapped()
    store = farslot.open("embedded", memory=memory)
    accounts, _ = bank(store)
    t = store.transaction().__enter__()
    t.put(accounts, "Ann", 1)
    given_up = [t]
    del t

    def give_up() -> None:
        t = given_up.pop()
        if how == "left":
            # As of a generator that is closed there. Its error goes on.
            t.__exit__(GeneratorExit, GeneratorExit(), None)
            left.append(t)

    left: list[Transaction] = []
    in_thread(give_up)
    assert accounts["Ann"] == 100
    store.close()
    assert mapped() > before + memory // 2
    with farslot.open("embedded", memory=1 << 24) as other, other.transaction():
        assert mapped() < before + memory // 2
    for t in left:
        with pytest.raises(errors.ClosedError):
            t.abort()


def test_threads_move_cents(store: farslot.Store) -> None:
    both = bank(store)
    accounts, ledger = both
    numbers = count()

    def move() -> None:
        for _ in range(20):
            number = next(numbers)
            store.transact(lambda t: transfer(t, both, number))

    if "sim" in store.address:
        # All of one simulated world, which one thread drives.
        move()
    else:
        threads = [threading.Thread(target=move) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    moved = next(numbers)
    assert len(ledger) == moved
    # Unsigned cents: she is overdrawn by none.
    assert (accounts["Ann"], accounts["Bob"]) == (100 - moved, moved)


def test_tables_that_are_made_again(local: farslot.Store) -> None:
    accounts, _ = bank(local)
    local.transact(lambda t: t.put(accounts, "Ann", 1))
    local.drop("accounts")
    with pytest.raises(errors.TableGoneError):
        local.transact(lambda t: t.put(accounts, "Ann", 2))
    made = local.create("accounts", key=str, value=str, capacity=10, scheme="ordered")
    with pytest.raises(errors.TableGoneError, match="another table's"):
        local.transact(lambda t: t.put(accounts, "Ann", 2))
    local.transact(lambda t: t.put(made, "Ann", "two"))
    assert list(made.scan()) == [("Ann", "two")]
    local.drop("accounts")
    again = local.create("accounts", key=str, value=str, capacity=10, scheme="ordered")
    local.transact(lambda t: t.put(again, "Bob", "one"))
    assert list(again.scan()) == [("Bob", "one")]
    again.close()
    with pytest.raises(errors.ClosedError, match="the table is closed"):
        list(again.scan())
    transaction = local.transaction()
    local.close()
    with pytest.raises(errors.ClosedError, match="the store is closed"), transaction:
        pass


def test_scans(store: farslot.Store) -> None:
    table = store.create(
        "ordered", key=str, value=int, capacity=3_000, max_key=8, scheme="ordered"
    )
    model = {f"key-{number:04}": number for number in range(2_300)}
    table.update(model)
    everything = list(model.items())
    assert list(table.scan()) == everything
    assert list(table.scan(reverse=True)) == everything[::-1]
    for start, stop in [("key-0100", "key-1900"), ("key-01", "key-02"), ("key-22990", None), (None, "a")]:
        part = [
            (key, value)
            for key, value in everything
            if (start is None or key >= start) and (stop is None or key < stop)
        ]
        assert list(table.scan(start, stop)) == part
        assert list(table.scan(start, stop, reverse=True)) == part[::-1]
        assert list(table.scan(start, stop, limit=1_500)) == part[:1_500]
        last = store.transact(lambda t: t.scan(table, start, stop, limit=3, reverse=True))
        assert last == part[::-1][:3]
    assert list(table.scan(limit=0)) == []


FORK = """
import os, sys, farslot
store = farslot.open(sys.argv[1])
table = store.create("forked", capacity=10, scheme="chained")
def put(value):
    store.transact(lambda t: t.put(table, b"key", value))
put(b"parent")
open_one = store.transaction()
open_one.__enter__()
open_one.put(table, b"key", b"open")
child = os.fork()
if child == 0:
    for step in (lambda: put(b"child"), lambda: open_one.__exit__(None, None, None)):
        try:
            step()
        except farslot.errors.ClosedError:
            pass
        else:
            os._exit(7)
    with farslot.open(sys.argv[1]) as own:
        mine = own.open_table("forked")
        own.transact(lambda t: t.put(mine, b"child", b"own"))
    sys.exit(0)
_, status = os.waitpid(child, 0)
assert status == 0, status
assert table[b"key"] == b"parent"
open_one.put(table, b"key", b"after")
open_one.__exit__(None, None, None)
assert table[b"key"] == b"after" and table[b"child"] == b"own"
put(b"last")
assert table[b"key"] == b"last"
store.drop("forked")
"""


FORK_IN_BODY = """
import os, sys, farslot
store = farslot.open(sys.argv[1])
table = store.create("forked", capacity=10, scheme="chained")
def body(t):
    t.put(table, b"key", t.get(table, b"key", b"") + b"once")
    return os.fork()
try:
    child = store.transact(body)
except farslot.errors.ClosedError as error:
    assert "fork" in str(error), error
    sys.exit(3)
if child == 0:
    os._exit(7)
_, status = os.waitpid(child, 0)
assert os.waitstatus_to_exitcode(status) == 3, status
assert table[b"key"] == b"once"
store.transact(lambda t: t.put(table, b"key", b"after"))
assert table[b"key"] == b"after"
store.drop("forked")
"""


@pytest.mark.parametrize("program", [FORK, FORK_IN_BODY])
@pytest.mark.parametrize("kind", ["shm", "tcp"])
def test_a_forked_process_leaves_its_parents_transactions_alone(
    kind: str, program: str, request: pytest.FixtureRequest
) -> None:
    address = request.getfixturevalue(kind)
    command = [sys.executable, "-W", "ignore", "-c", program, address]
    subprocess.run(command, check=True, timeout=60, env=dict(os.environ))
