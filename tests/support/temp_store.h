/* tests/support/temp_store.h - a store on a scratch volume, and searches whose answers are short
 * texts.
 *
 * Scopes are written "user/agent", several of them with blanks between; "-" stands for no user, or
 * the default agent. Facts whose text begins with "note " are what temp_store_ask() finds; its
 * answer names them as "id=rest of the text", sorted. Functions work or abort the program, unless
 * their result says otherwise; no Criterion, so that race bodies can use them.
 *
 *     AUTO_TEMP_STORE struct temp_store *store = temp_store_create();
 *     temp_store_open(store);
 *     temp_volume_add(store->volume, "u", "a", "f1", "note one");
 *     struct temp_answer answer = temp_store_ask(store, "u/a");    "f1=one", "refreshed", 1
 */
#ifndef MEMSYNC_TESTS_TEMP_STORE_H
#define MEMSYNC_TESTS_TEMP_STORE_H

#include "core/searcher.h"
#include "tests/support/temp_volume.h"

#include <pthread.h>

#define TEMP_STORE_THREADS 4 /* readers: 0 is the test's own thread, 1 to 3 are for others */

struct temp_store {
    struct temp_volume *volume;
    char index_directory[PATH_MAX]; /* beside the volume's root */
    struct store_options options;   /* of the next temp_store_open(); changed as a test likes */
    bool without_refresher;         /* of the next open: a keeper's is to serve first builds */
    struct store *store;            /* NULL while closed */
    struct index_reader *reader;    /* for refreshes by the test itself */
    struct index_reader *urgent_reader;
    pthread_t urgent; /* a refresher that serves only what somebody waits for */
};

/* A volume without anything; nothing is opened yet. */
struct temp_store *temp_store_create(void);
void temp_store_destroy(struct temp_store **store);
#define AUTO_TEMP_STORE CLEANUP(temp_store_destroy)

/* Opens the store and starts the refresher. */
void temp_store_open(struct temp_store *store);
void temp_store_close(struct temp_store *store);

/* user u: a (f1 "note one", f2 "note two"), b (g1 "note bee"), and if `two_users` user v: a (h1
 * "note aitch"); opened, and each scope searched once. */
void temp_store_usual(struct temp_store *store, bool two_users);

void temp_store_scope(const char *name, struct scope *ret);

struct temp_answer {
    enum status status;
    struct error error;
    char facts[8192]; /* "f1=one f2=two" */
    size_t count;
    char states[128];               /* "fresh refreshed" */
    uint64_t refreshes, files_read; /* done meanwhile by anybody */
    uint64_t took_ns;
    bool has_age; /* of the first scope */
    uint64_t age_ns;
    int64_t revision;
    char path[ERROR_PATH_MAX]; /* what the first scope's problem names */
};

struct temp_question {
    const char *scopes;
    enum freshness_mode mode;
    uint64_t max_staleness_ms;
    uint64_t deadline_ms; /* 0: 20 s */
    unsigned thread;
    bool inline_only; /* may_block = false */
};

struct temp_answer temp_store_ask(struct temp_store *store, const char *scopes);
struct temp_answer temp_store_ask_as(struct temp_store *store,
                                     const struct temp_question *question);

/* A search in a thread of its own. */
struct temp_search;
struct temp_search *temp_search_start(struct temp_store *store,
                                      const struct temp_question *question);
/* Waits for its end; false when it goes on after `timeout_ms`. */
bool temp_search_ends(struct temp_search *search, unsigned timeout_ms);
struct temp_answer temp_search_join(struct temp_search **search);

/* A run of one scope by this thread, asked for with these wishes. */
struct refresh_result temp_store_refresh(struct temp_store *store, const char *scope,
                                         unsigned wishes);

/* The same in a thread of its own. */
struct temp_refresh;
struct temp_refresh *temp_refresh_start(struct temp_store *store, const char *scope,
                                        unsigned wishes);
struct refresh_result temp_refresh_join(struct temp_refresh **refresh);

/* Takes the runs that are wanted, and those that wait for their time if they have to; returns how
 * many. */
unsigned temp_store_take_due(struct temp_store *store);

/* Moves the clock beyond W and takes the second look that is due for what was not settled. Returns
 * how many runs that were. */
unsigned temp_store_settle(struct temp_store *store);

/* The index's row of a scope; false when it has none. */
bool temp_store_row(struct temp_store *store, const char *scope, struct index_scope *ret);

/* Whether the rows are in step with the volume: "synced", "behind" or "unsynced". */
const char *temp_store_state(struct temp_store *store, const char *scope);

/* Waits until a counter reaches `value`; false after `timeout_ms`. */
bool temp_wait_counter(const _Atomic uint64_t *counter, uint64_t value, unsigned timeout_ms);

/* Sleeps a millisecond; for loops that wait for a condition. */
void temp_nap(void);

#endif
