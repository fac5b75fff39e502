/* core/usage_log.h: nothing is lost but what is told to be. */
#include "core/usage_log.h"

#include "core/text.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define ROOM (1u << 20)

static struct usage_log *usage_log;

static void set_up(void)
{
    cr_assert_eq(usage_log_create(ROOM, &usage_log), STATUS_OK);
}

static void tear_down(void)
{
    usage_log_destroy(&usage_log);
    cr_expect_null(usage_log);
    usage_log_destroy(&usage_log);
}

TestSuite(usage_log, .init = set_up, .fini = tear_down, .timeout = 60);

static struct scope scope_of(const char *user, const char *agent)
{
    struct scope scope;

    cr_assert_eq(scope_create(user, agent, &scope, NULL), STATUS_OK);
    return scope;
}

static void add(const char *user, const char *agent, const char *fact_id, uint64_t at_ns)
{
    struct scope scope = scope_of(user, agent);

    usage_log_add(usage_log, &scope, &fact_id, 1, at_ns);
}

/* Appends user/agent: id@time ...; and a line break. */
static void describe(void *context, const struct scope *scope, const struct usage_hit *hits,
                     size_t count)
{
    struct scope expected = scope_of(scope->has_user ? scope->user : NULL, scope->agent);

    cr_expect_str_eq(scope->bucket, expected.bucket);
    text_append_format(context, "%s/%s:", scope->has_user ? scope->user : "-", scope->agent);
    for (size_t i = 0; i < count; i++)
        text_append_format(context, " %s@%d", hits[i].fact_id, (int) hits[i].at_ns);
    text_append_char(context, '\n');
}

static void expect_drained(const char *expected)
{
    AUTO_TEXT struct text text = {0};

    usage_log_drain(usage_log, describe, &text);
    cr_expect_str_eq(text_string(&text), expected, "%s", text_string(&text));
}

Test(usage_log, hits_come_out_by_scope_and_in_their_order)
{
    struct scope scope = scope_of("m/x", "b");
    const char *const ids[] = {"f3", "f1", "f3"};

    expect_drained("");
    add("u", "a", "f1", 1);
    usage_log_add(usage_log, &scope, ids, ARRAY_SIZE(ids), 2);
    add(NULL, NULL, "f9", 3);
    add("u", "A", "f2", 4);
    add("m/x", "a", "f4", 5);
    add("u", "a", "f1", 6);
    usage_log_add(usage_log, &scope, ids, 0, 7);
    expect_drained("-/__default__: f9@3\n"
                   "m/x/a: f4@5\n"
                   "m/x/b: f3@2 f1@2 f3@2\n"
                   "u/a: f1@1 f2@4 f1@6\n");
    expect_drained("");
    add("u", "a", "f1", 8);
    expect_drained("u/a: f1@8\n");
    cr_expect_eq(usage_log_dropped(usage_log), 0);
}

Test(usage_log, what_is_left_at_the_end_is_freed)
{
    add("u", "a", "f1", 1);
    add("u", "b", "f1", 1);
}

static void count_hits(void *context, const struct scope *scope UNUSED,
                       const struct usage_hit *hits UNUSED, size_t count)
{
    atomic_fetch_add((atomic_ullong *) context, count);
}

static void find_newest(void *context, const struct scope *scope UNUSED,
                        const struct usage_hit *hits, size_t count)
{
    uint64_t *range = context;

    range[0] = hits[0].at_ns;
    range[1] = hits[count - 1].at_ns;
    range[2] = count;
}

Test(usage_log, the_oldest_hits_make_room)
{
    uint64_t range[3] = {0};
    const uint64_t added = 100000;

    for (uint64_t i = 0; i < added; i++)
        add("u", "a", "f1", i);
    uint64_t dropped = usage_log_dropped(usage_log);
    cr_expect_gt(dropped, 0);
    usage_log_drain(usage_log, find_newest, range);
    cr_expect_eq(range[0], dropped);
    cr_expect_eq(range[1], added - 1);
    cr_expect_eq(range[2], added - dropped);
    cr_expect_gt(range[2], ROOM / 256, "a hit takes too much");
}

Test(usage_log, a_batch_that_does_not_fit_is_dropped_with_all_before_it)
{
    struct scope scope = scope_of("u", "a");
    const size_t count = ROOM / 2;
    AUTO_FREE const char **ids = calloc(count, sizeof *ids);

    cr_assert_not_null(ids);
    for (size_t i = 0; i < count; i++)
        ids[i] = "f1";
    add("u", "a", "f1", 1);
    usage_log_add(usage_log, &scope, ids, count, 2);
    cr_expect_eq(usage_log_dropped(usage_log), count + 1);
    expect_drained("");
    add("u", "a", "f2", 3);
    expect_drained("u/a: f2@3\n");
}

/* ---- threads ---- */

#define WRITERS 4
#define ADDED_BY_EACH 20000

static atomic_uint writers_left;
static atomic_ullong drained;

static void *write_hits(void *name)
{
    struct scope scope = scope_of(name, NULL);
    const char *const ids[] = {"f1", "f2"};

    for (uint64_t i = 0; i < ADDED_BY_EACH; i++)
        usage_log_add(usage_log, &scope, ids, ARRAY_SIZE(ids), i);
    atomic_fetch_sub(&writers_left, 1);
    return NULL;
}

Test(usage_log, every_hit_is_drained_or_counted_as_dropped)
{
    static char names[WRITERS][4] = {"u0", "u1", "u2", "u3"};
    pthread_t threads[WRITERS];

    atomic_store(&writers_left, WRITERS);
    for (size_t i = 0; i < WRITERS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, write_hits, names[i]), 0);
    while (atomic_load(&writers_left) > 0)
        usage_log_drain(usage_log, count_hits, &drained);
    for (size_t i = 0; i < WRITERS; i++)
        cr_assert_eq(pthread_join(threads[i], NULL), 0);
    usage_log_drain(usage_log, count_hits, &drained);
    cr_expect_eq(atomic_load(&drained) + usage_log_dropped(usage_log),
                 2ull * WRITERS * ADDED_BY_EACH);
    cr_expect_gt(atomic_load(&drained), 0);
}
