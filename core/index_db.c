/* The index's life: opening, checking, closing, setting aside, and its connections. */
#include "core/index_private.h"

#include "core/analyzer.h"
#include "core/clock.h"
#include "core/index_mapping.h"
#include "core/index_rank.h"
#include "core/text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define BUSY_TIMEOUT_MS 5000
#define WAL_BYTES_DEFAULT (64u << 20)
#define CHECKPOINT_PAGES 4000            /* within a commit: a write waits for it, so seldom */
#define CHECKPOINT_IDLE_BYTES (4u << 20) /* in idle slices: nobody waits, so early */
#define MERGE_PAGES 16

#define LOST_PAGE_TEXT "a part of a file of the index is not on disk any more"
#define EMPTIED_TEXT "the index file was emptied"

/* ---- errors ---- */

void index_remember_damage(struct index *index, uint64_t epoch, const char *message)
{
    pthread_mutex_lock(&index->lock);
    if (epoch == atomic_load(&index->epoch) && !atomic_exchange(&index->damaged, true)) {
        size_t length = text_cut(message, strlen(message), sizeof index->damage_text - 1);
        memcpy(index->damage_text, message, length);
        index->damage_text[length] = '\0';
    }
    pthread_mutex_unlock(&index->lock);
}

/* All SQL is fixed and was prepared once, so a plain SQLITE_ERROR means that tables are not what
 * they were. FTS5 names itself when it objects to an expression, which would be a mistake of ours.
 */
static bool tells_of_a_mistake(const char *message)
{
    return strncmp(message, "fts5", 4) == 0 || strstr(message, "syntax error") != NULL;
}

static enum status status_of_io(int result)
{
    switch (result) {
    case SQLITE_IOERR_SHORT_READ:
    case SQLITE_IOERR_CORRUPTFS:
    case SQLITE_IOERR_DATA:
        return STATUS_CORRUPT;
    default: /* SQLITE_IOERR_NOMEM is SQLITE_NOMEM before a call returns */
        return STATUS_IO;
    }
}

static enum status status_of_sqlite(int result, const char *message)
{
    switch (result & 0xff) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_CANTOPEN:
    case SQLITE_FORMAT:
    case SQLITE_CONSTRAINT: /* counters and rows disagree */
    case SQLITE_MISMATCH:
        return STATUS_CORRUPT;
    case SQLITE_ERROR:
        return tells_of_a_mistake(message) ? STATUS_INTERNAL : STATUS_CORRUPT;
    case SQLITE_IOERR:
        return status_of_io(result);
    case SQLITE_READONLY:
        return result == SQLITE_READONLY_DBMOVED ? STATUS_CORRUPT : STATUS_DENIED;
    case SQLITE_PERM:
        return STATUS_DENIED;
    case SQLITE_FULL:
        return STATUS_STORAGE_FULL;
    case SQLITE_NOMEM:
        return STATUS_NO_MEMORY;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL:
        return STATUS_BUSY;
    case SQLITE_TOOBIG:
        return STATUS_TOO_LARGE;
    default:
        return STATUS_INTERNAL;
    }
}

enum status index_sqlite_error(struct index *index, struct index_connection *connection, int result,
                               const char *doing, struct error *error)
{
    bool current =
        connection->db && (sqlite3_extended_errcode(connection->db) & 0xff) == (result & 0xff);
    const char *message = current ? sqlite3_errmsg(connection->db) : sqlite3_errstr(result);
    enum status status = status_of_sqlite(result, message);

    if (index_mapping_has_lost()) { /* whatever else SQLite makes of it */
        status = STATUS_CORRUPT;
        message = LOST_PAGE_TEXT;
        index_mapping_forget();
    }
    if (status == STATUS_NO_MEMORY)
        connection->lacked_memory = true;
    if (status == STATUS_CORRUPT)
        index_remember_damage(index, connection->epoch, message);
    return error_set(error, status, NULL, "cannot %s: %s", doing, message);
}

int index_column_missing(sqlite3_stmt *statement)
{
    int result = sqlite3_errcode(sqlite3_db_handle(statement));

    return result == SQLITE_NOMEM ? SQLITE_NOMEM : SQLITE_CORRUPT;
}

bool index_is_damaged(const struct index *index)
{
    return atomic_load(&index->damaged);
}

void index_damage_text(struct index *index, char *ret, size_t size)
{
    pthread_mutex_lock(&index->lock);
    (void) snprintf(ret, size, "%s", index->damage_text);
    pthread_mutex_unlock(&index->lock);
}

/* ---- whose file is it ---- */

static uint64_t size_of(const char *path)
{
    struct stat info;

    return lstat(path, &info) < 0 ? 0 : (uint64_t) info.st_size;
}

static bool identity_equal(struct file_identity a, struct file_identity b)
{
    return a.device == b.device && a.inode == b.inode;
}

static void remember_files(struct index *index)
{
    struct file_identity database = file_identity_of(index->path);
    struct file_identity log = file_identity_of(index->log_path);

    pthread_mutex_lock(&index->lock);
    index->database = database;
    index->log = log;
    pthread_mutex_unlock(&index->lock);
}

bool index_file_was_replaced(struct index *index)
{
    struct file_identity database = file_identity_of(index->path);
    struct file_identity log = file_identity_of(index->log_path);

    pthread_mutex_lock(&index->lock);
    bool same = identity_equal(database, index->database) && identity_equal(log, index->log);
    pthread_mutex_unlock(&index->lock);
    return !same;
}

/* SQLite itself removes the log of a file that it finds empty. */
const char *index_replaced_text(struct index *index)
{
    struct file_identity database = file_identity_of(index->path);

    pthread_mutex_lock(&index->lock);
    bool same = identity_equal(database, index->database);
    pthread_mutex_unlock(&index->lock);
    if (!same)
        return "the index file was removed or replaced";
    return size_of(index->path) == 0 ? EMPTIED_TEXT : "the index's log was removed or replaced";
}

/* ---- connections ---- */

/* The timeout comes first: every later pragma may meet a lock. */
static int apply_pragmas(const struct index *index, sqlite3 *db, bool writer)
{
    char sql[512];
    int result = sqlite3_busy_timeout(db, BUSY_TIMEOUT_MS);

    if (result != SQLITE_OK)
        return result;
    (void) snprintf(sql, sizeof sql,
                    "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; "
                    "PRAGMA wal_autocheckpoint = %d; PRAGMA journal_size_limit = %" PRIu64 "; "
                    "PRAGMA temp_store = MEMORY; PRAGMA mmap_size = %" PRIu64 ";%s",
                    CHECKPOINT_PAGES, index->wal_bytes_max / 2, index->mmap_bytes,
                    writer ? "" : " PRAGMA query_only = 1;");
    return sqlite3_exec(db, sql, NULL, NULL, NULL);
}

static int set_up_connection(const struct index *index, bool writer, struct index_connection *ret)
{
    int result = sqlite3_extended_result_codes(ret->db, 1);

    if (result == SQLITE_OK)
        result = sqlite3_db_config(ret->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    if (result == SQLITE_OK)
        result = apply_pragmas(index, ret->db, writer);
    if (result == SQLITE_OK)
        result = index_tokenizer_register(ret->db, &ret->scope);
    if (result == SQLITE_OK)
        result = index_rank_register(ret->db);
    return result;
}

enum status index_connect(struct index *index, bool writer, struct index_connection *ret,
                          struct error *error)
{
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE |
                (writer ? SQLITE_OPEN_CREATE : 0);
    struct index_connection connection = {.epoch = index_epoch(index)};
    index_mapping_forget(); /* what was met before is not of this file */
    int result = sqlite3_open_v2(index->path, &connection.db, flags, NULL);

    if (result == SQLITE_OK)
        result = set_up_connection(index, writer, &connection);
    if (result != SQLITE_OK) {
        enum status status =
            index_sqlite_error(index, &connection, result, "open the index", error);
        index_disconnect(&connection, false);
        return status;
    }
    *ret = connection;
    return STATUS_OK;
}

/* ---- schema ---- */

static const char schema_text[] =
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;"
    "CREATE TABLE scope ("
    "  id INTEGER PRIMARY KEY AUTOINCREMENT,"
    "  user TEXT,"            /* the raw id; NULL: the volume's root */
    "  bucket TEXT NOT NULL," /* '' for the root */
    "  agent TEXT NOT NULL,"
    "  generation INTEGER NOT NULL DEFAULT 0,"
    "  synced INTEGER NOT NULL DEFAULT 0,"
    "  absent INTEGER NOT NULL DEFAULT 0,"
    "  mtime INTEGER NOT NULL DEFAULT 0,"
    "  size INTEGER NOT NULL DEFAULT 0,"
    "  revision INTEGER NOT NULL DEFAULT 0,"
    "  digest INTEGER NOT NULL DEFAULT 0,"
    "  inode INTEGER NOT NULL DEFAULT 0,"
    "  ctime INTEGER NOT NULL DEFAULT 0,"
    "  facts INTEGER NOT NULL DEFAULT 0,"
    "  broken INTEGER NOT NULL DEFAULT 0,"
    "  unmigrated INTEGER NOT NULL DEFAULT 0,"
    "  next_sequence INTEGER NOT NULL DEFAULT 1,"
    "  used_at INTEGER NOT NULL DEFAULT 0,"
    "  lengths BLOB NOT NULL DEFAULT x'',"
    "  manifest BLOB);" /* NULL: there was none; last, for what is not read is not loaded */
    "CREATE UNIQUE INDEX scope_name ON scope (ifnull(user, ''), agent);"
    "CREATE INDEX scope_bucket ON scope (bucket);"
    "CREATE TABLE fact ("
    "  id INTEGER PRIMARY KEY," /* INDEX_ROWID() */
    "  scope_id INTEGER NOT NULL,"
    "  path TEXT NOT NULL,"
    "  fact_id TEXT NOT NULL,"
    "  category TEXT NOT NULL,"
    "  created_at INTEGER NOT NULL," /* microseconds since 1970; 0: not told */
    "  confidence REAL,"
    "  content_key INTEGER NOT NULL," /* content_key_hash() */
    "  document TEXT NOT NULL);"
    "CREATE UNIQUE INDEX fact_path ON fact (scope_id, path);"
    "CREATE INDEX fact_name ON fact (scope_id, fact_id, path);"
    "CREATE INDEX fact_content ON fact (scope_id, content_key);"
    "CREATE TABLE seen ("
    "  scope_id INTEGER NOT NULL,"
    "  path TEXT NOT NULL,"
    "  is_file INTEGER NOT NULL," /* else a directory; they lie together, for each refresh reads
                                     them */
    "  inode INTEGER NOT NULL,"
    "  size INTEGER NOT NULL,"
    "  mtime INTEGER NOT NULL,"
    "  ctime INTEGER NOT NULL,"
    "  clean INTEGER NOT NULL,"
    "  digest INTEGER NOT NULL,"
    "  fault INTEGER NOT NULL,"
    "  problem TEXT,"
    "  PRIMARY KEY (scope_id, is_file, path)) WITHOUT ROWID;"
    "CREATE INDEX seen_fault ON seen (scope_id, path) WHERE fault <> 0;"
    "CREATE INDEX seen_special ON seen (scope_id, is_file, path) WHERE " INDEX_SEEN_SPECIAL ";"
    "CREATE VIRTUAL TABLE fts USING fts5 (content, content = '', columnsize = 0, detail = full, "
    "tokenize = 'memsync');"
    /* merging within a commit made one write in fifty wait for 10 ms and more: idle slices do it */
    "INSERT INTO fts (fts, rank) VALUES ('automerge', 0);"
    "INSERT INTO fts (fts, rank) VALUES ('crisismerge', 16);"
    "INSERT INTO fts (fts, rank) VALUES ('usermerge', 2);";

static int create_schema(const struct index *index)
{
    sqlite3 *db = index->writer.db;
    char *meta = sqlite3_mprintf("INSERT INTO meta VALUES ('schema', '%d'), ('analyzer', %Q), "
                                 "('identity', '');",
                                 INDEX_SCHEMA_VERSION, analyzer_version());
    int result = meta ? sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL) : SQLITE_NOMEM;

    if (result == SQLITE_OK)
        result = sqlite3_exec(db, schema_text, NULL, NULL, NULL);
    if (result == SQLITE_OK)
        result = sqlite3_exec(db, meta, NULL, NULL, NULL);
    if (result == SQLITE_OK)
        result = sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
    sqlite3_free(meta);
    return result;
}

/* How many tables and the like there are; 0 in a file that was just made. */
static int count_objects(sqlite3 *db, int *ret)
{
    sqlite3_stmt *statement = NULL;
    int result = sqlite3_prepare_v2(db, "SELECT count(*) FROM sqlite_schema", -1, &statement, NULL);

    if (result == SQLITE_OK)
        result = sqlite3_step(statement);
    if (result == SQLITE_ROW)
        *ret = sqlite3_column_int(statement, 0);
    (void) sqlite3_finalize(statement);
    return result == SQLITE_ROW ? SQLITE_OK : result;
}

static int meta_differs(sqlite3 *db, const char *key, const char *wanted, bool *ret)
{
    sqlite3_stmt *statement = NULL;
    int result =
        sqlite3_prepare_v2(db, "SELECT value FROM meta WHERE key = ?1", -1, &statement, NULL);

    if (result == SQLITE_OK)
        result = sqlite3_bind_text(statement, 1, key, -1, SQLITE_STATIC);
    if (result == SQLITE_OK)
        result = sqlite3_step(statement);
    if (result == SQLITE_ROW) {
        const char *value = (const char *) sqlite3_column_text(statement, 0);
        if (!value && index_column_missing(statement) == SQLITE_NOMEM)
            result = SQLITE_NOMEM;
        *ret = !value || strcmp(value, wanted) != 0;
    } else if (result == SQLITE_DONE) {
        *ret = true;
    }
    (void) sqlite3_finalize(statement);
    return result == SQLITE_ROW || result == SQLITE_DONE ? SQLITE_OK : result;
}

/* Compares what the file says of itself with what this program needs. */
static enum status match_versions(struct index *index, struct error *error)
{
    char schema[16];
    const struct {
        const char *key;
        const char *wanted;
        const char *reason;
    } rows[] = {
        {"schema", schema, "the index has another schema version"},
        {"analyzer", analyzer_version(), "the index was made by another version of the analyzer"},
    };

    (void) snprintf(schema, sizeof schema, "%d", INDEX_SCHEMA_VERSION);
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        bool differs = false;
        int result = meta_differs(index->writer.db, rows[i].key, rows[i].wanted, &differs);
        if (result != SQLITE_OK)
            return index_sqlite_error(index, &index->writer, result, "read the index's version",
                                      error);
        if (differs) {
            index_remember_damage(index, index->writer.epoch, rows[i].reason);
            return error_set(error, STATUS_CORRUPT, NULL, "%s", rows[i].reason);
        }
    }
    return STATUS_OK;
}

/* Every table and column that we will ask for is there. */
static enum status match_tables(struct index *index, struct error *error)
{
    for (unsigned sql = 0; sql < SQL_COUNT; sql++) {
        sqlite3_stmt *statement;
        int result = index_statement(&index->writer, sql, &statement);
        if (result != SQLITE_OK)
            return index_sqlite_error(index, &index->writer, result, "use the index", error);
    }
    return STATUS_OK;
}

/* ---- opening ---- */

static enum status check_file(struct index *index, struct error *error)
{
    char reason[ERROR_MESSAGE_MAX] = "";

    int result = index_check(&index->writer, reason, sizeof reason);
    if (result == SQLITE_OK)
        return STATUS_OK;
    if (result != SQLITE_CORRUPT)
        return index_sqlite_error(index, &index->writer, result, "check the index", error);
    index_remember_damage(index, index_epoch(index), reason);
    return error_set(error, STATUS_CORRUPT, NULL, "the index is damaged: %s", reason);
}

/* Opens the file as it lies; STATUS_CORRUPT when it cannot be used. */
static enum status open_file(struct index *index, bool needs_check, struct error *error)
{
    int objects = 0;
    enum status status = index_connect(index, true, &index->writer, error);

    if (status != STATUS_OK)
        return status;
    int result = count_objects(index->writer.db, &objects);
    if (result == SQLITE_OK && objects == 0) {
        result = create_schema(index);
    } else if (result == SQLITE_OK) {
        status = match_versions(index, error);
        if (status == STATUS_OK)
            status = match_tables(index, error);
        if (status == STATUS_OK && needs_check)
            status = check_file(index, error);
    }
    if (result != SQLITE_OK)
        status = index_sqlite_error(index, &index->writer, result, "open the index", error);
    if (status == STATUS_OK)
        remember_files(index);
    return status;
}

static enum status start_anew(struct index *index, struct error *error)
{
    index_disconnect(&index->writer, false);
    enum status status = index_files_lock_again(index, error);
    if (status == STATUS_OK)
        status = index_files_set_aside(index, error);
    return status == STATUS_OK ? open_file(index, false, error) : status;
}

/* A directory that cannot be written shows as a file that cannot be opened; that is no damage. */
static bool directory_is_usable(const struct index *index)
{
    return access(index->directory, R_OK | W_OK | X_OK) == 0 &&
           (access(index->path, F_OK) < 0 || access(index->path, R_OK | W_OK) == 0);
}

static enum status open_or_start_anew(struct index *index, bool *ret_rebuilt, struct error *error)
{
    bool is_empty = size_of(index->path) == 0;
    bool is_new = is_empty && access(index->path, F_OK) < 0;
    bool clean = index_files_take_clean_mark(index);
    enum status status;

    if (!directory_is_usable(index))
        return error_set_errno(error, errno, NULL, "cannot use the index directory %s",
                               index->directory);
    status = open_file(index, !clean, error);
    bool rebuilt = status == STATUS_CORRUPT;
    if (rebuilt) {
        log_warning("index.rebuilt", "reason=%s", LOG_VALUE(index->damage_text));
        status = start_anew(index, error);
        atomic_store(&index->damaged, false);
    } else if (is_empty && !is_new) {
        log_warning("index.rebuilt", "reason=%s", LOG_VALUE(EMPTIED_TEXT));
    }
    if (status == STATUS_OK)
        *ret_rebuilt = rebuilt || is_empty;
    return status;
}

static void index_free(struct index *index)
{
    index_disconnect(&index->writer, false);
    if (index->lock_fd >= 0)
        (void) close(index->lock_fd);
    pthread_mutex_destroy(&index->lock);
    free(index->directory);
    free(index->path);
    free(index->log_path);
    free(index->shared_path);
    free(index);
}

static char *join_path(const char *directory, const char *name)
{
    char *path = NULL;

    return asprintf(&path, "%s/%s", directory, name) < 0 ? NULL : path;
}

static struct index *index_allocate(const struct index_options *options)
{
    struct index *index = calloc(1, sizeof *index);

    if (!index)
        return NULL;
    index->lock_fd = -1;
    pthread_mutex_init(&index->lock, NULL);
    index->mmap_bytes = options->mmap_bytes;
    index->wal_bytes_max = options->wal_bytes_max ? options->wal_bytes_max : WAL_BYTES_DEFAULT;
    index->directory = strdup(options->directory);
    index->path = join_path(options->directory, INDEX_FILE_NAME);
    index->log_path = join_path(options->directory, INDEX_FILE_NAME "-wal");
    index->shared_path = join_path(options->directory, INDEX_FILE_NAME "-shm");
    if (!index->directory || !index->path || !index->log_path || !index->shared_path) {
        index_free(index);
        return NULL;
    }
    return index;
}

static enum status read_identity(struct index *index, struct error *error);

enum status index_open(const struct index_options *options, struct index **ret, bool *ret_rebuilt,
                       struct error *error)
{
    struct index *index = index_allocate(options);

    if (!index)
        return error_set(error, STATUS_NO_MEMORY, NULL, "no memory for the index");
    index_mapping_guard();
    enum status status = index_files_lock(index, error);
    if (status == STATUS_OK)
        status = open_or_start_anew(index, ret_rebuilt, error);
    if (status == STATUS_OK)
        status = read_identity(index, error);
    if (status != STATUS_OK) {
        index_free(index);
        return status;
    }
    *ret = index;
    return STATUS_OK;
}

void index_close(struct index **index)
{
    if (!*index)
        return;
    bool sound = !index_is_damaged(*index) && !index_file_was_replaced(*index);
    index_disconnect(&(*index)->writer, sound);
    if (sound)
        index_files_set_clean_mark(*index);
    index_free(*index);
    *index = NULL;
}

const char *index_path(const struct index *index)
{
    return index->path;
}

uint64_t index_epoch(const struct index *index)
{
    return atomic_load(&index->epoch);
}

/* Readers refuse while the flag is up, and must see the new epoch before it goes down: else one
 * would read on in the old file. */
enum status index_rebuild(struct index *index, const char *reason, struct error *error)
{
    index_remember_damage(index, index_epoch(index), reason);
    enum status status = start_anew(index, error);

    if (status != STATUS_OK)
        return status;
    pthread_mutex_lock(&index->lock);
    index->writer.epoch = atomic_fetch_add(&index->epoch, 1) + 1;
    atomic_store(&index->damaged, false);
    pthread_mutex_unlock(&index->lock);
    return STATUS_OK;
}

/* ---- maintenance ---- */

static void checkpoint(struct index *index, int mode)
{
    int result = sqlite3_wal_checkpoint_v2(index->writer.db, NULL, mode, NULL, NULL);

    if (result != SQLITE_OK && result != SQLITE_BUSY) {
        struct error error;
        (void) index_sqlite_error(index, &index->writer, result, "write the log back", &error);
        log_warning("index.checkpoint", "problem=%s", LOG_VALUE(error.message));
    }
}

/* A log beyond its bound is written back whole and cut, as soon as no reader needs it. */
static void bound_log(struct index *index)
{
    uint64_t bytes = size_of(index->log_path);

    if (bytes > index->wal_bytes_max) {
        (void) sqlite3_busy_timeout(index->writer.db, 10);
        checkpoint(index, SQLITE_CHECKPOINT_TRUNCATE);
        (void) sqlite3_busy_timeout(index->writer.db, BUSY_TIMEOUT_MS);
        bytes = size_of(index->log_path);
    } else if (bytes > CHECKPOINT_IDLE_BYTES) {
        checkpoint(index, SQLITE_CHECKPOINT_PASSIVE);
    }
    bool over = bytes > index->wal_bytes_max;
    if (log_gate_change(&index->wal_gate, over))
        log_warning("index.wal", "over_bound=%s bytes=%" PRIu64 " bound=%" PRIu64,
                    over ? "true" : "false", bytes, index->wal_bytes_max);
}

/* One slice of merging; false when there was nothing to merge. */
static bool merge_slice(struct index *index)
{
    AUTO_RESET sqlite3_stmt *statement = NULL;
    sqlite3 *db = index->writer.db;
    int before = sqlite3_total_changes(db);
    int result = index_statement(&index->writer, SQL_FTS_MERGE, &statement);

    if (result == SQLITE_OK)
        result = sqlite3_bind_int(statement, 1, MERGE_PAGES);
    if (result == SQLITE_OK)
        result = sqlite3_step(statement);
    if (result != SQLITE_DONE) {
        struct error error;
        (void) index_sqlite_error(index, &index->writer, result, "merge", &error);
        log_warning("index.merge", "problem=%s", LOG_VALUE(error.message));
        return false;
    }
    return sqlite3_total_changes(db) - before >= 2;
}

bool index_maintain(struct index *index, unsigned budget_ms)
{
    uint64_t deadline_ns = clock_deadline_ms(budget_ms);
    bool more = !index_is_damaged(index) && !index->writer.lacked_memory; /* the next install's */

    while (more && clock_monotonic_ns() < deadline_ns)
        more = merge_slice(index);
    if (!index_is_damaged(index))
        bound_log(index);
    return more;
}

/* ---- whose index it is ---- */

void index_identity(struct index *index, char *ret, size_t size)
{
    pthread_mutex_lock(&index->lock);
    (void) snprintf(ret, size, "%s", index->identity);
    pthread_mutex_unlock(&index->lock);
}

/* Runs a statement on `meta` with one text parameter; a row's text goes to `ret`. */
static int meta_step(sqlite3 *db, const char *sql, const char *parameter, char *ret, size_t size)
{
    sqlite3_stmt *statement = NULL;
    int result = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);

    if (result == SQLITE_OK && parameter)
        result = sqlite3_bind_text(statement, 1, parameter, -1, SQLITE_STATIC);
    if (result == SQLITE_OK)
        result = sqlite3_step(statement);
    if (result == SQLITE_ROW && ret) {
        const char *text = (const char *) sqlite3_column_text(statement, 0);
        if (text)
            (void) snprintf(ret, size, "%s", text);
        else
            result = index_column_missing(statement);
    }
    (void) sqlite3_finalize(statement);
    return result == SQLITE_ROW || result == SQLITE_DONE ? SQLITE_OK : result;
}

static enum status read_identity(struct index *index, struct error *error)
{
    char identity[sizeof index->identity] = "";
    int result = meta_step(index->writer.db, "SELECT value FROM meta WHERE key = 'identity'", NULL,
                           identity, sizeof identity);

    if (result != SQLITE_OK)
        return index_sqlite_error(index, &index->writer, result, "read the index's identity",
                                  error);
    pthread_mutex_lock(&index->lock);
    memcpy(index->identity, identity, sizeof identity);
    pthread_mutex_unlock(&index->lock);
    return STATUS_OK;
}

enum status index_set_identity(struct index *index, const char *identity, struct error *error)
{
    int result = meta_step(index->writer.db,
                           "INSERT OR REPLACE INTO meta (key, value) VALUES ('identity', ?1)",
                           identity, NULL, 0);

    if (result != SQLITE_OK)
        return index_sqlite_error(index, &index->writer, result, "write the index's identity",
                                  error);
    return read_identity(index, error);
}
