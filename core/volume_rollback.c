#include "core/volume_rollback.h"

#include "core/fact.h"
#include "core/manifest.h"
#include "core/mutant.h"
#include "core/pause_point.h"
#include "core/volume_journal.h"
#include "core/volume_rollback_private.h"
#include "core/volume_sync_batch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define RETIRED_SUFFIX ".done" /* no operation's name has a dot in it */
#define BACK_PREFIX ".back-"   /* what is about to be put back */
#define GONE_PREFIX ".gone-"   /* what was taken away */

/* The lock may not lock: somebody else may have taken this change back already and begun another,
 * whose files must not be touched. */
static enum status check_journal(const struct rollback *rollback, struct error *error)
{
    enum journal_owner owner;
    enum status status = volume_journal_owner(rollback->volume, rollback->bucket_fd,
                                              rollback->journal->operation_id, &owner, error);

    if (status == STATUS_OK && owner != JOURNAL_OURS)
        status = error_set(error, STATUS_STALE, JOURNAL_NAME,
                           "somebody else deals with the unfinished commit");
    return status;
}

/* ---- one file ----
 *
 * Between a look at the journal and the change that follows we may be held up, and where the lock
 * does not lock, somebody else takes the same change back meanwhile, and others commit. So what is
 * put back comes from the operation's own directory, and what is taken away goes there: by a
 * rename, which fails once that directory is gone, and it goes before the journal does. */

static enum status make_name(const char *prefix, char ret[NAME_MAX + 1], struct error *error)
{
    char hex[VOLUME_HEX_SIZE];

    if (volume_random_hex(hex) != STATUS_OK)
        return error_set(error, STATUS_IO, NULL, "no random numbers");
    (void) snprintf(ret, NAME_MAX + 1, "%s%s", prefix, hex);
    return STATUS_OK;
}

/* A peer's first commit has nothing to back up. */
static bool works_in_place(const struct rollback *rollback)
{
    return rollback->backup_fd < 0 || MUTANT(RESTORE_IN_PLACE);
}

static enum status write_own(const struct rollback *rollback, const char *temporary, int dir_fd,
                             const char *name, const struct file_image *image, struct error *error)
{
    AUTO_SYNC_BATCH struct sync_batch batch = {.volume = rollback->volume};
    struct statx old;
    int fd = -1;

    bool exists =
        volume_do_stat(rollback->volume, dir_fd, name, &old) == 0 && S_ISREG(old.stx_mode);
    enum status status =
        volume_begin_new(rollback->volume, rollback->backup_fd, temporary, exists ? &old : NULL,
                         dir_fd, image->bytes, image->size, &fd, error);
    if (status == STATUS_OK)
        status = sync_batch_add(&batch, fd, name, error);
    return status == STATUS_OK ? sync_batch_flush(&batch, error) : status;
}

static enum status put_back(const struct rollback *rollback, int dir_fd, const char *name,
                            const struct file_image *image, struct error *error)
{
    const struct volume *volume = rollback->volume;
    char temporary[NAME_MAX + 1];

    enum status status = make_name(BACK_PREFIX, temporary, error);
    if (status == STATUS_OK && !works_in_place(rollback))
        status = write_own(rollback, temporary, dir_fd, name, image, error);
    if (status == STATUS_OK)
        status = check_journal(rollback, error);
    if (status == STATUS_OK && works_in_place(rollback))
        return volume_replace_file(volume, dir_fd, name, image->bytes, image->size, error);
    if (status == STATUS_OK)
        status =
            volume_replacement_apply(volume, rollback->backup_fd, temporary, dir_fd, name, error);
    return status == STATUS_OK ? volume_sync_dir(volume, dir_fd, error) : status;
}

static enum status take_away(const struct rollback *rollback, int dir_fd, const char *name,
                             struct error *error)
{
    const struct volume *volume = rollback->volume;
    char target[NAME_MAX + 1];

    enum status status = make_name(GONE_PREFIX, target, error);
    if (status == STATUS_OK)
        status = check_journal(rollback, error);
    if (status == STATUS_OK && works_in_place(rollback))
        return volume_remove_file(volume, dir_fd, name, error);
    /* ENOENT: it has gone, or the directory has; then the next look at the journal tells. */
    if (status == STATUS_OK &&
        volume_do_rename(volume, dir_fd, name, rollback->backup_fd, target) < 0 && errno != ENOENT)
        status = error_set_errno(error, errno, name, "cannot remove the file");
    return status == STATUS_OK ? volume_sync_dir(volume, dir_fd, error) : status;
}

/* ---- all of them ---- */

static enum status restore_fact(const struct rollback *rollback,
                                const struct journal_old_entry *old, struct error *error)
{
    AUTO_CLOSE int fd = -1;
    AUTO_IMAGE struct file_image image = {0};
    char backup[NAME_MAX + 1];
    const char *name = NULL;

    rollback_backup_name(old->fact_id, backup);
    enum status status = volume_read_file(rollback->volume, rollback->backup_fd, backup,
                                          FACT_FILE_BYTES_MAX, &image, error);
    if (status == STATUS_OK)
        status = rollback_open_parent(rollback, old->path, true, &fd, &name, error);
    if (status == STATUS_OK)
        status = put_back(rollback, fd, name, &image, error);
    if (status == STATUS_OK)
        pause_here(PAUSE_RECOVER_AFTER_FACT);
    return volume_error_at(error, status, old->path);
}

static enum status remove_added(const struct rollback *rollback, const struct added_fact *fact,
                                struct error *error)
{
    AUTO_CLOSE int fd = -1;
    char path[SCOPE_PATH_MAX];
    char name[NAME_MAX + 1];

    rollback_backup_name(fact->id, name);
    (void) snprintf(path, sizeof path, "agents/%s/facts/%s", rollback->journal->agent, fact->shard);
    enum status status = volume_open_dir(rollback->volume, rollback->bucket_fd, path, &fd, error);
    if (status == STATUS_OK)
        status = take_away(rollback, fd, name, error);
    if (status == STATUS_OK)
        pause_here(PAUSE_RECOVER_AFTER_FACT);
    return volume_error_at(error, status, path);
}

static enum status restore_manifest(const struct rollback *rollback, struct error *error)
{
    AUTO_IMAGE struct file_image image = {0};
    enum status status = STATUS_OK;

    switch (rollback->manifest_action) {
    case MANIFEST_KEEP:
        /* Written anew all the same: whoever has read facts of the change under this manifest must
         * find another one when he looks again. */
        if (rollback->has_manifest)
            status = put_back(rollback, rollback->bucket_fd, rollback->manifest_name,
                              &rollback->manifest, error);
        break;
    case MANIFEST_REMOVE:
        status = take_away(rollback, rollback->bucket_fd, rollback->manifest_name, error);
        break;
    case MANIFEST_RESTORE:
        status = volume_read_file(rollback->volume, rollback->backup_fd, ROLLBACK_MANIFEST_BACKUP,
                                  MANIFEST_BYTES_MAX, &image, error);
        if (status == STATUS_OK)
            status =
                put_back(rollback, rollback->bucket_fd, rollback->manifest_name, &image, error);
        break;
    }
    return volume_error_at(error, status, rollback->manifest_name);
}

/* Should the writer live after all, it finds that it was overtaken when the next file that it puts
 * into its place is not there any more. */
static void drop_new_files(const struct rollback *rollback)
{
    for (size_t i = 0; i < rollback->backups.count; i++) {
        const char *name = rollback->backups.entries[i].name;
        if (strncmp(name, VOLUME_NEW_PREFIX, strlen(VOLUME_NEW_PREFIX)) == 0)
            (void) volume_do_unlink(rollback->volume, rollback->backup_fd, name, 0);
    }
}

static enum status take_back(const struct rollback *rollback, struct error *error)
{
    const struct journal *journal = rollback->journal;
    enum status status = STATUS_OK;

    drop_new_files(rollback);
    if (MUTANT(RECOVER_MANIFEST_FIRST))
        status = restore_manifest(rollback, error);
    for (size_t i = 0; status == STATUS_OK && i < journal->old_count; i++)
        status = restore_fact(rollback, &journal->old_entries[i], error);
    for (size_t i = 0; status == STATUS_OK && i < rollback->added_count; i++)
        status = remove_added(rollback, &rollback->added[i], error);
    if (status == STATUS_OK)
        pause_here(PAUSE_RECOVER_BEFORE_MANIFEST);
    if (status == STATUS_OK && !MUTANT(RECOVER_MANIFEST_FIRST))
        status = restore_manifest(rollback, error);
    if (status == STATUS_OK)
        pause_here(PAUSE_RECOVER_AFTER_MANIFEST);
    /* What was there at the survey: whoever was faster has taken it away. */
    if (status == STATUS_NOT_FOUND && check_journal(rollback, NULL) == STATUS_STALE)
        status = STATUS_STALE;
    return status;
}

/* A directory that must be changed and may not be ends the matter before the first change. */
static enum status check_right(const struct rollback *rollback, int fd, const char *path,
                               struct error *error)
{
    return volume_check_right(rollback->volume, fd, path, "no right to take a change back", error);
}

static enum status check_rights(const struct rollback *rollback, struct error *error)
{
    const struct journal *journal = rollback->journal;
    char path[SCOPE_PATH_MAX];
    const char *name = NULL;

    enum status status = check_right(rollback, rollback->bucket_fd, JOURNAL_NAME, error);
    if (status == STATUS_OK && rollback->backup_fd >= 0) {
        (void) snprintf(path, sizeof path, JOURNAL_RECOVERY_DIR "/%s", journal->operation_id);
        status = check_right(rollback, rollback->backup_fd, path, error);
    }
    for (size_t i = 0; status == STATUS_OK && i < journal->old_count; i++) {
        AUTO_CLOSE int fd = -1;
        const char *old_path = journal->old_entries[i].path;
        status = rollback_open_parent(rollback, old_path, false, &fd, &name, error);
        if (status == STATUS_OK)
            status = check_right(rollback, fd, old_path, error);
        else if (status == STATUS_NOT_FOUND)
            status = STATUS_OK;
    }
    for (size_t i = 0; status == STATUS_OK && i < rollback->added_count; i++) {
        AUTO_CLOSE int fd = -1;
        (void) snprintf(path, sizeof path, "agents/%s/facts/%s", journal->agent,
                        rollback->added[i].shard);
        status = volume_open_dir(rollback->volume, rollback->bucket_fd, path, &fd, error);
        if (status == STATUS_OK)
            status = check_right(rollback, fd, path, error);
    }
    return status;
}

/* ---- what was not yet renamed ---- */

static bool is_temporary_of_a_fact(const struct journal *journal, const char *temporary)
{
    char name[NAME_MAX + 1];

    for (size_t i = 0; i < journal->fact_count; i++) {
        rollback_backup_name(journal->fact_ids[i], name);
        if (volume_name_is_temporary_of(temporary, name))
            return true;
    }
    return false;
}

/* Removes this operation's temporaries from a directory of facts, given by its path. */
static void sweep_facts(const struct rollback *rollback, const char *path)
{
    AUTO_CLOSE int fd = -1;
    AUTO_LISTING struct listing listing = {0};

    if (volume_walk(rollback->volume, rollback->bucket_fd, path, false, &fd, NULL) != STATUS_OK ||
        volume_list_fd(rollback->volume, fd, &listing, NULL) != STATUS_OK)
        return;
    for (size_t i = 0; i < listing.count; i++) {
        const struct listing_entry *entry = &listing.entries[i];
        if (entry->is_file && volume_name_is_temporary(entry->name) &&
            is_temporary_of_a_fact(rollback->journal, entry->name))
            (void) volume_do_unlink(rollback->volume, fd, entry->name, 0);
    }
}

static void sweep_bucket(const struct rollback *rollback)
{
    AUTO_LISTING struct listing listing = {0};

    if (volume_list_fd(rollback->volume, rollback->bucket_fd, &listing, NULL) != STATUS_OK)
        return;
    for (size_t i = 0; i < listing.count; i++) {
        const struct listing_entry *entry = &listing.entries[i];
        if (entry->is_file && volume_name_is_temporary_of(entry->name, rollback->manifest_name))
            (void) volume_do_unlink(rollback->volume, rollback->bucket_fd, entry->name, 0);
    }
}

/* Files of this change that did not get their names. Only whoever owns the journal makes such ones,
 * so they are nobody's. What cannot be removed stays: readers pass over it. */
static void sweep(const struct rollback *rollback)
{
    const struct journal *journal = rollback->journal;
    bool swept[256] = {false};
    char path[SCOPE_PATH_MAX];
    char shard[3];

    for (size_t i = 0; i < journal->fact_count; i++) {
        fact_id_shard(journal->fact_ids[i], shard);
        unsigned long number = strtoul(shard, NULL, 16);
        if (swept[number])
            continue;
        swept[number] = true;
        (void) snprintf(path, sizeof path, "agents/%s/facts/%s", journal->agent, shard);
        sweep_facts(rollback, path);
    }
    for (size_t i = 0; i < journal->old_count; i++) {
        const struct journal_old_entry *old = &journal->old_entries[i];
        const char *slash = strrchr(old->path, '/');
        fact_id_shard(old->fact_id, shard);
        (void) snprintf(path, sizeof path, "agents/%s/facts/%s/%s.md", journal->agent, shard,
                        old->fact_id);
        if (strcmp(path, old->path) == 0) /* its shard: done above */
            continue;
        (void) snprintf(path, sizeof path, "%.*s", (int) (slash - old->path), old->path);
        sweep_facts(rollback, path);
    }
    sweep_bucket(rollback);
}

/* Everything is back, so the backups are not needed any more. They go at once, by a rename, since
 * whoever finds a part of them beside a prepared journal may take the rest for lost. */
static enum status retire_backups(const struct rollback *rollback, struct error *error)
{
    const char *operation = rollback->journal->operation_id;
    AUTO_CLOSE int fd = -1;
    char retired[NAME_MAX + 1];

    if (rollback->backup_fd < 0)
        return STATUS_OK;
    int length = snprintf(retired, sizeof retired, "%s" RETIRED_SUFFIX, operation);
    if (length < 0 || (size_t) length >= sizeof retired)
        return STATUS_OK; /* no room for the name: then as they are, one by one */
    enum status status =
        volume_open_dir(rollback->volume, rollback->bucket_fd, JOURNAL_RECOVERY_DIR, &fd, error);
    if (status == STATUS_OK && volume_do_rename(rollback->volume, fd, operation, fd, retired) < 0 &&
        errno != ENOENT)
        status = error_set_errno(error, errno, operation, "cannot rename the backups");
    if (status == STATUS_OK)
        status = volume_sync_dir(rollback->volume, fd, error);
    if (status == STATUS_OK)
        pause_here(PAUSE_RECOVER_BEFORE_REMOVAL);
    return volume_error_at(error, status, JOURNAL_RECOVERY_DIR);
}

static bool is_retired(const char *name)
{
    size_t length = strlen(name);
    size_t tail = strlen(RETIRED_SUFFIX);

    return length > tail && strcmp(name + length - tail, RETIRED_SUFFIX) == 0;
}

/* Removes this operation's backups, and what earlier ones could not remove: retired backups, and
 * directories that are empty by now. */
static enum status remove_backups(const struct volume *volume, int bucket_fd,
                                  const struct journal *journal, bool durably, struct error *error)
{
    AUTO_CLOSE int fd = -1;
    AUTO_LISTING struct listing listing = {0};
    bool left = false;

    enum status status = volume_open_listed(volume, bucket_fd, JOURNAL_RECOVERY_DIR, &fd, error);
    if (status == STATUS_NOT_FOUND)
        return STATUS_OK;
    if (status == STATUS_OK)
        status = volume_list_fd(volume, fd, &listing, error);
    for (size_t i = 0; status == STATUS_OK && i < listing.count; i++) {
        const char *name = listing.entries[i].name;
        bool is_dir = listing.entries[i].is_dir;
        if (strcmp(name, journal->operation_id) == 0 || (is_dir && is_retired(name)))
            status = durably ? volume_remove_dir(volume, fd, name, &left, error)
                             : volume_remove_dir_soon(volume, fd, name, &left, error);
        else if (is_dir)
            (void) volume_do_unlink(volume, fd, name, AT_REMOVEDIR); /* refused unless empty */
    }
    return status;
}

static enum status clean_up(const struct volume *volume, int bucket_fd,
                            const struct journal *journal, bool durably, struct error *error)
{
    enum journal_owner owner = JOURNAL_OURS;
    enum status status = remove_backups(volume, bucket_fd, journal, durably, error);

    if (status != STATUS_OK)
        return volume_error_at(error, status, JOURNAL_RECOVERY_DIR);
    pause_here(PAUSE_RECOVER_BEFORE_JOURNAL);
    status = volume_journal_owner(volume, bucket_fd, journal->operation_id, &owner, error);
    if (status != STATUS_OK || owner == JOURNAL_SOMEBODYS)
        return status;
    if (durably)
        return volume_remove_file(volume, bucket_fd, JOURNAL_NAME, error);
    if (volume_do_unlink(volume, bucket_fd, JOURNAL_NAME, 0) < 0 && errno != ENOENT)
        return error_set_errno(error, errno, JOURNAL_NAME, "cannot remove the file");
    return STATUS_OK;
}

enum status volume_rollback_clean_up(const struct volume *volume, int bucket_fd,
                                     const struct journal *journal, struct error *error)
{
    return clean_up(volume, bucket_fd, journal, true, error);
}

enum status volume_rollback_clean_up_soon(const struct volume *volume, int bucket_fd,
                                          const struct journal *journal, struct error *error)
{
    return clean_up(volume, bucket_fd, journal, false, error);
}

enum status volume_rollback(const struct volume *volume, int bucket_fd, const char *manifest_name,
                            const struct journal *journal, struct error *error)
{
    CLEANUP(rollback_destroy)
    struct rollback rollback = {
        .volume = volume,
        .bucket_fd = bucket_fd,
        .manifest_name = manifest_name,
        .journal = journal,
        .backup_fd = -1,
    };

    enum status status = rollback_survey(&rollback, error);
    if (status == STATUS_OK)
        status = check_rights(&rollback, error);
    if (status == STATUS_OK && !rollback.settled)
        status = take_back(&rollback, error);
    if (status == STATUS_OK)
        sweep(&rollback);
    if (status == STATUS_OK)
        status = retire_backups(&rollback, error);
    if (status != STATUS_OK)
        return status;
    return volume_rollback_clean_up(volume, bucket_fd, journal, error);
}
