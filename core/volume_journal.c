#include "core/volume_journal.h"

#include "core/mutant.h"
#include "core/text.h"
#include "core/volume_private.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

/* The file system does not know the call at all. */
static bool is_unknown_call(int sys_errno)
{
    return sys_errno == EPERM || sys_errno == EOPNOTSUPP || sys_errno == ENOSYS ||
           sys_errno == EINVAL || sys_errno == EMLINK;
}

static enum status taken(struct error *error)
{
    return error_set(error, STATUS_CONFLICT, JOURNAL_NAME,
                     "somebody else has begun a commit meanwhile");
}

/* The last resort: between listing and renaming somebody else may do the same. */
static enum status rename_where_none_is_listed(const struct volume *volume, int bucket_fd,
                                               const char *temporary, struct error *error)
{
    AUTO_LISTING struct listing listing = {0};
    enum status status = volume_list_fd(volume, bucket_fd, &listing, error);

    if (status != STATUS_OK)
        return status;
    if (listing_find(&listing, JOURNAL_NAME))
        return taken(error);
    return volume_replacement_apply(volume, bucket_fd, temporary, JOURNAL_NAME, error);
}

static enum status rename_exclusively(const struct volume *volume, int bucket_fd,
                                      const char *temporary, struct error *error)
{
    if (volume_do_rename_new(volume, bucket_fd, temporary, JOURNAL_NAME) == 0)
        return STATUS_OK;
    if (errno == EEXIST)
        return taken(error);
    if (is_unknown_call(errno))
        return rename_where_none_is_listed(volume, bucket_fd, temporary, error);
    return error_set_errno(error, errno, JOURNAL_NAME, "cannot make the journal");
}

/* A server may have made the link and its answer got lost: then the temporary has two names. */
static bool was_linked(const struct volume *volume, int bucket_fd, const char *temporary)
{
    struct statx status;

    return volume_do_stat(volume, bucket_fd, temporary, &status) == 0 && status.stx_nlink == 2;
}

static enum status link_exclusively(const struct volume *volume, int bucket_fd,
                                    const char *temporary, struct error *error)
{
    if (volume_do_link(volume, bucket_fd, temporary, JOURNAL_NAME) < 0) {
        int sys_errno = errno;
        if (is_unknown_call(sys_errno))
            return rename_exclusively(volume, bucket_fd, temporary, error);
        if (!was_linked(volume, bucket_fd, temporary))
            return sys_errno == EEXIST
                       ? taken(error)
                       : error_set_errno(error, sys_errno, JOURNAL_NAME, "cannot make the journal");
    }
    /* Should it stay, it is swept away later; the journal has its name already. */
    (void) volume_do_unlink(volume, bucket_fd, temporary, 0);
    return STATUS_OK;
}

enum status volume_journal_place(const struct volume *volume, int bucket_fd,
                                 const struct journal *journal, struct error *error)
{
    AUTO_TEXT struct text bytes = {0};
    char temporary[NAME_MAX + 1];

    journal_write(journal, &bytes);
    if (!text_ok(&bytes))
        return error_set(error, STATUS_NO_MEMORY, JOURNAL_NAME, "no memory for the journal");
    enum status status = volume_replacement_prepare(volume, bucket_fd, JOURNAL_NAME, bytes.bytes,
                                                    bytes.size, temporary, error);
    if (status != STATUS_OK)
        return status;
    if (MUTANT(JOURNAL_NOT_EXCLUSIVE))
        status = volume_replacement_apply(volume, bucket_fd, temporary, JOURNAL_NAME, error);
    else
        status = link_exclusively(volume, bucket_fd, temporary, error);
    if (status != STATUS_OK) {
        (void) volume_do_unlink(volume, bucket_fd, temporary, 0);
        return status;
    }
    return volume_error_at(error, volume_sync_dir(volume, bucket_fd, error), JOURNAL_NAME);
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

enum status volume_journal_commit(const struct volume *volume, int bucket_fd,
                                  const struct journal *journal, struct error *error)
{
    AUTO_TEXT struct text bytes = {0};
    struct journal committed = *journal;

    committed.state = JOURNAL_COMMITTED;
    journal_write(&committed, &bytes);
    if (!text_ok(&bytes))
        return error_set(error, STATUS_NO_MEMORY, JOURNAL_NAME, "no memory for the journal");
    return volume_replace_file(volume, bucket_fd, JOURNAL_NAME, bytes.bytes, bytes.size, error);
}
