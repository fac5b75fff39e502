/* core/refresh_plan.h: what must be listed and read, and what follows for the index. */
#include "core/refresh_plan.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define W 10 /* of the racily-clean rule here */
#define NOW 100000

static struct racy racy;
static struct seen_entry entries[16];
static struct seen_list seen;
static struct refresh_plan_options options;
static struct refresh_plan *plan;
static struct plan_result result;

static void set_up(void)
{
    options = (struct refresh_plan_options){
        .seen = &seen, .racy = &racy, .directory_times_work = true, .settle_ns = W, .now_ns = NOW};
}

static void tear_down(void)
{
    plan_result_destroy(&result);
    refresh_plan_destroy(&plan);
    racy_clear(&racy);
}

TestSuite(refresh_plan, .init = set_up, .fini = tear_down, .timeout = 30);

static struct file_stamp stamp_of(uint64_t time)
{
    return (struct file_stamp){.inode = 5, .size = 40, .mtime_ns = time, .ctime_ns = time};
}

/* Directories' sizes are stored as 0. */
static void add_seen(const char *path, bool is_dir, uint64_t time, bool clean)
{
    struct seen_entry *entry = &entries[seen.count++];

    seen.entries = entries;
    *entry = (struct seen_entry){.path = (char *) (uintptr_t) path,
                                 .is_dir = is_dir,
                                 .stamp = stamp_of(time),
                                 .clean = clean,
                                 .digest = is_dir ? 0 : 77};
    if (is_dir)
        entry->stamp.size = 0;
}

/* Two shards with three facts, all clean, of time 100. */
static void seen_usual(bool clean)
{
    add_seen("", true, 100, clean);
    add_seen("aa", true, 100, clean);
    add_seen("aa/f1.md", false, 100, clean);
    add_seen("aa/f2.md", false, 100, clean);
    add_seen("bb", true, 100, clean);
    add_seen("bb/f3.md", false, 100, clean);
}

static void create(void)
{
    cr_assert(refresh_plan_create(&options, &plan) == STATUS_OK);
    cr_assert(refresh_plan_begin(plan, true) == STATUS_OK);
}

static plan_entry next_dir(const char *path)
{
    plan_entry dir = 0;

    cr_assert(refresh_plan_next_dir(plan, &dir), "%s was expected", path);
    cr_assert_str_eq(refresh_plan_path(plan, dir), path);
    return dir;
}

static void no_more_dirs(void)
{
    plan_entry dir;

    cr_expect(!refresh_plan_next_dir(plan, &dir));
}

static bool stamped(plan_entry dir, uint64_t time, uint64_t looked_ns)
{
    struct file_stamp stamp = stamp_of(time);

    return refresh_plan_dir_stamped(plan, dir, &stamp, looked_ns);
}

static void list_begin(plan_entry dir, uint64_t time, uint64_t looked_ns)
{
    struct file_stamp stamp = stamp_of(time);

    refresh_plan_list_begin(plan, dir, &stamp, looked_ns);
}

static plan_entry name(plan_entry dir, const char *text, bool is_dir)
{
    plan_entry entry = 0;

    cr_assert(refresh_plan_list_name(plan, dir, text, is_dir, &entry) == STATUS_OK);
    return entry;
}

static bool wants(plan_entry file, uint64_t time, uint64_t looked_ns)
{
    struct file_stamp stamp = stamp_of(time);

    return refresh_plan_file_stamped(plan, file, &stamp, looked_ns);
}

static struct fact *fact_of(const char *id)
{
    struct fact *fact = calloc(1, sizeof *fact);

    cr_assert(fact != NULL);
    fact->document = json_pack("{s:s}", "id", id);
    fact->id = json_string_value(json_object_get(fact->document, "id"));
    return fact;
}

static void read_as(plan_entry file, uint64_t time, uint64_t looked_ns, uint64_t digest,
                    struct fact *fact)
{
    struct file_stamp stamp = stamp_of(time);

    cr_assert(refresh_plan_file_read(plan, file, &stamp, looked_ns, digest, fact,
                                     fact ? FACT_FAULT_NONE : FACT_FAULT_BROKEN,
                                     fact ? NULL : "no title") == STATUS_OK);
}

static void finish(void)
{
    cr_assert(refresh_plan_finish(plan, &result) == STATUS_OK);
}

static const struct seen_entry *seen_of(const char *path)
{
    for (size_t i = 0; i < result.seen_count; i++) {
        if (strcmp(result.seen[i].path, path) == 0)
            return &result.seen[i];
    }
    return NULL;
}

static bool is_removed(const char *path)
{
    for (size_t i = 0; i < result.removed_count; i++) {
        if (strcmp(result.removed[i], path) == 0)
            return true;
    }
    return false;
}

Test(refresh_plan, a_first_look_lists_and_reads_all)
{
    create();
    plan_entry root = next_dir("");
    cr_expect(stamped(root, 100, NOW));
    list_begin(root, 100, NOW);
    plan_entry shard = name(root, "aa", true);
    refresh_plan_list_end(plan, root);
    cr_expect_eq(next_dir("aa"), shard);
    cr_expect(stamped(shard, 100, NOW));
    list_begin(shard, 100, NOW);
    plan_entry file = name(shard, "f1.md", false);
    cr_expect(wants(file, 100, NOW));
    refresh_plan_list_end(plan, shard);
    no_more_dirs();
    read_as(file, 100, NOW, 77, fact_of("f1"));
    finish();

    cr_expect_eq(result.put_count, 1);
    cr_expect_str_eq(result.put[0].path, "aa/f1.md");
    cr_expect_str_eq(result.put[0].fact->id, "f1");
    cr_expect_eq(result.removed_count, 0);
    cr_expect_eq(result.seen_count, 3);
    cr_expect(result.unsettled, "seen for the first time a moment ago");
    cr_expect(!seen_of("aa/f1.md")->clean && !seen_of("aa")->clean && !seen_of("")->clean);
    cr_expect_eq(result.files, 1);
    cr_expect_eq(result.broken, 0);
    struct plan_counts counts;
    refresh_plan_counts(plan, &counts);
    cr_expect(counts.dirs_checked == 2 && counts.dirs_listed == 2 && counts.files_checked == 1 &&
              counts.files_read == 1);
}

Test(refresh_plan, clean_directories_that_did_not_move_are_not_listed)
{
    seen_usual(true);
    create();
    cr_expect(!stamped(next_dir(""), 100, NOW));
    cr_expect(!stamped(next_dir("aa"), 100, NOW));
    cr_expect(!stamped(next_dir("bb"), 100, NOW));
    no_more_dirs();
    finish();
    cr_expect(result.put_count == 0 && result.removed_count == 0 && result.seen_count == 0);
    cr_expect(!result.unsettled);
    cr_expect_eq(result.files, 3);
}

/* Every part of the stamp counts, but for a directory's size. */
Test(refresh_plan, a_directory_that_moved_is_listed)
{
    const struct {
        struct file_stamp stamp;
        bool listed;
    } cases[] = {
        {{.inode = 5, .size = 40, .mtime_ns = 100, .ctime_ns = 100}, false},
        {{.inode = 5, .size = 99, .mtime_ns = 100, .ctime_ns = 100}, false},
        {{.inode = 6, .size = 40, .mtime_ns = 100, .ctime_ns = 100}, true},
        {{.inode = 5, .size = 40, .mtime_ns = 101, .ctime_ns = 100}, true},
        {{.inode = 5, .size = 40, .mtime_ns = 99, .ctime_ns = 100}, true},
        {{.inode = 5, .size = 40, .mtime_ns = 100, .ctime_ns = 101}, true},
    };

    seen_usual(true);
    create();
    plan_entry root = next_dir("");
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        cr_expect(refresh_plan_dir_stamped(plan, root, &cases[i].stamp, NOW) == cases[i].listed,
                  "row %zu", i);
}

Test(refresh_plan, where_directory_times_do_not_work_each_is_listed_every_time)
{
    seen_usual(true);
    options.directory_times_work = false;
    create();
    cr_expect(stamped(next_dir(""), 100, NOW));
    cr_expect(stamped(next_dir("aa"), 100, NOW));
}

Test(refresh_plan, one_changed_file_costs_one_listing_and_one_read)
{
    seen_usual(true);
    create();
    cr_expect(!stamped(next_dir(""), 100, NOW));
    plan_entry aa = next_dir("aa");
    cr_expect(stamped(aa, 200, NOW));
    list_begin(aa, 200, NOW);
    plan_entry f1 = name(aa, "f1.md", false);
    plan_entry f2 = name(aa, "f2.md", false);
    cr_expect(!wants(f1, 100, NOW));
    cr_expect(wants(f2, 200, NOW));
    refresh_plan_list_end(plan, aa);
    cr_expect(!stamped(next_dir("bb"), 100, NOW));
    no_more_dirs();
    read_as(f2, 200, NOW, 78, fact_of("f2"));
    finish();
    cr_expect(result.put_count == 1 && strcmp(result.put[0].path, "aa/f2.md") == 0);
    cr_expect_eq(result.removed_count, 0);
    cr_expect_eq(result.seen_count, 2); /* the file and its directory */
    cr_expect(!seen_of("aa")->clean && !seen_of("aa/f2.md")->clean);
    cr_expect_eq(result.files, 3);
}

/* Nobody need ask for stamps that decide nothing. */
Test(refresh_plan, tells_what_is_looked_at_whatever_its_stamp_is)
{
    seen_usual(true);
    options.directory_times_work = true;
    create();
    plan_entry root = next_dir("");
    cr_expect(!refresh_plan_must_list(plan, root));
    cr_expect(stamped(root, 200, NOW));
    list_begin(root, 200, NOW);
    plan_entry added = name(root, "cc", true);
    cr_expect(refresh_plan_must_list(plan, added));
    plan_entry aa = name(root, "aa", true);
    (void) name(root, "bb", true);
    refresh_plan_list_end(plan, root);
    cr_expect(!refresh_plan_must_list(plan, aa));
    list_begin(aa, 200, NOW);
    cr_expect(refresh_plan_trusts_file(plan, name(aa, "f1.md", false)));
    cr_expect(!refresh_plan_trusts_file(plan, name(aa, "f9.md", false)));
    refresh_plan_distrust_dirs(plan);
    cr_expect(refresh_plan_must_list(plan, aa));
}

/* The rule itself: equal stamps prove something only when they were met again after W. */
Test(refresh_plan, a_stamp_gets_its_mark_only_after_the_whole_tick)
{
    static const struct {
        uint64_t looked_ns;
        bool clean;
    } cases[] = {{NOW, false}, {NOW + W - 1, false}, {NOW + W, true}, {NOW + 5 * W, true}};

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        uint64_t looked_ns = cases[i].looked_ns;
        seen.count = 0;
        seen_usual(false);
        racy_start(&racy, NOW); /* stored by a refresh that ended then */
        create();
        plan_entry root = next_dir("");
        cr_expect(stamped(root, 100, looked_ns), "not clean, so listed");
        list_begin(root, 100, looked_ns);
        plan_entry aa = name(root, "aa", true);
        refresh_plan_list_end(plan, root);
        cr_expect(stamped(aa, 100, looked_ns));
        list_begin(aa, 100, looked_ns);
        plan_entry f1 = name(aa, "f1.md", false);
        cr_expect(wants(f1, 100, looked_ns), "not clean, so read");
        refresh_plan_list_end(plan, aa);
        read_as(f1, 100, looked_ns, 77, fact_of("f1"));
        finish();
        cr_expect_eq(result.put_count, 0, "the same bytes make no new row");
        const struct seen_entry *file = seen_of("aa/f1.md");
        cr_expect((file && file->clean) == cases[i].clean, "file, row %zu", i);
        cr_expect((seen_of("aa") && seen_of("aa")->clean) == cases[i].clean, "shard, row %zu", i);
        tear_down();
        result = (struct plan_result){0};
    }
}

Test(refresh_plan, what_the_process_does_not_know_counts_as_seen_now)
{
    seen_usual(false);
    create(); /* a restart: `racy` is empty, so all is known since NOW */
    plan_entry root = next_dir("");
    list_begin(root, 100, NOW + W - 1);
    refresh_plan_list_end(plan, root);
    finish();
    cr_expect(result.unsettled);
    for (size_t i = 0; i < result.seen_count; i++)
        cr_expect(!result.seen[i].clean);
}

Test(refresh_plan, a_file_that_changed_while_it_settled_begins_anew)
{
    seen_usual(false);
    racy_start(&racy, NOW - 100 * W);
    create();
    plan_entry root = next_dir("");
    list_begin(root, 100, NOW);
    plan_entry aa = name(root, "aa", true);
    refresh_plan_list_end(plan, root);
    list_begin(aa, 300, NOW);
    plan_entry f1 = name(aa, "f1.md", false);
    plan_entry f2 = name(aa, "f2.md", false);
    refresh_plan_list_end(plan, aa);
    read_as(f1, 300, NOW, 78, fact_of("f1"));
    read_as(f2, 100, NOW, 77, fact_of("f2"));
    finish();
    cr_expect(!seen_of("aa/f1.md")->clean && !seen_of("aa")->clean);
    cr_expect(seen_of("aa/f2.md")->clean && seen_of("")->clean);

    racy_clear(&racy);
    racy_start(&racy, NOW - 100 * W);
    refresh_plan_note_racy(plan, &racy, NOW + 1);
    cr_expect_eq(racy_since(&racy, "aa/f1.md", NOW + 50), NOW, "known since it was looked at");
    cr_expect_eq(racy_since(&racy, "aa", NOW + 50), NOW);
    cr_expect_eq(racy_since(&racy, "aa/f2.md", NOW + 50), NOW - 100 * W);
}

Test(refresh_plan, after_the_first_refresh_everything_counts_as_known_since_its_end)
{
    create();
    plan_entry root = next_dir("");
    list_begin(root, 100, NOW);
    refresh_plan_list_end(plan, root);
    refresh_plan_note_racy(plan, &racy, NOW + 3);
    cr_expect_eq(racy_since(&racy, "", NOW + 50), NOW + 3);
}

Test(refresh_plan, full_reads_every_file_once_and_keeps_equal_rows)
{
    seen_usual(true);
    options.full = true;
    create();
    plan_entry root = next_dir("");
    cr_expect(stamped(root, 100, NOW));
    list_begin(root, 100, NOW);
    plan_entry aa = name(root, "aa", true);
    plan_entry bb = name(root, "bb", true);
    refresh_plan_list_end(plan, root);
    cr_expect(stamped(aa, 100, NOW) && stamped(bb, 100, NOW));
    list_begin(aa, 100, NOW);
    plan_entry f1 = name(aa, "f1.md", false);
    plan_entry f2 = name(aa, "f2.md", false);
    refresh_plan_list_end(plan, aa);
    list_begin(bb, 100, NOW);
    plan_entry f3 = name(bb, "f3.md", false);
    refresh_plan_list_end(plan, bb);
    cr_expect(wants(f1, 100, NOW) && wants(f2, 100, NOW) && wants(f3, 100, NOW));
    read_as(f1, 100, NOW, 77, fact_of("f1"));
    read_as(f2, 100, NOW, 99, fact_of("f2")); /* edited in place */
    read_as(f3, 100, NOW, 77, fact_of("f3"));
    cr_expect(!wants(f1, 100, NOW), "read by this plan and settled");
    finish();
    cr_expect(result.put_count == 1 && strcmp(result.put[0].path, "aa/f2.md") == 0);
}

Test(refresh_plan, what_a_listing_no_longer_shows_is_removed)
{
    seen_usual(true);
    create();
    plan_entry root = next_dir("");
    list_begin(root, 200, NOW);
    plan_entry aa = name(root, "aa", true);
    refresh_plan_list_end(plan, root);
    list_begin(aa, 200, NOW);
    (void) name(aa, "f1.md", false);
    refresh_plan_list_end(plan, aa);
    cr_expect_eq(next_dir("aa"), aa);
    no_more_dirs(); /* bb is gone and not looked at */
    finish();
    cr_expect_eq(result.removed_count, 3);
    cr_expect(is_removed("aa/f2.md") && is_removed("bb") && is_removed("bb/f3.md"));
    cr_expect_eq(result.files, 1);
}

Test(refresh_plan, without_a_facts_directory_everything_goes)
{
    seen_usual(true);
    cr_assert(refresh_plan_create(&options, &plan) == STATUS_OK);
    cr_assert(refresh_plan_begin(plan, false) == STATUS_OK);
    no_more_dirs();
    finish();
    cr_expect_eq(result.removed_count, 6);
    cr_expect_eq(result.files, 0);
}

Test(refresh_plan, an_attempt_that_is_begun_anew_looks_at_every_directory_again)
{
    seen_usual(true);
    create();
    plan_entry root = next_dir("");
    (void) next_dir("aa");
    refresh_plan_dir_gone(plan, root);
    cr_assert(refresh_plan_begin(plan, true) == STATUS_OK);
    cr_expect_eq(next_dir(""), root);
    list_begin(root, 200, NOW);
    (void) name(root, "aa", true);
    (void) name(root, "bb", true);
    refresh_plan_list_end(plan, root);
    (void) next_dir("aa");
    (void) next_dir("bb");
    no_more_dirs();
}

Test(refresh_plan, after_a_contradiction_no_directory_is_trusted)
{
    seen_usual(true);
    create();
    cr_expect(!stamped(next_dir(""), 100, NOW));
    refresh_plan_distrust_dirs(plan);
    cr_assert(refresh_plan_begin(plan, true) == STATUS_OK);
    plan_entry root = next_dir("");
    cr_expect(stamped(root, 100, NOW));
    list_begin(root, 100, NOW);
    plan_entry aa = name(root, "aa", true);
    refresh_plan_list_end(plan, root);
    list_begin(aa, 100, NOW);
    cr_expect(!wants(name(aa, "f1.md", false), 100, NOW), "files keep their marks");
}

Test(refresh_plan, a_file_read_in_an_attempt_that_failed_is_read_again_unless_it_has_settled)
{
    create();
    plan_entry root = next_dir("");
    list_begin(root, 100, NOW);
    plan_entry file = name(root, "f1.md", false);
    refresh_plan_list_end(plan, root);
    read_as(file, 100, NOW, 77, fact_of("f1"));
    cr_assert(refresh_plan_begin(plan, true) == STATUS_OK);
    cr_expect(wants(file, 100, NOW + W), "its stamp was not met twice");
    read_as(file, 100, NOW + W, 77, fact_of("f1"));
    cr_expect(!wants(file, 100, NOW + W + 1));
    cr_expect(wants(file, 101, NOW + W + 1), "it moved");
    finish();
    cr_expect_eq(result.put_count, 1);
}

Test(refresh_plan, a_broken_file_is_counted_and_has_no_row)
{
    seen_usual(true);
    create();
    (void) next_dir("");
    plan_entry aa = next_dir("aa");
    list_begin(aa, 200, NOW);
    plan_entry f1 = name(aa, "f1.md", false);
    (void) name(aa, "f2.md", false);
    refresh_plan_list_end(plan, aa);
    read_as(f1, 200, NOW, 5, NULL);
    finish();
    cr_expect(result.files == 3 && result.broken == 1 && result.put_count == 0);
    cr_expect(result.removed_count == 1 && is_removed("aa/f1.md"), "its row goes");
    cr_expect_eq(seen_of("aa/f1.md")->fault, FACT_FAULT_BROKEN);
    cr_expect_str_eq(seen_of("aa/f1.md")->problem, "no title");
}

/* chmod moves the file and not its directory. */
Test(refresh_plan, a_directory_with_a_broken_file_is_listed_although_it_did_not_move)
{
    seen_usual(true);
    entries[2].fault = FACT_FAULT_BROKEN; /* aa/f1.md */
    entries[5].fault = FACT_FAULT_FOREIGN;
    create();
    cr_expect(!stamped(next_dir(""), 100, NOW));
    plan_entry aa = next_dir("aa");
    cr_expect(stamped(aa, 100, NOW));
    list_begin(aa, 100, NOW);
    cr_expect(!wants(name(aa, "f1.md", false), 100, NOW), "it did not change");
    cr_expect(!wants(name(aa, "f2.md", false), 100, NOW));
    refresh_plan_list_end(plan, aa);
    cr_expect(!stamped(next_dir("bb"), 100, NOW));
    finish();
    cr_expect(!result.unsettled && result.seen_count == 0);
}

/* Edited in place, and read by a full refresh a moment ago. */
Test(refresh_plan, a_directory_with_a_file_that_has_no_mark_is_listed_until_it_has)
{
    seen_usual(true);
    entries[2].clean = false;
    racy_start(&racy, NOW - W);
    create();
    cr_expect(!stamped(next_dir(""), 100, NOW));
    plan_entry aa = next_dir("aa");
    cr_expect(stamped(aa, 100, NOW));
    list_begin(aa, 100, NOW);
    plan_entry f1 = name(aa, "f1.md", false);
    cr_expect(wants(f1, 100, NOW));
    cr_expect(!wants(name(aa, "f2.md", false), 100, NOW));
    refresh_plan_list_end(plan, aa);
    read_as(f1, 100, NOW, 77, fact_of("f1"));
    finish();
    cr_expect(!result.unsettled);
    cr_expect(seen_of("aa/f1.md") && seen_of("aa/f1.md")->clean);
}

Test(refresh_plan, directories_whose_times_mean_nothing_ask_for_no_second_look)
{
    options.directory_times_work = false;
    add_seen("", true, 100, false);
    create();
    plan_entry root = next_dir("");
    list_begin(root, 200, NOW);
    refresh_plan_list_end(plan, root);
    finish();
    cr_expect(!result.unsettled);
}

/* Dates that a file lacks are taken from its time, so an equal digest is not enough. */
Test(refresh_plan, equal_bytes_with_another_time_make_the_row_anew)
{
    seen_usual(true);
    create();
    (void) next_dir("");
    plan_entry aa = next_dir("aa");
    list_begin(aa, 200, NOW);
    plan_entry f1 = name(aa, "f1.md", false);
    (void) name(aa, "f2.md", false);
    refresh_plan_list_end(plan, aa);
    read_as(f1, 200, NOW, 77, fact_of("f1"));
    finish();
    cr_expect_eq(result.put_count, 1);
}

Test(refresh_plan, a_name_may_turn_from_file_into_directory_and_back)
{
    seen_usual(true);
    create();
    plan_entry root = next_dir("");
    list_begin(root, 200, NOW);
    plan_entry aa = name(root, "aa", false); /* was a shard */
    plan_entry bb = name(root, "bb", true);
    refresh_plan_list_end(plan, root);
    cr_expect(wants(aa, 100, NOW), "the directory's mark says nothing of the file");
    list_begin(bb, 200, NOW);
    plan_entry f3 = name(bb, "f3.md", true); /* was a fact */
    refresh_plan_list_end(plan, bb);
    cr_expect_eq(next_dir("bb"), bb);
    cr_expect_eq(next_dir("bb/f3.md"), f3);
    cr_expect(stamped(f3, 100, NOW));
    finish();
    cr_expect(is_removed("aa/f1.md") && is_removed("aa/f2.md"));
    cr_expect(!is_removed("bb/f3.md"), "it was never looked at");
}

Test(refresh_plan, a_directory_found_below_one_already_passed_is_looked_at)
{
    create();
    plan_entry root = next_dir("");
    no_more_dirs();
    list_begin(root, 100, NOW);
    plan_entry aa = name(root, "aa", true);
    refresh_plan_list_end(plan, root);
    cr_expect_eq(next_dir("aa"), aa);
    list_begin(aa, 100, NOW);
    (void) name(aa, "deeper", true);
    refresh_plan_list_end(plan, aa);
    (void) next_dir("aa/deeper");
    no_more_dirs();
}

Test(refresh_plan, directories_nest_only_so_deep)
{
    create();
    plan_entry dir = next_dir("");
    plan_entry below;

    list_begin(dir, 100, NOW);
    for (unsigned i = 0; i < REFRESH_PLAN_DEPTH_MAX; i++)
        dir = name(dir, "d", true);
    cr_expect(refresh_plan_list_name(plan, dir, "d", true, &below) == STATUS_UNSUPPORTED);
    cr_expect(refresh_plan_list_name(plan, dir, "f.md", false, &below) == STATUS_OK);
}

/* ---- what is read by directory ---- */

/* Answers with the entries below a directory from a list of everything. */
static struct seen_list everything;
static enum status load_status;
static char loaded[128]; /* the directories that were asked for */

static enum status load(void *context UNUSED, const char *directory, struct seen_list *ret)
{
    size_t length = strlen(directory);

    (void) snprintf(loaded + strlen(loaded), sizeof loaded - strlen(loaded), "%s ", directory);
    if (load_status != STATUS_OK)
        return load_status;
    ret->entries = calloc(everything.count + 1, sizeof *ret->entries);
    cr_assert(ret->entries != NULL);
    for (size_t i = 0; i < everything.count; i++) {
        const struct seen_entry *entry = &everything.entries[i];
        if (strncmp(entry->path, directory, length) != 0 || entry->path[length] != '/')
            continue;
        ret->entries[ret->count] = *entry;
        ret->entries[ret->count++].path = strdup(entry->path);
    }
    return STATUS_OK;
}

/* The usual facts and one below a nested directory; the plan gets only what is special: here the
 * directories. */
static void create_by_directory(void)
{
    static struct seen_entry all[ARRAY_SIZE(entries)];

    seen_usual(true);
    add_seen("bb/cc", true, 100, true);
    add_seen("bb/cc/f4.md", false, 100, true);
    memcpy(all, entries, sizeof all);
    everything = (struct seen_list){.entries = all, .count = seen.count};
    size_t kept = 0;
    for (size_t i = 0; i < seen.count; i++) {
        if (entries[i].is_dir)
            entries[kept++] = entries[i];
    }
    seen.count = kept;
    options.load = load;
    options.base_files = 4;
    create();
}

Test(refresh_plan, what_was_seen_in_a_directory_is_read_when_it_is_listed)
{
    create_by_directory();
    cr_expect(!stamped(next_dir(""), 100, NOW));
    plan_entry aa = next_dir("aa");
    cr_expect(stamped(aa, 200, NOW));
    cr_assert(refresh_plan_open_dir(plan, aa) == STATUS_OK);
    cr_assert(refresh_plan_open_dir(plan, aa) == STATUS_OK);
    list_begin(aa, 200, NOW);
    cr_expect(!wants(name(aa, "f2.md", false), 100, NOW), "it is known and did not change");
    refresh_plan_list_end(plan, aa);
    cr_expect(!stamped(next_dir("bb"), 100, NOW));
    cr_expect(!stamped(next_dir("bb/cc"), 100, NOW));
    no_more_dirs();
    finish();
    cr_expect_str_eq(loaded, "aa ");
    cr_expect(result.removed_count == 1 && is_removed("aa/f1.md"));
    cr_expect_eq(result.files, 3);
    cr_expect_eq(result.broken, 0);
    cr_expect_eq(result.put_count, 0);
}

Test(refresh_plan, the_facts_of_a_directory_that_is_gone_are_removed_though_nobody_listed_it)
{
    create_by_directory();
    plan_entry root = next_dir("");
    cr_expect(stamped(root, 200, NOW));
    cr_assert(refresh_plan_open_dir(plan, root) == STATUS_OK);
    list_begin(root, 200, NOW);
    (void) name(root, "aa", true);
    refresh_plan_list_end(plan, root);
    cr_expect(!stamped(next_dir("aa"), 100, NOW));
    no_more_dirs();
    finish();
    cr_expect_str_eq(loaded, "bb ");
    cr_expect(is_removed("bb") && is_removed("bb/f3.md") && is_removed("bb/cc") &&
              is_removed("bb/cc/f4.md"));
    cr_expect_eq(result.removed_count, 4);
    cr_expect_eq(result.files, 2);
}

Test(refresh_plan, the_facts_of_a_directory_that_became_a_file_are_removed)
{
    create_by_directory();
    plan_entry root = next_dir("");
    cr_expect(stamped(root, 200, NOW));
    list_begin(root, 200, NOW);
    (void) name(root, "aa", false);
    (void) name(root, "bb", true);
    refresh_plan_list_end(plan, root);
    finish();
    cr_expect(is_removed("aa/f1.md") && is_removed("aa/f2.md") && !is_removed("bb/f3.md"));
}

Test(refresh_plan, without_the_facts_directory_everything_is_removed)
{
    create_by_directory();
    cr_assert(refresh_plan_begin(plan, false) == STATUS_OK);
    finish();
    cr_expect_eq(result.removed_count, 8);
    cr_expect_eq(result.files, 0);
}

Test(refresh_plan, what_cannot_be_read_from_the_index_ends_the_plan)
{
    create_by_directory();
    load_status = STATUS_BUSY;
    cr_expect(refresh_plan_open_dir(plan, next_dir("")) == STATUS_OK, "nothing of it is missing");
    cr_expect(refresh_plan_open_dir(plan, next_dir("aa")) == STATUS_BUSY);
    cr_assert(refresh_plan_begin(plan, false) == STATUS_OK);
    cr_expect(refresh_plan_finish(plan, &result) == STATUS_BUSY);
}
