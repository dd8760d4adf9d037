// Moves money from one account to another.
package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/farslot/farslot/go"
)

func main() {
	address := "embedded" // or "shm://work", "tcp://node-1:7000", ...
	if len(os.Args) > 1 {
		address = os.Args[1]
	}
	if err := run(address); err != nil {
		log.Fatal(err)
	}
}

func run(address string) error {
	store, err := farslot.Open(address, nil)
	if err != nil {
		return err
	}
	defer store.Close()
	options := farslot.Options{"capacity": "1000", "max_key": "16", "value_size": "8", "scheme": "chained"}
	accounts, err := store.Create("accounts", options)
	if errors.Is(err, farslot.ErrTableExists) {
		accounts, err = store.Table("accounts")
	}
	if err != nil {
		return err
	}
	defer accounts.Close()
	names := [][]byte{[]byte("Ann"), []byte("Bob")}
	if _, err := accounts.PutMany(names, [][]byte{cents(100), cents(0)}); err != nil {
		return err
	}

	// Runs again after a conflict: so it changes nothing but by the transaction.
	err = store.Transact(func(t *farslot.Tx) error {
		for i, change := range []int64{-15, 15} {
			value, found, err := t.Get(accounts, names[i])
			if err != nil || !found {
				return errors.Join(err, fmt.Errorf("is there %s? %t", names[i], found))
			}
			has := int64(binary.LittleEndian.Uint64(value))
			if err := t.Put(accounts, names[i], cents(has+change)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}

	values, err := accounts.GetMany(names)
	if err != nil {
		return err
	}
	for i, value := range values {
		fmt.Printf("%s has %d cents\n", names[i], binary.LittleEndian.Uint64(value))
	}
	return nil
}

func cents(number int64) []byte {
	return binary.LittleEndian.AppendUint64(nil, uint64(number))
}
