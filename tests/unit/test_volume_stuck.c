/* core/volume_stuck.h: what hangs, where, and since when. */
#include "core/volume_stuck.h"

#include "core/clock.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

TestSuite(volume_stuck, .timeout = 30);

/* A thread that is in a call until it is let go. */
struct caller {
    const char *operation;
    int dir_fd;
    const char *path;
    struct volume_stuck_seat *seat;
    sem_t in_call, let_go;
    pthread_t thread;
};

static void *call(void *context)
{
    struct caller *caller = context;

    caller->seat = volume_stuck_seat_here();
    volume_stuck_begin(caller->operation, caller->dir_fd, caller->path);
    (void) sem_post(&caller->in_call);
    while (sem_wait(&caller->let_go) != 0)
        continue;
    volume_stuck_end();
    return NULL;
}

static void begin(struct caller *caller)
{
    cr_assert(sem_init(&caller->in_call, 0, 0) == 0 && sem_init(&caller->let_go, 0, 0) == 0);
    cr_assert(pthread_create(&caller->thread, NULL, call, caller) == 0);
    while (sem_wait(&caller->in_call) != 0)
        continue;
}

static void end(struct caller *caller)
{
    (void) sem_post(&caller->let_go);
    (void) pthread_join(caller->thread, NULL);
}

static void expect_counted(unsigned count, uint64_t oldest_ns)
{
    uint64_t told_ns = 1;

    cr_expect_eq(volume_stuck_count(&told_ns), count);
    cr_expect(told_ns >= oldest_ns && told_ns < oldest_ns + VOLUME_STUCK_NS, "%lu",
              (unsigned long) told_ns);
}

Test(volume_stuck, tells_what_hangs_and_where_the_oldest_first)
{
    int fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct caller first = {.operation = "open", .dir_fd = fd, .path = "self/status"};
    struct caller second = {.operation = "sync", .dir_fd = fd, .path = ""};
    struct volume_stuck_call calls[4];

    begin(&first);
    cr_expect_eq(volume_stuck_list(calls, 4), 0, "it does not hang yet");
    expect_counted(0, 0);
    clock_advance_for_test(VOLUME_STUCK_NS);
    begin(&second);
    cr_assert_eq(volume_stuck_list(calls, 4), 1);
    clock_advance_for_test(VOLUME_STUCK_NS);
    cr_assert_eq(volume_stuck_list(calls, 4), 2);
    expect_counted(2, 2 * VOLUME_STUCK_NS);
    cr_expect_str_eq(calls[0].operation, "open");
    cr_expect_str_eq(calls[0].path, "/proc/self/status");
    cr_expect(calls[0].age_ns >= 2 * VOLUME_STUCK_NS && calls[0].age_ns < 60 * VOLUME_STUCK_NS);
    cr_expect_str_eq(calls[1].operation, "sync");
    cr_expect_str_eq(calls[1].path, "/proc");
    cr_expect(volume_stuck_age(first.seat) >= 2 * VOLUME_STUCK_NS);

    cr_assert_eq(volume_stuck_list(calls, 1), 2, "all are counted");
    cr_expect_str_eq(calls[0].operation, "open", "and the oldest told");
    end(&first);
    cr_assert_eq(volume_stuck_list(calls, 4), 1);
    cr_expect_str_eq(calls[0].operation, "sync");
    end(&second);
    cr_expect_eq(volume_stuck_list(calls, 4), 0);
    (void) close(fd);
}

Test(volume_stuck, who_waits_for_another_counts_and_is_not_listed)
{
    struct caller waiting = {.operation = VOLUME_STUCK_FOR_OTHERS, .dir_fd = -1, .path = ""};
    struct volume_stuck_call calls[1];

    begin(&waiting);
    clock_advance_for_test(VOLUME_STUCK_NS);
    cr_expect_eq(volume_stuck_list(calls, 1), 0);
    expect_counted(0, 0);
    cr_expect(volume_stuck_age(waiting.seat) >= VOLUME_STUCK_NS);
    end(&waiting);
}

Test(volume_stuck, long_paths_keep_their_end)
{
    char path[2000];
    struct caller caller = {.operation = "open", .dir_fd = -1, .path = path};
    struct volume_stuck_call calls[1];

    memset(path, 'x', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    begin(&caller);
    clock_advance_for_test(VOLUME_STUCK_NS);
    cr_assert_eq(volume_stuck_list(calls, 1), 1);
    cr_expect(strlen(calls[0].path) > 60 && strlen(calls[0].path) < sizeof calls[0].path);
    end(&caller);
}

/* More threads than there are seats, one after the other. */
Test(volume_stuck, seats_are_given_back)
{
    for (int i = 0; i < 3000; i++) {
        struct caller caller = {.operation = "open", .dir_fd = -1, .path = "x"};
        begin(&caller);
        cr_assert(caller.seat, "thread %d", i);
        end(&caller);
    }
}
