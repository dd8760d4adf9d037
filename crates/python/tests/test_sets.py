"""Tables of the scheme `set`: elements that are put once, and stay."""

from __future__ import annotations

import pytest

import farslot
from farslot import errors


def test_each_element_is_new_once(store: farslot.Store) -> None:
    seen = store.create("seen", key=int, capacity=1_000, value_size=0, scheme="set")
    assert seen.find_or_put(7, b"") is None
    assert seen.find_or_put(7, b"") == b""
    _, found = seen.find_or_put_many(list(range(500)), [b""] * 500)
    assert [number for number, was in enumerate(found) if was] == [7]
    assert 499 in seen and 500 not in seen
    assert sorted(seen) == list(range(500))


def test_what_is_there_stays(store: farslot.Store) -> None:
    names = store.create("names", key=str, value=int, capacity=10, scheme="set")
    names["Ada"] = 1815
    names["Ada"] = 1815
    assert names.setdefault("Ada", 1) == 1815
    with pytest.raises(errors.UnsupportedError, match="a put of another value"):
        names["Ada"] = 1
    with pytest.raises(errors.UnsupportedError, match="linear, cuckoo, duo"):
        del names["Ada"]
    assert dict(names) == {"Ada": 1815}
