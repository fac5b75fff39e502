#include "chaos/explorer/calls.h"

#include "chaos/explorer/sched.h"
#include "core/clock.h"
#include "tests/support/files.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>

#define HELD_MAX 16
#define FDS_MAX 1024
#define PEER_PATIENCE_NS (20 * NS_PER_SECOND)

struct held_lock {
    int fd;
    unsigned process;
};

/* Locks are told apart by nobody: whoever waits for one is woken by the release of any, and tries
 * again. */
static struct {
    bool locks_work;
    bool changed;
    struct calls_touched touched;
    unsigned char parts[FDS_MAX]; /* by open file */
    struct held_lock held[HELD_MAX];
    unsigned held_count;
} calls;

void calls_reset(bool locks_work)
{
    calls.locks_work = locks_work;
    calls.changed = true;
    calls.held_count = 0;
}

/* The part of the volume that a path is of. */
static unsigned part_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;

    if (strstr(path, ".recovery"))
        return CALLS_BACKUPS;
    if (strcmp(name, "memory.json") == 0)
        return slash ? CALLS_MANIFEST : CALLS_MANIFEST | CALLS_BACKUPS;
    if (strcmp(name, ".memory.journal.json") == 0)
        return CALLS_JOURNAL;
    if (strstr(path, ".md") || strstr(path, "facts"))
        return CALLS_FACTS | CALLS_BACKUPS | CALLS_DIRECTORIES;
    return CALLS_ALL;
}

static void note_write(void)
{
    calls.changed = true;
    calls.touched.writes = CALLS_ALL;
}

void calls_note_change(const char *path)
{
    calls.changed = true;
    calls.touched.writes |= part_of(path);
}

void calls_note_look(unsigned parts)
{
    calls.touched.reads |= parts;
}

/* What an open file is of. */
static unsigned part_of_fd(int fd)
{
    return fd >= 0 && fd < FDS_MAX ? calls.parts[fd] : CALLS_ALL;
}

struct calls_touched calls_take_touched(void)
{
    struct calls_touched touched = calls.touched;

    calls.touched = (struct calls_touched){0};
    return touched;
}

bool calls_take_change(void)
{
    bool changed = calls.changed;

    calls.changed = false;
    return changed;
}

/* ---- locks ---- */

static void remember_lock(int fd)
{
    const struct sched_actor *actor = sched_self();

    if (calls.held_count == HELD_MAX)
        test_die("too many locks are held");
    calls.held[calls.held_count++] =
        (struct held_lock){.fd = fd, .process = actor ? actor->process : 0};
}

static void forget_lock(int fd)
{
    for (unsigned i = calls.held_count; i-- > 0;) {
        if (calls.held[i].fd == fd)
            calls.held[i] = calls.held[--calls.held_count];
    }
    sched_tell(&calls);
}

int calls_lock(int fd, int operation)
{
    struct sched_actor *actor = sched_self();

    calls.touched.locks = true;
    if (operation == LOCK_UN) {
        forget_lock(fd);
        return flock(fd, LOCK_UN);
    }
    if (calls.locks_work && flock(fd, operation | LOCK_NB) < 0) {
        if (actor)
            actor->busy_lock = &calls;
        return -1;
    }
    if (actor)
        actor->busy_lock = NULL;
    remember_lock(fd);
    return 0;
}

bool calls_wait_for_lock(void)
{
    sched_self()->busy_lock = NULL;
    return sched_wait(&calls, clock_monotonic_ns() + PEER_PATIENCE_NS, "waits for the lock") &&
           !sched_is_draining();
}

void calls_release_locks_of(unsigned process)
{
    for (unsigned i = calls.held_count; i-- > 0;) {
        if (calls.held[i].process == process)
            (void) calls_lock(calls.held[i].fd, LOCK_UN);
    }
}

/* ---- the table ---- */

/* The volume is gone for those who are only to come to an end. */
static bool is_gone(void)
{
    if (!sched_is_draining())
        return false;
    errno = EIO;
    return true;
}

static int open_file(int dir_fd, const char *path, int flags, mode_t mode)
{
    unsigned part = flags & O_DIRECTORY ? CALLS_DIRECTORIES : part_of(path);

    if (flags & O_CREAT)
        note_write();
    calls_note_look(part);
    int fd = is_gone() ? -1 : volume_real_calls()->open_beneath(dir_fd, path, flags, mode);
    if (fd >= 0 && fd < FDS_MAX)
        calls.parts[fd] = (unsigned char) part;
    return fd;
}

static int stat_file(int fd, const char *path, struct statx *ret)
{
    calls_note_look(*path ? part_of(path) : part_of_fd(fd));
    return is_gone() ? -1 : volume_real_calls()->stat_forced(fd, path, ret);
}

static ssize_t read_file(int fd, void *bytes, size_t size, off_t offset)
{
    calls_note_look(part_of_fd(fd));
    return is_gone() ? -1 : volume_real_calls()->read(fd, bytes, size, offset);
}

static ssize_t write_file(int fd, const void *bytes, size_t size)
{
    note_write();
    return is_gone() ? -1 : volume_real_calls()->write(fd, bytes, size);
}

static ssize_t list_directory(int fd, void *bytes, size_t size)
{
    calls_note_look(CALLS_ALL);
    return is_gone() ? -1 : volume_real_calls()->list(fd, bytes, size);
}

static int sync_nothing(int fd)
{
    (void) fd;
    return is_gone() ? -1 : 0;
}

static int lock_file(int fd, int operation)
{
    if (operation != LOCK_UN && is_gone())
        return -1;
    return calls_lock(fd, operation & ~LOCK_NB);
}

static int rename_file(int from_dir_fd, const char *from, int to_dir_fd, const char *to)
{
    note_write();
    return is_gone() ? -1 : volume_real_calls()->rename(from_dir_fd, from, to_dir_fd, to);
}

static int rename_new(int from_dir_fd, const char *from, int to_dir_fd, const char *to)
{
    note_write();
    return is_gone() ? -1 : volume_real_calls()->rename_new(from_dir_fd, from, to_dir_fd, to);
}

static int link_file(int from_dir_fd, const char *from, int to_dir_fd, const char *to)
{
    note_write();
    return is_gone() ? -1 : volume_real_calls()->link(from_dir_fd, from, to_dir_fd, to);
}

static int unlink_file(int dir_fd, const char *name, int flags)
{
    note_write();
    return is_gone() ? -1 : volume_real_calls()->unlink(dir_fd, name, flags);
}

static int make_directory(int dir_fd, const char *name, mode_t mode)
{
    note_write();
    return is_gone() ? -1 : volume_real_calls()->mkdir(dir_fd, name, mode);
}

static int close_file(int fd)
{
    return volume_real_calls()->close(fd);
}

const struct volume_calls *calls_table(void)
{
    static const struct volume_calls table = {
        .open_beneath = open_file,
        .stat_forced = stat_file,
        .read = read_file,
        .write = write_file,
        .list = list_directory,
        .sync = sync_nothing,
        .lock = lock_file,
        .rename = rename_file,
        .rename_new = rename_new,
        .link = link_file,
        .unlink = unlink_file,
        .mkdir = make_directory,
        .close = close_file,
    };

    return &table;
}
