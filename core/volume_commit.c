#include "core/volume_commit.h"

#include "core/fact.h"
#include "core/log.h"
#include "core/manifest.h"
#include "core/mutant.h"
#include "core/pause_point.h"
#include "core/volume_commit_facts.h"
#include "core/volume_journal.h"
#include "core/volume_private.h"
#include "core/volume_rollback.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MANIFEST_BACKUP "memory.json" /* whatever the manifest is called */
#define NEW_MANIFEST VOLUME_NEW_PREFIX "manifest"
#define NEW_JOURNAL VOLUME_NEW_PREFIX "journal"
#define NEW_COMMITTED VOLUME_NEW_PREFIX "committed"

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
    bool may_stand;               /* it was tried to say committed */
    int own_fd;                   /* the operation's directory: backups, new files */
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
    cleanup_close(&commit->own_fd);
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

/* ---- made ready ---- */

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
                volume_remove_dir_soon(volume, recovery_fd, entry->name, &left, NULL) != STATUS_OK)
                break;
        }
    }
    volume_sweep_temporaries(volume, commit->request->bucket_fd);
}

static enum status make_own_directory(struct commit *commit, struct sync_batch *batch,
                                      struct error *error)
{
    const struct commit_request *request = commit->request;
    AUTO_CLOSE int recovery_fd = -1;
    bool made = false;

    enum status status =
        volume_walk_making(request->volume, request->bucket_fd, JOURNAL_RECOVERY_DIR,
                           JOURNAL_RECOVERY_DIR, batch, &recovery_fd, error);
    if (status == STATUS_OK)
        status = volume_check_right(request->volume, recovery_fd, JOURNAL_RECOVERY_DIR,
                                    "no right to keep backups there", error);
    if (status != STATUS_OK)
        return volume_error_at(error, status, JOURNAL_RECOVERY_DIR);
    if (request->locks_reach_all_nodes)
        sweep(commit, recovery_fd);
    status = volume_make_dir_soon(request->volume, recovery_fd, commit->operation, &made, error);
    if (status == STATUS_OK)
        status = volume_open_dir(request->volume, recovery_fd, commit->operation, &commit->own_fd,
                                 error);
    if (status == STATUS_OK)
        status = sync_batch_add_dir(batch, recovery_fd, JOURNAL_RECOVERY_DIR, error);
    return volume_error_at(error, status, JOURNAL_RECOVERY_DIR);
}

static bool has_bytes(const struct file_image *image, const char *bytes, size_t size)
{
    return image->size == size && memcmp(image->bytes, bytes, size) == 0;
}

/* What may have to be put back must be what the change starts from. */
static enum status back_up_manifest(const struct commit *commit, struct sync_batch *batch,
                                    struct error *error)
{
    const struct commit_request *request = commit->request;
    AUTO_IMAGE struct file_image image = {0};

    if (!request->base)
        return STATUS_OK;
    enum status status =
        volume_back_up(request->volume, request->bucket_fd, request->manifest_name,
                       MANIFEST_BYTES_MAX, commit->own_fd, MANIFEST_BACKUP, batch, &image, error);
    if (status == STATUS_OK && !has_bytes(&image, request->base, request->base_size) &&
        !MUTANT(NO_OVERTAKEN_CHECK))
        status = STATUS_STALE;
    return volume_error_at(error, status, request->manifest_name);
}

static struct commit_facts facts_of(const struct commit *commit)
{
    return (struct commit_facts){
        .request = commit->request,
        .order = commit->by_directory,
        .own_fd = commit->own_fd,
        .old = commit->old_facts,
    };
}

static enum status write_facts(const struct commit *commit, struct sync_batch *batch,
                               struct error *error)
{
    const struct commit_facts facts = facts_of(commit);

    return commit_facts_write(&facts, batch, error);
}

static enum status write_manifest(const struct commit *commit, struct sync_batch *batch,
                                  struct error *error)
{
    const struct commit_request *request = commit->request;
    struct statx old;
    int fd = -1;

    bool exists =
        request->base &&
        volume_do_stat(request->volume, request->bucket_fd, request->manifest_name, &old) == 0 &&
        S_ISREG(old.stx_mode);
    enum status status =
        volume_begin_new(request->volume, commit->own_fd, NEW_MANIFEST, exists ? &old : NULL,
                         request->bucket_fd, request->manifest, request->manifest_size, &fd, error);
    if (status == STATUS_OK)
        status = sync_batch_add(batch, fd, request->manifest_name, error);
    return volume_error_at(error, status, request->manifest_name);
}

static enum status write_journals(const struct commit *commit, struct sync_batch *batch,
                                  struct error *error)
{
    const struct commit_request *request = commit->request;
    struct journal committed = commit->journal;

    enum status status = volume_journal_write(request->volume, commit->own_fd, NEW_JOURNAL,
                                              &commit->journal, request->bucket_fd, batch, error);
    if (status != STATUS_OK)
        return status;
    committed.state = JOURNAL_COMMITTED;
    return volume_journal_write(request->volume, commit->own_fd, NEW_COMMITTED, &committed,
                                request->bucket_fd, batch, error);
}

/* Everything that the commit is going to need, made durable before anything speaks of it. What is
 * missing then (room, a right) is missed before the first change. */
static enum status prepare(struct commit *commit, struct error *error)
{
    const struct commit_request *request = commit->request;
    AUTO_SYNC_BATCH struct sync_batch batch = {.volume = request->volume};

    enum status status = make_own_directory(commit, &batch, error);
    if (status == STATUS_OK)
        status = back_up_manifest(commit, &batch, error);
    if (status == STATUS_OK)
        status = write_facts(commit, &batch, error);
    if (status == STATUS_OK)
        status = write_manifest(commit, &batch, error);
    if (status == STATUS_OK)
        status = write_journals(commit, &batch, error);
    if (status == STATUS_OK)
        status = sync_batch_add_dir(&batch, commit->own_fd, JOURNAL_RECOVERY_DIR, error);
    if (status == STATUS_OK)
        status = sync_batch_flush(&batch, error);
    if (status == STATUS_OK)
        pause_here(PAUSE_COMMIT_AFTER_BACKUP);
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
        (status == STATUS_OK && !has_bytes(&image, bytes, size)))
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

/* ---- manifest and end ---- */

static enum status change_manifest(struct commit *commit, struct error *error)
{
    const struct commit_request *request = commit->request;

    pause_here(PAUSE_COMMIT_BEFORE_CHECK);
    enum status status = check_journal(commit, error);
    if (status == STATUS_OK)
        status = check_base(commit, error);
    if (status != STATUS_OK)
        return status;
    pause_here(PAUSE_COMMIT_BEFORE_MANIFEST);
    status = volume_replacement_apply(request->volume, commit->own_fd, NEW_MANIFEST,
                                      request->bucket_fd, request->manifest_name, error);
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
    status = volume_journal_commit(request->volume, commit->own_fd, NEW_COMMITTED,
                                   request->bucket_fd, error);
    if (status == STATUS_OK)
        pause_here(PAUSE_COMMIT_AFTER_COMMITTED);
    return status;
}

/* The change stands whether its traces go away or not: the next one to look removes them. Where
 * locks do not keep everybody out, that may have happened, and another journal may lie there. */
static void clean_up(const struct commit *commit, bool stands)
{
    const struct commit_request *request = commit->request;
    enum journal_owner owner = JOURNAL_OURS;

    if (!request->locks_reach_all_nodes &&
        (volume_journal_owner(request->volume, request->bucket_fd, commit->operation, &owner,
                              NULL) != STATUS_OK ||
         (owner != JOURNAL_OURS && owner != JOURNAL_OURS_COMMITTED)))
        return;
    enum status status = stands ? volume_rollback_clean_up_soon(request->volume, request->bucket_fd,
                                                                &commit->journal, NULL)
                                : volume_rollback_clean_up(request->volume, request->bucket_fd,
                                                           &commit->journal, NULL);
    if (status == STATUS_OK)
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
    const char *name = commit_split_path(fact->path, directory);

    if (volume_open_dir(request->volume, request->bucket_fd, directory, &fd, NULL) != STATUS_OK)
        return;
    enum status status =
        volume_read_file(request->volume, fd, name, FACT_FILE_BYTES_MAX, &now, NULL);
    bool ours = fact->bytes ? status == STATUS_OK && has_bytes(&now, fact->bytes, fact->size)
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

/* Whether our manifest is in its place already, as far as that can be told: then facts without it
 * would be half a commit. */
static bool may_have_our_manifest(const struct commit *commit)
{
    const struct commit_request *request = commit->request;
    AUTO_IMAGE struct file_image image = {0};
    enum status status = read_manifest(commit, &image, NULL);

    return status == STATUS_OK ? has_bytes(&image, request->manifest, request->manifest_size)
                               : status != STATUS_NOT_FOUND;
}

/* How a commit ended that did not go through. */
enum aftermath {
    AFTERMATH_OLD,     /* the old state is back, or will be after the next operation */
    AFTERMATH_STANDS,  /* the journal says committed */
    AFTERMATH_UNKNOWN, /* the journal cannot be read */
};

/* As if nothing had happened, as far as that is ours to do. A journal of ours that stays says
 * prepared, and the next operation takes the rest back. */
static enum aftermath take_back(struct commit *commit, enum status reason)
{
    const struct commit_request *request = commit->request;
    enum journal_owner owner;

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
        /* The manifest is somebody else's, or a fact is: they stay. */
        if (reason == STATUS_CONFLICT && !may_have_our_manifest(commit)) {
            restore_own_facts(commit);
            clean_up(commit, false);
            break;
        }
        if (volume_rollback(request->volume, request->bucket_fd, request->manifest_name,
                            &commit->journal, NULL) != STATUS_OK)
            log_debug("commit.rollback", "what=\"the next operation takes the change back\"");
        break;
    }
    return AFTERMATH_OLD;
}

static enum status place_journal(const struct commit *commit, struct error *error)
{
    const struct commit_request *request = commit->request;
    enum status status = volume_journal_place(request->volume, commit->own_fd, NEW_JOURNAL,
                                              request->bucket_fd, error);

    if (status == STATUS_OK)
        pause_here(PAUSE_COMMIT_AFTER_JOURNAL);
    return status;
}

static enum status apply_facts(struct commit *commit, struct error *error)
{
    const struct commit_facts facts = facts_of(commit);

    return commit_facts_apply(&facts, &commit->written, error);
}

static enum status run(struct commit *commit, struct commit_result *ret, struct error *error)
{
    enum status status = prepare(commit, error);

    if (status == STATUS_OK)
        status = place_journal(commit, error);
    /* From here on nobody who keeps the rules changes the base; before it, somebody may have. */
    if (status == STATUS_OK)
        status = check_base(commit, error);
    if (status == STATUS_OK)
        status = apply_facts(commit, error);
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
    AUTO_COMMIT struct commit commit = {.request = request, .own_fd = -1};

    enum status status = plan(&commit, error);
    if (status != STATUS_OK)
        return status;
    status = run(&commit, ret, error);
    if (status == STATUS_OK) {
        clean_up(&commit, true);
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
