/* Atomic, durable replacement and removal. */
#include "core/volume_private.h"

#include "core/pause_point.h"
#include "core/text.h"
#include "core/volume_sync_batch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define FILE_MODE_NEW 0660u   /* less what the directory denies */
#define FILE_MODE_FIRST 0600u /* until owner and group are right */
#define TEMPORARY_PREFIX_MAX 200
#define TEMPORARY_SUFFIX ".tmp"
#define SILLY_PREFIX ".nfs" /* a removed file that another process of an NFS client has open */

enum status volume_random_hex(char ret[VOLUME_HEX_SIZE])
{
    unsigned char bits[VOLUME_MARKER_LENGTH / 2];

    if (getrandom(bits, sizeof bits, 0) != (ssize_t) sizeof bits)
        return STATUS_IO;
    for (size_t i = 0; i < sizeof bits; i++)
        (void) snprintf(ret + 2 * i, 3, "%02x", bits[i]);
    return STATUS_OK;
}

void volume_adopt_attributes(const struct volume *volume, int fd, const struct statx *model,
                             int dir_fd)
{
    struct statx own;
    struct statx above;

    if (volume_do_stat(volume, fd, "", &own) < 0 || volume_do_stat(volume, dir_fd, "", &above) < 0)
        return;

    const struct statx *from = model ? model : &above;
    unsigned mode = model ? model->stx_mode & 0777u : above.stx_mode & FILE_MODE_NEW;
    if (S_ISDIR(own.stx_mode))
        mode = from->stx_mode & 07777u;
    volume_call_begin(volume, "chmod", fd, "");
    /* Giving away needs a right that most have not; the group alone may still be ours to give. */
    if (own.stx_uid != from->stx_uid || own.stx_gid != from->stx_gid) {
        if (fchown(fd, from->stx_uid, from->stx_gid) < 0 &&
            fchown(fd, (uid_t) -1, from->stx_gid) < 0)
            errno = 0;
    }
    if ((own.stx_mode & 07777u) != mode && fchmod(fd, mode) < 0)
        errno = 0;
    volume_call_end();
}

static enum status write_bytes(const struct volume *volume, int fd, const char *bytes, size_t size,
                               struct error *error)
{
    while (size > 0) {
        ssize_t written = volume_do_write(volume, fd, bytes, size);
        if (written <= 0)
            return error_set_errno(error, written < 0 ? errno : EIO, NULL, "cannot write");
        bytes += written;
        size -= (size_t) written;
    }
    return STATUS_OK;
}

enum status volume_begin_new(const struct volume *volume, int dir_fd, const char *name,
                             const struct statx *model, int model_fd, const char *bytes,
                             size_t size, int *ret, struct error *error)
{
    int fd = volume_do_open(volume, dir_fd, name, O_WRONLY | O_CREAT | O_EXCL, FILE_MODE_FIRST);

    if (fd < 0)
        return error_set_errno(error, errno, name, "cannot create the file");
    volume_adopt_attributes(volume, fd, model, model_fd);
    enum status status = write_bytes(volume, fd, bytes, size, error);
    if (status == STATUS_OK) {
        *ret = fd;
        return STATUS_OK;
    }
    (void) volume_do_close(volume, fd);
    (void) volume_do_unlink(volume, dir_fd, name, 0);
    return volume_error_at(error, status, name);
}

enum status volume_write_new(const struct volume *volume, int dir_fd, const char *name,
                             const struct statx *model, const char *bytes, size_t size,
                             struct error *error)
{
    AUTO_SYNC_BATCH struct sync_batch batch = {.volume = volume};
    int fd = -1;

    enum status status =
        volume_begin_new(volume, dir_fd, name, model, dir_fd, bytes, size, &fd, error);
    if (status != STATUS_OK)
        return status;
    status = sync_batch_add(&batch, fd, name, error);
    if (status == STATUS_OK)
        status = sync_batch_flush(&batch, error);
    if (status != STATUS_OK)
        (void) volume_do_unlink(volume, dir_fd, name, 0);
    return status;
}

/* A name of its own beside `name`, hidden, as the peers make theirs. */
static enum status temporary_name(const char *name, char ret[NAME_MAX + 1])
{
    char hex[VOLUME_HEX_SIZE];
    enum status status = volume_random_hex(hex);

    if (status != STATUS_OK)
        return status;
    int length = (int) text_cut(name, strlen(name), TEMPORARY_PREFIX_MAX);
    (void) snprintf(ret, NAME_MAX + 1, ".%.*s.%s" TEMPORARY_SUFFIX, length, name, hex);
    return STATUS_OK;
}

enum status volume_sync_dir(const struct volume *volume, int dir_fd, struct error *error)
{
    if (volume_do_sync(volume, dir_fd) < 0)
        return error_set_errno(error, errno, NULL, "cannot sync the directory");
    return STATUS_OK;
}

enum status volume_replacement_prepare(const struct volume *volume, int dir_fd, const char *name,
                                       const char *bytes, size_t size,
                                       char ret_temporary[NAME_MAX + 1], struct error *error)
{
    struct statx old;

    if (!volume_name_is_single(name))
        return error_set(error, STATUS_INVALID, name, "not a file name");
    enum status status = temporary_name(name, ret_temporary);
    if (status != STATUS_OK)
        return error_set(error, status, name, "no random numbers");

    bool exists = volume_do_stat(volume, dir_fd, name, &old) == 0 && S_ISREG(old.stx_mode);
    status =
        volume_write_new(volume, dir_fd, ret_temporary, exists ? &old : NULL, bytes, size, error);
    return volume_error_at(error, status, name);
}

enum status volume_replacement_apply(const struct volume *volume, int from_fd,
                                     const char *temporary, int dir_fd, const char *name,
                                     struct error *error)
{
    pause_here(PAUSE_REPLACE_BEFORE_RENAME);
    if (volume_do_rename(volume, from_fd, temporary, dir_fd, name) < 0) {
        enum status status = error_set_errno(error, errno, name, "cannot replace the file");
        (void) volume_do_unlink(volume, from_fd, temporary, 0);
        return status;
    }
    return STATUS_OK;
}

enum status volume_replace_file(const struct volume *volume, int dir_fd, const char *name,
                                const char *bytes, size_t size, struct error *error)
{
    char temporary[NAME_MAX + 1];

    enum status status =
        volume_replacement_prepare(volume, dir_fd, name, bytes, size, temporary, error);
    if (status == STATUS_OK)
        status = volume_replacement_apply(volume, dir_fd, temporary, dir_fd, name, error);
    if (status != STATUS_OK)
        return status;
    return volume_error_at(error, volume_sync_dir(volume, dir_fd, error), name);
}

/* The dot and what is behind it: .<digits>.tmp */
#define TEMPORARY_TAIL_LENGTH (1 + VOLUME_MARKER_LENGTH + (sizeof TEMPORARY_SUFFIX - 1))

bool volume_name_is_temporary(const char *name)
{
    size_t length = strlen(name);

    if (name[0] != '.' || length <= TEMPORARY_TAIL_LENGTH + 1 ||
        strcmp(name + length - strlen(TEMPORARY_SUFFIX), TEMPORARY_SUFFIX) != 0)
        return false;
    const char *tail = name + length - TEMPORARY_TAIL_LENGTH;
    return tail[0] == '.' && strspn(tail + 1, "0123456789abcdef") == VOLUME_MARKER_LENGTH;
}

bool volume_name_is_temporary_of(const char *temporary, const char *name)
{
    size_t length = text_cut(name, strlen(name), TEMPORARY_PREFIX_MAX);

    return volume_name_is_temporary(temporary) &&
           strlen(temporary) == 1 + length + TEMPORARY_TAIL_LENGTH &&
           memcmp(temporary + 1, name, length) == 0;
}

enum status volume_check_right(const struct volume *volume, int dir_fd, const char *path,
                               const char *what, struct error *error)
{
    volume_call_begin(volume, "access", dir_fd, "");
    int refused = faccessat(dir_fd, ".", W_OK | X_OK, AT_EACCESS);

    volume_call_end();
    if (refused)
        return error_set_errno(error, errno, path, "%s", what);
    return STATUS_OK;
}

void volume_sweep_temporaries(const struct volume *volume, int dir_fd)
{
    AUTO_LISTING struct listing listing = {0};

    if (volume_list_fd(volume, dir_fd, &listing, NULL) != STATUS_OK)
        return;
    for (size_t i = 0; i < listing.count; i++) {
        if (listing.entries[i].is_file && volume_name_is_temporary(listing.entries[i].name))
            (void) volume_do_unlink(volume, dir_fd, listing.entries[i].name, 0);
    }
}

enum status volume_remove_file(const struct volume *volume, int dir_fd, const char *name,
                               struct error *error)
{
    if (!volume_name_is_single(name))
        return error_set(error, STATUS_INVALID, name, "not a file name");
    if (volume_do_unlink(volume, dir_fd, name, 0) < 0 && errno != ENOENT)
        return error_set_errno(error, errno, name, "cannot remove the file");
    /* Synced although it was gone: whoever removed it may have died before doing so. */
    return volume_error_at(error, volume_sync_dir(volume, dir_fd, error), name);
}

static enum status remove_plain_files(const struct volume *volume, int fd, struct error *error)
{
    AUTO_LISTING struct listing listing = {0};
    enum status status = volume_list_fd(volume, fd, &listing, error);

    for (size_t i = 0; status == STATUS_OK && i < listing.count; i++) {
        const struct listing_entry *entry = &listing.entries[i];
        if (!entry->is_file || strncmp(entry->name, SILLY_PREFIX, strlen(SILLY_PREFIX)) == 0)
            continue;
        if (volume_do_unlink(volume, fd, entry->name, 0) < 0 && errno != ENOENT)
            status = error_set_errno(error, errno, NULL, "cannot remove %s", entry->name);
    }
    return status;
}

enum status volume_remove_dir_soon(const struct volume *volume, int dir_fd, const char *name,
                                   bool *ret_left, struct error *error)
{
    AUTO_CLOSE int fd = -1;

    *ret_left = false;
    if (!volume_name_is_single(name))
        return error_set(error, STATUS_INVALID, name, "not a directory name");
    enum status status = volume_open_dir(volume, dir_fd, name, &fd, error);
    if (status == STATUS_OK)
        status = remove_plain_files(volume, fd, error);
    if (status == STATUS_NOT_FOUND)
        return STATUS_OK;
    if (status != STATUS_OK)
        return volume_error_at(error, status, name);
    if (volume_do_unlink(volume, dir_fd, name, AT_REMOVEDIR) < 0 && errno != ENOENT) {
        *ret_left = errno == ENOTEMPTY || errno == EEXIST;
        if (!*ret_left)
            return error_set_errno(error, errno, name, "cannot remove the directory");
    }
    return STATUS_OK;
}

enum status volume_remove_dir(const struct volume *volume, int dir_fd, const char *name,
                              bool *ret_left, struct error *error)
{
    bool left = false;
    enum status status = volume_remove_dir_soon(volume, dir_fd, name, &left, error);

    if (status == STATUS_OK)
        status = volume_error_at(error, volume_sync_dir(volume, dir_fd, error), name);
    if (status == STATUS_OK)
        *ret_left = left;
    return status;
}

enum status volume_make_dir_soon(const struct volume *volume, int dir_fd, const char *name,
                                 bool *ret_made, struct error *error)
{
    AUTO_CLOSE int fd = -1;

    *ret_made = false;
    if (volume_do_mkdir(volume, dir_fd, name, 0700) < 0) {
        if (errno == EEXIST)
            return STATUS_OK;
        return error_set_errno(error, errno, name, "cannot create the directory");
    }
    *ret_made = true;
    enum status status = volume_open_dir(volume, dir_fd, name, &fd, error);
    if (status == STATUS_OK)
        volume_adopt_attributes(volume, fd, NULL, dir_fd);
    return status;
}

enum status volume_make_dir(const struct volume *volume, int dir_fd, const char *name,
                            struct error *error)
{
    bool made = false;
    enum status status = volume_make_dir_soon(volume, dir_fd, name, &made, error);

    if (status != STATUS_OK || !made)
        return status;
    return volume_error_at(error, volume_sync_dir(volume, dir_fd, error), name);
}
