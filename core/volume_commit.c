#include "core/volume_commit.h"

#include "core/fact.h"
#include "core/log.h"
#include "core/manifest.h"
#include "core/mutant.h"
#include "core/pause_point.h"
#include "core/volume_journal.h"
#include "core/volume_private.h"
#include "core/volume_rollback.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MANIFEST_BACKUP "memory.json" /* whatever the manifest is called */

/* One commit under way. */
struct commit {
    const struct commit_request *request;
    char operation[VOLUME_HEX_SIZE];
    struct journal journal; /* points into the request and the arrays below */
    char **fact_ids;
    struct journal_old_entry *old_entries;
    struct file_image *old_facts; /* by the request's facts; empty for new ones */
    size_t *by_directory;         /* the request's facts in the order of their directories */
    size_t written;               /* of by_directory */
    char temporary[NAME_MAX + 1]; /* the new manifest before its rename; "" else */
    bool may_stand;               /* it was tried to say committed */
    int backups_fd;
};

static enum status no_memory(struct error *error)
{
    return error_set(error, STATUS_NO_MEMORY, NULL, "no memory for a commit");
}

static void tell_overtaken(const struct commit_request *request, struct error *error)
{
    error_add_member(error, "reason", "\"overtaken\"");
    error_add_member(error, "expected", "%" PRId64, request->expected_revision);
}

static enum status overtaken(const struct commit_request *request, struct error *error,
                             const char *path)
{
    (void) error_set(error, STATUS_CONFLICT, path,
                     "somebody else changed the memory during this commit");
    tell_overtaken(request, error);
    return STATUS_CONFLICT;
}

static void commit_destroy(struct commit *commit)
{
    for (size_t i = 0; commit->old_facts && i < commit->request->fact_count; i++)
        file_image_destroy(&commit->old_facts[i]);
    free(commit->old_facts);
    free(commit->fact_ids);
    free(commit->old_entries);
    free(commit->by_directory);
    cleanup_close(&commit->backups_fd);
}
#define AUTO_COMMIT CLEANUP(commit_destroy)

/* ---- what is going to be done ---- */

static int compare_entries(const void *a, const void *b)
{
    const struct journal_old_entry *left = a;
    const struct journal_old_entry *right = b;

    return strcmp(left->fact_id, right->fact_id);
}

static int compare_paths(const void *a, const void *b, void *context)
{
    const struct commit_fact *facts = *(const struct commit_fact *const *) context;

    return strcmp(facts[*(const size_t *) a].path, facts[*(const size_t *) b].path);
}

/* The journal's texts are only read. */
static char *borrow(const char *text)
{
    char *borrowed;

    memcpy(&borrowed, &text, sizeof borrowed);
    return borrowed;
}

static void plan_journal(struct commit *commit)
{
    const struct commit_request *request = commit->request;
    const struct commit_fact *facts = request->facts;
    struct journal *journal = &commit->journal;

    *journal = (struct journal){
        .operation_id = commit->operation,
        .state = JOURNAL_PREPARED,
        .has_agent = request->agent != NULL,
        .expected_revision = request->expected_revision,
        .next_revision = request->next_revision,
        .fact_ids = commit->fact_ids,
        .fact_count = request->fact_count,
        .old_entries = commit->old_entries,
    };
    if (request->agent)
        (void) snprintf(journal->agent, sizeof journal->agent, "%s", request->agent);
    for (size_t i = 0; i < request->fact_count; i++) {
        const struct commit_fact *fact = &request->facts[i];
        commit->by_directory[i] = i;
        commit->fact_ids[i] = borrow(fact->id);
        if (fact->existed)
            commit->old_entries[journal->old_count++] = (struct journal_old_entry){
                .fact_id = commit->fact_ids[i],
                .path = borrow(fact->path),
            };
    }
    qsort(commit->old_entries, journal->old_count, sizeof *commit->old_entries, compare_entries);
    qsort_r(commit->by_directory, request->fact_count, sizeof *commit->by_directory, compare_paths,
            &facts);
}

static enum status plan(struct commit *commit, struct error *error)
{
    size_t room = commit->request->fact_count + 1;

    commit->fact_ids = calloc(room, sizeof *commit->fact_ids);
    commit->old_entries = calloc(room, sizeof *commit->old_entries);
    commit->old_facts = calloc(room, sizeof *commit->old_facts);
    commit->by_directory = calloc(room, sizeof *commit->by_directory);
    if (!commit->fact_ids || !commit->old_entries || !commit->old_facts || !commit->by_directory)
        return no_memory(error);
    if (volume_random_hex(commit->operation) != STATUS_OK)
        return error_set(error, STATUS_IO, NULL, "no random numbers");
    plan_journal(commit);
    return STATUS_OK;
}

/* Splits a path relative to the bucket; `directory` holds SCOPE_PATH_MAX bytes. */
static const char *split_path(const char *path, char *directory)
{
    const char *slash = strrchr(path, '/');
    size_t length = slash ? (size_t) (slash - path) : 0;

    memcpy(directory, path, length);
    directory[length] = '\0';
    return slash ? slash + 1 : path;
}

/* ---- backups ---- */

static enum status read_old_facts(struct commit *commit, struct error *error)
{
    const struct commit_request *request = commit->request;

    for (size_t i = 0; i < request->fact_count; i++) {
        if (!request->facts[i].existed)
            continue;
        enum status status =
            volume_read_file(request->volume, request->bucket_fd, request->facts[i].path,
                             FACT_FILE_BYTES_MAX, &commit->old_facts[i], error);
        if (status == STATUS_NOT_FOUND || status == STATUS_STALE)
            return overtaken(request, error, request->facts[i].path);
        if (status != STATUS_OK)
            return status;
    }
    return STATUS_OK;
}

static enum status write_backups(struct commit *commit, int recovery_fd, struct error *error)
{
    const struct commit_request *request = commit->request;
    const struct volume *volume = request->volume;
    char name[NAME_MAX + 1];

    enum status status = volume_make_dir(volume, recovery_fd, commit->operation, error);
    if (status == STATUS_OK)
        status =
            volume_open_dir(volume, recovery_fd, commit->operation, &commit->backups_fd, error);
    if (status == STATUS_OK && request->base)
        status = volume_write_new(volume, commit->backups_fd, MANIFEST_BACKUP, NULL, request->base,
                                  request->base_size, error);
    for (size_t i = 0; status == STATUS_OK && i < request->fact_count; i++) {
        const struct file_image *old = &commit->old_facts[i];
        if (!request->facts[i].existed)
            continue;
        (void) snprintf(name, sizeof name, "%s.md", request->facts[i].id);
        status =
            volume_write_new(volume, commit->backups_fd, name, NULL, old->bytes, old->size, error);
    }
    if (status == STATUS_OK)
        status = volume_sync_dir(volume, commit->backups_fd, error);
    return status;
}

/* A dead writer may have got as far as its backups, or to a file that was not yet renamed. With the
 * lock held and no journal there, neither belongs to anybody. What cannot be removed stays. */
static void sweep(const struct commit *commit, int recovery_fd)
{
    const struct volume *volume = commit->request->volume;
    AUTO_LISTING struct listing backups = {0};
    bool left = false;

    if (volume_list_fd(volume, recovery_fd, &backups, NULL) == STATUS_OK) {
        for (size_t i = 0; i < backups.count; i++) {
            const struct listing_entry *entry = &backups.entries[i];
            if (entry->is_dir && journal_operation_id_is_valid(entry->name) &&
                volume_remove_dir(volume, recovery_fd, entry->name, &left, NULL) != STATUS_OK)
                break;
        }
    }
    volume_sweep_temporaries(volume, commit->request->bucket_fd);
}

static enum status back_up(struct commit *commit, struct error *error)
{
    const struct commit_request *request = commit->request;
    AUTO_CLOSE int recovery_fd = -1;

    enum status status = read_old_facts(commit, error);
    if (status == STATUS_OK)
        status = volume_walk(request->volume, request->bucket_fd, JOURNAL_RECOVERY_DIR, true,
                             &recovery_fd, error);
    if (status != STATUS_OK)
        return status;
    if (request->locks_reach_all_nodes)
        sweep(commit, recovery_fd);
    status = write_backups(commit, recovery_fd, error);
    if (status == STATUS_OK)
        pause_here(PAUSE_COMMIT_AFTER_BACKUP);
    return volume_error_at(error, status, JOURNAL_RECOVERY_DIR);
}

/* Before anything speaks of this change: one that stops later, for want of a right, can for want of
 * the same right not be taken back, and then nobody writes this user any more. */
static enum status check_rights(const struct commit *commit, struct error *error)
{
    const struct commit_request *request = commit->request;
    char directory[SCOPE_PATH_MAX];
    char last[SCOPE_PATH_MAX] = "";
    enum status status = STATUS_OK;

    for (size_t i = 0; status == STATUS_OK && i < request->fact_count; i++) {
        const struct commit_fact *fact = &request->facts[commit->by_directory[i]];
        AUTO_CLOSE int fd = -1;
        (void) split_path(fact->path, directory);
        if (strcmp(directory, last) == 0)
            continue;
        (void) snprintf(last, sizeof last, "%s", directory);
        status = volume_walk(request->volume, request->bucket_fd, directory, false, &fd, error);
        if (status == STATUS_OK)
            status = volume_check_right(fd, directory, "no right to change the facts there", error);
        else if (status == STATUS_NOT_FOUND)
            status = STATUS_OK; /* one that is made is ours */
        status = volume_error_at(error, status, directory);
    }
    return status;
}

/* ---- is it still ours? ---- */

static enum status read_manifest(const struct commit *commit, struct file_image *ret,
                                 struct error *error)
{
    const struct commit_request *request = commit->request;
    enum status status = STATUS_STALE;

    for (unsigned i = 0; status == STATUS_STALE && i < 3; i++)
        status = volume_read_file(request->volume, request->bucket_fd, request->manifest_name,
                                  MANIFEST_BYTES_MAX, ret, error);
    return status;
}

/* Whether the manifest on the volume has just these bytes (NULL: is not there). */
static enum status check_manifest(const struct commit *commit, const char *bytes, size_t size,
                                  struct file_stamp *ret_stamp, struct error *error)
{
    const struct commit_request *request = commit->request;
    AUTO_IMAGE struct file_image image = {0};

    if (MUTANT(NO_OVERTAKEN_CHECK) && !ret_stamp)
        return STATUS_OK;
    if (!bytes) {
        AUTO_LISTING struct listing listing = {0};
        enum status listed = volume_list_fd(request->volume, request->bucket_fd, &listing, error);
        if (listed != STATUS_OK)
            return listed;
        return listing_find(&listing, request->manifest_name)
                   ? overtaken(request, error, request->manifest_name)
                   : STATUS_OK;
    }
    enum status status = read_manifest(commit, &image, error);
    if (status == STATUS_NOT_FOUND || status == STATUS_STALE ||
        (status == STATUS_OK && (image.size != size || memcmp(image.bytes, bytes, size) != 0)))
        return overtaken(request, error, request->manifest_name);
    if (status == STATUS_OK && ret_stamp)
        *ret_stamp = image.stamp;
    return status;
}

static enum status check_journal(const struct commit *commit, struct error *error)
{
    enum journal_owner owner;
    enum status status = volume_journal_owner(commit->request->volume, commit->request->bucket_fd,
                                              commit->operation, &owner, error);

    if (status == STATUS_OK && owner != JOURNAL_OURS && !MUTANT(NO_OVERTAKEN_CHECK))
        return overtaken(commit->request, error, JOURNAL_NAME);
    return status;
}

static enum status check_base(const struct commit *commit, struct error *error)
{
    return check_manifest(commit, commit->request->base, commit->request->base_size, NULL, error);
}

/* ---- facts ---- */

static enum status change_fact(const struct commit *commit, int dir_fd, const char *name,
                               const struct commit_fact *fact, struct error *error)
{
    const struct volume *volume = commit->request->volume;
    char temporary[NAME_MAX + 1];

    if (!fact->bytes) {
        if (volume_do_unlink(volume, dir_fd, name, 0) < 0 && errno != ENOENT)
            return error_set_errno(error, errno, name, "cannot remove the fact");
        return STATUS_OK;
    }
    enum status status =
        volume_replacement_prepare(volume, dir_fd, name, fact->bytes, fact->size, temporary, error);
    if (status == STATUS_OK)
        status = volume_replacement_apply(volume, dir_fd, temporary, name, error);
    return status;
}

/* The facts of one directory, and then the directory itself, made durable. */
static enum status change_directory(struct commit *commit, size_t first, size_t end,
                                    const char *directory, struct error *error)
{
    const struct commit_request *request = commit->request;
    AUTO_CLOSE int fd = -1;
    char unused[SCOPE_PATH_MAX];

    enum status status =
        volume_walk(request->volume, request->bucket_fd, directory, true, &fd, error);
    if (status != STATUS_OK)
        return volume_error_at(error, status, directory);
    for (size_t i = first; status == STATUS_OK && i < end; i++) {
        const struct commit_fact *fact = &request->facts[commit->by_directory[i]];
        commit->written =
            i + 1; /* counted before: the rename may have happened in spite of an error */
        status = change_fact(commit, fd, split_path(fact->path, unused), fact, error);
        if (status != STATUS_OK)
            return volume_error_at(error, status, fact->path);
        pause_here(PAUSE_COMMIT_AFTER_FACT);
    }
    return volume_error_at(error, volume_sync_dir(request->volume, fd, error), directory);
}

static enum status change_facts(struct commit *commit, struct error *error)
{
    const struct commit_request *request = commit->request;
    char directory[SCOPE_PATH_MAX];
    char other[SCOPE_PATH_MAX];
    enum status status = STATUS_OK;

    for (size_t first = 0, end; status == STATUS_OK && first < request->fact_count; first = end) {
        (void) split_path(request->facts[commit->by_directory[first]].path, directory);
        for (end = first + 1; end < request->fact_count; end++) {
            (void) split_path(request->facts[commit->by_directory[end]].path, other);
            if (strcmp(directory, other) != 0)
                break;
        }
        status = change_directory(commit, first, end, directory, error);
    }
    return status;
}

/* ---- manifest and end ---- */

static enum status change_manifest(struct commit *commit, struct error *error)
{
    const struct commit_request *request = commit->request;

    enum status status =
        volume_replacement_prepare(request->volume, request->bucket_fd, request->manifest_name,
                                   request->manifest, request->manifest_size, commit->temporary,
                                   error);
    if (status != STATUS_OK) {
        commit->temporary[0] = '\0';
        return status;
    }
    pause_here(PAUSE_COMMIT_BEFORE_CHECK);
    status = check_journal(commit, error);
    if (status == STATUS_OK)
        status = check_base(commit, error);
    if (status != STATUS_OK)
        return status;
    pause_here(PAUSE_COMMIT_BEFORE_MANIFEST);
    status = volume_replacement_apply(request->volume, request->bucket_fd, commit->temporary,
                                      request->manifest_name, error);
    commit->temporary[0] = '\0';
    if (status == STATUS_OK)
        status = volume_sync_dir(request->volume, request->bucket_fd, error);
    if (status == STATUS_OK)
        pause_here(PAUSE_COMMIT_AFTER_MANIFEST);
    return volume_error_at(error, status, request->manifest_name);
}

static enum status mark_committed(struct commit *commit, struct commit_result *ret,
                                  struct error *error)
{
    const struct commit_request *request = commit->request;

    enum status status = check_journal(commit, error);
    if (status == STATUS_OK)
        status = check_manifest(commit, request->manifest, request->manifest_size, &ret->manifest,
                                error);
    if (status != STATUS_OK)
        return status;
    pause_here(PAUSE_COMMIT_BEFORE_COMMITTED);
    commit->may_stand = true;
    status = volume_journal_commit(request->volume, request->bucket_fd, &commit->journal, error);
    if (status == STATUS_OK)
        pause_here(PAUSE_COMMIT_AFTER_COMMITTED);
    return status;
}

/* The change stands whether its traces go away or not: the next one to look removes them. Where
 * locks do not keep everybody out, that may have happened, and another journal may lie there. */
static void clean_up(const struct commit *commit)
{
    const struct commit_request *request = commit->request;
    enum journal_owner owner = JOURNAL_OURS;

    if (!request->locks_reach_all_nodes &&
        (volume_journal_owner(request->volume, request->bucket_fd, commit->operation, &owner,
                              NULL) != STATUS_OK ||
         (owner != JOURNAL_OURS && owner != JOURNAL_OURS_COMMITTED)))
        return;
    if (volume_rollback_clean_up(request->volume, request->bucket_fd, &commit->journal, NULL) ==
        STATUS_OK)
        pause_here(PAUSE_COMMIT_AFTER_CLEANUP);
}

/* ---- the way back ---- */

/* A fact that still has the bytes that we gave it gets its old ones back. */
static void restore_if_ours(const struct commit *commit, size_t number)
{
    const struct commit_request *request = commit->request;
    const struct commit_fact *fact = &request->facts[number];
    const struct file_image *old = &commit->old_facts[number];
    AUTO_CLOSE int fd = -1;
    AUTO_IMAGE struct file_image now = {0};
    char directory[SCOPE_PATH_MAX];
    const char *name = split_path(fact->path, directory);

    if (volume_open_dir(request->volume, request->bucket_fd, directory, &fd, NULL) != STATUS_OK)
        return;
    enum status status =
        volume_read_file(request->volume, fd, name, FACT_FILE_BYTES_MAX, &now, NULL);
    bool ours = fact->bytes ? status == STATUS_OK && now.size == fact->size &&
                                  memcmp(now.bytes, fact->bytes, now.size) == 0
                            : status == STATUS_NOT_FOUND;
    if (!ours)
        return;
    if (fact->existed)
        status = volume_replace_file(request->volume, fd, name, old->bytes, old->size, NULL);
    else
        status = volume_remove_file(request->volume, fd, name, NULL);
    (void) status; /* it is tried; who comes next finds what is left */
}

/* Backups that no journal speaks of. */
static void remove_own_backups(const struct commit *commit)
{
    AUTO_CLOSE int fd = -1;
    bool left = false;

    if (volume_open_listed(commit->request->volume, commit->request->bucket_fd,
                           JOURNAL_RECOVERY_DIR, &fd, NULL) != STATUS_OK)
        return;
    enum status status =
        volume_remove_dir(commit->request->volume, fd, commit->operation, &left, NULL);
    (void) status; /* the next commit sweeps it away */
}

/* Of what we wrote only what is certainly still ours goes away. */
static void restore_own_facts(const struct commit *commit)
{
    for (size_t i = 0; i < commit->written; i++)
        restore_if_ours(commit, commit->by_directory[i]);
}

/* How a commit ended that did not go through. */
enum aftermath {
    AFTERMATH_OLD,     /* the old state is back, or will be after the next operation */
    AFTERMATH_STANDS,  /* the journal says committed */
    AFTERMATH_UNKNOWN, /* the journal cannot be read */
};

/* As if nothing had happened, as far as that is ours to do. A journal of ours that stays says
 * prepared, and the next operation takes the rest back. */
static enum aftermath take_back(const struct commit *commit, enum status reason)
{
    const struct commit_request *request = commit->request;
    enum journal_owner owner;

    if (commit->temporary[0])
        (void) volume_do_unlink(request->volume, request->bucket_fd, commit->temporary, 0);
    if (volume_journal_owner(request->volume, request->bucket_fd, commit->operation, &owner,
                             NULL) != STATUS_OK)
        return AFTERMATH_UNKNOWN;
    switch (owner) {
    case JOURNAL_OURS_COMMITTED:
        return AFTERMATH_STANDS;
    case JOURNAL_SOMEBODYS:
        remove_own_backups(commit);
        break;
    case JOURNAL_NOBODYS: /* never made, or somebody took us for dead and rolled back */
        restore_own_facts(commit);
        remove_own_backups(commit);
        break;
    case JOURNAL_OURS:
        if (reason == STATUS_CONFLICT) { /* the manifest is somebody else's: it stays */
            restore_own_facts(commit);
            clean_up(commit);
            break;
        }
        if (volume_rollback(request->volume, request->bucket_fd, request->manifest_name,
                            &commit->journal, NULL) != STATUS_OK)
            log_debug("commit.rollback", "what=\"the next operation takes the change back\"");
        break;
    }
    return AFTERMATH_OLD;
}

static enum status run(struct commit *commit, struct commit_result *ret, struct error *error)
{
    const struct commit_request *request = commit->request;

    enum status status = check_rights(commit, error);
    if (status == STATUS_OK)
        status = back_up(commit, error);
    if (status == STATUS_OK)
        status = volume_journal_place(request->volume, request->bucket_fd, &commit->journal, error);
    if (status != STATUS_OK)
        return status;
    pause_here(PAUSE_COMMIT_AFTER_JOURNAL);
    /* From here on nobody who keeps the rules changes the base; before it, somebody may have. */
    status = check_base(commit, error);
    if (status == STATUS_OK)
        status = change_facts(commit, error);
    if (status == STATUS_OK)
        status = change_manifest(commit, error);
    if (status == STATUS_OK)
        status = mark_committed(commit, ret, error);
    return status;
}

static enum status unconfirmed(struct error *error, const char *what)
{
    (void) error_set(error, STATUS_IO, JOURNAL_NAME, "unconfirmed: %s", what);
    error_add_member(error, "reason", "\"unconfirmed\"");
    return STATUS_IO;
}

enum status volume_commit(const struct commit_request *request, struct commit_result *ret,
                          struct error *error)
{
    AUTO_COMMIT struct commit commit = {.request = request, .backups_fd = -1};

    enum status status = plan(&commit, error);
    if (status != STATUS_OK)
        return status;
    status = run(&commit, ret, error);
    if (status == STATUS_OK) {
        clean_up(&commit);
        return STATUS_OK;
    }
    /* A file or directory that has gone, or became another one, is somebody else's doing. */
    if (status == STATUS_NOT_FOUND || status == STATUS_STALE)
        status = overtaken(request, error, error && error->path[0] ? error->path : NULL);
    if (status == STATUS_CONFLICT && error && !error->members[0])
        tell_overtaken(request, error);
    switch (take_back(&commit, status)) {
    case AFTERMATH_OLD:
        break;
    case AFTERMATH_STANDS:
        return unconfirmed(error, "the change was made, but may not survive a power cut");
    case AFTERMATH_UNKNOWN:
        if (commit.may_stand)
            return unconfirmed(error, "whether the change was made cannot be told");
        break;
    }
    return status;
}
