#include "backends/deermem.h"

#include "backends/params.h"
#include "core/clock.h"
#include "core/json_text.h"

#include <inttypes.h>
#include <string.h>

static void destroy(struct backend *backend)
{
    (void) !keeper_stop(&backend->keeper, CLOCK_NEVER);
    (void) !deermem_usage_stop(&backend->usage, CLOCK_NEVER);
    writer_destroy(&backend->writer);
    if (backend->status_reader)
        index_reader_destroy(&backend->status_reader);
    store_close(&backend->store);
    pthread_mutex_destroy(&backend->status_lock);
    free(backend);
}

static enum status create(const struct backend_setup *setup, struct backend **ret,
                          struct error *error)
{
    const struct deermem_options *options = setup->store_options;
    struct backend *backend = calloc(1, sizeof *backend);
    struct store_options store_options = options->store;

    if (!backend)
        return error_set(error, STATUS_NO_MEMORY, NULL, "out of memory");
    pthread_mutex_init(&backend->status_lock, NULL);
    backend->freshness = options->freshness;
    backend->index_is_misplaced = options->index_is_misplaced;
    backend->max_staleness_ms = options->max_staleness_ms;
    store_options.request_threads = setup->thread_count;
    store_options.event_sink = setup->event_sink;
    store_options.event_context = setup->event_context;
    enum status status = deermem_settings_read(setup->config, &backend->settings, error);
    if (status == STATUS_OK)
        status = store_open(&store_options, &backend->store, error);
    const struct writer_options writer_options = {
        .lock_timeout_ms = backend->settings.lock_timeout_ms,
    };
    if (status == STATUS_OK && writer_create(backend->store, &writer_options, &backend->writer))
        status = error_set(error, STATUS_NO_MEMORY, NULL, "out of memory");
    if (status == STATUS_OK)
        status = index_reader_create(backend->store->index, &backend->status_reader, error);
    const struct capacity_policy *capacity = &backend->settings.capacity;
    if (status == STATUS_OK && (capacity->rule == CAPACITY_HYBRID_V1 || capacity->shadow))
        status = deermem_usage_start(backend->writer, capacity->access_half_life_days,
                                     &backend->usage, error);
    if (status == STATUS_OK)
        status = keeper_start(backend->store, &options->keeper, &backend->keeper, error);
    if (status != STATUS_OK) {
        destroy(backend);
        return status;
    }
    *ret = backend;
    return STATUS_OK;
}

static enum status drain(struct backend *backend, uint64_t deadline_ns, struct error *error)
{
    if (!keeper_stop(&backend->keeper, deadline_ns) ||
        !deermem_usage_stop(&backend->usage, deadline_ns))
        return error_set(error, STATUS_TIMEOUT, NULL, "a call to the volume does not return");
    return STATUS_OK;
}

static void oversee(struct backend *backend)
{
    keeper_oversee(backend->keeper);
}

/* Learning from conversations needs a model; this version has no extractor. */
static enum status add(struct backend *backend, const struct backend_call *call,
                       struct text *result, struct error *error)
{
    (void) backend;
    (void) call;
    (void) result;
    return error_set(error, STATUS_UNSUPPORTED, NULL,
                     "add needs an extractor, which this agent does not have");
}

enum status deermem_reading_request(const struct backend *backend, const struct backend_call *call,
                                    const struct scope *scopes, size_t count,
                                    struct reading_request *ret, struct error *error)
{
    const char *mode = NULL;
    int64_t max_staleness_ms = (int64_t) backend->max_staleness_ms;
    struct reading_request request = {
        .scopes = scopes,
        .count = count,
        .mode = backend->freshness,
        .deadline_ns = call->deadline_ns,
        .may_block = call->may_block,
        .thread = call->thread,
    };

    enum status status = params_name(call->params, "freshness", false, &mode, error);
    if (status == STATUS_OK)
        status =
            params_integer(call->params, "max_staleness_ms", 0, 86400000, &max_staleness_ms, error);
    if (status != STATUS_OK)
        return status;
    if (mode && !freshness_mode_from_name(mode, &request.mode))
        return error_set(error, STATUS_INVALID, NULL,
                         "freshness must be \"strict\", \"bounded\" or \"local\"");
    request.max_staleness_ns = (uint64_t) max_staleness_ms * NS_PER_MS;
    for (size_t i = 0; i < count; i++)
        keeper_touch(backend->keeper, &scopes[i]);
    *ret = request;
    return STATUS_OK;
}

/* Of what the answer was made from, which need not be what lies on the volume. */
static int64_t revision_of(const struct scope_report *report)
{
    if (report->in_index)
        return report->row.synced.mark.signature.revision;
    bool is_known_empty = report->state == SCOPE_FRESH || report->state == SCOPE_REFRESHED;
    return is_known_empty ? report->live.mark.signature.revision : 0;
}

static void write_reason(struct text *text, const struct scope_report *report)
{
    if (report->problem == STATUS_OK)
        return;
    text_append_string(text, ",\"reason\":");
    json_text_write_string(text, report->error.message, strlen(report->error.message));
    if (report->error.path[0]) {
        text_append_string(text, ",\"path\":");
        json_text_write_string(text, report->error.path, strlen(report->error.path));
    }
}

void deermem_write_scope(struct text *text, const struct scope *scope,
                         const struct scope_report *report)
{
    text_append_string(text, "{\"user_id\":");
    if (scope->has_user)
        json_text_write_string(text, scope->user, strlen(scope->user));
    else
        text_append_string(text, "null");
    text_append_format(text, ",\"agent_name\":\"%s\",\"revision\":%" PRId64 ",\"state\":\"%s\"",
                       scope->agent, revision_of(report), scope_state_name(report->state));
    if (report->state == SCOPE_STALE && report->has_age)
        text_append_format(text, ",\"age_ms\":%" PRIu64, report->age_ns / NS_PER_MS);
    write_reason(text, report);
    if (report->in_index && report->row.unmigrated)
        text_append_string(text, ",\"unmigrated\":true");
    if (report->in_index && report->row.broken > 0)
        text_append_format(text, ",\"broken\":%" PRIu64, report->row.broken);
    text_append_char(text, '}');
}

const struct backend_table backend_deermem = {
    .name = "deermem",
    .version = BACKEND_CONTRACT_VERSION,
    .supports_search = true,
    .create = create,
    .drain = drain,
    .oversee = oversee,
    .destroy = destroy,
    .describe = deermem_describe,
    .measure = deermem_measure,
    .is_ready = deermem_is_ready,
    .add = add,
    .search = deermem_search,
    .list_facts = deermem_list_facts,
    .get_fact = deermem_get_fact,
    .get_memory = deermem_get_memory,
    .get_summaries = deermem_get_summaries,
    .reload_memory = deermem_reload_memory,
    .create_fact = deermem_create_fact,
    .update_fact = deermem_update_fact,
    .delete_fact = deermem_delete_fact,
    .apply_changes = deermem_apply_changes,
    .update_summaries = deermem_update_summaries,
    .clear_memory = deermem_clear_memory,
    .import_memory = deermem_import_memory,
    .delete_memory = deermem_delete_memory,
    .refresh = deermem_refresh,
    .verify = deermem_verify,
    .migrate = deermem_migrate,
    .scopes = deermem_scopes,
};
