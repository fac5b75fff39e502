#include "agent/metrics.h"

#include "core/clock.h"

static void measure_requests(const struct server_counters *counters, struct exposition *page)
{
    exposition_counter(page, "memsyncd_requests_total", "Requests taken.", counters->requests);
    exposition_counter(page, "memsyncd_request_errors_total",
                       "Requests answered with an error, of whatever kind.", counters->errors);
    exposition_counter(page, "memsyncd_request_timeouts_total",
                       "Requests answered at their deadline, without a result.",
                       counters->timeouts);
    exposition_counter(page, "memsyncd_requests_refused_total",
                       "Requests refused because a limit was reached.", counters->busy);
    exposition_counter(page, "memsyncd_requests_malformed_total",
                       "Requests that could not be understood.", counters->malformed);
    exposition_counter(page, "memsyncd_replies_undelivered_total",
                       "Replies to clients that are gone or do not read.", counters->undelivered);
}

static void measure_now(const struct server_counters *counters, struct exposition *page)
{
    exposition_gauge(page, "memsyncd_requests_waiting", "Requests that wait for a thread.",
                     counters->waiting);
    exposition_gauge(page, "memsyncd_request_threads_busy", "Threads that have a request.",
                     counters->threads_busy);
    exposition_age(page, "memsyncd_oldest_request_age_seconds",
                   "Since when the oldest of these requests is there; 0 without one.",
                   counters->oldest_running_ms * NS_PER_MS);
    exposition_gauge(page, "memsyncd_clients_waiting", "Clients with a request that waits or runs.",
                     counters->clients);
    exposition_gauge(page, "memsyncd_connections", "Clients that are connected.",
                     counters->connections);
}

void metrics_measure_ipc(const struct server *server, const struct events *events,
                         struct exposition *page)
{
    struct server_counters counters = {0};

    server_counters(server, &counters);
    measure_requests(&counters, page);
    measure_now(&counters, page);
    exposition_counter(page, "memsyncd_events_dropped_total",
                       "Events that came faster than they could be published.",
                       events ? events_dropped(events) : 0);
}
