#include "core/manifest_write.h"
#include "tests/support/shared.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <string.h>

/* Criterion's macros convert, and their strings are not const. */
#pragma GCC diagnostic ignored "-Wconversion"

#define NOW_NS UINT64_C(1772352001500000000) /* 2026-03-01T08:00:01.5 */
#define BLANK "{\"summary\":\"\",\"updatedAt\":\"\"}"
#define BLANK_USER "\"workContext\":" BLANK ",\"personalContext\":" BLANK ",\"topOfMind\":" BLANK
#define BLANK_HISTORY                                                                              \
    "\"recentMonths\":" BLANK ",\"earlierContext\":" BLANK ",\"longTermBackground\":" BLANK

static char *plain(const char *text)
{
    return (char *) (uintptr_t) text;
}

static void parse(const char *text, struct manifest *ret)
{
    cr_assert(eq(int, manifest_parse(text, strlen(text), ret, NULL), STATUS_OK), "%s", text);
}

static json_t *json(const char *text)
{
    json_t *value = NULL;

    cr_assert(eq(int, json_text_read(text, strlen(text), 100, &value, NULL), STATUS_OK), "%s",
              text);
    return value;
}

/* Writes what follows `base` (NULL: nothing) and gives it back in compact form. */
static enum status write_next(const char *base, const char *summaries, char **ret,
                              struct error *error)
{
    AUTO_MANIFEST struct manifest manifest = {0};
    AUTO_MANIFEST struct manifest next = {0};
    AUTO_JSON json_t *given = summaries ? json(summaries) : NULL;
    AUTO_TEXT struct text written = {0};
    AUTO_TEXT struct text compact = {0};

    if (base)
        parse(base, &manifest);
    enum status status = manifest_write(base ? &manifest : NULL, given, 8, NOW_NS, &written, error);
    if (status != STATUS_OK) {
        cr_expect(eq(sz, written.size, 0));
        return status;
    }
    parse(written.bytes, &next);
    cr_expect(eq(i64, next.revision, 8));
    cr_expect(eq(int, next.layout, MANIFEST_LAYOUT_2));
    json_text_write(&compact, next.root);
    *ret = text_take(&compact, NULL);
    return STATUS_OK;
}

static void expect_next(const char *base, const char *summaries, const char *user,
                        const char *history, const char *rest)
{
    AUTO_FREE char *written = NULL;
    char expected[2000];

    cr_assert(eq(int, write_next(base, summaries, &written, NULL), STATUS_OK));
    (void) snprintf(expected, sizeof expected,
                    "{\"version\":\"2.0\",\"revision\":8,"
                    "\"lastUpdated\":\"2026-03-01T08:00:01.500000Z\","
                    "\"user\":{%s},\"history\":{%s}%s}",
                    user, history, rest);
    cr_expect(eq(str, written, expected));
}

Test(manifest_write, begins_with_empty_summaries)
{
    expect_next(NULL, NULL, BLANK_USER, BLANK_HISTORY, "");
    expect_next(NULL, "{}", BLANK_USER, BLANK_HISTORY, "");
    expect_next(NULL, "{\"user\":{\"x\":1},\"facts\":[1]}", BLANK_USER ",\"x\":1", BLANK_HISTORY,
                "");
}

Test(manifest_write, keeps_what_it_does_not_know)
{
    expect_next("{\"z\":{\"a\":[1]},\"version\":\"2.0\",\"revision\":7,\"schema\":\"x\","
                "\"history\":{\"era\":5,\"recentMonths\":{\"n\":1}},\"user\":{\"own\":\"text\"}}",
                NULL, BLANK_USER ",\"own\":\"text\"",
                "\"recentMonths\":{\"n\":1},\"earlierContext\":" BLANK
                ",\"longTermBackground\":" BLANK ",\"era\":5",
                ",\"z\":{\"a\":[1]},\"schema\":\"x\"");
}

Test(manifest_write, drops_facts_of_earlier_layouts_and_odd_sections)
{
    expect_next("{\"version\":\"1.0\",\"facts\":[{\"id\":\"a\"}],\"user\":null,\"history\":\"x\"}",
                NULL, BLANK_USER, BLANK_HISTORY, "");
    expect_next("{\"version\":\"2.0\",\"facts\":{},\"user\":[]}", NULL, BLANK_USER, BLANK_HISTORY,
                "");
}

Test(manifest_write, writes_a_key_once)
{
    expect_next("{\"version\":\"1.0\",\"version\":\"2.0\",\"revision\":1,\"revision\":9,"
                "\"extra\":1,\"extra\":2}",
                NULL, BLANK_USER, BLANK_HISTORY, ",\"extra\":2");
}

Test(manifest_write, merges_summaries_by_name)
{
    const char *base = "{\"version\":\"2.0\",\"user\":{\"workContext\":{\"summary\":\"a\",\"k\":1},"
                       "\"own\":2},\"history\":{}}";

    expect_next(base, "{\"user\":{\"workContext\":{\"summary\":\"b\"}},\"history\":{\"x\":1}}",
                "\"workContext\":{\"summary\":\"b\"},\"personalContext\":" BLANK
                ",\"topOfMind\":" BLANK ",\"own\":2",
                BLANK_HISTORY ",\"x\":1", "");
    expect_next(base, "{\"user\":null}",
                "\"workContext\":{\"summary\":\"a\",\"k\":1},\"personalContext\":" BLANK
                ",\"topOfMind\":" BLANK ",\"own\":2",
                BLANK_HISTORY, "");
}

Test(manifest_write, refuses_what_is_no_summaries)
{
    static const struct {
        const char *summaries;
        const char *named;
    } cases[] = {
        {"[]", "summaries "},
        {"\"x\"", "summaries "},
        {"{\"user\":[]}", "summaries.user "},
        {"{\"history\":5}", "summaries.history "},
        {"{\"user\":{\"topOfMind\":{\"summary\":\"party \\ud83d\"}}}", "summaries.user "},
        {"{\"history\":{\"\\udc00\":1}}", "summaries.history "},
        {"{\"history\":{\"a\":[[\"\\udfff\"]]}}", "summaries.history "},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        AUTO_FREE char *written = NULL;
        AUTO_JSON json_t *summaries = json(cases[i].summaries);
        struct error error = {0};
        cr_expect(eq(int, write_next(NULL, cases[i].summaries, &written, &error), STATUS_INVALID),
                  "%s", cases[i].summaries);
        cr_expect(strncmp(error.message, cases[i].named, strlen(cases[i].named)) == 0, "%s: %s",
                  cases[i].summaries, error.message);
        cr_expect(manifest_summaries_change(NULL, summaries), "%s", cases[i].summaries);
    }
}

Test(manifest_write, leaves_a_newer_layout_alone)
{
    AUTO_FREE char *written = NULL;

    cr_expect(eq(int, write_next("{\"version\":\"3.0\",\"revision\":1}", NULL, &written, NULL),
                 STATUS_UNSUPPORTED));
}

Test(manifest_write, ends_at_the_size_that_is_read)
{
    AUTO_TEXT struct text text = {0};
    AUTO_MANIFEST struct manifest base = {0};
    AUTO_TEXT struct text next = {.bytes = NULL};
    struct error error = {0};

    text_append_string(&text, "{\"version\":\"2.0\",\"long\":\"");
    text_reserve(&text, MANIFEST_BYTES_MAX);
    while (text.size < MANIFEST_BYTES_MAX - 400)
        text_append_string(&text, "0123456789abcdefghijklmnopqrstuvwxyz");
    text_append_string(&text, "\"}");
    parse(text.bytes, &base);
    cr_expect(eq(int, manifest_write(&base, NULL, 1, NOW_NS, &next, &error), STATUS_TOO_LARGE));
    cr_expect(eq(sz, next.size, 0));
}

Test(manifest_write, ends_at_the_depth_that_is_read)
{
    json_t *deep = json_array();
    AUTO_TEXT struct text next = {0};
    struct error error = {0};

    for (int i = 3; i < JSON_TEXT_DEPTH_MAX; i++)
        deep = json_pack("[o]", deep);
    AUTO_JSON json_t *summaries = json_pack("{s:{s:o}}", "user", "x", deep);
    cr_expect(eq(int, manifest_write(NULL, summaries, 1, NOW_NS, &next, &error), STATUS_OK));
    text_clear(&next);
    json_t *user = json_object_get(summaries, "user");
    cr_assert(eq(int, json_object_set_new(user, "x", json_pack("[O]", deep)), 0));
    cr_expect(eq(int, manifest_write(NULL, summaries, 1, NOW_NS, &next, &error), STATUS_INVALID));
    cr_expect(eq(sz, next.size, 0));
}

static bool changes(const char *base, const char *summaries)
{
    AUTO_MANIFEST struct manifest manifest = {0};
    AUTO_JSON json_t *given = summaries ? json(summaries) : NULL;

    if (base)
        parse(base, &manifest);
    return manifest_summaries_change(base ? &manifest : NULL, given);
}

Test(manifest_write, tells_whether_summaries_change)
{
    const char *base = "{\"version\":\"2.0\",\"user\":{\"workContext\":"
                       "{\"summary\":\"a\",\"updatedAt\":\"1\"}}}";

    cr_expect(not(changes(NULL, NULL)));
    cr_expect(not(changes(NULL, "{}")));
    cr_expect(not(changes(NULL, "{\"user\":{\"topOfMind\":" BLANK "}}")));
    cr_expect(changes(NULL, "{\"user\":{\"topOfMind\":{\"summary\":\"\"}}}"));
    cr_expect(not(changes(base, NULL)));
    cr_expect(not(changes(
        base, "{\"user\":{\"workContext\":{\"updatedAt\":\"1\",\"summary\":\"a\"}},\"facts\":1}")));
    cr_expect(changes(base, "{\"user\":{\"workContext\":{\"summary\":\"a\"}}}"));
    cr_expect(changes(base, "{\"history\":{\"x\":1}}"));
}

Test(manifest_write, empties_every_section_that_has_a_text)
{
    const char *base =
        "{\"version\":\"2.0\",\"user\":{\"workContext\":{\"summary\":\"a\",\"updatedAt\":\"1\"},"
        "\"topOfMind\":{\"summary\":\"b\"},\"plain\":\"text\",\"bare\":{\"n\":1}},"
        "\"history\":{\"recentMonths\":\"text\",\"era\":{\"n\":3,\"summary\":\"c\",\"updatedAt\":"
        "\"2\"}}}";
    AUTO_MANIFEST struct manifest manifest = {0};
    AUTO_TEXT struct text text = {0};

    parse(base, &manifest);
    AUTO_JSON json_t *blank = manifest_blank_summaries(&manifest);
    json_text_write(&text, blank);
    cr_expect(eq(str, text.bytes,
                 plain("{\"user\":{\"workContext\":" BLANK ",\"topOfMind\":{\"summary\":\"\"},"
                       "\"plain\":\"\"},"
                       "\"history\":{\"recentMonths\":" BLANK
                       ",\"era\":{\"n\":3,\"summary\":\"\",\"updatedAt\":\"\"}}}")));
    cr_expect(manifest_summaries_change(&manifest, blank));
    expect_next(base, text.bytes,
                "\"workContext\":" BLANK ",\"personalContext\":" BLANK
                ",\"topOfMind\":{\"summary\":\"\"},\"plain\":\"\",\"bare\":{\"n\":1}",
                BLANK_HISTORY ",\"era\":{\"n\":3,\"summary\":\"\",\"updatedAt\":\"\"}", "");
    /* The manifest that was read is as it was. */
    cr_expect(
        eq(str,
           plain(json_string_value(json_object_get(
               json_object_get(json_object_get(manifest.root, "user"), "workContext"), "summary"))),
           plain("a")));
}

Test(manifest_write, knows_the_sections_that_every_manifest_has)
{
    static const char *const parts[] = {"user", "history"};
    AUTO_TEXT struct text written = {0};
    const char *name;
    json_t *section;

    cr_assert(eq(int, manifest_write(NULL, NULL, 1, 0, &written, NULL), STATUS_OK));
    AUTO_JSON json_t *root = json(text_string(&written));
    for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
        json_object_foreach(json_object_get(root, parts[i]), name, section)
        {
            cr_expect(manifest_section_is_known(parts[i], name), "%s.%s", parts[i], name);
            cr_expect(not(manifest_section_is_known(parts[1 - i], name)), "%s", name);
        }
    }
    cr_expect(not(manifest_section_is_known("user", "cognitiveStyle")));
    cr_expect(not(manifest_section_is_known("facts", "workContext")));
}

Test(manifest_write, finds_nothing_to_empty_twice)
{
    AUTO_MANIFEST struct manifest manifest = {0};

    parse("{\"version\":\"2.0\",\"user\":{\"topOfMind\":" BLANK ",\"x\":{\"summary\":\"\"}},"
          "\"history\":5}",
          &manifest);
    AUTO_JSON json_t *blank = manifest_blank_summaries(&manifest);
    cr_expect(not(manifest_summaries_change(&manifest, blank)));
    AUTO_JSON json_t *none = manifest_blank_summaries(NULL);
    cr_expect(not(manifest_summaries_change(NULL, none)));
}

Test(manifest_write, writes_the_manifests_of_the_peers_as_they_do)
{
    static const struct {
        const char *path;
        int64_t revision;
        uint64_t wall_ns;
    } cases[] = {
        {"volumes/summaries-set/volume/users/sam/memory.json", 4, NOW_NS},
        {"volumes/manifest-extra-keys/volume/users/sam/memory.json", 1, NOW_NS - 750000000},
    };

    if (!shared_is_there())
        return;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        AUTO_FREE char *text = shared_read(NULL, "%s", cases[i].path);
        AUTO_MANIFEST struct manifest manifest = {0};
        AUTO_TEXT struct text written = {0};
        parse(text, &manifest);
        cr_assert(
            eq(int,
               manifest_write(&manifest, NULL, cases[i].revision, cases[i].wall_ns, &written, NULL),
               STATUS_OK));
        cr_expect(eq(str, written.bytes, text));
    }
}
