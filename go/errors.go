package farslot

// #include <farslot.h>
import "C"

// A Kind is what an error comes down to: errors.Is(err, farslot.ErrFull).
type Kind int

// The kinds of errors.
const (
	// No slot is left for a new key, or no room in a queue. The table goes on serving.
	ErrFull Kind = C.FS_KIND_FULL
	// No memory is left: for a record, for a table to grow, or for a table in the store.
	ErrOutOfMemory Kind = C.FS_KIND_OUT_OF_MEMORY
	// A key or a value that the table does not hold, mostly of another size.
	ErrDoesNotFit Kind = C.FS_KIND_DOES_NOT_FIT
	// Another client is the table's only writer, or has become it.
	ErrWriterBusy Kind = C.FS_KIND_WRITER_BUSY
	// The table never changes again.
	ErrSealed Kind = C.FS_KIND_SEALED
	// The table is to be built whole, and has not been.
	ErrNotBuilt Kind = C.FS_KIND_NOT_BUILT
	// The scheme of the table cannot do that.
	ErrUnsupported Kind = C.FS_KIND_UNSUPPORTED
	// There is no such table.
	ErrNoSuchTable Kind = C.FS_KIND_NO_SUCH_TABLE
	// The table was dropped, cleared or renamed by another client.
	ErrTableGone Kind = C.FS_KIND_TABLE_GONE
	// There is a table of that name.
	ErrTableExists Kind = C.FS_KIND_TABLE_EXISTS
	// An argument, an address, a name or an option that cannot be used.
	ErrBadInput Kind = C.FS_KIND_BAD_INPUT
	// A node cannot be reached.
	ErrNodeDown Kind = C.FS_KIND_NODE_DOWN
	// A node did not answer in time: what was asked of it may have taken effect.
	ErrTimedOut Kind = C.FS_KIND_TIMED_OUT
	// A node came back empty.
	ErrNodeRestarted Kind = C.FS_KIND_NODE_RESTARTED
	// The secret or the grant does not allow it.
	ErrAccessDenied Kind = C.FS_KIND_ACCESS_DENIED
	// Others were faster, time and again.
	ErrContended Kind = C.FS_KIND_CONTENDED
	// Another transaction was in the way of one, each time that it was run.
	ErrConflict Kind = C.FS_KIND_CONFLICT
	// Too much is under way: later there may be room.
	ErrBusy Kind = C.FS_KIND_BUSY
	// What was used is closed.
	ErrClosed Kind = C.FS_KIND_CLOSED
	// What is in the memory is not what clients leave there.
	ErrDamaged Kind = C.FS_KIND_DAMAGED
	// Anything else; the message says what.
	ErrOther Kind = C.FS_KIND_OTHER
)

var kinds = map[Kind]string{
	ErrFull:          "full",
	ErrOutOfMemory:   "out of memory",
	ErrDoesNotFit:    "does not fit",
	ErrWriterBusy:    "writer busy",
	ErrSealed:        "sealed",
	ErrNotBuilt:      "not built",
	ErrUnsupported:   "unsupported",
	ErrNoSuchTable:   "no such table",
	ErrTableGone:     "table gone",
	ErrTableExists:   "table exists",
	ErrBadInput:      "bad input",
	ErrNodeDown:      "node down",
	ErrTimedOut:      "timed out",
	ErrNodeRestarted: "node restarted",
	ErrAccessDenied:  "access denied",
	ErrContended:     "contended",
	ErrConflict:      "conflict",
	ErrBusy:          "busy",
	ErrClosed:        "closed",
	ErrDamaged:       "damaged",
	ErrOther:         "other",
}

func (k Kind) Error() string {
	if name, ok := kinds[k]; ok {
		return name
	}
	return "unknown"
}

// An Error is why an operation failed.
type Error struct {
	Kind    Kind
	Message string
	// Whether the operation may have taken effect all the same, or may still.
	MayHaveTakenEffect bool
}

func (e *Error) Error() string {
	return e.Message
}

// Is tells whether it is of a kind.
func (e *Error) Is(kind error) bool {
	return kind == e.Kind
}

// A BatchError is why operations of a batch failed. Those that are not among them are done.
type BatchError struct {
	// The places in the batch of those that failed, in order.
	Failed []int
	// Why the first of them failed.
	First error
}

func (e *BatchError) Error() string {
	return e.First.Error()
}

func (e *BatchError) Unwrap() error {
	return e.First
}

// lastError is that of the calling thread.
func lastError() error {
	return &Error{
		Kind:               Kind(C.fs_error_kind()),
		Message:            C.GoString(C.fs_error_message()),
		MayHaveTakenEffect: bool(C.fs_error_may_have_taken_effect()),
	}
}

func errClosed(what string) error {
	return &Error{Kind: ErrClosed, Message: "the " + what + " is closed"}
}
