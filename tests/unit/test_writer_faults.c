/* core/writer.h over a volume whose calls fail: after any fault at any call the memory is the old
 * one or the new one, whole, and the next operation finds nothing in its way.
 */
#include "core/writer.h"

#include "core/json_text.h"
#include "tests/support/temp_tree.h"
#include "tests/unit/engine_checks.h"

#define CALLS_MAX 1000 /* more than one commit makes */

static struct temp_store *store;
static struct writer *writer;

static void set_up(void)
{
    const struct writer_options options = {.lock_timeout_ms = 2000};

    store = temp_store_create();
    store->options.calls = temp_calls();
    captured_log_start();
    temp_store_open(store);
    cr_assert_eq(writer_create(store->store, &options, &writer), STATUS_OK);
}

static void tear_down(void)
{
    captured_log_stop();
    temp_calls_reset();
    writer_destroy(&writer);
    temp_store_destroy(&store);
}

TestSuite(writer_faults, .init = set_up, .fini = tear_down, .timeout = 300);

/* ---- one commit that does everything ---- */

static enum status add_fact(struct draft *draft, struct change_set *set, const char *id,
                            const char *text, struct error *error)
{
    AUTO_JSON json_t *fact = json_pack("{s:s,s:s}", "id", id, "content", text);
    struct change_upsert *upsert;

    enum status status =
        change_set_add_upsert(set, draft_scope(draft), fact, draft_wall_ns(draft), &upsert, error);
    if (status == STATUS_OK)
        upsert->expects = CHANGE_EXPECTS_ANYTHING;
    return status;
}

static enum status build_everything(void *context UNUSED, struct draft *draft,
                                    struct change_set *set, struct error *error)
{
    AUTO_JSON json_t *summaries = json_pack("{s:{s:{s:s,s:s}}}", "user", "workContext", "summary",
                                            "new summary", "updatedAt", "");

    enum status status = add_fact(draft, set, "f1", "note uno", error);
    if (status == STATUS_OK)
        status = add_fact(draft, set, "f2", "note two", error);
    if (status == STATUS_OK)
        status = change_set_add_delete(set, "f3", NULL, error);
    if (status == STATUS_OK)
        status = change_set_set_summaries(set, summaries, error);
    return status;
}

static enum status build_next(void *context UNUSED, struct draft *draft, struct change_set *set,
                              struct error *error)
{
    return add_fact(draft, set, "f9", "note nine", error);
}

static enum status run(const char *scope_name, write_build build, struct write_result *ret,
                       struct error *error)
{
    struct scope scope;

    temp_store_scope(scope_name, &scope);
    const struct write_request request = {
        .scope = &scope,
        .has_agent = true,
        .retries = true,
        .build = build,
        .deadline_ns = clock_deadline_ms(10000),
    };
    *error = (struct error){0};
    return writer_run(writer, &request, ret, error);
}

/* ---- a user of its own for every try ---- */

enum victim_kind {
    VICTIM_USUAL,
    VICTIM_NEW,  /* nobody knows the user */
    VICTIM_DEAD, /* a dead writer's change has to be taken back first */
};

struct victim {
    enum victim_kind kind;
    char user[16], scope[32], bucket[64];
    json_t *before;
    int64_t revision;
    const char *old_facts, *new_facts, *old_summary;
};

static void die_half_way(const struct victim *victim)
{
    static const struct temp_change changes[] = {
        {.kind = TEMP_UPDATE, .id = "f1", .text = "note dead"},
        {.kind = TEMP_ADD, .id = "f2", .text = "note dead"},
        {.kind = TEMP_DELETE, .id = "f4"},
    };
    const struct temp_commit commit = {.user = victim->user,
                                       .agent = "a",
                                       .changes = changes,
                                       .count = ARRAY_SIZE(changes),
                                       .stop = TEMP_STEP_MANIFEST};

    (void) temp_volume_commit(store->volume, &commit);
}

static void victim_fill(struct victim *victim)
{
    const struct temp_change changes[] = {
        {.kind = TEMP_ADD, .id = "f1", .text = "note one"},
        {.kind = TEMP_ADD, .id = "f3", .text = "note three"},
        {.kind = TEMP_ADD, .id = "f4", .text = "note four"},
        {.kind = TEMP_SUMMARY, .text = "old summary"},
    };

    const struct temp_commit commit = {.user = victim->user,
                                       .agent = "a",
                                       .changes = changes,
                                       .count = ARRAY_SIZE(changes)};
    (void) temp_volume_commit(store->volume, &commit);
    victim->revision = 1;
    victim->old_facts = "f1=one f3=three f4=four";
    victim->new_facts = "f1=uno f2=two f4=four";
    victim->old_summary = "old summary";
}

static void victim_create(struct victim *victim)
{
    static unsigned number;

    (void) snprintf(victim->user, sizeof victim->user, "u%u", number++);
    (void) snprintf(victim->scope, sizeof victim->scope, "%s/a", victim->user);
    (void) snprintf(victim->bucket, sizeof victim->bucket, "users/%s", victim->user);
    victim->old_facts = "";
    victim->new_facts = "f1=uno f2=two";
    victim->old_summary = "none";
    if (victim->kind != VICTIM_NEW)
        victim_fill(victim);
    struct temp_answer answer = temp_store_ask(store, victim->scope);
    cr_assert_str_eq(answer.facts, victim->old_facts);
    victim->before = temp_tree_read(store->volume, victim->bucket);
    if (victim->kind == VICTIM_DEAD)
        die_half_way(victim);
}

/* The files that make up the memory: without what a stopped writer leaves. */
static json_t *memory_of(const struct victim *victim)
{
    json_t *tree = temp_tree_read(store->volume, victim->bucket);
    const char *path;
    json_t *bytes;
    void *next;

    json_object_foreach_safe(tree, next, path, bytes)
    {
        if (path[0] == '.' || strstr(path, "/."))
            (void) json_object_del(tree, path);
    }
    return tree;
}

static const char *summary_in(const json_t *tree)
{
    const char *bytes = json_string_value(json_object_get(tree, "memory.json"));

    return !bytes                         ? "none"
           : strstr(bytes, "new summary") ? "new summary"
           : strstr(bytes, "old summary") ? "old summary"
                                          : "none";
}

struct trial {
    enum victim_kind kind;
    int sys_errno;
    unsigned times; /* 0: until it is put right */
    unsigned nth;
    char struck[PATH_MAX];
};

/* Which fault it was, for the texts of what is not as expected. */
static const char *told(const struct trial *trial)
{
    static char text[PATH_MAX + 64];

    (void) snprintf(text, sizeof text, "errno %d %s at call %u (%s)", trial->sys_errno,
                    trial->times ? "once" : "for ever", trial->nth, trial->struck);
    return text;
}

/* The last step failed, or its answer got lost: then the journal tells which it is. */
static bool is_unconfirmed(const struct error *error)
{
    return strstr(error->members, "\"reason\":\"unconfirmed\"") != NULL;
}

static bool journal_says_committed(const struct victim *victim)
{
    AUTO_JSON json_t *tree = temp_tree_read(store->volume, victim->bucket);
    const char *journal = json_string_value(json_object_get(tree, ".memory.journal.json"));

    return journal && strstr(journal, "\"committed\"");
}

/* Who comes next is a peer, which goes by its own rules. It leaves some files behind. */
static void expect_whole_for_a_peer(const struct victim *victim, const struct trial *trial,
                                    const char *with_next)
{
    (void) temp_volume_add(store->volume, victim->user, "a", "f9", "note nine");
    struct temp_answer answer = temp_store_ask(store, victim->scope);
    cr_expect(answer.status == STATUS_OK && strcmp(answer.facts, with_next) == 0,
              "found {%s} after a peer: %s", answer.facts, told(trial));
}

static void expect_whole_for_us(const struct victim *victim, const struct trial *trial,
                                const char *with_next, int64_t revision)
{
    struct write_result result = {0};
    struct error error;
    char left[2000];

    enum status status = run(victim->scope, build_next, &result, &error);
    cr_expect(status == STATUS_OK, "the next write: %s: %s %s: %s", status_name(status), error.path,
              error.message, told(trial));
    cr_expect(status != STATUS_OK || result.revision == revision, "revision %d: %s",
              (int) result.revision, told(trial));
    write_result_destroy(&result);
    struct temp_answer answer = temp_store_ask(store, victim->scope);
    cr_expect(answer.status == STATUS_OK && strcmp(answer.facts, with_next) == 0, "found {%s}: %s",
              answer.facts, told(trial));
    temp_tree_leftovers(store->volume, victim->bucket, left, sizeof left);
    cr_expect(left[0] == '\0', "left {%s}: %s", left, told(trial));
}

/* After the fault: all old or all new, found by whoever comes first, and then no trace of it. */
static void expect_whole(const struct victim *victim, const struct trial *trial, bool is_new)
{
    const char *facts = is_new ? victim->new_facts : victim->old_facts;
    const char *summary = is_new ? "new summary" : victim->old_summary;
    char with_next[100];

    (void) snprintf(with_next, sizeof with_next, "%s%sf9=nine", facts, *facts ? " " : "");
    if (trial->nth % 2 == 0) {
        struct temp_answer answer = temp_store_ask(store, victim->scope);
        cr_expect(answer.status == STATUS_OK && strcmp(answer.facts, facts) == 0, "found {%s}: %s",
                  answer.facts, told(trial));
    }
    if (trial->nth % 3 == 0)
        expect_whole_for_a_peer(victim, trial, with_next);
    else
        expect_whole_for_us(victim, trial, with_next, victim->revision + is_new + 1);
    cr_expect_eq(temp_volume_revision(store->volume, victim->user), victim->revision + is_new + 1,
                 "%s", told(trial));
    AUTO_JSON json_t *memory = memory_of(victim);
    cr_expect_str_eq(summary_in(memory), summary, "%s: %s", summary_in(memory), told(trial));
}

/* What one fault comes to; false when there were not that many calls. */
static bool try_fault(struct trial *trial)
{
    struct victim victim = {.kind = trial->kind};
    struct write_result result = {0};
    struct error error;

    victim_create(&victim);
    temp_calls_fail_nth(trial->nth, trial->sys_errno, trial->times);
    enum status status = run(victim.scope, build_everything, &result, &error);
    temp_calls_struck(trial->struck, sizeof trial->struck);
    temp_calls_reset();

    AUTO_JSON json_t *memory = memory_of(&victim);
    char differs[1000];
    bool is_new =
        status == STATUS_OK || (is_unconfirmed(&error) && journal_says_committed(&victim));
    if (status == STATUS_OK) {
        cr_expect_eq(result.revision, victim.revision + 1);
    } else if (atomic_load(&store->store->suspended)) {
        /* the root could not be looked at, which the keeper does once a second */
        cr_expect_eq(status, STATUS_UNAVAILABLE, "%s: %s", status_name(status), told(trial));
        cr_assert_eq(store_check_volume(store->store, NULL), STATUS_OK);
    } else {
        cr_expect(status ==
                      (is_unconfirmed(&error) ? STATUS_IO : status_from_errno(trial->sys_errno)),
                  "%s (%s): %s", status_name(status), error.message, told(trial));
        cr_expect(error.path[0], "no path (%s): %s", error.message, told(trial));
    }
    if (!is_new && trial->times == 1 && trial->kind != VICTIM_DEAD) {
        temp_tree_differ(victim.before, memory, differs, sizeof differs);
        cr_expect(!differs[0], "%s differs: %s", differs, told(trial));
    }
    write_result_destroy(&result);
    expect_whole(&victim, trial, is_new);
    json_decref(victim.before);
    return trial->struck[0] != '\0';
}

/* Every `step`th call: some errnos go the same ways as others. */
static void loop_over(enum victim_kind kind, int sys_errno, unsigned times, unsigned step)
{
    struct trial trial = {.kind = kind, .sys_errno = sys_errno, .times = times};

    do {
        trial.nth += step;
        cr_assert(trial.nth < CALLS_MAX);
    } while (try_fault(&trial));
    cr_expect(trial.nth > 60, "only %u calls", trial.nth);
}

static void loop(int sys_errno, unsigned times, unsigned step)
{
    loop_over(VICTIM_USUAL, sys_errno, times, step);
}

Test(writer_faults, no_space_at_each_call)
{
    loop(ENOSPC, 1, 1);
}

Test(writer_faults, no_space_from_each_call_on)
{
    loop(ENOSPC, 0, 1);
}

Test(writer_faults, no_quota_at_each_call)
{
    loop(EDQUOT, 1, 5);
}

Test(writer_faults, no_quota_from_each_call_on)
{
    loop(EDQUOT, 0, 5);
}

Test(writer_faults, read_only_at_each_call)
{
    loop(EROFS, 1, 4);
}

Test(writer_faults, read_only_from_each_call_on)
{
    loop(EROFS, 0, 4);
}

Test(writer_faults, no_right_at_each_call)
{
    loop(EACCES, 1, 3);
}

Test(writer_faults, no_right_from_each_call_on)
{
    loop(EACCES, 0, 3);
}

Test(writer_faults, an_io_error_at_each_call)
{
    loop(EIO, 1, 1);
}

Test(writer_faults, io_errors_from_each_call_on)
{
    loop(EIO, 0, 1);
}

Test(writer_faults, a_first_write_fails_at_each_call)
{
    loop_over(VICTIM_NEW, EIO, 1, 1);
}

Test(writer_faults, a_first_write_fails_from_each_call_on)
{
    loop_over(VICTIM_NEW, ENOSPC, 0, 1);
}

Test(writer_faults, what_a_dead_writer_left_is_taken_back_in_spite_of_a_fault)
{
    loop_over(VICTIM_DEAD, EIO, 1, 1);
}

Test(writer_faults, what_a_dead_writer_left_is_taken_back_in_spite_of_many)
{
    loop_over(VICTIM_DEAD, ENOSPC, 0, 1);
}
