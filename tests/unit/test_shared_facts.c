/* Reads every fact of the shared test volumes and compares with what the peers answer. */
#include "core/fact.h"
#include "core/text.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <fnmatch.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define FILE_TIME_NS UINT64_C(1770715800000000000)

/* Cases whose files change when a peer reads them (recovery, migration). */
static const char *const left_out[] = {"crash-*", "v1-*", "lead-agent*", "corrupt-journals",
                                       "journal-dotdot"};

struct counts {
    unsigned scopes;
    unsigned facts;
    unsigned refused;
};

static const char *shared_root(void)
{
    const char *root = getenv("MEMSYNC_SHARED");
    struct stat status;

    if (!root)
        root = "../shared";
    if (stat(root, &status) == 0)
        return root;
    (void) fprintf(stderr, "skipped: %s is not there\n", root);
    return NULL;
}

/* A path; freed by the caller. */
static char *PRINTF(1, 2) make_path(const char *format, ...)
{
    char *path = NULL;
    va_list arguments;

    va_start(arguments, format);
    cr_assert(vasprintf(&path, format, arguments) >= 0);
    va_end(arguments);
    return path;
}

static void read_file(const char *path, struct text *ret)
{
    char chunk[65536];
    FILE *file = fopen(path, "rb");

    cr_assert(file, "%s", path);
    for (size_t got; (got = fread(chunk, 1, sizeof chunk, file)) > 0;)
        text_append(ret, chunk, got);
    (void) fclose(file);
}

/* Length of the JSON string literal at `at`, quotes included. */
static size_t literal_length(const char *at)
{
    const char *end = at + 1;

    for (; *end != '"'; end++)
        end += *end == '\\';
    return (size_t) (end - at) + 1;
}

/* NUL in a member's name, which jansson refuses, and U+FDD0 in the disguise that we give them. */
static void append_literal(struct text *text, const char *literal, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (literal[length] == ':' && strncmp(literal + i, "\\u0000", 6) == 0) {
            text_append_string(text, "\\ufdd10000");
            i += 5;
        } else if (strncmp(literal + i, "\xef\xb7\x90", 3) == 0) {
            text_append_string(text, "\xef\xb7\x91"
                                     "fdd0");
            i += 2;
        } else {
            text_append_char(text, literal[i]);
        }
    }
}

/* The same for integers beyond 64 bits. Returns how much of the source was taken. */
static size_t append_number(struct text *text, const char *at)
{
    size_t digits = strspn(at, "0123456789");
    bool is_big = digits > 19 || (digits == 19 && strncmp(at, "9223372036854775807", 19) > 0);

    if (!is_big || at[-1] != ' ' || strchr(".eE", at[digits])) {
        text_append(text, at, digits);
        return digits;
    }
    text_append_string(text, "\"\xef\xb7\x90");
    text_append(text, at, digits);
    text_append_char(text, '"');
    return digits;
}

static void disguise(const struct text *source, struct text *ret)
{
    for (size_t i = 0; i < source->size;) {
        const char *at = source->bytes + i;
        if (*at == '"') {
            size_t length = literal_length(at);
            append_literal(ret, at, length);
            i += length;
        } else if (*at >= '0' && *at <= '9') {
            i += append_number(ret, at);
        } else {
            text_append_char(ret, *at);
            i++;
        }
    }
}

static json_t *load_expectation(const char *path)
{
    AUTO_TEXT struct text source = {0};
    AUTO_TEXT struct text text = {0};
    json_error_t error;

    read_file(path, &source);
    disguise(&source, &text);
    json_t *value = json_loadb(text.bytes, text.size, JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
    cr_assert(value, "%s:%d: %s", path, error.line, error.text);
    return value;
}

/* Key order does not count; {"$varies": true} stands for anything; reals and integers differ. */
static bool matches(const json_t *value, json_t *expected)
{
    const char *key;
    json_t *item;
    size_t i;

    if (json_is_object(expected) && json_is_true(json_object_get(expected, "$varies")))
        return value != NULL;
    if (!value || json_typeof(value) != json_typeof(expected))
        return false;
    if (json_is_array(expected)) {
        if (json_array_size(value) != json_array_size(expected))
            return false;
        json_array_foreach(expected, i, item)
        {
            if (!matches(json_array_get(value, i), item))
                return false;
        }
        return true;
    }
    if (!json_is_object(expected))
        return json_equal(value, expected);
    if (json_object_size(value) != json_object_size(expected))
        return false;
    json_object_foreach(expected, key, item)
    {
        if (!matches(json_object_get(value, key), item))
            return false;
    }
    return true;
}

static bool same_key_order(json_t *value, json_t *expected)
{
    void *a = json_object_iter(value);
    void *b = json_object_iter(expected);

    for (; a && b; a = json_object_iter_next(value, a), b = json_object_iter_next(expected, b)) {
        if (strcmp(json_object_iter_key(a), json_object_iter_key(b)) != 0)
            return false;
    }
    return !a && !b;
}

/* One scope of one case. */
struct walk {
    const char *case_name;
    const char *volume;
    const char *refused_file; /* relative to the volume; NULL when all load */
    const struct scope *scope;
    json_t *documents;
    struct counts *counts;
};

static void parse_file(struct walk *walk, const char *path, const char *name)
{
    AUTO_TEXT struct text bytes = {0};
    AUTO_FACT struct fact *fact = NULL;
    char id[256];
    enum fact_fault fault = FACT_FAULT_NONE;
    struct error error = {0};
    const char *relative = path + strlen(walk->volume) + 1;
    bool must_fail = walk->refused_file && strcmp(relative, walk->refused_file) == 0;

    (void) snprintf(id, sizeof id, "%.*s", (int) (strlen(name) - strlen(".md")), name);
    read_file(path, &bytes);
    enum status status = fact_parse(text_string(&bytes), bytes.size, walk->scope, id, FILE_TIME_NS,
                                    &fact, &fault, &error);
    if (must_fail) {
        bool is_alias = strcmp(walk->case_name, "user-id-alias") == 0;
        walk->counts->refused++;
        cr_expect(status == STATUS_CORRUPT && error.message[0], "%s must be refused", path);
        cr_expect(fault == (is_alias ? FACT_FAULT_FOREIGN : FACT_FAULT_BROKEN), "%s: fault %d",
                  path, fault);
        return;
    }
    cr_expect(status == STATUS_OK, "%s: %s", path, error.message);
    if (fact && walk->documents)
        json_array_append(walk->documents, fact->document);
}

static void walk_directory(struct walk *walk, const char *path)
{
    DIR *directory = opendir(path);

    if (!directory)
        return;
    for (struct dirent *entry; (entry = readdir(directory));) {
        size_t length = strlen(entry->d_name);
        if (entry->d_name[0] == '.')
            continue;
        AUTO_FREE char *below = make_path("%s/%s", path, entry->d_name);
        if (entry->d_type == DT_DIR)
            walk_directory(walk, below);
        else if (length > 3 && strcmp(entry->d_name + length - 3, ".md") == 0)
            parse_file(walk, below, entry->d_name);
    }
    (void) closedir(directory);
}

static int compare_ids(const void *a, const void *b)
{
    const json_t *const *left = a;
    const json_t *const *right = b;

    return strcmp(json_string_value(json_object_get(*left, "id")),
                  json_string_value(json_object_get(*right, "id")));
}

/* Sorted by id; for one id twice (it happens) the order is left to the caller. */
static json_t *sort_documents(json_t *documents)
{
    size_t count = json_array_size(documents);
    json_t **sorted = calloc(count + 1, sizeof(json_t *));
    json_t *result = json_array();

    for (size_t i = 0; i < count; i++)
        sorted[i] = json_array_get(documents, i);
    qsort(sorted, count, sizeof *sorted, compare_ids);
    for (size_t i = 0; i < count; i++)
        json_array_append(result, sorted[i]);
    free(sorted);
    return result;
}

/* The expected document that this one is, NULL when there is none. */
static json_t *find_match(const json_t *document, json_t *facts)
{
    json_t *fact;
    size_t i;

    json_array_foreach(facts, i, fact)
    {
        if (matches(document, fact))
            return fact;
    }
    return NULL;
}

static void compare_documents(const struct walk *walk, json_t *facts)
{
    AUTO_JSON json_t *sorted = sort_documents(walk->documents);
    json_t *document;
    size_t i;

    cr_expect(json_array_size(sorted) == json_array_size(facts), "%s user %s: %zu facts, not %zu",
              walk->case_name, walk->scope->user, json_array_size(sorted), json_array_size(facts));
    json_array_foreach(sorted, i, document)
    {
        json_t *match = find_match(document, facts);
        const char *id = json_string_value(json_object_get(document, "id"));
        walk->counts->facts++;
        if (!match) {
            AUTO_FREE char *given = json_dumps(document, 0);
            AUTO_FREE char *wanted = json_dumps(json_array_get(facts, i), 0);
            cr_expect(false, "%s %s:\n%s\nnot\n%s", walk->case_name, id, given, wanted);
            continue;
        }
        cr_expect(same_key_order(document, match), "%s %s: order of keys", walk->case_name, id);
    }
}

static void check_scope(const char *case_name, const char *volume, const json_t *expectation,
                        struct counts *counts)
{
    const json_t *failure = json_object_get(expectation, "error");
    const char *agent = json_string_value(json_object_get(expectation, "agent"));
    const char *kind = json_string_value(json_object_get(failure, "kind"));
    const char *file = json_string_value(json_object_get(failure, "file"));
    json_t *facts = json_object_get(json_object_get(expectation, "document"), "facts");
    bool names_fact = kind && strcmp(kind, "corrupt") == 0 && file && strstr(file, ".md");
    char facts_path[SCOPE_PATH_MAX];
    struct scope scope;

    if (!agent || (!facts && !names_fact))
        return;
    AUTO_JSON json_t *documents = facts ? json_array() : NULL;
    cr_assert(scope_create(json_string_value(json_object_get(expectation, "user_id")), agent,
                           &scope, NULL) == STATUS_OK);
    scope_facts_path(&scope, facts_path);
    AUTO_FREE char *path = make_path("%s/%s", volume, facts_path);

    struct walk walk = {case_name, volume, names_fact ? file : NULL, &scope, documents, counts};
    walk_directory(&walk, path);
    if (facts)
        compare_documents(&walk, facts);
    counts->scopes++;
}

static bool is_left_out(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(left_out); i++) {
        if (fnmatch(left_out[i], name, 0) == 0)
            return true;
    }
    return false;
}

static void check_case(const char *volumes, const char *name, struct counts *counts)
{
    struct stat status;
    json_t *expectation;
    size_t i;

    AUTO_FREE char *path = make_path("%s/%s/expect.json", volumes, name);
    AUTO_FREE char *volume = make_path("%s/%s/volume", volumes, name);
    if (stat(path, &status) != 0)
        return;
    AUTO_JSON json_t *document = load_expectation(path);
    json_array_foreach(json_object_get(document, "scopes"), i, expectation)
        check_scope(name, volume, expectation, counts);
}

Test(shared_facts, load_as_the_peers_load_them)
{
    const char *root = shared_root();
    struct counts counts = {0};

    if (!root)
        return;
    AUTO_FREE char *volumes = make_path("%s/volumes", root);
    DIR *directory = opendir(volumes);
    cr_assert(directory);
    for (struct dirent *entry; (entry = readdir(directory));) {
        if (entry->d_name[0] != '.' && !is_left_out(entry->d_name))
            check_case(volumes, entry->d_name, &counts);
    }
    (void) closedir(directory);
    (void) fprintf(stderr, "%u scopes, %u facts, %u refused\n", counts.scopes, counts.facts,
                   counts.refused);
    cr_expect(counts.scopes > 100 && counts.facts > 400 && counts.refused > 60);
}
