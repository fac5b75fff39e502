/* Lists of documents and problems, single documents, and filters. */
#include "core/index_private.h"
#include "core/index_search.h"

#include <stdio.h>
#include <string.h>

/* ---- filters ---- */

/* As the peers compare: 1 equals 1.0. */
static bool values_equal(const json_t *wanted, const json_t *found)
{
    if (!found)
        return json_is_null(wanted);
    if (json_is_number(wanted) && json_is_number(found) &&
        json_typeof(wanted) != json_typeof(found))
        return json_number_value(wanted) == json_number_value(found);
    return json_equal(wanted, found) != 0;
}

int filter_match(const struct index_filter *filter, const char *document, size_t size, bool *ret)
{
    AUTO_JSON json_t *tree = NULL;
    void *at;

    *ret = true;
    if (!filter || !filter->equals || json_object_size(filter->equals) == 0)
        return SQLITE_OK;
    int result = document_read(document, size, &tree);
    if (result != SQLITE_OK)
        return result;
    json_t *equals = json_incref(json_unconst(filter->equals));
    for (at = json_object_iter(equals); at && *ret; at = json_object_iter_next(equals, at))
        *ret = values_equal(json_object_iter_value(at),
                            json_object_get(tree, json_object_iter_key(at)));
    json_decref(equals);
    return SQLITE_OK;
}

static bool has_equals(const struct index_filter *filter)
{
    return filter && filter->equals && json_object_size(filter->equals) > 0;
}

static int bind_category(sqlite3_stmt *statement, const struct index_filter *filter)
{
    const char *category = filter ? filter->category : NULL;

    return sqlite3_bind_text(statement, 2, category, -1, SQLITE_STATIC);
}

/* ---- list ---- */

struct page {
    uint64_t offset; /* rows still to skip */
    uint64_t limit;  /* rows still to tell */
    uint64_t total;
    index_document_sink sink;
    void *context;
    enum status status;
};

static int64_t clamp(uint64_t number)
{
    return number > INT64_MAX ? INT64_MAX : (int64_t) number;
}

static int tell_row(struct page *page, const struct index_filter *filter, sqlite3_stmt *statement)
{
    const char *path = (const char *) sqlite3_column_text(statement, 0);
    const char *document = (const char *) sqlite3_column_text(statement, 1);
    size_t size = (size_t) sqlite3_column_bytes(statement, 1);
    bool matches;

    if (!path || !document)
        return index_column_missing(statement);
    int result = filter_match(filter, document, size, &matches);
    if (result != SQLITE_OK || !matches)
        return result;
    page->total++;
    if (page->offset > 0) {
        page->offset--;
    } else if (page->limit > 0) {
        page->limit--;
        page->status = page->sink(page->context, document, size, path);
    }
    return SQLITE_OK;
}

static int count_all(struct index_reader *reader, int64_t scope_id,
                     const struct index_filter *filter, uint64_t *ret)
{
    AUTO_RESET sqlite3_stmt *statement = NULL;
    int result = index_reader_statement(reader, SQL_FACT_COUNT, scope_id, &statement);

    if (result == SQLITE_OK)
        result = bind_category(statement, filter);
    if (result == SQLITE_OK)
        result = sqlite3_step(statement);
    if (result != SQLITE_ROW)
        return result == SQLITE_DONE ? SQLITE_CORRUPT : result;
    *ret = (uint64_t) sqlite3_column_int64(statement, 0);
    return SQLITE_OK;
}

/* Members of documents are not columns, so with such a filter every row is looked at. */
static int each_document(struct index_reader *reader, int64_t scope_id,
                         const struct index_filter *filter, struct page *page)
{
    AUTO_RESET sqlite3_stmt *statement = NULL;
    bool all = has_equals(filter);
    int result = index_reader_statement(reader, SQL_FACT_LIST, scope_id, &statement);

    if (result == SQLITE_OK)
        result = bind_category(statement, filter);
    if (result == SQLITE_OK)
        result = sqlite3_bind_int64(statement, 3, all ? -1 : clamp(page->limit));
    if (result == SQLITE_OK)
        result = sqlite3_bind_int64(statement, 4, all ? 0 : clamp(page->offset));
    if (!all)
        page->offset = 0;
    while (result == SQLITE_OK && page->status == STATUS_OK &&
           (result = sqlite3_step(statement)) == SQLITE_ROW)
        result = tell_row(page, filter, statement);
    return result == SQLITE_DONE ? SQLITE_OK : result;
}

enum status index_list(struct index_reader *reader, int64_t scope_id,
                       const struct index_filter *filter, uint64_t offset, uint64_t limit,
                       index_document_sink sink, void *context, uint64_t *ret_total,
                       struct error *error)
{
    struct page page = {.offset = offset, .limit = limit, .sink = sink, .context = context};
    int result = each_document(reader, scope_id, filter, &page);

    if (result == SQLITE_OK && page.status == STATUS_OK && ret_total && !has_equals(filter))
        result = count_all(reader, scope_id, filter, &page.total);
    result = index_check_pages(result);
    if (result != SQLITE_OK)
        return index_rows_error(reader, result, "list the facts", error);
    if (page.status == STATUS_OK && ret_total)
        *ret_total = page.total;
    return page.status;
}

/* ---- get ---- */

static int copy_document(sqlite3_stmt *statement, char **ret, size_t *ret_size)
{
    const char *document = (const char *) sqlite3_column_text(statement, 1);
    size_t size = (size_t) sqlite3_column_bytes(statement, 1);

    if (!document)
        return index_column_missing(statement);
    char *copy = malloc(size + 1);
    if (!copy)
        return SQLITE_NOMEM;
    memcpy(copy, document, size);
    copy[size] = '\0';
    free(*ret);
    *ret = copy;
    *ret_size = size;
    return SQLITE_OK;
}

/* The first place by path, unless the fact's own shard has one. */
static int find_document(sqlite3_stmt *statement, const char *fact_id, char **ret, size_t *ret_size)
{
    char own[FACT_ID_MAX + 16] = "";
    char shard[3];
    int result;

    if (fact_id_is_valid(fact_id)) {
        fact_id_shard(fact_id, shard);
        (void) snprintf(own, sizeof own, "%s/%s.md", shard, fact_id);
    }
    while ((result = sqlite3_step(statement)) == SQLITE_ROW) {
        const char *path = (const char *) sqlite3_column_text(statement, 0);
        bool is_own = path && strcmp(path, own) == 0;
        if (*ret && !is_own)
            continue;
        result = copy_document(statement, ret, ret_size);
        if (result != SQLITE_OK || is_own)
            return result;
    }
    return result == SQLITE_DONE ? SQLITE_OK : result;
}

enum status index_get(struct index_reader *reader, int64_t scope_id, const char *fact_id,
                      char **ret, size_t *ret_size, struct error *error)
{
    AUTO_RESET sqlite3_stmt *statement = NULL;
    AUTO_FREE char *document = NULL;
    size_t size = 0;
    int result = index_reader_statement(reader, SQL_FACT_BY_ID, scope_id, &statement);

    if (result == SQLITE_OK)
        result = sqlite3_bind_text(statement, 2, fact_id, -1, SQLITE_STATIC);
    if (result == SQLITE_OK)
        result = find_document(statement, fact_id, &document, &size);
    result = index_check_pages(result);
    if (result != SQLITE_OK)
        return index_rows_error(reader, result, "read a fact", error);
    if (!document)
        return error_set(error, STATUS_NOT_FOUND, NULL, "no fact with the id %s", fact_id);
    *ret = TAKE_PTR(document);
    *ret_size = size;
    return STATUS_OK;
}

/* ---- find ---- */

static enum status tell_rows(struct index_reader *reader, sqlite3_stmt *statement, int result,
                             index_document_sink sink, void *context, struct error *error)
{
    struct page page = {.limit = UINT64_MAX, .sink = sink, .context = context};

    while (result == SQLITE_OK && page.status == STATUS_OK &&
           (result = sqlite3_step(statement)) == SQLITE_ROW)
        result = tell_row(&page, NULL, statement);
    if (result != SQLITE_OK && result != SQLITE_DONE)
        return index_rows_error(reader, result, "find facts", error);
    return page.status;
}

enum status index_find_places(struct index_reader *reader, int64_t scope_id, const char *fact_id,
                              index_document_sink sink, void *context, struct error *error)
{
    AUTO_RESET sqlite3_stmt *statement = NULL;
    int result = index_reader_statement(reader, SQL_FACT_BY_ID, scope_id, &statement);

    if (result == SQLITE_OK)
        result = sqlite3_bind_text(statement, 2, fact_id, -1, SQLITE_STATIC);
    return tell_rows(reader, statement, result, sink, context, error);
}

enum status index_find_content(struct index_reader *reader, int64_t scope_id, uint64_t key,
                               index_document_sink sink, void *context, struct error *error)
{
    AUTO_RESET sqlite3_stmt *statement = NULL;
    int result = index_reader_statement(reader, SQL_FACT_BY_CONTENT, scope_id, &statement);

    if (result == SQLITE_OK)
        result = sqlite3_bind_int64(statement, 2, (int64_t) key);
    return tell_rows(reader, statement, result, sink, context, error);
}

/* ---- problems ---- */

enum status index_list_problems(struct index_reader *reader, int64_t scope_id,
                                index_problem_sink sink, void *context, struct error *error)
{
    AUTO_RESET sqlite3_stmt *statement = NULL;
    int result = index_reader_statement(reader, SQL_SEEN_PROBLEMS, scope_id, &statement);

    while (result == SQLITE_OK && (result = sqlite3_step(statement)) == SQLITE_ROW) {
        const char *path = (const char *) sqlite3_column_text(statement, 0);
        const char *problem = (const char *) sqlite3_column_text(statement, 2);
        enum status status =
            sink(context, path ? path : "", (enum fact_fault) sqlite3_column_int(statement, 1),
                 problem ? problem : "");
        if (status != STATUS_OK)
            return status;
        result = SQLITE_OK;
    }
    return result == SQLITE_DONE ? STATUS_OK
                                 : index_rows_error(reader, result, "list the problems", error);
}
