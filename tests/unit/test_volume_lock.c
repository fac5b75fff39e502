/* core/volume_lock.h: processes, threads, a lock file that is replaced, and volumes without locks.
 */
#include "core/volume_lock.h"

#include "core/clock.h"
#include "core/volume_private.h"
#include "core/volume_stuck.h"
#include "tests/unit/volume_fixture.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/file.h>
#include <sys/wait.h>

#define LOCK_PATH "users/u1/" JOURNAL_LOCK_NAME

static char dir[SCRATCH_SIZE];
static struct volume_calls calls;
static struct volume *volume;
static struct volume_lock_table *table;
static struct scope scope;
static struct error error;

static void set_up(void)
{
    calls = *volume_real_calls();
    scratch_create(dir);
    put_dir(dir, "users/u1");
    cr_assert(eq(int,
                 volume_open(&(struct volume_options){.path = dir, .calls = &calls}, &volume, NULL),
                 STATUS_OK));
    cr_assert(eq(int, volume_lock_table_create(&table), STATUS_OK));
    cr_assert(eq(int, scope_create("u1", NULL, &scope, NULL), STATUS_OK));
}

static void tear_down(void)
{
    volume_lock_table_destroy(&table);
    volume_close(&volume);
    scratch_remove(dir);
}

TestSuite(volume_lock, .init = set_up, .fini = tear_down, .timeout = 60);

static enum status acquire(enum volume_lock_mode mode, uint64_t deadline_ns,
                           struct volume_lock **ret)
{
    return volume_lock_acquire(table, volume, &scope, mode, true, deadline_ns, ret, &error);
}

/* Takes and releases. */
static enum status try_exclusive(void)
{
    struct volume_lock *lock = NULL;
    enum status status = acquire(VOLUME_LOCK_EXCLUSIVE, 0, &lock);

    volume_lock_release(&lock);
    return status;
}

/* Whether somebody else could lock the file that has the name now. */
static bool name_is_free(void)
{
    char path[PATH_MAX];
    AUTO_CLOSE int fd = open(joined(path, dir, LOCK_PATH), O_RDWR | O_CLOEXEC);

    cr_assert(ge(int, fd, 0));
    return flock(fd, LOCK_EX | LOCK_NB) == 0;
}

/* ---- another process ---- */

struct holder {
    pid_t pid;
};

/* A process that holds the lock until it is killed. */
static struct holder holder_start(int operation)
{
    int pipe_fds[2];
    char byte = 0;
    struct holder holder;

    cr_assert(zero(int, pipe2(pipe_fds, O_CLOEXEC)));
    holder.pid = fork();
    cr_assert(ge(int, holder.pid, 0));
    if (holder.pid == 0) {
        char path[PATH_MAX];
        (void) snprintf(path, sizeof path, "%s/%s", dir, LOCK_PATH);
        int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
        if (fd < 0 || flock(fd, operation) < 0 || write(pipe_fds[1], "x", 1) != 1)
            _exit(1);
        for (;;)
            (void) pause();
    }
    (void) close(pipe_fds[1]);
    cr_assert(eq(int, (int) read(pipe_fds[0], &byte, 1), 1));
    (void) close(pipe_fds[0]);
    return holder;
}

static void holder_kill(const struct holder *holder)
{
    cr_assert(zero(int, kill(holder->pid, SIGKILL)));
    cr_assert(eq(int, waitpid(holder->pid, NULL, 0), holder->pid));
}

Test(volume_lock, waits_for_another_process_until_the_deadline)
{
    struct holder holder = holder_start(LOCK_EX);
    struct volume_lock *lock = NULL;

    uint64_t before_ns = clock_monotonic_ns();
    cr_expect(eq(int, acquire(VOLUME_LOCK_EXCLUSIVE, 0, &lock), STATUS_BUSY));
    cr_expect(lt(u64, clock_monotonic_ns() - before_ns, NS_PER_SECOND));
    cr_expect(same_text(error.path, LOCK_PATH));

    before_ns = clock_monotonic_ns();
    cr_expect(eq(int, acquire(VOLUME_LOCK_SHARED, clock_deadline_ms(130), &lock), STATUS_BUSY));
    uint64_t waited_ns = clock_monotonic_ns() - before_ns;
    cr_expect(ge(u64, waited_ns, 130 * NS_PER_MS));
    cr_expect(lt(u64, waited_ns, 10 * NS_PER_SECOND));
    cr_expect(eq(ptr, lock, NULL));

    holder_kill(&holder); /* the kernel frees what the dead held */
    cr_expect(eq(int, acquire(VOLUME_LOCK_EXCLUSIVE, clock_deadline_ms(5000), &lock), STATUS_OK));
    cr_expect(not(name_is_free()));
    volume_lock_release(&lock);
    cr_expect(name_is_free());
}

Test(volume_lock, shared_holders_of_two_processes_go_together)
{
    struct holder holder = holder_start(LOCK_SH);
    struct volume_lock *lock = NULL;

    cr_expect(eq(int, acquire(VOLUME_LOCK_EXCLUSIVE, 0, &lock), STATUS_BUSY));
    cr_expect(eq(int, acquire(VOLUME_LOCK_SHARED, 0, &lock), STATUS_OK));
    volume_lock_release(&lock);
    holder_kill(&holder);
}

/* ---- the file ---- */

Test(volume_lock, the_file_is_made_as_its_directory_allows_and_stays)
{
    char path[PATH_MAX];
    struct stat first;
    struct stat second;

    cr_assert(zero(int, chmod(joined(path, dir, "users/u1"), 0750)));
    (void) umask(0077);
    cr_expect(eq(int, try_exclusive(), STATUS_OK));
    cr_assert(zero(int, stat(joined(path, dir, LOCK_PATH), &first)));
    cr_expect(eq(u32, first.st_mode & 07777, 0640));
    cr_expect(zero(i64, (int64_t) first.st_size));
    cr_expect(eq(int, try_exclusive(), STATUS_OK));
    cr_assert(zero(int, stat(path, &second)));
    cr_expect(eq(u64, second.st_ino, first.st_ino));
}

Test(volume_lock, without_leave_nothing_is_made)
{
    struct volume_lock *lock = NULL;

    cr_expect(
        eq(int,
           volume_lock_acquire(table, volume, &scope, VOLUME_LOCK_SHARED, false, 0, &lock, &error),
           STATUS_NOT_FOUND));
    cr_expect(not(has_file(dir, LOCK_PATH)));
    cr_expect(eq(int, try_exclusive(), STATUS_OK));
    cr_expect(
        eq(int,
           volume_lock_acquire(table, volume, &scope, VOLUME_LOCK_SHARED, false, 0, &lock, &error),
           STATUS_OK));
    volume_lock_release(&lock);

    cr_assert(eq(int, scope_create("nobody", NULL, &scope, NULL), STATUS_OK));
    cr_expect(eq(int, try_exclusive(), STATUS_NOT_FOUND)); /* users are not made by locking them */
    cr_expect(not(has_file(dir, "users/nobody")));
}

static unsigned lookups;

static int open_counting_lookups(int dir_fd, const char *path, int flags, mode_t mode)
{
    lookups += strcmp(path, JOURNAL_LOCK_NAME) == 0;
    return volume_real_calls()->open_beneath(dir_fd, path, flags, mode);
}

Test(volume_lock, a_name_that_no_listing_shows_is_not_looked_up_where_that_would_stick)
{
    enum volume_kind kind = VOLUME_UNKNOWN;
    struct volume *cached = NULL;
    struct volume_lock *lock = NULL;
    struct volume_options options = {.path = dir, .calls = &calls, .force_kind = &kind};

    calls.open_beneath = open_counting_lookups;
    cr_assert(eq(int, volume_open(&options, &cached, NULL), STATUS_OK));
    cr_expect(
        eq(int,
           volume_lock_acquire(table, cached, &scope, VOLUME_LOCK_SHARED, false, 0, &lock, &error),
           STATUS_NOT_FOUND));
    cr_expect(zero(u32, lookups));
    cr_expect(
        eq(int,
           volume_lock_acquire(table, cached, &scope, VOLUME_LOCK_SHARED, true, 0, &lock, &error),
           STATUS_OK));
    cr_expect(eq(u32, lookups, 1));
    volume_lock_release(&lock);
    volume_close(&cached);
}

/* What happens between opening the file and locking it, once. */
static void (*before_lock)(void);
static unsigned lock_calls;

static int lock_after_change(int fd, int operation)
{
    if (operation != LOCK_UN)
        lock_calls++;
    if (before_lock)
        before_lock();
    before_lock = NULL;
    return flock(fd, operation);
}

static void replace_lock_file(void)
{
    char from[PATH_MAX];
    char to[PATH_MAX];

    put_file(dir, "users/u1/other", "");
    cr_assert(zero(int, rename(joined(from, dir, "users/u1/other"), joined(to, dir, LOCK_PATH))));
}

static void remove_lock_file(void)
{
    char path[PATH_MAX];

    cr_assert(zero(int, unlink(joined(path, dir, LOCK_PATH))));
}

static void replace_bucket(void)
{
    char from[PATH_MAX];
    char to[PATH_MAX];

    cr_assert(zero(int, rename(joined(from, dir, "users/u1"), joined(to, dir, "users/gone"))));
    put_dir(dir, "users/u1");
    put_file(dir, LOCK_PATH, "");
}

Test(volume_lock, a_file_that_is_no_longer_the_one_of_that_name_does_not_count)
{
    void (*const changes[])(void) = {replace_lock_file, remove_lock_file};

    calls.lock = lock_after_change;
    for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
        struct volume_lock *lock = NULL;
        lock_calls = 0;
        before_lock = changes[i];
        cr_assert(eq(int, acquire(VOLUME_LOCK_EXCLUSIVE, clock_deadline_ms(5000), &lock),
                     STATUS_OK),
                  "row %zu", i);
        cr_expect(eq(u32, lock_calls, 2), "row %zu", i);
        cr_expect(not(name_is_free()), "row %zu", i);
        volume_lock_release(&lock);
    }
}

Test(volume_lock, a_bucket_that_was_made_anew_while_its_lock_was_busy_is_locked_anew)
{
    struct holder holder = holder_start(LOCK_EX); /* of the old bucket, until the end */
    struct volume_lock *lock = NULL;

    calls.lock = lock_after_change;
    before_lock = replace_bucket;
    cr_expect(eq(int, acquire(VOLUME_LOCK_EXCLUSIVE, clock_deadline_ms(5000), &lock), STATUS_OK));
    cr_expect(not(name_is_free()));
    volume_lock_release(&lock);
    holder_kill(&holder);
}

Test(volume_lock, links_pipes_and_directories_are_no_lock_files)
{
    char path[PATH_MAX];

    put_file(dir, "outside", "");
    cr_assert(zero(int, symlink("../../outside", joined(path, dir, LOCK_PATH))));
    cr_expect(eq(int, try_exclusive(), STATUS_CORRUPT));
    cr_assert(zero(int, unlink(path)));
    cr_assert(zero(int, mkfifo(path, 0644)));
    cr_expect(eq(int, try_exclusive(), STATUS_CORRUPT));
    cr_expect(same_text(error.path, LOCK_PATH));
    cr_assert(zero(int, unlink(path)));
    cr_assert(zero(int, mkdir(path, 0755)));
    cr_expect(eq(int, try_exclusive(), STATUS_CORRUPT));
    cr_expect(same_text(error.message, "it is a directory, not a regular file"));
}

/* ---- a holder that hangs ---- */

static struct {
    const struct volume *volume;
    atomic_bool is_in_call;
    atomic_bool may_return;
} hanging;

static void *hold_and_hang(void *argument)
{
    struct volume_lock *lock = NULL;

    (void) argument;
    if (volume_lock_reserve(table, hanging.volume, &scope, 0, &lock, NULL) != STATUS_OK)
        return NULL;
    volume_stuck_begin("sync", -1, "somewhere");
    atomic_store(&hanging.is_in_call, true);
    while (!atomic_load(&hanging.may_return))
        (void) usleep(1000);
    volume_stuck_end();
    volume_lock_release(&lock);
    return NULL;
}

/* Whoever waits for it would be kept as well. */
Test(volume_lock, a_holder_that_hangs_is_not_waited_for)
{
    enum volume_kind kind = VOLUME_UNKNOWN;
    struct volume *remote = NULL;
    struct volume_lock *lock = NULL;
    struct volume_options options = {.path = dir, .calls = &calls, .force_kind = &kind};
    pthread_t thread;

    cr_assert(eq(int, volume_open(&options, &remote, NULL), STATUS_OK));
    hanging.volume = remote;
    cr_assert(zero(int, pthread_create(&thread, NULL, hold_and_hang, NULL)));
    while (!atomic_load(&hanging.is_in_call))
        (void) usleep(1000);
    cr_expect(eq(int,
                 volume_lock_reserve(table, remote, &scope, clock_deadline_ms(50), &lock, &error),
                 STATUS_TIMEOUT));
    cr_expect(same_text(error.path, LOCK_PATH));

    clock_advance_for_test(VOLUME_LOCK_PATIENCE_NS);
    cr_expect(
        eq(int, volume_lock_reserve(table, remote, &scope, clock_deadline_ms(60000), &lock, &error),
           STATUS_BUSY));
    cr_expect(same_text(error.path, LOCK_PATH));
    cr_expect(eq(int,
                 volume_lock_acquire(table, remote, &scope, VOLUME_LOCK_SHARED, true,
                                     clock_deadline_ms(60000), &lock, &error),
                 STATUS_BUSY));
    cr_expect(eq(ptr, lock, NULL));

    atomic_store(&hanging.may_return, true);
    cr_assert(zero(int, pthread_join(thread, NULL)));
    cr_expect(eq(int,
                 volume_lock_acquire(table, remote, &scope, VOLUME_LOCK_EXCLUSIVE, true, 0, &lock,
                                     &error),
                 STATUS_OK));
    volume_lock_release(&lock);
    volume_close(&remote);
}

/* ---- volumes without locks ---- */

static int lock_errno;
static bool lock_fails_once;

static int lock_failing(int fd, int operation)
{
    int sys_errno = lock_errno;

    if (operation == LOCK_UN || !sys_errno)
        return flock(fd, operation);
    if (lock_fails_once)
        lock_errno = 0;
    errno = sys_errno;
    return -1;
}

Test(volume_lock, a_refused_lock_names_file_and_errno)
{
    const struct {
        int sys_errno;
        enum status status;
    } cases[] = {
        {ENOLCK, STATUS_UNSUPPORTED},
        {EOPNOTSUPP, STATUS_UNSUPPORTED},
        {EBADF, STATUS_UNSUPPORTED},
        {ENOSYS, STATUS_UNSUPPORTED},
        {EIO, STATUS_IO},
        {EACCES, STATUS_DENIED},
    };
    char number[32];

    calls.lock = lock_failing;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        lock_errno = cases[i].sys_errno;
        cr_expect(eq(int, try_exclusive(), cases[i].status), "row %zu", i);
        cr_expect(eq(int, error.status, cases[i].status), "row %zu", i);
        cr_expect(eq(int, error.sys_errno, cases[i].sys_errno), "row %zu", i);
        cr_expect(same_text(error.path, LOCK_PATH), "row %zu", i);
        (void) snprintf(number, sizeof number, "errno %d", cases[i].sys_errno);
        if (cases[i].status == STATUS_UNSUPPORTED)
            cr_expect(ne(ptr, strstr(error.message, number), NULL), "row %zu", i);
    }
    lock_errno = 0;
    cr_expect(eq(int, try_exclusive(), STATUS_OK)); /* a failure keeps nothing taken */
    lock_errno = EINTR;
    lock_fails_once = true;
    cr_expect(eq(int, try_exclusive(), STATUS_OK));
    cr_expect(zero(int, lock_errno));
}

static int open_read_only_volume(int dir_fd, const char *path, int flags, mode_t mode)
{
    if ((flags & O_ACCMODE) != O_RDONLY || flags & O_CREAT) {
        errno = EROFS;
        return -1;
    }
    return volume_real_calls()->open_beneath(dir_fd, path, flags, mode);
}

Test(volume_lock, a_file_that_can_only_be_read_can_be_locked)
{
    struct volume_lock *lock = NULL;

    put_file(dir, LOCK_PATH, "");
    calls.open_beneath = open_read_only_volume;
    cr_expect(eq(int, acquire(VOLUME_LOCK_EXCLUSIVE, 0, &lock), STATUS_OK));
    cr_expect(not(name_is_free()));
    volume_lock_release(&lock);

    remove_lock_file();
    cr_expect(eq(int, try_exclusive(), STATUS_DENIED));
    cr_expect(eq(int, error.sys_errno, EROFS));
}

/* ---- threads ---- */

#define THREADS 6
#define TURNS 30

static int inside;          /* how many are between taking and releasing: racy on purpose */
static unsigned turns_done; /* guarded by the lock under test alone */

static char failed; /* its address is what a thread returns that met a fault */

static void *take_turns(void *argument)
{
    enum volume_lock_mode mode = argument ? VOLUME_LOCK_SHARED : VOLUME_LOCK_EXCLUSIVE;

    for (int i = 0; i < TURNS; i++) {
        struct volume_lock *lock = NULL;
        struct error mine = {0};
        if (volume_lock_acquire(table, volume, &scope, mode, true, clock_deadline_ms(50000), &lock,
                                &mine) != STATUS_OK)
            return &failed;
        bool alone = __atomic_add_fetch(&inside, 1, __ATOMIC_SEQ_CST) == 1;
        turns_done++;
        (void) __atomic_sub_fetch(&inside, 1, __ATOMIC_SEQ_CST);
        volume_lock_release(&lock);
        if (!alone)
            return &failed;
    }
    return NULL;
}

Test(volume_lock, one_thread_at_a_time_holds_it_whatever_the_mode)
{
    pthread_t threads[THREADS];

    for (size_t i = 0; i < THREADS; i++)
        cr_assert(zero(int, pthread_create(&threads[i], NULL, take_turns, i % 2 ? &inside : NULL)));
    for (size_t i = 0; i < THREADS; i++) {
        void *failure = NULL;
        cr_assert(zero(int, pthread_join(threads[i], &failure)));
        cr_expect(eq(ptr, failure, NULL), "thread %zu", i);
    }
    cr_expect(eq(u32, turns_done, THREADS * TURNS));
}

Test(volume_lock, a_second_thread_waits_until_its_deadline)
{
    struct volume_lock *first = NULL;
    struct volume_lock *second = NULL;

    cr_assert(eq(int, acquire(VOLUME_LOCK_SHARED, 0, &first), STATUS_OK));
    uint64_t before_ns = clock_monotonic_ns();
    cr_expect(eq(int, acquire(VOLUME_LOCK_SHARED, clock_deadline_ms(60), &second), STATUS_BUSY));
    cr_expect(ge(u64, clock_monotonic_ns() - before_ns, 60 * NS_PER_MS));
    cr_expect(same_text(error.path, LOCK_PATH));
    volume_lock_release(&first);
    cr_expect(eq(int, acquire(VOLUME_LOCK_SHARED, 0, &second), STATUS_OK));
    volume_lock_release(&second);
}

Test(volume_lock, users_do_not_wait_for_each_other)
{
    struct volume_lock *first = NULL;
    struct volume_lock *second = NULL;
    struct volume_lock *root = NULL;

    put_dir(dir, "users/u2");
    cr_assert(eq(int, acquire(VOLUME_LOCK_EXCLUSIVE, 0, &first), STATUS_OK));
    cr_assert(eq(int, scope_create("u2", NULL, &scope, NULL), STATUS_OK));
    cr_expect(eq(int, acquire(VOLUME_LOCK_EXCLUSIVE, 0, &second), STATUS_OK));
    cr_assert(eq(int, scope_create(NULL, NULL, &scope, NULL), STATUS_OK));
    cr_expect(eq(int, acquire(VOLUME_LOCK_EXCLUSIVE, 0, &root), STATUS_OK));
    cr_expect(has_file(dir, JOURNAL_LOCK_NAME));
    volume_lock_release(&first);
    volume_lock_release(&second);
    volume_lock_release(&root);
}
