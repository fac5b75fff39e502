/* doctor_files.c - what a commit needs of the file system: replacing, links, times, owners. */
#include "ipc/cli/commands.h"
#include "ipc/cli/doctor.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define TICKS_WANTED 3
#define TICK_SECONDS_MAX 3
#define SKEW_SECONDS_MAX 5
#define BUCKETS_LOOKED_AT 1000

static void fail_write(struct doctor *doctor, const char *what)
{
    doctor_find(doctor, LEVEL_ERROR, "write", "the volume's format needs it; look at the server",
                "%s failed: %s", what, strerror(errno));
}

static bool write_file(int directory_fd, const char *name, const char *text)
{
    AUTO_CLOSE int fd = openat(directory_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    ssize_t size = (ssize_t) strlen(text);

    return fd >= 0 && write(fd, text, (size_t) size) == size && fsync(fd) == 0;
}

static bool file_holds(int directory_fd, const char *name, const char *text)
{
    AUTO_CLOSE int fd = openat(directory_fd, name, O_RDONLY | O_CLOEXEC);
    char bytes[64];
    ssize_t size = fd >= 0 ? read(fd, bytes, sizeof bytes) : -1;

    return size == (ssize_t) strlen(text) && memcmp(bytes, text, (size_t) size) == 0;
}

/* The way in which every file of a commit is replaced. */
static bool check_replacing(struct doctor *doctor)
{
    int fd = doctor->probe_fd;

    if (!write_file(fd, PROBE_SECOND, "old") || !write_file(fd, PROBE_FIRST, "new")) {
        fail_write(doctor, "writing a file");
        return false;
    }
    if (renameat(fd, PROBE_FIRST, fd, PROBE_SECOND) < 0) {
        fail_write(doctor, "renaming a file over another");
        return false;
    }
    if (!file_holds(fd, PROBE_SECOND, "new")) {
        doctor_find(doctor, LEVEL_ERROR, "write", "do not use this volume",
                    "a file does not hold what was renamed to its name");
        return false;
    }
    if (fsync(fd) < 0)
        doctor_find(doctor, LEVEL_WARNING, "write", "expect lost commits after a power failure",
                    "a directory cannot be synced: %s", strerror(errno));
    return true;
}

/* The way in which a journal appears. */
static void check_links(struct doctor *doctor)
{
    int fd = doctor->probe_fd;

    if (linkat(fd, PROBE_SECOND, fd, PROBE_LINK, 0) == 0)
        return;
    if (!write_file(fd, PROBE_LINK, "x")) {
        fail_write(doctor, "writing a file");
    } else if (renameat2(fd, PROBE_SECOND, fd, PROBE_LINK, RENAME_NOREPLACE) < 0 &&
               errno == EEXIST) {
        doctor_find(doctor, LEVEL_INFO, "write", NULL,
                    "there are no hard links; journals are made by an exclusive rename instead");
    } else {
        doctor_find(doctor, LEVEL_WARNING, "write", "let one node only write to this volume",
                    "there are neither hard links nor exclusive renames: two nodes may overwrite "
                    "each other's journal");
    }
}

static void check_case(struct doctor *doctor)
{
    struct stat st;

    if (!write_file(doctor->probe_fd, PROBE_CASE, "x"))
        return;
    if (fstatat(doctor->probe_fd, "cASE", &st, AT_SYMLINK_NOFOLLOW) == 0)
        doctor_find(doctor, LEVEL_ERROR, "write", "use a file system that tells them apart",
                    "upper and lower case are one: ids that differ in case would share a file");
}

void doctor_check_writing(struct doctor *doctor)
{
    size_t before = json_array_size(doctor->findings);

    if (doctor->probe_fd < 0 || !check_replacing(doctor))
        return;
    check_links(doctor);
    check_case(doctor);
    if (json_array_size(doctor->findings) == before)
        doctor_find(doctor, LEVEL_OK, "write", NULL,
                    "files can be written, synced, replaced, linked and removed");
}

static uint64_t ns_of(const struct timespec *time)
{
    return (uint64_t) time->tv_sec * 1000000000u + (uint64_t) time->tv_nsec;
}

/* What is kept of a time that has all digits, in ns. */
static uint64_t stored_granularity(int fd)
{
    static const uint64_t steps[] = {1, 100, 1000, 1000000, 1000000000, 2000000000};
    const struct timespec wanted = {.tv_sec = 1700000001, .tv_nsec = 123456789};
    const struct timespec times[2] = {wanted, wanted};
    struct stat st;

    if (futimens(fd, times) < 0 || fstat(fd, &st) < 0)
        return 0;
    uint64_t got = ns_of(&st.st_mtim);
    for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
        if (got == ns_of(&wanted) / steps[i] * steps[i])
            return steps[i];
    }
    return 0;
}

/* The least step between the times of writes that follow one another, in ns; 0: not seen. */
static uint64_t clock_step(int fd)
{
    uint64_t least = 0, before = 0;
    int ticks = 0;
    time_t end = time(NULL) + TICK_SECONDS_MAX;
    struct stat st;

    while (ticks < TICKS_WANTED && time(NULL) < end && !stop_signal()) {
        if (pwrite(fd, "x", 1, 0) != 1 || fstat(fd, &st) < 0)
            return 0;
        uint64_t now = ns_of(&st.st_mtim);
        if (before && now > before) {
            ticks++;
            if (!least || now - before < least)
                least = now - before;
        }
        before = now;
    }
    return least;
}

/* Seconds by which a file just written is ahead of this node's clock, 0 within the tolerance. */
static long clock_skew(int fd)
{
    struct stat st;
    struct timespec now;

    if (pwrite(fd, "y", 1, 0) != 1 || fsync(fd) < 0 || fstat(fd, &st) < 0 ||
        clock_gettime(CLOCK_REALTIME, &now) < 0)
        return 0;
    long skew = (long) (st.st_mtim.tv_sec - now.tv_sec);
    return skew > SKEW_SECONDS_MAX || skew < -SKEW_SECONDS_MAX ? skew : 0;
}

void doctor_check_times(struct doctor *doctor)
{
    if (doctor->probe_fd < 0)
        return;
    AUTO_CLOSE int fd = openat(doctor->probe_fd, PROBE_FIRST, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    long skew = clock_skew(fd);
    uint64_t step = clock_step(fd);
    uint64_t stored = stored_granularity(fd);
    if (stored >= 1000000000u || stored == 0)
        doctor_find(doctor, LEVEL_INFO, "times", NULL,
                    "times are kept to the second or worse; contents are compared where times are "
                    "equal");
    else
        doctor_find(doctor, LEVEL_OK, "times", NULL,
                    "times are kept to %" PRIu64 " ns, quick writes differ by %.3f ms", stored,
                    (double) step / 1e6);
    if (skew)
        doctor_find(doctor, LEVEL_WARNING, "times", "let the server and all nodes follow NTP",
                    "the file server's clock is %ld s %s this node's", labs(skew),
                    skew > 0 ? "ahead of" : "behind");
}

/* Directories that this user cannot write to; `ret_uid` is an owner of one. */
static size_t count_closed_buckets(int users_fd, uid_t *ret_uid)
{
    DIR *directory = fdopendir(users_fd);
    const struct dirent *entry;
    size_t looked = 0, closed = 0;
    struct stat st;

    if (!directory) {
        (void) close(users_fd);
        return 0;
    }
    while (looked < BUCKETS_LOOKED_AT && (entry = readdir(directory)) != NULL) {
        if (entry->d_name[0] == '.' ||
            fstatat(users_fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode))
            continue;
        looked++;
        if (faccessat(users_fd, entry->d_name, R_OK | W_OK | X_OK, AT_EACCESS) < 0) {
            closed++;
            *ret_uid = st.st_uid;
        }
    }
    (void) closedir(directory);
    return closed;
}

void doctor_check_owner(struct doctor *doctor)
{
    struct stat st;
    uid_t owner = 0;

    if (fstat(doctor->volume_fd, &st) < 0)
        return;
    int users_fd = openat(doctor->volume_fd, "users", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    size_t closed = users_fd >= 0 ? count_closed_buckets(users_fd, &owner) : 0;
    if (closed > 0)
        doctor_find(doctor, LEVEL_WARNING, "owner",
                    "run the agent as the owner, or give both a common group",
                    "uid %u cannot read or write %zu users' directories, e.g. of uid %u",
                    (unsigned) geteuid(), closed, (unsigned) owner);
    else if (st.st_uid != geteuid())
        doctor_find(doctor, LEVEL_INFO, "owner",
                    "see that what each of them makes is writable for the other",
                    "the volume belongs to uid %u, this is uid %u", (unsigned) st.st_uid,
                    (unsigned) geteuid());
    else
        doctor_find(doctor, LEVEL_OK, "owner", NULL, "the volume belongs to this user (uid %u)",
                    (unsigned) geteuid());
}
