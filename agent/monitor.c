#include "agent/monitor.h"

#include "agent/http_server.h"
#include "core/clock.h"
#include "core/log.h"

#include <string.h>

#define CODE_OK 200
#define CODE_UNAVAILABLE 503

struct monitor {
    struct monitor_options options;
    uint64_t started_wall_ns;
    struct http_server *server;
};

static bool has_started(const struct monitor *monitor)
{
    return atomic_load(&monitor->options.health->stage) != HEALTH_STARTING;
}

static bool is_ready(const struct monitor *monitor, const char **ret_reason)
{
    return health_is_serving(monitor->options.health, ret_reason) &&
           monitor->options.is_ready(monitor->options.context, ret_reason);
}

static void measure_process(const struct monitor *monitor, struct exposition *page)
{
    const char *reason = "";

    exposition_begin(page, "memsyncd_build_info", EXPOSITION_GAUGE,
                     "The version and the backend; always 1.");
    exposition_count(page,
                     LABELS("version", MEMSYNC_VERSION, "backend", monitor->options.backend_name),
                     1);
    exposition_age(page, "memsyncd_start_time_seconds",
                   "When the agent was started, in seconds since 1970.", monitor->started_wall_ns);
    exposition_gauge(page, "memsyncd_ready", "1 while /readyz says so.",
                     is_ready(monitor, &reason));
}

static void answer_metrics(const struct monitor *monitor, struct http_answer *answer)
{
    struct exposition page = {0};

    measure_process(monitor, &page);
    if (has_started(monitor))
        monitor->options.measure(monitor->options.context, &page);
    answer->code = CODE_OK;
    answer->type = EXPOSITION_TYPE;
    answer->body = page.text;
}

static void answer_state(bool good, const char *reason, struct http_answer *answer)
{
    answer->code = good ? CODE_OK : CODE_UNAVAILABLE;
    answer->type = "text/plain; charset=utf-8";
    text_append_format(&answer->body, "%s\n", good ? "ok" : reason);
}

static void answer(void *context, const char *path, struct http_answer *ret)
{
    const struct monitor *monitor = context;
    const char *reason = "";

    if (strcmp(path, "/metrics") == 0) {
        answer_metrics(monitor, ret);
    } else if (strcmp(path, "/healthz") == 0) {
        bool alive = health_is_alive(monitor->options.health, clock_monotonic_ns(),
                                     monitor->options.patience_ns, &reason);
        answer_state(alive, reason, ret);
    } else if (strcmp(path, "/readyz") == 0) {
        bool ready = is_ready(monitor, &reason);
        answer_state(ready, reason, ret);
    }
}

static void tell(const struct monitor *monitor)
{
    const struct http_address *address = http_server_address(monitor->server);
    char text[HTTP_ADDRESS_TEXT_SIZE];

    http_address_format(address, text);
    if (http_address_is_loopback(address))
        log_notice("metrics.listening", "address=%s", LOG_VALUE(text));
    else
        log_warning("metrics.exposed",
                    "address=%s what=\"other hosts can read the metrics; nothing asks who they "
                    "are\"",
                    LOG_VALUE(text));
}

enum status monitor_start(const struct monitor_options *options, struct monitor **ret,
                          struct error *error)
{
    struct http_address address;
    struct monitor *monitor = NULL;

    if (!http_address_parse(options->listen, &address))
        return error_set(error, STATUS_INVALID, NULL, "must be PORT, IPV4:PORT or [IPV6]:PORT");
    monitor = calloc(1, sizeof *monitor);
    if (!monitor)
        return error_set(error, STATUS_NO_MEMORY, NULL, "out of memory");
    monitor->options = *options;
    monitor->started_wall_ns = clock_wall_ns();
    enum status status = http_server_start(&address, answer, monitor, &monitor->server, error);
    if (status != STATUS_OK) {
        free(monitor);
        return status;
    }
    tell(monitor);
    *ret = monitor;
    return STATUS_OK;
}

void monitor_stop(struct monitor **monitor_address)
{
    struct monitor *monitor = TAKE_PTR(*monitor_address);

    if (!monitor)
        return;
    http_server_stop(&monitor->server);
    free(monitor);
}
