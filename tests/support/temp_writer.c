/* The peer's commit, a step at a time: lock, recovery, backups, journal, facts, manifest,
 * committed, clean-up. */
#include "tests/support/files.h"
#include "tests/support/temp_volume_private.h"

#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#define JOURNAL ".memory.journal.json"
#define OPERATION_BYTES 16

struct temp_writer {
    struct temp_volume *volume;
    const struct temp_commit *commit;
    char bucket[SCOPE_PATH_MAX];
    char recovery[SCOPE_PATH_MAX]; /* .recovery/<operation> of this commit, from the root */
    char operation[2 * OPERATION_BYTES + 1];
    int lock_fd;
    int64_t expected_revision;
    enum temp_step step; /* the last one that is done */
    unsigned facts_done;
};

static void path_in(const char *directory, const char *name, char ret[SCOPE_PATH_MAX])
{
    if (snprintf(ret, SCOPE_PATH_MAX, "%s/%s", directory, name) >= SCOPE_PATH_MAX)
        test_die("a path is too long: %s", name);
}

/* ---- recovery: what a peer does first once it has the lock ---- */

static void copy_file(struct temp_volume *volume, const char *from, const char *to)
{
    size_t size = 0;
    AUTO_FREE char *bytes = temp_volume_read(volume, from, &size);

    temp_volume_write(volume, to, bytes, size);
}

/* A backup that is not there counts as put back already. */
static void put_back(struct temp_volume *volume, const char *backup, const char *path)
{
    if (temp_volume_exists(volume, backup))
        copy_file(volume, backup, path);
}

static void restore_fact(struct temp_volume *volume, const char *bucket, const char *recovery,
                         const json_t *journal, const char *id)
{
    const char *agent = json_string_value(json_object_get(journal, "agentName"));
    json_t *old = json_object_get(json_object_get(journal, "oldEntries"), id);
    const char *old_path = json_string_value(json_object_get(old, "path"));
    char backup[SCOPE_PATH_MAX];
    char path[SCOPE_PATH_MAX];
    char name[SCOPE_NAME_MAX + 1];
    char shard[3];
    char folded[SCOPE_NAME_MAX + 1];

    if (old_path) {
        (void) snprintf(name, sizeof name, "%.250s.md", id);
        path_in(recovery, name, backup);
        path_in(bucket, old_path, path);
        put_back(volume, backup, path);
        return;
    }
    if (!agent || scope_agent_fold(agent, folded, NULL) != STATUS_OK)
        test_die("a journal without an agent");
    fact_id_shard(id, shard);
    if (snprintf(path, sizeof path, "%s/agents/%s/facts/%s/%s.md", bucket, folded, shard, id) >=
        (int) sizeof path)
        test_die("a path is too long: %s", id);
    temp_volume_remove(volume, path);
}

static void roll_back(struct temp_volume *volume, const char *bucket, const char *recovery,
                      const json_t *journal)
{
    char backup[SCOPE_PATH_MAX];
    char manifest[SCOPE_PATH_MAX];
    size_t i = 0;
    json_t *id = NULL;

    json_array_foreach(json_object_get(journal, "factIds"), i, id)
    {
        restore_fact(volume, bucket, recovery, journal, json_string_value(id));
    }
    path_in(recovery, "memory.json", backup);
    path_in(bucket, volume->manifest_name, manifest);
    if (json_integer_value(json_object_get(journal, "expectedRevision")) == 0)
        temp_volume_remove(volume, manifest);
    else
        put_back(volume, backup, manifest);
}

static void recover(struct temp_volume *volume, const char *bucket)
{
    char path[SCOPE_PATH_MAX];
    char recovery[SCOPE_PATH_MAX];
    char name[SCOPE_NAME_MAX + 1];

    path_in(bucket, JOURNAL, path);
    if (!temp_volume_exists(volume, path))
        return;
    AUTO_FREE char *bytes = temp_volume_read(volume, path, NULL);
    AUTO_JSON json_t *journal = json_loads(bytes, 0, NULL);
    const char *operation = json_string_value(json_object_get(journal, "operationId"));
    const char *state = json_string_value(json_object_get(journal, "state"));
    if (!operation || !state)
        test_die("a broken journal in %s", bucket);
    (void) snprintf(name, sizeof name, ".recovery/%.200s", operation);
    path_in(bucket, name, recovery);
    if (strcmp(state, "prepared") == 0)
        roll_back(volume, bucket, recovery, journal);
    temp_volume_remove(volume, recovery);
    temp_volume_remove(volume, path);
}

/* ---- the commit ---- */

static bool writes(const struct temp_change *change)
{
    return change->kind == TEMP_ADD || change->kind == TEMP_UPDATE;
}

/* Peers write first and delete afterwards. NULL beyond the last fact. */
static const struct temp_change *nth_fact(const struct temp_commit *commit, unsigned nth)
{
    for (int deletes = 0; deletes < 2; deletes++) {
        for (size_t i = 0; i < commit->count; i++) {
            const struct temp_change *change = &commit->changes[i];
            bool fits = deletes ? change->kind == TEMP_DELETE : writes(change);
            if (fits && nth-- == 0)
                return change;
        }
    }
    return NULL;
}

static void fact_path(const struct temp_writer *writer, const struct temp_change *change,
                      char ret[SCOPE_PATH_MAX])
{
    temp_volume_fact_path(writer->commit->user, writer->commit->agent, change->id, ret);
}

static void make_backups(struct temp_writer *writer)
{
    const struct temp_change *change;
    char from[SCOPE_PATH_MAX];
    char to[SCOPE_PATH_MAX];

    path_in(writer->bucket, writer->volume->manifest_name, from);
    path_in(writer->recovery, "memory.json", to);
    temp_volume_make_dir(writer->volume, writer->recovery);
    if (temp_volume_exists(writer->volume, from))
        copy_file(writer->volume, from, to);
    for (unsigned i = 0; (change = nth_fact(writer->commit, i)); i++) {
        char name[SCOPE_NAME_MAX + 1];

        fact_path(writer, change, from);
        if (!temp_volume_exists(writer->volume, from))
            continue;
        (void) snprintf(name, sizeof name, "%.250s.md", change->id);
        path_in(writer->recovery, name, to);
        copy_file(writer->volume, from, to);
    }
}

static json_t *make_journal(const struct temp_writer *writer, const char *state)
{
    const struct temp_commit *commit = writer->commit;
    const char *agent = commit->agent ? commit->agent : SCOPE_DEFAULT_AGENT;
    json_t *ids = json_array();
    json_t *old = json_object();
    const struct temp_change *change;

    for (unsigned i = 0; (change = nth_fact(commit, i)); i++) {
        char backup[SCOPE_PATH_MAX];
        char path[SCOPE_PATH_MAX];
        char name[SCOPE_NAME_MAX + 1];

        fact_path(writer, change, path);
        (void) json_array_append_new(ids, json_string(change->id));
        (void) snprintf(name, sizeof name, "%.250s.md", change->id);
        path_in(writer->recovery, name, backup);
        if (!temp_volume_exists(writer->volume, backup))
            continue;
        const char *in_bucket =
            strcmp(writer->bucket, ".") == 0 ? path : path + strlen(writer->bucket) + 1;
        (void) json_object_set_new(old, change->id, json_pack("{s:s}", "path", in_bucket));
    }
    return json_pack("{s:s, s:s, s:s?, s:I, s:I, s:o, s:o}", "operationId", writer->operation,
                     "state", state, "agentName", commit->summaries_only ? NULL : agent,
                     "expectedRevision", (json_int_t) writer->expected_revision, "nextRevision",
                     (json_int_t) writer->expected_revision + 1, "factIds", ids, "oldEntries", old);
}

static void write_journal(struct temp_writer *writer, const char *state)
{
    AUTO_JSON json_t *journal = make_journal(writer, state);
    AUTO_FREE char *bytes = journal ? json_dumps(journal, JSON_INDENT(2)) : NULL;
    char path[SCOPE_PATH_MAX];

    if (!bytes)
        test_die("no memory for a journal");
    path_in(writer->bucket, JOURNAL, path);
    temp_volume_write(writer->volume, path, bytes, strlen(bytes));
}

static void write_fact(struct temp_writer *writer, const struct temp_change *change)
{
    char path[SCOPE_PATH_MAX];
    char file[PATH_MAX];

    fact_path(writer, change, path);
    temp_volume_file(writer->volume, path, file);
    if (change->kind == TEMP_DELETE) {
        test_remove_file(file);
        return;
    }
    AUTO_FREE char *bytes =
        temp_fact_next(writer->commit->user, writer->commit->agent, change, file);
    test_replace_file(file, bytes, strlen(bytes));
}

static void write_manifest(struct temp_writer *writer)
{
    const char *summary = NULL;
    char made_up[32];

    for (size_t i = 0; i < writer->commit->count; i++) {
        if (writer->commit->changes[i].kind != TEMP_SUMMARY)
            continue;
        (void) snprintf(made_up, sizeof made_up, "summary %08u", writer->volume->summary_count++);
        summary = writer->commit->changes[i].text ? writer->commit->changes[i].text : made_up;
    }
    temp_manifest_put(writer->volume, writer->bucket, writer->expected_revision + 1, summary);
}

static void remove_journal(struct temp_writer *writer)
{
    char path[SCOPE_PATH_MAX];

    path_in(writer->bucket, JOURNAL, path);
    temp_volume_remove(writer->volume, path);
}

static void advance(struct temp_writer *writer)
{
    const struct temp_change *fact = nth_fact(writer->commit, writer->facts_done);

    switch (writer->step) {
    case TEMP_STEP_NONE:
    case TEMP_STEP_END:
        test_die("the commit is over");
    case TEMP_STEP_LOCK:
        make_backups(writer);
        break;
    case TEMP_STEP_BACKUP:
        write_journal(writer, "prepared");
        break;
    case TEMP_STEP_JOURNAL:
    case TEMP_STEP_FACT:
        if (fact) {
            write_fact(writer, fact);
            writer->facts_done++;
            writer->step = TEMP_STEP_FACT;
            return;
        }
        write_manifest(writer);
        writer->step = TEMP_STEP_MANIFEST;
        return;
    case TEMP_STEP_MANIFEST:
        write_journal(writer, "committed");
        break;
    case TEMP_STEP_COMMITTED:
        temp_volume_remove(writer->volume, writer->recovery);
        break;
    case TEMP_STEP_CLEANED:
        remove_journal(writer);
        break;
    }
    writer->step++;
}

struct temp_writer *temp_writer_begin(struct temp_volume *volume, const struct temp_commit *commit)
{
    struct temp_writer *writer = calloc(1, sizeof *writer);
    unsigned char operation[OPERATION_BYTES];
    char name[SCOPE_NAME_MAX + 1];

    if (!writer || sodium_init() < 0)
        test_die("no memory for a writer");
    writer->volume = volume;
    writer->commit = commit;
    temp_volume_bucket_path(commit->user, writer->bucket);
    randombytes_buf(operation, sizeof operation);
    (void) sodium_bin2hex(writer->operation, sizeof writer->operation, operation, sizeof operation);
    (void) snprintf(name, sizeof name, ".recovery/%s", writer->operation);
    path_in(writer->bucket, name, writer->recovery);
    writer->lock_fd = temp_volume_lock(volume, commit->user, true);
    recover(volume, writer->bucket);
    writer->expected_revision = temp_volume_revision(volume, commit->user);
    writer->step = TEMP_STEP_LOCK;
    return writer;
}

void temp_writer_run(struct temp_writer *writer, enum temp_step step, unsigned number)
{
    while (writer->step != step || (step == TEMP_STEP_FACT && writer->facts_done != number))
        advance(writer);
}

int64_t temp_writer_finish(struct temp_writer **writer)
{
    int64_t revision = (*writer)->expected_revision + 1;

    temp_writer_run(*writer, TEMP_STEP_END, 0);
    temp_writer_abandon(writer);
    return revision;
}

void temp_writer_abandon(struct temp_writer **writer)
{
    cleanup_close(&(*writer)->lock_fd);
    free(*writer);
    *writer = NULL;
}

int64_t temp_volume_commit(struct temp_volume *volume, const struct temp_commit *commit)
{
    struct temp_writer *writer = temp_writer_begin(volume, commit);
    int64_t revision = writer->expected_revision + 1;

    if (commit->stop == TEMP_STEP_NONE)
        return temp_writer_finish(&writer);
    temp_writer_run(writer, commit->stop, commit->stop_number);
    temp_writer_abandon(&writer);
    return revision;
}

static int64_t commit_one(struct temp_volume *volume, const char *user, const char *agent,
                          enum temp_change_kind kind, const char *id, const char *text)
{
    const struct temp_change change = {.kind = kind, .id = id, .text = text};
    const struct temp_commit commit = {
        .user = user,
        .agent = agent,
        .summaries_only = kind == TEMP_SUMMARY,
        .changes = &change,
        .count = 1,
    };

    return temp_volume_commit(volume, &commit);
}

int64_t temp_volume_add(struct temp_volume *volume, const char *user, const char *agent,
                        const char *id, const char *text)
{
    return commit_one(volume, user, agent, TEMP_ADD, id, text);
}

int64_t temp_volume_update(struct temp_volume *volume, const char *user, const char *agent,
                           const char *id, const char *text)
{
    return commit_one(volume, user, agent, TEMP_UPDATE, id, text);
}

int64_t temp_volume_delete(struct temp_volume *volume, const char *user, const char *agent,
                           const char *id)
{
    return commit_one(volume, user, agent, TEMP_DELETE, id, NULL);
}

int64_t temp_volume_summary(struct temp_volume *volume, const char *user, const char *text)
{
    return commit_one(volume, user, NULL, TEMP_SUMMARY, NULL, text);
}

void temp_volume_fill(struct temp_volume *volume, const char *user, const char *agent,
                      const char *prefix, size_t count)
{
    char bucket[SCOPE_PATH_MAX];
    int lock_fd = temp_volume_lock(volume, user, true);

    temp_volume_bucket_path(user, bucket);
    recover(volume, bucket);
    for (size_t i = 0; i < count; i++) {
        char id[FACT_ID_MAX + 1];
        char text[FACT_ID_MAX + 64];

        (void) snprintf(id, sizeof id, "%s%04zu", prefix, i);
        (void) snprintf(text, sizeof text, "%s number %zu", prefix, i);
        const struct temp_change change = {.kind = TEMP_ADD, .id = id, .text = text};
        temp_volume_raw(volume, user, agent, &change, 1);
    }
    temp_manifest_put(volume, bucket, temp_volume_revision(volume, user) + 1, NULL);
    (void) close(lock_fd);
}
