#include "core/keeper.h"

#include "core/array.h"
#include "core/bucket_errand.h"
#include "core/clock.h"
#include "core/errands.h"
#include "core/log.h"
#include "core/refresh_crew.h"
#include "core/thread_join.h"
#include "core/thread_kind.h"
#include "core/volume_stuck.h"
#include "core/watch_inotify.h"
#include "core/watch_poll.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>

#define HOUSEKEEPING_NS NS_PER_SECOND
#define MAINTENANCE_MS 15 /* of merging at a time, so that nobody waits longer for a turn */
#define MAINTENANCE_PAUSE_NS (30 * NS_PER_MS) /* while there is more to do */
/* Idle moments may never come: then merging takes its turn like everybody else, or what was deleted
 * would pile up for as long as the writes go on. */
#define MAINTENANCE_PATIENCE_NS (250 * NS_PER_MS)
#define CHECKS_A_TURN 256
#define REFRESHERS_LOCAL 2
#define REFRESHERS_REMOTE 8
/* Of what polling may cost, listing the users may take one part in so many. */
#define LISTING_SHARE 4
/* Of the time, counting what the index holds may take one part in so many. */
#define MEASURING_SHARE 100
#define MEASURING_PAUSE_NS_MAX (30 * NS_PER_SECOND)

struct bucket_name {
    bool has_user;
    char name[SCOPE_NAME_MAX + 1];
};

/* Buckets that something was reported about; the watcher's own thread fills and empties it. */
struct bucket_names {
    struct bucket_name *items;
    size_t count, capacity;
};

struct keeper {
    struct store *store;
    struct keeper_options options;
    struct refresh_crew *crew;
    pthread_t watcher;
    bool watcher_started;
    atomic_bool stopping;
    int wake_fd;
    struct bucket_check *check;
    _Atomic(struct volume_stuck_seat *) seat; /* the watcher's, while it runs */

    /* Touched buckets on their way to the watcher; guarded by `lock`, a leaf. */
    pthread_mutex_t lock;
    struct bucket_names touched;
    struct keeper_state state;

    /* The watcher's own. */
    struct watch_poll *poll;
    struct watch_inotify *inotify;
    struct bucket_names changed;
    unsigned accepts;
    bool first_pass_done;
    uint64_t housekeeping_due_ns;
    uint64_t maintenance_due_ns;
    uint64_t maintained_ns; /* when it last had a turn */
    uint64_t listing_due_ns;
    struct index_reader *reader; /* for measuring; NULL: not measured yet */
    uint64_t measuring_due_ns;
    struct log_gate inotify_gate;
    struct log_gate listing_gate;
};

/* ---- names ---- */

static bool names_add(struct bucket_names *names, bool has_user, const char *bucket)
{
    if (!array_make_room(&names->items, names->count, &names->capacity, sizeof *names->items))
        return false;
    struct bucket_name *item = &names->items[names->count];
    if (strlen(bucket) >= sizeof item->name)
        return false;
    item->has_user = has_user;
    memcpy(item->name, bucket, strlen(bucket) + 1);
    names->count++;
    return true;
}

static void names_destroy(struct bucket_names *names)
{
    free(names->items);
    *names = (struct bucket_names){0};
}
#define AUTO_NAMES CLEANUP(names_destroy)

/* A scope with few facts is a chain of questions, of which no reader can take any off. */
static unsigned background_refreshers(const struct store *store,
                                      const struct keeper_options *options)
{
    if (options->refreshers > 0)
        return options->refreshers;
    return volume_lookups_are_safe(store->volume) ? REFRESHERS_LOCAL : REFRESHERS_REMOTE;
}

/* ---- the watcher ---- */

static void check_bucket(struct keeper *keeper, const struct bucket_name *bucket,
                         enum refresh_cause cause)
{
    struct bucket_verdict verdict = {0};
    struct error error = {0};
    enum status status = bucket_errand_check(keeper->store, keeper->check, bucket->has_user,
                                             bucket->name, cause, &verdict, &error);

    if (status == STATUS_CORRUPT && index_is_damaged(keeper->store->index))
        status = store_heal_index(keeper->store, &error);
    if (status != STATUS_OK)
        log_debug("watch.check", "bucket=%s kind=%s reason=%s", LOG_VALUE(bucket->name),
                  status_name(status), LOG_VALUE(error.message));
    /* The poller is the watcher thread's own; quick looks come from the pool's. */
    if (cause == REFRESH_CAUSE_PASS)
        return;
    if (verdict.empty)
        watch_poll_remove(keeper->poll, bucket->has_user, bucket->name);
    else
        watch_poll_done(keeper->poll, bucket->has_user, bucket->name, verdict.changed,
                        clock_monotonic_ns());
}

/* From inotify: only collects, the checks follow when the step is over. */
static void take_event(void *context, enum watch_event event, bool has_user, const char *bucket)
{
    struct keeper *keeper = context;

    if (event == WATCH_EVENTS_LOST) {
        watch_poll_all_due(keeper->poll, clock_monotonic_ns());
        return;
    }
    if (watch_poll_add(keeper->poll, has_user, bucket, clock_monotonic_ns()) != STATUS_OK)
        log_debug("watch.poll", "what=\"no memory to poll a bucket, ignoring\"");
    /* During the first pass everything is looked at anyway. */
    if (keeper->first_pass_done && !names_add(&keeper->changed, has_user, bucket))
        watch_poll_all_due(keeper->poll, clock_monotonic_ns());
}

static enum status open_bucket(void *context, const char *bucket, const char *path, int *ret,
                               struct error *error)
{
    const struct keeper *keeper = context;

    return bucket_errand_open(keeper->store, bucket, path, ret, error);
}

static void open_inotify(struct keeper *keeper)
{
    struct error error = {0};

    if (!keeper->options.inotify)
        return;
    enum status status =
        watch_inotify_create(keeper->store->volume, keeper->store->source.manifest_name, take_event,
                             keeper, &keeper->inotify, &error);
    if (status != STATUS_OK)
        log_warning("watch.inotify", "reason=%s what=\"changes are found by polling\"",
                    LOG_VALUE(error.message));
    else
        watch_inotify_open_with(keeper->inotify, open_bucket, keeper);
}

static void step_inotify(struct keeper *keeper)
{
    struct error error = {0};

    if (!keeper->inotify)
        return;
    enum status status = watch_inotify_step(keeper->inotify, &error);
    if (log_gate_change(&keeper->inotify_gate, (int) status) && status != STATUS_OK)
        log_warning("watch.inotify", "path=%s reason=%s what=\"changes are found by polling\"",
                    LOG_VALUE(error.path), LOG_VALUE(error.message));
    for (size_t i = 0; i < keeper->changed.count; i++)
        check_bucket(keeper, &keeper->changed.items[i], REFRESH_CAUSE_INOTIFY);
    keeper->changed.count = 0;
}

static void take_touched(struct keeper *keeper)
{
    AUTO_NAMES struct bucket_names touched = {0};

    pthread_mutex_lock(&keeper->lock);
    touched = keeper->touched;
    keeper->touched = (struct bucket_names){0};
    pthread_mutex_unlock(&keeper->lock);
    for (size_t i = 0; i < touched.count; i++)
        watch_poll_touch(keeper->poll, touched.items[i].has_user, touched.items[i].name,
                         clock_monotonic_ns());
}

/* On a volume whose every operation is a message to a server that all nodes share, the budget
 * counts these; `paid` of them are. A local one is looked at for next to nothing: there a compare
 * is one. */
static void charge(struct keeper *keeper, uint64_t operations, uint64_t paid)
{
    if (!volume_lookups_are_safe(keeper->store->volume) && operations > paid)
        watch_poll_charge(keeper->poll, operations - paid, clock_monotonic_ns());
}

static void poll_buckets(struct keeper *keeper)
{
    struct bucket_name bucket;
    const char *name;

    take_touched(keeper);
    for (unsigned i = 0; i < CHECKS_A_TURN && !atomic_load(&keeper->stopping); i++) {
        if (!watch_poll_next(keeper->poll, clock_monotonic_ns(), &bucket.has_user, &name))
            return;
        (void) snprintf(bucket.name, sizeof bucket.name, "%s", name);
        uint64_t before = volume_operations_here();
        check_bucket(keeper, &bucket, REFRESH_CAUSE_POLL);
        charge(keeper, volume_operations_here() - before, 1);
    }
}

static enum status add_bucket(void *context, bool has_user, const char *bucket)
{
    struct keeper *keeper = context;

    return watch_poll_add(keeper->poll, has_user, bucket, clock_monotonic_ns());
}

/* New users appear in a listing of their parent. It must not take what compares of the users need,
 * so it comes the rarer the longer it is. */
static void list_buckets(struct keeper *keeper)
{
    struct error error = {0};

    keeper->listing_due_ns =
        clock_monotonic_ns() + keeper->options.poll_interval_min_ms * NS_PER_MS;
    if (atomic_load(&keeper->store->suspended))
        return;
    uint64_t before = volume_operations_here();
    enum status status = bucket_list_all(keeper->store->buckets, add_bucket, keeper, &error);
    uint64_t operations = volume_operations_here() - before;
    charge(keeper, operations, 0);
    uint64_t rest_ns =
        operations * LISTING_SHARE * NS_PER_SECOND / keeper->options.operations_per_second;
    if (!volume_lookups_are_safe(keeper->store->volume) &&
        clock_monotonic_ns() + rest_ns > keeper->listing_due_ns)
        keeper->listing_due_ns = clock_monotonic_ns() + rest_ns;
    if (log_gate_change(&keeper->listing_gate, (int) status) && status != STATUS_OK)
        log_warning("volume.listing", "path=%s reason=%s", LOG_VALUE(error.path),
                    LOG_VALUE(error.message));
}

/* ---- the first pass, and every pass after the index was lost ---- */

struct pass {
    struct keeper *keeper;
    struct bucket_names
        buckets; /* listed on the volume, sorted; then those that only the index has */
    size_t listed;
};

static enum status collect_bucket(void *context, bool has_user, const char *bucket)
{
    struct pass *pass = context;

    return names_add(&pass->buckets, has_user, bucket) ? STATUS_OK : STATUS_NO_MEMORY;
}

static int by_name(const void *a_address, const void *b_address)
{
    const struct bucket_name *a = a_address;
    const struct bucket_name *b = b_address;

    return a->has_user != b->has_user ? (int) a->has_user - (int) b->has_user
                                      : strcmp(a->name, b->name);
}

/* Scopes of one bucket come one after the other, so the last name is the only one to repeat. */
static bool is_in_pass(const struct pass *pass, const struct scope *scope)
{
    struct bucket_name wanted = {.has_user = scope->has_user};
    const struct bucket_names *buckets = &pass->buckets;

    memcpy(wanted.name, scope->bucket, sizeof wanted.name);
    return (buckets->count > pass->listed &&
            by_name(&wanted, &buckets->items[buckets->count - 1]) == 0) ||
           (pass->listed > 0 &&
            bsearch(&wanted, buckets->items, pass->listed, sizeof wanted, by_name) != NULL);
}

/* A scope of a user whose directory is gone has to be looked at as well. */
static enum status collect_scope(void *context, const struct scope *scope,
                                 const struct index_scope *state)
{
    struct pass *pass = context;

    (void) state;
    if (is_in_pass(pass, scope))
        return STATUS_OK;
    return names_add(&pass->buckets, scope->has_user, scope->bucket) ? STATUS_OK : STATUS_NO_MEMORY;
}

static enum status pass_check(void *context, size_t index)
{
    struct pass *pass = context;

    if (!atomic_load(&pass->keeper->stopping))
        check_bucket(pass->keeper, &pass->buckets.items[index], REFRESH_CAUSE_PASS);
    build_progress_looked(pass->keeper->store->progress);
    return STATUS_OK;
}

static void add_indexed_buckets(struct pass *pass)
{
    struct index_reader *reader = NULL;

    if (index_reader_create(pass->keeper->store->index, &reader, NULL) != STATUS_OK)
        return;
    if (index_begin(reader, NULL) == STATUS_OK) {
        if (index_list_scopes(reader, collect_scope, pass, NULL) != STATUS_OK)
            log_debug("watch.scopes", "what=\"the index's scopes could not be listed, ignoring\"");
        index_end(reader);
    }
    index_reader_destroy(&reader);
}

static enum status look_again_later(void *context, const struct scope *scope,
                                    const struct index_scope *state)
{
    struct keeper *keeper = context;
    uint64_t settle_ms = volume_settle_ns(keeper->store->volume) / NS_PER_MS;

    (void) state;
    return refresh_request_later(keeper->store->refreshes, scope,
                                 REFRESH_WISH_SETTLE | REFRESH_WISH_RELIST,
                                 clock_deadline_ms(settle_ms + 1));
}

static enum status look_again_now(void *context, const struct scope *scope,
                                  const struct index_scope *state)
{
    struct keeper *keeper = context;
    uint64_t number;

    (void) state;
    return refresh_request(keeper->store->refreshes, scope, REFRESH_BACKGROUND,
                           REFRESH_CAUSE_SETTLE, REFRESH_WISH_SETTLE, &number);
}

/* Looks that the agent before us did not live to take: at files that nobody was allowed to read,
 * and the second ones where look-ups are not safe (elsewhere a compare sees what they would). */
static void take_over_looks(struct keeper *keeper)
{
    struct index_reader *reader = NULL;

    if (index_reader_create(keeper->store->index, &reader, NULL) != STATUS_OK)
        return;
    if (index_begin(reader, NULL) == STATUS_OK) {
        enum status status =
            index_list_faulty(reader, FACT_FAULT_REFUSED, look_again_now, keeper, NULL);
        if (status == STATUS_OK && !volume_lookups_are_safe(keeper->store->volume))
            status = index_list_unsettled(reader, look_again_later, keeper, NULL);
        if (status != STATUS_OK)
            log_debug("watch.scopes", "what=\"not all looks were taken over, ignoring\"");
        index_end(reader);
    }
    index_reader_destroy(&reader);
}

/* Looks at every bucket once, as fast as the volume allows: what is in step is served at once, the
 * rest is asked for. */
static void look_at_everything(struct keeper *keeper)
{
    struct store *store = keeper->store;
    struct pass pass = {.keeper = keeper};
    struct error error = {0};
    uint64_t begun_ns = clock_monotonic_ns();

    if (atomic_load(&store->suspended))
        return;
    build_progress_begin(store->progress);
    atomic_store(&store->rebuild_wanted, false);
    enum status status = bucket_list_all(store->buckets, collect_bucket, &pass, &error);
    if (status != STATUS_OK) {
        log_warning("volume.listing", "path=%s reason=%s", LOG_VALUE(error.path),
                    LOG_VALUE(error.message));
        atomic_store(&store->rebuild_wanted, true);
        names_destroy(&pass.buckets);
        return;
    }
    pass.listed = pass.buckets.count;
    add_indexed_buckets(&pass);
    build_progress_listed(store->progress, pass.buckets.count);
    (void) !reader_pool_run(store->pool, pass.buckets.count, pass_check, &pass); /* never fails */
    build_progress_all_looked(store->progress);
    for (size_t i = 0; i < pass.buckets.count; i++) {
        if (add_bucket(keeper, pass.buckets.items[i].has_user, pass.buckets.items[i].name) !=
            STATUS_OK)
            break;
    }
    log_info("volume.looked", "buckets=%zu took_ms=%" PRIu64, pass.buckets.count,
             (clock_monotonic_ns() - begun_ns) / NS_PER_MS);
    names_destroy(&pass.buckets);
    if (!keeper->first_pass_done)
        take_over_looks(keeper);
    keeper->first_pass_done = true;
}

/* ---- once a second ---- */

/* False: others are at the index, and it is not too long ago that there was a turn. */
static bool take_turn(const struct keeper *keeper, uint64_t *ret_place)
{
    struct install_queue *installs = keeper->store->installs;

    if (install_queue_try(installs, ret_place))
        return true;
    if (clock_monotonic_ns() - keeper->maintained_ns < MAINTENANCE_PATIENCE_NS)
        return false;
    *ret_place = install_queue_enter(installs);
    install_queue_wait(installs, *ret_place);
    return true;
}

static void maintain_index(struct keeper *keeper)
{
    struct store *store = keeper->store;
    bool more = true;
    uint64_t place;

    if (index_file_was_replaced(store->index) || index_is_damaged(store->index)) {
        struct error error = {0};
        if (store_heal_index(store, &error) != STATUS_OK)
            log_error("index.rebuild", "path=%s reason=%s", LOG_VALUE(index_path(store->index)),
                      LOG_VALUE(error.message));
        return;
    }
    if (take_turn(keeper, &place)) {
        more = index_maintain(store->index, MAINTENANCE_MS);
        install_queue_leave(store->installs, place);
        keeper->maintained_ns = clock_monotonic_ns();
    }
    keeper->maintenance_due_ns =
        clock_monotonic_ns() + (more ? MAINTENANCE_PAUSE_NS : HOUSEKEEPING_NS);
}

static void follow_accepted_volume(struct keeper *keeper)
{
    unsigned accepts = atomic_load(&keeper->store->accepts);

    if (accepts == keeper->accepts)
        return;
    keeper->accepts = accepts;
    watch_inotify_destroy(&keeper->inotify);
    open_inotify(keeper);
}

static void publish_state(struct keeper *keeper)
{
    struct watch_inotify_state inotify = {0};

    if (keeper->inotify)
        watch_inotify_state(keeper->inotify, &inotify);
    pthread_mutex_lock(&keeper->lock);
    struct keeper_state *state = &keeper->state;
    state->buckets = watch_poll_count(keeper->poll);
    state->inotify = keeper->inotify != NULL;
    state->watched = inotify.watched;
    state->wanted = inotify.wanted;
    state->events = inotify.events;
    state->overflows = inotify.overflows;
    state->first_pass_done = keeper->first_pass_done;
    state->last_turn_ns = clock_monotonic_ns();
    (void) snprintf(state->limit, sizeof state->limit, "%s", inotify.limit ? inotify.limit : "");
    pthread_mutex_unlock(&keeper->lock);
}

static enum status read_totals(struct keeper *keeper, struct index_totals *ret)
{
    enum status status = STATUS_OK;

    if (!keeper->reader)
        status = index_reader_create(keeper->store->index, &keeper->reader, NULL);
    if (status == STATUS_OK)
        status = index_begin(keeper->reader, NULL);
    if (status != STATUS_OK)
        return status;
    status = index_totals(keeper->reader, ret, NULL);
    index_end(keeper->reader);
    return status;
}

/* Whoever asks must not be kept waiting by an index on a disk that hangs. */
static void measure_index(struct keeper *keeper)
{
    struct index_totals totals = {0};
    uint64_t begun_ns = clock_monotonic_ns();

    if (!keeper->options.measure_index || begun_ns < keeper->measuring_due_ns)
        return;
    enum status status = read_totals(keeper, &totals);
    uint64_t ended_ns = clock_monotonic_ns();
    uint64_t pause_ns = (ended_ns - begun_ns) * MEASURING_SHARE;
    if (pause_ns > MEASURING_PAUSE_NS_MAX)
        pause_ns = MEASURING_PAUSE_NS_MAX;
    keeper->measuring_due_ns = ended_ns + pause_ns;
    if (status != STATUS_OK)
        return; /* a damaged index is told of elsewhere; what was known of it stays */
    pthread_mutex_lock(&keeper->lock);
    keeper->state.totals = totals;
    keeper->state.measured = true;
    pthread_mutex_unlock(&keeper->lock);
}

static void keep_house(struct keeper *keeper)
{
    uint64_t now_ns = clock_monotonic_ns();

    if (now_ns >= keeper->maintenance_due_ns)
        maintain_index(keeper);
    if (now_ns < keeper->housekeeping_due_ns)
        return;
    keeper->housekeeping_due_ns = now_ns + HOUSEKEEPING_NS;
    uint64_t before = volume_operations_here();
    /* Its own log line tells; here nothing else follows from it. */
    enum status status = store_check_volume(keeper->store, NULL);
    (void) status;
    charge(keeper, volume_operations_here() - before, 0);
    follow_accepted_volume(keeper);
    build_progress_tick(keeper->store->progress);
    if (atomic_load(&keeper->store->rebuild_wanted) || !keeper->first_pass_done)
        look_at_everything(keeper);
    if (now_ns >= keeper->listing_due_ns)
        list_buckets(keeper);
    measure_index(keeper);
    publish_state(keeper);
}

static void wait_for_something(const struct keeper *keeper)
{
    struct pollfd fds[2] = {{.fd = keeper->wake_fd, .events = POLLIN},
                            {.fd = -1, .events = POLLIN}};
    uint64_t now_ns = clock_monotonic_ns();
    uint64_t wait_ns = watch_poll_wait_ns(keeper->poll, now_ns);
    uint64_t due_ns = keeper->housekeeping_due_ns < keeper->maintenance_due_ns
                          ? keeper->housekeeping_due_ns
                          : keeper->maintenance_due_ns;

    if (wait_ns > HOUSEKEEPING_NS || now_ns + wait_ns > due_ns)
        wait_ns = due_ns > now_ns ? due_ns - now_ns : 0;
    if (keeper->inotify)
        fds[1].fd = watch_inotify_fd(keeper->inotify);
    int ready = poll(fds, ARRAY_SIZE(fds), (int) (wait_ns / NS_PER_MS) + 1);
    if (ready < 0 && errno != EINTR)
        log_error("watch.poll", "reason=%s", LOG_VALUE(strerrordesc_np(errno)));
}

static void *watcher_main(void *context)
{
    struct keeper *keeper = context;

    thread_kind_set(THREAD_BACKGROUND);
    atomic_store(&keeper->seat, volume_stuck_seat_here());
    open_inotify(keeper);
    step_inotify(keeper);
    look_at_everything(keeper);
    publish_state(keeper);
    while (!atomic_load(&keeper->stopping)) {
        wait_for_something(keeper);
        if (atomic_load(&keeper->stopping))
            break;
        step_inotify(keeper);
        poll_buckets(keeper);
        keep_house(keeper);
    }
    watch_inotify_destroy(&keeper->inotify);
    index_reader_destroy(&keeper->reader);
    atomic_store(&keeper->seat, NULL);
    return NULL;
}

/* ---- start and stop ---- */

static enum status start_watcher(struct keeper *keeper, struct error *error)
{
    struct watch_poll_options poll_options = {
        .interval_min_ns = keeper->options.poll_interval_min_ms * NS_PER_MS,
        .interval_max_ns = keeper->options.poll_interval_max_ms * NS_PER_MS,
        .operations_per_second = keeper->options.operations_per_second,
    };

    keeper->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (keeper->wake_fd < 0)
        return error_set_errno(error, errno, NULL, "cannot make an eventfd");
    enum status status = watch_poll_create(&poll_options, &keeper->poll);
    if (status == STATUS_OK)
        status = bucket_check_create(keeper->store, &keeper->check, error);
    if (status != STATUS_OK)
        return status;
    int failed = pthread_create(&keeper->watcher, NULL, watcher_main, keeper);
    if (failed)
        return error_set_errno(error, failed, NULL, "cannot start the watcher thread");
    keeper->watcher_started = true;
    return STATUS_OK;
}

enum status keeper_start(struct store *store, const struct keeper_options *options,
                         struct keeper **ret, struct error *error)
{
    struct keeper *keeper = calloc(1, sizeof *keeper);

    if (!keeper)
        return STATUS_NO_MEMORY;
    keeper->store = store;
    keeper->options = *options;
    keeper->wake_fd = -1;
    pthread_mutex_init(&keeper->lock, NULL);
    enum status status =
        refresh_crew_start(store, background_refreshers(store, options), &keeper->crew, error);
    if (status == STATUS_OK)
        status = start_watcher(keeper, error);
    if (status != STATUS_OK) {
        (void) !keeper_stop(&keeper, CLOCK_NEVER);
        return status;
    }
    *ret = keeper;
    return STATUS_OK;
}

static void wake_watcher(const struct keeper *keeper)
{
    uint64_t one = 1;

    if (keeper->wake_fd >= 0 && write(keeper->wake_fd, &one, sizeof one) < 0 && errno != EAGAIN)
        log_error("watch.wake", "reason=%s", LOG_VALUE(strerrordesc_np(errno)));
}

void keeper_oversee(struct keeper *keeper)
{
    refresh_crew_oversee(keeper->crew);
    reader_pool_oversee(keeper->store->pool);
}

static bool stop_watcher(struct keeper *keeper, uint64_t deadline_ns)
{
    atomic_store(&keeper->stopping, true);
    wake_watcher(keeper);
    if (keeper->watcher_started && !thread_join_by(keeper->watcher, deadline_ns))
        return false;
    keeper->watcher_started = false;
    return true;
}

bool keeper_stop(struct keeper **keeper_address, uint64_t deadline_ns)
{
    struct keeper *keeper = *keeper_address;

    if (!keeper)
        return true;
    refresh_table_stop(keeper->store->refreshes);
    bool ended = stop_watcher(keeper, deadline_ns);
    /* A watcher that hangs is no reason to leave the others to themselves. */
    ended = refresh_crew_stop(&keeper->crew, deadline_ns) && ended;
    if (!ended || !errands_settle(keeper->store->errands, deadline_ns))
        return false;
    bucket_check_destroy(&keeper->check);
    watch_poll_destroy(&keeper->poll);
    if (keeper->wake_fd >= 0)
        (void) close(keeper->wake_fd);
    names_destroy(&keeper->touched);
    names_destroy(&keeper->changed);
    pthread_mutex_destroy(&keeper->lock);
    free(TAKE_PTR(*keeper_address));
    return true;
}

void keeper_touch(struct keeper *keeper, const struct scope *scope)
{
    const char *bucket = scope->has_user ? scope->bucket : "";

    pthread_mutex_lock(&keeper->lock);
    const struct bucket_names *touched = &keeper->touched;
    const struct bucket_name *last = touched->count ? &touched->items[touched->count - 1] : NULL;
    bool again = last && last->has_user == scope->has_user && strcmp(last->name, bucket) == 0;
    /* Beyond a thousand between two turns the rest is not worth remembering. */
    if (!again && touched->count < 1000)
        (void) names_add(&keeper->touched, scope->has_user, bucket);
    pthread_mutex_unlock(&keeper->lock);
}

void keeper_state(struct keeper *keeper, struct keeper_state *ret)
{
    pthread_mutex_lock(&keeper->lock);
    *ret = keeper->state;
    pthread_mutex_unlock(&keeper->lock);
}

/* Seats are never freed. */
uint64_t keeper_silence_ns(struct keeper *keeper)
{
    struct volume_stuck_seat *seat = atomic_load(&keeper->seat);

    return seat ? volume_stuck_age(seat) : 0;
}
