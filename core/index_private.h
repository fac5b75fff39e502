/* core/index_private.h - what the index_* modules share and nobody else sees. */
#ifndef MEMSYNC_CORE_INDEX_PRIVATE_H
#define MEMSYNC_CORE_INDEX_PRIVATE_H

#include "core/index.h"
#include "core/index_tokenizer.h"
#include "core/log.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <sys/types.h>

/* A fact's rowid tells its scope, its number within the scope and its quantised length:
 *     scope << 32 | sequence << 8 | length
 * so that ranking needs no look-up, and rows of a scope lie together. */
#define INDEX_SEQUENCE_MAX ((INT64_C(1) << 24) - 1)
#define INDEX_SCOPE_ID_MAX ((INT64_C(1) << 31) - 1)
#define INDEX_ROWID(scope_id, sequence, length)                                                    \
    (((int64_t) (scope_id) << 32) | ((int64_t) (sequence) << 8) | (int64_t) (length))
#define INDEX_ROWID_LENGTH(rowid) ((unsigned) ((rowid) &0xff))

/* Seen entries that a refresh needs beside those of all directories (index_read_special()): stamps
 * that are not trusted, files that have a fault, and those that no directory leads to. */
#define INDEX_SEEN_SPECIAL "(clean = 0 OR fault <> 0 OR (is_file = 1 AND instr(path, '/') = 0))"

enum index_sql {
    SQL_BEGIN,
    SQL_BEGIN_IMMEDIATE,
    SQL_COMMIT,
    SQL_ROLLBACK,
    SQL_SNAPSHOT,
    SQL_SCOPE_FIND,
    SQL_SCOPE_BY_ID,
    SQL_SCOPE_INSERT,
    SQL_SCOPE_UPDATE,
    SQL_SCOPE_SET_SYNCED,
    SQL_SCOPE_FORGET,
    SQL_SCOPE_SET_MANIFEST,
    SQL_SCOPE_MANIFEST,
    SQL_SCOPE_DELETE,
    SQL_SCOPE_LIST,
    SQL_SCOPE_LIST_UNSETTLED,
    SQL_SCOPE_LIST_FAULT,
    SQL_SCOPE_LIST_BUCKET,
    SQL_FACT_BY_PATH,
    SQL_FACT_INSERT,
    SQL_FACT_DELETE,
    SQL_FACT_MOVE,
    SQL_FACT_ROWIDS,
    SQL_FACT_DOCUMENT,
    SQL_FACT_CANDIDATE,
    SQL_FACT_SCAN,
    SQL_FACT_LIST,
    SQL_FACT_COUNT,
    SQL_FACT_BY_ID,
    SQL_FACT_BY_CONTENT,
    SQL_FTS_INSERT,
    SQL_FTS_DELETE,
    SQL_FTS_MATCH,
    SQL_FTS_MERGE,
    SQL_SEEN_PUT,
    SQL_SEEN_DELETE,
    SQL_SEEN_DELETE_ALL,
    SQL_SEEN_LIST,
    SQL_SEEN_SPECIAL,
    SQL_SEEN_BELOW,
    SQL_SEEN_COUNT_BROKEN,
    SQL_SEEN_PROBLEMS,
    SQL_TOTALS,
    SQL_COUNT
};

struct index_connection {
    sqlite3 *db;
    uint64_t epoch;     /* of the file that it has open */
    bool lacked_memory; /* so what FTS5 keeps of its tables may be anything: it is opened anew */
    struct token_scope *scope; /* lives as long as db */
    sqlite3_stmt *statements[SQL_COUNT];
};

struct file_identity {
    dev_t device; /* all 0: there is no such file */
    ino_t inode;
};

struct index {
    /* set once */
    char *directory;
    char *path;
    char *log_path;
    char *shared_path;
    uint64_t mmap_bytes;
    uint64_t wal_bytes_max;
    int lock_fd;

    struct index_connection writer; /* the install thread's */
    struct log_gate wal_gate;       /* the same */

    _Atomic uint64_t epoch;
    atomic_bool damaged;

    pthread_mutex_t lock; /* a leaf; guards what follows */
    struct file_identity database;
    struct file_identity log;
    char damage_text[ERROR_MESSAGE_MAX];
    char identity[INDEX_IDENTITY_SIZE];
};

struct index_reader {
    struct index *index;
    struct index_connection connection; /* db NULL: to be opened at the next begin */
    bool in_snapshot;
    uint64_t deadline_ns; /* of the call under way */
};

/* ---- connections and statements ---- */

/* Opens a connection with its pragmas, the tokenizer and the ranking function. The writer creates
 * the file; a reader refuses one that is not the writer's. */
MUST_CHECK enum status index_connect(struct index *index, bool writer, struct index_connection *ret,
                                     struct error *error);
/* `may_checkpoint` false leaves the log alone, e.g. since it may belong to somebody else by now. */
void index_disconnect(struct index_connection *connection, bool may_checkpoint);

/* The prepared statement, reset and without bindings. */
MUST_CHECK int index_statement(struct index_connection *connection, enum index_sql sql,
                               sqlite3_stmt **ret);
/* Runs a statement without parameters to its end. An SQLite result code, SQLITE_OK when done;
 * SQLITE_CORRUPT when this thread has met a lost page (core/index_mapping.h): no transaction may
 * end well on what was read there. */
MUST_CHECK int index_run(struct index_connection *connection, enum index_sql sql);
void index_reset_statements(struct index_connection *connection);

static inline void cleanup_statement(sqlite3_stmt **statement)
{
    if (*statement) {
        (void) sqlite3_reset(*statement);
        (void) sqlite3_clear_bindings(*statement);
    }
}
/* For a borrowed statement: it gives its snapshot and its bindings back at the end of the block. */
#define AUTO_RESET CLEANUP(cleanup_statement)

/* Turns an SQLite result into a status; want of memory is remembered in the connection; corruption
 * (SQLITE_CORRUPT, SQLITE_NOTADB, tables gone, the file moved, ...) is STATUS_CORRUPT and is
 * remembered, see index_is_damaged(). */
enum status index_sqlite_error(struct index *index, struct index_connection *connection, int result,
                               const char *doing, struct error *error);

/* Why a column of a row that has to have a value has none: SQLITE_NOMEM, or SQLITE_CORRUPT. To be
 * asked before the statement is used again. */
int index_column_missing(sqlite3_stmt *statement);

/* Raises the flag; the first message stays until the rebuild. What is told of an earlier file than
 * the one in use (`epoch`) concerns nobody any more. */
void index_remember_damage(struct index *index, uint64_t epoch, const char *message);

/* The same for a reader. */
enum status index_reader_error(struct index_reader *reader, int result, const char *doing,
                               struct error *error);
/* The same for what lists and reads rows once a snapshot has begun: damage is remembered, but it is
 * the index's own, for which an answer must not call the caller's memory corrupt: the error is
 * STATUS_UNAVAILABLE. */
enum status index_rows_error(struct index_reader *reader, int result, const char *doing,
                             struct error *error);
/* For whoever has copied out of a row after the last step: `result`, or SQLITE_CORRUPT when this
 * thread has met a lost page (core/index_mapping.h) meanwhile. */
MUST_CHECK int index_check_pages(int result);
/* The statement, with the scope as its first parameter. */
MUST_CHECK int index_reader_statement(struct index_reader *reader, enum index_sql sql,
                                      int64_t scope_id, sqlite3_stmt **ret);

/* What FTS5 offers its extensions. SQLITE_NOTFOUND when the connection lacks it. */
MUST_CHECK int index_fts5_api(sqlite3 *db, fts5_api **ret);

/* ---- files (index_files.c) ---- */

/* Makes the directory and takes its lock, which closing the descriptor gives back. STATUS_BUSY: the
 * message names who has it. */
MUST_CHECK enum status index_files_lock(struct index *index, struct error *error);

/* The same again where the lock is not the one at its path any more, since somebody removed the
 * directory or its contents. */
MUST_CHECK enum status index_files_lock_again(struct index *index, struct error *error);
/* True when the file at the path is untouched since the last clean end. Forgets that end. */
bool index_files_take_clean_mark(struct index *index);
void index_files_set_clean_mark(struct index *index);
/* Renames the database aside and removes what belongs to it. */
MUST_CHECK enum status index_files_set_aside(struct index *index, struct error *error);
struct file_identity file_identity_of(const char *path);

/* ---- documents (index_document.c) ---- */

/* The text that is indexed: the document's "content". SQLITE_CORRUPT for a document that cannot be
 * read. `ret_tree` owns what `ret` points to. */
MUST_CHECK int document_read(const char *bytes, size_t size, json_t **ret_tree);
const char *document_content(const json_t *tree, size_t *ret_size);

/* ---- filters (index_list.c) ---- */

struct index_filter;

/* True when the document has the members that the filter wants; a missing one equals null, and
 * numbers are compared as numbers. SQLite result codes. */
MUST_CHECK int filter_match(const struct index_filter *filter, const char *document, size_t size,
                            bool *ret);

/* ---- damage (index_check.c) ---- */

/* Looks for damage that an unclean end or somebody else's hand may have left. SQLITE_CORRUPT with
 * the reason in `ret`; another error than that says nothing about the file. */
MUST_CHECK int index_check(struct index_connection *connection, char *ret, size_t size);

/* ---- rows of the scope table (index_scope.c) ---- */

#define LENGTH_CLASSES 256

/* How many facts have which quantised length; kept up to date by deltas. */
struct length_histogram {
    uint32_t counts[LENGTH_CLASSES];
};

struct scope_row {
    int64_t id;
    uint64_t generation;
    struct synced_mark synced;
    uint64_t facts;
    uint64_t broken;
    int64_t next_sequence;
    bool unmigrated;
    struct length_histogram lengths;
};

/* Reads the columns of a scope statement's current row; the histogram costs more and is left alone
 * unless asked for. */
void scope_row_read(sqlite3_stmt *statement, bool with_lengths, struct scope_row *ret);
/* SQLITE_ROW when found, SQLITE_DONE when not, else a failure. */
MUST_CHECK int scope_row_find(struct index_connection *connection, const struct scope *scope,
                              struct scope_row *ret);
MUST_CHECK int scope_row_insert(struct index_connection *connection, const struct scope *scope,
                                struct scope_row *ret);
MUST_CHECK int scope_row_update(struct index_connection *connection, const struct scope_row *row);
MUST_CHECK int scope_row_set_synced(struct index_connection *connection, int64_t id,
                                    const struct synced_mark *synced);
/* Drops the synced mark, but for the revision: the rows are still of that one. */
MUST_CHECK int scope_row_forget(struct index_connection *connection, int64_t id);
/* The manifest that the scope's rows were built from; NULL: there was none. It stands at the end of
 * the row, where looking at the columns before it does not read it. */
MUST_CHECK int scope_row_set_manifest(struct index_connection *connection, int64_t id,
                                      const char *bytes, size_t size);
/* The quantised length that half of the facts do not exceed. */
unsigned length_histogram_median(const struct length_histogram *histogram);

#endif
