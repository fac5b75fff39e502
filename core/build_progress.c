#include "core/build_progress.h"

#include "core/clock.h"
#include "core/log.h"
#include "core/watch_hash.h"

#include <inttypes.h>
#include <pthread.h>
#include <string.h>

#define REPORT_NS (5 * NS_PER_SECOND)
/* Rates are of the last one to two of these, so that a volume which stalls shows soon. */
#define WINDOW_NS (5 * NS_PER_SECOND)

/* What had been built at a time. */
struct mark {
    uint64_t at_ns;
    uint64_t scopes, facts;
};

struct build_progress {
    pthread_mutex_t lock;
    enum build_phase phase;
    uint64_t begun_ns, ended_ns, report_due_ns;
    uint64_t users_total, users_looked;
    uint64_t in_step_scopes, in_step_facts;
    uint64_t built_scopes, built_facts;
    unsigned percent; /* that was told last */
    /* Scopes by their hashes alone: two with the same would be counted once, which does no harm. */
    struct watch_hash asked;  /* no refresh of them has ended yet */
    struct watch_hash failed; /* the last one failed; kept after the end */
    struct mark older, newer;
};

/* ---- sets of hashes ---- */

/* Without memory it is not added. */
static void set_add(struct watch_hash *set, uint64_t hash)
{
    if (watch_hash_first(set, hash))
        return;
    struct watch_link *link = calloc(1, sizeof *link);
    if (link && watch_hash_insert(set, link, hash) != STATUS_OK)
        free(link);
}

/* False: it is not there. */
static bool set_remove(struct watch_hash *set, uint64_t hash)
{
    struct watch_link *link = watch_hash_first(set, hash);

    if (!link)
        return false;
    watch_hash_remove(set, link);
    free(link);
    return true;
}

static void free_link(void *context UNUSED, struct watch_link *link)
{
    free(link);
}

static void set_clear(struct watch_hash *set)
{
    watch_hash_each(set, free_link, NULL);
    watch_hash_destroy(set);
}

/* ---- a build ---- */

enum status build_progress_create(struct build_progress **ret)
{
    struct build_progress *progress = calloc(1, sizeof *progress);

    if (!progress)
        return STATUS_NO_MEMORY;
    pthread_mutex_init(&progress->lock, NULL);
    *ret = progress;
    return STATUS_OK;
}

void build_progress_destroy(struct build_progress **progress_address)
{
    struct build_progress *progress = TAKE_PTR(*progress_address);

    if (!progress)
        return;
    set_clear(&progress->asked);
    set_clear(&progress->failed);
    pthread_mutex_destroy(&progress->lock);
    free(progress);
}

const char *build_phase_name(enum build_phase phase)
{
    static const char *const names[] = {
        [BUILD_WAITING] = "waiting",
        [BUILD_LOOKING] = "looking",
        [BUILD_BUILDING] = "building",
        [BUILD_DONE] = "done",
    };

    return names[phase];
}

static bool is_under_way(const struct build_progress *progress)
{
    return progress->phase == BUILD_LOOKING || progress->phase == BUILD_BUILDING;
}

/* ---- figures ---- */

static void move_marks_locked(struct build_progress *progress, uint64_t now_ns)
{
    if (!is_under_way(progress) || now_ns - progress->newer.at_ns < WINDOW_NS)
        return;
    progress->older = progress->newer;
    progress->newer = (struct mark){
        .at_ns = now_ns,
        .scopes = progress->built_scopes,
        .facts = progress->built_facts,
    };
}

static void put_rates_locked(const struct build_progress *progress, uint64_t end_ns,
                             struct build_figures *figures)
{
    struct mark from = progress->older;

    if (progress->phase == BUILD_DONE)
        from = (struct mark){.at_ns = progress->begun_ns};
    double seconds = (double) (end_ns - from.at_ns) / (double) NS_PER_SECOND;
    uint64_t scopes = progress->built_scopes - from.scopes;
    if (seconds <= 0)
        return;
    figures->facts_per_second = (double) (progress->built_facts - from.facts) / seconds;
    if (!is_under_way(progress) || scopes == 0)
        return;
    uint64_t left = figures->scopes_total - figures->scopes_done - figures->scopes_failed;
    figures->has_remaining = true;
    figures->remaining_ns =
        (uint64_t) ((double) left * seconds / (double) scopes * (double) NS_PER_SECOND);
}

static unsigned percent_of(const struct build_figures *figures)
{
    uint64_t over = figures->scopes_done + figures->scopes_failed;

    if (figures->phase == BUILD_DONE)
        return 100;
    uint64_t percent = figures->scopes_total > 0 ? over * 100 / figures->scopes_total : 0;
    return percent < 100 ? (unsigned) percent : 99;
}

static void figures_locked(struct build_progress *progress, uint64_t now_ns,
                           struct build_figures *ret)
{
    uint64_t end_ns = progress->phase == BUILD_DONE ? progress->ended_ns : now_ns;

    *ret = (struct build_figures){
        .phase = progress->phase,
        .users_total = progress->users_total,
        .users_looked = progress->users_looked,
        .scopes_done = progress->in_step_scopes + progress->built_scopes,
        .scopes_failed = progress->failed.count,
        .facts = progress->in_step_facts + progress->built_facts,
        .built_scopes = progress->built_scopes,
        .built_facts = progress->built_facts,
    };
    if (progress->phase == BUILD_WAITING)
        return;
    ret->scopes_total = ret->scopes_done + ret->scopes_failed + progress->asked.count +
                        (progress->users_total - progress->users_looked);
    ret->elapsed_ns = end_ns - progress->begun_ns;
    put_rates_locked(progress, end_ns, ret);
    unsigned percent = percent_of(ret);
    if (percent > progress->percent)
        progress->percent = percent;
    ret->percent = progress->percent;
}

void build_progress_figures(struct build_progress *progress, struct build_figures *ret)
{
    uint64_t now_ns = clock_monotonic_ns();

    pthread_mutex_lock(&progress->lock);
    move_marks_locked(progress, now_ns);
    figures_locked(progress, now_ns, ret);
    pthread_mutex_unlock(&progress->lock);
}

/* ---- the log ---- */

/* What is to be logged once the lock is released, since that is I/O. */
struct report {
    bool is_due, has_ended;
    struct build_figures figures;
};

static void end_locked(struct build_progress *progress, uint64_t now_ns, struct report *report)
{
    progress->phase = BUILD_DONE;
    progress->ended_ns = now_ns;
    set_clear(&progress->asked);
    /* Where everything was in step nothing was built. */
    report->has_ended = progress->built_scopes + progress->failed.count > 0;
}

static void step_locked(struct build_progress *progress, struct report *report)
{
    uint64_t now_ns = clock_monotonic_ns();

    if (!is_under_way(progress))
        return;
    move_marks_locked(progress, now_ns);
    if (progress->phase == BUILD_BUILDING && progress->asked.count == 0)
        end_locked(progress, now_ns, report);
    else if (now_ns >= progress->report_due_ns)
        report->is_due = true;
    if (!report->is_due && !report->has_ended)
        return;
    progress->report_due_ns = now_ns + REPORT_NS;
    figures_locked(progress, now_ns, &report->figures);
}

static void log_report(const struct report *report)
{
    const struct build_figures *figures = &report->figures;
    char left[32] = "null";

    if (figures->has_remaining)
        (void) snprintf(left, sizeof left, "%" PRIu64, figures->remaining_ns / NS_PER_SECOND);
    if (report->has_ended)
        log_info("index.built",
                 "scopes=%" PRIu64 " failed=%" PRIu64 " facts=%" PRIu64
                 " facts_per_second=%.0f took_ms=%" PRIu64,
                 figures->built_scopes, figures->scopes_failed, figures->built_facts,
                 figures->facts_per_second, figures->elapsed_ns / NS_PER_MS);
    else if (report->is_due)
        log_info("index.build",
                 "percent=%u users=%" PRIu64 "/%" PRIu64 " scopes=%" PRIu64 "/%" PRIu64
                 " failed=%" PRIu64 " facts=%" PRIu64 " facts_per_second=%.0f left_s=%s",
                 figures->percent, figures->users_looked, figures->users_total,
                 figures->scopes_done, figures->scopes_total, figures->scopes_failed,
                 figures->facts, figures->facts_per_second, left);
}

/* ---- what happens ---- */

void build_progress_begin(struct build_progress *progress)
{
    uint64_t now_ns = clock_monotonic_ns();

    pthread_mutex_lock(&progress->lock);
    set_clear(&progress->asked);
    set_clear(&progress->failed);
    progress->phase = BUILD_LOOKING;
    progress->begun_ns = now_ns;
    progress->report_due_ns = now_ns + REPORT_NS;
    progress->users_total = progress->users_looked = 0;
    progress->percent = 0;
    progress->in_step_scopes = progress->in_step_facts = 0;
    progress->built_scopes = progress->built_facts = 0;
    progress->older = progress->newer = (struct mark){.at_ns = now_ns};
    pthread_mutex_unlock(&progress->lock);
}

void build_progress_listed(struct build_progress *progress, uint64_t users)
{
    pthread_mutex_lock(&progress->lock);
    progress->users_total = users;
    pthread_mutex_unlock(&progress->lock);
}

static void release(struct build_progress *progress, const struct report *report)
{
    pthread_mutex_unlock(&progress->lock);
    log_report(report);
}

void build_progress_looked(struct build_progress *progress)
{
    struct report report = {0};

    pthread_mutex_lock(&progress->lock);
    progress->users_looked++;
    step_locked(progress, &report);
    release(progress, &report);
}

void build_progress_all_looked(struct build_progress *progress)
{
    struct report report = {0};

    pthread_mutex_lock(&progress->lock);
    progress->users_looked = progress->users_total;
    progress->phase = BUILD_BUILDING;
    step_locked(progress, &report);
    release(progress, &report);
}

void build_progress_in_step(struct build_progress *progress, uint64_t facts)
{
    pthread_mutex_lock(&progress->lock);
    progress->in_step_scopes++;
    progress->in_step_facts += facts;
    pthread_mutex_unlock(&progress->lock);
}

void build_progress_asked(struct build_progress *progress, const struct scope *scope)
{
    pthread_mutex_lock(&progress->lock);
    set_add(&progress->asked, scope_hash(scope));
    pthread_mutex_unlock(&progress->lock);
}

/* True when the scope was waited for and has become done. */
static bool take_result_locked(struct build_progress *progress, uint64_t hash, bool succeeded)
{
    bool was_asked = set_remove(&progress->asked, hash);

    if (succeeded)
        return set_remove(&progress->failed, hash) || was_asked;
    if (was_asked)
        set_add(&progress->failed, hash);
    return false;
}

void build_progress_refreshed(struct build_progress *progress, const struct scope *scope,
                              enum status status, uint64_t facts)
{
    struct report report = {0};

    pthread_mutex_lock(&progress->lock);
    if (take_result_locked(progress, scope_hash(scope), status == STATUS_OK)) {
        progress->built_scopes++;
        progress->built_facts += facts;
    }
    step_locked(progress, &report);
    release(progress, &report);
}

void build_progress_tick(struct build_progress *progress)
{
    struct report report = {0};

    pthread_mutex_lock(&progress->lock);
    step_locked(progress, &report);
    release(progress, &report);
}
