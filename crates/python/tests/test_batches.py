"""Many keys at once, by arrays."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy
import pytest

import farslot

# More than a batch takes at a time.
COUNT = (1 << 16) + 77


def numbers(count: int = COUNT) -> Any:
    return numpy.arange(1, count + 1, dtype=numpy.uint64)


def test_a_batch_of_words(store: farslot.Store) -> None:
    # A simulated NIC takes its time.
    keys = numbers(500 if store.address.startswith("sim") else COUNT)
    table = store.create("words", capacity=2 * len(keys), key_size=8, value_size=8)
    assert table.put_many(keys, keys * 3).all()
    assert not table.put_many(keys[:5], keys[:5] * 3).any()

    wanted = numpy.concatenate([keys[::-1], keys + len(keys)])
    values, found = table.get_many(wanted, dtype=numpy.uint64)
    assert values.dtype == numpy.uint64 and found.dtype == numpy.bool_
    assert (found == (wanted <= len(keys))).all()
    assert (values == numpy.where(found, wanted * 3, 0)).all()

    assert (table.replace_many(wanted, wanted * 5) == found).all()
    there, found = table.find_or_put_many(wanted, wanted * 7, dtype=numpy.uint64)
    assert (found == (wanted <= len(keys))).all()
    assert (there == numpy.where(found, wanted * 5, wanted * 7)).all()
    assert len(table) == 2 * len(keys)

    assert table.remove_many(wanted).all() and not table.remove_many(wanted).any()
    assert len(table) == 0


def test_rows_of_bytes(local: farslot.Store) -> None:
    table = local.create("rows", capacity=1000, key_size=5, value_size=12)
    chance = numpy.random.default_rng(seed=3)
    keys = chance.integers(0, 256, (300, 5), dtype=numpy.uint8)
    keys = numpy.unique(keys, axis=0)
    vectors = chance.random((len(keys), 3), dtype=numpy.float32)
    table.put_many(keys, vectors)
    assert table[keys[7].tobytes()] == vectors[7].tobytes()

    raw, found = table.get_many(keys)
    assert raw.shape == (len(keys), 12) and raw.dtype == numpy.uint8 and found.all()
    assert (raw.view(numpy.float32) == vectors).all()
    values, _ = table.get_many(keys, dtype=numpy.float32)
    assert values.shape == vectors.shape and (values == vectors).all()
    # By every other row, in the other order of dimensions, and by numpy's own bytes.
    values, _ = table.get_many(keys[::2], dtype="f4")
    assert (values == vectors[::2]).all()
    values, _ = table.get_many(numpy.asfortranarray(keys), dtype="f4")
    assert (values == vectors).all()
    values, _ = table.get_many(keys.view("S5")[:, 0], dtype="f4")
    assert (values == vectors).all()
    values, _ = table.get_many([bytes(key) for key in keys], dtype="f4")
    assert (values == vectors).all()


def test_rows_of_absent_keys_stay_as_they_are(local: farslot.Store) -> None:
    table = local.create("some", capacity=100, key_size=8, value_size=4)
    keys = numbers(10)
    table.put_many(keys[::2], numpy.full(5, 1.5, dtype=numpy.float32))
    out = numpy.full(10, -1, dtype=numpy.float32)
    values, found = table.get_many(keys, out=out)
    assert values is out and (found == (keys % 2 == 1)).all()
    assert (out == numpy.where(found, 1.5, -1)).all()
    absent, found = table.get_many(keys + 50, dtype="f4")
    assert not found.any() and not absent.any()
    for dtype in (numpy.dtype("f4,"), numpy.dtype([("x", "f4")])):
        values, _ = table.get_many(keys[::2], dtype=dtype)
        assert len(values) == 5


def test_values_of_any_lengths(store: farslot.Store) -> None:
    table = store.create("ragged", value=str)
    names = [f"name {number}" * (number % 4) for number in range(200)]
    keys = [b"%d" % number for number in range(200)]
    assert table.put_many(keys, names).all()
    wanted = [b"absent", *keys[::-1]]
    data, offsets, found = table.get_many_ragged(wanted)
    assert len(offsets) == len(wanted) + 1 and offsets[0] == 0 and offsets[-1] == len(data)
    text = [bytes(data[start:end]).decode() for start, end in zip(offsets, offsets[1:])]
    assert text == ["", *names[::-1]] and not found[0] and found[1:].all()

    # One length is as good as a fixed size, if all have it.
    table.put_many(keys[:9], [f"{number:08}" for number in range(9)])
    values, found = table.get_many(keys[:9], dtype="S8")
    assert list(values) == [b"%08d" % number for number in range(9)]
    with pytest.raises(TypeError, match="get_many_ragged"):
        table.get_many(keys)
    with pytest.raises(farslot.errors.DoesNotFitError, match="a row of the array 8") as caught:
        table.get_many(keys[:11], dtype="V8")
    assert caught.value.index == 9
    assert list(caught.value.failed) == [False] * 9 + [True] * 2
    # A string array has strings of any length up to its own.
    with pytest.raises(farslot.errors.DoesNotFitError, match="a row of the array 8") as caught:
        table.get_many(keys[:11], dtype="S8")
    assert caught.value.index == 10


def test_string_arrays_have_strings_without_the_zeros_that_fill_them_up(
    store: farslot.Store,
) -> None:
    words = [b"x", b"a", b"ada", b"a\0b", b"grace hopper"]
    array = numpy.array(words)
    assert array.dtype == "S12"
    table = store.create("strings")
    assert table.put_many(array, array).all()
    assert sorted(table) == sorted(words)
    for word in words:
        assert table[word] == word
    values, found = table.get_many(array, dtype="S20")
    assert found.all() and list(values) == words
    table[b"empty"] = b""
    values, found = table.get_many([b"empty", b"absent"], dtype="S4")
    assert list(values) == [b"", b""] and list(found) == [True, False]
    assert table.remove(b"empty")
    values, found = table.find_or_put_many(array[::-1], array[:1].repeat(5), dtype="S12")
    assert found.all() and list(values) == words[::-1]
    assert table.remove_many(array[1:3]).all() and b"ada" not in table
    values, found = table.find_or_put_many(array, array, dtype="S12")
    assert list(found) == [True, False, False, True, True] and list(values) == words
    # What ends in a zero byte has no place there.
    table[b"ends"] = b"in zero\0"
    with pytest.raises(farslot.errors.DoesNotFitError, match="get_many_ragged"):
        table.get_many([b"ends"], dtype="S20")
    for wrong in ([b"\0"], [b"too long"]):
        with pytest.raises(ValueError, match="more than 4 bytes, or end in a zero byte"):
            table.find_or_put_many([b"new"], wrong, dtype="S4")
    assert b"new" not in table

    text = store.create("text", key=str, value=str)
    text.put_many(numpy.array([b"x", b"long one"]), ["1", "2"])
    assert sorted(text) == ["long one", "x"]

    # Of a fixed size every byte of a row counts, zeros too.
    fixed = store.create("fixed", capacity=10, key_size=4, value_size=4)
    fixed.put_many(numpy.array([b"a", b"abcd"]), numpy.array([b"b", b"bcde"]))
    assert fixed[b"a\0\0\0"] == b"b\0\0\0"
    assert list(fixed.get_many(numpy.array([b"a", b"abcd"]), dtype="S4")[0]) == [b"b", b"bcde"]


def test_arrays_of_other_keys_are_refused(local: farslot.Store) -> None:
    table: Any = local.create("numbers", capacity=100, key=int, value=int)
    table.put_many(numbers(3), numbers(3))
    wrong: Any
    for wrong in (numbers(3).astype(">u8"), numpy.zeros(3, dtype=[("x", ">u4"), ("y", "u4")])):
        with pytest.raises(TypeError, match="big-endian"):
            table.get_many(wrong)
    with pytest.raises(TypeError, match="big-endian"):
        table.get_many(numbers(3), dtype=">u8")
    for wrong, items in (
        (numbers(3).astype("f8"), "floating-point"),
        (numpy.zeros(3, dtype="?"), "booleans"),
        (numpy.zeros(3, dtype="c8"), "complex"),
        (numpy.zeros(3, dtype=[("x", "u8")]), "records"),
        (numpy.array([b"12345678"]), "strings"),
        (numpy.zeros((3, 2), dtype="u4"), "unsigned"),
    ):
        for call in (table.get_many, table.remove_many):
            with pytest.raises(TypeError, match=f"keys are int here, not an array of {items}"):
                call(wrong)
    with pytest.raises(TypeError, match="values are int here"):
        table.get_many(numbers(3), dtype="f8")
    with pytest.raises(OverflowError, match="key 1 of the array is negative"):
        table.get_many(numpy.array([1, -1]))
    assert list(table.get_many(numpy.arange(1, 4))[0]) == [1, 2, 3]
    assert len(table) == 3

    text: Any = local.create("names", key=str, value=str)
    with pytest.raises(TypeError, match="keys are str here, not an array of unsigned"):
        text.put_many(numbers(3), ["a", "b", "c"])
    raw: Any = local.create("raw", capacity=100, key_size=8, value_size=8)
    with pytest.raises(TypeError, match="big-endian"):
        raw.put_many(numbers(3).astype(">u8"), numbers(3))
    # Their bytes, as they are.
    raw.put_many(numbers(3).astype(">u8").view("V8"), numbers(3))
    assert (1).to_bytes(8, "big") in raw


def test_integers_need_no_type(local: farslot.Store) -> None:
    table = local.create("words", capacity=100, key=int, value=int, value_size=4)
    table.put_many(numbers(3), [7, 8, 9])
    table.put_many([4], numpy.array([10], dtype=numpy.uint32))
    values, found = table.get_many([1, 2, 3, 4, 5])
    assert values.dtype == numpy.uint32 and list(values) == [7, 8, 9, 10, 0]
    assert list(found) == [True] * 4 + [False]
    there, found = table.find_or_put_many([5, 1], [6, 6])
    assert list(there) == [6, 7] and list(found) == [False, True]


def test_empty_batches(local: farslot.Store) -> None:
    table = local.create("words", capacity=100, key_size=8, value_size=8)
    none: Any
    for none in ([], numbers(0)):
        values, found = table.get_many(none, dtype="u8")
        assert len(values) == len(found) == 0
        assert len(table.put_many(none, none)) == len(table.remove_many(none)) == 0
        assert len(table.find_or_put_many(none, none)[1]) == 0
        assert [len(part) for part in table.get_many_ragged(none)] == [0, 1, 0]


def test_what_cannot_be_a_batch(local: farslot.Store) -> None:
    table: Any = local.create("words", capacity=100, key_size=8, value_size=8)
    keys = numbers(10)
    wrong: Any
    for wrong in (b"12345678", "12345678", bytearray(8)):
        with pytest.raises(TypeError, match="not one"):
            table.get_many(wrong)
    for wrong in (numpy.array(5, dtype="u8"), numpy.array(["text"]), numpy.array([object()]), 5):
        with pytest.raises(TypeError):
            table.get_many(wrong)
    with pytest.raises(TypeError, match="a key is bytes"):
        table.get_many([1, 2])
    with pytest.raises(ValueError, match="10 keys and 9 values"):
        table.put_many(keys, keys[:9])
    with pytest.raises(ValueError, match="10 keys and 9 values"):
        table.find_or_put_many(keys, keys[:9])
    with pytest.raises(ValueError, match="9 rows"):
        table.get_many(keys, out=numpy.zeros(9, dtype="u8"))
    with pytest.raises(ValueError, match="4 bytes"):
        table.get_many(keys, out=numpy.zeros(10, dtype="u4"))
    read_only = numpy.zeros(10, dtype="u8")
    read_only.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        table.get_many(keys, out=read_only)
    with pytest.raises(TypeError, match="contiguous"):
        table.get_many(keys, out=numpy.zeros(20, dtype="u8")[::2])
    with pytest.raises(TypeError, match="not both"):
        table.get_many(keys, dtype="u8", out=numpy.zeros(10, dtype="u8"))


def test_a_record_that_fails_fails_alone(local: farslot.Store) -> None:
    table = local.create("short", capacity=100, max_key=4, max_value=4)
    with pytest.raises(farslot.errors.DoesNotFitError) as caught:
        table.put_many([b"a", b"too long", b"b", b"c"], [b"1", b"2", b"too long", b"4"])
    assert caught.value.index == 1 and list(caught.value.failed) == [False, True, True, False]
    assert dict(table) == {b"a": b"1", b"c": b"4"}

    full = local.create("full", capacity=64, key_size=8, value_size=8)
    keys = numbers(1000)
    with pytest.raises(farslot.errors.FullError) as refused:
        full.put_many(keys, keys)
    failed = refused.value.failed
    assert failed[refused.value.index] and len(full) == 1000 - failed.sum()
    values, found = full.get_many(keys, dtype="u8")
    assert (found == ~failed).all()


def test_a_node_that_is_down_fails_its_keys_and_no_others() -> None:
    nodes = [farslot.serve("tcp://127.0.0.1:0", memory=1 << 25) for _ in range(2)]
    hosts = ",".join(node.addresses[0].removeprefix("tcp://") for node in nodes)
    keys = numbers(1000)
    store = farslot.open(f"tcp://{hosts}")
    table = store.create("spread", capacity=2000, key_size=8, value_size=8)
    table.put_many(keys, keys * 2)
    nodes[1].close()
    out = numpy.zeros_like(keys)
    with pytest.raises(farslot.errors.NodeDownError, match="127.0.0.1") as caught:
        table.get_many(keys, out=out)
    failed = caught.value.failed
    assert 0 < failed.sum() < len(keys) and failed.argmax() == caught.value.index
    assert (out == numpy.where(failed, 0, keys * 2)).all()
    # That node can be told of nothing any more.
    with suppress(farslot.errors.NodeDownError):
        store.close()
    with pytest.raises(farslot.errors.ClosedError):
        table.get_many(keys, out=out)
    nodes[0].close()


def test_a_table_is_built_of_arrays(local: farslot.Store) -> None:
    keys = numbers(5000)
    table = local.build("squares", keys, keys * keys, key_size=8, value_size=8)
    assert table.scheme == "sealed"
    values, found = table.get_many(keys, dtype="u8")
    assert found.all() and (values == keys * keys).all()
    with pytest.raises(farslot.errors.SealedError):
        table[b"12345678"] = b"12345678"
    prices = local.build("prices", ["pears", "plums", "pears"], [7, 12, 8], key=str, value=int)
    assert dict(prices) == {"pears": 8, "plums": 12}
    built = local.build("cuckoo", keys, keys, scheme="cuckoo", key_size=8, value_size=8)
    assert len(built) == 5000
