#include "core/write_session.h"

#include "core/array.h"
#include "core/clock.h"
#include "core/fact_write.h"
#include "core/log.h"
#include "core/manifest_write.h"
#include "core/mutant.h"
#include "core/pause_point.h"
#include "core/volume_bucket.h"
#include "core/volume_commit.h"
#include "core/volume_private.h"
#include "core/volume_side_data.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define LOAD_TRIES 5
/* Where locks do not reach its owner, a journal may be that of a commit that takes milliseconds. */
#define JOURNAL_PATIENCE_MS 1000
#define JOURNAL_POLL_NS (5 * NS_PER_MS)

static enum status no_memory(struct error *error)
{
    return error_set(error, STATUS_NO_MEMORY, NULL, "no memory for a write");
}

static void pending_destroy(struct pending_install *pending)
{
    for (size_t i = 0; i < pending->row_count; i++)
        fact_destroy(&pending->facts[i]);
    for (size_t i = 0; i < pending->path_count; i++)
        free(pending->paths[i]);
    text_destroy(&pending->manifest);
    free(pending->facts);
    free(pending->rows);
    free(pending->removed);
    free(pending->paths);
    free(pending);
}

/* ---- begin ---- */

static enum status check_writable(const struct store *store, struct error *error)
{
    if (atomic_load(&store->suspended))
        return error_set(error, STATUS_UNAVAILABLE, NULL, STORE_SUSPENDED_TEXT);
    if (store->read_only)
        return error_set(error, STATUS_DENIED, NULL,
                         "the volume is not written: volume.read_only is set");
    return STATUS_OK;
}

/* The user's directory, made for a new user unless the session only looks. Never at a place where
 * the volume is not. */
static enum status open_bucket(struct write_session *session, bool only_looks, struct error *error)
{
    AUTO_CLOSE int root_fd = -1;
    char path[SCOPE_PATH_MAX];

    cleanup_close(&session->bucket_fd);
    session->bucket_fd = -1;
    enum status status =
        bucket_open(session->store->buckets, &session->scope, &session->bucket_fd, error);
    if (status != STATUS_NOT_FOUND)
        return status;
    status = store_check_volume(session->store, error);
    if (status != STATUS_OK || only_looks)
        return status;
    status = volume_open_dir(session->store->volume, -1, ".", &root_fd, error);
    if (status != STATUS_OK)
        return status;
    scope_bucket_path(&session->scope, path);
    status = volume_walk(session->store->volume, root_fd, path, true, &session->bucket_fd, error);
    return volume_error_at(error, status, path);
}

/* Another directory may have taken the volume's place since somebody looked at it; what is written
 * to the one that we hold open nobody would ever read. */
static enum status check_place(struct write_session *session, struct error *error)
{
    const struct volume *volume = session->store->volume;

    session->root = volume_root_id(volume);
    if (volume_root_is_at_path(volume, session->root))
        return STATUS_OK;
    enum status status = store_check_volume(session->store, error);
    session->root = volume_root_id(volume);
    return status;
}

/* Whether the path still leads where the session began. A look that failed once tells nothing, so
 * the volume is opened anew then. */
static bool has_stayed(const struct write_session *session, struct error *error)
{
    const struct volume *volume = session->store->volume;

    if (volume_root_is_at_path(volume, session->root))
        return true;
    if (store_check_volume(session->store, error) != STATUS_OK)
        return false;
    struct volume_root_id found = volume_root_id(volume);
    return found.device == session->root.device && found.inode == session->root.inode;
}

/* The calls that led here may have hung, and nothing is written yet: nothing will be for a caller
 * who has given up, nor to another volume that lies there by now. */
static enum status check_still_wanted(struct write_session *session, struct error *error)
{
    if (clock_remaining_ms(session->deadline_ns) == 0)
        return error_set(error, STATUS_TIMEOUT, NULL,
                         "the volume answered too late; nothing was written");
    if (has_stayed(session, error))
        return STATUS_OK;
    return error_set(error, STATUS_UNAVAILABLE, NULL,
                     "the volume cannot be found at its path any more; nothing was written");
}

/* For the lock, which could not be had. */
static enum status refuse_lock(enum status status, struct error *error)
{
    /* Nobody held it at the last try: the server would not know its file any more. */
    if (status == STATUS_BUSY && error && error->sys_errno != 0)
        return error->status = status_from_errno(error->sys_errno);
    return error_set(error, STATUS_TIMEOUT, error ? error->path : NULL,
                     "lock timeout: somebody else is writing this user's memory");
}

/* Before anything at the volume is called: of all who want to write the user one at most hangs
 * there. */
static enum status reserve_lock(struct write_session *session, uint64_t deadline_ns,
                                struct error *error)
{
    struct store *store = session->store;
    enum status status = volume_lock_reserve(store->locks, store->volume, &session->scope,
                                             deadline_ns, &session->lock, error);

    return status == STATUS_TIMEOUT ? refuse_lock(status, error) : status;
}

static enum status take_lock(struct write_session *session, uint64_t deadline_ns,
                             struct error *error)
{
    struct store *store = session->store;
    enum status status =
        volume_lock_take_file(session->lock, VOLUME_LOCK_EXCLUSIVE, true, deadline_ns, error);

    if (status == STATUS_BUSY)
        return refuse_lock(status, error);
    if (status == STATUS_OK) {
        session->is_writing = true;
        own_writes_enter(store->own_writes, &session->scope);
        pause_here(PAUSE_COMMIT_AFTER_LOCK);
    }
    return status;
}

static enum status settle_journal(const struct write_session *session, struct error *error)
{
    enum recover_outcome outcome;
    struct error reason = {0};
    char path[SCOPE_PATH_MAX];

    enum status status = volume_recover_locked(session->store->recovery, session->store->volume,
                                               &session->scope, &outcome, &reason);
    if (status != STATUS_OK) {
        if (error)
            *error = reason;
        return status;
    }
    switch (outcome) {
    case RECOVER_NOTHING:
        return STATUS_OK;
    case RECOVER_ROLLED_BACK:
        log_notice("volume.recovered", "user=%s what=\"a dead writer's commit was taken back\"",
                   LOG_VALUE(session->scope.has_user ? session->scope.user : NULL));
        store_publish(session->store, &session->scope, "recovered", "%s", "");
        return STATUS_STALE;
    case RECOVER_LIVE_WRITER:
    case RECOVER_WAITING:
        scope_file_path(&session->scope, JOURNAL_NAME, path);
        return error_set(error, STATUS_WOULD_BLOCK, path,
                         "an unfinished commit of somebody else may still be under way");
    case RECOVER_TRACES_LEFT:
        if (error)
            *error = reason;
        return reason.status;
    case RECOVER_IMPOSSIBLE:
        break;
    }
    return error_set(error, reason.status == STATUS_DENIED ? STATUS_DENIED : STATUS_CORRUPT,
                     reason.path, "%s", reason.message);
}

static void forget_manifest(struct write_session *session)
{
    manifest_destroy(&session->manifest);
    file_image_destroy(&session->image);
    session->manifest = (struct manifest){0};
    session->image = (struct file_image){0};
    session->has_manifest = false;
    session->mark = (struct manifest_mark){.signature = {.absent = true}};
}

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

static enum status read_manifest(struct write_session *session, struct error *error)
{
    const char *name = session->store->source.manifest_name;
    char path[SCOPE_PATH_MAX];

    enum status status = volume_read_file(session->store->volume, session->bucket_fd, name,
                                          MANIFEST_BYTES_MAX, &session->image, error);
    if (status == STATUS_OK)
        status =
            manifest_parse(session->image.bytes, session->image.size, &session->manifest, error);
    if (status != STATUS_OK) {
        scope_file_path(&session->scope, name, path);
        return volume_error_at(error, status == STATUS_NOT_FOUND ? STATUS_STALE : status, path);
    }
    session->has_manifest = true;
    session->manifest.file_time_ns = session->image.stamp.mtime_ns;
    session->mark = mark_of(&session->image, session->manifest.revision);
    return STATUS_OK;
}

static enum status load_once(struct write_session *session, struct error *error)
{
    AUTO_VIEW struct bucket_view view = {0};
    char path[SCOPE_PATH_MAX];

    forget_manifest(session);
    scope_bucket_path(&session->scope, path);
    enum status status = bucket_view_read(session->store->buckets, &session->scope,
                                          session->bucket_fd, &view, error);
    session->has_agents = status == STATUS_OK && view.has_agents;
    status = volume_error_at(error, status, path);
    if (status == STATUS_OK && view.has_journal)
        status = settle_journal(session, error);
    if (status == STATUS_OK && view.has_manifest)
        status = read_manifest(session, error);
    return status;
}

enum status write_session_load(struct write_session *session, struct error *error)
{
    uint64_t until_ns = clock_monotonic_ns() + JOURNAL_PATIENCE_MS * NS_PER_MS;
    unsigned tries = 0;
    enum status status;

    for (;;) {
        status = load_once(session, error);
        if (status == STATUS_WOULD_BLOCK && clock_monotonic_ns() < until_ns &&
            clock_remaining_ms(session->deadline_ns) > 0)
            (void) nanosleep(&(struct timespec){.tv_nsec = JOURNAL_POLL_NS}, NULL);
        else if (status != STATUS_STALE || ++tries == LOAD_TRIES)
            break;
    }
    if (status == STATUS_WOULD_BLOCK && error)
        error->status = STATUS_TIMEOUT;
    if (status == STATUS_WOULD_BLOCK)
        return STATUS_TIMEOUT;
    if (status == STATUS_STALE && error && error->sys_errno == ESTALE)
        return error_set(error, STATUS_UNAVAILABLE, error->path,
                         "the user's directory or manifest cannot be read: %s",
                         strerrordesc_np(ESTALE));
    if (status == STATUS_STALE)
        return error_set(error, STATUS_UNAVAILABLE, error ? error->path : NULL,
                         "the user's directory or manifest changes while it is read");
    if (status == STATUS_OK && session->manifest.layout == MANIFEST_LAYOUT_NEWER) {
        char path[SCOPE_PATH_MAX];
        scope_file_path(&session->scope, session->store->source.manifest_name, path);
        (void) error_set(error, STATUS_CONFLICT, path,
                         "the memory has a newer format than this version writes");
        error_add_member(error, "reason", "\"newer_layout\"");
        return STATUS_CONFLICT;
    }
    return status;
}

enum status write_session_begin(const struct write_session_options *options,
                                struct write_session *ret, struct error *error)
{
    *ret = (struct write_session){
        .store = options->store,
        .reader = options->store->readers[options->thread],
        .scope = *options->scope,
        .deadline_ns = options->deadline_ns,
        .bucket_fd = -1,
        .mark = {.signature = {.absent = true}},
        .wall_ns = clock_wall_ns(),
    };
    ret->pending_end = &ret->pending;
    uint64_t patience_ns = clock_deadline_ms(options->lock_timeout_ms);
    uint64_t deadline_ns = patience_ns < options->deadline_ns ? patience_ns : options->deadline_ns;

    enum status status = check_writable(options->store, error);
    if (status == STATUS_OK)
        status = reserve_lock(ret, deadline_ns, error);
    if (status == STATUS_OK)
        status = check_place(ret, error);
    if (status == STATUS_OK)
        status = open_bucket(ret, options->only_looks, error);
    if (status == STATUS_OK && ret->bucket_fd < 0) {
        volume_lock_release(&ret->lock);
        return STATUS_OK;
    }
    if (status == STATUS_OK)
        status = take_lock(ret, deadline_ns, error);
    /* The later of two commits has the later time. */
    ret->wall_ns = clock_wall_ns();
    /* Opened anew: the directory may have been replaced while we waited. */
    if (status == STATUS_OK)
        status = open_bucket(ret, false, error);
    if (status == STATUS_OK)
        status = write_session_load(ret, error);
    if (status == STATUS_OK)
        status = check_still_wanted(ret, error);
    return status;
}

void write_session_last_updated(const struct write_session *session,
                                char ret[WRITE_LAST_UPDATED_SIZE])
{
    const char *text =
        session->has_manifest
            ? json_string_value(json_object_get(session->manifest.root, "lastUpdated"))
            : NULL;

    (void) snprintf(ret, WRITE_LAST_UPDATED_SIZE, "%s", text ? text : "");
}

/* ---- commit ---- */

/* From a path relative to the bucket to one relative to the agent's facts directory. */
static const char *below_facts(const struct scope *scope, const char *path)
{
    size_t length = strlen("agents/") + strlen(scope->agent) + strlen("/facts/");

    return strlen(path) > length ? path + length : path;
}

/* The bytes of what is to be written, and the rows that a refresh would make of them. */
struct commit_plan {
    struct draft_change *changes;
    size_t count;
    struct commit_fact *facts;
    struct text *bytes;
    struct pending_install *pending;
};

static void commit_plan_destroy(struct commit_plan *plan)
{
    for (size_t i = 0; plan->bytes && i < plan->count; i++)
        text_destroy(&plan->bytes[i]);
    free(plan->changes);
    free(plan->facts);
    free(plan->bytes);
    if (plan->pending)
        pending_destroy(plan->pending);
}
#define AUTO_COMMIT_PLAN CLEANUP(commit_plan_destroy)

static enum status reserve(struct commit_plan *plan)
{
    struct pending_install *pending = plan->pending = calloc(1, sizeof *plan->pending);
    size_t room = plan->count + 1;

    plan->facts = calloc(room, sizeof *plan->facts);
    plan->bytes = calloc(room, sizeof *plan->bytes);
    if (!pending || !plan->facts || !plan->bytes)
        return STATUS_NO_MEMORY;
    pending->facts = calloc(room, sizeof(void *));
    pending->rows = calloc(room, sizeof *pending->rows);
    pending->removed = calloc(room, sizeof(void *));
    pending->paths = calloc(room, sizeof(void *));
    return pending->facts && pending->rows && pending->removed && pending->paths ? STATUS_OK
                                                                                 : STATUS_NO_MEMORY;
}

/* One change: its bytes for the volume, and its row as the next reader of the file will have it. */
static enum status plan_fact(struct commit_plan *plan, size_t i, const struct scope *scope,
                             struct error *error)
{
    const struct draft_change *change = &plan->changes[i];
    struct pending_install *pending = plan->pending;
    struct text *bytes = &plan->bytes[i];
    char *path = strdup(below_facts(scope, change->path));
    enum fact_fault fault;

    if (!path)
        return no_memory(error);
    pending->paths[pending->path_count++] = path;
    plan->facts[i] = (struct commit_fact){
        .id = change->id,
        .path = change->path,
        .existed = change->existed,
    };
    if (!change->fact) {
        pending->removed[pending->removed_count++] = path;
        return STATUS_OK;
    }
    enum status status = fact_write(change->fact, scope, bytes, error);
    if (status == STATUS_OK)
        status = fact_parse(bytes->bytes, bytes->size, scope, change->id, 0,
                            &pending->facts[pending->row_count], &fault, error);
    if (status != STATUS_OK)
        return volume_error_at(error, status == STATUS_CORRUPT ? STATUS_INVALID : status,
                               change->path);
    pending->rows[pending->row_count] = (struct index_row){
        .path = path,
        .fact = pending->facts[pending->row_count],
    };
    pending->row_count++;
    plan->facts[i].bytes = bytes->bytes;
    plan->facts[i].size = bytes->size;
    return STATUS_OK;
}

static enum status make_plan(const struct write_session *session, const struct draft *draft,
                             struct commit_plan *plan, struct error *error)
{
    const struct manifest *base = session->has_manifest ? &session->manifest : NULL;
    const struct scope *scope = draft_scope(draft);

    if (draft_revision(draft) == INT64_MAX)
        return error_set(error, STATUS_INVALID, NULL, "the manifest has no revision left");
    enum status status = draft_changes(draft, &plan->changes, &plan->count);
    if (status == STATUS_OK)
        status = reserve(plan);
    if (status != STATUS_OK)
        return no_memory(error);
    plan->pending->scope = *scope;
    plan->pending->facts_changed = plan->count > 0;
    for (size_t i = 0; status == STATUS_OK && i < plan->count; i++)
        status = plan_fact(plan, i, scope, error);
    if (status == STATUS_OK)
        status = manifest_write(base, draft_summaries(draft), draft_revision(draft) + 1,
                                session->wall_ns, &plan->pending->manifest, error);
    return status;
}

static void append_pending(struct write_session *session, struct pending_install *pending)
{
    *session->pending_end = pending;
    session->pending_end = &pending->next;
}

bool write_session_tells_side_data(const struct write_session *session, const struct scope *scope,
                                   enum side_data_step step, bool fails, const struct error *error,
                                   char *ret_path)
{
    char directory[SCOPE_PATH_MAX];

    (void) snprintf(directory, sizeof directory, "agents/%s/.metadata", scope->agent);
    scope_file_path(scope, error->path[0] ? error->path : directory, ret_path);
    return scope_notes_side_data(session->store->notes, scope, step, fails);
}

/* Notes on facts that are gone go too. They are nobody's truth: a failure is only told. */
static void forget_side_data(const struct write_session *session, const struct commit_plan *plan,
                             const struct scope *scope)
{
    AUTO_FREE const char **ids = calloc(plan->count + 1, sizeof *ids);
    struct error error = {0};
    char path[SCOPE_PATH_MAX];
    bool malformed = false;
    size_t count = 0;

    for (size_t i = 0; ids && i < plan->count; i++) {
        if (!plan->facts[i].bytes)
            ids[count++] = plan->facts[i].id;
    }
    if (count == 0)
        return;
    enum status status = volume_side_data_forget(session->store->volume, session->bucket_fd,
                                                 scope->agent, ids, count, &malformed, &error);
    if (write_session_tells_side_data(session, scope, SIDE_DATA_FORGET,
                                      status != STATUS_OK || malformed, &error, path))
        log_warning("side_data.forget", "user=%s agent=%s path=%s reason=%s",
                    LOG_VALUE(scope->has_user ? scope->user : NULL), scope->agent, LOG_VALUE(path),
                    LOG_VALUE(malformed ? "malformed" : error.message));
}

/* The mutant's way: the manifest as it is, one revision up from where the index is taken to be. */
static enum status advance_without_change(struct write_session *session, const struct draft *draft)
{
    struct pending_install *pending = calloc(1, sizeof *pending);

    if (!pending)
        return STATUS_NO_MEMORY;
    pending->scope = *draft_scope(draft);
    pending->pre = pending->post = session->mark;
    pending->pre.signature.revision--;
    text_append(&pending->manifest, session->image.bytes, session->image.size);
    append_pending(session, pending);
    return STATUS_OK;
}

/* After a commit: it is not acknowledged when it may lie where nobody reads. */
static enum status confirm_place(struct write_session *session, struct error *error)
{
    if (has_stayed(session, NULL))
        return STATUS_OK;
    (void) error_set(error, STATUS_UNAVAILABLE, NULL,
                     "unconfirmed: the volume cannot be found at its path any more");
    error_add_member(error, "reason", "\"unconfirmed\"");
    return STATUS_UNAVAILABLE;
}

/* `ret`: what the index is to hear; the caller's. */
static enum status commit(struct write_session *session, const struct draft *draft, bool was_empty,
                          struct pending_install **ret, struct error *error)
{
    AUTO_COMMIT_PLAN struct commit_plan plan = {0};
    struct commit_result result;
    char path[SCOPE_PATH_MAX];

    enum status status = make_plan(session, draft, &plan, error);
    if (status != STATUS_OK && error && error->path[0]) {
        scope_file_path(&session->scope, error->path, path);
        return volume_error_at(error, status, path);
    }
    if (status != STATUS_OK)
        return status;
    struct commit_request request = {
        .volume = session->store->volume,
        .bucket_fd = session->bucket_fd,
        .manifest_name = session->store->source.manifest_name,
        .agent = plan.count > 0 ? draft_scope(draft)->agent : NULL,
        .base = session->has_manifest ? session->image.bytes : NULL,
        .base_size = session->image.size,
        .expected_revision = draft_revision(draft),
        .next_revision = draft_revision(draft) + 1,
        .manifest = plan.pending->manifest.bytes,
        .manifest_size = plan.pending->manifest.size,
        .facts = plan.facts,
        .fact_count = plan.count,
        .locks_reach_all_nodes = session->store->locks_reach_all_nodes,
    };
    uint64_t begun_ns = clock_monotonic_ns();
    status = volume_commit(&request, &result, error);
    histogram_observe(&session->store->counters.commit_duration, clock_monotonic_ns() - begun_ns);
    if (status != STATUS_OK) {
        if (error) {
            scope_file_path(&session->scope, error->path[0] ? error->path : request.manifest_name,
                            path);
            return volume_error_at(error, status, path);
        }
        return status;
    }
    atomic_fetch_add(&session->store->counters.commits, 1);
    status = confirm_place(session, error);
    if (status != STATUS_OK)
        return status;
    const struct file_image written = {
        .bytes = plan.pending->manifest.bytes,
        .size = plan.pending->manifest.size,
        .stamp = result.manifest,
    };
    plan.pending->was_empty = was_empty;
    plan.pending->pre = session->mark;
    plan.pending->post = mark_of(&written, request.next_revision);
    *ret = TAKE_PTR(plan.pending);
    forget_manifest(session);
    if (request.agent)
        forget_side_data(session, &plan, draft_scope(draft));
    return STATUS_OK;
}

/* Whoever writes over facts in the manifest loses them, so this is asked again where it counts. */
static enum status refuse_earlier_layout(const struct write_session *session, struct error *error)
{
    char path[SCOPE_PATH_MAX];

    scope_file_path(&session->scope, session->store->source.manifest_name, path);
    (void) error_set(error, STATUS_CONFLICT, path, "the memory is of an earlier layout again");
    error_add_member(error, "reason", "\"migration\"");
    return STATUS_CONFLICT;
}

enum status write_session_commit(struct write_session *session, const struct draft *draft,
                                 bool was_empty, struct error *error)
{
    struct pending_install *pending = NULL;

    if (!draft_has_changed(draft))
        return MUTANT(NOOP_ADVANCES) ? advance_without_change(session, draft) : STATUS_OK;
    if (session->has_manifest && session->manifest.layout == MANIFEST_LAYOUT_1)
        return refuse_earlier_layout(session, error);
    enum status status = commit(session, draft, was_empty, &pending, error);
    if (status == STATUS_OK)
        append_pending(session, pending);
    return status;
}

enum status write_session_commit_migration(struct write_session *session, const struct draft *draft,
                                           struct error *error)
{
    struct pending_install *pending = NULL;

    if (!draft_has_changed(draft))
        return STATUS_OK;
    enum status status = commit(session, draft, false, &pending, error);
    if (status == STATUS_OK)
        pending_destroy(pending);
    return status;
}

/* ---- end ---- */

static void count_outcome(struct store_counters *counters, enum own_write_outcome outcome)
{
    switch (outcome) {
    case OWN_WRITE_PROMOTED:
        atomic_fetch_add(&counters->promoted, 1);
        break;
    case OWN_WRITE_ALREADY_CURRENT:
        atomic_fetch_add(&counters->already_current, 1);
        break;
    case OWN_WRITE_FORGOTTEN:
        atomic_fetch_add(&counters->forgotten, 1);
        break;
    }
}

/* In turn with everybody else who writes the index. */
static void install_one(struct store *store, struct pending_install *pending)
{
    struct error error = {0};
    enum own_write_outcome outcome = OWN_WRITE_FORGOTTEN;
    const struct index_own_write write = {
        .scope = &pending->scope,
        .pre = pending->pre,
        .post = pending->post,
        .manifest = pending->manifest.bytes,
        .manifest_size = pending->manifest.size,
        .put = pending->rows,
        .put_count = pending->row_count,
        .removed = (const char *const *) pending->removed,
        .removed_count = pending->removed_count,
        .facts_changed = pending->facts_changed,
        .was_empty = pending->was_empty,
    };

    enum status status = index_install_own_write(store->index, &write, &outcome, &error);
    pending->behind = status != STATUS_OK || outcome == OWN_WRITE_FORGOTTEN;
    if (status == STATUS_OK) {
        count_outcome(&store->counters, outcome);
        return;
    }
    atomic_fetch_add(&store->counters.installs_failed, 1);
    log_warning("write.index",
                "user=%s agent=%s kind=%s reason=%s what=\"the write stands; the "
                "index follows by a refresh\"",
                LOG_VALUE(pending->scope.has_user ? pending->scope.user : NULL),
                pending->scope.agent, status_name(status), LOG_VALUE(error.message));
}

/* Said without a lock held. */
static void tell(struct store *store, const struct pending_install *pending)
{
    uint64_t number;

    store_publish(store, &pending->scope, "written",
                  "\"revision\":%" PRId64 ",\"upserted\":%zu,\"deleted\":%zu",
                  pending->post.signature.revision, pending->row_count, pending->removed_count);
    if (!pending->behind)
        return;
    store_publish(store, &pending->scope, "forgotten", "%s", "");
    if (refresh_request(store->refreshes, &pending->scope, REFRESH_URGENT, REFRESH_CAUSE_WRITE,
                        REFRESH_WISH_NONE, &number) != STATUS_OK)
        log_debug("write.index", "what=\"no memory to ask for a refresh; the next search does\"");
}

void write_session_end(struct write_session *session, bool *ret_behind)
{
    struct store *store = session->store;
    bool behind = false;

    if (session->pending) {
        volume_lock_release_file(session->lock);
        pause_here(PAUSE_WRITE_AFTER_UNLOCK);
        uint64_t place = install_queue_enter(store->installs);
        volume_lock_release(&session->lock);
        install_queue_wait(store->installs, place);
        pause_here(PAUSE_WRITE_BEFORE_INSTALL);
        for (struct pending_install *at = session->pending; at; at = at->next)
            install_one(store, at);
        install_queue_leave(store->installs, place);
    }
    volume_lock_release(&session->lock);
    if (session->is_writing)
        own_writes_leave(store->own_writes, &session->scope);
    session->is_writing = false;
    while (session->pending) {
        struct pending_install *pending = session->pending;
        session->pending = pending->next;
        tell(store, pending);
        behind = behind || pending->behind;
        pending_destroy(pending);
    }
    forget_manifest(session);
    cleanup_close(&session->bucket_fd);
    session->bucket_fd = -1;
    if (ret_behind)
        *ret_behind = behind;
}
