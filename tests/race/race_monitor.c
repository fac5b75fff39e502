/* What is counted on many threads is told on another one meanwhile. */
#include "tests/race/race.h"

#include "agent/health.h"
#include "agent/http_server.h"
#include "core/clock.h"
#include "core/exposition.h"
#include "core/search_tally.h"
#include "core/volume_errors.h"
#include "core/volume_stuck.h"
#include "tests/support/http_visit.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#define COUNTERS 4
#define VISITS 60

struct counting {
    struct search_tally searches;
    struct health health;
    atomic_bool over;
    _Atomic uint64_t counted;
};

static void *count_on(void *context)
{
    struct counting *counting = context;
    const struct scope_report report = {.state = SCOPE_STALE, .problem = STATUS_BUSY};

    while (!atomic_load(&counting->over)) {
        uint64_t now_ns = clock_monotonic_ns();
        search_tally_answered(&counting->searches, &report, 1, false, now_ns % NS_PER_SECOND);
        volume_errors_note("open", EIO);
        volume_stuck_begin("open", -1, "a path");
        volume_stuck_end();
        atomic_store_explicit(&counting->health.serving_ns, now_ns, memory_order_relaxed);
        (void) atomic_fetch_add(&counting->counted, 1);
    }
    return NULL;
}

static void tell(const struct counting *counting, struct exposition *page)
{
    uint64_t oldest_ns = 0;
    const char *reason = "";

    exposition_counter(page, "stale_total", "Stale.",
                       atomic_load(&counting->searches.by_state[SCOPE_STALE]));
    exposition_counter(page, "errors_total", "Errors.", volume_errors_count(0, VOLUME_ERROR_IO));
    exposition_gauge(page, "stuck", "Stuck.", volume_stuck_count(&oldest_ns));
    exposition_histogram(page, "took_seconds", "Took.", &counting->searches.duration);
    exposition_gauge(page, "alive", "Alive.",
                     health_is_alive(&counting->health, clock_monotonic_ns(), HEALTH_PATIENCE_NS,
                                     &reason));
}

static void answer(void *context, const char *path, struct http_answer *ret)
{
    struct exposition page = {0};

    (void) path;
    tell(context, &page);
    ret->code = 200;
    ret->type = EXPOSITION_TYPE;
    ret->body = page.text;
}

static void visit(const struct http_address *address)
{
    static char reply[65536];

    for (unsigned i = 0; i < VISITS; i++) {
        bool heard = http_get(address, "/", reply, sizeof reply);
        RACE_CHECK(heard && strstr(reply, "\nalive 1\n") != NULL);
    }
}

static void count_and_visit(struct counting *counting, const struct http_address *address)
{
    pthread_t threads[COUNTERS];

    for (unsigned i = 0; i < COUNTERS; i++)
        RACE_CHECK(pthread_create(&threads[i], NULL, count_on, counting) == 0);
    visit(address);
    atomic_store(&counting->over, true);
    for (unsigned i = 0; i < COUNTERS; i++)
        (void) pthread_join(threads[i], NULL);
}

void race_metrics_told_while_they_are_counted(void)
{
    struct counting counting = {0};
    struct error error = {0};
    struct http_server *server = NULL;
    struct http_address address = {0};

    health_serve(&counting.health, clock_monotonic_ns());
    bool started = http_address_parse("0", &address) &&
                   http_server_start(&address, answer, &counting, &server, &error) == STATUS_OK;
    RACE_CHECK(started);
    if (!started)
        return;
    address = *http_server_address(server);
    count_and_visit(&counting, &address);
    AUTO_CLOSE int left_open = http_visit(&address);
    http_say(left_open, "GET /metr");
    http_server_stop(&server);
    RACE_CHECK(atomic_load(&counting.searches.by_state[SCOPE_STALE]) ==
               atomic_load(&counting.counted));
}
