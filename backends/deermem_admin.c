#include "backends/deermem.h"

#include "backends/params.h"
#include "core/clock.h"
#include "core/json_text.h"
#include "core/volume_stuck.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SCOPES_LIMIT 1000
#define UNMIGRATED_NAMED_MAX 5 /* in `problems`; `scopes` tells them all */
#define HANGING_TOLD_MAX 8

/* ---- refresh ---- */

static enum status refresh_everything(struct backend *backend, bool accept, struct text *result,
                                      struct error *error)
{
    enum status status = STATUS_OK;

    if (accept)
        status = store_accept_volume(backend->store, error);
    if (status != STATUS_OK)
        return status;
    atomic_store(&backend->store->rebuild_wanted, true);
    text_append_format(result, "{\"requested\":true,\"accepted\":%s}", accept ? "true" : "false");
    return STATUS_OK;
}

static void write_refresh(struct text *result, const struct scope *scope,
                          const struct scope_report *report, const struct refresh_result *refreshed)
{
    text_append_format(result,
                       "{\"facts\":%" PRIu64 ",\"broken\":%" PRIu64 ",\"read\":%" PRIu64
                       ",\"took_us\":%" PRIu64 ",\"scope\":",
                       refreshed->facts, refreshed->broken, refreshed->files_read,
                       refreshed->took_ns / NS_PER_US);
    deermem_write_scope(result, scope, report);
    text_append_char(result, '}');
}

static enum status refresh_one(struct backend *backend, const struct backend_call *call, bool full,
                               bool wait, struct text *result, struct error *error)
{
    AUTO_READING struct reading reading = {0};
    struct reading_request request;
    struct refresh_result refreshed = {0};
    uint64_t number;

    enum status status = refresh_request(backend->store->refreshes, call->scope, REFRESH_URGENT,
                                         REFRESH_CAUSE_REQUEST,
                                         full ? REFRESH_WISH_FULL : REFRESH_WISH_NONE, &number);
    if (status != STATUS_OK)
        return error_set(error, status, NULL, "out of memory");
    if (!wait) {
        text_append_string(result, "{\"requested\":true}");
        return STATUS_OK;
    }
    if (!refresh_wait(backend->store->refreshes, call->scope, number, call->deadline_ns,
                      &refreshed))
        return error_set(error, STATUS_TIMEOUT, NULL, "the refresh goes on behind this answer");
    if (refreshed.status != STATUS_OK) {
        *error = refreshed.error;
        return refreshed.status;
    }
    status = deermem_reading_request(backend, call, call->scope, 1, &request, error);
    if (status == STATUS_OK)
        status = reading_begin(backend->store, &request, &reading, error);
    if (status == STATUS_OK)
        write_refresh(result, call->scope, &reading.reports[0], &refreshed);
    return status;
}

enum status deermem_refresh(struct backend *backend, const struct backend_call *call,
                            struct text *result, struct error *error)
{
    bool full = false;
    bool wait = true;
    bool all = false;
    bool accept = false;

    if (!call->may_block)
        return STATUS_WOULD_BLOCK;
    enum status status = params_boolean(call->params, "full", &full, error);
    if (status == STATUS_OK)
        status = params_boolean(call->params, "wait", &wait, error);
    if (status == STATUS_OK)
        status = params_boolean(call->params, "all", &all, error);
    if (status == STATUS_OK)
        status = params_boolean(call->params, "accept_volume", &accept, error);
    if (status != STATUS_OK)
        return status;
    if (all || accept)
        return refresh_everything(backend, accept, result, error);
    if (!call->scope)
        return error_set(error, STATUS_INVALID, NULL, "user_id is missing (null means no user)");
    return refresh_one(backend, call, full, wait, result, error);
}

/* ---- verify ---- */

struct comparison {
    json_t *on_volume; /* path -> document as text */
    struct text missing, extra, different;
    uint64_t checked;
};

static void comparison_clear(struct comparison *comparison)
{
    json_decref(comparison->on_volume);
    text_destroy(&comparison->missing);
    text_destroy(&comparison->extra);
    text_destroy(&comparison->different);
}
#define AUTO_COMPARISON CLEANUP(comparison_clear)

static void add_path(struct text *list, const char *path)
{
    if (list->size > 0)
        text_append_char(list, ',');
    json_text_write_string(list, path, strlen(path));
}

static enum status compare_document(void *context, const char *document, size_t size,
                                    const char *path)
{
    struct comparison *comparison = context;
    const json_t *fact = json_object_get(comparison->on_volume, path);

    comparison->checked++;
    if (!fact)
        add_path(&comparison->extra, path);
    else if (json_string_length(fact) != size ||
             memcmp(json_string_value(fact), document, size) != 0)
        add_path(&comparison->different, path);
    if (fact && json_object_del(comparison->on_volume, path) != 0)
        return STATUS_NO_MEMORY;
    return STATUS_OK;
}

/* Reads every fact of the scope from the volume, whatever the index holds. */
static enum status read_volume(struct backend *backend, const struct backend_call *call,
                               struct snapshot *ret, struct comparison *comparison,
                               struct error *error)
{
    AUTO_PLAN struct refresh_plan *plan = NULL;
    AUTO_PLAN_RESULT struct plan_result result = {0};
    struct racy racy = {0};
    struct refresh_plan_options options = {
        .racy = &racy,
        .full = true,
        .settle_ns = volume_settle_ns(backend->store->volume),
        .now_ns = clock_monotonic_ns(),
    };

    enum status status = refresh_plan_create(&options, &plan);
    if (status != STATUS_OK)
        return error_set(error, status, NULL, "out of memory");
    struct snapshot_request request = {
        .scope = call->scope,
        .plan = plan,
        .deadline_ns = call->deadline_ns,
    };
    status = snapshot_take(&backend->store->source, &request, ret, error);
    if (status == STATUS_OK)
        status = refresh_plan_finish(plan, &result);
    for (size_t i = 0; status == STATUS_OK && i < result.put_count; i++) {
        AUTO_TEXT struct text text = {0};
        json_text_write(&text, result.put[i].fact->document);
        if (json_object_set_new(comparison->on_volume, result.put[i].path,
                                json_stringn_nocheck(text_string(&text), text.size)) != 0)
            status = error_set(error, STATUS_NO_MEMORY, NULL, "out of memory");
    }
    return status;
}

static enum status compare_with_index(struct backend *backend, const struct backend_call *call,
                                      struct comparison *comparison, struct text *result,
                                      struct error *error)
{
    AUTO_READING struct reading reading = {0};
    struct reading_request request;
    const char *path;
    const json_t *fact;

    enum status status = deermem_reading_request(backend, call, call->scope, 1, &request, error);
    if (status == STATUS_OK)
        status = reading_begin(backend->store, &request, &reading, error);
    if (status == STATUS_OK && reading.reports[0].in_index)
        status = index_list(reading.reader, reading.reports[0].row.id, NULL, 0, UINT64_MAX,
                            compare_document, comparison, NULL, error);
    if (status != STATUS_OK)
        return status;
    json_object_foreach(comparison->on_volume, path, fact)
    {
        comparison->checked++;
        add_path(&comparison->missing, path);
    }
    bool ok = !comparison->missing.size && !comparison->extra.size && !comparison->different.size;
    text_append_format(result, "{\"checked\":%" PRIu64 ",\"missing\":[%s],\"extra\":[%s]",
                       comparison->checked, text_string(&comparison->missing),
                       text_string(&comparison->extra));
    text_append_format(result, ",\"different\":[%s],\"ok\":%s,\"scope\":",
                       text_string(&comparison->different), ok ? "true" : "false");
    deermem_write_scope(result, call->scope, &reading.reports[0]);
    text_append_char(result, '}');
    return STATUS_OK;
}

enum status deermem_verify(struct backend *backend, const struct backend_call *call,
                           struct text *result, struct error *error)
{
    AUTO_COMPARISON struct comparison comparison = {.on_volume = json_object()};
    AUTO_SNAPSHOT struct snapshot snapshot = {0};

    if (!call->may_block)
        return STATUS_WOULD_BLOCK;
    if (!comparison.on_volume)
        return error_set(error, STATUS_NO_MEMORY, NULL, "out of memory");
    enum status status = read_volume(backend, call, &snapshot, &comparison, error);
    if (status == STATUS_OK)
        status = compare_with_index(backend, call, &comparison, result, error);
    return status;
}

/* ---- scopes ---- */

struct scope_list {
    struct text *text;
    struct scope_notes *notes;
    const struct scope *only; /* NULL, or the user whose scopes are wanted */
    uint64_t offset, limit, count;
};

static const char *scope_list_state(const struct scope_list *list, const struct scope *scope,
                                    const struct index_scope *state)
{
    if (scope_notes_last_outcome(list->notes, scope) != STATUS_OK)
        return "unreadable";
    return state->synced.known ? "synced" : "unbuilt";
}

static enum status append_scope(void *context, const struct scope *scope,
                                const struct index_scope *state)
{
    struct scope_list *list = context;

    if (list->only &&
        (scope->has_user != list->only->has_user || strcmp(scope->user, list->only->user) != 0))
        return STATUS_OK;
    uint64_t number = list->count++;
    if (number < list->offset || number - list->offset >= list->limit)
        return STATUS_OK;
    if (number > list->offset)
        text_append_char(list->text, ',');
    text_append_string(list->text, "{\"user_id\":");
    if (scope->has_user)
        json_text_write_string(list->text, scope->user, strlen(scope->user));
    else
        text_append_string(list->text, "null");
    text_append_format(list->text,
                       ",\"agent_name\":\"%s\",\"revision\":%" PRId64
                       ",\"state\":\"%s\",\"facts\":%" PRIu64 ",\"broken\":%" PRIu64
                       ",\"unmigrated\":%s}",
                       scope->agent, state->synced.mark.signature.revision,
                       scope_list_state(list, scope, state), state->facts, state->broken,
                       state->unmigrated ? "true" : "false");
    return STATUS_OK;
}

enum status deermem_scopes(struct backend *backend, const struct backend_call *call,
                           struct text *result, struct error *error)
{
    struct index_reader *reader = backend->store->readers[call->thread];
    int64_t offset = 0;
    int64_t limit = SCOPES_LIMIT;

    if (!call->may_block)
        return STATUS_WOULD_BLOCK;
    enum status status = params_integer(call->params, "offset", 0, INT64_MAX, &offset, error);
    if (status == STATUS_OK)
        status = params_integer(call->params, "limit", 0, SCOPES_LIMIT, &limit, error);
    if (status == STATUS_OK)
        status = index_begin(reader, error);
    if (status == STATUS_CORRUPT) /* ours to mend, and nobody's memory */
        status = error_set(error, STATUS_UNAVAILABLE, NULL, INDEX_LOST_TEXT);
    if (status != STATUS_OK)
        return status;
    struct scope_list list = {
        .text = result,
        .notes = backend->store->notes,
        .only = call->scope,
        .offset = (uint64_t) offset,
        .limit = (uint64_t) limit,
    };
    text_append_string(result, "{\"scopes\":[");
    status = index_list_scopes(reader, append_scope, &list, error);
    index_end(reader);
    text_append_format(result, "],\"count\":%" PRIu64 "}", list.count);
    return status;
}

/* ---- status ---- */

/* Calls to the volume that do not return. */
struct hanging {
    struct volume_stuck_call calls[HANGING_TOLD_MAX]; /* the oldest ones */
    unsigned count;
};

static struct hanging find_hanging(void)
{
    struct hanging hanging;

    hanging.count = volume_stuck_list(hanging.calls, HANGING_TOLD_MAX);
    return hanging;
}

static void describe_hanging(const struct hanging *hanging, struct text *text)
{
    text_append_format(text, ",\"hanging\":{\"count\":%u,\"calls\":[", hanging->count);
    for (unsigned i = 0; i < hanging->count && i < HANGING_TOLD_MAX; i++) {
        const struct volume_stuck_call *call = &hanging->calls[i];
        text_append_format(text, "%s{\"operation\":\"%s\",\"path\":", i > 0 ? "," : "",
                           call->operation);
        json_text_write_string(text, call->path, strlen(call->path));
        text_append_format(text, ",\"since_ms\":%" PRIu64 "}", call->age_ns / NS_PER_MS);
    }
    text_append_string(text, "]}");
}

static void describe_volume(const struct store *store, const struct hanging *hanging,
                            struct text *text)
{
    char identity[VOLUME_ID_SIZE];

    volume_identity(store->volume, identity);
    text_append_string(text, "\"volume\":{\"path\":");
    json_text_write_string(text, volume_path(store->volume), strlen(volume_path(store->volume)));
    text_append_format(text,
                       ",\"filesystem\":\"%s\",\"kind\":\"%s\",\"identity\":\"%s\",\"writable\":%s,"
                       "\"suspended\":%s,\"locks_reach_nodes\":%s,\"settle_ms\":%" PRIu64,
                       volume_fs_name(store->volume), volume_kind_name(volume_kind(store->volume)),
                       identity, volume_is_writable(store->volume) ? "true" : "false",
                       atomic_load(&store->suspended) ? "true" : "false",
                       store->locks_reach_all_nodes ? "true" : "false",
                       volume_settle_ns(store->volume) / NS_PER_MS);
    describe_hanging(hanging, text);
    text_append_char(text, '}');
}

/* What the index tells for `status`. */
struct index_summary {
    struct index_totals totals;
    struct text unmigrated; /* some of the directories that wait for migration, as JSON strings */
    unsigned named;
};

static void index_summary_clear(struct index_summary *summary)
{
    text_destroy(&summary->unmigrated);
}
#define AUTO_INDEX_SUMMARY CLEANUP(index_summary_clear)

static enum status name_unmigrated(void *context, const struct scope *scope,
                                   const struct index_scope *state)
{
    struct index_summary *summary = context;
    AUTO_TEXT struct text line = {0};
    char bucket[SCOPE_PATH_MAX];

    if (!state->unmigrated)
        return STATUS_OK;
    scope_bucket_path(scope, bucket);
    text_append_format(
        &line, "%s (agent %s): old format, needs migration (a write, 'memsync migrate', or a peer)",
        bucket, scope->agent);
    text_append_string(&summary->unmigrated, summary->named > 0 ? "," : "");
    json_text_write_string(&summary->unmigrated, text_string(&line), line.size);
    /* Any status but OK ends the listing. */
    return ++summary->named < UNMIGRATED_NAMED_MAX ? STATUS_OK : STATUS_BUSY;
}

static void read_index_summary(struct backend *backend, struct index_summary *ret)
{
    struct index_reader *reader = backend->status_reader;
    enum status status;

    pthread_mutex_lock(&backend->status_lock);
    status = index_begin(reader, NULL);
    if (status == STATUS_OK)
        status = index_totals(reader, &ret->totals, NULL);
    if (status != STATUS_OK)
        ret->totals = (struct index_totals){0};
    else if (ret->totals.unmigrated > 0)
        status = index_list_scopes(reader, name_unmigrated, ret, NULL);
    (void) status; /* what could be read is told */
    index_end(reader);
    pthread_mutex_unlock(&backend->status_lock);
}

static void describe_index(const struct store *store, const struct index_totals *totals,
                           struct text *text)
{
    text_append_string(text, ",\"index\":{\"path\":");
    json_text_write_string(text, index_path(store->index), strlen(index_path(store->index)));
    text_append_format(text,
                       ",\"scopes\":%" PRIu64 ",\"facts\":%" PRIu64 ",\"broken\":%" PRIu64
                       ",\"unmigrated\":%" PRIu64 ",\"file_bytes\":%" PRIu64
                       ",\"wal_bytes\":%" PRIu64 ",\"rebuilds\":%" PRIu64
                       ",\"damaged\":%s,\"install_queue\":%u}",
                       totals->scopes, totals->facts, totals->broken, totals->unmigrated,
                       totals->file_bytes, totals->wal_bytes,
                       atomic_load(&store->counters.index_rebuilds),
                       index_is_damaged(store->index) ? "true" : "false",
                       install_queue_length(store->installs));
}

static void describe_build(struct store *store, const struct build_figures *figures,
                           struct text *text)
{
    static const struct build_figures none = {.phase = BUILD_WAITING};

    /* What the figures tell of is over when the pass that builds a lost index is to come yet. */
    if (atomic_load(&store->rebuild_wanted))
        figures = &none;
    text_append_format(text,
                       ",\"build\":{\"phase\":\"%s\",\"percent\":%u,\"scopes_done\":%" PRIu64
                       ",\"scopes_total\":%" PRIu64 ",\"scopes_failed\":%" PRIu64,
                       build_phase_name(figures->phase), figures->percent, figures->scopes_done,
                       figures->scopes_total, figures->scopes_failed);
    text_append_format(text,
                       ",\"facts\":%" PRIu64 ",\"facts_built\":%" PRIu64
                       ",\"facts_per_second\":%.0f,\"elapsed_ms\":%" PRIu64,
                       figures->facts, figures->built_facts, figures->facts_per_second,
                       figures->elapsed_ns / NS_PER_MS);
    if (figures->has_remaining)
        text_append_format(text, ",\"remaining_ms\":%" PRIu64, figures->remaining_ns / NS_PER_MS);
    text_append_char(text, '}');
}

static void describe_sync(struct store *store, const struct build_figures *figures,
                          struct text *text)
{
    struct refresh_table_counts table;
    struct store_counters *counters = &store->counters;

    refresh_table_counts(store->refreshes, &table);
    text_append_format(text,
                       ",\"sync\":{\"buckets\":%" PRIu64 ",\"compared\":%" PRIu64
                       ",\"waiting\":%" PRIu64 ",\"running\":%" PRIu64
                       ",\"oldest_running_ms\":%" PRIu64 ",\"unreadable_scopes\":%" PRIu64,
                       figures->users_total, figures->users_looked,
                       table.wanted_urgent + table.wanted_background, table.running,
                       table.oldest_running_ns / NS_PER_MS, scope_notes_failing(store->notes));
    text_append_format(text,
                       ",\"searches\":%" PRIu64 ",\"compares\":%" PRIu64
                       ",\"compare_errors\":%" PRIu64 ",\"refreshes\":%" PRIu64
                       ",\"refreshes_failed\":%" PRIu64 ",\"refreshes_lost\":%" PRIu64
                       ",\"settles\":%" PRIu64,
                       atomic_load(&counters->searches), atomic_load(&counters->compares),
                       atomic_load(&counters->compare_errors), atomic_load(&counters->refreshes),
                       atomic_load(&counters->refreshes_failed),
                       atomic_load(&counters->refreshes_lost), atomic_load(&counters->settles));
    text_append_format(text,
                       ",\"files_read\":%" PRIu64 ",\"fresh\":%" PRIu64 ",\"refreshed\":%" PRIu64
                       ",\"stale\":%" PRIu64 ",\"unverified\":%" PRIu64 "}",
                       atomic_load(&counters->files_read), atomic_load(&counters->fresh),
                       atomic_load(&counters->refreshed), atomic_load(&counters->stale),
                       atomic_load(&counters->unverified));
}

static void describe_writes(const struct store *store, struct text *text)
{
    const struct store_counters *counters = &store->counters;

    text_append_format(text,
                       ",\"writes\":{\"changed\":%" PRIu64 ",\"unchanged\":%" PRIu64
                       ",\"conflicts\":%" PRIu64 ",\"failed\":%" PRIu64 ",\"commits\":%" PRIu64,
                       atomic_load(&counters->writes), atomic_load(&counters->writes_unchanged),
                       atomic_load(&counters->write_conflicts),
                       atomic_load(&counters->writes_failed), atomic_load(&counters->commits));
    text_append_format(text,
                       ",\"promoted\":%" PRIu64 ",\"already_current\":%" PRIu64
                       ",\"forgotten\":%" PRIu64 ",\"installs_failed\":%" PRIu64 "}",
                       atomic_load(&counters->promoted), atomic_load(&counters->already_current),
                       atomic_load(&counters->forgotten), atomic_load(&counters->installs_failed));
}

static void describe_watch(struct keeper *keeper, struct text *text)
{
    struct keeper_state state;

    keeper_state(keeper, &state);
    text_append_format(text,
                       ",\"watch\":{\"inotify\":%s,\"watched\":%" PRIu64 ",\"wanted\":%" PRIu64
                       ",\"events\":%" PRIu64 ",\"overflows\":%" PRIu64 ",\"polled\":%" PRIu64
                       ",\"first_pass_done\":%s",
                       state.inotify ? "true" : "false", state.watched, state.wanted, state.events,
                       state.overflows, state.buckets, state.first_pass_done ? "true" : "false");
    if (state.limit[0])
        text_append_format(text, ",\"limit\":\"%s\"", state.limit);
    text_append_char(text, '}');
}

static void add_problem(struct text *text, size_t *count, const char *problem)
{
    if ((*count)++ > 0)
        text_append_char(text, ',');
    json_text_write_string(text, problem, strlen(problem));
}

static void add_hanging(struct text *text, size_t *count, const struct hanging *hanging)
{
    char line[160 + VOLUME_STUCK_PATH_SIZE];
    const struct volume_stuck_call *oldest = &hanging->calls[0];

    if (hanging->count == 0)
        return;
    (void) snprintf(line, sizeof line,
                    "%u call(s) to the volume do not return, the oldest since %" PRIu64
                    " ms: %s of %s",
                    hanging->count, oldest->age_ns / NS_PER_MS, oldest->operation, oldest->path);
    add_problem(text, count, line);
}

static void describe_problems(struct backend *backend, const struct index_summary *summary,
                              const struct hanging *hanging, struct text *text)
{
    struct keeper_state state;
    uint64_t unreadable = scope_notes_failing(backend->store->notes);
    size_t count = 0;
    char line[160];

    keeper_state(backend->keeper, &state);
    text_append_string(text, ",\"problems\":[");
    if (atomic_load(&backend->store->suspended))
        add_problem(text, &count, STORE_SUSPENDED_TEXT);
    if (index_is_damaged(backend->store->index))
        add_problem(text, &count, "the index is damaged and is being rebuilt");
    if (backend->index_is_misplaced)
        add_problem(text, &count,
                    "the index lies inside the volume while several instances are declared: set "
                    "index.path to a local directory");
    add_hanging(text, &count, hanging);
    if (unreadable > 0) {
        (void) snprintf(line, sizeof line,
                        "%" PRIu64 " scope(s) cannot be read; `scopes` and the log name them",
                        unreadable);
        add_problem(text, &count, line);
    }
    if (state.limit[0]) {
        (void) snprintf(line, sizeof line,
                        "%s keeps %" PRIu64 " of %" PRIu64
                        " directories from being watched; raise it",
                        state.limit, state.wanted - state.watched, state.wanted);
        add_problem(text, &count, line);
    }
    if (summary->named > 0) {
        text_append_string(text, count++ > 0 ? "," : "");
        text_append(text, text_string(&summary->unmigrated), summary->unmigrated.size);
    }
    if (summary->totals.unmigrated > summary->named) {
        (void) snprintf(line, sizeof line, "%" PRIu64 " more scopes are in an old format",
                        summary->totals.unmigrated - summary->named);
        add_problem(text, &count, line);
    }
    text_append_char(text, ']');
}

void deermem_describe(struct backend *backend, struct text *members)
{
    AUTO_INDEX_SUMMARY struct index_summary summary = {0};
    struct hanging hanging = find_hanging();
    struct build_figures figures;

    read_index_summary(backend, &summary);
    build_progress_figures(backend->store->progress, &figures);
    describe_volume(backend->store, &hanging, members);
    describe_index(backend->store, &summary.totals, members);
    describe_build(backend->store, &figures, members);
    describe_sync(backend->store, &figures, members);
    describe_writes(backend->store, members);
    describe_watch(backend->keeper, members);
    describe_problems(backend, &summary, &hanging, members);
}
