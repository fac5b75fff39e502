#include "core/legacy_files.h"

#include "core/array.h"
#include "core/text.h"

#include <stdio.h>
#include <string.h>

struct known_directory {
    char *path;
    struct listing listing;
};

struct legacy_files {
    const struct volume *volume;
    struct known_directory **known; /* each on its own, so that it stays where it is */
    size_t count;
    size_t capacity;
};

enum status legacy_files_create(const struct volume *volume, struct legacy_files **ret)
{
    struct legacy_files *files = calloc(1, sizeof *files);

    if (!files)
        return STATUS_NO_MEMORY;
    files->volume = volume;
    *ret = files;
    return STATUS_OK;
}

void legacy_files_destroy(struct legacy_files **files)
{
    if (!*files)
        return;
    for (size_t i = 0; i < (*files)->count; i++) {
        listing_destroy(&(*files)->known[i]->listing);
        free((*files)->known[i]->path);
        free((*files)->known[i]);
    }
    free((*files)->known);
    free(*files);
    *files = NULL;
}

/* What a listing has shown and is not there now has changed under us. */
static enum status gone_is_stale(enum status status, struct error *error)
{
    if (status != STATUS_NOT_FOUND)
        return status;
    if (error)
        error->status = STATUS_STALE;
    return STATUS_STALE;
}

/* A fault of a listing names no path. */
static enum status with_path(enum status status, const char *path, struct error *error)
{
    if (error && !error->path[0])
        (void) snprintf(error->path, sizeof error->path, "%s", path);
    return status;
}

static struct known_directory *remember(struct legacy_files *files, const char *path,
                                        struct listing *listing)
{
    struct known_directory *directory = calloc(1, sizeof *directory);

    if (!directory || !array_make_room(&files->known, files->count, &files->capacity,
                                       sizeof(struct known_directory *)))
        goto failed;
    directory->path = strdup(path);
    if (!directory->path)
        goto failed;
    directory->listing = *listing;
    *listing = (struct listing){0};
    files->known[files->count++] = directory;
    return directory;

failed:
    free(directory);
    return NULL;
}

enum status legacy_files_list(struct legacy_files *files, const char *path,
                              const struct listing **ret, struct error *error)
{
    AUTO_LISTING struct listing listing = {0};

    for (size_t i = files->count; i > 0; i--) { /* the latest is the likeliest */
        if (strcmp(files->known[i - 1]->path, path) == 0) {
            *ret = &files->known[i - 1]->listing;
            return STATUS_OK;
        }
    }
    enum status status =
        gone_is_stale(volume_list(files->volume, -1, path, &listing, error), error);
    if (status)
        return with_path(status, path, error);
    const struct known_directory *directory = remember(files, path, &listing);
    if (!directory)
        return STATUS_NO_MEMORY;
    *ret = &directory->listing;
    return STATUS_OK;
}

/* The path of a name in a directory; the volume's root is ".". */
static void append_name(struct text *text, const char *name, size_t length)
{
    if (strcmp(text_string(text), ".") == 0)
        text_clear(text);
    else
        text_append_char(text, '/');
    text_append(text, name, length);
}

enum status legacy_files_find(struct legacy_files *files, const char *directory, const char *path,
                              const struct listing_entry **ret, struct error *error)
{
    AUTO_TEXT struct text at = {0};
    const struct listing_entry *entry = NULL;

    text_append_string(&at, directory);
    while (true) {
        const struct listing *listing = NULL;
        size_t length = strcspn(path, "/");
        AUTO_FREE char *name = strndup(path, length);

        if (!name || !text_ok(&at))
            return STATUS_NO_MEMORY;
        enum status status = legacy_files_list(files, text_string(&at), &listing, error);
        if (status)
            return status;
        entry = listing_find(listing, name);
        if (!entry || path[length] == '\0')
            break;
        if (!entry->is_dir) {
            entry = NULL;
            break;
        }
        append_name(&at, name, length);
        path += length + 1;
    }
    *ret = entry;
    return STATUS_OK;
}

enum status legacy_files_read(struct legacy_files *files, const char *path, size_t size_max,
                              struct file_image *ret, struct error *error)
{
    return gone_is_stale(volume_read_file(files->volume, -1, path, size_max, ret, error), error);
}
