#include "core/manifest.h"

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

/* Both readers must agree in status, number and words; gives what they agree on. */
static enum status read_both(const char *bytes, size_t size, int64_t *ret)
{
    AUTO_MANIFEST struct manifest manifest = {0};
    struct error parse_error = {0};
    struct error scan_error = {0};
    int64_t scanned = 0;
    enum status parsed = manifest_parse(bytes, size, &manifest, &parse_error);
    enum status status = manifest_scan_revision(bytes, size, &scanned, &scan_error);

    cr_assert(eq(int, parsed, status), "%.*s", (int) size, bytes);
    cr_assert(eq(i64, manifest.revision, scanned), "%.*s", (int) size, bytes);
    cr_assert(eq(str, parse_error.message, scan_error.message), "%.*s", (int) size, bytes);
    *ret = scanned;
    return status;
}

Test(manifest, takes_the_revision_as_the_peers_do)
{
    const struct {
        const char *value;
        enum status status;
        int64_t revision;
    } cases[] = {
        {"7", STATUS_OK, 7},
        {"-3", STATUS_OK, -3},
        {"9007199254740993", STATUS_OK, INT64_C(9007199254740993)},
        {"9223372036854775807", STATUS_OK, INT64_MAX},
        {"-9223372036854775808", STATUS_OK, INT64_MIN},
        {"9223372036854775808", STATUS_CORRUPT, 0},
        {"123456789012345678901234567890", STATUS_CORRUPT, 0},
        {"true", STATUS_OK, 1},
        {"false", STATUS_OK, 0},
        {"null", STATUS_OK, 0},
        {"\"\"", STATUS_OK, 0},
        {"[]", STATUS_OK, 0},
        {"{}", STATUS_OK, 0},
        {"[1]", STATUS_CORRUPT, 0},
        {"{\"a\":1}", STATUS_CORRUPT, 0},
        {"3.9", STATUS_OK, 3},
        {"-3.9", STATUS_OK, -3},
        {"1e3", STATUS_OK, 1000},
        {"-0.0", STATUS_OK, 0},
        {"9.2e18", STATUS_OK, INT64_C(9200000000000000000)},
        {"9223372036854775808.0", STATUS_CORRUPT, 0},
        {"-9223372036854775808.0", STATUS_OK, INT64_MIN},
        {"1e300", STATUS_CORRUPT, 0},
        {"1e999", STATUS_CORRUPT, 0},
        {"NaN", STATUS_CORRUPT, 0},
        {"-Infinity", STATUS_CORRUPT, 0},
        {"\"7\"", STATUS_OK, 7},
        {"\" 8 \"", STATUS_OK, 8},
        {"\"\\t\\n+8\\u000b\\r\"", STATUS_OK, 8},
        {"\"1_0\"", STATUS_OK, 10},
        {"\"007\"", STATUS_OK, 7},
        {"\"-5\"", STATUS_OK, -5},
        {"\"\xef\xbc\x97\"", STATUS_OK, 7},
        {"\"\xd9\xa3_\xd9\xa4\"", STATUS_OK, 34},
        {"\"-\xef\xbc\x95\"", STATUS_OK, -5},
        {"\"\\u00a08\\u2028\"", STATUS_OK, 8},
        {"\"\\ud835\\udfff\"", STATUS_OK, 9},
        {"\"9223372036854775807\"", STATUS_OK, INT64_MAX},
        {"\"-9223372036854775808\"", STATUS_OK, INT64_MIN},
        {"\"9223372036854775808\"", STATUS_CORRUPT, 0},
        {"\"99999999999999999999999\"", STATUS_CORRUPT, 0},
        {"\"\\u001c8\"", STATUS_CORRUPT, 0},
        {"\" \"", STATUS_CORRUPT, 0},
        {"\"- 8\"", STATUS_CORRUPT, 0},
        {"\"_1\"", STATUS_CORRUPT, 0},
        {"\"1_\"", STATUS_CORRUPT, 0},
        {"\"1__0\"", STATUS_CORRUPT, 0},
        {"\"8\\u0000\"", STATUS_CORRUPT, 0},
        {"\"\\u200b8\"", STATUS_CORRUPT, 0},
        {"\"\\u00b2\"", STATUS_CORRUPT, 0},
        {"\"3.0\"", STATUS_CORRUPT, 0},
        {"\"0x1\"", STATUS_CORRUPT, 0},
        {"\"abc\"", STATUS_CORRUPT, 0},
        {"\"\\ufdd05\"", STATUS_CORRUPT, 0},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char text[200];
        int64_t revision = 0;
        int size =
            snprintf(text, sizeof text, "{\"version\": \"2.0\", \"revision\": %s}", cases[i].value);
        cr_expect(eq(int, read_both(text, (size_t) size, &revision), cases[i].status), "row %zu",
                  i);
        cr_expect(eq(i64, revision, cases[i].revision), "row %zu", i);
    }
}

Test(manifest, finds_the_revision_where_the_peers_find_it)
{
    const struct {
        const char *text;
        enum status status;
        int64_t revision;
    } cases[] = {
        {"{}", STATUS_OK, 0},
        {" \r\n{\"version\":\"2.0\"} ", STATUS_OK, 0},
        {"{\"revision\":5,\"x\":1,\"revision\":9}", STATUS_OK, 9},
        {"{\"revision\":\"a\",\"revision\":9}", STATUS_OK, 9},
        {"{\"revision\":9,\"revision\":\"a\"}", STATUS_CORRUPT, 0},
        {"{\"revision\":9,\"revision\":null}", STATUS_OK, 0},
        {"{\"a\":{\"revision\":3},\"b\":[{\"revision\":4}]}", STATUS_OK, 0},
        {"{\"a\":\"\\\"revision\\\":3\",\"revision\":6}", STATUS_OK, 6},
        {"{\"rev\\u0069sion\":8}", STATUS_OK, 8},
        {"{\"revision\":8,\"rev\\u0069sion\":2}", STATUS_OK, 2},
        {"{\"revision\\u0000\":8}", STATUS_OK, 0},
        {"{\"Revision\":8}", STATUS_OK, 0},
        {"{\"a\":NaN,\"b\":1e999,\"c\":\"\\ud83d\",\"revision\":7}", STATUS_OK, 7},
        {"{\"revision\":7", STATUS_CORRUPT, 0},
        {"{\"revision\":7}}", STATUS_CORRUPT, 0},
        {"{\"revision\":7}{", STATUS_CORRUPT, 0},
        {"{\"revision\":7,}", STATUS_CORRUPT, 0},
        {"{\"revision\":7,\"a\":\"\xff\"}", STATUS_CORRUPT, 0},
        {"[{\"revision\":7}]", STATUS_CORRUPT, 0},
        {"\"revision\"", STATUS_CORRUPT, 0},
        {"null", STATUS_CORRUPT, 0},
        {"NaN", STATUS_CORRUPT, 0},
        {"1e999", STATUS_CORRUPT, 0},
        {"", STATUS_CORRUPT, 0},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        int64_t revision = 0;
        cr_expect(eq(int, read_both(cases[i].text, strlen(cases[i].text), &revision),
                     cases[i].status),
                  "row %zu", i);
        cr_expect(eq(i64, revision, cases[i].revision), "row %zu", i);
    }
}

/* A small generator of its own, so that a failure comes again. */
static uint32_t next_random(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

/* Pieces that make objects more often than not, and their neighbours. */
static size_t make_up_manifest(uint32_t *seed, char *ret, size_t size)
{
    static const char *const keys[] = {"\"revision\"", "\"version\"",        "\"facts\"",
                                       "\"a\"",        "\"rev\\u0069sion\"", "\"\""};
    static const char *const values[] = {"1",
                                         "-2",
                                         "9223372036854775807",
                                         "9223372036854775808",
                                         "3.5",
                                         "1e3",
                                         "1e999",
                                         "NaN",
                                         "true",
                                         "null",
                                         "\"7\"",
                                         "\"x\"",
                                         "\"\\ud83d\"",
                                         "[]",
                                         "[1]",
                                         "{}",
                                         "{\"revision\":4}",
                                         "\"2.0\""};
    size_t used = 0;

    used += (size_t) snprintf(ret, size, "{");
    for (uint32_t i = next_random(seed) % 5; i > 0; i--)
        used += (size_t) snprintf(ret + used, size - used, "%s:%s%s",
                                  keys[next_random(seed) % ARRAY_SIZE(keys)],
                                  values[next_random(seed) % ARRAY_SIZE(values)], i > 1 ? "," : "");
    used += (size_t) snprintf(ret + used, size - used, "}");
    return used;
}

static size_t spoil(uint32_t *seed, char *bytes, size_t size)
{
    static const char odd[] = "{}[]:,\"\\ 0-.eN\x80\n";
    size_t at = next_random(seed) % size;

    switch (next_random(seed) % 4) {
    case 0:
        bytes[at] = odd[next_random(seed) % (sizeof odd - 1)];
        return size;
    case 1:
        return at;
    case 2:
        memmove(bytes + at, bytes + at + 1, size - at - 1);
        return size - 1;
    default:
        return size;
    }
}

Test(manifest, scans_as_it_parses_on_every_input)
{
    uint32_t seed = 20260801;
    size_t good = 0;
    size_t bad = 0;

    for (int i = 0; i < 20000; i++) {
        char bytes[400];
        int64_t revision = 0;
        size_t size = make_up_manifest(&seed, bytes, sizeof bytes);
        size = spoil(&seed, bytes, size);
        if (read_both(bytes, size, &revision) == STATUS_OK)
            good++;
        else
            bad++;
    }
    cr_expect(gt(sz, good, 2000), "the generator makes too few sound manifests");
    cr_expect(gt(sz, bad, 2000), "the generator makes too few broken manifests");
}

Test(manifest, knows_its_layout)
{
    const struct {
        const char *text;
        enum manifest_layout layout;
    } cases[] = {
        {"{\"version\":\"2.0\"}", MANIFEST_LAYOUT_2},
        {"{\"version\":\"2\\u002e0\"}", MANIFEST_LAYOUT_2},
        {"{\"version\":\"1.0\",\"version\":\"2.0\"}", MANIFEST_LAYOUT_2},
        {"{\"version\":\"2.0\",\"facts\":null}", MANIFEST_LAYOUT_2},
        {"{\"version\":\"2.0\",\"facts\":{}}", MANIFEST_LAYOUT_1},
        {"{\"version\":\"2.0\",\"facts\":[]}", MANIFEST_LAYOUT_1},
        {"{\"version\":\"1.0\"}", MANIFEST_LAYOUT_1},
        {"{\"version\":\"2\"}", MANIFEST_LAYOUT_1},
        {"{\"version\":\"2.1\"}", MANIFEST_LAYOUT_1},
        {"{\"version\":2.0}", MANIFEST_LAYOUT_1},
        {"{\"version\":3}", MANIFEST_LAYOUT_1},
        {"{\"version\":null}", MANIFEST_LAYOUT_1},
        {"{\"version\":\"2.0\\u0000\"}", MANIFEST_LAYOUT_1},
        {"{\"version\":\"3x\"}", MANIFEST_LAYOUT_1},
        {"{\"version\":\"\"}", MANIFEST_LAYOUT_1},
        {"{}", MANIFEST_LAYOUT_1},
        {"{\"version\":\"3.0\"}", MANIFEST_LAYOUT_NEWER},
        {"{\"version\":\"3\",\"facts\":[]}", MANIFEST_LAYOUT_NEWER},
        {"{\"version\":\"10.1\"}", MANIFEST_LAYOUT_NEWER},
        {"{\"version\":\"99999999999999999999.0\"}", MANIFEST_LAYOUT_NEWER},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        AUTO_MANIFEST struct manifest manifest = {0};
        cr_assert(eq(int, manifest_parse(cases[i].text, strlen(cases[i].text), &manifest, NULL),
                     STATUS_OK));
        cr_expect(eq(int, manifest.layout, cases[i].layout), "row %zu", i);
    }
}

static void check_document(const char *bytes, const char *expected)
{
    AUTO_MANIFEST struct manifest manifest = {0};
    AUTO_TEXT struct text text = {0};

    cr_assert(eq(int, manifest_parse(bytes, strlen(bytes), &manifest, NULL), STATUS_OK));
    AUTO_JSON json_t *document = manifest_document(&manifest);
    json_text_write(&text, document);
    cr_expect(eq(str, text.bytes, plain(expected)));
}

Test(manifest, shows_every_key_but_facts)
{
    check_document("{\"x\":[1],\"facts\":[2],\"revision\":\"7\",\"user\":null}",
                   "{\"x\":[1],\"revision\":\"7\",\"user\":null}");
    check_document("{\"version\":\"2.0\",\"history\":\"x\"}",
                   "{\"version\":\"2.0\",\"history\":\"x\",\"revision\":0}");
    check_document("{\"revision\":1,\"a\":2,\"revision\":3.5}", "{\"revision\":3.5,\"a\":2}");
}

Test(manifest, of_a_user_without_one_is_an_empty_document)
{
    AUTO_MANIFEST struct manifest manifest = {0};
    AUTO_TEXT struct text text = {0};

    cr_assert(eq(int, manifest_create_empty(UINT64_C(1772352000750000000), &manifest), STATUS_OK));
    cr_expect(eq(i64, manifest.revision, 0));
    cr_expect(eq(int, manifest.layout, MANIFEST_LAYOUT_2));
    json_text_write(&text, manifest.root);
    cr_expect(eq(
        str, text.bytes,
        plain("{\"version\":\"1.0\",\"revision\":0,\"lastUpdated\":\"2026-03-01T08:00:00.750000Z\","
              "\"user\":{\"workContext\":{\"summary\":\"\",\"updatedAt\":\"\"},"
              "\"personalContext\":{\"summary\":\"\",\"updatedAt\":\"\"},"
              "\"topOfMind\":{\"summary\":\"\",\"updatedAt\":\"\"}},"
              "\"history\":{\"recentMonths\":{\"summary\":\"\",\"updatedAt\":\"\"},"
              "\"earlierContext\":{\"summary\":\"\",\"updatedAt\":\"\"},"
              "\"longTermBackground\":{\"summary\":\"\",\"updatedAt\":\"\"}}}")));
}

Test(manifest, is_refused_beyond_its_limit)
{
    size_t size = MANIFEST_BYTES_MAX + 1;
    AUTO_FREE char *bytes = malloc(size);
    int64_t revision = 0;

    cr_assert(ne(ptr, bytes, NULL));
    memset(bytes, ' ', size);
    memcpy(bytes, "{}", 2);
    cr_expect(eq(int, read_both(bytes, size - 1, &revision), STATUS_OK));
    cr_expect(eq(int, manifest_scan_revision(bytes, size, &revision, NULL), STATUS_TOO_LARGE));
}

Test(manifest, leaves_the_path_of_the_error_alone)
{
    struct error error = {.path = "users/u/memory.json"};
    struct manifest manifest = {0};

    cr_expect(eq(int, manifest_parse("[]", 2, &manifest, &error), STATUS_CORRUPT));
    cr_expect(eq(str, error.path, plain("users/u/memory.json")));
    cr_expect(eq(str, error.message, plain("the manifest is no JSON object")));
}
