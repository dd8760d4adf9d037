"""Queues."""

from __future__ import annotations

import pickle
import threading

import pytest

import farslot
from farslot import Queue, errors


def jobs(store: farslot.Store, capacity: int = 5) -> Queue[bytes]:
    store.create("jobs", capacity=capacity, max_value=20, scheme="queue")
    return store.queue("jobs")


def test_items_come_in_their_order(store: farslot.Store) -> None:
    with jobs(store) as queue:
        assert not queue and queue.pop() is None and queue.front() is None
        assert [queue.push(item) for item in (b"one", b"two")] == [0, 1]
        assert queue.push_all([b"three", bytearray(b"four")]) == 2  # type: ignore[list-item]
        assert queue.front() == b"one" and len(queue) == 4 and queue
        assert list(queue) == [b"one", b"two", b"three", b"four"]
        assert queue.pop() == b"one"
        assert queue.pop_many(2) == [b"two", b"three"]
        assert queue.pop_many(9) == [b"four"] and queue.pop_many(9) == []
        assert repr(queue) == "<farslot.Queue 'jobs'>" and queue.name == "jobs"


def test_what_has_no_room_is_refused(store: farslot.Store) -> None:
    queue = jobs(store)
    queue.push_all([b"item"] * 4)
    with pytest.raises(errors.FullError, match='the queue "jobs" is full') as full:
        queue.push_all([b"five", b"six"])
    assert not full.value.may_have_taken_effect
    assert len(queue) == 4
    with pytest.raises(errors.DoesNotFitError, match="at most 20"):
        queue.push(b"x" * 21)
    with pytest.raises(TypeError):
        queue.push("text")  # type: ignore[arg-type]


def test_texts_and_numbers(local: farslot.Store) -> None:
    local.create("texts", value=str, capacity=5, scheme="queue")
    texts = local.queue("texts", value=str)
    texts.push("größer")
    assert texts.pop() == "größer"
    local.create("numbers", value=int, capacity=5, scheme="queue")
    numbers = local.queue("numbers", value=int)
    numbers.push_all([7, 8])
    assert numbers.pop_many(5) == [7, 8]


def test_operations_of_other_schemes(local: farslot.Store) -> None:
    queue = jobs(local)
    queue.push(b"one")
    table = local.open_table("jobs")
    assert table.scheme == "queue"
    with pytest.raises(errors.UnsupportedError, match="no keys"):
        table[b"key"] = b"value"
    with pytest.raises(errors.UnsupportedError, match="no keys"):
        table.get(b"key")
    assert list(table.items()) == [(b"0", b"one")]
    other = local.create("other", capacity=10)
    with pytest.raises(errors.UnsupportedError, match="scheme queue"):
        local.queue("other")
    with pytest.raises(errors.UnsupportedError, match="takes no part"):
        with local.transaction() as t:
            t.put(table, b"key", b"value")
    with pytest.raises(errors.BadInputError, match="key_size"):
        local.create("keyed", capacity=10, key_size=8, scheme="queue")
    other.close()
    queue.close()
    with pytest.raises(errors.ClosedError):
        queue.pop()


def test_each_item_is_popped_once(store: farslot.Store) -> None:
    queue = jobs(store, 1_000)
    popped: list[list[bytes]] = [[], []]

    def produce(number: int) -> None:
        for item in range(100):
            queue.push(b"%d %d" % (number, item))

    def consume(own: list[bytes]) -> None:
        while len(own) < 100:
            own.extend(queue.pop_many(min(3, 100 - len(own))))

    threads = [threading.Thread(target=produce, args=(number,)) for number in range(2)]
    threads += [threading.Thread(target=consume, args=(own,)) for own in popped]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(popped[0] + popped[1])) == 200
    for own in popped:
        for number in (b"0 ", b"1 "):
            items = [int(item[2:]) for item in own if item.startswith(number)]
            assert items == sorted(items)


def test_a_pickled_queue_is_the_same(shm: str) -> None:
    with farslot.open(shm) as store:
        queue = jobs(store)
        queue.push(b"one")
        with pickle.loads(pickle.dumps(queue)) as other:
            assert other.pop() == b"one"
        assert queue.pop() is None
        store.drop("jobs")
        with pytest.raises(errors.TableGoneError):
            queue.pop()
