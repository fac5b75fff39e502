#include "core/index_search.h"

#include "core/clock.h"
#include "core/index_needle.h"
#include "core/index_private.h"
#include "core/index_rank.h"

#include <math.h>
#include <string.h>

/* What a missing or zero confidence counts as. */
#define CONFIDENCE_DEFAULT 0.5
#define ROWS_PER_LOOK 64

static double confidence_bonus(double confidence)
{
    if (!isfinite(confidence) || confidence == 0)
        confidence = CONFIDENCE_DEFAULT;
    return INDEX_CONFIDENCE_WEIGHT * fmin(fmax(confidence, 0.0), 1.0);
}

static bool is_late(uint64_t deadline_ns)
{
    return deadline_ns != CLOCK_NEVER && clock_monotonic_ns() >= deadline_ns;
}

/* ---- the best hits so far ---- */

struct ranked {
    double score;
    double relevance;
    int64_t order;
    int64_t rowid;
    char *tie; /* substring matches: the fact's id */
    char *document;
    size_t document_size;
};

/* A heap with the worst of the best on top. */
struct best {
    struct ranked *items;
    size_t count;
    size_t limit;
};

/* Score, then (substring matches) id, then the newer, then the order of rows. */
static bool is_better(const struct ranked *a, const struct ranked *b)
{
    if (a->score != b->score)
        return a->score > b->score;
    if (a->tie && b->tie && strcmp(a->tie, b->tie) != 0)
        return strcmp(a->tie, b->tie) < 0;
    if (a->order != b->order)
        return a->order > b->order;
    return a->rowid < b->rowid;
}

static void ranked_clear(struct ranked *item)
{
    free(item->tie);
    free(item->document);
    memset(item, 0, sizeof *item);
}

static void best_clear(struct best *best)
{
    for (size_t i = 0; i < best->count; i++)
        ranked_clear(&best->items[i]);
    free(best->items);
    memset(best, 0, sizeof *best);
}
#define AUTO_BEST CLEANUP(best_clear)

static void swap_items(struct ranked *a, struct ranked *b)
{
    struct ranked kept = *a;

    *a = *b;
    *b = kept;
}

static void sift_down(struct ranked *items, size_t count)
{
    size_t at = 0;

    for (;;) {
        size_t worst = at;
        for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < count; child++) {
            if (is_better(&items[worst], &items[child]))
                worst = child;
        }
        if (worst == at)
            return;
        swap_items(&items[at], &items[worst]);
        at = worst;
    }
}

static void sift_up(struct ranked *items, size_t at)
{
    while (at > 0 && is_better(&items[(at - 1) / 2], &items[at])) {
        swap_items(&items[(at - 1) / 2], &items[at]);
        at = (at - 1) / 2;
    }
}

static bool best_is_full(const struct best *best)
{
    return best->count == best->limit;
}

/* True when the item would be among the best. */
static bool best_wants(const struct best *best, const struct ranked *item)
{
    return !best_is_full(best) || is_better(item, &best->items[0]);
}

/* Takes the item over. */
static bool best_add(struct best *best, struct ranked *item)
{
    if (best_is_full(best)) {
        ranked_clear(&best->items[0]);
        best->items[0] = *item;
        sift_down(best->items, best->count);
    } else {
        if ((best->count & (best->count - 1)) == 0) { /* at every power of two */
            struct ranked *items =
                reallocarray(best->items, best->count ? 2 * best->count : 1, sizeof *best->items);
            if (!items) {
                ranked_clear(item);
                return false;
            }
            best->items = items;
        }
        best->items[best->count++] = *item;
        sift_up(best->items, best->count - 1);
    }
    memset(item, 0, sizeof *item);
    return true;
}

/* Empties the heap, worst first, into a list with the best first. */
static enum status best_take(struct best *best, struct index_hits *ret)
{
    size_t count = best->count;
    struct index_hit *hits = calloc(count + 1, sizeof *hits);

    if (!hits)
        return STATUS_NO_MEMORY;
    while (best->count > 0) {
        struct ranked *worst = &best->items[0];
        char *document = TAKE_PTR(worst->document);
        hits[best->count - 1] = (struct index_hit){
            .document = document,
            .document_size = worst->document_size,
            .score = worst->score,
            .relevance = worst->relevance,
            .order = worst->order,
        };
        ranked_clear(worst);
        best->count--;
        swap_items(&best->items[0], &best->items[best->count]);
        sift_down(best->items, best->count);
    }
    *ret = (struct index_hits){.hits = hits, .count = count};
    return STATUS_OK;
}

void index_hits_destroy(struct index_hits *hits)
{
    for (size_t i = 0; i < hits->count; i++)
        free(hits->hits[i].document);
    free(hits->hits);
    memset(hits, 0, sizeof *hits);
}

/* ---- candidates in the order of their relevance ---- */

/* A heap with the greatest on top; only as many are taken off as are needed. */
static void candidates_sift(struct rank_candidate *items, size_t count, size_t at)
{
    for (;;) {
        size_t greatest = at;
        for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < count; child++) {
            if (items[child].relevance > items[greatest].relevance)
                greatest = child;
        }
        if (greatest == at)
            return;
        struct rank_candidate kept = items[at];
        items[at] = items[greatest];
        items[greatest] = kept;
        at = greatest;
    }
}

static struct rank_candidate candidates_take(struct rank_candidate *items, size_t *count)
{
    struct rank_candidate top = items[0];

    items[0] = items[--*count];
    candidates_sift(items, *count, 0);
    return top;
}

/* ---- reading a row ---- */

/* Columns as in SQL_FACT_CANDIDATE. Reads the document only when the row may win. */
static int weigh_row(sqlite3_stmt *statement, const struct index_filter *filter,
                     struct ranked *item, struct best *best)
{
    item->score = item->relevance + confidence_bonus(sqlite3_column_double(statement, 0));
    item->order = sqlite3_column_int64(statement, 1);
    if (filter && filter->category) {
        const char *category = (const char *) sqlite3_column_text(statement, 2);
        if (!category || strcmp(category, filter->category) != 0)
            return SQLITE_OK;
    }
    if (!best_wants(best, item))
        return SQLITE_OK;

    const char *document = (const char *) sqlite3_column_text(statement, 3);
    size_t size = (size_t) sqlite3_column_bytes(statement, 3);
    bool matches;
    if (!document)
        return index_column_missing(statement);
    int result = filter_match(filter, document, size, &matches);
    if (result != SQLITE_OK || !matches)
        return result;

    item->document = malloc(size + 1);
    if (!item->document)
        return SQLITE_NOMEM;
    memcpy(item->document, document, size);
    item->document[size] = '\0';
    item->document_size = size;
    return best_add(best, item) ? SQLITE_OK : SQLITE_NOMEM;
}

static int weigh_candidate(sqlite3_stmt *statement, const struct rank_candidate *candidate,
                           const struct index_filter *filter, struct best *best)
{
    struct ranked item = {.relevance = candidate->relevance, .rowid = candidate->rowid};

    (void) sqlite3_reset(statement);
    int result = sqlite3_bind_int64(statement, 1, candidate->rowid);
    if (result == SQLITE_OK)
        result = sqlite3_step(statement);
    if (result != SQLITE_ROW) /* the words know a row that the facts do not */
        return result == SQLITE_DONE ? SQLITE_CORRUPT : result;
    result = weigh_row(statement, filter, &item, best);
    ranked_clear(&item);
    return result;
}

/* ---- search ---- */

static int select_best(struct index_reader *reader, struct rank_candidate *candidates, size_t count,
                       const struct index_filter *filter, struct best *best)
{
    AUTO_RESET sqlite3_stmt *statement = NULL;
    int result = index_statement(&reader->connection, SQL_FACT_CANDIDATE, &statement);

    for (size_t i = count / 2; i-- > 0;)
        candidates_sift(candidates, count, i);
    for (size_t looked = 1; count > 0 && result == SQLITE_OK; looked++) {
        struct rank_candidate top = candidates_take(candidates, &count);
        if (best_is_full(best) && top.relevance + INDEX_CONFIDENCE_WEIGHT < best->items[0].score)
            break; /* not even full confidence would lift it, or any after it */
        result = looked % ROWS_PER_LOOK == 0 && is_late(reader->deadline_ns)
                     ? SQLITE_INTERRUPT
                     : weigh_candidate(statement, &top, filter, best);
    }
    return result;
}

static int collect_matches(struct index_reader *reader, const struct query *query,
                           struct rank_collector *collector)
{
    AUTO_RESET sqlite3_stmt *statement = NULL;
    int result = index_statement(&reader->connection, SQL_FTS_MATCH, &statement);

    if (result == SQLITE_OK)
        result = sqlite3_bind_pointer(statement, 1, collector, RANK_POINTER, NULL);
    if (result == SQLITE_OK)
        result = sqlite3_bind_text(statement, 2, query_expression(query), -1, SQLITE_STATIC);
    for (size_t rows = 1; result == SQLITE_OK || result == SQLITE_ROW; rows++) {
        result = sqlite3_step(statement);
        if (result == SQLITE_ROW && rows % ROWS_PER_LOOK == 0 && is_late(reader->deadline_ns))
            result = SQLITE_INTERRUPT;
    }
    return result == SQLITE_DONE ? SQLITE_OK : result;
}

/* The scope's statistics. */
static int read_statistics(struct index_reader *reader, int64_t scope_id,
                           struct rank_statistics *ret)
{
    AUTO_RESET sqlite3_stmt *statement = NULL;
    struct scope_row row;
    int result = index_reader_statement(reader, SQL_SCOPE_BY_ID, scope_id, &statement);

    if (result == SQLITE_OK)
        result = sqlite3_step(statement);
    if (result != SQLITE_ROW)
        return result;
    scope_row_read(statement, true, &row);
    *ret = (struct rank_statistics){
        .facts = row.facts,
        .median_length = length_restore(length_histogram_median(&row.lengths)),
    };
    return SQLITE_ROW;
}

static int search_words(struct index_reader *reader, int64_t scope_id, const struct query *query,
                        const struct index_filter *filter, struct best *best)
{
    CLEANUP(rank_collector_destroy) struct rank_collector *collector = NULL;
    struct rank_statistics statistics;
    struct rank_candidate *candidates;
    size_t count;
    int result = read_statistics(reader, scope_id, &statistics);

    if (result != SQLITE_ROW)
        return result == SQLITE_DONE ? SQLITE_OK : result; /* no such scope: no hits */
    if (rank_collector_create(query, &collector) != STATUS_OK)
        return SQLITE_NOMEM;
    token_scope_set(reader->connection.scope, scope_id);
    result = collect_matches(reader, query, collector);
    token_scope_set(reader->connection.scope, 0);
    if (result != SQLITE_OK)
        return result;
    if (rank_collector_score(collector, &statistics, &candidates, &count) != STATUS_OK)
        return SQLITE_NOMEM;
    return select_best(reader, candidates, count, filter, best);
}

static enum status finish(struct index_reader *reader, int result, struct best *best,
                          struct index_hits *ret, struct error *error)
{
    reader->deadline_ns = CLOCK_NEVER;
    result = index_check_pages(result);
    if (result == SQLITE_INTERRUPT)
        return error_set(error, STATUS_TIMEOUT, NULL, "the search took too long");
    if (result != SQLITE_OK)
        return index_reader_error(reader, result, "search", error);
    if (best_take(best, ret) != STATUS_OK)
        return error_set(error, STATUS_NO_MEMORY, NULL, "no memory for the hits");
    return STATUS_OK;
}

enum status index_search(struct index_reader *reader, int64_t scope_id, const struct query *query,
                         const struct index_filter *filter, size_t limit, uint64_t deadline_ns,
                         struct index_hits *ret, struct error *error)
{
    AUTO_BEST struct best best = {.limit = limit};
    int result = SQLITE_OK;

    reader->deadline_ns = deadline_ns;
    if (!query_is_empty(query) && limit > 0)
        result = search_words(reader, scope_id, query, filter, &best);
    return finish(reader, result, &best, ret, error);
}

/* ---- the fallback ---- */

static int weigh_substring(sqlite3_stmt *statement, struct needle *needle,
                           const struct index_filter *filter, struct best *best)
{
    const char *document = (const char *) sqlite3_column_text(statement, 3);
    size_t size = (size_t) sqlite3_column_bytes(statement, 3);
    const char *id = (const char *) sqlite3_column_text(statement, 4);
    struct ranked item = {.rowid = sqlite3_column_int64(statement, 5)};
    bool found = false;

    if (!document || !id)
        return index_column_missing(statement);
    int result = needle_find(needle, document, size, &found);
    if (result != SQLITE_OK || !found)
        return result;
    item.tie = strdup(id);
    if (!item.tie)
        return SQLITE_NOMEM;
    result = weigh_row(statement, filter, &item, best);
    ranked_clear(&item);
    return result;
}

static int scan_facts(struct index_reader *reader, int64_t scope_id, struct needle *needle,
                      const struct index_filter *filter, struct best *best)
{
    AUTO_RESET sqlite3_stmt *statement = NULL;
    int result =
        index_reader_statement(reader, SQL_FACT_SCAN, INDEX_ROWID(scope_id, 0, 0), &statement);

    if (result == SQLITE_OK)
        result = sqlite3_bind_int64(statement, 2, INDEX_ROWID(scope_id + 1, 0, 0) - 1);
    for (size_t rows = 1; result == SQLITE_OK; rows++) {
        result = sqlite3_step(statement);
        if (result == SQLITE_ROW)
            result = rows % ROWS_PER_LOOK == 0 && is_late(reader->deadline_ns)
                         ? SQLITE_INTERRUPT
                         : weigh_substring(statement, needle, filter, best);
    }
    return result == SQLITE_DONE ? SQLITE_OK : result;
}

enum status index_search_substring(struct index_reader *reader, int64_t scope_id, const char *query,
                                   size_t query_size, const struct index_filter *filter,
                                   size_t limit, uint64_t deadline_ns, struct index_hits *ret,
                                   struct error *error)
{
    AUTO_BEST struct best best = {.limit = limit};
    AUTO_NEEDLE struct needle *needle = NULL;
    int result = SQLITE_OK;

    enum status status = needle_create(query, query_size, &needle);
    if (status != STATUS_OK)
        return error_set(error, status, NULL, "the query cannot be folded");
    reader->deadline_ns = deadline_ns;
    if (!needle_is_empty(needle) && limit > 0)
        result = scan_facts(reader, scope_id, needle, filter, &best);
    return finish(reader, result, &best, ret, error);
}
