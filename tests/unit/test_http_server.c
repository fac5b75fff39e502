/* agent/http_server.h: what clients may do, and what it costs. */
#include "agent/http_server.h"

#include "core/clock.h"
#include "tests/support/http_visit.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static struct http_server *server;
static atomic_uint asked;

static void answer(void *context, const char *path, struct http_answer *ret)
{
    (void) context;
    (void) atomic_fetch_add(&asked, 1);
    if (strcmp(path, "/yes") != 0)
        return;
    ret->code = 200;
    ret->type = "text/plain";
    text_append_string(&ret->body, "yes it is\n");
}

static void set_up(void)
{
    struct http_address address;
    struct error error = {0};

    cr_assert(http_address_parse("0", &address));
    cr_assert_eq(http_server_start(&address, answer, NULL, &server, &error), STATUS_OK, "%s",
                 error.message);
}

static void tear_down(void)
{
    http_server_stop(&server);
    cr_expect_null(server);
    http_server_stop(&server);
}

TestSuite(http_server, .init = set_up, .fini = tear_down, .timeout = 60);

/* ---- a client ---- */

static int visit(void)
{
    return http_visit(http_server_address(server));
}

static const char *ask(const char *request)
{
    static char reply[65536];
    AUTO_CLOSE int fd = visit();

    http_say(fd, request);
    cr_assert(http_hear(fd, reply, sizeof reply), "no end of the answer to %s", request);
    return reply;
}

static void expect_code(const char *reply, unsigned code)
{
    char begin[32];

    (void) snprintf(begin, sizeof begin, "HTTP/1.1 %u ", code);
    cr_expect_eq(strncmp(reply, begin, strlen(begin)), 0, "%u: %.80s", code, reply);
}

static const char *body_of(const char *reply)
{
    const char *end = strstr(reply, "\r\n\r\n");

    return end ? end + 4 : "no body";
}

/* ---- answers ---- */

Test(http_server, answers_get_and_head)
{
    const char *reply = ask("GET /yes HTTP/1.1\r\nHost: a\r\n\r\n");

    expect_code(reply, 200);
    cr_expect_not_null(strstr(reply, "\r\nContent-Type: text/plain\r\n"));
    cr_expect_not_null(strstr(reply, "\r\nConnection: close\r\n"));
    cr_expect_str_eq(body_of(reply), "yes it is\n");
    reply = ask("HEAD /yes HTTP/1.1\r\nHost: a\r\n\r\n");
    expect_code(reply, 200);
    cr_expect_not_null(strstr(reply, "\r\nContent-Length: 10\r\n"));
    cr_expect_str_eq(body_of(reply), "");
    cr_expect_str_eq(body_of(ask("GET /yes?a=b HTTP/1.1\r\nHost: a\r\n\r\n")), "yes it is\n");
    cr_expect_str_eq(body_of(ask("GET /yes HTTP/1.0\r\n\r\n")), "yes it is\n");
}

Test(http_server, knows_no_other_paths)
{
    expect_code(ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), 404);
    expect_code(ask("GET /yes/ HTTP/1.1\r\nHost: a\r\n\r\n"), 404);
    expect_code(ask("GET /../../etc/passwd HTTP/1.1\r\nHost: a\r\n\r\n"), 404);
}

Test(http_server, takes_no_other_method_and_no_body)
{
    static const char *const methods[] = {"POST", "PUT", "DELETE", "OPTIONS", "PATCH", "get"};

    for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
        char request[200];
        (void) snprintf(request, sizeof request,
                        "%s /yes HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\n\r\nabc",
                        methods[i]);
        const char *reply = ask(request);
        expect_code(reply, 405);
        cr_expect_not_null(strstr(reply, "\r\nAllow: GET, HEAD\r\n"), "%s", methods[i]);
    }
    cr_expect_eq(asked, 0);
}

Test(http_server, refuses_a_head_that_is_too_long)
{
    static char request[4 * HTTP_REQUEST_BYTES_MAX];
    size_t used = (size_t) snprintf(request, sizeof request, "GET /yes HTTP/1.1\r\nA: ");

    memset(request + used, 'a', sizeof request - used - 1);
    AUTO_CLOSE int fd = visit();
    (void) send(fd, request, sizeof request - 1, MSG_NOSIGNAL);
    char reply[4096];
    cr_assert(http_hear(fd, reply, sizeof reply));
    cr_expect(reply[0] == '\0' || strncmp(reply, "HTTP/1.1 4", 10) == 0, "%.80s", reply);
    cr_expect_eq(asked, 0);
    expect_code(ask("GET /yes HTTP/1.1\r\nHost: a\r\n\r\n"), 200);
}

Test(http_server, what_is_no_http_is_cut_off)
{
    static const char *const wrong[] = {"\r\n\r\n\r\n", "GET\r\n\r\n", "\x16\x03\x01\x02\n\n",
                                        "GET /yes HTTP/9.9\r\n\r\n"};

    for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
        AUTO_CLOSE int fd = visit();
        char reply[4096];
        http_say(fd, wrong[i]);
        (void) shutdown(fd, SHUT_WR);
        cr_expect(http_hear(fd, reply, sizeof reply), "row %zu", i);
        cr_expect_not(strstr(reply, "yes it is"), "row %zu", i);
    }
    expect_code(ask("GET /yes HTTP/1.1\r\nHost: a\r\n\r\n"), 200);
}

/* ---- clients that take their time ---- */

static bool is_cut_off(int fd)
{
    char reply[4096];

    return http_hear(fd, reply, sizeof reply);
}

Test(http_server, whoever_sends_slowly_is_cut_off_however_busy)
{
    AUTO_CLOSE int silent = visit();
    AUTO_CLOSE int busy = visit();

    http_say(busy, "GET /yes HTTP/1.1\r\n");
    expect_code(ask("GET /yes HTTP/1.1\r\nHost: a\r\n\r\n"), 200); /* they keep nobody waiting */
    for (unsigned i = 0; i < 6; i++) {
        clock_advance_for_test(HTTP_PATIENCE_MS * NS_PER_MS / 5);
        (void) send(busy, "A: b\r\n", 6, MSG_NOSIGNAL);
    }
    cr_expect(is_cut_off(busy));
    cr_expect(is_cut_off(silent));
}

Test(http_server, whoever_does_not_read_is_cut_off)
{
    AUTO_CLOSE int fd = visit();

    http_say(fd, "GET /yes HTTP/1.1\r\nHost: a\r\n");
    clock_advance_for_test(HTTP_PATIENCE_MS * NS_PER_MS + 1);
    cr_expect(is_cut_off(fd));
}

Test(http_server, many_visitors_keep_others_waiting_for_their_time_at_most)
{
    int fds[HTTP_CONNECTIONS_MAX + 8];

    for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
        fds[i] = visit();
    AUTO_CLOSE int late = visit();
    char reply[4096];
    http_say(late, "GET /yes HTTP/1.1\r\nHost: a\r\n\r\n");
    struct pollfd ready = {.fd = late, .events = POLLIN};
    cr_expect_eq(poll(&ready, 1, 200), 0, "all places are taken");
    clock_advance_for_test(HTTP_PATIENCE_MS * NS_PER_MS + 1);
    for (size_t i = 0; i < HTTP_CONNECTIONS_MAX; i++)
        cr_expect(is_cut_off(fds[i]), "visitor %zu", i);
    for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
        (void) close(fds[i]);
    cr_expect(http_hear(late, reply, sizeof reply));
    expect_code(reply, 200);
}

Test(http_server, the_end_waits_for_no_visitor)
{
    AUTO_CLOSE int silent = visit();
    AUTO_CLOSE int begun = visit();

    http_say(begun, "GET /yes HT");
    uint64_t begun_ns = clock_monotonic_ns();
    http_server_stop(&server);
    cr_expect_lt(clock_monotonic_ns() - begun_ns, 2 * NS_PER_SECOND);
    cr_expect(is_cut_off(silent));
    cr_expect(is_cut_off(begun));
}

/* ---- addresses ---- */

Test(http_server, a_port_in_use_is_told)
{
    struct http_server *second = NULL;
    struct error error = {0};
    char text[HTTP_ADDRESS_TEXT_SIZE];
    char expected[ERROR_MESSAGE_MAX];

    cr_expect_neq(http_server_start(http_server_address(server), answer, NULL, &second, &error),
                  STATUS_OK);
    cr_expect_null(second);
    http_address_format(http_server_address(server), text);
    (void) snprintf(expected, sizeof expected, "cannot listen on %s: Address already in use", text);
    cr_expect_str_eq(error.message, expected);
}

Test(http_server, the_port_is_free_again_at_once)
{
    struct http_address address = *http_server_address(server);
    struct error error = {0};

    expect_code(ask("GET /yes HTTP/1.1\r\nHost: a\r\n\r\n"), 200);
    http_server_stop(&server);
    cr_assert_eq(http_server_start(&address, answer, NULL, &server, &error), STATUS_OK, "%s",
                 error.message);
    expect_code(ask("GET /yes HTTP/1.1\r\nHost: a\r\n\r\n"), 200);
}

Test(http_server, serves_ipv6)
{
    struct http_address address;
    struct error error = {0};

    http_server_stop(&server);
    cr_assert(http_address_parse("[::1]:0", &address));
    if (http_server_start(&address, answer, NULL, &server, &error) != STATUS_OK)
        cr_skip_test("no IPv6 here: %s", error.message);
    cr_expect_str_eq(body_of(ask("GET /yes HTTP/1.1\r\nHost: a\r\n\r\n")), "yes it is\n");
}
