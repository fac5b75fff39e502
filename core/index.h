/* core/index.h - the node-local search index: one SQLite file that anybody may delete at any time.
 *
 * It answers from rows that carry, in the same transaction, the signature they were built from;
 * nothing in it is true by itself. One `struct index` owns the file, the lock on its directory and
 * the only connection that writes (core/index_install.h, one thread); each request thread has an
 * `index_reader` (core/index_search.h).
 *
 * Layout (docs/architecture.md, "The index"): tables scope, fact, seen, and one contentless FTS5
 * table whose tokenizer puts the scope's number in front of every token. A fact row belongs to one
 * file: (scope, path) is unique, the fact's id is not (the peers load an id twice when it lies in
 * two places, and so do we).
 */
#ifndef MEMSYNC_CORE_INDEX_H
#define MEMSYNC_CORE_INDEX_H

#include "core/scope.h"
#include "core/signature.h"

#include <stdint.h>

struct index;        /* opaque; thread-safe unless said otherwise */
struct index_reader; /* opaque; one thread at a time */

#define INDEX_FILE_NAME "memsyncd.sqlite3"
#define INDEX_SCHEMA_VERSION 4

struct index_options {
    const char *directory; /* made (0700) when missing; its parent must exist */
    uint64_t mmap_bytes; /* how much of the file is mapped, see core/index_mapping.h; 0: nothing */
    uint64_t wal_bytes_max; /* a larger log is checkpointed and reported; 0: default (64 MiB) */
};

/* Opens or creates the index and takes the directory's lock. STATUS_BUSY: another agent holds it
 * (message with its pid). STATUS_DENIED, STATUS_STORAGE_FULL, ... with a message that names the
 * directory. A damaged file, one of another schema or analyzer version is renamed aside (only
 * memsyncd.sqlite3 and its -wal and -shm, never anything else in the directory) and a new one made:
 * `ret_rebuilt` says so, and index_damage_text() why. After an unclean end the file is checked
 * (quick_check and FTS5 integrity-check). */
MUST_CHECK enum status index_open(const struct index_options *options, struct index **ret,
                                  bool *ret_rebuilt, struct error *error);
/* Checkpoints, marks a clean end, closes. No reader may be open. */
void index_close(struct index **index);

/* Which volume the index was built from, as index_set_identity() was told; "" for a new index. The
 * index itself draws no conclusion from it. */
#define INDEX_IDENTITY_SIZE 96
void index_identity(struct index *index, char *ret, size_t size);

/* Only whose turn it is to install may call it. */
MUST_CHECK enum status index_set_identity(struct index *index, const char *identity,
                                          struct error *error);

/* The database file, for people. Valid as long as the index. */
const char *index_path(const struct index *index);

/* Why the last set-aside happened (SQLite's own message), or "" . Valid until the next one. */
void index_damage_text(struct index *index, char *ret, size_t size);

/* True when the open file is no longer the one at its path (device, inode), i.e. somebody deleted
 * or replaced it, or its log. A file that was written over in place shows by its pages instead.
 * Thread-safe. */
bool index_file_was_replaced(struct index *index);
const char *index_replaced_text(struct index *index); /* what has become of it, then */

/* Sets the damaged or replaced file aside and starts an empty one; every reader reopens by itself
 * at its next begin. Only the install thread may call it. */
MUST_CHECK enum status index_rebuild(struct index *index, const char *reason, struct error *error);

/* Counts rebuilds since the start: a reader or planner that noted it can tell that everything is
 * gone. */
uint64_t index_epoch(const struct index *index);

/* Merges and checkpoints for at most `budget_ms`; true when there may be more to do. Only the
 * install thread. */
bool index_maintain(struct index *index, unsigned budget_ms);

struct index_totals {
    uint64_t scopes;
    uint64_t facts;
    uint64_t broken;     /* files that are kept out */
    uint64_t unmigrated; /* scopes with data in an earlier layout */
    uint64_t file_bytes; /* of the database and its log */
    uint64_t wal_bytes;
};
MUST_CHECK enum status index_totals(struct index_reader *reader, struct index_totals *ret,
                                    struct error *error);

/* SQLite has told of damage, or the file is not ours any more, since the last rebuild: every call
 * answers STATUS_CORRUPT until index_rebuild(), but for what lists or reads rows in a snapshot that
 * has begun: that is STATUS_UNAVAILABLE, with this text. */
bool index_is_damaged(const struct index *index);
#define INDEX_LOST_TEXT "the index was lost and is being built again"

#endif
