#include "core/index_install.h"

#include "core/analyzer.h"
#include "core/array.h"
#include "core/content_key.h"
#include "core/index_private.h"
#include "core/index_rank.h"
#include "core/iso_time.h"
#include "core/json_text.h"
#include "core/mutant.h"
#include "core/pause_point.h"

#include <string.h>

/* One write transaction on one scope. Its functions return SQLite result codes. */
struct install {
    struct index *index;
    struct index_connection *connection;
    struct scope_row row;
};

/* ---- the words of a fact ---- */

static int write_words(struct install *install, enum index_sql sql, int64_t rowid,
                       const char *content, size_t size)
{
    AUTO_RESET sqlite3_stmt *statement = NULL;
    int result = index_statement(install->connection, sql, &statement);

    if (result == SQLITE_OK)
        result = sqlite3_bind_int64(statement, 1, rowid);
    if (result == SQLITE_OK)
        result = sqlite3_bind_text64(statement, 2, content, size, SQLITE_STATIC, SQLITE_UTF8);
    if (result == SQLITE_OK)
        result = sqlite3_step(statement);
    return result == SQLITE_DONE ? SQLITE_OK : result;
}

static enum status count_word(void *context, const struct token *token)
{
    size_t *count = context;

    if (token->kind == TOKEN_WORD || token->kind == TOKEN_CHARACTER)
        ++*count;
    return STATUS_OK;
}

static int measure(const char *content, size_t size, unsigned *ret_length)
{
    size_t words = 0;
    enum status status = analyzer_run(content, size, count_word, &words);

    *ret_length = length_quantise(words);
    if (status == STATUS_OK)
        return SQLITE_OK;
    return status == STATUS_NO_MEMORY ? SQLITE_NOMEM : SQLITE_TOOBIG;
}

/* ---- single rows ---- */

static int run_on_rowid(struct install *install, enum index_sql sql, int64_t rowid)
{
    AUTO_RESET sqlite3_stmt *statement = NULL;
    int result = index_statement(install->connection, sql, &statement);

    if (result == SQLITE_OK)
        result = sqlite3_bind_int64(statement, 1, rowid);
    if (result == SQLITE_OK)
        result = sqlite3_step(statement);
    return result == SQLITE_DONE ? SQLITE_OK : result;
}

static void count_fact(struct install *install, int64_t rowid, int change)
{
    uint32_t *lengths = &install->row.lengths.counts[INDEX_ROWID_LENGTH(rowid)];

    if (change > 0 || *lengths > 0)
        *lengths += (uint32_t) change;
    if (change > 0 || install->row.facts > 0)
        install->row.facts += (uint64_t) (int64_t) change;
}

/* A row can only leave the words with exactly the text that it came with, which its document
 * holds. */
static int drop_row(struct install *install, int64_t rowid, const char *document, size_t size)
{
    AUTO_JSON json_t *tree = NULL;
    size_t content_size;
    int result = document_read(document, size, &tree);

    if (result != SQLITE_OK)
        return result;
    const char *content = document_content(tree, &content_size);
    result = write_words(install, SQL_FTS_DELETE, rowid, content, content_size);
    if (result == SQLITE_OK)
        result = run_on_rowid(install, SQL_FACT_DELETE, rowid);
    if (result == SQLITE_OK)
        count_fact(install, rowid, -1);
    return result;
}

static int bind_scope_path(sqlite3_stmt *statement, int64_t scope_id, const char *path)
{
    int result = sqlite3_bind_int64(statement, 1, scope_id);

    return result == SQLITE_OK ? sqlite3_bind_text(statement, 2, path, -1, SQLITE_STATIC) : result;
}

/* Removes the row at a path, unless its document is `kept` (may be NULL): then `ret_kept` is set.
 */
static int drop_path(struct install *install, const char *path, const struct text *kept,
                     bool *ret_kept)
{
    AUTO_RESET sqlite3_stmt *statement = NULL;
    int result = index_statement(install->connection, SQL_FACT_BY_PATH, &statement);

    if (result == SQLITE_OK)
        result = bind_scope_path(statement, install->row.id, path);
    if (result == SQLITE_OK)
        result = sqlite3_step(statement);
    if (result != SQLITE_ROW)
        return result == SQLITE_DONE ? SQLITE_OK : result;

    const char *document = (const char *) sqlite3_column_text(statement, 1);
    size_t size = (size_t) sqlite3_column_bytes(statement, 1);
    if (!document)
        return index_column_missing(statement);
    if (kept && kept->size == size && memcmp(kept->bytes, document, size) == 0) {
        *ret_kept = true;
        return SQLITE_OK;
    }
    return drop_row(install, sqlite3_column_int64(statement, 0), document, size);
}

static int64_t created_at(const struct fact *fact)
{
    int64_t time = 0;

    if (fact->created_at)
        (void) iso_time_read(fact->created_at, strlen(fact->created_at), &time);
    return time;
}

static int bind_content_key(sqlite3_stmt *statement, int parameter, const struct fact *fact)
{
    uint64_t key = 0;
    enum status status = content_key_hash(fact->content, fact->content_size, &key);

    if (status != STATUS_OK)
        return status == STATUS_NO_MEMORY ? SQLITE_NOMEM : SQLITE_TOOBIG;
    return sqlite3_bind_int64(statement, parameter, (int64_t) key);
}

static int insert_fact(struct install *install, int64_t rowid, const struct index_row *put,
                       const struct text *document)
{
    AUTO_RESET sqlite3_stmt *statement = NULL;
    const struct fact *fact = put->fact;
    int result = index_statement(install->connection, SQL_FACT_INSERT, &statement);

    if (result == SQLITE_OK)
        result = sqlite3_bind_int64(statement, 1, rowid);
    if (result == SQLITE_OK)
        result = sqlite3_bind_int64(statement, 2, install->row.id);
    if (result == SQLITE_OK)
        result = sqlite3_bind_text(statement, 3, put->path, -1, SQLITE_STATIC);
    if (result == SQLITE_OK)
        result = sqlite3_bind_text(statement, 4, fact->id, -1, SQLITE_STATIC);
    if (result == SQLITE_OK)
        result = sqlite3_bind_text(statement, 5, fact->category ? fact->category : "", -1,
                                   SQLITE_STATIC);
    if (result == SQLITE_OK)
        result = sqlite3_bind_int64(statement, 6, created_at(fact));
    if (result == SQLITE_OK)
        result = sqlite3_bind_double(statement, 7, fact->confidence);
    if (result == SQLITE_OK)
        result = bind_content_key(statement, 8, fact);
    if (result == SQLITE_OK)
        result = sqlite3_bind_text64(statement, 9, document->bytes, document->size, SQLITE_STATIC,
                                     SQLITE_UTF8);
    if (result == SQLITE_OK)
        result = sqlite3_step(statement);
    return result == SQLITE_DONE ? SQLITE_OK : result;
}

/* ---- lists of rows ---- */

struct row_name {
    int64_t rowid;
    char *path;
};

struct row_names {
    struct row_name *names;
    size_t count;
    size_t capacity;
};

static void row_names_clear(struct row_names *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->names[i].path);
    free(list->names);
    memset(list, 0, sizeof *list);
}
#define AUTO_ROW_NAMES CLEANUP(row_names_clear)

static int row_names_add(struct row_names *list, int64_t rowid, const char *path)
{
    if (!array_make_room(&list->names, list->count, &list->capacity, sizeof *list->names))
        return SQLITE_NOMEM;
    char *copy = strdup(path);
    if (!copy)
        return SQLITE_NOMEM;
    list->names[list->count++] = (struct row_name){.rowid = rowid, .path = copy};
    return SQLITE_OK;
}

/* All rows of the scope in the order of their numbers, read before any of them is touched. */
static int row_names_read(struct install *install, struct row_names *ret)
{
    AUTO_RESET sqlite3_stmt *statement = NULL;
    int64_t id = install->row.id;
    int result = index_statement(install->connection, SQL_FACT_ROWIDS, &statement);

    if (result == SQLITE_OK)
        result = sqlite3_bind_int64(statement, 1, INDEX_ROWID(id, 0, 0));
    if (result == SQLITE_OK)
        result = sqlite3_bind_int64(statement, 2, INDEX_ROWID(id + 1, 0, 0) - 1);
    while (result == SQLITE_OK && (result = sqlite3_step(statement)) == SQLITE_ROW) {
        const char *path = (const char *) sqlite3_column_text(statement, 1);
        result = path ? row_names_add(ret, sqlite3_column_int64(statement, 0), path)
                      : index_column_missing(statement);
    }
    return result == SQLITE_DONE ? SQLITE_OK : result;
}

static int compare_paths(const void *a, const void *b)
{
    return strcmp(*(const char *const *) a, *(const char *const *) b);
}

/* Removes the rows whose path is not among `put`. */
static int drop_others(struct install *install, const struct index_row *put, size_t put_count)
{
    AUTO_ROW_NAMES struct row_names rows = {0};
    AUTO_FREE const char **paths = calloc(put_count + 1, sizeof *paths);
    int result = paths ? row_names_read(install, &rows) : SQLITE_NOMEM;

    if (!paths)
        return result;
    for (size_t i = 0; i < put_count; i++)
        paths[i] = put[i].path;
    qsort(paths, put_count, sizeof *paths, compare_paths);
    for (size_t i = 0; i < rows.count && result == SQLITE_OK; i++) {
        const char *path = rows.names[i].path;
        if (!bsearch(&path, paths, put_count, sizeof *paths, compare_paths))
            result = drop_path(install, path, NULL, NULL);
    }
    return result;
}

/* ---- running out of numbers ---- */

static int move_fact(struct install *install, int64_t from, int64_t to)
{
    AUTO_RESET sqlite3_stmt *statement = NULL;
    int result = index_statement(install->connection, SQL_FACT_MOVE, &statement);

    if (result == SQLITE_OK)
        result = sqlite3_bind_int64(statement, 1, from);
    if (result == SQLITE_OK)
        result = sqlite3_bind_int64(statement, 2, to);
    if (result == SQLITE_OK)
        result = sqlite3_step(statement);
    return result == SQLITE_DONE ? SQLITE_OK : result;
}

static int renumber_row(struct install *install, int64_t from, int64_t to)
{
    AUTO_RESET sqlite3_stmt *statement = NULL;
    AUTO_JSON json_t *tree = NULL;
    size_t size;
    int result = index_statement(install->connection, SQL_FACT_DOCUMENT, &statement);

    if (result == SQLITE_OK)
        result = sqlite3_bind_int64(statement, 1, from);
    if (result == SQLITE_OK)
        result = sqlite3_step(statement);
    if (result != SQLITE_ROW)
        return result == SQLITE_DONE ? SQLITE_CORRUPT : result;
    const char *document = (const char *) sqlite3_column_text(statement, 0);
    if (!document)
        return index_column_missing(statement);
    result = document_read(document, (size_t) sqlite3_column_bytes(statement, 0), &tree);
    if (result != SQLITE_OK)
        return result;

    const char *content = document_content(tree, &size);
    (void) sqlite3_reset(statement);
    result = write_words(install, SQL_FTS_DELETE, from, content, size);
    if (result == SQLITE_OK)
        result = move_fact(install, from, to);
    if (result == SQLITE_OK)
        result = write_words(install, SQL_FTS_INSERT, to, content, size);
    return result;
}

/* Closes the gaps that removed rows left. New numbers are never above the old ones, and rows are
 * taken in order, so none meets another. */
static int renumber(struct install *install)
{
    AUTO_ROW_NAMES struct row_names rows = {0};
    int result = row_names_read(install, &rows);

    if (result == SQLITE_OK && rows.count >= INDEX_SEQUENCE_MAX)
        return SQLITE_TOOBIG;
    for (size_t i = 0; i < rows.count && result == SQLITE_OK; i++) {
        int64_t from = rows.names[i].rowid;
        int64_t to = INDEX_ROWID(install->row.id, i + 1, INDEX_ROWID_LENGTH(from));
        if (from != to)
            result = renumber_row(install, from, to);
    }
    install->row.next_sequence = (int64_t) rows.count + 1;
    return result;
}

/* ---- deltas ---- */

static int put_row(struct install *install, const struct index_row *put, struct text *document)
{
    size_t size;
    unsigned length;
    bool kept = false;

    text_clear(document);
    json_text_write(document, put->fact->document);
    if (!text_ok(document))
        return SQLITE_NOMEM;
    int result = drop_path(install, put->path, document, &kept);
    if (result != SQLITE_OK || kept)
        return result;

    const char *content = document_content(put->fact->document, &size);
    result = measure(content, size, &length);
    if (result == SQLITE_OK && install->row.next_sequence > INDEX_SEQUENCE_MAX)
        result = renumber(install);
    if (result != SQLITE_OK)
        return result;
    int64_t rowid = INDEX_ROWID(install->row.id, install->row.next_sequence, length);
    result = insert_fact(install, rowid, put, document);
    if (result == SQLITE_OK)
        result = write_words(install, SQL_FTS_INSERT, rowid, content, size);
    if (result == SQLITE_OK) {
        install->row.next_sequence++;
        count_fact(install, rowid, 1);
    }
    return result;
}

static int put_rows(struct install *install, const struct index_row *put, size_t count)
{
    AUTO_TEXT struct text document = {0};
    int result = SQLITE_OK;

    for (size_t i = 0; i < count && result == SQLITE_OK; i++)
        result = put_row(install, &put[i], &document);
    return result;
}

static int forget_seen(struct install *install, const char *path)
{
    AUTO_RESET sqlite3_stmt *statement = NULL;
    int result = index_statement(install->connection, SQL_SEEN_DELETE, &statement);

    if (result == SQLITE_OK)
        result = bind_scope_path(statement, install->row.id, path);
    if (result == SQLITE_OK)
        result = sqlite3_step(statement);
    return result == SQLITE_DONE ? SQLITE_OK : result;
}

static int remove_paths(struct install *install, const char *const *removed, size_t count)
{
    int result = SQLITE_OK;

    for (size_t i = 0; i < count && result == SQLITE_OK; i++) {
        result = drop_path(install, removed[i], NULL, NULL);
        if (result == SQLITE_OK)
            result = forget_seen(install, removed[i]);
    }
    return result;
}

static int put_seen(struct install *install, const struct seen_entry *entry)
{
    AUTO_RESET sqlite3_stmt *statement = NULL;
    int result = index_statement(install->connection, SQL_SEEN_PUT, &statement);

    if (result != SQLITE_OK)
        return result;
    const int64_t values[] = {
        !entry->is_dir,
        (int64_t) entry->stamp.inode,
        (int64_t) entry->stamp.size,
        (int64_t) entry->stamp.mtime_ns,
        (int64_t) entry->stamp.ctime_ns,
        entry->clean,
        (int64_t) entry->digest,
        (int64_t) entry->fault,
    };
    result = bind_scope_path(statement, install->row.id, entry->path);
    for (int i = 0; i < (int) ARRAY_SIZE(values) && result == SQLITE_OK; i++)
        result = sqlite3_bind_int64(statement, i + 3, values[i]);
    if (result == SQLITE_OK)
        result = sqlite3_bind_text(statement, 11, entry->problem, -1, SQLITE_STATIC);
    if (result == SQLITE_OK)
        result = sqlite3_step(statement);
    return result == SQLITE_DONE ? SQLITE_OK : result;
}

/* A file whose stamp is not known: the next refresh reads it again, and misses it when it is gone.
 */
static int put_unread(struct install *install, const char *path)
{
    AUTO_FREE char *copy = strdup(path);

    if (!copy)
        return SQLITE_NOMEM;
    const struct seen_entry entry = {.path = copy};
    return put_seen(install, &entry);
}

static int count_broken(struct install *install)
{
    AUTO_RESET sqlite3_stmt *statement = NULL;
    int result = index_statement(install->connection, SQL_SEEN_COUNT_BROKEN, &statement);

    if (result == SQLITE_OK)
        result = sqlite3_bind_int64(statement, 1, install->row.id);
    if (result == SQLITE_OK)
        result = sqlite3_step(statement);
    if (result != SQLITE_ROW)
        return result == SQLITE_DONE ? SQLITE_CORRUPT : result;
    install->row.broken = (uint64_t) sqlite3_column_int64(statement, 0);
    return SQLITE_OK;
}

/* ---- transactions ---- */

/* An attempt after one that lacked memory found the index malformed, though nothing was wrong with
 * the file: FTS5 had gone on with what it remembered of it. */
static enum status renew_writer(struct index *index, struct error *error)
{
    struct index_connection fresh;
    enum status status = index_connect(index, true, &fresh, error);

    if (status != STATUS_OK)
        return status;
    index_disconnect(&index->writer, true);
    index->writer = fresh;
    return STATUS_OK;
}

static enum status install_begin(struct index *index, struct install *ret, struct error *error)
{
    memset(ret, 0, sizeof *ret);
    ret->index = index;
    ret->connection = &index->writer;
    if (index_is_damaged(index) || !index->writer.db)
        return error_set(error, STATUS_CORRUPT, NULL, "the index is damaged");
    enum status status = index->writer.lacked_memory ? renew_writer(index, error) : STATUS_OK;
    if (status != STATUS_OK)
        return status;
    int result = index_run(&index->writer, SQL_BEGIN_IMMEDIATE);
    return result == SQLITE_OK
               ? STATUS_OK
               : index_sqlite_error(index, &index->writer, result, "write the index", error);
}

/* Commits when `result` is SQLITE_OK and `wanted`, else takes everything back. */
static enum status install_end(struct install *install, int result, bool wanted,
                               struct error *error)
{
    struct index_connection *connection = install->connection;
    enum status status = STATUS_OK;

    token_scope_set(connection->scope, 0);
    if (result == SQLITE_OK && wanted) {
        pause_here(PAUSE_INSTALL_BEFORE_COMMIT);
        result = pause_fails(PAUSE_INSTALL_BEFORE_COMMIT) ? SQLITE_FULL
                                                          : index_run(connection, SQL_COMMIT);
    }
    if (result != SQLITE_OK)
        status = index_sqlite_error(install->index, connection, result, "write the index", error);
    if (!sqlite3_get_autocommit(connection->db) && index_run(connection, SQL_ROLLBACK) != SQLITE_OK)
        index_remember_damage(install->index, connection->epoch,
                              "a transaction could not be taken back");
    return status;
}

/* Selects the scope; `ret_found` tells whether it has a row. */
static int select_scope(struct install *install, const struct scope *scope, bool *ret_found)
{
    int result = scope_row_find(install->connection, scope, &install->row);

    *ret_found = result == SQLITE_ROW;
    if (result == SQLITE_ROW)
        token_scope_set(install->connection->scope, install->row.id);
    return result == SQLITE_ROW || result == SQLITE_DONE ? SQLITE_OK : result;
}

/* ---- refresh ---- */

static int apply_refresh(struct install *install, const struct index_change *change)
{
    bool changes = change->replace_all || change->put_count > 0 || change->removed_count > 0 ||
                   change->seen_count > 0;
    int result = SQLITE_OK;

    if (change->replace_all) {
        result = drop_others(install, change->put, change->put_count);
        if (result == SQLITE_OK)
            result = run_on_rowid(install, SQL_SEEN_DELETE_ALL, install->row.id);
    }
    if (result == SQLITE_OK)
        result = remove_paths(install, change->removed, change->removed_count);
    if (result == SQLITE_OK)
        result = put_rows(install, change->put, change->put_count);
    for (size_t i = 0; i < change->seen_count && result == SQLITE_OK; i++)
        result = put_seen(install, &change->seen[i]);
    if (result == SQLITE_OK && changes)
        result = count_broken(install);
    if (result != SQLITE_OK)
        return result;

    install->row.generation += changes;
    install->row.unmigrated = change->unmigrated;
    result = scope_row_update(install->connection, &install->row);
    if (result == SQLITE_OK)
        result = scope_row_set_synced(install->connection, install->row.id, &change->synced);
    return result == SQLITE_OK ? scope_row_set_manifest(install->connection, install->row.id,
                                                        change->manifest, change->manifest_size)
                               : result;
}

static int refresh_scope(struct install *install, const struct index_change *change, bool *ret_lost)
{
    bool found;
    int result = select_scope(install, change->scope, &found);

    if (result != SQLITE_OK)
        return result;
    *ret_lost = (found ? install->row.generation : 0) != change->expected_generation;
    if (*ret_lost)
        return SQLITE_OK;
    if (!found) {
        result = scope_row_insert(install->connection, change->scope, &install->row);
        if (result != SQLITE_OK)
            return result;
        token_scope_set(install->connection->scope, install->row.id);
    }
    return apply_refresh(install, change);
}

/* The mutant's way: the signature in a transaction of its own, before the rows. */
static enum status install_signature_first(struct index *index, const struct index_change *change,
                                           struct error *error)
{
    struct install install;
    bool found = false;
    enum status status = install_begin(index, &install, error);

    if (status != STATUS_OK)
        return status;
    int result = select_scope(&install, change->scope, &found);
    if (result == SQLITE_OK && found)
        result = scope_row_set_synced(install.connection, install.row.id, &change->synced);
    return install_end(&install, result, found, error);
}

enum status index_install_refresh(struct index *index, const struct index_change *change,
                                  enum install_outcome *ret, uint64_t *ret_generation,
                                  struct error *error)
{
    struct install install;
    bool lost = false;
    enum status status = STATUS_OK;

    if (MUTANT(TWO_TRANSACTIONS))
        status = install_signature_first(index, change, error);
    if (status == STATUS_OK)
        status = install_begin(index, &install, error);

    if (status != STATUS_OK)
        return status;
    int result = refresh_scope(&install, change, &lost);
    status = install_end(&install, result, !lost, error);
    if (status != STATUS_OK)
        return status;
    *ret = lost ? INSTALL_LOST : INSTALL_DONE;
    if (!lost)
        *ret_generation = install.row.generation;
    return STATUS_OK;
}

/* ---- own writes ---- */

static bool synced_is(const struct scope_row *row, const struct manifest_mark *mark)
{
    if (MUTANT(NOOP_ADVANCES) && row->synced.known &&
        row->synced.mark.signature.revision == mark->signature.revision)
        return true;
    return row->synced.known && signature_equal(&row->synced.mark.signature, &mark->signature);
}

/* The scope is what the write left behind. */
static int promote(struct install *install, int64_t id, const struct index_own_write *write)
{
    const struct synced_mark synced = {.known = true, .mark = write->post};
    int result = scope_row_set_synced(install->connection, id, &synced);

    return result == SQLITE_OK ? scope_row_set_manifest(install->connection, id, write->manifest,
                                                        write->manifest_size)
                               : result;
}

/* As with a search, another inode or change time under an equal signature is a reason to look, and
 * promoting would pass it over. */
static bool is_same_file(const struct manifest_mark *a, const struct manifest_mark *b)
{
    return MUTANT(NOOP_ADVANCES) || (a->inode == b->inode && a->ctime_ns == b->ctime_ns);
}

/* An absent manifest proves nothing about rows that are there. */
static bool delta_fits(const struct scope_row *row, const struct index_own_write *write)
{
    return synced_is(row, &write->pre) && is_same_file(&row->synced.mark, &write->pre) &&
           !(write->pre.signature.absent && row->facts > 0);
}

/* Other scopes of the bucket: nothing of theirs was touched, so in step stays in step. */
static int promote_others(struct install *install, const struct index_own_write *write)
{
    AUTO_RESET sqlite3_stmt *statement = NULL;
    int result = index_statement(install->connection, SQL_SCOPE_LIST_BUCKET, &statement);

    if (result == SQLITE_OK)
        result = sqlite3_bind_text(statement, 1, write->scope->has_user ? write->scope->bucket : "",
                                   -1, SQLITE_STATIC);
    while (result == SQLITE_OK && (result = sqlite3_step(statement)) == SQLITE_ROW) {
        struct scope_row other;
        scope_row_read(statement, false, &other);
        result = SQLITE_OK;
        if (other.id != install->row.id && delta_fits(&other, write))
            result = promote(install, other.id, write);
    }
    return result == SQLITE_DONE ? SQLITE_OK : result;
}

static int apply_rows(struct install *install, const struct index_own_write *write)
{
    int result = remove_paths(install, write->removed, write->removed_count);

    if (result == SQLITE_OK)
        result = put_rows(install, write->put, write->put_count);
    for (size_t i = 0; i < write->put_count && result == SQLITE_OK; i++)
        result = put_unread(install, write->put[i].path);
    if (result == SQLITE_OK)
        result = count_broken(install);
    install->row.generation++;
    return result == SQLITE_OK ? scope_row_update(install->connection, &install->row) : result;
}

static int apply_delta(struct install *install, const struct index_own_write *write)
{
    bool changes = write->facts_changed && (write->put_count > 0 || write->removed_count > 0);
    int result = changes ? apply_rows(install, write) : SQLITE_OK;

    return result == SQLITE_OK ? promote(install, install->row.id, write) : result;
}

static int own_write_in_scope(struct install *install, const struct index_own_write *write,
                              enum own_write_outcome *ret)
{
    bool found;
    int result = select_scope(install, write->scope, &found);

    if (result != SQLITE_OK)
        return result;
    if (!found && write->facts_changed && write->was_empty) {
        result = scope_row_insert(install->connection, write->scope, &install->row);
        if (result != SQLITE_OK)
            return result;
        token_scope_set(install->connection->scope, install->row.id);
        *ret = OWN_WRITE_PROMOTED;
        return apply_delta(install, write);
    }
    if (!found) { /* nothing of it is indexed: behind only if there is something to index */
        *ret = write->facts_changed ? OWN_WRITE_FORGOTTEN : OWN_WRITE_ALREADY_CURRENT;
        return SQLITE_OK;
    }
    if (delta_fits(&install->row, write)) {
        *ret = OWN_WRITE_PROMOTED;
        return apply_delta(install, write);
    }
    if (synced_is(&install->row, &write->post)) {
        *ret = OWN_WRITE_ALREADY_CURRENT;
        return SQLITE_OK;
    }
    *ret = OWN_WRITE_FORGOTTEN;
    if (MUTANT(PROMOTE_UNPROVEN))
        return promote(install, install->row.id, write);
    if (MUTANT(DELTA_UNPROVEN))
        return apply_rows(install, write);
    install->row.generation += MUTANT(FORGET_BUMPS);
    if (MUTANT(FORGET_BUMPS))
        result = scope_row_update(install->connection, &install->row);
    return result == SQLITE_OK ? scope_row_forget(install->connection, install->row.id) : result;
}

enum status index_install_own_write(struct index *index, const struct index_own_write *write,
                                    enum own_write_outcome *ret, struct error *error)
{
    struct install install;
    enum own_write_outcome outcome = OWN_WRITE_FORGOTTEN;
    enum status status = install_begin(index, &install, error);

    if (status != STATUS_OK)
        return status;
    int result = own_write_in_scope(&install, write, &outcome);
    if (result == SQLITE_OK)
        result = promote_others(&install, write);
    status = install_end(&install, result, true, error);
    if (status == STATUS_OK)
        *ret = outcome;
    return status;
}

/* ---- forgetting and removing ---- */

enum status index_forget(struct index *index, const struct scope *scope, struct error *error)
{
    struct install install;
    bool found = false;
    enum status status = install_begin(index, &install, error);

    if (status != STATUS_OK)
        return status;
    int result = select_scope(&install, scope, &found);
    if (result == SQLITE_OK && found)
        result = scope_row_forget(install.connection, install.row.id);
    return install_end(&install, result, found, error);
}

static int forget_row(struct install *install, struct scope_row *row)
{
    row->generation++;
    int result = scope_row_update(install->connection, row);
    return result == SQLITE_OK ? scope_row_forget(install->connection, row->id) : result;
}

static int forget_rows(struct install *install, const struct scope *scope)
{
    AUTO_RESET sqlite3_stmt *statement = NULL;
    int result = index_statement(install->connection, SQL_SCOPE_LIST_BUCKET, &statement);

    if (result == SQLITE_OK)
        result = sqlite3_bind_text(statement, 1, scope->has_user ? scope->bucket : "", -1,
                                   SQLITE_STATIC);
    while (result == SQLITE_OK && (result = sqlite3_step(statement)) == SQLITE_ROW) {
        struct scope_row row;
        scope_row_read(statement, true, &row);
        result = forget_row(install, &row);
    }
    return result == SQLITE_DONE ? SQLITE_OK : result;
}

enum status index_forget_bucket(struct index *index, const struct scope *scope, struct error *error)
{
    struct install install;
    enum status status = install_begin(index, &install, error);

    if (status != STATUS_OK)
        return status;
    return install_end(&install, forget_rows(&install, scope), true, error);
}

static int remove_everything(struct install *install)
{
    int result = drop_others(install, NULL, 0);

    if (result == SQLITE_OK)
        result = run_on_rowid(install, SQL_SEEN_DELETE_ALL, install->row.id);
    if (result == SQLITE_OK)
        result = run_on_rowid(install, SQL_SCOPE_DELETE, install->row.id);
    return result;
}

enum status index_remove_scope(struct index *index, const struct scope *scope,
                               uint64_t expected_generation, enum install_outcome *ret,
                               struct error *error)
{
    struct install install;
    bool found = false;
    enum status status = install_begin(index, &install, error);

    if (status != STATUS_OK)
        return status;
    int result = select_scope(&install, scope, &found);
    bool lost = (found ? install.row.generation : 0) != expected_generation;
    if (result == SQLITE_OK && found && !lost)
        result = remove_everything(&install);
    status = install_end(&install, result, found && !lost, error);
    if (status == STATUS_OK)
        *ret = lost ? INSTALL_LOST : INSTALL_DONE;
    return status;
}
