/* core/volume_recover.h: a commit that stopped half way (f_old changed, f_new added, f_del deleted,
 * revision 7 to 8), met by recoveries that are killed, refused, delayed or too late. */
#include "core/volume_recover.h"

#include "core/clock.h"
#include "core/pause_point.h"
#include "core/volume_private.h"
#include "tests/support/child.h"
#include "tests/unit/volume_fixture.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/file.h>
#include <sys/wait.h>

#define BUCKET "users/u1"
#define OPERATION "0f1e2d3c"
#define BACKUPS BUCKET "/.recovery/" OPERATION
#define RETIRED BACKUPS ".done" /* what the backups are called while they are removed */
#define JOURNAL_PATH BUCKET "/" JOURNAL_NAME
#define LOCK_PATH BUCKET "/" JOURNAL_LOCK_NAME
#define MANIFEST_PATH BUCKET "/memory.json"

#define MANIFEST_OLD "{\"version\": \"2.0\", \"revision\": 7}"
#define MANIFEST_NEW "{\"version\": \"2.0\", \"revision\": 8}"
#define FACT_OLD "---\nid: f_old\n---\n\n# before\n"
#define FACT_CHANGED "---\nid: f_old\n---\n\n# after\n"
#define FACT_NEW "---\nid: f_new\n---\n\n# new\n"
#define FACT_DELETED "---\nid: f_del\n---\n\n# deleted\n"

/* ---- a table of calls that counts what changes the volume, and dies or fails there ---- */

static struct {
    unsigned changes; /* so far */
    unsigned kill_at; /* 0: never; 1: before the first one */
    unsigned fail_at; /* 0: never */
    int sys_errno;
    unsigned lost_lookups; /* names that were opened and were not there */
} meter;

/* True when this change is to fail; errno is set then. */
static bool change_fails(void)
{
    meter.changes++;
    if (meter.changes == meter.kill_at)
        (void) raise(SIGKILL);
    if (meter.changes != meter.fail_at)
        return false;
    errno = meter.sys_errno;
    return true;
}

static int metered_open(int dir_fd, const char *path, int flags, mode_t mode)
{
    if (flags & O_CREAT && strcmp(path, JOURNAL_LOCK_NAME) != 0 && change_fails())
        return -1;
    int fd = volume_real_calls()->open_beneath(dir_fd, path, flags, mode);
    if (fd < 0 && errno == ENOENT)
        meter.lost_lookups++;
    return fd;
}

static ssize_t metered_write(int fd, const void *bytes, size_t size)
{
    return change_fails() ? -1 : write(fd, bytes, size);
}

static int metered_sync(int fd)
{
    return change_fails() ? -1 : fsync(fd);
}

static int metered_rename(int from_dir_fd, const char *from, int to_dir_fd, const char *to)
{
    return change_fails() ? -1 : renameat(from_dir_fd, from, to_dir_fd, to);
}

static int metered_unlink(int dir_fd, const char *name, int flags)
{
    return change_fails() ? -1 : unlinkat(dir_fd, name, flags);
}

static int metered_mkdir(int dir_fd, const char *name, mode_t mode)
{
    return change_fails() ? -1 : mkdirat(dir_fd, name, mode);
}

/* ---- fixture ---- */

static char dir[SCRATCH_SIZE];
static struct volume_calls calls;
static struct volume *volume;
static struct volume_lock_table *locks;
static struct volume_recovery *recovery;
static struct scope scope;
static struct error error;

static void open_recovery(bool locks_reach_all_nodes)
{
    struct volume_recovery_options options = {.locks_reach_all_nodes = locks_reach_all_nodes,
                                              .grace_ns = 60 * NS_PER_SECOND,
                                              .manifest_name = "memory.json"};

    volume_recovery_destroy(&recovery);
    cr_assert(eq(int, volume_recovery_create(&options, &recovery), STATUS_OK));
}

static void open_volume(enum volume_kind *kind)
{
    struct volume_options options = {.path = dir, .calls = &calls, .force_kind = kind};

    volume_close(&volume);
    cr_assert(eq(int, volume_open(&options, &volume, NULL), STATUS_OK));
}

static void set_up(void)
{
    calls = *volume_real_calls();
    calls.open_beneath = metered_open;
    calls.write = metered_write;
    calls.sync = metered_sync;
    calls.rename = metered_rename;
    calls.unlink = metered_unlink;
    calls.mkdir = metered_mkdir;
    scratch_create(dir);
    open_volume(NULL);
    open_recovery(true);
    cr_assert(eq(int, volume_lock_table_create(&locks), STATUS_OK));
    cr_assert(eq(int, scope_create("u1", "a", &scope, NULL), STATUS_OK));
}

static void tear_down(void)
{
    volume_recovery_destroy(&recovery);
    volume_lock_table_destroy(&locks);
    volume_close(&volume);
    scratch_remove(dir);
}

TestSuite(volume_recover, .init = set_up, .fini = tear_down, .timeout = 120);

/* Where a fact lies; valid until the next call. */
static const char *place(const char *id)
{
    static char path[PATH_MAX];
    char shard[3];

    fact_id_shard(id, shard);
    (void) snprintf(path, sizeof path, BUCKET "/agents/a/facts/%s/%s.md", shard, id);
    return path;
}

static void put_journal(const char *operation, const char *state, int expected_revision)
{
    char text[2048];
    char old_shard[3];
    char deleted_shard[3];

    fact_id_shard("f_old", old_shard);
    fact_id_shard("f_del", deleted_shard);
    (void) snprintf(text, sizeof text,
                    "{\"operationId\": \"%s\", \"state\": \"%s\", \"agentName\": \"a\","
                    " \"expectedRevision\": %d, \"nextRevision\": %d,"
                    " \"factIds\": [\"f_old\", \"f_new\", \"f_del\"], \"oldEntries\": {"
                    "\"f_old\": {\"path\": \"agents/a/facts/%s/f_old.md\"},"
                    " \"f_del\": {\"path\": \"agents/a/facts/%s/f_del.md\"}}}",
                    operation, state, expected_revision, expected_revision + 1, old_shard,
                    deleted_shard);
    put_file(dir, JOURNAL_PATH, text);
}

static void remove_path(const char *path)
{
    char whole[PATH_MAX];

    cr_assert(zero(int, remove(joined(whole, dir, path))), "%s", path);
}

/* The state before the commit. */
static void put_old_state(void)
{
    put_file(dir, MANIFEST_PATH, MANIFEST_OLD);
    put_file(dir, place("f_keep"), "kept");
    put_file(dir, place("f_old"), FACT_OLD);
    put_file(dir, place("f_del"), FACT_DELETED);
}

/* Everything was written, the manifest too, when the writer died. */
static void put_crash(void)
{
    put_old_state();
    put_file(dir, BACKUPS "/memory.json", MANIFEST_OLD);
    put_file(dir, BACKUPS "/f_old.md", FACT_OLD);
    put_file(dir, BACKUPS "/f_del.md", FACT_DELETED);
    put_journal(OPERATION, "prepared", 7);
    put_file(dir, place("f_old"), FACT_CHANGED);
    put_file(dir, place("f_new"), FACT_NEW);
    remove_path(place("f_del"));
    put_file(dir, MANIFEST_PATH, MANIFEST_NEW);
}

static bool facts_are_old(void)
{
    return file_is(dir, place("f_old"), FACT_OLD) && file_is(dir, place("f_del"), FACT_DELETED) &&
           file_is(dir, place("f_keep"), "kept") && !has_file(dir, place("f_new"));
}

static bool is_rolled_back(void)
{
    return facts_are_old() && file_is(dir, MANIFEST_PATH, MANIFEST_OLD) &&
           !has_file(dir, JOURNAL_PATH) && !has_file(dir, BACKUPS) && !has_file(dir, RETIRED);
}

static void clear_bucket(void)
{
    char path[PATH_MAX];

    scratch_remove(joined(path, dir, BUCKET));
}

static enum status recover(uint64_t deadline_ns, enum recover_outcome *ret)
{
    return volume_recover(recovery, locks, volume, &scope, deadline_ns, ret, &error);
}

/* Expects a verdict. */
static enum recover_outcome outcome_of_recovery(void)
{
    enum recover_outcome outcome = RECOVER_NOTHING;

    cr_assert(eq(int, recover(clock_deadline_ms(5000), &outcome), STATUS_OK), "%s: %s", error.path,
              error.message);
    return outcome;
}

/* ---- the rule ---- */

Test(volume_recover, a_dead_writers_change_is_taken_back)
{
    put_crash();
    cr_expect(eq(int, outcome_of_recovery(), RECOVER_ROLLED_BACK));
    cr_expect(is_rolled_back());
    cr_expect(eq(int, outcome_of_recovery(), RECOVER_NOTHING));
    cr_expect(is_rolled_back());
}

Test(volume_recover, a_committed_change_stays_and_its_traces_go)
{
    put_crash();
    put_journal(OPERATION, "committed", 7);
    cr_expect(eq(int, outcome_of_recovery(), RECOVER_NOTHING));
    cr_expect(file_is(dir, MANIFEST_PATH, MANIFEST_NEW));
    cr_expect(file_is(dir, place("f_old"), FACT_CHANGED));
    cr_expect(has_file(dir, place("f_new")));
    cr_expect(not(has_file(dir, JOURNAL_PATH)));
    cr_expect(not(has_file(dir, BACKUPS)));
}

static int refuse_unlink(int dir_fd, const char *name, int flags)
{
    (void) dir_fd;
    (void) name;
    (void) flags;
    errno = EACCES;
    return -1;
}

/* The change stands; that its traces stay is nothing to tell a reader. */
Test(volume_recover, a_committed_change_stands_though_its_traces_cannot_go)
{
    put_crash();
    put_journal(OPERATION, "committed", 7);
    calls.unlink = refuse_unlink;
    cr_expect(eq(int, outcome_of_recovery(), RECOVER_NOTHING));
    cr_expect(same_text(error.message, ""));
    cr_expect(file_is(dir, MANIFEST_PATH, MANIFEST_NEW));
    calls.unlink = metered_unlink;
    cr_expect(eq(int, outcome_of_recovery(), RECOVER_NOTHING));
    cr_expect(not(has_file(dir, JOURNAL_PATH)));
}

static int rename_and_lose_journal(int from_dir_fd, const char *from, int to_dir_fd, const char *to)
{
    int result = renameat(from_dir_fd, from, to_dir_fd, to);

    if (strstr(to, ".md"))
        remove_path(JOURNAL_PATH);
    return result;
}

/* Where the lock locks nobody out: each file is a step, and before each it looks. */
Test(volume_recover, who_finds_the_journal_gone_meanwhile_changes_nothing_more)
{
    enum recover_outcome outcome;

    put_crash();
    calls.rename = rename_and_lose_journal;
    cr_expect(eq(int, recover(clock_deadline_ms(5000), &outcome), STATUS_STALE));
    cr_expect(same_text(error.message, "somebody else deals with the unfinished commit"));
    cr_expect(file_is(dir, place("f_del"), FACT_DELETED), "the first of them");
    cr_expect(file_is(dir, place("f_old"), FACT_CHANGED));
    cr_expect(has_file(dir, place("f_new")));
    cr_expect(file_is(dir, MANIFEST_PATH, MANIFEST_NEW));
}

Test(volume_recover, without_a_bucket_or_a_journal_there_is_nothing_to_do)
{
    cr_expect(eq(int, outcome_of_recovery(), RECOVER_NOTHING));
    put_old_state();
    cr_expect(eq(int, outcome_of_recovery(), RECOVER_NOTHING));
    cr_expect(not(has_file(dir, LOCK_PATH))); /* not even a lock was taken */
}

Test(volume_recover, shards_that_went_away_are_made_again)
{
    char shard[PATH_MAX];
    char whole[PATH_MAX];
    struct stat status;

    put_crash();
    (void) snprintf(shard, sizeof shard, "%s", place("f_del"));
    *strrchr(shard, '/') = '\0';
    remove_path(shard);
    cr_expect(eq(int, outcome_of_recovery(), RECOVER_ROLLED_BACK));
    cr_expect(is_rolled_back());
    cr_assert(zero(int, stat(joined(whole, dir, shard), &status)));
    cr_expect(eq(u32, status.st_mode & 07777, 0755));
}

Test(volume_recover, a_first_commit_leaves_no_manifest)
{
    put_journal(OPERATION, "prepared", 0);
    put_file(dir, BACKUPS "/f_old.md", FACT_OLD); /* facts without a manifest */
    put_file(dir, BACKUPS "/f_del.md", FACT_DELETED);
    put_file(dir, place("f_keep"), "kept");
    put_file(dir, place("f_new"), FACT_NEW);
    put_file(dir, MANIFEST_PATH, "{\"revision\": 1}");
    cr_expect(eq(int, outcome_of_recovery(), RECOVER_ROLLED_BACK));
    cr_expect(facts_are_old());
    cr_expect(not(has_file(dir, MANIFEST_PATH)));
}

/* ---- killed and failing ---- */

/* Recovers in a process of its own, which dies as the meter or a pause point says; true when it
 * was killed. */
static bool recover_in_child(void)
{
    int status = 0;
    pid_t pid = fork();

    cr_assert(ge(int, pid, 0));
    if (pid == 0) {
        enum recover_outcome outcome;
        child_exit(recover(clock_deadline_ms(5000), &outcome) == STATUS_OK ? 0 : 1);
    }
    cr_assert(eq(int, waitpid(pid, &status, 0), pid));
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

/* A reader that sees the old manifest must see the old facts. And backups are there as a whole or
 * not at all: a peer that finds some of them takes the rest for lost. */
static void check_order(const char *where, unsigned nth)
{
    if (has_file(dir, JOURNAL_PATH) && has_file(dir, BACKUPS))
        cr_expect(file_is(dir, BACKUPS "/memory.json", MANIFEST_OLD) &&
                      file_is(dir, BACKUPS "/f_old.md", FACT_OLD) &&
                      file_is(dir, BACKUPS "/f_del.md", FACT_DELETED),
                  "%s %u: some backups went before the others", where, nth);
    if (file_is(dir, MANIFEST_PATH, MANIFEST_OLD))
        cr_expect(facts_are_old(), "%s %u: the manifest came before the facts", where, nth);
}

Test(volume_recover, a_recovery_killed_at_any_pause_point_is_finished_by_the_next)
{
    const struct {
        enum pause_point point;
        unsigned times;
    } cases[] = {
        {PAUSE_RECOVER_AFTER_LOCK, 1},      {PAUSE_RECOVER_AFTER_FACT, 3},
        {PAUSE_RECOVER_BEFORE_MANIFEST, 1}, {PAUSE_RECOVER_AFTER_MANIFEST, 1},
        {PAUSE_RECOVER_BEFORE_REMOVAL, 1},  {PAUSE_RECOVER_BEFORE_JOURNAL, 1},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        for (unsigned nth = 1; nth <= cases[i].times + 1; nth++) {
            const char *name = pause_point_name(cases[i].point);
            put_crash();
            pause_reset();
            pause_kill_at(cases[i].point, nth);
            bool killed = recover_in_child();
            pause_reset();
            cr_expect(eq(int, killed, nth <= cases[i].times), "%s %u", name, nth);
            check_order(name, nth);
            cr_expect(eq(int, outcome_of_recovery(),
                         killed ? RECOVER_ROLLED_BACK : RECOVER_NOTHING),
                      "%s %u", name, nth);
            cr_expect(is_rolled_back(), "%s %u", name, nth);
            clear_bucket();
        }
    }
}

Test(volume_recover, a_recovery_killed_before_any_single_change_is_finished_by_the_next)
{
    unsigned kills = 0;

    for (bool killed = true; killed;) {
        put_crash();
        meter.changes = 0;
        meter.kill_at = kills + 1;
        killed = recover_in_child();
        meter.kill_at = 0;
        kills += killed;
        check_order("change", kills);
        (void) outcome_of_recovery();
        cr_expect(is_rolled_back(), "killed at change %u", kills);
        clear_bucket();
        cr_assert(lt(u32, kills, 500));
    }
    cr_expect(gt(u32, kills, 20));
}

Test(volume_recover, a_change_that_fails_is_told_and_made_up_for)
{
    static const int errors[] = {EIO, ENOSPC, EROFS};

    for (size_t i = 0; i < ARRAY_SIZE(errors); i++) {
        bool failed = true;
        for (unsigned nth = 1; failed; nth++) {
            enum recover_outcome outcome = RECOVER_WAITING;
            put_crash();
            meter.changes = 0;
            meter.fail_at = nth;
            meter.sys_errno = errors[i];
            enum status status = recover(clock_deadline_ms(5000), &outcome);
            failed = meter.changes >= nth;
            meter.fail_at = 0;
            bool told = status != STATUS_OK || outcome == RECOVER_IMPOSSIBLE;
            cr_expect(eq(int, told, failed), "errno %d at change %u", errors[i], nth);
            check_order("failed change", nth);
            (void) outcome_of_recovery();
            cr_expect(is_rolled_back(), "errno %d at change %u", errors[i], nth);
            clear_bucket();
            cr_assert(lt(u32, nth, 500));
        }
    }
}

/* ---- what cannot be done is not begun ---- */

static void lose_a_fact(void)
{
    remove_path(BACKUPS "/f_del.md");
}

static void lose_the_manifest(void)
{
    remove_path(BACKUPS "/memory.json");
}

static void lose_all(void)
{
    remove_path(BACKUPS "/memory.json");
    remove_path(BACKUPS "/f_old.md");
    remove_path(BACKUPS "/f_del.md");
    remove_path(BACKUPS);
}

static void empty_a_fact(void)
{
    put_file(dir, BACKUPS "/f_old.md", "");
}

static void spoil_the_manifest(void)
{
    put_file(dir, BACKUPS "/memory.json", "{\"revision\": ");
}

static void swap_the_manifest(void)
{
    put_file(dir, BACKUPS "/memory.json", "{\"revision\": 5}");
}

static void spoil_the_journal(void)
{
    put_journal("..", "prepared", 7);
}

/* The fact was changed, the manifest not yet: it is not settled although it looks old. */
static void lose_one_before_the_manifest(void)
{
    put_file(dir, MANIFEST_PATH, MANIFEST_OLD);
    put_file(dir, place("f_del"), FACT_DELETED);
    remove_path(place("f_new"));
    remove_path(BACKUPS "/f_del.md");
}

static void empty_one_before_the_manifest(void)
{
    lose_one_before_the_manifest();
    put_file(dir, BACKUPS "/f_del.md", "");
}

Test(volume_recover, what_cannot_be_trusted_or_is_lost_stays_as_it_is)
{
    void (*const changes[])(void) = {
        lose_a_fact,
        lose_the_manifest,
        lose_all,
        empty_a_fact,
        spoil_the_manifest,
        swap_the_manifest,
        spoil_the_journal,
        lose_one_before_the_manifest,
        empty_one_before_the_manifest,
    };

    for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
        put_crash();
        changes[i]();
        AUTO_FREE char *before = tree_digest(dir);
        cr_expect(eq(int, outcome_of_recovery(), RECOVER_IMPOSSIBLE), "row %zu", i);
        cr_expect(same_text(error.path, JOURNAL_PATH), "row %zu", i);
        cr_expect(eq(int, error.status, STATUS_CORRUPT), "row %zu", i);
        AUTO_FREE char *after = tree_digest(dir);
        cr_expect(eq(str, after, before), "row %zu", i);
        clear_bucket();
    }
}

Test(volume_recover, a_manifest_of_somebody_else_is_not_removed)
{
    put_journal(OPERATION, "prepared", 0);
    put_file(dir, BACKUPS "/f_old.md", FACT_OLD);
    put_file(dir, BACKUPS "/f_del.md", FACT_DELETED);
    put_file(dir, MANIFEST_PATH, "{\"revision\": 5}"); /* neither none nor the change's own */
    AUTO_FREE char *before = tree_digest(dir);
    cr_expect(eq(int, outcome_of_recovery(), RECOVER_IMPOSSIBLE));
    AUTO_FREE char *after = tree_digest(dir);
    cr_expect(eq(str, after, before));
}

Test(volume_recover, a_recovery_that_had_only_traces_left_is_finished)
{
    put_old_state();
    put_journal(OPERATION, "prepared", 7);
    put_file(dir, BACKUPS "/memory.json", MANIFEST_OLD); /* the facts' backups went first */
    cr_expect(eq(int, outcome_of_recovery(), RECOVER_ROLLED_BACK));
    cr_expect(is_rolled_back());
}

Test(volume_recover, a_read_only_volume_is_left_alone)
{
    enum recover_outcome outcome = RECOVER_NOTHING;

    put_crash();
    put_file(dir, LOCK_PATH, "");
    AUTO_FREE char *before = tree_digest(dir);
    meter.changes = 0;
    meter.fail_at = 1;
    meter.sys_errno = EROFS;
    cr_expect(eq(int, recover(0, &outcome), STATUS_OK));
    cr_expect(eq(int, outcome, RECOVER_IMPOSSIBLE));
    cr_expect(eq(int, error.status, STATUS_DENIED));
    AUTO_FREE char *after = tree_digest(dir);
    cr_expect(eq(str, after, before));
}

Test(volume_recover, without_the_right_nothing_is_begun)
{
    char path[PATH_MAX];
    int status = 0;

    if (geteuid() != 0) {
        printf("skipped: only root can become somebody without rights\n");
        return;
    }
    put_crash();
    put_file(dir, LOCK_PATH, "");
    cr_assert(zero(int, chmod(dir, 0755)));
    cr_assert(zero(int, chmod(joined(path, dir, LOCK_PATH), 0666)));
    AUTO_FREE char *before = tree_digest(dir);
    pid_t pid = fork();
    cr_assert(ge(int, pid, 0));
    if (pid == 0) {
        enum recover_outcome outcome = RECOVER_NOTHING;
        if (setgid(65534) < 0 || setuid(65534) < 0)
            _exit(1);
        _exit(recover(0, &outcome) == STATUS_OK && outcome == RECOVER_IMPOSSIBLE ? 0 : 2);
    }
    cr_assert(eq(int, waitpid(pid, &status, 0), pid));
    cr_expect(zero(int, status));
    AUTO_FREE char *after = tree_digest(dir);
    cr_expect(eq(str, after, before));
}

static int refuse_lock(int fd, int operation)
{
    (void) fd;
    (void) operation;
    errno = ENOLCK;
    return -1;
}

Test(volume_recover, where_locks_are_refused_only_committed_changes_are_settled)
{
    put_crash();
    calls.lock = refuse_lock;
    AUTO_FREE char *before = tree_digest(dir);
    cr_expect(eq(int, outcome_of_recovery(), RECOVER_IMPOSSIBLE));
    cr_expect(eq(int, error.status, STATUS_UNSUPPORTED));
    cr_expect(same_text(error.path, LOCK_PATH));
    AUTO_FREE char *after = tree_digest(dir);
    cr_expect(eq(str, after, before));

    put_journal(OPERATION, "committed", 7);
    cr_expect(eq(int, outcome_of_recovery(), RECOVER_NOTHING));
    cr_expect(has_file(dir, JOURNAL_PATH));
}

static ssize_t failing_list(int fd, void *bytes, size_t size)
{
    (void) fd;
    (void) bytes;
    (void) size;
    errno = EIO;
    return -1;
}

Test(volume_recover, a_fault_of_the_volume_is_no_verdict)
{
    enum recover_outcome outcome = RECOVER_WAITING;

    put_crash();
    calls.list = failing_list;
    cr_expect(eq(int, recover(0, &outcome), STATUS_IO));
    cr_expect(eq(int, outcome, RECOVER_WAITING)); /* untouched */
    calls.list = volume_real_calls()->list;
    cr_expect(eq(int, outcome_of_recovery(), RECOVER_ROLLED_BACK));
}

Test(volume_recover, leftovers_of_nfs_do_not_stop_it_and_a_later_pass_sweeps)
{
    put_crash();
    put_file(dir, BACKUPS "/.nfs0000000012345678", "held open elsewhere");
    cr_expect(eq(int, outcome_of_recovery(), RECOVER_ROLLED_BACK));
    cr_expect(not(has_file(dir, JOURNAL_PATH)));
    cr_expect(not(has_file(dir, BACKUPS)));
    cr_expect(not(has_file(dir, RETIRED "/memory.json")));
    cr_expect(has_file(dir, RETIRED));

    remove_path(RETIRED "/.nfs0000000012345678"); /* its client has closed it */
    put_dir(dir, BUCKET "/.recovery/full");
    put_file(dir, BUCKET "/.recovery/full/f_x.md", "an orphan that is not ours to judge");
    put_journal("another", "committed", 7);
    cr_expect(eq(int, outcome_of_recovery(), RECOVER_NOTHING));
    cr_expect(not(has_file(dir, RETIRED)));
    cr_expect(has_file(dir, BUCKET "/.recovery/full/f_x.md"));
}

Test(volume_recover, what_its_writer_had_not_renamed_goes_too)
{
    char changed[PATH_MAX], added[PATH_MAX], other[PATH_MAX];
    const char *const suffix = "00112233445566778899aabbccddeeff.tmp";
    const char *slash = strrchr(place("f_old"), '/');

    (void) snprintf(changed, sizeof changed, "%.*s/.f_old.md.%s", (int) (slash - place("f_old")),
                    place("f_old"), suffix);
    slash = strrchr(place("f_new"), '/');
    (void) snprintf(added, sizeof added, "%.*s/.f_new.md.%s", (int) (slash - place("f_new")),
                    place("f_new"), suffix);
    (void) snprintf(other, sizeof other, "%.*s/.f_other.md.%s", (int) (slash - place("f_new")),
                    place("f_new"), suffix);
    for (int reach = 0; reach <= 1; reach++) {
        put_crash();
        remove_path(place("f_new"));
        put_file(dir, changed, "half");
        put_file(dir, added, "half");
        put_file(dir, other, "of somebody else");
        open_recovery(reach);
        if (!reach) {
            cr_expect(eq(int, outcome_of_recovery(), RECOVER_WAITING));
            clock_advance_for_test(61 * NS_PER_SECOND);
        }
        cr_expect(eq(int, outcome_of_recovery(), RECOVER_ROLLED_BACK));
        cr_expect(is_rolled_back());
        cr_expect(not(has_file(dir, changed)));
        cr_expect(not(has_file(dir, added)));
        cr_expect(has_file(dir, other));
        clear_bucket();
    }
}

/* ---- live writers ---- */

/* Somebody else's lock: another open file of this process counts as such for flock. */
static int hold_lock(void)
{
    char path[PATH_MAX];

    put_file(dir, LOCK_PATH, "");
    int fd = open(joined(path, dir, LOCK_PATH), O_RDWR | O_CLOEXEC);
    cr_assert(zero(int, flock(fd, LOCK_EX)));
    return fd;
}

Test(volume_recover, a_held_lock_means_a_live_writer)
{
    enum recover_outcome outcome = RECOVER_NOTHING;

    put_crash();
    AUTO_CLOSE int fd = hold_lock();
    cr_assert(ge(int, fd, 0));
    AUTO_FREE char *before = tree_digest(dir);
    uint64_t before_ns = clock_monotonic_ns();
    cr_expect(eq(int, recover(clock_deadline_ms(80), &outcome), STATUS_OK));
    cr_expect(eq(int, outcome, RECOVER_LIVE_WRITER));
    cr_expect(ge(u64, clock_monotonic_ns() - before_ns, 80 * NS_PER_MS));
    AUTO_FREE char *after = tree_digest(dir);
    cr_expect(eq(str, after, before));

    put_journal(OPERATION, "committed", 7);
    before_ns = clock_monotonic_ns();
    cr_expect(eq(int, recover(clock_deadline_ms(60000), &outcome), STATUS_OK));
    cr_expect(eq(int, outcome, RECOVER_NOTHING)); /* and is not waited for */
    cr_expect(lt(u64, clock_monotonic_ns() - before_ns, 30 * NS_PER_SECOND));
    cr_expect(has_file(dir, JOURNAL_PATH));
}

static void *recover_in_thread(void *argument)
{
    enum recover_outcome *outcome = argument;
    struct error mine;

    if (volume_recover(recovery, locks, volume, &scope, clock_deadline_ms(20000), outcome, &mine) !=
        STATUS_OK)
        *outcome = RECOVER_IMPOSSIBLE;
    return NULL;
}

static void commit_journal(void)
{
    put_journal(OPERATION, "committed", 7);
}

static void remove_journal(void)
{
    remove_path(JOURNAL_PATH);
}

Test(volume_recover, the_journal_that_counts_is_the_one_under_the_lock)
{
    void (*const changes[])(void) = {commit_journal, remove_journal};

    for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
        enum recover_outcome outcome = RECOVER_WAITING;
        pthread_t thread;

        put_crash();
        pause_reset();
        pause_arm(PAUSE_RECOVER_AFTER_LOCK);
        cr_assert(zero(int, pthread_create(&thread, NULL, recover_in_thread, &outcome)));
        cr_assert(pause_wait_reached(PAUSE_RECOVER_AFTER_LOCK, 20000));
        changes[i](); /* the writer was alive after all, and has finished */
        pause_release(PAUSE_RECOVER_AFTER_LOCK);
        cr_assert(zero(int, pthread_join(thread, NULL)));
        cr_expect(eq(int, outcome, RECOVER_NOTHING), "row %zu", i);
        cr_expect(file_is(dir, MANIFEST_PATH, MANIFEST_NEW), "row %zu", i);
        cr_expect(file_is(dir, place("f_old"), FACT_CHANGED), "row %zu", i);
        clear_bucket();
    }
}

Test(volume_recover, two_threads_take_a_change_back_once)
{
    enum recover_outcome outcomes[2] = {RECOVER_WAITING, RECOVER_WAITING};
    pthread_t threads[2];

    put_crash();
    pause_reset();
    pause_arm(PAUSE_RECOVER_BEFORE_MANIFEST);
    cr_assert(zero(int, pthread_create(&threads[0], NULL, recover_in_thread, &outcomes[0])));
    cr_assert(pause_wait_reached(PAUSE_RECOVER_BEFORE_MANIFEST, 20000));
    cr_assert(zero(int, pthread_create(&threads[1], NULL, recover_in_thread, &outcomes[1])));
    pause_release(PAUSE_RECOVER_BEFORE_MANIFEST);
    for (size_t i = 0; i < 2; i++)
        cr_assert(zero(int, pthread_join(threads[i], NULL)));
    cr_expect(eq(int, outcomes[0], RECOVER_ROLLED_BACK));
    cr_expect(eq(int, outcomes[1], RECOVER_NOTHING));
    cr_expect(is_rolled_back());
}

/* ---- where locks do not lock ---- */

/* A recovery that is held up before its `hold_at`th change to a name. */
static struct {
    unsigned hold_at;
    unsigned names; /* changes so far */
    atomic_bool is_held;
    atomic_bool may_go;
} late;
static _Thread_local bool is_late;

static void be_late(void)
{
    if (!is_late || ++late.names != late.hold_at)
        return;
    atomic_store(&late.is_held, true);
    while (!atomic_load(&late.may_go))
        (void) usleep(1000);
}

static int late_rename(int from_dir_fd, const char *from, int to_dir_fd, const char *to)
{
    be_late();
    return renameat(from_dir_fd, from, to_dir_fd, to);
}

static int late_unlink(int dir_fd, const char *name, int flags)
{
    be_late();
    return unlinkat(dir_fd, name, flags);
}

static int no_lock(int fd, int operation)
{
    (void) fd;
    (void) operation;
    return 0;
}

static void *recover_late(void *argument)
{
    atomic_bool *ended = argument;
    enum recover_outcome ignored;
    struct error mine;

    is_late = true;
    (void) !volume_recover(recovery, locks, volume, &scope, clock_deadline_ms(20000), &ignored,
                           &mine);
    atomic_store(ended, true);
    return NULL;
}

/* What another node does: takes the change back, and commits one of its own. */
static void recover_and_commit_elsewhere(void)
{
    struct volume_recovery *own_recovery = recovery;
    struct volume_lock_table *own_locks = locks;

    recovery = NULL;
    open_recovery(true);
    cr_assert(eq(int, volume_lock_table_create(&locks), STATUS_OK));
    cr_expect(eq(int, outcome_of_recovery(), RECOVER_ROLLED_BACK), "name %u", late.hold_at);
    volume_recovery_destroy(&recovery);
    volume_lock_table_destroy(&locks);
    recovery = own_recovery;
    locks = own_locks;
    put_file(dir, place("f_old"), "newer");
    put_file(dir, place("f_del"), "newer");
    put_file(dir, place("f_new"), "newer");
    put_file(dir, MANIFEST_PATH, "newer");
}

static bool is_newer(void)
{
    return file_is(dir, place("f_old"), "newer") && file_is(dir, place("f_del"), "newer") &&
           file_is(dir, place("f_new"), "newer") && file_is(dir, MANIFEST_PATH, "newer");
}

/* Two nodes take the same change back; one is held up at any moment, and goes on when the other has
 * long been through, and others have committed since. */
Test(volume_recover, a_recovery_that_comes_too_late_changes_nothing)
{
    bool was_held = true;

    calls.rename = late_rename;
    calls.unlink = late_unlink;
    calls.lock = no_lock;
    for (unsigned nth = 1; was_held; nth++) {
        atomic_bool ended = false;
        pthread_t thread;

        put_crash();
        late.hold_at = nth;
        late.names = 0;
        atomic_store(&late.is_held, false);
        atomic_store(&late.may_go, false);
        cr_assert(zero(int, pthread_create(&thread, NULL, recover_late, &ended)));
        while (!atomic_load(&late.is_held) && !atomic_load(&ended))
            (void) usleep(1000);
        was_held = atomic_load(&late.is_held);
        bool is_over = !has_file(dir, JOURNAL_PATH);
        if (was_held && !is_over)
            recover_and_commit_elsewhere();
        atomic_store(&late.may_go, true);
        cr_assert(zero(int, pthread_join(thread, NULL)));
        if (was_held && !is_over)
            cr_expect(is_newer(), "held up before name %u", nth);
        clear_bucket();
        cr_assert(lt(u32, nth, 100));
    }
}

/* ---- where locks may not reach the writer ---- */

Test(volume_recover, a_journal_must_stand_unchanged_for_the_grace_time)
{
    open_recovery(false);
    put_crash();
    cr_expect(eq(int, outcome_of_recovery(), RECOVER_WAITING));
    clock_advance_for_test(59 * NS_PER_SECOND);
    cr_expect(eq(int, outcome_of_recovery(), RECOVER_WAITING));
    cr_expect(file_is(dir, MANIFEST_PATH, MANIFEST_NEW));
    clock_advance_for_test(2 * NS_PER_SECOND);
    cr_expect(eq(int, outcome_of_recovery(), RECOVER_ROLLED_BACK));
    cr_expect(is_rolled_back());
}

static void replace_journal(void)
{
    char from[PATH_MAX];
    char to[PATH_MAX];
    size_t size = 0;
    AUTO_FREE char *bytes = get_file(dir, JOURNAL_PATH, &size);

    put_file(dir, BUCKET "/other", bytes);
    cr_assert(zero(int, rename(joined(from, dir, BUCKET "/other"), joined(to, dir, JOURNAL_PATH))));
}

/* The same inode with another ctime, however coarse the clock is. */
static void touch_journal(void)
{
    char path[PATH_MAX];
    struct stat before;
    struct stat after;

    cr_assert(zero(int, stat(joined(path, dir, JOURNAL_PATH), &before)));
    do {
        cr_assert(zero(int, utimensat(AT_FDCWD, path, NULL, 0)));
        cr_assert(zero(int, stat(path, &after)));
    } while (after.st_ctim.tv_sec == before.st_ctim.tv_sec &&
             after.st_ctim.tv_nsec == before.st_ctim.tv_nsec);
    cr_assert(eq(u64, after.st_ino, before.st_ino));
}

static void rename_operation(void)
{
    char from[PATH_MAX];
    char to[PATH_MAX];

    put_journal("0f1e2d3d", "prepared", 7);
    cr_assert(zero(int, rename(joined(from, dir, BACKUPS),
                               joined(to, dir, BUCKET "/.recovery/0f1e2d3d"))));
}

static void let_it_go_and_come_back(void)
{
    remove_path(JOURNAL_PATH);
    cr_expect(eq(int, outcome_of_recovery(), RECOVER_NOTHING));
    put_journal(OPERATION, "prepared", 7);
}

Test(volume_recover, another_journal_starts_the_grace_time_anew)
{
    void (*const changes[])(void) = {replace_journal, touch_journal, rename_operation,
                                     let_it_go_and_come_back};

    open_recovery(false);
    for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
        put_crash();
        cr_expect(eq(int, outcome_of_recovery(), RECOVER_WAITING), "row %zu", i);
        clock_advance_for_test(61 * NS_PER_SECOND);
        changes[i]();
        cr_expect(eq(int, outcome_of_recovery(), RECOVER_WAITING), "row %zu", i);
        clock_advance_for_test(61 * NS_PER_SECOND);
        cr_expect(eq(int, outcome_of_recovery(), RECOVER_ROLLED_BACK), "row %zu", i);
        cr_expect(is_rolled_back(), "row %zu", i);
        clear_bucket();
    }
}

Test(volume_recover, the_grace_time_does_not_replace_the_lock)
{
    enum recover_outcome outcome = RECOVER_NOTHING;

    open_recovery(false);
    put_crash();
    cr_expect(eq(int, outcome_of_recovery(), RECOVER_WAITING));
    AUTO_CLOSE int fd = hold_lock();
    cr_assert(ge(int, fd, 0));
    clock_advance_for_test(120 * NS_PER_SECOND);
    cr_expect(eq(int, recover(0, &outcome), STATUS_OK));
    cr_expect(eq(int, outcome, RECOVER_LIVE_WRITER));
    cr_expect(file_is(dir, MANIFEST_PATH, MANIFEST_NEW));
}

/* Its writer may be alive, and begin the next one while we remove what this one left. */
Test(volume_recover, a_committed_journal_is_left_to_writers_where_locks_may_not_reach)
{
    enum recover_outcome outcome = RECOVER_WAITING;

    open_recovery(false);
    put_crash();
    put_journal(OPERATION, "committed", 7);
    AUTO_FREE char *before = tree_digest(dir);
    cr_expect(eq(int, outcome_of_recovery(), RECOVER_NOTHING));
    AUTO_FREE char *after = tree_digest(dir);
    cr_expect(eq(str, after, before));
    cr_expect(
        eq(int, volume_recover_locked(recovery, volume, &scope, &outcome, &error), STATUS_OK));
    cr_expect(eq(int, outcome, RECOVER_NOTHING)); /* and at once */
    cr_expect(not(has_file(dir, JOURNAL_PATH)));
    cr_expect(file_is(dir, MANIFEST_PATH, MANIFEST_NEW));
}

Test(volume_recover, opens_only_names_that_a_listing_shows_where_look_ups_are_cached)
{
    enum volume_kind kind = VOLUME_UNKNOWN;

    open_volume(&kind);
    put_crash();
    meter.lost_lookups = 0;
    cr_expect(eq(int, outcome_of_recovery(), RECOVER_ROLLED_BACK));
    cr_expect(is_rolled_back());
    cr_expect(zero(u32, meter.lost_lookups));

    /* the same with everything missing that may be */
    put_old_state();
    put_journal(OPERATION, "prepared", 7);
    cr_expect(eq(int, outcome_of_recovery(), RECOVER_ROLLED_BACK));
    cr_expect(zero(u32, meter.lost_lookups));
}
