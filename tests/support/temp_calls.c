#include "tests/support/temp_calls.h"

#include "core/signature.h"
#include "tests/support/files.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define RULES_MAX 8

struct fault {
    enum temp_call call;
    const char *path_end;
    int sys_errno;
    unsigned skip;
    unsigned left; /* 0: for ever */
    bool used_up;
    bool after; /* the call is done, and then said to have failed */
};

/* The nth call of one thread, whatever it is. */
struct nth_fault {
    bool is_armed;
    pthread_t thread;
    unsigned before; /* calls that still pass */
    unsigned left;   /* 0: for ever */
    int sys_errno;
    char struck[PATH_MAX + 32];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct fault faults[RULES_MAX];
static size_t fault_count;
static const char *frozen_end;
static uint64_t frozen_ns;
static enum temp_call counted_call;
static const char *counted_end;
static unsigned counted;
static bool counts_one_thread;
static pthread_t counted_thread;
static struct nth_fault nth;
static temp_judge judge;
static const char *short_end;
static size_t short_bytes;
static bool locks_are_ignored;
static pthread_cond_t let_go = PTHREAD_COND_INITIALIZER;
static enum temp_call hanging_call;
static const char *hanging_end;

const char *temp_call_name(enum temp_call call)
{
    static const char *const names[TEMP_CALL_COUNT] = {
        [TEMP_CALL_OPEN] = "open",
        [TEMP_CALL_STAT] = "stat",
        [TEMP_CALL_READ] = "read",
        [TEMP_CALL_WRITE] = "write",
        [TEMP_CALL_LIST] = "list",
        [TEMP_CALL_SYNC] = "sync",
        [TEMP_CALL_LOCK] = "lock",
        [TEMP_CALL_RENAME] = "rename",
        [TEMP_CALL_RENAME_NEW] = "rename_new",
        [TEMP_CALL_LINK] = "link",
        [TEMP_CALL_UNLINK] = "unlink",
        [TEMP_CALL_MKDIR] = "mkdir",
        [TEMP_CALL_CLOSE] = "close",
        [TEMP_CALL_READ_SIZE] = "read half of",
        [TEMP_CALL_WRITE_SIZE] = "write half of",
    };

    return names[call];
}

/* What a call touches: the descriptor's path, and the name below it. */
static void full_path(int fd, const char *name, char ret[PATH_MAX])
{
    char link[64];
    char directory[PATH_MAX / 2];

    (void) snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, directory, sizeof directory - 1);
    directory[length > 0 ? length : 0] = '\0';
    if (!*name || strcmp(name, ".") == 0)
        (void) snprintf(ret, PATH_MAX, "%s", directory);
    else
        (void) snprintf(ret, PATH_MAX, "%s/%.2000s", directory, name);
}

static bool ends_with(const char *path, const char *end)
{
    char pattern[PATH_MAX];

    (void) snprintf(pattern, sizeof pattern, "*%s", end);
    return fnmatch(pattern, path, 0) == 0;
}

static bool strikes_locked(struct fault *fault, enum temp_call call, const char *path)
{
    if (fault->used_up || fault->call != call || !ends_with(path, fault->path_end))
        return false;
    if (fault->skip > 0) {
        fault->skip--;
        return false;
    }
    fault->used_up = fault->left == 1;
    fault->left -= fault->left > 0;
    return true;
}

static bool nth_strikes_locked(enum temp_call call, const char *path)
{
    if (!nth.is_armed || !pthread_equal(nth.thread, pthread_self()))
        return false;
    if (nth.before > 0) {
        nth.before--;
        return false;
    }
    if (!nth.struck[0])
        (void) snprintf(nth.struck, sizeof nth.struck, "%s %s", temp_call_name(call), path);
    nth.is_armed = nth.left != 1;
    nth.left -= nth.left > 0;
    return true;
}

/* Not under the lock: the judge may be asked by several threads at once. */
static struct temp_ruling ruling_on(enum temp_call call, int fd, const char *name)
{
    struct temp_ruling ruling = judge ? judge(call) : (struct temp_ruling){0};
    char path[PATH_MAX];

    if (ruling.fate == TEMP_PASSES)
        return ruling;
    full_path(fd, name, path);
    (void) pthread_mutex_lock(&lock);
    if (!nth.struck[0])
        (void) snprintf(nth.struck, sizeof nth.struck, "%s %s", temp_call_name(call), path);
    (void) pthread_mutex_unlock(&lock);
    return ruling;
}

/* What is to become of a call: 0 or the errno that it fails with; `ret_after`: it is done first. */
static int verdict_of_rules(enum temp_call call, int fd, const char *name, bool *ret_after)
{
    char path[PATH_MAX];
    int sys_errno = 0;

    *ret_after = false;
    (void) pthread_mutex_lock(&lock);
    if (fault_count > 0 || counted_end || nth.is_armed || hanging_end) {
        full_path(fd, name, path);
        while (hanging_end && hanging_call == call && ends_with(path, hanging_end))
            (void) pthread_cond_wait(&let_go, &lock);
        if (counted_end && counted_call == call && ends_with(path, counted_end) &&
            (!counts_one_thread || pthread_equal(counted_thread, pthread_self())))
            counted++;
        for (size_t i = 0; sys_errno == 0 && i < fault_count; i++) {
            if (strikes_locked(&faults[i], call, path)) {
                sys_errno = faults[i].sys_errno;
                *ret_after = faults[i].after;
            }
        }
        if (nth_strikes_locked(call, path))
            sys_errno = nth.sys_errno;
    }
    (void) pthread_mutex_unlock(&lock);
    return sys_errno;
}

static int verdict_on(enum temp_call call, int fd, const char *name, bool *ret_after)
{
    struct temp_ruling ruling = ruling_on(call, fd, name);

    if (ruling.fate == TEMP_PASSES)
        return verdict_of_rules(call, fd, name, ret_after);
    *ret_after = ruling.fate == TEMP_LOSES_ANSWER;
    return ruling.sys_errno;
}

/* Does a call, or not, as the verdict on it is. */
#define CALL_OR_FAIL(call, fd, name, done)                                                         \
    ({                                                                                             \
        bool after_;                                                                               \
        int sys_errno_ = verdict_on(call, fd, name, &after_);                                      \
        __typeof__(done) result_ = sys_errno_ == 0 || after_ ? (done) : -1;                        \
        if (sys_errno_) {                                                                          \
            errno = sys_errno_;                                                                    \
            result_ = -1;                                                                          \
        }                                                                                          \
        result_;                                                                                   \
    })

static int open_or_fail(int dir_fd, const char *path, int flags, mode_t mode)
{
    return CALL_OR_FAIL(TEMP_CALL_OPEN, dir_fd, path,
                        volume_real_calls()->open_beneath(dir_fd, path, flags, mode));
}

static void freeze(int fd, const char *name, struct statx *status)
{
    char path[PATH_MAX];

    (void) pthread_mutex_lock(&lock);
    if (frozen_end) {
        full_path(fd, name, path);
        if (ends_with(path, frozen_end)) {
            status->stx_ino = signature_digest(path, strlen(path)) >> 1;
            status->stx_mtime.tv_sec = status->stx_ctime.tv_sec =
                (int64_t) (frozen_ns / UINT64_C(1000000000));
            status->stx_mtime.tv_nsec = status->stx_ctime.tv_nsec =
                (uint32_t) (frozen_ns % UINT64_C(1000000000));
        }
    }
    (void) pthread_mutex_unlock(&lock);
}

/* How much of a read or write is done: all of it, unless the judge says otherwise. */
static size_t halve(enum temp_call call, int fd, size_t size)
{
    return size > 1 && ruling_on(call, fd, "").fate == TEMP_HALVES ? size / 2 : size;
}

static int stat_or_fail(int fd, const char *path, struct statx *ret)
{
    int done =
        CALL_OR_FAIL(TEMP_CALL_STAT, fd, path, volume_real_calls()->stat_forced(fd, path, ret));

    if (done == 0)
        freeze(fd, path, ret);
    return done;
}

static ssize_t read_or_fail(int fd, void *bytes, size_t size, off_t offset)
{
    size = halve(TEMP_CALL_READ_SIZE, fd, size);
    return CALL_OR_FAIL(TEMP_CALL_READ, fd, "", volume_real_calls()->read(fd, bytes, size, offset));
}

static size_t shorten(int fd, size_t size)
{
    char path[PATH_MAX];

    (void) pthread_mutex_lock(&lock);
    if (short_end) {
        full_path(fd, "", path);
        if (ends_with(path, short_end) && size > short_bytes)
            size = short_bytes;
    }
    (void) pthread_mutex_unlock(&lock);
    return size;
}

static ssize_t write_or_fail(int fd, const void *bytes, size_t size)
{
    size = halve(TEMP_CALL_WRITE_SIZE, fd, shorten(fd, size));
    return CALL_OR_FAIL(TEMP_CALL_WRITE, fd, "", volume_real_calls()->write(fd, bytes, size));
}

static ssize_t list_or_fail(int fd, void *bytes, size_t size)
{
    return CALL_OR_FAIL(TEMP_CALL_LIST, fd, "", volume_real_calls()->list(fd, bytes, size));
}

static int sync_or_fail(int fd)
{
    return CALL_OR_FAIL(TEMP_CALL_SYNC, fd, "", 0); /* nobody pulls the plug in a test */
}

static int lock_or_fail(int fd, int operation)
{
    (void) pthread_mutex_lock(&lock);
    bool ignored = locks_are_ignored;
    (void) pthread_mutex_unlock(&lock);
    return CALL_OR_FAIL(TEMP_CALL_LOCK, fd, "",
                        ignored ? 0 : volume_real_calls()->lock(fd, operation));
}

static int rename_or_fail(int from_dir_fd, const char *from, int to_dir_fd, const char *to)
{
    return CALL_OR_FAIL(TEMP_CALL_RENAME, to_dir_fd, to,
                        volume_real_calls()->rename(from_dir_fd, from, to_dir_fd, to));
}

static int rename_new_or_fail(int from_dir_fd, const char *from, int to_dir_fd, const char *to)
{
    return CALL_OR_FAIL(TEMP_CALL_RENAME_NEW, to_dir_fd, to,
                        volume_real_calls()->rename_new(from_dir_fd, from, to_dir_fd, to));
}

static int link_or_fail(int from_dir_fd, const char *from, int to_dir_fd, const char *to)
{
    return CALL_OR_FAIL(TEMP_CALL_LINK, to_dir_fd, to,
                        volume_real_calls()->link(from_dir_fd, from, to_dir_fd, to));
}

static int unlink_or_fail(int dir_fd, const char *name, int flags)
{
    return CALL_OR_FAIL(TEMP_CALL_UNLINK, dir_fd, name,
                        volume_real_calls()->unlink(dir_fd, name, flags));
}

static int mkdir_or_fail(int dir_fd, const char *name, mode_t mode)
{
    return CALL_OR_FAIL(TEMP_CALL_MKDIR, dir_fd, name,
                        volume_real_calls()->mkdir(dir_fd, name, mode));
}

static int close_or_fail(int fd)
{
    bool after;
    int sys_errno = verdict_on(TEMP_CALL_CLOSE, fd, "", &after);
    int done = volume_real_calls()->close(fd);

    if (sys_errno == 0)
        return done;
    errno = sys_errno;
    return -1;
}

const struct volume_calls *temp_calls(void)
{
    static const struct volume_calls calls = {
        .open_beneath = open_or_fail,
        .stat_forced = stat_or_fail,
        .read = read_or_fail,
        .write = write_or_fail,
        .list = list_or_fail,
        .sync = sync_or_fail,
        .lock = lock_or_fail,
        .rename = rename_or_fail,
        .rename_new = rename_new_or_fail,
        .link = link_or_fail,
        .unlink = unlink_or_fail,
        .mkdir = mkdir_or_fail,
        .close = close_or_fail,
    };

    return &calls;
}

static void add_fault(const struct fault *fault)
{
    (void) pthread_mutex_lock(&lock);
    if (fault_count == RULES_MAX)
        test_die("too many faults");
    faults[fault_count++] = *fault;
    (void) pthread_mutex_unlock(&lock);
}

void temp_calls_fail(enum temp_call call, const char *path_end, int sys_errno, unsigned skip,
                     unsigned times)
{
    add_fault(&(struct fault){
        .call = call, .path_end = path_end, .sys_errno = sys_errno, .skip = skip, .left = times});
}

void temp_calls_lose_answer(enum temp_call call, const char *path_end, int sys_errno, unsigned skip,
                            unsigned times)
{
    add_fault(&(struct fault){.call = call,
                              .path_end = path_end,
                              .sys_errno = sys_errno,
                              .skip = skip,
                              .left = times,
                              .after = true});
}

void temp_calls_fail_nth(unsigned number, int sys_errno, unsigned times)
{
    (void) pthread_mutex_lock(&lock);
    nth = (struct nth_fault){.is_armed = true,
                             .thread = pthread_self(),
                             .before = number - 1,
                             .left = times,
                             .sys_errno = sys_errno};
    (void) pthread_mutex_unlock(&lock);
}

void temp_calls_struck(char *ret, size_t size)
{
    (void) pthread_mutex_lock(&lock);
    (void) snprintf(ret, size, "%s", nth.struck);
    (void) pthread_mutex_unlock(&lock);
}

void temp_calls_ask(temp_judge of_each_call)
{
    (void) pthread_mutex_lock(&lock);
    nth = (struct nth_fault){.is_armed = false};
    (void) pthread_mutex_unlock(&lock);
    judge = of_each_call;
}

void temp_calls_hang(enum temp_call call, const char *path_end)
{
    (void) pthread_mutex_lock(&lock);
    hanging_call = call;
    hanging_end = path_end;
    (void) pthread_mutex_unlock(&lock);
}

void temp_calls_write_short(const char *path_end, size_t bytes)
{
    (void) pthread_mutex_lock(&lock);
    short_end = path_end;
    short_bytes = bytes;
    (void) pthread_mutex_unlock(&lock);
}

void temp_calls_ignore_locks(void)
{
    (void) pthread_mutex_lock(&lock);
    locks_are_ignored = true;
    (void) pthread_mutex_unlock(&lock);
}

void temp_calls_freeze(const char *path_end, uint64_t time_ns)
{
    (void) pthread_mutex_lock(&lock);
    frozen_end = path_end;
    frozen_ns = time_ns;
    (void) pthread_mutex_unlock(&lock);
}

void temp_calls_count(enum temp_call call, const char *path_end)
{
    (void) pthread_mutex_lock(&lock);
    counted_call = call;
    counted_end = path_end;
    counted = 0;
    counts_one_thread = false;
    (void) pthread_mutex_unlock(&lock);
}

void temp_calls_count_here(enum temp_call call, const char *path_end)
{
    temp_calls_count(call, path_end);
    (void) pthread_mutex_lock(&lock);
    counted_thread = pthread_self();
    counts_one_thread = true;
    (void) pthread_mutex_unlock(&lock);
}

unsigned temp_calls_counted(void)
{
    (void) pthread_mutex_lock(&lock);
    unsigned count = counted;
    (void) pthread_mutex_unlock(&lock);
    return count;
}

void temp_calls_reset(void)
{
    (void) pthread_mutex_lock(&lock);
    fault_count = 0;
    frozen_end = NULL;
    short_end = NULL;
    locks_are_ignored = false;
    judge = NULL;
    hanging_end = NULL;
    (void) pthread_cond_broadcast(&let_go);
    nth = (struct nth_fault){.is_armed = false};
    (void) pthread_mutex_unlock(&lock);
}
