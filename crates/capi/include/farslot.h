/* Farslot: tables in the memory of other machines, with batches and transactions; and sets and maps that threads and
 * processes fill together by find-or-put.
 *
 * This file is made by cbindgen from crates/capi; a test compares them. Link with -lfarslot_capi.
 *
 * Functions that can fail return FS_ERROR or a null pointer; fs_error_message says why, to the thread that called.
 * Handles of stores, tables, sets and maps may be used by any number of threads at the same time; an fs_spare, an fs_job
 * and an fs_transaction by one. A process that was forked opens its own.
 */

#ifndef FARSLOT_H
#define FARSLOT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/*
 What a call did.
 */
typedef enum {
  /*
   The element or the key was there.
   */
  FS_FOUND = 0,
  /*
   The element or the key was absent and is there now: of all callers, one is told so.
   */
  FS_INSERTED = 1,
  /*
   The element is absent, and its set or map has no room for it. A table that has none says
   FS_ERROR, with FS_KIND_FULL or FS_KIND_OUT_OF_MEMORY.
   */
  FS_FULL = 2,
  /*
   The element or the key is absent, or the queue is empty.
   */
  FS_ABSENT = 3,
  /*
   The call failed: see fs_error_message and fs_error_kind.
   */
  FS_ERROR = 4,
  /*
   It is done: of calls that can do nothing else, or fail.
   */
  FS_DONE = 5,
  /*
   The key was there, and its value was replaced.
   */
  FS_REPLACED = 6,
  /*
   The key has another value than was expected, or is absent; nothing was changed.
   */
  FS_DIFFERS = 7,
  /*
   The value is longer than the room for it: nothing was copied, nor taken.
   */
  FS_TOO_LONG = 8,
  /*
   Other transactions were in the way: nothing was changed. See fs_error_message, too.
   */
  FS_CONFLICT = 9,
  /*
   The transaction's own body gave it up: nothing was changed.
   */
  FS_ABORTED = 10,
} fs_outcome;

/*
 What a failure comes down to, for a program that decides by it what to do next.
 */
typedef enum {
  /*
   Nothing has failed yet.
   */
  FS_KIND_NONE = 0,
  /*
   No slot is left for a new key, or no room in a queue. The table goes on serving.
   */
  FS_KIND_FULL = 1,
  /*
   No memory is left: for a record, for a table to grow, or for a table in the store.
   */
  FS_KIND_OUT_OF_MEMORY = 2,
  /*
   A key or a value that the table does not hold, mostly of another size.
   */
  FS_KIND_DOES_NOT_FIT = 3,
  /*
   Another client is the table's only writer, or has become it.
   */
  FS_KIND_WRITER_BUSY = 4,
  /*
   The table never changes again.
   */
  FS_KIND_SEALED = 5,
  /*
   The table is to be built whole, and has not been.
   */
  FS_KIND_NOT_BUILT = 6,
  /*
   The scheme of the table cannot do that.
   */
  FS_KIND_UNSUPPORTED = 7,
  /*
   There is no such table.
   */
  FS_KIND_NO_SUCH_TABLE = 8,
  /*
   The table was dropped, cleared or renamed by another client.
   */
  FS_KIND_TABLE_GONE = 9,
  /*
   There is a table of that name.
   */
  FS_KIND_TABLE_EXISTS = 10,
  /*
   An argument, an address, a name or an option that cannot be used.
   */
  FS_KIND_BAD_INPUT = 11,
  /*
   A node cannot be reached.
   */
  FS_KIND_NODE_DOWN = 12,
  /*
   A node did not answer in time: what was asked of it may have taken effect.
   */
  FS_KIND_TIMED_OUT = 13,
  /*
   A node came back empty.
   */
  FS_KIND_NODE_RESTARTED = 14,
  /*
   The secret or the grant does not allow it.
   */
  FS_KIND_ACCESS_DENIED = 15,
  /*
   Others were faster, time and again.
   */
  FS_KIND_CONTENDED = 16,
  /*
   Another transaction was in the way of one, each time that it was run.
   */
  FS_KIND_CONFLICT = 17,
  /*
   Too much is under way: later there may be room.
   */
  FS_KIND_BUSY = 18,
  /*
   It was opened before a fork, or was closed.
   */
  FS_KIND_CLOSED = 19,
  /*
   What is in the memory is not what clients leave there.
   */
  FS_KIND_DAMAGED = 20,
  /*
   Anything else; the message says what.
   */
  FS_KIND_OTHER = 21,
} fs_kind;

/*
 A process among those that have started together.
 */
typedef struct fs_job fs_job;

/*
 A map: elements of up to so many bytes, each with an index that it keeps, and a value of some
 words.
 */
typedef struct fs_map fs_map;

/*
 Space that a thread has taken for elements: one for each thread that inserts into a map.
 */
typedef struct fs_spare fs_spare;

/*
 A store: memory somewhere, and the tables in it.
 */
typedef struct fs_store fs_store;

/*
 A table, for any number of threads: what they ask for goes to threads of its own.
 */
typedef struct fs_table fs_table;

/*
 A transaction under way, as its body has it.
 */
typedef struct fs_transaction fs_transaction;

/*
 A set of words of up to 63 bits.
 */
typedef struct fs_word_set fs_word_set;

/*
 Bytes that a program has somewhere.
 */
typedef struct {
  /*
   Where they are; null only if there are none.
   */
  const uint8_t *data;
  /*
   How many they are.
   */
  size_t len;
} fs_bytes;

/*
 Room of a program's own for a value, and what became of the lookup that was to fill it.
 */
typedef struct {
  /*
   Where the value goes; null only if there is no room.
   */
  uint8_t *to;
  /*
   Bytes that there is room for.
   */
  size_t room;
  /*
   Bytes of the value, of FS_FOUND and FS_TOO_LONG. It is set by the call, as the outcome is.
   */
  size_t len;
  /*
   FS_FOUND, FS_ABSENT, FS_TOO_LONG or FS_ERROR.
   */
  fs_outcome outcome;
} fs_value;

/*
 What a transaction does: it returns 0 to commit, and anything else to change nothing.
 */
typedef int (*fs_body)(fs_transaction *transaction, void *context);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 Looks up `count` keys side by side, and fills `values` with what each has: room for each key's
 own, where its length and its outcome go as well. FS_DONE if no lookup failed; else FS_ERROR,
 and the message is that of the first key which failed. Keys that did not fail are done all the
 same.

 # Safety
 `table` is null or a table that was not freed; `keys` and `values` are `count`, or null with 0;
 each of the keys is bytes, and each of the values has the room that it says.
 */
fs_outcome fs_table_get_many(const fs_table *table,
                             const fs_bytes *keys,
                             fs_value *values,
                             size_t count);

/*
 Sets the values of `count` keys side by side, and writes to `outcomes` FS_INSERTED, FS_REPLACED
 or FS_ERROR for each. FS_DONE if none failed; else FS_ERROR, as of fs_table_get_many. If a key
 occurs more than once, which value wins is unspecified.

 # Safety
 `table` is null or a table that was not freed; `keys` and `values` are `count`, or null with 0,
 each of them bytes; `outcomes` has room for `count`.
 */
fs_outcome fs_table_put_many(const fs_table *table,
                             const fs_bytes *keys,
                             const fs_bytes *values,
                             fs_outcome *outcomes,
                             size_t count);

/*
 Removes `count` keys side by side, and writes to `outcomes` FS_FOUND, FS_ABSENT or FS_ERROR for
 each. FS_DONE if none failed; else FS_ERROR, as of fs_table_get_many.

 # Safety
 `table` is null or a table that was not freed; `keys` are `count`, or null with 0, each of them
 bytes; `outcomes` has room for `count`.
 */
fs_outcome fs_table_delete_many(const fs_table *table,
                                const fs_bytes *keys,
                                fs_outcome *outcomes,
                                size_t count);

/*
 Why the last call of this thread that failed did, as text. It is good until the thread's next
 call of this library.
 */
const char *fs_error_message(void);

/*
 What the failure of the last call of this thread that failed comes down to; FS_KIND_OTHER for
 most of sets and maps.
 */
fs_kind fs_error_kind(void);

/*
 Whether the last call of this thread that failed may have taken effect all the same, or may
 still: a node did not answer, for instance.
 */
bool fs_error_may_have_taken_effect(void);

/*
 Joins a job as process `rank` of `ranks`, all of which call this; rank 0 listens at
 `rendezvous`, "HOST:PORT", which may be null for a process alone. Null if that fails. To be
 freed by fs_job_free.

 # Safety
 `rendezvous` is null or a text that ends with a zero.
 */
fs_job *fs_job_join(uint32_t rank, uint32_t ranks, const char *rendezvous);

/*
 The same with rank and number of ranks from the environment that mpirun or srun sets; a process
 alone without one.

 # Safety
 As of fs_job_join.
 */
fs_job *fs_job_join_launched(const char *rendezvous);

/*
 This process's rank; 0 of null.

 # Safety
 `job` is null or a job that was not freed.
 */
uint32_t fs_job_rank(const fs_job *job);

/*
 How many processes there are; 0 of null.

 # Safety
 `job` is null or a job that was not freed.
 */
uint32_t fs_job_ranks(const fs_job *job);

/*
 Waits until all processes of the job have called it. Returns whether they have: false, with a
 message, if one has died.

 # Safety
 `job` is null or a job that was not freed, and no other thread uses it now.
 */
bool fs_job_barrier(fs_job *job);

/*
 Leaves a job. Null is no job, and nothing happens.

 # Safety
 `job` is null or a job that was not freed, and nobody uses it any more.
 */
void fs_job_free(fs_job *job);

/*
 A map of this process's own: elements of `element_bytes` bytes, or of up to so many if their
 length `varies`, with values of `value_words` words of 8 bytes; `buckets` for elements, and
 `element_words` words for elements, their values and, where that varies, their lengths. Null if
 that fails. To be freed by fs_map_free.
 */
fs_map *fs_map_new(size_t element_bytes,
                   bool varies,
                   size_t value_words,
                   uint64_t buckets,
                   uint64_t element_words);

/*
 A map that the processes of a job share, on one machine: each owns so many buckets, and so many
 words for the elements that it inserts. All of them call this, in the same order as other calls
 for the job. Null if that fails.

 # Safety
 `job` is null or a job that was not freed, and no other thread uses it now.
 */
fs_map *fs_map_of_job(fs_job *job,
                      size_t element_bytes,
                      bool varies,
                      size_t value_words,
                      uint64_t buckets_per_rank,
                      uint64_t element_words_per_rank);

/*
 Space for one thread's elements of one map. To be freed by fs_spare_free, before or after the
 map.
 */
fs_spare *fs_spare_new(void);

/*
 Frees a thread's space; what of it was not used stays unused. Null is none, and nothing happens.

 # Safety
 `spare` is null or was not freed, and nobody uses it any more.
 */
void fs_spare_free(fs_spare *spare);

/*
 Finds an element or inserts it, with the words of `value` as its value, or zeros if that is
 null: FS_FOUND, FS_INSERTED or FS_FULL; FS_ERROR for an element of another length. Its index
 goes to `index`, unless that is null. The value of an element that is there stays as it is.

 # Safety
 `map` is null or a map that was not freed; `spare` is null or was not freed, and no other thread
 uses it now; `bytes` are `len`; `value` is null or as many words as values of the map; `index`
 is null or has room for a word.
 */
fs_outcome fs_map_find_or_put(const fs_map *map,
                              fs_spare *spare,
                              const uint8_t *bytes,
                              size_t len,
                              const uint64_t *value,
                              uint64_t *index);

/*
 Finds an element: FS_FOUND, with its index in `index` unless that is null, or FS_ABSENT;
 FS_ERROR for an element of another length.

 # Safety
 As of fs_map_find_or_put.
 */
fs_outcome fs_map_find(const fs_map *map, const uint8_t *bytes, size_t len, uint64_t *index);

/*
 Copies the bytes of the element with this index to `to`, as many as there is room for, and
 returns how many it has. SIZE_MAX, with a message, where there cannot be an element.

 # Safety
 `map` is null or a map that was not freed; `to` has room for `room` bytes, or `room` is 0.
 */
size_t fs_map_get(const fs_map *map, uint64_t index, uint8_t *to, size_t room);

/*
 Loads a word of the value of the element with this index into `to`. Returns whether there is
 one.

 # Safety
 `map` is null or a map that was not freed; `to` has room for a word.
 */
bool fs_map_load(const fs_map *map, uint64_t index, size_t word_of, uint64_t *to);

/*
 Stores a word of the value of the element with this index. Returns whether there is one.

 # Safety
 `map` is null or a map that was not freed.
 */
bool fs_map_store(const fs_map *map, uint64_t index, size_t word_of, uint64_t value);

/*
 Replaces a word of the value of the element with this index by `value` if it is `expected`, and
 writes what it was to `was`, unless that is null. Returns whether there is such a word.

 # Safety
 `map` is null or a map that was not freed; `was` is null or has room for a word.
 */
bool fs_map_compare_swap(const fs_map *map,
                         uint64_t index,
                         size_t word_of,
                         uint64_t expected,
                         uint64_t value,
                         uint64_t *was);

/*
 Sets flags in a word of the value of the element with this index, and writes the word before to
 `was`, unless that is null: of all who set a flag, one sees it unset. Returns whether there is
 such a word.

 # Safety
 As of fs_map_compare_swap.
 */
bool fs_map_set_flags(const fs_map *map,
                      uint64_t index,
                      size_t word_of,
                      uint64_t flags,
                      uint64_t *was);

/*
 Frees a map. Null is no map, and nothing happens.

 # Safety
 `map` is null or a map that was not freed, and nobody uses it any more.
 */
void fs_map_free(fs_map *map);

/*
 Opens the store at an address: "embedded", "shm://NAME", "tcp://HOST:PORT", "tcps://HOST:PORT",
 "verbs://HOST:PORT" or "sim://PROFILE?seed=N", and over several nodes
 "tcp://HOST:PORT,HOST:PORT". Null if that fails. To be freed by fs_store_free.

 `options` is null or a text of options, NAME=VALUE with spaces between them, a value with spaces
 in quotes. Sizes are like 64MiB, spans are in seconds. `memory`: the size of an embedded store.
 `secret` or `secret_file`, `grant`, `tls_ca` or `tls_pin`, `tls_cert` and `tls_key`: as the
 program's flags. `read_only=true`. `access`: reads, calls or auto. `connect_timeout`, `timeout`.
 `cache` and `stale_for`: a cache of answers in each thread that works for a table.
 `client_memory`: what a table's client may take at most.

 # Safety
 `address` and `options` are null or texts that end with a zero.
 */
fs_store *fs_store_open(const char *address, const char *options);

/*
 Frees a store. Tables of it that are open stay so, until they are freed. Null is no store, and
 nothing happens.

 # Safety
 `store` is null or a store that was not freed, and nobody uses it any more.
 */
void fs_store_free(fs_store *store);

/*
 Makes a table: FS_DONE, or FS_ERROR, with FS_KIND_TABLE_EXISTS if there is one of that name.

 `options` is null or a text of options, as of fs_store_open: the flags of `farslot create` with
 `_` for `-`, such as "capacity=1000 scheme=chained key_size=8 max_value=100". Without a capacity
 it is a table that grows, for keys and values of any size, which may have times to live.

 # Safety
 `store` is null or a store that was not freed; `name` and `options` are null or texts that end
 with a zero.
 */
fs_outcome fs_table_create(const fs_store *store, const char *name, const char *options);

/*
 Drops a table, and returns when its memory is free again, some seconds later: FS_DONE, or
 FS_ERROR, with FS_KIND_NO_SUCH_TABLE if there is none. Whoever has it open is told
 FS_KIND_TABLE_GONE.

 # Safety
 As of fs_table_create.
 */
fs_outcome fs_table_drop(const fs_store *store, const char *name);

/*
 Writes the names of all tables to `names`, each with a zero behind it, and how many bytes that
 are to `len`, unless that is null: FS_DONE, or FS_TOO_LONG if there is no room for so many.

 # Safety
 `store` is null or a store that was not freed; `names` has room for `room` bytes, or is null
 with 0; `len` is null or has room for a number.
 */
fs_outcome fs_table_names(const fs_store *store, char *names, size_t room, size_t *len);

/*
 Opens a table, for any number of threads. Null if that fails. To be freed by fs_table_free.

 What they ask for goes to a thread of the table's own; that of many threads leaves together.
 Where memory is mapped (embedded, shm://) the thread that asks looks keys up itself. `options`
 is null or a text of options: `workers`, more threads than one, for tables of many writers.

 # Safety
 `store` is null or a store that was not freed; `name` and `options` are null or texts that end
 with a zero.
 */
fs_table *fs_table_open(const fs_store *store, const char *name, const char *options);

/*
 Closes and frees a table, once what was asked for is done. Null is no table, and nothing
 happens.

 # Safety
 `table` is null or a table that was not freed, and nobody uses it any more.
 */
void fs_table_free(fs_table *table);

/*
 Copies a key's value to `value`, and writes how long it is to `len`, unless that is null:
 FS_FOUND, FS_ABSENT, or FS_TOO_LONG if there is no room for it.

 # Safety
 `table` is null or a table that was not freed; `key` is `key_len` bytes; `value` has room for
 `room` bytes, or is null with 0; `len` is null or has room for a number.
 */
fs_outcome fs_table_get(const fs_table *table,
                        const uint8_t *key,
                        size_t key_len,
                        uint8_t *value,
                        size_t room,
                        size_t *len);

/*
 Whether a key is there: FS_FOUND or FS_ABSENT.

 # Safety
 As of fs_table_get.
 */
fs_outcome fs_table_contains_key(const fs_table *table, const uint8_t *key, size_t key_len);

/*
 Sets a key's value: FS_INSERTED, or FS_REPLACED if the key was there.

 # Safety
 As of fs_table_get; `value` is `value_len` bytes.
 */
fs_outcome fs_table_put(const fs_table *table,
                        const uint8_t *key,
                        size_t key_len,
                        const uint8_t *value,
                        size_t value_len);

/*
 Sets a key's value for so many milliseconds, after which the key is absent again: as
 fs_table_put, and FS_REPLACED of a key that has expired where nobody has cleared it away yet.
 FS_KIND_UNSUPPORTED of a table that is not expiring.

 # Safety
 As of fs_table_put.
 */
fs_outcome fs_table_put_for(const fs_table *table,
                            const uint8_t *key,
                            size_t key_len,
                            const uint8_t *value,
                            size_t value_len,
                            uint64_t milliseconds);

/*
 Removes a key: FS_FOUND if it was there, or FS_ABSENT.

 # Safety
 As of fs_table_get.
 */
fs_outcome fs_table_delete(const fs_table *table, const uint8_t *key, size_t key_len);

/*
 Sets a key's value in one step if it is `expected`, or, where that is null, if the key is
 absent: FS_REPLACED, FS_INSERTED or FS_DIFFERS. FS_KIND_UNSUPPORTED of a table of a scheme that
 cannot.

 # Safety
 As of fs_table_put; `expected` is null or `expected_len` bytes.
 */
fs_outcome fs_table_compare_and_set(const fs_table *table,
                                    const uint8_t *key,
                                    size_t key_len,
                                    const uint8_t *expected,
                                    size_t expected_len,
                                    const uint8_t *value,
                                    size_t value_len);

/*
 Adds to a number, which the value is as decimal text and an absent key 0, in one step: FS_DONE,
 with the sum in `sum`, unless that is null.

 # Safety
 As of fs_table_get; `sum` is null or has room for a number.
 */
fs_outcome fs_table_increment(const fs_table *table,
                              const uint8_t *key,
                              size_t key_len,
                              int64_t by,
                              int64_t *sum);

/*
 Counts the keys, or the items of a queue: FS_DONE, with their number in `count`.

 # Safety
 `table` is null or a table that was not freed; `count` is null or has room for a number.
 */
fs_outcome fs_table_count(const fs_table *table, uint64_t *count);

/*
 Adds an item to the end of a queue, a table of the scheme queue: FS_DONE. FS_KIND_FULL of a full
 one.

 # Safety
 `table` is null or a table that was not freed; `item` is `len` bytes.
 */
fs_outcome fs_queue_push(const fs_table *table, const uint8_t *item, size_t len);

/*
 Takes the first item of a queue, copies it to `item`, and writes how long it is to `len`, unless
 that is null: FS_FOUND, or FS_ABSENT if the queue is empty. If the longest item that the queue
 may have has no room, nothing is taken: FS_TOO_LONG, with the length of that in `len`.

 # Safety
 As of fs_table_get.
 */
fs_outcome fs_queue_pop(const fs_table *table, uint8_t *item, size_t room, size_t *len);

/*
 Runs a transaction over any chained and ordered tables of a store, on any of its nodes: all of
 it or nothing, strictly serializable. `body` gets the transaction, which is its own until it
 returns, and `context`. Where another transaction was in the way it is run again, after pauses
 that grow, up to a thousand times: it must do nothing else that cannot be done twice. Only the
 commit says whether all that it has read was there at one moment.

 FS_DONE if it returned 0 and is committed. FS_ABORTED if it returned anything else: nothing was
 changed. FS_CONFLICT if others were in the way each time, FS_ERROR if a step or the commit
 failed, whatever the body returned; fs_error_may_have_taken_effect says whether it may be
 committed all the same.

 # Safety
 `store` is null or a store that was not freed; `body` is null or a function that returns to its
 caller, and leaves in no other way.
 */
fs_outcome fs_transact(const fs_store *store, fs_body body, void *context);

/*
 As fs_table_get, within a transaction: of a key that it has changed, its own value. A key that
 is read twice has the same value twice. Also FS_CONFLICT: the body returns then, and is run
 again.

 # Safety
 `transaction` is null or that of a body which has not returned; all else as of fs_table_get.
 */
fs_outcome fs_transaction_get(fs_transaction *transaction,
                              const fs_table *table,
                              const uint8_t *key,
                              size_t key_len,
                              uint8_t *value,
                              size_t room,
                              size_t *len);

/*
 Sets a key's value, whether it is there or not: FS_DONE, or FS_CONFLICT.

 # Safety
 As of fs_transaction_get; `value` is `value_len` bytes.
 */
fs_outcome fs_transaction_put(fs_transaction *transaction,
                              const fs_table *table,
                              const uint8_t *key,
                              size_t key_len,
                              const uint8_t *value,
                              size_t value_len);

/*
 Sets the value of an absent key: FS_INSERTED, or FS_FOUND if the key is there, whose value stays
 then; or FS_CONFLICT.

 # Safety
 As of fs_transaction_put.
 */
fs_outcome fs_transaction_insert(fs_transaction *transaction,
                                 const fs_table *table,
                                 const uint8_t *key,
                                 size_t key_len,
                                 const uint8_t *value,
                                 size_t value_len);

/*
 Removes a key: FS_FOUND if it was there, or FS_ABSENT, or FS_CONFLICT.

 # Safety
 As of fs_transaction_get.
 */
fs_outcome fs_transaction_delete(fs_transaction *transaction,
                                 const fs_table *table,
                                 const uint8_t *key,
                                 size_t key_len);

/*
 A set of this process's own with so many buckets, one for each word and some more: above nine
 tenths it gets slow, and full at last. Null if that fails. To be freed by fs_word_set_free.
 */
fs_word_set *fs_word_set_new(uint64_t buckets);

/*
 A set that the processes of a job share, on one machine: each owns so many buckets of it. All of
 them call this, in the same order as other calls for the job. Null if that fails. The memory of
 a process that has ended stays for as long as others use the set.

 # Safety
 `job` is null or a job that was not freed, and no other thread uses it now.
 */
fs_word_set *fs_word_set_of_job(fs_job *job, uint64_t buckets_per_rank);

/*
 Finds a word or inserts it: FS_FOUND, FS_INSERTED or FS_FULL; FS_ERROR for a word of 64 bits.

 # Safety
 `set` is null or a set that was not freed.
 */
fs_outcome fs_word_set_find_or_put(const fs_word_set *set, uint64_t word);

/*
 Finds or inserts `count` words in turn, whose waits for memory overlap, and writes what became
 of each to `outcomes`. Returns false, and inserts none, if one is of 64 bits.

 # Safety
 `set` is null or a set that was not freed; `words` and `outcomes` have room for `count`, or
 `count` is 0.
 */
bool fs_word_set_find_or_put_all(const fs_word_set *set,
                                 const uint64_t *words,
                                 fs_outcome *outcomes,
                                 size_t count);

/*
 Whether a word is in the set: FS_FOUND or FS_ABSENT; FS_ERROR for a word of 64 bits.

 # Safety
 `set` is null or a set that was not freed.
 */
fs_outcome fs_word_set_find(const fs_word_set *set, uint64_t word);

/*
 Words in the set; 0 of null.

 # Safety
 `set` is null or a set that was not freed.
 */
uint64_t fs_word_set_len(const fs_word_set *set);

/*
 Frees a set. Null is no set, and nothing happens.

 # Safety
 `set` is null or a set that was not freed, and nobody uses it any more.
 */
void fs_word_set_free(fs_word_set *set);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* FARSLOT_H */
