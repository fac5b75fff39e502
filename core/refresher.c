#include "core/refresher.h"

#include "core/clock.h"
#include "core/log.h"
#include "core/mutant.h"
#include "core/pause_point.h"
#include "core/refresh_report.h"

#include <inttypes.h>
#include <string.h>

#define LOST_MAX 2 /* compare-and-sets that may be lost before the user's lock is taken */
/* A lock that was waited for in vain once is only tried the next times. */
#define WRITER_WAIT_AGAIN_MS 20
/* Somebody's run that waits for the lock which we hold would wait as long as we do. */
#define OTHER_RUN_WAIT_MS 2000
/* How long a write of our own may keep a refresh from starting. */
#define OWN_WRITE_WAIT_MS 50
#define OWN_WRITES_MAX 4 /* and how many of them, one after the other */
#define LOCK_SLICE_MS 50
#define RETRY_FIRST_MS 1000
#define RETRY_LONGEST_MS 60000

/* Above so many, and when they are more than half of all, everything is read at once. */
#define SPECIAL_MAX 1024

/* What the index holds of the scope as the run begins. */
struct base {
    struct index_reader *reader;
    struct error *error;
    bool in_index;
    bool complete; /* `seen` is; else what is not special is read when it is needed */
    struct index_scope row;
    struct seen_list seen;
};

static void base_destroy(struct base *base)
{
    seen_list_destroy(&base->seen);
}
#define AUTO_BASE CLEANUP(base_destroy)

struct refresh {
    struct store *store;
    struct index_reader *reader;
    struct refresh_run *run;
    struct refresh_result *result;
    struct snapshot snapshot;
    int64_t revision_before;
    struct plan_counts counts;
    bool unsettled;
    bool manifest_moved; /* it is another one than the rows were built from */
    bool rows_changed;
    bool removed;
    bool yields; /* to a write of our own, which brings the scope in step itself */
};

/* Where everything is looked at, or stamps of directories tell nothing, everything is needed. */
static bool needs_all(const struct refresh *refresh)
{
    return (refresh->run->wishes & (REFRESH_WISH_FULL | REFRESH_WISH_RELIST)) != 0 ||
           !volume_directory_times_work(refresh->store->volume);
}

static enum status read_seen(const struct refresh *refresh, struct base *base, struct error *error)
{
    enum status status = STATUS_OK;

    base->complete = needs_all(refresh);
    if (!base->complete) {
        status = index_read_special(refresh->reader, base->row.id, &base->seen, error);
        base->complete = base->seen.count > SPECIAL_MAX &&
                         base->seen.count > (base->row.facts + base->row.broken) / 2;
        if (status != STATUS_OK || !base->complete)
            return status;
        seen_list_destroy(&base->seen);
    }
    return index_read_seen(refresh->reader, base->row.id, &base->seen, error);
}

static enum status read_base(struct refresh *refresh, struct base *base, struct error *error)
{
    enum status status = index_begin(refresh->reader, error);

    if (status != STATUS_OK)
        return status;
    status = index_read_scope(refresh->reader, &refresh->run->scope, &base->row, error);
    base->in_index = status == STATUS_OK;
    if (status == STATUS_OK)
        status = read_seen(refresh, base, error);
    else if (status == STATUS_NOT_FOUND)
        status = STATUS_OK;
    index_end(refresh->reader);
    return status;
}

/* Where each look is a message, whether the rows are in step is told by the manifest that the
 * snapshot reads anyway: whoever asked has seen that they were not. */
static bool snapshot_compares(const struct refresh *refresh, const struct base *base)
{
    return base->in_index && refresh->run->wishes == REFRESH_WISH_NONE &&
           !volume_lookups_are_safe(refresh->store->volume);
}

static bool compares_first(const struct refresh *refresh, const struct base *base)
{
    return refresh->run->wishes == REFRESH_WISH_NONE && !snapshot_compares(refresh, base);
}

/* True when there is nothing to do: the rows are in step, and nobody asked for more than that. */
static enum status is_in_step(struct refresh *refresh, const struct base *base, bool *ret,
                              struct error *error)
{
    struct live_state live;

    *ret = false;
    if (!compares_first(refresh, base))
        return STATUS_OK;
    uint64_t looked_ns = clock_monotonic_ns();
    enum status status =
        store_compare(refresh->store, &refresh->run->scope, CLOCK_NEVER, &live, error);
    if (status != STATUS_OK)
        return status;
    *ret = base->in_index ? freshness_in_step(&base->row.synced, base->row.facts, &live, true)
                          : store_knows_empty(refresh->store, &refresh->run->scope, &live);
    if (*ret)
        scope_notes_in_step(refresh->store->notes, &refresh->run->scope, looked_ns);
    return STATUS_OK;
}

/* Rows that have moved since the run began are no matter: its result is refused then. */
static enum status load_below(void *context, const char *directory, struct seen_list *ret)
{
    const struct base *base = context;
    enum status status = index_begin(base->reader, base->error);

    if (status == STATUS_OK) {
        status = index_read_below(base->reader, base->row.id, directory, ret, base->error);
        index_end(base->reader);
    }
    return status;
}

static enum status make_plan(struct refresh *refresh, struct base *base, struct refresh_plan **ret)
{
    bool complete = base->complete || !base->in_index;
    struct refresh_plan_options options = {
        .seen = &base->seen,
        .load = complete ? NULL : load_below,
        .load_context = base,
        .base_files = complete ? 0 : base->row.facts + base->row.broken,
        .base_broken = complete ? 0 : base->row.broken,
        .racy = refresh->run->racy,
        .full = (refresh->run->wishes & REFRESH_WISH_FULL) != 0,
        .directory_times_work = volume_directory_times_work(refresh->store->volume),
        .settle_ns = volume_settle_ns(refresh->store->volume),
        .now_ns = clock_monotonic_ns(),
    };

    enum status status = refresh_plan_create(&options, ret);
    if (status == STATUS_OK && (refresh->run->wishes & REFRESH_WISH_RELIST))
        refresh_plan_distrust_dirs(*ret);
    return status;
}

static enum status remove_scope(struct refresh *refresh, const struct base *base,
                                enum install_outcome *ret, struct error *error)
{
    uint64_t place = install_queue_enter(refresh->store->installs);

    install_queue_wait(refresh->store->installs, place);
    enum status status = index_remove_scope(refresh->store->index, &refresh->run->scope,
                                            base->row.generation, ret, error);
    install_queue_leave(refresh->store->installs, place);
    refresh->removed = status == STATUS_OK && *ret == INSTALL_DONE;
    return status;
}

/* The mutants' way: whatever generation the rows have by now. */
static uint64_t present_generation(struct refresh *refresh)
{
    struct index_scope row = {0};

    if (index_begin(refresh->reader, NULL) == STATUS_OK &&
        index_read_scope(refresh->reader, &refresh->run->scope, &row, NULL) != STATUS_OK)
        row.generation = 0;
    index_end(refresh->reader);
    return row.generation;
}

/* Hands the plan's result to the index, in turn with everybody else. */
static enum status install(struct refresh *refresh, const struct base *base,
                           const struct plan_result *result, enum install_outcome *ret,
                           struct error *error)
{
    struct store *store = refresh->store;
    AUTO_FREE struct index_row *rows = calloc(result->put_count + 1, sizeof *rows);
    uint64_t generation = 0;

    if (!rows)
        return STATUS_NO_MEMORY;
    for (size_t i = 0; i < result->put_count; i++)
        rows[i] = (struct index_row){.path = result->put[i].path, .fact = result->put[i].fact};

    struct index_change change = {
        .scope = &refresh->run->scope,
        .expected_generation = base->in_index ? base->row.generation : 0,
        .put = rows,
        .put_count = result->put_count,
        .removed = result->removed,
        .removed_count = result->removed_count,
        .seen = result->seen,
        .seen_count = result->seen_count,
        .synced = {.known = true, .mark = refresh->snapshot.live.mark},
        .manifest = refresh->snapshot.manifest,
        .manifest_size = refresh->snapshot.manifest_size,
        .unmigrated = refresh->snapshot.unmigrated,
    };
    pause_here(PAUSE_REFRESH_BEFORE_INSTALL);
    bool complete = (refresh->run->wishes & REFRESH_WISH_FULL) != 0;
    if (complete ? MUTANT(NO_GENERATION_COMPLETE) : MUTANT(NO_GENERATION_INCREMENTAL))
        change.expected_generation = present_generation(refresh);
    if (MUTANT(STOP_AT_100) && change.put_count > 100)
        change.put_count = 100;
    uint64_t place = install_queue_enter(store->installs);
    install_queue_wait(store->installs, place);
    enum status status = index_install_refresh(store->index, &change, ret, &generation, error);
    install_queue_leave(store->installs, place);
    pause_here(PAUSE_REFRESH_AFTER_INSTALL);
    if (status == STATUS_OK && *ret == INSTALL_DONE) {
        refresh->result->generation = generation;
        refresh->rows_changed = result->put_count + result->removed_count > 0;
    }
    return status;
}

/* Said once: what waits for migration is not searched. */
static void note_earlier_layout(const struct refresh *refresh, const struct base *base)
{
    const struct scope *scope = &refresh->run->scope;
    char path[SCOPE_PATH_MAX];

    if (!refresh->snapshot.unmigrated || (base->in_index && base->row.unmigrated))
        return;
    scope_bucket_path(scope, path);
    log_notice("scope.unmigrated",
               "user=%s agent=%s path=%s what=\"old format, needs migration (a write, 'memsync "
               "migrate', or a peer)\"",
               LOG_VALUE(scope->has_user ? scope->user : NULL), scope->agent, LOG_VALUE(path));
}

/* A scope without anything on the volume needs no row. Believed only while the volume is the one we
 * know. */
static bool is_empty(const struct refresh *refresh, const struct plan_result *result)
{
    return refresh->snapshot.live.mark.signature.absent && refresh->snapshot.live.bare &&
           result->files == 0;
}

/* Nothing of the scope is there, though its user has a manifest: remembered, but not in the index.
 */
static bool needs_no_row(const struct refresh *refresh, const struct base *base,
                         const struct plan_result *result)
{
    return !base->in_index && result->files == 0 && !refresh->snapshot.unmigrated &&
           !refresh->snapshot.live.mark.signature.absent;
}

static enum status publish(struct refresh *refresh, const struct base *base,
                           struct refresh_plan *plan, enum install_outcome *ret,
                           struct error *error)
{
    AUTO_PLAN_RESULT struct plan_result result = {0};
    enum status status = refresh_plan_finish(plan, &result);

    bool gone = is_empty(refresh, &result) && base->in_index;
    if (status == STATUS_OK && (gone || result.removed_count > 0))
        status = store_check_volume(refresh->store, error);
    if (status != STATUS_OK)
        return status;

    refresh_plan_counts(plan, &refresh->counts);
    refresh->result->facts = result.files - result.broken;
    refresh->result->broken = result.broken;
    refresh->result->files_read = refresh->counts.files_read;
    refresh->result->manifest_absent =
        refresh->snapshot.live.mark.signature.absent && !is_empty(refresh, &result);
    refresh->result->refused = result.refused;
    refresh->unsettled = result.unsettled;
    refresh->manifest_moved =
        !base->in_index || !base->row.synced.known ||
        !signature_equal(&base->row.synced.mark.signature, &refresh->snapshot.live.mark.signature);
    *ret = INSTALL_DONE;
    if (gone)
        status = remove_scope(refresh, base, ret, error);
    else if (needs_no_row(refresh, base, &result))
        scope_notes_empty(refresh->store->notes, &refresh->run->scope,
                          &refresh->snapshot.live.mark);
    else if (!is_empty(refresh, &result))
        status = install(refresh, base, &result, ret, error);
    if (status == STATUS_OK && *ret == INSTALL_DONE) {
        refresh->result->installed = true;
        refresh_report_files(&refresh->run->scope, &base->seen, &result);
        note_earlier_layout(refresh, base);
        refresh_plan_note_racy(plan, refresh->run->racy, clock_monotonic_ns());
    }
    return status;
}

static void note_in_step(struct refresh *refresh, const struct base *base)
{
    refresh->result->generation = base->row.generation;
    refresh->result->facts = base->row.facts;
    refresh->result->broken = base->row.broken;
}

/* What the index holds, and whether that is what the volume has. Steady writes of our own would
 * make a refresh that looks in the middle of one read for nothing. */
static enum status look(struct refresh *refresh, bool lock_is_held, struct base *base,
                        bool *ret_in_step, struct error *error)
{
    enum status status = STATUS_OK;
    bool waited = !lock_is_held;

    for (unsigned i = 0; i == 0 || (i < OWN_WRITES_MAX && waited); i++) {
        if (waited)
            waited = own_writes_wait(refresh->store->own_writes, &refresh->run->scope,
                                     OWN_WRITE_WAIT_MS);
        base_destroy(base);
        status = read_base(refresh, base, error);
        if (status == STATUS_OK)
            status = is_in_step(refresh, base, ret_in_step, error);
        if (status != STATUS_OK || *ret_in_step || !compares_first(refresh, base))
            break;
    }
    return status;
}

/* Reads a snapshot and installs it if the rows have not moved meanwhile. */
static enum status refresh_once(struct refresh *refresh, bool lock_is_held,
                                enum install_outcome *ret, bool *ret_in_step, struct error *error)
{
    AUTO_BASE struct base base = {.reader = refresh->reader, .error = error};
    AUTO_PLAN struct refresh_plan *plan = NULL;

    if (atomic_load(&refresh->store->suspended))
        return error_set(error, STATUS_UNAVAILABLE, NULL, STORE_SUSPENDED_TEXT);
    enum status status = look(refresh, lock_is_held, &base, ret_in_step, error);
    if (status != STATUS_OK || *ret_in_step) {
        note_in_step(refresh, &base);
        return status;
    }
    refresh->revision_before = base.row.synced.mark.signature.revision;
    pause_here(PAUSE_REFRESH_AFTER_PLAN);

    status = make_plan(refresh, &base, &plan);
    if (status != STATUS_OK)
        return status;
    struct snapshot_request request = {
        .scope = &refresh->run->scope,
        .plan = plan,
        .deadline_ns = clock_deadline_ms(REFRESH_DEADLINE_MS),
        .writer_wait_ms = refresh->run->failures > 0 ? WRITER_WAIT_AGAIN_MS : 0,
        .lock_is_held = lock_is_held,
        .built_from = snapshot_compares(refresh, &base) ? &base.row.synced : NULL,
        .files_read = &refresh->store->counters.files_read,
    };
    snapshot_destroy(&refresh->snapshot);
    uint64_t looked_ns = clock_monotonic_ns();
    status = snapshot_take(&refresh->store->source, &request, &refresh->snapshot, error);
    if (status == STATUS_OK && refresh->snapshot.in_step) {
        *ret_in_step = true;
        note_in_step(refresh, &base);
        scope_notes_in_step(refresh->store->notes, &refresh->run->scope, looked_ns);
        return STATUS_OK;
    }
    return status == STATUS_OK ? publish(refresh, &base, plan, ret, error) : status;
}

/* In slices: who holds the lock may be a write of our own that waits for this very run to end. */
static enum status take_users_lock(struct refresh *refresh, struct volume_lock **ret,
                                   bool *ret_yields, struct error *error)
{
    struct store *store = refresh->store;
    uint64_t deadline_ns = clock_deadline_ms(REFRESH_DEADLINE_MS);
    enum status status = STATUS_BUSY;

    while (status == STATUS_BUSY && !*ret_yields && clock_remaining_ms(deadline_ns) > 0) {
        status = volume_lock_acquire(store->locks, store->volume, &refresh->run->scope,
                                     VOLUME_LOCK_SHARED, false, clock_deadline_ms(LOCK_SLICE_MS),
                                     ret, error);
        *ret_yields = status == STATUS_BUSY && refresh_must_yield(store->refreshes, refresh->run);
    }
    return status;
}

/* A busy writer must not keep a scope out of step for ever: with the user's lock held nobody moves
 * the rows. */
static enum status refresh_under_lock(struct refresh *refresh, enum install_outcome *ret,
                                      bool *ret_in_step, struct error *error)
{
    struct volume_lock *lock = NULL;
    enum status status = take_users_lock(refresh, &lock, &refresh->yields, error);

    if (status == STATUS_OK)
        status = refresh_once(refresh, true, ret, ret_in_step, error);
    volume_lock_release(&lock);
    return status;
}

static enum status refresh_until_installed(struct refresh *refresh, bool lock_is_held,
                                           struct error *error)
{
    enum install_outcome outcome = INSTALL_LOST;
    bool in_step = false;
    enum status status = STATUS_OK;

    for (unsigned i = 0; status == STATUS_OK && !in_step && outcome == INSTALL_LOST && i < LOST_MAX;
         i++) {
        status = refresh_once(refresh, lock_is_held, &outcome, &in_step, error);
        if (status == STATUS_OK && !in_step && outcome == INSTALL_LOST)
            atomic_fetch_add(&refresh->store->counters.refreshes_lost, 1);
    }
    if (status == STATUS_OK && !in_step && outcome == INSTALL_LOST && !lock_is_held)
        status = refresh_under_lock(refresh, &outcome, &in_step, error);
    if (status == STATUS_OK && !in_step && outcome == INSTALL_LOST)
        status =
            error_set(error, STATUS_BUSY, NULL, "other writers keep changing the scope's rows");
    return status;
}

static void log_success(const struct refresh *refresh)
{
    const struct refresh_result *result = refresh->result;

    if (!result->installed)
        return;
    log_debug("refresh.done",
              "user=%s agent=%s revision=%" PRId64 " from_revision=%" PRId64 " facts=%" PRIu64
              " broken=%" PRIu64 " dirs_listed=%" PRIu64 " files_read=%" PRIu64
              " attempts=%u took_us=%" PRIu64,
              LOG_VALUE(refresh->run->scope.has_user ? refresh->run->scope.user : NULL),
              refresh->run->scope.agent, refresh->snapshot.live.mark.signature.revision,
              refresh->revision_before, result->facts, result->broken, refresh->counts.dirs_listed,
              result->files_read, refresh->snapshot.attempts, result->took_ns / NS_PER_US);
    if (refresh->snapshot.rolled_back)
        log_notice("volume.recovered", "user=%s what=\"a dead writer's commit was taken back\"",
                   LOG_VALUE(refresh->run->scope.has_user ? refresh->run->scope.user : NULL));
}

static void tell(struct refresh *refresh)
{
    const struct refresh_result *result = refresh->result;

    if (refresh->removed)
        store_publish(refresh->store, &refresh->run->scope, "removed", "%s", "");
    else if (result->installed && refresh->rows_changed)
        store_publish(refresh->store, &refresh->run->scope, "refreshed",
                      "\"revision\":%" PRId64 ",\"facts\":%" PRIu64 ",\"took_us\":%" PRIu64,
                      refresh->snapshot.live.mark.signature.revision, result->facts,
                      result->took_ns / NS_PER_US);
    if (refresh->snapshot.rolled_back)
        store_publish(refresh->store, &refresh->run->scope, "recovered", "%s", "");
}

/* Logged once per scope and change, not per attempt. */
static void note_outcome(struct refresh *refresh)
{
    const struct refresh_result *result = refresh->result;

    if (!scope_notes_outcome(refresh->store->notes, &refresh->run->scope, result->status,
                             result->error.sys_errno, clock_monotonic_ns()))
        return;
    const char *user = refresh->run->scope.has_user ? refresh->run->scope.user : NULL;
    if (result->status == STATUS_OK)
        log_notice("scope.readable", "user=%s agent=%s", LOG_VALUE(user),
                   refresh->run->scope.agent);
    else
        log_warning("scope.unreadable", "user=%s agent=%s kind=%s path=%s reason=%s",
                    LOG_VALUE(user), refresh->run->scope.agent, status_name(result->status),
                    LOG_VALUE(result->error.path), LOG_VALUE(result->error.message));
    if (result->status == STATUS_CORRUPT)
        store_publish(refresh->store, &refresh->run->scope, "corrupt", "%s", "");
}

/* `failures` before this one. A commit under way is over soon, however many were met. */
static uint64_t retry_time(enum status status, unsigned failures)
{
    uint64_t wait_ms = RETRY_FIRST_MS;

    if (status == STATUS_BUSY)
        failures = 0;
    while (failures-- > 0 && wait_ms < RETRY_LONGEST_MS)
        wait_ms *= 2;
    return clock_deadline_ms(wait_ms < RETRY_LONGEST_MS ? wait_ms : RETRY_LONGEST_MS);
}

/* When the run is to be followed by another; 0: by none. A right that is missing comes back without
 * a trace on the volume, so nothing else would tell. */
static uint64_t next_try(const struct refresh *refresh)
{
    const struct refresh_result *result = refresh->result;

    if (result->status != STATUS_OK || refresh->yields)
        return retry_time(result->status, refresh->run->failures);
    return result->refused ? retry_time(STATUS_OK, refresh->run->refusals) : 0;
}

/* A change that was just read from a volume whose listings may be cached: an old listing under a
 * new manifest looks like any other, so everything is listed once more when the cache must have
 * forgotten it. */
static bool needs_relisting(const struct refresh *refresh)
{
    return !volume_lookups_are_safe(refresh->store->volume) &&
           (!(refresh->run->wishes & REFRESH_WISH_RELIST) || refresh->manifest_moved);
}

/* A second look, at what could not be trusted yet, once it can be. */
static void schedule_second_look(struct refresh *refresh)
{
    uint64_t settle_ms = volume_settle_ns(refresh->store->volume) / NS_PER_MS;
    unsigned wishes = 0;

    if (!refresh->result->installed || MUTANT(NO_LATER_LOOK))
        return;
    if (refresh->unsettled)
        wishes |= REFRESH_WISH_SETTLE;
    else
        racy_clear(refresh->run->racy);
    if (needs_relisting(refresh))
        wishes |= REFRESH_WISH_RELIST;
    if (wishes && refresh_request_later(refresh->store->refreshes, &refresh->run->scope, wishes,
                                        clock_deadline_ms(settle_ms + 1)) != STATUS_OK)
        log_debug("refresh.settle", "what=\"no memory to schedule it, ignoring\"");
}

static enum refresh_outcome outcome_of(const struct refresh *refresh)
{
    if (refresh->result->status != STATUS_OK)
        return REFRESH_FAILED;
    if (refresh->yields)
        return REFRESH_YIELDED;
    return refresh->result->installed ? REFRESH_INSTALLED : REFRESH_IN_STEP;
}

static void count(struct refresh *refresh)
{
    struct store_counters *counters = &refresh->store->counters;

    atomic_fetch_add(&counters->refreshes_by[refresh->run->cause][outcome_of(refresh)], 1);
    histogram_observe(&counters->refresh_duration, refresh->result->took_ns);

    if (refresh->result->status != STATUS_OK)
        atomic_fetch_add(&counters->refreshes_failed, 1);
    else if (refresh->result->installed && refresh->run->wishes != REFRESH_WISH_NONE &&
             !(refresh->run->wishes & REFRESH_WISH_FULL))
        atomic_fetch_add(&counters->settles, 1);
    else if (refresh->result->installed)
        atomic_fetch_add(&counters->refreshes, 1);
}

static void run_it(struct store *store, struct index_reader *reader, struct refresh_run *run,
                   bool lock_is_held, struct refresh_result *ret)
{
    struct refresh_result result = {0};
    struct refresh refresh = {.store = store, .reader = reader, .run = run, .result = &result};
    uint64_t begun_ns = clock_monotonic_ns();

    enum status status = refresh_until_installed(&refresh, lock_is_held, &result.error);
    if (store_has_lost_index(store, status, &result.error) &&
        store_heal_index(store, &result.error) == STATUS_OK) {
        result = (struct refresh_result){0};
        status = refresh_until_installed(&refresh, lock_is_held, &result.error);
    }
    if (store_has_lost_index(store, status, &result.error))
        status = error_set(&result.error, STATUS_UNAVAILABLE, NULL, "%s", INDEX_LOST_TEXT);
    if (refresh.yields) { /* nothing is wrong: who waits looks again */
        status = STATUS_OK;
        error_clear(&result.error);
    }
    result.status = status;
    result.took_ns = clock_monotonic_ns() - begun_ns;
    if (status == STATUS_OK) {
        log_success(&refresh);
        tell(&refresh);
        schedule_second_look(&refresh);
    }
    note_outcome(&refresh);
    count(&refresh);
    if (!refresh.yields)
        build_progress_refreshed(store->progress, &run->scope, status, result.facts);
    snapshot_destroy(&refresh.snapshot);
    *ret = result;
    refresh_done(store->refreshes, run, &result, next_try(&refresh));
}

void refresher_run(struct store *store, struct index_reader *reader, struct refresh_run *run,
                   struct refresh_result *ret)
{
    run_it(store, reader, run, false, ret);
}

enum status refresher_bring_in_step(struct store *store, struct index_reader *reader,
                                    const struct scope *scope, unsigned wishes,
                                    uint64_t deadline_ns, struct error *error)
{
    struct refresh_run run;
    struct refresh_result result = {0};
    uint64_t number = 0;
    bool is_ours = false;
    uint64_t patience_ns = clock_deadline_ms(OTHER_RUN_WAIT_MS);

    if (patience_ns > deadline_ns)
        patience_ns = deadline_ns;
    do {
        if (refresh_begin(store->refreshes, scope, &run, &is_ours, &number) != STATUS_OK)
            return error_set(error, STATUS_NO_MEMORY, NULL, "no memory for a refresh");
        if (is_ours) {
            run.wishes |= wishes;
            run.cause = REFRESH_CAUSE_WRITE;
            run_it(store, reader, &run, true, &result);
            if (result.status != STATUS_OK && error)
                *error = result.error;
            return result.status;
        }
        /* What somebody else is at may have begun before the lock was held: ours follows. It is not
         * left to a refresher, who would wait for this very write. */
        refresh_ask_to_yield(store->refreshes, scope);
    } while (refresh_wait(store->refreshes, scope, number, patience_ns, &result));
    return error_set(error, STATUS_BUSY, NULL, "a refresh of the scope is still under way");
}
