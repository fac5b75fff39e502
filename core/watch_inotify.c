#include "core/watch_inotify.h"

#include "core/clock.h"
#include "core/journal.h"
#include "core/scope.h"
#include "core/watch_follow.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/timerfd.h>

/* One step reads at most this much of the queue and looks at directories for about so long, so that
 * neither a stream of events that never pauses nor a volume with many users holds its thread. */
#define READ_BYTES 16384
#define READS_MAX 64
#define LOOK_NS_MAX (50 * NS_PER_MS)

struct watch_inotify {
    struct watch_follow follow;
    char *manifest_name;
    watch_sink sink;
    void *context;
    int inotify_fd;
    int timer_fd; /* readable when there is something left to do */
    int epoll_fd; /* both */
    bool lost;    /* events were, and the sink does not know yet */
    uint64_t overflows;
    uint64_t events;
};

/* ---- making and unmaking ---- */

static enum status open_inotify(int *ret, struct error *error)
{
    *ret = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (*ret >= 0)
        return STATUS_OK;
    if (errno != EMFILE)
        return error_set_errno(error, errno, NULL, "cannot make an inotify instance");

    /* One errno for two limits: descriptors of the process, instances of the user. */
    AUTO_CLOSE int probe = open("/", O_PATH | O_CLOEXEC);
    const char *limit = probe < 0 ? "RLIMIT_NOFILE" : "fs.inotify.max_user_instances";
    return error_set(error, STATUS_BUSY, NULL, "no inotify instance is left, raise %s", limit);
}

static int add_to_epoll(int epoll_fd, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

    return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

static enum status open_descriptors(struct watch_inotify *watch, struct error *error)
{
    enum status status = open_inotify(&watch->inotify_fd, error);

    if (status != STATUS_OK)
        return status;
    watch->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    watch->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (watch->timer_fd < 0 || watch->epoll_fd < 0 ||
        add_to_epoll(watch->epoll_fd, watch->inotify_fd) < 0 ||
        add_to_epoll(watch->epoll_fd, watch->timer_fd) < 0)
        return error_set_errno(error, errno, NULL, "cannot prepare watching");
    return STATUS_OK;
}

static void cleanup_watch(struct watch_inotify **watch)
{
    watch_inotify_destroy(watch);
}

/* The timer is what makes the first step happen. */
static void arm_timer(struct watch_inotify *watch)
{
    struct itimerspec when = {0};
    uint64_t now_ns = clock_monotonic_ns();
    uint64_t wait_ns = CLOCK_NEVER;

    if (watch->follow.table.pending_head || watch->follow.retry_ns <= now_ns)
        wait_ns = 1;
    else if (watch->follow.retry_ns != CLOCK_NEVER)
        wait_ns = watch->follow.retry_ns - now_ns;
    if (wait_ns != CLOCK_NEVER) {
        when.it_value.tv_sec = (time_t) (wait_ns / NS_PER_SECOND);
        when.it_value.tv_nsec = (long) (wait_ns % NS_PER_SECOND);
    }
    /* Cannot fail with these arguments; setting it also takes back that it has run down. */
    (void) timerfd_settime(watch->timer_fd, 0, &when, NULL);
}

enum status watch_inotify_create(const struct volume *volume, const char *manifest_name,
                                 watch_sink sink, void *context, struct watch_inotify **ret,
                                 struct error *error)
{
    CLEANUP(cleanup_watch) struct watch_inotify *watch = calloc(1, sizeof *watch);

    if (!watch)
        return error_set(error, STATUS_NO_MEMORY, NULL, "no memory for watching");
    watch->inotify_fd = watch->timer_fd = watch->epoll_fd = -1;
    watch->sink = sink;
    watch->context = context;
    watch->manifest_name = strdup(manifest_name);
    if (!watch->manifest_name)
        return error_set(error, STATUS_NO_MEMORY, NULL, "no memory for watching");
    enum status status = open_descriptors(watch, error);
    if (status != STATUS_OK)
        return status;
    watch->follow.volume = volume;
    watch->follow.inotify_fd = watch->inotify_fd;
    if (watch_follow_start(&watch->follow) != STATUS_OK)
        return error_set(error, STATUS_NO_MEMORY, NULL, "no memory for watching");
    arm_timer(watch);
    *ret = TAKE_PTR(watch);
    return STATUS_OK;
}

void watch_inotify_destroy(struct watch_inotify **watch)
{
    if (!*watch)
        return;
    cleanup_close(&(*watch)->epoll_fd);
    cleanup_close(&(*watch)->timer_fd);
    cleanup_close(&(*watch)->inotify_fd);
    watch_follow_destroy(&(*watch)->follow);
    free((*watch)->manifest_name);
    free(*watch);
    *watch = NULL;
}

void watch_inotify_open_with(struct watch_inotify *watch, watch_opener opener, void *context)
{
    watch->follow.open_bucket = opener;
    watch->follow.opener_context = context;
}

int watch_inotify_fd(const struct watch_inotify *watch)
{
    return watch->epoll_fd;
}

/* ---- events ---- */

static void lose_events(struct watch_inotify *watch)
{
    watch->overflows++;
    watch->lost = true;
    watch_follow_doubt_all(&watch->follow);
}

/* The directory itself, not something in it. */
static void take_self_event(struct watch_inotify *watch, struct watch_dir *dir, uint32_t mask)
{
    if (mask & IN_IGNORED)
        watch_follow_ignored(&watch->follow, dir);
    if (dir->kind == WATCH_ROOT && !(mask & IN_ATTRIB))
        watch->lost = true; /* the volume went or moved: who compares will find out */
    watch_follow_doubt(&watch->follow, dir);
}

static void take_bucket_event(struct watch_inotify *watch, struct watch_dir *dir, const char *name,
                              bool is_dir)
{
    const char *matters[] = {watch->manifest_name, JOURNAL_NAME};

    if (is_dir && strcmp(name, "agents") == 0)
        dir->changed = true;
    for (size_t i = 0; !is_dir && i < ARRAY_SIZE(matters); i++)
        dir->changed = dir->changed || strcmp(name, matters[i]) == 0;
    if (dir->changed)
        watch_table_push(&watch->follow.table, dir);
}

static void take_users_event(struct watch_inotify *watch, const char *name, bool is_dir)
{
    if (!is_dir || !scope_bucket_is_valid(name))
        return;
    struct watch_dir *dir = watch_table_add(&watch->follow.table, WATCH_BUCKET, name);
    if (dir)
        watch_follow_doubt(&watch->follow, dir);
    else
        lose_events(watch); /* for want of memory: a later listing finds it */
}

static void take_event(struct watch_inotify *watch, const struct inotify_event *event)
{
    bool is_dir = event->mask & IN_ISDIR;
    const char *name = event->len ? event->name : "";

    watch->events++;
    if (event->mask & IN_Q_OVERFLOW) {
        lose_events(watch);
        return;
    }
    struct watch_dir *dir = watch_table_find_descriptor(&watch->follow.table, event->wd);
    if (!dir)
        return; /* the last events of a watch that was removed */
    if (!*name) {
        take_self_event(watch, dir, event->mask);
    } else if (dir->kind == WATCH_USERS) {
        take_users_event(watch, name, is_dir);
    } else {
        take_bucket_event(watch, dir, name, is_dir);
        if (dir->kind == WATCH_ROOT && strcmp(name, "users") == 0)
            watch_follow_doubt(&watch->follow, watch->follow.users);
    }
}

static void take_events(struct watch_inotify *watch, const char *bytes, size_t size)
{
    size_t at = 0;

    while (size - at >= sizeof(struct inotify_event)) {
        const struct inotify_event *event = (const void *) (bytes + at);
        at += sizeof *event + event->len;
        take_event(watch, event);
    }
}

static enum status read_events(struct watch_inotify *watch, struct error *error)
{
    _Alignas(struct inotify_event) char bytes[READ_BYTES];

    for (unsigned i = 0; i < READS_MAX; i++) {
        ssize_t size = read(watch->inotify_fd, bytes, sizeof bytes);
        if (size > 0)
            take_events(watch, bytes, (size_t) size);
        else if (size < 0 && errno != EINTR)
            return errno == EAGAIN ? STATUS_OK
                                   : error_set_errno(error, errno, NULL, "cannot read file events");
    }
    return STATUS_OK; /* the rest keeps the descriptor readable */
}

/* ---- telling ---- */

static void tell(struct watch_inotify *watch, struct watch_dir *dir, bool gone)
{
    bool changed = dir->changed;

    dir->changed = false;
    if (dir->kind == WATCH_USERS || !changed)
        return;
    watch->sink(watch->context, gone ? WATCH_BUCKET_GONE : WATCH_BUCKET_CHANGED,
                dir->kind == WATCH_BUCKET, dir->name);
}

static enum status settle(struct watch_inotify *watch, struct error *error)
{
    uint64_t deadline_ns = clock_monotonic_ns() + LOOK_NS_MAX;
    enum status first = STATUS_OK;
    struct watch_dir *dir;

    while ((dir = watch_table_pop(&watch->follow.table))) {
        enum status status = STATUS_OK;
        bool gone = false;

        if (dir->doubtful)
            status = watch_follow_look(&watch->follow, dir, &gone, first ? NULL : error);
        if (first == STATUS_OK)
            first = status;
        tell(watch, dir, gone);
        if (gone && dir->kind == WATCH_BUCKET)
            watch_table_remove(&watch->follow.table, dir);
        if (clock_monotonic_ns() >= deadline_ns)
            return first;
    }
    watch_follow_tell_limit(&watch->follow);
    return first;
}

enum status watch_inotify_step(struct watch_inotify *watch, struct error *error)
{
    enum status read_status = read_events(watch, error);

    watch_follow_retry(&watch->follow, clock_monotonic_ns());
    if (watch->lost) {
        watch->lost = false;
        watch->sink(watch->context, WATCH_EVENTS_LOST, false, NULL);
    }
    enum status status = settle(watch, read_status ? NULL : error);
    arm_timer(watch);
    return read_status ? read_status : status;
}

void watch_inotify_state(const struct watch_inotify *watch, struct watch_inotify_state *ret)
{
    *ret = (struct watch_inotify_state){
        .watched = watch_table_watched(&watch->follow.table),
        .wanted = watch_follow_wanted(&watch->follow),
        .overflows = watch->overflows,
        .events = watch->events,
        .limit = watch->follow.limit,
    };
}
