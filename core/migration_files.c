#include "core/migration_files.h"

#include "core/fact.h"
#include "core/manifest.h"
#include "core/text.h"
#include "core/volume_private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define DEPTH_MAX 10    /* directories below agents/lead-agent: one more than are read */
#define READ_ATTEMPTS 3 /* of a file that changes meanwhile */

enum status migration_stop(struct error *error, const char *path, const char *cause)
{
    (void) error_set(error, STATUS_CONFLICT, path,
                     "the memory of an earlier layout cannot be taken over: %s", cause);
    error_add_member(error, "reason", "\"migration\"");
    return STATUS_CONFLICT;
}

/* STATUS_NOT_FOUND when it is gone. */
static enum status read_file(const struct volume *volume, int dir_fd, const char *name,
                             size_t size_max, struct file_image *ret, struct error *error)
{
    enum status status = STATUS_STALE;

    for (unsigned i = 0; status == STATUS_STALE && i < READ_ATTEMPTS; i++)
        status = volume_read_file(volume, dir_fd, name, size_max, ret, error);
    return status;
}

/* ---- copies ---- */

struct copy_name {
    char name[NAME_MAX + sizeof MIGRATION_COPY_SUFFIX];
    char path[SCOPE_PATH_MAX + sizeof MIGRATION_COPY_SUFFIX];
};

static struct copy_name copy_of(const struct migration_source *source)
{
    struct copy_name copy;

    (void) snprintf(copy.name, sizeof copy.name, "%s" MIGRATION_COPY_SUFFIX, source->name);
    (void) snprintf(copy.path, sizeof copy.path, "%s" MIGRATION_COPY_SUFFIX, source->path);
    return copy;
}

static enum status compare_copy(const struct volume *volume, const struct migration_source *source,
                                const struct copy_name *copy, struct error *error)
{
    AUTO_IMAGE struct file_image image = {0};

    enum status status =
        read_file(volume, source->dir_fd, copy->name, MANIFEST_BYTES_MAX, &image, error);
    if (status != STATUS_OK && status != STATUS_TOO_LARGE)
        return volume_error_at(error, status, copy->path);
    if (status == STATUS_OK && image.size == source->size &&
        memcmp(image.bytes, source->bytes, image.size) == 0)
        return STATUS_OK;
    return migration_stop(error, copy->path, "a copy of other bytes is there already");
}

/* `ret_there`: it is, and has the same bytes. */
static enum status look_for_copy(const struct volume *volume, const struct migration_source *source,
                                 const struct copy_name *copy, bool *ret_there, struct error *error)
{
    AUTO_LISTING struct listing listing = {0};

    enum status status = volume_list_fd(volume, source->dir_fd, &listing, error);
    if (status != STATUS_OK)
        return volume_error_at(error, status, copy->path);
    const struct listing_entry *entry = listing_find(&listing, copy->name);
    *ret_there = entry != NULL;
    if (!entry)
        return STATUS_OK;
    if (!entry->is_file)
        return migration_stop(error, copy->path, "what is no file has the name of its copy");
    return compare_copy(volume, source, copy, error);
}

enum status migration_check_copy(const struct volume *volume, const struct migration_source *source,
                                 struct error *error)
{
    const struct copy_name copy = copy_of(source);
    bool there = false;

    return look_for_copy(volume, source, &copy, &there, error);
}

/* Whoever made it may have died before it was on the disk. */
static enum status make_durable(const struct volume *volume, int dir_fd, const char *name,
                                struct error *error)
{
    AUTO_CLOSE int fd = -1;

    enum status status = volume_open_file(volume, dir_fd, name, &fd, error);
    if (status == STATUS_OK && volume_do_sync(volume, fd) < 0)
        status = error_set_errno(error, errno, NULL, "cannot sync");
    return status == STATUS_OK ? volume_sync_dir(volume, dir_fd, error) : status;
}

/* What is left of making it, now or by somebody who died. */
static enum status sweep(const struct volume *volume, int dir_fd, const char *name,
                         struct error *error)
{
    AUTO_LISTING struct listing listing = {0};
    enum status status = volume_list_fd(volume, dir_fd, &listing, error);

    for (size_t i = 0; status == STATUS_OK && i < listing.count; i++) {
        if (volume_name_is_temporary_of(listing.entries[i].name, name))
            (void) volume_do_unlink(volume, dir_fd, listing.entries[i].name, 0);
    }
    return status;
}

enum status migration_keep_copy(const struct volume *volume, const struct migration_source *source,
                                struct error *error)
{
    const struct copy_name copy = copy_of(source);
    bool there = false;

    enum status status = look_for_copy(volume, source, &copy, &there, error);
    if (status != STATUS_OK)
        return status;
    if (!there) {
        status =
            volume_place_new(volume, source->dir_fd, copy.name, source->bytes, source->size, error);
        if (status == STATUS_CONFLICT) /* made by somebody else since the listing */
            status = compare_copy(volume, source, &copy, error);
        else if (status != STATUS_OK)
            return volume_error_at(error, status, copy.path);
    }
    if (status != STATUS_OK)
        return status;
    status = make_durable(volume, source->dir_fd, copy.name, error);
    if (status == STATUS_OK)
        status = sweep(volume, source->dir_fd, copy.name, error);
    return volume_error_at(error, status, copy.path);
}

/* ---- removal ---- */

enum status migration_remove_source(const struct volume *volume,
                                    const struct migration_source *source, struct error *error)
{
    AUTO_IMAGE struct file_image image = {0};

    enum status status =
        read_file(volume, source->dir_fd, source->name, MANIFEST_BYTES_MAX, &image, error);
    if (status == STATUS_NOT_FOUND)
        return STATUS_OK;
    if (status == STATUS_OK &&
        (image.size != source->size || memcmp(image.bytes, source->bytes, image.size) != 0))
        return migration_stop(error, source->path, "it was changed while it was migrated");
    if (status == STATUS_OK)
        status = volume_remove_file(volume, source->dir_fd, source->name, error);
    return volume_error_at(error, status, source->path);
}

static enum status remove_tree(const struct volume *volume, int dir_fd, const char *path,
                               const json_t *files, unsigned depth, struct error *error);

/* A fact that was taken over. */
static enum status remove_known(const struct volume *volume, int dir_fd, const char *name,
                                const char *path, const json_t *files, struct error *error)
{
    AUTO_IMAGE struct file_image image = {0};
    const json_t *digest = json_object_get(files, path);

    if (!digest)
        return STATUS_OK;
    enum status status = read_file(volume, dir_fd, name, FACT_FILE_BYTES_MAX, &image, error);
    if (status == STATUS_NOT_FOUND)
        return STATUS_OK;
    if (status == STATUS_OK &&
        (uint64_t) json_integer_value(digest) != signature_digest(image.bytes, image.size))
        return migration_stop(error, path, "it was changed while it was migrated");
    if (status == STATUS_OK && volume_do_unlink(volume, dir_fd, name, 0) < 0 && errno != ENOENT)
        status = error_set_errno(error, errno, path, "cannot remove the file");
    return volume_error_at(error, status, path);
}

/* What is not empty stays. */
static enum status remove_directory(const struct volume *volume, int dir_fd, const char *name,
                                    const char *path, const json_t *files, unsigned depth,
                                    struct error *error)
{
    AUTO_CLOSE int fd = -1;

    enum status status = volume_open_dir(volume, dir_fd, name, &fd, error);
    if (status == STATUS_NOT_FOUND)
        return STATUS_OK;
    if (status == STATUS_OK)
        status = remove_tree(volume, fd, path, files, depth, error);
    if (status == STATUS_OK && volume_do_unlink(volume, dir_fd, name, AT_REMOVEDIR) < 0 &&
        errno != ENOENT && errno != ENOTEMPTY && errno != EEXIST)
        status = error_set_errno(error, errno, path, "cannot remove the directory");
    return status;
}

static enum status remove_entry(const struct volume *volume, int dir_fd, const char *directory,
                                const struct listing_entry *entry, const json_t *files,
                                unsigned depth, struct error *error)
{
    AUTO_TEXT struct text path = {0};

    text_append_format(&path, "%s/%s", directory, entry->name);
    if (!text_ok(&path))
        return error_set(error, STATUS_NO_MEMORY, NULL, "no memory for a migration");
    if (entry->is_dir && depth < DEPTH_MAX)
        return remove_directory(volume, dir_fd, entry->name, path.bytes, files, depth + 1, error);
    return entry->is_file ? remove_known(volume, dir_fd, entry->name, path.bytes, files, error)
                          : STATUS_OK;
}

/* Everything in an open directory, which is synced once. */
static enum status remove_tree(const struct volume *volume, int dir_fd, const char *path,
                               const json_t *files, unsigned depth, struct error *error)
{
    AUTO_LISTING struct listing listing = {0};
    enum status status = volume_list_fd(volume, dir_fd, &listing, error);

    if (status != STATUS_OK)
        return volume_error_at(error, status, path);
    for (size_t i = 0; status == STATUS_OK && i < listing.count; i++)
        status = remove_entry(volume, dir_fd, path, &listing.entries[i], files, depth, error);
    if (status == STATUS_OK)
        status = volume_error_at(error, volume_sync_dir(volume, dir_fd, error), path);
    return status;
}

enum status migration_remove_lead(const struct volume *volume, int bucket_fd,
                                  const struct scope *scope, const json_t *files,
                                  struct error *error)
{
    AUTO_CLOSE int agents_fd = -1;
    char path[SCOPE_PATH_MAX];

    scope_file_path(scope, "agents/" SCOPE_LEGACY_AGENT, path);
    enum status status = volume_open_dir(volume, bucket_fd, "agents", &agents_fd, error);
    if (status != STATUS_OK)
        return volume_error_at(error, status, path);
    status = remove_directory(volume, agents_fd, SCOPE_LEGACY_AGENT, path, files, 0, error);
    return status == STATUS_OK
               ? volume_error_at(error, volume_sync_dir(volume, agents_fd, error), path)
               : status;
}
