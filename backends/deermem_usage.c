#include "backends/deermem_usage.h"

#include "core/condition.h"
#include "core/json_text.h"
#include "core/log.h"
#include "core/thread_join.h"
#include "core/usage_log.h"
#include "core/volume_side_data.h"

#include <pthread.h>
#include <string.h>

#define LOG_BYTES_MAX (4u << 20)
#define PAUSE_MS 5000
#define WRITE_TIMEOUT_MS 2000 /* for one user: it is not worth more waiting */

struct deermem_usage {
    struct writer *writer;
    double half_life_days;
    struct usage_log *log;
    pthread_t thread;
    pthread_mutex_t lock; /* guards `stopping`; a leaf */
    pthread_cond_t stopped;
    bool stopping;
};

/* ---- writing ---- */

/* The hits of one scope. */
struct batch {
    const struct deermem_usage *usage;
    const struct scope *scope;
    const struct usage_hit *hits;
    size_t count;
};

static enum status write_batch(void *context, struct write_session *session, struct error *error)
{
    const struct batch *batch = context;
    bool malformed = false;
    bool awaits = false;
    enum status status = STATUS_OK;

    if (strcmp(batch->scope->agent, SCOPE_LEGACY_AGENT) == 0)
        status = migration_awaits_lead(session, &awaits, error);
    if (status != STATUS_OK || awaits)
        return status;
    status = volume_usage_add(session->store->volume, session->bucket_fd, batch->scope->agent,
                              batch->hits, batch->count, batch->usage->half_life_days, &malformed,
                              error);
    if (malformed)
        log_warning("side_data.usage", "user=%s agent=%s what=\"malformed, begun anew\"",
                    LOG_VALUE(batch->scope->has_user ? batch->scope->user : NULL),
                    batch->scope->agent);
    return status;
}

static void write_hits(void *context, const struct scope *scope, const struct usage_hit *hits,
                       size_t count)
{
    const struct deermem_usage *usage = context;
    struct batch batch = {.usage = usage, .scope = scope, .hits = hits, .count = count};
    struct error error = {0};

    enum status status = writer_run_alone(usage->writer, scope, clock_deadline_ms(WRITE_TIMEOUT_MS),
                                          0, write_batch, &batch, NULL, &error);
    if (status != STATUS_OK)
        log_warning("side_data.usage", "user=%s agent=%s path=%s reason=%s",
                    LOG_VALUE(scope->has_user ? scope->user : NULL), scope->agent,
                    LOG_VALUE(error.path), LOG_VALUE(error.message));
}

static bool wait_for_turn(struct deermem_usage *usage)
{
    const struct timespec until = clock_real_after(PAUSE_MS * NS_PER_MS);

    (void) pthread_mutex_lock(&usage->lock);
    while (!usage->stopping && pthread_cond_timedwait(&usage->stopped, &usage->lock, &until) == 0)
        continue;
    bool goes_on = !usage->stopping;
    (void) pthread_mutex_unlock(&usage->lock);
    return goes_on;
}

static void *run(void *context)
{
    struct deermem_usage *usage = context;
    bool goes_on;

    do {
        goes_on = wait_for_turn(usage);
        usage_log_drain(usage->log, write_hits, usage);
    } while (goes_on);
    return NULL;
}

/* ---- life ---- */

static void usage_destroy(struct deermem_usage *usage)
{
    usage_log_destroy(&usage->log);
    (void) pthread_cond_destroy(&usage->stopped);
    (void) pthread_mutex_destroy(&usage->lock);
    free(usage);
}

enum status deermem_usage_start(struct writer *writer, double half_life_days,
                                struct deermem_usage **ret, struct error *error)
{
    struct deermem_usage *usage = calloc(1, sizeof *usage);

    if (!usage || usage_log_create(LOG_BYTES_MAX, &usage->log) != STATUS_OK) {
        free(usage);
        return error_set(error, STATUS_NO_MEMORY, NULL, "out of memory");
    }
    usage->writer = writer;
    usage->half_life_days = half_life_days;
    (void) pthread_mutex_init(&usage->lock, NULL);
    condition_init(&usage->stopped);
    int failure = pthread_create(&usage->thread, NULL, run, usage);
    if (failure != 0) {
        usage_destroy(usage);
        return error_set_errno(error, failure, NULL, "cannot start a thread");
    }
    *ret = usage;
    return STATUS_OK;
}

bool deermem_usage_stop(struct deermem_usage **usage, uint64_t deadline_ns)
{
    if (!*usage)
        return true;
    (void) pthread_mutex_lock(&(*usage)->lock);
    (*usage)->stopping = true;
    (void) pthread_cond_broadcast(&(*usage)->stopped);
    (void) pthread_mutex_unlock(&(*usage)->lock);
    if (!thread_join_by((*usage)->thread, deadline_ns))
        return false;
    usage_destroy(*usage);
    *usage = NULL;
    return true;
}

/* ---- hits ---- */

static void note_hit(struct deermem_usage *usage, const struct scope *scope,
                     const struct index_hit *hit, uint64_t now_ns)
{
    AUTO_JSON json_t *fact = NULL;

    if (json_text_read(hit->document, hit->document_size, JSON_TEXT_DEPTH_MAX, &fact, NULL) !=
        STATUS_OK)
        return;
    const char *id = json_string_value(json_object_get(fact, "id"));
    if (id)
        usage_log_add(usage->log, scope, &id, 1, now_ns);
}

void deermem_usage_note(struct deermem_usage *usage, const struct scope *scopes,
                        const struct search_result *found)
{
    uint64_t now_ns = clock_wall_ns();

    for (size_t i = 0; i < found->count; i++)
        note_hit(usage, &scopes[found->hits[i].scope], &found->hits[i].hit, now_ns);
}
