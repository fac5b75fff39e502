/* A name that is given to a file exclusively, where the lock alone does not do. */
#include "core/volume_private.h"

#include <errno.h>

/* The file system does not know the call at all, or not between directories. */
static bool is_unknown_call(int sys_errno)
{
    return sys_errno == EPERM || sys_errno == EOPNOTSUPP || sys_errno == ENOSYS ||
           sys_errno == EINVAL || sys_errno == EMLINK || sys_errno == EXDEV;
}

static enum status taken(struct error *error, const char *name)
{
    return error_set(error, STATUS_CONFLICT, name, "somebody else has made the file meanwhile");
}

/* A complete file, and the name that it is to get. */
struct placing {
    const struct volume *volume;
    int from_fd;
    const char *temporary;
    int dir_fd;
    const char *name;
};

/* The last resort: between listing and renaming somebody else may do the same. */
static enum status rename_where_none_is_listed(const struct placing *placing, struct error *error)
{
    AUTO_LISTING struct listing listing = {0};
    enum status status = volume_list_fd(placing->volume, placing->dir_fd, &listing, error);

    if (status != STATUS_OK)
        return status;
    if (listing_find(&listing, placing->name))
        return taken(error, placing->name);
    return volume_replacement_apply(placing->volume, placing->from_fd, placing->temporary,
                                    placing->dir_fd, placing->name, error);
}

static enum status rename_exclusively(const struct placing *placing, struct error *error)
{
    if (volume_do_rename_new(placing->volume, placing->from_fd, placing->temporary, placing->dir_fd,
                             placing->name) == 0)
        return STATUS_OK;
    if (errno == EEXIST)
        return taken(error, placing->name);
    if (is_unknown_call(errno))
        return rename_where_none_is_listed(placing, error);
    return error_set_errno(error, errno, placing->name, "cannot make the file");
}

/* A server may have made the link and its answer got lost: then the temporary has two names. */
static bool was_linked(const struct placing *placing)
{
    struct statx status;

    return volume_do_stat(placing->volume, placing->from_fd, placing->temporary, &status) == 0 &&
           status.stx_nlink == 2;
}

static enum status link_exclusively(const struct placing *placing, struct error *error)
{
    if (volume_do_link(placing->volume, placing->from_fd, placing->temporary, placing->dir_fd,
                       placing->name) == 0)
        return STATUS_OK;
    int sys_errno = errno;
    if (is_unknown_call(sys_errno))
        return rename_exclusively(placing, error);
    if (was_linked(placing))
        return STATUS_OK;
    return sys_errno == EEXIST
               ? taken(error, placing->name)
               : error_set_errno(error, sys_errno, placing->name, "cannot make the file");
}

enum status volume_place(const struct volume *volume, int from_fd, const char *temporary,
                         int dir_fd, const char *name, struct error *error)
{
    const struct placing placing = {volume, from_fd, temporary, dir_fd, name};
    enum status status = link_exclusively(&placing, error);

    /* Should it stay, it is swept away later. */
    (void) volume_do_unlink(volume, from_fd, temporary, 0);
    if (status != STATUS_OK)
        return status;
    return volume_error_at(error, volume_sync_dir(volume, dir_fd, error), name);
}

enum status volume_place_new(const struct volume *volume, int dir_fd, const char *name,
                             const char *bytes, size_t size, struct error *error)
{
    char temporary[NAME_MAX + 1];

    enum status status =
        volume_replacement_prepare(volume, dir_fd, name, bytes, size, temporary, error);
    if (status != STATUS_OK)
        return status;
    return volume_place(volume, dir_fd, temporary, dir_fd, name, error);
}
