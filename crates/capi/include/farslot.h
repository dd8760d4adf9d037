/* Farslot: sets and maps that threads and processes fill together by find-or-put.
 *
 * This file is made by cbindgen from crates/capi; a test compares them. Link with -lfarslot_capi.
 *
 * Functions that can fail return FS_ERROR or a null pointer; fs_error_message says why, to the thread that called.
 * Handles of sets and maps may be used by any number of threads at the same time; an fs_spare and an fs_job by one.
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
   The element was there.
   */
  FS_FOUND = 0,
  /*
   The element was absent and is there now: of all callers, one is told so.
   */
  FS_INSERTED = 1,
  /*
   The element is absent, and there is no room for it.
   */
  FS_FULL = 2,
  /*
   The element is absent.
   */
  FS_ABSENT = 3,
  /*
   The call failed: see fs_error_message.
   */
  FS_ERROR = 4,
} fs_outcome;

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
 A set of words of up to 63 bits.
 */
typedef struct fs_word_set fs_word_set;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 Why the last call of this thread that failed did, as text. It is good until the thread's next
 call of this library.
 */
const char *fs_error_message(void);

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
