#include "core/fact_normalise.h"

#include "core/fact_write.h"
#include "core/json_text.h"
#include "tests/support/shared.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define WALL_NS UINT64_C(1772352001500000000)
#define WALL "\"2026-03-01T08:00:01.500000Z\""
#define FILE_TIME_NS UINT64_C(1770715800000000000)

static json_t *parse(const char *json)
{
    json_t *value = NULL;
    struct error error = {0};

    cr_assert(json_text_read(json, strlen(json), 100, &value, &error) == STATUS_OK, "%s: %s", json,
              error.message);
    return value;
}

static enum status normalise(const char *json, json_t **ret, struct error *error)
{
    AUTO_JSON json_t *input = parse(json);
    AUTO_JSON json_t *before = json_deep_copy(input);
    struct scope scope;

    cr_assert(scope_create("uma", "Desk", &scope, NULL) == STATUS_OK);
    enum status status = fact_normalise(input, &scope, WALL_NS, ret, error);
    cr_expect(json_equal(input, before), "%s is left alone", json);
    cr_expect((status == STATUS_OK) == (*ret != NULL), "%s", json);
    return status;
}

/* The fact f1 with content x and more, complete, as compact JSON. */
static char *completed(const char *members)
{
    AUTO_TEXT struct text json = {0};
    AUTO_TEXT struct text text = {0};
    AUTO_TEXT struct text file = {0};
    AUTO_JSON json_t *document = NULL;
    struct error error = {0};

    text_append_format(&json, "{\"id\":\"f1\",\"content\":\"x\"%s}", members);
    cr_assert(normalise(json.bytes, &document, &error) == STATUS_OK, "%s: %s", members,
              error.message);
    cr_expect(fact_write(document, NULL, &file, &error) == STATUS_OK, "%s: %s", members,
              error.message);
    json_text_write(&text, document);
    return text_take(&text, NULL);
}

#define SCHEMA "\"schemaVersion\":2,"
#define SURE "\"confidence\":0.5,"
#define ACTIVE "\"status\":\"active\","
#define TOPICS "\"topics\":[],"
#define FROM "\"consolidatedFrom\":[],"
#define SOURCE "\"source\":{\"type\":\"unknown\",\"threadId\":null},"
#define DATES "\"createdAt\":" WALL ",\"updatedAt\":" WALL ","
#define FIRST "\"revision\":1"
#define BODY ",\"title\":\"x\",\"content\":\"x\","
#define SCOPE "\"scope\":{\"userId\":\"uma\",\"agentName\":\"desk\"}"

Test(fact_normalise, fills_in_what_is_missing_in_the_peers_order)
{
    static const struct {
        const char *members;
        const char *document;
    } cases[] = {
        {"", SCHEMA SURE ACTIVE TOPICS FROM SOURCE DATES FIRST BODY SCOPE},
        {",\"confidence\":1,\"mine\":[1],\"category\":\"goal\"",
         "\"confidence\":1.0,\"mine\":[1],\"category\":\"goal\"," SCHEMA ACTIVE TOPICS FROM SOURCE
             DATES FIRST BODY SCOPE},
        {",\"createdAt\":\"then\"", "\"createdAt\":\"then\"," SCHEMA SURE ACTIVE TOPICS FROM SOURCE
                                    "\"updatedAt\":\"then\"," FIRST BODY SCOPE},
        {",\"createdAt\":\"\",\"updatedAt\":\"now\",\"revision\":7",
         "\"createdAt\":\"\",\"updatedAt\":\"now\",\"revision\":7," SCHEMA SURE ACTIVE TOPICS FROM
         "\"source\":{\"type\":\"unknown\",\"threadId\":null}" BODY SCOPE},
        {",\"consolidatedFrom\":[\"a\"]",
         "\"consolidatedFrom\":[\"a\"]," SCHEMA SURE ACTIVE TOPICS SOURCE DATES FIRST
         ",\"consolidatedAt\":" WALL BODY SCOPE},
        {",\"schemaVersion\":9", SCHEMA SURE ACTIVE TOPICS FROM SOURCE DATES FIRST BODY SCOPE},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        AUTO_FREE char *document = completed(cases[i].members);
        AUTO_TEXT struct text expected = {0};
        text_append_format(&expected, "{\"id\":\"f1\",%s}", cases[i].document);
        cr_expect(strcmp(document, expected.bytes) == 0, "%s gave\n%s\nnot\n%s", cases[i].members,
                  document, expected.bytes);
    }
}

Test(fact_normalise, says_itself_where_the_fact_goes)
{
    AUTO_FREE char *plain = completed("");
    AUTO_FREE char *smuggled = completed(",\"scope\":{\"userId\":\"other\",\"agentName\":\"a\"},"
                                         "\"user_id\":\"other\",\"agent_name\":5");

    cr_expect(strcmp(plain, smuggled) == 0, "%s", smuggled);
}

Test(fact_normalise, keeps_the_spelling_of_the_agent)
{
    AUTO_FREE char *document = completed(",\"scope\":{\"agentName\":\"DESK\"}");

    cr_expect(strstr(document, "\"scope\":{\"userId\":\"uma\",\"agentName\":\"DESK\"}"), "%s",
              document);
}

Test(fact_normalise, takes_every_form_of_source)
{
    static const char *const cases[][2] = {
        {"\"manual\"", "{\"type\":\"manual\",\"threadId\":null}"},
        {"\"import\"", "{\"type\":\"import\",\"threadId\":null}"},
        {"\"thread-9f\"", "{\"type\":\"conversation\",\"threadId\":\"thread-9f\"}"},
        {"\"\"", "{\"type\":\"conversation\",\"threadId\":\"\"}"},
        {"5", "{\"type\":\"unknown\",\"threadId\":null}"},
        {"null", "{\"type\":\"unknown\",\"threadId\":null}"},
        {"[1]", "{\"type\":\"unknown\",\"threadId\":null}"},
        {"{\"type\":\"api\"}", "{\"type\":\"api\"}"},
        {"{\"threadId\":\"t\",\"n\":1}", "{\"threadId\":\"t\",\"n\":1,\"type\":\"unknown\"}"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char members[80];
        char expected[120];
        (void) snprintf(members, sizeof members, ",\"source\":%s", cases[i][0]);
        (void) snprintf(expected, sizeof expected, "\"source\":%s,", cases[i][1]);
        AUTO_FREE char *document = completed(members);
        cr_expect(strstr(document, expected), "%s gave %s", members, document);
    }
}

Test(fact_normalise, keeps_the_extension_with_its_category)
{
    static const char *const cases[][2] = {
        {"\"category\":\"goal\"", "\"category\":\"goal\",\"schema"},
        {"\"category\":\"goal\",\"categoryExtension\":\"old\"", "\"category\":\"goal\",\"schema"},
        {"\"category\":\"\",\"categoryExtension\":\"old\"", "\"category\":\"\",\"schema"},
        {"\"category\":\"hobby\"",
         "\"category\":\"other\",\"schemaVersion\":2,\"categoryExtension\":\"hobby\","},
        {"\"category\":\"hobby\",\"categoryExtension\":\"old\"",
         "\"category\":\"other\",\"schemaVersion\":2,\"categoryExtension\":\"hobby\","},
        {"\"category\":\"other\",\"categoryExtension\":\"old\"",
         "\"category\":\"other\",\"categoryExtension\":\"old\",\"schema"},
        {"\"category\":\"other\"", "\"category\":\"other\",\"schema"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char members[100];
        (void) snprintf(members, sizeof members, ",%s", cases[i][0]);
        AUTO_FREE char *document = completed(members);
        cr_expect(strstr(document, cases[i][1]), "%s gave %s", members, document);
    }
}

static void check_body(const char *members, const char *title, const char *content)
{
    AUTO_JSON json_t *document = NULL;
    AUTO_TEXT struct text file = {0};
    AUTO_FACT struct fact *fact = NULL;
    char json[1500];
    struct error error = {0};

    (void) snprintf(json, sizeof json, "{\"id\":\"f1\",%s}", members);
    cr_assert(normalise(json, &document, &error) == STATUS_OK, "%s: %s", members, error.message);
    cr_expect(strcmp(json_string_value(json_object_get(document, "title")), title) == 0,
              "%s: title '%s'", members, json_string_value(json_object_get(document, "title")));
    cr_expect(strcmp(json_string_value(json_object_get(document, "content")), content) == 0,
              "%s: content '%s'", members, json_string_value(json_object_get(document, "content")));

    /* Reading finds nothing to change. */
    cr_assert(fact_write(document, NULL, &file, &error) == STATUS_OK, "%s: %s", members,
              error.message);
    cr_assert(fact_parse(file.bytes, file.size, NULL, "f1", 0, &fact, NULL, NULL) == STATUS_OK);
    cr_expect(json_equal(document, fact->document), "%s", members);
}

Test(fact_normalise, stores_the_text_as_reading_will_find_it)
{
    check_body("\"content\":\"\\r\\n  a\\r\\nb\\rc\\n\\n\"", "a", "a\nb\nc");
    check_body("\"content\":\"a\\u000bb\\u000cc\\u001cd\\u001de\\u001ef\\u0085g\\u2028h\\u2029i\"",
               "a", "a\nb\nc\nd\ne\nf\ng\nh\ni");
    check_body("\"content\":\"\\u3000\\u00a0a\\u2003\"", "a", "a");
    check_body("\"content\":\"# a\\nb\"", "# a", "# a\nb");
    check_body("\"content\":\"---\\na\\n---\"", "---", "---\na\n---");
    check_body("\"content\":\"a\\u0007b\\u001fc\\ufeff\"",
               "a\ab\x1f"
               "c\xef\xbb\xbf",
               "a\ab\x1f"
               "c\xef\xbb\xbf");
    check_body("\"content\":\"\\ufdd0\\ufdd1abcd\"",
               "\xef\xb7\x91"
               "fdd0\xef\xb7\x91"
               "fdd1abcd",
               "\xef\xb7\x91"
               "fdd0\xef\xb7\x91"
               "fdd1abcd");
}

Test(fact_normalise, keeps_nul_inside_a_text)
{
    AUTO_JSON json_t *document = NULL;

    cr_assert(normalise("{\"content\":\"before\\u0000after\"}", &document, NULL) == STATUS_OK);
    cr_expect(json_string_length(json_object_get(document, "content")) == 12);
    cr_expect(json_string_length(json_object_get(document, "title")) == 12);
}

Test(fact_normalise, makes_a_title_of_one_line)
{
    check_body("\"content\":\"a\\n\\nb\"", "a", "a\n\nb");
    check_body("\"content\":\"a  \\nb\"", "a", "a  \nb");
    check_body("\"title\":\"\",\"content\":\"a\"", "a", "a");
    check_body("\"title\":null,\"content\":\"a\"", "a", "a");
    check_body("\"title\":\" \\n\",\"content\":\"a\"", "a", "a");
    check_body("\"title\":\" t \",\"content\":\"a\"", "t", "a");
    check_body("\"title\":\"t\\r\\nu\\rv\\u2028w\",\"content\":\"a\"", "t u v w", "a");
    check_body("\"title\":\"# t\",\"content\":\"a\"", "# t", "a");
}

/* Titles of 159 letters and then something at the place of the cut. */
Test(fact_normalise, cuts_a_title_between_characters)
{
    static const struct {
        const char *end;
        const char *kept;
    } cases[] = {
        {"bc", "b"},
        {"\xf0\x9f\x8e\x89zz", "\xf0\x9f\x8e\x89"},
        {"\xe6\xb1\x89zz", "\xe6\xb1\x89"},
        {"\xef\xb7\x90zz", "\xef\xb7\x91"
                           "fdd0"},
        {"\\ufdd1zz", "\xef\xb7\x91"
                      "fdd1"},
        {" zz", ""},
    };
    char letters[160];

    memset(letters, 'a', sizeof letters);
    letters[159] = '\0';
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char members[400];
        char title[400];
        (void) snprintf(members, sizeof members, "\"content\":\"x\",\"title\":\"%s%s\"", letters,
                        cases[i].end);
        (void) snprintf(title, sizeof title, "%s%s", letters, cases[i].kept);
        check_body(members, title, "x");
    }
}

Test(fact_normalise, makes_up_an_id_where_there_is_none)
{
    static const char *const facts[] = {
        "{\"content\":\"x\"}",
        "{\"content\":\"x\",\"id\":null}",
        "{\"content\":\"x\",\"id\":\"\"}",
    };
    char last[FACT_ID_MAX + 1] = "";

    for (size_t i = 0; i < ARRAY_SIZE(facts); i++) {
        AUTO_JSON json_t *document = NULL;
        cr_assert(normalise(facts[i], &document, NULL) == STATUS_OK);
        const char *id = json_string_value(json_object_get(document, "id"));
        cr_expect(strncmp(id, "fact_", 5) == 0 && strlen(id) == 37 &&
                      strspn(id + 5, "0123456789abcdef") == 32,
                  "%s", id);
        cr_expect(strcmp(id, last) != 0, "%s twice", id);
        cr_expect(strcmp(json_object_iter_key(json_object_iter(document)), "id") == 0);
        (void) snprintf(last, sizeof last, "%s", id);
    }
}

Test(fact_normalise, refuses_unsafe_input_and_names_the_member)
{
    static const struct {
        const char *members;
        const char *named;
    } cases[] = {
        {"\"content\":5", "content"},
        {"\"content\":null", "content"},
        {"\"more\":1", "content"},
        {"\"content\":\"\"", "content"},
        {"\"content\":\" \\n\\t \\u3000\\u2028\"", "content"},
        {"\"content\":\"party \\ud83d\"", "content"},
        {"\"content\":12345678901234567890123", "content"},
        {"\"content\":\"x\",\"title\":5", "title"},
        {"\"content\":\"x\",\"title\":\"\\udc00\"", "title"},
        {"\"content\":\"x\",\"id\":\"f 1\"", "id"},
        {"\"content\":\"x\",\"id\":\"f/1\"", "id"},
        {"\"content\":\"x\",\"id\":\"\xc3\xa9\"", "id"},
        {"\"content\":\"x\",\"id\":\"..\"", "id"},
        {"\"content\":\"x\",\"id\":\"f\\u0000\"", "id"},
        {"\"content\":\"x\",\"id\":5", "id"},
        {"\"content\":\"x\",\"confidence\":1.5", "confidence"},
        {"\"content\":\"x\",\"confidence\":-0.1", "confidence"},
        {"\"content\":\"x\",\"confidence\":true", "confidence"},
        {"\"content\":\"x\",\"confidence\":\"0.5\"", "confidence"},
        {"\"content\":\"x\",\"confidence\":null", "confidence"},
        {"\"content\":\"x\",\"confidence\":NaN", "confidence"},
        {"\"content\":\"x\",\"topics\":\"a\"", "topics"},
        {"\"content\":\"x\",\"topics\":[1]", "topics"},
        {"\"content\":\"x\",\"topics\":null", "topics"},
        {"\"content\":\"x\",\"topics\":{\"a\":1}", "topics"},
        {"\"content\":\"x\",\"topics\":[\"\\ud83d\"]", "topics"},
        {"\"content\":\"x\",\"consolidatedFrom\":[1]", "consolidatedFrom"},
        {"\"content\":\"x\",\"revision\":0", "revision"},
        {"\"content\":\"x\",\"revision\":\"1\"", "revision"},
        {"\"content\":\"x\",\"revision\":true", "revision"},
        {"\"content\":\"x\",\"revision\":1.0", "revision"},
        {"\"content\":\"x\",\"revision\":9223372036854775808", "revision"},
        {"\"content\":\"x\",\"status\":\"archived\"", "status"},
        {"\"content\":\"x\",\"category\":5", "category"},
        {"\"content\":\"x\",\"category\":null", "category"},
        {"\"content\":\"x\",\"categoryExtension\":5", "categoryExtension"},
        {"\"content\":\"x\",\"source\":{\"type\":5}", "source.type"},
        {"\"content\":\"x\",\"source\":{\"threadId\":5}", "source.threadId"},
        {"\"content\":\"x\",\"createdAt\":5", "createdAt"},
        {"\"content\":\"x\",\"createdAt\":null", "createdAt"},
        {"\"content\":\"x\",\"updatedAt\":5", "updatedAt"},
        {"\"content\":\"x\",\"lastConfirmedAt\":5", "lastConfirmedAt"},
        {"\"content\":\"x\",\"confirmationCount\":0", "confirmationCount"},
        {"\"content\":\"x\",\"confirmationCount\":1.0", "confirmationCount"},
        {"\"content\":\"x\",\"mine\":[{\"\\ud83d\":1}]", "mine"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        AUTO_JSON json_t *document = NULL;
        char json[200];
        char named[40];
        struct error error = {0};
        (void) snprintf(json, sizeof json, "{%s}", cases[i].members);
        (void) snprintf(named, sizeof named, "field %s ", cases[i].named);
        cr_expect(normalise(json, &document, &error) == STATUS_INVALID, "%s", json);
        cr_expect(error.status == STATUS_INVALID, "%s", json);
        cr_expect(strncmp(error.message, named, strlen(named)) == 0, "%s: %s", json, error.message);
    }
}

Test(fact_normalise, refuses_what_is_no_object)
{
    AUTO_JSON json_t *document = NULL;

    cr_expect(normalise("[]", &document, NULL) == STATUS_INVALID);
    cr_expect(normalise("\"x\"", &document, NULL) == STATUS_INVALID);
    cr_expect(normalise("null", &document, NULL) == STATUS_INVALID);
}

Test(fact_normalise, refuses_half_of_a_surrogate_pair_in_a_name)
{
    AUTO_JSON json_t *document = NULL;
    struct error error = {0};

    cr_expect(normalise("{\"content\":\"x\",\"\\ud83d\":1}", &document, &error) == STATUS_INVALID);
    cr_expect(error.message[0]);
}

Test(fact_normalise, same_material_is_all_but_revision_and_time)
{
    static const struct {
        const char *a, *b;
        bool same;
    } cases[] = {
        {"{}", "{}", true},
        {"{\"x\":1,\"revision\":1}", "{\"x\":1,\"revision\":2}", true},
        {"{\"x\":1,\"revision\":1,\"updatedAt\":\"a\"}", "{\"updatedAt\":\"b\",\"x\":1}", true},
        {"{\"x\":1}", "{\"x\":2}", false},
        {"{\"x\":1}", "{\"x\":1.0}", false},
        {"{\"x\":1}", "{\"x\":1,\"y\":1}", false},
        {"{\"x\":1,\"y\":1}", "{\"x\":1}", false},
        {"{\"x\":1,\"revision\":1}", "{\"x\":1,\"y\":1}", false},
        {"{\"createdAt\":\"a\"}", "{\"createdAt\":\"b\"}", false},
        {"{\"x\":{\"revision\":1}}", "{\"x\":{\"revision\":2}}", false},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        AUTO_JSON json_t *a = parse(cases[i].a);
        AUTO_JSON json_t *b = parse(cases[i].b);
        cr_expect(fact_same_material(a, b) == cases[i].same, "row %zu", i);
        cr_expect(fact_same_material(b, a) == cases[i].same, "row %zu", i);
    }
}

/* ---- against the peers ---- */

/* Like json_equal(), but {"$varies": true} stands for anything. */
static bool matches(const json_t *value, json_t *expected)
{
    const char *name;
    json_t *item;

    if (json_object_get(expected, "$varies"))
        return value != NULL;
    if (!json_is_object(expected) || json_object_size(expected) != json_object_size(value))
        return json_equal(value, expected);
    json_object_foreach(expected, name, item)
    {
        if (!matches(json_object_get(value, name), item))
            return false;
    }
    return true;
}

static void check_validation(json_t *step)
{
    json_t *given = json_object_get(json_object_get(step, "args"), "fact");
    json_t *upserted = json_object_get(json_object_get(step, "result"), "upsertedFacts");
    AUTO_JSON json_t *document = NULL;
    AUTO_FREE char *shown = json_dumps(given, 0);
    struct scope scope;
    struct error error = {0};

    cr_assert(scope_create("uma", "desk", &scope, NULL) == STATUS_OK);
    enum status status = fact_normalise(given, &scope, WALL_NS, &document, &error);
    if (!upserted) {
        cr_expect(status == STATUS_INVALID, "%s", shown);
        return;
    }
    cr_assert(status == STATUS_OK, "%s: %s", shown, error.message);
    cr_expect(matches(document, json_array_get(upserted, 0)), "%s", shown);
}

Test(fact_normalise, takes_and_refuses_what_the_peers_do)
{
    json_t *sequence;
    json_t *step;
    size_t i;
    size_t j;
    unsigned count = 0;

    if (!shared_is_there())
        return;
    AUTO_JSON json_t *operations = shared_json("volumes/ops.json");
    json_array_foreach(json_object_get(operations, "sequences"), i, sequence)
    {
        const char *name = json_string_value(json_object_get(sequence, "name"));
        if (strcmp(name, "validation") != 0)
            continue;
        json_array_foreach(json_object_get(sequence, "steps"), j, step)
        {
            if (json_object_get(json_object_get(step, "args"), "fact")) {
                check_validation(step);
                count++;
            }
        }
    }
    cr_expect(count >= 25, "%u steps", count);
}

/* The least input, and the file that a peer made of it at that time. */
Test(fact_normalise, makes_the_files_that_the_peers_make)
{
    static const struct {
        const char *input;
        uint64_t wall_ns;
        const char *file;
    } cases[] = {
        {"{\"id\":\"f_min\",\"content\":\"Only content was given.\"}",
         UINT64_C(1772352000250000000), "59/f_min.md"},
        {"{\"id\":\"f_nocat\",\"content\":\"No category key at all.\",\"createdAt\":"
         "\"2026-02-01T00:00:00Z\"}",
         UINT64_C(1772352000500000000), "25/f_nocat.md"},
        {"{\"id\":\"f_emptycat\",\"content\":\"Category is an empty string.\",\"category\":\"\"}",
         UINT64_C(1772352000750000000), "6d/f_emptycat.md"},
        {"{\"content\":\" \\r\\n\\tsurrounded by blank space\\u00a0\\u2028\",\"id\":\"f_ws\"}",
         UINT64_C(1772352001500000000), "f0/f_ws.md"},
    };
    struct scope scope;

    if (!shared_is_there())
        return;
    cr_assert(scope_create("alice", "agent-a", &scope, NULL) == STATUS_OK);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        AUTO_JSON json_t *input = parse(cases[i].input);
        AUTO_JSON json_t *document = NULL;
        AUTO_TEXT struct text written = {0};
        AUTO_FREE char *expected =
            shared_read(NULL, "volumes/defaults-filled/volume/users/alice/agents/agent-a/facts/%s",
                        cases[i].file);
        cr_assert(fact_normalise(input, &scope, cases[i].wall_ns, &document, NULL) == STATUS_OK);
        cr_assert(fact_write(document, &scope, &written, NULL) == STATUS_OK);
        cr_expect(strcmp(written.bytes, expected) == 0, "%s\nnot\n%s", written.bytes, expected);
    }
}

static struct {
    unsigned normalised;
    unsigned refused;
} counts;

/* A document that was read is complete already; what is refused of it holds a half of a surrogate
 * pair. */
static void normalise_again(const char *path, const char *id, const char *bytes, size_t size)
{
    AUTO_FACT struct fact *fact = NULL;
    AUTO_JSON json_t *document = NULL;
    struct scope scope;
    struct error error = {0};

    if (fact_parse(bytes, size, NULL, id, FILE_TIME_NS, &fact, NULL, NULL) != STATUS_OK)
        return;
    const json_t *given = json_object_get(fact->document, "scope");
    const char *agent = json_string_value(json_object_get(given, "agentName"));
    if (scope_create(fact_owner(fact), agent, &scope, NULL) != STATUS_OK)
        return;
    if (!json_text_is_unicode(fact->document)) {
        counts.refused++;
        cr_expect(fact_normalise(fact->document, &scope, WALL_NS, &document, NULL) ==
                      STATUS_INVALID,
                  "%s", path);
        return;
    }
    cr_assert(fact_normalise(fact->document, &scope, WALL_NS, &document, &error) == STATUS_OK,
              "%s: %s", path, error.message);
    cr_expect(json_equal(document, fact->document), "%s", path);
    counts.normalised++;
}

Test(fact_normalise, changes_nothing_of_what_was_read)
{
    if (!shared_is_there())
        return;
    shared_walk_facts(normalise_again);
    (void) fprintf(stderr, "%u facts, %u refused\n", counts.normalised, counts.refused);
    cr_expect(counts.normalised > 690 && counts.refused < 5);
}
