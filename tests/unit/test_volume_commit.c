/* core/volume_commit.h: the steps of a commit, and what it does when it is not alone. */
#include "core/volume_commit.h"

#include "core/journal.h"
#include "core/pause_point.h"
#include "core/volume_private.h"
#include "core/volume_rollback.h"
#include "tests/support/child.h"
#include "tests/support/temp_calls.h"
#include "tests/support/temp_tree.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define LONG_MS 20000
#define BUCKET "users/u"
#define FACTS_COUNT 3

static struct temp_volume *files;
static struct volume *volume;
static json_t *before; /* the bucket's files */

/* One commit: f1 changes, f2 is new, f3 goes. */
static struct {
    int bucket_fd;
    char paths[FACTS_COUNT][SCOPE_PATH_MAX];
    struct commit_fact facts[FACTS_COUNT];
    struct commit_request request;
    char *base;
    char manifest[4096];
    enum status status;
    struct error error;
    struct commit_result result;
    pthread_t thread;
} commit;

static const char *fact_path(const char *id, char ret[SCOPE_PATH_MAX])
{
    char shard[3];

    fact_id_shard(id, shard);
    (void) snprintf(ret, SCOPE_PATH_MAX, "agents/a/facts/%s/%s.md", shard, id);
    return ret;
}

static void in_bucket(const char *path, char ret[SCOPE_PATH_MAX])
{
    (void) snprintf(ret, SCOPE_PATH_MAX, BUCKET "/%.900s", path);
}

static void plan_commit(void)
{
    static const char *const ids[FACTS_COUNT] = {"f1", "f2", "f3"};
    size_t size;

    for (size_t i = 0; i < FACTS_COUNT; i++)
        commit.facts[i] = (struct commit_fact){.id = ids[i],
                                               .path = fact_path(ids[i], commit.paths[i]),
                                               .existed = i != 1};
    commit.facts[0].bytes = "new one";
    commit.facts[1].bytes = "new two";
    commit.facts[0].size = commit.facts[1].size = strlen("new one");
    commit.base = temp_volume_read(files, BUCKET "/memory.json", &size);
    (void) snprintf(commit.manifest, sizeof commit.manifest, "{\"revision\": 2, \"ours\": true}");
    commit.request = (struct commit_request){
        .volume = volume,
        .bucket_fd = commit.bucket_fd,
        .manifest_name = "memory.json",
        .agent = "a",
        .base = commit.base,
        .base_size = size,
        .expected_revision = 1,
        .next_revision = 2,
        .manifest = commit.manifest,
        .manifest_size = strlen(commit.manifest),
        .facts = commit.facts,
        .fact_count = FACTS_COUNT,
        .locks_reach_all_nodes = true,
    };
}

static void set_up(void)
{
    static const struct temp_change changes[] = {
        {.kind = TEMP_ADD, .id = "f1", .text = "one"},
        {.kind = TEMP_ADD, .id = "f3", .text = "three"},
        {.kind = TEMP_ADD, .id = "f4", .text = "four"},
    };
    const struct temp_commit first = {.user = "u",
                                      .agent = "a",
                                      .changes = changes,
                                      .count = ARRAY_SIZE(changes)};

    files = temp_volume_create();
    (void) temp_volume_commit(files, &first);
    const struct volume_options options = {.path = temp_volume_path(files), .calls = temp_calls()};
    cr_assert_eq(volume_open(&options, &volume, NULL), STATUS_OK);
    memset(&commit, 0, sizeof commit);
    cr_assert_eq(volume_open_dir(volume, -1, BUCKET, &commit.bucket_fd, NULL), STATUS_OK);
    before = temp_tree_read(files, BUCKET);
    plan_commit();
}

static void tear_down(void)
{
    pause_reset();
    temp_calls_reset();
    json_decref(before);
    free(commit.base);
    cleanup_close(&commit.bucket_fd);
    volume_close(&volume);
    temp_volume_destroy(&files);
}

TestSuite(volume_commit, .init = set_up, .fini = tear_down, .timeout = 60);

static void *commit_main(void *context UNUSED)
{
    commit.status = volume_commit(&commit.request, &commit.result, &commit.error);
    return NULL;
}

static void run(void)
{
    (void) commit_main(NULL);
}

static void start_until(enum pause_point point)
{
    pause_arm(point);
    cr_assert_eq(pthread_create(&commit.thread, NULL, commit_main, NULL), 0);
    cr_assert(pause_wait_reached(point, LONG_MS));
}

static void go_on(enum pause_point point)
{
    pause_release(point);
    cr_assert_eq(pthread_join(commit.thread, NULL), 0);
}

/* ---- what lies there ---- */

static void expect_file(const char *path, const char *expected, int line)
{
    char full[SCOPE_PATH_MAX];

    in_bucket(path, full);
    cr_assert(temp_volume_exists(files, full), "line %d: %s is not there", line, path);
    AUTO_FREE char *bytes = temp_volume_read(files, full, NULL);
    cr_expect_str_eq(bytes, expected, "line %d: %s is {%s}", line, path, bytes);
}
#define EXPECT_FILE(path, expected) expect_file(path, expected, __LINE__)

static bool is_there(const char *path)
{
    char full[SCOPE_PATH_MAX];

    in_bucket(path, full);
    return temp_volume_exists(files, full);
}

static void put(const char *path, const char *bytes)
{
    char full[SCOPE_PATH_MAX];

    in_bucket(path, full);
    temp_volume_write(files, full, bytes, strlen(bytes));
}

static void take_away(const char *path)
{
    char full[SCOPE_PATH_MAX];

    in_bucket(path, full);
    temp_volume_remove(files, full);
}

static void expect_left(const char *expected, int line)
{
    char left[2000];

    temp_tree_leftovers(files, BUCKET, left, sizeof left);
    cr_expect_str_eq(left, expected, "line %d: left {%s}", line, left);
}
#define EXPECT_NOTHING_LEFT() expect_left("", __LINE__)

static void expect_as_before(int line)
{
    AUTO_JSON json_t *now = temp_tree_read(files, BUCKET);
    char differs[1000];

    temp_tree_differ(before, now, differs, sizeof differs);
    cr_expect_str_eq(differs, "", "line %d: %s differs", line, differs);
    expect_left("", line);
}
#define EXPECT_AS_BEFORE() expect_as_before(__LINE__)

static void expect_overtaken(int line)
{
    char members[64];

    (void) snprintf(members, sizeof members, "\"reason\":\"overtaken\",\"expected\":%d",
                    (int) commit.request.expected_revision);
    cr_expect_eq(commit.status, STATUS_CONFLICT, "line %d: %s %s", line, status_name(commit.status),
                 commit.error.message);
    cr_expect(strstr(commit.error.members, members), "line %d: {%s}", line, commit.error.members);
    cr_expect(commit.error.path[0], "line %d", line);
}
#define EXPECT_OVERTAKEN() expect_overtaken(__LINE__)

/* ---- backups ---- */

/* What a backup holds while the commit stands still behind its manifest, and what comes back. */
static void expect_backups(int line)
{
    AUTO_JOURNAL struct journal *journal = NULL;
    size_t size;

    start_until(PAUSE_COMMIT_AFTER_MANIFEST);
    AUTO_FREE char *bytes = temp_volume_read(files, BUCKET "/" JOURNAL_NAME, &size);
    cr_assert_eq(journal_parse(bytes, size, &journal, NULL), STATUS_OK);
    char path[3][SCOPE_PATH_MAX];
    static const char *const names[] = {"memory.json", "f1.md", "f3.md"};
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        (void) snprintf(path[i], sizeof path[i], JOURNAL_RECOVERY_DIR "/%s/%s",
                        journal->operation_id, names[i]);
    expect_file(path[0], commit.base, line);
    cr_expect(is_there(path[1]), "line %d", line);
    cr_expect(is_there(path[2]), "line %d", line);

    temp_calls_fail(TEMP_CALL_RENAME, "/" JOURNAL_NAME, EIO, 0, 1);
    go_on(PAUSE_COMMIT_AFTER_MANIFEST);
    cr_expect_eq(commit.status, STATUS_IO, "line %d", line);
    expect_as_before(line);
}

Test(volume_commit, keeps_what_it_replaces)
{
    expect_backups(__LINE__);
}

Test(volume_commit, keeps_copies_where_there_are_no_links)
{
    temp_calls_fail(TEMP_CALL_LINK, "*", EPERM, 0, 0);
    expect_backups(__LINE__);
}

Test(volume_commit, believes_in_a_link_whose_answer_got_lost)
{
    temp_calls_lose_answer(TEMP_CALL_LINK, "/.recovery/*/memory.json", EEXIST, 0, 1);
    temp_calls_lose_answer(TEMP_CALL_LINK, "/.recovery/*/f3.md", EEXIST, 0, 1);
    expect_backups(__LINE__);
}

/* Else a writer that is killed then leaves a journal whose backup is of somebody else's revision.
 */
Test(volume_commit, places_no_journal_over_a_backup_of_another_base)
{
    put("memory.json", "{\"revision\": 9}");
    temp_calls_fail(TEMP_CALL_LINK, "/" JOURNAL_NAME, EIO, 0, 0);
    run();
    EXPECT_OVERTAKEN();
}

/* Neither a link nor a rename that spares what is there: the journal has no name, and nothing has
 * happened. */
Test(volume_commit, whose_journal_cannot_be_placed_does_not_begin)
{
    temp_calls_fail(TEMP_CALL_LINK, "/" JOURNAL_NAME, EPERM, 0, 0);
    temp_calls_fail(TEMP_CALL_RENAME_NEW, "/" JOURNAL_NAME, EIO, 0, 0);
    run();
    cr_expect_eq(commit.status, STATUS_IO, "%s", status_name(commit.status));
    EXPECT_AS_BEFORE();
}

/* ---- alone ---- */

Test(volume_commit, does_what_was_asked_and_nothing_else)
{
    run();
    cr_assert_eq(commit.status, STATUS_OK, "%s: %s", commit.error.path, commit.error.message);
    EXPECT_FILE("memory.json", commit.manifest);
    EXPECT_FILE(commit.paths[0], "new one");
    EXPECT_FILE(commit.paths[1], "new two");
    cr_expect(!is_there(commit.paths[2]));
    EXPECT_NOTHING_LEFT();
    AUTO_JSON json_t *now = temp_tree_read(files, BUCKET);
    cr_expect_eq(json_object_size(now), 4);
    AUTO_IMAGE struct file_image image = {0};
    cr_assert_eq(volume_read_file(volume, commit.bucket_fd, "memory.json", 1 << 20, &image, NULL),
                 STATUS_OK);
    cr_expect_eq(image.stamp.inode, commit.result.manifest.inode);
    cr_expect_eq(image.stamp.mtime_ns, commit.result.manifest.mtime_ns);
    cr_expect_eq(image.stamp.ctime_ns, commit.result.manifest.ctime_ns);
    cr_expect_eq(image.stamp.size, commit.result.manifest.size);
}

Test(volume_commit, of_a_new_user_has_no_manifest_before_it)
{
    temp_volume_remove(files, BUCKET);
    temp_volume_make_dir(files, BUCKET);
    cleanup_close(&commit.bucket_fd);
    cr_assert_eq(volume_open_dir(volume, -1, BUCKET, &commit.bucket_fd, NULL), STATUS_OK);
    commit.request.bucket_fd = commit.bucket_fd;
    commit.request.base = NULL;
    commit.request.base_size = 0;
    commit.request.expected_revision = 0;
    commit.request.next_revision = 1;
    (void) snprintf(commit.manifest, sizeof commit.manifest, "{\"revision\": 1}");
    commit.request.manifest_size = strlen(commit.manifest);
    commit.request.facts = &commit.facts[1];
    commit.request.fact_count = 1;
    temp_calls_fail(TEMP_CALL_RENAME, "/" JOURNAL_NAME, EIO, 0, 1);
    run();
    cr_expect_eq(commit.status, STATUS_IO);
    AUTO_JSON json_t *none = temp_tree_read(files, BUCKET);
    cr_expect_eq(json_object_size(none), 0, "the manifest that was written is gone again");
    run();
    cr_expect_eq(commit.status, STATUS_OK, "%s", commit.error.message);
    EXPECT_FILE("memory.json", commit.manifest);
    EXPECT_FILE(commit.paths[1], "new two");
    EXPECT_NOTHING_LEFT();
}

Test(volume_commit, of_summaries_names_no_agent)
{
    AUTO_JOURNAL struct journal *journal = NULL;
    size_t size;

    commit.request.agent = NULL;
    commit.request.fact_count = 0;
    start_until(PAUSE_COMMIT_AFTER_JOURNAL);
    AUTO_FREE char *bytes = temp_volume_read(files, BUCKET "/" JOURNAL_NAME, &size);
    cr_assert_eq(journal_parse(bytes, size, &journal, NULL), STATUS_OK);
    cr_expect(!journal->has_agent);
    cr_expect_eq(journal->fact_count, 0);
    go_on(PAUSE_COMMIT_AFTER_JOURNAL);
    cr_expect_eq(commit.status, STATUS_OK);
    EXPECT_FILE("memory.json", commit.manifest);
    EXPECT_NOTHING_LEFT();
}

Test(volume_commit, changes_a_misplaced_fact_where_it_lies)
{
    char from[SCOPE_PATH_MAX];
    char to[SCOPE_PATH_MAX];

    in_bucket(commit.paths[0], from);
    in_bucket("agents/a/facts/deep/down/f1.md", to);
    temp_volume_make_dir(files, BUCKET "/agents/a/facts/deep/down");
    temp_volume_rename(files, from, to);
    json_decref(before);
    before = temp_tree_read(files, BUCKET);
    (void) snprintf(commit.paths[0], sizeof commit.paths[0], "agents/a/facts/deep/down/f1.md");
    temp_calls_fail(TEMP_CALL_RENAME, "/" JOURNAL_NAME, ENOSPC, 0, 1);
    run();
    cr_expect_eq(commit.status, STATUS_STORAGE_FULL);
    EXPECT_AS_BEFORE();
    run();
    cr_expect_eq(commit.status, STATUS_OK, "%s", commit.error.message);
    EXPECT_FILE("agents/a/facts/deep/down/f1.md", "new one");
    EXPECT_NOTHING_LEFT();
}

/* A journal that names it would be refused by whoever has to take the change back. */
Test(volume_commit, of_a_fact_in_a_place_without_a_sound_name_is_refused)
{
    char from[SCOPE_PATH_MAX];
    char to[SCOPE_PATH_MAX];

    in_bucket(commit.paths[0], from);
    in_bucket("agents/a/facts/odd\001name/f1.md", to);
    temp_volume_make_dir(files, BUCKET "/agents/a/facts/odd\001name");
    temp_volume_rename(files, from, to);
    json_decref(before);
    before = temp_tree_read(files, BUCKET);
    (void) snprintf(commit.paths[0], sizeof commit.paths[0], "agents/a/facts/odd\001name/f1.md");
    run();
    cr_expect_eq(commit.status, STATUS_INVALID, "%s", status_name(commit.status));
    cr_expect_str_eq(commit.error.path, JOURNAL_NAME);
    EXPECT_AS_BEFORE();
}

/* ---- a silly-renamed file, V8 ---- */

Test(volume_commit, succeeds_though_its_backups_cannot_go)
{
    AUTO_LISTING struct listing listing = {0};
    char path[SCOPE_PATH_MAX];
    char silly[SCOPE_PATH_MAX + 32];

    start_until(PAUSE_COMMIT_AFTER_JOURNAL);
    cr_assert_eq(volume_list(volume, -1, BUCKET "/.recovery", &listing, NULL), STATUS_OK);
    cr_assert_eq(listing.count, 1);
    (void) snprintf(path, sizeof path, ".recovery/%s", listing.entries[0].name);
    (void) snprintf(silly, sizeof silly, "%s/.nfs0000000012345678", path);
    put(silly, "open elsewhere");
    go_on(PAUSE_COMMIT_AFTER_JOURNAL);
    cr_expect_eq(commit.status, STATUS_OK);
    cr_expect(!is_there(JOURNAL_NAME));
    cr_expect(is_there(silly));

    /* the next commit removes the directory once it can */
    take_away(silly);
    free(commit.base);
    commit.base = temp_volume_read(files, BUCKET "/memory.json", &commit.request.base_size);
    commit.request.base = commit.base;
    commit.request.expected_revision = 2;
    commit.request.next_revision = 3;
    commit.request.fact_count = 0;
    (void) snprintf(commit.manifest, sizeof commit.manifest, "{\"revision\": 3}");
    commit.request.manifest_size = strlen(commit.manifest);
    run();
    cr_expect_eq(commit.status, STATUS_OK);
    EXPECT_NOTHING_LEFT();
}

/* ---- what dead writers left without a journal ---- */

#define HEX "0123456789abcdef0123456789abcdef"
static const char *const abandoned[] = {
    ".recovery/" HEX "/f1.md",
    ".recovery/" HEX "/memory.json",
    ".memory.json." HEX ".tmp",
    "." JOURNAL_NAME "." HEX ".tmp",
};
static const char *const foreign[] = {
    ".recovery/notes.txt",
    ".recovery/not an operation/f1.md",
    ".memory.json.tmp",
    ".memory.json.0123.tmp",
    ".memory.json.0123456789ABCDEF0123456789ABCDEF.tmp",
    "memory.json." HEX ".tmp",
    ".memory.json." HEX ".tmp.bak",
    "agents/a/facts/.f1.md." HEX ".tmp",
    "agents/a/.metadata/.fact-usage.json." HEX ".tmp",
    ".hidden",
    "notes.txt",
};

Test(volume_commit, removes_what_dead_writers_left_and_nothing_else)
{
    for (size_t i = 0; i < ARRAY_SIZE(abandoned); i++)
        put(abandoned[i], "left");
    for (size_t i = 0; i < ARRAY_SIZE(foreign); i++)
        put(foreign[i], "kept");
    run();
    cr_expect_eq(commit.status, STATUS_OK);
    for (size_t i = 0; i < ARRAY_SIZE(abandoned); i++)
        cr_expect(!is_there(abandoned[i]), "%s", abandoned[i]);
    for (size_t i = 0; i < ARRAY_SIZE(foreign); i++)
        EXPECT_FILE(foreign[i], "kept");
}

/* They may belong to somebody who is at it and whom our lock does not keep out. */
Test(volume_commit, leaves_all_of_it_where_locks_do_not_reach)
{
    commit.request.locks_reach_all_nodes = false;
    for (size_t i = 0; i < ARRAY_SIZE(abandoned); i++)
        put(abandoned[i], "left");
    run();
    cr_expect_eq(commit.status, STATUS_OK);
    for (size_t i = 0; i < ARRAY_SIZE(abandoned); i++)
        EXPECT_FILE(abandoned[i], "left");
}

Test(volume_commit, an_abandoned_directory_that_cannot_go_is_no_obstacle)
{
    put(".recovery/" HEX "/f1.md", "left");
    temp_calls_fail(TEMP_CALL_UNLINK, "/" HEX "/f1.md", EACCES, 0, 0);
    run();
    cr_expect_eq(commit.status, STATUS_OK);
    EXPECT_FILE(".recovery/" HEX "/f1.md", "left");
}

/* ---- not alone: the lock locks nobody out ---- */

Test(volume_commit, finds_another_base_before_it_begins)
{
    put("memory.json", "{\"revision\": 2, \"theirs\": true}");
    json_decref(before);
    before = temp_tree_read(files, BUCKET);
    run();
    EXPECT_OVERTAKEN();
    EXPECT_AS_BEFORE();
    take_away("memory.json");
    json_decref(before);
    before = temp_tree_read(files, BUCKET);
    run();
    EXPECT_OVERTAKEN();
    EXPECT_AS_BEFORE();
}

Test(volume_commit, finds_a_manifest_where_there_was_none)
{
    commit.request.base = NULL;
    commit.request.base_size = 0;
    commit.request.expected_revision = 0;
    run();
    EXPECT_OVERTAKEN();
    EXPECT_AS_BEFORE();
}

Test(volume_commit, finds_a_fact_gone_that_it_was_to_replace)
{
    take_away(commit.paths[2]);
    json_decref(before);
    before = temp_tree_read(files, BUCKET);
    run();
    EXPECT_OVERTAKEN();
    EXPECT_AS_BEFORE();
}

Test(volume_commit, finds_somebody_elses_journal)
{
    put(JOURNAL_NAME, "{\"operationId\": \"other\", \"state\": \"prepared\"}");
    run();
    EXPECT_OVERTAKEN();
    EXPECT_FILE(JOURNAL_NAME, "{\"operationId\": \"other\", \"state\": \"prepared\"}");
    take_away(JOURNAL_NAME);
    EXPECT_AS_BEFORE();
}

Test(volume_commit, takes_back_only_what_is_still_its_own)
{
    start_until(PAUSE_COMMIT_BEFORE_CHECK);
    EXPECT_FILE(commit.paths[0], "new one");
    put("memory.json", "{\"revision\": 2, \"theirs\": true}");
    put(commit.paths[0], "their one");
    go_on(PAUSE_COMMIT_BEFORE_CHECK);
    EXPECT_OVERTAKEN();
    EXPECT_FILE("memory.json", "{\"revision\": 2, \"theirs\": true}");
    EXPECT_FILE(commit.paths[0], "their one");
    cr_expect(!is_there(commit.paths[1]));
    cr_expect(is_there(commit.paths[2]), "what it removed is back");
    EXPECT_NOTHING_LEFT();
}

Test(volume_commit, that_was_taken_for_dead_leaves_nothing_behind)
{
    static const enum pause_point points[] = {
        PAUSE_COMMIT_AFTER_JOURNAL,
        PAUSE_COMMIT_BEFORE_CHECK,
        PAUSE_COMMIT_AFTER_MANIFEST,
    };

    for (size_t i = 0; i < ARRAY_SIZE(points); i++) {
        start_until(points[i]);
        /* whoever gets the lock rolls it back */
        struct temp_commit nothing = {.user = "u", .agent = "a"};
        struct temp_writer *other = temp_writer_begin(files, &nothing);
        temp_writer_abandon(&other);
        go_on(points[i]);
        EXPECT_OVERTAKEN();
        EXPECT_AS_BEFORE();
        pause_reset();
    }
}

static void *roll_back_main(void *context UNUSED)
{
    AUTO_JOURNAL struct journal *journal = NULL;
    size_t size;

    AUTO_FREE char *bytes = temp_volume_read(files, BUCKET "/" JOURNAL_NAME, &size);
    enum status status = journal_parse(bytes, size, &journal, NULL);
    if (status == STATUS_OK)
        status = volume_rollback(volume, commit.bucket_fd, "memory.json", journal, NULL);
    (void) status; /* the writer may have taken it back itself by then */
    return NULL;
}

/* Who takes it back has put all facts back and looked at the journal for the last time. Could the
 * writer go on now, its change would be acknowledged, and then the old manifest put over it. */
Test(volume_commit, that_is_being_taken_back_cannot_go_on)
{
    pthread_t recoverer;

    start_until(PAUSE_COMMIT_AFTER_JOURNAL);
    pause_arm(PAUSE_RECOVER_BEFORE_MANIFEST);
    cr_assert_eq(pthread_create(&recoverer, NULL, roll_back_main, NULL), 0);
    cr_assert(pause_wait_reached(PAUSE_RECOVER_BEFORE_MANIFEST, LONG_MS));
    go_on(PAUSE_COMMIT_AFTER_JOURNAL);
    pause_release(PAUSE_RECOVER_BEFORE_MANIFEST);
    cr_assert_eq(pthread_join(recoverer, NULL), 0);
    EXPECT_OVERTAKEN();
    EXPECT_AS_BEFORE();
}

/* Somebody rolled it back and is at a change of his own. */
Test(volume_commit, leaves_everything_to_the_owner_of_the_next_journal)
{
    static const char theirs[] = "{\"operationId\": \"other\", \"state\": \"prepared\"}";

    start_until(PAUSE_COMMIT_BEFORE_CHECK);
    put(JOURNAL_NAME, theirs);
    put(".recovery/other/f1.md", "their backup");
    go_on(PAUSE_COMMIT_BEFORE_CHECK);
    EXPECT_OVERTAKEN();
    EXPECT_FILE(JOURNAL_NAME, theirs);
    EXPECT_FILE(".recovery/other/f1.md", "their backup");
    EXPECT_FILE(commit.paths[0], "new one");
    AUTO_FREE char *manifest = temp_volume_read(files, BUCKET "/memory.json", NULL);
    cr_expect_str_eq(manifest, commit.base);
    cr_expect(!is_there(".memory.json." HEX ".tmp"));
}

/* Another node cleaned our committed journal up and has begun its own. */
Test(volume_commit, does_not_clean_up_the_journal_of_the_next_one)
{
    static const char theirs[] = "{\"operationId\": \"other\", \"state\": \"prepared\"}";

    commit.request.locks_reach_all_nodes = false;
    start_until(PAUSE_COMMIT_AFTER_COMMITTED);
    put(JOURNAL_NAME, theirs);
    go_on(PAUSE_COMMIT_AFTER_COMMITTED);
    cr_expect_eq(commit.status, STATUS_OK);
    EXPECT_FILE(JOURNAL_NAME, theirs);
}

Test(volume_commit, loses_the_directory_of_its_backups_to_somebody_who_cleans_up)
{
    commit.request.locks_reach_all_nodes = false;
    temp_calls_fail(TEMP_CALL_OPEN, "/memory.json", ENOENT, 1, 1);
    run();
    EXPECT_OVERTAKEN();
    EXPECT_AS_BEFORE();
}

Test(volume_commit, of_a_user_who_is_removed_meanwhile_is_overtaken)
{
    static const enum pause_point points[] = {
        PAUSE_COMMIT_AFTER_BACKUP, PAUSE_COMMIT_AFTER_JOURNAL,    PAUSE_COMMIT_AFTER_FACT,
        PAUSE_COMMIT_BEFORE_CHECK, PAUSE_COMMIT_BEFORE_COMMITTED,
    };

    for (size_t i = 0; i < ARRAY_SIZE(points); i++) {
        start_until(points[i]);
        temp_volume_remove(files, BUCKET);
        go_on(points[i]);
        EXPECT_OVERTAKEN();
        cr_expect(!temp_volume_exists(files, BUCKET), "%s", pause_point_name(points[i]));
        tear_down();
        set_up();
    }
}

/* ---- faults behind the point of no return ---- */

Test(volume_commit, that_says_committed_stands_whatever_follows)
{
    temp_calls_fail(TEMP_CALL_UNLINK, "/" JOURNAL_NAME, EIO, 0, 0);
    temp_calls_fail(TEMP_CALL_UNLINK, "/f1.md", EIO, 0, 0);
    run();
    cr_expect_eq(commit.status, STATUS_OK);
    EXPECT_FILE("memory.json", commit.manifest);
    cr_expect(is_there(JOURNAL_NAME));
}

Test(volume_commit, whose_last_answer_got_lost_is_unconfirmed)
{
    temp_calls_lose_answer(TEMP_CALL_RENAME, "/" JOURNAL_NAME, EIO, 0, 1);
    run();
    cr_expect_eq(commit.status, STATUS_IO);
    cr_expect_str_eq(commit.error.members, ",\"reason\":\"unconfirmed\"");
    cr_expect(strstr(commit.error.message, "was made"), "%s", commit.error.message);
    EXPECT_FILE("memory.json", commit.manifest);
    EXPECT_FILE(commit.paths[0], "new one");
    cr_expect(is_there(JOURNAL_NAME), "and it is the next one's to clean up");
}

Test(volume_commit, whose_end_cannot_be_seen_says_so)
{
    temp_calls_lose_answer(TEMP_CALL_RENAME, "/" JOURNAL_NAME, EIO, 0, 1);
    temp_calls_fail(TEMP_CALL_OPEN, "/" JOURNAL_NAME, EIO, 2, 0); /* after two checks */
    run();
    cr_expect_eq(commit.status, STATUS_IO);
    cr_expect_str_eq(commit.error.members, ",\"reason\":\"unconfirmed\"");
    cr_expect(strstr(commit.error.message, "cannot be told"), "%s", commit.error.message);
    EXPECT_FILE(commit.paths[0], "new one");
}

/* ---- V6: no space, at every place where it can be said ---- */

static int open_one(const char *path, const struct stat *status UNUSED, int kind UNUSED,
                    struct FTW *place UNUSED)
{
    return chmod(path, 0777);
}

/* In a process of its own, as somebody who may change all but one directory of the bucket. */
static void expect_refused(const char *directory, mode_t mode, const char *message)
{
    char path[PATH_MAX + SCOPE_PATH_MAX];
    char bucket[PATH_MAX];
    int status = 0;

    (void) snprintf(bucket, sizeof bucket, "%s/" BUCKET, temp_volume_path(files));
    (void) snprintf(path, sizeof path, "%s/%s", bucket, directory);
    cr_assert_eq(nftw(bucket, open_one, 16, FTW_PHYS), 0);
    cr_assert_eq(chmod(path, mode), 0, "%s", path);
    (void) fflush(NULL);
    pid_t pid = fork();
    cr_assert(pid >= 0);
    if (pid == 0) {
        if (setegid(65534) < 0 || seteuid(65534) < 0)
            _exit(1);
        run();
        if (seteuid(0) < 0)
            _exit(1);
        bool told = commit.status == STATUS_DENIED && strstr(commit.error.message, message) &&
                    strcmp(commit.error.path, directory) == 0;
        if (!told)
            (void) fprintf(stderr, "%d %s: %s\n", (int) commit.status, commit.error.path,
                           commit.error.message);
        child_exit(told ? 0 : 2);
    }
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_expect_eq(status, 0, "%s %o", directory, (unsigned) mode);
    cr_assert_eq(chmod(path, 0777), 0);
    EXPECT_AS_BEFORE();
}

Test(volume_commit, without_the_right_nobody_else_is_kept_from_writing)
{
    char shard[SCOPE_PATH_MAX];
    char recovery[PATH_MAX];

    if (geteuid() != 0) {
        printf("skipped: only root can become somebody without rights\n");
        return;
    }
    (void) snprintf(shard, sizeof shard, "%s", commit.paths[0]);
    *strrchr(shard, '/') = '\0';
    expect_refused(shard, 0755, "no right to change the facts there");
    expect_refused(shard, 0700, "no right to change the facts there");
    (void) snprintf(recovery, sizeof recovery, "%s/" BUCKET "/.recovery", temp_volume_path(files));
    cr_assert(mkdir(recovery, 0777) == 0 || errno == EEXIST);
    expect_refused(".recovery", 0755, "no right to keep backups there");
}

Test(volume_commit, without_space_nothing_has_happened)
{
    static const struct {
        enum temp_call call;
        const char *path_end;
        unsigned skip;
    } faults[] = {
        {TEMP_CALL_MKDIR, "/.recovery", 0},
        {TEMP_CALL_MKDIR, "/.recovery/*", 0},
        {TEMP_CALL_MKDIR, "/agents/a/facts/*", 0}, /* before one that is made stays */
        {TEMP_CALL_OPEN, "/.recovery/*/memory.json", 0},
        {TEMP_CALL_WRITE, "/.recovery/*/f3.md", 0},
        {TEMP_CALL_SYNC, "/.recovery/*/f1.md", 0},
        {TEMP_CALL_CLOSE, "/.recovery/*/f1.md", 0},
        {TEMP_CALL_OPEN, "/.new-2", 0},
        {TEMP_CALL_WRITE, "/.new-0", 0},
        {TEMP_CALL_WRITE, "/.new-0", 1},
        {TEMP_CALL_SYNC, "/.new-0", 0},
        {TEMP_CALL_CLOSE, "/.new-0", 0},
        {TEMP_CALL_OPEN, "/.new-manifest", 0},
        {TEMP_CALL_WRITE, "/.new-manifest", 2},
        {TEMP_CALL_SYNC, "/.new-manifest", 0},
        {TEMP_CALL_CLOSE, "/.new-manifest", 0},
        {TEMP_CALL_OPEN, "/.new-journal", 0},
        {TEMP_CALL_WRITE, "/.new-journal", 1},
        {TEMP_CALL_WRITE, "/.new-committed", 50},
        {TEMP_CALL_LINK, "/" JOURNAL_NAME, 0},
        {TEMP_CALL_SYNC, "/users/u", 0},
        {TEMP_CALL_RENAME, "/f1.md", 0},
        {TEMP_CALL_UNLINK, "/f3.md", 0},
        {TEMP_CALL_SYNC, "/agents/a/facts/??", 0},
        {TEMP_CALL_RENAME, "/memory.json", 0},
        {TEMP_CALL_RENAME, "/" JOURNAL_NAME, 0},
    };
    static const int errnos[] = {ENOSPC, EDQUOT};

    for (size_t i = 0; i < 2 * ARRAY_SIZE(faults); i++) {
        take_away(".recovery");
        temp_calls_write_short("*", 3);
        if (strstr(faults[i / 2].path_end, "/.recovery/*/")) /* of a copy */
            temp_calls_fail(TEMP_CALL_LINK, "/.recovery/*", EPERM, 0, 0);
        temp_calls_fail(faults[i / 2].call, faults[i / 2].path_end, errnos[i % 2],
                        faults[i / 2].skip, 1);
        run();
        temp_calls_reset();
        cr_expect_eq(commit.status, STATUS_STORAGE_FULL, "%s %s: %s %s",
                     temp_call_name(faults[i / 2].call), faults[i / 2].path_end,
                     status_name(commit.status), commit.error.message);
        cr_expect(commit.error.path[0]);
        EXPECT_AS_BEFORE();
        if (commit.status == STATUS_OK)
            return;
    }
    run();
    cr_expect_eq(commit.status, STATUS_OK);
    EXPECT_NOTHING_LEFT();
}

/* ---- names of what is not yet renamed ---- */

/* A name is cut where it would get too long. */
Test(volume_commit, a_temporary_tells_whose_it_is)
{
    char name[FACT_ID_MAX + 8];
    char temporary[NAME_MAX + 1];

    memset(name, 'x', FACT_ID_MAX);
    (void) snprintf(name + FACT_ID_MAX, 8, ".md");
    (void) snprintf(temporary, sizeof temporary, ".%.200s." HEX ".tmp", name);
    cr_expect(volume_name_is_temporary_of(temporary, name));
    cr_expect(volume_name_is_temporary_of(".f.md." HEX ".tmp", "f.md"));
    cr_expect(!volume_name_is_temporary_of(".f.md." HEX ".tmp", "g.md"));
    cr_expect(!volume_name_is_temporary_of(".ff.md." HEX ".tmp", "f.md"));
    cr_expect(!volume_name_is_temporary_of(".f.md." HEX ".tmp", "f.m"));
    cr_expect(!volume_name_is_temporary_of(".f.md.tmp", "f.md"));
    cr_expect(!volume_name_is_temporary_of("", ""));
    cr_expect(!volume_name_is_temporary_of("." HEX ".tmp", ""));
}
