/* A program of one or several processes: each inserts the words from its own start on, and counts names in a map. */

#include "farslot.h"
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORDS 20000
#define NAMES 500

static void check(int holds, const char *what, int line) {
    if (!holds) {
        fprintf(stderr, "line %d: %s: %s\n", line, what, fs_error_message());
        exit(1);
    }
}
#define CHECK(what) check((what), #what, __LINE__)

struct work {
    fs_word_set *set;
    fs_map *map;
    uint64_t start;
    uint64_t inserted;
};

static void *work(void *at) {
    struct work *work = at;
    fs_spare *spare = fs_spare_new();
    uint64_t words[64];
    fs_outcome outcomes[64];
    for (uint64_t done = 0; done < WORDS; done += 64) {
        size_t count = WORDS - done < 64 ? WORDS - done : 64;
        for (size_t i = 0; i < count; i++) words[i] = (work->start + done + i) % WORDS;
        CHECK(fs_word_set_find_or_put_all(work->set, words, outcomes, count));
        for (size_t i = 0; i < count; i++) {
            CHECK(outcomes[i] == FS_FOUND || outcomes[i] == FS_INSERTED);
            work->inserted += outcomes[i] == FS_INSERTED;
        }
    }
    for (uint64_t i = 0; i < NAMES; i++) {
        char name[32];
        int len = snprintf(name, sizeof name, "name %" PRIu64, i * (1 + i % 7));
        uint64_t index, zero = 0, was = 0;
        fs_outcome put = fs_map_find_or_put(work->map, spare, (const uint8_t *)name, len, &zero, &index);
        CHECK(put == FS_FOUND || put == FS_INSERTED);
        char back[32] = {0};
        CHECK(fs_map_get(work->map, index, (uint8_t *)back, sizeof back) == (size_t)len);
        CHECK(memcmp(name, back, len) == 0);
        /* One more: others count too. */
        do {
            CHECK(fs_map_load(work->map, index, 0, &was));
            zero = was;
            CHECK(fs_map_compare_swap(work->map, index, 0, was, was + 1, &was));
        } while (was != zero);
    }
    fs_spare_free(spare);
    return NULL;
}

int main(void) {
    fs_job *job = fs_job_join_launched(getenv("RENDEZVOUS"));
    CHECK(job != NULL);
    uint32_t rank = fs_job_rank(job), ranks = fs_job_ranks(job);
    struct work first = {0};
    first.set = fs_word_set_of_job(job, 2 * WORDS / ranks);
    CHECK(first.set != NULL);
    first.map = fs_map_of_job(job, 24, true, 1, 2 * NAMES, 10000);
    CHECK(first.map != NULL);
    first.start = rank * 1000;
    struct work second = first;
    second.start += WORDS / 2;
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, work, &second) == 0);
    work(&first);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(fs_job_barrier(job));
    printf("inserted %" PRIu64 "\n", first.inserted + second.inserted);
    CHECK(fs_word_set_len(first.set) == WORDS);
    CHECK(fs_word_set_find(first.set, 5) == FS_FOUND);
    CHECK(fs_word_set_find(first.set, WORDS) == FS_ABSENT);
    /* Every name was counted by two threads of each process. */
    uint64_t index, count;
    CHECK(fs_map_find(first.map, (const uint8_t *)"name 1", 6, &index) == FS_ABSENT);
    CHECK(fs_map_find(first.map, (const uint8_t *)"name 2", 6, &index) == FS_FOUND);
    CHECK(fs_map_load(first.map, index, 0, &count) && count == 2 * ranks);
    CHECK(fs_map_set_flags(first.map, index, 0, 1ull << 40, NULL));
    CHECK(fs_job_barrier(job));
    CHECK(fs_map_load(first.map, index, 0, &count) && count == (2 * ranks | 1ull << 40));
    /* What cannot be is an error, with a reason. */
    CHECK(fs_word_set_find_or_put(first.set, UINT64_MAX) == FS_ERROR);
    CHECK(strstr(fs_error_message(), "over the limit") != NULL);
    CHECK(fs_map_find(first.map, (const uint8_t *)"a name of more than 24 bytes", 28, NULL) == FS_ERROR);
    CHECK(!fs_map_load(first.map, index, 1, &count));
    CHECK(fs_map_get(first.map, UINT64_MAX, NULL, 0) == SIZE_MAX);
    CHECK(fs_word_set_new(0) == NULL && strstr(fs_error_message(), "from 1 to") != NULL);
    CHECK(fs_word_set_find_or_put(NULL, 1) == FS_ERROR);
    CHECK(fs_map_find_or_put(first.map, NULL, (const uint8_t *)"x", 1, NULL, NULL) == FS_ERROR);
    fs_word_set *small = fs_word_set_new(4);
    for (uint64_t word = 0; word < 4; word++) CHECK(fs_word_set_find_or_put(small, word) == FS_INSERTED);
    CHECK(fs_word_set_find_or_put(small, 4) == FS_FULL);
    fs_word_set_free(small);
    CHECK(fs_job_barrier(job));
    fs_map_free(first.map);
    fs_word_set_free(first.set);
    fs_job_free(job);
    return 0;
}
