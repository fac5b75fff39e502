/* The ready-made crashed commits, against what the peers' own code makes of them. */
#include "core/clock.h"
#include "core/volume_private.h"
#include "core/volume_recover.h"
#include "tests/unit/volume_fixture.h"

#include <jansson.h>

/* The directory of the test volumes, or NULL with a line that says so. */
static const char *find_volumes(char buffer[PATH_MAX])
{
    const char *shared = getenv("MEMSYNC_SHARED");

    (void) joined(buffer, shared ? shared : "../shared", "volumes");
    if (access(buffer, R_OK) == 0)
        return buffer;
    printf("skipped: there are no shared test volumes\n");
    return NULL;
}

/* One case, copied to a scratch directory and opened. */
struct crash {
    char dir[SCRATCH_SIZE];
    json_t *expect;
    struct volume *volume;
    struct volume_lock_table *locks;
    struct volume_recovery *recovery;
};

static void crash_open(struct crash *crash, const char *volumes, const char *name)
{
    char path[PATH_MAX];
    struct volume_recovery_options options = {.locks_reach_all_nodes = true};

    scratch_create(crash->dir);
    (void) snprintf(path, sizeof path, "%s/%s/expect.json", volumes, name);
    crash->expect = json_load_file(path, 0, NULL);
    cr_assert(ne(ptr, crash->expect, NULL), "%s", path);
    (void) snprintf(path, sizeof path, "%s/%s/volume", volumes, name);
    tree_copy(path, crash->dir);

    const char *manifest = json_string_value(
        json_object_get(json_object_get(crash->expect, "config"), "manifest_filename"));
    options.manifest_name = manifest ? manifest : "memory.json";
    cr_assert(eq(int,
                 volume_open(&(struct volume_options){.path = crash->dir}, &crash->volume, NULL),
                 STATUS_OK));
    cr_assert(eq(int, volume_lock_table_create(&crash->locks), STATUS_OK));
    cr_assert(eq(int, volume_recovery_create(&options, &crash->recovery), STATUS_OK));
}

static void crash_close(struct crash *crash)
{
    volume_recovery_destroy(&crash->recovery);
    volume_lock_table_destroy(&crash->locks);
    volume_close(&crash->volume);
    json_decref(crash->expect);
    scratch_remove(crash->dir);
}

/* Recovers one user of the case; RECOVER_NOTHING where no journal is listed. */
static enum recover_outcome recover_user(struct crash *crash, const char *user)
{
    struct scope scope;
    struct error error = {0};
    enum recover_outcome outcome = RECOVER_WAITING;

    cr_assert(eq(int, scope_create(user, NULL, &scope, NULL), STATUS_OK));
    cr_assert(eq(int,
                 volume_recover(crash->recovery, crash->locks, crash->volume, &scope,
                                clock_deadline_ms(2000), &outcome, &error),
                 STATUS_OK),
              "%s: %s", user ? user : "(root)", error.message);
    return outcome;
}

/* Reads the scopes in the order of the case; gives the most telling outcome. */
static enum recover_outcome recover_scopes(struct crash *crash)
{
    enum recover_outcome telling = RECOVER_NOTHING;
    size_t i;
    json_t *scope;

    json_array_foreach(json_object_get(crash->expect, "scopes"), i, scope)
    {
        enum recover_outcome outcome =
            recover_user(crash, json_string_value(json_object_get(scope, "user_id")));
        if (outcome != RECOVER_NOTHING)
            telling = outcome;
    }
    return telling;
}

/* The peers leave a fact or manifest that was not yet renamed; a roll-back of ours removes it. A
 * journal's stays until the next commit, since it may be that of somebody who is about to begin. */
static bool is_swept(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;

    return volume_name_is_temporary(name) && !strstr(name, ".journal.");
}

/* The files after reading, in the form of tree_digest(). */
static char *expected_digest(const struct crash *crash, const char *unchanged)
{
    const char *path;
    json_t *file;
    json_t *files = json_object_get(crash->expect, "files_after");

    if (json_is_string(files))
        return strdup(unchanged);
    tree_walk.count = 0;
    json_object_foreach(files, path, file)
    {
        unsigned char digest[32];
        const char *hex = json_string_value(json_object_get(file, "sha256"));
        if (is_swept(path))
            continue;
        cr_assert(
            zero(int, sodium_hex2bin(digest, sizeof digest, hex, strlen(hex), NULL, NULL, NULL)));
        tree_walk.lines[tree_walk.count++] = tree_line(path, digest);
    }
    return tree_join_lines();
}

Test(shared_crashes, end_in_the_state_that_the_peers_give_them)
{
    const struct {
        const char *name;
        enum recover_outcome outcome;
    } cases[] = {
        {"crash-a-no-journal", RECOVER_NOTHING},
        {"crash-b-journal-torn", RECOVER_NOTHING},
        {"crash-c-prepared", RECOVER_ROLLED_BACK},
        {"crash-d-between-facts", RECOVER_ROLLED_BACK},
        {"crash-e-fact-torn", RECOVER_ROLLED_BACK},
        {"crash-f-between-deletes", RECOVER_ROLLED_BACK},
        {"crash-g-before-manifest", RECOVER_ROLLED_BACK},
        {"crash-h-manifest-torn", RECOVER_ROLLED_BACK},
        {"crash-i-manifest-written", RECOVER_ROLLED_BACK},
        {"crash-j-commit-torn", RECOVER_ROLLED_BACK},
        {"crash-k-committed", RECOVER_NOTHING},
        {"crash-l-cleanup-partial", RECOVER_NOTHING},
        {"crash-m-cleanup-done", RECOVER_NOTHING},
        {"crash-n-first-commit", RECOVER_ROLLED_BACK},
        {"crash-o-first-commit-facts", RECOVER_ROLLED_BACK},
        {"crash-p-summaries", RECOVER_ROLLED_BACK},
        {"crash-q-mixed-case-agent", RECOVER_ROLLED_BACK},
        {"crash-r-root-scope", RECOVER_ROLLED_BACK},
        {"crash-s-during-recovery", RECOVER_ROLLED_BACK},
        {"crash-t-during-recovery-end", RECOVER_ROLLED_BACK},
        {"crash-v-custom-manifest", RECOVER_ROLLED_BACK},
        {"crash-w-failed-not-crashed", RECOVER_ROLLED_BACK},
        {"crash-z-lock-only", RECOVER_NOTHING},
    };
    char buffer[PATH_MAX];
    const char *volumes = find_volumes(buffer);

    for (size_t i = 0; volumes && i < ARRAY_SIZE(cases); i++) {
        struct crash crash = {0};
        crash_open(&crash, volumes, cases[i].name);
        AUTO_FREE char *before = tree_digest(crash.dir);
        cr_expect(eq(int, recover_scopes(&crash), cases[i].outcome), "%s", cases[i].name);
        AUTO_FREE char *after = tree_digest(crash.dir);
        AUTO_FREE char *expected = expected_digest(&crash, before);
        cr_expect(eq(str, after, expected), "%s", cases[i].name);

        /* doing it twice changes nothing */
        cr_expect(eq(int, recover_scopes(&crash), RECOVER_NOTHING), "%s", cases[i].name);
        AUTO_FREE char *again = tree_digest(crash.dir);
        cr_expect(eq(str, again, expected), "%s", cases[i].name);
        crash_close(&crash);
    }
}

Test(shared_crashes, with_lost_backups_or_a_hostile_journal_are_left_alone)
{
    const char *const cases[] = {"crash-u-lost-backups", "journal-dotdot"};
    char buffer[PATH_MAX];
    const char *volumes = find_volumes(buffer);

    for (size_t i = 0; volumes && i < ARRAY_SIZE(cases); i++) {
        struct crash crash = {0};
        crash_open(&crash, volumes, cases[i]);
        AUTO_FREE char *before = tree_digest(crash.dir);
        cr_expect(eq(int, recover_scopes(&crash), RECOVER_IMPOSSIBLE), "%s", cases[i]);
        AUTO_FREE char *after = tree_digest(crash.dir);
        cr_expect(eq(str, after, before), "%s", cases[i]);
        crash_close(&crash);
    }
}

Test(shared_crashes, no_corrupt_journal_of_a_prepared_change_is_believed)
{
    char buffer[PATH_MAX];
    const char *volumes = find_volumes(buffer);
    struct crash crash = {0};
    size_t i;
    json_t *scope;

    if (!volumes)
        return;
    crash_open(&crash, volumes, "corrupt-journals");
    AUTO_FREE char *before = tree_digest(crash.dir);
    json_array_foreach(json_object_get(crash.expect, "scopes"), i, scope)
    {
        const char *user = json_string_value(json_object_get(scope, "user_id"));
        if (strcmp(user, "committed") != 0)
            cr_expect(eq(int, recover_user(&crash, user), RECOVER_IMPOSSIBLE), "%s", user);
    }
    cr_expect(gt(sz, i, 20));
    AUTO_FREE char *after = tree_digest(crash.dir);
    cr_expect(eq(str, after, before));

    /* a committed one names backups that are not there: only it goes */
    cr_expect(eq(int, recover_user(&crash, "committed"), RECOVER_NOTHING));
    cr_expect(not(has_file(crash.dir, "users/committed/" JOURNAL_NAME)));
    cr_expect(has_file(crash.dir, "users/committed/.recovery/op1/f_old.md"));
    crash_close(&crash);
}

Test(shared_crashes, a_stopped_migration_goes_back_to_the_earlier_layout)
{
    char buffer[PATH_MAX];
    const char *volumes = find_volumes(buffer);
    struct crash crash = {0};

    if (!volumes)
        return;
    crash_open(&crash, volumes, "crash-x-migration");
    AUTO_FREE char *manifest = get_file(crash.dir, "users/alice/memory.json.v1.bak", NULL);
    cr_assert(ne(ptr, manifest, NULL));
    cr_expect(eq(int, recover_scopes(&crash), RECOVER_ROLLED_BACK));
    cr_expect(file_is(crash.dir, "users/alice/memory.json", manifest));
    cr_expect(file_is(crash.dir, "users/alice/memory.json.v1.bak", manifest));
    cr_expect(not(has_file(crash.dir, "users/alice/agents/__default__/facts/e5/f_v1a.md")));
    cr_expect(not(has_file(crash.dir, "users/alice/" JOURNAL_NAME)));
    cr_expect(not(has_file(crash.dir, "users/alice/.recovery/fcb1d6ef690e4154f233ba2a25804619")));
    crash_close(&crash);
}

Test(shared_crashes, a_half_moved_bucket_without_a_journal_is_not_ours_to_finish)
{
    char buffer[PATH_MAX];
    const char *volumes = find_volumes(buffer);
    struct crash crash = {0};

    if (!volumes)
        return;
    crash_open(&crash, volumes, "crash-y-lead-agent");
    AUTO_FREE char *before = tree_digest(crash.dir);
    cr_expect(eq(int, recover_scopes(&crash), RECOVER_NOTHING));
    AUTO_FREE char *after = tree_digest(crash.dir);
    cr_expect(eq(str, after, before));
    crash_close(&crash);
}
