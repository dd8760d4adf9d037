package farslot

// #include <farslot.h>
// #include <stdlib.h>
import "C"

import (
	"fmt"
	"unsafe"
)

// piece is how many keys are copied for C at a time.
const piece = 4096

// many is bytes of Go, copied to where C finds them; to be freed.
func many(all [][]byte) *C.fs_bytes {
	header := int(unsafe.Sizeof(C.fs_bytes{}))
	size := len(all) * header
	for _, one := range all {
		size += len(one)
	}
	memory := C.malloc(C.size_t(size))
	entries := unsafe.Slice((*C.fs_bytes)(memory), len(all))
	rest := unsafe.Slice((*byte)(memory), size)[len(all)*header:]
	for i, one := range all {
		entries[i] = C.fs_bytes{data: (*C.uint8_t)(unsafe.SliceData(rest)), len: C.size_t(len(one))}
		rest = rest[copy(rest, one):]
	}
	return (*C.fs_bytes)(memory)
}

// failures are those of a batch, by the pieces of it.
type failures struct {
	places []int
	first  error
}

func (f *failures) add(place int, err error) {
	if f.first == nil {
		f.first = err
	}
	f.places = append(f.places, place)
}

func (f *failures) err() error {
	if f.first == nil {
		return nil
	}
	return &BatchError{Failed: f.places, First: f.first}
}

// GetMany returns the values of keys, nil for those that are absent. If some lookups failed, the error is a
// [*BatchError]; the others are there all the same.
func (t *Table) GetMany(keys [][]byte) ([][]byte, error) {
	values := make([][]byte, len(keys))
	var failed failures
	for start := 0; start < len(keys); start += piece {
		end := min(start+piece, len(keys))
		places, rooms := make([]int, 0, end-start), make([]int, 0, end-start)
		for i := start; i < end; i++ {
			places, rooms = append(places, i), append(rooms, firstRoom)
		}
		// Once more with room for those that had too little, and singly for those that have grown meanwhile.
		places, rooms = t.fill(keys, values, places, rooms, &failed)
		places, _ = t.fill(keys, values, places, rooms, &failed)
		for _, i := range places {
			value, found, err := t.Get(keys[i])
			if err != nil {
				failed.add(i, err)
			} else if found {
				values[i] = value
			}
		}
	}
	return values, failed.err()
}

// fill looks up the keys of these places, each with so much room, and returns those that need more.
func (t *Table) fill(keys, values [][]byte, places, rooms []int, failed *failures) (longer, need []int) {
	if len(places) == 0 {
		return nil, nil
	}
	asked := make([][]byte, len(places))
	size := 0
	for i, place := range places {
		asked[i] = keys[place]
		size += rooms[i]
	}
	cKeys := many(asked)
	defer C.free(unsafe.Pointer(cKeys))
	memory := C.malloc(C.size_t(size + 1))
	defer C.free(memory)
	cValues := (*C.fs_value)(C.calloc(C.size_t(len(places)), C.size_t(unsafe.Sizeof(C.fs_value{}))))
	defer C.free(unsafe.Pointer(cValues))
	answers := unsafe.Slice(cValues, len(places))
	rest := unsafe.Slice((*byte)(memory), size+1)
	for i, room := range rooms {
		answers[i] = C.fs_value{to: (*C.uint8_t)(unsafe.SliceData(rest)), room: C.size_t(room), outcome: C.FS_ERROR}
		rest = rest[room:]
	}
	_, err := t.call(func() C.fs_outcome { return C.fs_table_get_many(t.c, cKeys, cValues, C.size_t(len(places))) })
	for i, place := range places {
		answer := &answers[i]
		switch answer.outcome {
		case C.FS_FOUND:
			values[place] = append([]byte{}, unsafe.Slice((*byte)(unsafe.Pointer(answer.to)), int(answer.len))...)
		case C.FS_TOO_LONG:
			longer, need = append(longer, place), append(need, int(answer.len))
		case C.FS_ERROR:
			failed.add(place, err)
		}
	}
	return longer, need
}

// change does a batch of changes in pieces, and notes of each whether it is of an outcome.
func change(
	t *Table,
	keys [][]byte,
	is C.fs_outcome,
	does func(start, end int, keys *C.fs_bytes, outcomes *C.fs_outcome, count C.size_t) C.fs_outcome,
) ([]bool, error) {
	changed := make([]bool, len(keys))
	var failed failures
	for start := 0; start < len(keys); start += piece {
		end := min(start+piece, len(keys))
		cKeys := many(keys[start:end])
		outcomes := make([]C.fs_outcome, end-start)
		for i := range outcomes {
			outcomes[i] = C.FS_ERROR
		}
		_, err := t.call(func() C.fs_outcome {
			return does(start, end, cKeys, unsafe.SliceData(outcomes), C.size_t(end-start))
		})
		C.free(unsafe.Pointer(cKeys))
		for i, outcome := range outcomes {
			changed[start+i] = outcome == is
			if outcome == C.FS_ERROR {
				failed.add(start+i, err)
			}
		}
	}
	return changed, failed.err()
}

// PutMany sets the values of keys, and returns of each whether it was absent. If some failed, the error is a
// [*BatchError]; the others are done. If a key occurs more than once, which value wins is unspecified.
func (t *Table) PutMany(keys, values [][]byte) (inserted []bool, err error) {
	if len(keys) != len(values) {
		said := fmt.Sprintf("there are %d keys and %d values", len(keys), len(values))
		return nil, &Error{Kind: ErrBadInput, Message: said}
	}
	return change(t, keys, C.FS_INSERTED,
		func(start, end int, keys *C.fs_bytes, outcomes *C.fs_outcome, count C.size_t) C.fs_outcome {
			cValues := many(values[start:end])
			defer C.free(unsafe.Pointer(cValues))
			return C.fs_table_put_many(t.c, keys, cValues, outcomes, count)
		})
}

// DeleteMany removes keys, and returns of each whether it was there. If some failed, the error is a [*BatchError]; the
// others are done.
func (t *Table) DeleteMany(keys [][]byte) (found []bool, err error) {
	return change(t, keys, C.FS_FOUND,
		func(_, _ int, keys *C.fs_bytes, outcomes *C.fs_outcome, count C.size_t) C.fs_outcome {
			return C.fs_table_delete_many(t.c, keys, outcomes, count)
		})
}
