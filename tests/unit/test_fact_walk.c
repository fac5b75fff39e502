/* core/fact_walk.h: one look at the files below a facts directory. */
#include "core/fact_walk.h"

#include "tests/unit/engine_checks.h"

#include <fcntl.h>

static struct temp_volume *temp;
static struct volume *volume;
static struct reader_pool *pool;
static struct refresh_plan *plan;
static struct scope scope;
static int facts_fd;
static _Atomic uint64_t files_read;
static struct error error;

#define FACTS "users/u/agents/a/facts"

static void set_up(void)
{
    temp = temp_volume_create();
    temp_volume_make_dir(temp, FACTS);
    const struct volume_options options = {.path = temp_volume_path(temp), .calls = temp_calls()};
    const struct refresh_plan_options plan_options = {.directory_times_work = true,
                                                      .settle_ns = 2 * NS_PER_SECOND,
                                                      .now_ns = 1000};
    cr_assert(volume_open(&options, &volume, NULL) == STATUS_OK);
    cr_assert(reader_pool_create(2, READER_POOL_EAGER, &pool) == STATUS_OK);
    static struct racy racy;
    struct refresh_plan_options with_racy = plan_options;
    with_racy.racy = &racy;
    cr_assert(refresh_plan_create(&with_racy, &plan) == STATUS_OK);
    temp_store_scope("u/a", &scope);
    cr_assert(volume_open_dir(volume, -1, FACTS, &facts_fd, NULL) == STATUS_OK);
}

static void tear_down(void)
{
    temp_calls_reset();
    (void) close(facts_fd);
    refresh_plan_destroy(&plan);
    reader_pool_destroy(&pool);
    volume_close(&volume);
    temp_volume_destroy(&temp);
}

TestSuite(fact_walk, .init = set_up, .fini = tear_down, .timeout = 60);

static enum status walk_until(uint64_t give_up_ns)
{
    const struct fact_walk walk = {.volume = volume,
                                   .pool = pool,
                                   .scope = &scope,
                                   .facts_fd = facts_fd,
                                   .give_up_ns = give_up_ns,
                                   .files_read = &files_read};

    cr_assert(refresh_plan_begin(plan, true) == STATUS_OK);
    error_clear(&error);
    return fact_walk_run(&walk, plan, &error);
}

static void put_fact(const char *directory, const char *id)
{
    const struct temp_change change = {.kind = TEMP_ADD, .id = id, .text = "note"};
    AUTO_FREE char *bytes = temp_fact_render("u", "a", &change, NULL, NULL, 1);
    char path[2 * SCOPE_PATH_MAX];

    (void) snprintf(path, sizeof path, FACTS "/%s%s.md", directory, id);
    temp_volume_write(temp, path, bytes, strlen(bytes));
}

Test(fact_walk, names_of_fact_files)
{
    char longest[SCOPE_NAME_MAX + 2];
    static const struct {
        const char *name, *id;
    } cases[] = {
        {"f1.md", "f1"},  {"a.b.md", "a.b"}, {"x.md.md", "x.md"}, {"f1.MD", NULL},
        {"f1.md~", NULL}, {".f1.md", NULL},  {".md", NULL},       {"md", NULL},
        {"", NULL},       {"f1", NULL},      {"f1.txt", NULL},    {"f1.md.tmp", NULL},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char id[SCOPE_NAME_MAX + 1] = "";
        cr_expect(fact_walk_is_fact_name(cases[i].name, id) == (cases[i].id != NULL), "%s",
                  cases[i].name);
        cr_expect_str_eq(id, cases[i].id ? cases[i].id : "");
    }
    memset(longest, 'n', sizeof longest);
    memcpy(longest + SCOPE_NAME_MAX - 3, ".md", 4);
    cr_expect(fact_walk_is_fact_name(longest, NULL));
    memcpy(longest + SCOPE_NAME_MAX - 2, ".md", 4);
    longest[SCOPE_NAME_MAX - 3] = 'n';
    cr_expect(!fact_walk_is_fact_name(longest, NULL), "longer than a name may be");
}

Test(fact_walk, finds_facts_in_shards_and_wherever_else_they_lie)
{
    AUTO_PLAN_RESULT struct plan_result result = {0};

    put_fact("aa/", "f1");
    put_fact("", "top");
    put_fact("aa/below/", "deep");
    temp_volume_write(temp, FACTS "/aa/broken.md", "no front matter", 15);
    temp_volume_write(temp, FACTS "/aa/notes.txt", "", 0);
    put_fact(".hidden/", "h1");
    cr_expect_eq(walk_until(CLOCK_NEVER), STATUS_OK);
    cr_assert(refresh_plan_finish(plan, &result) == STATUS_OK);
    cr_expect_eq(result.put_count, 3);
    cr_expect(result.files == 4 && result.broken == 1);
    cr_expect_eq(files_read, 4);
}

Test(fact_walk, what_will_be_read_anyway_is_not_asked_for_its_attributes)
{
    put_fact("aa/", "f1");
    temp_calls_count(TEMP_CALL_STAT, "/aa/f1.md");
    cr_expect_eq(walk_until(CLOCK_NEVER), STATUS_OK);
    cr_expect_eq(temp_calls_counted(), 2, "only before and after its bytes");
    cr_expect_eq(walk_until(CLOCK_NEVER), STATUS_OK);
    temp_calls_count(TEMP_CALL_STAT, "/facts/aa");
    put_fact("bb/", "f2");
    cr_expect_eq(walk_until(CLOCK_NEVER), STATUS_OK);
    cr_expect_eq(temp_calls_counted(), 1, "nor a directory that will be listed");
}

/* One look-up of the directory does for several files in it. */
Test(fact_walk, files_of_one_directory_are_read_from_there)
{
    char id[16];

    for (unsigned i = 0; i < 100; i++) {
        (void) snprintf(id, sizeof id, "f%u", i);
        put_fact("aa/", id);
    }
    temp_calls_count(TEMP_CALL_OPEN, "/facts/aa");
    cr_expect_eq(walk_until(CLOCK_NEVER), STATUS_OK);
    cr_expect_eq(files_read, 100);
    cr_expect_eq(temp_calls_counted(), 1 + 7, "its listing, and bunches of 16 files");
}

/* The plan's limits are no failure of the walk. */
Test(fact_walk, directories_deeper_than_it_looks_are_left_out)
{
    AUTO_PLAN_RESULT struct plan_result result = {0};

    put_fact("1/2/3/4/5/6/7/8/", "eight");
    put_fact("1/2/3/4/5/6/7/8/9/", "nine");
    cr_expect_eq(walk_until(CLOCK_NEVER), STATUS_OK);
    cr_assert(refresh_plan_finish(plan, &result) == STATUS_OK);
    cr_assert_eq(result.put_count, 1);
    cr_expect_str_eq(result.put[0].fact->id, "eight");
}

/* A file is no other case than a directory: the facts beside it are there. */
Test(fact_walk, paths_longer_than_it_keeps_are_left_out)
{
    AUTO_PLAN_RESULT struct plan_result result = {0};
    char directory[SCOPE_PATH_MAX] = "";
    char id[201];

    for (unsigned i = 0; i < 5; i++) {
        size_t used = strlen(directory);
        memset(directory + used, 'd', 200);
        (void) snprintf(directory + used + 200, sizeof directory - used - 200, "/");
    }
    memset(id, 'f', 200);
    id[200] = '\0';
    put_fact(directory, "short");
    put_fact(directory, id);
    cr_expect_eq(walk_until(CLOCK_NEVER), STATUS_OK, "%s", error.message);
    cr_assert(refresh_plan_finish(plan, &result) == STATUS_OK);
    cr_assert_eq(result.put_count, 1);
    cr_expect_str_eq(result.put[0].fact->id, "short");
}

Test(fact_walk, what_was_listed_and_is_gone_starts_over)
{
    static const struct {
        enum temp_call call;
        const char *path_end;
        int sys_errno;
        enum status expected;
    } cases[] = {
        {TEMP_CALL_OPEN, "/f1.md", ENOENT, STATUS_STALE},
        {TEMP_CALL_OPEN, "/f1.md", ESTALE, STATUS_STALE},
        {TEMP_CALL_STAT, "/f1.md", ENOENT, STATUS_STALE},
        {TEMP_CALL_OPEN, "/aa", ENOENT, STATUS_STALE},
        {TEMP_CALL_STAT, "/aa", ENOENT, STATUS_STALE},
        {TEMP_CALL_READ, "/f1.md", EIO, STATUS_IO},
        {TEMP_CALL_LIST, "/aa", EIO, STATUS_IO},
        {TEMP_CALL_OPEN, "/aa", EACCES, STATUS_DENIED},
    };

    put_fact("aa/", "f1");
    put_fact("bb/", "f2");
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        temp_calls_fail(cases[i].call, cases[i].path_end, cases[i].sys_errno, 0, 1);
        cr_expect_eq(walk_until(CLOCK_NEVER), cases[i].expected, "row %zu: %s", i, error.message);
        temp_calls_reset();
        refresh_plan_distrust_dirs(plan);
        cr_expect_eq(walk_until(CLOCK_NEVER), STATUS_OK, "row %zu", i);
    }
}

/* So that a lock is not held for long. */
Test(fact_walk, gives_up_when_its_time_is_over)
{
    put_fact("aa/", "f1");
    cr_expect_eq(walk_until(clock_monotonic_ns() - 1), STATUS_STALE);
    cr_expect_eq(files_read, 0);
}

static struct temp_ruling let_time_pass(enum temp_call call)
{
    if (call == TEMP_CALL_READ)
        clock_advance_for_test(NS_PER_SECOND);
    return (struct temp_ruling){0};
}

Test(fact_walk, gives_up_when_its_time_is_over_among_the_files)
{
    char id[16];

    for (unsigned i = 0; i < 40; i++) {
        (void) snprintf(id, sizeof id, "f%u", i);
        put_fact("aa/", id);
    }
    temp_calls_ask(let_time_pass);
    cr_expect_eq(walk_until(clock_monotonic_ns() + NS_PER_SECOND), STATUS_STALE);
    cr_expect(strstr(error.message, "it takes too long") != NULL, "%s", error.message);
    cr_expect(files_read > 0 && files_read < 40);
}

Test(fact_walk, a_file_beyond_the_limit_or_without_a_right_is_kept_out)
{
    AUTO_PLAN_RESULT struct plan_result result = {0};
    char path[PATH_MAX];

    put_fact("aa/", "f1");
    put_fact("aa/", "huge");
    put_fact("aa/", "closed");
    temp_volume_file(temp, FACTS "/aa/huge.md", path);
    cr_assert(truncate(path, FACT_FILE_BYTES_MAX + 1) == 0);
    temp_calls_fail(TEMP_CALL_OPEN, "/closed.md", EACCES, 0, 0);
    cr_expect_eq(walk_until(CLOCK_NEVER), STATUS_OK);
    cr_assert(refresh_plan_finish(plan, &result) == STATUS_OK);
    cr_expect(result.files == 3 && result.broken == 2 && result.put_count == 1);
    for (size_t i = 0; i < result.seen_count; i++)
        cr_expect(result.seen[i].is_dir || result.seen[i].stamp.inode != 0, "%s has its stamp",
                  result.seen[i].path);
}

Test(fact_walk, a_link_or_a_pipe_of_that_name_is_no_fact)
{
    AUTO_PLAN_RESULT struct plan_result result = {0};
    char path[PATH_MAX];

    put_fact("aa/", "f1");
    temp_volume_file(temp, FACTS "/aa/pipe.md", path);
    cr_assert(mkfifo(path, 0600) == 0);
    temp_volume_file(temp, FACTS "/aa/link.md", path);
    cr_assert(symlink("f1.md", path) == 0);
    temp_volume_file(temp, FACTS "/linked", path);
    cr_assert(symlink("aa", path) == 0);
    cr_expect_eq(walk_until(CLOCK_NEVER), STATUS_OK);
    cr_assert(refresh_plan_finish(plan, &result) == STATUS_OK);
    cr_expect(result.files == 1 && result.put_count == 1);
}

Test(fact_walk, whether_any_fact_lies_there)
{
    bool any = true;

    cr_expect(fact_walk_any(volume, facts_fd, &any, NULL) == STATUS_OK && !any);
    temp_volume_make_dir(temp, FACTS "/aa");
    temp_volume_write(temp, FACTS "/bb/.f1.md", "", 0);
    temp_volume_write(temp, FACTS "/bb/f1.txt", "", 0);
    put_fact(".hidden/", "h1");
    cr_expect(fact_walk_any(volume, facts_fd, &any, NULL) == STATUS_OK && !any);
    put_fact("bb/", "f1");
    cr_expect(fact_walk_any(volume, facts_fd, &any, NULL) == STATUS_OK && any);
    temp_volume_remove(temp, FACTS "/bb/f1.md");
    temp_volume_make_dir(temp, FACTS "/bb/deeper"); /* might hold some */
    cr_expect(fact_walk_any(volume, facts_fd, &any, NULL) == STATUS_OK && any);
    temp_volume_remove(temp, FACTS "/bb/deeper");
    put_fact("", "top");
    cr_expect(fact_walk_any(volume, facts_fd, &any, NULL) == STATUS_OK && any);

    temp_calls_fail(TEMP_CALL_LIST, "/facts", EIO, 0, 0);
    any = false;
    cr_expect(fact_walk_any(volume, facts_fd, &any, NULL) == STATUS_IO && !any);
    temp_calls_reset();
    temp_volume_remove(temp, FACTS "/top.md");
    temp_calls_fail(TEMP_CALL_OPEN, "/bb", ENOENT, 0, 0);
    cr_expect(fact_walk_any(volume, facts_fd, &any, NULL) == STATUS_STALE && !any, "it was listed");
}
