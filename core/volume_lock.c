#include "core/volume_lock.h"

#include "core/clock.h"
#include "core/condition.h"
#include "core/journal.h"
#include "core/volume_private.h"
#include "core/volume_stuck.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>

#define TABLE_SLOTS 256u
/* A commit takes a few milliseconds: look again soon at first, then at the peers' own pace. */
#define POLL_FIRST_NS (2 * NS_PER_MS)
#define POLL_LONGEST_NS (50 * NS_PER_MS)
/* So often those who wait for a thread of this process look whether it hangs. */
#define HOLDER_LOOK_NS (100 * NS_PER_MS)

/* One bucket that somebody of this process holds or waits for. */
struct lock_seat {
    char bucket[SCOPE_PATH_MAX]; /* relative to the root */
    bool taken;
    struct volume_stuck_seat *holder; /* while taken: the calls of its thread; NULL: not known */
    unsigned users; /* the holder and those who wait; the seat goes with the last of them */
    struct lock_seat *next;
};

/* `lock` guards the seats: nobody holds it over a system call, and below it there are only the
 * mutexes of core/volume_stuck. `freed` is told when a seat becomes free. */
struct volume_lock_table {
    pthread_mutex_t lock;
    pthread_cond_t freed;
    struct lock_seat *slots[TABLE_SLOTS];
};

struct volume_lock {
    struct volume_lock_table *table;
    const struct volume *volume;
    struct lock_seat *seat;
    char path[SCOPE_PATH_MAX]; /* of the file, for errors */
    int fd;
};

enum status volume_lock_table_create(struct volume_lock_table **ret)
{
    struct volume_lock_table *table = calloc(1, sizeof *table);

    if (!table)
        return STATUS_NO_MEMORY;
    (void) pthread_mutex_init(&table->lock, NULL);
    condition_init(&table->freed);
    *ret = table;
    return STATUS_OK;
}

void volume_lock_table_destroy(struct volume_lock_table **table)
{
    if (!*table)
        return;
    for (size_t i = 0; i < TABLE_SLOTS; i++) {
        while ((*table)->slots[i]) {
            struct lock_seat *seat = (*table)->slots[i];
            (*table)->slots[i] = seat->next;
            free(seat);
        }
    }
    (void) pthread_cond_destroy(&(*table)->freed);
    (void) pthread_mutex_destroy(&(*table)->lock);
    free(*table);
    *table = NULL;
}

/* ---- the mutex in front ---- */

static struct lock_seat **slot_of(struct volume_lock_table *table, const char *bucket)
{
    return &table->slots[signature_digest(bucket, strlen(bucket)) % TABLE_SLOTS];
}

/* Under the table's lock. NULL without memory. */
static struct lock_seat *join_seat_locked(struct volume_lock_table *table, const char *bucket)
{
    struct lock_seat **slot = slot_of(table, bucket);
    struct lock_seat *seat = *slot;

    while (seat && strcmp(seat->bucket, bucket) != 0)
        seat = seat->next;
    if (!seat) {
        seat = calloc(1, sizeof *seat);
        if (!seat)
            return NULL;
        memcpy(seat->bucket, bucket, strlen(bucket) + 1);
        seat->next = *slot;
        *slot = seat;
    }
    seat->users++;
    return seat;
}

static void leave_seat_locked(struct volume_lock_table *table, struct lock_seat *seat)
{
    struct lock_seat **link = slot_of(table, seat->bucket);

    if (--seat->users > 0)
        return;
    while (*link != seat)
        link = &(*link)->next;
    *link = seat->next;
    free(seat);
}

static uint64_t remaining_ns(uint64_t deadline_ns)
{
    return (uint64_t) clock_remaining_ms(deadline_ns) * NS_PER_MS;
}

/* How long its holder is in one call, where that is too long to wait for it; else 0. */
static uint64_t hanging_ns_locked(const struct lock_seat *seat)
{
    uint64_t age_ns = seat->holder ? volume_stuck_age(seat->holder) : 0;

    return age_ns >= VOLUME_LOCK_PATIENCE_NS ? age_ns : 0;
}

/* Waits until the seat is free. */
static enum status wait_for_seat_locked(struct volume_lock_table *table,
                                        const struct lock_seat *seat, bool may_hang,
                                        uint64_t deadline_ns, struct error *error)
{
    while (seat->taken) {
        uint64_t left_ns = remaining_ns(deadline_ns);
        uint64_t hanging_ns = hanging_ns_locked(seat);
        struct timespec until =
            clock_real_after(may_hang && left_ns > HOLDER_LOOK_NS ? HOLDER_LOOK_NS : left_ns);
        if (hanging_ns > 0)
            return error_set(error, STATUS_BUSY, NULL,
                             "the volume does not answer: whoever has this user's lock is in a "
                             "call since %" PRIu64 " ms",
                             hanging_ns / NS_PER_MS);
        if (left_ns == 0)
            return error_set(error, STATUS_TIMEOUT, NULL, "the lock is held by this process");
        (void) pthread_cond_timedwait(&table->freed, &table->lock, &until);
    }
    return STATUS_OK;
}

static enum status take_seat(struct volume_lock_table *table, const char *bucket, bool may_hang,
                             uint64_t deadline_ns, struct lock_seat **ret, struct error *error)
{
    struct volume_stuck_seat *own = may_hang ? volume_stuck_seat_here() : NULL;
    enum status status = STATUS_OK;

    (void) pthread_mutex_lock(&table->lock);
    struct lock_seat *seat = join_seat_locked(table, bucket);
    if (seat)
        status = wait_for_seat_locked(table, seat, may_hang, deadline_ns, error);
    else
        status = error_set(error, STATUS_NO_MEMORY, NULL, "no memory for a lock");
    if (status == STATUS_OK) {
        seat->taken = true;
        seat->holder = own;
        *ret = seat;
    } else if (seat) {
        leave_seat_locked(table, seat);
    }
    (void) pthread_mutex_unlock(&table->lock);
    return status;
}

static void free_seat(struct volume_lock_table *table, struct lock_seat *seat)
{
    (void) pthread_mutex_lock(&table->lock);
    seat->taken = false;
    seat->holder = NULL;
    leave_seat_locked(table, seat);
    (void) pthread_cond_broadcast(&table->freed);
    (void) pthread_mutex_unlock(&table->lock);
}

/* ---- the file ---- */

/* Opens the file that is there; for reading only where we may not write, which is enough for flock
 * on most file systems. */
static int open_existing(const struct volume *volume, int bucket_fd)
{
    const int flags = O_NONBLOCK | O_NOCTTY;
    int fd = volume_do_open(volume, bucket_fd, JOURNAL_LOCK_NAME, O_RDWR | flags, 0);

    if (fd < 0 && (errno == EACCES || errno == EROFS))
        fd = volume_do_open(volume, bucket_fd, JOURNAL_LOCK_NAME, O_RDONLY | flags, 0);
    return fd;
}

/* Creates the file, unless somebody is faster. */
static int open_new(const struct volume *volume, int bucket_fd)
{
    int fd = volume_do_open(volume, bucket_fd, JOURNAL_LOCK_NAME, O_RDWR | O_CREAT | O_EXCL, 0600);

    if (fd >= 0)
        volume_adopt_attributes(volume, fd, NULL, bucket_fd);
    else if (errno == EEXIST)
        fd = open_existing(volume, bucket_fd);
    return fd;
}

/* Opens the lock file; where look-ups are cached, only a name that a listing shows. */
static enum status open_lock_file(const struct volume *volume, int bucket_fd, bool may_create,
                                  int *ret, struct error *error)
{
    bool listed = true;
    int fd = -1;

    if (!volume_lookups_are_safe(volume)) {
        AUTO_LISTING struct listing listing = {0};
        enum status status = volume_list_fd(volume, bucket_fd, &listing, error);
        if (status != STATUS_OK)
            return status;
        listed = listing_find(&listing, JOURNAL_LOCK_NAME) != NULL;
    }
    errno = ENOENT;
    if (listed)
        fd = open_existing(volume, bucket_fd);
    if (fd < 0 && errno == ENOENT && may_create)
        fd = open_new(volume, bucket_fd);
    if (fd < 0)
        return volume_error_open(error, errno, NULL, "lock file");
    *ret = fd;
    return STATUS_OK;
}

/* Whether the held file is still the one of that name: STATUS_STALE when it is not. */
static enum status check_same_file(const struct volume *volume, int bucket_fd, int fd,
                                   struct error *error)
{
    struct statx held;
    struct statx named;

    if (volume_do_stat(volume, fd, "", &held) < 0)
        return error_set_errno(error, errno, NULL, "cannot look at the lock file");
    if (!S_ISREG(held.stx_mode))
        return volume_error_no_file(error, NULL, volume_mode_name(held.stx_mode));
    if (volume_do_stat(volume, bucket_fd, JOURNAL_LOCK_NAME, &named) < 0) {
        if (errno != ENOENT)
            return error_set_errno(error, errno, NULL, "cannot look at the lock file");
        return error_set(error, STATUS_STALE, NULL, "the lock file was removed");
    }
    if (held.stx_ino != named.stx_ino)
        return error_set(error, STATUS_STALE, NULL, "the lock file was replaced");
    return STATUS_OK;
}

static enum status lock_error(int sys_errno, struct error *error)
{
    switch (sys_errno) {
    case EWOULDBLOCK:
        return error_set(error, STATUS_WOULD_BLOCK, NULL, "the lock is held");
    case ENOLCK:
    case EOPNOTSUPP:
    case ENOSYS:
    case EINVAL:
    case EBADF: /* NFS: an exclusive lock needs a file that is open for writing */
        (void) error_set_errno(error, sys_errno, NULL, "the volume refuses locks (errno %d)",
                               sys_errno);
        if (error)
            error->status = STATUS_UNSUPPORTED;
        return STATUS_UNSUPPORTED;
    default:
        return error_set_errno(error, sys_errno, NULL, "cannot lock");
    }
}

/* One try, from the bucket's name on, since all of it may have been replaced since the last one.
 * STATUS_WOULD_BLOCK: somebody holds it; STATUS_STALE: something moved under us. */
static enum status try_lock(const struct volume *volume, const char *bucket,
                            enum volume_lock_mode mode, bool may_create, int *ret,
                            struct error *error)
{
    AUTO_CLOSE int bucket_fd = -1;
    AUTO_CLOSE int fd = -1;
    int operation = mode == VOLUME_LOCK_SHARED ? LOCK_SH : LOCK_EX;

    enum status status = volume_open_dir(volume, -1, bucket, &bucket_fd, error);
    if (status == STATUS_OK)
        status = open_lock_file(volume, bucket_fd, may_create, &fd, error);
    if (status != STATUS_OK)
        return status;
    if (volume_do_lock(volume, fd, operation | LOCK_NB) < 0)
        return lock_error(errno, error);
    status = check_same_file(volume, bucket_fd, fd, error);
    if (status == STATUS_OK)
        *ret = TAKE_FD(fd);
    return status;
}

static void sleep_ns(uint64_t ns)
{
    struct timespec until = clock_real_after(ns);

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        continue;
}

static enum status poll_lock(const struct volume *volume, const char *bucket,
                             enum volume_lock_mode mode, bool may_create, uint64_t deadline_ns,
                             int *ret, struct error *error)
{
    uint64_t pause_ns = POLL_FIRST_NS;

    for (;;) {
        enum status status = try_lock(volume, bucket, mode, may_create, ret, error);
        if (status != STATUS_WOULD_BLOCK && status != STATUS_STALE)
            return status;
        uint64_t left_ns = remaining_ns(deadline_ns);
        if (left_ns == 0) {
            if (error)
                error->status = STATUS_BUSY;
            return STATUS_BUSY;
        }
        sleep_ns(left_ns < pause_ns ? left_ns : pause_ns);
        if (pause_ns < POLL_LONGEST_NS)
            pause_ns = pause_ns * 2 < POLL_LONGEST_NS ? pause_ns * 2 : POLL_LONGEST_NS;
    }
}

enum status volume_lock_reserve(struct volume_lock_table *table, const struct volume *volume,
                                const struct scope *scope, uint64_t deadline_ns,
                                struct volume_lock **ret, struct error *error)
{
    char bucket[SCOPE_PATH_MAX];
    AUTO_FREE struct volume_lock *lock = calloc(1, sizeof *lock);

    if (!lock)
        return error_set(error, STATUS_NO_MEMORY, NULL, "no memory for a lock");
    *lock = (struct volume_lock){.table = table, .volume = volume, .fd = -1};
    scope_bucket_path(scope, bucket);
    scope_file_path(scope, JOURNAL_LOCK_NAME, lock->path);
    enum status status =
        take_seat(table, bucket, !volume_lookups_are_safe(volume), deadline_ns, &lock->seat, error);
    if (status != STATUS_OK) {
        (void) volume_error_at(error, status, lock->path);
        return status;
    }
    *ret = TAKE_PTR(lock);
    return STATUS_OK;
}

enum status volume_lock_take_file(struct volume_lock *lock, enum volume_lock_mode mode,
                                  bool may_create, uint64_t deadline_ns, struct error *error)
{
    enum status status = poll_lock(lock->volume, lock->seat->bucket, mode, may_create, deadline_ns,
                                   &lock->fd, error);

    return volume_error_at(error, status, lock->path);
}

enum status volume_lock_acquire(struct volume_lock_table *table, const struct volume *volume,
                                const struct scope *scope, enum volume_lock_mode mode,
                                bool may_create, uint64_t deadline_ns, struct volume_lock **ret,
                                struct error *error)
{
    struct volume_lock *lock = NULL;

    enum status status = volume_lock_reserve(table, volume, scope, deadline_ns, &lock, error);
    if (status == STATUS_TIMEOUT && error)
        error->status = STATUS_BUSY;
    if (status != STATUS_OK)
        return status == STATUS_TIMEOUT ? STATUS_BUSY : status;
    status = volume_lock_take_file(lock, mode, may_create, deadline_ns, error);
    if (status == STATUS_OK)
        *ret = TAKE_PTR(lock);
    volume_lock_release(&lock);
    return status;
}

void volume_lock_release_file(struct volume_lock *lock)
{
    if (lock->fd < 0)
        return;
    /* Said aloud, since a forked child may still hold the descriptor. */
    (void) volume_do_lock(lock->volume, lock->fd, LOCK_UN);
    (void) volume_do_close(lock->volume, lock->fd);
    lock->fd = -1;
}

void volume_lock_release(struct volume_lock **lock)
{
    if (!*lock)
        return;
    volume_lock_release_file(*lock);
    free_seat((*lock)->table, (*lock)->seat);
    free(*lock);
    *lock = NULL;
}
