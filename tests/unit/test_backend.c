/* backends: the table of tables, the contract's check, the parameters, and noop. */
#include "backends/backend.h"

#include "backends/deermem.h"
#include "backends/params.h"
#include "core/clock.h"
#include "tests/support/temp_store.h"

#include <criterion/criterion.h>
#include <string.h>

Test(backend, tables_are_found_by_name_and_keep_the_contract)
{
    const struct backend_table *const tables[] = {&backend_deermem, &backend_noop};
    struct error error = {0};

    for (size_t i = 0; i < ARRAY_SIZE(tables); i++) {
        cr_expect(backend_check(tables[i], &error) == STATUS_OK, "%s", error.message);
        cr_expect(backend_find(tables[i]->name) == tables[i]);
        cr_expect_eq(tables[i]->version, BACKEND_CONTRACT_VERSION);
    }
    cr_expect(backend_find("deermem") == &backend_deermem);
    cr_expect(backend_find("noop") == &backend_noop);
    static const char *const others[] = {"", "Noop", "noop ", "deer", "deermem2"};
    for (size_t i = 0; i < ARRAY_SIZE(others); i++)
        cr_expect(backend_find(others[i]) == NULL, "%s", others[i]);
}

Test(backend, a_table_that_breaks_the_contract_is_refused_with_the_reason)
{
    static const struct {
        size_t slot; /* set to NULL */
        int version_change;
        bool flip_search;
        const char *named;
    } cases[] = {
        {SIZE_MAX, 1, false, "version"},
        {SIZE_MAX, -1, false, "version"},
        {SIZE_MAX, 0, true, "supports_search"},
        {offsetof(struct backend_table, search), 0, false, "supports_search"},
        {offsetof(struct backend_table, create), 0, false, "create"},
        {offsetof(struct backend_table, destroy), 0, false, "destroy"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct backend_table table = backend_noop;
        struct error error = {0};
        table.version = (unsigned) ((int) table.version + cases[i].version_change);
        table.supports_search ^= cases[i].flip_search;
        if (cases[i].slot != SIZE_MAX)
            memset((char *) &table + cases[i].slot, 0, sizeof(backend_method));
        cr_expect_eq(backend_check(&table, &error), STATUS_INVALID, "row %zu", i);
        cr_expect(strstr(error.message, cases[i].named) != NULL, "row %zu: %s", i, error.message);
        cr_expect(strstr(error.message, "noop") != NULL, "row %zu: %s", i, error.message);
    }
    struct backend_table without = backend_noop;
    without.search = NULL;
    without.supports_search = false;
    cr_expect_eq(backend_check(&without, NULL), STATUS_OK,
                 "search may be left out, if one says so");
}

/* ---- parameters ---- */

static json_t *params;

static void read_params(const char *text)
{
    json_decref(params);
    params = json_loads(text, JSON_ALLOW_NUL, NULL);
    cr_assert(params != NULL, "%s", text);
}

static void drop_params(void)
{
    json_decref(params);
    params = NULL;
}

TestSuite(params, .fini = drop_params);

Test(params, absent_and_null_leave_the_default)
{
    static const char *const texts[] = {"{}", "{\"x\": null}", "{\"X\": 7, \"y\": \"x\"}"};
    const json_t *array = params;
    const json_t *object = params;
    const char *string = "default";
    size_t size = 7;
    int64_t number = 5;
    bool flag = true;

    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        read_params(texts[i]);
        cr_expect_eq(params_string(params, "x", false, &string, &size, NULL), STATUS_OK);
        cr_expect_eq(params_integer(params, "x", 1, 9, &number, NULL), STATUS_OK);
        cr_expect_eq(params_boolean(params, "x", &flag, NULL), STATUS_OK);
        cr_expect_eq(params_object(params, "x", &object, NULL), STATUS_OK);
        cr_expect_eq(params_array(params, "x", &array, NULL), STATUS_OK);
        cr_expect_str_eq(string, "default");
        cr_expect(size == 7 && number == 5 && flag && object == NULL && array == NULL);
        struct error error = {0};
        cr_expect_eq(params_string(params, "x", true, &string, &size, &error), STATUS_INVALID);
        cr_expect(strstr(error.message, "x ") != NULL, "%s", error.message);
    }
}

Test(params, each_takes_its_own_type_only)
{
    static const struct {
        const char *text;
        bool string, integer, boolean, object, array;
    } cases[] = {
        {"{\"x\": \"5\"}", true, false, false, false, false},
        {"{\"x\": 5}", false, true, false, false, false},
        {"{\"x\": 5.0}", false, false, false, false, false},
        {"{\"x\": true}", false, false, true, false, false},
        {"{\"x\": {}}", false, false, false, true, false},
        {"{\"x\": []}", false, false, false, false, true},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        const json_t *value = NULL;
        const char *string = NULL;
        size_t size = 0;
        int64_t number = -1;
        bool flag = false;
        struct error error = {0};
        read_params(cases[i].text);
        cr_expect((params_string(params, "x", true, &string, &size, &error) == STATUS_OK) ==
                      cases[i].string,
                  "%s", cases[i].text);
        cr_expect((string != NULL) == cases[i].string);
        cr_expect((params_integer(params, "x", 0, 10, &number, &error) == STATUS_OK) ==
                      cases[i].integer,
                  "%s", cases[i].text);
        cr_expect((number == 5) == cases[i].integer);
        cr_expect((params_boolean(params, "x", &flag, &error) == STATUS_OK) == cases[i].boolean,
                  "%s", cases[i].text);
        cr_expect(flag == cases[i].boolean);
        cr_expect((params_object(params, "x", &value, &error) == STATUS_OK) == cases[i].object,
                  "%s", cases[i].text);
        cr_expect((params_array(params, "x", &value, &error) == STATUS_OK) == cases[i].array, "%s",
                  cases[i].text);
        cr_expect((value != NULL) == (cases[i].object || cases[i].array));
        cr_expect(strncmp(error.message, "x must be ", 10) == 0, "%s", error.message);
    }
}

Test(params, integers_have_a_range_that_the_error_tells)
{
    static const struct {
        const char *text;
        bool good;
    } cases[] = {{"{\"x\": 0}", false},
                 {"{\"x\": 1}", true},
                 {"{\"x\": 1000}", true},
                 {"{\"x\": 1001}", false},
                 {"{\"x\": -1}", false}};

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct error error = {0};
        int64_t number = 77;
        read_params(cases[i].text);
        cr_expect((params_integer(params, "x", 1, 1000, &number, &error) == STATUS_OK) ==
                      cases[i].good,
                  "%s", cases[i].text);
        cr_expect(cases[i].good || (number == 77 && strstr(error.message, "1 to 1000")));
    }
}

Test(params, a_string_keeps_its_length)
{
    const char *string = NULL;
    size_t size = 0;

    read_params("{\"x\": \"a\\u0000b\"}");
    cr_expect_eq(params_string(params, "x", true, &string, &size, NULL), STATUS_OK);
    cr_expect(size == 3 && memcmp(string, "a\0b", 3) == 0);
}

/* ---- noop ---- */

Test(noop, answers_as_if_there_were_no_memory)
{
    const struct backend_setup setup = {.thread_count = 1};
    struct backend *backend = NULL;
    AUTO_JSON json_t *object = json_object();
    struct backend_call call = {.params = object, .deadline_ns = CLOCK_NEVER};
    static const struct {
        size_t slot;
        const char *answer;
    } cases[] = {
        {offsetof(struct backend_table, add), "{}"},
        {offsetof(struct backend_table, get_context), "{\"text\":\"\"}"},
        {offsetof(struct backend_table, search),
         "{\"results\":[],\"count\":0,\"scopes\":[],\"took_us\":0}"},
        {offsetof(struct backend_table, list_facts), "{\"facts\":[],\"count\":0,\"broken\":[]}"},
    };

    cr_assert(backend_noop.create(&setup, &backend, NULL) == STATUS_OK);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        AUTO_TEXT struct text result = {0};
        backend_method method;
        memcpy(&method, (const char *) &backend_noop + cases[i].slot, sizeof method);
        cr_expect_eq(method(backend, &call, &result, NULL), STATUS_OK);
        cr_expect_str_eq(text_string(&result), cases[i].answer);
    }
    AUTO_TEXT struct text memory = {0};
    cr_expect_eq(backend_noop.get_memory(backend, &call, &memory, NULL), STATUS_OK);
    AUTO_JSON json_t *parsed = json_loads(text_string(&memory), 0, NULL);
    cr_expect(json_is_array(json_object_get(json_object_get(parsed, "memory"), "facts")));
    backend_noop.destroy(backend);
}

/* ---- deermem: what a search may name ---- */

Test(deermem, scopes_of_a_search_are_checked_one_by_one)
{
    static const struct {
        const char *params;
        enum status expected;
    } cases[] = {
        {"{\"query\": \"x\", \"scopes\": [{\"user_id\": \"u\"}]}", STATUS_OK},
        {"{\"query\": \"x\", \"scopes\": [{\"user_id\": null, \"agent_name\": \"a\"}]}", STATUS_OK},
        {"{\"query\": \"x\", \"scopes\": []}", STATUS_INVALID},
        {"{\"query\": \"x\", \"scopes\": [7]}", STATUS_INVALID},
        {"{\"query\": \"x\", \"scopes\": [{\"agent_name\": \"a\"}]}", STATUS_INVALID},
        {"{\"query\": \"x\", \"scopes\": [{\"user_id\": 5}]}", STATUS_INVALID},
        {"{\"query\": \"x\", \"scopes\": [{\"user_id\": \"u\\u0000v\"}]}", STATUS_INVALID},
        {"{\"query\": \"x\", \"scopes\": [{\"user_id\": \"u\", \"agent_name\": \"a\\u0000b\"}]}",
         STATUS_INVALID},
        {"{\"query\": \"x\", \"scopes\": [{\"user_id\": \"u\", \"agent_name\": \"../a\"}]}",
         STATUS_INVALID},
    };
    AUTO_TEMP_STORE struct temp_store *temp = temp_store_create();
    struct deermem_options options = {.store = temp->options,
                                      .keeper = {.refreshers = 1,
                                                 .poll_interval_min_ms = 60000,
                                                 .poll_interval_max_ms = 60000,
                                                 .operations_per_second = 100}};
    const struct backend_setup setup = {.thread_count = 1, .store_options = &options};
    struct backend *backend = NULL;

    (void) temp_volume_add(temp->volume, "u", NULL, "f1", "note one");
    cr_assert(backend_deermem.create(&setup, &backend, NULL) == STATUS_OK);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        AUTO_TEXT struct text result = {0};
        AUTO_JSON json_t *object = json_loads(cases[i].params, JSON_ALLOW_NUL, NULL);
        const struct backend_call call = {.params = object,
                                          .deadline_ns = clock_deadline_ms(20000),
                                          .may_block = true};
        struct error error = {0};
        cr_assert(object != NULL, "%s", cases[i].params);
        cr_expect_eq(backend_deermem.search(backend, &call, &result, &error), cases[i].expected,
                     "%s: %s", cases[i].params, error.message);
    }
    backend_deermem.destroy(backend);
}
