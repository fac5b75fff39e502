#include "tests/unit/index_fixture.h"

#include "core/index_private.h"
#include "core/pause_point.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>

static enum install_outcome try_change(struct fixture *fixture, const struct index_change *change)
{
    enum install_outcome outcome = INSTALL_DONE;
    struct error error = {0};
    uint64_t generation = 4711;

    cr_assert(eq(int, index_install_refresh(fixture->index, change, &outcome, &generation, &error),
                 STATUS_OK),
              "%s", error.message);
    if (outcome == INSTALL_LOST)
        cr_expect(eq(u64, generation, 4711));
    return outcome;
}

/* One value of an SQL text, through the writer. */
static int64_t number_of(struct fixture *fixture, const char *sql)
{
    sqlite3_stmt *statement = NULL;
    sqlite3 *db = fixture->index->writer.db;

    cr_assert(eq(int, sqlite3_prepare_v2(db, sql, -1, &statement, NULL), SQLITE_OK), "%s",
              sqlite3_errmsg(db));
    cr_assert(eq(int, sqlite3_step(statement), SQLITE_ROW));
    int64_t number = sqlite3_column_int64(statement, 0);
    (void) sqlite3_finalize(statement);
    return number;
}

/* The words and the facts belong together in every way that can be checked. */
static void expect_sound(struct fixture *fixture)
{
    char reason[ERROR_MESSAGE_MAX] = "";

    cr_expect(eq(int, index_check(&fixture->index->writer, reason, sizeof reason), SQLITE_OK), "%s",
              reason);
    cr_expect(eq(i64, number_of(fixture, "SELECT count(*) FROM fact"),
                 number_of(fixture, "SELECT total(facts) FROM scope")));
}

/* ---- refreshes ---- */

Test(index_install, a_scope_without_facts_gets_a_row_and_its_mark)
{
    AUTO_FIXTURE struct fixture fixture;
    struct scope scope = scope_of(NULL, "__default__");
    struct index_scope state;
    const struct index_change change = {.scope = &scope,
                                        .synced = synced_at(INT64_MAX),
                                        .unmigrated = true};

    fixture_create(&fixture);
    cr_expect(eq(int, scope_state(&fixture, &scope, &state), STATUS_NOT_FOUND));
    cr_expect(eq(u64, install_change(&fixture, &change), 0));
    cr_assert(eq(int, scope_state(&fixture, &scope, &state), STATUS_OK));
    cr_expect(eq(u64, state.generation, 0));
    cr_expect(state.synced.known);
    cr_expect(state.unmigrated);
    /* every 64-bit value comes back as it was */
    const struct manifest_mark mark = mark_of(INT64_MAX);
    cr_expect(signature_equal(&state.synced.mark.signature, &mark.signature));
    cr_expect(eq(u64, state.synced.mark.inode, mark.inode));
    cr_expect(eq(u64, state.synced.mark.ctime_ns, mark.ctime_ns));
}

Test(index_install, an_absent_manifest_is_a_mark_of_its_own)
{
    AUTO_FIXTURE struct fixture fixture;
    struct scope scope = scope_of("u1", "a");
    struct index_scope state;
    const struct index_change change = {.scope = &scope,
                                        .synced = {.known = true,
                                                   .mark = {.signature = {.absent = true}}}};

    fixture_create(&fixture);
    (void) install_change(&fixture, &change);
    cr_assert(eq(int, scope_state(&fixture, &scope, &state), STATUS_OK));
    cr_expect(state.synced.known);
    cr_expect(state.synced.mark.signature.absent);
}

Test(index_install, only_the_expected_generation_installs)
{
    AUTO_FIXTURE struct fixture fixture;
    AUTO_ROWS struct rows one = {0};
    AUTO_ROWS struct rows two = {0};
    struct scope scope = scope_of("u1", "a");
    struct index_scope state;

    fixture_create(&fixture);
    rows_add(&one, fact_of("f1", "first"));
    rows_add(&two, fact_of("f2", "second"));
    cr_expect(eq(u64, install_rows(&fixture, &scope, 0, 7, &one), 1));

    struct index_change late = {.scope = &scope,
                                .replace_all = true,
                                .put = two.rows,
                                .put_count = two.count,
                                .synced = synced_at(8)};
    cr_expect(eq(int, try_change(&fixture, &late), INSTALL_LOST)); /* "must not exist" */
    late.expected_generation = 2;
    cr_expect(eq(int, try_change(&fixture, &late), INSTALL_LOST));
    cr_assert(eq(int, scope_state(&fixture, &scope, &state), STATUS_OK));
    cr_expect(eq(i64, state.synced.mark.signature.revision, 7));
    cr_expect(eq(u64, state.generation, 1));
    EXPECT_FOUND(&fixture, &scope, "first second", "f1");

    late.expected_generation = 1;
    cr_expect(eq(int, try_change(&fixture, &late), INSTALL_DONE));
    EXPECT_FOUND(&fixture, &scope, "first second", "f2");
    expect_sound(&fixture);
}

Test(index_install, an_unknown_scope_is_lost_to_any_generation_but_0)
{
    AUTO_FIXTURE struct fixture fixture;
    struct scope scope = scope_of("u1", "a");
    struct index_scope state;
    const struct index_change change = {.scope = &scope,
                                        .expected_generation = 1,
                                        .synced = synced_at(1)};

    fixture_create(&fixture);
    cr_expect(eq(int, try_change(&fixture, &change), INSTALL_LOST));
    cr_expect(eq(int, scope_state(&fixture, &scope, &state), STATUS_NOT_FOUND));
}

Test(index_install, the_generation_counts_changes_and_not_marks)
{
    AUTO_FIXTURE struct fixture fixture;
    AUTO_ROWS struct rows rows = {0};
    struct scope scope = scope_of("u1", "a");
    const char *const removed[] = {"aa/f1.md"};
    struct seen_entry seen = {.path = (char *) (uintptr_t) "aa", .is_dir = true};

    fixture_create(&fixture);
    rows_add(&rows, fact_of("f1", "first"));
    const struct {
        struct index_change change;
        uint64_t generation;
    } steps[] = {
        {{.put = rows.rows, .put_count = 1}, 1},
        {{.scope = NULL}, 1}, /* only a new mark */
        {{.seen = &seen, .seen_count = 1}, 2},
        {{.removed = removed, .removed_count = 1}, 3},
        {{.replace_all = true}, 4},
        {{.unmigrated = true}, 4},
    };
    uint64_t generation = 0;
    for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
        struct index_change change = steps[i].change;
        change.scope = &scope;
        change.expected_generation = generation;
        change.synced = synced_at((int64_t) i);
        generation = install_change(&fixture, &change);
        cr_expect(eq(u64, generation, steps[i].generation), "step %zu", i);
    }
}

Test(index_install, rows_are_replaced_by_path_and_removed_by_path)
{
    AUTO_FIXTURE struct fixture fixture;
    AUTO_ROWS struct rows first = {0};
    AUTO_ROWS struct rows second = {0};
    struct scope scope = scope_of("u1", "a");
    struct index_scope state;
    const char *const removed[] = {"aa/f2.md", "aa/never.md"};

    fixture_create(&fixture);
    rows_add(&first, fact_of("f1", "alpha one"));
    rows_add(&first, fact_of("f2", "alpha two"));
    rows_add(&first, fact_of("f3", "alpha three"));
    rows_add(&second, fact_of("f1", "beta one"));
    uint64_t generation = install_rows(&fixture, &scope, 0, 1, &first);
    const struct index_change change = {.scope = &scope,
                                        .expected_generation = generation,
                                        .put = second.rows,
                                        .put_count = second.count,
                                        .removed = removed,
                                        .removed_count = ARRAY_SIZE(removed),
                                        .synced = synced_at(2)};
    (void) install_change(&fixture, &change);

    EXPECT_FOUND(&fixture, &scope, "alpha", "f3");
    EXPECT_FOUND(&fixture, &scope, "beta", "f1");
    EXPECT_FOUND(&fixture, &scope, "one", "f1");
    EXPECT_FOUND(&fixture, &scope, "two", "");
    cr_assert(eq(int, scope_state(&fixture, &scope, &state), STATUS_OK));
    cr_expect(eq(u64, state.facts, 2));
    expect_sound(&fixture);
}

Test(index_install, a_row_that_is_the_same_is_left_alone)
{
    AUTO_FIXTURE struct fixture fixture;
    AUTO_ROWS struct rows rows = {0};
    struct scope scope = scope_of("u1", "a");

    fixture_create(&fixture);
    rows_add(&rows, fact_of("f1", "same"));
    (void) install_rows(&fixture, &scope, 0, 1, &rows);
    int64_t before = number_of(&fixture, "SELECT id FROM fact");
    const struct index_change change = {.scope = &scope,
                                        .expected_generation = 1,
                                        .replace_all = true,
                                        .put = rows.rows,
                                        .put_count = rows.count,
                                        .synced = synced_at(2)};
    cr_expect(eq(u64, install_change(&fixture, &change), 2));
    cr_expect(eq(i64, number_of(&fixture, "SELECT id FROM fact"), before));
    expect_sound(&fixture);
}

/* What the words were made of comes back from the stored document, disguises and all. */
Test(index_install, odd_texts_leave_the_words_without_a_trace)
{
    AUTO_FIXTURE struct fixture fixture;
    struct scope scope = scope_of("u1", "a");
    static const char *const contents[] = {
        "plain",
        "\xef\xb7\x91"
        "d83d lone surrogate", /* U+FDD1 and four digits */
        "\xef\xb7\x91"
        "fdd0 noncharacter", /* U+FDD0 itself */
        "quote \" backslash \\ slash / tab\t",
        "line\nline\r\n\x01\x7f",
        "\xf0\x9f\x9a\x80 \xe6\x9c\x8d\xe5\x8a\xa1 caf\xc3\xa9 \xe2\x80\xa8",
        "",
    };

    fixture_create(&fixture);
    for (size_t i = 0; i < ARRAY_SIZE(contents); i++) {
        AUTO_ROWS struct rows rows = {0};
        rows_add(&rows, fact_of("f1", contents[i]));
        (void) install_rows(&fixture, &scope, i, 1, &rows);
        expect_sound(&fixture);
    }
    const struct index_change change = {.scope = &scope,
                                        .expected_generation = ARRAY_SIZE(contents),
                                        .replace_all = true,
                                        .synced = synced_at(2)};
    (void) install_change(&fixture, &change);
    EXPECT_FOUND(&fixture, &scope, "plain lone noncharacter quote line cafe", "");
    EXPECT_FOUND(&fixture, &scope, "p* OR l* OR n* OR q* OR f* OR d*", "");
    expect_sound(&fixture);
}

/* ---- seen entries ---- */

Test(index_install, seen_entries_come_back_whole_and_in_order)
{
    AUTO_FIXTURE struct fixture fixture;
    struct scope scope = scope_of("u1", "a");
    struct index_scope state;
    AUTO_SEEN struct seen_list list = {0};
    struct seen_entry seen[] = {
        {.path = (char *) (uintptr_t) "ff/z.md",
         .stamp = {UINT64_MAX, 1, UINT64_MAX - 2, 3},
         .digest = UINT64_MAX,
         .fault = FACT_FAULT_BROKEN,
         .problem = (char *) (uintptr_t) "line 2: no id"},
        {.path = (char *) (uintptr_t) "", .is_dir = true, .clean = true},
        {.path = (char *) (uintptr_t) "aa/o.md", .fault = FACT_FAULT_FOREIGN},
    };
    const struct index_change change = {.scope = &scope,
                                        .seen = seen,
                                        .seen_count = ARRAY_SIZE(seen),
                                        .synced = synced_at(1)};

    fixture_create(&fixture);
    (void) install_change(&fixture, &change);
    begin(&fixture);
    cr_assert(eq(int, index_read_scope(fixture.reader, &scope, &state, NULL), STATUS_OK));
    cr_expect(eq(u64, state.broken, 2));
    cr_assert(eq(int, index_read_seen(fixture.reader, state.id, &list, NULL), STATUS_OK));
    index_end(fixture.reader);

    cr_assert(eq(sz, list.count, 3));
    cr_expect(zero(int, strcmp(list.entries[0].path, "")));
    cr_expect(list.entries[0].is_dir && list.entries[0].clean);
    cr_expect(list.entries[0].problem == NULL);
    cr_expect(eq(int, list.entries[1].fault, FACT_FAULT_FOREIGN));
    const struct seen_entry *last = &list.entries[2];
    cr_expect(file_stamp_equal(&last->stamp, &seen[0].stamp));
    cr_expect(eq(u64, last->digest, UINT64_MAX));
    cr_expect(not(last->clean));
    cr_expect(zero(int, strcmp(last->problem, "line 2: no id")));
}

static enum status append_problem(void *context, const char *path, enum fact_fault fault,
                                  const char *problem)
{
    text_append_format(context, "[%s %d %s]", path, (int) fault, problem);
    return STATUS_OK;
}

Test(index_install, broken_files_are_counted_and_listed_until_they_go)
{
    AUTO_FIXTURE struct fixture fixture;
    struct scope scope = scope_of("u1", "a");
    struct index_scope state;
    AUTO_TEXT struct text problems = {0};
    struct seen_entry seen[] = {
        {.path = (char *) (uintptr_t) "bb/x.md",
         .fault = FACT_FAULT_BROKEN,
         .problem = (char *) (uintptr_t) "torn"},
        {.path = (char *) (uintptr_t) "aa/y.md", .fault = FACT_FAULT_FOREIGN},
        {.path = (char *) (uintptr_t) "aa/ok.md"},
    };
    const char *const removed[] = {"bb/x.md"};
    struct index_change change = {.scope = &scope,
                                  .seen = seen,
                                  .seen_count = ARRAY_SIZE(seen),
                                  .synced = synced_at(1)};

    fixture_create(&fixture);
    (void) install_change(&fixture, &change);
    begin(&fixture);
    cr_assert(eq(int, index_read_scope(fixture.reader, &scope, &state, NULL), STATUS_OK));
    cr_assert(eq(int,
                 index_list_problems(fixture.reader, state.id, append_problem, &problems, NULL),
                 STATUS_OK));
    index_end(fixture.reader);
    cr_expect(zero(int, strcmp(text_string(&problems), "[aa/y.md 2 ][bb/x.md 1 torn]")), "%s",
              text_string(&problems));

    change = (struct index_change){.scope = &scope,
                                   .expected_generation = 1,
                                   .removed = removed,
                                   .removed_count = 1,
                                   .synced = synced_at(2)};
    (void) install_change(&fixture, &change);
    cr_assert(eq(int, scope_state(&fixture, &scope, &state), STATUS_OK));
    cr_expect(eq(u64, state.broken, 1));

    change = (struct index_change){.scope = &scope,
                                   .expected_generation = 2,
                                   .replace_all = true,
                                   .synced = synced_at(3)};
    (void) install_change(&fixture, &change);
    cr_assert(eq(int, scope_state(&fixture, &scope, &state), STATUS_OK));
    cr_expect(eq(u64, state.broken, 0));
}

/* ---- manifests ---- */

Test(index_install, the_manifest_comes_and_goes_with_the_mark)
{
    AUTO_FIXTURE struct fixture fixture;
    AUTO_ROWS struct rows rows = {0};
    struct scope scope = scope_of("u1", "a");
    struct scope other = scope_of("u1", "b");
    const char bytes[] = {'a', '\0', 'b', '\xff'}; /* stored as they are */
    AUTO_FREE char *stored = NULL;
    size_t size;

    fixture_create(&fixture);
    rows_add(&rows, fact_of("f1", "word"));
    uint64_t generation = install_rows(&fixture, &scope, 0, 3, &rows);
    (void) install_rows(&fixture, &other, 0, 3, &rows);
    expect_manifest(&fixture, &scope, 3, "the first");

    struct index_change change = {.scope = &scope,
                                  .expected_generation = generation - 1,
                                  .synced = synced_at(4),
                                  .manifest = "late",
                                  .manifest_size = 4};
    cr_expect(eq(int, try_change(&fixture, &change), INSTALL_LOST));
    expect_manifest(&fixture, &scope, 3, "a lost refresh changes nothing");
    cr_assert(eq(int, index_forget(fixture.index, &scope, NULL), STATUS_OK));
    expect_manifest(&fixture, &scope, 3, "the rows of a forgotten scope are still of it");

    change.expected_generation = generation;
    change.manifest = bytes;
    change.manifest_size = sizeof bytes;
    (void) install_change(&fixture, &change);
    struct index_scope state;
    begin(&fixture);
    cr_assert(eq(int, index_read_scope(fixture.reader, &scope, &state, NULL), STATUS_OK));
    cr_assert(
        eq(int, index_read_manifest(fixture.reader, state.id, &stored, &size, NULL), STATUS_OK));
    cr_expect(eq(sz, size, sizeof bytes));
    cr_expect(zero(int, memcmp(stored, bytes, sizeof bytes)));
    index_end(fixture.reader);

    change.synced.mark = (struct manifest_mark){.signature = {.absent = true}};
    change.manifest = NULL;
    change.manifest_size = 0;
    (void) install_change(&fixture, &change);
    expect_manifest(&fixture, &scope, 0, "none any more");
    expect_manifest(&fixture, &other, 3, "another scope keeps its own");
}

Test(index_install, a_manifest_is_read_only_of_a_scope_that_is_there_and_in_a_snapshot)
{
    AUTO_FIXTURE struct fixture fixture;
    char *stored = NULL;
    size_t size = 4711;

    fixture_create(&fixture);
    cr_expect(not(index_read_manifest(fixture.reader, 1, &stored, &size, NULL) == STATUS_OK));
    begin(&fixture);
    cr_expect(
        eq(int, index_read_manifest(fixture.reader, 1, &stored, &size, NULL), STATUS_NOT_FOUND));
    index_end(fixture.reader);
    cr_expect(stored == NULL && size == 4711, "written on success only");
}

/* ---- own writes ---- */

struct own_case {
    const char *name;
    bool indexed; /* the scope has a row */
    bool known;   /* ... and a mark, at this revision */
    int64_t synced;
    bool facts_changed;
    enum own_write_outcome outcome;
    bool known_after;
    int64_t synced_after;
    uint64_t generation_after;
    const char *found;
};

/* A write from revision 5 to 6 that adds f2 and removes f1. */
static void check_own_write(const struct own_case *row)
{
    AUTO_FIXTURE struct fixture fixture;
    AUTO_ROWS struct rows old = {0};
    AUTO_ROWS struct rows new = {0};
    struct scope scope = scope_of("u1", "a");
    const char *const removed[] = {"aa/f1.md"};
    struct index_scope state;
    enum own_write_outcome outcome;
    char manifest[MANIFEST_TEXT_SIZE];

    fixture_create(&fixture);
    rows_add(&old, fact_of("f1", "word old"));
    rows_add(&new, fact_of("f2", "word new"));
    if (row->indexed)
        (void) install_rows(&fixture, &scope, 0, row->synced, &old);
    if (row->indexed && !row->known)
        cr_assert(eq(int, index_forget(fixture.index, &scope, NULL), STATUS_OK));
    const struct index_own_write write = {.scope = &scope,
                                          .pre = mark_of(5),
                                          .post = mark_of(6),
                                          .manifest = manifest_of(6, manifest),
                                          .manifest_size = strlen(manifest),
                                          .put = new.rows,
                                          .put_count = row->facts_changed ? new.count : 0,
                                          .removed = removed,
                                          .removed_count = row->facts_changed,
                                          .facts_changed = row->facts_changed};
    cr_assert(eq(int, index_install_own_write(fixture.index, &write, &outcome, NULL), STATUS_OK));
    cr_expect(eq(int, outcome, row->outcome), "%s", row->name);
    cr_assert(eq(int, scope_state(&fixture, &scope, &state),
                 row->indexed ? STATUS_OK : STATUS_NOT_FOUND));
    if (!row->indexed)
        return;
    cr_expect(eq(int, state.synced.known, row->known_after), "%s", row->name);
    cr_expect(eq(i64, state.synced.mark.signature.revision, row->synced_after), "%s", row->name);
    cr_expect(eq(u64, state.generation, row->generation_after), "%s", row->name);
    expect_manifest(&fixture, &scope, row->outcome == OWN_WRITE_PROMOTED ? 6 : row->synced,
                    row->name);
    EXPECT_FOUND(&fixture, &scope, "word", row->found);
    expect_sound(&fixture);
}

Test(index_install, own_writes_apply_only_where_they_fit)
{
    const struct own_case rows[] = {
        {"in step", true, true, 5, true, OWN_WRITE_PROMOTED, true, 6, 2, "f2"},
        {"summaries only", true, true, 5, false, OWN_WRITE_PROMOTED, true, 6, 1, "f1"},
        {"a refresh was faster", true, true, 6, true, OWN_WRITE_ALREADY_CURRENT, true, 6, 1, "f1"},
        {"behind", true, true, 4, true, OWN_WRITE_FORGOTTEN, false, 4, 1, "f1"},
        {"ahead", true, true, 7, true, OWN_WRITE_FORGOTTEN, false, 7, 1, "f1"},
        {"forgotten before", true, false, 5, true, OWN_WRITE_FORGOTTEN, false, 5, 1, "f1"},
        {"not indexed", false, false, 0, true, OWN_WRITE_FORGOTTEN, false, 0, 0, ""},
        {"not indexed, no facts", false, false, 0, false, OWN_WRITE_ALREADY_CURRENT, false, 0, 0,
         ""},
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        check_own_write(&rows[i]);
}

/* A manifest that was put back byte for byte has the same signature, and rows of a change that was
 * taken back may have been read under it. */
Test(index_install, another_file_of_the_same_signature_is_promoted_nowhere)
{
    for (int differs = 0; differs < 3; differs++) {
        AUTO_FIXTURE struct fixture fixture;
        AUTO_ROWS struct rows rows = {0};
        struct scope written = scope_of("u1", "a");
        struct scope other = scope_of("u1", "b");
        struct manifest_mark pre = mark_of(5);
        struct index_scope state;
        enum own_write_outcome outcome;

        fixture_create(&fixture);
        rows_add(&rows, fact_of("f1", "word"));
        (void) install_rows(&fixture, &written, 0, 5, &rows);
        (void) install_rows(&fixture, &other, 0, 5, &rows);
        pre.inode += differs == 1;
        pre.ctime_ns += differs == 2;
        const struct index_own_write write = {.scope = &written,
                                              .pre = pre,
                                              .post = mark_of(6),
                                              .put = rows.rows,
                                              .put_count = rows.count,
                                              .facts_changed = true};
        cr_assert(
            eq(int, index_install_own_write(fixture.index, &write, &outcome, NULL), STATUS_OK));
        cr_expect(eq(int, outcome, differs ? OWN_WRITE_FORGOTTEN : OWN_WRITE_PROMOTED));
        cr_assert(eq(int, scope_state(&fixture, &other, &state), STATUS_OK));
        cr_expect(eq(i64, state.synced.mark.signature.revision, differs ? 5 : 6));
    }
}

Test(index_install, an_absent_manifest_promotes_only_a_scope_without_rows)
{
    for (int with_rows = 0; with_rows < 2; with_rows++) {
        AUTO_FIXTURE struct fixture fixture;
        AUTO_ROWS struct rows rows = {0};
        struct scope scope = scope_of("u1", "a");
        enum own_write_outcome outcome;
        const struct manifest_mark absent = {.signature = {.absent = true}};

        fixture_create(&fixture);
        rows_add(&rows, fact_of("f1", "word"));
        const struct index_change change = {.scope = &scope,
                                            .put = rows.rows,
                                            .put_count = with_rows ? rows.count : 0,
                                            .synced = {.known = true, .mark = absent}};
        (void) install_change(&fixture, &change);
        const struct index_own_write write = {.scope = &scope,
                                              .pre = absent,
                                              .post = mark_of(1),
                                              .put = rows.rows,
                                              .put_count = rows.count,
                                              .facts_changed = true};
        cr_assert(
            eq(int, index_install_own_write(fixture.index, &write, &outcome, NULL), STATUS_OK));
        cr_expect(eq(int, outcome, with_rows ? OWN_WRITE_FORGOTTEN : OWN_WRITE_PROMOTED));
    }
}

Test(index_install, other_scopes_of_the_user_move_along_or_stay)
{
    AUTO_FIXTURE struct fixture fixture;
    AUTO_ROWS struct rows none = {0};
    const struct {
        struct scope scope;
        int64_t before, after;
    } rows[] = {
        {scope_of("u1", "in-step"), 5, 6}, {scope_of("u1", "behind"), 4, 4},
        {scope_of("u1", "ahead"), 6, 6},   {scope_of("u2", "in-step"), 5, 5}, /* another user */
        {scope_of(NULL, "in-step"), 5, 5},                                    /* the root */
    };
    struct scope written = scope_of("u1", "without-rows");
    struct scope forgotten = scope_of("u1", "forgotten");
    struct index_scope state;
    enum own_write_outcome outcome;
    char manifest[MANIFEST_TEXT_SIZE];

    fixture_create(&fixture);
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        (void) install_rows(&fixture, &rows[i].scope, 0, rows[i].before, &none);
    (void) install_rows(&fixture, &forgotten, 0, 5, &none);
    cr_assert(eq(int, index_forget(fixture.index, &forgotten, NULL), STATUS_OK));

    const struct index_own_write write = {.scope = &written,
                                          .pre = mark_of(5),
                                          .post = mark_of(6),
                                          .manifest = manifest_of(6, manifest),
                                          .manifest_size = strlen(manifest),
                                          .facts_changed = false};
    cr_assert(eq(int, index_install_own_write(fixture.index, &write, &outcome, NULL), STATUS_OK));
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        cr_assert(eq(int, scope_state(&fixture, &rows[i].scope, &state), STATUS_OK));
        cr_expect(eq(i64, state.synced.mark.signature.revision, rows[i].after), "row %zu", i);
        cr_expect(eq(u64, state.generation, 0), "row %zu", i);
        expect_manifest(&fixture, &rows[i].scope, rows[i].after, rows[i].scope.agent);
    }
    expect_manifest(&fixture, &forgotten, 5, "forgotten");
    cr_assert(eq(int, scope_state(&fixture, &forgotten, &state), STATUS_OK));
    cr_expect(not(state.synced.known));
}

Test(index_install, a_delta_leaves_the_files_it_wrote_to_be_read_again)
{
    AUTO_FIXTURE struct fixture fixture;
    AUTO_ROWS struct rows rows = {0};
    struct scope scope = scope_of("u1", "a");
    const char *const removed[] = {"aa/f1.md"};
    struct seen_entry seen[] = {
        {.path = (char *) (uintptr_t) "aa", .is_dir = true, .clean = true},
        {.path = (char *) (uintptr_t) "aa/f1.md", .clean = true},
        {.path = (char *) (uintptr_t) "aa/f2.md", .fault = FACT_FAULT_BROKEN},
        {.path = (char *) (uintptr_t) "aa/f3.md", .clean = true},
    };
    enum own_write_outcome outcome;
    struct index_scope state;
    AUTO_SEEN struct seen_list list = {0};

    fixture_create(&fixture);
    rows_add(&rows, fact_of("f2", "mended"));
    const struct index_change change = {.scope = &scope,
                                        .seen = seen,
                                        .seen_count = ARRAY_SIZE(seen),
                                        .synced = synced_at(5)};
    (void) install_change(&fixture, &change);
    const struct index_own_write write = {.scope = &scope,
                                          .pre = mark_of(5),
                                          .post = mark_of(6),
                                          .put = rows.rows,
                                          .put_count = rows.count,
                                          .removed = removed,
                                          .removed_count = 1,
                                          .facts_changed = true};
    cr_assert(eq(int, index_install_own_write(fixture.index, &write, &outcome, NULL), STATUS_OK));
    cr_expect(eq(int, outcome, OWN_WRITE_PROMOTED));

    begin(&fixture);
    cr_assert(eq(int, index_read_scope(fixture.reader, &scope, &state, NULL), STATUS_OK));
    cr_assert(eq(int, index_read_seen(fixture.reader, state.id, &list, NULL), STATUS_OK));
    index_end(fixture.reader);
    cr_assert(eq(sz, list.count, 3));
    cr_expect(zero(int, strcmp(list.entries[1].path, "aa/f2.md")));
    cr_expect(not(list.entries[1].clean));
    cr_expect(eq(int, list.entries[1].fault, FACT_FAULT_NONE));
    cr_expect(eq(u64, list.entries[1].stamp.ctime_ns, 0));
    cr_expect(zero(int, strcmp(list.entries[2].path, "aa/f3.md")));
    cr_expect(eq(u64, state.broken, 0));
}

/* ---- forgetting and removing ---- */

Test(index_install, forgetting_drops_the_mark_and_nothing_else)
{
    AUTO_FIXTURE struct fixture fixture;
    struct scope scope = scope_of("u1", "a");
    struct scope unknown = scope_of("u9", "a");
    const char *const facts[][2] = {{"f1", "word"}};
    struct index_scope state;

    fixture_create(&fixture);
    (void) install_contents(&fixture, &scope, facts, 1);
    cr_expect(eq(int, index_forget(fixture.index, &scope, NULL), STATUS_OK));
    cr_expect(eq(int, index_forget(fixture.index, &unknown, NULL), STATUS_OK));
    cr_assert(eq(int, scope_state(&fixture, &scope, &state), STATUS_OK));
    cr_expect(not(state.synced.known));
    cr_expect(eq(u64, state.generation, 1));
    EXPECT_FOUND(&fixture, &scope, "word", "f1");
}

Test(index_install, a_bucket_is_forgotten_with_what_is_on_its_way)
{
    AUTO_FIXTURE struct fixture fixture;
    struct scope one = scope_of("u1", "a");
    struct scope two = scope_of("u1", "b");
    struct scope other = scope_of("u2", "a");
    const char *const facts[][2] = {{"f1", "word"}};
    struct index_scope state;

    fixture_create(&fixture);
    uint64_t generation = install_contents(&fixture, &one, facts, 1);
    (void) install_contents(&fixture, &two, facts, 1);
    (void) install_contents(&fixture, &other, facts, 1);
    cr_assert(eq(int, index_forget_bucket(fixture.index, &one, NULL), STATUS_OK));
    cr_assert(eq(int, scope_state(&fixture, &two, &state), STATUS_OK));
    cr_expect(not(state.synced.known));
    cr_assert(eq(int, scope_state(&fixture, &other, &state), STATUS_OK));
    cr_expect(state.synced.known);
    cr_assert(eq(int, scope_state(&fixture, &one, &state), STATUS_OK));
    cr_expect(not(state.synced.known));
    cr_expect(eq(u64, state.facts, 1));
    EXPECT_FOUND(&fixture, &one, "word", "f1");

    struct index_change late = {.scope = &one,
                                .expected_generation = generation,
                                .synced = synced_at(9)};
    cr_expect(eq(int, try_change(&fixture, &late), INSTALL_LOST));
    expect_sound(&fixture);
}

Test(index_install, a_scope_goes_with_all_it_had_and_comes_back_fresh)
{
    AUTO_FIXTURE struct fixture fixture;
    struct scope scope = scope_of("u1", "a");
    struct scope other = scope_of("u2", "a");
    const char *const facts[][2] = {{"f1", "word"}, {"f2", "word"}};
    struct index_scope state;
    enum install_outcome outcome;

    fixture_create(&fixture);
    (void) install_contents(&fixture, &scope, facts, 2);
    (void) install_contents(&fixture, &other, facts, 1);
    cr_assert(eq(int, index_remove_scope(fixture.index, &scope, 7, &outcome, NULL), STATUS_OK));
    cr_expect(eq(int, outcome, INSTALL_LOST));
    cr_assert(eq(int, index_remove_scope(fixture.index, &scope, 1, &outcome, NULL), STATUS_OK));
    cr_expect(eq(int, outcome, INSTALL_DONE));
    cr_expect(eq(int, scope_state(&fixture, &scope, &state), STATUS_NOT_FOUND));
    cr_expect(eq(i64, number_of(&fixture, "SELECT count(*) FROM fact"), 1));
    EXPECT_FOUND(&fixture, &other, "word", "f1");

    (void) install_contents(&fixture, &scope, facts, 1);
    EXPECT_FOUND(&fixture, &scope, "word", "f1");
    expect_sound(&fixture);
}

/* ---- numbers within a scope ---- */

Test(index_install, a_scope_that_runs_out_of_numbers_is_numbered_anew)
{
    AUTO_FIXTURE struct fixture fixture;
    AUTO_ROWS struct rows rows = {0};
    struct scope scope = scope_of("u1", "a");
    const char *const facts[][2] = {{"f1", "word one"}, {"f2", "word two"}, {"f3", "word three"}};
    const char *const removed[] = {"aa/f2.md"};
    char sql[128];

    fixture_create(&fixture);
    (void) install_contents(&fixture, &scope, facts, 3);
    (void) snprintf(sql, sizeof sql, "UPDATE scope SET next_sequence = %lld",
                    (long long) INDEX_SEQUENCE_MAX);
    cr_assert(eq(int, sqlite3_exec(fixture.index->writer.db, sql, NULL, NULL, NULL), SQLITE_OK));
    rows_add(&rows, fact_of("f4", "word four"));
    rows_add(&rows, fact_of("f5", "word five"));
    const struct index_change change = {.scope = &scope,
                                        .expected_generation = 1,
                                        .put = rows.rows,
                                        .put_count = rows.count,
                                        .removed = removed,
                                        .removed_count = 1,
                                        .synced = synced_at(2)};
    (void) install_change(&fixture, &change);
    EXPECT_FOUND(&fixture, &scope, "word", "f1 f3 f4 f5");
    EXPECT_FOUND(&fixture, &scope, "four", "f4");
    cr_expect(eq(i64, number_of(&fixture, "SELECT next_sequence FROM scope"), 5));
    expect_sound(&fixture);
}

/* ---- crashes and readers ---- */

static void many_rows(struct rows *rows, unsigned count, const char *word)
{
    char id[32], content[64];

    for (unsigned i = 0; i < count; i++) {
        (void) snprintf(id, sizeof id, "m%u", i);
        (void) snprintf(content, sizeof content, "both %s %u", word, i);
        rows_add(rows, fact_of(id, content));
    }
}

#ifdef MEMSYNC_PAUSE_POINTS
static int replace_and_die(const char *directory, const struct scope *scope)
{
    const struct index_options options = {.directory = directory};
    struct rows rows = {0};
    struct index *index = NULL;
    bool rebuilt;
    enum install_outcome outcome;
    uint64_t generation;

    if (index_open(&options, &index, &rebuilt, NULL) != STATUS_OK || rebuilt)
        return 1;
    many_rows(&rows, 60, "new");
    const struct index_change change = {.scope = scope,
                                        .expected_generation = 1,
                                        .replace_all = true,
                                        .put = rows.rows,
                                        .put_count = rows.count,
                                        .synced = synced_at(8),
                                        .manifest = "manifest 8",
                                        .manifest_size = strlen("manifest 8")};
    pause_kill_at(PAUSE_INSTALL_BEFORE_COMMIT, 1);
    return index_install_refresh(index, &change, &outcome, &generation, NULL) == STATUS_OK ? 2 : 3;
}

Test(index_install, a_kill_before_the_commit_leaves_the_old_rows_mark_and_manifest)
{
    AUTO_FIXTURE struct fixture fixture;
    AUTO_ROWS struct rows rows = {0};
    struct scope scope = scope_of("u1", "a");
    struct index_scope state;
    int status;

    fixture_create(&fixture);
    many_rows(&rows, 50, "old");
    (void) install_rows(&fixture, &scope, 0, 7, &rows);
    fixture_close(&fixture);

    pid_t child = fork();
    if (child == 0)
        _exit(replace_and_die(fixture.directory, &scope));
    cr_assert(eq(int, (int) waitpid(child, &status, 0), (int) child));
    bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    cr_assert(killed, "status %x", status);

    fixture_reopen(&fixture);
    cr_expect(not(fixture.rebuilt));
    cr_assert(eq(int, scope_state(&fixture, &scope, &state), STATUS_OK));
    cr_expect(eq(i64, state.synced.mark.signature.revision, 7));
    cr_expect(eq(u64, state.generation, 1));
    cr_expect(eq(u64, state.facts, 50));
    expect_manifest(&fixture, &scope, 7, "killed");
    EXPECT_FOUND(&fixture, &scope, "new", "");
    EXPECT_FOUND(&fixture, &scope, "\"both old 7\"", "m7");
    expect_sound(&fixture);
}
#endif

struct watcher {
    struct index *index;
    const struct scope *scope;
    atomic_bool stop;
    unsigned looks;
    unsigned mixed; /* answers that were neither all old nor all new, or not of their revision */
    unsigned failed;
};

/* Odd revisions hold "odd" facts only, even ones "even" facts, 300 each. */
static enum status look_once(struct watcher *watcher, struct index_reader *reader)
{
    AUTO_QUERY struct query *odd = NULL;
    AUTO_QUERY struct query *both = NULL;
    AUTO_HITS struct index_hits odd_hits = {0};
    AUTO_HITS struct index_hits all_hits = {0};
    AUTO_FREE char *manifest = NULL;
    char wanted[MANIFEST_TEXT_SIZE];
    size_t size = 0;
    struct index_scope state;
    enum status status = index_begin(reader, NULL);

    if (status == STATUS_OK)
        status = index_read_scope(reader, watcher->scope, &state, NULL);
    if (status == STATUS_OK)
        status = query_parse("odd", 3, &odd);
    if (status == STATUS_OK)
        status = query_parse("both", 4, &both);
    if (status == STATUS_OK)
        status = index_search(reader, state.id, odd, NULL, 1000, CLOCK_NEVER, &odd_hits, NULL);
    if (status == STATUS_OK)
        status = index_search(reader, state.id, both, NULL, 1000, CLOCK_NEVER, &all_hits, NULL);
    if (status == STATUS_OK)
        status = index_read_manifest(reader, state.id, &manifest, &size, NULL);
    index_end(reader);
    if (status != STATUS_OK)
        return status;
    bool is_odd = state.synced.mark.signature.revision % 2 == 1;
    watcher->mixed +=
        all_hits.count != 300 || state.facts != 300 || odd_hits.count != (is_odd ? 300 : 0);
    (void) manifest_of(state.synced.mark.signature.revision, wanted);
    watcher->mixed += size != strlen(wanted) || memcmp(manifest, wanted, size) != 0;
    return STATUS_OK;
}

static void *watch(void *argument)
{
    struct watcher *watcher = argument;
    struct index_reader *reader = NULL;

    if (index_reader_create(watcher->index, &reader, NULL) != STATUS_OK)
        watcher->failed++;
    while (reader && !atomic_load(&watcher->stop)) {
        watcher->failed += look_once(watcher, reader) != STATUS_OK;
        watcher->looks++;
    }
    index_reader_destroy(&reader);
    return NULL;
}

Test(index_install, readers_see_all_of_a_replacement_or_nothing)
{
    AUTO_FIXTURE struct fixture fixture;
    AUTO_ROWS struct rows odd = {0};
    AUTO_ROWS struct rows even = {0};
    struct scope scope = scope_of("u1", "a");
    struct watcher watchers[2] = {0};
    pthread_t threads[2];

    fixture_create(&fixture);
    many_rows(&odd, 300, "odd");
    many_rows(&even, 300, "even");
    uint64_t generation = install_rows(&fixture, &scope, 0, 1, &odd);
    for (size_t i = 0; i < 2; i++) {
        watchers[i] = (struct watcher){.index = fixture.index, .scope = &scope};
        cr_assert(zero(int, pthread_create(&threads[i], NULL, watch, &watchers[i])));
    }
    for (int64_t revision = 2; revision < 14; revision++) {
        const struct rows *rows = revision % 2 ? &odd : &even;
        char manifest[MANIFEST_TEXT_SIZE];
        const struct index_change change = {.scope = &scope,
                                            .expected_generation = generation,
                                            .replace_all = true,
                                            .put = rows->rows,
                                            .put_count = rows->count,
                                            .synced = synced_at(revision),
                                            .manifest = manifest_of(revision, manifest),
                                            .manifest_size = strlen(manifest)};
        generation = install_change(&fixture, &change);
        (void) index_maintain(fixture.index, 1);
    }
    for (size_t i = 0; i < 2; i++) {
        atomic_store(&watchers[i].stop, true);
        pthread_join(threads[i], NULL);
        cr_expect(gt(uint, watchers[i].looks, 0));
        cr_expect(eq(uint, watchers[i].failed, 0));
        cr_expect(eq(uint, watchers[i].mixed, 0));
    }
    expect_sound(&fixture);
}

/* ---- S5: what reads first and then writes must never meet "locked" ---- */

struct intruder {
    sqlite3 *db;
    unsigned tries;
};

/* Tries to commit from another connection after a transaction has read its scope and before it
 * writes. */
static int intrude(unsigned event UNUSED, void *context, void *statement UNUSED, void *text)
{
    struct intruder *intruder = context;

    if (strstr(text, "FROM fact WHERE scope_id") == NULL)
        return 0;
    intruder->tries++;
    (void) sqlite3_exec(intruder->db, "UPDATE scope SET used_at = used_at + 1", NULL, NULL, NULL);
    return 0;
}

Test(index_install, a_transaction_takes_the_write_lock_when_it_begins)
{
    AUTO_FIXTURE struct fixture fixture;
    AUTO_ROWS struct rows rows = {0};
    struct scope scope = scope_of("u1", "a");
    struct index_connection other;

    fixture_create(&fixture);
    rows_add(&rows, fact_of("f1", "word"));
    cr_assert(eq(int, index_connect(fixture.index, true, &other, NULL), STATUS_OK));
    cr_assert(eq(int, sqlite3_busy_timeout(other.db, 0), SQLITE_OK));
    struct intruder intruder = {.db = other.db};
    cr_assert(eq(int,
                 sqlite3_trace_v2(fixture.index->writer.db, SQLITE_TRACE_STMT, intrude, &intruder),
                 SQLITE_OK));
    for (uint64_t i = 0; i < 5; i++) {
        /* a reader's snapshot stays open all the time */
        begin(&fixture);
        (void) json_object_set_new(rows.rows[0].fact->document, "round",
                                   json_integer((json_int_t) i));
        cr_expect(eq(u64, install_rows(&fixture, &scope, i, 1, &rows), i + 1));
        index_end(fixture.reader);
    }
    cr_expect(eq(uint, intruder.tries, 5));
    index_disconnect(&other, false);
}
