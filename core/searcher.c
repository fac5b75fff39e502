#include "core/searcher.h"

#include "core/clock.h"

#include <string.h>

/* The server's own thread answers searches of scopes up to this size; what takes longer goes to a
 * thread of its own. */
#define INLINE_FACTS_MAX 5000
#define INLINE_SUBSTRING_FACTS_MAX 500
#define INLINE_PHRASES_MAX 24
#define INLINE_TOP_K_MAX 50

static void hits_append(struct search_result *result, struct index_hits *hits, size_t scope)
{
    for (size_t i = 0; i < hits->count; i++) {
        result->hits[result->count++] = (struct search_hit){.hit = hits->hits[i], .scope = scope};
        hits->hits[i] = (struct index_hit){0};
    }
}

static enum status add_hits(struct search_result *result, struct index_hits *hits, size_t scope)
{
    if (hits->count == 0)
        return STATUS_OK;
    struct search_hit *larger =
        realloc(result->hits, (result->count + hits->count) * sizeof *larger);
    if (!larger)
        return STATUS_NO_MEMORY;
    result->hits = larger;
    hits_append(result, hits, scope);
    return STATUS_OK;
}

static int by_score(const void *a_address, const void *b_address)
{
    const struct search_hit *a = a_address;
    const struct search_hit *b = b_address;

    if (a->hit.score != b->hit.score)
        return a->hit.score < b->hit.score ? 1 : -1;
    if (a->hit.order != b->hit.order)
        return a->hit.order < b->hit.order ? 1 : -1;
    return a->scope < b->scope ? -1 : a->scope > b->scope;
}

static void merge(struct search_result *result, size_t top_k, size_t scopes)
{
    if (scopes > 1 && result->count > 1)
        qsort(result->hits, result->count, sizeof *result->hits, by_score);
    while (result->count > top_k)
        free(result->hits[--result->count].hit.document);
}

static uint64_t facts_of(const struct reading *reading)
{
    uint64_t facts = 0;

    for (size_t i = 0; i < reading->count; i++)
        facts += reading->reports[i].in_index ? reading->reports[i].row.facts : 0;
    return facts;
}

static enum status query_scopes(const struct search_request *request, const struct reading *reading,
                                const struct query *query, struct search_result *result,
                                struct error *error)
{
    enum status status = STATUS_OK;

    for (size_t i = 0; status == STATUS_OK && i < reading->count; i++) {
        AUTO_HITS struct index_hits hits = {0};
        const struct scope_report *report = &reading->reports[i];

        if (!report->in_index)
            continue;
        if (query)
            status = index_search(reading->reader, report->row.id, query, request->filter,
                                  request->top_k, request->reading.deadline_ns, &hits, error);
        else
            status = index_search_substring(reading->reader, report->row.id, request->query,
                                            request->query_size, request->filter, request->top_k,
                                            request->reading.deadline_ns, &hits, error);
        if (status == STATUS_OK)
            status = add_hits(result, &hits, i);
    }
    return status;
}

static bool is_too_long_for_here(const struct search_request *request,
                                 const struct reading *reading, uint64_t facts_max)
{
    return !request->reading.may_block && facts_of(reading) > facts_max;
}

/* Advanced queries may hold prefixes, each of which stands for any number of words. */
static bool is_costly(const struct search_request *request, const struct query *query)
{
    return !request->reading.may_block &&
           (strcmp(query_strategy(query), "words") != 0 ||
            query_phrase_count(query) > INLINE_PHRASES_MAX || request->top_k > INLINE_TOP_K_MAX);
}

static enum status search_reading(const struct search_request *request,
                                  const struct reading *reading, const struct query *query,
                                  struct search_result *result, struct error *error)
{
    if (query_is_empty(query) || request->top_k == 0)
        return STATUS_OK;
    if (is_costly(request, query) || is_too_long_for_here(request, reading, INLINE_FACTS_MAX))
        return STATUS_WOULD_BLOCK;
    enum status status = query_scopes(request, reading, query, result, error);
    if (status != STATUS_OK || result->count > 0)
        return status;
    if (is_too_long_for_here(request, reading, INLINE_SUBSTRING_FACTS_MAX))
        return STATUS_WOULD_BLOCK;
    result->substring = true;
    return query_scopes(request, reading, NULL, result, error);
}

static enum status search_once(struct store *store, const struct search_request *request,
                               const struct query *query, struct search_result *ret,
                               struct error *error)
{
    AUTO_READING struct reading reading = {0};
    AUTO_SEARCH struct search_result result = {.strategy = "empty"};

    enum status status = reading_begin(store, &request->reading, &reading, error);
    if (status != STATUS_OK)
        return status;
    status = search_reading(request, &reading, query, &result, error);
    if (status != STATUS_OK)
        return status;
    merge(&result, request->top_k, reading.count);
    if (!query_is_empty(query))
        result.strategy = query_strategy(query);
    result.truncated = query_is_truncated(query);
    index_end(reading.reader);
    reading.reader = NULL;
    result.reports = TAKE_PTR(reading.reports);
    result.report_count = reading.count;
    *ret = result;
    result = (struct search_result){0};
    return STATUS_OK;
}

enum status searcher_run(struct store *store, const struct search_request *request,
                         struct search_result *ret, struct error *error)
{
    AUTO_QUERY struct query *query = NULL;

    enum status status = query_parse(request->query, request->query_size, &query);
    if (status != STATUS_OK)
        return error_set(error, status, NULL, "out of memory");

    atomic_fetch_add_explicit(&store->counters.searches, 1, memory_order_relaxed);
    status = search_once(store, request, query, ret, error);
    if (!store_has_lost_index(store, status, error))
        return status;
    /* The damage showed at the query itself: start the file anew and build what this search needs.
     */
    if (!request->reading.may_block)
        return STATUS_WOULD_BLOCK;
    status = store_heal_index(store, error);
    if (status == STATUS_OK)
        status = search_once(store, request, query, ret, error);
    /* Lost once more, and not what the caller's memory is like. */
    return store_has_lost_index(store, status, error)
               ? error_set(error, STATUS_UNAVAILABLE, NULL, INDEX_LOST_TEXT)
               : status;
}

void search_result_destroy(struct search_result *result)
{
    for (size_t i = 0; i < result->count; i++)
        free(result->hits[i].hit.document);
    free(result->hits);
    free(result->reports);
    *result = (struct search_result){0};
}
