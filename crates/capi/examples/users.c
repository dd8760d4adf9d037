/* Tables from C: one key, a batch, and a transaction. The address is the first argument: by default memory of its own.
 *
 *     cargo build --release -p farslot-capi
 *     cc crates/capi/examples/users.c -I crates/capi/include target/release/libfarslot_capi.a -lpthread -ldl -lm
 *     ./a.out tcp://node-1:7000
 */

#include "farslot.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *need(void *made) {
    if (made == NULL) {
        fprintf(stderr, "users: %s\n", fs_error_message());
        exit(1);
    }
    return made;
}

/* Most programs go on after some of these: fs_error_kind tells which. */
static fs_outcome done(fs_outcome outcome) {
    if (outcome == FS_ERROR || outcome == FS_CONFLICT) {
        fprintf(stderr, "users: %s\n", fs_error_message());
        exit(1);
    }
    return outcome;
}

static fs_bytes text(const char *text) {
    return (fs_bytes){(const uint8_t *)text, strlen(text)};
}

/* What an account has; nothing if there is none. */
static fs_outcome balance(fs_transaction *t, fs_table *accounts, fs_bytes who, int64_t *cents) {
    *cents = 0;
    return fs_transaction_get(t, accounts, who.data, who.len, (uint8_t *)cents, sizeof *cents, NULL);
}

static fs_outcome set(fs_transaction *t, fs_table *accounts, fs_bytes who, int64_t cents) {
    return fs_transaction_put(t, accounts, who.data, who.len, (const uint8_t *)&cents, sizeof cents);
}

/* Runs again after a conflict: so it changes nothing but by the transaction. */
static int transfer(fs_transaction *t, void *accounts) {
    int64_t ann, bob;
    if (balance(t, accounts, text("Ann"), &ann) != FS_FOUND || ann < 15) return 1;
    if (balance(t, accounts, text("Bob"), &bob) == FS_ERROR) return 1;
    if (set(t, accounts, text("Ann"), ann - 15) != FS_DONE) return 1;
    return set(t, accounts, text("Bob"), bob + 15) != FS_DONE;
}

int main(int argc, char **argv) {
    fs_store *store = need(fs_store_open(argc > 1 ? argv[1] : "embedded", NULL));

    done(fs_table_create(store, "users", NULL));
    fs_table *users = need(fs_table_open(store, "users", NULL));
    fs_bytes ada = text("ada"), name = text("Ada Lovelace");
    done(fs_table_put(users, ada.data, ada.len, name.data, name.len));
    char found[100];
    size_t len;
    if (done(fs_table_get(users, ada.data, ada.len, (uint8_t *)found, sizeof found, &len)) == FS_FOUND)
        printf("ada is %.*s\n", (int)len, found);

    fs_bytes keys[] = {ada, text("grace"), text("edith")};
    fs_bytes names[] = {name, text("Grace Hopper"), text("Edith Clarke")};
    fs_outcome outcomes[3];
    done(fs_table_put_many(users, keys, names, outcomes, 3));
    char rooms[3][100];
    fs_value values[3];
    for (size_t i = 0; i < 3; i++) values[i] = (fs_value){.to = (uint8_t *)rooms[i], .room = sizeof rooms[i]};
    done(fs_table_get_many(users, keys, values, 3));
    int there = 0;
    for (size_t i = 0; i < 3; i++) there += values[i].outcome == FS_FOUND && values[i].len == names[i].len;
    printf("%d of 3 are there\n", there);

    done(fs_table_create(store, "accounts", "capacity=1000 max_key=16 value_size=8 scheme=chained"));
    fs_table *accounts = need(fs_table_open(store, "accounts", NULL));
    int64_t cents = 100;
    done(fs_table_put(accounts, (const uint8_t *)"Ann", 3, (const uint8_t *)&cents, sizeof cents));
    if (done(fs_transact(store, transfer, accounts)) != FS_DONE) printf("Ann has too little\n");
    int64_t ann = 0, bob = 0;
    done(fs_table_get(accounts, (const uint8_t *)"Ann", 3, (uint8_t *)&ann, sizeof ann, NULL));
    done(fs_table_get(accounts, (const uint8_t *)"Bob", 3, (uint8_t *)&bob, sizeof bob, NULL));
    printf("Ann has %lld cents, Bob has %lld\n", (long long)ann, (long long)bob);

    fs_table_free(users);
    fs_table_free(accounts);
    fs_store_free(store);
    return 0;
}
