/* core/keeper.h - keeps the index in step without being asked: the threads of a store.
 *
 * Refreshers take what the refresh table wants, one of them only what somebody waits for. One
 * watcher listens to inotify, polls within its budget, looks for new users, checks that volume and
 * index file are still the ones it knows, and tidies the index in idle moments. All of it only
 * makes refreshes early: a search is right without any of it.
 */
#ifndef MEMSYNC_CORE_KEEPER_H
#define MEMSYNC_CORE_KEEPER_H

#include "core/store.h"

struct keeper;

struct keeper_options {
    unsigned refreshers; /* for the background, 0: as many as suit the volume; one more serves only
                            what is urgent */
    bool inotify;
    uint64_t poll_interval_min_ms, poll_interval_max_ms;
    unsigned operations_per_second;
    bool measure_index; /* keep what the index holds at hand, see keeper_state */
};

/* Starts the threads; `store` must outlive them. Where inotify cannot be used the watcher polls;
 * not OK: a thread could not be started, and none is left running. */
MUST_CHECK enum status keeper_start(struct store *store, const struct keeper_options *options,
                                    struct keeper **ret, struct error *error);

/* Puts others in the place of threads that hang in a call to the volume. Call it about once a
 * second, from one thread that does not touch the volume. */
void keeper_oversee(struct keeper *keeper);

/* Ends and joins all threads; a run under way is finished first. False: some hang and did not come
 * back by the deadline (CLOCK_NEVER: none); then what they use was not released, and the store must
 * stay. */
MUST_CHECK bool keeper_stop(struct keeper **keeper, uint64_t deadline_ns);

/* A scope was asked for: its user is polled more often again. Cheap; any thread. */
void keeper_touch(struct keeper *keeper, const struct scope *scope);

struct keeper_state {
    uint64_t buckets; /* known to the poller */
    uint64_t watched; /* directories with an inotify watch */
    uint64_t wanted;  /* those that should have one */
    uint64_t events, overflows;
    char limit[64]; /* the limit that keeps watches from being set, or "" */
    bool inotify;
    bool first_pass_done;
    uint64_t last_turn_ns; /* when the watcher last came round (monotonic) */
    bool measured;         /* `totals` are known: a second old, or, where counting takes longer
                              than ten milliseconds, a hundred times as long as that, 30 s
                              at most */
    struct index_totals totals;
};
/* Waits for nobody: neither for the volume nor for the index. */
void keeper_state(struct keeper *keeper, struct keeper_state *ret);

/* For how long the watcher waits for a call of its own to the volume, which is one to what all
 * users share; 0: it does not. Cheap; any thread. */
uint64_t keeper_silence_ns(struct keeper *keeper);

#endif
