/* test_client.c - libmemsync against a scripted agent: a ROUTER in a thread. */
#include "ipc/client_private.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Criterion's macros assign an int to a bit. */
#pragma GCC diagnostic ignored "-Wconversion"

#define SOON_MS 2000 /* far below the timeouts that the calls are given */
#define LONG_MS 20000

/* ---- the agent ---- */

struct fake;
typedef void (*fake_script)(struct fake *fake, const char *request);

struct fake {
    pthread_t thread;
    fake_script script;
    void *context, *socket, *publisher;
    int stop_fd;
    atomic_int requests;
    zmq_msg_t peer; /* who sent the request that the script is answering */
    char kept[400]; /* a request that a script put off */
    char seen[400]; /* the last request */
    char endpoint[200], events[200];
};

static char directory[100];

static void make_directory(void)
{
    (void) snprintf(directory, sizeof directory, "/tmp/memsync-client-XXXXXX");
    cr_assert(mkdtemp(directory) != NULL);
}

static void remove_directory(void)
{
    static const char *const names[] = {"a", "a.events", "file"};
    char path[200];

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        (void) snprintf(path, sizeof path, "%s/%s", directory, names[i]);
        (void) unlink(path);
    }
    (void) rmdir(directory);
}

TestSuite(client, .init = make_directory, .fini = remove_directory, .timeout = 60);

static const char *endpoint_of(const char *name)
{
    static char endpoint[200];

    (void) snprintf(endpoint, sizeof endpoint, "ipc://%s/%s", directory, name);
    return endpoint;
}

static void send_to_peer(struct fake *fake, const char *text)
{
    zmq_msg_t peer;

    (void) zmq_msg_init(&peer);
    (void) zmq_msg_copy(&peer, &fake->peer);
    cr_assert(zmq_msg_send(&peer, fake->socket, ZMQ_SNDMORE) >= 0);
    cr_assert(zmq_send(fake->socket, text, strlen(text), 0) >= 0);
}

static json_int_t id_of(const char *request)
{
    json_t *root = json_loads(request, 0, NULL);
    json_int_t id = json_integer_value(json_object_get(root, "id"));

    json_decref(root);
    return id;
}

static void answer(struct fake *fake, const char *request, const char *result)
{
    char text[1000];

    (void) snprintf(text, sizeof text,
                    "{\"jsonrpc\":\"2.0\",\"id\":%" JSON_INTEGER_FORMAT ",\"result\":%s}",
                    id_of(request), result);
    send_to_peer(fake, text);
}

/* Gives the params back. */
static void echo(struct fake *fake, const char *request)
{
    json_t *root = json_loads(request, 0, NULL);
    char *params = json_dumps(json_object_get(root, "params"), JSON_COMPACT);

    answer(fake, request, params);
    free(params);
    json_decref(root);
}

static void serve_one(struct fake *fake)
{
    zmq_msg_t body;

    (void) zmq_msg_init(&body);
    if (zmq_msg_recv(&fake->peer, fake->socket, 0) >= 0) {
        cr_assert(zmq_msg_recv(&body, fake->socket, 0) >= 0);
        char *request = client_copy(zmq_msg_data(&body), zmq_msg_size(&body));
        (void) snprintf(fake->seen, sizeof fake->seen, "%s", request);
        fake->script(fake, request);
        free(request);
        atomic_fetch_add(&fake->requests, 1);
    }
    (void) zmq_msg_close(&body);
}

static void *serve(void *argument)
{
    struct fake *fake = argument;
    zmq_pollitem_t items[] = {{fake->socket, 0, ZMQ_POLLIN, 0},
                              {NULL, fake->stop_fd, ZMQ_POLLIN, 0}};

    (void) zmq_msg_init(&fake->peer);
    while (!(items[1].revents & ZMQ_POLLIN)) {
        (void) zmq_poll(items, 2, -1);
        if (items[0].revents & ZMQ_POLLIN)
            serve_one(fake);
    }
    (void) zmq_msg_close(&fake->peer);
    return NULL;
}

static void *bind_socket(struct fake *fake, int kind, const char *endpoint)
{
    int zero = 0;
    void *socket = zmq_socket(fake->context, kind);

    cr_assert(socket != NULL);
    (void) zmq_setsockopt(socket, ZMQ_LINGER, &zero, sizeof zero);
    cr_assert(zmq_bind(socket, endpoint) == 0, "bind %s: %s", endpoint, zmq_strerror(errno));
    return socket;
}

static struct fake *start_fake(fake_script script)
{
    struct fake *fake = calloc(1, sizeof *fake);

    fake->script = script;
    fake->stop_fd = eventfd(0, EFD_CLOEXEC);
    (void) snprintf(fake->endpoint, sizeof fake->endpoint, "ipc://%s/a", directory);
    (void) snprintf(fake->events, sizeof fake->events, "ipc://%s/a.events", directory);
    fake->context = zmq_ctx_new();
    fake->socket = bind_socket(fake, ZMQ_ROUTER, fake->endpoint);
    fake->publisher = bind_socket(fake, ZMQ_XPUB, fake->events);
    cr_assert(pthread_create(&fake->thread, NULL, serve, fake) == 0);
    return fake;
}

static void stop_fake(struct fake **fake)
{
    uint64_t one = 1;

    cr_assert(write((*fake)->stop_fd, &one, sizeof one) == sizeof one);
    (void) pthread_join((*fake)->thread, NULL);
    (void) zmq_close((*fake)->socket);
    (void) zmq_close((*fake)->publisher);
    (void) zmq_ctx_term((*fake)->context);
    (void) close((*fake)->stop_fd);
    free(*fake);
    *fake = NULL;
}

/* ---- helpers ---- */

static bool same(const char *a, const char *b)
{
    return a && b && strcmp(a, b) == 0;
}

static memsync_client *open_client(const char *endpoint)
{
    memsync_client *client = NULL;

    cr_assert(eq(int, memsync_open(endpoint, &client), MEMSYNC_OK), "%s", memsync_last_error());
    return client;
}

static uint64_t elapsed_ms(uint64_t since_ns)
{
    return (client_now_ns() - since_ns) / 1000000;
}

/* True when the echo of a number comes back. */
static bool echoes(memsync_client *client, int number)
{
    char params[60], expected[60];
    char *reply = NULL;

    (void) snprintf(params, sizeof params, "{\"timeout_ms\":1,\"number\":%d}", number);
    (void) snprintf(expected, sizeof expected, "{\"timeout_ms\":1,\"number\":%d}", number);
    int code = memsync_call(client, "echo", params, LONG_MS, &reply);
    bool is_right = code == MEMSYNC_OK && strcmp(reply, expected) == 0;
    if (!is_right)
        (void) fprintf(stderr, "echo %d: code %d, %s\n", number, code,
                       reply ? reply : memsync_last_error());
    memsync_free(reply);
    return is_right;
}

static int call(memsync_client *client, int timeout_ms)
{
    char *reply = NULL;
    int code = memsync_call(client, "ping", NULL, timeout_ms, &reply);

    memsync_free(reply);
    return code;
}

/* ---- endpoints ---- */

static char *long_path(size_t size)
{
    static char endpoint[300];
    size_t start = (size_t) snprintf(endpoint, sizeof endpoint, "ipc:///tmp/");

    memset(endpoint + start, 'x', sizeof endpoint - start);
    endpoint[strlen("ipc://") + size] = '\0';
    return endpoint;
}

Test(client, tells_which_endpoints_can_be_used)
{
    const struct {
        const char *endpoint;
        const char *error; /* a part of it; NULL: usable */
    } cases[] = {
        {"ipc:///run/x.sock", NULL},
        {"ipc://relative.sock", NULL},
        {"ipc://@abstract", NULL},
        {"tcp://127.0.0.1:5555", NULL},
        {"tcp://127.8.9.10:1", NULL},
        {"tcp://localhost:65535", NULL},
        {"tcp://[::1]:5555", NULL},
        {"", "empty"},
        {"ipc://", "path"},
        {"ipc://@", "path"},
        {"ipc://*", "listened"},
        {"ipc:///a\nb", "control"},
        {"/run/x.sock", "unknown transport"},
        {"inproc://x", "unknown transport"},
        {"tcp://127.0.0.1", "HOST:PORT"},
        {"tcp://:5555", "HOST:PORT"},
        {"tcp://127.0.0.1:0", "port"},
        {"tcp://127.0.0.1:65536", "port"},
        {"tcp://127.0.0.1:5555x", "port"},
        {"tcp://127.0.0.1:", "port"},
        {"tcp://*:5555", "loopback"},
        {"tcp://10.0.0.1:5555", "loopback"},
        {"tcp://127.evil.example:5555", "loopback"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *error = memsync_endpoint_error(cases[i].endpoint);
        cr_expect(eq(int, error != NULL, cases[i].error != NULL), "\"%s\": %s", cases[i].endpoint,
                  error);
        if (error && cases[i].error)
            cr_expect(strstr(error, cases[i].error) != NULL, "\"%s\": %s", cases[i].endpoint,
                      error);
    }
    cr_expect(memsync_endpoint_error(NULL) != NULL);
}

Test(client, a_socket_path_has_107_bytes_at_most)
{
    memsync_client *client = NULL;

    cr_expect(memsync_endpoint_error(long_path(107)) == NULL);
    cr_expect(eq(int, memsync_open(long_path(108), &client), MEMSYNC_BAD_ENDPOINT));
    cr_expect(client == NULL);
    cr_expect(strstr(memsync_last_error(), "108") && strstr(memsync_last_error(), "107"),
              "length and limit are told: %s", memsync_last_error());
}

Test(client, works_through_a_path_of_107_bytes)
{
    struct fake *fake = start_fake(echo);
    size_t prefix = strlen("ipc://") + strlen(directory) + 1;
    char endpoint[200];

    (void) snprintf(endpoint, sizeof endpoint, "ipc://%s/", directory);
    memset(endpoint + prefix, 'x', sizeof endpoint - prefix);
    endpoint[strlen("ipc://") + 107] = '\0';
    cr_assert(symlink("a", endpoint + strlen("ipc://")) == 0);
    memsync_client *client = open_client(endpoint);
    cr_expect(echoes(client, 7));
    memsync_close(&client);
    (void) unlink(endpoint + strlen("ipc://"));
    stop_fake(&fake);
}

Test(client, takes_the_endpoint_from_the_environment)
{
    struct fake *fake = start_fake(echo);

    (void) setenv("MEMSYNC_ENDPOINT", fake->endpoint, 1);
    memsync_client *client = open_client(NULL);
    cr_expect(echoes(client, 1));
    memsync_close(&client);
    (void) setenv("MEMSYNC_ENDPOINT", "nonsense", 1);
    cr_expect(eq(int, memsync_open(NULL, &client), MEMSYNC_BAD_ENDPOINT));
    stop_fake(&fake);
}

/* ---- nobody there ---- */

static void make_dead_socket(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    cr_assert(strlen(path) < sizeof address.sun_path);
    memcpy(address.sun_path, path, strlen(path) + 1);
    cr_assert(bind(fd, (const struct sockaddr *) &address, sizeof address) == 0);
    (void) close(fd);
}

/* Calls as a user who may not do what the modes of `path` forbid. */
static void expect_denied(const char *path, const char *what)
{
    bool is_root = geteuid() == 0;
    char group[300];
    struct stat st;

    cr_assert(stat(path, &st) == 0 && chmod(path, 0) == 0);
    const struct group *entry = getgrgid(st.st_gid);
    (void) snprintf(group, sizeof group, "group %s", entry ? entry->gr_name : "");
    cr_assert(is_root ? seteuid(65534) == 0 : true);
    memsync_client *client = open_client(endpoint_of("a"));
    cr_expect(eq(int, call(client, LONG_MS), MEMSYNC_NO_AGENT));
    cr_expect(strstr(memsync_last_error(), what) && strstr(memsync_last_error(), group) &&
                  !strstr(memsync_last_error(), "running"),
              "%s", memsync_last_error());
    memsync_close(&client);
    cr_assert(is_root ? seteuid(0) == 0 : true);
    cr_assert(chmod(path, 0700) == 0);
}

Test(client, says_whose_socket_this_user_may_not_open)
{
    struct fake *fake = start_fake(echo);

    cr_assert(chmod(directory, 0755) == 0);
    expect_denied(fake->endpoint + strlen("ipc://"), "may not be opened by this user");
    expect_denied(directory, "may not be entered by this user");
    stop_fake(&fake);
}

Test(client, says_at_once_that_nobody_listens_and_why)
{
    char path[200];
    const struct {
        const char *name;
        const char *why;
    } cases[] = {
        {"missing/a", "directory does not exist"},
        {"none", "no socket"},
        {"file", "no socket"},
        {"a", "dead"},
    };

    (void) snprintf(path, sizeof path, "%s/file", directory);
    (void) close(open(path, O_CREAT | O_WRONLY, 0600));
    (void) snprintf(path, sizeof path, "%s/a", directory);
    make_dead_socket(path);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        memsync_client *client = open_client(endpoint_of(cases[i].name));
        uint64_t start = client_now_ns();
        cr_expect(eq(int, call(client, LONG_MS), MEMSYNC_NO_AGENT));
        cr_expect(elapsed_ms(start) < SOON_MS, "%s took long", cases[i].name);
        cr_expect(strstr(memsync_last_error(), cases[i].why) &&
                      strstr(memsync_last_error(), endpoint_of(cases[i].name)) &&
                      strstr(memsync_last_error(), "systemctl"),
                  "%s: %s", cases[i].name, memsync_last_error());
        memsync_close(&client);
    }
}

Test(client, notices_a_refused_tcp_connection_at_once)
{
    memsync_client *client = open_client("tcp://127.0.0.1:1");
    uint64_t start = client_now_ns();

    cr_expect(eq(int, call(client, LONG_MS), MEMSYNC_NO_AGENT));
    cr_expect(elapsed_ms(start) < SOON_MS);
    memsync_close(&client);
}

/* A stopped agent's kernel still takes connections. */
Test(client, gives_up_at_its_timeout_when_nothing_answers)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    (void) snprintf(address.sun_path, sizeof address.sun_path, "%s/a", directory);
    cr_assert(bind(fd, (const struct sockaddr *) &address, sizeof address) == 0);
    cr_assert(listen(fd, 5) == 0);
    memsync_client *client = open_client(endpoint_of("a"));
    uint64_t start = client_now_ns();
    cr_expect(eq(int, call(client, 200), MEMSYNC_NO_AGENT));
    cr_expect(elapsed_ms(start) >= 200 && elapsed_ms(start) < SOON_MS);
    cr_expect(strstr(memsync_last_error(), "200 ms") != NULL, "%s", memsync_last_error());
    memsync_close(&client);
    (void) close(fd);
}

/* ---- requests and answers ---- */

static void answer_oddly_spelt(struct fake *fake, const char *request)
{
    answer(fake, request, " {\"a\": 0.90, \"b\":1E2,\"c\":\"\\u00e9\\/\" , \"d\":[ ]}\n");
}

Test(client, hands_the_result_on_as_it_was_spelt)
{
    struct fake *fake = start_fake(answer_oddly_spelt);
    memsync_client *client = open_client(fake->endpoint);
    char *reply = NULL;

    cr_assert(eq(int, memsync_call(client, "search", NULL, 0, &reply), MEMSYNC_OK));
    cr_expect(same(reply, "{\"a\": 0.90, \"b\":1E2,\"c\":\"\\u00e9\\/\" , \"d\":[ ]}"));
    memsync_free(reply);
    memsync_close(&client);
    stop_fake(&fake);
}

Test(client, tells_the_agent_a_deadline_shortly_before_its_own)
{
    const struct {
        const char *params;
        int timeout_ms;
        const char *sent;
    } cases[] = {
        {NULL, 1000, "\"params\":{\"timeout_ms\":900}}"},
        {"{}", 50, "\"params\":{\"timeout_ms\":45}}"},
        {" { } ", 5, "\"params\":{\"timeout_ms\":5 } }"},
        {"{\"x\":1.50}", 10000, "\"params\":{\"timeout_ms\":9900,\"x\":1.50}}"},
        {"{\"x\":1}", 0, "\"params\":{\"timeout_ms\":4900,\"x\":1}}"},
        {"{\"x\":1}", -5, "\"params\":{\"timeout_ms\":4900,\"x\":1}}"},
        {"{\"timeout_ms\":7}", 1000, "\"params\":{\"timeout_ms\":7}}"},
        {"{\"x\":{\"timeout_ms\":7}}", 1000,
         "\"params\":{\"timeout_ms\":900,\"x\":{\"timeout_ms\":7}}}"},
    };
    struct fake *fake = start_fake(echo);
    memsync_client *client = open_client(fake->endpoint);

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *reply = NULL;
        cr_expect(eq(int, memsync_call(client, "m", cases[i].params, cases[i].timeout_ms, &reply),
                     MEMSYNC_OK),
                  "row %zu: %s", i, memsync_last_error());
        cr_expect(strstr(fake->seen, cases[i].sent) != NULL, "row %zu: %s", i, fake->seen);
        memsync_free(reply);
    }
    memsync_close(&client);
    stop_fake(&fake);
}

Test(client, refuses_what_is_no_request)
{
    const struct {
        const char *method, *params;
    } cases[] = {
        {NULL, "{}"},
        {"", "{}"},
        {"a\"b", "{}"},
        {"a b", "{}"},
        {"m", ""},
        {"m", "[]"},
        {"m", "null"},
        {"m", "{"},
        {"m", "{} x"},
        {"m", "{\"a\"}"},
        {"m", "{\"a\":}"},
        {"m", "{\"a\":1,}"},
        {"m", "{\"a\":01}"},
        {"m", "{'a':1}"},
        {"m", "{\"a\":tru}"},
        {"m", "{\"a\":\"\\x\"}"},
        {"m", "{\"a\":\"\t\"}"},
        {"m", "{\"a\":1.}"},
        {"m", "{\"a\":1}}"},
    };
    memsync_client *client = open_client(endpoint_of("none"));
    char *reply = NULL;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cr_expect(eq(int, memsync_call(client, cases[i].method, cases[i].params, 100, &reply),
                     MEMSYNC_BAD_PARAMS),
                  "row %zu", i);
        cr_expect(reply == NULL);
    }
    cr_expect(eq(int, memsync_call(NULL, "m", "{}", 100, &reply), MEMSYNC_BAD_PARAMS));
    cr_expect(eq(int, memsync_call(client, "m", "{}", 100, NULL), MEMSYNC_BAD_PARAMS));
    memsync_close(&client);
    memsync_close(&client);
    memsync_close(NULL);
}

static void refuse_as_corrupt(struct fake *fake, const char *request)
{
    char text[300];

    (void) snprintf(text, sizeof text,
                    "{\"jsonrpc\":\"2.0\",\"id\":%" JSON_INTEGER_FORMAT
                    ",\"error\":{\"code\":-32003,\"message\":\"memory.json\\nis half\","
                    "\"data\":{\"retryable\":false}}}",
                    id_of(request));
    send_to_peer(fake, text);
}

Test(client, hands_an_error_on_with_code_and_words)
{
    struct fake *fake = start_fake(refuse_as_corrupt);
    memsync_client *client = open_client(fake->endpoint);
    char *reply = NULL;

    cr_assert(eq(int, memsync_call(client, "search", "{}", 0, &reply), MEMSYNC_CORRUPT));
    cr_assert(reply != NULL);
    json_t *error = json_loads(reply, 0, NULL);
    cr_expect(eq(int, (int) json_integer_value(json_object_get(error, "code")), -32003));
    cr_expect(json_object_get(error, "data") != NULL);
    json_decref(error);
    memsync_free(reply);
    cr_expect(same(memsync_last_error(), "corrupt: memory.json is half"));
    memsync_close(&client);
    stop_fake(&fake);
}

static const char *error_text; /* what refuse_with() answers */

static void refuse_with(struct fake *fake, const char *request)
{
    char text[1000];

    (void) snprintf(text, sizeof text,
                    "{\"jsonrpc\":\"2.0\",\"id\":%" JSON_INTEGER_FORMAT ",\"error\":%s}",
                    id_of(request), error_text);
    send_to_peer(fake, text);
}

Test(client, names_the_file_that_an_error_is_about)
{
    static const struct {
        const char *error;
        const char *told;
    } rows[] = {
        {"{\"code\":-32003,\"message\":\"line 1: "
         "half\",\"data\":{\"n\":1e999,\"path\":\"u/m.json\"}}",
         "corrupt: u/m.json: line 1: half"},
        {"{\"code\":-32003,\"message\":\"u/m.json is half\",\"data\":{\"path\":\"u/m.json\"}}",
         "corrupt: u/m.json is half"},
        {"{\"code\":-32003,\"message\":\"half\",\"data\":{\"path\":null}}", "corrupt: half"},
        {"{\"code\":-32003,\"message\":\"half\",\"data\":{\"path\":\"\"}}", "corrupt: half"},
        {"{\"code\":-32003,\"message\":\"half\",\"data\":[\"path\"]}", "corrupt: half"},
        {"{\"code\":-32003,\"message\":\"half\",\"data\":{\"path\":{\"path\":\"x\"}}}",
         "corrupt: half"},
        {"{\"code\":-32003,\"message\":7,\"data\":{\"path\":\"u\\nx\"}}",
         "corrupt: u x: (no message)"},
    };
    struct fake *fake = start_fake(refuse_with);
    memsync_client *client = open_client(fake->endpoint);

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        error_text = rows[i].error;
        cr_expect(eq(int, call(client, LONG_MS), MEMSYNC_CORRUPT));
        cr_expect(same(memsync_last_error(), rows[i].told), "row %zu: %s", i, memsync_last_error());
    }
    memsync_close(&client);
    stop_fake(&fake);
}

static void refuse_without_id(struct fake *fake, const char *request)
{
    (void) request;
    send_to_peer(fake,
                 "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,\"message\":\"m\"}}");
}

Test(client, takes_an_error_without_id_for_its_only_request)
{
    struct fake *fake = start_fake(refuse_without_id);
    memsync_client *client = open_client(fake->endpoint);

    cr_expect(eq(int, call(client, LONG_MS), MEMSYNC_PARSE_ERROR));
    memsync_close(&client);
    stop_fake(&fake);
}

static atomic_int odd_row;
static const char *const odd_replies[] = {
    "",
    "hello",
    "[]",
    "{\"jsonrpc\":\"2.0\",\"id\":%d}",
    "{\"jsonrpc\":\"1.0\",\"id\":%d,\"result\":1}",
    "{\"id\":%d,\"result\":1}",
    "{\"jsonrpc\":\"2.0\",\"result\":1}",
    "{\"jsonrpc\":\"2.0\",\"id\":%d,\"result\":1,\"error\":{\"code\":-32001,\"message\":\"\"}}",
    "{\"jsonrpc\":\"2.0\",\"id\":%d,\"error\":1}",
    "{\"jsonrpc\":\"2.0\",\"id\":%d,\"error\":{\"code\":-32001}}",
    "{\"jsonrpc\":\"2.0\",\"id\":%d,\"error\":{\"code\":0,\"message\":\"\"}}",
    "{\"jsonrpc\":\"2.0\",\"id\":%d,\"error\":{\"code\":-99999999999,\"message\":\"\"}}",
    "{\"jsonrpc\":\"2.0\",\"id\":%d,\"result\":}",
    "{\"jsonrpc\":\"2.0\",\"id\":%d,\"result\":1}}",
};

static void answer_oddly(struct fake *fake, const char *request)
{
    char text[300];

    (void) snprintf(text, sizeof text, odd_replies[odd_row], (int) id_of(request));
    send_to_peer(fake, text);
}

Test(client, tells_answers_that_are_not_the_protocols)
{
    struct fake *fake = start_fake(answer_oddly);
    memsync_client *client = open_client(fake->endpoint);

    for (size_t i = 0; i < sizeof odd_replies / sizeof odd_replies[0]; i++) {
        char *reply = NULL;
        odd_row = (int) i;
        cr_expect(eq(int, memsync_call(client, "m", NULL, LONG_MS, &reply), MEMSYNC_BAD_REPLY),
                  "row %zu: %s", i, reply);
        cr_expect(reply == NULL);
    }
    memsync_close(&client);
    stop_fake(&fake);
}

static void answer_in_frames(struct fake *fake, const char *request)
{
    zmq_msg_t peer;

    (void) zmq_msg_init(&peer);
    (void) zmq_msg_copy(&peer, &fake->peer);
    (void) zmq_msg_send(&peer, fake->socket, ZMQ_SNDMORE);
    (void) zmq_send(fake->socket, "", 0, ZMQ_SNDMORE);
    (void) zmq_send(fake->socket, "xyz", 3, ZMQ_SNDMORE);
    char text[100];
    int size = snprintf(text, sizeof text, "{\"jsonrpc\":\"2.0\",\"id\":%d,\"result\":5}",
                        (int) id_of(request));
    (void) zmq_send(fake->socket, text, (size_t) size, 0);
}

Test(client, reads_the_last_frame)
{
    struct fake *fake = start_fake(answer_in_frames);
    memsync_client *client = open_client(fake->endpoint);

    cr_expect(eq(int, call(client, LONG_MS), MEMSYNC_OK));
    cr_expect(eq(int, call(client, LONG_MS), MEMSYNC_OK));
    memsync_close(&client);
    stop_fake(&fake);
}

static void answer_hugely(struct fake *fake, const char *request)
{
    size_t size = CLIENT_MESSAGE_BYTES_MAX + 1;
    char *text = malloc(size + 1);

    int start =
        snprintf(text, size, "{\"jsonrpc\":\"2.0\",\"id\":%d,\"result\":\"", (int) id_of(request));
    memset(text + start, 'x', size - (size_t) start);
    memcpy(text + size - 2, "\"}", 3);
    send_to_peer(fake, text);
    free(text);
}

Test(client, refuses_an_answer_beyond_its_bound_and_goes_on)
{
    struct fake *fake = start_fake(answer_hugely);
    memsync_client *client = open_client(fake->endpoint);

    cr_expect(eq(int, call(client, LONG_MS), MEMSYNC_NO_AGENT));
    cr_expect(strstr(memsync_last_error(), "larger") != NULL, "%s", memsync_last_error());
    fake->script = echo;
    cr_expect(echoes(client, 3));
    memsync_close(&client);
    stop_fake(&fake);
}

/* ---- late answers ---- */

/* The first request is answered after the second has come, and before it. */
static void answer_late(struct fake *fake, const char *request)
{
    if (!fake->kept[0]) {
        (void) snprintf(fake->kept, sizeof fake->kept, "%s", request);
        return;
    }
    answer(fake, fake->kept, "\"A\"");
    answer(fake, request, "\"B\"");
}

Test(client, never_takes_a_late_answer_for_the_next_one)
{
    struct fake *fake = start_fake(answer_late);
    memsync_client *client = open_client(fake->endpoint);
    char *reply = NULL;

    cr_expect(eq(int, memsync_call(client, "a", NULL, 200, &reply), MEMSYNC_NO_AGENT));
    cr_expect(strstr(memsync_last_error(), "no answer") != NULL, "%s", memsync_last_error());
    cr_expect(eq(int, memsync_call(client, "b", NULL, LONG_MS, &reply), MEMSYNC_OK));
    cr_expect(same(reply, "\"B\""));
    memsync_free(reply);
    memsync_close(&client);
    stop_fake(&fake);
}

static void refuse_the_first_late(struct fake *fake, const char *request)
{
    if (!fake->kept[0]) {
        (void) snprintf(fake->kept, sizeof fake->kept, "%s", request);
        return;
    }
    refuse_without_id(fake, request);
    answer(fake, request, "\"B\"");
}

Test(client, a_late_error_without_id_is_not_the_next_requests)
{
    struct fake *fake = start_fake(refuse_the_first_late);
    memsync_client *client = open_client(fake->endpoint);
    char *reply = NULL;

    cr_expect(eq(int, memsync_call(client, "a", NULL, 200, &reply), MEMSYNC_NO_AGENT));
    cr_expect(eq(int, memsync_call(client, "b", NULL, LONG_MS, &reply), MEMSYNC_OK));
    memsync_free(reply);
    memsync_close(&client);
    stop_fake(&fake);
}

/* ---- restarts ---- */

Test(client, works_again_after_the_agent_restarted)
{
    struct fake *fake = start_fake(echo);
    memsync_client *client = open_client(fake->endpoint);

    cr_expect(echoes(client, 1));
    stop_fake(&fake);
    uint64_t start = client_now_ns();
    cr_expect(eq(int, call(client, LONG_MS), MEMSYNC_NO_AGENT));
    cr_expect(elapsed_ms(start) < SOON_MS);
    fake = start_fake(echo);
    cr_expect(echoes(client, 2));
    memsync_close(&client);
    stop_fake(&fake);
}

static void stay_silent(struct fake *fake, const char *request)
{
    (void) fake;
    (void) request;
}

struct late_stop {
    struct fake *fake;
    memsync_client *client;
};

static void wait_for_requests(const struct fake *fake, int count)
{
    uint64_t start = client_now_ns();

    while (fake->requests < count) {
        cr_assert(elapsed_ms(start) < LONG_MS, "no request came");
        (void) usleep(1000);
    }
}

static void *stop_after_a_request(void *argument)
{
    struct late_stop *stop = argument;

    wait_for_requests(stop->fake, 1);
    stop_fake(&stop->fake);
    return NULL;
}

Test(client, notices_at_once_when_the_agent_dies_over_its_request)
{
    struct late_stop stop = {.fake = start_fake(stay_silent)};
    memsync_client *client = open_client(stop.fake->endpoint);
    uint64_t start = client_now_ns();
    pthread_t thread;

    cr_assert(pthread_create(&thread, NULL, stop_after_a_request, &stop) == 0);
    cr_expect(eq(int, call(client, LONG_MS), MEMSYNC_NO_AGENT));
    cr_expect(elapsed_ms(start) < SOON_MS);
    (void) pthread_join(thread, NULL);
    memsync_close(&client);
}

/* ---- interrupts and signals ---- */

static void *interrupt_after_a_request(void *argument)
{
    struct late_stop *stop = argument;

    wait_for_requests(stop->fake, 1);
    memsync_interrupt(stop->client);
    return NULL;
}

Test(client, an_interrupt_ends_one_wait_and_no_more)
{
    struct fake *fake = start_fake(stay_silent);
    memsync_client *client = open_client(fake->endpoint);
    struct late_stop stop = {fake, client};
    pthread_t thread;

    cr_assert(pthread_create(&thread, NULL, interrupt_after_a_request, &stop) == 0);
    cr_expect(eq(int, call(client, LONG_MS), MEMSYNC_INTERRUPTED));
    (void) pthread_join(thread, NULL);
    fake->script = echo;
    cr_expect(echoes(client, 1));

    memsync_interrupt(client); /* before the call: it ends the next one */
    cr_expect(eq(int, call(client, LONG_MS), MEMSYNC_INTERRUPTED));
    cr_expect(echoes(client, 2));
    memsync_close(&client);
    stop_fake(&fake);
}

static atomic_int signals_caught;

static void count_signal(int number)
{
    (void) number;
    atomic_fetch_add(&signals_caught, 1);
}

struct storm {
    pthread_t target;
    atomic_bool is_over;
};

static void *rain_signals(void *argument)
{
    struct storm *storm = argument;
    const struct timespec pause = {.tv_nsec = 1000000};

    while (!storm->is_over) {
        (void) pthread_kill(storm->target, SIGUSR1);
        (void) nanosleep(&pause, NULL);
    }
    return NULL;
}

Test(client, signals_neither_fail_a_call_nor_move_its_deadline)
{
    struct fake *fake = start_fake(echo);
    memsync_client *client = open_client(fake->endpoint);
    struct sigaction action = {.sa_handler = count_signal}; /* no SA_RESTART */
    struct storm storm = {.target = pthread_self()};
    pthread_t thread;

    cr_assert(sigaction(SIGUSR1, &action, NULL) == 0);
    cr_assert(pthread_create(&thread, NULL, rain_signals, &storm) == 0);
    for (int i = 0; i < 200 || signals_caught < 20; i++)
        cr_expect(echoes(client, i));
    fake->script = stay_silent;
    uint64_t start = client_now_ns();
    cr_expect(eq(int, call(client, 300), MEMSYNC_NO_AGENT));
    cr_expect(elapsed_ms(start) >= 300 && elapsed_ms(start) < SOON_MS);
    storm.is_over = true;
    (void) pthread_join(thread, NULL);
    memsync_close(&client);
    stop_fake(&fake);
}

/* ---- threads and forks ---- */

struct worker {
    memsync_client *client;
    int first;
    int wrong;
};

static void *call_often(void *argument)
{
    struct worker *worker = argument;

    for (int i = 0; i < 50; i++)
        worker->wrong += !echoes(worker->client, worker->first + i);
    return NULL;
}

Test(client, threads_share_it_and_each_gets_its_own_answers)
{
    struct fake *fake = start_fake(echo);
    memsync_client *client = open_client(fake->endpoint);
    struct worker workers[6];
    pthread_t threads[6];

    for (int i = 0; i < 6; i++) {
        workers[i] = (struct worker){client, i * 1000, 0};
        cr_assert(pthread_create(&threads[i], NULL, call_often, &workers[i]) == 0);
    }
    for (int i = 0; i < 6; i++) {
        (void) pthread_join(threads[i], NULL);
        cr_expect(eq(int, workers[i].wrong, 0));
    }
    memsync_close(&client);
    stop_fake(&fake);
}

Test(client, a_call_does_not_wait_longer_for_other_threads_than_its_timeout)
{
    struct fake *fake = start_fake(stay_silent);
    memsync_client *client = open_client(fake->endpoint);
    struct worker worker = {client, 0, 0};
    pthread_t thread;

    cr_assert(pthread_create(&thread, NULL, call_often, &worker) == 0);
    wait_for_requests(fake, 1);
    cr_expect(eq(int, call(client, 100), MEMSYNC_NO_AGENT));
    cr_expect(strstr(memsync_last_error(), "other threads") != NULL, "%s", memsync_last_error());
    fake->script = echo;
    memsync_interrupt(client);
    (void) pthread_join(thread, NULL);
    memsync_close(&client);
    stop_fake(&fake);
}

/*
 * Children start to call when the gate closes, after the last fork: at each fork every other thread
 * is at rest, for the allocator of a sanitizer, unlike glibc's, does not survive a fork in the
 * middle of another thread's allocation.
 */
static int run_child(memsync_client *client, int number, const int gate[2])
{
    char none;

    (void) alarm(2 * LONG_MS / 1000); /* no orphan, should the test end early */
    (void) close(gate[1]);
    bool is_right = read(gate[0], &none, 1) == 0;
    for (int i = 0; i < 20; i++)
        is_right = is_right && echoes(client, number * 1000 + i);
    if (number % 2)
        memsync_close(&client);
    return is_right ? 0 : 1;
}

Test(client, forked_children_and_their_parent_each_get_their_own_answers)
{
    struct fake *fake = start_fake(echo);
    memsync_client *client = open_client(fake->endpoint);
    pid_t children[4];
    int gate[2];

    cr_assert(pipe(gate) == 0);
    cr_assert(echoes(client, 1));
    (void) usleep(50000); /* the threads of libzmq come to rest */
    for (int i = 0; i < 4; i++) {
        children[i] = fork();
        cr_assert(children[i] >= 0);
        if (children[i] == 0)
            _exit(run_child(client, i, gate));
    }
    (void) close(gate[0]);
    (void) close(gate[1]);
    for (int i = 0; i < 20; i++)
        cr_expect(echoes(client, i));
    for (int i = 0; i < 4; i++) {
        int status = -1;
        cr_assert(waitpid(children[i], &status, 0) == children[i]);
        cr_expect(eq(int, status, 0));
    }
    cr_expect(echoes(client, 2));
    memsync_close(&client);
    stop_fake(&fake);
}

/* The lock is held by a thread that the child does not have. */
Test(client, a_child_is_not_held_up_by_a_call_of_its_parent)
{
    struct fake *fake = start_fake(stay_silent);
    memsync_client *client = open_client(fake->endpoint);
    struct worker worker = {client, 0, 0};
    pthread_t thread;
    int status = -1;

    cr_assert(pthread_create(&thread, NULL, call_often, &worker) == 0);
    wait_for_requests(fake, 1);
    fake->script = echo;
    pid_t child = fork();
    cr_assert(child >= 0);
    if (child == 0) {
        memsync_interrupt(client); /* the child's own wait, not the parent's */
        bool is_right = call(client, LONG_MS) == MEMSYNC_INTERRUPTED;
        _exit(is_right && echoes(client, 5) ? 0 : 1);
    }
    cr_assert(waitpid(child, &status, 0) == child);
    cr_expect(eq(int, status, 0));
    memsync_interrupt(client);
    (void) pthread_join(thread, NULL);
    cr_expect(eq(int, worker.wrong, 1), "only the interrupted call failed");
    memsync_close(&client);
    stop_fake(&fake);
}

/* ---- events ---- */

static void answer_ping(struct fake *fake, const char *request)
{
    char result[300];

    (void) snprintf(result, sizeof result, "{\"protocol\":1,\"events\":\"%s\"}", fake->events);
    answer(fake, request, result);
}

/* Waits for the subscription itself, which the XPUB socket hands out. */
static void await_subscription(struct fake *fake)
{
    int timeout_ms = LONG_MS;
    char frame[100];

    (void) zmq_setsockopt(fake->publisher, ZMQ_RCVTIMEO, &timeout_ms, sizeof timeout_ms);
    cr_assert(zmq_recv(fake->publisher, frame, sizeof frame, 0) > 0);
}

static void publish(struct fake *fake, const char *topic, const char *body)
{
    (void) zmq_send(fake->publisher, topic, strlen(topic), ZMQ_SNDMORE);
    (void) zmq_send(fake->publisher, body, strlen(body), 0);
}

static void expect_event(memsync_subscriber *subscriber, const char *topic, const char *body)
{
    char *got_topic = NULL, *got_body = NULL;

    cr_assert(eq(int, memsync_next_event(subscriber, LONG_MS, &got_topic, &got_body), MEMSYNC_OK),
              "%s", memsync_last_error());
    cr_expect(same(got_topic, topic));
    cr_expect(same(got_body, body));
    memsync_free(got_topic);
    memsync_free(got_body);
}

Test(client, events_of_the_scope_asked_for_arrive)
{
    struct fake *fake = start_fake(answer_ping);
    memsync_client *client = open_client(fake->endpoint);
    memsync_subscriber *subscriber = NULL;
    char *topic = NULL, *body = NULL;

    cr_assert(eq(int, memsync_subscribe(client, NULL, "scope/u1/", &subscriber), MEMSYNC_OK), "%s",
              memsync_last_error());
    await_subscription(fake);
    publish(fake, "scope/u2/__default__/", "{\"n\":1}");
    publish(fake, "scope/u1/__default__/", "{\"n\":2}");
    expect_event(subscriber, "scope/u1/__default__/", "{\"n\":2}");
    cr_expect(eq(int, memsync_next_event(subscriber, 50, &topic, &body), MEMSYNC_NO_AGENT));
    cr_expect(topic == NULL && body == NULL);
    memsync_interrupt(client);
    cr_expect(eq(int, memsync_next_event(subscriber, -1, &topic, &body), MEMSYNC_INTERRUPTED));
    memsync_unsubscribe(&subscriber);
    memsync_unsubscribe(&subscriber);
    memsync_close(&client);
    stop_fake(&fake);
}

Test(client, a_subscription_outlives_a_restart_of_the_agent)
{
    struct fake *fake = start_fake(answer_ping);
    memsync_client *client = open_client(fake->endpoint);
    memsync_subscriber *subscriber = NULL;
    char *topic = NULL, *body = NULL;

    cr_assert(eq(int, memsync_subscribe(client, NULL, NULL, &subscriber), MEMSYNC_OK));
    stop_fake(&fake);
    cr_expect(eq(int, memsync_next_event(subscriber, 100, &topic, &body), MEMSYNC_NO_AGENT));
    fake = start_fake(answer_ping);
    await_subscription(fake);
    publish(fake, "scope//a/", "{}");
    expect_event(subscriber, "scope//a/", "{}");
    memsync_unsubscribe(&subscriber);
    memsync_close(&client);
    stop_fake(&fake);
}

Test(client, says_when_there_are_no_events_to_subscribe_to)
{
    struct fake *fake = start_fake(echo);
    memsync_client *client = open_client(fake->endpoint);
    memsync_subscriber *subscriber = NULL;

    cr_expect(eq(int, memsync_subscribe(client, NULL, "", &subscriber), MEMSYNC_UNSUPPORTED));
    cr_expect(
        eq(int, memsync_subscribe(client, endpoint_of("none"), "", &subscriber), MEMSYNC_NO_AGENT));
    cr_expect(eq(int, memsync_subscribe(client, "x://", "", &subscriber), MEMSYNC_BAD_ENDPOINT));
    cr_expect(subscriber == NULL);
    memsync_close(&client);
    stop_fake(&fake);
}

Test(client, topics_cannot_be_prefixes_of_one_another)
{
    const struct {
        const char *user, *agent, *topic;
    } cases[] = {
        {"u1", NULL, "scope/u1/__default__/"},
        {NULL, NULL, "scope//__default__/"},
        {"a/b", "Lead-Agent", "scope/a%2Fb/lead-agent/"},
        {"A.b~c_d-e", "x", "scope/A.b~c_d-e/x/"},
        {"\xc3\xa9 %", "x", "scope/%C3%A9%20%25/x/"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *topic = memsync_topic(cases[i].user, cases[i].agent);
        cr_expect(same(topic, cases[i].topic));
        memsync_free(topic);
    }
}

/* ---- texts ---- */

Test(client, codes_have_names)
{
    cr_expect(same(memsync_code_name(MEMSYNC_OK), "ok"));
    cr_expect(same(memsync_code_name(MEMSYNC_NOT_FOUND), "not_found"));
    cr_expect(same(memsync_code_name(MEMSYNC_INTERNAL), "internal"));
    cr_expect(same(memsync_code_name(12345), "unknown"));
    cr_expect(same(memsync_version(), MEMSYNC_VERSION));
}

Test(client, finds_members_without_being_fooled_by_nested_ones)
{
    static const char *const names[] = {"id", "x"};
    const char *text =
        " { \"y\" : {\"id\":1,\"x\":[{\"x\":2}]}, \"x\":\"a\\\"}\" , \"id\" : [1, 2 ] } ";
    struct json_span found[2];
    size_t members;

    cr_assert(client_json_members(text, strlen(text), names, 2, found, &members));
    cr_expect(eq(sz, members, 3));
    cr_expect(found[0].size == 7 && memcmp(found[0].bytes, "[1, 2 ]", 7) == 0);
    cr_expect(found[1].size == 6 && memcmp(found[1].bytes, "\"a\\\"}\"", 6) == 0);
}

Test(client, endless_nesting_is_no_json)
{
    static const char *const names[] = {"x"};
    char text[3000] = "{\"x\":";
    struct json_span found[1];
    size_t members;

    memset(text + 5, '[', 1000);
    memset(text + 1005, ']', 1000);
    memcpy(text + 2005, "}", 2);
    cr_expect(not(client_json_members(text, strlen(text), names, 1, found, &members)));
    text[2004] = '}'; /* and a cut one */
    cr_expect(not(client_json_members(text, 2004, names, 1, found, &members)));
}
