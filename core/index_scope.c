/* Rows of the scope table: signature, generation, counts, lengths. */
#include "core/index_private.h"

#include "core/clock.h"

#include <string.h>

/* One byte of class and four of count for each class that occurs. */
#define HISTOGRAM_ENTRY 5

unsigned length_histogram_median(const struct length_histogram *histogram)
{
    uint64_t total = 0, below = 0;

    for (size_t i = 0; i < LENGTH_CLASSES; i++)
        total += histogram->counts[i];
    if (total == 0)
        return 0;
    for (unsigned i = 0; i < LENGTH_CLASSES; i++) {
        below += histogram->counts[i];
        if (2 * below >= total)
            return i;
    }
    return LENGTH_CLASSES - 1;
}

static void histogram_read(const unsigned char *bytes, size_t size, struct length_histogram *ret)
{
    memset(ret, 0, sizeof *ret);
    for (size_t at = 0; at + HISTOGRAM_ENTRY <= size; at += HISTOGRAM_ENTRY)
        ret->counts[bytes[at]] = (uint32_t) bytes[at + 1] | (uint32_t) bytes[at + 2] << 8 |
                                 (uint32_t) bytes[at + 3] << 16 | (uint32_t) bytes[at + 4] << 24;
}

static size_t histogram_write(const struct length_histogram *histogram,
                              unsigned char bytes[LENGTH_CLASSES * HISTOGRAM_ENTRY])
{
    size_t size = 0;

    for (size_t i = 0; i < LENGTH_CLASSES; i++) {
        uint32_t count = histogram->counts[i];
        if (count == 0)
            continue;
        bytes[size++] = (unsigned char) i;
        for (unsigned shift = 0; shift < 32; shift += 8)
            bytes[size++] = (unsigned char) (count >> shift);
    }
    return size;
}

/* Columns as in SCOPE_COLUMNS. Unsigned values are stored as 64-bit two's complement. */
void scope_row_read(sqlite3_stmt *statement, bool with_lengths, struct scope_row *ret)
{
    struct manifest_mark *mark = &ret->synced.mark;

    memset(ret, 0, offsetof(struct scope_row, lengths));
    ret->id = sqlite3_column_int64(statement, 0);
    ret->generation = (uint64_t) sqlite3_column_int64(statement, 1);
    ret->synced.known = sqlite3_column_int(statement, 2) != 0;
    mark->signature.absent = sqlite3_column_int(statement, 3) != 0;
    mark->signature.mtime_ns = (uint64_t) sqlite3_column_int64(statement, 4);
    mark->signature.size = (uint64_t) sqlite3_column_int64(statement, 5);
    mark->signature.revision = sqlite3_column_int64(statement, 6);
    mark->signature.digest = (uint64_t) sqlite3_column_int64(statement, 7);
    mark->inode = (uint64_t) sqlite3_column_int64(statement, 8);
    mark->ctime_ns = (uint64_t) sqlite3_column_int64(statement, 9);
    ret->facts = (uint64_t) sqlite3_column_int64(statement, 10);
    ret->broken = (uint64_t) sqlite3_column_int64(statement, 11);
    ret->unmigrated = sqlite3_column_int(statement, 12) != 0;
    ret->next_sequence = sqlite3_column_int64(statement, 13);
    if (with_lengths)
        histogram_read(sqlite3_column_blob(statement, 14),
                       (size_t) sqlite3_column_bytes(statement, 14), &ret->lengths);
}

static int bind_text(sqlite3_stmt *statement, int at, const char *text)
{
    return sqlite3_bind_text(statement, at, text, -1, SQLITE_STATIC);
}

int scope_row_find(struct index_connection *connection, const struct scope *scope,
                   struct scope_row *ret)
{
    AUTO_RESET sqlite3_stmt *statement = NULL;
    int result = index_statement(connection, SQL_SCOPE_FIND, &statement);

    if (result == SQLITE_OK)
        result = bind_text(statement, 1, scope->has_user ? scope->user : "");
    if (result == SQLITE_OK)
        result = bind_text(statement, 2, scope->agent);
    if (result == SQLITE_OK)
        result = sqlite3_step(statement);
    if (result == SQLITE_ROW)
        scope_row_read(statement, true, ret);
    return result;
}

int scope_row_insert(struct index_connection *connection, const struct scope *scope,
                     struct scope_row *ret)
{
    AUTO_RESET sqlite3_stmt *statement = NULL;
    int result = index_statement(connection, SQL_SCOPE_INSERT, &statement);

    if (result == SQLITE_OK)
        result = bind_text(statement, 1, scope->has_user ? scope->user : NULL);
    if (result == SQLITE_OK)
        result = bind_text(statement, 2, scope->has_user ? scope->bucket : "");
    if (result == SQLITE_OK)
        result = bind_text(statement, 3, scope->agent);
    if (result == SQLITE_OK)
        result = sqlite3_step(statement);
    if (result != SQLITE_DONE)
        return result;

    int64_t id = sqlite3_last_insert_rowid(connection->db);
    if (id > INDEX_SCOPE_ID_MAX) /* two thousand million scopes later: start anew */
        return SQLITE_CORRUPT;
    memset(ret, 0, sizeof *ret);
    ret->id = id;
    ret->next_sequence = 1;
    return SQLITE_OK;
}

int scope_row_update(struct index_connection *connection, const struct scope_row *row)
{
    AUTO_RESET sqlite3_stmt *statement = NULL;
    unsigned char lengths[LENGTH_CLASSES * HISTOGRAM_ENTRY];
    size_t lengths_size = histogram_write(&row->lengths, lengths);
    int result = index_statement(connection, SQL_SCOPE_UPDATE, &statement);

    if (result != SQLITE_OK)
        return result;
    const int64_t values[] = {
        row->id,         (int64_t) row->generation, (int64_t) row->facts, (int64_t) row->broken,
        row->unmigrated, row->next_sequence,
    };
    for (int i = 0; i < (int) ARRAY_SIZE(values) && result == SQLITE_OK; i++)
        result = sqlite3_bind_int64(statement, i + 1, values[i]);
    if (result == SQLITE_OK)
        result = sqlite3_bind_blob(statement, 7, lengths, (int) lengths_size, SQLITE_STATIC);
    if (result == SQLITE_OK)
        result = sqlite3_bind_int64(statement, 8, (int64_t) (clock_wall_ns() / NS_PER_SECOND));
    if (result == SQLITE_OK)
        result = sqlite3_step(statement);
    return result == SQLITE_DONE ? SQLITE_OK : result;
}

int scope_row_set_synced(struct index_connection *connection, int64_t id,
                         const struct synced_mark *synced)
{
    static const struct manifest_mark nothing;
    AUTO_RESET sqlite3_stmt *statement = NULL;
    const struct manifest_mark *mark = synced->known ? &synced->mark : &nothing;
    int result = index_statement(connection, SQL_SCOPE_SET_SYNCED, &statement);

    if (result != SQLITE_OK)
        return result;
    const int64_t values[] = {
        id,
        synced->known,
        mark->signature.absent,
        (int64_t) mark->signature.mtime_ns,
        (int64_t) mark->signature.size,
        mark->signature.revision,
        (int64_t) mark->signature.digest,
        (int64_t) mark->inode,
        (int64_t) mark->ctime_ns,
    };
    for (int i = 0; i < (int) ARRAY_SIZE(values) && result == SQLITE_OK; i++)
        result = sqlite3_bind_int64(statement, i + 1, values[i]);
    if (result == SQLITE_OK)
        result = sqlite3_step(statement);
    return result == SQLITE_DONE ? SQLITE_OK : result;
}

int scope_row_forget(struct index_connection *connection, int64_t id)
{
    AUTO_RESET sqlite3_stmt *statement = NULL;
    int result = index_statement(connection, SQL_SCOPE_FORGET, &statement);

    if (result == SQLITE_OK)
        result = sqlite3_bind_int64(statement, 1, id);
    if (result == SQLITE_OK)
        result = sqlite3_step(statement);
    return result == SQLITE_DONE ? SQLITE_OK : result;
}

int scope_row_set_manifest(struct index_connection *connection, int64_t id, const char *bytes,
                           size_t size)
{
    AUTO_RESET sqlite3_stmt *statement = NULL;
    int result = index_statement(connection, SQL_SCOPE_SET_MANIFEST, &statement);

    if (result == SQLITE_OK)
        result = sqlite3_bind_int64(statement, 1, id);
    if (result == SQLITE_OK)
        result = sqlite3_bind_blob64(statement, 2, bytes, size, SQLITE_STATIC);
    if (result == SQLITE_OK)
        result = sqlite3_step(statement);
    return result == SQLITE_DONE ? SQLITE_OK : result;
}
