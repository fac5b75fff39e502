#include "chaos/faults/trial.h"

#include "core/clock.h"
#include "tests/support/files.h"
#include "tests/support/temp_calls.h"
#include "tests/support/temp_tree.h"

#include <dirent.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

static const char *const usual_scopes[] = {"u/a", "u/b", NULL};

/* The address sanitizer's, where it is there. */
int __lsan_do_recoverable_leak_check(void) __attribute__((weak));
size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));

static size_t count_bytes(void)
{
    return __sanitizer_get_current_allocated_bytes ? __sanitizer_get_current_allocated_bytes() : 0;
}

/* A look for leaks takes long, so only where there is more than before the run; that may have its
 * reasons. */
static bool has_leaked(size_t bytes_before)
{
    return count_bytes() > bytes_before && __lsan_do_recoverable_leak_check &&
           __lsan_do_recoverable_leak_check() != 0;
}

static unsigned count_descriptors(void)
{
    DIR *directory = opendir("/proc/self/fd");
    unsigned count = 0;

    if (!directory)
        test_die("cannot list /proc/self/fd");
    while (readdir(directory))
        count++;
    (void) closedir(directory);
    return count;
}

/* ---- before ---- */

/* As an agent that was killed leaves it: without its mark of a clean end. */
static void forget_clean_end(const struct world *world)
{
    char path[PATH_MAX];

    test_join(path, world->index_directory, "memsyncd.lock");
    test_replace_file(path, "", 0);
}

static void build(struct world *world)
{
    if (world_open(world) != STATUS_OK)
        return;
    act_search_both(world);
    world_settle(world);
}

static void start(struct world *world, enum scenario_start start)
{
    switch (start) {
    case START_NEVER:
        break;
    case START_UNBUILT:
        (void) world_open(world);
        break;
    case START_IN_STEP:
        build(world);
        break;
    case START_AGAIN:
    case START_DIED:
        build(world);
        world_close(world);
        if (start == START_DIED)
            forget_clean_end(world);
        break;
    }
}

static void set_up(struct world *world, const struct scenario *scenario)
{
    world_create(world, scenario->scopes ? scenario->scopes : usual_scopes);
    if (scenario->fill)
        scenario->fill(world);
    else
        scenario_fill_usual(world);
    world_remember(world);
    judge_begin(world);
    start(world, scenario->start);
    if (scenario->change)
        scenario->change(world);
    world_remember(world);
    judge_begin(world);
}

/* ---- afterwards: nothing fails any more ---- */

static void expect_no_leftovers(struct world *world)
{
    char left[1000];

    temp_tree_leftovers(world->volume, "users/u", left, sizeof left);
    if (left[0])
        world_fails(world, "left behind: %s", left);
}

static void expect_verified(struct world *world)
{
    for (size_t i = 0; world->scopes[i]; i++) {
        AUTO_ANSWER struct world_answer answer =
            world_call(world, deermem_verify, world->scopes[i], "{}");
        AUTO_FREE char *text = json_dumps(answer.result, JSON_COMPACT);
        if (!json_is_true(json_object_get(answer.result, "ok")))
            world_fails(world, "index and volume differ in %s: %s", world->scopes[i],
                        text ? text : answer.error.message);
    }
}

/* By contents, with one more in its place. */
static void add_content(const char *contents, const char *more, char ret[TRUTH_TEXT_MAX])
{
    struct fact_list *list = fact_list_create();
    struct truth with;
    char copy[TRUTH_TEXT_MAX];
    char *rest = copy;
    const char *summary = contents + strcspn(contents, "|");

    (void) snprintf(copy, sizeof copy, "%.*s", (int) (summary - contents), contents);
    for (char *item; (item = strsep(&rest, ",")) != NULL;) {
        if (*item)
            fact_list_add(list, "", item);
    }
    fact_list_add(list, "", more);
    fact_list_finish(&list, &with);
    (void) snprintf(ret, TRUTH_TEXT_MAX, "%.900s%.100s", with.contents, summary);
}

/* The next write goes through and leaves no trace of what failed before. */
static void write_on(struct world *world, const char *content)
{
    struct truth truth;
    char after[TRUTH_TEXT_MAX];
    char params[64];

    /* What a dead writer has left is dealt with first. */
    act_search(world);
    judge_contents(world);
    truth_read(world->volume, world->scopes[0], &truth);
    add_content(truth.contents, content, after);
    (void) snprintf(params, sizeof params, "{\"content\": \"note %s\"}", content);
    (void) judge_write(world, deermem_create_fact, params, after);
    expect_no_leftovers(world);
}

/* Who comes next may be a write as well: it meets what the fault has left. */
static void write_first(struct world *world)
{
    const char *params = "{\"content\": \"note first\"}";
    AUTO_ANSWER struct world_answer answer =
        world_call(world, deermem_create_fact, world->scopes[0], params);

    if (answer.status != STATUS_OK)
        world_fails(world, "the next write failed: %s: %s %s", status_name(answer.status),
                    answer.error.path, answer.error.message);
    for (size_t i = 0; i < world->candidate_count; i++) {
        char with[TRUTH_TEXT_MAX];
        add_content(world->candidates[i], "first", with);
        (void) strcpy(world->candidates[i], with);
    }
    world_remember(world);
    expect_no_leftovers(world);
}

static void heal(struct world *world, bool writes_first)
{
    world->is_fault_expected = false;
    world->must_be_fresh = true;
    if (!world->backend && world_open(world) != STATUS_OK)
        return;
    world_rest(world);
    world_watch(world);
    if (writes_first)
        write_first(world);
    act_search_both(world);
    write_on(world, "healed");
    act_search_both(world);
    (void) judge_read(world, deermem_get_memory, world->scopes[0], "{}");
    expect_verified(world);
    world_settle(world);
    act_search_both(world);
}

/* What the index may be given up for: others have damaged it, SQLite says so, it cannot be opened
 * at all, or it cannot be read when it is checked. */
static bool may_lose_index(const struct scenario *scenario, const struct fault *fault,
                           const char *struck)
{
    return scenario->loses_index || fault->kind->code == SQLITE_CORRUPT ||
           strcmp(struck, "open") == 0 ||
           (scenario->start == START_DIED && (fault->kind->code & 0xff) == SQLITE_IOERR);
}

/* An index is dear to build: it is not given up for one error that passes. */
static void expect_index_kept(struct world *world, const struct scenario *scenario,
                              const struct fault *fault, const char *struck)
{
    DIR *directory = opendir(world->index_directory);

    if (!directory || fault->persists || may_lose_index(scenario, fault, struck)) {
        if (directory)
            (void) closedir(directory);
        return;
    }
    for (const struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        if (strstr(entry->d_name, ".damaged-"))
            world_fails(world, "the index was given up");
    }
    (void) closedir(directory);
}

/* ---- all of it ---- */

static void expect_nothing_held(struct world *world, unsigned descriptors)
{
    unsigned now = count_descriptors();

    if (now != descriptors)
        world_fails(world, "%u descriptors instead of %u", now, descriptors);
    if (sqlite3_memory_used() != 0)
        world_fails(world, "SQLite holds %lld bytes", (long long) sqlite3_memory_used());
}

static void act(struct world *world, const struct scenario *scenario, const struct fault *fault,
                struct trial *ret)
{
    world->is_fault_expected = fault->at > 0 && !fault->kind->is_harmless;
    world->must_be_fresh = !world->is_fault_expected;
    world->errors = 0;
    fault_arm(fault);
    scenario->act(world);
    ret->met = fault_met();
    ret->strikes = fault_strikes();
    ret->errors = world->errors;
    (void) snprintf(ret->struck, sizeof ret->struck, "%s", fault_struck());
    /* Who was struck by nothing has no excuse. */
    if (ret->strikes == 0 && ret->errors > 0 && scenario->act != act_volume_returns)
        world_fails(world, "%u requests failed, and nothing was struck", ret->errors);
    fault_disarm();
}

void trial_run(const struct scenario *scenario, const struct fault *fault, struct trial *ret)
{
    unsigned descriptors = count_descriptors();
    size_t bytes = count_bytes();
    struct world world;

    *ret = (struct trial){0};
    fault_files_set_up();
    set_up(&world, scenario);
    act(&world, scenario, fault, ret);
    heal(&world, fault->at % 2 == 1);
    world_close(&world);
    expect_index_kept(&world, scenario, fault, ret->struck);
    world_destroy(&world);
    expect_nothing_held(&world, descriptors);
    ret->leaks = has_leaked(bytes);
    if (ret->leaks)
        world_fails(&world, "memory leaked, see above");
    temp_calls_reset();
    (void) snprintf(ret->problem, sizeof ret->problem, "%s", world.problem);
}
