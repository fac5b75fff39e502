/* The root: opening it, learning what it is, and noticing that another one lies at its path. */
#include "core/volume_private.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>

static void root_destroy(struct volume_root **root)
{
    if (!*root)
        return;
    if ((*root)->fd >= 0)
        (void) close((*root)->fd);
    free(*root);
    *root = NULL;
}
#define AUTO_ROOT CLEANUP(root_destroy)

/* Opens the path, links followed: the administrator chose it. */
static enum status open_root_fd(const struct volume *volume, struct volume_root *root,
                                struct error *error)
{
    volume_count_operations(1);
    volume_call_begin(volume, "open", -1, volume->path);
    do {
        root->fd = open(volume->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    } while (root->fd < 0 && errno == EINTR);
    volume_call_end();
    if (root->fd < 0)
        return error_set_errno(error, errno, NULL, "cannot open the directory %s", volume->path);
    return STATUS_OK;
}

/* What the options of the mount say about locks and caches. */
static void learn_mount(const struct volume *volume, struct volume_root *root)
{
    AUTO_FREE char *options = volume_mount_options(root->fd);

    if (root->kind == VOLUME_CLUSTER && volume_mount_keeps_locks(options))
        root->kind = VOLUME_UNKNOWN;
    if (volume->kind_is_forced)
        root->kind = volume->forced_kind;
    if (volume->cache_ns > 0)
        root->cache_ns = volume->cache_ns;
    else if (root->kind != VOLUME_LOCAL)
        root->cache_ns = volume_mount_cache_ns(root->fs_name, options);
}

/* Device, inode, kind, and the identity of a volume without marker. */
static enum status learn_place(const struct volume *volume, struct volume_root *root,
                               struct error *error)
{
    struct statx status;
    struct statfs fs;
    struct statvfs vfs;
    uint64_t fs_id = 0;

    volume_count_operations(3); /* twice its size, once the rights */
    int failed = volume_do_stat(volume, root->fd, "", &status);
    volume_call_begin(volume, "statfs", root->fd, "");
    failed = failed || fstatfs(root->fd, &fs) || fstatvfs(root->fd, &vfs);
    bool allowed = !failed && faccessat(root->fd, ".", W_OK | X_OK, AT_EACCESS) == 0;
    volume_call_end();
    if (failed)
        return error_set_errno(error, errno, NULL, "cannot look at the volume %s", volume->path);
    root->device = makedev(status.stx_dev_major, status.stx_dev_minor);
    root->inode = status.stx_ino;
    root->mount_id = status.stx_mask & STATX_MNT_ID ? status.stx_mnt_id : 0;
    root->kind = volume_kind_of_fs((uint32_t) fs.f_type, root->fs_name);
    learn_mount(volume, root);
    root->writable = !volume->read_only && !(vfs.f_flag & ST_RDONLY) && allowed;

    _Static_assert(sizeof fs.f_fsid == sizeof fs_id, "a file-system id has 64 bits");
    memcpy(&fs_id, &fs.f_fsid, sizeof fs_id);
    (void) snprintf(root->place, sizeof root->place, "%016" PRIx64 "-%" PRIu64, fs_id, root->inode);
    return STATUS_OK;
}

/* What has to be tried out on a root that comes into use: its marker and its directory times. A
 * volume that takes no marker is told apart by its place. */
static enum status try_out(const struct volume *volume, struct volume_root *root,
                           struct error *error)
{
    enum status status = volume_marker_read(volume, root->fd, false, root->marker, error);

    if (status != STATUS_OK)
        return status;
    if (!root->marker[0] && volume->write_marker && root->writable &&
        volume_marker_create(volume, root->fd, NULL) == STATUS_OK) {
        status = volume_marker_read(volume, root->fd, false, root->marker, error);
        if (status != STATUS_OK)
            return status;
    }
    if (root->kind == VOLUME_LOCAL)
        root->directory_times_work = true;
    else if (root->writable)
        root->directory_times_work = volume_probe_directory_times(volume, root->fd);
    else
        root->directory_times_work = root->kind == VOLUME_CLUSTER;
    return STATUS_OK;
}

static enum status root_create(const struct volume *volume, struct volume_root **ret,
                               struct error *error)
{
    AUTO_ROOT struct volume_root *root = calloc(1, sizeof *root);

    if (!root)
        return error_set(error, STATUS_NO_MEMORY, NULL, "no memory for a volume");
    root->fd = -1;
    enum status status = open_root_fd(volume, root, error);
    if (status == STATUS_OK)
        status = learn_place(volume, root, error);
    if (status != STATUS_OK)
        return status;
    *ret = TAKE_PTR(root);
    return STATUS_OK;
}

/* Others may still use the descriptor of the root before: it stays open. */
static void publish(struct volume *volume, struct volume_root *root)
{
    (void) pthread_mutex_lock(&volume->publish_lock);
    root->older = atomic_load(&volume->root);
    atomic_store_explicit(&volume->root, root, memory_order_release);
    (void) pthread_mutex_unlock(&volume->publish_lock);
}

/* The working directory may change later, the volume's path must not. */
static char *absolute_path(const char *path)
{
    AUTO_FREE char *base = NULL;
    char *joined = NULL;

    if (path[0] == '/')
        return strdup(path);
    base = getcwd(NULL, 0);
    if (!base || asprintf(&joined, "%s/%s", base, path) < 0)
        return NULL;
    return joined;
}

static enum status volume_create(const struct volume_options *options, struct volume **ret,
                                 struct error *error)
{
    struct volume *volume = calloc(1, sizeof *volume);

    if (!volume)
        return error_set(error, STATUS_NO_MEMORY, NULL, "no memory for a volume");
    (void) pthread_mutex_init(&volume->publish_lock, NULL);
    volume->calls = options->calls ? options->calls : volume_real_calls();
    volume->write_marker = options->write_marker;
    volume->read_only = options->read_only;
    volume->cache_ns = options->cache_ns;
    volume->kind_is_forced = options->force_kind != NULL;
    if (options->force_kind)
        volume->forced_kind = *options->force_kind;
    volume->path = absolute_path(options->path);
    if (!volume->path) {
        enum status status =
            error_set_errno(error, errno, NULL, "cannot resolve the path %s", options->path);
        volume_close(&volume);
        return status;
    }
    *ret = volume;
    return STATUS_OK;
}

enum status volume_open(const struct volume_options *options, struct volume **ret,
                        struct error *error)
{
    struct volume *volume = NULL;

    enum status status = volume_create(options, &volume, error);
    if (status != STATUS_OK)
        return status;
    status = volume_accept(volume, error);
    if (status != STATUS_OK) {
        volume_close(&volume);
        return status;
    }
    *ret = volume;
    return STATUS_OK;
}

void volume_close(struct volume **volume)
{
    if (!*volume)
        return;
    struct volume_root *root = atomic_load(&(*volume)->root);
    while (root) {
        struct volume_root *older = root->older;
        root_destroy(&root);
        root = older;
    }
    (void) pthread_mutex_destroy(&(*volume)->publish_lock);
    free((*volume)->path);
    free(*volume);
    *volume = NULL;
}

/* Markers decide where both have one. Else the place does: a marker that another node made since
 * does not make it another volume. */
static bool same_identity(const struct volume_root *a, const struct volume_root *b)
{
    if (a->marker[0] && b->marker[0])
        return strcmp(a->marker, b->marker) == 0;
    return strcmp(a->place, b->place) == 0;
}

enum status volume_check_identity(struct volume *volume, bool *ret_same, struct error *error)
{
    AUTO_ROOT struct volume_root *found = NULL;
    const struct volume_root *held = atomic_load_explicit(&volume->root, memory_order_acquire);

    enum status status = root_create(volume, &found, error);
    if (status != STATUS_OK)
        return status;
    /* While we hold its root, a file system keeps its device number. One that was mounted again
     * may do so too, with other options. */
    bool moved = found->device != held->device || found->inode != held->inode ||
                 found->mount_id != held->mount_id;
    if (moved || held->marker[0]) {
        status = volume_marker_read(volume, found->fd, !moved, found->marker, error);
        if (status != STATUS_OK)
            return status;
    }
    bool same = same_identity(held, found);
    if (same && moved) { /* mounted again: the root that we hold may lead nowhere by now */
        found->directory_times_work = held->directory_times_work;
        publish(volume, TAKE_PTR(found));
    }
    *ret_same = same;
    return STATUS_OK;
}

struct volume_root_id volume_root_id(const struct volume *volume)
{
    const struct volume_root *root = atomic_load_explicit(&volume->root, memory_order_acquire);

    return (struct volume_root_id){.device = root->device, .inode = root->inode};
}

bool volume_root_is_at_path(const struct volume *volume, struct volume_root_id id)
{
    struct stat status;
    int failed;

    volume_count_operations(1);
    volume_call_begin(volume, "stat", -1, volume->path);
    do {
        failed = stat(volume->path, &status);
    } while (failed && errno == EINTR);
    volume_call_end();
    return !failed && status.st_dev == id.device && status.st_ino == id.inode;
}

enum status volume_accept(struct volume *volume, struct error *error)
{
    AUTO_ROOT struct volume_root *root = NULL;

    enum status status = root_create(volume, &root, error);
    if (status == STATUS_OK)
        status = try_out(volume, root, error);
    if (status != STATUS_OK)
        return status;
    publish(volume, TAKE_PTR(root));
    return STATUS_OK;
}

bool volume_is_known_as(const struct volume *volume, const char *identity)
{
    const struct volume_root *root = atomic_load_explicit(&volume->root, memory_order_acquire);

    return (root->marker[0] && strcmp(root->marker, identity) == 0) ||
           strcmp(root->place, identity) == 0;
}

enum status volume_write_marker(struct volume *volume, struct error *error)
{
    volume->write_marker = true;
    return volume_accept(volume, error);
}
