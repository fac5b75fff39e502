#include "ipc/server_private.h"

#include "core/clock.h"
#include "core/log.h"
#include "ipc/socket_descriptor.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>

/* Messages between two looks at replies, deadlines and the watchdog. */
#define MESSAGES_PER_TURN 64

/* The longest sleep; the tick must come at least every second. */
#define TURN_MS_MAX 500

/* Replies kept for a client that is slow to read; more are dropped. */
#define REPLIES_PER_CLIENT 1024

/* How long replies may still travel after the end. */
#define LINGER_MS 250

static enum status check_options(const struct server_options *options, struct error *error)
{
    if (options->threads < 1 || options->threads > SERVER_THREADS_MAX)
        return error_set(error, STATUS_INVALID, NULL, "%u request threads: 1 to %d are possible",
                         options->threads, SERVER_THREADS_MAX);
    if (options->message_bytes_max < 1 || options->queue_per_client < 1 ||
        options->queue_total < 1 || options->timeout_default_ms < 1 || options->timeout_max_ms < 1)
        return error_set(error, STATUS_INVALID, NULL, "a limit of the server is 0");
    return STATUS_OK;
}

static bool set_option(void *socket, int option, int value)
{
    return zmq_setsockopt(socket, option, &value, sizeof value) == 0;
}

static enum status open_router(struct server *server, struct error *error)
{
    const struct server_options *options = &server->options;
    /* Beyond the limit there is room for an answer that tells it. */
    const int64_t bytes_max = 2 * (int64_t) options->message_bytes_max;

    server->router = zmq_socket(options->zmq_context, ZMQ_ROUTER);
    if (!server->router || !set_option(server->router, ZMQ_ROUTER_HANDOVER, 1) ||
        !set_option(server->router, ZMQ_ROUTER_MANDATORY, 1) ||
        !set_option(server->router, ZMQ_SNDHWM, REPLIES_PER_CLIENT) ||
        !set_option(server->router, ZMQ_LINGER, LINGER_MS) ||
        !set_option(server->router, ZMQ_BACKLOG, 512) ||
        zmq_setsockopt(server->router, ZMQ_MAXMSGSIZE, &bytes_max, sizeof bytes_max) < 0)
        return error_set(error, STATUS_INTERNAL, NULL, "cannot make the socket: %s",
                         zmq_strerror(errno));
    enum status status = monitor_open(server, error);
    if (status != STATUS_OK)
        return status;
    if (zmq_bind(server->router, options->endpoint) < 0)
        return error_set(error, errno == EADDRINUSE ? STATUS_BUSY : STATUS_UNAVAILABLE, NULL,
                         "cannot listen at %s: %s", options->endpoint, zmq_strerror(errno));
    return STATUS_OK;
}

static enum status open_all(struct server *server, struct error *error)
{
    server->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (server->wake_fd < 0)
        return error_set_errno(error, errno, NULL, "cannot make an event descriptor");
    return open_router(server, error);
}

enum status server_create(const struct server_options *options,
                          const struct server_handler *handler, struct server **ret,
                          struct error *error)
{
    const struct queue_limits limits = {
        .per_client = options->queue_per_client,
        .total = options->queue_total,
        .bytes_per_client = 4 * options->message_bytes_max,
        .bytes_total = 16 * options->message_bytes_max,
        .running_per_client = options->threads > 1 ? options->threads - 1 : 1,
    };

    enum status status = check_options(options, error);

    if (status != STATUS_OK)
        return status;
    struct server *server = calloc(1, sizeof *server);
    if (!server || queue_init(&server->queue, &limits) != STATUS_OK) {
        free(server);
        return error_set(error, STATUS_NO_MEMORY, NULL, "out of memory");
    }
    server->options = *options;
    server->handler = *handler;
    server->wake_fd = -1;
    server->is_ipc = strncmp(options->endpoint, "ipc://", strlen("ipc://")) == 0;
    status = open_all(server, error);
    if (status != STATUS_OK) {
        server_destroy(&server);
        return status;
    }
    *ret = server;
    return STATUS_OK;
}

void server_wake(const struct server *server)
{
    const uint64_t one = 1;

    /* The counter cannot fill up: it is read whenever it is not 0. */
    (void) !write(server->wake_fd, &one, sizeof one);
}

void server_stop(struct server *server, unsigned drain_ms)
{
    int saved_errno = errno;
    unsigned none = 0;

    /* 0 means "not asked yet". */
    (void) atomic_compare_exchange_strong(&server->drain_ms, &none, drain_ms ? drain_ms : 1);
    atomic_store(&server->stopping, true);
    server_wake(server);
    errno = saved_errno;
}

static void send_done(struct server *server)
{
    struct job *list = NULL;

    if (atomic_load(&server->queue.outstanding) > 0)
        list = queue_take_done(&server->queue);
    while (list) {
        struct job *job = list;
        list = job->next;
        request_count_reply(server, job->code);
        request_send(server, job, &job->reply);
        job_release(&server->queue, job);
    }
}

static void answer_expired(struct server *server, bool all)
{
    struct job *list = queue_expire(&server->queue, clock_monotonic_ns(), all);

    while (list) {
        struct job *job = list;
        list = job->next;
        if (all)
            request_answer(server, job, STATUS_UNAVAILABLE, "shutting down");
        else
            request_answer(server, job, STATUS_TIMEOUT, "not answered within timeout_ms");
        job_release(&server->queue, job);
    }
}

static int sleep_ms(const struct server *server)
{
    int ms = clock_remaining_ms(server->queue.next_deadline_ns);

    if (atomic_load(&server->stopping)) {
        int drain_ms = clock_remaining_ms(server->drain_deadline_ns);
        ms = drain_ms < ms ? drain_ms : ms;
    }
    return ms < TURN_MS_MAX ? ms : TURN_MS_MAX;
}

/* Waits for news, which the turn that follows looks at. Both turn() and monitor_read() end with a
 * receive that found nothing, as the descriptors need it, so nothing may be sent in between.
 * (zmq_poll() would ask each socket before and after: five more calls of poll() for a request.) */
static enum status wait_for_news(struct server *server, struct error *error)
{
    struct pollfd fds[] = {
        {.fd = socket_descriptor(server->router), .events = POLLIN},
        {.fd = socket_descriptor(server->monitor), .events = POLLIN},
        {.fd = server->wake_fd, .events = POLLIN},
    };
    uint64_t ignored = 0;

    if (fds[0].fd < 0 || fds[1].fd < 0)
        return error_set(error, STATUS_INTERNAL, NULL, "cannot wait for requests: %s",
                         zmq_strerror(errno));
    if (poll(fds, ARRAY_SIZE(fds), sleep_ms(server)) < 0 && errno != EINTR)
        return error_set_errno(error, errno, NULL, "cannot wait for requests");
    if (fds[1].revents)
        monitor_read(server);
    if (fds[2].revents)
        (void) !read(server->wake_fd, &ignored, sizeof ignored);
    return STATUS_OK;
}

/* True when there may be more to read at once. */
static bool turn(struct server *server)
{
    unsigned count = 0;

    send_done(server);
    answer_expired(server, false);
    threads_replace_lost(server);
    if (server->handler.tick)
        server->handler.tick(server->handler.context);
    while (count < MESSAGES_PER_TURN && request_serve_one(server))
        count++;
    if (count < MESSAGES_PER_TURN && !server->monitor_has_more)
        return false;
    monitor_read(server); /* since there is no wait that would do so */
    return true;
}

static bool is_drained(struct server *server)
{
    if (!atomic_load(&server->stopping))
        return false;
    if (server->drain_deadline_ns == 0)
        server->drain_deadline_ns = clock_deadline_ms(atomic_load(&server->drain_ms));
    return atomic_load(&server->queue.outstanding) == 0 ||
           clock_monotonic_ns() >= server->drain_deadline_ns;
}

static enum status serve(struct server *server, struct error *error)
{
    enum status status = STATUS_OK;

    monitor_read(server); /* its descriptor tells only of what comes after a first look */
    while (status == STATUS_OK && !is_drained(server)) {
        if (!turn(server) && !is_drained(server))
            status = wait_for_news(server, error);
    }
    /* Refuses what arrived meanwhile and sends what was finished last. */
    (void) turn(server);
    answer_expired(server, true);
    return status;
}

enum status server_run(struct server *server, struct error *error)
{
    enum status status = threads_start(server, error);

    if (status == STATUS_OK)
        status = serve(server, error);
    unsigned stuck = threads_stop(server);
    send_done(server);
    if (status == STATUS_OK && stuck > 0)
        status =
            error_set(error, STATUS_TIMEOUT, NULL, "%u request threads did not come back", stuck);
    return status;
}

static void count_threads(const struct server *server, struct server_counters *ret)
{
    uint64_t now = clock_monotonic_ns();

    for (unsigned i = 0; i < ARRAY_SIZE(server->workers); i++) {
        uint64_t started = atomic_load(&server->workers[i].started_ns);
        uint64_t ms = started && now > started ? (now - started) / NS_PER_MS : 0;

        if (started)
            ret->threads_busy++;
        if (ms > ret->oldest_running_ms)
            ret->oldest_running_ms = ms;
    }
}

void server_counters(const struct server *server, struct server_counters *ret)
{
    const struct live_counters *live = &server->counters;

    *ret = (struct server_counters){
        .requests = atomic_load(&live->requests),
        .errors = atomic_load(&live->errors),
        .timeouts = atomic_load(&live->timeouts),
        .busy = atomic_load(&live->busy),
        .malformed = atomic_load(&live->malformed),
        .inline_replies = atomic_load(&live->inline_replies),
        .queued = atomic_load(&live->queued),
        .clients = atomic_load(&server->queue.clients),
        .waiting = atomic_load(&server->queue.waiting),
        .late_replies = atomic_load(&server->queue.late),
        .undelivered = atomic_load(&live->undelivered),
        .connections = atomic_load(&live->connections),
        .disconnects = atomic_load(&live->disconnects),
    };
    count_threads(server, ret);
}

void server_free(struct server *server)
{
    queue_clear(&server->queue);
    text_destroy(&server->result);
    if (server->wake_fd >= 0)
        (void) close(server->wake_fd);
    free(server);
}

void server_destroy(struct server **server)
{
    if (!server || !*server)
        return;
    struct server *gone = TAKE_PTR(*server);
    if (gone->router)
        (void) zmq_socket_monitor(gone->router, NULL, 0);
    if (gone->monitor)
        (void) zmq_close(gone->monitor);
    if (gone->router)
        (void) zmq_close(gone->router);

    pthread_mutex_lock(&gone->queue.lock);
    gone->orphaned = true;
    bool last = gone->queue.threads_alive == 0;
    pthread_mutex_unlock(&gone->queue.lock);
    if (last)
        server_free(gone);
}
