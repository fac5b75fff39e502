#include "agent/service.h"

#include "core/clock.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

/* A stand-in for the service manager: the datagram socket that $NOTIFY_SOCKET names. */
static char directory[] = "/tmp/memsync-service-XXXXXX";
static char socket_path[64];
static int manager_fd = -1;

static void start_manager(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    cr_assert_not_null(mkdtemp(directory));
    (void) snprintf(socket_path, sizeof socket_path, "%s/notify", directory);
    (void) snprintf(address.sun_path, sizeof address.sun_path, "%s", socket_path);
    manager_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    cr_assert_geq(manager_fd, 0);
    cr_assert_eq(bind(manager_fd, (const struct sockaddr *) &address, sizeof address), 0);
    cr_assert_eq(setenv("NOTIFY_SOCKET", socket_path, 1), 0);
}

static void stop_manager(void)
{
    (void) close(manager_fd);
    (void) unlink(socket_path);
    (void) rmdir(directory);
}

/* The next notification, "" when none is waiting: they are in the socket as soon as they are sent.
 */
static const char *received(void)
{
    static char message[4096];
    ssize_t size = recv(manager_fd, message, sizeof message - 1, MSG_DONTWAIT);

    message[size > 0 ? size : 0] = '\0';
    return message;
}

TestSuite(service, .init = start_manager, .fini = stop_manager);

Test(service, tells_its_state)
{
    service_ready("serving /srv/v");
    cr_expect_str_eq(received(), "READY=1\nSTATUS=serving /srv/v");
    service_status("refreshing");
    cr_expect_str_eq(received(), "STATUS=refreshing");
    service_reloading();
    cr_expect_eq(strncmp(received(), "RELOADING=1\nMONOTONIC_USEC=", 27), 0);
    service_stopping();
    cr_expect_str_eq(received(), "STOPPING=1");
    cr_expect_str_eq(received(), "");
}

Test(service, a_status_line_cannot_carry_another_assignment)
{
    service_status("volume /a\nSTOPPING=1\tb");
    cr_expect_str_eq(received(), "STATUS=volume /a STOPPING=1 b");
}

Test(service, a_long_status_line_is_cut)
{
    char line[2000];

    memset(line, 'x', sizeof line - 1);
    line[sizeof line - 1] = '\0';
    service_status(line);
    cr_expect_lt(strlen(received()), 500);
}

Test(service, works_without_a_manager)
{
    cr_assert_eq(unsetenv("NOTIFY_SOCKET"), 0);
    service_ready("nobody listens");
    service_stopping();
    service_feed_watchdog();
    cr_expect_eq(service_watchdog_interval_ns(), 0);
    cr_expect_str_eq(received(), "");
}

static void want_watchdog(const char *interval_us)
{
    char pid[32];

    (void) snprintf(pid, sizeof pid, "%d", (int) getpid());
    cr_assert_eq(setenv("WATCHDOG_PID", pid, 1), 0);
    cr_assert_eq(setenv("WATCHDOG_USEC", interval_us, 1), 0);
}

Test(service, feeds_the_watchdog_at_once_and_then_each_quarter_of_its_interval)
{
    want_watchdog("3600000000"); /* an hour: the test's own time does not count */
    cr_expect_eq(service_watchdog_interval_ns(), 3600 * NS_PER_SECOND);
    service_feed_watchdog();
    cr_expect_str_eq(received(), "WATCHDOG=1");
    for (int i = 0; i < 100; i++)
        service_feed_watchdog();
    cr_expect_str_eq(received(), "", "not again so soon");
    clock_advance_for_test(800 * NS_PER_SECOND);
    service_feed_watchdog();
    cr_expect_str_eq(received(), "");
    clock_advance_for_test(100 * NS_PER_SECOND);
    service_feed_watchdog();
    cr_expect_str_eq(received(), "WATCHDOG=1");
    service_feed_watchdog();
    cr_expect_str_eq(received(), "");
}

Test(service, a_loop_that_turns_twice_in_an_interval_is_in_time)
{
    unsigned fed = 0;

    want_watchdog("2000000000");
    for (int second = 0; second < 20000; second += 999) {
        service_feed_watchdog();
        fed += *received() != '\0';
        clock_advance_for_test(999 * NS_PER_SECOND);
    }
    cr_expect_eq(fed, 21);
}

/* The serving thread feeds it: a supervisor that does not read must not hold that up. */
Test(service, a_full_socket_is_not_waited_for, .timeout = 20)
{
    struct sockaddr_un manager = {.sun_family = AF_UNIX};
    char byte;
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    want_watchdog("3600000000");
    (void) snprintf(manager.sun_path, sizeof manager.sun_path, "%s", socket_path);
    cr_assert_eq(connect(fd, (const struct sockaddr *) &manager, sizeof manager), 0);
    while (send(fd, "x", 1, 0) == 1)
        ;
    service_feed_watchdog();
    for (const char *message; *(message = received()) != '\0';)
        cr_expect_str_eq(message, "x");
    service_feed_watchdog();
    cr_expect_str_eq(received(), "WATCHDOG=1", "the next turn does it");
    (void) close(fd);

    /* one without a name in the file system */
    int other = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    (void) snprintf(manager.sun_path, sizeof manager.sun_path, "@%s", directory);
    cr_assert_eq(setenv("NOTIFY_SOCKET", manager.sun_path, 1), 0);
    socklen_t size =
        (socklen_t) (offsetof(struct sockaddr_un, sun_path) + strlen(manager.sun_path));
    manager.sun_path[0] = '\0';
    cr_assert_eq(bind(other, (const struct sockaddr *) &manager, size), 0);
    clock_advance_for_test(1000 * NS_PER_SECOND);
    service_feed_watchdog();
    cr_expect_eq(recv(other, &byte, 1, MSG_DONTWAIT), 1);
    (void) close(other);
}

Test(service, another_process_watchdog_is_not_ours)
{
    want_watchdog("1000000");
    cr_assert_eq(setenv("WATCHDOG_PID", "1", 1), 0);
    cr_expect_eq(service_watchdog_interval_ns(), 0);
    service_feed_watchdog();
    cr_expect_str_eq(received(), "");
}

Test(service, signals_wait_until_they_are_asked_for)
{
    static const int signals[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2};
    struct error error;

    cr_assert_eq(service_block_signals(&error), STATUS_OK);
    for (size_t i = 0; i < ARRAY_SIZE(signals); i++) {
        cr_assert_eq(kill(getpid(), signals[i]), 0);
        cr_expect_eq(service_next_signal(-1), signals[i], "row %zu", i);
    }
    cr_expect_eq(service_next_signal(0), 0);
}

Test(service, a_closed_pipe_is_an_error_and_not_the_end)
{
    struct error error;
    int ends[2];

    cr_assert_eq(service_block_signals(&error), STATUS_OK);
    cr_assert_eq(pipe(ends), 0);
    (void) close(ends[0]);
    cr_expect_eq(write(ends[1], "x", 1), -1);
    (void) close(ends[1]);
}

static void ignore_it(int number)
{
    (void) number;
}

static void *send_others(void *waiting)
{
    for (int i = 0; i < 20; i++)
        (void) pthread_kill(*(pthread_t *) waiting, SIGWINCH);
    (void) kill(getpid(), SIGHUP);
    return NULL;
}

Test(service, other_signals_do_not_end_the_wait, .timeout = 10)
{
    struct sigaction action = {.sa_handler = ignore_it};
    pthread_t waiting = pthread_self();
    struct error error;
    pthread_t thread;

    cr_assert_eq(service_block_signals(&error), STATUS_OK);
    cr_assert_eq(sigaction(SIGWINCH, &action, NULL), 0);
    cr_assert_eq(pthread_create(&thread, NULL, send_others, &waiting), 0);
    cr_expect_eq(service_next_signal(-1), SIGHUP);
    (void) pthread_join(thread, NULL);
}

Test(service, the_journal_is_known_by_device_and_inode)
{
    char stream[64];
    struct stat st;

    cr_assert_eq(unsetenv("JOURNAL_STREAM"), 0);
    cr_expect_not(service_stderr_is_journal());
    cr_assert_eq(fstat(STDERR_FILENO, &st), 0);
    (void) snprintf(stream, sizeof stream, "%llu:%llu", (unsigned long long) st.st_dev,
                    (unsigned long long) st.st_ino);
    cr_assert_eq(setenv("JOURNAL_STREAM", stream, 1), 0);
    cr_expect(service_stderr_is_journal());
    (void) snprintf(stream, sizeof stream, "%llu:%llu", (unsigned long long) st.st_dev,
                    (unsigned long long) st.st_ino + 1);
    cr_assert_eq(setenv("JOURNAL_STREAM", stream, 1), 0);
    cr_expect_not(service_stderr_is_journal());
    cr_assert_eq(setenv("JOURNAL_STREAM", "1:2:3", 1), 0);
    cr_expect_not(service_stderr_is_journal());
    cr_assert_eq(setenv("JOURNAL_STREAM", "", 1), 0);
    cr_expect_not(service_stderr_is_journal());
}
