/* Our own directory on a volume: the marker that tells volumes apart, and a probe of its clock. */
#include "core/volume_private.h"

#include "core/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define MARKER_BYTES_MAX 256
#define PROBE_FILE "entry"
#define PROBE_OTHER "other"
#define PROBE_WAIT_MS 2200 /* longer than the coarsest tick, 2 s */
#define PROBE_STEP_MS 5

/* Opens .memsyncd, creating it. */
static enum status open_own_dir(const struct volume *volume, int root_fd, int *ret,
                                struct error *error)
{
    enum status status = volume_make_dir(volume, root_fd, VOLUME_OWN_DIR, error);

    if (status != STATUS_OK)
        return status;
    return volume_open_dir(volume, root_fd, VOLUME_OWN_DIR, ret, error);
}

/* Whether a listing shows the marker's file. */
static enum status marker_is_listed(const struct volume *volume, int root_fd, bool *ret,
                                    struct error *error)
{
    AUTO_LISTING struct listing top = {0};
    AUTO_LISTING struct listing own = {0};

    enum status status = volume_list_fd(volume, root_fd, &top, error);
    if (status != STATUS_OK)
        return status;
    const struct listing_entry *entry = listing_find(&top, VOLUME_OWN_DIR);
    if (!entry || !entry->is_dir) {
        *ret = false;
        return STATUS_OK;
    }
    status = volume_list(volume, root_fd, VOLUME_OWN_DIR, &own, error);
    if (status == STATUS_OK)
        *ret = listing_find(&own, VOLUME_MARKER_NAME) != NULL;
    return status;
}

enum status volume_marker_read(const struct volume *volume, int root_fd, bool known,
                               char ret[VOLUME_MARKER_LENGTH + 1], struct error *error)
{
    AUTO_IMAGE struct file_image image = {0};
    bool listed = known;
    enum status status = STATUS_OK;

    ret[0] = '\0';
    if (!known)
        status = marker_is_listed(volume, root_fd, &listed, error);
    if (status == STATUS_OK && !listed)
        return STATUS_OK;
    if (status == STATUS_OK)
        status = volume_read_file(volume, root_fd, VOLUME_OWN_DIR "/" VOLUME_MARKER_NAME,
                                  MARKER_BYTES_MAX, &image, error);
    if (known && status == STATUS_NOT_FOUND)
        return STATUS_OK;
    /* Ours to create, but not ours to read: as good as none. */
    if (status == STATUS_DENIED || status == STATUS_CORRUPT || status == STATUS_TOO_LARGE)
        return STATUS_OK;
    if (status != STATUS_OK)
        return status;

    size_t digits = strspn(image.bytes, "0123456789abcdef");
    const char *rest = image.bytes + digits;
    if (digits == VOLUME_MARKER_LENGTH && rest[strspn(rest, "\n")] == '\0') {
        memcpy(ret, image.bytes, digits);
        ret[digits] = '\0';
    }
    return STATUS_OK;
}

/* Puts a finished file under its name unless something is there. */
static int name_exclusively(int dir_fd, const char *from, const char *to)
{
    if (linkat(dir_fd, from, dir_fd, to, 0) == 0 || errno == EEXIST)
        return 0;
    if (renameat2(dir_fd, from, dir_fd, to, RENAME_NOREPLACE) == 0 || errno == EEXIST)
        return 0;
    return -1;
}

enum status volume_marker_create(const struct volume *volume, int root_fd, struct error *error)
{
    AUTO_CLOSE int fd = -1;
    char digits[VOLUME_HEX_SIZE];
    char text[VOLUME_HEX_SIZE + 1];
    char temporary[NAME_MAX + 1];

    enum status status = open_own_dir(volume, root_fd, &fd, error);
    if (status != STATUS_OK)
        return status;
    status = volume_random_hex(digits);
    if (status != STATUS_OK)
        return error_set(error, status, VOLUME_OWN_DIR, "no random numbers");
    (void) snprintf(text, sizeof text, "%s\n", digits);
    (void) snprintf(temporary, sizeof temporary, ".%s.%s.tmp", VOLUME_MARKER_NAME, digits);

    status = volume_write_new(volume, fd, temporary, NULL, text, strlen(text), error);
    if (status != STATUS_OK)
        return status;
    if (name_exclusively(fd, temporary, VOLUME_MARKER_NAME) < 0)
        status = error_set_errno(error, errno, VOLUME_OWN_DIR "/" VOLUME_MARKER_NAME,
                                 "cannot name the marker");
    (void) volume_do_unlink(volume, fd, temporary, 0);
    if (status == STATUS_OK && volume_do_sync(volume, fd) < 0)
        status = error_set_errno(error, errno, VOLUME_OWN_DIR, "cannot sync the directory");
    return status;
}

/* ---- the probe ---- */

enum probe_step { PROBE_CREATE, PROBE_RENAME_OVER, PROBE_UNLINK, PROBE_STEP_COUNT };

static bool make_empty(const struct volume *volume, int fd, const char *name)
{
    int file = volume_do_open(volume, fd, name, O_WRONLY | O_CREAT, 0600);

    return file >= 0 && volume_do_close(volume, file) == 0;
}

static bool remove_if_there(const struct volume *volume, int fd, const char *name)
{
    return volume_do_unlink(volume, fd, name, 0) == 0 || errno == ENOENT;
}

/* Everything that the step needs beforehand, so that the step itself is one change. */
static bool prepare_step(const struct volume *volume, int fd, enum probe_step step)
{
    switch (step) {
    case PROBE_CREATE:
        return remove_if_there(volume, fd, PROBE_FILE);
    case PROBE_RENAME_OVER:
        return make_empty(volume, fd, PROBE_FILE) && make_empty(volume, fd, PROBE_OTHER);
    case PROBE_UNLINK:
        return make_empty(volume, fd, PROBE_FILE);
    case PROBE_STEP_COUNT:
        break;
    }
    return false;
}

static bool do_step(const struct volume *volume, int fd, enum probe_step step)
{
    switch (step) {
    case PROBE_CREATE:
        return make_empty(volume, fd, PROBE_FILE);
    case PROBE_RENAME_OVER:
        return volume_do_rename(volume, fd, PROBE_OTHER, fd, PROBE_FILE) == 0;
    case PROBE_UNLINK:
        return volume_do_unlink(volume, fd, PROBE_FILE, 0) == 0;
    case PROBE_STEP_COUNT:
        break;
    }
    return false;
}

static void wait_a_little(void)
{
    struct timespec pause = {.tv_nsec = (long) (PROBE_STEP_MS * NS_PER_MS)};

    while (nanosleep(&pause, &pause) < 0 && errno == EINTR)
        continue;
}

/* Tries a step until the directory's times move, at most for a coarse tick. */
static bool step_moves_times(const struct volume *volume, int fd, enum probe_step step)
{
    uint64_t deadline_ns = clock_deadline_ms(PROBE_WAIT_MS);

    for (;;) {
        struct file_stamp before;
        struct file_stamp after;

        if (!prepare_step(volume, fd, step) || volume_stamp_fd(volume, fd, &before) != STATUS_OK ||
            !do_step(volume, fd, step) || volume_stamp_fd(volume, fd, &after) != STATUS_OK)
            return false;
        if (before.mtime_ns != after.mtime_ns || before.ctime_ns != after.ctime_ns)
            return true;
        if (clock_remaining_ms(deadline_ns) == 0)
            return false;
        wait_a_little();
    }
}

bool volume_probe_directory_times(const struct volume *volume, int root_fd)
{
    AUTO_CLOSE int own_fd = -1;
    AUTO_CLOSE int fd = -1;
    char digits[VOLUME_HEX_SIZE];
    char name[NAME_MAX + 1];
    bool moves = true;
    bool left = false;

    if (open_own_dir(volume, root_fd, &own_fd, NULL) != STATUS_OK ||
        volume_random_hex(digits) != STATUS_OK)
        return false;
    (void) snprintf(name, sizeof name, "probe-%s", digits);
    if (volume_make_dir(volume, own_fd, name, NULL) != STATUS_OK ||
        volume_open_dir(volume, own_fd, name, &fd, NULL) != STATUS_OK)
        return false;
    for (int step = 0; moves && step < PROBE_STEP_COUNT; step++)
        moves = step_moves_times(volume, fd, (enum probe_step) step);
    if (volume_remove_dir(volume, own_fd, name, &left, NULL) != STATUS_OK)
        return moves;
    return moves;
}
