#include "core/clock.h"
#include "ipc/server_private.h"
#include "tests/support/memory.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>

/* Criterion keeps truth values in bit fields and texts in pointers to char. */
#pragma GCC diagnostic ignored "-Wconversion"
#define STR(text) ((char *) (uintptr_t) (text))

#define LIMIT_BYTES 65536
#define PATIENCE_MS 10000 /* how long a test waits for what must come */

/* ---- a server with a handler that tests control ---- */

struct rig {
    char directory[64];
    char endpoint[96];
    void *context;
    struct server_options options;
    struct server *server;
    pthread_t thread;
    bool running;
    enum status run_status;
    pthread_mutex_t lock; /* all below */
    pthread_cond_t changed;
    unsigned holding;  /* threads inside "hold" */
    bool released;     /* lets them go */
    unsigned finished; /* calls of "hold" and "slow" that returned */
    char order[4096];  /* the marks of "slow" calls in the order in which they ran */
    _Atomic unsigned ticks;
};

static void wait_until_released(struct rig *rig)
{
    pthread_mutex_lock(&rig->lock);
    rig->holding++;
    (void) pthread_cond_broadcast(&rig->changed);
    while (!rig->released)
        (void) pthread_cond_wait(&rig->changed, &rig->lock);
    rig->holding--;
    (void) pthread_cond_broadcast(&rig->changed);
    pthread_mutex_unlock(&rig->lock);
}

static void note_finished(struct rig *rig, const struct server_call *call)
{
    const char *mark = json_string_value(json_object_get(call->params, "mark"));

    pthread_mutex_lock(&rig->lock);
    rig->finished++;
    if (mark && strlen(rig->order) + 1 < sizeof rig->order)
        (void) strncat(rig->order, mark, 1);
    (void) pthread_cond_broadcast(&rig->changed);
    pthread_mutex_unlock(&rig->lock);
}

static void write_params(struct text *result, const struct server_call *call)
{
    AUTO_FREE char *params = json_dumps(call->params, JSON_COMPACT);

    text_append_string(result, params);
}

static void write_peer(struct text *result, const struct server_call *call)
{
    text_append_format(result, "{\"known\":%s,\"uid\":%u,\"gid\":%u,\"pid\":%d}",
                       call->peer.known ? "true" : "false", call->peer.uid, call->peer.gid,
                       (int) call->peer.pid);
}

static void write_blob(struct text *result, const struct server_call *call)
{
    json_int_t size = json_integer_value(json_object_get(call->params, "size"));

    text_append_char(result, '"');
    for (json_int_t i = 0; i < size; i++)
        text_append_char(result, 'x');
    text_append_char(result, '"');
}

static void write_thread(struct text *result, const struct server_call *call)
{
    text_append_format(result, "{\"thread\":%u,\"may_block\":%s}", call->thread,
                       call->may_block ? "true" : "false");
}

static void wait_for_deadline(const struct server_call *call)
{
    while (clock_monotonic_ns() < call->deadline_ns)
        (void) nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
}

static enum status handle(void *context, const struct server_call *call, struct text *result,
                          int *ret_code, struct error *error)
{
    struct rig *rig = context;
    bool is_call = strcmp(call->method, "call") == 0;
    bool waits = is_call || strcmp(call->method, "slow") == 0 ||
                 strcmp(call->method, "hold") == 0 || strcmp(call->method, "deadline") == 0;

    if (waits && !call->may_block)
        return STATUS_WOULD_BLOCK;
    if (is_call)
        volume_stuck_begin("read", -1, "a volume");
    if (is_call || strcmp(call->method, "hold") == 0)
        wait_until_released(rig);
    if (is_call)
        volume_stuck_end();
    if (strcmp(call->method, "deadline") == 0)
        wait_for_deadline(call);
    if (waits || strcmp(call->method, "echo") == 0)
        write_params(result, call);
    if (waits)
        note_finished(rig, call);
    if (waits || strcmp(call->method, "echo") == 0)
        return STATUS_OK;
    if (strcmp(call->method, "peer") == 0) {
        write_peer(result, call);
        return STATUS_OK;
    }
    if (strcmp(call->method, "thread") == 0) {
        write_thread(result, call);
        return STATUS_OK;
    }
    if (strcmp(call->method, "blob") == 0) {
        write_blob(result, call);
        return STATUS_OK;
    }
    if (strcmp(call->method, "missing") == 0)
        return error_set(error, STATUS_NOT_FOUND, "users/u1", "nothing there");
    *ret_code = PROTOCOL_NO_METHOD;
    return error_set(error, STATUS_INVALID, NULL, "no method %s", call->method);
}

static void tick(void *context)
{
    atomic_fetch_add(&((struct rig *) context)->ticks, 1);
}

static void *run_server(void *argument)
{
    struct rig *rig = argument;
    struct error error = {0};

    rig->run_status = server_run(rig->server, &error);
    return NULL;
}

static void rig_prepare(struct rig *rig)
{
    *rig = (struct rig){.directory = "/tmp/memsync-server-XXXXXX"};
    cr_assert(ne(ptr, mkdtemp(rig->directory), NULL));
    (void) snprintf(rig->endpoint, sizeof rig->endpoint, "ipc://%s/s", rig->directory);
    (void) pthread_mutex_init(&rig->lock, NULL);
    (void) pthread_cond_init(&rig->changed, NULL);
    rig->context = zmq_ctx_new();
    rig->options = (struct server_options){
        .endpoint = rig->endpoint,
        .threads = 2,
        .message_bytes_max = LIMIT_BYTES,
        .queue_per_client = 64,
        .queue_total = 4096,
        .timeout_default_ms = PATIENCE_MS,
        .timeout_max_ms = 60000,
        .zmq_context = rig->context,
    };
}

static void rig_start(struct rig *rig)
{
    const struct server_handler handler = {.context = rig, .handle = handle, .tick = tick};
    struct error error = {0};

    cr_assert(eq(int, server_create(&rig->options, &handler, &rig->server, &error), STATUS_OK),
              "%s", error.message);
    cr_assert(zero(int, pthread_create(&rig->thread, NULL, run_server, rig)));
    rig->running = true;
}

static void rig_release(struct rig *rig)
{
    pthread_mutex_lock(&rig->lock);
    rig->released = true;
    (void) pthread_cond_broadcast(&rig->changed);
    pthread_mutex_unlock(&rig->lock);
}

static void rig_join(struct rig *rig)
{
    if (rig->running)
        (void) pthread_join(rig->thread, NULL);
    rig->running = false;
}

static void rig_stop(struct rig *rig)
{
    char command[128];

    rig_release(rig);
    if (rig->server)
        server_stop(rig->server, PATIENCE_MS);
    rig_join(rig);
    server_destroy(&rig->server);
    cr_expect(zero(int, zmq_ctx_term(rig->context)));
    (void) snprintf(command, sizeof command, "rm -rf '%s'", rig->directory);
    cr_expect(zero(int, system(command)));
}

/* Waits on the rig's condition: *value >= wanted. */
static bool rig_wait(struct rig *rig, const unsigned *value, unsigned wanted)
{
    struct timespec until;
    int failed = 0;

    (void) clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_MS / 1000;
    pthread_mutex_lock(&rig->lock);
    while (*value < wanted && !failed)
        failed = pthread_cond_timedwait(&rig->changed, &rig->lock, &until);
    bool reached = *value >= wanted;
    pthread_mutex_unlock(&rig->lock);
    return reached;
}

/* Polls the counters until the one at `offset` is at least (or, with `exact`, just) `wanted`. */
static bool counter_reaches(struct rig *rig, size_t offset, uint64_t wanted, bool exact)
{
    uint64_t deadline = clock_deadline_ms(PATIENCE_MS);

    while (clock_monotonic_ns() < deadline) {
        struct server_counters counters;
        uint64_t value = 0;

        server_counters(rig->server, &counters);
        memcpy(&value, (const char *) &counters + offset, sizeof value);
        if (exact ? value == wanted : value >= wanted)
            return true;
        (void) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return false;
}

#define REACHES(rig, name, wanted)                                                                 \
    counter_reaches((rig), offsetof(struct server_counters, name), (wanted), false)
#define BECOMES(rig, name, wanted)                                                                 \
    counter_reaches((rig), offsetof(struct server_counters, name), (wanted), true)

/* ---- clients ---- */

static void *client_create(struct rig *rig, int type, const char *id)
{
    void *socket = zmq_socket(rig->context, type);
    const int timeout_ms = PATIENCE_MS;
    const int linger_ms = 0;

    cr_assert(ne(ptr, socket, NULL));
    (void) zmq_setsockopt(socket, ZMQ_RCVTIMEO, &timeout_ms, sizeof timeout_ms);
    (void) zmq_setsockopt(socket, ZMQ_SNDTIMEO, &timeout_ms, sizeof timeout_ms);
    (void) zmq_setsockopt(socket, ZMQ_LINGER, &linger_ms, sizeof linger_ms);
    if (id)
        (void) zmq_setsockopt(socket, ZMQ_ROUTING_ID, id, strlen(id));
    cr_assert(zero(int, zmq_connect(socket, rig->endpoint)));
    return socket;
}

static void send_text(void *socket, const char *text)
{
    int sent = zmq_send(socket, text, strlen(text), 0);

    cr_assert(eq(int, sent, (int) strlen(text)), "%s", zmq_strerror(errno));
}

static void send_call(void *socket, int id, const char *method, const char *params)
{
    char text[1024];

    (void) snprintf(text, sizeof text,
                    "{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"%s\",\"params\":%s}", id, method,
                    params);
    send_text(socket, text);
}

/* A call in a frame of exactly `size` bytes, or a little more than the bound of the serving thread
 * when `size` is 0. What fills it comes first, so that the rest is told by the frame's end alone.
 */
static void send_padded(void *socket, size_t size, int id, const char *method, const char *params)
{
    AUTO_TEXT struct text text = {0};
    char end[1024];

    (void) snprintf(end, sizeof end,
                    "]],\"method\":\"%s\",\"params\":%s,\"jsonrpc\":\"2.0\",\"id\":%d}", method,
                    params, id);
    text_append_string(&text, "{\"id\":null,\"x\":[\"}\\\"]\",[");
    for (size_t wanted = size ? size : SERVER_INLINE_BYTES_MAX + 512;
         text.size + strlen(end) < wanted;)
        text_append_char(&text, ' ');
    text_append_string(&text, end);
    send_text(socket, text_string(&text));
}

/* The next reply, or NULL when none came in time. */
static json_t *receive_reply_within(void *socket, int timeout_ms)
{
    zmq_msg_t message;
    json_t *reply = NULL;

    (void) zmq_setsockopt(socket, ZMQ_RCVTIMEO, &timeout_ms, sizeof timeout_ms);
    (void) zmq_msg_init(&message);
    int size = -1;
    do {
        size = zmq_msg_recv(&message, socket, 0);
    } while (size >= 0 && zmq_msg_more(&message));
    if (size >= 0)
        reply = json_loadb(zmq_msg_data(&message), (size_t) size, 0, NULL);
    (void) zmq_msg_close(&message);
    return reply;
}

static json_t *receive_reply(void *socket)
{
    json_t *reply = receive_reply_within(socket, PATIENCE_MS);

    cr_assert(ne(ptr, reply, NULL), "no reply");
    return reply;
}

static int reply_id(const json_t *reply)
{
    return (int) json_integer_value(json_object_get(reply, "id"));
}

/* 0: a result. */
static int reply_code(const json_t *reply)
{
    return (int) json_integer_value(json_object_get(json_object_get(reply, "error"), "code"));
}

/* Reads one reply and checks its id and code. */
#define EXPECT_REPLY(socket, id, code)                                                             \
    do {                                                                                           \
        AUTO_JSON json_t *reply_ = receive_reply(socket);                                          \
        cr_expect(eq(int, reply_id(reply_), (id)));                                                \
        cr_expect(eq(int, reply_code(reply_), (code)));                                            \
    } while (0)

static struct rig rig;

static void start_default(void)
{
    rig_prepare(&rig);
    rig_start(&rig);
}

static void stop_default(void)
{
    rig_stop(&rig);
}

static void prepare_only(void)
{
    rig_prepare(&rig);
}

TestSuite(server, .init = start_default, .fini = stop_default, .timeout = 60);
/* Tests that choose their own options and start the server themselves. */
TestSuite(server_with, .init = prepare_only, .fini = stop_default, .timeout = 60);

/* ---- envelope ---- */

Test(server, req_and_dealer_clients_are_answered)
{
    static const int types[] = {ZMQ_REQ, ZMQ_DEALER};

    for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
        void *client = client_create(&rig, types[i], NULL);

        for (int id = 1; id <= 3; id++) {
            send_call(client, id, "echo", "{\"a\":1}");
            AUTO_JSON json_t *reply = receive_reply(client);
            cr_expect(eq(int, reply_id(reply), id));
            const json_t *result = json_object_get(reply, "result");
            cr_expect(eq(int, (int) json_integer_value(json_object_get(result, "a")), 1));
        }
        (void) zmq_close(client);
    }
}

Test(server, inproc_and_tcp_clients_are_answered_and_unknown)
{
    static const char *const endpoints[] = {"inproc://memsync-test", "tcp://127.0.0.1:*"};

    for (size_t i = 0; i < ARRAY_SIZE(endpoints); i++) {
        struct rig other;
        size_t size = sizeof other.endpoint;

        rig_prepare(&other);
        (void) snprintf(other.endpoint, sizeof other.endpoint, "%s", endpoints[i]);
        rig_start(&other);
        char bound[96];
        size = sizeof bound;
        /* Read before the first request, while the server only waits. */
        cr_assert(zero(int, zmq_getsockopt(other.server->router, ZMQ_LAST_ENDPOINT, bound, &size)));
        (void) snprintf(other.endpoint, sizeof other.endpoint, "%s", bound);
        void *client = client_create(&other, ZMQ_REQ, NULL);
        send_call(client, 1, "peer", "{}");
        AUTO_JSON json_t *reply = receive_reply(client);
        const json_t *known = json_object_get(json_object_get(reply, "result"), "known");
        cr_expect(eq(int, json_typeof(known), JSON_FALSE));
        (void) zmq_close(client);
        rig_stop(&other);
    }
}

Test(server, all_frames_before_the_last_come_back_as_they_were)
{
    static const char *const frames[] = {"one", "", "\x01two", ""};
    void *client = client_create(&rig, ZMQ_DEALER, NULL);
    char buffer[256];

    for (size_t i = 0; i < ARRAY_SIZE(frames); i++)
        (void) zmq_send(client, frames[i], strlen(frames[i]), ZMQ_SNDMORE);
    send_call(client, 9, "slow", "{}");
    for (size_t i = 0; i < ARRAY_SIZE(frames); i++) {
        int size = zmq_recv(client, buffer, sizeof buffer, 0);
        cr_assert(eq(int, size, (int) strlen(frames[i])), "frame %zu", i);
        cr_expect(zero(int, memcmp(buffer, frames[i], (size_t) size)), "frame %zu", i);
    }
    EXPECT_REPLY(client, 9, 0);
    (void) zmq_close(client);
}

Test(server, an_envelope_beyond_the_limits_is_answered_without_it)
{
    static const struct {
        unsigned frames; /* before the last, without the routing id */
        size_t size;
        int code;
    } cases[] = {
        {15, 1, 0},   {16, 1, PROTOCOL_INVALID_REQUEST},   {1000, 1, PROTOCOL_INVALID_REQUEST},
        {1, 4000, 0}, {1, 4097, PROTOCOL_INVALID_REQUEST},
    };
    void *client = client_create(&rig, ZMQ_DEALER, NULL);
    static const char blob[8192];

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        for (unsigned n = 0; n < cases[i].frames; n++)
            (void) zmq_send(client, blob, cases[i].size, ZMQ_SNDMORE);
        send_call(client, 5, "echo", "{}");
        AUTO_JSON json_t *reply = receive_reply(client);
        cr_expect(eq(int, reply_code(reply), cases[i].code), "row %zu", i);
    }
    (void) zmq_close(client);
}

Test(server, what_is_no_request_is_answered_and_counted)
{
    static const struct {
        const char *text;
        int code;
    } cases[] = {
        {"", PROTOCOL_PARSE_ERROR},
        {"nonsense", PROTOCOL_PARSE_ERROR},
        {"\xff\xfe", PROTOCOL_PARSE_ERROR},
        {"[]", PROTOCOL_INVALID_REQUEST},
        {"{}", PROTOCOL_INVALID_REQUEST},
        {"{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"echo\",\"params\":[]}",
         PROTOCOL_INVALID_PARAMS},
        {"{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"nope\"}", PROTOCOL_NO_METHOD},
        {"{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"missing\"}", -32001},
    };
    void *clients[] = {client_create(&rig, ZMQ_DEALER, NULL), client_create(&rig, ZMQ_REQ, NULL)};
    struct server_counters counters;

    for (size_t c = 0; c < ARRAY_SIZE(clients); c++) {
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
            send_text(clients[c], cases[i].text);
            AUTO_JSON json_t *reply = receive_reply(clients[c]);
            cr_expect(eq(int, reply_code(reply), cases[i].code), "row %zu", i);
        }
        (void) zmq_close(clients[c]);
    }
    server_counters(rig.server, &counters);
    cr_expect(eq(u64, counters.malformed, 10));
    cr_expect(eq(u64, counters.errors, 16));
    cr_expect(eq(u64, counters.requests, 16));
}

Test(server, error_data_names_the_scope_of_the_request)
{
    void *client = client_create(&rig, ZMQ_DEALER, NULL);

    send_call(client, 1, "missing", "{\"user_id\":\"u1\",\"agent_name\":\"coder\"}");
    AUTO_JSON json_t *reply = receive_reply(client);
    const json_t *data = json_object_get(json_object_get(reply, "error"), "data");
    cr_expect(eq(str, STR(json_string_value(json_object_get(data, "kind"))), STR("not_found")));
    cr_expect(eq(str, STR(json_string_value(json_object_get(data, "user_id"))), STR("u1")));
    cr_expect(eq(str, STR(json_string_value(json_object_get(data, "agent_name"))), STR("coder")));
    cr_expect(eq(str, STR(json_string_value(json_object_get(data, "path"))), STR("users/u1")));
    (void) zmq_close(client);
}

Test(server, error_data_never_names_another_scope_than_the_request)
{
    void *client = client_create(&rig, ZMQ_DEALER, NULL);

    send_call(client, 1, "missing", "{\"user_id\":\"u1\\u0000b\",\"agent_name\":\"c\\u0000\"}");
    AUTO_JSON json_t *reply = receive_reply(client);
    const json_t *data = json_object_get(json_object_get(reply, "error"), "data");
    cr_expect(eq(int, json_is_null(json_object_get(data, "user_id")), true));
    cr_expect(eq(int, json_is_null(json_object_get(data, "agent_name")), true));
    (void) zmq_close(client);
}

Test(server, messages_up_to_the_limit_work_and_larger_ones_are_told_or_dropped)
{
    static const struct {
        size_t size;
        int code; /* 1: the connection is dropped */
    } cases[] = {
        {LIMIT_BYTES, 0},
        {LIMIT_BYTES + 1, -32010},
        {2 * LIMIT_BYTES, -32010},
        {2 * LIMIT_BYTES + 1, 1},
    };
    void *bystander = client_create(&rig, ZMQ_REQ, NULL);

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        void *client = client_create(&rig, ZMQ_DEALER, NULL);
        AUTO_TEXT struct text text = {0};

        text_append_string(&text, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"peer\"}");
        while (text.size < cases[i].size)
            text_append_char(&text, ' ');
        send_text(client, text_string(&text));
        if (cases[i].code == 1) {
            cr_expect(REACHES(&rig, disconnects, i + 1));
        } else {
            AUTO_JSON json_t *reply = receive_reply(client);
            cr_expect(eq(int, reply_code(reply), cases[i].code), "row %zu", i);
        }
        (void) zmq_close(client);
        send_call(bystander, (int) i, "echo", "{}");
        EXPECT_REPLY(bystander, (int) i, 0);
    }
    (void) zmq_close(bystander);
}

/* ---- large frames ---- */

Test(server, a_large_frame_does_not_run_on_the_serving_thread)
{
    static const struct {
        size_t size;
        bool is_inline;
    } cases[] = {
        {SERVER_INLINE_BYTES_MAX - 1, true},
        {SERVER_INLINE_BYTES_MAX, true},
        {SERVER_INLINE_BYTES_MAX + 1, false},
        {LIMIT_BYTES, false},
    };
    void *client = client_create(&rig, ZMQ_DEALER, NULL);

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        send_padded(client, cases[i].size, (int) i, "thread", "{}");
        AUTO_JSON json_t *reply = receive_reply(client);
        const json_t *result = json_object_get(reply, "result");
        cr_expect(eq(int, reply_id(reply), (int) i));
        cr_expect(eq(int, json_integer_value(json_object_get(result, "thread")) == 0,
                     cases[i].is_inline),
                  "row %zu", i);
        cr_expect(eq(int, json_is_true(json_object_get(result, "may_block")), !cases[i].is_inline),
                  "row %zu", i);
    }
    (void) zmq_close(client);
}

Test(server_with, a_large_frame_waits_for_a_thread_and_delays_no_small_one)
{
    rig.options.threads = 1;
    rig_start(&rig);
    void *client = client_create(&rig, ZMQ_DEALER, NULL);
    void *other = client_create(&rig, ZMQ_DEALER, NULL);

    send_call(other, 1, "hold", "{}");
    cr_assert(rig_wait(&rig, &rig.holding, 1));
    send_padded(client, LIMIT_BYTES, 1, "echo", "{}");
    cr_assert(REACHES(&rig, waiting, 1));
    for (int id = 2; id <= 10; id++) {
        send_call(client, id, "echo", "{}");
        EXPECT_REPLY(client, id, 0);
        send_call(other, id, "thread", "{}");
        EXPECT_REPLY(other, id, 0);
    }
    cr_expect(BECOMES(&rig, waiting, 1));
    rig_release(&rig);
    EXPECT_REPLY(client, 1, 0);
    EXPECT_REPLY(other, 1, 0);
    (void) zmq_close(client);
    (void) zmq_close(other);
}

Test(server, what_is_wrong_with_a_large_frame_is_told_as_with_a_small_one)
{
    static const struct {
        const char *params;
        int code;
        int id; /* 0: null */
    } cases[] = {
        {"{}}", PROTOCOL_PARSE_ERROR, 0},
        {"{\"a\":[}", PROTOCOL_PARSE_ERROR, 0},
        {"{\"a\":\"}", PROTOCOL_PARSE_ERROR, 0},
        {"[]", PROTOCOL_INVALID_PARAMS, 5},
        {"null", PROTOCOL_INVALID_PARAMS, 5},
        {"{\"timeout_ms\":\"5\"}", PROTOCOL_INVALID_PARAMS, 5},
        {"{},\"id\":1.5", 0, 5},
        {"{},\"method\":7", PROTOCOL_INVALID_REQUEST, 5},
        {"{},\"method\":\"nope\"", PROTOCOL_NO_METHOD, 5},
    };
    void *client = client_create(&rig, ZMQ_DEALER, NULL);
    struct server_counters counters;

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        send_padded(client, 0, 5, "echo", cases[i].params);
        AUTO_JSON json_t *reply = receive_reply(client);
        cr_expect(eq(int, reply_code(reply), cases[i].code), "row %zu", i);
        cr_expect(eq(int, reply_id(reply), cases[i].id), "row %zu", i);
    }
    server_counters(rig.server, &counters);
    cr_expect(eq(u64, counters.malformed, 4));
    cr_expect(eq(u64, counters.errors, ARRAY_SIZE(cases) - 1));
    (void) zmq_close(client);
}

Test(server_with, a_large_frame_that_waits_keeps_its_own_deadline_and_id)
{
    rig.options.threads = 1;
    rig.options.timeout_default_ms = 100;
    rig_start(&rig);
    void *client = client_create(&rig, ZMQ_DEALER, NULL);

    send_call(client, 1, "hold", "{\"timeout_ms\":60000}");
    cr_assert(rig_wait(&rig, &rig.holding, 1));
    send_padded(client, 0, 2, "echo", "{\"timeout_ms\":60000}");
    send_padded(client, 0, 3, "echo", "{}");
    EXPECT_REPLY(client, 3, -32004);
    send_padded(client, 0, 4, "echo", "{\"user_id\":\"u1\",\"timeout_ms\":1}");
    AUTO_JSON json_t *reply = receive_reply(client);
    const json_t *data = json_object_get(json_object_get(reply, "error"), "data");
    cr_expect(eq(int, reply_id(reply), 4));
    cr_expect(eq(int, reply_code(reply), -32004));
    cr_expect(eq(str, STR(json_string_value(json_object_get(data, "user_id"))), STR("u1")));
    rig_release(&rig);
    EXPECT_REPLY(client, 1, 0);
    EXPECT_REPLY(client, 2, 0);
    (void) zmq_close(client);
}

Test(server, a_stop_refuses_large_frames_by_their_id)
{
    void *client = client_create(&rig, ZMQ_DEALER, NULL);

    send_call(client, 1, "hold", "{}");
    cr_assert(rig_wait(&rig, &rig.holding, 1));
    send_padded(client, 0, 2, "echo", "{}");
    cr_assert(REACHES(&rig, waiting, 1));
    server_stop(rig.server, PATIENCE_MS);
    send_padded(client, 0, 3, "echo", "{}");
    EXPECT_REPLY(client, 3, -32007);
    rig_release(&rig);
    EXPECT_REPLY(client, 1, 0);
    EXPECT_REPLY(client, 2, 0);
    (void) zmq_close(client);
}

Test(server_skim, finds_the_id_and_the_timeout_as_a_reader_would)
{
    static const struct {
        const char *text;
        const char *id;
        int timeout; /* 0: none */
    } cases[] = {
        {"{\"id\":7,\"params\":{\"timeout_ms\":9}}", "7", 9},
        {" {\t\"params\" : { \"timeout_ms\" :\r\n9 } , \"id\" : \"a\\u0041\\\"\" } ", "\"aA\\\"\"",
         9},
        {"{\"id\":1,\"id\":2}", "2", 0},
        {"{\"id\":123456789012345678901234567890}", "123456789012345678901234567890", 0},
        {"{\"params\":{\"timeout_ms\":9},\"params\":{\"timeout_ms\":8},\"id\":1}", "1", 8},
        {"{\"params\":{\"timeout_ms\":9},\"params\":{},\"id\":1}", "1", 0},
        {"{\"params\":{\"timeout_ms\":9},\"params\":[9],\"id\":1}", "1", 0},
        {"{\"params\":{\"a\":{\"timeout_ms\":9},\"id\":5}}", "null", 0},
        {"{\"timeout_ms\":9,\"x\":{\"id\":5},\"y\":[\"}\\\\\",{}],\"id\":1}", "1", 0},
        {"{\"x\":NaN,\"y\":-1.5e3,\"z\":null,\"id\":1}", "1", 0},
        {"{\"id\":1.5,\"params\":{\"timeout_ms\":9}}", "null", 0},
        {"{\"id\":1", "null", 0},
        {"{\"id\":1,\"x\":[", "null", 0},
        {"{\"id\":1,\"x\":\"\\", "null", 0},
        {"{\"id\":1]}", "null", 0},
        {"{\"id\":[}}", "null", 0},
        {"{\"id\"}", "null", 0},
        {"{\"id\":}", "null", 0},
        {"{", "null", 0},
        {"{}", "null", 0},
        {"[{\"id\":1}]", "null", 0},
        {"", "null", 0},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        size_t size = strlen(cases[i].text);
        AUTO_FREE char *exact = malloc(size + (size == 0)); /* no NUL behind it */
        struct request request = {0};

        memcpy(exact, cases[i].text, size);
        skim_request(exact, size, &request);
        cr_expect(eq(str, request.id, STR(cases[i].id)), "row %zu", i);
        const json_t *timeout = json_object_get(request.params, "timeout_ms");
        cr_expect(eq(int, (int) json_integer_value(timeout), cases[i].timeout), "row %zu", i);
        request_clear(&request);
    }
}

Test(server_skim, a_value_that_is_too_long_is_left_out)
{
    AUTO_TEXT struct text text = {0};
    struct request request = {0};

    text_append_string(&text, "{\"params\":{\"user_id\":\"");
    for (int i = 0; i < 100000; i++)
        text_append_char(&text, 'u');
    text_append_string(&text, "\",\"agent_name\":\"a\"},\"id\":1}");
    skim_request(text_string(&text), text.size, &request);
    cr_expect(eq(str, request.id, STR("1")));
    cr_expect(eq(ptr, json_object_get(request.params, "user_id"), NULL));
    cr_expect(ne(ptr, json_object_get(request.params, "agent_name"), NULL));
    request_clear(&request);
}

/* ---- limits and fairness ---- */

Test(server_with, a_client_beyond_its_queue_is_told_busy_at_once)
{
    rig.options.threads = 1;
    rig.options.queue_per_client = 4;
    rig_start(&rig);
    void *greedy = client_create(&rig, ZMQ_DEALER, NULL);
    void *other = client_create(&rig, ZMQ_DEALER, NULL);

    send_call(greedy, 0, "hold", "{}");
    cr_assert(rig_wait(&rig, &rig.holding, 1));
    for (int id = 1; id <= 10; id++)
        send_call(greedy, id, "slow", "{}");
    for (int id = 5; id <= 10; id++)
        EXPECT_REPLY(greedy, id, -32009);
    send_call(greedy, 20, "echo", "{}");
    EXPECT_REPLY(greedy, 20, 0); /* what needs no queue goes on */
    send_call(other, 1, "slow", "{}");
    rig_release(&rig);
    EXPECT_REPLY(other, 1, 0);
    for (int id = 0; id <= 4; id++)
        EXPECT_REPLY(greedy, id, 0);
    cr_expect(BECOMES(&rig, clients, 0), "idle clients are forgotten");
    (void) zmq_close(greedy);
    (void) zmq_close(other);
}

Test(server_with, the_total_of_waiting_requests_is_bounded)
{
    rig.options.threads = 1;
    rig.options.queue_total = 3;
    rig_start(&rig);
    void *client = client_create(&rig, ZMQ_DEALER, NULL);
    void *other = client_create(&rig, ZMQ_DEALER, NULL);

    send_call(client, 0, "hold", "{}");
    cr_assert(rig_wait(&rig, &rig.holding, 1));
    for (int id = 1; id <= 3; id++)
        send_call(client, id, "slow", "{}");
    cr_assert(REACHES(&rig, waiting, 3));
    send_call(other, 9, "slow", "{}");
    EXPECT_REPLY(other, 9, -32009);
    rig_release(&rig);
    for (int id = 0; id <= 3; id++)
        EXPECT_REPLY(client, id, 0);
    (void) zmq_close(client);
    (void) zmq_close(other);
}

Test(server_with, the_bytes_that_wait_are_bounded)
{
    AUTO_TEXT struct text text = {0};

    rig.options.threads = 1;
    rig_start(&rig);
    void *client = client_create(&rig, ZMQ_DEALER, NULL);
    send_call(client, 0, "hold", "{}");
    cr_assert(rig_wait(&rig, &rig.holding, 1));

    text_append_string(&text, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"slow\"}");
    while (text.size < LIMIT_BYTES)
        text_append_char(&text, ' ');
    for (int i = 0; i < 5; i++)
        send_text(client, text_string(&text));
    EXPECT_REPLY(client, 1, -32009);
    rig_release(&rig);
    EXPECT_REPLY(client, 0, 0);
    for (int i = 0; i < 4; i++)
        EXPECT_REPLY(client, 1, 0);
    (void) zmq_close(client);
}

Test(server_with, one_request_is_not_behind_the_thousand_of_another_client)
{
    rig.options.threads = 1;
    rig.options.queue_per_client = 1000;
    rig_start(&rig);
    void *flood = client_create(&rig, ZMQ_DEALER, NULL);
    void *single = client_create(&rig, ZMQ_DEALER, NULL);

    send_call(flood, 0, "hold", "{}");
    cr_assert(rig_wait(&rig, &rig.holding, 1));
    for (int id = 1; id <= 1000; id++)
        send_call(flood, id, "slow", "{\"mark\":\"f\"}");
    cr_assert(REACHES(&rig, waiting, 1000));
    send_call(single, 1, "slow", "{\"mark\":\"s\"}");
    cr_assert(REACHES(&rig, waiting, 1001));
    rig_release(&rig);
    EXPECT_REPLY(single, 1, 0);
    for (int id = 0; id <= 1000; id++)
        EXPECT_REPLY(flood, id, 0);
    cr_expect(le(sz, strcspn(rig.order, "s"), 2), "%.20s", rig.order);
    (void) zmq_close(flood);
    (void) zmq_close(single);
}

Test(server, one_client_never_holds_all_threads)
{
    void *greedy = client_create(&rig, ZMQ_DEALER, NULL);
    void *other = client_create(&rig, ZMQ_DEALER, NULL);

    send_call(greedy, 1, "hold", "{}");
    send_call(greedy, 2, "hold", "{}");
    cr_assert(rig_wait(&rig, &rig.holding, 1));
    cr_assert(REACHES(&rig, waiting, 1));
    send_call(other, 1, "slow", "{}");
    EXPECT_REPLY(other, 1, 0);
    cr_expect(eq(uint, rig.holding, 1));
    rig_release(&rig);
    EXPECT_REPLY(greedy, 1, 0);
    EXPECT_REPLY(greedy, 2, 0);
    (void) zmq_close(greedy);
    (void) zmq_close(other);
}

Test(server, a_client_that_does_not_read_delays_nobody)
{
    void *deaf = zmq_socket(rig.context, ZMQ_DEALER);
    void *other = client_create(&rig, ZMQ_REQ, NULL);
    const int one = 1;
    const int linger_ms = 0;

    (void) zmq_setsockopt(deaf, ZMQ_RCVHWM, &one, sizeof one);
    (void) zmq_setsockopt(deaf, ZMQ_LINGER, &linger_ms, sizeof linger_ms);
    cr_assert(zero(int, zmq_connect(deaf, rig.endpoint)));
    for (int id = 0; id < 3000; id++)
        send_call(deaf, id, "blob", "{\"size\":4096}");
    cr_expect(REACHES(&rig, undelivered, 1));
    for (int id = 0; id < 10; id++) {
        send_call(other, id, "slow", "{}");
        EXPECT_REPLY(other, id, 0);
    }
    (void) zmq_close(deaf);
    (void) zmq_close(other);
}

Test(server, eight_clients_at_once_get_their_own_answers)
{
    void *clients[8];

    for (size_t c = 0; c < ARRAY_SIZE(clients); c++)
        clients[c] = client_create(&rig, ZMQ_DEALER, NULL);
    for (int round = 0; round < 50; round++) {
        for (size_t c = 0; c < ARRAY_SIZE(clients); c++) {
            char params[32];
            (void) snprintf(params, sizeof params, "{\"c\":%zu}", c);
            send_call(clients[c], round, round % 2 ? "slow" : "echo", params);
        }
        for (size_t c = 0; c < ARRAY_SIZE(clients); c++) {
            AUTO_JSON json_t *reply = receive_reply(clients[c]);
            const json_t *result = json_object_get(reply, "result");
            cr_assert(eq(int, reply_id(reply), round));
            cr_assert(eq(sz, (size_t) json_integer_value(json_object_get(result, "c")), c));
        }
    }
    for (size_t c = 0; c < ARRAY_SIZE(clients); c++)
        (void) zmq_close(clients[c]);
    cr_expect(BECOMES(&rig, connections, 0));
}

/* ---- deadlines ---- */

Test(server, timeout_ms_is_clamped_and_must_be_an_integer)
{
    static const struct {
        const char *params;
        int code;
    } cases[] = {
        {"{\"timeout_ms\":null}", 0},
        {"{\"timeout_ms\":1000000000000}", 0},
        {"{\"timeout_ms\":99999999999999999999999999}", 0},
        {"{\"timeout_ms\":\"5\"}", PROTOCOL_INVALID_PARAMS},
        {"{\"timeout_ms\":5.0}", PROTOCOL_INVALID_PARAMS},
        {"{\"timeout_ms\":true}", PROTOCOL_INVALID_PARAMS},
        {"{\"timeout_ms\":[5]}", PROTOCOL_INVALID_PARAMS},
        {"{\"timeout_ms\":{}}", PROTOCOL_INVALID_PARAMS},
    };
    void *client = client_create(&rig, ZMQ_DEALER, NULL);

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        send_call(client, (int) i, "slow", cases[i].params);
        AUTO_JSON json_t *reply = receive_reply(client);
        cr_expect(eq(int, reply_code(reply), cases[i].code), "row %zu", i);
    }
    (void) zmq_close(client);
}

static unsigned threads_alive(void)
{
    pthread_mutex_lock(&rig.server->queue.lock);
    unsigned alive = rig.server->queue.threads_alive;
    pthread_mutex_unlock(&rig.server->queue.lock);
    return alive;
}

static bool threads_come_down_to(unsigned wanted)
{
    for (int i = 0; i < 5000 && threads_alive() != wanted; i++)
        (void) usleep(1000);
    return threads_alive() == wanted;
}

Test(server, the_server_answers_at_the_deadline_while_the_handler_hangs)
{
    void *client = client_create(&rig, ZMQ_DEALER, NULL);
    struct server_counters counters;

    send_call(client, 1, "hold", "{\"timeout_ms\":60}");
    cr_assert(rig_wait(&rig, &rig.holding, 1));
    EXPECT_REPLY(client, 1, -32004);
    server_counters(rig.server, &counters);
    cr_expect(eq(u64, counters.threads_busy, 1));
    cr_expect(ge(u64, counters.oldest_running_ms, 50));
    cr_expect(eq(u64, counters.clients, 0), "it waits for nothing any more");

    rig_release(&rig);
    cr_expect(REACHES(&rig, late_replies, 1));
    send_call(client, 2, "slow", "{}");
    EXPECT_REPLY(client, 2, 0); /* and not the late answer to 1 */
    server_counters(rig.server, &counters);
    cr_expect(eq(u64, counters.timeouts, 1));
    (void) zmq_close(client);
}

/* Twice as many as there are threads. */
Test(server, threads_that_hang_are_replaced_until_they_are_back)
{
    void *client = client_create(&rig, ZMQ_DEALER, NULL);
    void *other = client_create(&rig, ZMQ_DEALER, NULL);
    const int hanging = 2 * (int) rig.options.threads;

    for (int i = 1; i <= hanging; i++) {
        send_call(client, i, "hold", "{\"timeout_ms\":30}");
        cr_assert(rig_wait(&rig, &rig.holding, (unsigned) i), "hold %d", i);
        EXPECT_REPLY(client, i, -32004);
        send_call(client, 100 + i, "slow", "{}");
        EXPECT_REPLY(client, 100 + i, 0);
        send_call(other, i, "slow", "{}");
        EXPECT_REPLY(other, i, 0);
    }
    rig_release(&rig);
    cr_expect(REACHES(&rig, late_replies, (uint64_t) hanging));
    cr_expect(threads_come_down_to(rig.options.threads));
    (void) zmq_close(client);
    (void) zmq_close(other);
}

/* With all the time in the world: it is the call that counts, not the deadline. Its client may have
 * others run as well. */
Test(server, threads_in_a_call_that_hangs_are_replaced_before_their_deadline)
{
    void *client = client_create(&rig, ZMQ_DEALER, NULL);
    void *other = client_create(&rig, ZMQ_DEALER, NULL);
    const int hanging = 2 * (int) rig.options.threads;

    for (int i = 1; i <= hanging; i++) {
        send_call(client, i, "call", "{\"timeout_ms\":600000}");
        cr_assert(rig_wait(&rig, &rig.holding, (unsigned) i), "call %d", i);
        clock_advance_for_test(VOLUME_STUCK_NS);
    }
    send_call(client, 100, "slow", "{}");
    EXPECT_REPLY(client, 100, 0);
    send_call(other, 1, "slow", "{}");
    EXPECT_REPLY(other, 1, 0);
    rig_release(&rig);
    for (int i = 1; i <= hanging; i++) {
        AUTO_JSON json_t *reply = receive_reply(client);
        cr_expect(eq(int, reply_code(reply), 0));
    }
    cr_expect(threads_come_down_to(rig.options.threads));
    (void) zmq_close(client);
    (void) zmq_close(other);
}

/* Beyond the spare ones the rest is used up: then it is said at the deadline, as always. */
Test(server, no_more_threads_are_started_than_there_are_spare_ones)
{
    void *client = client_create(&rig, ZMQ_DEALER, NULL);
    const int all = (int) rig.options.threads + SERVER_THREADS_SPARE;

    for (int i = 1; i <= all; i++) {
        send_call(client, i, "hold", "{\"timeout_ms\":30}");
        cr_assert(rig_wait(&rig, &rig.holding, (unsigned) i), "hold %d", i);
        EXPECT_REPLY(client, i, -32004);
    }
    send_call(client, 100, "slow", "{\"timeout_ms\":30}");
    EXPECT_REPLY(client, 100, -32004);
    rig_release(&rig);
    cr_expect(REACHES(&rig, late_replies, (uint64_t) all));
    send_call(client, 101, "slow", "{}");
    EXPECT_REPLY(client, 101, 0);
    cr_expect(threads_come_down_to(rig.options.threads));
    (void) zmq_close(client);
}

Test(server, a_handler_that_keeps_its_deadline_answers_before_the_server_does)
{
    void *client = client_create(&rig, ZMQ_DEALER, NULL);

    for (int id = 0; id < 3; id++) {
        send_call(client, id, "deadline", "{\"timeout_ms\":400}");
        EXPECT_REPLY(client, id, 0);
    }
    (void) zmq_close(client);
}

/* ---- identities ---- */

Test(server, a_client_that_comes_back_gets_nothing_its_predecessor_asked_for)
{
    static const bool closes_first[] = {true, false};

    for (size_t i = 0; i < ARRAY_SIZE(closes_first); i++) {
        struct server_counters before;

        rig.released = false;
        server_counters(rig.server, &before);
        void *first = client_create(&rig, ZMQ_DEALER, "w1");
        send_call(first, 1, "hold", "{}");
        cr_assert(rig_wait(&rig, &rig.holding, 1));
        send_call(first, 2, "slow", "{}");
        cr_assert(REACHES(&rig, waiting, 1));
        if (closes_first[i])
            (void) zmq_close(first);

        void *second = client_create(&rig, ZMQ_DEALER, "w1");
        send_call(second, 3, "echo", "{}");
        EXPECT_REPLY(second, 3, 0);
        rig_release(&rig);
        cr_expect(REACHES(&rig, late_replies, before.late_replies + 1));
        send_call(second, 4, "slow", "{}");
        EXPECT_REPLY(second, 4, 0);
        cr_expect(eq(ptr, receive_reply_within(second, 50), NULL));
        cr_expect(BECOMES(&rig, waiting, 0));
        (void) zmq_close(second);
        if (!closes_first[i])
            (void) zmq_close(first);
    }
}

Test(server, the_kernel_tells_who_an_ipc_client_is)
{
    void *client = client_create(&rig, ZMQ_DEALER, NULL);

    send_call(client, 1, "peer", "{}");
    AUTO_JSON json_t *reply = receive_reply(client);
    const json_t *peer = json_object_get(reply, "result");
    cr_expect(eq(int, json_typeof(json_object_get(peer, "known")), JSON_TRUE));
    cr_expect(eq(uint, (unsigned) json_integer_value(json_object_get(peer, "uid")), getuid()));
    cr_expect(eq(uint, (unsigned) json_integer_value(json_object_get(peer, "gid")), getgid()));
    cr_expect(eq(int, (int) json_integer_value(json_object_get(peer, "pid")), getpid()));
    (void) zmq_close(client);
}

Test(server_peer, only_the_exact_form_is_believed)
{
    static const struct {
        const char *text;
        bool known;
    } cases[] = {
        {"localhost:0:0:1", true},
        {"localhost:1000:100:4194304", true},
        {"localhost:4294967295:4294967295:2147483647", true},
        {"localhost:4294967296:0:1", false},
        {"localhost:0:0:2147483648", false},
        {"localhost:-1:0:1", false},
        {"localhost:+1:0:1", false},
        {"localhost: 1:0:1", false},
        {"localhost:1:0:1 ", false},
        {"localhost:1:0:1:2", false},
        {"localhost:1:0:", false},
        {"localhost:1:0", false},
        {"localhost:", false},
        {"localhost", false},
        {"127.0.0.1", false},
        {"host:1:0:1", false},
        {"", false},
        {NULL, false},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct server_peer peer = frames_parse_peer(cases[i].text);
        cr_expect(eq(int, peer.known, cases[i].known), "row %zu", i);
    }
    struct server_peer peer = frames_parse_peer("localhost:12:34:56");
    cr_expect(peer.uid == 12 && peer.gid == 34 && peer.pid == 56);
}

/* ---- raw connections ---- */

static int connect_raw(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const struct timeval patience = {.tv_sec = PATIENCE_MS / 1000};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void) snprintf(address.sun_path, sizeof address.sun_path, "%s/s", rig.directory);
    cr_assert(zero(int, connect(fd, (struct sockaddr *) &address, sizeof address)));
    (void) setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    (void) setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    return fd;
}

static bool write_raw(int fd, const void *bytes, size_t size)
{
    return send(fd, bytes, size, MSG_NOSIGNAL) == (ssize_t) size;
}

static void read_raw(int fd, size_t size)
{
    char bytes[256];

    while (size > 0) {
        ssize_t got = read(fd, bytes, size < sizeof bytes ? size : sizeof bytes);
        cr_assert(gt(long, (long) got, 0));
        size -= (size_t) got;
    }
}

/* The greeting of ZMTP 3.0 and a READY command, with one more property. */
static void shake_hands(int fd, const char *property, const char *value)
{
    unsigned char greeting[64] = {0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0x7f, 3, 0, 'N', 'U', 'L', 'L'};
    unsigned char ready[200] = {0x04, 0};
    static const char socket_type[] = "\x05READY\x0bSocket-Type\0\0\0\x06"
                                      "DEALER";
    size_t size = 2 + sizeof socket_type - 1;

    memcpy(ready + 2, socket_type, sizeof socket_type - 1);
    if (property) {
        ready[size++] = (unsigned char) strlen(property);
        memcpy(ready + size, property, strlen(property));
        size += strlen(property) + 3;
        ready[size++] = (unsigned char) strlen(value);
        memcpy(ready + size, value, strlen(value));
        size += strlen(value);
    }
    ready[1] = (unsigned char) (size - 2);
    cr_assert(write_raw(fd, greeting, sizeof greeting));
    read_raw(fd, 64);
    cr_assert(write_raw(fd, ready, size));
    unsigned char head[2];
    cr_assert(eq(long, (long) recv(fd, head, 2, MSG_WAITALL), 2));
    read_raw(fd, head[1]);
}

/* True when the server closed the connection. */
static bool was_closed(int fd)
{
    char byte;
    ssize_t got = 1;

    while (got > 0)
        got = read(fd, &byte, 1);
    return got == 0 || errno == ECONNRESET;
}

static void expect_service(void)
{
    void *client = client_create(&rig, ZMQ_REQ, NULL);

    send_call(client, 1, "slow", "{}");
    EXPECT_REPLY(client, 1, 0);
    (void) zmq_close(client);
}

Test(server, a_frame_that_announces_2_to_the_63_bytes_ends_its_connection)
{
    static const unsigned char announcement[] = {0x02, 0x80, 0, 0, 0, 0, 0, 0, 0, '{'};
    int fd = connect_raw();

    shake_hands(fd, NULL, NULL);
    long before = memory_resident_kib();
    cr_expect(write_raw(fd, announcement, sizeof announcement));
    cr_expect(was_closed(fd));
    cr_expect(REACHES(&rig, disconnects, 1));
    cr_expect(lt(long, memory_resident_kib() - before, 16384));
    (void) close(fd);
    expect_service();
}

Test(server, garbage_instead_of_a_greeting_harms_nobody)
{
    static const char *const garbage[] = {
        "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f\xff\xff\xff\xff\xff\xff\xff\xff",
        "\x01",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"echo\"}",
    };

    for (size_t i = 0; i < ARRAY_SIZE(garbage); i++) {
        int fd = connect_raw();
        cr_expect(write_raw(fd, garbage[i], strlen(garbage[i])), "row %zu", i);
        expect_service();
        (void) close(fd);
    }
    cr_expect(BECOMES(&rig, connections, 0));
}

Test(server, a_client_cannot_claim_to_be_somebody_else)
{
    static const char call[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"peer\"}";
    unsigned char frame[2 + sizeof call] = {0, (unsigned char) strlen(call)};
    char reply[256] = "";
    char expected[64];
    int fd = connect_raw();

    shake_hands(fd, "Peer-Address", "localhost:7:7:7");
    memcpy(frame + 2, call, strlen(call));
    cr_assert(write_raw(fd, frame, 2 + strlen(call)));
    ssize_t got = read(fd, reply, sizeof reply - 1);
    cr_assert(gt(long, (long) got, 2));
    (void) snprintf(expected, sizeof expected, "\"pid\":%d", (int) getpid());
    cr_expect(ne(ptr, strstr(reply + 2, expected), NULL), "%s", reply + 2);
    (void) close(fd);
}

/* libzmq 4.3.4 keeps the frames of a message until its last one is there, and bounds only each of
 * them. This shows that limit of ours: nothing is refused, however much arrives. */
Test(server, an_unfinished_message_is_not_bounded)
{
    static unsigned char frame[9 + LIMIT_BYTES] = {0x03};
    struct server_counters counters;
    int fd = connect_raw();

    shake_hands(fd, NULL, NULL);
    for (int i = 0; i < 8; i++)
        frame[1 + i] = (unsigned char) ((uint64_t) LIMIT_BYTES >> (8 * (7 - i)));
    for (int i = 0; i < 64; i++)
        cr_assert(write_raw(fd, frame, sizeof frame));
    server_counters(rig.server, &counters);
    cr_expect(eq(u64, counters.disconnects, 0));
    cr_expect(eq(u64, counters.requests, 0));
    expect_service();
    (void) close(fd);
    cr_expect(BECOMES(&rig, connections, 0));
    server_counters(rig.server, &counters);
    cr_expect(eq(u64, counters.requests, 1), "only the bystander's");
}

/* ---- life ---- */

static void ignore_signal(int number UNUSED)
{
}

Test(server, signals_interrupt_nothing)
{
    struct sigaction action = {.sa_handler = ignore_signal}; /* no SA_RESTART */
    static const int numbers[] = {SIGCHLD, SIGUSR1, SIGWINCH};
    void *client = client_create(&rig, ZMQ_DEALER, NULL);
    sigset_t mine;

    (void) sigemptyset(&mine);
    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
        cr_assert(zero(int, sigaction(numbers[i], &action, NULL)));
        (void) sigaddset(&mine, numbers[i]);
    }
    (void) pthread_sigmask(SIG_BLOCK, &mine, NULL);
    expect_service(); /* the threads run */
    for (int id = 0; id < 1000; id++) {
        send_call(client, id, id % 2 ? "slow" : "echo", "{}");
        for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
            (void) pthread_kill(rig.thread, numbers[i]);
            for (unsigned t = 0; t < rig.options.threads; t++)
                (void) pthread_kill(rig.server->workers[t].thread, numbers[i]);
        }
        EXPECT_REPLY(client, id, 0);
    }
    (void) zmq_close(client);
}

Test(server, the_tick_comes_while_nothing_happens)
{
    unsigned before = atomic_load(&rig.ticks);
    uint64_t deadline = clock_deadline_ms(PATIENCE_MS);
    uint64_t start = clock_monotonic_ns();

    while (atomic_load(&rig.ticks) < before + 3 && clock_monotonic_ns() < deadline)
        (void) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    cr_expect(lt(u64, clock_monotonic_ns() - start, 3 * NS_PER_SECOND));
}

Test(server, a_stop_answers_what_runs_and_refuses_what_comes)
{
    void *client = client_create(&rig, ZMQ_DEALER, NULL);

    send_call(client, 1, "hold", "{}");
    cr_assert(rig_wait(&rig, &rig.holding, 1));
    send_call(client, 2, "slow", "{}");
    cr_assert(REACHES(&rig, waiting, 1));
    server_stop(rig.server, PATIENCE_MS);
    send_call(client, 3, "echo", "{}");
    EXPECT_REPLY(client, 3, -32007);
    rig_release(&rig);
    EXPECT_REPLY(client, 1, 0);
    EXPECT_REPLY(client, 2, 0);
    rig_join(&rig);
    cr_expect(eq(int, rig.run_status, STATUS_OK));
    (void) zmq_close(client);
}

Test(server, a_stop_does_not_wait_for_a_thread_that_hangs)
{
    void *client = client_create(&rig, ZMQ_DEALER, NULL);

    send_call(client, 1, "hold", "{}");
    cr_assert(rig_wait(&rig, &rig.holding, 1));
    send_call(client, 2, "slow", "{}");
    cr_assert(REACHES(&rig, waiting, 1));
    server_stop(rig.server, 50);
    rig_join(&rig);
    cr_expect(eq(int, rig.run_status, STATUS_TIMEOUT));
    server_destroy(&rig.server);
    for (int i = 0; i < 2; i++) {
        AUTO_JSON json_t *reply = receive_reply(client);
        cr_expect(eq(int, reply_code(reply), -32007));
    }
    /* The thread comes back to a server that was destroyed. */
    rig_release(&rig);
    cr_expect(rig_wait(&rig, &rig.finished, 1));
    (void) zmq_close(client);
}

Test(server_with, bad_options_are_refused)
{
    const struct server_handler handler = {.context = &rig, .handle = handle};
    struct server_options wrong[4];
    struct error error = {0};

    for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
        wrong[i] = rig.options;
    wrong[0].threads = 0;
    wrong[1].threads = 65;
    wrong[2].queue_total = 0;
    wrong[3].message_bytes_max = 0;
    for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
        cr_expect(eq(int, server_create(&wrong[i], &handler, &rig.server, &error), STATUS_INVALID),
                  "row %zu", i);
    wrong[0] = rig.options;
    wrong[0].endpoint = "ipc:///nowhere/at/all/s";
    cr_expect(eq(int, server_create(&wrong[0], &handler, &rig.server, &error), STATUS_UNAVAILABLE));
    cr_expect(ne(ptr, strstr(error.message, "/nowhere/at/all/s"), NULL));
    cr_expect(eq(ptr, rig.server, NULL));
}

Test(server_with, a_server_that_never_ran_can_be_destroyed)
{
    const struct server_handler handler = {.context = &rig, .handle = handle};
    struct error error = {0};

    cr_assert(eq(int, server_create(&rig.options, &handler, &rig.server, &error), STATUS_OK));
    server_destroy(&rig.server);
    cr_expect(eq(ptr, rig.server, NULL));
    server_destroy(&rig.server);
}
