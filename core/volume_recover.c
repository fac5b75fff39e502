#include "core/volume_recover.h"

#include "core/clock.h"
#include "core/mutant.h"
#include "core/pause_point.h"
#include "core/volume_private.h"
#include "core/volume_rollback.h"

#include <string.h>

#define SIGHTING_SLOTS 64u
#define READ_TRIES 3

/* When this node first saw a bucket's prepared journal. */
struct sighting {
    char bucket[SCOPE_PATH_MAX];
    char *operation_id;
    uint64_t inode;
    uint64_t ctime_ns;
    uint64_t first_ns;
    struct sighting *next;
};

/* `lock` guards the sightings; a leaf. */
struct volume_recovery {
    bool locks_reach_all_nodes;
    bool read_only;
    uint64_t grace_ns;
    char manifest_name[SCOPE_NAME_MAX + 1];
    pthread_mutex_t lock;
    struct sighting *slots[SIGHTING_SLOTS];
};

enum status volume_recovery_create(const struct volume_recovery_options *options,
                                   struct volume_recovery **ret)
{
    struct volume_recovery *recovery = NULL;

    if (!manifest_name_is_valid(options->manifest_name))
        return STATUS_INVALID;
    recovery = calloc(1, sizeof *recovery);
    if (!recovery)
        return STATUS_NO_MEMORY;
    recovery->locks_reach_all_nodes = options->locks_reach_all_nodes;
    recovery->grace_ns = options->grace_ns;
    recovery->read_only = options->read_only;
    memcpy(recovery->manifest_name, options->manifest_name, strlen(options->manifest_name) + 1);
    (void) pthread_mutex_init(&recovery->lock, NULL);
    *ret = recovery;
    return STATUS_OK;
}

static void sighting_destroy(struct sighting *sighting)
{
    free(sighting->operation_id);
    free(sighting);
}

void volume_recovery_destroy(struct volume_recovery **recovery)
{
    if (!*recovery)
        return;
    for (size_t i = 0; i < SIGHTING_SLOTS; i++) {
        while ((*recovery)->slots[i]) {
            struct sighting *sighting = (*recovery)->slots[i];
            (*recovery)->slots[i] = sighting->next;
            sighting_destroy(sighting);
        }
    }
    (void) pthread_mutex_destroy(&(*recovery)->lock);
    free(*recovery);
    *recovery = NULL;
}

/* ---- sightings ---- */

/* Where the bucket's sighting hangs, or would hang. */
static struct sighting **find_sighting_locked(struct volume_recovery *recovery, const char *bucket)
{
    struct sighting **link =
        &recovery->slots[signature_digest(bucket, strlen(bucket)) % SIGHTING_SLOTS];

    while (*link && strcmp((*link)->bucket, bucket) != 0)
        link = &(*link)->next;
    return link;
}

static void forget(struct volume_recovery *recovery, const char *bucket)
{
    (void) pthread_mutex_lock(&recovery->lock);
    struct sighting **link = find_sighting_locked(recovery, bucket);
    struct sighting *gone = *link;
    if (gone)
        *link = gone->next;
    (void) pthread_mutex_unlock(&recovery->lock);
    if (gone)
        sighting_destroy(gone);
}

static struct sighting *sighting_create(const char *bucket, const char *operation_id,
                                        const struct file_stamp *stamp)
{
    struct sighting *sighting = calloc(1, sizeof *sighting);

    if (!sighting)
        return NULL;
    sighting->operation_id = strdup(operation_id);
    if (!sighting->operation_id) {
        sighting_destroy(sighting);
        return NULL;
    }
    memcpy(sighting->bucket, bucket, strlen(bucket) + 1);
    sighting->inode = stamp->inode;
    sighting->ctime_ns = stamp->ctime_ns;
    sighting->first_ns = clock_monotonic_ns();
    return sighting;
}

/* Remembers a journal, anew when it is another one than before; writes since when it is known. */
static enum status note(struct volume_recovery *recovery, const char *bucket,
                        const struct journal *journal, const struct file_stamp *stamp,
                        uint64_t *ret_first_ns)
{
    struct sighting *fresh = sighting_create(bucket, journal->operation_id, stamp);
    struct sighting *gone = fresh;

    if (!fresh)
        return STATUS_NO_MEMORY;
    (void) pthread_mutex_lock(&recovery->lock);
    struct sighting **link = find_sighting_locked(recovery, bucket);
    struct sighting *known = *link;
    if (!known || strcmp(known->operation_id, fresh->operation_id) != 0 ||
        known->inode != fresh->inode || known->ctime_ns != fresh->ctime_ns) {
        fresh->next = known ? known->next : NULL;
        *link = fresh;
        gone = known;
    }
    *ret_first_ns = (*link)->first_ns;
    (void) pthread_mutex_unlock(&recovery->lock);
    if (gone)
        sighting_destroy(gone);
    return STATUS_OK;
}

/* ---- looking at the journal ---- */

/* A bucket's journal as it is now. */
struct finding {
    int bucket_fd;
    struct journal *journal; /* NULL: there is none */
    struct file_stamp stamp;
};

static void finding_destroy(struct finding *finding)
{
    cleanup_close(&finding->bucket_fd);
    journal_destroy(&finding->journal);
}
#define AUTO_FINDING CLEANUP(finding_destroy)

static enum status read_journal(const struct volume *volume, struct finding *finding,
                                struct error *error)
{
    AUTO_LISTING struct listing listing = {0};
    AUTO_IMAGE struct file_image image = {0};

    enum status status = volume_list_fd(volume, finding->bucket_fd, &listing, error);
    if (status != STATUS_OK || !listing_find(&listing, JOURNAL_NAME))
        return status;
    status = volume_read_file(volume, finding->bucket_fd, JOURNAL_NAME, JOURNAL_BYTES_MAX, &image,
                              error);
    if (status == STATUS_NOT_FOUND) /* listed and not there: replaced or removed just now */
        return STATUS_STALE;
    if (status == STATUS_OK)
        status = journal_parse(image.bytes, image.size, &finding->journal, error);
    finding->stamp = image.stamp;
    return volume_error_at(error, status, JOURNAL_NAME);
}

/* Paths in errors below a bucket become relative to the volume. */
static enum status error_in_bucket(struct error *error, enum status status,
                                   const struct scope *scope)
{
    char path[SCOPE_PATH_MAX];

    if (!error || status == STATUS_OK)
        return status;
    scope_file_path(scope, error->path[0] ? error->path : JOURNAL_NAME, path);
    return volume_error_at(error, status, path);
}

/* A bucket that went away has no journal. */
static enum status look(const struct volume *volume, const struct scope *scope,
                        struct finding *finding, struct error *error)
{
    char bucket[SCOPE_PATH_MAX];
    enum status status = STATUS_STALE;

    scope_bucket_path(scope, bucket);
    for (int tries = 0; status == STATUS_STALE && tries < READ_TRIES; tries++) {
        finding_destroy(finding);
        finding->bucket_fd = -1;
        status = volume_open_dir(volume, -1, bucket, &finding->bucket_fd, error);
        if (status == STATUS_NOT_FOUND)
            return STATUS_OK;
        if (status == STATUS_OK)
            status = error_in_bucket(error, read_journal(volume, finding, error), scope);
    }
    return status;
}

/* ---- verdicts ---- */

/* Which faults are a verdict about the journal, and which only say that the volume failed us. */
static enum status conclude(enum status status, enum recover_outcome on_success,
                            enum recover_outcome *ret)
{
    switch (status) {
    case STATUS_OK:
        *ret = on_success;
        return STATUS_OK;
    case STATUS_CORRUPT:
    case STATUS_TOO_LARGE:
    case STATUS_DENIED:
    case STATUS_UNSUPPORTED:
        *ret = RECOVER_IMPOSSIBLE;
        return STATUS_OK;
    default:
        return status;
    }
}

/* Under the user's lock. A committed change stands whether its traces go away or not. */
static enum status deal_with(struct volume_recovery *recovery, const struct volume *volume,
                             const struct scope *scope, enum recover_outcome *ret,
                             struct error *error)
{
    AUTO_FINDING struct finding finding = {.bucket_fd = -1};
    char bucket[SCOPE_PATH_MAX];
    uint64_t first_ns = 0;

    scope_bucket_path(scope, bucket);
    enum status status = look(volume, scope, &finding, error);
    if (status != STATUS_OK || !finding.journal)
        return conclude(status, RECOVER_NOTHING, ret);
    if (recovery->read_only) {
        *ret = finding.journal->state == JOURNAL_COMMITTED ? RECOVER_NOTHING : RECOVER_IMPOSSIBLE;
        (void) error_in_bucket(error,
                               error_set(error, STATUS_DENIED, JOURNAL_NAME,
                                         "an unfinished commit has to be taken back, but "
                                         "volume.read_only is set"),
                               scope);
        return STATUS_OK;
    }
    if (finding.journal->state == JOURNAL_COMMITTED) {
        status = volume_rollback_clean_up(volume, finding.bucket_fd, finding.journal, error);
        (void) error_in_bucket(error, status, scope);
        *ret = status == STATUS_OK ? RECOVER_NOTHING : RECOVER_TRACES_LEFT;
        return STATUS_OK;
    }

    status = note(recovery, bucket, finding.journal, &finding.stamp, &first_ns);
    if (status != STATUS_OK)
        return status;
    if (!MUTANT(NO_GRACE) && !recovery->locks_reach_all_nodes &&
        clock_monotonic_ns() - first_ns < recovery->grace_ns) {
        *ret = RECOVER_WAITING;
        return STATUS_OK;
    }
    status =
        volume_rollback(volume, finding.bucket_fd, recovery->manifest_name, finding.journal, error);
    return conclude(error_in_bucket(error, status, scope), RECOVER_ROLLED_BACK, ret);
}

/* The lock could not be had. */
static enum status without_lock(enum status status, const struct journal *journal,
                                enum recover_outcome *ret)
{
    if (status == STATUS_NOT_FOUND) { /* the bucket went away */
        *ret = RECOVER_NOTHING;
        return STATUS_OK;
    }
    if (journal->state == JOURNAL_COMMITTED) {
        enum status verdict =
            conclude(status == STATUS_BUSY ? STATUS_OK : status, RECOVER_NOTHING, ret);
        if (verdict == STATUS_OK)
            *ret = RECOVER_NOTHING;
        return verdict;
    }
    if (status == STATUS_BUSY) {
        *ret = RECOVER_LIVE_WRITER;
        return STATUS_OK;
    }
    return conclude(status, RECOVER_IMPOSSIBLE, ret);
}

enum status volume_recover_locked(struct volume_recovery *recovery, const struct volume *volume,
                                  const struct scope *scope, enum recover_outcome *ret,
                                  struct error *error)
{
    enum recover_outcome outcome = RECOVER_NOTHING;
    char bucket[SCOPE_PATH_MAX];

    scope_bucket_path(scope, bucket);
    pause_here(PAUSE_RECOVER_AFTER_LOCK);
    enum status status = deal_with(recovery, volume, scope, &outcome, error);
    if (status != STATUS_OK)
        return status;
    if (outcome == RECOVER_NOTHING || outcome == RECOVER_TRACES_LEFT ||
        outcome == RECOVER_ROLLED_BACK)
        forget(recovery, bucket);
    if (outcome != RECOVER_IMPOSSIBLE && outcome != RECOVER_TRACES_LEFT)
        error_clear(error);
    *ret = outcome;
    return STATUS_OK;
}

enum status volume_recover(struct volume_recovery *recovery, struct volume_lock_table *locks,
                           const struct volume *volume, const struct scope *scope,
                           uint64_t deadline_ns, enum recover_outcome *ret, struct error *error)
{
    AUTO_FINDING struct finding finding = {.bucket_fd = -1};
    struct volume_lock *lock = NULL;
    char bucket[SCOPE_PATH_MAX];
    uint64_t first_ns = 0;

    scope_bucket_path(scope, bucket);
    enum status status = look(volume, scope, &finding, error);
    if (status == STATUS_OK && !finding.journal)
        forget(recovery, bucket);
    if (status != STATUS_OK || !finding.journal)
        return conclude(status, RECOVER_NOTHING, ret);
    if (finding.journal->state == JOURNAL_PREPARED) {
        status = note(recovery, bucket, finding.journal, &finding.stamp, &first_ns);
        if (status != STATUS_OK)
            return status;
    }

    /* The change stands, and its writer may be alive where we do not see its lock: about to tidy up
     * itself, and to begin the next commit, whose journal would lie under the name that we remove.
     */
    if (finding.journal->state == JOURNAL_COMMITTED && !recovery->locks_reach_all_nodes) {
        forget(recovery, bucket);
        return conclude(STATUS_OK, RECOVER_NOTHING, ret);
    }
    /* A live writer's waiting time is not spent on it. */
    if (finding.journal->state == JOURNAL_COMMITTED)
        deadline_ns = 0;
    status = volume_lock_acquire(locks, volume, scope, VOLUME_LOCK_EXCLUSIVE, !recovery->read_only,
                                 deadline_ns, &lock, error);
    if (status == STATUS_NOT_FOUND && recovery->read_only)
        return deal_with(recovery, volume, scope, ret, error);
    if (status != STATUS_OK)
        return without_lock(status, finding.journal, ret);
    status = volume_recover_locked(recovery, volume, scope, ret, error);
    volume_lock_release(&lock);
    if (status == STATUS_OK && *ret == RECOVER_TRACES_LEFT) {
        *ret = RECOVER_NOTHING;
        error_clear(error);
    }
    return status;
}
