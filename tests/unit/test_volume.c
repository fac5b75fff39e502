/* core/volume.h: links, faults of single calls, half reads, durable replacement, identity. */
#include "core/clock.h"
#include "core/pause_point.h"
#include "core/volume_private.h"
#include "tests/unit/volume_fixture.h"

#include <errno.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>

/* ---- a table of calls that fails on demand ---- */

enum call {
    CALL_OPEN,
    CALL_STAT,
    CALL_READ,
    CALL_WRITE,
    CALL_LIST,
    CALL_SYNC,
    CALL_RENAME,
    CALL_UNLINK,
    CALL_MKDIR,
    CALL_CLOSE,
    CALL_COUNT
};

static struct {
    int error[CALL_COUNT];      /* 0: the call is real */
    unsigned after[CALL_COUNT]; /* so many calls pass before the one that fails */
    bool once[CALL_COUNT];
    size_t most_bytes;  /* short reads and writes: at most so many at a time */
    bool without_types; /* listings do not tell the type */
    void (*before_read)(void);
    unsigned calls;
} fault;

static void fail(enum call call, int sys_errno, unsigned after, bool once)
{
    fault.error[call] = sys_errno;
    fault.after[call] = after;
    fault.once[call] = once;
}

/* True when this call is to fail; errno is set then. */
static bool fails(enum call call)
{
    int sys_errno = fault.error[call];

    fault.calls++;
    if (!sys_errno)
        return false;
    if (fault.after[call] > 0) {
        fault.after[call]--;
        return false;
    }
    if (fault.once[call])
        fault.error[call] = 0;
    errno = sys_errno;
    return true;
}

static size_t shortened(size_t size)
{
    return fault.most_bytes && size > fault.most_bytes ? fault.most_bytes : size;
}

static int faulty_open(int dir_fd, const char *path, int flags, mode_t mode)
{
    return fails(CALL_OPEN) ? -1 : volume_real_calls()->open_beneath(dir_fd, path, flags, mode);
}

static int faulty_stat(int fd, const char *path, struct statx *ret)
{
    return fails(CALL_STAT) ? -1 : volume_real_calls()->stat_forced(fd, path, ret);
}

static ssize_t faulty_read(int fd, void *bytes, size_t size, off_t offset)
{
    if (fault.before_read)
        fault.before_read();
    return fails(CALL_READ) ? -1 : pread(fd, bytes, shortened(size), offset);
}

static ssize_t faulty_write(int fd, const void *bytes, size_t size)
{
    return fails(CALL_WRITE) ? -1 : write(fd, bytes, shortened(size));
}

static ssize_t faulty_list(int fd, void *bytes, size_t size)
{
    ssize_t got =
        fails(CALL_LIST) ? -1 : volume_real_calls()->list(fd, bytes, fault.most_bytes ? 256 : size);

    for (ssize_t at = 0; fault.without_types && at < got;) {
        struct dirent64 *record = (void *) ((char *) bytes + at);
        record->d_type = DT_UNKNOWN;
        at += record->d_reclen;
    }
    return got;
}

static int faulty_sync(int fd)
{
    return fails(CALL_SYNC) ? -1 : fsync(fd);
}

static int faulty_rename(int from_dir_fd, const char *from, int to_dir_fd, const char *to)
{
    return fails(CALL_RENAME) ? -1 : renameat(from_dir_fd, from, to_dir_fd, to);
}

static int faulty_unlink(int dir_fd, const char *name, int flags)
{
    return fails(CALL_UNLINK) ? -1 : unlinkat(dir_fd, name, flags);
}

static int faulty_mkdir(int dir_fd, const char *name, mode_t mode)
{
    return fails(CALL_MKDIR) ? -1 : mkdirat(dir_fd, name, mode);
}

/* A failing close has let go of its descriptor all the same. */
static int faulty_close(int fd)
{
    bool failing = fails(CALL_CLOSE);
    int sys_errno = errno;

    (void) close(fd);
    errno = sys_errno;
    return failing ? -1 : 0;
}

static struct volume_calls faulty_calls(void)
{
    struct volume_calls calls = *volume_real_calls();

    calls.open_beneath = faulty_open;
    calls.stat_forced = faulty_stat;
    calls.read = faulty_read;
    calls.write = faulty_write;
    calls.list = faulty_list;
    calls.sync = faulty_sync;
    calls.rename = faulty_rename;
    calls.unlink = faulty_unlink;
    calls.mkdir = faulty_mkdir;
    calls.close = faulty_close;
    return calls;
}

/* ---- fixture ---- */

static char dir[SCRATCH_SIZE];
static struct volume_calls calls;
static struct volume *volume;
static struct error error;

static struct volume *open_at(const char *path, enum volume_kind *kind, bool write_marker)
{
    struct volume *opened = NULL;
    struct volume_options options = {.path = path,
                                     .calls = &calls,
                                     .force_kind = kind,
                                     .write_marker = write_marker};

    cr_assert(eq(int, volume_open(&options, &opened, &error), STATUS_OK), "%s", error.message);
    return opened;
}

static void set_up(void)
{
    memset(&fault, 0, sizeof fault);
    calls = faulty_calls();
    scratch_create(dir);
    volume = open_at(dir, NULL, false);
}

static void tear_down(void)
{
    volume_close(&volume);
    scratch_remove(dir);
}

TestSuite(volume, .init = set_up, .fini = tear_down, .timeout = 60);

/* How many names beginning with '.' lie in the directory: temporaries that were left. */
static size_t count_hidden(const char *path)
{
    AUTO_LISTING struct listing listing = {0};
    size_t hidden = 0;

    cr_assert(eq(int, volume_list(volume, -1, path, &listing, NULL), STATUS_OK));
    for (size_t i = 0; i < listing.count; i++)
        hidden += listing.entries[i].name[0] == '.';
    return hidden;
}

/* ---- staying inside ---- */

static void make_links(void)
{
    char path[PATH_MAX];

    put_file(dir, "users/u1/memory.json", "inside");
    put_file(dir, "outside.md", "not below users");
    cr_assert(zero(int, symlink("u1", joined(path, dir, "users/link"))));
    cr_assert(zero(int, symlink("/", joined(path, dir, "users/slash"))));
    cr_assert(zero(int, symlink("../../outside.md", joined(path, dir, "users/u1/link.md"))));
    cr_assert(zero(int, symlink("/proc/self/root", joined(path, dir, "users/magic"))));
}

static void check_nothing_leads_out(void)
{
    static const char *const paths[] = {
        "users/link/memory.json", /* the middle, although it stays inside */
        "users/u1/link.md",
        "users/slash/etc/passwd",
        "users/magic/etc/passwd",
        "../outside.md",
        "users/../users/u1/memory.json",
        "users/u1/..",
        "/etc/passwd",
    };

    make_links();
    for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
        AUTO_IMAGE struct file_image image = {0};
        AUTO_LISTING struct listing listing = {0};
        enum status status = volume_read_file(volume, -1, paths[i], 1000, &image, &error);
        cr_expect(status == STATUS_DENIED || status == STATUS_CORRUPT, "%s", paths[i]);
        cr_expect(same_text(error.path, paths[i]));
        cr_expect(eq(int, volume_list(volume, -1, paths[i], &listing, NULL), STATUS_DENIED), "%s",
                  paths[i]);
    }
    AUTO_LISTING struct listing listing = {0};
    cr_expect(eq(int, volume_list(volume, -1, "users/link", &listing, NULL), STATUS_DENIED));

    AUTO_IMAGE struct file_image image = {0};
    cr_assert(eq(int, volume_read_file(volume, -1, "users/u1/memory.json", 1000, &image, &error),
                 STATUS_OK));
    cr_expect(same_text(image.bytes, "inside"));
}

Test(volume, no_link_and_no_dots_lead_anywhere)
{
    check_nothing_leads_out();
}

Test(volume, nothing_leads_out_where_the_kernel_lacks_openat2)
{
    calls.open_beneath = volume_open_by_component;
    check_nothing_leads_out();

    AUTO_CLOSE int fd = -1;
    cr_expect(eq(int, volume_open_dir(volume, -1, "users//u1/", &fd, NULL), STATUS_OK));
    AUTO_IMAGE struct file_image image = {0};
    cr_expect(eq(int, volume_read_file(volume, -1, "users/u2/memory.json", 9, &image, NULL),
                 STATUS_NOT_FOUND));
}

Test(volume, names_that_are_paths_are_refused)
{
    static const char *const names[] = {"", ".", "..", "a/b", "../a"};
    struct file_stamp stamp;
    bool left = false;
    int fd = volume_root_fd(volume);

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        cr_expect(eq(int, volume_stamp_at(volume, fd, names[i], &stamp, NULL, NULL),
                     STATUS_INVALID),
                  "%s", names[i]);
        cr_expect(eq(int, volume_replace_file(volume, fd, names[i], "x", 1, NULL), STATUS_INVALID));
        cr_expect(eq(int, volume_remove_file(volume, fd, names[i], NULL), STATUS_INVALID));
        cr_expect(eq(int, volume_remove_dir(volume, fd, names[i], &left, NULL), STATUS_INVALID));
    }
}

Test(volume, a_pipe_in_a_files_place_neither_hangs_nor_is_read)
{
    char path[PATH_MAX];
    AUTO_IMAGE struct file_image image = {0};

    cr_assert(zero(int, mkfifo(joined(path, dir, "memory.json"), 0644)));
    cr_expect(
        eq(int, volume_read_file(volume, -1, "memory.json", 100, &image, &error), STATUS_CORRUPT));
    cr_expect(same_text(error.path, "memory.json"));
    cr_expect(same_text(error.message, "it is a pipe, not a regular file"));
}

/* Which it is cannot be told without opening it, and that is refused for both. */
Test(volume, a_socket_in_a_files_place_is_not_read)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    AUTO_IMAGE struct file_image image = {0};
    AUTO_CLOSE int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void) snprintf(address.sun_path, sizeof address.sun_path, "%s/memory.json", dir);
    cr_assert(zero(int, bind(listener, (struct sockaddr *) &address, sizeof address)));
    cr_expect(
        eq(int, volume_read_file(volume, -1, "memory.json", 100, &image, &error), STATUS_CORRUPT));
    cr_expect(same_text(error.message,
                        "it is a socket, or a device that is not there, not a regular file"));
}

/* ---- reading ---- */

Test(volume, reads_whole_files_of_any_size)
{
    static const size_t sizes[] = {0, 1, 4095, 4096, 4097, 100000};

    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
        for (size_t most = 0; most < 2; most++) {
            AUTO_FREE char *bytes = malloc(sizes[i] + 1);
            AUTO_IMAGE struct file_image image = {0};
            memset(bytes, 'a', sizes[i]);
            bytes[sizes[i]] = '\0';
            put_file(dir, "file", bytes);
            fault.most_bytes = most * 1000; /* short reads, each a call that was cut */
            cr_assert(eq(int, volume_read_file(volume, -1, "file", sizes[i], &image, &error),
                         STATUS_OK),
                      "%zu: %s", sizes[i], error.message);
            cr_expect(eq(sz, image.size, sizes[i]));
            cr_expect(same_text(image.bytes, bytes));
            cr_expect(eq(u64, image.stamp.size, sizes[i]));
            if (sizes[i] > 0)
                cr_expect(eq(int,
                             volume_read_file(volume, -1, "file", sizes[i] - 1,
                                              &(struct file_image){0}, NULL),
                             STATUS_TOO_LARGE));
        }
    }
}

Test(volume, an_interrupted_call_is_repeated)
{
    AUTO_IMAGE struct file_image image = {0};
    AUTO_LISTING struct listing listing = {0};
    bool left = false;

    put_file(dir, "d/file", "bytes");
    for (int call = 0; call < CALL_COUNT; call++)
        fail((enum call) call, EINTR, 0, true);
    cr_expect(eq(int, volume_read_file(volume, -1, "d/file", 10, &image, NULL), STATUS_OK));
    cr_expect(eq(int, volume_list(volume, -1, "d", &listing, NULL), STATUS_OK));
    cr_expect(eq(int, volume_replace_file(volume, volume_root_fd(volume), "new", "x", 1, NULL),
                 STATUS_OK));
    cr_expect(eq(int, volume_make_dir(volume, volume_root_fd(volume), "e", NULL), STATUS_OK));
    cr_expect(
        eq(int, volume_remove_dir(volume, volume_root_fd(volume), "d", &left, NULL), STATUS_OK));
    for (int call = 0; call < CALL_COUNT; call++)
        cr_expect(zero(int, fault.error[call]), "call %d was never made", call);
    cr_expect(file_is(dir, "new", "x"));
    cr_expect(not(has_file(dir, "d")));
}

/* On a network volume each call is a message. */
Test(volume, a_read_that_stops_at_the_size_told_has_met_the_end)
{
    AUTO_IMAGE struct file_image image = {0};

    put_file(dir, "d/file", "bytes");
    fault.calls = 0;
    uint64_t operations = volume_operations_here();
    cr_assert(eq(int, volume_read_file(volume, -1, "d/file", 10, &image, NULL), STATUS_OK));
    cr_expect(eq(u32, fault.calls, 4), "open, attributes, read, attributes");
    cr_expect(eq(u64, volume_operations_here() - operations, 7),
              "and two look-ups, and what the client asks for the read");

    AUTO_IMAGE struct file_image once = {0};
    fault.calls = 0;
    cr_assert(eq(int, volume_read_file_once(volume, -1, "d/file", 10, &once, NULL), STATUS_OK));
    cr_expect(eq(u32, fault.calls, 3), "open, attributes, read");
    cr_expect(file_stamp_equal(&once.stamp, &image.stamp));
    cr_expect_str_eq(once.bytes, "bytes");
}

Test(volume, faults_of_a_read_are_told_apart)
{
    const struct {
        enum call call;
        int sys_errno;
        unsigned after;
        enum status status;
    } cases[] = {
        {CALL_OPEN, ESTALE, 0, STATUS_STALE}, {CALL_OPEN, EACCES, 0, STATUS_DENIED},
        {CALL_READ, ESTALE, 0, STATUS_STALE}, {CALL_READ, EIO, 0, STATUS_IO},
        {CALL_READ, EIO, 1, STATUS_IO},       {CALL_STAT, ESTALE, 0, STATUS_STALE},
        {CALL_STAT, ESTALE, 1, STATUS_STALE}, {CALL_STAT, EIO, 1, STATUS_IO},
    };

    put_file(dir, "file", "bytes");
    fault.most_bytes = 3; /* one read is not enough */
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct file_image image = {.size = 77};
        fail(cases[i].call, cases[i].sys_errno, cases[i].after, true);
        cr_expect(eq(int, volume_read_file(volume, -1, "file", 10, &image, &error),
                     cases[i].status),
                  "row %zu", i);
        cr_expect(same_text(error.path, "file"));
        cr_expect(eq(int, error.sys_errno, cases[i].sys_errno));
        cr_expect(eq(sz, image.size, 77)); /* untouched */
        cr_expect(zero(int, fault.error[cases[i].call]), "row %zu never failed", i);
    }
}

/* Each of these happens once, between the first look at the file and its bytes. */
static void grow_file(void)
{
    fault.before_read = NULL;
    put_file(dir, "file", "half and then the other half");
}

static void truncate_file(void)
{
    fault.before_read = NULL;
    put_file(dir, "file", "");
}

static void replace_file(void)
{
    char from[PATH_MAX];
    char to[PATH_MAX];

    fault.before_read = NULL;
    put_file(dir, "other", "HALF");
    cr_assert(zero(int, rename(joined(from, dir, "other"), joined(to, dir, "file"))));
}

static void rewrite_with_times_kept(void)
{
    char path[PATH_MAX];
    struct stat before;

    fault.before_read = NULL;
    cr_assert(zero(int, stat(joined(path, dir, "file"), &before)));
    put_file(dir, "file", "HALF");
    cr_assert(zero(int, utimensat(AT_FDCWD, path,
                                  (struct timespec[]){before.st_atim, before.st_mtim}, 0)));
}

Test(volume, a_file_that_changes_while_it_is_read_is_stale)
{
    void (*const changes[])(void) = {grow_file, truncate_file, replace_file,
                                     rewrite_with_times_kept};

    for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
        AUTO_IMAGE struct file_image image = {0};
        struct timespec old = {.tv_sec = 1000000000};
        char path[PATH_MAX];

        put_file(dir, "file", "half");
        (void) joined(path, dir, "file");
        cr_assert(zero(int, utimensat(AT_FDCWD, path, (struct timespec[]){old, old}, 0)));
        fault.before_read = changes[i];
        cr_expect(eq(int, volume_read_file(volume, -1, "file", 1000, &image, &error), STATUS_STALE),
                  "row %zu", i);
        cr_expect(eq(ptr, (void *) fault.before_read, NULL));
        cr_expect(eq(ptr, image.bytes, NULL));

        /* what stands there now is served at the next look */
        cr_expect(eq(int, volume_read_file(volume, -1, "file", 1000, &image, &error), STATUS_OK));
        cr_expect(eq(u64, image.stamp.size, image.size));
    }
}

/* A cached attribute: the size from before the file was replaced. */
static int stat_with_old_size(int fd, const char *path, struct statx *ret)
{
    int result = volume_real_calls()->stat_forced(fd, path, ret);

    ret->stx_size = 3;
    return result;
}

Test(volume, bytes_that_do_not_fit_the_told_size_are_stale)
{
    AUTO_IMAGE struct file_image image = {0};

    put_file(dir, "longer", "more than three");
    put_file(dir, "shorter", "1");
    calls.stat_forced = stat_with_old_size;
    cr_expect(eq(int, volume_read_file(volume, -1, "longer", 1000, &image, NULL), STATUS_STALE));
    cr_expect(eq(int, volume_read_file(volume, -1, "shorter", 1000, &image, NULL), STATUS_STALE));
    cr_expect(
        eq(int, volume_read_file_once(volume, -1, "longer", 1000, &image, NULL), STATUS_STALE));
    cr_expect(eq(int, volume_read_file(volume, -1, "longer", 5, &image, NULL), STATUS_TOO_LARGE),
              "however little it was told to be");
}

Test(volume, stamps_tell_files_and_directories)
{
    struct file_stamp stamp;
    bool is_dir = true;
    bool is_file = false;
    char path[PATH_MAX];

    put_file(dir, "file", "12345");
    cr_assert(zero(int, symlink("file", joined(path, dir, "link"))));
    int fd = volume_root_fd(volume);
    cr_expect(eq(int, volume_stamp_at(volume, fd, "file", &stamp, &is_dir, &is_file), STATUS_OK));
    cr_expect(not(is_dir));
    cr_expect(is_file);
    cr_expect(eq(u64, stamp.size, 5));
    cr_expect(eq(int, volume_stamp_at(volume, fd, "link", &stamp, &is_dir, &is_file), STATUS_OK));
    cr_expect(not(is_file)); /* not followed */
    cr_expect(eq(int, volume_stamp_at(volume, fd, "none", &stamp, NULL, NULL), STATUS_NOT_FOUND));
}

/* ---- listing ---- */

static void check_listing(void)
{
    AUTO_LISTING struct listing listing = {0};

    cr_assert(eq(int, volume_list(volume, -1, "d", &listing, &error), STATUS_OK), "%s",
              error.message);
    cr_assert(eq(sz, listing.count, 42));
    for (size_t i = 1; i < listing.count; i++)
        cr_expect(lt(int, strcmp(listing.entries[i - 1].name, listing.entries[i].name), 0));
    const struct listing_entry *entry = listing_find(&listing, "f07.md");
    cr_assert(ne(ptr, (void *) (uintptr_t) entry, NULL));
    cr_expect(entry->is_file);
    cr_expect(not(entry->is_dir));
    entry = listing_find(&listing, "sub");
    cr_assert(ne(ptr, (void *) (uintptr_t) entry, NULL));
    cr_expect(entry->is_dir);
    entry = listing_find(&listing, "link");
    cr_assert(ne(ptr, (void *) (uintptr_t) entry, NULL));
    cr_expect(not(entry->is_file || entry->is_dir));
    cr_expect(eq(ptr, (void *) (uintptr_t) listing_find(&listing, "f07"), NULL));
    cr_expect(eq(ptr, (void *) (uintptr_t) listing_find(&listing, "."), NULL));
}

static void make_forty(void)
{
    char name[32];
    char path[PATH_MAX];

    for (int i = 0; i < 40; i++) {
        (void) snprintf(name, sizeof name, "d/f%02d.md", i);
        put_file(dir, name, "x");
    }
    put_dir(dir, "d/sub");
    cr_assert(zero(int, symlink("f01.md", joined(path, dir, "d/link"))));
}

Test(volume, lists_everything_sorted)
{
    make_forty();
    check_listing();
    fault.most_bytes = 1; /* many short answers */
    check_listing();
    fault.without_types = true;
    check_listing();
}

Test(volume, a_held_directory_is_listed_from_its_beginning_each_time)
{
    AUTO_CLOSE int fd = -1;
    AUTO_LISTING struct listing first = {0};
    AUTO_LISTING struct listing second = {0};

    put_file(dir, "d/a", "");
    cr_assert(eq(int, volume_open_dir(volume, -1, "d", &fd, NULL), STATUS_OK));
    cr_assert(eq(int, volume_list_fd(volume, fd, &first, NULL), STATUS_OK));
    put_file(dir, "d/b", "");
    cr_assert(eq(int, volume_list_fd(volume, fd, &second, NULL), STATUS_OK));
    cr_expect(eq(sz, first.count, 1));
    cr_expect(eq(sz, second.count, 2));
}

Test(volume, a_listing_that_fails_half_way_is_no_listing)
{
    const struct {
        enum call call;
        int sys_errno;
        unsigned after;
        enum status status;
    } cases[] = {
        {CALL_OPEN, EIO, 0, STATUS_IO},       {CALL_STAT, EIO, 0, STATUS_IO},
        {CALL_LIST, EIO, 0, STATUS_IO},       {CALL_LIST, EIO, 2, STATUS_IO},
        {CALL_LIST, ESTALE, 1, STATUS_STALE}, {CALL_LIST, ENOENT, 1, STATUS_STALE},
        {CALL_STAT, EIO, 10, STATUS_IO},      {CALL_STAT, ENOENT, 10, STATUS_STALE},
    };

    make_forty();
    fault.most_bytes = 1;
    fault.without_types = true;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct listing listing = {.count = 77};
        fail(cases[i].call, cases[i].sys_errno, cases[i].after, true);
        cr_expect(eq(int, volume_list(volume, -1, "d", &listing, &error), cases[i].status),
                  "row %zu", i);
        cr_expect(same_text(error.path, "d"));
        cr_expect(eq(sz, listing.count, 77));
        cr_expect(zero(int, fault.error[cases[i].call]), "row %zu never failed", i);
    }
}

Test(volume, what_cannot_be_begun_anew_is_not_listed)
{
    struct listing listing = {.count = 77};
    int ends[2];

    cr_assert(zero(int, pipe2(ends, O_CLOEXEC)));
    cr_expect(ne(int, volume_list_fd(volume, ends[0], &listing, &error), STATUS_OK));
    cr_expect(ne(ptr, strstr(error.message, "cannot list the directory"), NULL), "%s",
              error.message);
    cr_expect(eq(sz, listing.count, 77));
    (void) close(ends[0]);
    (void) close(ends[1]);
}

static ssize_t list_twice(int fd, void *bytes, size_t size)
{
    ssize_t got = volume_real_calls()->list(fd, bytes, size / 2);

    if (got > 0)
        memcpy((char *) bytes + got, bytes, (size_t) got);
    return 2 * got;
}

Test(volume, a_name_that_the_server_tells_twice_is_listed_once)
{
    make_forty();
    calls.list = list_twice;
    check_listing();
}

/* ---- writing ---- */

Test(volume, a_replaced_file_keeps_its_mode_and_a_new_one_takes_its_directorys)
{
    char path[PATH_MAX];
    struct stat status;
    int fd = volume_root_fd(volume);

    put_file(dir, "old", "before");
    cr_assert(zero(int, chmod(joined(path, dir, "old"), 0604)));
    cr_assert(zero(int, chmod(dir, 0750)));
    (void) umask(0077); /* not ours to obey: the peers must be able to read */
    cr_expect(eq(int, volume_replace_file(volume, fd, "old", "after", 5, NULL), STATUS_OK));
    cr_expect(eq(int, volume_replace_file(volume, fd, "new", "bytes", 5, NULL), STATUS_OK));
    cr_expect(eq(int, volume_make_dir(volume, fd, "shard", NULL), STATUS_OK));

    cr_assert(zero(int, stat(path, &status)));
    cr_expect(eq(u32, status.st_mode & 07777, 0604));
    cr_assert(zero(int, stat(joined(path, dir, "new"), &status)));
    cr_expect(eq(u32, status.st_mode & 07777, 0640));
    cr_assert(zero(int, stat(joined(path, dir, "shard"), &status)));
    cr_expect(eq(u32, status.st_mode & 07777, 0750));
    cr_expect(file_is(dir, "old", "after"));
    cr_expect(file_is(dir, "new", "bytes"));
}

static void *replace_in_thread(void *context)
{
    *(enum status *) context =
        volume_replace_file(volume, volume_root_fd(volume), "kept", "after", 5, NULL);
    return NULL;
}

Test(volume, the_old_bytes_are_there_until_the_new_ones_are_complete)
{
    AUTO_LISTING struct listing listing = {0};
    enum status status = STATUS_INTERNAL;
    pthread_t thread;
    size_t temporaries = 0;

    put_file(dir, "kept", "before");
    pause_arm(PAUSE_REPLACE_BEFORE_RENAME);
    cr_assert(eq(int, pthread_create(&thread, NULL, replace_in_thread, &status), 0));
    cr_assert(pause_wait_reached(PAUSE_REPLACE_BEFORE_RENAME, 5000));
    cr_expect(file_is(dir, "kept", "before"));
    cr_assert(eq(int, volume_list(volume, -1, ".", &listing, NULL), STATUS_OK));
    for (size_t i = 0; i < listing.count; i++)
        temporaries += volume_name_is_temporary_of(listing.entries[i].name, "kept");
    cr_expect(eq(sz, temporaries, 1));
    pause_release(PAUSE_REPLACE_BEFORE_RENAME);
    cr_assert(eq(int, pthread_join(thread, NULL), 0));
    cr_expect(eq(int, status, STATUS_OK));
    cr_expect(file_is(dir, "kept", "after"));
}

Test(volume, a_replaced_file_keeps_owner_and_group)
{
    char path[PATH_MAX];
    struct stat status;

    put_file(dir, "old", "before");
    if (chown(joined(path, dir, "old"), 1234, 2345) < 0) {
        printf("skipped: giving files away takes a right that is missing here\n");
        return;
    }
    cr_expect(eq(int, volume_replace_file(volume, volume_root_fd(volume), "old", "after", 5, NULL),
                 STATUS_OK));
    cr_assert(zero(int, stat(path, &status)));
    cr_expect(eq(u32, status.st_uid, 1234));
    cr_expect(eq(u32, status.st_gid, 2345));
}

Test(volume, a_replacement_that_fails_at_any_call_leaves_the_old_file)
{
    const struct {
        enum call call;
        unsigned after;
    } cases[] = {
        {CALL_OPEN, 0}, {CALL_WRITE, 0}, {CALL_WRITE, 1},
        {CALL_SYNC, 0}, {CALL_CLOSE, 0}, {CALL_RENAME, 0},
    };
    static const int errors[] = {ENOSPC, EDQUOT};

    put_file(dir, "d/memory.json", "the old bytes");
    AUTO_CLOSE int fd = -1;
    cr_assert(eq(int, volume_open_dir(volume, -1, "d", &fd, NULL), STATUS_OK));
    fault.most_bytes = 7; /* so that a second write follows a short one */
    for (size_t i = 0; i < ARRAY_SIZE(cases) * ARRAY_SIZE(errors); i++) {
        enum call call = cases[i / 2].call;
        fail(call, errors[i % 2], cases[i / 2].after, true);
        cr_expect(eq(int,
                     volume_replace_file(volume, fd, "memory.json", "the new bytes", 13, &error),
                     STATUS_STORAGE_FULL),
                  "row %zu", i / 2);
        cr_expect(zero(int, fault.error[call]), "row %zu never failed", i / 2);
        cr_expect(same_text(error.path, "memory.json"), "row %zu", i / 2);
        cr_expect(file_is(dir, "d/memory.json", "the old bytes"), "row %zu", i / 2);
        cr_expect(zero(sz, count_hidden("d")), "row %zu", i / 2);
    }
    /* once there is space again */
    cr_expect(eq(int, volume_replace_file(volume, fd, "memory.json", "the new bytes", 13, NULL),
                 STATUS_OK));
    cr_expect(file_is(dir, "d/memory.json", "the new bytes"));
    cr_expect(zero(sz, count_hidden("d")));
}

Test(volume, a_directory_that_cannot_be_synced_is_an_error_and_the_new_file_is_whole)
{
    fail(CALL_SYNC, EIO, 1, true);
    cr_expect(eq(int, volume_replace_file(volume, volume_root_fd(volume), "new", "bytes", 5, NULL),
                 STATUS_IO));
    cr_expect(file_is(dir, "new", "bytes"));
    cr_expect(zero(sz, count_hidden(".")));
}

Test(volume, the_longest_name_can_be_replaced)
{
    char name[NAME_MAX + 1];

    memset(name, 'n', NAME_MAX);
    name[NAME_MAX] = '\0';
    cr_expect(eq(int, volume_replace_file(volume, volume_root_fd(volume), name, "x", 1, &error),
                 STATUS_OK),
              "%s", error.message);
    cr_expect(file_is(dir, name, "x"));
}

Test(volume, a_link_in_the_files_place_is_replaced_not_followed)
{
    char path[PATH_MAX];
    struct stat status;

    put_file(dir, "target", "stays");
    cr_assert(zero(int, symlink("target", joined(path, dir, "link"))));
    cr_expect(eq(int, volume_replace_file(volume, volume_root_fd(volume), "link", "new", 3, NULL),
                 STATUS_OK));
    cr_expect(file_is(dir, "target", "stays"));
    cr_assert(zero(int, lstat(path, &status)));
    cr_expect(eq(u32, status.st_mode & S_IFMT, S_IFREG));
}

Test(volume, removing_what_is_gone_is_fine)
{
    int fd = volume_root_fd(volume);
    bool left = true;

    put_file(dir, "file", "x");
    cr_expect(eq(int, volume_remove_file(volume, fd, "file", NULL), STATUS_OK));
    cr_expect(not(has_file(dir, "file")));
    cr_expect(eq(int, volume_remove_file(volume, fd, "file", NULL), STATUS_OK));
    cr_expect(eq(int, volume_remove_dir(volume, fd, "none", &left, NULL), STATUS_OK));
    cr_expect(not(left));
    fail(CALL_UNLINK, EROFS, 0, true);
    cr_expect(eq(int, volume_remove_file(volume, fd, "file", NULL), STATUS_DENIED));
}

Test(volume, a_directory_with_leftovers_of_nfs_stays)
{
    bool left = false;
    int fd = volume_root_fd(volume);

    put_file(dir, "op/memory.json", "x");
    put_file(dir, "op/.nfs0000000012345678", "held open elsewhere");
    cr_expect(eq(int, volume_remove_dir(volume, fd, "op", &left, NULL), STATUS_OK));
    cr_expect(left);
    cr_expect(not(has_file(dir, "op/memory.json")));
    cr_expect(has_file(dir, "op/.nfs0000000012345678"));

    fail(CALL_LIST, EIO, 0, true);
    cr_expect(eq(int, volume_remove_dir(volume, fd, "op", &left, &error), STATUS_IO));
    cr_expect(same_text(error.path, "op"));
}

/* ---- the root ---- */

Test(volume, a_path_that_is_no_directory_is_no_volume)
{
    char path[PATH_MAX];
    struct volume *none = NULL;

    put_file(dir, "file", "x");
    struct volume_options options = {.path = joined(path, dir, "none")};
    cr_expect(eq(int, volume_open(&options, &none, &error), STATUS_NOT_FOUND));
    cr_expect(ne(ptr, strstr(error.message, path), NULL));
    options.path = joined(path, dir, "file");
    cr_expect(eq(int, volume_open(&options, &none, &error), STATUS_DENIED));
    cr_expect(eq(ptr, none, NULL));
}

Test(volume, a_relative_path_stays_what_it_was)
{
    char path[PATH_MAX];
    bool same = false;

    put_dir(dir, "root");
    cr_assert(zero(int, chdir(dir)));
    struct volume *relative = open_at("root", NULL, false);
    cr_assert(zero(int, chdir("/")));
    cr_expect(same_text(volume_path(relative), joined(path, dir, "root")));
    cr_expect(eq(int, volume_check_identity(relative, &same, NULL), STATUS_OK));
    cr_expect(same);
    volume_close(&relative);
}

Test(volume, a_relative_path_from_nowhere_is_no_volume)
{
    const struct volume_options options = {.path = "root"};
    struct volume *none = NULL;
    char path[PATH_MAX];

    put_dir(dir, "gone");
    cr_assert(zero(int, chdir(joined(path, dir, "gone"))));
    cr_assert(zero(int, rmdir(path)));
    cr_expect(eq(int, volume_open(&options, &none, &error), STATUS_NOT_FOUND));
    cr_expect(ne(ptr, strstr(error.message, "cannot resolve the path root"), NULL), "%s",
              error.message);
    cr_expect(eq(ptr, none, NULL));
    cr_assert(zero(int, chdir("/")));
}

Test(volume, kinds_are_known_by_type)
{
    const struct {
        uint32_t type;
        enum volume_kind kind;
        const char *name;
    } cases[] = {
        {0xef53, VOLUME_LOCAL, "ext4"},       {0x58465342, VOLUME_LOCAL, "xfs"},
        {0x9123683e, VOLUME_LOCAL, "btrfs"},  {0x01021994, VOLUME_LOCAL, "tmpfs"},
        {0x6969, VOLUME_CLUSTER, "nfs"},      {0x00c36400, VOLUME_CLUSTER, "ceph"},
        {0x65735546, VOLUME_UNKNOWN, "fuse"}, {0xff534d42, VOLUME_UNKNOWN, "cifs"},
        {0x1234, VOLUME_UNKNOWN, "0x1234"},
    };
    char name[VOLUME_FS_NAME_SIZE];

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        cr_expect(eq(int, volume_kind_of_fs(cases[i].type, name), cases[i].kind), "row %zu", i);
        cr_expect(same_text(name, cases[i].name));
    }
}

Test(volume, mounts_whose_locks_stay_on_the_node_are_told_by_their_options)
{
    const struct {
        const char *line;
        bool keeps;
    } cases[] = {
        {"41 29 0:44 / /srv/v rw,relatime - nfs 10.0.0.5:/v rw,vers=3,nolock,proto=tcp\n", true},
        {"41 29 0:44 / /srv/v rw shared:7 - nfs s:/v rw,vers=3,local_lock=flock\n", true},
        {"41 29 0:44 / /srv/v rw - ocfs2 /dev/sdb rw,localflocks", true},
        {"41 29 0:44 / /srv/v rw - nfs4 s:/v rw,vers=4.2,local_lock=none\n", false},
        {"41 29 0:44 / /srv/v rw - nfs s:/v rw,vers=3,local_lock=posix\n", false},
        {"41 29 0:44 / /nolock rw - nfs nolock rw\n", false},
        {"411 29 0:44 / /srv/v rw - nfs s:/v rw,nolock\n", false}, /* another mount */
        {"41 29 0:44 / /srv/v rw - nfs s:/v", false},
        {"41", false},
        {"", false},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        cr_expect(eq(int, volume_mount_keeps_locks(volume_mount_options_of_line(cases[i].line, 41)),
                     cases[i].keeps),
                  "row %zu", i);
    AUTO_FREE char *options = volume_mount_options(volume_root_fd(volume));
    cr_assert_not_null(options);
    cr_expect(not(volume_mount_keeps_locks(options)));
}

Test(volume, how_long_a_client_keeps_what_is_old_is_told_by_type_and_options)
{
    const struct {
        const char *fs_name;
        const char *options;
        uint64_t seconds;
    } cases[] = {
        {"nfs", "rw,vers=4.2,hard\n", 60},
        {"nfs", NULL, 60},
        {"nfs", "rw,noac,vers=3", 0},
        {"nfs", "rw,vers=3,acregmin=1,acregmax=7,acdirmin=1,acdirmax=5", 7},
        {"nfs", "rw,acregmax=3,acdirmax=600", 600},
        {"nfs", "rw,acregmax=,acdirmax=99999999999", 86400},
        {"nfs", "rw,noac=1,xacdirmax=5", 60},
        {"ceph", "rw", 0},
        {"lustre", "rw", 0},
        {"beegfs", "rw", 60},
        {"fuse", "rw,noac", 60},
        {"0x12", NULL, 60},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        cr_expect(eq(u64, volume_mount_cache_ns(cases[i].fs_name, cases[i].options),
                     cases[i].seconds * NS_PER_SECOND),
                  "row %zu", i);
}

Test(volume, how_long_stamps_take_to_settle_can_be_told)
{
    static enum volume_kind unknown = VOLUME_UNKNOWN;
    struct volume_options options = {.path = volume_path(volume),
                                     .force_kind = &unknown,
                                     .cache_ns = 3 * NS_PER_SECOND};
    struct volume *told = NULL;

    cr_assert(eq(int, volume_open(&options, &told, NULL), STATUS_OK));
    cr_expect(eq(u64, volume_settle_ns(told), 5 * NS_PER_SECOND));
    volume_close(&told);
    options.cache_ns = 0;
    cr_assert(eq(int, volume_open(&options, &told, NULL), STATUS_OK));
    cr_expect(eq(u64, volume_settle_ns(told), 62 * NS_PER_SECOND));
    volume_close(&told);
    cr_expect(eq(u64, volume_settle_ns(volume), 2 * NS_PER_SECOND), "a local one");
}

Test(volume, what_is_believed_depends_on_the_kind)
{
    const struct {
        enum volume_kind kind;
        const char *name;
        bool safe;
        uint64_t settle_ns;
    } cases[] = {
        {VOLUME_LOCAL, "local", true, 2 * NS_PER_SECOND},
        {VOLUME_CLUSTER, "cluster", false, 62 * NS_PER_SECOND},
        {VOLUME_UNKNOWN, "unknown", false, 62 * NS_PER_SECOND},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        enum volume_kind kind = cases[i].kind;
        struct volume *opened = open_at(dir, &kind, false);
        cr_expect(eq(int, volume_kind(opened), cases[i].kind));
        cr_expect(same_text(volume_kind_name(kind), cases[i].name));
        cr_expect(eq(int, volume_lookups_are_safe(opened), cases[i].safe));
        cr_expect(eq(u64, volume_settle_ns(opened), cases[i].settle_ns));
        cr_expect(volume_directory_times_work(opened));
        cr_expect(volume_is_writable(opened));
        volume_close(&opened);
    }
}

/* A file system that invents a directory's times. */
static int stat_without_directory_times(int fd, const char *path, struct statx *ret)
{
    int result = volume_real_calls()->stat_forced(fd, path, ret);

    if (result == 0 && S_ISDIR(ret->stx_mode)) {
        ret->stx_mtime = (struct statx_timestamp){.tv_sec = 1};
        ret->stx_ctime = (struct statx_timestamp){.tv_sec = 1};
    }
    return result;
}

Test(volume, read_only_leaves_no_trace_on_a_volume_that_would_be_probed)
{
    enum volume_kind kind = VOLUME_UNKNOWN;
    struct volume_options options = {
        .path = dir, .calls = &calls, .force_kind = &kind, .write_marker = true, .read_only = true};
    struct volume *opened = NULL;
    AUTO_LISTING struct listing listing = {0};

    cr_assert(eq(int, volume_open(&options, &opened, &error), STATUS_OK), "%s", error.message);
    cr_expect(not(volume_is_writable(opened)));
    cr_expect(not(volume_directory_times_work(opened)));
    volume_close(&opened);
    cr_assert(eq(int, volume_list(volume, -1, ".", &listing, &error), STATUS_OK));
    cr_expect(eq(sz, listing.count, 0));
}

Test(volume, directory_times_that_stand_still_are_found_out)
{
    enum volume_kind kind = VOLUME_UNKNOWN;

    calls.stat_forced = stat_without_directory_times;
    struct volume *opened = open_at(dir, &kind, false);
    cr_expect(not(volume_directory_times_work(opened)));
    AUTO_LISTING struct listing listing = {0};
    cr_expect(eq(int, volume_list(opened, -1, VOLUME_OWN_DIR, &listing, NULL), STATUS_OK));
    cr_expect(zero(sz, listing.count)); /* the probe cleans up */
    volume_close(&opened);
}

Test(volume, a_marker_is_made_once_and_tells_volumes_apart)
{
    char first[VOLUME_ID_SIZE];
    char second[VOLUME_ID_SIZE];
    char unmarked[VOLUME_ID_SIZE];

    volume_identity(volume, unmarked);
    struct volume *marking = open_at(dir, NULL, true);
    volume_identity(marking, first);
    cr_expect(eq(sz, strlen(first), VOLUME_MARKER_LENGTH));
    cr_expect(ne(int, strcmp(first, unmarked), 0));
    struct volume *again = open_at(dir, NULL, true);
    volume_identity(again, second);
    cr_expect(same_text(first, second));
    cr_expect(zero(sz, count_hidden(VOLUME_OWN_DIR)));

    /* the volume that was opened before the marker was made is the same */
    bool same = false;
    cr_expect(eq(int, volume_check_identity(volume, &same, NULL), STATUS_OK));
    cr_expect(same);
    /* another marker is another volume, whatever the inode says */
    put_file(dir, VOLUME_OWN_DIR "/" VOLUME_MARKER_NAME, "0123456789abcdef0123456789abcdef\n");
    cr_expect(eq(int, volume_check_identity(again, &same, NULL), STATUS_OK));
    cr_expect(not(same));
    volume_close(&marking);
    volume_close(&again);
}

Test(volume, a_marker_that_cannot_be_understood_or_made_is_none)
{
    static const char *const contents[] = {"", "short\n", "0123456789abcdef0123456789abcdeX\n",
                                           "0123456789abcdef0123456789abcdef extra\n"};
    char unmarked[VOLUME_ID_SIZE];
    char identity[VOLUME_ID_SIZE];

    volume_identity(volume, unmarked);
    for (size_t i = 0; i < ARRAY_SIZE(contents); i++) {
        put_file(dir, VOLUME_OWN_DIR "/" VOLUME_MARKER_NAME, contents[i]);
        struct volume *opened = open_at(dir, NULL, true);
        volume_identity(opened, identity);
        cr_expect(same_text(identity, unmarked), "row %zu", i);
        cr_expect(file_is(dir, VOLUME_OWN_DIR "/" VOLUME_MARKER_NAME, contents[i]));
        volume_close(&opened);
    }
}

static char own_dir[PATH_MAX];

/* Somebody clears away what looks abandoned as soon as it is there. */
static int close_and_lose_temporaries(int fd)
{
    int result = close(fd);
    DIR *directory = opendir(own_dir);

    while (directory) {
        const struct dirent *entry = readdir(directory);
        if (!entry)
            break;
        if (strncmp(entry->d_name, "." VOLUME_MARKER_NAME, sizeof VOLUME_MARKER_NAME) == 0)
            (void) unlinkat(dirfd(directory), entry->d_name, 0);
    }
    if (directory)
        (void) closedir(directory);
    return result;
}

Test(volume, a_marker_that_is_lost_before_it_has_its_name_is_none)
{
    (void) joined(own_dir, dir, VOLUME_OWN_DIR);
    calls.close = close_and_lose_temporaries;
    cr_expect(
        eq(int, volume_marker_create(volume, volume_root_fd(volume), &error), STATUS_NOT_FOUND));
    cr_expect(same_text(error.path, VOLUME_OWN_DIR "/" VOLUME_MARKER_NAME));
    cr_expect(not(has_file(dir, VOLUME_OWN_DIR "/" VOLUME_MARKER_NAME)));
}

/* Of the file, or of the directory that it is in. */
Test(volume, a_marker_that_cannot_be_synced_is_told)
{
    enum status status = STATUS_IO;
    char marker[PATH_MAX];

    (void) joined(marker, dir, VOLUME_OWN_DIR "/" VOLUME_MARKER_NAME);
    for (unsigned passed = 0; status != STATUS_OK; passed++) {
        (void) unlink(marker);
        fail(CALL_SYNC, EIO, passed, true);
        status = volume_marker_create(volume, volume_root_fd(volume), &error);
        cr_expect(status == STATUS_OK || status == STATUS_IO, "sync %u: %s", passed,
                  status_name(status));
    }
    cr_expect(same_text(error.path, VOLUME_OWN_DIR));
    cr_expect(ne(ptr, strstr(error.message, "cannot sync the directory"), NULL), "the last one");
    cr_expect(zero(sz, count_hidden(VOLUME_OWN_DIR)));
}

/* Two directories beside each other, one of which lies at the volume's path at a time. */
struct swap {
    char path[PATH_MAX];
    char aside[PATH_MAX];
    char other[PATH_MAX];
};

static void swap_prepare(struct swap *swap)
{
    put_file(dir, "root/users/u1/memory.json", "ours");
    put_dir(dir, "other");
    (void) joined(swap->path, dir, "root");
    (void) joined(swap->aside, dir, "aside");
    (void) joined(swap->other, dir, "other");
}

static void check_unmount(bool marked)
{
    struct swap swap;
    bool same = false;

    swap_prepare(&swap);
    struct volume *opened = open_at(swap.path, NULL, marked);
    cr_expect(eq(int, volume_check_identity(opened, &same, NULL), STATUS_OK));
    cr_expect(same);

    /* gone: like a path whose mount point was removed too */
    cr_assert(zero(int, rename(swap.path, swap.aside)));
    cr_expect(eq(int, volume_check_identity(opened, &same, NULL), STATUS_NOT_FOUND));
    /* an empty one instead: like a mount point after umount */
    cr_assert(zero(int, rename(swap.other, swap.path)));
    cr_expect(eq(int, volume_check_identity(opened, &same, NULL), STATUS_OK));
    cr_expect(not(same));
    AUTO_IMAGE struct file_image image = {0};
    cr_expect(eq(int, volume_read_file(opened, -1, "users/u1/memory.json", 10, &image, NULL),
                 STATUS_OK)); /* the root that was opened first stays in use */

    /* back again */
    cr_assert(zero(int, rename(swap.path, swap.other)));
    cr_assert(zero(int, rename(swap.aside, swap.path)));
    cr_expect(eq(int, volume_check_identity(opened, &same, NULL), STATUS_OK));
    cr_expect(same);

    /* the other one, accepted */
    cr_assert(zero(int, rename(swap.path, swap.aside)));
    cr_assert(zero(int, rename(swap.other, swap.path)));
    cr_expect(eq(int, volume_accept(opened, NULL), STATUS_OK));
    cr_expect(eq(int, volume_check_identity(opened, &same, NULL), STATUS_OK));
    cr_expect(same);
    AUTO_IMAGE struct file_image none = {0};
    cr_expect(eq(int, volume_read_file(opened, -1, "users/u1/memory.json", 10, &none, NULL),
                 STATUS_NOT_FOUND));
    volume_close(&opened);
}

Test(volume, another_directory_at_the_path_is_noticed_by_its_place)
{
    check_unmount(false);
}

Test(volume, another_directory_at_the_path_is_noticed_by_its_marker)
{
    check_unmount(true);
}

Test(volume, a_copy_with_our_marker_is_ours_and_is_used_from_then_on)
{
    struct swap swap;
    bool same = false;
    AUTO_IMAGE struct file_image image = {0};

    swap_prepare(&swap);
    struct volume *opened = open_at(swap.path, NULL, true);
    int held = volume_root_fd(opened);
    tree_copy(swap.path, swap.other);
    put_file(dir, "other/users/u1/memory.json", "restored");
    cr_assert(zero(int, rename(swap.path, swap.aside)));
    cr_assert(zero(int, rename(swap.other, swap.path)));

    cr_expect(eq(int, volume_check_identity(opened, &same, NULL), STATUS_OK));
    cr_expect(same);
    cr_expect(
        eq(int, volume_read_file(opened, -1, "users/u1/memory.json", 10, &image, NULL), STATUS_OK));
    cr_expect(same_text(image.bytes, "restored"));
    cr_expect(ge(int, fcntl(held, F_GETFD), 0)); /* somebody may still be reading through it */
    volume_close(&opened);
}

Test(volume, no_descriptor_reaches_a_child_program)
{
    AUTO_CLOSE int file_fd = -1;
    AUTO_CLOSE int dir_fd = -1;

    put_file(dir, "d/file", "x");
    cr_assert(eq(int, volume_open_dir(volume, -1, "d", &dir_fd, NULL), STATUS_OK));
    cr_assert(eq(int, volume_open_file(volume, dir_fd, "file", &file_fd, NULL), STATUS_OK));
    const int fds[] = {volume_root_fd(volume), dir_fd, file_fd};
    for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
        cr_expect(ne(int, fcntl(fds[i], F_GETFD) & FD_CLOEXEC, 0), "row %zu", i);
}
