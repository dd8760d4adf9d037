/* A program whose node ends while it waits for a line. */

#include "farslot.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(int holds, const char *what, int line) {
    if (!holds) {
        fprintf(stderr, "line %d: %s: kind %d: %s\n", line, what, (int)fs_error_kind(), fs_error_message());
        exit(1);
    }
}
#define CHECK(what) check((what), #what, __LINE__)
#define KEY (const uint8_t *)"key", 3

static int reads(fs_transaction *t, void *table) {
    uint8_t room[8];
    return fs_transaction_get(t, table, KEY, room, sizeof room, NULL) != FS_FOUND;
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    CHECK(fs_store_open(argv[1], NULL) == NULL && fs_error_kind() == FS_KIND_ACCESS_DENIED);
    CHECK(fs_store_open(argv[1], "secret='another secret than that'") == NULL);
    CHECK(fs_error_kind() == FS_KIND_ACCESS_DENIED && strstr(fs_error_message(), "another") == NULL);
    fs_store *store = fs_store_open(argv[1], argv[2]);
    CHECK(store != NULL);
    CHECK(fs_table_create(store, "t", "capacity=100 max_key=8 max_value=8 scheme=chained") == FS_DONE);
    fs_table *table = fs_table_open(store, "t", NULL);
    CHECK(table != NULL && fs_table_put(table, KEY, KEY) == FS_INSERTED);
    CHECK(fs_transact(store, reads, table) == FS_DONE);
    puts("ready");
    fflush(stdout);
    CHECK(getchar() == 'o');
    uint8_t room[8];
    CHECK(fs_table_get(table, KEY, room, sizeof room, NULL) == FS_ERROR);
    CHECK(fs_error_kind() == FS_KIND_NODE_DOWN || fs_error_kind() == FS_KIND_TIMED_OUT);
    fs_bytes key = {KEY};
    fs_value value = {.to = room, .room = sizeof room};
    CHECK(fs_table_get_many(table, &key, &value, 1) == FS_ERROR && value.outcome == FS_ERROR);
    CHECK(fs_error_kind() == FS_KIND_NODE_DOWN || fs_error_kind() == FS_KIND_TIMED_OUT);
    CHECK(fs_transact(store, reads, table) == FS_ERROR);
    CHECK(fs_error_kind() == FS_KIND_NODE_DOWN || fs_error_kind() == FS_KIND_TIMED_OUT);
    CHECK(fs_table_create(store, "u", NULL) == FS_ERROR);
    /* Closing does not hang. */
    fs_table_free(table);
    fs_store_free(store);
    return 0;
}
