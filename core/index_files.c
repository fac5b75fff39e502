/* The index's directory: its lock, the mark of a clean end, setting a file aside. */
#include "core/index_private.h"

#include "core/text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#define LOCK_NAME "memsyncd.lock"
#define ASIDE_PREFIX INDEX_FILE_NAME ".damaged-"
#define ASIDE_KEPT 2

struct file_identity file_identity_of(const char *path)
{
    struct stat info;

    if (lstat(path, &info) < 0)
        return (struct file_identity){0};
    return (struct file_identity){.device = info.st_dev, .inode = info.st_ino};
}

/* ---- the lock, and what the file beside it remembers ---- */

static bool read_lock_file(int fd, char *text, size_t size)
{
    ssize_t got = pread(fd, text, size - 1, 0);

    text[got > 0 ? got : 0] = '\0';
    return got > 0;
}

static void write_lock_file(int fd, const char *text)
{
    size_t size = strlen(text);

    /* A mark that could not be written only means that the next start checks the file. */
    if (ftruncate(fd, 0) < 0 || pwrite(fd, text, size, 0) != (ssize_t) size)
        log_warning("index.lock", "problem=%s", LOG_VALUE(strerrordesc_np(errno)));
}

static enum status lock_refused(const struct index *index, int fd, struct error *error)
{
    int reason = errno;
    char text[128];
    long pid = 0;

    if (reason != EWOULDBLOCK)
        return error_set_errno(error, reason, NULL, "cannot lock the index directory %s",
                               index->directory);
    if (read_lock_file(fd, text, sizeof text))
        (void) sscanf(text, "pid %ld", &pid);
    return error_set(error, STATUS_BUSY, NULL, "another agent (pid %ld) uses the index in %s", pid,
                     index->directory);
}

enum status index_files_lock(struct index *index, struct error *error)
{
    AUTO_CLOSE int directory = -1;
    AUTO_CLOSE int fd = -1;

    if (mkdir(index->directory, 0700) < 0 && errno != EEXIST)
        return error_set_errno(error, errno, NULL, "cannot make the index directory %s",
                               index->directory);
    directory = open(index->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0)
        return error_set_errno(error, errno, NULL, "cannot open the index directory %s",
                               index->directory);
    fd = openat(directory, LOCK_NAME, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return error_set_errno(error, errno, NULL, "cannot write in the index directory %s",
                               index->directory);
    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        return lock_refused(index, fd, error);
    index->lock_fd = TAKE_FD(fd);
    return STATUS_OK;
}

static void write_pid(int fd)
{
    char text[64];

    (void) snprintf(text, sizeof text, "pid %ld\n", (long) getpid());
    write_lock_file(fd, text);
}

enum status index_files_lock_again(struct index *index, struct error *error)
{
    char path[PATH_MAX];
    struct stat held;
    struct stat named;
    int before = index->lock_fd;

    (void) snprintf(path, sizeof path, "%s/" LOCK_NAME, index->directory);
    if (fstat(before, &held) == 0 && lstat(path, &named) == 0 && held.st_dev == named.st_dev &&
        held.st_ino == named.st_ino)
        return STATUS_OK;
    enum status status = index_files_lock(index, error);
    if (status != STATUS_OK)
        return status;
    (void) close(before);
    /* A new file: the clean mark went with the old one. */
    write_pid(index->lock_fd);
    return STATUS_OK;
}

/* What a clean end writes, and what must still be so at the next start. */
static bool describe_file(const struct index *index, char *ret, size_t size)
{
    struct stat info;

    if (lstat(index->path, &info) < 0 || access(index->log_path, F_OK) == 0)
        return false;
    int length = snprintf(ret, size, "clean %ju %ju %jd %jd.%09ld\n", (uintmax_t) info.st_dev,
                          (uintmax_t) info.st_ino, (intmax_t) info.st_size,
                          (intmax_t) info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
    return length > 0 && (size_t) length < size;
}

bool index_files_take_clean_mark(struct index *index)
{
    char remembered[256];
    char now[256];
    bool clean = read_lock_file(index->lock_fd, remembered, sizeof remembered) &&
                 describe_file(index, now, sizeof now) && strcmp(remembered, now) == 0;

    write_pid(index->lock_fd);
    return clean;
}

void index_files_set_clean_mark(struct index *index)
{
    char text[256];

    if (describe_file(index, text, sizeof text))
        write_lock_file(index->lock_fd, text);
}

/* ---- setting aside ---- */

/* The number of a file that was set aside, or -1 for any other name. */
static long aside_number(const char *name)
{
    size_t length = strlen(ASIDE_PREFIX);
    char *end;

    if (strncmp(name, ASIDE_PREFIX, length) != 0 || name[length] < '0' || name[length] > '9')
        return -1;
    errno = 0;
    long number = strtol(name + length, &end, 10);
    return errno == 0 && *end == '\0' ? number : -1;
}

struct aside_range {
    long newest; /* 0: none */
    long kept[ASIDE_KEPT];
};

static void aside_path(const struct index *index, long number, const char *suffix, char *ret,
                       size_t size)
{
    (void) snprintf(ret, size, "%s/" ASIDE_PREFIX "%ld%s", index->directory, number, suffix);
}

static void remove_aside(const struct index *index, long number)
{
    char path[PATH_MAX];

    aside_path(index, number, "", path, sizeof path);
    (void) unlink(path);
    aside_path(index, number, "-wal", path, sizeof path);
    (void) unlink(path);
}

/* Keeps the newest, so that with the one to come there are ASIDE_KEPT; returns the newest number.
 */
static long make_room(const struct index *index)
{
    DIR *directory = opendir(index->directory);
    struct dirent *entry;
    long newest = 0;

    if (!directory)
        return 0;
    while ((entry = readdir(directory)) != NULL) {
        long number = aside_number(entry->d_name);
        newest = number > newest ? number : newest;
    }
    rewinddir(directory);
    while ((entry = readdir(directory)) != NULL) {
        long number = aside_number(entry->d_name);
        if (number >= 0 && number <= newest - (ASIDE_KEPT - 1))
            remove_aside(index, number);
    }
    (void) closedir(directory);
    return newest;
}

static enum status move_aside(const struct index *index, const char *from, long number,
                              const char *suffix, struct error *error)
{
    char path[PATH_MAX];

    aside_path(index, number, suffix, path, sizeof path);
    if (rename(from, path) < 0 && errno != ENOENT)
        return error_set_errno(error, errno, NULL, "cannot set %s aside", from);
    return STATUS_OK;
}

enum status index_files_set_aside(struct index *index, struct error *error)
{
    long number = make_room(index) + 1;
    enum status status = move_aside(index, index->path, number, "", error);

    if (status == STATUS_OK)
        status = move_aside(index, index->log_path, number, "-wal", error);
    if (status == STATUS_OK && unlink(index->shared_path) < 0 && errno != ENOENT)
        status = error_set_errno(error, errno, NULL, "cannot remove %s", index->shared_path);
    return status;
}
