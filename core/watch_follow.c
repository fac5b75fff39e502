#include "core/watch_follow.h"

#include "core/clock.h"
#include "core/log.h"
#include "core/scope.h"

#include <errno.h>
#include <stdio.h>
#include <sys/inotify.h>

/* How long what failed (a limit, a right, an I/O error) is left alone. */
#define RETRY_NS (30 * NS_PER_SECOND)

/* The manifest and the journal come by rename or link and go by unlink; IN_CLOSE_WRITE is for
 * programs that write in place, IN_MODIFY and IN_ATTRIB for times that are set and for rights that
 * were mended. */
#define WATCH_MASK                                                                                 \
    (IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_CLOSE_WRITE | IN_MODIFY |            \
     IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR)

enum status watch_follow_start(struct watch_follow *follow)
{
    follow->retry_ns = CLOCK_NEVER;
    follow->list_wanted = true;
    follow->root = watch_table_add(&follow->table, WATCH_ROOT, "");
    follow->users = watch_table_add(&follow->table, WATCH_USERS, "");
    if (!follow->root || !follow->users)
        return STATUS_NO_MEMORY;
    watch_follow_doubt(follow, follow->root);
    watch_follow_doubt(follow, follow->users);
    return STATUS_OK;
}

void watch_follow_destroy(struct watch_follow *follow)
{
    watch_table_destroy(&follow->table);
}

void watch_follow_doubt(struct watch_follow *follow, struct watch_dir *dir)
{
    dir->doubtful = true;
    dir->changed = true;
    dir->presence = WATCH_UNLISTED;
    watch_table_push(&follow->table, dir);
}

void watch_follow_doubt_all(struct watch_follow *follow)
{
    /* Its listing makes every bucket doubtful. */
    follow->list_wanted = true;
    follow->refusing = false;
    watch_follow_doubt(follow, follow->root);
    watch_follow_doubt(follow, follow->users);
}

static void retry_one(void *context, struct watch_link *link)
{
    struct watch_follow *follow = context;
    struct watch_dir *dir = (struct watch_dir *) link;

    if (dir->descriptor != WATCH_NONE || dir->doubtful)
        return;
    /* Nothing happened to it, as far as anybody knows: it is told only if the watch succeeds. */
    dir->doubtful = true;
    dir->presence = dir->kind == WATCH_BUCKET ? WATCH_LISTED : WATCH_UNLISTED;
    watch_table_push(&follow->table, dir);
}

void watch_follow_retry(struct watch_follow *follow, uint64_t now_ns)
{
    if (now_ns < follow->retry_ns)
        return;
    follow->retry_ns = CLOCK_NEVER;
    follow->refusing = false;
    if (follow->list_wanted)
        watch_follow_doubt(follow, follow->users);
    watch_hash_each(&follow->table.names, retry_one, follow);
}

static void retry_later(struct watch_follow *follow)
{
    uint64_t at_ns = clock_monotonic_ns() + RETRY_NS;

    if (at_ns < follow->retry_ns)
        follow->retry_ns = at_ns;
}

void watch_follow_ignored(struct watch_follow *follow, struct watch_dir *dir)
{
    watch_table_unset(&follow->table, dir);
    if (follow->limit)
        follow->retry_ns = 0; /* there is room for another one */
}

static void drop_watch(struct watch_follow *follow, struct watch_dir *dir)
{
    if (dir->descriptor == WATCH_NONE)
        return;
    /* Fails when the kernel was faster; its IN_IGNORED then finds no directory. */
    (void) inotify_rm_watch(follow->inotify_fd, dir->descriptor);
    watch_follow_ignored(follow, dir);
}

/* A link or a file where a directory was is no directory any more. */
static bool is_gone(enum status status, const struct error *error)
{
    return status == STATUS_NOT_FOUND || error->sys_errno == ENOTDIR || error->sys_errno == ELOOP;
}

/* ---- listing users/ ---- */

static void doubt_bucket(void *context, struct watch_link *link)
{
    struct watch_dir *dir = (struct watch_dir *) link;

    if (dir->kind == WATCH_BUCKET)
        watch_follow_doubt(context, dir);
}

static void mark_absent(void *context UNUSED, struct watch_link *link)
{
    struct watch_dir *dir = (struct watch_dir *) link;

    if (dir->kind == WATCH_BUCKET && dir->doubtful)
        dir->presence = WATCH_ABSENT;
}

/* Tells the doubtful buckets whether the listing showed them, and adds new ones. */
static enum status take_listing(struct watch_follow *follow, const struct listing *listing)
{
    watch_hash_each(&follow->table.names, mark_absent, NULL);
    for (size_t i = 0; i < listing->count; i++) {
        const struct listing_entry *entry = &listing->entries[i];
        if (!entry->is_dir || !scope_bucket_is_valid(entry->name))
            continue;
        bool known = watch_table_find(&follow->table, WATCH_BUCKET, entry->name) != NULL;
        struct watch_dir *dir = watch_table_add(&follow->table, WATCH_BUCKET, entry->name);
        if (!dir)
            return STATUS_NO_MEMORY;
        if (!known)
            watch_follow_doubt(follow, dir);
        if (dir->doubtful)
            dir->presence = WATCH_LISTED;
    }
    return STATUS_OK;
}

/* Doubts every bucket and lets users/ answer. The directory is open, and watched if it can be, so
 * that what comes after the listing makes an event. */
static enum status list_all(struct watch_follow *follow, int users_fd, struct error *error)
{
    AUTO_LISTING struct listing listing = {0};
    enum status status = volume_list_fd(follow->volume, users_fd, &listing, error);

    if (status != STATUS_OK)
        return status;
    watch_hash_each(&follow->table.names, doubt_bucket, follow);
    status = take_listing(follow, &listing);
    if (status == STATUS_OK)
        follow->list_wanted = false;
    return status;
}

/* Whether the root's listing shows users/. */
static enum status find_users(const struct watch_follow *follow, bool *ret, struct error *error)
{
    AUTO_LISTING struct listing listing = {0};
    enum status status = volume_list(follow->volume, -1, ".", &listing, error);

    if (status != STATUS_OK)
        return status;
    const struct listing_entry *entry = listing_find(&listing, "users");
    *ret = entry && entry->is_dir;
    return STATUS_OK;
}

/* Where a name that is not found may stay "not found", no name is looked up that a listing did not
 * show. One listing serves all buckets that are in doubt. */
static enum status list_parent(struct watch_follow *follow, struct watch_dir *dir,
                               struct error *error)
{
    AUTO_LISTING struct listing listing = {0};
    bool has_users = false;
    enum status status = find_users(follow, &has_users, error);

    if (status != STATUS_OK)
        return status;
    if (dir->kind == WATCH_USERS) {
        dir->presence = has_users ? WATCH_LISTED : WATCH_ABSENT;
        return STATUS_OK;
    }
    if (has_users)
        status = volume_list(follow->volume, -1, "users", &listing, error);
    if (status != STATUS_OK && !is_gone(status, error))
        return status;
    return take_listing(follow, &listing);
}

/* ---- one directory ---- */

static void path_of(const struct watch_dir *dir, char ret[SCOPE_PATH_MAX])
{
    if (dir->kind == WATCH_BUCKET)
        (void) snprintf(ret, SCOPE_PATH_MAX, "users/%s", dir->name);
    else
        (void) snprintf(ret, SCOPE_PATH_MAX, "%s", dir->kind == WATCH_USERS ? "users" : ".");
}

static void warn_once(struct watch_follow *follow, struct watch_dir *dir, const char *cause)
{
    char path[SCOPE_PATH_MAX];

    retry_later(follow);
    if (dir->warned)
        return;
    dir->warned = true;
    path_of(dir, path);
    log_warning("watch.refused", "path=%s cause=%s effect=polling", LOG_VALUE(path),
                LOG_VALUE(cause));
}

static int add_watch(const struct watch_follow *follow, int dir_fd)
{
    char path[32];

    /* By descriptor: a path could be led out of the volume between the check and the call. */
    (void) snprintf(path, sizeof path, "/proc/self/fd/%d", dir_fd);
    return inotify_add_watch(follow->inotify_fd, path, WATCH_MASK);
}

static void set_watch(struct watch_follow *follow, struct watch_dir *dir, int descriptor)
{
    if (descriptor == dir->descriptor)
        return;
    drop_watch(follow, dir);
    if (watch_table_set(&follow->table, dir, descriptor) != STATUS_OK) {
        (void) inotify_rm_watch(follow->inotify_fd, descriptor);
        warn_once(follow, dir, status_name(STATUS_NO_MEMORY));
        return;
    }
    dir->changed = true;
    if (dir->kind == WATCH_USERS)
        follow->list_wanted = true;
}

/* Never an error of the step: a directory without a watch is polled. */
static void watch_open_dir(struct watch_follow *follow, struct watch_dir *dir, int dir_fd)
{
    int descriptor = add_watch(follow, dir_fd);

    if (descriptor < 0 && errno == ENOSPC && dir->descriptor != WATCH_NONE) {
        /* The old watch is of another inode and in the way. */
        drop_watch(follow, dir);
        descriptor = add_watch(follow, dir_fd);
    }
    if (descriptor >= 0) {
        dir->warned = false;
        set_watch(follow, dir, descriptor);
        return;
    }
    int sys_errno = errno;
    drop_watch(follow, dir);
    if (sys_errno == ENOSPC) {
        follow->limit = "fs.inotify.max_user_watches";
        follow->refusing = true;
        retry_later(follow);
    } else {
        struct error error;
        (void) error_set_errno(&error, sys_errno, NULL, "cannot watch");
        warn_once(follow, dir, error.message);
    }
}

static void forget(struct watch_follow *follow, struct watch_dir *dir)
{
    drop_watch(follow, dir);
    if (dir->kind != WATCH_USERS)
        return;
    follow->users_absent = true;
    follow->list_wanted = true;
    watch_hash_each(&follow->table.names, doubt_bucket, follow);
    watch_hash_each(&follow->table.names, mark_absent, NULL);
}

static enum status fail(struct watch_follow *follow, struct watch_dir *dir, enum status status,
                        const struct error *fault, struct error *error)
{
    warn_once(follow, dir, fault->message);
    /* A bucket that cannot be opened is its own trouble; without users/ nobody is found. */
    if (dir->kind == WATCH_BUCKET)
        return STATUS_OK;
    return error_set(error, status, dir->kind == WATCH_USERS ? "users" : ".", "%s", fault->message);
}

static enum status open_dir(const struct watch_follow *follow, const struct watch_dir *dir,
                            int *ret, struct error *error)
{
    char path[SCOPE_PATH_MAX];

    path_of(dir, path);
    if (dir->kind == WATCH_BUCKET && follow->open_bucket)
        return follow->open_bucket(follow->opener_context, dir->name, path, ret, error);
    return volume_open_dir(follow->volume, -1, path, ret, error);
}

static enum status look(struct watch_follow *follow, struct watch_dir *dir, bool *ret_gone,
                        struct error *error)
{
    AUTO_CLOSE int fd = -1;

    enum status status = open_dir(follow, dir, &fd, error);
    if (status != STATUS_OK) {
        *ret_gone = dir->kind != WATCH_ROOT && is_gone(status, error);
        return *ret_gone ? STATUS_OK : status;
    }
    watch_open_dir(follow, dir, fd);
    if (dir->kind == WATCH_USERS) {
        follow->users_absent = false;
        if (follow->list_wanted)
            return list_all(follow, fd, error);
    }
    return STATUS_OK;
}

/* While a limit is in the way there is no use in opening what a listing has shown. */
static bool is_hopeless(const struct watch_follow *follow, const struct watch_dir *dir)
{
    return follow->refusing && dir->kind == WATCH_BUCKET && dir->descriptor == WATCH_NONE &&
           dir->presence == WATCH_LISTED;
}

enum status watch_follow_look(struct watch_follow *follow, struct watch_dir *dir, bool *ret_gone,
                              struct error *error)
{
    struct error fault = {0};
    enum status status = STATUS_OK;
    bool gone = false;

    *ret_gone = false;
    if (is_hopeless(follow, dir)) {
        dir->doubtful = false;
        retry_later(follow);
        return STATUS_OK;
    }
    if (dir->kind != WATCH_ROOT && dir->presence == WATCH_UNLISTED &&
        !volume_lookups_are_safe(follow->volume))
        status = list_parent(follow, dir, &fault);
    dir->doubtful = false;
    if (status == STATUS_OK && dir->presence == WATCH_ABSENT)
        gone = true;
    else if (status == STATUS_OK)
        status = look(follow, dir, &gone, &fault);
    if (status != STATUS_OK)
        return fail(follow, dir, status, &fault, error);
    if (gone)
        forget(follow, dir);
    *ret_gone = gone;
    return STATUS_OK;
}

void watch_follow_tell_limit(struct watch_follow *follow)
{
    size_t watched = watch_table_watched(&follow->table);
    size_t wanted = watch_follow_wanted(follow);

    if (!follow->refusing)
        follow->limit = NULL;
    if (!log_gate_change(&follow->limit_gate, follow->limit != NULL))
        return;
    if (follow->limit)
        log_warning("watch.limit", "limit=%s watched=%zu wanted=%zu effect=polling remedy=%s",
                    follow->limit, watched, wanted, LOG_VALUE("raise it with sysctl"));
    else
        log_notice("watch.limit_lifted", "watched=%zu wanted=%zu", watched, wanted);
}

size_t watch_follow_wanted(const struct watch_follow *follow)
{
    return watch_table_count(&follow->table) - (follow->users_absent ? 1 : 0);
}
