package farslot

// #include <farslot.h>
import "C"

import (
	"runtime/cgo"
	"unsafe"
)

// run is a transaction's body, and what became of its last run.
type run struct {
	body     func(t *Tx) error
	err      error
	panicked any
}

// farslotBody is what the C library calls, once or again.
//
//export farslotBody
func farslotBody(t *C.fs_transaction, context unsafe.Pointer) C.int {
	return cgo.Handle(uintptr(context)).Value().(*run).once(t)
}

// once runs the body. A panic must not go through the C library's frames: Transact goes on with it.
func (r *run) once(t *C.fs_transaction) (failed C.int) {
	failed = 1
	if r.panicked != nil {
		return
	}
	tx := &Tx{c: t}
	defer func() {
		tx.c = nil
		r.panicked = recover()
	}()
	r.err = r.body(tx)
	if r.err == nil {
		failed = 0
	}
	return
}
