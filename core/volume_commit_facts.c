#include "core/volume_commit_facts.h"

#include "core/fact.h"
#include "core/pause_point.h"
#include "core/volume_private.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define NEW_NAME_SIZE 32

const char *commit_split_path(const char *path, char *directory)
{
    const char *slash = strrchr(path, '/');
    size_t length = slash ? (size_t) (slash - path) : 0;

    memcpy(directory, path, length);
    directory[length] = '\0';
    return slash ? slash + 1 : path;
}

static const struct commit_fact *fact_at(const struct commit_facts *facts, size_t i)
{
    return &facts->request->facts[facts->order[i]];
}

/* The directory of the fact at `first`, and where in the order another one begins. */
static size_t find_directory(const struct commit_facts *facts, size_t first, char *ret_directory)
{
    char other[SCOPE_PATH_MAX];
    size_t end = first + 1;

    (void) commit_split_path(fact_at(facts, first)->path, ret_directory);
    for (; end < facts->request->fact_count; end++) {
        (void) commit_split_path(fact_at(facts, end)->path, other);
        if (strcmp(ret_directory, other) != 0)
            break;
    }
    return end;
}

static void name_new_file(size_t i, char ret[NEW_NAME_SIZE])
{
    (void) snprintf(ret, NEW_NAME_SIZE, VOLUME_NEW_PREFIX "%zu", i);
}

/* ---- writing ---- */

static enum status back_up_fact(const struct commit_facts *facts, size_t i, int dir_fd,
                                struct sync_batch *batch, struct error *error)
{
    const struct commit_fact *fact = fact_at(facts, i);
    char directory[SCOPE_PATH_MAX];
    char backup[NAME_MAX + 1];

    const char *name = commit_split_path(fact->path, directory);
    (void) snprintf(backup, sizeof backup, "%s.md", fact->id);
    return volume_back_up(facts->request->volume, dir_fd, name, FACT_FILE_BYTES_MAX, facts->own_fd,
                          backup, batch, &facts->old[facts->order[i]], error);
}

static enum status write_new_fact(const struct commit_facts *facts, size_t i, int dir_fd,
                                  struct sync_batch *batch, struct error *error)
{
    const struct volume *volume = facts->request->volume;
    const struct commit_fact *fact = fact_at(facts, i);
    char directory[SCOPE_PATH_MAX];
    char new_name[NEW_NAME_SIZE];
    struct statx old;
    int fd = -1;

    const char *name = commit_split_path(fact->path, directory);
    bool exists =
        fact->existed && volume_do_stat(volume, dir_fd, name, &old) == 0 && S_ISREG(old.stx_mode);
    name_new_file(i, new_name);
    enum status status = volume_begin_new(volume, facts->own_fd, new_name, exists ? &old : NULL,
                                          dir_fd, fact->bytes, fact->size, &fd, error);
    if (status == STATUS_OK)
        status = sync_batch_add(batch, fd, fact->path, error);
    return status;
}

static enum status write_fact(const struct commit_facts *facts, size_t i, int dir_fd,
                              struct sync_batch *batch, struct error *error)
{
    const struct commit_fact *fact = fact_at(facts, i);
    enum status status = STATUS_OK;

    if (fact->existed)
        status = back_up_fact(facts, i, dir_fd, batch, error);
    if (status == STATUS_OK && fact->bytes)
        status = write_new_fact(facts, i, dir_fd, batch, error);
    return volume_error_at(error, status, fact->path);
}

#define NO_RIGHT "no right to change the facts there"

static enum status write_directory(const struct commit_facts *facts, size_t first, size_t end,
                                   const char *directory, struct sync_batch *batch,
                                   struct error *error)
{
    const struct commit_request *request = facts->request;
    AUTO_CLOSE int fd = -1;

    enum status status = volume_walk_making(request->volume, request->bucket_fd, directory,
                                            fact_at(facts, first)->path, batch, &fd, error);
    if (status == STATUS_OK)
        status = volume_check_right(request->volume, fd, directory, NO_RIGHT, error);
    else if (status == STATUS_DENIED)
        status = error_set_errno(error, EACCES, directory, NO_RIGHT);
    if (status != STATUS_OK)
        return volume_error_at(error, status, directory);
    for (size_t i = first; status == STATUS_OK && i < end; i++)
        status = write_fact(facts, i, fd, batch, error);
    return status;
}

enum status commit_facts_write(const struct commit_facts *facts, struct sync_batch *batch,
                               struct error *error)
{
    char directory[SCOPE_PATH_MAX];
    enum status status = STATUS_OK;

    for (size_t first = 0, end; status == STATUS_OK && first < facts->request->fact_count;
         first = end) {
        end = find_directory(facts, first, directory);
        status = write_directory(facts, first, end, directory, batch, error);
    }
    return status;
}

/* ---- applying ---- */

static enum status apply_fact(const struct commit_facts *facts, size_t i, int dir_fd,
                              struct error *error)
{
    const struct volume *volume = facts->request->volume;
    const struct commit_fact *fact = fact_at(facts, i);
    char directory[SCOPE_PATH_MAX];
    char new_name[NEW_NAME_SIZE];
    enum status status = STATUS_OK;

    const char *name = commit_split_path(fact->path, directory);
    if (fact->bytes) {
        name_new_file(i, new_name);
        status = volume_replacement_apply(volume, facts->own_fd, new_name, dir_fd, name, error);
    } else if (volume_do_unlink(volume, dir_fd, name, 0) < 0 && errno != ENOENT) {
        status = error_set_errno(error, errno, name, "cannot remove the fact");
    }
    return volume_error_at(error, status, fact->path);
}

static enum status apply_directory(const struct commit_facts *facts, size_t first, size_t end,
                                   const char *directory, struct sync_batch *batch, size_t *written,
                                   struct error *error)
{
    const struct commit_request *request = facts->request;
    AUTO_CLOSE int fd = -1;

    enum status status =
        volume_walk(request->volume, request->bucket_fd, directory, false, &fd, error);
    if (status != STATUS_OK)
        return volume_error_at(error, status, directory);
    for (size_t i = first; i < end; i++) {
        *written = i + 1; /* before: the rename may have happened in spite of an error */
        status = apply_fact(facts, i, fd, error);
        if (status != STATUS_OK)
            return status;
        pause_here(PAUSE_COMMIT_AFTER_FACT);
    }
    return sync_batch_add_dir(batch, fd, fact_at(facts, first)->path, error);
}

enum status commit_facts_apply(const struct commit_facts *facts, size_t *written,
                               struct error *error)
{
    AUTO_SYNC_BATCH struct sync_batch batch = {.volume = facts->request->volume};
    char directory[SCOPE_PATH_MAX];
    enum status status = STATUS_OK;

    *written = 0;
    for (size_t first = 0, end; status == STATUS_OK && first < facts->request->fact_count;
         first = end) {
        end = find_directory(facts, first, directory);
        status = apply_directory(facts, first, end, directory, &batch, written, error);
    }
    if (status == STATUS_OK)
        status = sync_batch_flush(&batch, error);
    return status;
}
