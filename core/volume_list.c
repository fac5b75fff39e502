/* Listings, read to their end or not at all. */
#include "core/volume_private.h"

#include "core/array.h"
#include "core/text.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#define LIST_BUFFER_BYTES 32768
#define LIST_ENTRIES_MAX (8u << 20)

/* A listing while it is read. The entries get their names when all of them are there, since the
 * bytes move as they grow. */
struct reading {
    const struct volume *volume;
    int fd;
    struct text names;
    struct listing_entry *entries;
    size_t count;
    size_t capacity;
};

static void reading_destroy(struct reading *reading)
{
    text_destroy(&reading->names);
    free(reading->entries);
}

static enum status add_entry(struct reading *reading, const struct listing_entry *entry)
{
    if (reading->count == LIST_ENTRIES_MAX)
        return STATUS_TOO_LARGE;
    if (!array_make_room(&reading->entries, reading->count, &reading->capacity,
                         sizeof *reading->entries))
        return STATUS_NO_MEMORY;
    text_append(&reading->names, entry->name, strlen(entry->name) + 1);
    if (!text_ok(&reading->names))
        return STATUS_NO_MEMORY;
    reading->entries[reading->count] = *entry;
    reading->entries[reading->count++].name = NULL;
    return STATUS_OK;
}

/* A name that went away before it could be looked at makes the listing stale: leaving it out would
 * tell more than we know. */
static enum status find_type(struct reading *reading, struct listing_entry *entry)
{
    struct statx status;

    if (volume_do_stat(reading->volume, reading->fd, entry->name, &status) < 0)
        return errno == ENOENT ? STATUS_STALE : status_from_errno(errno);
    entry->is_dir = S_ISDIR(status.stx_mode);
    entry->is_file = S_ISREG(status.stx_mode);
    return STATUS_OK;
}

static enum status take_record(struct reading *reading, const struct dirent64 *record)
{
    struct listing_entry entry = {
        .name = record->d_name,
        .inode = record->d_ino,
        .is_dir = record->d_type == DT_DIR,
        .is_file = record->d_type == DT_REG,
    };

    if (strcmp(entry.name, ".") == 0 || strcmp(entry.name, "..") == 0)
        return STATUS_OK;
    if (record->d_type == DT_UNKNOWN) {
        enum status status = find_type(reading, &entry);
        if (status != STATUS_OK)
            return status;
    }
    return add_entry(reading, &entry);
}

static enum status read_entries(struct reading *reading, struct error *error)
{
    _Alignas(struct dirent64) char buffer[LIST_BUFFER_BYTES];

    for (;;) {
        ssize_t got = volume_do_list(reading->volume, reading->fd, buffer, sizeof buffer);
        if (got < 0 && errno == ENOENT) /* the directory was removed while we held it */
            return error_set(error, STATUS_STALE, NULL, "the directory went away");
        if (got < 0)
            return error_set_errno(error, errno, NULL, "cannot list the directory");
        if (got == 0)
            return STATUS_OK;
        for (size_t at = 0; at < (size_t) got;) {
            const struct dirent64 *record = (const void *) (buffer + at);
            enum status status = take_record(reading, record);
            if (status != STATUS_OK)
                return error_set(error, status, NULL, "cannot list the directory: %s",
                                 status_name(status));
            at += record->d_reclen;
        }
    }
}

static int compare_names(const void *a, const void *b)
{
    const struct listing_entry *left = a;
    const struct listing_entry *right = b;

    return strcmp(left->name, right->name);
}

/* Gives the entries their names and sorts them; a name that a server told twice stays once. */
static void finish(struct reading *reading, struct listing *ret)
{
    const char *name = text_string(&reading->names);
    size_t kept = 0;

    for (size_t i = 0; i < reading->count; i++) {
        reading->entries[i].name = name;
        name += strlen(name) + 1;
    }
    if (reading->count > 0)
        qsort(reading->entries, reading->count, sizeof *reading->entries, compare_names);
    for (size_t i = 0; i < reading->count; i++) {
        if (kept == 0 || strcmp(reading->entries[kept - 1].name, reading->entries[i].name) != 0)
            reading->entries[kept++] = reading->entries[i];
    }
    ret->entries = TAKE_PTR(reading->entries);
    ret->count = kept;
    ret->names = TAKE_PTR(reading->names.bytes);
}

enum status volume_list_fd(const struct volume *volume, int dir_fd, struct listing *ret,
                           struct error *error)
{
    CLEANUP(reading_destroy) struct reading reading = {.volume = volume, .fd = dir_fd};
    struct listing listing = {0};

    enum status status = volume_stamp_fd(volume, dir_fd, &listing.stamp);
    if (status != STATUS_OK)
        return error_set(error, status, NULL, "cannot read the directory's attributes: %s",
                         status_name(status));
    if (lseek(dir_fd, 0, SEEK_SET) < 0)
        return error_set_errno(error, errno, NULL, "cannot list the directory");
    status = read_entries(&reading, error);
    if (status != STATUS_OK)
        return status;
    finish(&reading, &listing);
    *ret = listing;
    return STATUS_OK;
}

enum status volume_list(const struct volume *volume, int dir_fd, const char *path,
                        struct listing *ret, struct error *error)
{
    AUTO_CLOSE int fd = -1;
    enum status status = volume_open_dir(volume, dir_fd, path, &fd, error);

    if (status != STATUS_OK)
        return status;
    return volume_error_at(error, volume_list_fd(volume, fd, ret, error), path);
}

const struct listing_entry *listing_find(const struct listing *listing, const char *name)
{
    struct listing_entry wanted = {.name = name};

    if (listing->count == 0)
        return NULL;
    return bsearch(&wanted, listing->entries, listing->count, sizeof wanted, compare_names);
}

void listing_destroy(struct listing *listing)
{
    free(listing->entries);
    free(listing->names);
    *listing = (struct listing){0};
}
