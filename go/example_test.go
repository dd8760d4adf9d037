package farslot_test

import (
	"errors"
	"fmt"
	"log"
	"strconv"

	"github.com/farslot/farslot/go"
)

func Example() {
	store, err := farslot.Open("embedded", nil) // or "shm://work", "tcp://node-1:7000", ...
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	users, err := store.Create("users", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer users.Close()
	if _, err := users.Put([]byte("ada"), []byte("Ada Lovelace")); err != nil {
		log.Fatal(err)
	}
	keys := [][]byte{[]byte("ada"), []byte("grace")}
	values, err := users.GetMany(keys)
	if err != nil {
		log.Fatal(err)
	}
	for i, value := range values {
		fmt.Printf("%s: %q\n", keys[i], value)
	}
	// Output:
	// ada: "Ada Lovelace"
	// grace: ""
}

func ExampleStore_Transact() {
	store, err := farslot.Open("embedded", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	accounts, err := store.Create("accounts", farslot.Options{"scheme": "chained", "capacity": "1000", "max_value": "20"})
	if err != nil {
		log.Fatal(err)
	}
	defer accounts.Close()
	if _, err := accounts.Put([]byte("Ann"), []byte("100")); err != nil {
		log.Fatal(err)
	}
	add := func(tx *farslot.Tx, who string, cents int) error {
		text, _, err := tx.Get(accounts, []byte(who))
		if err != nil {
			return err
		}
		has, _ := strconv.Atoi(string(text)) // 0 of an account that is new
		if has+cents < 0 {
			return errors.New(who + " has too little")
		}
		return tx.Put(accounts, []byte(who), []byte(strconv.Itoa(has+cents)))
	}
	err = store.Transact(func(tx *farslot.Tx) error {
		if err := add(tx, "Ann", -15); err != nil {
			return err
		}
		return add(tx, "Bob", 15)
	})
	if err != nil {
		log.Fatal(err)
	}
	ann, _, _ := accounts.Get([]byte("Ann"))
	bob, _, _ := accounts.Get([]byte("Bob"))
	fmt.Printf("Ann has %s cents, Bob has %s\n", ann, bob)
	// Output: Ann has 85 cents, Bob has 15
}
