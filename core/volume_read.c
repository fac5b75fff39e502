/* Opening and reading beneath the root. */
#include "core/volume_private.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define READ_STEP_BYTES 4096u

static enum status open_dir(const struct volume *volume, int dir_fd, const char *path, int flags,
                            int *ret, struct error *error)
{
    int fd = volume_do_open(volume, dir_fd, path, flags | O_DIRECTORY, 0);

    if (fd < 0)
        return error_set_errno(error, errno, path, "cannot open the directory");
    *ret = fd;
    return STATUS_OK;
}

enum status volume_open_dir(const struct volume *volume, int dir_fd, const char *path, int *ret,
                            struct error *error)
{
    return open_dir(volume, dir_fd, path, O_RDONLY, ret, error);
}

enum status volume_hold_dir(const struct volume *volume, int dir_fd, const char *path, int *ret,
                            struct error *error)
{
    return open_dir(volume, dir_fd, path, O_PATH, ret, error);
}

/* What is in the place of a file. Rights have nothing to do with it, and trying again does not
 * help: the place holds nothing that can be understood. */
enum status volume_error_no_file(struct error *error, const char *path, const char *what)
{
    return error_set(error, STATUS_CORRUPT, path, "it is %s, not a regular file", what);
}

const char *volume_mode_name(mode_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFDIR:
        return "a directory";
    case S_IFIFO:
        return "a pipe";
    case S_IFSOCK:
        return "a socket";
    default:
        return "a device";
    }
}

enum status volume_error_open(struct error *error, int sys_errno, const char *path,
                              const char *what)
{
    switch (sys_errno) {
    case ELOOP:
        return error_set(error, STATUS_CORRUPT, path,
                         "it is %sa symbolic link, which is never followed",
                         path && strchr(path, '/') ? "or lies behind " : "");
    case EISDIR:
        return volume_error_no_file(error, path, "a directory");
    case ENXIO:
        return volume_error_no_file(error, path, "a socket, or a device that is not there");
    default:
        return error_set_errno(error, sys_errno, path, "cannot open the %s", what);
    }
}

/* O_NONBLOCK: a pipe that somebody put there must not hold us. */
enum status volume_open_file(const struct volume *volume, int dir_fd, const char *path, int *ret,
                             struct error *error)
{
    int fd = volume_do_open(volume, dir_fd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);

    if (fd < 0)
        return volume_error_open(error, errno, path, "file");
    *ret = fd;
    return STATUS_OK;
}

/* Makes room for one byte more than the `size` that are in use, and the NUL. */
static bool grow(char **bytes, size_t size, size_t *capacity, size_t size_max)
{
    if (size + 1 < *capacity)
        return true;

    size_t wanted = *capacity < READ_STEP_BYTES ? READ_STEP_BYTES : *capacity * 2;
    if (wanted > size_max + 2)
        wanted = size_max + 2;
    char *larger = realloc(*bytes, wanted);
    if (!larger)
        return false;
    *bytes = larger;
    *capacity = wanted;
    return true;
}

/* Reads to the end of the file. The size that was told does not say where that is: an empty read
 * does, or one that was asked for more and stopped just at that size, which spares a network volume
 * a question. */
static enum status read_to_end(const struct volume *volume, int fd, size_t size_told,
                               size_t size_max, char **ret, size_t *ret_size, struct error *error)
{
    size_t capacity = size_told + 2;
    size_t size = 0;
    AUTO_FREE char *bytes = malloc(capacity);

    if (!bytes)
        return error_set(error, STATUS_NO_MEMORY, NULL, "no memory for %zu bytes", capacity);
    for (;;) {
        if (!grow(&bytes, size, &capacity, size_max))
            return error_set(error, STATUS_NO_MEMORY, NULL, "no memory for %zu bytes", capacity);
        size_t room = capacity - 1 - size;
        ssize_t got = volume_do_read(volume, fd, bytes + size, room, (off_t) size);
        if (got < 0)
            return error_set_errno(error, errno, NULL, "cannot read the file");
        if (got == 0)
            break;
        size += (size_t) got;
        if (size > size_max)
            return error_set(error, STATUS_TOO_LARGE, NULL, "more than %zu bytes", size_max);
        if ((size_t) got < room && size == size_told)
            break;
    }
    bytes[size] = '\0';
    *ret = TAKE_PTR(bytes);
    *ret_size = size;
    return STATUS_OK;
}

/* The attributes of an open file that may be read. */
static enum status look_at(const struct volume *volume, int fd, size_t size_max,
                           struct file_stamp *ret, struct error *error)
{
    struct statx status;

    if (volume_do_stat(volume, fd, "", &status) < 0)
        return error_set_errno(error, errno, NULL, "cannot read the file's attributes");
    if (!S_ISREG(status.stx_mode))
        return volume_error_no_file(error, NULL, volume_mode_name(status.stx_mode));
    if (status.stx_size > size_max)
        return error_set(error, STATUS_TOO_LARGE, NULL, "more than %zu bytes", size_max);
    *ret = volume_stamp_from_statx(&status);
    return STATUS_OK;
}

static void hand_on(struct file_image *image, struct file_image *ret)
{
    *ret = *image;
    *image = (struct file_image){0};
}

static enum status error_changed(struct error *error)
{
    return error_set(error, STATUS_STALE, NULL, "the file changed while it was read");
}

static enum status read_once(const struct volume *volume, int fd, size_t size_max,
                             struct file_image *ret, struct error *error)
{
    AUTO_IMAGE struct file_image image = {0};
    enum status status = look_at(volume, fd, size_max, &image.stamp, error);

    if (status == STATUS_OK)
        status = read_to_end(volume, fd, (size_t) image.stamp.size, size_max, &image.bytes,
                             &image.size, error);
    if (status != STATUS_OK)
        return status;
    if (image.size != image.stamp.size)
        return error_changed(error);
    hand_on(&image, ret);
    return STATUS_OK;
}

enum status volume_read_fd(const struct volume *volume, int fd, size_t size_max,
                           struct file_image *ret, struct error *error)
{
    AUTO_IMAGE struct file_image image = {0};
    struct file_stamp after;
    enum status status = read_once(volume, fd, size_max, &image, error);

    if (status == STATUS_OK)
        status = look_at(volume, fd, size_max, &after, error);
    if (status != STATUS_OK)
        return status;
    if (!file_stamp_equal(&image.stamp, &after))
        return error_changed(error);
    hand_on(&image, ret);
    return STATUS_OK;
}

static enum status open_and_read(const struct volume *volume, int dir_fd, const char *path,
                                 size_t size_max,
                                 enum status (*read_open)(const struct volume *volume, int fd,
                                                          size_t size_max, struct file_image *ret,
                                                          struct error *error),
                                 struct file_image *ret, struct error *error)
{
    AUTO_CLOSE int fd = -1;
    enum status status = volume_open_file(volume, dir_fd, path, &fd, error);

    if (status != STATUS_OK)
        return status;
    return volume_error_at(error, read_open(volume, fd, size_max, ret, error), path);
}

enum status volume_read_file(const struct volume *volume, int dir_fd, const char *path,
                             size_t size_max, struct file_image *ret, struct error *error)
{
    return open_and_read(volume, dir_fd, path, size_max, volume_read_fd, ret, error);
}

enum status volume_read_file_once(const struct volume *volume, int dir_fd, const char *path,
                                  size_t size_max, struct file_image *ret, struct error *error)
{
    return open_and_read(volume, dir_fd, path, size_max, read_once, ret, error);
}

void file_image_destroy(struct file_image *image)
{
    free(image->bytes);
    *image = (struct file_image){0};
}
