/* core/volume_commit.h - one atomic change of a bucket: journal, backups, facts, manifest.
 *
 * The caller holds the user's lock exclusively, has dealt with a dead writer's journal, and has
 * read the manifest that the change starts from. The order on disk is the peers'
 * (docs/volume-format.md, "Commits"): backups, journal `prepared`, facts, manifest, journal
 * `committed`, clean-up. Every file is replaced atomically and durably. Readers see the change when
 * the manifest is replaced; whether it stands is decided by `committed`.
 *
 * The lock may not lock, so there is a second guard: the journal appears exclusively, and the base
 * is compared again after it, directly before the manifest's rename and before `committed`. A
 * commit that finds itself overtaken takes back only files that still have the bytes it wrote, and
 * nothing at all where somebody else owns the journal by then.
 */
#ifndef MEMSYNC_CORE_VOLUME_COMMIT_H
#define MEMSYNC_CORE_VOLUME_COMMIT_H

#include "core/scope.h"
#include "core/volume.h"

/* One fact file to write or to remove. */
struct commit_fact {
    const char *id;
    const char *path;  /* relative to the bucket: agents/A/facts/xx/ID.md */
    bool existed;      /* a file lies there; else it must not */
    const char *bytes; /* NULL: remove it */
    size_t size;
};

struct commit_request {
    const struct volume *volume;
    int bucket_fd;
    const char *manifest_name;
    const char *agent; /* whose facts; NULL: summaries only */
    const char *base;  /* the manifest's bytes before; NULL: there is none */
    size_t base_size;
    int64_t expected_revision; /* of the manifest before; 0: there is none */
    int64_t next_revision;
    const char *manifest; /* the bytes after */
    size_t manifest_size;
    const struct commit_fact *facts;
    size_t fact_count;
    bool locks_reach_all_nodes; /* what dead writers left without a journal is removed then */
};

struct commit_result {
    struct file_stamp manifest; /* forced, under the lock, after the rename */
};

/* STATUS_CONFLICT: overtaken, with the member `reason` "overtaken". Other errors name the file; the
 * old state is back, or the journal still says prepared and the next operation takes it back. After
 * STATUS_IO with the `reason` "unconfirmed" the change is there and may not survive a power cut, or
 * it cannot be told whether it is there; either way it is whole. */
MUST_CHECK enum status volume_commit(const struct commit_request *request,
                                     struct commit_result *ret, struct error *error);

#endif
