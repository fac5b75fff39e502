/* core/volume_side_data.h: the peers' notes as files, on volumes where look-ups are safe and where
 * they are not. */
#include "core/volume_side_data.h"

#include "core/clock.h"
#include "core/json_text.h"
#include "tests/support/shared.h"
#include "tests/support/temp_calls.h"
#include "tests/support/temp_volume.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#define DAY_NS (86400 * NS_PER_SECOND)
#define NOW_NS (20678 * DAY_NS) /* 2026-08-13 */
#define NOW_TEXT "2026-08-13T00:00:00.000000Z"
#define HALF_LIFE 30

#define AGENT_PATH "users/u/agents/a"
#define PLACE AGENT_PATH "/.metadata"
#define USAGE PLACE "/fact-usage.json"
#define AUDIT PLACE "/eviction-audit.json"

static const enum volume_kind kinds[] = {VOLUME_LOCAL, VOLUME_CLUSTER};

static struct temp_volume *temp;
static struct volume *volume;
static int bucket_fd = -1;
static bool malformed;
static struct error error;

static void set_up(void)
{
    temp = temp_volume_create();
    (void) temp_volume_add(temp, "u", "a", "f1", "one");
    (void) temp_volume_add(temp, "u", "a", "f2", "two");
}

static void tear_down(void)
{
    temp_calls_reset();
    if (bucket_fd >= 0)
        (void) close(bucket_fd);
    volume_close(&volume);
    temp_volume_destroy(&temp);
}

TestSuite(volume_side_data, .init = set_up, .fini = tear_down, .timeout = 60);

/* Opens the volume as that kind and the bucket in it; nothing is malformed so far. */
static void open_as(enum volume_kind kind)
{
    const struct volume_options options = {.path = temp_volume_path(temp),
                                           .calls = temp_calls(),
                                           .force_kind = &kind};

    if (bucket_fd >= 0)
        (void) close(bucket_fd);
    bucket_fd = -1;
    volume_close(&volume);
    cr_assert_eq(volume_open(&options, &volume, NULL), STATUS_OK);
    cr_assert_eq(volume_open_dir(volume, -1, "users/u", &bucket_fd, NULL), STATUS_OK);
    malformed = false;
    error_clear(&error);
}

static void put(const char *path, const char *bytes)
{
    temp_volume_write(temp, path, bytes, strlen(bytes));
}

static void expect_file(const char *path, const char *expected)
{
    cr_assert(temp_volume_exists(temp, path), "%s is not there", path);
    AUTO_FREE char *bytes = temp_volume_read(temp, path, NULL);
    cr_expect_str_eq(bytes, expected, "%s: %s", path, bytes);
}

static void expect_usage(const char *expected)
{
    AUTO_JSON json_t *usage = NULL;
    AUTO_TEXT struct text text = {0};

    cr_assert_eq(volume_usage_read(volume, bucket_fd, "a", &usage, &malformed, &error), STATUS_OK,
                 "%s", error.message);
    json_text_write(&text, usage);
    cr_expect_str_eq(text_string(&text), expected, "%s", text_string(&text));
}

static enum status hit(const char *fact_id)
{
    struct usage_hit hits[] = {{fact_id, NOW_NS}};

    return volume_usage_add(volume, bucket_fd, "a", hits, 1, HALF_LIFE, &malformed, &error);
}

static enum status audit(const char *entry_json, size_t entries_max)
{
    AUTO_JSON json_t *entry = NULL;

    cr_assert_eq(json_text_read(entry_json, strlen(entry_json), 8, &entry, NULL), STATUS_OK);
    return volume_audit_add(volume, bucket_fd, "a", entry, entries_max, &malformed, &error);
}

static enum status forget(const char *fact_id)
{
    return volume_side_data_forget(volume, bucket_fd, "a", &fact_id, 1, &malformed, &error);
}

/* ---- usage ---- */

Test(volume_side_data, hits_are_written_and_read)
{
    const struct usage_hit hits[] = {{"f1", NOW_NS - 30 * DAY_NS},
                                     {"f2", NOW_NS},
                                     {"f1", NOW_NS},
                                     {"../f", NOW_NS}};

    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
        open_as(kinds[i]);
        temp_volume_remove(temp, PLACE);
        expect_usage("{}");
        cr_assert_eq(volume_usage_add(volume, bucket_fd, "a", hits, ARRAY_SIZE(hits), HALF_LIFE,
                                      &malformed, &error),
                     STATUS_OK, "%s", error.message);
        expect_usage("{\"f1\":{\"accessHeat\":1.5,\"accessCount\":2,"
                     "\"lastAccessedAt\":\"" NOW_TEXT "\"},"
                     "\"f2\":{\"accessHeat\":1.0,\"accessCount\":1,"
                     "\"lastAccessedAt\":\"" NOW_TEXT "\"}}");
        cr_expect_eq(temp_volume_count_files(temp, PLACE), 1);
        cr_expect_not(malformed);
    }
}

Test(volume_side_data, many_hits_of_a_fact_cost_one_look)
{
    struct usage_hit hits[50];
    char path[SCOPE_PATH_MAX];

    temp_volume_fact_path("u", "a", "f1", path);
    *strrchr(path, '/') = '\0';
    for (size_t i = 0; i < ARRAY_SIZE(hits); i++)
        hits[i] = (struct usage_hit){i % 2 == 0 ? "f1" : "f3", NOW_NS};
    open_as(VOLUME_CLUSTER);
    temp_calls_count(TEMP_CALL_OPEN, strrchr(path, '/'));
    cr_expect_eq(volume_usage_add(volume, bucket_fd, "a", hits, ARRAY_SIZE(hits), HALF_LIFE,
                                  &malformed, &error),
                 STATUS_OK);
    cr_expect_eq(temp_calls_counted(), 1);
    expect_usage("{\"f1\":{\"accessHeat\":25.0,\"accessCount\":25,"
                 "\"lastAccessedAt\":\"" NOW_TEXT "\"}}");
}

Test(volume_side_data, a_hit_of_a_fact_that_is_gone_writes_nothing)
{
    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
        open_as(kinds[i]);
        cr_expect_eq(hit("gone"), STATUS_OK);
        cr_expect_not(temp_volume_exists(temp, PLACE));
        cr_expect_eq(volume_usage_add(volume, bucket_fd, "nobody",
                                      (const struct usage_hit[]){{"f1", NOW_NS}}, 1, HALF_LIFE,
                                      &malformed, &error),
                     STATUS_OK);
        cr_expect_not(temp_volume_exists(temp, "users/u/agents/nobody"));
    }
}

Test(volume_side_data, malformed_usage_counts_as_empty_and_is_told)
{
    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
        open_as(kinds[i]);
        put(USAGE, "[1");
        expect_usage("{}");
        cr_expect(malformed);
        malformed = false;
        cr_expect_eq(forget("f1"), STATUS_OK);
        cr_expect(malformed);
        expect_file(USAGE, "[1");
        cr_expect_eq(hit("f1"), STATUS_OK);
        malformed = false;
        expect_usage("{\"f1\":{\"accessHeat\":1.0,\"accessCount\":1,"
                     "\"lastAccessedAt\":\"" NOW_TEXT "\"}}");
        cr_expect_not(malformed);
    }
}

Test(volume_side_data, a_file_that_is_too_large_counts_as_empty)
{
    AUTO_FREE char *bytes = malloc(SIDE_DATA_BYTES_MAX + 1);

    cr_assert_not_null(bytes);
    memset(bytes, ' ', SIDE_DATA_BYTES_MAX + 1);
    open_as(VOLUME_LOCAL);
    temp_volume_write(temp, USAGE, bytes, SIDE_DATA_BYTES_MAX + 1);
    expect_usage("{}");
    cr_expect(malformed);
}

/* ---- audit ---- */

Test(volume_side_data, entries_are_appended_and_bounded)
{
    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
        open_as(kinds[i]);
        temp_volume_remove(temp, PLACE);
        cr_expect_eq(audit("{\"n\":0}", 0), STATUS_OK);
        cr_expect_not(temp_volume_exists(temp, PLACE));
        cr_expect_eq(audit("{\"n\":1}", 2), STATUS_OK);
        cr_expect_eq(audit("{\"n\":2}", 2), STATUS_OK);
        cr_expect_eq(audit("{\"n\":3}", 2), STATUS_OK);
        expect_file(AUDIT, "[\n  {\n    \"n\": 2\n  },\n  {\n    \"n\": 3\n  }\n]");
        cr_expect_not(malformed);
        put(AUDIT, "{}");
        cr_expect_eq(audit("{\"n\":4}", 2), STATUS_OK);
        cr_expect(malformed);
        expect_file(AUDIT, "[\n  {\n    \"n\": 4\n  }\n]");
    }
}

Test(volume_side_data, a_list_that_is_too_large_loses_its_older_half)
{
    size_t size = SIDE_DATA_BYTES_MAX / 2 - 64;
    AUTO_FREE char *bytes = malloc(size + 1);
    AUTO_TEXT struct text entry = {0};

    cr_assert_not_null(bytes);
    memset(bytes, 'x', size);
    bytes[size] = '\0';
    text_append_format(&entry, "{\"n\":\"%s\"}", bytes);
    open_as(VOLUME_LOCAL);
    cr_expect_eq(audit(text_string(&entry), 200), STATUS_OK);
    cr_expect_eq(audit(text_string(&entry), 200), STATUS_OK);
    cr_expect_eq(audit("{\"n\":3}", 200), STATUS_OK);
    cr_expect_eq(audit(text_string(&entry), 200), STATUS_OK);

    AUTO_FREE char *left = temp_volume_read(temp, AUDIT, NULL);
    static const char begin[] = "[\n  {\n    \"n\": 3\n  },\n";
    cr_expect_eq(strncmp(left, begin, strlen(begin)), 0, "%.40s", left);
    cr_expect_not(malformed);
}

Test(volume_side_data, an_entry_that_is_too_large_alone_is_refused)
{
    AUTO_FREE char *bytes = malloc(SIDE_DATA_BYTES_MAX + 1);
    AUTO_TEXT struct text entry = {0};

    cr_assert_not_null(bytes);
    memset(bytes, 'x', SIDE_DATA_BYTES_MAX);
    bytes[SIDE_DATA_BYTES_MAX] = '\0';
    text_append_format(&entry, "{\"n\":\"%s\"}", bytes);
    open_as(VOLUME_LOCAL);
    cr_expect_eq(audit(text_string(&entry), 200), STATUS_TOO_LARGE);
    cr_expect_str_eq(error.path, "agents/a/.metadata/eviction-audit.json");
    cr_expect_eq(temp_volume_count_files(temp, PLACE), 0);
}

/* ---- removal ---- */

Test(volume_side_data, forgetting_leaves_what_is_of_others)
{
    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
        open_as(kinds[i]);
        put(USAGE, "{\"f1\":{},\"f2\":{}}");
        put(AUDIT, "[{\"evicted\":[{\"factId\":\"f1\"},{\"factId\":\"f2\"}]}]");
        cr_expect_eq(forget("f1"), STATUS_OK);
        expect_file(USAGE, "{\n  \"f2\": {}\n}");
        expect_file(AUDIT, "[\n  {\n    \"evicted\": [\n      {\n        \"factId\": \"f2\"\n"
                           "      }\n    ]\n  }\n]");
        uint64_t time = temp_volume_mtime(temp, USAGE);
        cr_expect_eq(forget("f1"), STATUS_OK);
        cr_expect_eq(temp_volume_mtime(temp, USAGE), time);
    }
}

Test(volume_side_data, emptied_files_go_and_then_the_directory)
{
    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
        open_as(kinds[i]);
        put(USAGE, "{\"f1\":{}}");
        put(AUDIT, "[{\"evicted\":[{\"factId\":\"f2\"}]}]");
        cr_expect_eq(forget("f1"), STATUS_OK);
        cr_expect_not(temp_volume_exists(temp, USAGE));
        cr_expect(temp_volume_exists(temp, AUDIT));
        cr_expect_eq(forget("f2"), STATUS_OK);
        cr_expect_not(temp_volume_exists(temp, PLACE));
        cr_expect(temp_volume_exists(temp, AGENT_PATH));
        cr_expect_eq(forget("f2"), STATUS_OK);
    }
}

Test(volume_side_data, files_of_others_keep_the_directory)
{
    open_as(VOLUME_LOCAL);
    put(USAGE, "{\"f1\":{}}");
    put(PLACE "/other.json", "{}");
    cr_expect_eq(forget("f1"), STATUS_OK);
    cr_expect_not(temp_volume_exists(temp, USAGE));
    cr_expect(temp_volume_exists(temp, PLACE "/other.json"));
}

Test(volume_side_data, one_file_that_fails_does_not_keep_the_other)
{
    open_as(VOLUME_LOCAL);
    put(USAGE, "{\"f1\":{}}");
    put(AUDIT, "[{\"evicted\":[{\"factId\":\"f1\"}]}]");
    temp_calls_fail(TEMP_CALL_READ, "/fact-usage.json", EIO, 0, 0);
    cr_expect_eq(forget("f1"), STATUS_IO);
    cr_expect_str_eq(error.path, "agents/a/.metadata/fact-usage.json");
    cr_expect(temp_volume_exists(temp, USAGE));
    cr_expect_not(temp_volume_exists(temp, AUDIT));
}

Test(volume_side_data, a_directory_that_cannot_go_is_told)
{
    static const struct {
        enum temp_call call;
        const char *path_end;
    } cases[] = {{TEMP_CALL_UNLINK, "/.metadata"}, {TEMP_CALL_SYNC, "/agents/a"}};

    open_as(VOLUME_LOCAL);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        put(USAGE, "{\"f1\":{}}");
        temp_calls_fail(cases[i].call, cases[i].path_end, EIO, 0, 0);
        cr_expect_eq(forget("f1"), STATUS_IO, "row %zu", i);
        cr_expect_str_eq(error.path, "agents/a/.metadata", "row %zu", i);
        cr_expect_not(temp_volume_exists(temp, USAGE));
        temp_calls_reset();
    }
}

Test(volume_side_data, clearing_removes_all_of_one_agent)
{
    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
        bool left = true;
        open_as(kinds[i]);
        put(USAGE, "{\"f1\":{}}");
        put(AUDIT, "broken");
        put("users/u/agents/b/.metadata/fact-usage.json", "{}");
        cr_expect_eq(volume_side_data_clear(volume, bucket_fd, "a", &left, &error), STATUS_OK);
        cr_expect_not(left);
        cr_expect_not(temp_volume_exists(temp, PLACE));
        cr_expect(temp_volume_exists(temp, "users/u/agents/b/.metadata/fact-usage.json"));
        cr_expect_eq(volume_side_data_clear(volume, bucket_fd, "a", &left, &error), STATUS_OK);
        cr_expect_eq(volume_side_data_clear(volume, bucket_fd, "nobody", &left, &error), STATUS_OK);

        temp_volume_make_dir(temp, PLACE "/more");
        cr_expect_eq(volume_side_data_clear(volume, bucket_fd, "a", &left, &error), STATUS_OK);
        cr_expect(left);
        temp_volume_remove(temp, PLACE);
    }
}

/* ---- ways to fail ---- */

Test(volume_side_data, a_failure_names_the_file_and_changes_nothing)
{
    open_as(VOLUME_LOCAL);
    put(USAGE, "{\"f1\":{}}");
    temp_calls_fail(TEMP_CALL_OPEN, "/fact-usage.json", EACCES, 0, 0);
    cr_expect_eq(hit("f1"), STATUS_DENIED);
    cr_expect_str_eq(error.path, "agents/a/.metadata/fact-usage.json");
    temp_calls_reset();
    expect_file(USAGE, "{\"f1\":{}}");

    temp_calls_fail(TEMP_CALL_OPEN, "/.metadata", EIO, 0, 0);
    cr_expect_eq(audit("{}", 5), STATUS_IO);
    cr_expect_str_eq(error.path, "agents/a/.metadata");
}

Test(volume_side_data, nothing_is_looked_up_that_no_listing_shows)
{
    AUTO_JSON json_t *usage = NULL;

    open_as(VOLUME_CLUSTER);
    temp_calls_count(TEMP_CALL_OPEN, "/.metadata");
    cr_expect_eq(volume_usage_read(volume, bucket_fd, "a", &usage, &malformed, &error), STATUS_OK);
    cr_expect_eq(hit("gone"), STATUS_OK);
    cr_expect_eq(forget("f1"), STATUS_OK);
    cr_expect_eq(temp_calls_counted(), 0);

    temp_volume_make_dir(temp, PLACE);
    temp_calls_count(TEMP_CALL_OPEN, "/fact-usage.json");
    json_decref(TAKE_PTR(usage));
    cr_expect_eq(volume_usage_read(volume, bucket_fd, "a", &usage, &malformed, &error), STATUS_OK);
    cr_expect_eq(temp_calls_counted(), 0);
}

/* ---- the peers' own ---- */

Test(volume_side_data, the_peers_files_are_understood)
{
    char path[PATH_MAX];

    if (!shared_is_there())
        return;
    shared_path(path, "volumes/sidecars/volume/users/sam");
    temp_volume_copy_in(temp, path);
    enum volume_kind kind = VOLUME_LOCAL;
    const struct volume_options options = {.path = temp_volume_path(temp), .force_kind = &kind};
    AUTO_CLOSE int fd = -1;
    AUTO_JSON json_t *usage = NULL;
    cr_assert_eq(volume_open(&options, &volume, NULL), STATUS_OK);
    cr_assert_eq(volume_open_dir(volume, -1, ".", &fd, NULL), STATUS_OK);
    cr_assert_eq(volume_usage_read(volume, fd, "store", &usage, &malformed, &error), STATUS_OK);
    cr_expect_not(malformed);
    cr_expect_eq(json_real_value(json_object_get(json_object_get(usage, "f_1"), "accessHeat")),
                 1.5);

    AUTO_FREE char *before =
        temp_volume_read(temp, "agents/store/.metadata/eviction-audit.json", NULL);
    AUTO_JSON json_t *list = NULL;
    AUTO_TEXT struct text again = {0};
    cr_assert_eq(audit_parse(before, strlen(before), &list, &malformed), STATUS_OK);
    cr_expect_not(malformed);
    cr_assert_eq(side_data_render(list, &again), STATUS_OK);
    cr_expect_str_eq(text_string(&again), before);

    const char *id = "f_1";
    cr_expect_eq(volume_side_data_forget(volume, fd, "store", &id, 1, &malformed, &error),
                 STATUS_OK);
    cr_expect_not(temp_volume_exists(temp, "agents/store/.metadata"));
}
