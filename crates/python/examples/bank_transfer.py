import sys
import farslot

with farslot.open(*sys.argv[1:] or ["embedded"]) as store:
    accounts = store.create("accounts", key=str, value=int, capacity=1_000, scheme="chained")
    accounts["Ann"] = 100
    with store.transaction() as t:           # or store.transact(body): again after a conflict
        t.put(accounts, "Ann", t.get(accounts, "Ann", 0) - 15)
        t.put(accounts, "Bob", t.get(accounts, "Bob", 0) + 15)
    print("Ann has", accounts["Ann"], "cents, Bob has", accounts["Bob"])
