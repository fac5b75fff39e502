#include "core/store.h"

#include "core/clock.h"
#include "core/errands.h"
#include "core/log.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define READERS_LOCAL 8
#define READERS_REMOTE 32
#define ERRANDS_END_MS 1000

static bool locks_reach_all_nodes(const struct store_options *options, const struct volume *volume)
{
    switch (options->locks) {
    case STORE_LOCKS_TRUSTED:
        return true;
    case STORE_LOCKS_LOCAL:
        return false;
    case STORE_LOCKS_AUTO:
        break;
    }
    return volume_kind(volume) != VOLUME_UNKNOWN;
}

/* Local files are answered by the CPU; beyond that, what matters is how many questions are under
 * way. */
static enum status create_pool(struct store *store, unsigned threads)
{
    bool local = volume_lookups_are_safe(store->volume);

    if (threads == STORE_READERS_BY_VOLUME)
        threads = local ? READERS_LOCAL : READERS_REMOTE;
    return reader_pool_create(threads, local ? READER_POOL_MEASURE : READER_POOL_EAGER,
                              &store->pool);
}

static enum status open_volume(struct store *store, const struct store_options *options,
                               struct error *error)
{
    struct volume_options volume_options = {
        .path = options->volume_path,
        .calls = options->calls,
        .force_kind = options->force_kind,
        .cache_ns = options->volume_cache_ms * NS_PER_MS,
        .write_marker = false, /* not before we know that it is the right volume */
        .read_only = options->read_only,
    };
    enum status status = volume_open(&volume_options, &store->volume, error);

    if (status == STATUS_OK)
        status = bucket_table_create(store->volume, options->manifest_name, &store->buckets);
    if (status == STATUS_OK)
        status = volume_lock_table_create(&store->locks);
    if (status != STATUS_OK)
        return status;

    store->locks_reach_all_nodes = locks_reach_all_nodes(options, store->volume);
    if (!store->locks_reach_all_nodes)
        log_notice("volume.locks",
                   "path=%s filesystem=%s what=\"locks are taken not to reach other "
                   "nodes: a dead writer's journal is left alone for %" PRIu64
                   " ms, and one node at a time should write a user\"",
                   LOG_VALUE(volume_path(store->volume)), volume_fs_name(store->volume),
                   options->recovery_grace_ms);
    struct volume_recovery_options recovery_options = {
        .locks_reach_all_nodes = store->locks_reach_all_nodes,
        .grace_ns = options->recovery_grace_ms * NS_PER_MS,
        .manifest_name = options->manifest_name,
        .read_only = options->read_only,
    };
    status = volume_recovery_create(&recovery_options, &store->recovery);
    if (status == STATUS_OK)
        status = create_pool(store, options->pool_threads);
    return status;
}

/* Compares the volume at the path with the one that the index was built from. */
static enum status check_index_identity(struct store *store, struct error *error)
{
    char volume_id[VOLUME_ID_SIZE];
    char index_id[INDEX_IDENTITY_SIZE];

    volume_identity(store->volume, volume_id);
    index_identity(store->index, index_id, sizeof index_id);
    if (!index_id[0] || volume_is_known_as(store->volume, index_id))
        return index_set_identity(store->index, volume_id, error);
    atomic_store(&store->suspended, true);
    log_warning("volume.other",
                "path=%s what=\"the index was built from another volume (%s) than lies there now "
                "(%s); it is kept, and answers are unverified until that volume returns or "
                "'memsync refresh --accept-volume' is given\"",
                LOG_VALUE(volume_path(store->volume)), index_id, volume_id);
    return STATUS_OK;
}

static enum status stop_at_bucket(void *context, bool has_user, const char *bucket)
{
    (void) context;
    (void) has_user;
    (void) bucket;
    return STATUS_CONFLICT;
}

/* True when nothing of the format lies there. */
static bool looks_empty(struct store *store)
{
    return bucket_list_all(store->buckets, stop_at_bucket, NULL, NULL) != STATUS_CONFLICT;
}

/* The marker gives a volume a name that survives a remount; made only where the volume is known to
 * be ours and not empty (an empty directory may be a mount point whose volume is still to come). */
static void write_marker(struct store *store)
{
    struct error error = {0};
    char identity[VOLUME_ID_SIZE];

    if (store->read_only || atomic_load(&store->suspended) || !volume_is_writable(store->volume) ||
        looks_empty(store))
        return;
    enum status status = volume_write_marker(store->volume, &error);
    if (status != STATUS_OK) {
        log_info("volume.marker", "path=%s reason=%s what=\"no marker was made, ignoring\"",
                 LOG_VALUE(error.path), LOG_VALUE(error.message));
        return;
    }
    volume_identity(store->volume, identity);
    status = index_set_identity(store->index, identity, &error);
    if (status != STATUS_OK)
        log_warning("index.identity", "reason=%s", LOG_VALUE(error.message));
}

static enum status open_index(struct store *store, const struct store_options *options,
                              struct error *error)
{
    struct index_options index_options = {
        .directory = options->index_directory,
        .mmap_bytes = options->index_mmap_bytes,
        .wal_bytes_max = options->index_wal_bytes_max,
    };
    enum status status =
        index_open(&index_options, &store->index, &store->index_was_rebuilt, error);

    if (status == STATUS_OK)
        status = check_index_identity(store, error);
    if (status == STATUS_OK)
        status = install_queue_create(&store->installs);
    if (status != STATUS_OK)
        return status;

    store->readers = calloc(options->request_threads, sizeof(struct index_reader *));
    if (!store->readers)
        return STATUS_NO_MEMORY;
    while (status == STATUS_OK && store->reader_count < options->request_threads) {
        status = index_reader_create(store->index, &store->readers[store->reader_count], error);
        store->reader_count += status == STATUS_OK;
    }
    return status;
}

enum status store_open(const struct store_options *options, struct store **ret, struct error *error)
{
    struct store *store = calloc(1, sizeof *store);
    enum status status;

    if (!store)
        return STATUS_NO_MEMORY;
    store->read_only = options->read_only;
    store->event_sink = options->event_sink;
    store->event_context = options->event_context;
    status = open_volume(store, options, error);
    if (status == STATUS_OK)
        status = open_index(store, options, error);
    if (status == STATUS_OK)
        status = refresh_table_create(&store->refreshes);
    if (status == STATUS_OK)
        status = scope_notes_create(&store->notes);
    if (status == STATUS_OK)
        status = build_progress_create(&store->progress);
    if (status == STATUS_OK)
        status = own_writes_create(&store->own_writes);
    if (status == STATUS_OK)
        status = errands_create(&store->errands);
    if (status != STATUS_OK) {
        store_close(&store);
        return status;
    }
    store->source = (struct snapshot_source){
        .volume = store->volume,
        .buckets = store->buckets,
        .locks = store->locks,
        .recovery = store->recovery,
        .pool = store->pool,
        .manifest_name = bucket_table_manifest_name(store->buckets),
    };
    if (store->index_was_rebuilt)
        atomic_store(&store->rebuild_wanted, true);
    write_marker(store);
    *ret = store;
    return STATUS_OK;
}

void store_close(struct store **store_address)
{
    struct store *store = TAKE_PTR(*store_address);

    if (!store)
        return;
    if (store->errands && !errands_settle(store->errands, clock_deadline_ms(ERRANDS_END_MS))) {
        log_error("store.close",
                  "what=\"a look at the volume hangs; what it uses is left behind\"");
        return;
    }
    errands_destroy(&store->errands);
    for (unsigned i = 0; i < store->reader_count; i++)
        index_reader_destroy(&store->readers[i]);
    free(store->readers);
    own_writes_destroy(&store->own_writes);
    build_progress_destroy(&store->progress);
    scope_notes_destroy(&store->notes);
    refresh_table_destroy(&store->refreshes);
    install_queue_destroy(&store->installs);
    index_close(&store->index);
    reader_pool_destroy(&store->pool);
    volume_recovery_destroy(&store->recovery);
    volume_lock_table_destroy(&store->locks);
    bucket_table_destroy(&store->buckets);
    volume_close(&store->volume);
    free(store);
}

struct look_errand {
    struct errand errand;
    const struct snapshot_source *source;
    struct live_state live;
    enum status status;
    struct error error;
};

static void run_look(struct errand *errand)
{
    struct look_errand *look = (struct look_errand *) errand;

    look->status = snapshot_compare(look->source, &errand->scope, &look->live, &look->error);
}

static void destroy_look(struct errand *errand)
{
    free(errand);
}

static enum status send_to_look(struct store *store, const struct scope *scope,
                                uint64_t deadline_ns, struct live_state *ret, struct error *error)
{
    struct look_errand *look = calloc(1, sizeof *look);

    if (!look)
        return error_set(error, STATUS_NO_MEMORY, NULL, "no memory to look at a user's files");
    look->errand = (struct errand){.run = run_look, .destroy = destroy_look, .scope = *scope};
    look->source = &store->source;
    look = (struct look_errand *) errands_send(store->errands, &look->errand, error);
    if (!look)
        return STATUS_UNAVAILABLE;
    enum status status = errands_wait(store->errands, &look->errand, deadline_ns, error);
    if (status == STATUS_OK) {
        status = look->status;
        *ret = look->live;
        if (status != STATUS_OK && error)
            *error = look->error;
    }
    errands_release(store->errands, &look->errand);
    return status;
}

enum status store_compare(struct store *store, const struct scope *scope, uint64_t deadline_ns,
                          struct live_state *ret, struct error *error)
{
    if (atomic_load(&store->suspended))
        return error_set(error, STATUS_UNAVAILABLE, NULL, STORE_SUSPENDED_TEXT);

    atomic_fetch_add_explicit(&store->counters.compares, 1, memory_order_relaxed);
    uint64_t begun_ns = clock_monotonic_ns();
    bool may_hang = !volume_lookups_are_safe(store->volume) && !errands_is_on_one();
    enum status status = may_hang ? send_to_look(store, scope, deadline_ns, ret, error)
                                  : snapshot_compare(&store->source, scope, ret, error);
    histogram_observe(&store->counters.compare_duration, clock_monotonic_ns() - begun_ns);
    if (status != STATUS_OK)
        atomic_fetch_add(&store->counters.compare_errors, 1);
    return status;
}

bool store_knows_empty(struct store *store, const struct scope *scope,
                       const struct live_state *live)
{
    if (live->mark.signature.absent)
        return live->bare;
    return scope_notes_is_empty(store->notes, scope, &live->mark);
}

/* True when the volume at the path, opened anew, is the one that the index was built from; then it
 * takes the place of the one that is held. */
static bool adopt_returned_volume(struct store *store, const char *index_id)
{
    struct volume_options options = {
        .path = volume_path(store->volume),
        .calls = volume_get_calls(store->volume),
        .read_only = true, /* it may be somebody else's */
    };
    struct volume *found = NULL;

    if (volume_open(&options, &found, NULL) != STATUS_OK)
        return false;
    bool known = volume_is_known_as(found, index_id);
    volume_close(&found);
    if (!known || volume_accept(store->volume, NULL) != STATUS_OK)
        return false;
    atomic_fetch_add(&store->accepts, 1);
    return volume_is_known_as(store->volume, index_id);
}

enum status store_check_volume(struct store *store, struct error *error)
{
    bool same = false;
    char index_id[INDEX_IDENTITY_SIZE];
    struct error reason = {0};
    enum status status = volume_check_identity(store->volume, &same, &reason);

    index_identity(store->index, index_id, sizeof index_id);
    bool usable = status == STATUS_OK && same && volume_is_known_as(store->volume, index_id);
    if (!usable && status == STATUS_OK)
        usable = adopt_returned_volume(store, index_id);
    bool was_suspended = atomic_exchange(&store->suspended, !usable);
    if (!usable && !was_suspended)
        log_warning("volume.suspended", "path=%s reason=%s", LOG_VALUE(volume_path(store->volume)),
                    LOG_VALUE(status == STATUS_OK ? "another volume or none lies there"
                                                  : reason.message));
    if (usable && was_suspended)
        log_notice("volume.resumed", "path=%s", LOG_VALUE(volume_path(store->volume)));
    return usable ? STATUS_OK : error_set(error, STATUS_UNAVAILABLE, NULL, STORE_SUSPENDED_TEXT);
}

enum status store_accept_volume(struct store *store, struct error *error)
{
    char identity[VOLUME_ID_SIZE];
    enum status status = volume_accept(store->volume, error);

    if (status != STATUS_OK)
        return status;
    volume_identity(store->volume, identity);
    uint64_t place = install_queue_enter(store->installs);
    install_queue_wait(store->installs, place);
    status = index_set_identity(store->index, identity, error);
    install_queue_leave(store->installs, place);
    if (status != STATUS_OK)
        return status;
    atomic_store(&store->suspended, false);
    atomic_fetch_add(&store->accepts, 1);
    atomic_store(&store->rebuild_wanted, true);
    log_notice("volume.accepted", "path=%s identity=%s", LOG_VALUE(volume_path(store->volume)),
               identity);
    return STATUS_OK;
}

bool store_has_lost_index(const struct store *store, enum status status, const struct error *error)
{
    return status == STATUS_CORRUPT &&
           (index_is_damaged(store->index) || (error && !error->path[0]));
}

enum status store_heal_index(struct store *store, struct error *error)
{
    char identity[VOLUME_ID_SIZE];
    uint64_t place = install_queue_enter(store->installs);
    enum status status = STATUS_OK;

    install_queue_wait(store->installs, place);
    if (index_is_damaged(store->index) || index_file_was_replaced(store->index)) {
        char reason[ERROR_MESSAGE_MAX];
        index_identity(store->index, identity, sizeof identity);
        index_damage_text(store->index, reason, sizeof reason);
        if (!index_is_damaged(store->index))
            (void) snprintf(reason, sizeof reason, "%s", index_replaced_text(store->index));
        status = index_rebuild(store->index, reason, error);
        if (status == STATUS_OK)
            status = index_set_identity(store->index, identity, error);
        if (status == STATUS_OK) {
            atomic_fetch_add(&store->counters.index_rebuilds, 1);
            atomic_store(&store->rebuild_wanted, true);
            log_error("index.rebuild",
                      "path=%s reason=%s what=\"the file was set aside, its rows "
                      "are built again from the volume\"",
                      LOG_VALUE(index_path(store->index)), LOG_VALUE(reason));
        }
    }
    install_queue_leave(store->installs, place);
    return status;
}

void store_publish(struct store *store, const struct scope *scope, const char *event,
                   const char *format, ...)
{
    char members[512];
    va_list arguments;

    if (!store->event_sink)
        return;
    va_start(arguments, format);
    int length = vsnprintf(members, sizeof members, format, arguments);
    va_end(arguments);
    if (length < 0 || (size_t) length >= sizeof members)
        members[0] = '\0';
    store->event_sink(store->event_context, scope, event, members);
}
