#include "agent/http_server.h"

#include "core/clock.h"
#include "core/log.h"
#include "core/thread_kind.h"

#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>

#define BACKLOG 64
#define LOOK_MS 500 /* how often somebody connected is looked at while nothing happens */

/* A place for somebody who is connected; the server's thread alone uses them. */
struct visit {
    struct MHD_Connection *connection; /* NULL: free */
    uint64_t begun_ns;
};

struct http_server {
    struct http_address address;
    http_handler handler;
    void *context;
    struct MHD_Daemon *daemon;
    int wake_fd;
    pthread_t thread;
    bool started;
    atomic_bool stopping;
    bool is_full; /* at the last look; the server's thread alone uses it */
    struct visit visits[HTTP_CONNECTIONS_MAX];
};

/* ---- requests ---- */

static enum MHD_Result queue_answer(struct MHD_Connection *connection, struct http_answer *answer)
{
    size_t size = 0;
    char *bytes = text_take(&answer->body, &size);
    struct MHD_Response *response =
        bytes ? MHD_create_response_from_buffer(size, bytes, MHD_RESPMEM_MUST_FREE) : NULL;

    if (!response) {
        free(bytes);
        return MHD_NO; /* without memory: cuts him off */
    }
    enum MHD_Result result = MHD_add_response_header(response, "Content-Type", answer->type);
    if (result == MHD_YES)
        result = MHD_add_response_header(response, "Connection", "close");
    if (result == MHD_YES && answer->code == MHD_HTTP_METHOD_NOT_ALLOWED)
        result = MHD_add_response_header(response, "Allow", "GET, HEAD");
    if (result == MHD_YES)
        result = MHD_queue_response(connection, answer->code, response);
    MHD_destroy_response(response);
    return result;
}

static void refuse(struct http_answer *answer, unsigned code, const char *line)
{
    answer->code = code;
    answer->type = "text/plain; charset=utf-8";
    text_append_string(&answer->body, line);
}

/* Called once the head is there; answered without waiting for a body, which nobody needs. */
static enum MHD_Result take_request(void *context, struct MHD_Connection *connection,
                                    const char *path, const char *method, const char *version,
                                    const char *upload, size_t *upload_size, void **state)
{
    struct http_server *server = context;
    struct http_answer answer = {0};

    (void) version;
    (void) upload;
    (void) upload_size;
    (void) state;
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
        refuse(&answer, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD\n");
    else
        server->handler(server->context, path, &answer);
    if (answer.code == 0)
        refuse(&answer, MHD_HTTP_NOT_FOUND, "there are /metrics, /healthz and /readyz\n");
    enum MHD_Result result = queue_answer(connection, &answer);
    text_destroy(&answer.body);
    return result;
}

/* ---- who is connected ---- */

static int descriptor_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);

    return info ? info->connect_fd : -1;
}

static void note_visit(void *context, struct MHD_Connection *connection, void **state,
                       enum MHD_ConnectionNotificationCode code)
{
    struct http_server *server = context;
    bool begins = code == MHD_CONNECTION_NOTIFY_STARTED;

    (void) state;
    for (size_t i = 0; i < HTTP_CONNECTIONS_MAX; i++) {
        struct visit *visit = &server->visits[i];
        if (visit->connection != (begins ? NULL : connection))
            continue;
        *visit = (struct visit){.connection = begins ? connection : NULL,
                                .begun_ns = clock_monotonic_ns()};
        return;
    }
}

/* libmicrohttpd's own timeout begins anew with every byte. Returns how many are connected. */
static unsigned cut_off_slow(const struct http_server *server)
{
    uint64_t now_ns = clock_monotonic_ns();
    unsigned count = 0;

    for (size_t i = 0; i < HTTP_CONNECTIONS_MAX; i++) {
        const struct visit *visit = &server->visits[i];
        if (!visit->connection)
            continue;
        count++;
        if (now_ns - visit->begun_ns > HTTP_PATIENCE_MS * NS_PER_MS)
            (void) shutdown(descriptor_of(visit->connection), SHUT_RDWR);
    }
    return count;
}

/* ---- the thread ---- */

static int wait_ms(struct http_server *server)
{
    unsigned count = cut_off_slow(server);
    bool was_full = server->is_full;
    MHD_UNSIGNED_LONG_LONG wanted = 0;

    server->is_full = count == HTTP_CONNECTIONS_MAX;
    if (was_full && !server->is_full)
        return 0; /* only its next turn looks for those who wait in the kernel */
    if (MHD_get_timeout(server->daemon, &wanted) == MHD_YES && wanted < LOOK_MS)
        return (int) wanted;
    return count > 0 ? LOOK_MS : -1;
}

static void *serve(void *context)
{
    struct http_server *server = context;
    const union MHD_DaemonInfo *info =
        MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    struct pollfd fds[2] = {{.fd = info->epoll_fd, .events = POLLIN},
                            {.fd = server->wake_fd, .events = POLLIN}};

    thread_kind_set(THREAD_BACKGROUND);
    while (!atomic_load(&server->stopping)) {
        if (poll(fds, ARRAY_SIZE(fds), wait_ms(server)) < 0 && errno != EINTR)
            break;
        if (MHD_run(server->daemon) != MHD_YES)
            break;
    }
    if (!atomic_load(&server->stopping))
        log_error("metrics.ended", "what=\"metrics and health are no longer served\"");
    return NULL;
}

/* ---- start and stop ---- */

static enum status refuse_address(const struct http_address *address, int sys_errno,
                                  struct error *error)
{
    char text[HTTP_ADDRESS_TEXT_SIZE];

    http_address_format(address, text);
    return error_set_errno(error, sys_errno, NULL, "cannot listen on %s%s", text,
                           sys_errno == EAFNOSUPPORT ? " (under systemd this needs a drop-in)"
                                                     : "");
}

static enum status listen_at(struct http_address *address, int *ret, struct error *error)
{
    AUTO_CLOSE int fd =
        socket(address->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP);
    const int yes = 1;

    if (fd < 0)
        return refuse_address(address, errno, error);
    /* Connections of an agent before this one may linger in the kernel. */
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) < 0 ||
        bind(fd, (const struct sockaddr *) &address->storage, address->size) < 0 ||
        listen(fd, BACKLOG) < 0)
        return refuse_address(address, errno, error);
    if (getsockname(fd, (struct sockaddr *) &address->storage, &address->size) < 0)
        return refuse_address(address, errno, error);
    *ret = TAKE_FD(fd);
    return STATUS_OK;
}

/* libmicrohttpd takes the descriptor. */
static enum status start_daemon(struct http_server *server, int fd, struct error *error)
{
    server->daemon =
        MHD_start_daemon(MHD_USE_EPOLL, 0, NULL, NULL, take_request, server,
                         MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT,
                         (unsigned) HTTP_CONNECTIONS_MAX, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                         (size_t) HTTP_REQUEST_BYTES_MAX, MHD_OPTION_NOTIFY_CONNECTION, note_visit,
                         server, MHD_OPTION_END);
    if (server->daemon)
        return STATUS_OK;
    (void) close(fd);
    return error_set(error, STATUS_INTERNAL, NULL, "the HTTP server cannot be started");
}

static enum status start(struct http_server *server, struct error *error)
{
    int fd = -1;

    server->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (server->wake_fd < 0)
        return error_set_errno(error, errno, NULL, "cannot make an eventfd");
    enum status status = listen_at(&server->address, &fd, error);
    if (status == STATUS_OK)
        status = start_daemon(server, fd, error);
    if (status != STATUS_OK)
        return status;
    int failed = pthread_create(&server->thread, NULL, serve, server);
    if (failed)
        return error_set_errno(error, failed, NULL, "cannot start the HTTP server's thread");
    server->started = true;
    return STATUS_OK;
}

enum status http_server_start(const struct http_address *address, http_handler handler,
                              void *context, struct http_server **ret, struct error *error)
{
    struct http_server *server = calloc(1, sizeof *server);

    if (!server)
        return error_set(error, STATUS_NO_MEMORY, NULL, "out of memory");
    server->address = *address;
    server->handler = handler;
    server->context = context;
    enum status status = start(server, error);
    if (status != STATUS_OK) {
        http_server_stop(&server);
        return status;
    }
    *ret = server;
    return STATUS_OK;
}

const struct http_address *http_server_address(const struct http_server *server)
{
    return &server->address;
}

static void end_thread(struct http_server *server)
{
    const uint64_t one = 1;

    atomic_store(&server->stopping, true);
    if (write(server->wake_fd, &one, sizeof one) < 0) /* the counter would have to be full */
        log_error("metrics.wake", "reason=%s", LOG_VALUE(strerrordesc_np(errno)));
    pthread_join(server->thread, NULL);
}

void http_server_stop(struct http_server **server_address)
{
    struct http_server *server = TAKE_PTR(*server_address);

    if (!server)
        return;
    if (server->started)
        end_thread(server);
    if (server->daemon)
        MHD_stop_daemon(server->daemon);
    cleanup_close(&server->wake_fd);
    free(server);
}
