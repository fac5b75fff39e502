/* Manifests and journals of the shared volumes, judged by what the peers answered for them. */
#include "core/journal.h"
#include "core/manifest.h"
#include "tests/support/shared.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <string.h>

/* Criterion's macros convert, and their strings are not const. */
#pragma GCC diagnostic ignored "-Wconversion"

static char *plain(const char *text)
{
    return (char *) (uintptr_t) text;
}

/* By our own reader, since the peers' numbers go beyond what jansson takes. */
static json_t *read_expected(const char *name)
{
    size_t size = 0;
    json_t *expected = NULL;
    struct error error = {0};

    AUTO_FREE char *bytes = shared_read(&size, "volumes/%s/expect.json", name);
    cr_assert(eq(int, json_text_read(bytes, size, JSON_TEXT_DEPTH_MAX, &expected, &error),
                 STATUS_OK),
              "%s: %s", name, error.message);
    return expected;
}

/* Compares what we would answer for summaries with what a peer did, order of keys included. */
static void check_document(const char *user, const struct manifest *manifest, json_t *expected)
{
    AUTO_TEXT struct text ours = {0};
    AUTO_TEXT struct text theirs = {0};
    AUTO_JSON json_t *document = manifest_document(manifest);

    cr_assert(eq(int, json_object_set_new(document, "facts", json_array()), 0));
    cr_assert(eq(int, json_object_set_new(expected, "facts", json_array()), 0));
    json_text_write(&ours, document);
    json_text_write(&theirs, expected);
    cr_expect(eq(str, ours.bytes, theirs.bytes), "%s", user);
}

static void check_user(const char *name, json_t *scope)
{
    const char *user = json_string_value(json_object_get(scope, "user_id"));
    json_t *document = json_object_get(scope, "document");
    AUTO_MANIFEST struct manifest manifest = {0};
    struct error error = {0};
    size_t size = 0;
    int64_t scanned = 0;
    /* The peers' integers have no end; ours do, and we refuse rather than wrap. */
    bool refused = !document || strcmp(user, "bigint") == 0;

    AUTO_FREE char *bytes =
        shared_read(&size, "volumes/%s/volume/users/%s/memory.json", name, user);
    enum status status = manifest_parse(bytes, size, &manifest, &error);
    cr_expect(eq(int, status, refused ? STATUS_CORRUPT : STATUS_OK), "%s: %s", user, error.message);
    cr_expect(eq(int, manifest_scan_revision(bytes, size, &scanned, NULL), status), "%s", user);
    if (status)
        return;
    cr_expect(eq(i64, scanned, manifest.revision), "%s", user);
    cr_expect(eq(int, manifest.layout, MANIFEST_LAYOUT_2), "%s", user);
    check_document(user, &manifest, document);
}

Test(shared_manifests, are_read_as_the_peers_read_them)
{
    static const char *const names[] = {"corrupt-manifests", "corrupt-revision-types",
                                        "manifest-minimal", "manifest-extra-keys", "summaries-set"};

    if (!shared_is_there())
        return;
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        AUTO_JSON json_t *expected = read_expected(names[i]);
        json_t *scopes = json_object_get(expected, "scopes");
        cr_assert(gt(sz, json_array_size(scopes), 0), "%s", names[i]);
        for (size_t j = 0; j < json_array_size(scopes); j++)
            check_user(names[i], json_array_get(scopes, j));
    }
}

Test(shared_manifests, with_odd_revisions_have_the_numbers_that_the_peers_count_on_from)
{
    const struct {
        const char *user;
        int64_t revision;
    } cases[] = {
        {"string7", 7},     {"float39", 3},   {"true", 1},        {"null", 0},   {"emptylist", 0},
        {"object", 0},      {"negative", -3}, {"emptytext", 0},   {"spaced", 8}, {"zero", 0},
        {"underscore", 10}, {"fullwidth", 7}, {"float1e3", 1000},
    };

    if (!shared_is_there())
        return;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        size_t size = 0;
        int64_t revision = -1;
        AUTO_FREE char *bytes =
            shared_read(&size, "volumes/corrupt-revision-types/volume/users/%s/memory.json",
                        cases[i].user);
        cr_assert(eq(int, manifest_scan_revision(bytes, size, &revision, NULL), STATUS_OK), "%s",
                  cases[i].user);
        cr_expect(eq(i64, revision, cases[i].revision), "%s", cases[i].user);
    }
}

Test(shared_manifests, that_users_met_give_the_right_revision)
{
    const struct {
        const char *name;
        enum status status;
        int64_t revision;
    } cases[] = {
        {"ok_rev7", STATUS_OK, 7},
        {"dup_revision", STATUS_OK, 9},
        {"big_revision", STATUS_OK, INT64_C(9007199254740993)},
        {"beyond_int64", STATUS_CORRUPT, 0},
        {"negative_revision", STATUS_OK, -3},
        {"lone_surrogate", STATUS_OK, 7},
        {"array_root", STATUS_CORRUPT, 0},
        {"trailing_text", STATUS_CORRUPT, 0},
        {"half", STATUS_CORRUPT, 0},
        {"nul_filled", STATUS_CORRUPT, 0},
    };

    if (!shared_is_there())
        return;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        AUTO_MANIFEST struct manifest manifest = {0};
        size_t size = 0;
        int64_t revision = 0;
        AUTO_FREE char *bytes = shared_read(&size, "cases/manifests/%s.json", cases[i].name);
        cr_expect(eq(int, manifest_scan_revision(bytes, size, &revision, NULL), cases[i].status),
                  "%s", cases[i].name);
        cr_expect(eq(i64, revision, cases[i].revision), "%s", cases[i].name);
        cr_expect(eq(int, manifest_parse(bytes, size, &manifest, NULL), cases[i].status), "%s",
                  cases[i].name);
        cr_expect(eq(i64, manifest.revision, cases[i].revision), "%s", cases[i].name);
    }
}

Test(shared_manifests, come_out_as_the_peers_wrote_them)
{
    static const char *const paths[] = {"volumes/summaries-set/volume/users/sam/memory.json",
                                        "volumes/manifest-extra-keys/volume/users/sam/memory.json",
                                        "volumes/v1-list/volume/users/alice/memory.json"};

    if (!shared_is_there())
        return;
    for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
        AUTO_MANIFEST struct manifest manifest = {0};
        AUTO_TEXT struct text text = {0};
        size_t size = 0;
        AUTO_FREE char *bytes = shared_read(&size, "%s", paths[i]);
        cr_assert(eq(int, manifest_parse(bytes, size, &manifest, NULL), STATUS_OK));
        json_text_write_pretty(&text, manifest.root);
        if (size == text.size + 1 && bytes[size - 1] == '\n')
            text_append_char(&text, '\n');
        cr_expect(eq(str, text.bytes, bytes), "%s", paths[i]);
    }
}

static enum status parse_journal(const char *path, struct journal **ret)
{
    size_t size = 0;
    AUTO_FREE char *bytes = shared_read(&size, "%s", path);

    return journal_parse(bytes, size, ret, NULL);
}

Test(shared_journals, that_the_peers_wrote_are_sound)
{
    const struct {
        const char *path, *agent;
        enum journal_state state;
        size_t facts, old;
    } cases[] = {
        {"crash-c-prepared/volume/users/alice", "agent-a", JOURNAL_PREPARED, 5, 3},
        {"crash-d-between-facts/volume/users/alice", "agent-a", JOURNAL_PREPARED, 5, 3},
        {"crash-i-manifest-written/volume/users/alice", "agent-a", JOURNAL_PREPARED, 5, 3},
        {"crash-j-commit-torn/volume/users/alice", "agent-a", JOURNAL_PREPARED, 5, 3},
        {"crash-k-committed/volume/users/alice", "agent-a", JOURNAL_COMMITTED, 5, 3},
        {"crash-m-cleanup-done/volume/users/alice", "agent-a", JOURNAL_COMMITTED, 5, 3},
        {"crash-n-first-commit/volume/users/alice", "agent-a", JOURNAL_PREPARED, 2, 0},
        {"crash-p-summaries/volume/users/alice", "", JOURNAL_PREPARED, 0, 0},
        {"crash-q-mixed-case-agent/volume/users/alice", "research-bot", JOURNAL_PREPARED, 2, 1},
        {"crash-r-root-scope/volume", "helper", JOURNAL_PREPARED, 2, 1},
        {"crash-w-failed-not-crashed/volume/users/alice", "agent-a", JOURNAL_PREPARED, 2, 0},
        {"crash-x-migration/volume/users/alice", "__default__", JOURNAL_PREPARED, 2, 0},
        {"corrupt-journals/volume/users/committed", "store", JOURNAL_COMMITTED, 0, 0},
    };

    if (!shared_is_there())
        return;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        AUTO_JOURNAL struct journal *journal = NULL;
        char path[200];
        (void) snprintf(path, sizeof path, "volumes/%s/" JOURNAL_NAME, cases[i].path);
        cr_assert(eq(int, parse_journal(path, &journal), STATUS_OK), "%s", path);
        cr_expect(eq(str, journal->agent, plain(cases[i].agent)), "%s", path);
        cr_expect(eq(int, journal->state, cases[i].state), "%s", path);
        cr_expect(eq(sz, journal->fact_count, cases[i].facts), "%s", path);
        cr_expect(eq(sz, journal->old_count, cases[i].old), "%s", path);
        if (cases[i].old > 0)
            cr_expect(eq(i64, journal->next_revision, journal->expected_revision + 1), "%s", path);
    }
}

Test(shared_journals, that_cannot_be_honoured_are_refused)
{
    if (!shared_is_there())
        return;
    AUTO_JSON json_t *expected = read_expected("corrupt-journals");
    json_t *scopes = json_object_get(expected, "scopes");
    for (size_t i = 0; i < json_array_size(scopes); i++) {
        AUTO_JOURNAL struct journal *journal = NULL;
        char path[200];
        const char *user = json_string_value(json_object_get(json_array_get(scopes, i), "user_id"));
        if (strcmp(user, "committed") == 0)
            continue; /* the one sound journal among them */
        (void) snprintf(path, sizeof path, "volumes/corrupt-journals/volume/users/%s/" JOURNAL_NAME,
                        user);
        cr_expect(eq(int, parse_journal(path, &journal), STATUS_CORRUPT), "%s", user);
    }

    AUTO_JOURNAL struct journal *journal = NULL;
    cr_expect(
        eq(int, parse_journal("volumes/journal-dotdot/volume/users/victim/" JOURNAL_NAME, &journal),
           STATUS_CORRUPT));
}
