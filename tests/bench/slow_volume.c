/* A network volume to measure on: a FUSE file system that shows another directory, where each
 * operation takes a while.
 *
 *     slow_volume [--latency-us 1000] [--cache-s 0] [--threads 128] BACKING MOUNTPOINT
 *
 * Runs until SIGTERM or SIGINT and takes the mount away then. Each request of the kernel is a
 * message to the server and sleeps in a thread of its own, so N callers at once wait about as long
 * as one. --cache-s is how long the kernel may keep names, attributes and what is not there, as a
 * network client does; 0 makes it ask each time. A file is looked for by its path when it is
 * opened, so opening shows what another node has put there; what is open stays as it was. Another
 * node is whoever changes BACKING directly. An open file that was replaced or removed through the
 * mount has no attributes any more (ESTALE), as on NFS.
 *
 * flock() is not offered to the server, so the kernel keeps these locks itself: real between the
 * processes of one mount, unknown to those who work on BACKING.
 *
 * The extended attribute `user.slow_volume` of the mountpoint tells as a JSON object how many
 * operations of each kind there were, and how many were under way at once at the most. Looking it
 * up costs nothing and is not counted. */
#define FUSE_USE_VERSION 312
#include "core/clock.h"
#include "core/compiler.h"
#include "tests/support/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#define COUNTS_NAME "user.slow_volume"

/* A look-up is a getattr here: the library does not tell them apart. */
#define OPERATIONS(X)                                                                              \
    X(getattr)                                                                                     \
    X(open)                                                                                        \
    X(read)                                                                                        \
    X(opendir)                                                                                     \
    X(readdir)                                                                                     \
    X(access)                                                                                      \
    X(statfs)                                                                                      \
    X(readlink)                                                                                    \
    X(create)                                                                                      \
    X(write)                                                                                       \
    X(fsync)                                                                                       \
    X(setattr)                                                                                     \
    X(mkdir)                                                                                       \
    X(symlink)                                                                                     \
    X(link)                                                                                        \
    X(rename)                                                                                      \
    X(remove)

#define AS_ENUM(name) OPERATION_##name,
#define AS_TEXT(name) #name,
enum operation { OPERATIONS(AS_ENUM) OPERATION_COUNT };

static const char *const operation_names[] = {OPERATIONS(AS_TEXT)};

/* Set once before the threads start, but for the counts. */
static struct {
    int backing_fd;
    uint64_t latency_ns;
    double cache_s;
    unsigned threads;
    _Atomic uint64_t counts[OPERATION_COUNT];
    _Atomic unsigned under_way;
    _Atomic unsigned most_under_way;
} slow;

static void note_most(unsigned under_way)
{
    unsigned most = atomic_load(&slow.most_under_way);

    while (under_way > most &&
           !atomic_compare_exchange_weak(&slow.most_under_way, &most, under_way))
        ;
}

/* The way to the server and back. */
static void wait_for_server(enum operation operation)
{
    static _Thread_local bool exact;
    struct timespec left = {
        .tv_sec = (time_t) (slow.latency_ns / NS_PER_SECOND),
        .tv_nsec = (long) (slow.latency_ns % NS_PER_SECOND),
    };

    /* Else the kernel lets each sleep take 50 us longer. */
    if (!exact)
        exact = prctl(PR_SET_TIMERSLACK, 1) == 0;
    atomic_fetch_add(&slow.counts[operation], 1);
    note_most(atomic_fetch_add(&slow.under_way, 1) + 1);
    while (slow.latency_ns > 0 && nanosleep(&left, &left) < 0 && errno == EINTR)
        ;
    atomic_fetch_sub(&slow.under_way, 1);
}

static const char *below(const char *path)
{
    return path[1] ? path + 1 : ".";
}

static int answer(int result)
{
    return result < 0 ? -errno : 0;
}

static int handle_fd(const struct fuse_file_info *file)
{
    return (int) file->fh;
}

/* ---- looking ---- */

/* Without a path it is a file that was removed while it was open. */
static int slow_getattr(const char *path, struct stat *ret, struct fuse_file_info *file)
{
    wait_for_server(OPERATION_getattr);
    if (file)
        return answer(fstat(handle_fd(file), ret));
    return path ? answer(fstatat(slow.backing_fd, below(path), ret, AT_SYMLINK_NOFOLLOW)) : -ESTALE;
}

static int slow_access(const char *path, int mode)
{
    wait_for_server(OPERATION_access);
    return answer(faccessat(slow.backing_fd, below(path), mode, AT_EACCESS));
}

static int slow_statfs(const char *path, struct statvfs *ret)
{
    (void) path;
    wait_for_server(OPERATION_statfs);
    return answer(fstatvfs(slow.backing_fd, ret));
}

static int slow_readlink(const char *path, char *ret, size_t size)
{
    wait_for_server(OPERATION_readlink);
    ssize_t length = readlinkat(slow.backing_fd, below(path), ret, size - 1);
    if (length < 0)
        return -errno;
    ret[length] = '\0';
    return 0;
}

static int slow_opendir(const char *path, struct fuse_file_info *file)
{
    wait_for_server(OPERATION_opendir);
    int fd = openat(slow.backing_fd, below(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir)
        return -errno;
    file->fh = (uint64_t) (uintptr_t) dir;
    return 0;
}

/* True when the answer to the kernel is full. */
static bool fill_entry(DIR *dir, const struct dirent *entry, void *buffer, fuse_fill_dir_t fill,
                       bool with_attributes)
{
    struct stat info = {.st_ino = entry->d_ino, .st_mode = (mode_t) DTTOIF(entry->d_type)};
    enum fuse_fill_dir_flags flags = 0;

    if (with_attributes && fstatat(dirfd(dir), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0)
        flags = FUSE_FILL_DIR_PLUS;
    return fill(buffer, entry->d_name, &info, entry->d_off, flags) != 0;
}

static int slow_readdir(const char *path, void *buffer, fuse_fill_dir_t fill, off_t offset,
                        struct fuse_file_info *file, enum fuse_readdir_flags flags)
{
    DIR *dir = (DIR *) (uintptr_t) file->fh;

    (void) path;
    wait_for_server(OPERATION_readdir);
    if (offset != telldir(dir))
        seekdir(dir, offset);
    errno = 0;
    for (const struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        if (fill_entry(dir, entry, buffer, fill, (flags & FUSE_READDIR_PLUS) != 0))
            return 0;
        errno = 0;
    }
    return -errno;
}

static int slow_releasedir(const char *path, struct fuse_file_info *file)
{
    (void) path;
    return answer(closedir((DIR *) (uintptr_t) file->fh));
}

/* ---- reading and writing ---- */

static int open_here(const char *path, int flags, mode_t mode, struct fuse_file_info *file)
{
    int fd = openat(slow.backing_fd, below(path), flags | O_NOFOLLOW | O_CLOEXEC, mode);

    if (fd < 0)
        return -errno;
    file->fh = (uint64_t) fd;
    return 0;
}

static int slow_open(const char *path, struct fuse_file_info *file)
{
    wait_for_server(OPERATION_open);
    return open_here(path, file->flags, 0, file);
}

static int slow_create(const char *path, mode_t mode, struct fuse_file_info *file)
{
    wait_for_server(OPERATION_create);
    return open_here(path, file->flags | O_CREAT, mode, file);
}

static int slow_read(const char *path, char *ret, size_t size, off_t offset,
                     struct fuse_file_info *file)
{
    (void) path;
    wait_for_server(OPERATION_read);
    ssize_t got = pread(handle_fd(file), ret, size, offset);
    return got < 0 ? -errno : (int) got;
}

static int slow_write(const char *path, const char *bytes, size_t size, off_t offset,
                      struct fuse_file_info *file)
{
    (void) path;
    wait_for_server(OPERATION_write);
    ssize_t written = pwrite(handle_fd(file), bytes, size, offset);
    return written < 0 ? -errno : (int) written;
}

/* Nobody waits for the answer to a close. */
static int slow_release(const char *path, struct fuse_file_info *file)
{
    (void) path;
    return answer(close(handle_fd(file)));
}

static int slow_fsync(const char *path, int data_only, struct fuse_file_info *file)
{
    (void) path;
    wait_for_server(OPERATION_fsync);
    return answer(data_only ? fdatasync(handle_fd(file)) : fsync(handle_fd(file)));
}

static int slow_fsyncdir(const char *path, int data_only, struct fuse_file_info *file)
{
    int fd = dirfd((DIR *) (uintptr_t) file->fh);

    (void) path;
    wait_for_server(OPERATION_fsync);
    return answer(data_only ? fdatasync(fd) : fsync(fd));
}

/* ---- attributes and names ---- */

static int slow_chmod(const char *path, mode_t mode, struct fuse_file_info *file)
{
    (void) file;
    wait_for_server(OPERATION_setattr);
    return path ? answer(fchmodat(slow.backing_fd, below(path), mode, 0)) : -ESTALE;
}

static int slow_chown(const char *path, uid_t user, gid_t group, struct fuse_file_info *file)
{
    (void) file;
    wait_for_server(OPERATION_setattr);
    return path ? answer(fchownat(slow.backing_fd, below(path), user, group, AT_SYMLINK_NOFOLLOW))
                : -ESTALE;
}

static int slow_truncate(const char *path, off_t size, struct fuse_file_info *file)
{
    wait_for_server(OPERATION_setattr);
    if (file)
        return answer(ftruncate(handle_fd(file), size));
    int fd = openat(slow.backing_fd, below(path), O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
    int result = fd < 0 ? -errno : answer(ftruncate(fd, size));
    if (fd >= 0)
        (void) close(fd);
    return result;
}

static int slow_utimens(const char *path, const struct timespec times[2],
                        struct fuse_file_info *file)
{
    (void) file;
    wait_for_server(OPERATION_setattr);
    return path ? answer(utimensat(slow.backing_fd, below(path), times, AT_SYMLINK_NOFOLLOW))
                : -ESTALE;
}

static int slow_mkdir(const char *path, mode_t mode)
{
    wait_for_server(OPERATION_mkdir);
    return answer(mkdirat(slow.backing_fd, below(path), mode));
}

static int slow_symlink(const char *target, const char *path)
{
    wait_for_server(OPERATION_symlink);
    return answer(symlinkat(target, slow.backing_fd, below(path)));
}

static int slow_link(const char *from, const char *to)
{
    wait_for_server(OPERATION_link);
    return answer(linkat(slow.backing_fd, below(from), slow.backing_fd, below(to), 0));
}

static int slow_rename(const char *from, const char *to, unsigned flags)
{
    wait_for_server(OPERATION_rename);
    return answer(renameat2(slow.backing_fd, below(from), slow.backing_fd, below(to), flags));
}

static int slow_unlink(const char *path)
{
    wait_for_server(OPERATION_remove);
    return answer(unlinkat(slow.backing_fd, below(path), 0));
}

static int slow_rmdir(const char *path)
{
    wait_for_server(OPERATION_remove);
    return answer(unlinkat(slow.backing_fd, below(path), AT_REMOVEDIR));
}

/* ---- what it tells of itself ---- */

static size_t print_counts(char *ret, size_t size)
{
    int length = snprintf(ret, size, "{\"most_under_way\": %u", atomic_load(&slow.most_under_way));

    for (unsigned i = 0; i < OPERATION_COUNT; i++)
        length += snprintf(ret + length, size - (size_t) length, ", \"%s\": %" PRIu64,
                           operation_names[i], atomic_load(&slow.counts[i]));
    length += snprintf(ret + length, size - (size_t) length, "}");
    return (size_t) length;
}

static int slow_getxattr(const char *path, const char *name, char *ret, size_t size)
{
    char text[2048]; /* 18 names and numbers of at most 20 digits */

    if (!path || strcmp(path, "/") != 0 || strcmp(name, COUNTS_NAME) != 0)
        return -ENODATA;
    size_t length = print_counts(text, sizeof text);
    if (size > 0 && size < length)
        return -ERANGE;
    if (size > 0)
        memcpy(ret, text, length);
    return (int) length;
}

/* ---- start ---- */

static void *slow_init(struct fuse_conn_info *connection, struct fuse_config *config)
{
    config->entry_timeout = slow.cache_s;
    config->negative_timeout = slow.cache_s;
    config->attr_timeout = slow.cache_s;
    config->use_ino = 1;     /* the backing files' numbers: they tell one file from its successor */
    config->hard_remove = 1; /* no hidden files in place of those that are open */
    config->nullpath_ok = 1;
    /* Attributes that nobody may keep are of no use to a listing. */
    if (slow.cache_s <= 0)
        connection->want &= ~(unsigned) FUSE_CAP_READDIRPLUS;
    /* Reads count as background, of which the kernel lets only 12 through at a time. */
    connection->max_background = slow.threads;
    connection->congestion_threshold = slow.threads;
    return NULL;
}

static const struct fuse_operations operations = {
    .init = slow_init,
    .getattr = slow_getattr,
    .access = slow_access,
    .statfs = slow_statfs,
    .readlink = slow_readlink,
    .opendir = slow_opendir,
    .readdir = slow_readdir,
    .releasedir = slow_releasedir,
    .fsyncdir = slow_fsyncdir,
    .open = slow_open,
    .create = slow_create,
    .read = slow_read,
    .write = slow_write,
    .release = slow_release,
    .fsync = slow_fsync,
    .chmod = slow_chmod,
    .chown = slow_chown,
    .truncate = slow_truncate,
    .utimens = slow_utimens,
    .mkdir = slow_mkdir,
    .symlink = slow_symlink,
    .link = slow_link,
    .rename = slow_rename,
    .unlink = slow_unlink,
    .rmdir = slow_rmdir,
    .getxattr = slow_getxattr,
};

/* Each file that somebody holds open is open here as well. */
static void raise_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        (void) setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static unsigned long number_of(const char *text, unsigned long least, unsigned long most)
{
    char *end = NULL;
    unsigned long value = strtoul(text, &end, 10);

    if (end == text || *end || value < least || value > most)
        test_die("no number from %lu to %lu: %s", least, most, text);
    return value;
}

static int usage(void)
{
    (void) fprintf(stderr, "usage: slow_volume [--latency-us N] [--cache-s N] [--threads N] "
                           "BACKING MOUNTPOINT\n");
    return 2;
}

/* False: it was called wrongly. */
static bool parse_arguments(int argc, char **argv)
{
    static const struct option options[] = {
        {"latency-us", required_argument, NULL, 'l'},
        {"cache-s", required_argument, NULL, 'c'},
        {"threads", required_argument, NULL, 't'},
        {0},
    };

    slow.latency_ns = NS_PER_MS;
    slow.threads = 128;
    for (;;) {
        switch (getopt_long(argc, argv, "", options, NULL)) {
        case 'l':
            slow.latency_ns = number_of(optarg, 0, 60000000) * NS_PER_US;
            break;
        case 'c':
            slow.cache_s = (double) number_of(optarg, 0, 86400);
            break;
        case 't':
            slow.threads = (unsigned) number_of(optarg, 1, 1024);
            break;
        case -1:
            return optind + 2 == argc;
        default:
            return false;
        }
    }
}

static void serve(struct fuse *fuse)
{
    struct fuse_loop_config *loop = fuse_loop_cfg_create();

    if (!loop)
        test_die("no memory");
    fuse_loop_cfg_set_max_threads(loop, slow.threads);
    fuse_loop_cfg_set_idle_threads(loop, slow.threads);
    /* A signal's number comes back as well as an error; either way it is over. */
    if (fuse_loop_mt(fuse, loop) < 0)
        (void) fprintf(stderr, "slow_volume: ended by an error\n");
    fuse_loop_cfg_destroy(loop);
}

int main(int argc, char **argv)
{
    if (!parse_arguments(argc, argv))
        return usage();
    const char *backing = argv[optind];
    const char *mountpoint = argv[optind + 1];
    char *own[] = {argv[0], (char[]){"-ofsname=slow_volume"}, NULL};
    struct fuse_args arguments = FUSE_ARGS_INIT(2, own);

    raise_limit();
    slow.backing_fd = open(backing, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (slow.backing_fd < 0)
        test_die("cannot open %s", backing);
    (void) umask(0);
    struct fuse *fuse = fuse_new(&arguments, &operations, sizeof operations, NULL);
    if (!fuse || fuse_mount(fuse, mountpoint) != 0)
        test_die("cannot mount at %s", mountpoint);
    if (fuse_set_signal_handlers(fuse_get_session(fuse)) != 0)
        test_die("cannot catch signals");
    serve(fuse);
    fuse_unmount(fuse);
    fuse_destroy(fuse);
    fuse_opt_free_args(&arguments);
    return 0;
}
