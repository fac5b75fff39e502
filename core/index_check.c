/* Looking for damage that SQLite itself may not meet for a long time. */
#include "core/index_private.h"

#include "core/analyzer.h"
#include "core/text.h"

#include <stdio.h>
#include <string.h>

/* So many facts are looked up by one of their words. */
#define SAMPLE_MAX 256

static int explain(char *ret, size_t size, const char *reason)
{
    (void) snprintf(ret, size, "%s", reason);
    return SQLITE_CORRUPT;
}

/* Why something could not be looked at. Want of memory or a lock says nothing about the file, and
 * the error stays what it is; a disk that cannot be read is as good as damage. */
static int explain_error(sqlite3 *db, int result, char *ret, size_t size)
{
    (void) snprintf(ret, size, "%s", sqlite3_errmsg(db));
    switch (result & 0xff) {
    case SQLITE_NOMEM:
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_FULL:
    case SQLITE_INTERRUPT:
        return result;
    default:
        return SQLITE_CORRUPT;
    }
}

/* One value of an SQL text; SQLITE_ROW when there is one. */
static int first_text(sqlite3 *db, const char *sql, char *ret, size_t size)
{
    sqlite3_stmt *statement = NULL;
    int result = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);

    if (result == SQLITE_OK)
        result = sqlite3_step(statement);
    if (result == SQLITE_ROW) {
        const char *text = (const char *) sqlite3_column_text(statement, 0);
        if (text)
            (void) snprintf(ret, size, "%s", text);
        else
            result = index_column_missing(statement);
    }
    (void) sqlite3_finalize(statement);
    return result;
}

static int check_pages(sqlite3 *db, char *ret, size_t size)
{
    char answer[ERROR_MESSAGE_MAX] = "";
    int result = first_text(db, "PRAGMA quick_check(1)", answer, sizeof answer);

    if (result != SQLITE_ROW)
        return explain_error(db, result, ret, size);
    return strcmp(answer, "ok") == 0 ? SQLITE_OK : explain(ret, size, answer);
}

static int check_words(sqlite3 *db, char *ret, size_t size)
{
    char *message = NULL;
    int result =
        sqlite3_exec(db, "INSERT INTO fts (fts) VALUES ('integrity-check')", NULL, NULL, &message);

    if (result != SQLITE_OK)
        result = explain_error(db, result, ret, size);
    if (result != SQLITE_OK && message)
        (void) snprintf(ret, size, "%s", message);
    sqlite3_free(message);
    return result;
}

/* FTS5's record of totals begins with the number of rows, as one of its variable-length integers:
 * seven bits a byte, the highest bit tells that more follow. */
static int words_row_count(sqlite3 *db, int64_t *ret)
{
    sqlite3_stmt *statement = NULL;
    int result =
        sqlite3_prepare_v2(db, "SELECT block FROM fts_data WHERE id = 1", -1, &statement, NULL);

    *ret = 0;
    if (result == SQLITE_OK)
        result = sqlite3_step(statement);
    if (result == SQLITE_ROW) {
        const unsigned char *bytes = sqlite3_column_blob(statement, 0);
        int size = sqlite3_column_bytes(statement, 0);

        if (!bytes && index_column_missing(statement) == SQLITE_NOMEM)
            result = SQLITE_NOMEM;
        for (int i = 0; bytes && i < size && i < 8; i++) {
            *ret = *ret << 7 | (bytes[i] & 0x7f);
            if (!(bytes[i] & 0x80))
                break;
        }
    }
    (void) sqlite3_finalize(statement);
    return result == SQLITE_ROW || result == SQLITE_DONE ? SQLITE_OK : result;
}

static int check_counts(sqlite3 *db, char *ret, size_t size)
{
    char facts[32] = "";
    char words[32];
    int64_t count = 0;
    int result = first_text(db, "SELECT count(*) FROM fact", facts, sizeof facts);

    if (result == SQLITE_ROW)
        result = words_row_count(db, &count);
    if (result != SQLITE_OK)
        return explain_error(db, result, ret, size);
    (void) snprintf(words, sizeof words, "%lld", (long long) count);
    if (strcmp(facts, words) == 0)
        return SQLITE_OK;
    return explain(ret, size, "the words and the facts differ in number");
}

/* ---- the sample ---- */

static enum status take_first(void *context, const struct token *token)
{
    struct text *text = context;

    text_append_char(text, '"');
    text_append(text, token->bytes, token->size);
    text_append_char(text, '"');
    return STATUS_WOULD_BLOCK; /* one is enough */
}

/* The fact's first word as a query; empty when it has none. */
static int first_word(const char *document, size_t size, struct text *ret)
{
    AUTO_JSON json_t *tree = NULL;
    size_t content_size;
    int result = document_read(document, size, &tree);

    text_clear(ret);
    if (result != SQLITE_OK)
        return result;
    const char *content = document_content(tree, &content_size);
    enum status status = analyzer_run(content, content_size, take_first, ret);
    return status == STATUS_NO_MEMORY || !text_ok(ret) ? SQLITE_NOMEM : SQLITE_OK;
}

static int find_word(sqlite3_stmt *find, const char *word, int64_t rowid)
{
    int result = sqlite3_bind_text(find, 1, word, -1, SQLITE_STATIC);

    if (result == SQLITE_OK)
        result = sqlite3_bind_int64(find, 2, rowid);
    if (result == SQLITE_OK)
        result = sqlite3_step(find);
    (void) sqlite3_reset(find);
    return result;
}

static int check_facts(struct index_connection *connection, sqlite3_stmt *facts, sqlite3_stmt *find,
                       char *ret, size_t size)
{
    AUTO_TEXT struct text word = {0};
    int result;

    while ((result = sqlite3_step(facts)) == SQLITE_ROW) {
        token_scope_set(connection->scope, sqlite3_column_int64(facts, 1));
        const char *document = (const char *) sqlite3_column_text(facts, 2);
        if (!document && index_column_missing(facts) == SQLITE_NOMEM)
            return explain_error(connection->db, SQLITE_NOMEM, ret, size);
        if (!document)
            return explain(ret, size, "a fact has no document");
        result = first_word(document, (size_t) sqlite3_column_bytes(facts, 2), &word);
        if (result == SQLITE_NOMEM)
            return explain_error(connection->db, result, ret, size);
        if (result != SQLITE_OK)
            return explain(ret, size, "a stored fact cannot be read");
        int64_t rowid = sqlite3_column_int64(facts, 0);
        if ((word.size == 0) != (INDEX_ROWID_LENGTH(rowid) == 0))
            return explain(ret, size, "a fact has another text than it was indexed with");
        if (word.size == 0)
            continue;
        result = find_word(find, text_string(&word), rowid);
        if (result == SQLITE_DONE)
            return explain(ret, size, "a fact is not found by its words");
        if (result != SQLITE_ROW)
            return explain_error(connection->db, result, ret, size);
    }
    return result == SQLITE_DONE ? SQLITE_OK : explain_error(connection->db, result, ret, size);
}

/* Facts spread over the whole table: every row whose number is a multiple of a stride. */
static int check_sample(struct index_connection *connection, char *ret, size_t size)
{
    sqlite3_stmt *facts = NULL;
    sqlite3_stmt *find = NULL;
    int result = sqlite3_prepare_v2(
        connection->db,
        "SELECT id, scope_id, document FROM fact WHERE id IN (SELECT id FROM (SELECT id, "
        "row_number() OVER (ORDER BY id) AS number FROM fact) WHERE number % (SELECT max(1, "
        "count(*) / ?1) FROM fact) = 0)",
        -1, &facts, NULL);

    if (result == SQLITE_OK)
        result = sqlite3_bind_int(facts, 1, SAMPLE_MAX);
    if (result == SQLITE_OK)
        result = sqlite3_prepare_v2(connection->db,
                                    "SELECT 1 FROM fts WHERE fts MATCH ?1 AND rowid = ?2", -1,
                                    &find, NULL);
    result = result == SQLITE_OK ? check_facts(connection, facts, find, ret, size)
                                 : explain_error(connection->db, result, ret, size);
    (void) sqlite3_finalize(facts);
    (void) sqlite3_finalize(find);
    token_scope_set(connection->scope, 0);
    return result;
}

int index_check(struct index_connection *connection, char *ret, size_t size)
{
    int result = check_pages(connection->db, ret, size);

    if (result == SQLITE_OK)
        result = check_words(connection->db, ret, size);
    if (result == SQLITE_OK)
        result = check_counts(connection->db, ret, size);
    if (result == SQLITE_OK)
        result = check_sample(connection, ret, size);
    return result;
}
