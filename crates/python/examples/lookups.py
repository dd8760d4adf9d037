"""Looks up a million keys of an array. Before it: farslot serve shm://work --memory 1GiB &"""

import sys
import time

import numpy

import farslot

COUNT = 1_000_000
address = sys.argv[1] if len(sys.argv) > 1 else "shm://work"
numbers = numpy.arange(COUNT, dtype=numpy.uint64)
keys = numpy.random.default_rng(seed=1).permutation(numbers)
with farslot.open(address) as store:
    with store.create("squares", capacity=COUNT, key_size=8, value_size=8) as squares:
        squares.put_many(numbers, numbers * numbers)
        seconds = []
        for _ in range(5):
            since = time.perf_counter()
            values, found = squares.get_many(keys, dtype=numpy.uint64)
            seconds.append(time.perf_counter() - since)
            assert found.all() and (values == keys * keys).all()
    store.drop("squares")
print(f"{COUNT / sorted(seconds)[2] / 1e6:.1f} million lookups/s, median of {len(seconds)} runs")
