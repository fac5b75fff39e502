/* Finding directories by listings, where a look-up of what is not there would be remembered. */
#include "core/volume_private.h"

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

enum status volume_walk(const struct volume *volume, int dir_fd, const char *path, bool may_create,
                        int *ret, struct error *error)
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
            status = volume_make_dir(volume, at, name, error);
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
