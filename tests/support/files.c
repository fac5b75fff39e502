#include "tests/support/files.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define DESCRIPTORS_MAX 16

void test_die(const char *format, ...)
{
    int sys_errno = errno;
    va_list arguments;

    (void) fprintf(stderr, "test support: ");
    va_start(arguments, format);
    (void) vfprintf(stderr, format, arguments);
    va_end(arguments);
    (void) fprintf(stderr, "%s%s\n", sys_errno ? ": " : "", sys_errno ? strerror(sys_errno) : "");
    abort();
}

void test_join(char ret[PATH_MAX], const char *directory, const char *name)
{
    if (snprintf(ret, PATH_MAX, "%s/%s", directory, name) >= PATH_MAX)
        test_die("a path is too long: %s", name);
}

bool test_exists(const char *path)
{
    struct stat status;

    return lstat(path, &status) == 0;
}

char *test_read_file(const char *path, size_t *ret_size)
{
    char *bytes = test_read_file_if_there(path, ret_size);

    if (!bytes)
        test_die("there is no %s", path);
    return bytes;
}

char *test_read_file_if_there(const char *path, size_t *ret_size)
{
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t used = 0;
    struct stat status;

    if (fd < 0 && errno == ENOENT)
        return NULL;
    if (fd < 0 || fstat(fd, &status) < 0)
        test_die("cannot open %s", path);
    size_t size = (size_t) status.st_size;
    char *bytes = malloc(size + 1);
    if (!bytes)
        test_die("no memory");
    while (used < size) {
        ssize_t got = read(fd, bytes + used, size - used);
        if (got <= 0)
            test_die("cannot read %s", path);
        used += (size_t) got;
    }
    bytes[size] = '\0';
    if (ret_size)
        *ret_size = size;
    return bytes;
}

void test_make_dirs(const char *path)
{
    char part[PATH_MAX];

    for (const char *at = path + 1;; at++) {
        if (*at && *at != '/')
            continue;
        (void) snprintf(part, sizeof part, "%.*s", (int) (at - path), path);
        if (mkdir(part, 0777) < 0 && errno != EEXIST)
            test_die("cannot make %s", part);
        if (!*at)
            return;
    }
}

void test_make_parents(const char *path)
{
    char parent[PATH_MAX];
    const char *slash = strrchr(path, '/');

    (void) snprintf(parent, sizeof parent, "%.*s", (int) (slash - path), path);
    test_make_dirs(parent);
}

static void write_file(const char *path, const char *bytes, size_t size)
{
    AUTO_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);

    if (fd < 0 || write(fd, bytes, size) != (ssize_t) size)
        test_die("cannot write %s", path);
}

void test_replace_file(const char *path, const char *bytes, size_t size)
{
    static atomic_uint counter;
    const char *name = strrchr(path, '/') + 1;
    char temporary[PATH_MAX + 64];

    test_make_parents(path);
    (void) snprintf(temporary, sizeof temporary, "%.*s.%s.%08x%024x.tmp", (int) (name - path), path,
                    name, (unsigned) getpid(), atomic_fetch_add(&counter, 1));
    write_file(temporary, bytes, size);
    test_rename(temporary, path);
}

void test_remove_file(const char *path)
{
    if (unlink(path) < 0 && errno != ENOENT)
        test_die("cannot remove %s", path);
}

void test_rename(const char *from, const char *to)
{
    if (rename(from, to) < 0)
        test_die("cannot rename %s to %s", from, to);
}

static int remove_one(const char *path, const struct stat *status UNUSED, int kind UNUSED,
                      struct FTW *place UNUSED)
{
    return remove(path) < 0 && errno != ENOENT ? -1 : 0;
}

void test_remove_tree(const char *path)
{
    /* Somebody else may be removing it as well. */
    if (test_exists(path) && nftw(path, remove_one, DESCRIPTORS_MAX, FTW_DEPTH | FTW_PHYS) != 0 &&
        test_exists(path))
        test_die("cannot remove %s", path);
}

/* nftw() has no argument for its caller. */
static _Thread_local const char *copy_from;
static _Thread_local const char *copy_to;
static _Thread_local size_t counted;

static int copy_one(const char *path, const struct stat *status, int kind, struct FTW *place UNUSED)
{
    char target[PATH_MAX];
    const struct timespec times[2] = {status->st_atim, status->st_mtim};
    size_t size = 0;

    (void) snprintf(target, sizeof target, "%s%s", copy_to, path + strlen(copy_from));
    if (kind == FTW_D) {
        test_make_dirs(target);
        return 0;
    }
    AUTO_FREE char *bytes = test_read_file(path, &size);
    write_file(target, bytes, size);
    return utimensat(AT_FDCWD, target, times, 0);
}

void test_copy_tree(const char *from, const char *to)
{
    copy_from = from;
    copy_to = to;
    if (nftw(from, copy_one, DESCRIPTORS_MAX, FTW_PHYS) != 0)
        test_die("cannot copy %s", from);
}

static int count_one(const char *path UNUSED, const struct stat *status UNUSED, int kind,
                     struct FTW *place UNUSED)
{
    counted += kind == FTW_F ? 1 : 0;
    return 0;
}

size_t test_count_files(const char *path)
{
    counted = 0;
    if (test_exists(path) && nftw(path, count_one, DESCRIPTORS_MAX, FTW_PHYS) != 0)
        test_die("cannot walk %s", path);
    return counted;
}
