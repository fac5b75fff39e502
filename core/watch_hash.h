/* core/watch_hash.h - an intrusive hash table for the watchers' tables and what they count.
 *
 * The links lie inside the caller's entries, which the caller owns and compares; the table knows
 * their hashes only. A zeroed table is empty and valid. Not thread-safe.
 */
#ifndef MEMSYNC_CORE_WATCH_HASH_H
#define MEMSYNC_CORE_WATCH_HASH_H

#include "core/status.h"

#include <stddef.h>
#include <stdint.h>

struct watch_link {
    struct watch_link *next;
    uint64_t hash;
};

struct watch_hash {
    struct watch_link **slots; /* NULL while nothing was inserted */
    size_t slot_count;         /* a power of two */
    size_t count;
};

/* Mixes a bucket's identity into a hash. */
uint64_t watch_hash_bucket(bool has_user, const char *bucket);

/* Spreads a small number over all bits. */
uint64_t watch_hash_number(uint64_t number);

/* STATUS_NO_MEMORY leaves the table as it was. */
MUST_CHECK enum status watch_hash_insert(struct watch_hash *table, struct watch_link *link,
                                         uint64_t hash);
/* `link` must be in the table. */
void watch_hash_remove(struct watch_hash *table, struct watch_link *link);

/* The first link of that hash, and the next one with the same hash; NULL at the end. */
struct watch_link *watch_hash_first(const struct watch_hash *table, uint64_t hash);
struct watch_link *watch_hash_next(const struct watch_link *link);

/* Calls `visit` once for each link, in no order. `visit` may free the entry, or remove it. */
void watch_hash_each(struct watch_hash *table,
                     void (*visit)(void *context, struct watch_link *link), void *context);

/* Frees the table itself, not the entries. */
void watch_hash_destroy(struct watch_hash *table);

#endif
