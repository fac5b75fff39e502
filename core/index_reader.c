/* A reader's snapshots, and what it tells of scopes. */
#include "core/array.h"
#include "core/clock.h"
#include "core/index_mapping.h"
#include "core/index_private.h"
#include "core/index_search.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* How many steps of SQLite's machine pass between two looks at the clock. */
#define STEPS_PER_LOOK 4000

enum status index_reader_create(struct index *index, struct index_reader **ret, struct error *error)
{
    struct index_reader *reader = calloc(1, sizeof *reader);

    if (!reader)
        return error_set(error, STATUS_NO_MEMORY, NULL, "no memory for a reader");
    reader->index = index;
    reader->deadline_ns = CLOCK_NEVER;
    *ret = reader;
    return STATUS_OK;
}

static void reader_close(struct index_reader *reader)
{
    index_disconnect(&reader->connection, false);
    reader->in_snapshot = false;
}

void index_reader_destroy(struct index_reader **reader)
{
    if (!*reader)
        return;
    reader_close(*reader);
    free(*reader);
    *reader = NULL;
}

enum status index_reader_error(struct index_reader *reader, int result, const char *doing,
                               struct error *error)
{
    return index_sqlite_error(reader->index, &reader->connection, result, doing, error);
}

int index_check_pages(int result)
{
    return index_mapping_has_lost() ? SQLITE_CORRUPT : result;
}

enum status index_rows_error(struct index_reader *reader, int result, const char *doing,
                             struct error *error)
{
    enum status status = index_reader_error(reader, result, doing, error);

    return status == STATUS_CORRUPT
               ? error_set(error, STATUS_UNAVAILABLE, NULL, "%s", INDEX_LOST_TEXT)
               : status;
}

int index_reader_statement(struct index_reader *reader, enum index_sql sql, int64_t scope_id,
                           sqlite3_stmt **ret)
{
    int result =
        reader->in_snapshot ? index_statement(&reader->connection, sql, ret) : SQLITE_MISUSE;

    return result == SQLITE_OK ? sqlite3_bind_int64(*ret, 1, scope_id) : result;
}

/* ---- snapshots ---- */

static int look_at_clock(void *context)
{
    const struct index_reader *reader = context;

    return reader->deadline_ns != CLOCK_NEVER && clock_monotonic_ns() >= reader->deadline_ns;
}

/* A file that somebody put in the place of ours must not be answered from. */
static enum status reader_open(struct index_reader *reader, struct error *error)
{
    uint64_t epoch = index_epoch(reader->index);

    reader_close(reader);
    if (index_file_was_replaced(reader->index)) {
        const char *text = index_replaced_text(reader->index);
        index_remember_damage(reader->index, epoch, text);
        return error_set(error, STATUS_CORRUPT, NULL, "%s", text);
    }
    enum status status = index_connect(reader->index, false, &reader->connection, error);
    if (status == STATUS_OK)
        sqlite3_progress_handler(reader->connection.db, STEPS_PER_LOOK, look_at_clock, reader);
    return status;
}

enum status index_begin(struct index_reader *reader, struct error *error)
{
    if (reader->in_snapshot)
        index_end(reader);
    if (index_is_damaged(reader->index))
        return error_set(error, STATUS_CORRUPT, NULL, "the index is damaged and not rebuilt yet");
    if (!reader->connection.db || reader->connection.epoch != index_epoch(reader->index)) {
        enum status status = reader_open(reader, error);
        if (status != STATUS_OK)
            return status;
    }

    int result = index_run(&reader->connection, SQL_BEGIN);
    if (result == SQLITE_OK)
        result = index_run(&reader->connection, SQL_SNAPSHOT);
    if (result != SQLITE_OK) {
        enum status status = index_reader_error(reader, result, "read the index", error);
        reader_close(reader);
        return status;
    }
    reader->in_snapshot = true;
    return STATUS_OK;
}

void index_end(struct index_reader *reader)
{
    if (!reader->in_snapshot)
        return;
    if (index_check_pages(SQLITE_OK) != SQLITE_OK) /* remembered for all, see below */
        (void) index_reader_error(reader, SQLITE_CORRUPT, "read the index", NULL);
    reader->in_snapshot = false;
    reader->deadline_ns = CLOCK_NEVER;
    token_scope_set(reader->connection.scope, 0);
    index_reset_statements(&reader->connection);
    if (index_run(&reader->connection, SQL_COMMIT) != SQLITE_OK ||
        index_is_damaged(reader->index) || reader->connection.lacked_memory)
        reader_close(reader); /* opens anew at the next begin */
}

/* ---- scopes ---- */

static void tell_scope(const struct scope_row *row, struct index_scope *ret)
{
    *ret = (struct index_scope){
        .id = row->id,
        .generation = row->generation,
        .synced = row->synced,
        .facts = row->facts,
        .broken = row->broken,
        .unmigrated = row->unmigrated,
    };
}

enum status index_read_scope(struct index_reader *reader, const struct scope *scope,
                             struct index_scope *ret, struct error *error)
{
    struct scope_row row;

    if (!reader->in_snapshot)
        return error_set(error, STATUS_INTERNAL, NULL, "no snapshot of the index was begun");
    int result = scope_row_find(&reader->connection, scope, &row);
    if (result == SQLITE_DONE)
        return error_set(error, STATUS_NOT_FOUND, NULL, "the index does not know the scope");
    if (result != SQLITE_ROW)
        return index_reader_error(reader, result, "read a scope", error);
    tell_scope(&row, ret);
    return STATUS_OK;
}

enum status index_read_manifest(struct index_reader *reader, int64_t scope_id, char **ret,
                                size_t *ret_size, struct error *error)
{
    AUTO_RESET sqlite3_stmt *statement = NULL;
    int result = index_reader_statement(reader, SQL_SCOPE_MANIFEST, scope_id, &statement);

    if (result == SQLITE_OK)
        result = sqlite3_step(statement);
    if (result == SQLITE_DONE)
        return error_set(error, STATUS_NOT_FOUND, NULL, "the index does not know the scope");
    if (result != SQLITE_ROW)
        return index_rows_error(reader, result, "read a manifest", error);

    const char *bytes = sqlite3_column_blob(statement, 0);
    size_t size = (size_t) sqlite3_column_bytes(statement, 0);
    AUTO_FREE char *copy = bytes ? malloc(size) : NULL;
    /* Without bytes: no manifest, or no memory to read one. */
    if (!copy && sqlite3_column_type(statement, 0) != SQLITE_NULL)
        return error_set(error, STATUS_NO_MEMORY, NULL, "no memory for a manifest");
    if (copy)
        memcpy(copy, bytes, size);
    if (index_check_pages(SQLITE_OK) != SQLITE_OK)
        return index_rows_error(reader, SQLITE_CORRUPT, "read a manifest", error);
    *ret = TAKE_PTR(copy);
    *ret_size = *ret ? size : 0;
    return STATUS_OK;
}

static void copy_column(sqlite3_stmt *statement, int column, char *ret, size_t size)
{
    const char *text = (const char *) sqlite3_column_text(statement, column);

    (void) snprintf(ret, size, "%s", text ? text : "");
}

/* Columns 15 to 17 of a scope statement. */
static void read_name(sqlite3_stmt *statement, struct scope *ret)
{
    ret->has_user = sqlite3_column_type(statement, 15) != SQLITE_NULL;
    copy_column(statement, 15, ret->user, sizeof ret->user);
    copy_column(statement, 16, ret->bucket, sizeof ret->bucket);
    copy_column(statement, 17, ret->agent, sizeof ret->agent);
}

static enum status each_scope(struct index_reader *reader, sqlite3_stmt *statement,
                              index_scope_sink sink, void *context, struct error *error)
{
    int result;

    while ((result = sqlite3_step(statement)) == SQLITE_ROW) {
        struct scope scope;
        struct scope_row row;
        struct index_scope state;

        read_name(statement, &scope);
        scope_row_read(statement, false, &row);
        tell_scope(&row, &state);
        enum status status = sink(context, &scope, &state);
        if (status != STATUS_OK)
            return status;
    }
    return result == SQLITE_DONE ? STATUS_OK
                                 : index_rows_error(reader, result, "list the scopes", error);
}

static enum status list_scopes(struct index_reader *reader, enum index_sql sql,
                               index_scope_sink sink, void *context, struct error *error)
{
    AUTO_RESET sqlite3_stmt *statement = NULL;
    int result = index_statement(&reader->connection, sql, &statement);

    if (result != SQLITE_OK)
        return index_rows_error(reader, result, "list the scopes", error);
    return each_scope(reader, statement, sink, context, error);
}

enum status index_list_scopes(struct index_reader *reader, index_scope_sink sink, void *context,
                              struct error *error)
{
    return list_scopes(reader, SQL_SCOPE_LIST, sink, context, error);
}

enum status index_list_unsettled(struct index_reader *reader, index_scope_sink sink, void *context,
                                 struct error *error)
{
    return list_scopes(reader, SQL_SCOPE_LIST_UNSETTLED, sink, context, error);
}

enum status index_list_faulty(struct index_reader *reader, enum fact_fault fault,
                              index_scope_sink sink, void *context, struct error *error)
{
    AUTO_RESET sqlite3_stmt *statement = NULL;
    int result = index_statement(&reader->connection, SQL_SCOPE_LIST_FAULT, &statement);

    if (result == SQLITE_OK)
        result = sqlite3_bind_int(statement, 1, (int) fault);
    if (result != SQLITE_OK)
        return index_rows_error(reader, result, "list the scopes", error);
    return each_scope(reader, statement, sink, context, error);
}

enum status index_list_bucket(struct index_reader *reader, bool has_user, const char *bucket,
                              index_scope_sink sink, void *context, struct error *error)
{
    AUTO_RESET sqlite3_stmt *statement = NULL;
    int result = index_statement(&reader->connection, SQL_SCOPE_LIST_BUCKET, &statement);

    if (result == SQLITE_OK)
        result = sqlite3_bind_text(statement, 1, has_user ? bucket : "", -1, SQLITE_STATIC);
    if (result != SQLITE_OK)
        return index_rows_error(reader, result, "list the scopes", error);
    return each_scope(reader, statement, sink, context, error);
}

/* ---- seen entries ---- */

static bool read_seen(sqlite3_stmt *statement, struct seen_entry *ret)
{
    const char *path = (const char *) sqlite3_column_text(statement, 0);
    const char *problem = (const char *) sqlite3_column_text(statement, 9);

    *ret = (struct seen_entry){
        .path = path ? strdup(path) : NULL,
        .is_dir = sqlite3_column_int(statement, 1) == 0,
        .stamp =
            {
                .inode = (uint64_t) sqlite3_column_int64(statement, 2),
                .size = (uint64_t) sqlite3_column_int64(statement, 3),
                .mtime_ns = (uint64_t) sqlite3_column_int64(statement, 4),
                .ctime_ns = (uint64_t) sqlite3_column_int64(statement, 5),
            },
        .clean = sqlite3_column_int(statement, 6) != 0,
        .digest = (uint64_t) sqlite3_column_int64(statement, 7),
        .fault = (enum fact_fault) sqlite3_column_int(statement, 8),
        .problem = problem ? strdup(problem) : NULL,
    };
    return ret->path && (!problem || ret->problem);
}

static int collect_seen(sqlite3_stmt *statement, struct seen_list *list)
{
    size_t capacity = 0;
    int result;

    while ((result = sqlite3_step(statement)) == SQLITE_ROW) {
        if (!array_make_room(&list->entries, list->count, &capacity, sizeof *list->entries))
            return SQLITE_NOMEM;
        if (!read_seen(statement, &list->entries[list->count++]))
            return SQLITE_NOMEM;
    }
    return result;
}

/* Runs a statement whose parameters are bound, when `result` says that they are. */
static enum status list_seen(struct index_reader *reader, sqlite3_stmt *statement, int result,
                             struct seen_list *ret, struct error *error)
{
    AUTO_SEEN struct seen_list list = {0};

    if (result == SQLITE_OK)
        result = collect_seen(statement, &list);
    if (result != SQLITE_DONE)
        return index_reader_error(reader, result, "read what was seen", error);
    *ret = list;
    memset(&list, 0, sizeof list);
    return STATUS_OK;
}

enum status index_read_seen(struct index_reader *reader, int64_t scope_id, struct seen_list *ret,
                            struct error *error)
{
    AUTO_RESET sqlite3_stmt *statement = NULL;
    int result = index_reader_statement(reader, SQL_SEEN_LIST, scope_id, &statement);

    return list_seen(reader, statement, result, ret, error);
}

enum status index_read_special(struct index_reader *reader, int64_t scope_id, struct seen_list *ret,
                               struct error *error)
{
    AUTO_RESET sqlite3_stmt *statement = NULL;
    int result = index_reader_statement(reader, SQL_SEEN_SPECIAL, scope_id, &statement);

    return list_seen(reader, statement, result, ret, error);
}

enum status index_read_below(struct index_reader *reader, int64_t scope_id, const char *directory,
                             struct seen_list *ret, struct error *error)
{
    AUTO_RESET sqlite3_stmt *statement = NULL;
    AUTO_TEXT struct text bounds = {0}; /* "ab/" and "ab0": the byte behind the slash is the zero */
    int length = (int) strlen(directory) + 1;
    int result = index_reader_statement(reader, SQL_SEEN_BELOW, scope_id, &statement);

    text_append_format(&bounds, "%s/%s0", directory, directory);
    if (!text_ok(&bounds))
        result = SQLITE_NOMEM;
    if (result == SQLITE_OK)
        result = sqlite3_bind_text(statement, 2, bounds.bytes, length, SQLITE_STATIC);
    if (result == SQLITE_OK)
        result = sqlite3_bind_text(statement, 3, bounds.bytes + length, length, SQLITE_STATIC);
    return list_seen(reader, statement, result, ret, error);
}

/* ---- totals ---- */

static uint64_t size_of(const char *path)
{
    struct stat info;

    return lstat(path, &info) < 0 ? 0 : (uint64_t) info.st_size;
}

enum status index_totals(struct index_reader *reader, struct index_totals *ret, struct error *error)
{
    AUTO_RESET sqlite3_stmt *statement = NULL;
    int result = index_statement(&reader->connection, SQL_TOTALS, &statement);

    if (result == SQLITE_OK)
        result = sqlite3_step(statement);
    if (result != SQLITE_ROW)
        return index_rows_error(reader, result, "count the facts", error);
    uint64_t log_bytes = size_of(reader->index->log_path);
    *ret = (struct index_totals){
        .scopes = (uint64_t) sqlite3_column_int64(statement, 0),
        .facts = (uint64_t) sqlite3_column_int64(statement, 1),
        .broken = (uint64_t) sqlite3_column_int64(statement, 2),
        .unmigrated = (uint64_t) sqlite3_column_int64(statement, 3),
        .file_bytes = size_of(reader->index->path) + log_bytes,
        .wal_bytes = log_bytes,
    };
    return STATUS_OK;
}
