/* client.c - requests and their answers. */
#include "ipc/client_private.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define METHOD_BYTES_MAX 64
#define ANSWER_MARGIN_MS_MAX 100

/* `lock` is held by the thread whose call is under way; it guards `connection`. `owner` is the
 * process that may use both: another one, a forked child, starts afresh. */
struct memsync_client {
    atomic_int owner; /* a process id; its negative while that process takes over */
    pthread_mutex_t lock;
    char *endpoint; /* set once */
    struct connection connection;
    struct wake wake;
    atomic_uint_fast64_t last_id;
};

struct outgoing {
    char *bytes;
    size_t size;
    char id[24]; /* as it stands in the text */
};

uint64_t client_now_ns(void)
{
    struct timespec now;

    (void) clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t) now.tv_sec * 1000000000u + (uint64_t) now.tv_nsec;
}

uint64_t client_deadline_ns(int timeout_ms)
{
    return client_now_ns() + (uint64_t) timeout_ms * 1000000u;
}

char *client_copy(const char *bytes, size_t size)
{
    char *copy = malloc(size + 1);

    if (!copy)
        return NULL;
    memcpy(copy, bytes, size);
    copy[size] = '\0';
    return copy;
}

static const char *choose_endpoint(const char *endpoint)
{
    if (endpoint)
        return endpoint;
    endpoint = getenv("MEMSYNC_ENDPOINT");
    return endpoint && *endpoint ? endpoint : MEMSYNC_DEFAULT_ENDPOINT;
}

int memsync_open(const char *endpoint, memsync_client **ret)
{
    if (!ret)
        return client_fail(MEMSYNC_BAD_PARAMS, "there is no place for the client");
    *ret = NULL;
    endpoint = choose_endpoint(endpoint);
    const char *wrong = memsync_endpoint_error(endpoint);
    if (wrong)
        return client_fail(MEMSYNC_BAD_ENDPOINT, "%s", wrong);

    memsync_client *client = calloc(1, sizeof *client);
    if (!client)
        return client_fail(MEMSYNC_NO_MEMORY, "out of memory");
    client->wake.fd = -1;
    client->owner = getpid();
    (void) pthread_mutex_init(&client->lock, NULL);
    client->endpoint = strdup(endpoint);
    int code = client->endpoint ? wake_open(&client->wake)
                                : client_fail(MEMSYNC_NO_MEMORY, "out of memory");
    if (code != MEMSYNC_OK) {
        memsync_close(&client);
        return code;
    }
    client->connection = (struct connection){.kind = ZMQ_DEALER, .endpoint = client->endpoint};
    *ret = client;
    return MEMSYNC_OK;
}

void memsync_close(memsync_client **client)
{
    if (!client || !*client)
        return;
    connection_drop(&(*client)->connection);
    wake_close(&(*client)->wake);
    if (atomic_load(&(*client)->owner) == getpid())
        (void) pthread_mutex_destroy(&(*client)->lock);
    free((*client)->endpoint);
    free(*client);
    *client = NULL;
}

void client_adopt(memsync_client *client)
{
    int self = getpid();
    int owner = atomic_load(&client->owner);

    while (owner != self) {
        if (owner != -self && atomic_compare_exchange_strong(&client->owner, &owner, -self)) {
            /* The lock may have been held in the parent when it forked. */
            (void) pthread_mutex_init(&client->lock, NULL);
            wake_close(&client->wake);
            (void) wake_open(&client->wake); /* without it only the flag is seen, late */
            atomic_store(&client->owner, self);
            return;
        }
        (void) sched_yield();
        owner = atomic_load(&client->owner);
    }
}

struct wake *client_wake(memsync_client *client)
{
    return &client->wake;
}

static bool is_method(const char *method)
{
    size_t size = method ? strlen(method) : 0;

    return size > 0 && size <= METHOD_BYTES_MAX &&
           strspn(method, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.") ==
               size;
}

/* The agent's deadline is a little before ours, so that its own "timeout" arrives in time. */
static int agent_timeout_ms(int timeout_ms)
{
    int margin = timeout_ms / 10 < ANSWER_MARGIN_MS_MAX ? timeout_ms / 10 : ANSWER_MARGIN_MS_MAX;

    return timeout_ms - margin;
}

/* Puts the envelope around the caller's parameters, which stay as they were spelt. */
static int write_request(memsync_client *client, const char *method, const char *params,
                         int timeout_ms, struct outgoing *ret)
{
    static const char *const names[] = {"timeout_ms"};
    struct json_span own_timeout;
    size_t members = 0;
    char timeout[40] = "";
    uint64_t id = atomic_fetch_add(&client->last_id, 1) + 1;

    if (!is_method(method))
        return client_fail(MEMSYNC_BAD_PARAMS, "that is no name of a method");
    params = params ? params : "{}";
    size_t params_size = strlen(params);
    if (params_size > CLIENT_MESSAGE_BYTES_MAX)
        return client_fail(MEMSYNC_BAD_PARAMS, "the parameters are too large: %zu bytes",
                           params_size);
    if (!client_json_members(params, params_size, names, 1, &own_timeout, &members))
        return client_fail(MEMSYNC_BAD_PARAMS, "the parameters are no JSON object");
    if (!own_timeout.bytes)
        (void) snprintf(timeout, sizeof timeout, "\"timeout_ms\":%d%s",
                        agent_timeout_ms(timeout_ms), members > 0 ? "," : "");

    (void) snprintf(ret->id, sizeof ret->id, "%" PRIu64, id);
    int size =
        asprintf(&ret->bytes, "{\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":\"%s\",\"params\":{%s%s}",
                 ret->id, method, timeout, strchr(params, '{') + 1);
    if (size < 0) {
        ret->bytes = NULL;
        return client_fail(MEMSYNC_NO_MEMORY, "out of memory");
    }
    ret->size = (size_t) size;
    return MEMSYNC_OK;
}

/* The code of an error, 0 when it is none. */
static int read_code(const struct json_span *span)
{
    char digits[8];

    if (!span->bytes || span->size >= sizeof digits)
        return 0;
    memcpy(digits, span->bytes, span->size);
    digits[span->size] = '\0';
    long code = strtol(digits, NULL, 10);
    return code < 0 ? (int) code : 0;
}

/* A string member's value, NULL when it is none; the caller owns it. */
static json_t *load_string(const struct json_span *span)
{
    if (!span->bytes || *span->bytes != '"')
        return NULL;
    return json_loadb(span->bytes, span->size, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
}

/* The file that an error is about, NULL when it names none. */
static json_t *load_path(const struct json_span *data)
{
    static const char *const names[] = {"path"};
    struct json_span found[1] = {0};
    size_t members;

    if (!data->bytes || !client_json_members(data->bytes, data->size, names, 1, found, &members))
        return NULL;
    return load_string(&found[0]);
}

/* "corrupt: users/u1/memory.json: it ends early"; a message that has the path says it itself. */
static void tell_error(int code, const char *message, const char *path)
{
    bool has_path = path && *path && !strstr(message, path);

    (void) client_fail(code, "%s: %s%s%s", memsync_code_name(code), has_path ? path : "",
                       has_path ? ": " : "", message);
}

/* Reads {code, message, data.path} and hands the object on; returns its code. The rest of the
 * object is not looked at: it repeats parameters, which may hold what jansson does not take. */
static int take_error(const struct json_span *object, char **ret)
{
    static const char *const names[] = {"code", "message", "data"};
    struct json_span found[3] = {0};
    size_t members;

    int code = client_json_members(object->bytes, object->size, names, 3, found, &members)
                   ? read_code(&found[0])
                   : 0;
    if (code == 0 || !found[1].bytes)
        return client_fail(MEMSYNC_BAD_REPLY, "the agent answered with an error without a code");
    *ret = client_copy(object->bytes, object->size);
    if (!*ret)
        return client_fail(MEMSYNC_NO_MEMORY, "out of memory");
    json_t *message = load_string(&found[1]);
    json_t *path = load_path(&found[2]);
    tell_error(code, message ? json_string_value(message) : "(no message)",
               json_string_value(path));
    json_decref(message);
    json_decref(path);
    return code;
}

static bool span_is(const struct json_span *span, const char *text)
{
    return span->bytes && span->size == strlen(text) && memcmp(span->bytes, text, span->size) == 0;
}

/* An error without an id is about a request that the agent could not read: ours, if no other is
 * under way. */
static bool is_our_answer(const struct connection *connection, const struct json_span *id,
                          const struct json_span *error, const char *expected)
{
    return span_is(id, expected) ||
           (span_is(id, "null") && error->bytes && connection->unanswered == 0);
}

/* CLIENT_TIMED_OUT: not the answer to this request. */
static int read_reply(struct connection *connection, const char *bytes, size_t size,
                      const char *expected_id, char **ret)
{
    static const char *const names[] = {"jsonrpc", "id", "result", "error"};
    struct json_span found[4];
    size_t members;

    if (!client_json_members(bytes, size, names, 4, found, &members) ||
        !span_is(&found[0], "\"2.0\"") || !found[1].bytes || !found[2].bytes == !found[3].bytes) {
        connection_drop(connection);
        return client_fail(MEMSYNC_BAD_REPLY,
                           "what answers at %s does not speak memsyncd's protocol",
                           connection->endpoint);
    }
    if (!is_our_answer(connection, &found[1], &found[3], expected_id)) {
        if (connection->unanswered > 0)
            connection->unanswered--;
        return CLIENT_TIMED_OUT;
    }
    if (found[3].bytes)
        return take_error(&found[3], ret);
    *ret = client_copy(found[2].bytes, found[2].size);
    return *ret ? MEMSYNC_OK : client_fail(MEMSYNC_NO_MEMORY, "out of memory");
}

static int receive_reply(struct connection *connection, const char *expected_id, char **ret)
{
    zmq_msg_t first, last;

    int code = connection_receive(connection, &first, &last);
    if (code == MEMSYNC_OK)
        code = read_reply(connection, zmq_msg_data(&last), zmq_msg_size(&last), expected_id, ret);
    (void) zmq_msg_close(&first);
    (void) zmq_msg_close(&last);
    return code;
}

/* Nobody waits for the answer any more. The connection is kept for the next call if there is
 * somebody at its other end; a late answer is then told by its id. Else the request would wait in a
 * queue for an agent to come. */
static void abandon_request(struct connection *connection)
{
    if (connection->is_up)
        connection->unanswered++;
    else
        connection_drop(connection);
}

static int give_up(struct connection *connection, int timeout_ms)
{
    bool was_up = connection->is_up;

    abandon_request(connection);
    return client_fail(MEMSYNC_NO_AGENT, "no answer from %s within %d ms%s", connection->endpoint,
                       timeout_ms, was_up ? "" : ": it listens, but does not take connections");
}

static int exchange(memsync_client *client, const struct outgoing *request, uint64_t deadline_ns,
                    int timeout_ms, char **ret)
{
    struct connection *connection = &client->connection;

    int code = connection_ready(connection);
    if (code == MEMSYNC_OK)
        code = connection_send(connection, request->bytes, request->size);
    if (code != MEMSYNC_OK)
        return code;
    do {
        code = connection_wait(connection, &client->wake, deadline_ns);
        if (code == CLIENT_TIMED_OUT)
            return give_up(connection, timeout_ms);
        if (code == MEMSYNC_INTERRUPTED)
            abandon_request(connection);
        if (code != MEMSYNC_OK)
            return code;
        code = receive_reply(connection, request->id, ret);
    } while (code == CLIENT_TIMED_OUT);
    return code;
}

/* Waits for the calls of other threads, at most until our own deadline. */
static bool lock_until(memsync_client *client, uint64_t deadline_ns)
{
    struct timespec deadline = {
        .tv_sec = (time_t) (deadline_ns / 1000000000u),
        .tv_nsec = (long) (deadline_ns % 1000000000u),
    };

    return pthread_mutex_clocklock(&client->lock, CLOCK_MONOTONIC, &deadline) == 0;
}

int memsync_call(memsync_client *client, const char *method, const char *params, int timeout_ms,
                 char **ret)
{
    struct outgoing request = {0};

    if (!client || !ret)
        return client_fail(MEMSYNC_BAD_PARAMS, "there is no client, or no place for the answer");
    *ret = NULL;
    if (timeout_ms <= 0)
        timeout_ms = MEMSYNC_DEFAULT_TIMEOUT_MS;
    client_adopt(client);
    uint64_t deadline_ns = client_deadline_ns(timeout_ms);
    int code = write_request(client, method, params, timeout_ms, &request);
    if (code != MEMSYNC_OK)
        return code;
    if (lock_until(client, deadline_ns)) {
        code = exchange(client, &request, deadline_ns, timeout_ms, ret);
        (void) pthread_mutex_unlock(&client->lock);
    } else {
        code = client_fail(MEMSYNC_NO_AGENT, "calls of other threads took all of the %d ms",
                           timeout_ms);
    }
    free(request.bytes);
    return code;
}

void memsync_interrupt(memsync_client *client)
{
    if (client)
        wake_raise(&client->wake);
}

void memsync_free(char *text)
{
    free(text);
}

const char *memsync_version(void)
{
    return MEMSYNC_VERSION;
}
