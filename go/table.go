package farslot

// #include <farslot.h>
import "C"

import (
	"time"
	"unsafe"
)

// A Table has keys and their values, which are bytes. A table of the scheme queue has items instead.
type Table struct {
	c   *C.fs_table
	use use
}

// Close closes the table, once the calls that use it have ended. A program that ends without it may stay the writer of a
// table that admits one.
func (t *Table) Close() {
	t.use.close()
}

// data is where bytes are.
func data(bytes []byte) (*C.uint8_t, C.size_t) {
	return (*C.uint8_t)(unsafe.SliceData(bytes)), C.size_t(len(bytes))
}

// call does something with the table.
func (t *Table) call(does func() C.fs_outcome) (C.fs_outcome, error) {
	if !t.use.begin() {
		return C.FS_ERROR, errClosed("table")
	}
	defer t.use.end()
	return call(does)
}

// Get returns a key's value, and whether the key is there.
func (t *Table) Get(key []byte) (value []byte, found bool, err error) {
	at, size := data(key)
	return filled(t.call, func(to *C.uint8_t, room C.size_t, len *C.size_t) C.fs_outcome {
		return C.fs_table_get(t.c, at, size, to, room, len)
	})
}

// Contains tells whether a key is there.
func (t *Table) Contains(key []byte) (bool, error) {
	at, size := data(key)
	outcome, err := t.call(func() C.fs_outcome { return C.fs_table_contains_key(t.c, at, size) })
	return outcome == C.FS_FOUND, err
}

// Put sets a key's value, and returns whether the key was absent.
func (t *Table) Put(key, value []byte) (inserted bool, err error) {
	at, size := data(key)
	from, len := data(value)
	outcome, err := t.call(func() C.fs_outcome { return C.fs_table_put(t.c, at, size, from, len) })
	return outcome == C.FS_INSERTED, err
}

// PutFor sets a key's value for so long, after which the key is absent again.
func (t *Table) PutFor(key, value []byte, timeToLive time.Duration) (inserted bool, err error) {
	if timeToLive < 0 {
		return false, &Error{Kind: ErrBadInput, Message: "a time to live of " + timeToLive.String() + " is over already"}
	}
	at, size := data(key)
	from, len := data(value)
	outcome, err := t.call(func() C.fs_outcome {
		return C.fs_table_put_for(t.c, at, size, from, len, C.uint64_t(timeToLive.Milliseconds()))
	})
	return outcome == C.FS_INSERTED, err
}

// Delete removes a key, and returns whether it was there.
func (t *Table) Delete(key []byte) (found bool, err error) {
	at, size := data(key)
	outcome, err := t.call(func() C.fs_outcome { return C.fs_table_delete(t.c, at, size) })
	return outcome == C.FS_FOUND, err
}

// nothing is a place for bytes of which there are none.
var nothing [1]byte

// CompareAndSet sets a key's value in one step if it is the expected one, or, if that is nil, if the key is absent. It
// returns whether it has.
func (t *Table) CompareAndSet(key, expected, value []byte) (bool, error) {
	at, size := data(key)
	from, len := data(value)
	was, wasLen := data(expected)
	if expected != nil && wasLen == 0 {
		was, _ = data(nothing[:])
	}
	outcome, err := t.call(func() C.fs_outcome {
		return C.fs_table_compare_and_set(t.c, at, size, was, wasLen, from, len)
	})
	return outcome == C.FS_INSERTED || outcome == C.FS_REPLACED, err
}

// Increment adds to a number, which the value is as decimal text and an absent key 0, and returns the sum.
func (t *Table) Increment(key []byte, by int64) (int64, error) {
	at, size := data(key)
	var sum C.int64_t
	_, err := t.call(func() C.fs_outcome { return C.fs_table_increment(t.c, at, size, C.int64_t(by), &sum) })
	return int64(sum), err
}

// Count returns the number of keys, or of items of a queue.
func (t *Table) Count() (uint64, error) {
	var count C.uint64_t
	_, err := t.call(func() C.fs_outcome { return C.fs_table_count(t.c, &count) })
	return uint64(count), err
}

// Push adds an item to the end of a queue.
func (t *Table) Push(item []byte) error {
	at, size := data(item)
	_, err := t.call(func() C.fs_outcome { return C.fs_queue_push(t.c, at, size) })
	return err
}

// Pop takes the first item of a queue, and returns whether there is one.
func (t *Table) Pop() (item []byte, found bool, err error) {
	return filled(t.call, func(to *C.uint8_t, room C.size_t, len *C.size_t) C.fs_outcome {
		return C.fs_queue_pop(t.c, to, room, len)
	})
}
