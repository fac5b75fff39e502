/* A name that is given to a file exclusively, where the lock alone does not do. */
#include "core/volume_private.h"

#include <errno.h>
#include <string.h>

/* The file system does not know the call at all. */
static bool is_unknown_call(int sys_errno)
{
    return sys_errno == EPERM || sys_errno == EOPNOTSUPP || sys_errno == ENOSYS ||
           sys_errno == EINVAL || sys_errno == EMLINK;
}

static enum status taken(struct error *error, const char *name)
{
    return error_set(error, STATUS_CONFLICT, name, "somebody else has made the file meanwhile");
}

/* The last resort: between listing and renaming somebody else may do the same. */
static enum status rename_where_none_is_listed(const struct volume *volume, int dir_fd,
                                               const char *temporary, const char *name,
                                               struct error *error)
{
    AUTO_LISTING struct listing listing = {0};
    enum status status = volume_list_fd(volume, dir_fd, &listing, error);

    if (status != STATUS_OK)
        return status;
    if (listing_find(&listing, name))
        return taken(error, name);
    return volume_replacement_apply(volume, dir_fd, temporary, name, error);
}

static enum status rename_exclusively(const struct volume *volume, int dir_fd,
                                      const char *temporary, const char *name, struct error *error)
{
    if (volume_do_rename_new(volume, dir_fd, temporary, name) == 0)
        return STATUS_OK;
    if (errno == EEXIST)
        return taken(error, name);
    if (is_unknown_call(errno))
        return rename_where_none_is_listed(volume, dir_fd, temporary, name, error);
    return error_set_errno(error, errno, name, "cannot make the file");
}

/* A server may have made the link and its answer got lost: then the temporary has two names. */
static bool was_linked(const struct volume *volume, int dir_fd, const char *temporary)
{
    struct statx status;

    return volume_do_stat(volume, dir_fd, temporary, &status) == 0 && status.stx_nlink == 2;
}

static enum status link_exclusively(const struct volume *volume, int dir_fd, const char *temporary,
                                    const char *name, struct error *error)
{
    if (volume_do_link(volume, dir_fd, temporary, name) < 0) {
        int sys_errno = errno;
        if (is_unknown_call(sys_errno))
            return rename_exclusively(volume, dir_fd, temporary, name, error);
        if (!was_linked(volume, dir_fd, temporary))
            return sys_errno == EEXIST
                       ? taken(error, name)
                       : error_set_errno(error, sys_errno, name, "cannot make the file");
    }
    /* Should it stay, it is swept away later; the file has its name already. */
    (void) volume_do_unlink(volume, dir_fd, temporary, 0);
    return STATUS_OK;
}

enum status volume_place_new(const struct volume *volume, int dir_fd, const char *name,
                             const char *bytes, size_t size, struct error *error)
{
    char temporary[NAME_MAX + 1];

    enum status status =
        volume_replacement_prepare(volume, dir_fd, name, bytes, size, temporary, error);
    if (status != STATUS_OK)
        return status;
    status = link_exclusively(volume, dir_fd, temporary, name, error);
    if (status != STATUS_OK) {
        (void) volume_do_unlink(volume, dir_fd, temporary, 0);
        return status;
    }
    return volume_error_at(error, volume_sync_dir(volume, dir_fd, error), name);
}
