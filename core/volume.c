/* What is known of a volume, and the attributes of its files. */
#include "core/volume_private.h"

#include "core/clock.h"
#include "core/mutant.h"
#include "core/text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define COARSEST_TICK_NS (2 * NS_PER_SECOND)

static const struct volume_root *current_root(const struct volume *volume)
{
    return atomic_load_explicit(&volume->root, memory_order_acquire);
}

const char *volume_path(const struct volume *volume)
{
    return volume->path;
}

enum volume_kind volume_kind(const struct volume *volume)
{
    return current_root(volume)->kind;
}

const char *volume_fs_name(const struct volume *volume)
{
    return current_root(volume)->fs_name;
}

bool volume_is_writable(const struct volume *volume)
{
    return current_root(volume)->writable;
}

bool volume_lookups_are_safe(const struct volume *volume)
{
    return MUTANT(PROBE_NOT_LIST) || current_root(volume)->kind == VOLUME_LOCAL;
}

uint64_t volume_settle_ns(const struct volume *volume)
{
    return COARSEST_TICK_NS + current_root(volume)->cache_ns;
}

bool volume_directory_times_work(const struct volume *volume)
{
    return current_root(volume)->directory_times_work;
}

void volume_identity(const struct volume *volume, char ret[VOLUME_ID_SIZE])
{
    const struct volume_root *root = current_root(volume);
    const char *identity = root->marker[0] ? root->marker : root->place;

    (void) snprintf(ret, VOLUME_ID_SIZE, "%s", identity);
}

const struct volume_calls *volume_get_calls(const struct volume *volume)
{
    return volume->calls;
}

int volume_root_fd(const struct volume *volume)
{
    return current_root(volume)->fd;
}

bool volume_name_is_single(const char *name)
{
    return name[0] != '\0' && strcmp(name, ".") != 0 && strcmp(name, "..") != 0 &&
           !strchr(name, '/');
}

static uint64_t timestamp_ns(const struct statx_timestamp *time)
{
    return (uint64_t) time->tv_sec * NS_PER_SECOND + time->tv_nsec;
}

struct file_stamp volume_stamp_from_statx(const struct statx *status)
{
    return (struct file_stamp){
        .inode = status->stx_ino,
        .size = status->stx_size,
        .mtime_ns = timestamp_ns(&status->stx_mtime),
        .ctime_ns = timestamp_ns(&status->stx_ctime),
    };
}

enum status volume_error_at(struct error *error, enum status status, const char *path)
{
    if (error && status != STATUS_OK && path) {
        size_t length = text_cut(path, strlen(path), sizeof error->path - 1);

        memcpy(error->path, path, length);
        error->path[length] = '\0';
    }
    return status;
}

enum status volume_stamp_fd(const struct volume *volume, int fd, struct file_stamp *ret)
{
    struct statx status;

    if (volume_do_stat(volume, fd, "", &status) < 0)
        return status_from_errno(errno);
    *ret = volume_stamp_from_statx(&status);
    return STATUS_OK;
}

enum status volume_stamp_at(const struct volume *volume, int dir_fd, const char *name,
                            struct file_stamp *ret, bool *ret_is_dir, bool *ret_is_file)
{
    struct statx status;

    if (!volume_name_is_single(name))
        return STATUS_INVALID;
    if (volume_do_stat(volume, dir_fd, name, &status) < 0)
        return status_from_errno(errno);
    *ret = volume_stamp_from_statx(&status);
    if (ret_is_dir)
        *ret_is_dir = S_ISDIR(status.stx_mode);
    if (ret_is_file)
        *ret_is_file = S_ISREG(status.stx_mode);
    return STATUS_OK;
}
