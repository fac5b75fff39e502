/* What a commit keeps of the files that it is going to replace or to remove. */
#include "core/journal.h"
#include "core/volume_private.h"
#include "core/volume_sync_batch.h"

#include <errno.h>

static enum status copy(const struct volume *volume, int dir_fd, const char *name, size_t size_max,
                        int to_fd, const char *backup, struct sync_batch *batch,
                        struct file_image *ret, struct error *error)
{
    int fd = -1;
    enum status status = volume_read_file(volume, dir_fd, name, size_max, ret, error);

    if (status == STATUS_OK)
        status =
            volume_begin_new(volume, to_fd, backup, NULL, to_fd, ret->bytes, ret->size, &fd, error);
    if (status == STATUS_OK)
        status = sync_batch_add(batch, fd, JOURNAL_RECOVERY_DIR, error);
    return status;
}

enum status volume_back_up(const struct volume *volume, int dir_fd, const char *name,
                           size_t size_max, int to_fd, const char *backup, struct sync_batch *batch,
                           struct file_image *ret, struct error *error)
{
    /* That the name is taken tells of a link whose answer got lost: nobody else makes such names.
     */
    if (volume_do_link(volume, dir_fd, name, to_fd, backup) < 0 && errno != EEXIST)
        return copy(volume, dir_fd, name, size_max, to_fd, backup, batch, ret, error);
    return volume_read_file(volume, to_fd, backup, size_max, ret, error);
}
