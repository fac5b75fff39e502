#include "tests/unit/index_fixture.h"

#include "core/analyzer.h"
#include "core/index_private.h"
#include "tests/support/captured_log.h"
#include "tests/support/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

static void path_of(const struct fixture *fixture, const char *name, char *ret, size_t size)
{
    (void) snprintf(ret, size, "%s/%s", fixture->directory, name);
}

static bool exists(const struct fixture *fixture, const char *name)
{
    char path[256];

    path_of(fixture, name, path, sizeof path);
    return access(path, F_OK) == 0;
}

static void write_file(const struct fixture *fixture, const char *name, const char *text)
{
    char path[256];

    path_of(fixture, name, path, sizeof path);
    FILE *file = fopen(path, "w");
    cr_assert(file != NULL);
    cr_assert(ge(int, fputs(text, file), 0));
    cr_assert(zero(int, fclose(file)));
}

/* Changes the file as another program would: with SQLite, but without our tokenizer. */
static void tamper(const struct fixture *fixture, const char *sql)
{
    sqlite3 *db = NULL;
    char path[256];
    char *message = NULL;

    path_of(fixture, INDEX_FILE_NAME, path, sizeof path);
    cr_assert(eq(int, sqlite3_open(path, &db), SQLITE_OK));
    cr_assert(eq(int, sqlite3_exec(db, "PRAGMA writable_schema = 1", NULL, NULL, NULL), SQLITE_OK));
    cr_assert(eq(int, sqlite3_exec(db, sql, NULL, NULL, &message), SQLITE_OK), "%s", message);
    cr_assert(eq(int, sqlite3_close(db), SQLITE_OK));
}

static struct scope scope;

/* Facts in several FTS5 pages, enough to lose some of them. */
static void fill(struct fixture *fixture, unsigned count)
{
    AUTO_ROWS struct rows rows = {0};
    char id[32], content[256];

    scope = scope_of("u1", "a");
    for (unsigned i = 0; i < count; i++) {
        (void) snprintf(id, sizeof id, "f%u", i);
        (void) snprintf(content, sizeof content, "word%u common other%u third%u fourth%u", i,
                        i * 31, i * 17, i * 13);
        rows_add(&rows, fact_of(id, content));
    }
    (void) install_rows(fixture, &scope, 0, 7, &rows);
}

/* ---- opening and closing ---- */

Test(index_db, a_new_index_is_made_in_a_directory_of_its_own)
{
    AUTO_FIXTURE struct fixture fixture;
    struct stat info;

    fixture_create(&fixture);
    cr_expect(fixture.rebuilt);
    cr_assert(zero(int, stat(fixture.directory, &info)));
    cr_expect(eq(int, (int) (info.st_mode & 0777), 0700));
    cr_expect(exists(&fixture, INDEX_FILE_NAME));
    cr_expect(strstr(index_path(fixture.index), INDEX_FILE_NAME) != NULL);
    cr_expect(not(index_file_was_replaced(fixture.index)));
    cr_expect(not(index_is_damaged(fixture.index)));
}

Test(index_db, what_was_installed_is_there_after_a_restart)
{
    AUTO_FIXTURE struct fixture fixture;
    struct index_scope state;

    fixture_create(&fixture);
    fill(&fixture, 10);
    fixture_close(&fixture);
    cr_expect(not(exists(&fixture, INDEX_FILE_NAME "-wal")));
    fixture_reopen(&fixture);
    cr_expect(not(fixture.rebuilt));
    cr_assert(eq(int, scope_state(&fixture, &scope, &state), STATUS_OK));
    cr_expect(eq(i64, state.synced.mark.signature.revision, 7));
    EXPECT_FOUND(&fixture, &scope, "word3", "f3");
}

Test(index_db, a_directory_has_one_agent)
{
    AUTO_FIXTURE struct fixture fixture;
    struct index *second = NULL;
    struct error error = {0};
    bool rebuilt;
    char pid[32];

    fixture_create(&fixture);
    const struct index_options options = {.directory = fixture.directory};
    cr_expect(eq(int, index_open(&options, &second, &rebuilt, &error), STATUS_BUSY));
    (void) snprintf(pid, sizeof pid, "pid %ld", (long) getpid());
    cr_expect(strstr(error.message, pid) != NULL, "%s", error.message);
    cr_expect(strstr(error.message, fixture.directory) != NULL);
}

Test(index_db, a_directory_that_cannot_be_made_is_named)
{
    const struct index_options options = {.directory = "/proc/nowhere/index"};
    struct index *index = NULL;
    struct error error = {0};
    bool rebuilt;

    cr_expect(ne(int, index_open(&options, &index, &rebuilt, &error), STATUS_OK));
    cr_expect(strstr(error.message, "/proc/nowhere/index") != NULL, "%s", error.message);
    cr_expect(index == NULL);
}

/* Of what lies in the directory, to somebody without rights; root stays within reach. */
static void give_away(const struct fixture *fixture)
{
    static const char *const names[] = {"", INDEX_FILE_NAME, INDEX_FILE_NAME "-wal",
                                        INDEX_FILE_NAME "-shm", "memsyncd.lock"};
    char path[256];

    cr_assert(zero(int, chmod(fixture->parent, 0755)));
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        path_of(fixture, names[i], path, sizeof path);
        cr_assert(chown(path, 65534, 65534) == 0 || errno == ENOENT);
    }
}

static void become(uid_t user)
{
    if (geteuid() == 0 || getuid() != 0)
        cr_assert(zero(int, setresuid(user, user, 0)));
}

Test(index_db, a_directory_that_may_only_be_read_is_named)
{
    AUTO_FIXTURE struct fixture fixture;
    struct index *second = NULL;
    struct error error = {0};
    bool rebuilt;

    if (geteuid() != 0) {
        printf("skipped: only root can become somebody without rights\n");
        fixture_create(&fixture);
        return;
    }
    fixture_create(&fixture);
    fill(&fixture, 50);
    give_away(&fixture);
    cr_assert(zero(int, chmod(fixture.directory, 0500)));
    become(65534);
    cr_expect(eq(int, index_rebuild(fixture.index, "told by the test", &error), STATUS_DENIED));
    cr_expect(ne(ptr, strstr(error.message, "aside"), NULL), "%s", error.message);
    become(0);
    fixture_close(&fixture);
    become(65534);
    const struct index_options options = {.directory = fixture.directory};
    cr_expect(eq(int, index_open(&options, &second, &rebuilt, &error), STATUS_DENIED));
    cr_expect(ne(ptr, strstr(error.message, "cannot use the index directory"), NULL), "%s",
              error.message);
    become(0);
    cr_assert(zero(int, chmod(fixture.directory, 0700)));
}

Test(index_db, what_cannot_be_set_aside_is_named)
{
    AUTO_FIXTURE struct fixture fixture;
    struct error error = {0};
    char path[256];

    fixture_create(&fixture);
    fill(&fixture, 50);
    path_of(&fixture, INDEX_FILE_NAME "-shm", path, sizeof path);
    cr_assert(zero(int, unlink(path)));
    cr_assert(zero(int, mkdir(path, 0700)));
    cr_expect(ne(int, index_rebuild(fixture.index, "told by the test", &error), STATUS_OK));
    cr_expect(ne(ptr, strstr(error.message, "cannot remove"), NULL), "%s", error.message);
    cr_expect(index_is_damaged(fixture.index));
    cr_assert(zero(int, rmdir(path)));
    cr_expect(eq(int, index_rebuild(fixture.index, "told by the test", &error), STATUS_OK), "%s",
              error.message);
}

/* The next start looks through the file, and that is all. */
Test(index_db, a_clean_end_that_cannot_be_noted_is_told)
{
    AUTO_FIXTURE struct fixture fixture;
    char path[256];

    fixture_create(&fixture);
    fill(&fixture, 50);
    path_of(&fixture, "memsyncd.lock", path, sizeof path);
    int read_only = open(path, O_RDONLY | O_CLOEXEC);
    cr_assert(ge(int, dup3(read_only, fixture.index->lock_fd, O_CLOEXEC), 0));
    (void) close(read_only);
    captured_log_start();
    fixture_close(&fixture);
    cr_expect(eq(sz, captured_log_count("event=index.lock "), 1));
    captured_log_stop();
    fixture_reopen(&fixture);
    cr_expect(not(fixture.rebuilt));
    EXPECT_FOUND(&fixture, &scope, "word4", "f4");
}

Test(index_db, totals_count_scopes_facts_and_bytes)
{
    AUTO_FIXTURE struct fixture fixture;
    struct index_totals totals;

    fixture_create(&fixture);
    fill(&fixture, 10);
    begin(&fixture);
    cr_assert(eq(int, index_totals(fixture.reader, &totals, NULL), STATUS_OK));
    index_end(fixture.reader);
    cr_expect(eq(u64, totals.scopes, 1));
    cr_expect(eq(u64, totals.facts, 10));
    cr_expect(eq(u64, totals.broken, 0));
    cr_expect(gt(u64, totals.wal_bytes, 0));
    cr_expect(gt(u64, totals.file_bytes, totals.wal_bytes));
}

static enum status count_scope(void *context, const struct scope *told,
                               const struct index_scope *state)
{
    text_append_format(context, "[%d %s %s %s %lld]", told->has_user, told->user, told->bucket,
                       told->agent, (long long) state->synced.mark.signature.revision);
    return STATUS_OK;
}

Test(index_db, scopes_are_listed_whole_or_by_bucket)
{
    AUTO_FIXTURE struct fixture fixture;
    AUTO_ROWS struct rows none = {0};
    AUTO_TEXT struct text all = {0};
    AUTO_TEXT struct text bucket = {0};
    AUTO_TEXT struct text root = {0};
    struct scope scopes[] = {scope_of("u1", "a"), scope_of("u1", "b"), scope_of(NULL, "a"),
                             scope_of("u.2", "a")};

    fixture_create(&fixture);
    (void) snprintf(scopes[3].bucket, sizeof scopes[3].bucket, "u-2-0123456789abcdef");
    for (size_t i = 0; i < ARRAY_SIZE(scopes); i++)
        (void) install_rows(&fixture, &scopes[i], 0, (int64_t) i, &none);
    begin(&fixture);
    cr_assert(eq(int, index_list_scopes(fixture.reader, count_scope, &all, NULL), STATUS_OK));
    cr_assert(eq(int, index_list_bucket(fixture.reader, true, "u1", count_scope, &bucket, NULL),
                 STATUS_OK));
    cr_assert(
        eq(int, index_list_bucket(fixture.reader, false, "", count_scope, &root, NULL), STATUS_OK));
    index_end(fixture.reader);
    cr_expect(zero(int, strcmp(text_string(&all), "[1 u1 u1 a 0][1 u1 u1 b 1][0   a 2]"
                                                  "[1 u.2 u-2-0123456789abcdef a 3]")),
              "%s", text_string(&all));
    cr_expect(zero(int, strcmp(text_string(&bucket), "[1 u1 u1 a 0][1 u1 u1 b 1]")));
    cr_expect(zero(int, strcmp(text_string(&root), "[0   a 2]")));
}

Test(index_db, it_remembers_whose_index_it_is)
{
    AUTO_FIXTURE struct fixture fixture;
    char identity[INDEX_IDENTITY_SIZE];

    fixture_create(&fixture);
    index_identity(fixture.index, identity, sizeof identity);
    cr_expect(zero(int, strcmp(identity, "")));
    cr_assert(eq(int, index_set_identity(fixture.index, "volume-1", NULL), STATUS_OK));
    fixture_close(&fixture);
    fixture_reopen(&fixture);
    index_identity(fixture.index, identity, sizeof identity);
    cr_expect(zero(int, strcmp(identity, "volume-1")));
}

/* ---- set aside ---- */

static void expect_set_aside(struct fixture *fixture, const char *why)
{
    struct index_scope state;
    char text[ERROR_MESSAGE_MAX];

    cr_expect(fixture->rebuilt, "%s", why);
    cr_expect(exists(fixture, INDEX_FILE_NAME ".damaged-1"), "%s", why);
    index_damage_text(fixture->index, text, sizeof text);
    cr_expect(ne(int, text[0], 0), "%s", why);
    cr_expect(eq(int, scope_state(fixture, &scope, &state), STATUS_NOT_FOUND), "%s", why);
    fill(fixture, 3);
    EXPECT_FOUND(fixture, &scope, "word1", "f1");
}

Test(index_db, another_version_is_set_aside)
{
    const struct {
        const char *sql, *reason;
    } rows[] = {
        {"UPDATE meta SET value = '0' WHERE key = 'schema'", "schema"},
        {"UPDATE meta SET value = '1-icu1.0' WHERE key = 'analyzer'", "analyzer"},
        {"DELETE FROM meta WHERE key = 'analyzer'", "analyzer"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        AUTO_FIXTURE struct fixture fixture;
        char text[ERROR_MESSAGE_MAX];

        fixture_create(&fixture);
        fill(&fixture, 10);
        fixture_close(&fixture);
        tamper(&fixture, rows[i].sql);
        fixture_reopen(&fixture);
        index_damage_text(fixture.index, text, sizeof text);
        cr_expect(strstr(text, rows[i].reason) != NULL, "%s", text);
        expect_set_aside(&fixture, rows[i].reason);
    }
}

/* S2: what was done to the file while the agent was stopped. */
Test(index_db, damage_done_while_stopped_is_found_at_the_start)
{
    const char *const rows[] = {
        "DELETE FROM fts_data WHERE id % 2 = 0",
        "DELETE FROM fts_data WHERE id > (SELECT avg(id) FROM fts_data)",
        "DELETE FROM fts_data",
        /* one page of words that no sample asks for */
        "DELETE FROM fts_data WHERE id = (SELECT max(id) - 3 FROM fts_data)",
        "DELETE FROM fts_data WHERE id = 10",
        "DROP TABLE fts_data",
        "DROP TABLE fts_idx",
        "DROP TABLE fact",
        "DROP TABLE scope",
        "DROP TABLE seen",
        "DROP TABLE meta",
        "DELETE FROM fact WHERE id % 3 = 0",
        "UPDATE fact SET document = '{}' WHERE id % 3 = 0",
        "UPDATE fact SET document = replace(document, 'word', 'drow')",
        "UPDATE fact SET document = 'no json'",
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        AUTO_FIXTURE struct fixture fixture;

        fixture_create(&fixture);
        fill(&fixture, 600);
        fixture_close(&fixture);
        tamper(&fixture, rows[i]);
        fixture_reopen(&fixture);
        expect_set_aside(&fixture, rows[i]);
    }
}

static void overwrite(const struct fixture *fixture, off_t from, size_t size)
{
    char path[256];
    char noise[4096];
    unsigned random = 12345;

    path_of(fixture, INDEX_FILE_NAME, path, sizeof path);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    cr_assert(ge(int, fd, 0));
    for (size_t written = 0; written < size; written += sizeof noise) {
        for (size_t i = 0; i < sizeof noise; i++)
            noise[i] = (char) ((random = random * 1103515245u + 12345u) >> 16);
        cr_assert(eq(int, (int) pwrite(fd, noise, sizeof noise, from + (off_t) written),
                     (int) sizeof noise));
    }
    cr_assert(zero(int, close(fd)));
}

static off_t size_of_file(const struct fixture *fixture, const char *name)
{
    char path[256];
    struct stat info;

    path_of(fixture, name, path, sizeof path);
    cr_assert(zero(int, stat(path, &info)));
    return info.st_size;
}

Test(index_db, a_file_of_other_bytes_is_set_aside)
{
    const struct {
        off_t from;
        size_t size;
    } rows[] = {{0, 4096}, {4096, 1 << 16}, {1 << 16, 1 << 15}};

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        AUTO_FIXTURE struct fixture fixture;

        fixture_create(&fixture);
        fill(&fixture, 600);
        fixture_close(&fixture);
        overwrite(&fixture, rows[i].from, rows[i].size);
        fixture_reopen(&fixture);
        expect_set_aside(&fixture, "overwritten");
    }
}

/* The list of facts by id is read by no other check. */
Test(index_db, damage_in_a_page_that_nothing_else_reads_is_found)
{
    AUTO_FIXTURE struct fixture fixture;
    sqlite3_stmt *statement = NULL;
    const char *sql = "SELECT rootpage FROM sqlite_schema WHERE name = 'fact_name'";

    fixture_create(&fixture);
    fill(&fixture, 600);
    cr_assert(eq(int, sqlite3_prepare_v2(fixture.index->writer.db, sql, -1, &statement, NULL),
                 SQLITE_OK));
    cr_assert(eq(int, sqlite3_step(statement), SQLITE_ROW));
    off_t page = sqlite3_column_int64(statement, 0);
    (void) sqlite3_finalize(statement);
    fixture_close(&fixture);
    overwrite(&fixture, (page - 1) * 4096, 4096);
    fixture_reopen(&fixture);
    expect_set_aside(&fixture, "one page");
}

Test(index_db, a_cut_file_is_set_aside)
{
    AUTO_FIXTURE struct fixture fixture;
    char path[256];

    fixture_create(&fixture);
    fill(&fixture, 600);
    fixture_close(&fixture);
    path_of(&fixture, INDEX_FILE_NAME, path, sizeof path);
    cr_assert(zero(int, truncate(path, size_of_file(&fixture, INDEX_FILE_NAME) / 2)));
    fixture_reopen(&fixture);
    expect_set_aside(&fixture, "cut");
}

static void hear_emptied(void *context, enum log_level level UNUSED, const char *line)
{
    *(unsigned *) context +=
        strstr(line, "index.rebuilt") != NULL && strstr(line, "emptied") != NULL;
}

Test(index_db, an_empty_file_becomes_an_index)
{
    AUTO_FIXTURE struct fixture fixture;
    unsigned heard = 0;

    log_set_capture(hear_emptied, &heard);
    fixture_create(&fixture);
    fixture_close(&fixture);
    cr_expect(eq(u32, heard, 0));
    write_file(&fixture, INDEX_FILE_NAME, "");
    fixture_reopen(&fixture);
    cr_expect(fixture.rebuilt);
    cr_expect(eq(u32, heard, 1));
    fill(&fixture, 3);
    EXPECT_FOUND(&fixture, &scope, "word1", "f1");
}

Test(index_db, only_its_own_files_are_touched_and_two_old_ones_kept)
{
    AUTO_FIXTURE struct fixture fixture;
    const char *const foreign[] = {"memory.sqlite3", "memory.sqlite3-wal",
                                   INDEX_FILE_NAME ".damaged-", INDEX_FILE_NAME ".damaged-1x",
                                   INDEX_FILE_NAME ".backup"};

    fixture_create(&fixture);
    for (size_t i = 0; i < ARRAY_SIZE(foreign); i++)
        write_file(&fixture, foreign[i], "somebody else's");
    for (int i = 0; i < 5; i++) {
        fixture_close(&fixture);
        write_file(&fixture, INDEX_FILE_NAME, "no database at all, but long enough to be read");
        fixture_reopen(&fixture);
        cr_expect(fixture.rebuilt);
    }
    for (size_t i = 0; i < ARRAY_SIZE(foreign); i++)
        cr_expect(exists(&fixture, foreign[i]), "%s", foreign[i]);
    cr_expect(not(exists(&fixture, INDEX_FILE_NAME ".damaged-3")));
    cr_expect(exists(&fixture, INDEX_FILE_NAME ".damaged-4"));
    cr_expect(exists(&fixture, INDEX_FILE_NAME ".damaged-5"));
}

/* ---- shortened in place, while it is mapped ---- */

static void shorten(const struct fixture *fixture, const char *name, off_t size)
{
    char path[256];

    path_of(fixture, name, path, sizeof path);
    cr_assert(zero(int, truncate(path, size)));
}

/* Whoever meets what is not there any more is told of damage, and so is everybody else until the
 * rebuild. */
static void expect_lost_page(struct fixture *fixture, enum status status)
{
    AUTO_HITS struct index_hits hits = {0};
    char text[ERROR_MESSAGE_MAX];
    struct error error = {0};

    cr_expect(eq(int, status, STATUS_CORRUPT));
    cr_expect(index_is_damaged(fixture->index));
    index_damage_text(fixture->index, text, sizeof text);
    cr_expect(ne(ptr, strstr(text, "not on disk"), NULL), "%s", text);
    cr_expect(eq(int, search(fixture, &scope, "common", NULL, 9, &hits), STATUS_CORRUPT));
    cr_assert(eq(int, index_rebuild(fixture->index, "a test", &error), STATUS_OK), "%s",
              error.message);
    fill(fixture, 3);
    EXPECT_FOUND(fixture, &scope, "word1", "f1");
}

Test(index_db, a_file_that_is_cut_while_it_is_read_is_damage)
{
    AUTO_FIXTURE struct fixture fixture;
    AUTO_HITS struct index_hits hits = {0};
    AUTO_HITS struct index_hits none = {0};

    fixture_create(&fixture);
    fill(&fixture, 600);
    fixture_close(&fixture); /* moves all of the log into the file */
    fixture_reopen(&fixture);
    begin(&fixture);
    cr_assert(
        eq(int, search_in_snapshot(&fixture, &scope, "word1", 5, NULL, 9, &hits, NULL), STATUS_OK));
    shorten(&fixture, INDEX_FILE_NAME, 4096);
    enum status status = search_in_snapshot(&fixture, &scope, "common", 6, NULL, 1000, &none, NULL);
    index_end(fixture.reader);
    expect_lost_page(&fixture, status);
}

/* As one does whose zeros look like something sound. */
static void meet_lost_page(const struct fixture *fixture)
{
    char path[256];

    write_file(fixture, "mapped", "some bytes");
    path_of(fixture, "mapped", path, sizeof path);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    cr_assert(ge(int, fd, 0));
    const volatile char *mapped = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    cr_assert(ne(ptr, (void *) (uintptr_t) mapped, MAP_FAILED));
    shorten(fixture, "mapped", 0);
    cr_expect(zero(int, mapped[0]));
    cr_assert(zero(int, munmap((void *) (uintptr_t) mapped, 4096)));
    cr_assert(zero(int, close(fd)));
}

Test(index_db, nothing_is_answered_from_a_lost_page_that_looks_sound)
{
    AUTO_FIXTURE struct fixture fixture;
    AUTO_HITS struct index_hits hits = {0};

    fixture_create(&fixture);
    fill(&fixture, 3);
    begin(&fixture);
    meet_lost_page(&fixture);
    enum status status = search_in_snapshot(&fixture, &scope, "common", 6, NULL, 9, &hits, NULL);
    index_end(fixture.reader);
    expect_lost_page(&fixture, status);

    begin(&fixture);
    meet_lost_page(&fixture);
    index_end(fixture.reader);
    expect_lost_page(&fixture, STATUS_CORRUPT);
}

Test(index_db, a_lost_page_is_damage_whatever_else_failed)
{
    AUTO_FIXTURE struct fixture fixture;

    fixture_create(&fixture);
    fill(&fixture, 3);
    meet_lost_page(&fixture);
    expect_lost_page(&fixture, index_sqlite_error(fixture.index, &fixture.index->writer,
                                                  SQLITE_BUSY, "write the index", NULL));
}

Test(index_db, nothing_is_committed_on_a_lost_page_that_looks_sound)
{
    AUTO_FIXTURE struct fixture fixture;
    enum install_outcome outcome = INSTALL_LOST;
    struct index_scope state;
    uint64_t generation = 0;

    fixture_create(&fixture);
    fill(&fixture, 3);
    cr_assert(eq(int, scope_state(&fixture, &scope, &state), STATUS_OK));
    const struct index_change change = {.scope = &scope,
                                        .expected_generation = state.generation,
                                        .synced = synced_at(8)};
    meet_lost_page(&fixture);
    enum status status = index_install_refresh(fixture.index, &change, &outcome, &generation, NULL);
    cr_expect(not(outcome == INSTALL_DONE));
    expect_lost_page(&fixture, status);
}

Test(index_db, shared_memory_that_is_cut_while_it_is_mapped_is_damage)
{
    AUTO_FIXTURE struct fixture fixture;
    AUTO_HITS struct index_hits hits = {0};

    fixture_create(&fixture);
    fill(&fixture, 600);
    EXPECT_FOUND(&fixture, &scope, "word1", "f1");
    shorten(&fixture, INDEX_FILE_NAME "-shm", 0);
    expect_lost_page(&fixture, search(&fixture, &scope, "common", NULL, 9, &hits));
}

/* ---- an unclean end ---- */

/* A child that ends without closing: the log stays. */
static void leave_unclean(struct fixture *fixture)
{
    int status;

    fixture_close(fixture);
    pid_t child = fork();
    if (child == 0) {
        const struct index_options options = {.directory = fixture->directory};
        struct index *index = NULL;
        bool rebuilt;
        enum status opened = index_open(&options, &index, &rebuilt, NULL);
        if (opened == STATUS_OK)
            opened = index_forget(index, &scope, NULL);
        child_exit(opened == STATUS_OK ? 0 : 1);
    }
    cr_assert(eq(int, (int) waitpid(child, &status, 0), (int) child));
    cr_assert(zero(int, status));
}

Test(index_db, an_unclean_end_alone_loses_nothing)
{
    AUTO_FIXTURE struct fixture fixture;
    struct index_scope state;

    fixture_create(&fixture);
    fill(&fixture, 600);
    leave_unclean(&fixture);
    cr_assert(exists(&fixture, INDEX_FILE_NAME "-wal"));
    fixture_reopen(&fixture);
    cr_expect(not(fixture.rebuilt));
    cr_assert(eq(int, scope_state(&fixture, &scope, &state), STATUS_OK));
    cr_expect(not(state.synced.known)); /* the child's transaction */
    EXPECT_FOUND(&fixture, &scope, "word1", "f1");
}

Test(index_db, a_file_is_looked_through_only_when_it_may_have_suffered)
{
    AUTO_FIXTURE struct fixture fixture;

    fixture_create(&fixture);
    fill(&fixture, 10);
    fixture_close(&fixture);
    cr_assert(eq(int,
                 index_open(&(const struct index_options){.directory = fixture.directory},
                            &fixture.index, &fixture.rebuilt, NULL),
                 STATUS_OK));
    /* the mark of the clean end is used up: after a kill the next start looks */
    cr_expect(not(index_files_take_clean_mark(fixture.index)));
    index_files_set_clean_mark(fixture.index);
    cr_expect(not(index_files_take_clean_mark(fixture.index)), "the log is still there");
    index_disconnect(&fixture.index->writer, true);
    index_files_set_clean_mark(fixture.index);
    cr_expect(index_files_take_clean_mark(fixture.index));
    cr_expect(not(index_files_take_clean_mark(fixture.index)));
}

/* ---- damage under the running agent ---- */

/* Searches until the damage shows; false when the answers stay as they were. */
static bool notices_damage(struct fixture *fixture)
{
    char text[32];

    for (unsigned i = 0; i < 600; i++) {
        AUTO_HITS struct index_hits hits = {0};
        (void) snprintf(text, sizeof text, "word%u", i);
        enum status status = search(fixture, &scope, text, NULL, 5, &hits);
        if (status == STATUS_CORRUPT)
            return index_is_damaged(fixture->index);
        if (status != STATUS_OK || hits.count != 1)
            return false; /* a wrong answer, or a wrong reason */
    }
    return false;
}

static void expect_rebuild_mends(struct fixture *fixture)
{
    struct error error = {0};
    struct index_scope state;
    uint64_t epoch = index_epoch(fixture->index);

    cr_assert(eq(int, index_rebuild(fixture->index, "told by the test", &error), STATUS_OK), "%s",
              error.message);
    cr_expect(eq(u64, index_epoch(fixture->index), epoch + 1));
    cr_expect(not(index_is_damaged(fixture->index)));
    cr_expect(not(index_file_was_replaced(fixture->index)));
    cr_expect(eq(int, scope_state(fixture, &scope, &state), STATUS_NOT_FOUND));
    fill(fixture, 5);
    EXPECT_FOUND(fixture, &scope, "word4", "f4");
}

Test(index_db, random_bytes_in_the_running_file_are_noticed_by_a_search)
{
    AUTO_FIXTURE struct fixture fixture;
    char text[ERROR_MESSAGE_MAX];

    fixture_create(&fixture);
    fill(&fixture, 600);
    cr_assert(eq(int,
                 sqlite3_wal_checkpoint_v2(fixture.index->writer.db, NULL,
                                           SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL),
                 SQLITE_OK));
    off_t size = size_of_file(&fixture, INDEX_FILE_NAME) / 4096 * 4096;
    overwrite(&fixture, 4096, (size_t) size - 4096);
    cr_expect(notices_damage(&fixture));
    index_damage_text(fixture.index, text, sizeof text);
    cr_expect(ne(int, text[0], 0));

    /* until the rebuild nothing is answered, least of all with an empty success */
    AUTO_HITS struct index_hits hits = {0};
    cr_expect(eq(int, search(&fixture, &scope, "word1", NULL, 5, &hits), STATUS_CORRUPT));
    expect_rebuild_mends(&fixture);
}

Test(index_db, a_lost_shadow_table_is_noticed_by_a_search_and_by_a_write)
{
    const char *const tables[] = {"DROP TABLE fts_data", "DROP TABLE fts_idx", "DROP TABLE fact"};

    for (size_t i = 0; i < ARRAY_SIZE(tables); i++) {
        AUTO_FIXTURE struct fixture fixture;
        AUTO_ROWS struct rows rows = {0};
        enum install_outcome outcome;
        uint64_t generation;

        fixture_create(&fixture);
        fill(&fixture, 600);
        tamper(&fixture, tables[i]);
        cr_expect(notices_damage(&fixture), "%s", tables[i]);
        rows_add(&rows, fact_of("g1", "new"));
        const struct index_change change = {.scope = &scope,
                                            .expected_generation = 1,
                                            .put = rows.rows,
                                            .put_count = 1,
                                            .synced = synced_at(8)};
        cr_expect(eq(int,
                     index_install_refresh(fixture.index, &change, &outcome, &generation, NULL),
                     STATUS_CORRUPT),
                  "%s", tables[i]);
        expect_rebuild_mends(&fixture);
    }
}

Test(index_db, damage_met_by_the_writer_is_remembered)
{
    AUTO_FIXTURE struct fixture fixture;
    AUTO_ROWS struct rows rows = {0};
    enum install_outcome outcome;
    uint64_t generation;

    fixture_create(&fixture);
    fill(&fixture, 600);
    tamper(&fixture, "UPDATE fact SET document = 'no json'");
    rows_add(&rows, fact_of("f1", "new"));
    const struct index_change change = {.scope = &scope,
                                        .expected_generation = 1,
                                        .put = rows.rows,
                                        .put_count = 1,
                                        .synced = synced_at(8)};
    cr_expect(eq(int, index_install_refresh(fixture.index, &change, &outcome, &generation, NULL),
                 STATUS_CORRUPT));
    cr_expect(index_is_damaged(fixture.index));
    expect_rebuild_mends(&fixture);
}

/* S4: files removed or replaced under the running agent. */
Test(index_db, files_that_go_or_are_replaced_are_noticed)
{
    const char *const commands[] = {
        "rm '%s/memsyncd.sqlite3'",
        "rm '%1$s/memsyncd.sqlite3-wal' '%1$s/memsyncd.sqlite3-shm'",
        "cp '%1$s/memsyncd.sqlite3' '%1$s/copy' && mv '%1$s/copy' '%1$s/memsyncd.sqlite3'",
        "rm -r '%s'",
    };

    for (size_t i = 0; i < ARRAY_SIZE(commands) - 1; i++) {
        AUTO_FIXTURE struct fixture fixture;
        struct index_reader *late = NULL;
        char command[512];

        fixture_create(&fixture);
        fill(&fixture, 50);
        EXPECT_FOUND(&fixture, &scope, "word1", "f1");
        cr_expect(not(index_file_was_replaced(fixture.index)));
        (void) snprintf(command, sizeof command, commands[i], fixture.directory);
        cr_assert(zero(int, system(command)));
        cr_expect(index_file_was_replaced(fixture.index), "%s", commands[i]);

        /* a reader that opens now does not read what somebody put there */
        cr_assert(eq(int, index_reader_create(fixture.index, &late, NULL), STATUS_OK));
        cr_expect(eq(int, index_begin(late, NULL), STATUS_CORRUPT));
        cr_expect(index_is_damaged(fixture.index));
        expect_rebuild_mends(&fixture);
        cr_expect(eq(int, index_begin(late, NULL), STATUS_OK));
        index_reader_destroy(&late);
        fixture_close(&fixture);
        fixture_reopen(&fixture);
        cr_expect(not(fixture.rebuilt));
        EXPECT_FOUND(&fixture, &scope, "word4", "f4");
    }
}

/* SQLite removes the log of an empty file, which then looks like one that somebody has removed. */
Test(index_db, what_has_become_of_the_files_is_told)
{
    static const struct {
        const char *command;
        const char *text;
    } rows[] = {
        {": > '%s/memsyncd.sqlite3'; rm '%1$s/memsyncd.sqlite3-wal'", "the index file was emptied"},
        {"rm '%s/memsyncd.sqlite3'", "the index file was removed or replaced"},
        {"rm '%s/memsyncd.sqlite3-wal'", "the index's log was removed or replaced"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        AUTO_FIXTURE struct fixture fixture;
        struct index_reader *late = NULL;
        struct error error = {0};
        char command[512];

        fixture_create(&fixture);
        fill(&fixture, 50);
        (void) snprintf(command, sizeof command, rows[i].command, fixture.directory);
        cr_assert(zero(int, system(command)));
        cr_expect(index_file_was_replaced(fixture.index));
        cr_assert(eq(int, index_reader_create(fixture.index, &late, NULL), STATUS_OK));
        cr_expect(eq(int, index_begin(late, &error), STATUS_CORRUPT));
        cr_expect_str_eq(error.message, rows[i].text);
        index_reader_destroy(&late);
    }
}

Test(index_db, a_directory_that_was_removed_and_made_again_has_one_agent_too)
{
    AUTO_FIXTURE struct fixture fixture;
    struct index *second = NULL;
    struct error error = {0};
    bool rebuilt;
    char text[512];

    fixture_create(&fixture);
    fill(&fixture, 50);
    (void) snprintf(text, sizeof text, "rm -r '%s'", fixture.directory);
    cr_assert(zero(int, system(text)));
    cr_assert(eq(int, index_rebuild(fixture.index, "told by the test", NULL), STATUS_OK));
    const struct index_options options = {.directory = fixture.directory};
    cr_expect(eq(int, index_open(&options, &second, &rebuilt, &error), STATUS_BUSY));
    (void) snprintf(text, sizeof text, "(pid %ld)", (long) getpid());
    cr_expect(strstr(error.message, text) != NULL, "%s", error.message);
}

Test(index_db, a_reader_over_a_rebuild_ends_its_snapshot_in_peace)
{
    AUTO_FIXTURE struct fixture fixture;
    struct index_scope state;

    fixture_create(&fixture);
    fill(&fixture, 50);
    begin(&fixture);
    cr_assert(eq(int, index_rebuild(fixture.index, "asked for", NULL), STATUS_OK));
    cr_expect(eq(int, index_read_scope(fixture.reader, &scope, &state, NULL), STATUS_OK));
    index_end(fixture.reader);
    cr_expect(eq(int, scope_state(&fixture, &scope, &state), STATUS_NOT_FOUND));
    fill(&fixture, 5);
    EXPECT_FOUND(&fixture, &scope, "word4", "f4");
    cr_expect(not(index_file_was_replaced(fixture.index)));
}

/* What a reader meets in the file that was set aside says nothing about the new one. */
Test(index_db, damage_met_in_the_old_file_does_not_taint_the_new_one)
{
    AUTO_FIXTURE struct fixture fixture;
    struct error error;

    fixture_create(&fixture);
    fill(&fixture, 5);
    begin(&fixture);
    cr_assert(eq(int, index_rebuild(fixture.index, "asked for", NULL), STATUS_OK));
    cr_expect(eq(int, index_reader_error(fixture.reader, SQLITE_CORRUPT, "read", &error),
                 STATUS_CORRUPT));
    cr_expect(not(index_is_damaged(fixture.index)));
    index_end(fixture.reader);
    begin(&fixture);
    cr_expect(eq(int, index_reader_error(fixture.reader, SQLITE_CORRUPT, "read", &error),
                 STATUS_CORRUPT));
    cr_expect(index_is_damaged(fixture.index));
    index_end(fixture.reader);
}

/* ---- the log ---- */

struct heard {
    unsigned over, back;
};

static void hear(void *context, enum log_level level UNUSED, const char *line)
{
    struct heard *heard = context;

    heard->over += strstr(line, "index.wal over_bound=true") != NULL;
    heard->back += strstr(line, "index.wal over_bound=false") != NULL;
}

/* S3: a snapshot held open makes the log grow; when it goes, the log shrinks. */
Test(index_db, the_log_shrinks_below_its_bound_once_no_reader_needs_it)
{
    AUTO_FIXTURE struct fixture fixture;
    AUTO_ROWS struct rows rows = {0};
    const uint64_t bound = 256 << 10;
    struct heard heard = {0};
    struct index_reader *idle = NULL;
    uint64_t generation = 1;

    fixture_create(&fixture);
    fixture_close(&fixture);
    fixture_open_with(&fixture, bound);
    log_set_capture(hear, &heard);
    fill(&fixture, 50);
    /* an idle reader holds nothing */
    cr_assert(eq(int, index_reader_create(fixture.index, &idle, NULL), STATUS_OK));
    cr_assert(eq(int, index_begin(idle, NULL), STATUS_OK));
    index_end(idle);

    begin(&fixture);
    rows_add(&rows, fact_of("g1", "one"));
    while (size_of_file(&fixture, INDEX_FILE_NAME "-wal") < (off_t) (3 * bound)) {
        (void) json_object_set_new(rows.rows[0].fact->document, "round",
                                   json_integer((json_int_t) generation));
        generation = install_rows(&fixture, &scope, generation, 8, &rows);
        cr_assert(lt(u64, generation, 20000));
    }
    (void) index_maintain(fixture.index, 5);
    cr_expect(gt(i64, size_of_file(&fixture, INDEX_FILE_NAME "-wal"), (int64_t) bound));
    cr_expect(eq(uint, heard.over, 1));
    (void) index_maintain(fixture.index, 5);
    cr_expect(eq(uint, heard.over, 1)); /* once a change of state */

    index_end(fixture.reader);
    (void) index_maintain(fixture.index, 5);
    cr_expect(le(i64, size_of_file(&fixture, INDEX_FILE_NAME "-wal"), (int64_t) bound));
    cr_expect(eq(uint, heard.back, 1));
    EXPECT_FOUND(&fixture, &scope, "one", "g1");
    log_set_capture(NULL, NULL);
    index_reader_destroy(&idle);
}

/* Many single facts in a row: as many segments to merge, and a log to write back. */
static void install_late(struct fixture *fixture, unsigned count)
{
    uint64_t generation = 1;

    for (unsigned i = 0; i < count; i++) {
        AUTO_ROWS struct rows rows = {0};
        char id[16];
        (void) snprintf(id, sizeof id, "g%u", i);
        rows_add(&rows, fact_of(id, "late common"));
        generation = install_rows(fixture, &scope, generation, 8, &rows);
    }
}

/* A disk that is full, or worse: what tidies tells of it, and nobody else notices. */
Test(index_db, tidying_that_fails_changes_no_answer)
{
    AUTO_FIXTURE struct fixture fixture;
    struct rlimit before;

    fixture_create(&fixture);
    fixture_close(&fixture);
    fixture_open_with(&fixture, 64 << 10);
    fill(&fixture, 200);
    install_late(&fixture, 60);
    AUTO_FREE char *answer = found(&fixture, &scope, "late common");
    index_end(fixture.reader);
    captured_log_start();
    (void) signal(SIGXFSZ, SIG_IGN);
    cr_assert(zero(int, getrlimit(RLIMIT_FSIZE, &before)));
    struct rlimit little = {.rlim_cur = 4096, .rlim_max = before.rlim_max};
    cr_assert(zero(int, setrlimit(RLIMIT_FSIZE, &little)));
    cr_expect(not(index_maintain(fixture.index, 5)));
    cr_assert(zero(int, setrlimit(RLIMIT_FSIZE, &before)));
    cr_expect(eq(sz, captured_log_count("event=index.merge problem=\"cannot merge: "), 1));
    cr_expect(eq(sz,
                 captured_log_count("event=index.checkpoint problem=\"cannot write the log back: "),
                 1));
    captured_log_stop();
    cr_expect(not(index_is_damaged(fixture.index)));
    EXPECT_FOUND(&fixture, &scope, "late common", answer);
    while (index_maintain(fixture.index, 5))
        continue;
    EXPECT_FOUND(&fixture, &scope, "late common", answer);
}

Test(index_db, merging_comes_to_an_end_and_changes_no_answer)
{
    AUTO_FIXTURE struct fixture fixture;
    unsigned slices = 0;

    fixture_create(&fixture);
    fill(&fixture, 200);
    install_late(&fixture, 60);
    AUTO_FREE char *before = found(&fixture, &scope, "late common");
    while (index_maintain(fixture.index, 5))
        cr_assert(lt(uint, ++slices, 1000));
    EXPECT_FOUND(&fixture, &scope, "late common", before);
    cr_expect(not(index_is_damaged(fixture.index)));
}
