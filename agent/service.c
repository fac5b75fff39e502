#include "agent/service.h"

#include "core/clock.h"
#include "core/compiler.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>
#include <time.h>
#include <unistd.h>

#define STATUS_LINE_MAX 400

static const int waited_signals[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2};

static void fill_set(sigset_t *set)
{
    (void) sigemptyset(set);
    for (size_t i = 0; i < ARRAY_SIZE(waited_signals); i++)
        (void) sigaddset(set, waited_signals[i]);
}

enum status service_block_signals(struct error *error)
{
    sigset_t set;

    fill_set(&set);
    int problem = pthread_sigmask(SIG_BLOCK, &set, NULL);
    if (problem)
        return error_set_errno(error, problem, NULL, "signals cannot be blocked");
    if (signal(SIGPIPE, SIG_IGN) == SIG_ERR)
        return error_set_errno(error, errno, NULL, "SIGPIPE cannot be ignored");
    return STATUS_OK;
}

int service_next_signal(int timeout_ms)
{
    uint64_t deadline = timeout_ms < 0 ? CLOCK_NEVER : clock_deadline_ms((uint64_t) timeout_ms);
    sigset_t set;

    fill_set(&set);
    for (;;) {
        int left_ms = clock_remaining_ms(deadline);
        struct timespec wait = {left_ms / 1000, (long) (left_ms % 1000) * 1000000};
        int received = sigtimedwait(&set, NULL, &wait);
        if (received > 0)
            return received;
        if (left_ms == 0)
            return 0; /* EAGAIN; EINTR comes from signals that are not ours */
    }
}

bool service_is_supervised(void)
{
    const char *socket = getenv("NOTIFY_SOCKET");

    return socket && *socket;
}

/* The service manager takes one assignment a line, so a line of ours must stay one. */
static void notify(const char *assignments, const char *status_line)
{
    char line[STATUS_LINE_MAX + 1];

    (void) snprintf(line, sizeof line, "%s", status_line);
    for (char *at = line; *at; at++) {
        if ((unsigned char) *at < ' ')
            *at = ' ';
    }
    (void) sd_notifyf(0, "%sSTATUS=%s", assignments, line);
}

void service_ready(const char *status_line)
{
    notify("READY=1\n", status_line);
}

void service_status(const char *status_line)
{
    notify("", status_line);
}

void service_reloading(void)
{
    (void) sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%llu",
                      (unsigned long long) (clock_monotonic_ns() / NS_PER_US));
}

void service_stopping(void)
{
    (void) sd_notify(0, "STOPPING=1");
}

/* sd_notify() waits as long as the manager's socket is full. False: it is, and nothing was sent. */
static bool notify_at_once(const char *text)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *path = getenv("NOTIFY_SOCKET");
    size_t length = path ? strlen(path) : 0;

    if (length < 2 || length >= sizeof address.sun_path || (*path != '/' && *path != '@')) {
        (void) sd_notify(0, text); /* knows other kinds of addresses */
        return true;
    }
    memcpy(address.sun_path, path, length);
    if (*path == '@')
        address.sun_path[0] = '\0'; /* a name without a file */
    AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    socklen_t size = (socklen_t) (offsetof(struct sockaddr_un, sun_path) + length);
    ssize_t sent = sendto(fd, text, strlen(text), MSG_DONTWAIT | MSG_NOSIGNAL,
                          (const struct sockaddr *) &address, size);
    return sent >= 0 || errno != EAGAIN;
}

static pthread_once_t watchdog_once = PTHREAD_ONCE_INIT;
static uint64_t watchdog_interval_ns;    /* set once */
static _Atomic uint64_t watchdog_due_ns; /* monotonic; 0: at once */

static void learn_watchdog(void)
{
    uint64_t interval_us = 0;

    if (sd_watchdog_enabled(0, &interval_us) > 0 && interval_us < UINT64_MAX / NS_PER_US)
        watchdog_interval_ns = interval_us * NS_PER_US;
}

uint64_t service_watchdog_interval_ns(void)
{
    (void) pthread_once(&watchdog_once, learn_watchdog);
    return watchdog_interval_ns;
}

void service_feed_watchdog(void)
{
    uint64_t interval = service_watchdog_interval_ns();
    uint64_t due = atomic_load_explicit(&watchdog_due_ns, memory_order_relaxed);

    if (interval == 0)
        return;
    uint64_t now = clock_monotonic_ns();
    if (now < due || !atomic_compare_exchange_strong(&watchdog_due_ns, &due, now + interval / 4))
        return;
    if (!notify_at_once("WATCHDOG=1"))
        atomic_store_explicit(&watchdog_due_ns, 0, memory_order_relaxed);
}

bool service_stderr_is_journal(void)
{
    const char *stream = getenv("JOURNAL_STREAM");
    unsigned long long device = 0;
    unsigned long long inode = 0;
    char behind = '\0';
    struct stat st;

    if (!stream || sscanf(stream, "%llu:%llu%c", &device, &inode, &behind) != 2)
        return false;
    return fstat(STDERR_FILENO, &st) == 0 && st.st_dev == device && st.st_ino == inode;
}
