package farslot_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/farslot/farslot/go"
)

// node starts a memory node for the test, by the program that FARSLOT_PROGRAM names.
func node(t *testing.T, arguments ...string) (address string, end func()) {
	t.Helper()
	program := os.Getenv("FARSLOT_PROGRAM")
	if program == "" {
		t.Skip("NOT TESTED: FARSLOT_PROGRAM names no program farslot (scripts/test-go does)")
	}
	arguments = append([]string{"serve", "tcp://127.0.0.1:0", "--memory", "256MiB"}, arguments...)
	command := exec.Command(program, arguments...)
	output, err := command.StdoutPipe()
	must(t, err)
	must(t, command.Start())
	end = func() {
		command.Process.Kill()
		command.Wait()
	}
	t.Cleanup(end)
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		for _, word := range strings.Fields(lines.Text()) {
			if strings.HasPrefix(word, "tcp://") {
				go func() {
					for lines.Scan() {
					}
				}()
				return word, end
			}
		}
	}
	t.Fatal("the node ended before it served")
	return
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func want[T any](t *testing.T, got, expected T) {
	t.Helper()
	if !reflect.DeepEqual(got, expected) {
		t.Fatalf("got %v, expected %v", got, expected)
	}
}

func fails(t *testing.T, err error, kind farslot.Kind, says string) {
	t.Helper()
	if !errors.Is(err, kind) || !strings.Contains(err.Error(), says) {
		t.Fatalf("expected an error of the kind %q with %q, got: %v", kind, says, err)
	}
}

func open(t *testing.T, address string, options farslot.Options) *farslot.Store {
	t.Helper()
	store, err := farslot.Open(address, options)
	must(t, err)
	t.Cleanup(store.Close)
	return store
}

func create(t *testing.T, store *farslot.Store, name string, options farslot.Options) *farslot.Table {
	t.Helper()
	table, err := store.Create(name, options)
	must(t, err)
	t.Cleanup(table.Close)
	return table
}

// everywhere runs a test over a store of this process, and over one of a node.
func everywhere(t *testing.T, test func(t *testing.T, store *farslot.Store)) {
	t.Run("embedded", func(t *testing.T) {
		test(t, open(t, "embedded", farslot.Options{"memory": "256MiB"}))
	})
	t.Run("tcp", func(t *testing.T) {
		address, _ := node(t)
		test(t, open(t, address, nil))
	})
}

func TestOneKey(t *testing.T) {
	everywhere(t, func(t *testing.T, store *farslot.Store) {
		table := create(t, store, "t", nil)
		ada := []byte("ada")
		value, found, err := table.Get(ada)
		must(t, err)
		want(t, found, false)
		want(t, value, nil)
		inserted, err := table.Put(ada, []byte("Ada Lovelace"))
		must(t, err)
		want(t, inserted, true)
		long := bytes.Repeat([]byte("long "), 10_000)
		inserted, err = table.Put(ada, long)
		must(t, err)
		want(t, inserted, false)
		value, found, err = table.Get(ada)
		must(t, err)
		want(t, found && bytes.Equal(value, long), true)
		_, err = table.Put(ada, nil)
		must(t, err)
		value, found, err = table.Get(ada)
		must(t, err)
		want(t, found, true)
		want(t, value, []byte{})

		for _, step := range []struct {
			expected, value []byte
			isSet           bool
		}{
			{nil, []byte("a"), false},
			{[]byte("a"), []byte("b"), false},
			{[]byte{}, []byte("b"), true},
			{[]byte("b"), []byte{}, true},
		} {
			isSet, err := table.CompareAndSet(ada, step.expected, step.value)
			must(t, err)
			want(t, isSet, step.isSet)
		}
		isSet, err := table.CompareAndSet([]byte("bob"), nil, nil)
		must(t, err)
		want(t, isSet, true)
		sum, err := table.Increment([]byte("visits"), 42)
		must(t, err)
		want(t, sum, 42)
		_, err = table.PutFor([]byte("code"), []byte("314159"), time.Hour)
		must(t, err)
		_, err = table.PutFor([]byte("past"), []byte("314159"), -time.Hour)
		fails(t, err, farslot.ErrBadInput, "-1h")
		count, err := table.Count()
		must(t, err)
		want(t, count, 4)
		there, err := table.Contains([]byte("code"))
		must(t, err)
		want(t, there, true)
		for _, found := range []bool{true, false} {
			deleted, err := table.Delete([]byte("code"))
			must(t, err)
			want(t, deleted, found)
		}
		_, _, err = table.Get(nil)
		fails(t, err, farslot.ErrDoesNotFit, "")
		names, err := store.Tables()
		must(t, err)
		want(t, names, []string{"t"})
	})
}

func TestBatches(t *testing.T) {
	everywhere(t, func(t *testing.T, store *farslot.Store) {
		table := create(t, store, "t", farslot.Options{"max_value": "2000"})
		var keys, values [][]byte
		for i := range 10_000 {
			keys = append(keys, []byte("key "+strconv.Itoa(i)))
			values = append(values, bytes.Repeat([]byte{byte(i)}, i%300))
		}
		values[9_000] = bytes.Repeat([]byte{7}, 2000)
		inserted, err := table.PutMany(keys, values)
		must(t, err)
		want(t, slices.Contains(inserted, false), false)
		found, err := table.DeleteMany(keys[:2])
		must(t, err)
		want(t, found, []bool{true, true})
		values[0], values[1] = nil, nil
		got, err := table.GetMany(keys)
		must(t, err)
		for i := range keys {
			if !bytes.Equal(got[i], values[i]) || (got[i] == nil) != (i < 2) {
				t.Fatalf("key %d: %v", i, got[i])
			}
		}
		// Those that fail are told from the others, which are done.
		values[3], values[8_000] = make([]byte, 2001), make([]byte, 2002)
		inserted, err = table.PutMany(keys, values)
		fails(t, err, farslot.ErrDoesNotFit, "2001 bytes")
		var batch *farslot.BatchError
		want(t, errors.As(err, &batch), true)
		want(t, batch.Failed, []int{3, 8_000})
		want(t, inserted[:5], []bool{true, true, false, false, false})
		keys[1] = nil
		got, err = table.GetMany(keys[:3])
		fails(t, err, farslot.ErrDoesNotFit, "")
		want(t, errors.As(err, &batch) && slices.Equal(batch.Failed, []int{1}), true)
		want(t, got[0] != nil && got[1] == nil && got[2] != nil, true)
		_, err = table.PutMany(keys, values[1:])
		fails(t, err, farslot.ErrBadInput, "10000 keys and 9999 values")
		got, err = table.GetMany(nil)
		must(t, err)
		want(t, len(got), 0)
	})
}

func TestQueues(t *testing.T) {
	everywhere(t, func(t *testing.T, store *farslot.Store) {
		jobs := create(t, store, "jobs", farslot.Options{"scheme": "queue", "capacity": "2", "max_value": "1000"})
		must(t, jobs.Push([]byte("one")))
		must(t, jobs.Push([]byte("two")))
		fails(t, jobs.Push([]byte("three")), farslot.ErrFull, "\"jobs\" is full")
		for _, expected := range []string{"one", "two", ""} {
			item, found, err := jobs.Pop()
			must(t, err)
			want(t, string(item), expected)
			want(t, found, expected != "")
		}
		_, err := jobs.Put([]byte("key"), nil)
		fails(t, err, farslot.ErrUnsupported, "queue")
	})
}

// Goroutines count up a number by transactions, and others by increments, on any threads.
func TestGoroutines(t *testing.T) {
	everywhere(t, func(t *testing.T, store *farslot.Store) {
		accounts := create(t, store, "accounts", farslot.Options{"scheme": "chained", "capacity": "100", "max_value": "20"})
		plain := create(t, store, "plain", nil)
		number := []byte("number")
		const goroutines, each = 8, 40
		var group sync.WaitGroup
		failed := make(chan error, 2*goroutines*each)
		for g := range goroutines {
			group.Add(2)
			go func() {
				defer group.Done()
				for range each {
					failed <- store.Transact(func(tx *farslot.Tx) error {
						text, _, err := tx.Get(accounts, number)
						if err != nil {
							return err
						}
						count, _ := strconv.Atoi(string(text))
						runtime.Gosched()
						return tx.Put(accounts, number, []byte(strconv.Itoa(count+1)))
					})
				}
			}()
			go func() {
				defer group.Done()
				for i := range each {
					key := fmt.Appendf(nil, "%d-%d", g, i)
					_, err := plain.Put(key, key)
					failed <- err
					if value, _, _ := plain.Get(key); !bytes.Equal(value, key) {
						failed <- fmt.Errorf("%q has %q", key, value)
					}
					plain.Increment(number, 1)
				}
			}()
		}
		group.Wait()
		close(failed)
		for err := range failed {
			must(t, err)
		}
		for _, table := range []*farslot.Table{accounts, plain} {
			value, _, err := table.Get(number)
			must(t, err)
			want(t, string(value), strconv.Itoa(goroutines*each))
		}
	})
}

func TestTransactions(t *testing.T) {
	everywhere(t, func(t *testing.T, store *farslot.Store) {
		table := create(t, store, "t", farslot.Options{"scheme": "ordered", "capacity": "100", "max_value": "1000"})
		plain := create(t, store, "plain", nil)
		key, other := []byte("key"), []byte("other")
		long := bytes.Repeat([]byte("long"), 250)
		must(t, store.Transact(func(tx *farslot.Tx) error {
			inserted, err := tx.Insert(table, key, long)
			must(t, err)
			want(t, inserted, true)
			inserted, err = tx.Insert(table, key, long)
			must(t, err)
			want(t, inserted, false)
			value, found, err := tx.Get(table, key)
			must(t, err)
			want(t, found && bytes.Equal(value, long), true)
			_, found, err = tx.Get(table, other)
			must(t, err)
			want(t, found, false)
			return nil
		}))
		// One that returns an error changes nothing.
		stop := errors.New("stop")
		want(t, store.Transact(func(tx *farslot.Tx) error {
			found, err := tx.Delete(table, key)
			must(t, err)
			want(t, found, true)
			return stop
		}), stop)
		// So does one that panics, and its panic goes on.
		func() {
			defer func() { want(t, recover(), any("no more")) }()
			store.Transact(func(tx *farslot.Tx) error {
				must(t, tx.Put(table, other, nil))
				panic("no more")
			})
		}()
		// A step that fails has the whole of it fail, whatever the body returns.
		fails(t, store.Transact(func(tx *farslot.Tx) error {
			fails(t, tx.Put(plain, key, nil), farslot.ErrUnsupported, "\"plain\"")
			return nil
		}), farslot.ErrUnsupported, "\"plain\"")
		runs := 0
		must(t, store.Transact(func(tx *farslot.Tx) error {
			_, _, err := tx.Get(table, key)
			if runs++; err == nil && runs == 1 {
				_, err = table.Put(key, []byte("another was faster"))
			}
			if err != nil {
				return err
			}
			return tx.Put(table, other, key)
		}))
		want(t, runs, 2)
		got, err := table.GetMany([][]byte{key, other})
		must(t, err)
		want(t, got, [][]byte{[]byte("another was faster"), key})
		// It is the body's alone.
		var kept *farslot.Tx
		must(t, store.Transact(func(tx *farslot.Tx) error {
			kept = tx
			done := make(chan error)
			go func() {
				_, _, err := tx.Get(table, key)
				done <- err
			}()
			fails(t, <-done, farslot.ErrBadInput, "another thread")
			return nil
		}))
		fails(t, kept.Put(table, key, nil), farslot.ErrClosed, "transaction")
		elsewhere := create(t, open(t, "embedded", farslot.Options{"memory": "16MiB"}), "e", nil)
		fails(t, store.Transact(func(tx *farslot.Tx) error {
			return tx.Put(elsewhere, key, nil)
		}), farslot.ErrBadInput, "another store")
	})
}

func TestErrors(t *testing.T) {
	_, err := farslot.Open("rdma://host", nil)
	fails(t, err, farslot.ErrBadInput, "\"rdma\"")
	_, err = farslot.Open("tcp://127.0.0.1:1", farslot.Options{"connect_timeout": "1"})
	fails(t, err, farslot.ErrNodeDown, "127.0.0.1:1")
	_, err = farslot.Open("a\x00b", nil)
	fails(t, err, farslot.ErrBadInput, "zero")
	_, err = farslot.Open("embedded", farslot.Options{"secret": `both ' and "`})
	fails(t, err, farslot.ErrBadInput, "both quotes")
	_, err = farslot.Open("embedded", farslot.Options{"colour": "red"})
	fails(t, err, farslot.ErrBadInput, "option = colour is not possible: one of memory")

	store := open(t, "embedded", farslot.Options{"memory": "64MiB"})
	table := create(t, store, "t", farslot.Options{"capacity": "8", "key_size": "1", "value_size": "8"})
	_, err = store.Create("t", nil)
	fails(t, err, farslot.ErrTableExists, "\"t\"")
	_, err = store.Table("none")
	fails(t, err, farslot.ErrNoSuchTable, "\"none\"")
	_, err = store.Table("no\x00ne")
	fails(t, err, farslot.ErrBadInput, "zero")
	_, err = store.Create("u", farslot.Options{"scheme": "oak"})
	fails(t, err, farslot.ErrBadInput, "linear")
	_, err = table.Put([]byte("too long"), nil)
	fails(t, err, farslot.ErrDoesNotFit, "8 bytes")
	for i := byte(0); err == nil || errors.Is(err, farslot.ErrDoesNotFit); i++ {
		_, err = table.Put([]byte{i}, make([]byte, 8))
	}
	fails(t, err, farslot.ErrFull, "")
	must(t, store.Drop("t"))
	_, err = table.Count()
	fails(t, err, farslot.ErrTableGone, "")

	other := create(t, store, "other", nil)
	other.Close()
	other.Close()
	_, _, err = other.Get([]byte("key"))
	fails(t, err, farslot.ErrClosed, "table")
	store.Close()
	fails(t, store.Drop("t"), farslot.ErrClosed, "store")
	_, err = store.Tables()
	fails(t, err, farslot.ErrClosed, "store")
	fails(t, store.Transact(func(*farslot.Tx) error { return nil }), farslot.ErrClosed, "store")
}

func TestSecretsAndOutages(t *testing.T) {
	secret := "a secret that has spaces"
	file := filepath.Join(t.TempDir(), "a secret")
	must(t, os.WriteFile(file, []byte(secret), 0o600))
	address, end := node(t, "--secret-file", file)
	_, err := farslot.Open(address, nil)
	fails(t, err, farslot.ErrAccessDenied, "")
	open(t, address, farslot.Options{"secret": secret})
	store := open(t, address, farslot.Options{"secret_file": file, "timeout": "2"})
	table := create(t, store, "t", nil)
	_, err = table.Put([]byte("key"), []byte("value"))
	must(t, err)
	end()
	_, _, err = table.Get([]byte("key"))
	if !errors.Is(err, farslot.ErrNodeDown) && !errors.Is(err, farslot.ErrTimedOut) {
		t.Fatal(err)
	}
	_, err = table.GetMany([][]byte{[]byte("key")})
	var batch *farslot.BatchError
	want(t, errors.As(err, &batch), true)
}

// What nobody has any more is closed when the collector finds it, and not while a call uses it.
func TestForgottenTablesAreClosed(t *testing.T) {
	for range 20 {
		store, err := farslot.Open("embedded", farslot.Options{"memory": "16MiB"})
		must(t, err)
		table, err := store.Create("t", nil)
		must(t, err)
		_, err = table.Put([]byte("key"), []byte("value"))
		must(t, err)
		runtime.GC()
	}
	// Each table had a thread of its own.
	for range 100 {
		runtime.GC()
		tasks, err := os.ReadDir("/proc/self/task")
		must(t, err)
		names := 0
		for _, task := range tasks {
			name, _ := os.ReadFile("/proc/self/task/" + task.Name() + "/comm")
			if strings.HasPrefix(string(name), "farslot-handle") {
				names++
			}
		}
		if names == 0 {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatal("tables that nobody has stay open")
}

// run runs a Go program, and returns what it prints.
func run(t *testing.T, program string, arguments ...string) string {
	t.Helper()
	command := exec.Command("go", append([]string{"run", program}, arguments...)...)
	command.Stderr = os.Stderr
	output, err := command.Output()
	must(t, err)
	return string(output)
}

func TestTheExampleMovesMoney(t *testing.T) {
	const moved = "Ann has 85 cents\nBob has 15 cents\n"
	want(t, run(t, "./examples/accounts"), moved)
	address, _ := node(t)
	want(t, run(t, "./examples/accounts", address), moved)
}

// The blocks of Go in the book are whole programs.
func TestTheBooksProgram(t *testing.T) {
	page, err := os.ReadFile("../docs/guide/go.md")
	must(t, err)
	blocks := strings.Split(string(page), "\n```go\n")[1:]
	want(t, len(blocks), 1)
	source := filepath.Join(t.TempDir(), "main.go")
	program, _, _ := strings.Cut(blocks[0], "```")
	must(t, os.WriteFile(source, []byte(program), 0o600))
	want(t, run(t, source), "Ada Lovelace true <nil>\ntrue\n")
}
