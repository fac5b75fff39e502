/* agent/health.h: when somebody should have come round, and when it serves. */
#include "agent/health.h"

#include "core/compiler.h"

#include <criterion/criterion.h>

#define PATIENCE 100

TestSuite(health, .timeout = 30);

static const char *alive(const struct health *health, uint64_t now)
{
    const char *reason = "";

    return health_is_alive(health, now, PATIENCE, &reason) ? "alive" : reason;
}

static const char *serving(const struct health *health)
{
    const char *reason = "";

    return health_is_serving(health, &reason) ? "serving" : reason;
}

Test(health, a_start_may_take_its_time)
{
    struct health health = {0};

    cr_expect_str_eq(alive(&health, 1000000), "alive");
    cr_expect_str_eq(serving(&health), "starting");
    health_serve(&health, 1000000);
    cr_expect_str_eq(alive(&health, 1000000), "alive");
    cr_expect_str_eq(serving(&health), "serving");
}

Test(health, each_thread_must_come_round_in_time)
{
    static const struct {
        uint64_t serving_ns, overseer_ns, now_ns;
        const char *told;
    } cases[] = {
        {1000, 1000, 1000, "alive"},
        {1000, 1000, 1100, "alive"},
        {1000, 1050, 1101, "the serving loop does not come round"},
        {1050, 1000, 1101, "the main thread does not come round"},
        {1200, 1200, 1100, "alive"}, /* came round while somebody asked */
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct health health = {0};
        health_serve(&health, 1);
        atomic_store(&health.serving_ns, cases[i].serving_ns);
        atomic_store(&health.overseer_ns, cases[i].overseer_ns);
        cr_expect_str_eq(alive(&health, cases[i].now_ns), cases[i].told, "row %zu", i);
        cr_expect_str_eq(serving(&health), "serving", "row %zu", i);
    }
}

Test(health, a_loop_that_has_ended_is_neither_alive_nor_serving)
{
    struct health health = {0};

    health_serve(&health, 1000);
    atomic_store(&health.ended, true);
    cr_expect_str_eq(alive(&health, 1000), "the serving loop has ended");
    cr_expect_str_eq(serving(&health), "the serving loop has ended");
}

Test(health, nobody_is_waited_for_once_it_stops)
{
    struct health health = {0};

    health_serve(&health, 1000);
    atomic_store(&health.ended, true);
    health_stop(&health);
    cr_expect_str_eq(alive(&health, 1000000), "alive");
    cr_expect_str_eq(serving(&health), "stopping");
}

Test(health, a_start_that_failed_never_served)
{
    struct health health = {0};

    health_stop(&health);
    cr_expect_str_eq(serving(&health), "starting");
}
