/* Runs the race bodies, or those whose name contains an argument, and counts. */
#include "tests/race/race.h"

#include "core/clock.h"
#include "core/log.h"
#include "core/pause_point.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define RACE(name)                                                                                 \
    {                                                                                              \
#name, name                                                                                \
    }

static const struct race {
    const char *name;
    void (*run)(void);
} races[] = {
    RACE(race_table_one_runner_a_scope),
    RACE(race_table_no_request_is_lost),
    RACE(race_table_stop_wakes_everybody),
    RACE(race_queue_first_come_first_served),
    RACE(race_pool_shared_by_many),
    RACE(race_notes_and_clock),
    RACE(race_metrics_told_while_they_are_counted),
    RACE(race_search_against_peer_commits),
    RACE(race_search_of_two_scopes_against_commits),
    RACE(race_first_build_asked_for_by_many),
    RACE(race_search_against_full_refreshes),
    RACE(race_search_against_dying_writers),
    RACE(race_own_writes_against_peers),
    RACE(race_own_writes_against_full_refreshes),
    RACE(race_keeper_follows_peers),
    RACE(race_keeper_starts_and_stops),
    RACE(race_keeper_and_a_lost_index),
    RACE(race_volume_goes_and_returns),
    RACE(race_writes_of_one_agent),
    RACE(race_writes_of_two_agents),
    RACE(race_writes_beside_a_peer),
    RACE(race_writes_of_two_nodes_without_locks),
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned findings; /* of the body that runs; guarded by `lock` */

void race_check(bool condition, const char *text, const char *file, int line)
{
    if (condition)
        return;
    (void) pthread_mutex_lock(&lock);
    if (findings++ < 10)
        (void) fprintf(stderr, "%s:%d: not true: %s\n", file, line, text);
    (void) pthread_mutex_unlock(&lock);
}

/* The library's own lines would drown the results. */
static void drop_line(void *context, enum log_level level, const char *line)
{
    (void) context;
    (void) level;
    (void) line;
}

static bool is_wanted(const char *name, char **arguments)
{
    if (!*arguments)
        return true;
    for (; *arguments; arguments++) {
        if (strstr(name, *arguments))
            return true;
    }
    return false;
}

static bool run_one(const struct race *race)
{
    uint64_t begun_ns = clock_monotonic_ns();

    (void) pthread_mutex_lock(&lock);
    findings = 0;
    (void) pthread_mutex_unlock(&lock);
    (void) alarm(RACE_SECONDS_MAX);
    race->run();
    (void) alarm(0);
    pause_reset();
    (void) pthread_mutex_lock(&lock);
    bool passed = findings == 0;
    (void) pthread_mutex_unlock(&lock);
    (void) printf("%s %s (%llu ms)\n", passed ? "ok  " : "FAIL", race->name,
                  (unsigned long long) ((clock_monotonic_ns() - begun_ns) / NS_PER_MS));
    (void) fflush(stdout);
    return passed;
}

int main(int argc, char **argv)
{
    unsigned passed = 0;
    unsigned failed = 0;

    (void) argc;
    (void) signal(SIGALRM, SIG_DFL); /* a body that stands still ends the program */
    if (!getenv("RACE_LOG"))
        log_set_capture(drop_line, NULL);
    for (size_t i = 0; i < ARRAY_SIZE(races); i++) {
        if (!is_wanted(races[i].name, argv + 1))
            continue;
        if (run_one(&races[i]))
            passed++;
        else
            failed++;
    }
    (void) printf("%u passed, %u failed\n", passed, failed);
    return failed == 0 && passed > 0 ? 0 : 1;
}
