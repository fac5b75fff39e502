/* agent/monitor.h: what is told, by how far the agent is. */
#include "agent/monitor.h"

#include "core/clock.h"
#include "tests/support/captured_log.h"
#include "tests/support/http_visit.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define PATIENCE_NS (5 * NS_PER_SECOND)

static struct health health;
static struct monitor *monitor;
static atomic_bool volume_is_gone;
static atomic_uint measured, asked;

static void measure(void *context, struct exposition *page)
{
    cr_assert_eq(context, &health);
    (void) atomic_fetch_add(&measured, 1);
    exposition_gauge(page, "of_the_parts", "What they say.", 5);
}

static bool is_ready(void *context, const char **ret_reason)
{
    cr_assert_eq(context, &health);
    (void) atomic_fetch_add(&asked, 1);
    if (atomic_load(&volume_is_gone))
        *ret_reason = "the volume is gone";
    return !atomic_load(&volume_is_gone);
}

static enum status start(const char *listen, struct error *error)
{
    const struct monitor_options options = {
        .listen = listen,
        .health = &health,
        .patience_ns = PATIENCE_NS,
        .backend_name = "teller",
        .measure = measure,
        .is_ready = is_ready,
        .context = &health,
    };

    return monitor_start(&options, &monitor, error);
}

static void set_up(void)
{
    struct error error = {0};

    captured_log_start();
    captured_log_expect("event=metrics.exposed");
    cr_assert_eq(start("0", &error), STATUS_OK, "%s", error.message);
}

static void tear_down(void)
{
    monitor_stop(&monitor);
    cr_expect_null(monitor);
    monitor_stop(&monitor);
    cr_expect_null(captured_log_unexpected());
    captured_log_stop();
}

TestSuite(monitor, .init = set_up, .fini = tear_down, .timeout = 60);

/* Where it said that it listens. */
static struct http_address listening_at(void)
{
    const char *line = captured_log_line("event=metrics.listening ", 0);
    struct http_address address;

    cr_assert_not_null(line);
    cr_assert(http_address_parse(strstr(line, "127.0.0.1:"), &address), "%s", line);
    return address;
}

/* The whole reply. */
static const char *get(const char *path)
{
    static char reply[65536];
    struct http_address address = listening_at();

    cr_assert(http_get(&address, path, reply, sizeof reply), "%s", path);
    return reply;
}

static void expect(const char *path, unsigned code, const char *body)
{
    const char *reply = get(path);
    const char *end = strstr(reply, "\r\n\r\n");

    cr_assert_not_null(end, "%s", reply);
    cr_expect_eq(strtoul(reply + strlen("HTTP/1.1 "), NULL, 10), code, "%s: %.40s", path, reply);
    cr_expect_str_eq(end + 4, body);
}

static bool page_has(const char *line)
{
    char whole[200];

    (void) snprintf(whole, sizeof whole, "\n%s\n", line);
    return strstr(get("/metrics"), whole) != NULL;
}

Test(monitor, while_the_agent_starts_it_lives_and_is_not_ready)
{
    expect("/healthz", 200, "ok\n");
    expect("/readyz", 503, "starting\n");
    cr_expect(page_has("memsyncd_ready 0"));
    cr_expect(
        page_has("memsyncd_build_info{version=\"" MEMSYNC_VERSION "\",backend=\"teller\"} 1"));
    cr_expect_eq(measured + asked, 0, "the parts are not there yet");
}

Test(monitor, it_tells_what_the_parts_say_once_they_are_there)
{
    health_serve(&health, clock_monotonic_ns());
    expect("/readyz", 200, "ok\n");
    cr_expect(page_has("of_the_parts 5"));
    cr_expect(page_has("memsyncd_ready 1"));
    cr_expect_not_null(strstr(get("/metrics"), "\r\nContent-Type: " EXPOSITION_TYPE "\r\n"));
    atomic_store(&volume_is_gone, true);
    expect("/readyz", 503, "the volume is gone\n");
    expect("/healthz", 200, "ok\n");
    cr_expect(page_has("memsyncd_ready 0"));
    atomic_store(&volume_is_gone, false);
    expect("/readyz", 200, "ok\n");
}

Test(monitor, a_thread_that_does_not_come_round_is_told)
{
    health_serve(&health, clock_monotonic_ns());
    clock_advance_for_test(PATIENCE_NS + 1);
    expect("/healthz", 503, "the serving loop does not come round\n");
    atomic_store(&health.serving_ns, clock_monotonic_ns());
    expect("/healthz", 503, "the main thread does not come round\n");
    atomic_store(&health.overseer_ns, clock_monotonic_ns());
    expect("/healthz", 200, "ok\n");
}

Test(monitor, while_the_agent_stops_it_lives_and_counts_and_is_not_ready)
{
    health_serve(&health, clock_monotonic_ns());
    health_stop(&health);
    clock_advance_for_test(2 * PATIENCE_NS);
    expect("/healthz", 200, "ok\n");
    expect("/readyz", 503, "stopping\n");
    cr_expect(page_has("of_the_parts 5"));
}

Test(monitor, an_address_for_everybody_is_warned_of)
{
    struct error error = {0};

    monitor_stop(&monitor);
    cr_assert_eq(start("0.0.0.0:0", &error), STATUS_OK, "%s", error.message);
    cr_expect_eq(captured_log_count("level=warning event=metrics.exposed address=0.0.0.0:"), 1);
    cr_expect_eq(captured_log_count("event=metrics.listening"), 1, "the first one");
}

Test(monitor, what_is_no_address_is_refused)
{
    struct error error = {0};

    monitor_stop(&monitor);
    cr_expect_eq(start("localhost:9464", &error), STATUS_INVALID);
    cr_expect_str_eq(error.message, "must be PORT, IPV4:PORT or [IPV6]:PORT");
    cr_expect_null(monitor);
}
