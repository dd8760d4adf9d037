// Package farslot keeps hash tables in the memory of other machines.
//
//	store, err := farslot.Open("tcp://node-1:7000", nil) // or "embedded", "shm://work", ...
//	users, err := store.Create("users", nil)
//	inserted, err := users.Put([]byte("ada"), []byte("Ada Lovelace"))
//	value, found, err := users.Get([]byte("ada"))
//
// It is a layer over the C library (farslot.h, libfarslot_capi), which must be installed, or named by CGO_CFLAGS and
// CGO_LDFLAGS. Any number of goroutines may use a [Store] or a [Table] at the same time. Each call that waits takes a
// thread of the operating system meanwhile, of which there are at most [MostCalls]: further goroutines wait for one. For
// many keys at once, [Table.GetMany] and its like cost a fraction of single calls.
//
// Errors are of a [Kind]: errors.Is(err, farslot.ErrFull).
package farslot

// #cgo LDFLAGS: -lfarslot_capi
// #include <farslot.h>
// #include <stdlib.h>
import "C"

import (
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync/atomic"
	"unsafe"
)

// MostCalls is how many calls of the C library are under way at the same time.
const MostCalls = 256

// calls has room for all calls under way but those of transactions.
var calls = make(chan struct{}, MostCalls)

// Options are those of a store or a table, by their names. See [Open] and [Store.Create].
type Options map[string]string

// text says them as the C library reads them.
func (o Options) text() (string, error) {
	var text strings.Builder
	for name, value := range o {
		quote := "'"
		if strings.Contains(value, quote) {
			quote = `"`
		}
		if strings.Contains(value, quote) || strings.Contains(name+value, "\x00") {
			return "", &Error{Kind: ErrBadInput, Message: "the option " + name + " has both quotes, or a zero, in its value"}
		}
		fmt.Fprintf(&text, "%s=%s%s%s ", name, quote, value, quote)
	}
	return text.String(), nil
}

// use counts the calls that use something of the C library, which goes when it is closed and the last of them ends.
type use struct {
	calls atomic.Int64
	free  func()
}

// begin returns false if it is closed.
func (u *use) begin() bool {
	for {
		n := u.calls.Load()
		if n < 0 {
			return false
		}
		if u.calls.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (u *use) end() {
	if u.calls.Add(-1) == math.MinInt64 {
		u.free()
	}
}

func (u *use) close() {
	for {
		n := u.calls.Load()
		if n < 0 {
			return
		}
		if u.calls.CompareAndSwap(n, n+math.MinInt64) {
			if n == 0 {
				u.free()
			}
			return
		}
	}
}

// call does a call of the C library, and returns why it failed.
func call(does func() C.fs_outcome) (C.fs_outcome, error) {
	calls <- struct{}{}
	defer func() { <-calls }()
	return here(does)
}

// here does the same where a thread is taken already. The library keeps errors for the thread that they occur in.
func here(does func() C.fs_outcome) (C.fs_outcome, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	outcome := does()
	if outcome == C.FS_ERROR || outcome == C.FS_CONFLICT {
		return outcome, lastError()
	}
	return outcome, nil
}

// A Store is memory somewhere, and the tables in it.
type Store struct {
	c   *C.fs_store
	use use
}

// Open opens the store at an address: "embedded", "shm://NAME", "tcp://HOST:PORT", "tcps://HOST:PORT", and over several
// nodes "tcp://HOST:PORT,HOST:PORT". Options are secret or secret_file, grant, tls_ca or tls_pin, tls_cert and tls_key,
// memory (of an embedded store, such as "64MiB"), read_only, access, connect_timeout and timeout (in seconds), cache and
// stale_for, and client_memory: farslot.h says more.
func Open(address string, options Options) (*Store, error) {
	text, err := options.text()
	if err != nil {
		return nil, err
	}
	where, err := cText(address)
	if err != nil {
		return nil, err
	}
	how := C.CString(text)
	defer C.free(unsafe.Pointer(where))
	defer C.free(unsafe.Pointer(how))
	store := &Store{}
	_, err = call(func() C.fs_outcome {
		store.c = C.fs_store_open(where, how)
		return made(store.c != nil)
	})
	if err != nil {
		return nil, err
	}
	// The collector finds nothing that leads to itself.
	c := store.c
	store.use.free = func() { C.fs_store_free(c) }
	runtime.SetFinalizer(store, func(s *Store) { go s.Close() })
	return store, nil
}

func made(is bool) C.fs_outcome {
	if is {
		return C.FS_DONE
	}
	return C.FS_ERROR
}

// cText is text as C has it, to be freed.
func cText(text string) (*C.char, error) {
	if strings.Contains(text, "\x00") {
		return nil, &Error{Kind: ErrBadInput, Message: fmt.Sprintf("the text %q has a zero in it", text)}
	}
	return C.CString(text), nil
}

// Close closes the store, once the calls that use it have ended. Its tables stay open until they are closed.
func (s *Store) Close() {
	s.use.close()
}

// call does something with the store and a name.
func (s *Store) call(name string, does func(name *C.char) C.fs_outcome) error {
	if !s.use.begin() {
		return errClosed("store")
	}
	defer s.use.end()
	text, err := cText(name)
	if err != nil {
		return err
	}
	defer C.free(unsafe.Pointer(text))
	_, err = call(func() C.fs_outcome { return does(text) })
	return err
}

// Create makes a table and opens it. Options are the flags of `farslot create` with "_" for "-", such as
// Options{"capacity": "1000", "scheme": "chained", "value_size": "8"}. Without any it grows, for keys and values of any
// size, which may have times to live.
func (s *Store) Create(name string, options Options) (*Table, error) {
	text, err := options.text()
	if err != nil {
		return nil, err
	}
	how := C.CString(text)
	defer C.free(unsafe.Pointer(how))
	err = s.call(name, func(name *C.char) C.fs_outcome { return C.fs_table_create(s.c, name, how) })
	if err != nil {
		return nil, err
	}
	return s.Table(name)
}

// Table opens a table.
func (s *Store) Table(name string) (*Table, error) {
	table := &Table{}
	err := s.call(name, func(name *C.char) C.fs_outcome {
		table.c = C.fs_table_open(s.c, name, nil)
		return made(table.c != nil)
	})
	if err != nil {
		return nil, err
	}
	c := table.c
	table.use.free = func() { C.fs_table_free(c) }
	runtime.SetFinalizer(table, func(t *Table) { go t.Close() })
	return table, nil
}

// Drop drops a table, and returns when its memory is free again, some seconds later.
func (s *Store) Drop(name string) error {
	return s.call(name, func(name *C.char) C.fs_outcome { return C.fs_table_drop(s.c, name) })
}

// Tables returns the names of all tables.
func (s *Store) Tables() ([]string, error) {
	if !s.use.begin() {
		return nil, errClosed("store")
	}
	defer s.use.end()
	all, _, err := filled(call, func(to *C.uint8_t, room C.size_t, len *C.size_t) C.fs_outcome {
		return C.fs_table_names(s.c, (*C.char)(unsafe.Pointer(to)), room, len)
	})
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return strings.Split(strings.TrimSuffix(string(all), "\x00"), "\x00"), nil
}

// firstRoom is what a value has in the first attempt to get it.
const firstRoom = 256

// filled has a call fill memory for it, and more if it says that there is too little.
func filled(
	call func(func() C.fs_outcome) (C.fs_outcome, error),
	fill func(to *C.uint8_t, room C.size_t, len *C.size_t) C.fs_outcome,
) ([]byte, bool, error) {
	length := C.size_t(firstRoom)
	for {
		room := make([]byte, length)
		to := (*C.uint8_t)(unsafe.SliceData(room))
		size := length
		outcome, err := call(func() C.fs_outcome { return fill(to, size, &length) })
		switch {
		case err != nil:
			return nil, false, err
		case outcome == C.FS_ABSENT:
			return nil, false, nil
		case outcome != C.FS_TOO_LONG:
			return room[:length:length], true, nil
		}
	}
}
