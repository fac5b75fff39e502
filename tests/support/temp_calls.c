#include "tests/support/temp_calls.h"

#include "core/signature.h"
#include "tests/support/files.h"

#include <errno.h>
#include <fcntl.h>
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
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct fault faults[RULES_MAX];
static size_t fault_count;
static const char *frozen_end;
static uint64_t frozen_ns;
static enum temp_call counted_call;
static const char *counted_end;
static unsigned counted;

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
    size_t length = strlen(path);
    size_t end_length = strlen(end);

    return length >= end_length && strcmp(path + length - end_length, end) == 0;
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

/* True when the call shall fail; errno is set then. */
static bool fails(enum temp_call call, int fd, const char *name)
{
    char path[PATH_MAX];
    int sys_errno = 0;

    (void) pthread_mutex_lock(&lock);
    if (fault_count > 0 || counted_end) {
        full_path(fd, name, path);
        if (counted_end && counted_call == call && ends_with(path, counted_end))
            counted++;
        for (size_t i = 0; sys_errno == 0 && i < fault_count; i++) {
            if (strikes_locked(&faults[i], call, path))
                sys_errno = faults[i].sys_errno;
        }
    }
    (void) pthread_mutex_unlock(&lock);
    if (sys_errno)
        errno = sys_errno;
    return sys_errno != 0;
}

static int open_or_fail(int dir_fd, const char *path, int flags, mode_t mode)
{
    if (fails(TEMP_CALL_OPEN, dir_fd, path))
        return -1;
    return volume_real_calls()->open_beneath(dir_fd, path, flags, mode);
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

static int stat_or_fail(int fd, const char *path, struct statx *ret)
{
    if (fails(TEMP_CALL_STAT, fd, path))
        return -1;
    int done = volume_real_calls()->stat_forced(fd, path, ret);
    if (done == 0)
        freeze(fd, path, ret);
    return done;
}

static ssize_t read_or_fail(int fd, void *bytes, size_t size)
{
    return fails(TEMP_CALL_READ, fd, "") ? -1 : volume_real_calls()->read(fd, bytes, size);
}

static ssize_t list_or_fail(int fd, void *bytes, size_t size)
{
    return fails(TEMP_CALL_LIST, fd, "") ? -1 : volume_real_calls()->list(fd, bytes, size);
}

static int lock_or_fail(int fd, int operation)
{
    return fails(TEMP_CALL_LOCK, fd, "") ? -1 : volume_real_calls()->lock(fd, operation);
}

const struct volume_calls *temp_calls(void)
{
    static struct volume_calls calls;

    (void) pthread_mutex_lock(&lock);
    calls = *volume_real_calls();
    calls.open_beneath = open_or_fail;
    calls.stat_forced = stat_or_fail;
    calls.read = read_or_fail;
    calls.list = list_or_fail;
    calls.lock = lock_or_fail;
    (void) pthread_mutex_unlock(&lock);
    return &calls;
}

void temp_calls_fail(enum temp_call call, const char *path_end, int sys_errno, unsigned skip,
                     unsigned times)
{
    (void) pthread_mutex_lock(&lock);
    if (fault_count == RULES_MAX)
        test_die("too many faults");
    faults[fault_count++] = (struct fault){
        .call = call, .path_end = path_end, .sys_errno = sys_errno, .skip = skip, .left = times};
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
    (void) pthread_mutex_unlock(&lock);
}
