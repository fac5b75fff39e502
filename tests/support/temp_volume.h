/* tests/support/temp_volume.h - a scratch volume, and a peer that writes to it.
 *
 * The peer is an implementation of its own (plain POSIX calls; only the paths come from
 * core/scope.h), so that core is checked against something else than itself. It commits as the
 * volume format says: lock, recovery, backups, journal, facts, manifest, `committed`, clean-up. It
 * does not fsync: nobody pulls the plug in a test. Every function works or aborts the program, so
 * tests need not check them. `user` NULL is the scope without a user, `agent` NULL the default one.
 *
 *     struct temp_volume *volume = temp_volume_create();
 *     temp_volume_add(volume, "u", "a", "f1", "one");
 *     ...
 *     temp_volume_destroy(&volume);
 *
 * A commit that stops half way, as a dead writer's, and one that is still alive:
 *
 *     struct temp_commit commit = {.user = "u", .agent = "a", .changes = changes, .count = 2,
 *                                  .stop = TEMP_STEP_MANIFEST};
 *     temp_volume_commit(volume, &commit);
 *
 *     struct temp_writer *writer = temp_writer_begin(volume, &commit);  (holds the lock)
 *     temp_writer_run(writer, TEMP_STEP_FACT, 1);
 *     ... the first fact is written, the manifest is not ...
 *     temp_writer_finish(&writer);    (or temp_writer_abandon(): the writer dies here)
 */
#ifndef MEMSYNC_TESTS_TEMP_VOLUME_H
#define MEMSYNC_TESTS_TEMP_VOLUME_H

#include "core/scope.h"

#include <limits.h>
#include <sys/types.h>

struct temp_volume;

/* An empty volume in a directory of its own below $TMPDIR. What lies beside the root, at
 * "../outside/", is on the same file system: for trees that are moved in and out. */
struct temp_volume *temp_volume_create(void);
/* One that lies in an existing directory, e.g. on a mount; it is not removed by destroy. */
struct temp_volume *temp_volume_create_at(const char *path);
void temp_volume_destroy(struct temp_volume **volume);
#define AUTO_TEMP_VOLUME CLEANUP(temp_volume_destroy)

const char *temp_volume_path(const struct temp_volume *volume);

/* A manifest of another name than memory.json, from here on. */
void temp_volume_set_manifest_name(struct temp_volume *volume, const char *name);

/* ---- commits ---- */

enum temp_change_kind {
    TEMP_ADD,
    TEMP_UPDATE, /* keeps title and creation time, one revision up */
    TEMP_DELETE,
    TEMP_SUMMARY, /* only `text` counts: workContext's summary; NULL: a new text of equal size */
};

struct temp_change {
    enum temp_change_kind kind;
    const char *id;
    const char *text;
    const char *category; /* NULL: context */
};

/* The steps of a commit, in their order. */
enum temp_step {
    TEMP_STEP_NONE,     /* no stop: to the end */
    TEMP_STEP_LOCK,     /* the lock is held, nothing else happened */
    TEMP_STEP_BACKUP,   /* backups are taken, there is no journal */
    TEMP_STEP_JOURNAL,  /* the journal says prepared */
    TEMP_STEP_FACT,     /* the nth fact is written or removed */
    TEMP_STEP_MANIFEST, /* the manifest is written, the journal still says prepared */
    TEMP_STEP_COMMITTED,
    TEMP_STEP_CLEANED, /* the backups are removed, the journal is still there */
    TEMP_STEP_END,     /* all done, and the lock is still held */
};

struct temp_commit {
    const char *user;
    const char *agent;
    bool summaries_only; /* the journal names no agent */
    const struct temp_change *changes;
    size_t count;
    enum temp_step stop;  /* for temp_volume_commit(): die after this step */
    unsigned stop_number; /* with TEMP_STEP_FACT: after which fact, from 1 */
};

/* Commits, or dies at `stop`. Returns the revision that it made, or would have made. */
int64_t temp_volume_commit(struct temp_volume *volume, const struct temp_commit *commit);

/* Commits of one change. */
int64_t temp_volume_add(struct temp_volume *volume, const char *user, const char *agent,
                        const char *id, const char *text);
int64_t temp_volume_update(struct temp_volume *volume, const char *user, const char *agent,
                           const char *id, const char *text);
int64_t temp_volume_delete(struct temp_volume *volume, const char *user, const char *agent,
                           const char *id);
int64_t temp_volume_summary(struct temp_volume *volume, const char *user, const char *text);

/* A commit that a test leads step by step. `commit` and what it points to must live as long. */
struct temp_writer;
struct temp_writer *temp_writer_begin(struct temp_volume *volume, const struct temp_commit *commit);
/* Goes on until `step` is done (with TEMP_STEP_FACT: the `number`th fact). */
void temp_writer_run(struct temp_writer *writer, enum temp_step step, unsigned number);
/* Does what is left and lets go of the lock; returns the new revision. */
int64_t temp_writer_finish(struct temp_writer **writer);
/* Lets go of the lock and leaves everything as it is. */
void temp_writer_abandon(struct temp_writer **writer);

/* Holds a user's lock without doing anything; returns the descriptor, to be closed. */
int temp_volume_lock(struct temp_volume *volume, const char *user, bool exclusive);

/* ---- the verbs of interleavings.json ---- */

/* `raw`: fact files change, the manifest does not. Without lock and journal. */
void temp_volume_raw(struct temp_volume *volume, const char *user, const char *agent,
                     const struct temp_change *changes, size_t count);

/* `freeze-clock`: from here on a manifest that is written keeps the file time and the size of the
 * one that it replaces (only inode and ctime differ). */
void temp_volume_freeze_clock(struct temp_volume *volume, bool frozen);

/* `touch`: a newer file time of the manifest, the same bytes. */
void temp_volume_touch(struct temp_volume *volume, const char *user);
/* `manifest`: written anew, one revision up. Returns the revision. */
int64_t temp_volume_write_manifest(struct temp_volume *volume, const char *user);
/* `rollback`: the manifest of the revision before comes back (removed when there was none). */
void temp_volume_rollback(struct temp_volume *volume, const char *user);
/* `restore`: the same bytes are written again, as another file. */
void temp_volume_restore(struct temp_volume *volume, const char *user);

/* `break`, `repair`: the manifest is no JSON, and comes back as the same file (its ctime moves). */
void temp_volume_break(struct temp_volume *volume, const char *user);
void temp_volume_repair(struct temp_volume *volume, const char *user);
/* `break-fact`, `repair-fact`: the same for one fact. */
void temp_volume_break_fact(struct temp_volume *volume, const char *user, const char *agent,
                            const char *id);
void temp_volume_repair_fact(struct temp_volume *volume, const char *user, const char *agent,
                             const char *id);

/* ---- other ways to fill it ---- */

/* A manifest of that revision with empty summaries, without any commit. */
void temp_volume_set_revision(struct temp_volume *volume, const char *user, int64_t revision);

/* Writes facts <prefix>0000, <prefix>0001, ... with the text "<prefix> number <n>" in one commit.
 */
void temp_volume_fill(struct temp_volume *volume, const char *user, const char *agent,
                      const char *prefix, size_t count);

/* The bytes of a fact file as the peer writes it; the caller frees them. */
char *temp_fact_render(const char *user, const char *agent, const struct temp_change *change,
                       const char *title, const char *created_at, int64_t revision);

/* Copies a directory's content into the root (e.g. of the shared volumes). */
void temp_volume_copy_in(struct temp_volume *volume, const char *directory);

/* ---- single files; paths are relative to the root ---- */

void temp_volume_file(const struct temp_volume *volume, const char *path, char ret[PATH_MAX]);
void temp_volume_fact_path(const char *user, const char *agent, const char *id,
                           char ret[SCOPE_PATH_MAX]);
void temp_volume_manifest_path(const struct temp_volume *volume, const char *user,
                               char ret[SCOPE_PATH_MAX]);
void temp_volume_bucket_path(const char *user, char ret[SCOPE_PATH_MAX]);

bool temp_volume_exists(const struct temp_volume *volume, const char *path);
char *temp_volume_read(const struct temp_volume *volume, const char *path, size_t *ret_size);
/* Replaces a file atomically; makes the directories above it. */
void temp_volume_write(struct temp_volume *volume, const char *path, const char *bytes,
                       size_t size);
void temp_volume_make_dir(struct temp_volume *volume, const char *path);
/* A file or a whole directory. */
void temp_volume_remove(struct temp_volume *volume, const char *path);
void temp_volume_rename(struct temp_volume *volume, const char *from, const char *to);
void temp_volume_set_mtime(struct temp_volume *volume, const char *path, uint64_t mtime_ns);
uint64_t temp_volume_mtime(const struct temp_volume *volume, const char *path);

/* Regular files below a directory ("." = all). */
size_t temp_volume_count_files(const struct temp_volume *volume, const char *path);

/* The manifest's revision; 0 when there is none. */
int64_t temp_volume_revision(const struct temp_volume *volume, const char *user);

#endif
