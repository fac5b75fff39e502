#include "core/volume_sync_batch.h"

#include "core/volume_private.h"

#include <errno.h>
#include <fcntl.h>

static enum status add(struct sync_batch *batch, int fd, const char *path, uint64_t inode,
                       struct error *error)
{
    batch->members[batch->count].fd = fd;
    batch->members[batch->count].inode = inode;
    batch->members[batch->count++].path = path;
    return batch->count < SYNC_BATCH_MAX ? STATUS_OK : sync_batch_flush(batch, error);
}

enum status sync_batch_add(struct sync_batch *batch, int fd, const char *path, struct error *error)
{
    /* A hint only: the sync that follows tells of errors. */
    (void) sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE);
    return add(batch, fd, path, 0, error);
}

static bool has_inode(const struct sync_batch *batch, uint64_t inode)
{
    for (size_t i = 0; i < batch->count; i++) {
        if (batch->members[i].inode == inode)
            return true;
    }
    return false;
}

enum status sync_batch_add_dir(struct sync_batch *batch, int dir_fd, const char *path,
                               struct error *error)
{
    struct stat attributes;

    volume_call_begin(batch->volume, "stat", dir_fd, "");
    int failed = fstat(dir_fd, &attributes);
    volume_call_end();
    if (failed)
        return error_set_errno(error, errno, path, "cannot look at the directory");
    if (has_inode(batch, attributes.st_ino))
        return STATUS_OK;
    int fd = fcntl(dir_fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        return error_set_errno(error, errno, path, "cannot hold the directory");
    return add(batch, fd, path, attributes.st_ino, error);
}

enum status sync_batch_flush(struct sync_batch *batch, struct error *error)
{
    enum status status = STATUS_OK;

    for (size_t i = 0; i < batch->count; i++) {
        int fd = batch->members[i].fd;
        const char *path = batch->members[i].path;
        if (status == STATUS_OK && volume_do_sync(batch->volume, fd) < 0)
            status = error_set_errno(error, errno, path, "cannot sync");
        if (volume_do_close(batch->volume, fd) < 0 && status == STATUS_OK)
            status = error_set_errno(error, errno, path, "cannot close");
    }
    batch->count = 0;
    return status;
}

void sync_batch_destroy(struct sync_batch *batch)
{
    for (size_t i = 0; i < batch->count; i++)
        (void) volume_do_close(batch->volume, batch->members[i].fd);
    batch->count = 0;
}
