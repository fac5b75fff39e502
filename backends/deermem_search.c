#include "backends/deermem.h"

#include "backends/params.h"
#include "core/clock.h"
#include "core/json_text.h"

#include <inttypes.h>
#include <string.h>

#define TOP_K_DEFAULT 5

/* What a search call asks for beyond its reading. */
struct wish {
    struct scope *scopes; /* owned; NULL: the call's own scope */
    size_t scope_count;
    int64_t top_k;
    bool clamped;
    struct index_filter filter;
    const char *query;
    size_t query_size;
};

static void wish_clear(struct wish *wish)
{
    free(wish->scopes);
}
#define AUTO_WISH CLEANUP(wish_clear)

static bool holds_nul(const json_t *value)
{
    return json_is_string(value) && strlen(json_string_value(value)) != json_string_length(value);
}

static enum status read_scope(const json_t *value, struct scope *ret, struct error *error)
{
    const json_t *user = json_object_get(value, "user_id");
    const json_t *agent = json_object_get(value, "agent_name");

    if (!json_is_object(value) || !user)
        return error_set(error, STATUS_INVALID, NULL,
                         "scopes must be a list of objects with user_id and agent_name");
    if ((!json_is_null(user) && !json_is_string(user)) ||
        (agent && !json_is_null(agent) && !json_is_string(agent)))
        return error_set(error, STATUS_INVALID, NULL,
                         "user_id and agent_name in scopes must be strings or null");
    if (holds_nul(user) || holds_nul(agent))
        return error_set(error, STATUS_INVALID, NULL,
                         "user_id and agent_name in scopes must not contain NUL");
    return scope_create(json_string_value(user), json_string_value(agent), ret, error);
}

static bool is_listed(const struct wish *wish, const struct scope *scope)
{
    for (size_t i = 0; i < wish->scope_count; i++) {
        if (scope_equal(&wish->scopes[i], scope))
            return true;
    }
    return false;
}

static enum status read_scopes(const json_t *params, struct wish *wish, struct error *error)
{
    const json_t *list = NULL;
    enum status status = params_array(params, "scopes", &list, error);

    if (status != STATUS_OK || !list)
        return status;
    if (json_array_size(list) == 0 || json_array_size(list) > READING_SCOPES_MAX)
        return error_set(error, STATUS_INVALID, NULL, "scopes must list 1 to %d scopes",
                         READING_SCOPES_MAX);
    wish->scopes = calloc(json_array_size(list), sizeof *wish->scopes);
    if (!wish->scopes)
        return error_set(error, STATUS_NO_MEMORY, NULL, "out of memory");
    for (size_t i = 0; status == STATUS_OK && i < json_array_size(list); i++) {
        struct scope scope;
        status = read_scope(json_array_get(list, i), &scope, error);
        if (status == STATUS_OK && !is_listed(wish, &scope))
            wish->scopes[wish->scope_count++] = scope;
    }
    return status;
}

static enum status read_wish(const struct backend_call *call, struct wish *wish,
                             struct error *error)
{
    int64_t top_k = TOP_K_DEFAULT;

    enum status status =
        params_string(call->params, "query", true, &wish->query, &wish->query_size, error);
    if (status == STATUS_OK)
        status = params_name(call->params, "category", false, &wish->filter.category, error);
    if (status == STATUS_OK)
        status = params_object(call->params, "filters", &wish->filter.equals, error);
    if (status == STATUS_OK)
        status = params_integer(call->params, "top_k", INT64_MIN, INT64_MAX, &top_k, error);
    if (status == STATUS_OK)
        status = read_scopes(call->params, wish, error);
    if (status != STATUS_OK)
        return status;
    wish->clamped = top_k > SEARCH_TOP_K_MAX;
    wish->top_k = wish->clamped ? SEARCH_TOP_K_MAX : top_k < 0 ? 0 : top_k;
    return STATUS_OK;
}

static void write_hit(struct text *text, const struct search_hit *hit, bool substring)
{
    text_append_string(text, "{\"fact\":");
    text_append(text, hit->hit.document, hit->hit.document_size);
    text_append_string(text, ",\"score\":");
    text_append_decimal(text, hit->hit.score);
    text_append_string(text,
                       substring ? ",\"matchType\":\"substring\"" : ",\"matchType\":\"fts5\"");
    text_append_string(text, ",\"retrieval\":{\"bm25\":");
    text_append_decimal(text, hit->hit.relevance);
    text_append_string(text, "}}");
}

static void write_result(struct text *text, const struct wish *wish, const struct scope *scopes,
                         const struct search_result *found, uint64_t took_ns)
{
    text_append_string(text, "{\"results\":[");
    for (size_t i = 0; i < found->count; i++) {
        if (i > 0)
            text_append_char(text, ',');
        write_hit(text, &found->hits[i], found->substring);
    }
    text_append_format(text, "],\"count\":%zu,\"top_k\":%" PRId64 ",\"strategy\":\"%s\"",
                       found->count, wish->top_k, found->strategy);
    if (wish->clamped)
        text_append_string(text, ",\"clamped\":true");
    if (found->truncated)
        text_append_string(text, ",\"truncated\":true");
    text_append_string(text, ",\"scopes\":[");
    for (size_t i = 0; i < found->report_count; i++) {
        if (i > 0)
            text_append_char(text, ',');
        deermem_write_scope(text, &scopes[i], &found->reports[i]);
    }
    text_append_format(text, "],\"took_us\":%" PRIu64 "}", took_ns / NS_PER_US);
}

static void tally(struct backend *backend, enum status status, const struct search_result *found,
                  uint64_t took_ns)
{
    if (status == STATUS_OK)
        search_tally_answered(&backend->searches, found->reports, found->report_count,
                              atomic_load(&backend->store->suspended), took_ns);
    else
        search_tally_failed(&backend->searches, took_ns);
}

enum status deermem_search(struct backend *backend, const struct backend_call *call,
                           struct text *result, struct error *error)
{
    AUTO_WISH struct wish wish = {0};
    AUTO_SEARCH struct search_result found = {0};
    struct search_request request = {0};
    uint64_t begun_ns = clock_monotonic_ns();

    enum status status = read_wish(call, &wish, error);
    if (status != STATUS_OK)
        return status;
    if (!wish.scopes && !call->scope)
        return error_set(error, STATUS_INVALID, NULL, "user_id is missing (null means no user)");
    const struct scope *scopes = wish.scopes ? wish.scopes : call->scope;
    status = deermem_reading_request(backend, call, scopes, wish.scopes ? wish.scope_count : 1,
                                     &request.reading, error);
    if (status != STATUS_OK)
        return status;
    request.query = wish.query;
    request.query_size = wish.query_size;
    request.filter = &wish.filter;
    request.top_k = (size_t) wish.top_k;
    status = searcher_run(backend->store, &request, &found, error);
    if (status == STATUS_WOULD_BLOCK)
        return status;
    if (status == STATUS_OK && backend->usage)
        deermem_usage_note(backend->usage, scopes, &found);
    uint64_t took_ns = clock_monotonic_ns() - begun_ns;
    if (status == STATUS_OK)
        write_result(result, &wish, scopes, &found, took_ns);
    tally(backend, status, &found, took_ns);
    return status;
}
