"""One key at a time: a table has a mapping's manners."""

from __future__ import annotations

import os
import random
from collections.abc import MutableMapping
from typing import Any

import numpy
import pytest

import farslot

SEED = int(os.environ.get("FARSLOT_SEED", "7"))


def test_a_table_does_what_a_dictionary_does(store: farslot.Store) -> None:
    chance = random.Random(SEED)
    print(f"FARSLOT_SEED={SEED}")
    model: dict[bytes, bytes] = {}
    table = store.create("model")
    assert isinstance(table, MutableMapping)
    keys = [b"key %d" % number for number in range(40)]
    for _ in range(600):
        key, value = chance.choice(keys), chance.randbytes(chance.randrange(50))
        match chance.randrange(8):
            case 0 | 1:
                table[key] = value
                model[key] = value
            case 2:
                assert table.get(key) == model.get(key)
                assert table.get(key, b"none") == model.get(key, b"none")
            case 3:
                assert (key in table) == (key in model)
            case 4:
                assert table.pop(key, None) == model.pop(key, None)
            case 5:
                assert table.setdefault(key, value) == model.setdefault(key, value)
            case 6:
                if key in model:
                    assert table[key] == model[key]
                    del table[key], model[key]
                else:
                    for missing in (table.__getitem__, table.__delitem__, table.pop):
                        with pytest.raises(KeyError):
                            missing(key)
            case 7:
                some = {chance.choice(keys): value for _ in range(5)}
                table.update(some)
                model.update(some)
        assert len(table) == len(model)
    assert dict(table) == model
    assert sorted(table) == sorted(model) == sorted(table.keys())
    assert sorted(table.values()) == sorted(model.values())
    assert sorted(table.items()) == sorted(model.items())
    assert table.keys() & {keys[0], b"other"} == model.keys() & {keys[0], b"other"}
    while model:
        key, value = table.popitem()
        assert model.pop(key) == value
    with pytest.raises(KeyError):
        table.popitem()


def test_records_live_as_long_as_they_are_told_to(store: farslot.Store) -> None:
    table = store.create("sessions", key=str, value=str)
    assert table.put("ada", "in", ttl=3_600)
    left = table.time_to_live("ada")
    assert left is not None and 3_000 < left <= 3_600
    table.put("gone", "out", ttl=0)
    assert "gone" not in table and table.get("gone") is None
    assert table.set_time_to_live("ada", None)
    assert table.time_to_live("ada") is None and table["ada"] == "in"
    assert table.set_time_to_live("ada", 0.0) and "ada" not in table
    assert not table.set_time_to_live("ada", 5)
    with pytest.raises(KeyError):
        table.time_to_live("ada")
    assert all(table.put_many(["a", "b"], ["1", "2"], ttl=1_000.5))
    assert (table.time_to_live("b") or 0) > 900
    # A value that is put anew stays.
    table["b"] = "3"
    assert table.time_to_live("b") is None and dict(table) == {"a": "1", "b": "3"}


def test_tables_say_whether_records_may_expire(local: farslot.Store) -> None:
    table = local.create("sessions")
    plain = local.create("plain", capacity=100)
    for refused in (
        lambda: plain.put(b"k", b"v", ttl=1),
        lambda: plain.put_many([b"k"], [b"v"], ttl=1),
        lambda: plain.set_time_to_live(b"k", 1),
    ):
        with pytest.raises(farslot.errors.UnsupportedError, match="time to live"):
            refused()
    with pytest.raises(ValueError, match="seconds"):
        table.put(b"k", b"v", ttl=-1)
    expiring = local.create("expiring", capacity=100, expiring=True)
    assert expiring.put(b"k", b"v", ttl=60) and (expiring.time_to_live(b"k") or 0) > 30
    cache = local.create("cache", capacity=500, scheme="race", heap=64 << 10, evict="all")
    for number in range(2_000):
        cache[b"%d" % number] = bytes(100)
    assert cache[b"1999"] == bytes(100) and 100 < len(cache) < 1_000
    assert cache.occupancy()["evicted"] == 2_000 - len(cache)
    never = local.create("never", expiring=False)
    with pytest.raises(farslot.errors.UnsupportedError):
        never.put(b"k", b"v", ttl=60)


def test_many_records_are_put_visited_and_cleared(local: farslot.Store) -> None:
    table = local.create("many", key=int, value=int, capacity=20_000)
    table.update((number, number + 1) for number in range(10_000))
    table.update({3: 0})
    assert len(table) == 10_000 and table[3] == 0 and table[9_999] == 10_000
    assert sorted(table) == list(range(10_000))
    table.clear()
    assert len(table) == 0 and not table and list(table) == []


def test_text_and_integers_are_stored_if_asked_for(local: farslot.Store) -> None:
    text = local.create("text", key=str, value=str)
    text["grün"] = "zwölf"
    text.update(ada="Lovelace")
    assert text["grün"] == "zwölf" and set(text) == {"grün", "ada"}
    assert local.open_table("text")["grün".encode()] == "zwölf".encode()
    assert (text.key_type, text.value_type) == (str, str)

    words: Any = local.create("words", key=int, value=int, capacity=100, value_size=2)
    assert (words.key_size, words.value_size, words.scheme) == (8, 2, "linear")
    words[5] = 300
    assert words[5] == 300 and list(words.items()) == [(5, 300)]
    assert words[numpy.uint64(5)] == 300
    assert local.open_table("words")[(5).to_bytes(8, "little")] == (300).to_bytes(2, "little")
    with pytest.raises(OverflowError, match="2 bytes"):
        words[5] = 1 << 16
    with pytest.raises(OverflowError):
        words[-1] = 1
    with pytest.raises(ValueError, match="key_size"):
        local.open_table("text", key=int)


@pytest.mark.parametrize("wrong", ["text", 5, 1.5, None, ["list"]])
def test_other_types_are_refused(local: farslot.Store, wrong: Any) -> None:
    table: Any = local.create("bytes")
    with pytest.raises(TypeError, match="a key is bytes"):
        table[wrong]
    with pytest.raises(TypeError, match="a key is bytes"):
        wrong in table
    with pytest.raises(TypeError, match="a value is bytes"):
        table[b"key"] = wrong
    if isinstance(wrong, (str, int)):
        with pytest.raises(TypeError, match=f"open the table with key={type(wrong).__name__}"):
            table.get(wrong)
    assert list(table) == []
    with pytest.raises(TypeError, match="must be bytes, str or int"):
        local.open_table("bytes", key=float)  # type: ignore[type-var]


def test_what_has_bytes_is_as_good_as_bytes(local: farslot.Store) -> None:
    table: Any = local.create("bytes")
    table[bytearray(b"one")] = memoryview(b"value")
    table[numpy.frombuffer(b"two", dtype=numpy.uint8)] = b""
    assert dict(table) == {b"one": b"value", b"two": b""}


def test_steps(store: farslot.Store) -> None:
    table = store.create("steps", value=str)
    assert table.put(b"key", "a") and not table.put(b"key", "b")
    assert table.replace(b"key", "c") and not table.replace(b"other", "c")
    assert table.find_or_put(b"key", "d") == "c" and table.find_or_put(b"new", "d") is None
    assert table.compare_and_set(b"key", "c", "e") and not table.compare_and_set(b"key", "c", "f")
    assert table.compare_and_set(b"more", None, "g") and not table.compare_and_set(b"more", None, "h")
    assert not table.compare_and_remove(b"key", "x") and table.compare_and_remove(b"key", "e")
    assert table.increment(b"visits") == 1 and table.increment(b"visits", 41) == 42
    assert table.remove(b"new") and not table.remove(b"new")
    assert dict(table) == {b"more": "g", b"visits": "42"}


def test_a_key_may_have_several_records(local: farslot.Store) -> None:
    tags = local.create("tags", capacity=100, multi_key=True)
    tags.put(b"pear", b"fruit")
    tags.put(b"pear", b"green")
    assert sorted(tags.get_all(b"pear")) == [b"fruit", b"green"]
    assert tags.pop(b"pear") in (b"fruit", b"green")


@pytest.mark.parametrize("scheme", ["linear", "cuckoo", "race", "duo"])
def test_every_scheme_is_a_mapping(local: farslot.Store, scheme: Any) -> None:
    with local.create("of-scheme", capacity=100, scheme=scheme, max_key=16, max_value=16) as table:
        assert table.scheme == scheme
        table[b"a"], table[b"b"] = b"1", b"2"
        assert table.pop(b"a") == b"1" and dict(table) == {b"b": b"2"}
        assert table.occupancy()["entries"] == 1
    assert repr(table) == "<farslot.Table 'of-scheme'>"


def test_tables_of_a_store(store: farslot.Store) -> None:
    first = store.create("first", capacity=10)
    assert store.tables() == ["first"]
    assert store.memory()["taken"] > 0
    assert first == first and first != store.open_table("first") and len({first}) == 1
    store.rename("first", "second")
    with store.open_table("second") as second:
        second[b"key"] = b"value"
    store.clear("second")
    assert len(store.open_table("second")) == 0
    store.drop("second")
    assert store.tables() == []
