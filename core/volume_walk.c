/* Finding directories by listings, where a look-up of what is not there would be remembered. */
#include "core/volume_private.h"
#include "core/volume_sync_batch.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

enum status volume_open_listed(const struct volume *volume, int dir_fd, const char *name, int *ret,
                               struct error *error)
{
    AUTO_LISTING struct listing listing = {0};

    if (!volume_lookups_are_safe(volume)) {
        enum status status = volume_list_fd(volume, dir_fd, &listing, error);
        if (status != STATUS_OK)
            return status;
        if (!listing_find(&listing, name))
            return error_set(error, STATUS_NOT_FOUND, name, "no such directory");
    }
    return volume_open_dir(volume, dir_fd, name, ret, error);
}

/* Makes a directory; its name is durable afterwards, or with the rest of the batch. */
static enum status make(const struct volume *volume, int dir_fd, const char *name,
                        const char *reason, struct sync_batch *batch, struct error *error)
{
    bool made = false;

    if (!batch)
        return volume_make_dir(volume, dir_fd, name, error);
    enum status status = volume_make_dir_soon(volume, dir_fd, name, &made, error);
    if (status == STATUS_OK && made)
        status = sync_batch_add_dir(batch, dir_fd, reason, error);
    return volume_error_at(error, status, name);
}

static enum status walk(const struct volume *volume, int dir_fd, const char *path, bool may_create,
                        const char *reason, struct sync_batch *batch, int *ret, struct error *error)
{
    AUTO_CLOSE int fd = -1;
    char name[NAME_MAX + 1];
    int at = dir_fd;

    while (*path != '\0') {
        size_t length = strcspn(path, "/");
        int below = -1;
        if (length > NAME_MAX)
            return error_set(error, STATUS_INVALID, path, "a name is too long");
        memcpy(name, path, length);
        name[length] = '\0';
        enum status status = volume_open_listed(volume, at, name, &below, error);
        if (status == STATUS_NOT_FOUND && may_create) {
            status = make(volume, at, name, reason, batch, error);
            if (status == STATUS_OK)
                status = volume_open_dir(volume, at, name, &below, error);
        }
        if (status != STATUS_OK)
            return status;
        cleanup_close(&fd);
        fd = below;
        at = fd;
        path += length;
        path += strspn(path, "/");
    }
    *ret = TAKE_FD(fd);
    return STATUS_OK;
}

enum status volume_walk(const struct volume *volume, int dir_fd, const char *path, bool may_create,
                        int *ret, struct error *error)
{
    return walk(volume, dir_fd, path, may_create, NULL, NULL, ret, error);
}

enum status volume_walk_making(const struct volume *volume, int dir_fd, const char *path,
                               const char *reason, struct sync_batch *batch, int *ret,
                               struct error *error)
{
    return walk(volume, dir_fd, path, true, reason, batch, ret, error);
}
