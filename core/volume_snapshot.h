/* core/volume_snapshot.h - a scope's facts as they were at one moment, or nothing.
 *
 * The rule (docs/freshness.md, "Validated snapshots"): no journal in state `prepared` (a dead
 * writer's is rolled back first, a live one's is waited for), capture the manifest's signature and
 * keep it open, read the facts, then check that the signature, inode and ctime are still the same
 * and that no journal is `prepared`; else start over, at last under the user's shared lock. Without
 * the second look a search could see half of a peer's commit, or keep the wrong facts under the
 * right signature for ever.
 */
#ifndef MEMSYNC_CORE_VOLUME_SNAPSHOT_H
#define MEMSYNC_CORE_VOLUME_SNAPSHOT_H

#include "core/freshness.h"
#include "core/manifest.h"
#include "core/reader_pool.h"
#include "core/refresh_plan.h"
#include "core/volume_bucket.h"
#include "core/volume_recover.h"

#include <stdatomic.h>

/* What a snapshot is taken with; all of it shared and thread-safe. */
struct snapshot_source {
    struct volume *volume;
    struct bucket_table *buckets;
    struct volume_lock_table *locks;
    struct volume_recovery *recovery;
    struct reader_pool *pool;
    const char *manifest_name;
};

struct snapshot_request {
    const struct scope *scope;
    struct refresh_plan *plan;
    uint64_t deadline_ns;
    unsigned writer_wait_ms;              /* patience with a live writer's lock; 0: 300 */
    bool lock_is_held;                    /* the caller holds the user's lock */
    const struct synced_mark *built_from; /* rows of this manifest need no reading; NULL: read */
    _Atomic uint64_t *files_read;         /* counts up while it reads; may be NULL */
};

struct snapshot {
    struct live_state live;
    char *manifest; /* the bytes that `live` is of; owned. NULL: the bucket has none */
    size_t manifest_size;
    bool in_step; /* with `built_from`: no fact was looked at, the plan holds nothing */
    bool bucket_present;
    bool unmigrated;  /* there is data in an earlier layout */
    bool rolled_back; /* a dead writer's commit was taken back on the way */
    unsigned attempts;
    bool took_lock;
};

void snapshot_destroy(struct snapshot *snapshot);
#define AUTO_SNAPSHOT CLEANUP(snapshot_destroy)

/* Takes one, which the caller destroys. What follows for the index is in the request's plan
 * (refresh_plan_finish). Nothing is to be published unless STATUS_OK. STATUS_BUSY: a commit was
 * under way until the deadline. STATUS_UNAVAILABLE: a prepared journal cannot be dealt with,
 * `error` names it. STATUS_CORRUPT: the manifest cannot be understood. STATUS_TIMEOUT: the scope
 * changes faster than it can be read. Others: the volume's own errors. */
MUST_CHECK enum status snapshot_take(const struct snapshot_source *source,
                                     const struct snapshot_request *request, struct snapshot *ret,
                                     struct error *error);

/* The cheap look of every search: the live signature of the scope's manifest. */
MUST_CHECK enum status snapshot_compare(const struct snapshot_source *source,
                                        const struct scope *scope, struct live_state *ret,
                                        struct error *error);

#endif
