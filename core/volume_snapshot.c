#include "core/volume_snapshot.h"

#include "core/clock.h"
#include "core/fact_walk.h"
#include "core/legacy.h"
#include "core/mutant.h"
#include "core/pause_point.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define ATTEMPTS_UNLOCKED 3
#define ATTEMPTS_LOCKED 3
#define LOCK_HOLD_MS 1000
/* A commit takes milliseconds; whoever holds the lock longer is not waited for, the scope is stale
 * meanwhile. */
#define WRITER_WAIT_MS 300
/* Longer than the 50 ms after which a peer's writer tries the lock again, so that it gets its turn.
 */
#define LOCK_PAUSE_MS 75

/* What keeps others from committing while an attempt reads. */
enum hold {
    HOLD_NOT_TRIED, /* nothing */
    HOLD_LOCK,      /* the user's lock */
    HOLD_NO_FILE,   /* nothing; there is no lock file, so nobody ever held it */
    HOLD_REFUSED,   /* nothing: the lock cannot be had */
};

/* One attempt under way. */
struct attempt {
    const struct snapshot_source *source;
    const struct snapshot_request *request;
    struct snapshot *snapshot;
    enum hold hold;
    const struct error *refusal; /* why the lock cannot be had */
    uint64_t give_up_ns;         /* for the walk */
    int bucket_fd;
    int manifest_fd; /* open until the check: its inode cannot be used again before */
    struct facts_place place;
};

static struct manifest_mark mark_of(const struct file_image *image, int64_t revision)
{
    return (struct manifest_mark){
        .signature =
            {
                .mtime_ns = image->stamp.mtime_ns,
                .size = image->stamp.size,
                .revision = revision,
                .digest = signature_digest(image->bytes, image->size),
            },
        .inode = image->stamp.inode,
        .ctime_ns = image->stamp.ctime_ns,
    };
}

static const struct manifest_mark absent_mark = {.signature = {.absent = true}};

static void name_manifest(const struct snapshot_source *source, const struct scope *scope,
                          struct error *error)
{
    if (error)
        scope_file_path(scope, source->manifest_name, error->path);
}

static uint64_t writer_deadline(const struct snapshot_request *request)
{
    uint64_t patience_ns =
        clock_deadline_ms(request->writer_wait_ms ? request->writer_wait_ms : WRITER_WAIT_MS);

    return patience_ns < request->deadline_ns ? patience_ns : request->deadline_ns;
}

/* Deals with a journal that the listing shows: STATUS_OK when it does not stand in the way,
 * STATUS_STALE when things were put right and must be looked at again. */
static enum status settle_journal(const struct attempt *attempt, struct error *error)
{
    const struct snapshot_source *source = attempt->source;
    enum recover_outcome outcome;
    struct error reason = {0};

    enum status status =
        volume_recover(source->recovery, source->locks, source->volume, attempt->request->scope,
                       writer_deadline(attempt->request), &outcome, &reason);
    if (status != STATUS_OK) {
        if (error)
            *error = reason;
        return status;
    }
    switch (outcome) {
    case RECOVER_NOTHING:
    case RECOVER_TRACES_LEFT:
        return STATUS_OK;
    case RECOVER_ROLLED_BACK:
        attempt->snapshot->rolled_back = true;
        return STATUS_STALE;
    case RECOVER_LIVE_WRITER:
        return error_set(error, STATUS_BUSY, reason.path, "a commit is under way");
    case RECOVER_WAITING:
        return error_set(error, STATUS_BUSY, reason.path, "%s",
                         reason.message[0] ? reason.message
                                           : "an unfinished commit may still be under way");
    case RECOVER_IMPOSSIBLE:
        break;
    }
    return error_set(error, STATUS_UNAVAILABLE, reason.path, "%s", reason.message);
}

static void drop_manifest(struct snapshot *snapshot)
{
    free(snapshot->manifest);
    snapshot->manifest = NULL;
    snapshot->manifest_size = 0;
}

/* Reads and understands the manifest that a listing shows, and keeps it open. */
static enum status capture_manifest(struct attempt *attempt, struct manifest *ret,
                                    struct error *error)
{
    const struct snapshot_source *source = attempt->source;
    AUTO_IMAGE struct file_image image = {0};

    enum status status = volume_open_file(source->volume, attempt->bucket_fd, source->manifest_name,
                                          &attempt->manifest_fd, error);
    if (status == STATUS_OK)
        status =
            volume_read_fd(source->volume, attempt->manifest_fd, MANIFEST_BYTES_MAX, &image, error);
    if (status == STATUS_OK)
        status = manifest_parse(image.bytes, image.size, ret, error);
    if (status != STATUS_OK) {
        name_manifest(source, attempt->request->scope, error);
        return status == STATUS_NOT_FOUND ? STATUS_STALE : status;
    }
    attempt->snapshot->live.mark = mark_of(&image, ret->revision);
    attempt->snapshot->live.bare = false;
    attempt->snapshot->manifest = image.bytes;
    attempt->snapshot->manifest_size = image.size;
    image = (struct file_image){0};
    return STATUS_OK;
}

/* The second look: the same manifest (or none still), and no commit begun. */
static enum status check_again(const struct attempt *attempt, struct error *error)
{
    const struct snapshot_source *source = attempt->source;
    const struct live_state *live = &attempt->snapshot->live;
    AUTO_VIEW struct bucket_view view = {0};
    AUTO_IMAGE struct file_image image = {0};

    if (MUTANT(NO_SECOND_LOOK))
        return STATUS_OK;
    enum status status = bucket_view_read(source->buckets, attempt->request->scope,
                                          attempt->bucket_fd, &view, error);
    if (status != STATUS_OK)
        return status;
    if (view.has_journal && !MUTANT(NO_JOURNAL_CHECK)) {
        status = settle_journal(attempt, error);
        if (status != STATUS_OK)
            return status;
    }
    if (view.has_manifest == live->mark.signature.absent)
        return STATUS_STALE;
    /* A writer makes the lock file first, and nobody removes it: had one been there meanwhile, and
     * been taken back, it would show. */
    if (!view.has_manifest)
        return attempt->hold == HOLD_NO_FILE && listing_find(&view.listing, JOURNAL_LOCK_NAME)
                   ? STATUS_STALE
                   : STATUS_OK;

    status = volume_read_file_once(source->volume, attempt->bucket_fd, source->manifest_name,
                                   MANIFEST_BYTES_MAX, &image, error);
    if (status == STATUS_NOT_FOUND)
        return STATUS_STALE;
    if (status != STATUS_OK)
        return status;
    struct manifest_mark again = mark_of(&image, live->mark.signature.revision);
    bool same = signature_equal(&again.signature, &live->mark.signature) &&
                again.inode == live->mark.inode && again.ctime_ns == live->mark.ctime_ns;
    return same ? STATUS_OK : STATUS_STALE;
}

/* True when something of an earlier layout concerns the scope. */
static bool is_legacy(const struct scope *scope, const struct manifest *manifest,
                      const struct facts_place *place)
{
    return legacy_is_possible(scope, manifest, place->has_agent ? &place->agent : NULL,
                              place->has_lead ? &place->lead : NULL);
}

static enum status walk_facts(const struct attempt *attempt, struct error *error)
{
    struct refresh_plan *plan = attempt->request->plan;
    struct fact_walk walk = {
        .volume = attempt->source->volume,
        .pool = attempt->source->pool,
        .scope = attempt->request->scope,
        .facts_fd = attempt->place.facts_fd,
        .give_up_ns = attempt->give_up_ns,
        .files_read = attempt->request->files_read,
    };
    enum status status = refresh_plan_begin(plan, attempt->place.facts_fd >= 0);

    if (status == STATUS_OK && attempt->place.facts_fd >= 0)
        status = fact_walk_run(&walk, plan, error);
    return status;
}

/* Facts without a manifest have no signature to check: a commit that was begun and taken back while
 * they were read has left nothing that shows. So it takes the lock, which tells that nobody writes,
 * or that nobody ever had one. Where it cannot be had they are not told as what lies there. */
static enum status check_hold(const struct attempt *attempt, struct error *error)
{
    if (!attempt->snapshot->live.mark.signature.absent || attempt->place.facts_fd < 0)
        return STATUS_OK;
    switch (attempt->hold) {
    case HOLD_NOT_TRIED:
        return STATUS_STALE;
    case HOLD_LOCK:
    case HOLD_NO_FILE:
        return STATUS_OK;
    case HOLD_REFUSED:
        break;
    }
    if (MUTANT(BARE_WITHOUT_LOCK))
        return STATUS_OK;
    return error_set(error, STATUS_UNAVAILABLE, attempt->refusal->path,
                     "facts without a manifest are read under the user's lock only: %s",
                     attempt->refusal->message);
}

/* Lists the bucket, and deals with a journal. */
static enum status look_at_bucket(const struct attempt *attempt, struct bucket_view *ret,
                                  struct error *error)
{
    enum status status = bucket_view_read(attempt->source->buckets, attempt->request->scope,
                                          attempt->bucket_fd, ret, error);

    if (status == STATUS_OK && ret->has_journal && !MUTANT(NO_JOURNAL_CHECK))
        status = settle_journal(attempt, error);
    return status;
}

/* Looks for a journal before the capture and once more after it: in between, a commit may have got
 * as far as its manifest and died, and somebody may be taking it back, manifest first. Then the
 * manifest that was captured is the right one already, while the facts still wait for it. */
static enum status capture(struct attempt *attempt, struct bucket_view *ret_view,
                           struct manifest *ret_manifest, struct error *error)
{
    struct live_state *live = &attempt->snapshot->live;

    enum status status = look_at_bucket(attempt, ret_view, error);
    if (status != STATUS_OK)
        return status;
    pause_here(PAUSE_SNAPSHOT_BEFORE_CAPTURE);
    *live = (struct live_state){.mark = absent_mark, .bare = true};
    if (ret_view->has_manifest)
        status = capture_manifest(attempt, ret_manifest, error);
    if (status == STATUS_OK && !MUTANT(NO_LOOK_AFTER_CAPTURE)) {
        bucket_view_destroy(ret_view);
        *ret_view = (struct bucket_view){0};
        status = look_at_bucket(attempt, ret_view, error);
    }
    if (status == STATUS_OK && ret_view->has_manifest == live->mark.signature.absent)
        status = STATUS_STALE;
    return status;
}

/* True when the manifest that was captured is the one that the caller's rows were built from. */
static bool is_in_step(const struct attempt *attempt)
{
    const struct live_state *live = &attempt->snapshot->live;
    const struct synced_mark *built_from = attempt->request->built_from;

    return built_from && !live->mark.signature.absent &&
           freshness_in_step(built_from, 0, live, true);
}

static enum status read_bucket(struct attempt *attempt, struct error *error)
{
    const struct snapshot_source *source = attempt->source;
    struct snapshot *snapshot = attempt->snapshot;
    AUTO_VIEW struct bucket_view view = {0};
    AUTO_MANIFEST struct manifest manifest = {0};

    enum status status = capture(attempt, &view, &manifest, error);
    if (status != STATUS_OK)
        return status;
    pause_here(PAUSE_SNAPSHOT_AFTER_CAPTURE);
    snapshot->in_step = is_in_step(attempt);
    if (snapshot->in_step)
        return STATUS_OK;
    if (view.has_agents)
        status = bucket_find_facts(source->buckets, attempt->request->scope, attempt->bucket_fd,
                                   &attempt->place, error);
    snapshot->unmigrated =
        is_legacy(attempt->request->scope, view.has_manifest ? &manifest : NULL, &attempt->place);
    if (status == STATUS_OK)
        status = check_hold(attempt, error);
    if (status == STATUS_OK)
        status = walk_facts(attempt, error);
    if (status != STATUS_OK)
        return status;
    if (snapshot->live.mark.signature.absent) {
        bool facts = false;
        if (attempt->place.facts_fd >= 0)
            status = fact_walk_any(source->volume, attempt->place.facts_fd, &facts, error);
        if (status != STATUS_OK)
            return status;
        snapshot->live.bare = !facts && !snapshot->unmigrated;
    }
    pause_here(PAUSE_SNAPSHOT_AFTER_READ);
    if (MUTANT(CAPTURE_LATE) && view.has_manifest) {
        AUTO_MANIFEST struct manifest late = {0};
        drop_manifest(snapshot);
        (void) close(attempt->manifest_fd);
        attempt->manifest_fd = -1;
        status = capture_manifest(attempt, &late, error);
    }
    return status == STATUS_OK ? check_again(attempt, error) : status;
}

static void close_if_open(int fd)
{
    if (fd >= 0)
        (void) close(fd);
}

/* One attempt from the beginning; STATUS_STALE: again. */
static enum status try_once(const struct snapshot_source *source,
                            const struct snapshot_request *request, enum hold hold,
                            const struct error *refusal, struct snapshot *snapshot,
                            struct error *error)
{
    struct attempt attempt = {
        .source = source,
        .request = request,
        .snapshot = snapshot,
        .hold = request->lock_is_held ? HOLD_LOCK : hold,
        .refusal = refusal,
        .give_up_ns = hold == HOLD_LOCK ? clock_deadline_ms(LOCK_HOLD_MS) : CLOCK_NEVER,
        .bucket_fd = -1,
        .manifest_fd = -1,
        .place = FACTS_PLACE_NONE,
    };

    snapshot->attempts++;
    drop_manifest(snapshot);
    enum status status = bucket_open(source->buckets, request->scope, &attempt.bucket_fd, error);
    snapshot->bucket_present = status == STATUS_OK;
    if (status == STATUS_NOT_FOUND) {
        snapshot->live = (struct live_state){.mark = absent_mark, .bare = true};
        snapshot->unmigrated = false;
        return refresh_plan_begin(request->plan, false);
    }
    if (status == STATUS_OK)
        status = read_bucket(&attempt, error);
    facts_place_destroy(&attempt.place);
    close_if_open(attempt.manifest_fd);
    close_if_open(attempt.bucket_fd);
    return status;
}

static enum hold hold_of(enum status locked)
{
    switch (locked) {
    case STATUS_OK:
        return HOLD_LOCK;
    case STATUS_NOT_FOUND:
        return HOLD_NO_FILE;
    default:
        return HOLD_REFUSED;
    }
}

/* Under the shared lock. Where it cannot be had (no lock file, no right, a server that knows no
 * locks or fails) the reading goes on without it, and is as good as the attempts before: what
 * proves a snapshot is not the lock but the manifest, which is the same file before and after, and
 * that no journal was prepared at three looks. Whoever takes a commit back writes the manifest
 * anew, so what was begun and taken back in between shows as well. All that the lock adds is that
 * others stand still meanwhile; but for facts without a manifest: check_hold(). */
static enum status try_locked(const struct snapshot_source *source,
                              const struct snapshot_request *request, struct snapshot *snapshot,
                              struct error *error)
{
    struct volume_lock *lock = NULL;
    struct error refusal = {0};
    enum status locked =
        volume_lock_acquire(source->locks, source->volume, request->scope, VOLUME_LOCK_SHARED,
                            false, writer_deadline(request), &lock, &refusal);

    if (locked == STATUS_BUSY) {
        if (error)
            *error = refusal;
        return locked;
    }
    snapshot->took_lock = snapshot->took_lock || lock != NULL;
    enum status status = try_once(source, request, hold_of(locked), &refusal, snapshot, error);
    volume_lock_release(&lock);
    return status;
}

static void pause_for_writers(void)
{
    struct timespec pause = {.tv_nsec = (long) (LOCK_PAUSE_MS * NS_PER_MS)};

    (void) nanosleep(&pause, NULL);
}

void snapshot_destroy(struct snapshot *snapshot)
{
    drop_manifest(snapshot);
    *snapshot = (struct snapshot){0};
}

enum status snapshot_take(const struct snapshot_source *source,
                          const struct snapshot_request *request, struct snapshot *ret,
                          struct error *error)
{
    AUTO_SNAPSHOT struct snapshot snapshot = {0};
    enum status status = STATUS_STALE;

    for (unsigned i = 0; status == STATUS_STALE && i < ATTEMPTS_UNLOCKED; i++) {
        if (i > 0)
            refresh_plan_distrust_dirs(request->plan);
        status = try_once(source, request, HOLD_NOT_TRIED, NULL, &snapshot, error);
        if (clock_remaining_ms(request->deadline_ns) == 0)
            break;
    }
    for (unsigned i = 0; status == STATUS_STALE && !request->lock_is_held && i < ATTEMPTS_LOCKED;
         i++) {
        if (clock_remaining_ms(request->deadline_ns) == 0)
            break;
        if (i > 0)
            pause_for_writers();
        status = try_locked(source, request, &snapshot, error);
    }
    if (status == STATUS_STALE)
        return error_set(error, STATUS_TIMEOUT, NULL,
                         "the scope changes faster than it can be read");
    if (status != STATUS_OK)
        return status;
    *ret = snapshot;
    snapshot.manifest = NULL;
    return STATUS_OK;
}

/* No manifest: only a listing tells whether that means "nothing here". */
static enum status compare_absent(const struct snapshot_source *source, const struct scope *scope,
                                  int bucket_fd, const struct bucket_view *view,
                                  struct live_state *ret, struct error *error)
{
    AUTO_PLACE struct facts_place place = FACTS_PLACE_NONE;
    bool any = false;
    enum status status = STATUS_OK;

    if (view->has_agents)
        status = bucket_find_facts(source->buckets, scope, bucket_fd, &place, error);
    if (status == STATUS_OK && place.facts_fd >= 0)
        status = fact_walk_any(source->volume, place.facts_fd, &any, error);
    if (status != STATUS_OK)
        return status;
    *ret = (struct live_state){
        .mark = absent_mark,
        .bare = !any && !view->has_journal && !is_legacy(scope, NULL, &place),
    };
    return STATUS_OK;
}

/* What the bytes of a manifest tell of its scopes. */
static enum status live_of(const struct file_image *image, struct live_state *ret,
                           struct error *error)
{
    int64_t revision;
    enum status status = manifest_scan_revision(image->bytes, image->size, &revision, error);

    if (status == STATUS_OK)
        *ret = (struct live_state){.mark = mark_of(image, revision)};
    return status;
}

/* A manifest that a listing of the open bucket shows. */
static enum status compare_in_bucket(const struct snapshot_source *source, int bucket_fd,
                                     struct live_state *ret, struct error *error)
{
    AUTO_IMAGE struct file_image image = {0};
    enum status status = volume_read_file_once(source->volume, bucket_fd, source->manifest_name,
                                               MANIFEST_BYTES_MAX, &image, error);

    if (status == STATUS_NOT_FOUND)
        return STATUS_STALE;
    return status == STATUS_OK ? live_of(&image, ret, error) : status;
}

static enum status compare_by_listing(const struct snapshot_source *source,
                                      const struct scope *scope, struct live_state *ret,
                                      struct error *error)
{
    AUTO_CLOSE int bucket = -1;
    AUTO_VIEW struct bucket_view view = {0};

    enum status status = bucket_open(source->buckets, scope, &bucket, error);
    if (status == STATUS_NOT_FOUND) {
        *ret = (struct live_state){.mark = absent_mark, .bare = true};
        return STATUS_OK;
    }
    if (status == STATUS_OK)
        status = bucket_view_read(source->buckets, scope, bucket, &view, error);
    if (status != STATUS_OK)
        return status;
    if (view.has_manifest)
        return compare_in_bucket(source, bucket, ret, error);
    return compare_absent(source, scope, bucket, &view, ret, error);
}

/* A mutant's: what a compare sees that asks for the attributes as anybody would. */
static enum status compare_attributes(const struct snapshot_source *source,
                                      const struct scope *scope, struct live_state *ret,
                                      struct error *error)
{
    char path[SCOPE_PATH_MAX];
    struct statx status;

    scope_file_path(scope, source->manifest_name, path);
    if (statx(volume_root_fd(source->volume), path, AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS,
              &status) < 0)
        return compare_by_listing(source, scope, ret, error);
    *ret = (struct live_state){0};
    ret->mark.signature.mtime_ns =
        (uint64_t) status.stx_mtime.tv_sec * NS_PER_SECOND + status.stx_mtime.tv_nsec;
    ret->mark.signature.size = status.stx_size;
    return STATUS_OK;
}

/* `error` is the last attempt's. */
static enum status tell_unsettled(struct error *error)
{
    if (error && error->sys_errno == ESTALE)
        return error_set(error, STATUS_UNAVAILABLE, NULL, "the manifest cannot be read: %s",
                         strerrordesc_np(ESTALE));
    return error_set(error, STATUS_UNAVAILABLE, NULL, "the manifest changes while it is read");
}

enum status snapshot_compare(const struct snapshot_source *source, const struct scope *scope,
                             struct live_state *ret, struct error *error)
{
    enum status status = STATUS_STALE;

    if (MUTANT(STAT_ONLY))
        return compare_attributes(source, scope, ret, error);

    pause_here(PAUSE_COMPARE_BEFORE_OPEN);
    for (unsigned i = 0; status == STATUS_STALE && i < ATTEMPTS_UNLOCKED; i++) {
        AUTO_IMAGE struct file_image image = {0};

        error_clear(error);
        status = bucket_read_manifest(source->buckets, scope, &image, error);
        if (status == STATUS_NOT_FOUND)
            status = compare_by_listing(source, scope, ret, error);
        else if (status == STATUS_OK)
            status = live_of(&image, ret, error);
    }
    pause_here(PAUSE_COMPARE_AFTER_READ);
    if (status == STATUS_STALE)
        status = tell_unsettled(error);
    if (status != STATUS_OK)
        name_manifest(source, scope, error);
    return status;
}
