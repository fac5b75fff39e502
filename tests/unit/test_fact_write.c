#include "core/fact_write.h"

#include "core/json_text.h"
#include "tests/support/shared.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define FILE_TIME_NS UINT64_C(1770715800000000000)

#define FRONT                                                                                      \
    "\"id\":\"f_tea\",\"category\":\"preference\",\"confidence\":0.9,\"createdAt\":"               \
    "\"2026-01-15T00:30:00Z\",\"source\":{\"type\":\"manual\",\"threadId\":null},"                 \
    "\"schemaVersion\":2,\"status\":\"active\",\"topics\":[],\"consolidatedFrom\":[],"             \
    "\"updatedAt\":\"2026-01-15T00:30:00Z\",\"revision\":1"
#define SCOPE "\"scope\":{\"userId\":\"mira\",\"agentName\":\"Desk\"}"
#define BODY "\"title\":\"Tea\",\"content\":\"Drinks tea.\\n\\n# No coffee\","

/* A document, with members in the place of those of the same name, or beside them. */
static json_t *document_with(const char *members)
{
    AUTO_TEXT struct text json = {0};
    json_t *document = NULL;
    struct error error = {0};

    text_append_format(&json, "{%s,%s%s%s}", FRONT, BODY, SCOPE, members);
    cr_assert(json_text_read(json.bytes, json.size, 100, &document, &error) == STATUS_OK, "%s: %s",
              json.bytes, error.message);
    return document;
}

static enum status write_file(const json_t *document, struct text *ret, struct error *error)
{
    struct scope scope;

    cr_assert(scope_create("mira", "desk", &scope, NULL) == STATUS_OK);
    return fact_write(document, &scope, ret, error);
}

static void check_file(const char *members, const char *expected)
{
    AUTO_JSON json_t *document = document_with(members);
    AUTO_JSON json_t *before = json_deep_copy(document);
    AUTO_TEXT struct text file = {0};
    struct error error = {0};

    cr_assert(write_file(document, &file, &error) == STATUS_OK, "%s: %s", members, error.message);
    cr_expect(strcmp(file.bytes, expected) == 0, "%s gave\n%s", members, file.bytes);
    cr_expect(json_equal(document, before), "the document is left alone");
}

#define FRONT_TEXT(user)                                                                           \
    "---\nid: f_tea\ncategory: preference\nconfidence: 0.9\ncreatedAt: '2026-01-15T00:30:00Z'\n"   \
    "source:\n  type: manual\n  threadId: null\nschemaVersion: 2\nstatus: active\ntopics: []\n"    \
    "consolidatedFrom: []\nupdatedAt: '2026-01-15T00:30:00Z'\nrevision: 1\n" user                  \
    "agent_name: Desk\n---\n\n"

Test(fact_write, lays_a_fact_out_as_the_peers_do)
{
    check_file("", FRONT_TEXT("user_id: mira\n") "# Tea\n\nDrinks tea.\n\n# No coffee\n");
}

Test(fact_write, keeps_unknown_members_in_their_places)
{
    check_file(
        ",\"mine\":{\"k\":\"no\"},\"$pairs\":[[5,\"x\"]]",
        FRONT_TEXT(
            "mine:\n  k: 'no'\n5: x\nuser_id: mira\n") "# Tea\n\nDrinks tea.\n\n# No coffee\n");
}

Test(fact_write, names_no_user_where_there_is_none)
{
    AUTO_JSON json_t *document =
        document_with(",\"scope\":{\"userId\":null,\"agentName\":\"Desk\"}");
    AUTO_TEXT struct text file = {0};
    struct scope scope;

    cr_assert(scope_create(NULL, "desk", &scope, NULL) == STATUS_OK);
    cr_assert(fact_write(document, &scope, &file, NULL) == STATUS_OK);
    cr_expect(strstr(file.bytes, "\nuser_id: null\nagent_name: Desk\n---\n"), "%s", file.bytes);
}

Test(fact_write, drops_the_blanks_that_a_cut_has_left_at_the_end_of_a_title)
{
    check_file(",\"title\":\"Tea  \"",
               FRONT_TEXT("user_id: mira\n") "# Tea\n\nDrinks tea.\n\n# No coffee\n");
}

Test(fact_write, appends_and_leaves_the_text_alone_on_failure)
{
    AUTO_JSON json_t *good = document_with("");
    AUTO_JSON json_t *bad = document_with(",\"revision\":0");
    AUTO_TEXT struct text file = {0};

    text_append_string(&file, "before");
    cr_expect(write_file(bad, &file, NULL) == STATUS_INVALID);
    cr_expect(strcmp(file.bytes, "before") == 0);
    cr_expect(write_file(good, &file, NULL) == STATUS_OK);
    cr_expect(strncmp(file.bytes, "before---\nid: f_tea\n", 20) == 0);
}

Test(fact_write, refuses_what_readers_would_refuse_or_read_otherwise)
{
    static const struct {
        const char *members;
        const char *named;
    } cases[] = {
        {",\"id\":5", "id"},
        {",\"id\":\"other id\"", "id"},
        {",\"confidence\":2.0", "confidence"},
        {",\"confidence\":1", "confidence"}, /* reads back as 1.0 */
        {",\"topics\":[1]", "topics"},
        {",\"topics\":null", "topics"},
        {",\"status\":\"gone\"", "status"},
        {",\"revision\":0", "revision"},
        {",\"schemaVersion\":3", "schemaVersion"},
        {",\"category\":\"tea\"", "category"},
        {",\"source\":\"manual\"", "source"},
        {",\"content\":\" Drinks tea.\"", "content"},
        {",\"content\":\"a\\r\\nb\"", "content"},
        {",\"content\":\"a\\u2028b\"", "content"},
        {",\"content\":\"\"", "content"},
        {",\"content\":5", "content"},
        {",\"content\":\"party \\ud83d\"", "content"},
        {",\"title\":\"party \\ud83d\"", "title"},
        {",\"title\":null", "title"},
        {",\"scope\":null", "user"},
        {",\"scope\":{\"userId\":\"other\",\"agentName\":\"desk\"}", "user"},
        {",\"scope\":{\"userId\":\"mira\",\"agentName\":\"other\"}", "agent_name"},
        {",\"scope\":{\"userId\":\"mira\",\"agentName\":\"desk\",\"x\":1}", "scope"},
        {",\"user_id\":\"mira\"", "user_id"},
        {",\"agent_name\":\"desk\"", "agent_name"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        AUTO_JSON json_t *document = document_with(cases[i].members);
        AUTO_TEXT struct text file = {0};
        struct error error = {0};
        cr_expect(write_file(document, &file, &error) == STATUS_INVALID, "%s", cases[i].members);
        cr_expect(strstr(error.message, cases[i].named), "%s: %s", cases[i].members, error.message);
        cr_expect(error.status == STATUS_INVALID && file.size == 0, "%s", cases[i].members);
    }
}

Test(fact_write, refuses_a_document_without_some_member)
{
    static const char *const names[] = {"id",         "title",  "content",   "scope",
                                        "confidence", "topics", "createdAt", "revision"};

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        AUTO_JSON json_t *document = document_with("");
        AUTO_TEXT struct text file = {0};
        struct error error = {0};
        (void) json_object_del(document, names[i]);
        cr_expect(write_file(document, &file, &error) == STATUS_INVALID, "%s", names[i]);
        cr_expect(error.message[0], "%s", names[i]);
    }
}

Test(fact_write, refuses_more_than_is_read)
{
    AUTO_JSON json_t *document = document_with("");
    AUTO_JSON json_t *deep = json_array();
    AUTO_JSON json_t *many = json_array();
    AUTO_TEXT struct text content = {0};
    AUTO_TEXT struct text file = {0};

    for (int i = 0; i < 70; i++) {
        json_t *outer = json_pack("[o]", deep);
        deep = outer;
    }
    cr_assert(json_object_set(document, "mine", deep) == 0);
    cr_expect(write_file(document, &file, NULL) == STATUS_INVALID, "nested too deep");

    for (int i = 0; i < 20001; i++)
        json_array_append_new(many, json_integer(i));
    cr_assert(json_object_set(document, "mine", many) == 0);
    cr_expect(write_file(document, &file, NULL) == STATUS_INVALID, "too many values");

    cr_assert(json_object_del(document, "mine") == 0);
    while (content.size <= FACT_FILE_BYTES_MAX)
        text_append_string(&content, "0123456789abcdefghijklmnopqrstuvwxyz");
    json_object_set_new(document, "content",
                        json_stringn(content.bytes, FACT_FILE_BYTES_MAX - 1000));
    cr_expect(write_file(document, &file, NULL) == STATUS_OK, "as large as it may be");
    text_clear(&file);
    json_object_set_new(document, "content", json_stringn(content.bytes, FACT_FILE_BYTES_MAX));
    cr_expect(write_file(document, &file, NULL) == STATUS_TOO_LARGE, "too large");
    cr_expect(file.size == 0);
}

/* ---- the files of the peers ---- */

static struct {
    unsigned sound;
    unsigned identical;
} counts;

static void write_again(const char *path, const char *id, const char *bytes, size_t size)
{
    AUTO_TEXT struct text written = {0};
    AUTO_FACT struct fact *fact = NULL;
    AUTO_FACT struct fact *again = NULL;
    struct error error = {0};

    if (fact_parse(bytes, size, NULL, id, FILE_TIME_NS, &fact, NULL, NULL) != STATUS_OK)
        return;
    cr_assert(fact_write(fact->document, NULL, &written, &error) == STATUS_OK, "%s: %s", path,
              error.message);
    cr_assert(fact_parse(written.bytes, written.size, NULL, id, FILE_TIME_NS + 1, &again, NULL,
                         &error) == STATUS_OK,
              "%s: %s", path, error.message);
    cr_expect(json_equal(fact->document, again->document), "%s", path);

    /* Who writes by hand has a layout of their own, and so have files with line separators, which
     * become newlines, or with NEL, LS and PS in the front matter, which are escaped. */
    bool identical = written.size == size && memcmp(written.bytes, bytes, size) == 0;
    counts.sound++;
    counts.identical += identical;
    cr_expect(identical || strstr(path, "hand-written") || strstr(path, "text-line-separators") ||
                  strstr(path, "yaml-hostile-values") || strstr(path, "corrupt-facts") ||
                  strstr(path, "rebuild-poison") || strstr(path, "/f_shadow.md"),
              "%s is written otherwise", path);
}

Test(fact_write, gives_back_every_sound_file_of_the_shared_volumes)
{
    if (!shared_is_there())
        return;
    shared_walk_facts(write_again);
    (void) fprintf(stderr, "%u sound facts, %u the same to the byte\n", counts.sound,
                   counts.identical);
    cr_expect(counts.sound >= 708 && counts.identical >= 655);
}
