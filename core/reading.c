#include "core/reading.h"

#include "core/clock.h"
#include "core/log.h"
#include "core/mutant.h"
#include "core/pause_point.h"
#include "core/refresher.h"

#include <inttypes.h>
#include <string.h>

/* How long a refresh may be under way and still be joined by searches. */
#define PATIENCE_NS (2 * NS_PER_SECOND)

/* A larger manifest is not read on a thread that serves everybody. */
#define INLINE_MANIFEST_MAX 65536

/* Where one scope stands while the reading settles it. */
struct progress {
    bool settled;               /* its report is final but for the row */
    bool refreshed;             /* this reading waited for a refresh of it */
    bool keeps_look;            /* and may find its rows in step with what it saw before */
    bool accepts;               /* a refresh made rows for us without a manifest to prove them: */
    uint64_t accept_generation; /* these */
    uint64_t looked_ns;
    uint64_t in_step_ns; /* when somebody last found it in step, as known before the snapshot was
                            opened: what is found afterwards is perhaps true of newer rows only */
};

struct settling {
    struct store *store;
    const struct reading_request *request;
    struct reading *reading;
    struct progress progress[READING_SCOPES_MAX];
};

/* True when the answer may come from the rows without looking, as the mode allows. */
static bool may_skip_look(const struct settling *settling, size_t i)
{
    const struct reading_request *request = settling->request;

    if (request->mode == FRESHNESS_LOCAL)
        return true;
    if (request->mode != FRESHNESS_BOUNDED || settling->progress[i].refreshed)
        return false;
    uint64_t in_step_ns = scope_notes_last_in_step(settling->store->notes, &request->scopes[i]);
    return in_step_ns != 0 && clock_monotonic_ns() - in_step_ns <= request->max_staleness_ns;
}

/* A volume that can hang, or a manifest that takes long to read, is looked at by threads that may
 * wait. */
static bool needs_slow_look(const struct settling *settling)
{
    for (size_t i = 0; i < settling->request->count; i++) {
        if (!may_skip_look(settling, i) &&
            (!volume_lookups_are_safe(settling->store->volume) ||
             scope_notes_is_slow(settling->store->notes, &settling->request->scopes[i])))
            return true;
    }
    return false;
}

/* Answered without looking: have the look made behind the answer, before the rows grow too old for
 * the next one. */
static void look_later(const struct settling *settling, size_t i)
{
    const struct scope *scope = &settling->request->scopes[i];
    uint64_t in_step_ns = scope_notes_last_in_step(settling->store->notes, scope);
    uint64_t number;

    if (settling->request->mode == FRESHNESS_BOUNDED &&
        clock_monotonic_ns() - in_step_ns > settling->request->max_staleness_ns / 2 &&
        refresh_request(settling->store->refreshes, scope, REFRESH_BACKGROUND, REFRESH_CAUSE_SEARCH,
                        REFRESH_WISH_NONE, &number) != STATUS_OK)
        log_debug("refresh.later", "what=\"no memory to ask for it, ignoring\"");
}

static void look(struct settling *settling, size_t i)
{
    struct scope_report *report = &settling->reading->reports[i];
    const struct scope *scope = &settling->request->scopes[i];

    settling->progress[i].looked_ns = clock_monotonic_ns();
    report->looked = false;
    report->problem = store_compare(settling->store, scope, settling->request->deadline_ns,
                                    &report->live, &report->error);
    report->looked = report->problem == STATUS_OK;
    if (MUTANT(ERROR_FORGETS) && !report->looked) {
        uint64_t place = install_queue_enter(settling->store->installs);
        install_queue_wait(settling->store->installs, place);
        (void) !index_forget(settling->store->index, scope, NULL);
        install_queue_leave(settling->store->installs, place);
    }
    if (report->looked)
        scope_notes_set_slow(settling->store->notes, scope,
                             report->live.mark.signature.size > INLINE_MANIFEST_MAX);
}

/* All scopes of one user share a manifest: what was read for one holds for the next, unless it is
 * absent (then each agent's directory counts). */
static bool look_like_before(struct settling *settling, size_t i)
{
    const struct scope *scopes = settling->request->scopes;
    struct scope_report *reports = settling->reading->reports;

    if (i == 0 || !reports[i - 1].looked || reports[i - 1].live.mark.signature.absent ||
        scopes[i].has_user != scopes[i - 1].has_user ||
        strcmp(scopes[i].user, scopes[i - 1].user) != 0)
        return false;
    settling->progress[i].looked_ns = settling->progress[i - 1].looked_ns;
    reports[i].live = reports[i - 1].live;
    reports[i].problem = STATUS_OK;
    reports[i].looked = true;
    return true;
}

static void look_at_all(struct settling *settling)
{
    for (size_t i = 0; i < settling->request->count; i++) {
        struct scope_report *report = &settling->reading->reports[i];

        if (settling->progress[i].settled || settling->progress[i].keeps_look)
            continue;
        if (may_skip_look(settling, i))
            report->looked = false;
        else if (!look_like_before(settling, i))
            look(settling, i);
    }
}

static bool is_never_built(const struct scope_report *report)
{
    return !report->in_index || (!report->row.synced.known && report->row.facts == 0);
}

static void say_stale(struct settling *settling, size_t i)
{
    struct scope_report *report = &settling->reading->reports[i];
    uint64_t in_step_ns = settling->progress[i].in_step_ns;

    report->state = SCOPE_STALE;
    report->has_age = in_step_ns != 0;
    report->age_ns = report->has_age ? clock_monotonic_ns() - in_step_ns : 0;
    settling->progress[i].settled = true;
}

static bool in_step(const struct settling *settling, size_t i)
{
    const struct scope_report *report = &settling->reading->reports[i];
    const struct progress *progress = &settling->progress[i];

    if (MUTANT(NO_COMPARE_AFTER_JOIN) && progress->refreshed)
        return true;
    if (!report->in_index)
        return store_knows_empty(settling->store, &settling->request->scopes[i], &report->live);
    if (freshness_in_step(&report->row.synced, report->row.facts, &report->live, true))
        return true;
    /* Facts without a manifest: a refresh that began after this reading took them under the user's
     * lock, and its rows are the ones we look at. (Data in an earlier layout has no rows.) */
    return progress->accepts && report->row.generation == progress->accept_generation &&
           report->live.mark.signature.absent && report->row.synced.known &&
           report->row.synced.mark.signature.absent;
}

/* Decides for one scope whose row was just read; false when it must be refreshed first. */
static bool classify(struct settling *settling, size_t i)
{
    struct scope_report *report = &settling->reading->reports[i];
    struct progress *progress = &settling->progress[i];

    if (progress->settled)
        return true;
    if (report->problem != STATUS_OK) {
        report->state = SCOPE_UNVERIFIED;
        return true;
    }
    if (!report->looked) {
        /* `bounded` never answers at once from rows that nothing vouches for. */
        if (settling->request->mode == FRESHNESS_BOUNDED &&
            (!report->in_index || !report->row.synced.known))
            return false;
        look_later(settling, i);
        say_stale(settling, i);
        return true;
    }
    if (!in_step(settling, i))
        return false;
    /* Not settled: it holds for this snapshot, and another attempt opens another. */
    scope_notes_in_step(settling->store->notes, &settling->request->scopes[i], progress->looked_ns);
    report->state = progress->refreshed ? SCOPE_REFRESHED : SCOPE_FRESH;
    return true;
}

static void note_ages(struct settling *settling)
{
    for (size_t i = 0; i < settling->request->count; i++)
        settling->progress[i].in_step_ns =
            scope_notes_last_in_step(settling->store->notes, &settling->request->scopes[i]);
}

/* Opens the snapshot and reads every scope's row in it. */
static enum status read_rows(struct settling *settling, struct error *error)
{
    struct reading *reading = settling->reading;
    enum status status = index_begin(reading->reader, error);

    for (size_t i = 0; status == STATUS_OK && i < reading->count; i++) {
        struct scope_report *report = &reading->reports[i];
        status =
            index_read_scope(reading->reader, &settling->request->scopes[i], &report->row, error);
        report->in_index = status == STATUS_OK;
        if (status == STATUS_NOT_FOUND)
            status = STATUS_OK;
        if (status != STATUS_OK)
            index_end(reading->reader);
    }
    return status;
}

/* The refresh has failed: says what the rows are worth then. */
static void take_failure(struct settling *settling, size_t i, const struct refresh_result *result)
{
    struct scope_report *report = &settling->reading->reports[i];

    report->problem = result->status;
    report->error = result->error;
    if (result->status == STATUS_BUSY || result->status == STATUS_TIMEOUT) {
        say_stale(settling, i);
        return;
    }
    report->state = SCOPE_UNVERIFIED;
    settling->progress[i].settled = true;
}

/* Whose turn a refresh is: `ret_ours` when this thread has begun it, else the number of the run
 * that is to be waited for. A scope's first build may take long, so it is left to the refreshers; a
 * look at what changed is done by this thread, unless somebody is at it already. */
static enum status take_turn(struct settling *settling, size_t i, struct refresh_run *ret_run,
                             bool *ret_ours, uint64_t *ret_number)
{
    struct refresh_table *refreshes = settling->store->refreshes;
    const struct scope *scope = &settling->request->scopes[i];
    const struct scope_report *report = &settling->reading->reports[i];
    bool built = report->in_index && volume_lookups_are_safe(settling->store->volume);

    /* Without a manifest nothing tells afterwards whether a run under way has seen everything. */
    if (report->looked && report->live.mark.signature.absent) {
        enum status status = refresh_request(refreshes, scope, REFRESH_URGENT, REFRESH_CAUSE_SEARCH,
                                             REFRESH_WISH_NONE, ret_number);
        *ret_ours = status == STATUS_OK && built && refresh_claim(refreshes, scope, ret_run);
        return status;
    }
    if (built)
        return refresh_begin(refreshes, scope, ret_run, ret_ours, ret_number);
    *ret_ours = false;
    return refresh_join(refreshes, scope, ret_number);
}

static bool refresh_one(struct settling *settling, size_t i, struct refresh_result *ret,
                        struct error *error)
{
    struct store *store = settling->store;
    const struct scope *scope = &settling->request->scopes[i];
    struct refresh_run run;
    bool is_ours = false;
    uint64_t number = 0;

    /* A run that hangs keeps one thread; it must not keep one a search. */
    uint64_t age_ns = refresh_running_age(store->refreshes, scope);
    if (age_ns > PATIENCE_NS) {
        (void) error_set(error, STATUS_UNAVAILABLE, NULL,
                         "the scope is being read since %" PRIu64 " s", age_ns / NS_PER_SECOND);
        return false;
    }

    if (take_turn(settling, i, &run, &is_ours, &number) != STATUS_OK) {
        *ret = (struct refresh_result){.status = STATUS_NO_MEMORY};
        return true;
    }
    if (is_ours) {
        refresher_run(store, settling->reading->reader, &run, ret);
        return true;
    }
    pause_here(PAUSE_SEARCH_AFTER_JOIN);
    if (refresh_wait(store->refreshes, scope, number, settling->request->deadline_ns, ret))
        return true;
    (void) error_set(error, STATUS_UNAVAILABLE, NULL, "the scope is still being read");
    return false;
}

static void refresh_and_note(struct settling *settling, size_t i)
{
    struct scope_report *report = &settling->reading->reports[i];
    struct refresh_result result;

    if (!refresh_one(settling, i, &result, &report->error)) {
        report->problem = STATUS_UNAVAILABLE;
        say_stale(settling, i);
        return;
    }
    if (result.status != STATUS_OK) {
        take_failure(settling, i, &result);
        return;
    }
    settling->progress[i].refreshed = true;
    /* Rows of just the manifest that this reading saw need no other proof. */
    settling->progress[i].keeps_look = report->looked && !report->live.mark.signature.absent;
    settling->progress[i].accepts = result.manifest_absent;
    settling->progress[i].accept_generation = result.generation;
}

/* Refreshes what is out of step. `last`: no further attempt is left, so what is out of step is
 * stale. */
static enum status refresh_out_of_step(struct settling *settling, bool last, bool *ret_again)
{
    *ret_again = false;
    for (size_t i = 0; i < settling->request->count; i++) {
        if (classify(settling, i))
            continue;
        if (!settling->request->may_block)
            return STATUS_WOULD_BLOCK;
        if (last || clock_remaining_ms(settling->request->deadline_ns) == 0) {
            say_stale(settling, i);
            continue;
        }
        *ret_again = true;
    }
    return STATUS_OK;
}

/* True when a look that was kept does not fit the rows: it may only be too old, so another look
 * comes before another refresh. */
static bool drop_old_looks(struct settling *settling)
{
    bool dropped = false;

    for (size_t i = 0; i < settling->request->count; i++) {
        struct progress *progress = &settling->progress[i];
        dropped = dropped || (progress->keeps_look && !progress->settled && !in_step(settling, i));
        progress->keeps_look = progress->keeps_look && (progress->settled || in_step(settling, i));
    }
    return dropped;
}

static enum status settle(struct settling *settling, struct error *error)
{
    unsigned attempt = 0;

    for (;;) {
        bool again;

        look_at_all(settling);
        note_ages(settling);
        pause_here(PAUSE_SEARCH_BEFORE_QUERY);
        enum status status = read_rows(settling, error);
        if (status != STATUS_OK)
            return status;
        if (drop_old_looks(settling)) {
            index_end(settling->reading->reader);
            continue;
        }
        status = refresh_out_of_step(settling, attempt++ >= READING_ATTEMPTS_MAX, &again);
        if (MUTANT(FRESH_UNCHECKED) && status == STATUS_OK && !again) {
            index_end(settling->reading->reader);
            pause_here(PAUSE_SEARCH_BEFORE_QUERY);
            return index_begin(settling->reading->reader, error);
        }
        if (status == STATUS_OK && !again)
            return STATUS_OK;
        index_end(settling->reading->reader);
        if (status != STATUS_OK)
            return status;
        for (size_t i = 0; i < settling->request->count; i++) {
            if (!classify(settling, i))
                refresh_and_note(settling, i);
        }
    }
}

/* Failures of the look itself: told once per scope and change. */
static void note_outcomes(struct settling *settling)
{
    for (size_t i = 0; i < settling->request->count; i++) {
        const struct scope_report *report = &settling->reading->reports[i];
        const struct scope *scope = &settling->request->scopes[i];

        /* A search that came with no time left says nothing about the scope. */
        if ((!report->looked && report->problem == STATUS_OK) || report->state == SCOPE_STALE ||
            report->problem == STATUS_TIMEOUT ||
            !scope_notes_outcome(settling->store->notes, scope, report->problem,
                                 report->error.sys_errno, clock_monotonic_ns()))
            continue;
        const char *user = scope->has_user ? scope->user : NULL;
        if (report->problem == STATUS_OK)
            log_notice("scope.readable", "user=%s agent=%s", LOG_VALUE(user), scope->agent);
        else
            log_warning("scope.unreadable", "user=%s agent=%s kind=%s path=%s reason=%s",
                        LOG_VALUE(user), scope->agent, status_name(report->problem),
                        LOG_VALUE(report->error.path), LOG_VALUE(report->error.message));
        if (report->problem == STATUS_CORRUPT)
            store_publish(settling->store, scope, "corrupt", "%s", "");
    }
}

static void count_states(const struct settling *settling)
{
    struct store_counters *counters = &settling->store->counters;
    _Atomic uint64_t *const by_state[] = {
        [SCOPE_FRESH] = &counters->fresh,
        [SCOPE_REFRESHED] = &counters->refreshed,
        [SCOPE_STALE] = &counters->stale,
        [SCOPE_UNVERIFIED] = &counters->unverified,
    };

    for (size_t i = 0; i < settling->reading->count; i++)
        atomic_fetch_add_explicit(by_state[settling->reading->reports[i].state], 1,
                                  memory_order_relaxed);
}

/* The one scope that was asked for has no rows to answer from. */
static enum status refuse_unbuilt(const struct settling *settling, struct error *error)
{
    const struct scope_report *report = &settling->reading->reports[0];

    if (settling->request->count != 1 || report->problem == STATUS_OK || !is_never_built(report))
        return STATUS_OK;
    if (error)
        *error = report->error;
    switch (report->problem) {
    case STATUS_CORRUPT:
    case STATUS_DENIED:
    case STATUS_NO_MEMORY:
        return report->problem;
    default:
        return error_set(error, STATUS_UNAVAILABLE, report->error.path,
                         "the scope is not in the index yet: %s", report->error.message);
    }
}

static enum status settle_and_heal(struct settling *settling, struct error *error)
{
    enum status status = settle(settling, error);

    if (!store_has_lost_index(settling->store, status, error))
        return status;
    if (!settling->request->may_block)
        return STATUS_WOULD_BLOCK;
    status = store_heal_index(settling->store, error);
    if (status != STATUS_OK)
        return error_set(error, STATUS_UNAVAILABLE, NULL, "the index cannot be rebuilt: %s",
                         error ? error->message : "");
    for (size_t i = 0; i < settling->request->count; i++)
        settling->progress[i] = (struct progress){0};
    status = settle(settling, error);
    return status == STATUS_CORRUPT ? error_set(error, STATUS_UNAVAILABLE, NULL, INDEX_LOST_TEXT)
                                    : status;
}

enum status reading_begin(struct store *store, const struct reading_request *request,
                          struct reading *ret, struct error *error)
{
    struct reading reading = {
        .store = store,
        .mode = request->mode,
        .reader = store->readers[request->thread],
        .reports = calloc(request->count, sizeof *reading.reports),
        .count = request->count,
    };
    struct settling settling = {.store = store, .request = request, .reading = &reading};

    if (!reading.reports)
        return STATUS_NO_MEMORY;
    if (!request->may_block && needs_slow_look(&settling)) {
        free(reading.reports);
        return STATUS_WOULD_BLOCK;
    }
    enum status status = settle_and_heal(&settling, error);
    if (status != STATUS_OK) {
        free(reading.reports);
        return status;
    }
    note_outcomes(&settling);
    count_states(&settling);
    status = refuse_unbuilt(&settling, error);
    if (status != STATUS_OK) {
        reading_end(&reading);
        return status;
    }
    *ret = reading;
    return STATUS_OK;
}

void reading_end(struct reading *reading)
{
    if (reading->reader && reading->reports)
        index_end(reading->reader);
    free(reading->reports);
    *reading = (struct reading){0};
}
