#include "core/volume_journal.h"

#include "core/mutant.h"
#include "core/text.h"
#include "core/volume_private.h"
#include "core/volume_sync_batch.h"

#include <string.h>

/* A journal that nobody could read back would stand in everybody's way for good. That it says
 * committed takes a byte more than prepared. */
static enum status check_readable(const struct text *bytes, struct error *error)
{
    AUTO_JOURNAL struct journal *journal = NULL;

    if (bytes->size >= JOURNAL_BYTES_MAX)
        return error_set(error, STATUS_TOO_LARGE, JOURNAL_NAME,
                         "the change is too large for a journal of %u bytes", JOURNAL_BYTES_MAX);
    enum status status = journal_parse(bytes->bytes, bytes->size, &journal, error);
    if (status == STATUS_CORRUPT && error)
        error->status = STATUS_INVALID;
    return volume_error_at(error, status == STATUS_CORRUPT ? STATUS_INVALID : status, JOURNAL_NAME);
}

enum status volume_journal_write(const struct volume *volume, int dir_fd, const char *name,
                                 const struct journal *journal, int bucket_fd,
                                 struct sync_batch *batch, struct error *error)
{
    AUTO_TEXT struct text bytes = {0};
    int fd = -1;

    journal_write(journal, &bytes);
    if (!text_ok(&bytes))
        return error_set(error, STATUS_NO_MEMORY, JOURNAL_NAME, "no memory for the journal");
    enum status status = check_readable(&bytes, error);
    if (status == STATUS_OK)
        status = volume_begin_new(volume, dir_fd, name, NULL, bucket_fd, bytes.bytes, bytes.size,
                                  &fd, error);
    if (status == STATUS_OK)
        status = sync_batch_add(batch, fd, JOURNAL_NAME, error);
    return volume_error_at(error, status, JOURNAL_NAME);
}

enum status volume_journal_place(const struct volume *volume, int from_fd, const char *name,
                                 int bucket_fd, struct error *error)
{
    if (MUTANT(JOURNAL_NOT_EXCLUSIVE))
        return volume_journal_commit(volume, from_fd, name, bucket_fd, error);
    enum status status = volume_place(volume, from_fd, name, bucket_fd, JOURNAL_NAME, error);
    if (status == STATUS_CONFLICT)
        return error_set(error, status, JOURNAL_NAME, "somebody else has begun a commit meanwhile");
    return status;
}

enum status volume_journal_commit(const struct volume *volume, int from_fd, const char *name,
                                  int bucket_fd, struct error *error)
{
    enum status status =
        volume_replacement_apply(volume, from_fd, name, bucket_fd, JOURNAL_NAME, error);

    if (status == STATUS_OK)
        status = volume_error_at(error, volume_sync_dir(volume, bucket_fd, error), JOURNAL_NAME);
    return status;
}

enum status volume_journal_owner(const struct volume *volume, int bucket_fd,
                                 const char *operation_id, enum journal_owner *ret,
                                 struct error *error)
{
    AUTO_IMAGE struct file_image image = {0};
    AUTO_JOURNAL struct journal *journal = NULL;
    enum status status = STATUS_STALE;

    for (unsigned i = 0; status == STATUS_STALE && i < 3; i++)
        status =
            volume_read_file(volume, bucket_fd, JOURNAL_NAME, JOURNAL_BYTES_MAX, &image, error);
    if (status == STATUS_NOT_FOUND) {
        *ret = JOURNAL_NOBODYS;
        return STATUS_OK;
    }
    if (status != STATUS_OK)
        return status;
    status = journal_parse(image.bytes, image.size, &journal, NULL);
    if (status == STATUS_NO_MEMORY)
        return error_set(error, status, JOURNAL_NAME, "no memory for the journal");
    /* What we cannot read is not what we wrote. */
    if (status != STATUS_OK || strcmp(journal->operation_id, operation_id) != 0)
        *ret = JOURNAL_SOMEBODYS;
    else
        *ret = journal->state == JOURNAL_COMMITTED ? JOURNAL_OURS_COMMITTED : JOURNAL_OURS;
    return STATUS_OK;
}
