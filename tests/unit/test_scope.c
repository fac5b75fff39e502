#include "core/scope.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* The path vectors of the shared volumes, NULL (and a line that says so) without them. */
static json_t *load_vectors(void)
{
    const char *root = getenv("MEMSYNC_SHARED");
    char path[4096];
    struct stat status;
    json_error_t error;

    (void) snprintf(path, sizeof path, "%s/volumes/paths.json", root ? root : "../shared");
    if (stat(path, &status) != 0) {
        (void) fprintf(stderr, "skipped: %s is not there\n", path);
        return NULL;
    }
    json_t *vectors = json_load_file(path, JSON_ALLOW_NUL, &error);
    cr_assert(vectors, "%s:%d: %s", path, error.line, error.text);
    return vectors;
}

/* The input of a vector, NULL when it cannot be a C string. */
static const char *input_of(const json_t *vector)
{
    const json_t *input = json_object_get(vector, "input");
    const char *text = json_string_value(input);

    return text && strlen(text) == json_string_length(input) ? text : NULL;
}

Test(scope, the_directory_of_a_user_is_the_peers)
{
    const struct {
        const char *user, *bucket;
    } cases[] = {
        {"dora", "dora"},
        {"Dora_9-x", "Dora_9-x"},
        {"-", "-"},
        {"dora b", "dora-b-61e2c38c4b52e223"},
        {"zo\xc3\xab", "zo--2752b88686847fa5"},
    };
    char bucket[SCOPE_NAME_MAX + 1];

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        cr_assert(scope_bucket_of_user(cases[i].user, bucket, NULL) == STATUS_OK);
        cr_expect(strcmp(bucket, cases[i].bucket) == 0, "row %zu: %s", i, bucket);
    }
}

Test(scope, shared_user_vectors_hold)
{
    AUTO_JSON json_t *vectors = load_vectors();
    json_t *vector;
    size_t i;

    json_array_foreach(json_object_get(vectors, "safe_user_id"), i, vector)
    {
        char bucket[SCOPE_NAME_MAX + 1];
        const char *input = input_of(vector);
        const char *result = json_string_value(json_object_get(vector, "result"));
        if (!input)
            continue;
        bool possible = result && strlen(result) <= SCOPE_NAME_MAX;
        enum status status = scope_bucket_of_user(input, bucket, NULL);
        cr_expect(status == (possible ? STATUS_OK : STATUS_INVALID), "%s", input);
        if (possible)
            cr_expect(strcmp(bucket, result) == 0, "%s: %s", input, bucket);
    }
}

Test(scope, users_that_cannot_have_a_directory_are_refused)
{
    char longest[300];
    char bucket[SCOPE_NAME_MAX + 1] = "untouched";
    struct error error;

    const char *const cases[] = {"", "\xff", "a\xed\xa0\x80", "\xc0\xaf"};
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        cr_expect(scope_bucket_of_user(cases[i], bucket, &error) == STATUS_INVALID, "row %zu", i);
        cr_expect(strstr(error.message, "user_id"));
        cr_expect(strcmp(bucket, "untouched") == 0, "row %zu", i);
    }
    memset(longest, 'x', sizeof longest);
    longest[256] = '\0';
    cr_expect(scope_bucket_of_user(longest, bucket, NULL) == STATUS_INVALID);
    longest[255] = '\0';
    cr_expect(scope_bucket_of_user(longest, bucket, NULL) == STATUS_OK);
    longest[0] = ' '; /* the digest no longer fits */
    cr_expect(scope_bucket_of_user(longest, bucket, NULL) == STATUS_INVALID);
    longest[238] = '\0';
    cr_expect(scope_bucket_of_user(longest, bucket, NULL) == STATUS_OK);
    cr_expect(strlen(bucket) == 255);
}

Test(scope, agent_names_are_folded_or_refused)
{
    const struct {
        const char *agent, *folded;
    } cases[] = {
        {"notes", "notes"},    {"Notes-2", "notes-2"}, {"__default__", "__default__"},
        {"__Default__", NULL}, {"notes\n", NULL},      {"", NULL},
        {"no_tes", NULL},      {"no tes", NULL},       {"..", NULL},
        {"a/b", NULL},         {"n\xc3\xb6tes", NULL}, {"\xe2\x84\xaa", NULL},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char folded[SCOPE_NAME_MAX + 1];
        enum status status = scope_agent_fold(cases[i].agent, folded, NULL);
        cr_expect(status == (cases[i].folded ? STATUS_OK : STATUS_INVALID), "row %zu", i);
        if (status == STATUS_OK)
            cr_expect(strcmp(folded, cases[i].folded) == 0, "row %zu: %s", i, folded);
    }
}

Test(scope, shared_agent_vectors_hold)
{
    AUTO_JSON json_t *vectors = load_vectors();
    json_t *vector;
    size_t i;

    json_array_foreach(json_object_get(vectors, "agent_name"), i, vector)
    {
        const char *input = input_of(vector);
        const char *directory = json_string_value(json_object_get(vector, "facts_directory"));
        char path[SCOPE_PATH_MAX];
        struct scope scope;
        if (!input)
            continue;
        bool accepted = json_is_true(json_object_get(vector, "accepted")) && !strchr(input, '\n') &&
                        strlen(input) <= SCOPE_NAME_MAX;
        enum status status = scope_create(NULL, input, &scope, NULL);
        cr_expect(status == (accepted ? STATUS_OK : STATUS_INVALID), "%s", input);
        if (status != STATUS_OK)
            continue;
        scope_facts_path(&scope, path);
        cr_expect(strcmp(path, directory) == 0, "%s: %s", input, path);
    }
}

Test(scope, shared_fact_path_vectors_hold)
{
    AUTO_JSON json_t *vectors = load_vectors();
    json_t *vector;
    size_t i;

    json_array_foreach(json_object_get(vectors, "fact_file_path"), i, vector)
    {
        const char *input = input_of(vector);
        const char *expected = json_string_value(json_object_get(vector, "path"));
        char facts[SCOPE_PATH_MAX];
        char path[2 * SCOPE_PATH_MAX];
        char shard[3];
        struct scope scope;
        if (!input)
            continue;
        cr_expect(fact_id_is_valid(input) == (expected && strlen(input) <= FACT_ID_MAX), "%s",
                  input);
        if (!fact_id_is_valid(input))
            continue;
        cr_assert(scope_create(NULL, json_string_value(json_object_get(vector, "agent")), &scope,
                               NULL) == STATUS_OK);
        scope_facts_path(&scope, facts);
        fact_id_shard(input, shard);
        (void) snprintf(path, sizeof path, "%s/%s/%s.md", facts, shard, input);
        cr_expect(strcmp(path, expected) == 0, "%s", path);
    }
}

Test(scope, shared_manifest_vectors_hold)
{
    AUTO_JSON json_t *vectors = load_vectors();
    json_t *vector;
    size_t i;

    json_array_foreach(json_object_get(vectors, "manifest_filename"), i, vector)
        cr_expect(manifest_name_is_valid(input_of(vector)) ==
                      json_is_true(json_object_get(vector, "accepted")),
                  "%s", input_of(vector));
}

Test(scope, a_manifest_has_a_plain_name_in_json)
{
    const struct {
        const char *name;
        bool valid;
    } cases[] = {
        {"memory.json", true}, {".json", true},   {"a.b.json", true},
        {"memory", false},     {"json", false},   {"x/memory.json", false},
        {"a.json/", false},    {"a.JSON", false}, {"a.json\n", false},
        {"\xff.json", false},  {"", false},       {".memory.journal.json", false},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        cr_expect(manifest_name_is_valid(cases[i].name) == cases[i].valid, "row %zu", i);
}

Test(scope, fact_ids_are_letters_digits_and_two_signs)
{
    char longest[FACT_ID_MAX + 2];
    const char *const refused[] = {"", ".", "..", "a.b", "a/b", "a b", "a\n", "\xc3\xa9"};

    for (size_t i = 0; i < ARRAY_SIZE(refused); i++)
        cr_expect(!fact_id_is_valid(refused[i]), "row %zu", i);
    memset(longest, 'a', sizeof longest);
    longest[FACT_ID_MAX + 1] = '\0';
    cr_expect(!fact_id_is_valid(longest));
    longest[FACT_ID_MAX] = '\0';
    cr_expect(fact_id_is_valid(longest));
    cr_expect(fact_id_is_valid("Fact_A-9"));
}

Test(scope, a_name_that_ends_like_a_digest_is_ambiguous)
{
    const struct {
        const char *bucket;
        bool ambiguous;
    } cases[] = {
        {"a-0123456789abcdef", true},  {"-0123456789abcdef", true},
        {"0123456789abcdef", false},   {"a-0123456789abcdeF", false},
        {"a-0123456789abcde", false},  {"a_0123456789abcdef", false},
        {"a-0123456789abcdeg", false}, {"", false},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        cr_expect(scope_bucket_is_ambiguous(cases[i].bucket) == cases[i].ambiguous, "row %zu", i);
}

Test(scope, buckets_are_valid_as_single_plain_names)
{
    cr_expect(scope_bucket_is_valid("a-B_9"));
    cr_expect(!scope_bucket_is_valid(""));
    cr_expect(!scope_bucket_is_valid(".."));
    cr_expect(!scope_bucket_is_valid("a/b"));
    cr_expect(!scope_bucket_is_valid(".hidden"));
}

Test(scope, paths_lie_below_the_users_directory)
{
    char path[SCOPE_PATH_MAX];
    struct scope scope;

    cr_assert(scope_create("dora b", "Notes", &scope, NULL) == STATUS_OK);
    scope_bucket_path(&scope, path);
    cr_expect(strcmp(path, "users/dora-b-61e2c38c4b52e223") == 0);
    scope_facts_path(&scope, path);
    cr_expect(strcmp(path, "users/dora-b-61e2c38c4b52e223/agents/notes/facts") == 0);
    scope_file_path(&scope, "memory.json", path);
    cr_expect(strcmp(path, "users/dora-b-61e2c38c4b52e223/memory.json") == 0);
}

Test(scope, without_a_user_the_root_is_the_bucket)
{
    char path[SCOPE_PATH_MAX];
    struct scope scope;

    cr_assert(scope_create(NULL, NULL, &scope, NULL) == STATUS_OK);
    cr_expect(!scope.has_user);
    cr_expect(strcmp(scope.agent, SCOPE_DEFAULT_AGENT) == 0);
    scope_bucket_path(&scope, path);
    cr_expect(strcmp(path, ".") == 0);
    scope_facts_path(&scope, path);
    cr_expect(strcmp(path, "agents/__default__/facts") == 0);
    scope_file_path(&scope, "memory.json", path);
    cr_expect(strcmp(path, "memory.json") == 0);
}

Test(scope, the_longest_names_make_a_path_that_fits)
{
    char user[SCOPE_NAME_MAX + 1];
    char path[SCOPE_PATH_MAX];
    struct scope scope;

    memset(user, 'u', SCOPE_NAME_MAX);
    user[SCOPE_NAME_MAX] = '\0';
    cr_assert(scope_create(user, user, &scope, NULL) == STATUS_OK);
    scope_facts_path(&scope, path);
    cr_expect(strcmp(path + strlen(path) - strlen("/facts"), "/facts") == 0);
}

Test(scope, equality_and_hash_tell_users_and_agents_apart)
{
    const struct {
        const char *user, *agent;
    } cases[] = {{NULL, "a"}, {"u", "a"},   {"U", "a"},  {"u", "b"},
                 {"ua", "b"}, {"a/b", "a"}, {"a-b", "a"}};
    struct scope scopes[ARRAY_SIZE(cases)];

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        cr_assert(scope_create(cases[i].user, cases[i].agent, &scopes[i], NULL) == STATUS_OK);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        for (size_t j = 0; j < ARRAY_SIZE(cases); j++) {
            cr_expect(scope_equal(&scopes[i], &scopes[j]) == (i == j), "rows %zu %zu", i, j);
            cr_expect((scope_hash(&scopes[i]) == scope_hash(&scopes[j])) == (i == j),
                      "rows %zu %zu", i, j);
        }
    }
    struct scope other;
    cr_assert(scope_create("u", "A", &other, NULL) == STATUS_OK);
    cr_expect(scope_equal(&other, &scopes[1]));
}
