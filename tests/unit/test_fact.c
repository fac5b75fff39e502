#include "core/fact.h"

#include "core/clock.h"
#include "core/text.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#define FILE_TIME_NS UINT64_C(1772352000750000000)
#define FILE_TIME "2026-03-01T08:00:00.750000Z"

#define BASE "id: f_pear\nuser_id: mira\nagent_name: garden\n"
#define BODY "\n# Pears\n\nThe pears ripen in October.\n"

/* One reading, with all that it gave. */
struct reading {
    struct fact *fact;
    enum status status;
    enum fact_fault fault;
    struct error error;
};

static void reading_destroy(struct reading *reading)
{
    fact_destroy(&reading->fact);
}

#define AUTO_READING CLEANUP(reading_destroy)

static struct scope make_scope(const char *user, const char *agent)
{
    struct scope scope;

    cr_assert(scope_create(user, agent, &scope, NULL) == STATUS_OK);
    return scope;
}

static struct reading read_bytes(const char *bytes, size_t size, const struct scope *scope,
                                 const char *id)
{
    struct reading reading = {0};

    reading.status = fact_parse(bytes, size, scope, id, FILE_TIME_NS, &reading.fact, &reading.fault,
                                &reading.error);
    cr_expect((reading.status == STATUS_OK) == (reading.fact != NULL));
    cr_expect((reading.status == STATUS_OK) == (reading.fault == FACT_FAULT_NONE));
    return reading;
}

/* A fact of mira's agent garden, given whole. */
static struct reading read_fact(const char *bytes)
{
    struct scope scope = make_scope("mira", "garden");

    return read_bytes(bytes, strlen(bytes), &scope, "f_pear");
}

/* The same with these lines added to the front matter. */
static struct reading read_with(const char *lines)
{
    AUTO_TEXT struct text text = {0};

    text_append_format(&text, "---\n" BASE "%s---\n" BODY, lines);
    return read_fact(text_string(&text));
}

static struct reading read_body(const char *body)
{
    AUTO_TEXT struct text text = {0};

    text_append_format(&text, "---\n" BASE "---\n%s", body);
    return read_fact(text_string(&text));
}

static const char *string_of(const struct reading *reading, const char *name)
{
    cr_assert(reading->fact, "%s", reading->error.message);
    const char *text = json_string_value(json_object_get(reading->fact->document, name));
    return text ? text : "(none)";
}

static void expect_document(const struct reading *reading, const char *json)
{
    cr_assert(reading->fact, "%s", reading->error.message);
    AUTO_FREE char *given = json_dumps(reading->fact->document, JSON_COMPACT);
    cr_expect(strcmp(given, json) == 0, "%s\nnot\n%s", given, json);
}

Test(fact, what_is_missing_gets_the_peers_defaults_in_their_order)
{
    AUTO_READING struct reading reading = read_fact("---\n" BASE "---\nOnly a line.\n");

    expect_document(&reading,
                    "{\"id\":\"f_pear\",\"title\":\"Only a line.\",\"content\":\"Only a line.\","
                    "\"scope\":{\"userId\":\"mira\",\"agentName\":\"garden\"},\"schemaVersion\":2,"
                    "\"confidence\":0.5,\"status\":\"active\",\"topics\":[],"
                    "\"consolidatedFrom\":[],\"source\":{\"type\":\"unknown\",\"threadId\":null},"
                    "\"createdAt\":\"" FILE_TIME "\",\"updatedAt\":\"" FILE_TIME
                    "\",\"revision\":1}");
}

Test(fact, the_struct_points_into_the_document)
{
    AUTO_READING struct reading reading =
        read_with("category: goal\nconfidence: 1\nrevision: 7\ncreatedAt: '2027'\n");

    cr_assert(reading.fact, "%s", reading.error.message);
    cr_expect(strcmp(reading.fact->id, "f_pear") == 0);
    cr_expect(strcmp(reading.fact->category, "goal") == 0);
    cr_expect(strcmp(reading.fact->created_at, "2027") == 0);
    cr_expect(strcmp(reading.fact->content, "The pears ripen in October.") == 0);
    cr_expect(reading.fact->content_size == strlen(reading.fact->content));
    cr_expect(reading.fact->confidence == 1.0 && reading.fact->revision == 7);
    cr_expect(json_is_real(json_object_get(reading.fact->document, "confidence")));
    cr_expect(!reading.fact->duplicate_key);
    cr_expect(strcmp(fact_owner(reading.fact), "mira") == 0);
}

Test(fact, a_missing_update_happened_at_creation)
{
    AUTO_READING struct reading reading = read_with("createdAt: '2027-01-02'\n");

    cr_expect(strcmp(string_of(&reading, "updatedAt"), "2027-01-02") == 0);
}

Test(fact, unknown_fields_stay_at_their_places)
{
    AUTO_READING struct reading reading = read_with("colour: {b: 1, a: [2027-01-01]}\n"
                                                    "odd: {1: x}\n");

    cr_assert(reading.fact, "%s", reading.error.message);
    AUTO_FREE char *colour =
        json_dumps(json_object_get(reading.fact->document, "colour"), JSON_COMPACT);
    AUTO_FREE char *odd = json_dumps(json_object_get(reading.fact->document, "odd"), JSON_COMPACT);
    cr_expect(strcmp(colour, "{\"b\":1,\"a\":[{\"$date\":\"2027-01-01\"}]}") == 0, "%s", colour);
    cr_expect(strcmp(odd, "{\"$pairs\":[[1,\"x\"]]}") == 0, "%s", odd);
}

Test(fact, keys_of_the_front_matter_that_are_no_text_stay_together)
{
    AUTO_READING struct reading reading = read_with("7: seven\ncolour: red\n");

    cr_expect(strcmp(string_of(&reading, "colour"), "red") == 0);
    AUTO_FREE char *rest =
        json_dumps(json_object_get(reading.fact->document, "$pairs"), JSON_COMPACT);
    cr_expect(strcmp(rest, "[[7,\"seven\"]]") == 0, "%s", rest);
}

Test(fact, the_body_overrides_the_front_matter)
{
    AUTO_READING struct reading reading = read_with("title: other\ncontent: other\nscope: other\n"
                                                    "schemaVersion: 9\n");

    cr_expect(strcmp(string_of(&reading, "title"), "Pears") == 0);
    cr_expect(strcmp(string_of(&reading, "content"), "The pears ripen in October.") == 0);
    cr_expect(json_is_object(json_object_get(reading.fact->document, "scope")));
    cr_expect(json_integer_value(json_object_get(reading.fact->document, "schemaVersion")) == 2);
}

Test(fact, title_and_content_are_found_as_the_peers_find_them)
{
    const struct {
        const char *body, *title, *content;
    } cases[] = {
        {"# Pears\nRipe.", "Pears", "Ripe."},
        {"\n\n\n# Pears \t\n\n\n\nRipe.\n\n\n", "Pears", "Ripe."},
        {"#  Pears\n \nRipe.\n", "Pears", "Ripe."},
        {"Ripe.\n\n# Pears\n", "Ripe.", "Ripe.\n\n# Pears"},
        {"#Pears\nRipe.\n", "#Pears", "#Pears\nRipe."},
        {"## Pears\nRipe.\n", "## Pears", "## Pears\nRipe."},
        {" \n# Pears\n\nRipe.\n", "# Pears", "# Pears\n\nRipe."},
        {"# \nRipe. \nSweet.\n", "Ripe.", "Ripe. \nSweet."},
        {"# Pears\n\n  Ripe.\n    - sweet\n", "Pears", "Ripe.\n    - sweet"},
        {"# Pears\n\xe3\x80\x80\xc2\xa0Ripe.\xe2\x80\x83\n", "Pears", "Ripe."},
        {"# Pears\vand\fapples\x1c.\n", "Pears", "and\napples\n."},
        {"# Pears\n\na\xc2\x85"
         "b\xe2\x80\xa8"
         "c\xe2\x80\xa9"
         "d\x1d"
         "e\x1e"
         "f\x1fg\n",
         "Pears", "a\nb\nc\nd\ne\nf\x1fg"},
        {"# Pears\r\n\r\nRipe.\rSweet.\r\n", "Pears", "Ripe.\nSweet."},
        {"# Pears\n\nOne.\n\n---\n\nid: two\n", "Pears", "One.\n\n---\n\nid: two"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        AUTO_READING struct reading reading = read_body(cases[i].body);
        cr_expect(strcmp(string_of(&reading, "title"), cases[i].title) == 0, "row %zu: %s", i,
                  string_of(&reading, "title"));
        cr_expect(strcmp(string_of(&reading, "content"), cases[i].content) == 0, "row %zu: %s", i,
                  string_of(&reading, "content"));
    }
}

Test(fact, a_title_has_at_most_160_characters)
{
    const char *const prefixes[] = {"# ", ""};

    for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++) {
        AUTO_TEXT struct text body = {0};
        text_append_string(&body, prefixes[i]);
        for (int j = 0; j < 170; j++)
            text_append_string(&body, "\xf0\x9f\x8d\x90");
        text_append_string(&body, "\n\nRipe.\n");
        AUTO_READING struct reading reading = read_body(text_string(&body));
        const char *title = string_of(&reading, "title");
        cr_expect(strlen(title) == 640 && text_is_utf8(title, 640), "row %zu: %zu", i,
                  strlen(title));
    }
}

Test(fact, content_may_hold_nul)
{
    static const char bytes[] = "---\n" BASE "---\n# Pears\n\nbefore\0after\n";
    struct scope scope = make_scope("mira", "garden");
    AUTO_READING struct reading reading = read_bytes(bytes, sizeof bytes - 1, &scope, "f_pear");

    cr_assert(reading.fact);
    cr_expect(reading.fact->content_size == 12);
    cr_expect(memcmp(reading.fact->content, "before\0after", 13) == 0);
}

Test(fact, files_without_front_matter_or_content_are_broken)
{
    const char *const cases[] = {
        "",
        "---\n",
        "---",
        "# Pears\n\nRipe.\n",
        "\n---\n" BASE "---\n" BODY,
        "--- \n" BASE "---\n" BODY,
        "\xef\xbb\xbf---\n" BASE "---\n" BODY,
        "---\n" BASE BODY,
        "---\n" BASE "--- \n" BODY,
        "---\n" BASE "---",
        "---\n---\n" BODY,
        "---\n- a\n---\n" BODY,
        "---\npears\n---\n" BODY,
        "---\n" BASE "---\n",
        "---\n" BASE "---\n# Pears\n",
        "---\n" BASE "---\n# Pears\n\n \t\n",
        "---\n" BASE "---\n# Pears\n\nRi\xffpe.\n",
        "---\n" BASE "x: \xe9\n---\n" BODY,
        "---\n" BASE "---\n\xed\xa0\x80\n",
        "---\n" BASE "x: [1\n---\n" BODY,
        "---\n" BASE "x: =\n---\n" BODY,
        "---\n" BASE "x: &x [*x]\n---\n" BODY,
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        AUTO_READING struct reading reading = read_fact(cases[i]);
        cr_expect(reading.status == STATUS_CORRUPT, "row %zu", i);
        cr_expect(reading.fault == FACT_FAULT_BROKEN, "row %zu", i);
        cr_expect(reading.error.message[0], "row %zu", i);
    }
}

Test(fact, line_numbers_are_those_of_the_file)
{
    AUTO_READING struct reading reading = read_fact("---\nid: f_pear\n\tx: 1\n---\n" BODY);

    cr_expect(strncmp(reading.error.message, "line 3: ", 8) == 0, "%s", reading.error.message);
}

Test(fact, values_against_a_fields_rule_are_broken_and_named)
{
    const struct {
        const char *line, *field;
    } cases[] = {
        {"confidence: 1.01", "confidence"},
        {"confidence: -0.1", "confidence"},
        {"confidence: yes", "confidence"},
        {"confidence: '0.5'", "confidence"},
        {"confidence: .nan", "confidence"},
        {"confidence: .inf", "confidence"},
        {"confidence: 99999999999999999999", "confidence"},
        {"confidence: null", "confidence"},
        {"category: 5", "category"},
        {"category: null", "category"},
        {"category: 99999999999999999999", "category"},
        {"status: gone", "status"},
        {"status: null", "status"},
        {"topics: a, b", "topics"},
        {"topics: null", "topics"},
        {"topics: [a, no]", "topics"},
        {"topics: [99999999999999999999]", "topics"},
        {"topics: !!set {a}", "topics"},
        {"consolidatedFrom: [7]", "consolidatedFrom"},
        {"lastConfirmedAt: 2027-01-01", "lastConfirmedAt"},
        {"confirmationCount: 0", "confirmationCount"},
        {"confirmationCount: true", "confirmationCount"},
        {"confirmationCount: 1.0", "confirmationCount"},
        {"confirmationCount: -99999999999999999999", "confirmationCount"},
        {"source: {type: 5}", "source.type"},
        {"source: {type: null}", "source.type"},
        {"source: {threadId: 5}", "source.threadId"},
        {"source: {1: x, threadId: 5}", "source.threadId"},
        {"createdAt: 2027-01-01", "createdAt"},
        {"createdAt: null", "createdAt"},
        {"updatedAt: 5", "updatedAt"},
        {"revision: 0", "revision"},
        {"revision: true", "revision"},
        {"revision: '1'", "revision"},
        {"revision: 1.0", "revision"},
        {"revision: null", "revision"},
        {"revision: 9223372036854775808", "revision"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        AUTO_TEXT struct text line = {0};
        AUTO_TEXT struct text start = {0};
        text_append_format(&line, "%s\n", cases[i].line);
        text_append_format(&start, "field %s ", cases[i].field);
        AUTO_READING struct reading reading = read_with(text_string(&line));
        cr_expect(reading.fault == FACT_FAULT_BROKEN, "row %zu: %s", i, cases[i].line);
        cr_expect(strncmp(reading.error.message, start.bytes, start.size) == 0, "row %zu: %s", i,
                  reading.error.message);
    }
}

Test(fact, values_within_the_rules_are_taken)
{
    const struct {
        const char *line, *field, *json;
    } cases[] = {
        {"confidence: 0", "confidence", "0.0"},
        {"confidence: 0.25", "confidence", "0.25"},
        {"category: ''", "category", "\"\""},
        {"category: orchard", "category", "\"other\""},
        {"category: orchard", "categoryExtension", "\"orchard\""},
        {"category: orchard\ncategoryExtension: x", "categoryExtension", "\"x\""},
        {"category: goal", "category", "\"goal\""},
        {"lastConfirmedAt: null", "lastConfirmedAt", "null"},
        {"confirmationCount: 3", "confirmationCount", "3"},
        {"revision: 010", "revision", "8"},
        {"source: import", "source", "{\"type\":\"import\",\"threadId\":null}"},
        {"source: t-4", "source", "{\"type\":\"conversation\",\"threadId\":\"t-4\"}"},
        {"source: ''", "source", "{\"type\":\"conversation\",\"threadId\":\"\"}"},
        {"source: [x]", "source", "{\"type\":\"unknown\",\"threadId\":null}"},
        {"source: 2027-01-01", "source", "{\"type\":\"unknown\",\"threadId\":null}"},
        {"source: {threadId: t}", "source", "{\"threadId\":\"t\",\"type\":\"unknown\"}"},
        {"source: {type: api}", "source", "{\"type\":\"api\"}"},
        {"source: {1: x}", "source", "{\"$pairs\":[[1,\"x\"],[\"type\",\"unknown\"]]}"},
        {"consolidatedFrom: [a]\nupdatedAt: u", "consolidatedAt", "\"u\""},
        {"consolidatedFrom: [a]\nconsolidatedAt: c", "consolidatedAt", "\"c\""},
        {"topics: ['']", "topics", "[\"\"]"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        AUTO_TEXT struct text lines = {0};
        text_append_format(&lines, "%s\n", cases[i].line);
        AUTO_READING struct reading reading = read_with(text_string(&lines));
        cr_assert(reading.fact, "row %zu: %s", i, reading.error.message);
        AUTO_FREE char *json = json_dumps(json_object_get(reading.fact->document, cases[i].field),
                                          JSON_COMPACT | JSON_ENCODE_ANY);
        cr_expect(json && strcmp(json, cases[i].json) == 0, "row %zu: %s", i, json ? json : "");
    }
}

Test(fact, the_id_is_the_files_name_whatever_its_type)
{
    const struct {
        const char *id, *name;
        bool sound;
    } cases[] = {
        {"'20270304'", "20270304", true},
        {"20270304", "20270304", true},
        {"2027-03-04", "2027-03-04", true},
        {"99999999999999999999", "99999999999999999999", true},
        {"yes", "True", true},
        {"0", "0", true},
        {"-7", "-7", true},
        {"010", "8", true},
        {"010", "010", false},
        {"yes", "yes", false},
        {"f_apple", "f_pear", false},
        {"F_pear", "f_pear", false},
        {"null", "None", false},
        {"", "None", false},
        {"[a]", "a", false},
        {"1.5", "1.5", false},
        {"a.b", "a.b", false},
        {"'..'", "..", false},
    };
    struct scope scope = make_scope("mira", "garden");

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        AUTO_TEXT struct text text = {0};
        text_append_format(&text, "---\nid: %s\nuser_id: mira\nagent_name: garden\n---\n" BODY,
                           cases[i].id);
        AUTO_READING struct reading reading =
            read_bytes(text.bytes, text.size, &scope, cases[i].name);
        cr_expect((reading.status == STATUS_OK) == cases[i].sound, "row %zu: %s", i,
                  reading.error.message);
        if (reading.fact)
            cr_expect(strcmp(reading.fact->id, cases[i].name) == 0, "row %zu", i);
    }
}

Test(fact, the_owner_must_be_the_one_asked_for)
{
    const struct {
        const char *line; /* user_id and agent_name */
        const char *user;
        enum fact_fault fault;
    } cases[] = {
        {"user_id: mira\nagent_name: garden\n", "mira", FACT_FAULT_NONE},
        {"user_id: mira\nagent_name: GARDEN\n", "mira", FACT_FAULT_NONE},
        {"user_id: Mira\nagent_name: garden\n", "mira", FACT_FAULT_BROKEN},
        {"user_id: null\nagent_name: garden\n", "mira", FACT_FAULT_BROKEN},
        {"agent_name: garden\n", "mira", FACT_FAULT_BROKEN},
        {"user_id: 5\nagent_name: garden\n", "5", FACT_FAULT_BROKEN},
        {"user_id: '5'\nagent_name: garden\n", "5", FACT_FAULT_NONE},
        {"user_id: mira\nagent_name: kitchen\n", "mira", FACT_FAULT_BROKEN},
        {"user_id: mira\nagent_name: null\n", "mira", FACT_FAULT_BROKEN},
        {"user_id: mira\nagent_name: \"garden\\n\"\n", "mira", FACT_FAULT_BROKEN},
        {"user_id: mira\n", "mira", FACT_FAULT_BROKEN},
        {"user_id: null\nagent_name: garden\n", NULL, FACT_FAULT_NONE},
        {"agent_name: garden\n", NULL, FACT_FAULT_NONE},
        {"user_id: mira\nagent_name: garden\n", NULL, FACT_FAULT_BROKEN},
        {"user_id: ''\nagent_name: garden\n", NULL, FACT_FAULT_BROKEN},
        {"user_id: m i\nagent_name: garden\n", "m-i-0190df5bc74fd241", FACT_FAULT_FOREIGN},
        {"user_id: m-i-0190df5bc74fd241\nagent_name: garden\n", "m i", FACT_FAULT_FOREIGN},
        {"user_id: m i\nagent_name: kitchen\n", "m-i-0190df5bc74fd241", FACT_FAULT_BROKEN},
        {"user_id: m i\nagent_name: garden\nrevision: 0\n", "m-i-0190df5bc74fd241",
         FACT_FAULT_BROKEN},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct scope scope = make_scope(cases[i].user, "Garden");
        AUTO_TEXT struct text text = {0};
        text_append_format(&text, "---\nid: f_pear\n%s---\n" BODY, cases[i].line);
        AUTO_READING struct reading reading = read_bytes(text.bytes, text.size, &scope, "f_pear");
        cr_expect(reading.fault == cases[i].fault, "row %zu: %d %s", i, reading.fault,
                  reading.error.message);
    }
}

Test(fact, the_document_keeps_the_files_spelling_of_the_agent)
{
    AUTO_READING struct reading reading =
        read_fact("---\nid: f_pear\nuser_id: mira\nagent_name: GarDen\n---\n" BODY);

    cr_assert(reading.fact);
    const json_t *scope = json_object_get(reading.fact->document, "scope");
    cr_expect(strcmp(json_string_value(json_object_get(scope, "agentName")), "GarDen") == 0);
}

Test(fact, without_a_scope_the_owner_is_taken_from_the_file)
{
    const struct {
        const char *line, *owner;
        bool sound;
    } cases[] = {
        {"user_id: mira\nagent_name: garden\n", "mira", true},
        {"user_id: null\nagent_name: garden\n", NULL, true},
        {"user_id: [x]\nagent_name: garden\n", NULL, false},
        {"user_id: mira\nagent_name: ../x\n", NULL, false},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        AUTO_TEXT struct text text = {0};
        text_append_format(&text, "---\nid: f_pear\n%s---\n" BODY, cases[i].line);
        AUTO_READING struct reading reading = read_bytes(text.bytes, text.size, NULL, "f_pear");
        cr_assert((reading.status == STATUS_OK) == cases[i].sound, "row %zu", i);
        if (!reading.fact)
            continue;
        const char *owner = fact_owner(reading.fact);
        cr_expect(cases[i].owner ? owner && strcmp(owner, cases[i].owner) == 0 : !owner, "row %zu",
                  i);
    }
}

Test(fact, the_last_of_two_equal_keys_counts)
{
    AUTO_READING struct reading reading = read_with("revision: 3\nrevision: 4\n");

    cr_assert(reading.fact);
    cr_expect(reading.fact->revision == 4);
    cr_expect(reading.fact->duplicate_key);
}

Test(fact, only_an_exact_fence_closes_the_front_matter)
{
    AUTO_READING struct reading reading =
        read_with("topics: ['one --- two']\nnote: |\n  ---\n  a\n ");

    cr_assert(!reading.fact, "the fence must not be indented");
    AUTO_READING struct reading sound = read_with("topics: ['one --- two']\nnote: |\n  ---\n  a\n");
    cr_expect(strcmp(string_of(&sound, "note"), "---\na") == 0, "%s", string_of(&sound, "note"));
    cr_expect(strcmp(json_string_value(
                         json_array_get(json_object_get(sound.fact->document, "topics"), 0)),
                     "one --- two") == 0);
}

Test(fact, an_alias_gives_each_place_its_own_value)
{
    AUTO_READING struct reading reading = read_with("topics: &t [f_old]\nconsolidatedFrom: *t\n");

    cr_assert(reading.fact);
    cr_expect(json_equal(json_object_get(reading.fact->document, "topics"),
                         json_object_get(reading.fact->document, "consolidatedFrom")));
    cr_expect(json_array_size(json_object_get(reading.fact->document, "topics")) == 1);
}

/* Allocations of jansson that still succeed; negative: all. */
static long allocations_left = -1;

static void *failing_malloc(size_t size)
{
    if (allocations_left == 0)
        return NULL;
    if (allocations_left > 0)
        allocations_left--;
    return malloc(size);
}

Test(fact, a_failed_allocation_is_never_told_as_a_broken_file)
{
    static const char lines[] = "a: [1, 2.5, 99999999999999999999, .inf, 2027-01-01, x, ~, no]\n"
                                "b: !!set {!!binary aGk=, 1}\nc: {1: x, 2027-01-01: y}\n7: z\n"
                                "d: &d {\"k\\0\": \"\\ud83d\"}\ne: {<<: *d}\nf: !!omap [g: h]\n"
                                "category: orchard\nsource: t-1\nconsolidatedFrom: [o]\n";
    struct reading reading = {.status = STATUS_NO_MEMORY};
    long count = 0;

    json_set_alloc_funcs(failing_malloc, free);
    for (; reading.status == STATUS_NO_MEMORY && count < 5000; count++) {
        allocations_left = count;
        AUTO_TEXT struct text text = {0};
        struct scope scope = make_scope("mira", "garden");
        text_append_format(&text, "---\n" BASE "%s---\n" BODY, lines);
        reading = (struct reading){0};
        reading.status = fact_parse(text.bytes, text.size, &scope, "f_pear", FILE_TIME_NS,
                                    &reading.fact, &reading.fault, &reading.error);
    }
    allocations_left = -1;
    cr_expect(reading.status == STATUS_OK, "%ld: %s", count, reading.error.message);
    cr_expect(count > 50, "only %ld allocations were met", count);
    fact_destroy(&reading.fact);
}

static long peak_kib(void)
{
    struct rusage usage;

    cr_assert(getrusage(RUSAGE_SELF, &usage) == 0);
    return usage.ru_maxrss;
}

Test(fact, a_file_that_expands_to_gigabytes_is_refused_at_once)
{
    AUTO_TEXT struct text lines = {0};

    text_append_string(&lines, "b0: &b0 [p, p, p, p, p, p, p, p]\n");
    for (int i = 1; i < 12; i++)
        text_append_format(&lines, "b%d: &b%d [*b%d, *b%d, *b%d, *b%d, *b%d, *b%d, *b%d]\n", i, i,
                           i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1);
    long before_kib = peak_kib();
    uint64_t start_ns = clock_monotonic_ns();
    AUTO_READING struct reading reading = read_with(text_string(&lines));
    cr_expect(reading.fault == FACT_FAULT_BROKEN);
    cr_expect(strstr(reading.error.message, "aliases"), "%s", reading.error.message);
    cr_expect(clock_monotonic_ns() - start_ns < NS_PER_SECOND / 2);
    cr_expect(peak_kib() - before_kib < 16 * 1024, "%ld KiB", peak_kib() - before_kib);
}

Test(fact, files_beyond_the_limit_are_broken)
{
    struct scope scope = make_scope("mira", "garden");
    AUTO_TEXT struct text text = {0};

    text_append_string(&text, "---\n" BASE "---\n# Pears\n\n");
    text_reserve(&text, FACT_FILE_BYTES_MAX);
    while (text.size < FACT_FILE_BYTES_MAX)
        text_append_char(&text, 'x');
    cr_assert(text_ok(&text));
    AUTO_READING struct reading largest = read_bytes(text.bytes, text.size, &scope, "f_pear");
    cr_expect(largest.status == STATUS_OK, "%s", largest.error.message);
    text_append_char(&text, 'x');
    AUTO_READING struct reading larger = read_bytes(text.bytes, text.size, &scope, "f_pear");
    cr_expect(larger.fault == FACT_FAULT_BROKEN);
}

/* Reads a file of the shared cases; false when it is not there. */
static bool read_case(const char *name, struct text *ret)
{
    const char *root = getenv("MEMSYNC_SHARED");
    char path[4096];
    char chunk[4096];

    (void) snprintf(path, sizeof path, "%s/cases/facts/%s.md", root ? root : "../shared", name);
    FILE *file = fopen(path, "rb");
    if (!file)
        return false;
    for (size_t got; (got = fread(chunk, 1, sizeof chunk, file)) > 0;)
        text_append(ret, chunk, got);
    (void) fclose(file);
    return true;
}

Test(fact, shared_cases_come_out_right)
{
    const struct {
        const char *name, *field, *json; /* json NULL: broken, and `field` is in the message */
    } cases[] = {
        {"f_good", "title", "\"Note f_good\""},
        {"f_crlf", "content", "\"The crimson ferry leaves at nine.\\nBring the second key.\""},
        {"f_rules", "topics", "[\"left --- right\"]"},
        {"20260718", "id", "\"20260718\""},
        {"f_typed", "topics", NULL},
        {"f_dup", "revision", "4"},
        {"f_octal", "revision", "8"},
        {"f_alias_ok", "consolidatedFrom", "[\"f_old1\"]"},
        {"f_bomb", "aliases", NULL},
        {"f_tab", "line ", NULL},
    };
    struct scope scope = make_scope("u1", NULL);

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        AUTO_TEXT struct text bytes = {0};
        if (!read_case(cases[i].name, &bytes)) {
            (void) fprintf(stderr, "skipped: the shared cases are not there\n");
            return;
        }
        AUTO_READING struct reading reading =
            read_bytes(bytes.bytes, bytes.size, &scope, cases[i].name);
        if (!cases[i].json) {
            cr_expect(strstr(reading.error.message, cases[i].field), "%s: %s", cases[i].name,
                      reading.error.message);
            continue;
        }
        cr_assert(reading.fact, "%s: %s", cases[i].name, reading.error.message);
        AUTO_FREE char *json = json_dumps(json_object_get(reading.fact->document, cases[i].field),
                                          JSON_COMPACT | JSON_ENCODE_ANY);
        cr_expect(strcmp(json, cases[i].json) == 0, "%s: %s", cases[i].name, json);
    }
}
