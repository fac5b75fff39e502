/* Feeds bytes to the query parser and its expression to FTS5: every rendered expression must be
 * accepted, and have as many phrases as the query says. */
#include "core/index_rank.h"
#include "core/index_tokenizer.h"
#include "core/query.h"

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

static sqlite3 *db;
static sqlite3_stmt *match;

static void demand(bool holds, const char *what)
{
    if (holds)
        return;
    (void) fprintf(stderr, "%s: %s\n", what, sqlite3_errmsg(db));
    abort();
}

static void add_text(int rowid, const char *text)
{
    sqlite3_stmt *insert = NULL;

    demand(sqlite3_prepare_v2(db, "INSERT INTO fts (rowid, content) VALUES (?2, ?1)", -1, &insert,
                              NULL) == SQLITE_OK &&
               sqlite3_bind_text(insert, 1, text, -1, SQLITE_STATIC) == SQLITE_OK &&
               sqlite3_bind_int(insert, 2, rowid) == SQLITE_OK &&
               sqlite3_step(insert) == SQLITE_DONE,
           "insert");
    (void) sqlite3_finalize(insert);
}

static void prepare(void)
{
    struct token_scope *scope = NULL;

    demand(sqlite3_open(":memory:", &db) == SQLITE_OK, "open");
    demand(index_tokenizer_register(db, &scope) == SQLITE_OK, "tokenizer");
    demand(index_rank_register(db) == SQLITE_OK, "ranking");
    demand(sqlite3_exec(db,
                        "CREATE VIRTUAL TABLE fts USING fts5 (content, content = '', columnsize = "
                        "0, tokenize = 'memsync')",
                        NULL, NULL, NULL) == SQLITE_OK,
           "table");
    token_scope_set(scope, 7);
    add_text(1, "the quick brown fox can't jump over db-prod-01 and beta alpha gamma");
    add_text(2, "a b c d e \xe6\x9c\x8d\xe5\x8a\xa1\xe5\x99\xa8 nginx caf\xc3\xa9");
    demand(sqlite3_prepare_v2(db, "SELECT " RANK_FUNCTION "(fts, ?1) FROM fts WHERE fts MATCH ?2",
                              -1, &match, NULL) == SQLITE_OK,
           "statement");
}

/* The ranking function itself refuses a count of phrases that is not the query's. */
static void run(const struct query *query)
{
    CLEANUP(rank_collector_destroy) struct rank_collector *collector = NULL;
    int result;

    if (rank_collector_create(query, &collector) != STATUS_OK)
        return;
    (void) sqlite3_bind_pointer(match, 1, collector, RANK_POINTER, NULL);
    (void) sqlite3_bind_text(match, 2, query_expression(query), -1, SQLITE_STATIC);
    while ((result = sqlite3_step(match)) == SQLITE_ROW)
        continue;
    demand(result == SQLITE_DONE, query_expression(query));
    (void) sqlite3_reset(match);
    (void) sqlite3_clear_bindings(match);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    AUTO_QUERY struct query *query = NULL;

    if (!db)
        prepare();
    if (query_parse((const char *) bytes, size, &query) != STATUS_OK)
        return 0;
    demand(query_phrase_count(query) <= QUERY_TOKENS_MAX, "too many phrases");
    demand(query_is_empty(query) == (query_expression(query)[0] == '\0'), "empty");
    if (!query_is_empty(query))
        run(query);
    return 0;
}
