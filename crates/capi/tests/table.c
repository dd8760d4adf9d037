/* Tables at an address: what a program asks for, by two threads; and what it is told where it asks for what cannot be. */

#include "farslot.h"
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define BATCH 5000

/* Transactions of a thread: fewer where each is slow. */
static int each = 300;

static void check(int holds, const char *what, int line) {
    if (!holds) {
        fprintf(stderr, "line %d: %s: kind %d: %s\n", line, what, (int)fs_error_kind(), fs_error_message());
        exit(1);
    }
}
#define CHECK(what) check((what), #what, __LINE__)
/* A call that fails, of what kind, and what is said of it. */
#define FAILS(call, of_kind, said) \
    CHECK((call) == FS_ERROR && fs_error_kind() == (of_kind) && strstr(fs_error_message(), (said)) != NULL)
#define NOTHING(call, of_kind, said) \
    CHECK((call) == NULL && fs_error_kind() == (of_kind) && strstr(fs_error_message(), (said)) != NULL)
/* A text as bytes and their number. */
#define T(text) (const uint8_t *)(text), strlen(text)

static fs_store *opened(const char *address, const char *options) {
    fs_store *store = fs_store_open(address, options);
    CHECK(store != NULL);
    return store;
}

static fs_table *table(fs_store *store, const char *name, const char *options) {
    CHECK(fs_table_create(store, name, options) == FS_DONE);
    fs_table *table = fs_table_open(store, name, NULL);
    CHECK(table != NULL);
    return table;
}

static int has(fs_table *table, const char *key, const char *value) {
    uint8_t room[64];
    size_t len;
    return fs_table_get(table, T(key), room, sizeof room, &len) == FS_FOUND && len == strlen(value) &&
           memcmp(room, value, len) == 0;
}

static void one_key(fs_store *store) {
    fs_table *t = table(store, "one", NULL);
    uint8_t room[8];
    size_t len = 99;
    CHECK(fs_table_get(t, T("ada"), room, sizeof room, &len) == FS_ABSENT);
    CHECK(fs_table_contains_key(t, T("ada")) == FS_ABSENT);
    CHECK(fs_table_put(t, T("ada"), T("Ada Lovelace")) == FS_INSERTED);
    CHECK(fs_table_put(t, T("ada"), T("Countess")) == FS_REPLACED);
    CHECK(fs_table_contains_key(t, T("ada")) == FS_FOUND && has(t, "ada", "Countess"));
    /* Nothing is copied that has no room, and the length is told. */
    memset(room, '.', sizeof room);
    CHECK(fs_table_get(t, T("ada"), room, 7, &len) == FS_TOO_LONG && len == 8 && room[0] == '.');
    CHECK(fs_table_get(t, T("ada"), room, 8, NULL) == FS_FOUND && room[7] == 's');
    CHECK(fs_table_get(t, T("ada"), NULL, 0, &len) == FS_TOO_LONG && len == 8);
    CHECK(fs_table_compare_and_set(t, T("ada"), T("Countess"), T("Ada")) == FS_REPLACED);
    CHECK(fs_table_compare_and_set(t, T("ada"), T("Countess"), T("Ada")) == FS_DIFFERS);
    CHECK(fs_table_compare_and_set(t, T("ada"), NULL, 0, T("Ada")) == FS_DIFFERS);
    CHECK(fs_table_compare_and_set(t, T("bob"), NULL, 0, T("Bob")) == FS_INSERTED);
    CHECK(fs_table_compare_and_set(t, T("nil"), T(""), T("x")) == FS_DIFFERS);
    CHECK(fs_table_put(t, T("nil"), NULL, 0) == FS_INSERTED);
    CHECK(fs_table_get(t, T("nil"), NULL, 0, &len) == FS_FOUND && len == 0);
    CHECK(fs_table_compare_and_set(t, T("nil"), T(""), T("x")) == FS_REPLACED);
    int64_t sum = 0;
    CHECK(fs_table_increment(t, T("visits"), 41, &sum) == FS_DONE && sum == 41);
    CHECK(fs_table_increment(t, T("visits"), 1, NULL) == FS_DONE && has(t, "visits", "42"));
    FAILS(fs_table_increment(t, T("ada"), 1, &sum), FS_KIND_DOES_NOT_FIT, "\"Ada\"");
    CHECK(fs_table_put_for(t, T("code"), T("314159"), 1) == FS_INSERTED);
    for (int i = 0; i < 1000 && fs_table_contains_key(t, T("code")) == FS_FOUND; i++) usleep(5000);
    CHECK(fs_table_contains_key(t, T("code")) == FS_ABSENT);
    /* Whether what has expired is still stored is not the program's business. */
    CHECK(fs_table_put_for(t, T("code"), T("314159"), 3600000) != FS_ERROR && has(t, "code", "314159"));
    uint64_t count;
    CHECK(fs_table_count(t, &count) == FS_DONE && count == 5);
    CHECK(fs_table_delete(t, T("code")) == FS_FOUND && fs_table_delete(t, T("code")) == FS_ABSENT);
    CHECK(fs_table_count(t, &count) == FS_DONE && count == 4);
    fs_table_free(t);
}

static void many_keys(fs_store *store) {
    fs_table *t = table(store, "many", "capacity=10_000 key_size=8 max_value=100");
    static uint64_t numbers[BATCH];
    static fs_bytes keys[BATCH], texts[BATCH];
    static fs_value values[BATCH];
    static fs_outcome outcomes[BATCH];
    static char text[BATCH][32], back[BATCH][32];
    for (size_t i = 0; i < BATCH; i++) {
        numbers[i] = i;
        keys[i] = (fs_bytes){(const uint8_t *)&numbers[i], 8};
        texts[i] = (fs_bytes){(const uint8_t *)text[i], snprintf(text[i], 32, "the text of %zu", i)};
        values[i] = (fs_value){.to = (uint8_t *)back[i], .room = 32};
    }
    CHECK(fs_table_put_many(t, keys, texts, outcomes, BATCH) == FS_DONE);
    for (size_t i = 0; i < BATCH; i++) CHECK(outcomes[i] == FS_INSERTED);
    CHECK(fs_table_delete_many(t, keys, outcomes, 10) == FS_DONE);
    for (size_t i = 0; i < 10; i++) CHECK(outcomes[i] == FS_FOUND);
    CHECK(fs_table_delete_many(t, keys, outcomes, 1) == FS_DONE && outcomes[0] == FS_ABSENT);
    values[BATCH - 1].room = 3;
    CHECK(fs_table_get_many(t, keys, values, BATCH) == FS_DONE);
    for (size_t i = 0; i < BATCH - 1; i++) {
        CHECK(values[i].outcome == (i < 10 ? FS_ABSENT : FS_FOUND));
        if (i >= 10) CHECK(values[i].len == texts[i].len && memcmp(back[i], text[i], texts[i].len) == 0);
    }
    CHECK(values[BATCH - 1].outcome == FS_TOO_LONG && values[BATCH - 1].len == texts[BATCH - 1].len);
    /* Those that fail are told from the others, which are done. */
    keys[1].len = 7;
    texts[4800] = (fs_bytes){(const uint8_t *)text, 101};
    FAILS(fs_table_put_many(t, keys, texts, outcomes, BATCH), FS_KIND_DOES_NOT_FIT, "7 bytes");
    for (size_t i = 0; i < BATCH; i++)
        CHECK(outcomes[i] == (i == 1 || i == 4800 ? FS_ERROR : i < 10 ? FS_INSERTED : FS_REPLACED));
    FAILS(fs_table_get_many(t, keys, values, 3), FS_KIND_DOES_NOT_FIT, "7 bytes");
    CHECK(values[0].outcome == FS_FOUND && values[1].outcome == FS_ERROR && values[2].outcome == FS_FOUND);
    FAILS(fs_table_delete_many(t, keys, outcomes, 3), FS_KIND_DOES_NOT_FIT, "7 bytes");
    CHECK(outcomes[0] == FS_FOUND && outcomes[1] == FS_ERROR && outcomes[2] == FS_FOUND);
    /* What cannot be: nothing is done. */
    keys[1] = (fs_bytes){NULL, 8};
    FAILS(fs_table_put_many(t, keys, texts, outcomes, BATCH), FS_KIND_BAD_INPUT, "no keys");
    keys[1] = (fs_bytes){(const uint8_t *)text, SIZE_MAX};
    FAILS(fs_table_get_many(t, keys, values, 3), FS_KIND_BAD_INPUT, "over the limit of 4294967295");
    values[1] = (fs_value){.to = NULL, .room = 1};
    keys[1] = keys[2];
    FAILS(fs_table_get_many(t, keys, values, 3), FS_KIND_BAD_INPUT, "nowhere");
    FAILS(fs_table_get_many(t, keys, values, SIZE_MAX), FS_KIND_BAD_INPUT, "more than memory holds");
    FAILS(fs_table_get_many(t, NULL, values, 3), FS_KIND_BAD_INPUT, "no keys");
    FAILS(fs_table_get_many(t, keys, NULL, 3), FS_KIND_BAD_INPUT, "no values");
    FAILS(fs_table_put_many(t, keys, texts, NULL, 3), FS_KIND_BAD_INPUT, "no outcomes");
    FAILS(fs_table_put_many(t, keys, NULL, outcomes, 3), FS_KIND_BAD_INPUT, "no values");
    FAILS(fs_table_delete_many(NULL, keys, outcomes, 3), FS_KIND_BAD_INPUT, "no table");
    CHECK(fs_table_get_many(t, NULL, NULL, 0) == FS_DONE);
    CHECK(fs_table_put_many(t, NULL, NULL, NULL, 0) == FS_DONE);
    CHECK(fs_table_delete_many(t, NULL, NULL, 0) == FS_DONE);
    fs_table_free(t);
}

static void queue(fs_store *store) {
    fs_table *t = table(store, "jobs", "capacity=2 max_value=20 scheme=queue");
    uint8_t room[20];
    size_t len = 0;
    CHECK(fs_queue_pop(t, room, sizeof room, &len) == FS_ABSENT);
    CHECK(fs_queue_push(t, T("one")) == FS_DONE && fs_queue_push(t, T("two")) == FS_DONE);
    FAILS(fs_queue_push(t, T("three")), FS_KIND_FULL, "\"jobs\" is full");
    /* The longest must have room, so that no item is lost. */
    CHECK(fs_queue_pop(t, room, 19, &len) == FS_TOO_LONG && len == 20);
    CHECK(fs_queue_pop(t, room, sizeof room, &len) == FS_FOUND && len == 3 && memcmp(room, "one", 3) == 0);
    uint64_t count;
    CHECK(fs_table_count(t, &count) == FS_DONE && count == 1);
    FAILS(fs_queue_push(t, T("an item of 21 bytes..")), FS_KIND_DOES_NOT_FIT, "21 bytes");
    FAILS(fs_table_put(t, T("key"), T("value")), FS_KIND_UNSUPPORTED, "queue");
    fs_table_free(t);
}

/* Two threads count up a number, each by its own transactions; and one by increments. */
struct counts {
    fs_store *store;
    fs_table *accounts, *ledger, *plain;
    int thread, runs;
};

static int count_up(fs_transaction *t, void *at) {
    struct counts *counts = at;
    counts->runs++;
    uint64_t number = 0;
    size_t len = 8;
    fs_outcome got = fs_transaction_get(t, counts->accounts, T("number"), (uint8_t *)&number, 8, &len);
    if (got != FS_FOUND && got != FS_ABSENT) return 1;
    CHECK(len == 8);
    number++;
    fs_outcome put = fs_transaction_put(t, counts->accounts, T("number"), (const uint8_t *)&number, 8);
    if (put != FS_DONE) return 1;
    char entry[32];
    snprintf(entry, sizeof entry, "%06" PRIu64, number);
    fs_outcome inserted = fs_transaction_insert(t, counts->ledger, T(entry), T("up"));
    /* One that is there was committed since the number was read: the commit will say so. */
    return inserted != FS_INSERTED && inserted != FS_FOUND;
}

static void *count(void *at) {
    struct counts *counts = at;
    for (int i = 0; i < each; i++) {
        CHECK(fs_transact(counts->store, count_up, counts) == FS_DONE);
        CHECK(fs_table_increment(counts->plain, T("number"), 1, NULL) == FS_DONE);
        char key[32];
        snprintf(key, sizeof key, "%d-%d", counts->thread, i);
        CHECK(fs_table_put(counts->plain, T(key), T(key)) == FS_INSERTED && has(counts->plain, key, key));
    }
    return NULL;
}

static int gives_up(fs_transaction *t, void *at) {
    struct counts *counts = at;
    CHECK(fs_transaction_delete(t, counts->accounts, T("number")) == FS_FOUND);
    CHECK(fs_transaction_delete(t, counts->accounts, T("number")) == FS_ABSENT);
    CHECK(fs_transaction_insert(t, counts->ledger, T("000001"), T("again")) == FS_FOUND);
    uint8_t room[8];
    size_t len;
    CHECK(fs_transaction_get(t, counts->ledger, T("000001"), room, 1, &len) == FS_TOO_LONG && len == 2);
    return -1;
}

static int fails(fs_transaction *t, void *at) {
    struct counts *counts = at;
    CHECK(fs_transaction_put(t, counts->accounts, T("new"), T("12345678")) == FS_DONE);
    FAILS(fs_transaction_put(t, counts->plain, T("a"), T("b")), FS_KIND_UNSUPPORTED, "takes no part in transactions");
    /* Whatever the body makes of it. */
    return 0;
}

static int too_long(fs_transaction *t, void *at) {
    struct counts *counts = at;
    FAILS(fs_transaction_put(t, counts->accounts, T("new"), T("123456789")), FS_KIND_DOES_NOT_FIT, "9 bytes");
    return 0;
}

static int of_another_store(fs_transaction *t, void *at) {
    FAILS(fs_transaction_put(t, at, T("a"), T("b")), FS_KIND_BAD_INPUT, "of another store");
    return 1;
}

static void *elsewhere(void *t) {
    uint8_t room[8];
    FAILS(fs_transaction_get(t, NULL, T("a"), room, 8, NULL), FS_KIND_BAD_INPUT, "another thread");
    return NULL;
}

static int in_two_threads(fs_transaction *t, void *at) {
    (void)at;
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, elsewhere, t) == 0 && pthread_join(thread, NULL) == 0);
    return 1;
}


/* Another transaction commits in the middle of each run. */
static int always_late(fs_transaction *t, void *at) {
    struct counts *counts = at;
    uint64_t number;
    fs_outcome got = fs_transaction_get(t, counts->accounts, T("number"), (uint8_t *)&number, 8, NULL);
    if (counts->runs++ == 0) {
        CHECK(got == FS_FOUND);
        CHECK(fs_table_put(counts->accounts, T("number"), T("changed!")) == FS_REPLACED);
    }
    fs_outcome put = fs_transaction_put(t, counts->accounts, T("late"), T("12345678"));
    return put != FS_DONE;
}

static void transactions(fs_store *store, const char *address) {
    struct counts first = {.store = store, .thread = 1};
    first.accounts = table(store, "accounts", "capacity=1000 value_size=8 max_key=16 scheme=chained");
    first.ledger = table(store, "ledger", "capacity=1000 max_key=16 max_value=8 scheme=ordered");
    first.plain = table(store, "plain", NULL);
    struct counts second = first;
    second.thread = 2;
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, count, &second) == 0);
    count(&first);
    CHECK(pthread_join(thread, NULL) == 0);
    uint64_t number = 0, entries;
    CHECK(fs_table_get(first.accounts, T("number"), (uint8_t *)&number, 8, NULL) == FS_FOUND);
    CHECK(number == (uint64_t)(2 * each) && first.runs + second.runs >= 2 * each);
    CHECK(fs_table_count(first.ledger, &entries) == FS_DONE && entries == (uint64_t)(2 * each));
    char sum[32];
    snprintf(sum, sizeof sum, "%d", 2 * each);
    CHECK(has(first.plain, "number", sum));

    CHECK(fs_transact(store, gives_up, &first) == FS_ABORTED);
    CHECK(fs_table_contains_key(first.accounts, T("number")) == FS_FOUND);
    FAILS(fs_transact(store, fails, &first), FS_KIND_UNSUPPORTED, "\"plain\"");
    FAILS(fs_transact(store, too_long, &first), FS_KIND_DOES_NOT_FIT, "9 bytes");
    CHECK(fs_table_contains_key(first.accounts, T("new")) == FS_ABSENT);
    CHECK(fs_transact(store, in_two_threads, NULL) == FS_ABORTED);
    first.runs = 0;
    CHECK(fs_transact(store, always_late, &first) == FS_DONE && first.runs == 2);
    CHECK(has(first.accounts, "late", "12345678"));
    FAILS(fs_transact(store, NULL, &first), FS_KIND_BAD_INPUT, "no body");
    FAILS(fs_transact(NULL, gives_up, &first), FS_KIND_BAD_INPUT, "no store");
    FAILS(fs_transaction_put(NULL, first.accounts, T("a"), T("b")), FS_KIND_BAD_INPUT, "no transaction");
    fs_store *other = opened(address, getenv("OPTIONS"));
    CHECK(fs_transact(other, of_another_store, first.accounts) == FS_ABORTED);
    fs_store_free(other);
    fs_table_free(first.accounts);
    fs_table_free(first.ledger);
    fs_table_free(first.plain);
}

static void errors(fs_store *store) {
    NOTHING(fs_store_open(NULL, NULL), FS_KIND_BAD_INPUT, "no address");
    NOTHING(fs_store_open("rdma://host", NULL), FS_KIND_BAD_INPUT, "\"rdma\"");
    NOTHING(fs_store_open("\xff\xfe", NULL), FS_KIND_BAD_INPUT, "utf-8");
    NOTHING(fs_store_open("embedded", "colour=red"), FS_KIND_BAD_INPUT, "one of memory");
    NOTHING(fs_store_open("embedded", "secret=short"), FS_KIND_BAD_INPUT, "at least 16");
    NOTHING(fs_store_open("embedded", "memory=1KiB"), FS_KIND_BAD_INPUT, "at least");
    NOTHING(fs_store_open("shm://nobody-serves-this", "memory=1MiB"), FS_KIND_BAD_INPUT, "for the address");
    NOTHING(fs_store_open("shm://nobody-serves-this", NULL), FS_KIND_NODE_DOWN, "nobody-serves-this");
    NOTHING(fs_store_open("tcp://127.0.0.1:1", "connect_timeout=1"), FS_KIND_NODE_DOWN, "127.0.0.1:1");
    FAILS(fs_table_create(store, "one", NULL), FS_KIND_TABLE_EXISTS, "\"one\"");
    FAILS(fs_table_create(store, "", NULL), FS_KIND_BAD_INPUT, "is empty");
    FAILS(fs_table_create(store, NULL, NULL), FS_KIND_BAD_INPUT, "no name");
    FAILS(fs_table_create(store, "\xff", NULL), FS_KIND_BAD_INPUT, "utf-8");
    FAILS(fs_table_create(store, "x", "size=1"), FS_KIND_BAD_INPUT, "one of capacity");
    FAILS(fs_table_create(store, "x", "capacity"), FS_KIND_BAD_INPUT, "not NAME=VALUE");
    FAILS(fs_table_create(store, "x", "capacity=1_000_000_000 key_size=8 value_size=8"), FS_KIND_OUT_OF_MEMORY, "needs");
    FAILS(fs_table_create(NULL, "x", NULL), FS_KIND_BAD_INPUT, "no store");
    NOTHING(fs_table_open(store, "none", NULL), FS_KIND_NO_SUCH_TABLE, "\"none\"");
    NOTHING(fs_table_open(store, "one", "workers=0"), FS_KIND_BAD_INPUT, "from 1 to 1024");
    NOTHING(fs_table_open(NULL, "one", NULL), FS_KIND_BAD_INPUT, "no store");
    FAILS(fs_table_drop(store, "none"), FS_KIND_NO_SUCH_TABLE, "\"none\"");
    FAILS(fs_table_put(NULL, T("a"), T("b")), FS_KIND_BAD_INPUT, "no table");
    fs_table *t = fs_table_open(store, "one", "workers=2");
    CHECK(t != NULL);
    uint8_t room[8];
    FAILS(fs_table_put(t, NULL, 1, T("b")), FS_KIND_BAD_INPUT, "no key");
    FAILS(fs_table_put(t, T("a"), NULL, 1), FS_KIND_BAD_INPUT, "no value");
    FAILS(fs_table_put(t, (const uint8_t *)"a", SIZE_MAX, T("b")), FS_KIND_BAD_INPUT, "over the limit");
    FAILS(fs_table_put(t, T(""), T("b")), FS_KIND_DOES_NOT_FIT, "");
    FAILS(fs_table_get(t, T("a"), NULL, 1, NULL), FS_KIND_BAD_INPUT, "nowhere");
    FAILS(fs_table_compare_and_set(t, T("a"), NULL, 1, T("b")), FS_KIND_BAD_INPUT, "no expected value");
    FAILS(fs_queue_push(t, T("a")), FS_KIND_UNSUPPORTED, "queue");
    FAILS(fs_table_put_for(NULL, T("a"), T("b"), 1), FS_KIND_BAD_INPUT, "no table");
    /* Its slots: one more key is refused, and the others stay. */
    fs_table *small = table(store, "small", "capacity=8 key_size=8 value_size=8");
    fs_outcome put = FS_INSERTED;
    uint64_t number = 0;
    for (; put == FS_INSERTED && number < 100; number++)
        put = fs_table_put(small, (const uint8_t *)&number, 8, (const uint8_t *)&number, 8);
    CHECK(put == FS_ERROR && fs_error_kind() == FS_KIND_FULL && !fs_error_may_have_taken_effect());
    FAILS(fs_table_put_for(small, (const uint8_t *)&number, 8, (const uint8_t *)&number, 8, 5), FS_KIND_UNSUPPORTED,
          "time to live");
    fs_table_free(small);

    char names[256];
    size_t len;
    CHECK(fs_table_names(store, names, sizeof names, &len) == FS_DONE);
    size_t found = 0;
    for (char *name = names; name < names + len; name += strlen(name) + 1) found += !strcmp(name, "one");
    CHECK(found == 1);
    CHECK(fs_table_names(store, names, len - 1, &len) == FS_TOO_LONG);
    CHECK(fs_table_names(store, NULL, 0, NULL) == FS_TOO_LONG);
    FAILS(fs_table_names(store, NULL, 1, NULL), FS_KIND_BAD_INPUT, "nowhere");
    FAILS(fs_table_names(NULL, names, sizeof names, NULL), FS_KIND_BAD_INPUT, "no store");
    /* Dropped while it is open. */
    CHECK(fs_table_drop(store, "one") == FS_DONE);
    CHECK(fs_table_get(t, T("ada"), room, sizeof room, NULL) == FS_ERROR);
    CHECK(fs_error_kind() == FS_KIND_TABLE_GONE || fs_error_kind() == FS_KIND_NO_SUCH_TABLE);
    fs_table_free(t);
}

/* A process that was forked has nothing of its parent's, and takes nothing from it. */
static void forks(fs_store *store) {
    fs_table *t = table(store, "forked", NULL);
    CHECK(fs_table_put(t, T("a"), T("b")) == FS_INSERTED && has(t, "a", "b"));
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        FAILS(fs_table_put(t, T("a"), T("c")), FS_KIND_CLOSED, "before a fork");
        uint8_t room[8];
        FAILS(fs_table_get(t, T("a"), room, 8, NULL), FS_KIND_CLOSED, "before a fork");
        fs_table_free(t);
        fs_store_free(store);
        fs_store *own = opened("embedded", "memory=16MiB");
        fs_table *o = table(own, "own", NULL);
        CHECK(fs_table_put(o, T("a"), T("d")) == FS_INSERTED && has(o, "a", "d"));
        fs_table_free(o);
        fs_store_free(own);
        exit(7);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
    CHECK(has(t, "a", "b") && fs_table_put(t, T("a"), T("e")) == FS_REPLACED && has(t, "a", "e"));
    fs_table_free(t);
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    if (getenv("SHORT")) each = 30;
    CHECK(fs_error_kind() == FS_KIND_NONE && fs_error_message()[0] == 0);
    fs_store *store = opened(argv[1], getenv("OPTIONS"));
    one_key(store);
    many_keys(store);
    queue(store);
    transactions(store, argv[1]);
    errors(store);
    if (getenv("FORKS")) forks(store);
    /* A table stays open without its store. */
    fs_table *t = table(store, "last", NULL);
    fs_store_free(store);
    CHECK(fs_table_put(t, T("a"), T("b")) == FS_INSERTED && has(t, "a", "b"));
    fs_table_free(t);
    fs_table_free(NULL);
    fs_store_free(NULL);
    puts("done");
    return 0;
}
