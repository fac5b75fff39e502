#include "ipc/endpoint.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <zmq.h>

/* Criterion keeps truth values in bit fields and texts in pointers to char. */
#pragma GCC diagnostic ignored "-Wconversion"
#define STR(text) ((char *) (uintptr_t) (text))

static char directory[64];

static void make_directory(void)
{
    (void) snprintf(directory, sizeof directory, "/tmp/memsync-endpoint-XXXXXX");
    cr_assert(ne(ptr, mkdtemp(directory), NULL));
}

static void remove_directory(void)
{
    char command[128];

    (void) snprintf(command, sizeof command, "rm -rf '%s'", directory);
    cr_expect(zero(int, system(command)));
}

TestSuite(endpoint, .init = make_directory, .fini = remove_directory, .timeout = 20);

/* ipc://<directory>/<name> */
static char *endpoint_named(const char *name)
{
    static char endpoint[256];

    (void) snprintf(endpoint, sizeof endpoint, "ipc://%s/%s", directory, name);
    return endpoint;
}

static const char *path_named(const char *name)
{
    return endpoint_named(name) + strlen("ipc://");
}

static bool exists(const char *name)
{
    struct stat st;

    return lstat(path_named(name), &st) == 0;
}

static int listen_at(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    cr_assert(strlen(path) < sizeof address.sun_path);
    memcpy(address.sun_path, path, strlen(path) + 1);
    cr_assert(zero(int, bind(fd, (struct sockaddr *) &address, sizeof address)));
    cr_assert(zero(int, listen(fd, 5)));
    return fd;
}

Test(endpoint, the_form_is_checked)
{
    static const struct {
        const char *endpoint;
        bool curve;
        enum status status;
    } cases[] = {
        {"ipc:///run/memsync/memsyncd.sock", false, STATUS_OK},
        {"ipc://@memsync", false, STATUS_OK},
        {"ipc://@", false, STATUS_INVALID},
        {"ipc://", false, STATUS_INVALID},
        {"ipc:///", false, STATUS_INVALID},
        {"ipc:///run/", false, STATUS_INVALID},
        {"ipc://relative.sock", false, STATUS_INVALID},
        {"ipc://*", false, STATUS_INVALID},
        {"tcp://127.0.0.1:5555", false, STATUS_OK},
        {"tcp://127.8.9.10:1", false, STATUS_OK},
        {"tcp://[::1]:65535", false, STATUS_OK},
        {"tcp://127.0.0.1", false, STATUS_INVALID},
        {"tcp://127.0.0.1:0", false, STATUS_INVALID},
        {"tcp://127.0.0.1:65536", false, STATUS_INVALID},
        {"tcp://127.0.0.1:*", false, STATUS_INVALID},
        {"tcp://127.0.0.1:80x", false, STATUS_INVALID},
        {"tcp://:5555", false, STATUS_INVALID},
        {"tcp://localhost:5555", false, STATUS_INVALID}, /* libzmq binds to numbers only */
        {"tcp://0.0.0.0:5555", false, STATUS_INVALID},
        {"tcp://*:5555", false, STATUS_INVALID},
        {"tcp://10.0.0.1:5555", false, STATUS_INVALID},
        {"tcp://[::]:5555", false, STATUS_INVALID},
        {"tcp://[::ffff:127.0.0.1]:5555", false, STATUS_INVALID},
        {"tcp://10.0.0.1:5555", true, STATUS_OK},
        {"tcp://*:5555", true, STATUS_OK},
        {"tcp://*:", true, STATUS_INVALID},
        {"inproc://x", false, STATUS_INVALID},
        {"/run/memsyncd.sock", false, STATUS_INVALID},
        {"", false, STATUS_INVALID},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct error error = {0};

        cr_expect(eq(int, endpoint_check(cases[i].endpoint, cases[i].curve, &error),
                     cases[i].status),
                  "row %zu: %s", i, cases[i].endpoint);
        if (cases[i].status != STATUS_OK)
            cr_expect(ne(chr, error.message[0], '\0'), "row %zu", i);
    }
}

Test(endpoint, a_path_of_107_bytes_works_and_108_are_told_with_length_and_limit)
{
    static const struct {
        int length;
        enum status status;
    } cases[] = {{107, STATUS_OK}, {108, STATUS_INVALID}};

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char endpoint[256];
        struct error error = {0};
        struct endpoint *claim = NULL;
        int fill = cases[i].length - (int) strlen(directory) - 1;

        (void) snprintf(endpoint, sizeof endpoint, "ipc://%s/%0*d", directory, fill, 0);
        cr_expect(eq(int, endpoint_check(endpoint, false, &error), cases[i].status));
        cr_expect(eq(int, endpoint_claim(endpoint, false, &claim, &error), cases[i].status));
        if (cases[i].status == STATUS_OK) {
            void *context = zmq_ctx_new();
            void *router = zmq_socket(context, ZMQ_ROUTER);
            cr_expect(zero(int, zmq_bind(router, endpoint)));
            (void) zmq_close(router);
            (void) zmq_ctx_term(context);
        } else {
            cr_expect(ne(ptr, strstr(error.message, "108"), NULL), "%s", error.message);
            cr_expect(ne(ptr, strstr(error.message, "107"), NULL), "%s", error.message);
        }
        endpoint_release(&claim);
    }
}

Test(endpoint, a_claim_leaves_nothing_behind)
{
    struct endpoint *claim = NULL;
    struct error error = {0};

    cr_assert(eq(int, endpoint_claim(endpoint_named("s"), false, &claim, &error), STATUS_OK), "%s",
              error.message);
    cr_expect(exists("s.lock"));
    (void) close(listen_at(path_named("s")));
    endpoint_release(&claim);
    cr_expect(eq(ptr, claim, NULL));
    cr_expect(not(exists("s")));
    cr_expect(not(exists("s.lock")));
    endpoint_release(&claim);
}

Test(endpoint, a_second_claim_is_told_who_runs)
{
    struct endpoint *first = NULL;
    struct endpoint *second = NULL;
    struct error error = {0};
    char expected[320];

    cr_assert(eq(int, endpoint_claim(endpoint_named("s"), false, &first, &error), STATUS_OK));
    cr_expect(eq(int, endpoint_claim(endpoint_named("s"), false, &second, &error), STATUS_BUSY));
    (void) snprintf(expected, sizeof expected, "already running, pid %ld, serves %s",
                    (long) getpid(), endpoint_named("s"));
    cr_expect(eq(str, STR(error.message), STR(expected)));
    cr_expect(eq(ptr, second, NULL));
    cr_expect(exists("s.lock"), "the loser must not remove the winner's lock");
    endpoint_release(&first);
    cr_expect(eq(int, endpoint_claim(endpoint_named("s"), false, &second, &error), STATUS_OK));
    endpoint_release(&second);
}

Test(endpoint, the_claim_of_a_killed_process_is_free)
{
    struct endpoint *claim = NULL;
    struct error error = {0};
    int ready[2];
    char byte;

    cr_assert(zero(int, pipe2(ready, O_CLOEXEC)));
    pid_t child = fork();
    if (child == 0) {
        (void) !endpoint_claim(endpoint_named("s"), false, &claim, &error);
        (void) listen_at(path_named("s"));
        (void) !write(ready[1], "x", 1);
        for (;;)
            (void) pause();
    }
    cr_assert(eq(sz, (size_t) read(ready[0], &byte, 1), 1));
    cr_expect(eq(int, endpoint_claim(endpoint_named("s"), false, &claim, &error), STATUS_BUSY));
    cr_expect(ne(ptr, strstr(error.message, "already running"), NULL), "%s", error.message);
    (void) kill(child, SIGKILL);
    (void) waitpid(child, NULL, 0);

    cr_expect(exists("s"), "a dead socket lies there");
    cr_assert(eq(int, endpoint_claim(endpoint_named("s"), false, &claim, &error), STATUS_OK), "%s",
              error.message);
    cr_expect(not(exists("s")), "the dead socket is gone");
    endpoint_release(&claim);
    (void) close(ready[0]);
    (void) close(ready[1]);
}

Test(endpoint, a_live_socket_of_a_program_without_our_lock_is_left_alone)
{
    struct endpoint *claim = NULL;
    struct error error = {0};
    int fd = listen_at(path_named("s"));
    char expected[320];

    cr_expect(eq(int, endpoint_claim(endpoint_named("s"), false, &claim, &error), STATUS_BUSY));
    (void) snprintf(expected, sizeof expected, "already running, pid %ld, serves %s",
                    (long) getpid(), endpoint_named("s"));
    cr_expect(eq(str, STR(error.message), STR(expected)));
    cr_expect(exists("s"));
    cr_expect(not(exists("s.lock")));
    (void) close(fd);
}

Test(endpoint, whatever_is_no_socket_survives_and_is_named)
{
    static const char *const names[] = {"file", "directory", "link"};

    int fd = open(path_named("file"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    cr_assert(eq(sz, (size_t) write(fd, "dear", 4), 4));
    (void) close(fd);
    cr_assert(zero(int, mkdir(path_named("directory"), 0700)));
    cr_assert(zero(int, symlink("/nowhere", path_named("link"))));

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        struct endpoint *claim = NULL;
        struct error error = {0};

        cr_expect(eq(int, endpoint_claim(endpoint_named(names[i]), false, &claim, &error),
                     STATUS_INVALID),
                  "%s", names[i]);
        cr_expect(ne(ptr, strstr(error.message, path_named(names[i])), NULL), "%s", error.message);
        cr_expect(exists(names[i]));
        char lock[32];
        (void) snprintf(lock, sizeof lock, "%s.lock", names[i]);
        cr_expect(not(exists(lock)), "%s", names[i]);
    }
}

Test(endpoint, a_missing_directory_is_made_only_on_request_and_only_the_last_part)
{
    struct endpoint *claim = NULL;
    struct error error = {0};

    cr_expect(
        eq(int, endpoint_claim(endpoint_named("sub/s"), false, &claim, &error), STATUS_NOT_FOUND));
    cr_expect(ne(ptr, strstr(error.message, "sub"), NULL), "%s", error.message);
    cr_expect(
        eq(int, endpoint_claim(endpoint_named("a/b/s"), true, &claim, &error), STATUS_NOT_FOUND));
    cr_expect(not(exists("a")));
    cr_expect(eq(int, endpoint_claim(endpoint_named("sub/s"), true, &claim, &error), STATUS_OK));
    endpoint_release(&claim);
    cr_expect(exists("sub"));
    cr_expect(eq(int, endpoint_claim(endpoint_named("sub/s"), true, &claim, &error), STATUS_OK));
    endpoint_release(&claim);
}

Test(endpoint, a_directory_that_is_a_file_is_refused)
{
    struct endpoint *claim = NULL;
    struct error error = {0};

    (void) close(open(path_named("file"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    cr_expect(
        eq(int, endpoint_claim(endpoint_named("file/s"), true, &claim, &error), STATUS_INVALID));
}

Test(endpoint, a_link_in_the_place_of_the_lock_is_not_followed)
{
    struct endpoint *claim = NULL;
    struct error error = {0};
    char victim[256];

    (void) snprintf(victim, sizeof victim, "%s", path_named("victim"));
    cr_assert(zero(int, symlink(victim, path_named("s.lock"))));
    cr_expect(eq(int, endpoint_claim(endpoint_named("s"), false, &claim, &error), STATUS_DENIED));
    cr_expect(not(exists("victim")));
}

Test(endpoint, abstract_names_and_tcp_need_no_file)
{
    static const char *const endpoints[] = {"ipc://@memsync-test", "tcp://127.0.0.1:5999"};

    for (size_t i = 0; i < ARRAY_SIZE(endpoints); i++) {
        struct endpoint *claim = NULL;
        struct error error = {0};

        cr_assert(eq(int, endpoint_claim(endpoints[i], true, &claim, &error), STATUS_OK));
        cr_expect(eq(int, endpoint_set_access(claim, 0600, NULL, &error), STATUS_OK));
        endpoint_release(&claim);
    }
}

Test(endpoint, mode_and_group_are_set)
{
    struct endpoint *claim = NULL;
    struct error error = {0};
    struct stat st;
    const struct group *own = getgrgid(getgid());

    cr_assert(eq(int, endpoint_claim(endpoint_named("s"), false, &claim, &error), STATUS_OK));
    int fd = listen_at(path_named("s"));
    cr_expect(eq(int, endpoint_set_access(claim, 0640, own ? own->gr_name : NULL, &error),
                 STATUS_OK),
              "%s", error.message);
    cr_assert(zero(int, lstat(path_named("s"), &st)));
    cr_expect(eq(uint, st.st_mode & 07777, 0640));
    cr_expect(eq(uint, st.st_gid, getgid()));
    cr_expect(
        eq(int, endpoint_set_access(claim, 0640, "no-such-group-here", &error), STATUS_INVALID));
    cr_expect(ne(ptr, strstr(error.message, "no-such-group-here"), NULL));
    (void) close(fd);
    endpoint_release(&claim);
}

Test(endpoint, a_socket_that_was_never_bound_cannot_get_a_mode)
{
    struct endpoint *claim = NULL;
    struct error error = {0};

    cr_assert(eq(int, endpoint_claim(endpoint_named("s"), false, &claim, &error), STATUS_OK));
    cr_expect(eq(int, endpoint_set_access(claim, 0600, NULL, &error), STATUS_NOT_FOUND));
    endpoint_release(&claim);
}
