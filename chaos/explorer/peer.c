#include "chaos/explorer/peer.h"

#include "chaos/explorer/calls.h"
#include "chaos/explorer/sched.h"
#include "tests/support/files.h"
#include "tests/support/temp_volume_private.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>

#define JOURNAL ".memory.journal.json"

/* What one run works with. */
struct work {
    struct peer *peer;
    char bucket[SCOPE_PATH_MAX];
    char journal[SCOPE_PATH_MAX];
    char manifest[SCOPE_PATH_MAX];
    char operation[40];
    char backups[SCOPE_PATH_MAX];
    int64_t expected_revision;
};

static void path_in(const char *directory, const char *name, char ret[SCOPE_PATH_MAX])
{
    if (snprintf(ret, SCOPE_PATH_MAX, "%s/%s", directory, name) >= SCOPE_PATH_MAX)
        test_die("a path is too long: %s", name);
}

static void backup_path(const char *backups, const char *id, char ret[SCOPE_PATH_MAX])
{
    char name[SCOPE_NAME_MAX + 1];

    (void) snprintf(name, sizeof name, "%.200s.md", id);
    path_in(backups, name, ret);
}

static void put(struct temp_volume *volume, const char *path, const char *bytes, size_t size)
{
    temp_volume_write(volume, path, bytes, size);
    calls_note_change(path);
}

static void copy(struct temp_volume *volume, const char *from, const char *to)
{
    size_t size = 0;
    AUTO_FREE char *bytes = temp_volume_read(volume, from, &size);

    put(volume, to, bytes, size);
}

static void take_away(struct temp_volume *volume, const char *path)
{
    temp_volume_remove(volume, path);
    calls_note_change(path);
}

/* ---- the lock ---- */

/* The lock's descriptor; -1 when the schedule ended first. */
static int take_lock(const struct work *work)
{
    char path[SCOPE_PATH_MAX];
    char file[PATH_MAX];

    path_in(work->bucket, ".memory.lock", path);
    temp_volume_file(work->peer->volume, path, file);
    test_make_parents(file);
    int fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        test_die("cannot open %s", file);
    while (calls_lock(fd, LOCK_EX) < 0) {
        if (errno != EWOULDBLOCK)
            test_die("cannot lock %s", file);
        if (!calls_wait_for_lock()) {
            (void) close(fd);
            return -1;
        }
    }
    return fd;
}

/* ---- recovery ---- */

static bool restore_fact(const struct work *work, const json_t *journal, const char *backups,
                         const char *id)
{
    struct temp_volume *volume = work->peer->volume;
    const char *agent = json_string_value(json_object_get(journal, "agentName"));
    const json_t *old = json_object_get(json_object_get(journal, "oldEntries"), id);
    const char *old_path = json_string_value(json_object_get(old, "path"));
    char from[SCOPE_PATH_MAX];
    char path[SCOPE_PATH_MAX];

    backup_path(backups, id, from);
    if (old_path) {
        path_in(work->bucket, old_path, path);
        copy(volume, from, path);
        return sched_stop("peer: a fact is back");
    }
    temp_volume_fact_path(work->peer->commit.user, agent, id, path);
    take_away(volume, path);
    return sched_stop("peer: a new fact is gone");
}

static bool restore_facts(const struct work *work, const json_t *journal, const char *backups)
{
    size_t i = 0;
    json_t *id = NULL;

    json_array_foreach(json_object_get(journal, "factIds"), i, id)
    {
        if (!restore_fact(work, journal, backups, json_string_value(id)))
            return false;
    }
    return true;
}

static bool restore_manifest(const struct work *work, const json_t *journal, const char *backups)
{
    char from[SCOPE_PATH_MAX];

    path_in(backups, "memory.json", from);
    if (json_integer_value(json_object_get(journal, "expectedRevision")) == 0)
        take_away(work->peer->volume, work->manifest);
    else
        copy(work->peer->volume, from, work->manifest);
    return sched_stop("peer: the manifest is back");
}

static bool roll_back(const struct work *work, const json_t *journal, const char *backups)
{
    if (work->peer->manifest_first)
        return restore_manifest(work, journal, backups) && restore_facts(work, journal, backups);
    return restore_facts(work, journal, backups) && restore_manifest(work, journal, backups);
}

static bool recover(const struct work *work)
{
    struct temp_volume *volume = work->peer->volume;
    char name[SCOPE_NAME_MAX + 1];
    char backups[SCOPE_PATH_MAX];

    if (!temp_volume_exists(volume, work->journal))
        return true;
    AUTO_FREE char *bytes = temp_volume_read(volume, work->journal, NULL);
    AUTO_JSON json_t *journal = json_loads(bytes, 0, NULL);
    const char *operation = json_string_value(json_object_get(journal, "operationId"));
    const char *state = json_string_value(json_object_get(journal, "state"));
    if (!operation || !state)
        test_die("a broken journal: %s", bytes);
    (void) snprintf(name, sizeof name, ".recovery/%.200s", operation);
    path_in(work->bucket, name, backups);
    if (strcmp(state, "prepared") == 0 && !roll_back(work, journal, backups))
        return false;
    take_away(volume, backups);
    if (!sched_stop("peer: the backups are removed"))
        return false;
    take_away(volume, work->journal);
    work->peer->recovered = true;
    return sched_stop("peer: recovered");
}

/* ---- commit ---- */

static void fact_path(const struct work *work, const struct temp_change *change,
                      char ret[SCOPE_PATH_MAX])
{
    temp_volume_fact_path(work->peer->commit.user, work->peer->commit.agent, change->id, ret);
}

static void back_up(const struct work *work)
{
    const struct temp_commit *commit = &work->peer->commit;
    struct temp_volume *volume = work->peer->volume;
    char from[SCOPE_PATH_MAX];
    char to[SCOPE_PATH_MAX];

    temp_volume_make_dir(volume, work->backups);
    calls_note_change(work->backups);
    path_in(work->backups, "memory.json", to);
    if (temp_volume_exists(volume, work->manifest))
        copy(volume, work->manifest, to);
    for (size_t i = 0; !commit->summaries_only && i < commit->count; i++) {
        fact_path(work, &commit->changes[i], from);
        backup_path(work->backups, commit->changes[i].id, to);
        if (temp_volume_exists(volume, from))
            copy(volume, from, to);
    }
}

/* Facts that were there, as their paths in the bucket. */
static json_t *old_entries(const struct work *work)
{
    const struct temp_commit *commit = &work->peer->commit;
    json_t *entries = json_object();
    char backup[SCOPE_PATH_MAX];
    char path[SCOPE_PATH_MAX];

    for (size_t i = 0; !commit->summaries_only && i < commit->count; i++) {
        backup_path(work->backups, commit->changes[i].id, backup);
        if (!temp_volume_exists(work->peer->volume, backup))
            continue;
        fact_path(work, &commit->changes[i], path);
        (void) json_object_set_new(entries, commit->changes[i].id,
                                   json_pack("{s:s}", "path", path + strlen(work->bucket) + 1));
    }
    return entries;
}

static void write_journal(const struct work *work, const char *state)
{
    const struct temp_commit *commit = &work->peer->commit;
    json_t *ids = json_array();

    for (size_t i = 0; !commit->summaries_only && i < commit->count; i++)
        (void) json_array_append_new(ids, json_string(commit->changes[i].id));
    AUTO_JSON json_t *journal =
        json_pack("{s:s, s:s, s:s?, s:I, s:I, s:o, s:o}", "operationId", work->operation, "state",
                  state, "agentName", commit->summaries_only ? NULL : commit->agent,
                  "expectedRevision", (json_int_t) work->expected_revision, "nextRevision",
                  (json_int_t) work->expected_revision + 1, "factIds", ids, "oldEntries",
                  old_entries(work));
    AUTO_FREE char *bytes = json_dumps(journal, JSON_INDENT(2));
    if (!bytes)
        test_die("no memory for a journal");
    put(work->peer->volume, work->journal, bytes, strlen(bytes));
}

static bool write_fact(const struct work *work, const struct temp_change *change)
{
    const struct temp_commit *commit = &work->peer->commit;
    char path[SCOPE_PATH_MAX];
    char file[PATH_MAX];

    fact_path(work, change, path);
    temp_volume_file(work->peer->volume, path, file);
    if (change->kind == TEMP_DELETE) {
        take_away(work->peer->volume, path);
        return sched_stop("peer: a fact is removed");
    }
    AUTO_FREE char *bytes = temp_fact_next(commit->user, commit->agent, change, file);
    put(work->peer->volume, path, bytes, strlen(bytes));
    return sched_stop("peer: a fact is written");
}

static bool write_facts(const struct work *work)
{
    const struct temp_commit *commit = &work->peer->commit;

    for (size_t i = 0; !commit->summaries_only && i < commit->count; i++) {
        if (!write_fact(work, &commit->changes[i]))
            return false;
    }
    return true;
}

static bool write_manifest(const struct work *work)
{
    const struct temp_commit *commit = &work->peer->commit;

    temp_manifest_put(work->peer->volume, work->bucket, work->expected_revision + 1,
                      commit->summaries_only ? commit->changes[0].text : NULL);
    calls_note_change(work->manifest);
    return sched_stop("peer: the manifest is written");
}

static bool commit(struct work *work)
{
    struct temp_volume *volume = work->peer->volume;

    if (work->peer->commit.count == 0)
        return true;
    work->expected_revision = temp_volume_revision(volume, work->peer->commit.user);
    back_up(work);
    if (!sched_stop("peer: the backups are there"))
        return false;
    write_journal(work, "prepared");
    if (!sched_stop("peer: the journal says prepared") || !write_facts(work) ||
        !write_manifest(work))
        return false;
    write_journal(work, "committed");
    work->peer->committed = true;
    work->peer->revision = work->expected_revision + 1;
    if (!sched_stop("peer: the journal says committed"))
        return false;
    take_away(volume, work->backups);
    if (!sched_stop("peer: the backups are removed"))
        return false;
    take_away(volume, work->journal);
    return sched_stop("peer: all is done, the lock is held");
}

void peer_run(struct peer *peer)
{
    struct work work = {.peer = peer};
    char name[SCOPE_NAME_MAX + 1];

    temp_volume_bucket_path(peer->commit.user, work.bucket);
    path_in(work.bucket, JOURNAL, work.journal);
    path_in(work.bucket, "memory.json", work.manifest);
    /* Names tell who did it; two runs of one schedule have the same. */
    (void) snprintf(work.operation, sizeof work.operation, "%032x", sched_self()->number + 1);
    (void) snprintf(name, sizeof name, ".recovery/%.40s", work.operation);
    path_in(work.bucket, name, work.backups);
    int fd = take_lock(&work);
    if (fd < 0)
        return;
    if (sched_stop("peer: has the lock") && recover(&work))
        (void) commit(&work);
    (void) calls_lock(fd, LOCK_UN);
    (void) close(fd);
}
