/* Requests through a socket, and what the socket alone takes.
 *
 *     trips calls ENDPOINT REQUESTS CLIENTS SECONDS     params of a search in each line of REQUESTS
 *     trips echo REQUEST-BYTES REPLY-BYTES CLIENTS SECONDS
 *
 * `calls` uses the client library, one client a thread. `echo` is its floor: a ROUTER in another
 * process that answers every message at once with as many bytes as a search has, asked by DEALERs
 * of the bare socket library. One JSON object comes out: samples, p50 and p99 in microseconds,
 * requests a second, and the bytes of the last reply. */
#include "core/array.h"
#include "core/clock.h"
#include "ipc/memsync.h"
#include "tests/bench/samples.h"
#include "tests/support/files.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

#define CLIENTS_MAX 64
#define TIMEOUT_MS 10000
#define WARM_UPS 100
#define ECHO_BYTES_MAX 65536

static struct {
    const char *endpoint;
    char **lines; /* params; NULL: an echo */
    size_t line_count, line_capacity;
    size_t request_bytes;
    pthread_barrier_t start; /* everybody is connected and warm */
    uint64_t seconds;
} bench;

struct client {
    pthread_t thread;
    size_t number;
    memsync_client *agent;
    void *zmq, *dealer;
    struct samples samples;
    size_t reply_bytes;
};

/* One request and its answer. */
static void call(struct client *client, size_t at)
{
    char *reply = NULL;

    if (memsync_call(client->agent, "search", bench.lines[at % bench.line_count], TIMEOUT_MS,
                     &reply) != MEMSYNC_OK)
        test_die("a search failed: %s", memsync_last_error());
    client->reply_bytes = strlen(reply);
    memsync_free(reply);
}

static void ask_echo(struct client *client, size_t at UNUSED)
{
    char request[ECHO_BYTES_MAX] = {0};
    char reply[ECHO_BYTES_MAX];

    if (zmq_send(client->dealer, request, bench.request_bytes, 0) < 0)
        test_die("cannot send: %s", zmq_strerror(errno));
    int size = zmq_recv(client->dealer, reply, sizeof reply, 0);
    if (size < 0)
        test_die("cannot receive: %s", zmq_strerror(errno));
    client->reply_bytes = (size_t) size;
}

static void connect_to(struct client *client)
{
    if (bench.lines) {
        if (memsync_open(bench.endpoint, &client->agent) != MEMSYNC_OK)
            test_die("%s", memsync_last_error());
        return;
    }
    client->zmq = zmq_ctx_new();
    client->dealer = zmq_socket(client->zmq, ZMQ_DEALER);
    if (!client->dealer || zmq_connect(client->dealer, bench.endpoint) < 0)
        test_die("cannot connect: %s", zmq_strerror(errno));
}

static void disconnect(struct client *client)
{
    memsync_close(&client->agent);
    if (client->dealer)
        (void) zmq_close(client->dealer);
    if (client->zmq)
        (void) zmq_ctx_term(client->zmq);
}

static void *client_main(void *context)
{
    struct client *client = context;
    void (*trip)(struct client *, size_t) = bench.lines ? call : ask_echo;
    size_t at = client->number * 997; /* not all the same ones at once */

    connect_to(client);
    for (int i = 0; i < WARM_UPS; i++)
        trip(client, at++);
    (void) pthread_barrier_wait(&bench.start);
    uint64_t now_ns = clock_monotonic_ns();
    uint64_t end_ns = now_ns + bench.seconds * NS_PER_SECOND;
    while (now_ns < end_ns) {
        uint64_t begun_ns = now_ns;
        trip(client, at++);
        now_ns = clock_monotonic_ns();
        samples_add(&client->samples, now_ns - begun_ns);
    }
    disconnect(client);
    return NULL;
}

static void serve_echo(const char *endpoint, size_t reply_bytes)
{
    void *zmq = zmq_ctx_new();
    void *router = zmq_socket(zmq, ZMQ_ROUTER);
    char *reply = calloc(1, reply_bytes + 1);
    char id[256];
    char request[ECHO_BYTES_MAX];

    if (!router || !reply || zmq_bind(router, endpoint) < 0)
        test_die("cannot listen: %s", zmq_strerror(errno));
    for (;;) {
        int id_size = zmq_recv(router, id, sizeof id, 0);
        if (id_size < 0 || zmq_recv(router, request, sizeof request, 0) < 0 ||
            zmq_send(router, id, (size_t) id_size, ZMQ_SNDMORE) < 0 ||
            zmq_send(router, reply, reply_bytes, 0) < 0)
            test_die("cannot echo: %s", zmq_strerror(errno));
    }
}

static void run_clients(size_t count)
{
    struct client clients[CLIENTS_MAX] = {0};
    AUTO_SAMPLES struct samples all = {0};

    if (pthread_barrier_init(&bench.start, NULL, (unsigned) count + 1) != 0)
        test_die("no memory");
    for (size_t i = 0; i < count; i++) {
        clients[i].number = i;
        if (pthread_create(&clients[i].thread, NULL, client_main, &clients[i]) != 0)
            test_die("no thread");
    }
    (void) pthread_barrier_wait(&bench.start);
    uint64_t begun_ns = clock_monotonic_ns();
    for (size_t i = 0; i < count; i++) {
        (void) pthread_join(clients[i].thread, NULL);
        samples_add_all(&all, &clients[i].samples);
        samples_clear(&clients[i].samples);
    }
    double took = (double) (clock_monotonic_ns() - begun_ns) / (double) NS_PER_SECOND;
    (void) printf("{");
    samples_print(&all, "trip");
    (void) printf(", \"per_second\": %.0f, \"reply_bytes\": %zu}\n", (double) all.count / took,
                  clients[0].reply_bytes);
    (void) pthread_barrier_destroy(&bench.start);
}

static void read_lines(const char *path)
{
    FILE *file = fopen(path, "re");
    char line[4096];

    if (!file)
        test_die("cannot read %s: %s", path, strerror(errno));
    while (fgets(line, sizeof line, file)) {
        if (!array_make_room(&bench.lines, bench.line_count, &bench.line_capacity,
                             sizeof *bench.lines))
            test_die("no memory");
        bench.lines[bench.line_count++] = strdup(line);
    }
    (void) fclose(file);
    if (bench.line_count == 0)
        test_die("no requests in %s", path);
}

static void echo(size_t reply_bytes, size_t clients)
{
    char endpoint[64];

    (void) snprintf(endpoint, sizeof endpoint, "ipc://@memsync-bench-%ld", (long) getpid());
    pid_t server = fork();
    if (server == 0)
        serve_echo(endpoint, reply_bytes);
    bench.endpoint = endpoint;
    run_clients(clients);
    (void) kill(server, SIGKILL);
    (void) waitpid(server, NULL, 0);
}

int main(int argc, char **argv)
{
    if (argc != 6 || (strcmp(argv[1], "calls") != 0 && strcmp(argv[1], "echo") != 0)) {
        (void) fprintf(stderr, "usage: trips calls ENDPOINT REQUESTS CLIENTS SECONDS\n"
                               "       trips echo REQUEST-BYTES REPLY-BYTES CLIENTS SECONDS\n");
        return 2;
    }
    size_t clients = bench_number(argv[4], CLIENTS_MAX);
    bench.seconds = bench_number(argv[5], 3600);
    if (strcmp(argv[1], "echo") == 0) {
        bench.request_bytes = bench_number(argv[2], ECHO_BYTES_MAX);
        echo(bench_number(argv[3], ECHO_BYTES_MAX), clients);
        return 0;
    }
    bench.endpoint = argv[2];
    read_lines(argv[3]);
    run_clients(clients);
    for (size_t i = 0; i < bench.line_count; i++)
        free(bench.lines[i]);
    free(bench.lines);
    return 0;
}
