#include "core/index_mapping.h"
#include "core/index_private.h"
#include "core/index_rank.h"

#include <string.h>

#define SCOPE_COLUMNS                                                                              \
    "id, generation, synced, absent, mtime, size, revision, digest, inode, ctime, facts, broken, " \
    "unmigrated, next_sequence, lengths, user, bucket, agent"

#define SEEN_COLUMNS "path, is_file, inode, size, mtime, ctime, clean, digest, fault, problem"

static const char *const statement_texts[SQL_COUNT] = {
    [SQL_BEGIN] = "BEGIN",
    [SQL_BEGIN_IMMEDIATE] = "BEGIN IMMEDIATE",
    [SQL_COMMIT] = "COMMIT",
    [SQL_ROLLBACK] = "ROLLBACK",
    [SQL_SNAPSHOT] = "SELECT value FROM meta WHERE key = 'schema'",

    [SQL_SCOPE_FIND] =
        "SELECT " SCOPE_COLUMNS " FROM scope WHERE ifnull(user, '') = ?1 AND agent = ?2",
    [SQL_SCOPE_BY_ID] = "SELECT " SCOPE_COLUMNS " FROM scope WHERE id = ?1",
    [SQL_SCOPE_INSERT] = "INSERT INTO scope (user, bucket, agent) VALUES (?1, ?2, ?3)",
    [SQL_SCOPE_UPDATE] =
        "UPDATE scope SET generation = ?2, facts = ?3, broken = ?4, unmigrated = ?5, "
        "next_sequence = ?6, lengths = ?7, used_at = ?8 WHERE id = ?1",
    [SQL_SCOPE_SET_SYNCED] =
        "UPDATE scope SET synced = ?2, absent = ?3, mtime = ?4, size = ?5, revision = ?6, "
        "digest = ?7, inode = ?8, ctime = ?9 WHERE id = ?1",
    [SQL_SCOPE_FORGET] = "UPDATE scope SET synced = 0, absent = 0, mtime = 0, size = 0, "
                         "digest = 0, inode = 0, ctime = 0 WHERE id = ?1",
    [SQL_SCOPE_SET_MANIFEST] = "UPDATE scope SET manifest = ?2 WHERE id = ?1",
    [SQL_SCOPE_MANIFEST] = "SELECT manifest FROM scope WHERE id = ?1",
    [SQL_SCOPE_DELETE] = "DELETE FROM scope WHERE id = ?1",
    [SQL_SCOPE_LIST] = "SELECT " SCOPE_COLUMNS " FROM scope ORDER BY id",
    [SQL_SCOPE_LIST_UNSETTLED] =
        "SELECT " SCOPE_COLUMNS " FROM scope WHERE id IN (SELECT scope_id FROM seen "
        "INDEXED BY seen_special WHERE " INDEX_SEEN_SPECIAL " AND clean = 0 AND ctime <> 0) "
        "ORDER BY id",
    [SQL_SCOPE_LIST_FAULT] =
        "SELECT " SCOPE_COLUMNS " FROM scope WHERE id IN (SELECT scope_id FROM seen "
        "INDEXED BY seen_fault WHERE fault <> 0 AND fault = ?1) ORDER BY id",
    [SQL_SCOPE_LIST_BUCKET] = "SELECT " SCOPE_COLUMNS " FROM scope WHERE bucket = ?1 ORDER BY id",

    [SQL_FACT_BY_PATH] = "SELECT id, document FROM fact WHERE scope_id = ?1 AND path = ?2",
    [SQL_FACT_INSERT] = "INSERT INTO fact (id, scope_id, path, fact_id, category, created_at, "
                        "confidence, content_key, document) "
                        "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    [SQL_FACT_DELETE] = "DELETE FROM fact WHERE id = ?1",
    [SQL_FACT_MOVE] = "UPDATE fact SET id = ?2 WHERE id = ?1",
    [SQL_FACT_ROWIDS] = "SELECT id, path FROM fact WHERE id BETWEEN ?1 AND ?2 ORDER BY id",
    [SQL_FACT_DOCUMENT] = "SELECT document FROM fact WHERE id = ?1",
    [SQL_FACT_CANDIDATE] =
        "SELECT confidence, created_at, category, document FROM fact WHERE id = ?1",
    [SQL_FACT_SCAN] = "SELECT confidence, created_at, category, document, fact_id, id FROM fact "
                      "WHERE id BETWEEN ?1 AND ?2 ORDER BY id",
    [SQL_FACT_LIST] = "SELECT path, document FROM fact WHERE scope_id = ?1 AND "
                      "(?2 IS NULL OR category = ?2) ORDER BY fact_id, path LIMIT ?3 OFFSET ?4",
    [SQL_FACT_COUNT] =
        "SELECT count(*) FROM fact WHERE scope_id = ?1 AND (?2 IS NULL OR category = ?2)",
    [SQL_FACT_BY_ID] =
        "SELECT path, document FROM fact WHERE scope_id = ?1 AND fact_id = ?2 ORDER BY path",
    [SQL_FACT_BY_CONTENT] = "SELECT path, document FROM fact INDEXED BY fact_content "
                            "WHERE scope_id = ?1 AND content_key = ?2 ORDER BY fact_id, path",

    [SQL_FTS_INSERT] = "INSERT INTO fts (rowid, content) VALUES (?1, ?2)",
    [SQL_FTS_DELETE] = "INSERT INTO fts (fts, rowid, content) VALUES ('delete', ?1, ?2)",
    [SQL_FTS_MATCH] = "SELECT " RANK_FUNCTION "(fts, ?1) FROM fts WHERE fts MATCH ?2",
    [SQL_FTS_MERGE] = "INSERT INTO fts (fts, rank) VALUES ('merge', ?1)",

    [SQL_SEEN_PUT] = "INSERT OR REPLACE INTO seen (scope_id, path, is_file, inode, size, mtime, "
                     "ctime, clean, digest, fault, problem) "
                     "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
    [SQL_SEEN_DELETE] = "DELETE FROM seen WHERE scope_id = ?1 AND is_file IN (0, 1) AND path = ?2",
    [SQL_SEEN_DELETE_ALL] = "DELETE FROM seen WHERE scope_id = ?1",
    [SQL_SEEN_LIST] =
        "SELECT " SEEN_COLUMNS " FROM seen WHERE scope_id = ?1 ORDER BY is_file, path",
    [SQL_SEEN_SPECIAL] =
        "SELECT " SEEN_COLUMNS " FROM seen WHERE scope_id = ?1 AND is_file = 0 "
        "UNION ALL "
        "SELECT " SEEN_COLUMNS " FROM seen INDEXED BY seen_special "
        "WHERE scope_id = ?1 AND is_file = 1 AND " INDEX_SEEN_SPECIAL " ORDER BY is_file, path",
    [SQL_SEEN_BELOW] = "SELECT " SEEN_COLUMNS " FROM seen WHERE scope_id = ?1 AND is_file = 1 AND "
                       "path > ?2 AND path < ?3 ORDER BY path",
    [SQL_SEEN_COUNT_BROKEN] = "SELECT count(*) FROM seen INDEXED BY seen_fault "
                              "WHERE scope_id = ?1 AND fault <> 0",
    [SQL_SEEN_PROBLEMS] = "SELECT path, fault, problem FROM seen INDEXED BY seen_fault "
                          "WHERE scope_id = ?1 AND fault <> 0 ORDER BY path",
    [SQL_TOTALS] = "SELECT count(*), total(facts), total(broken), total(unmigrated) FROM scope",
};

int index_statement(struct index_connection *connection, enum index_sql sql, sqlite3_stmt **ret)
{
    sqlite3_stmt **slot = &connection->statements[sql];

    if (!connection->db)
        return SQLITE_MISUSE;
    if (!*slot) {
        int result = sqlite3_prepare_v3(connection->db, statement_texts[sql], -1,
                                        SQLITE_PREPARE_PERSISTENT, slot, NULL);
        if (result != SQLITE_OK)
            return result;
    }
    *ret = *slot;
    return SQLITE_OK;
}

int index_run(struct index_connection *connection, enum index_sql sql)
{
    AUTO_RESET sqlite3_stmt *statement = NULL;
    int result = index_statement(connection, sql, &statement);

    if (result != SQLITE_OK)
        return result;
    if (index_mapping_has_lost())
        return SQLITE_CORRUPT;
    do {
        result = sqlite3_step(statement);
    } while (result == SQLITE_ROW);
    return result == SQLITE_DONE ? SQLITE_OK : result;
}

void index_reset_statements(struct index_connection *connection)
{
    for (size_t i = 0; i < SQL_COUNT; i++)
        cleanup_statement(&connection->statements[i]);
}

void index_disconnect(struct index_connection *connection, bool may_checkpoint)
{
    for (size_t i = 0; i < SQL_COUNT; i++)
        (void) sqlite3_finalize(connection->statements[i]);
    if (connection->db && !may_checkpoint)
        (void) sqlite3_db_config(connection->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    (void) sqlite3_close_v2(connection->db);
    memset(connection, 0, sizeof *connection);
}
