package farslot

// #include <farslot.h>
//
// extern int farslotBody(fs_transaction *, void *);
//
// static inline fs_outcome transact(const fs_store *store, uintptr_t run) {
//     return fs_transact(store, farslotBody, (void *)run);
// }
import "C"

import "runtime/cgo"

// mostTransactions is how many are under way at the same time. They are counted by themselves: their bodies may do calls.
const mostTransactions = 128

var transactions = make(chan struct{}, mostTransactions)

// A Tx is a transaction under way. It is its body's own, in the body's goroutine, until the body returns.
type Tx struct {
	c *C.fs_transaction
}

// Transact runs a transaction over any chained and ordered tables of the store, on any of its nodes: all of it or nothing,
// strictly serializable. Where another transaction was in the way, body is run again, after pauses that grow, up to a
// thousand times: it must do nothing else that cannot be done twice, nor begin another. If it returns an error, nothing is
// changed, and Transact returns that error. Only the commit says whether all that it has read was there at one moment.
func (s *Store) Transact(body func(t *Tx) error) error {
	if !s.use.begin() {
		return errClosed("store")
	}
	defer s.use.end()
	transactions <- struct{}{}
	defer func() { <-transactions }()
	run := &run{body: body}
	handle := cgo.NewHandle(run)
	defer handle.Delete()
	_, err := here(func() C.fs_outcome { return C.transact(s.c, C.uintptr_t(handle)) })
	if run.panicked != nil {
		panic(run.panicked)
	}
	if run.err != nil {
		return run.err
	}
	return err
}

// step does something with a table within the transaction.
func (t *Tx) step(table *Table, does func() C.fs_outcome) (C.fs_outcome, error) {
	if t.c == nil {
		return C.FS_ERROR, errClosed("transaction")
	}
	if !table.use.begin() {
		return C.FS_ERROR, errClosed("table")
	}
	defer table.use.end()
	return here(does)
}

// Get returns a key's value, and whether the key is there. A key that is read twice has the same value twice.
func (t *Tx) Get(table *Table, key []byte) (value []byte, found bool, err error) {
	at, size := data(key)
	step := func(does func() C.fs_outcome) (C.fs_outcome, error) { return t.step(table, does) }
	return filled(step, func(to *C.uint8_t, room C.size_t, len *C.size_t) C.fs_outcome {
		return C.fs_transaction_get(t.c, table.c, at, size, to, room, len)
	})
}

// Put sets a key's value, whether it is there or not.
func (t *Tx) Put(table *Table, key, value []byte) error {
	at, size := data(key)
	from, len := data(value)
	_, err := t.step(table, func() C.fs_outcome {
		return C.fs_transaction_put(t.c, table.c, at, size, from, len)
	})
	return err
}

// Insert sets the value of an absent key, and returns whether it was one.
func (t *Tx) Insert(table *Table, key, value []byte) (inserted bool, err error) {
	at, size := data(key)
	from, len := data(value)
	outcome, err := t.step(table, func() C.fs_outcome {
		return C.fs_transaction_insert(t.c, table.c, at, size, from, len)
	})
	return outcome == C.FS_INSERTED, err
}

// Delete removes a key, and returns whether it was there.
func (t *Tx) Delete(table *Table, key []byte) (found bool, err error) {
	at, size := data(key)
	outcome, err := t.step(table, func() C.fs_outcome {
		return C.fs_transaction_delete(t.c, table.c, at, size)
	})
	return outcome == C.FS_FOUND, err
}
