/* Before anything is taken back: what is there, and is it enough? */
#include "core/fact.h"
#include "core/manifest.h"
#include "core/volume_rollback_private.h"

#include <stdio.h>
#include <string.h>

void rollback_destroy(struct rollback *rollback)
{
    cleanup_close(&rollback->backup_fd);
    listing_destroy(&rollback->backups);
    file_image_destroy(&rollback->manifest);
    free(rollback->added);
}

enum status rollback_open_parent(const struct rollback *rollback, const char *path, bool may_create,
                                 int *ret, const char **ret_name, struct error *error)
{
    const char *slash = strrchr(path, '/'); /* there is one: it is below agents/ */
    AUTO_FREE char *parent = strndup(path, (size_t) (slash - path));

    if (!parent)
        return error_set(error, STATUS_NO_MEMORY, path, "no memory");
    *ret_name = slash + 1;
    return volume_walk(rollback->volume, rollback->bucket_fd, parent, may_create, ret, error);
}

void rollback_backup_name(const char *fact_id, char ret[NAME_MAX + 1])
{
    (void) snprintf(ret, NAME_MAX + 1, "%s.md", fact_id);
}

static enum status survey_backups(struct rollback *rollback, struct error *error)
{
    AUTO_CLOSE int recovery_fd = -1;
    const struct volume *volume = rollback->volume;

    enum status status =
        volume_open_listed(volume, rollback->bucket_fd, JOURNAL_RECOVERY_DIR, &recovery_fd, error);
    if (status == STATUS_OK)
        status = volume_open_listed(volume, recovery_fd, rollback->journal->operation_id,
                                    &rollback->backup_fd, error);
    if (status == STATUS_NOT_FOUND)
        return STATUS_OK;
    if (status != STATUS_OK)
        return status;
    return volume_list_fd(volume, rollback->backup_fd, &rollback->backups, error);
}

static enum status survey_manifest(struct rollback *rollback, struct error *error)
{
    AUTO_LISTING struct listing bucket = {0};

    enum status status = volume_list_fd(rollback->volume, rollback->bucket_fd, &bucket, error);
    if (status != STATUS_OK)
        return status;
    rollback->has_manifest = listing_find(&bucket, rollback->manifest_name) != NULL;
    if (!rollback->has_manifest)
        return STATUS_OK;
    status = volume_read_file(rollback->volume, rollback->bucket_fd, rollback->manifest_name,
                              MANIFEST_BYTES_MAX, &rollback->manifest, error);
    if (status != STATUS_OK)
        return status;
    rollback->manifest_is_sound =
        manifest_scan_revision(rollback->manifest.bytes, rollback->manifest.size,
                               &rollback->revision, NULL) == STATUS_OK;
    return STATUS_OK;
}

static int compare_shards(const void *a, const void *b)
{
    const struct added_fact *left = a;
    const struct added_fact *right = b;

    return strcmp(left->shard, right->shard);
}

/* Keeps, of the facts of one shard, those that its listing shows. */
static enum status keep_existing(struct rollback *rollback, int facts_fd,
                                 const struct added_fact *facts, size_t count, struct error *error)
{
    AUTO_CLOSE int shard_fd = -1;
    AUTO_LISTING struct listing shard = {0};
    char name[NAME_MAX + 1];

    enum status status =
        volume_open_listed(rollback->volume, facts_fd, facts[0].shard, &shard_fd, error);
    if (status == STATUS_NOT_FOUND)
        return STATUS_OK;
    if (status == STATUS_OK)
        status = volume_list_fd(rollback->volume, shard_fd, &shard, error);
    for (size_t i = 0; status == STATUS_OK && i < count; i++) {
        struct added_fact fact = facts[i];
        rollback_backup_name(fact.id, name);
        const struct listing_entry *entry = listing_find(&shard, name);
        if (entry && !entry->is_dir)
            rollback->added[rollback->added_count++] = fact;
    }
    return status;
}

/* Which of the journal's new facts lie on the volume. Sorted by shard, so that each shard is listed
 * once. */
static enum status survey_added(struct rollback *rollback, struct error *error)
{
    const struct journal *journal = rollback->journal;
    AUTO_CLOSE int facts_fd = -1;
    char path[SCOPE_PATH_MAX];
    size_t wanted = 0;

    rollback->added = calloc(journal->fact_count + 1, sizeof *rollback->added);
    if (!rollback->added)
        return error_set(error, STATUS_NO_MEMORY, NULL, "no memory for %zu facts",
                         journal->fact_count);
    for (size_t i = 0; i < journal->fact_count; i++) {
        if (journal_find_old(journal, journal->fact_ids[i]))
            continue;
        struct added_fact *fact = &rollback->added[wanted++];
        fact->id = journal->fact_ids[i];
        fact_id_shard(fact->id, fact->shard);
    }
    if (wanted == 0)
        return STATUS_OK;
    qsort(rollback->added, wanted, sizeof *rollback->added, compare_shards);

    (void) snprintf(path, sizeof path, "agents/%s/facts", journal->agent);
    enum status status =
        volume_walk(rollback->volume, rollback->bucket_fd, path, false, &facts_fd, error);
    if (status == STATUS_NOT_FOUND)
        return STATUS_OK;
    for (size_t first = 0, next; status == STATUS_OK && first < wanted; first = next) {
        for (next = first + 1; next < wanted; next++) {
            if (compare_shards(&rollback->added[first], &rollback->added[next]) != 0)
                break;
        }
        status = keep_existing(rollback, facts_fd, &rollback->added[first], next - first, error);
    }
    return status;
}

/* ---- what can be done ---- */

enum backup_state {
    BACKUP_MISSING,
    BACKUP_SOUND,
    BACKUP_SPOILT, /* there, but empty or full of NUL bytes, as a crash of its node leaves it */
};

static enum status read_backup(const struct rollback *rollback, const char *name, size_t size_max,
                               struct file_image *ret, enum backup_state *ret_state,
                               struct error *error)
{
    if (!listing_find(&rollback->backups, name)) {
        *ret_state = BACKUP_MISSING;
        return STATUS_OK;
    }
    enum status status =
        volume_read_file(rollback->volume, rollback->backup_fd, name, size_max, ret, error);
    if (status == STATUS_OK)
        *ret_state = ret->size > 0 && ret->bytes[0] != '\0' ? BACKUP_SOUND : BACKUP_SPOILT;
    return status;
}

static enum status lost(const struct rollback *rollback, struct error *error)
{
    return error_set(error, STATUS_CORRUPT, JOURNAL_NAME,
                     "the backups of operation %s are lost, the change cannot be taken back",
                     rollback->journal->operation_id);
}

/* True when the manifest is the one from before the change, or absent as it was then. */
static bool manifest_is_old(const struct rollback *rollback)
{
    int64_t expected = rollback->journal->expected_revision;

    if (!rollback->has_manifest)
        return expected == 0;
    return rollback->manifest_is_sound && rollback->revision == expected;
}

/* Without a backup, the manifest is only removed where it is the very one that the change made. */
static enum status choose_manifest_action(struct rollback *rollback, struct error *error)
{
    const struct journal *journal = rollback->journal;
    AUTO_IMAGE struct file_image image = {0};
    enum backup_state state = BACKUP_MISSING;
    int64_t revision = 0;

    enum status status =
        read_backup(rollback, ROLLBACK_MANIFEST_BACKUP, MANIFEST_BYTES_MAX, &image, &state, error);
    if (status != STATUS_OK)
        return status;
    if (state == BACKUP_SOUND &&
        manifest_scan_revision(image.bytes, image.size, &revision, NULL) == STATUS_OK &&
        revision == journal->expected_revision)
        rollback->manifest_action = MANIFEST_RESTORE;
    else if (manifest_is_old(rollback))
        rollback->manifest_action = MANIFEST_KEEP;
    else if (state == BACKUP_MISSING && journal->expected_revision == 0 &&
             rollback->manifest_is_sound && rollback->revision == journal->next_revision)
        rollback->manifest_action = MANIFEST_REMOVE;
    else
        return lost(rollback, error);
    return STATUS_OK;
}

/* Counts the old facts without a backup; a spoilt one ends the matter. */
static enum status count_missing(const struct rollback *rollback, size_t *ret, struct error *error)
{
    char name[NAME_MAX + 1];
    size_t missing = 0;

    for (size_t i = 0; i < rollback->journal->old_count; i++) {
        AUTO_IMAGE struct file_image image = {0};
        enum backup_state state = BACKUP_MISSING;
        rollback_backup_name(rollback->journal->old_entries[i].fact_id, name);
        enum status status =
            read_backup(rollback, name, FACT_FILE_BYTES_MAX, &image, &state, error);
        if (status != STATUS_OK)
            return status;
        if (state == BACKUP_SPOILT)
            return lost(rollback, error);
        if (state == BACKUP_MISSING)
            missing++;
    }
    *ret = missing;
    return STATUS_OK;
}

/* Whether an old fact is in its place, with the bytes of its backup where that is still there. */
static enum status old_fact_is_back(const struct rollback *rollback,
                                    const struct journal_old_entry *old, bool *ret,
                                    struct error *error)
{
    AUTO_CLOSE int fd = -1;
    AUTO_LISTING struct listing listing = {0};
    AUTO_IMAGE struct file_image backup = {0};
    AUTO_IMAGE struct file_image fact = {0};
    enum backup_state state = BACKUP_MISSING;
    char backup_name[NAME_MAX + 1];
    const char *name = NULL;

    *ret = false;
    rollback_backup_name(old->fact_id, backup_name);
    enum status status = rollback_open_parent(rollback, old->path, false, &fd, &name, error);
    if (status == STATUS_OK)
        status = volume_list_fd(rollback->volume, fd, &listing, error);
    if (status == STATUS_NOT_FOUND || (status == STATUS_OK && !listing_find(&listing, name)))
        return STATUS_OK;
    if (status == STATUS_OK)
        status = volume_read_file(rollback->volume, fd, name, FACT_FILE_BYTES_MAX, &fact, error);
    if (status == STATUS_OK)
        status = read_backup(rollback, backup_name, FACT_FILE_BYTES_MAX, &backup, &state, error);
    if (status == STATUS_OK)
        *ret = state == BACKUP_MISSING ||
               (fact.size == backup.size && memcmp(fact.bytes, backup.bytes, fact.size) == 0);
    return status;
}

/* Backups are missing. A recovery that was killed while it removed them had restored everything
 * before: then the manifest is the old one, no new fact is there and every old one is. */
static enum status check_settled(struct rollback *rollback, struct error *error)
{
    const struct journal *journal = rollback->journal;
    bool back = manifest_is_old(rollback) && rollback->added_count == 0;

    for (size_t i = 0; back && i < journal->old_count; i++) {
        enum status status = old_fact_is_back(rollback, &journal->old_entries[i], &back, error);
        if (status != STATUS_OK)
            return status;
    }
    if (!back)
        return lost(rollback, error);
    rollback->settled = true;
    return STATUS_OK;
}

enum status rollback_survey(struct rollback *rollback, struct error *error)
{
    size_t missing = 0;

    enum status status = survey_backups(rollback, error);
    if (status == STATUS_OK)
        status = survey_manifest(rollback, error);
    if (status == STATUS_OK)
        status = survey_added(rollback, error);
    if (status == STATUS_OK)
        status = choose_manifest_action(rollback, error);
    if (status == STATUS_OK)
        status = count_missing(rollback, &missing, error);
    if (status == STATUS_OK && missing > 0)
        status = check_settled(rollback, error);
    return status;
}
