#include "backends/deermem.h"

#include "backends/params.h"
#include "core/clock.h"
#include "core/json_text.h"
#include "core/legacy.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define VIEW_ATTEMPTS 4

/* What a reading method answers from: the scope's rows, and where it needs them the manifest and
 * what waits for migration. */
struct view {
    struct reading reading;
    struct manifest manifest; /* with want_manifest; root NULL: there is none */
    struct legacy_view legacy;
};

static void view_clear(struct view *view)
{
    reading_end(&view->reading);
    manifest_destroy(&view->manifest);
    legacy_view_destroy(&view->legacy);
    *view = (struct view){0};
}
#define AUTO_READ_VIEW CLEANUP(view_clear)

static const struct scope_report *report_of(const struct view *view)
{
    return &view->reading.reports[0];
}

static bool is_unmigrated(const struct view *view)
{
    return report_of(view)->in_index && report_of(view)->row.unmigrated;
}

/* The ids that the scope has in files of its own. */
static enum status collect_document(void *context, const char *document, size_t size,
                                    const char *path)
{
    json_t *current = context;
    AUTO_JSON json_t *fact = NULL;

    (void) path;
    enum status status = json_text_read(document, size, JSON_TEXT_DEPTH_MAX, &fact, NULL);
    const char *id = json_string_value(json_object_get(fact, "id"));
    if (status == STATUS_OK && id && json_object_set(current, id, fact) != 0)
        status = STATUS_NO_MEMORY;
    return status;
}

static enum status read_legacy(struct backend *backend, const struct backend_call *call,
                               struct view *view, struct error *error)
{
    AUTO_JSON json_t *current = json_object();

    if (!current)
        return error_set(error, STATUS_NO_MEMORY, NULL, "out of memory");
    enum status status = index_list(view->reading.reader, report_of(view)->row.id, NULL, 0,
                                    UINT64_MAX, collect_document, current, NULL, error);
    if (status != STATUS_OK)
        return status;
    view->manifest.file_time_ns = report_of(view)->row.synced.mark.signature.mtime_ns;
    return legacy_read(backend->store->volume, call->scope, backend->store->source.manifest_name,
                       view->manifest.root ? &view->manifest : NULL, current, &view->legacy, error);
}

/* The manifest that the rows were built from, so that both are of one revision whatever lies on the
 * volume by now. */
static enum status read_stored_manifest(struct view *view, struct error *error)
{
    AUTO_FREE char *bytes = NULL;
    size_t size;

    enum status status =
        index_read_manifest(view->reading.reader, report_of(view)->row.id, &bytes, &size, error);
    if (status != STATUS_OK || !bytes)
        return status;
    status = manifest_parse(bytes, size, &view->manifest, error);
    /* It was understood when it was stored. */
    return status == STATUS_CORRUPT ? error_set(error, STATUS_INTERNAL, NULL,
                                                "the index holds a manifest that cannot be read")
                                    : status;
}

/* The manifest on the volume, of a scope that is known to have no facts. `ret_same`: it is the one
 * that this reading saw. */
static enum status read_live_manifest(struct backend *backend, const struct backend_call *call,
                                      struct view *view, bool *ret_same, struct error *error)
{
    const struct signature *expected = &report_of(view)->live.mark.signature;
    AUTO_IMAGE struct file_image image = {0};

    enum status status = bucket_read_manifest(backend->store->buckets, call->scope, &image, error);
    if (status == STATUS_NOT_FOUND) {
        *ret_same = expected->absent;
        return STATUS_OK;
    }
    if (status == STATUS_OK)
        status = manifest_parse(image.bytes, image.size, &view->manifest, error);
    if (status != STATUS_OK) {
        if (error)
            scope_file_path(call->scope, backend->store->source.manifest_name, error->path);
        return status;
    }
    *ret_same = !expected->absent && expected->digest == signature_digest(image.bytes, image.size);
    return STATUS_OK;
}

/* A scope without a row that this reading found in step: it has no facts, though its user may have
 * summaries. Of any other scope without a row nothing is known. */
static bool has_only_summaries(const struct view *view)
{
    const struct scope_report *report = report_of(view);

    return !report->in_index && (report->state == SCOPE_FRESH || report->state == SCOPE_REFRESHED);
}

static enum status open_once(struct backend *backend, const struct backend_call *call,
                             bool want_manifest, struct view *view, bool *ret_same,
                             struct error *error)
{
    struct reading_request request;

    *ret_same = true;
    enum status status = deermem_reading_request(backend, call, call->scope, 1, &request, error);
    if (status == STATUS_OK)
        status = reading_begin(backend->store, &request, &view->reading, error);
    if (status != STATUS_OK)
        return status;
    bool live = want_manifest && has_only_summaries(view);
    if ((live || is_unmigrated(view)) && !call->may_block &&
        !volume_lookups_are_safe(backend->store->volume))
        return STATUS_WOULD_BLOCK;
    if (live)
        status = read_live_manifest(backend, call, view, ret_same, error);
    else if (report_of(view)->in_index && (want_manifest || is_unmigrated(view)))
        status = read_stored_manifest(view, error);
    if (status == STATUS_OK && is_unmigrated(view))
        status = read_legacy(backend, call, view, error);
    return status;
}

/* Opens a view; what was read from the volume and is not what the reading saw is looked at again.
 */
static enum status open_view(struct backend *backend, const struct backend_call *call,
                             bool want_manifest, struct view *ret, struct error *error)
{
    for (unsigned attempt = 1;; attempt++) {
        AUTO_READ_VIEW struct view view = {0};
        bool same;

        enum status status = open_once(backend, call, want_manifest, &view, &same, error);
        if (status == STATUS_STALE && attempt < VIEW_ATTEMPTS)
            continue;
        if (status != STATUS_OK)
            return status == STATUS_STALE ? error_set(error, STATUS_UNAVAILABLE, NULL,
                                                      "the user's files keep changing")
                                          : status;
        if (!same && attempt < VIEW_ATTEMPTS)
            continue;
        if (!same)
            view.reading.reports[0].state = SCOPE_STALE;
        *ret = view;
        view = (struct view){0};
        return STATUS_OK;
    }
}

/* ---- documents ---- */

struct document_list {
    struct text *text;
    size_t count;
};

static enum status append_document(void *context, const char *document, size_t size,
                                   const char *path)
{
    struct document_list *list = context;

    (void) path;
    if (list->count++ > 0)
        text_append_char(list->text, ',');
    text_append(list->text, document, size);
    return STATUS_OK;
}

/* Documents that wait for migration belong among the others by their ids; such scopes are small, so
 * they are all sorted again. */
static int by_id(const void *a, const void *b)
{
    const json_t *const *left = a;
    const json_t *const *right = b;

    return strcmp(json_string_value(json_object_get(*left, "id")),
                  json_string_value(json_object_get(*right, "id")));
}

static enum status append_merged(struct view *view, const struct index_filter *filter,
                                 uint64_t offset, uint64_t limit, struct document_list *list,
                                 uint64_t *ret_total, struct error *error)
{
    AUTO_JSON json_t *current = json_object();
    AUTO_FREE json_t **sorted = NULL;
    size_t count = 0;
    const char *key;
    json_t *fact;
    size_t i;

    enum status status = index_list(view->reading.reader, report_of(view)->row.id, NULL, 0,
                                    UINT64_MAX, collect_document, current, NULL, error);
    if (status != STATUS_OK)
        return status;
    sorted = calloc(json_object_size(current) + json_array_size(view->legacy.facts) + 1,
                    sizeof(json_t *));
    if (!sorted)
        return error_set(error, STATUS_NO_MEMORY, NULL, "out of memory");
    json_object_foreach(current, key, fact) sorted[count++] = fact;
    json_array_foreach(view->legacy.facts, i, fact) sorted[count++] = fact;
    qsort(sorted, count, sizeof *sorted, by_id);

    *ret_total = 0;
    for (i = 0; i < count; i++) {
        const char *category = json_string_value(json_object_get(sorted[i], "category"));
        if (filter->category && strcmp(filter->category, category ? category : "") != 0)
            continue;
        if (*ret_total >= offset && *ret_total - offset < limit) {
            if (list->count++ > 0)
                text_append_char(list->text, ',');
            json_text_write(list->text, sorted[i]);
        }
        (*ret_total)++;
    }
    return STATUS_OK;
}

static enum status append_facts(struct view *view, const struct index_filter *filter,
                                uint64_t offset, uint64_t limit, struct text *result,
                                uint64_t *ret_total, struct error *error)
{
    struct document_list list = {.text = result};

    *ret_total = 0;
    if (!report_of(view)->in_index)
        return STATUS_OK;
    if (view->legacy.found)
        return append_merged(view, filter, offset, limit, &list, ret_total, error);
    return index_list(view->reading.reader, report_of(view)->row.id, filter, offset, limit,
                      append_document, &list, ret_total, error);
}

/* ---- problems ---- */

struct problem_list {
    struct text *text;
    const struct scope *scope;
    size_t count;
};

static void append_problem_text(struct problem_list *list, const char *path, const char *kind,
                                const char *problem)
{
    if (list->count++ > 0)
        text_append_char(list->text, ',');
    text_append_string(list->text, "{\"path\":");
    json_text_write_string(list->text, path, strlen(path));
    text_append_string(list->text, ",\"problem\":");
    json_text_write_string(list->text, problem, strlen(problem));
    text_append_format(list->text, ",\"kind\":\"%s\"}", kind);
}

static enum status append_problem(void *context, const char *path, enum fact_fault fault,
                                  const char *problem)
{
    struct problem_list *list = context;
    char facts[SCOPE_PATH_MAX];
    char full[2 * SCOPE_PATH_MAX];

    scope_facts_path(list->scope, facts);
    (void) snprintf(full, sizeof full, "%s/%s", facts, path);
    append_problem_text(list, full, fault == FACT_FAULT_FOREIGN ? "foreign" : "broken",
                        problem ? problem : "");
    return STATUS_OK;
}

static enum status append_problems(struct view *view, const struct scope *scope,
                                   struct text *result, struct error *error)
{
    struct problem_list list = {.text = result, .scope = scope};
    const json_t *problem;
    size_t i;
    enum status status = STATUS_OK;

    if (report_of(view)->in_index)
        status = index_list_problems(view->reading.reader, report_of(view)->row.id, append_problem,
                                     &list, error);
    json_array_foreach(view->legacy.problems, i, problem)
        append_problem_text(&list, json_string_value(json_object_get(problem, "path")),
                            "unmigrated", json_string_value(json_object_get(problem, "problem")));
    return status;
}

/* ---- methods ---- */

enum status deermem_list_facts(struct backend *backend, const struct backend_call *call,
                               struct text *result, struct error *error)
{
    AUTO_READ_VIEW struct view view = {0};
    struct index_filter filter = {0};
    int64_t offset = 0;
    int64_t limit = INT64_MAX;
    uint64_t total = 0;

    /* As long as the list: not for the thread that serves everybody. */
    if (!call->may_block)
        return STATUS_WOULD_BLOCK;
    enum status status = params_name(call->params, "category", false, &filter.category, error);
    if (status == STATUS_OK)
        status = params_integer(call->params, "offset", 0, INT64_MAX, &offset, error);
    if (status == STATUS_OK)
        status = params_integer(call->params, "limit", 0, INT64_MAX, &limit, error);
    if (status == STATUS_OK)
        status = open_view(backend, call, false, &view, error);
    if (status != STATUS_OK)
        return status;

    text_append_string(result, "{\"facts\":[");
    status =
        append_facts(&view, &filter, (uint64_t) offset, (uint64_t) limit, result, &total, error);
    text_append_format(result, "],\"count\":%" PRIu64 ",\"broken\":[", total);
    if (status == STATUS_OK)
        status = append_problems(&view, call->scope, result, error);
    text_append_string(result, "],\"scope\":");
    deermem_write_scope(result, call->scope, report_of(&view));
    text_append_char(result, '}');
    return status;
}

static enum status find_fact(struct view *view, const char *id, struct text *result,
                             struct error *error)
{
    AUTO_FREE char *document = NULL;
    size_t size;
    const json_t *fact;
    size_t i;
    enum status status = STATUS_NOT_FOUND;

    if (report_of(view)->in_index)
        status =
            index_get(view->reading.reader, report_of(view)->row.id, id, &document, &size, error);
    if (status == STATUS_OK)
        text_append(result, document, size);
    if (status != STATUS_NOT_FOUND)
        return status;
    json_array_foreach(view->legacy.facts, i, fact)
    {
        const char *other = json_string_value(json_object_get(fact, "id"));
        if (other && strcmp(other, id) == 0) {
            json_text_write(result, fact);
            return STATUS_OK;
        }
    }
    return error_set(error, STATUS_NOT_FOUND, NULL, "there is no fact with this id");
}

/* Rows that are not known to be the volume's cannot tell that a fact does not exist, unless the
 * caller asked for just what they say. */
static bool may_deny(const struct view *view)
{
    const struct scope_report *report = report_of(view);

    return report->state == SCOPE_FRESH || report->state == SCOPE_REFRESHED ||
           (report->state == SCOPE_STALE && report->problem == STATUS_OK &&
            view->reading.mode != FRESHNESS_STRICT);
}

static enum status refuse_to_deny(const struct view *view, struct error *error)
{
    const struct scope_report *report = report_of(view);

    return error_set(error, STATUS_UNAVAILABLE, report->error.path,
                     "the index has no such fact, but the volume may: %s",
                     report->problem != STATUS_OK ? report->error.message
                                                  : "the scope changes faster than it can be read");
}

enum status deermem_get_fact(struct backend *backend, const struct backend_call *call,
                             struct text *result, struct error *error)
{
    AUTO_READ_VIEW struct view view = {0};
    const char *id = NULL;

    enum status status = params_name(call->params, "fact_id", true, &id, error);
    if (status == STATUS_OK && !fact_id_is_valid(id))
        status = error_set(error, STATUS_INVALID, NULL,
                           "fact_id must consist of letters, digits, '_' and '-', at most %d",
                           FACT_ID_MAX);
    if (status == STATUS_OK)
        status = open_view(backend, call, false, &view, error);
    if (status != STATUS_OK)
        return status;
    text_append_string(result, "{\"fact\":");
    status = find_fact(&view, id, result, error);
    if (status == STATUS_NOT_FOUND && !may_deny(&view))
        status = refuse_to_deny(&view, error);
    text_append_string(result, ",\"scope\":");
    deermem_write_scope(result, call->scope, report_of(&view));
    text_append_char(result, '}');
    return status;
}

/* The peers' document of the user without facts. */
static json_t *make_document(const struct view *view)
{
    struct manifest empty = {0};
    json_t *document = NULL;

    if (view->manifest.root)
        return manifest_document(&view->manifest);
    if (manifest_create_empty(clock_wall_ns(), &empty) == STATUS_OK)
        document = manifest_document(&empty);
    manifest_destroy(&empty);
    return document;
}

/* Writes the document and, with `facts`, splices the stored documents of the facts into it. */
static enum status write_memory(struct view *view, bool facts, struct text *result,
                                struct error *error)
{
    AUTO_JSON json_t *document = make_document(view);
    const struct index_filter all = {0};
    uint64_t total;

    if (!document)
        return error_set(error, STATUS_NO_MEMORY, NULL, "out of memory");
    json_text_write(result, document);
    if (!facts || !text_ok(result))
        return STATUS_OK;
    /* The document is an object with at least one member; its brace is opened again for one more.
     */
    result->size--;
    text_append_string(result, ",\"facts\":[");
    enum status status = append_facts(view, &all, 0, UINT64_MAX, result, &total, error);
    text_append_string(result, "]}");
    return status;
}

static enum status answer_document(struct backend *backend, const struct backend_call *call,
                                   const char *member, bool facts, struct text *result,
                                   struct error *error)
{
    AUTO_READ_VIEW struct view view = {0};

    if (!call->may_block)
        return STATUS_WOULD_BLOCK;
    enum status status = open_view(backend, call, true, &view, error);
    if (status != STATUS_OK)
        return status;
    text_append_format(result, "{\"%s\":", member);
    status = write_memory(&view, facts, result, error);
    text_append_string(result, ",\"scope\":");
    deermem_write_scope(result, call->scope, report_of(&view));
    text_append_char(result, '}');
    return status;
}

enum status deermem_get_memory(struct backend *backend, const struct backend_call *call,
                               struct text *result, struct error *error)
{
    return answer_document(backend, call, "memory", true, result, error);
}

enum status deermem_get_summaries(struct backend *backend, const struct backend_call *call,
                                  struct text *result, struct error *error)
{
    return answer_document(backend, call, "summaries", false, result, error);
}

enum status deermem_reload_memory(struct backend *backend, const struct backend_call *call,
                                  struct text *result, struct error *error)
{
    struct refresh_result refreshed;
    uint64_t number;

    if (!call->may_block)
        return STATUS_WOULD_BLOCK;
    enum status status = refresh_request(backend->store->refreshes, call->scope, REFRESH_URGENT,
                                         REFRESH_CAUSE_REQUEST, REFRESH_WISH_FULL, &number);
    if (status != STATUS_OK)
        return error_set(error, status, NULL, "out of memory");
    if (!refresh_wait(backend->store->refreshes, call->scope, number, call->deadline_ns,
                      &refreshed))
        return error_set(error, STATUS_TIMEOUT, NULL, "the user's files are still being read");
    if (refreshed.status != STATUS_OK) {
        *error = refreshed.error;
        return refreshed.status;
    }
    return deermem_get_memory(backend, call, result, error);
}
