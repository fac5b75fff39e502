/* agent/dispatch.h: names, scopes and defaults, before any backend is asked. */
#include "agent/dispatch.h"

#include "core/clock.h"
#include "ipc/protocol.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

/* ---- a backend that tells how it was called ---- */

static char told[512];
static unsigned calls;
static enum status answer_with;

static enum status tell(struct backend *backend, const struct backend_call *call,
                        struct text *result, struct error *error)
{
    (void) backend;
    calls++;
    if (call->scope)
        (void) snprintf(told, sizeof told, "%s|%.100s|%.100s%s",
                        call->scope->has_user ? "user" : "root", call->scope->user,
                        call->scope->agent, call->agent_given ? "|given" : "");
    else
        (void) snprintf(told, sizeof told, "no scope");
    text_append_string(result, "{\"told\":true}");
    return answer_with == STATUS_OK ? STATUS_OK : error_set(error, answer_with, NULL, "as told");
}

static void write_status(void *context, struct text *result)
{
    (void) context;
    text_append_string(result, "{\"state\":\"well\"}");
}

static struct backend_table table;
static struct dispatch dispatch;
static struct text result;
static struct error error;
static int code;

static void set_up(void)
{
    table = (struct backend_table){.name = "teller", .version = BACKEND_CONTRACT_VERSION};
    dispatch = (struct dispatch){.table = &table, .write_status = write_status};
}

static void tear_down(void)
{
    text_destroy(&result);
}

TestSuite(dispatch, .init = set_up, .fini = tear_down, .timeout = 30);

static enum status handle(const char *method, const char *params_text)
{
    AUTO_JSON json_t *params = json_loads(params_text, JSON_ALLOW_NUL, NULL);
    const struct server_call call = {.method = method,
                                     .params = params,
                                     .deadline_ns = CLOCK_NEVER,
                                     .may_block = true};

    cr_assert(params != NULL, "%s", params_text);
    text_destroy(&result);
    error_clear(&error);
    told[0] = '\0';
    code = 0;
    return dispatch_handle(&dispatch, &call, &result, &code, &error);
}

static void give_all_slots(void)
{
    backend_method method = tell;

    for (size_t at = offsetof(struct backend_table, add); at < sizeof table; at += sizeof method)
        memcpy((char *) &table + at, &method, sizeof method);
}

Test(dispatch, a_method_that_nobody_knows)
{
    static const char *const names[] = {"", "Search", "search ", "rpc.discover", "drain", "create"};

    give_all_slots();
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        cr_expect_eq(handle(names[i], "{\"user_id\": \"u\"}"), STATUS_INVALID, "%s", names[i]);
        cr_expect_eq(code, PROTOCOL_NO_METHOD);
    }
    cr_expect_eq(calls, 0);
}

Test(dispatch, user_and_agent_become_a_checked_scope)
{
    static const struct {
        const char *params, *told;
    } cases[] = {
        {"{\"user_id\": \"ada\"}", "user|ada|__default__"},
        {"{\"user_id\": \"ada\", \"agent_name\": null}", "user|ada|__default__"},
        {"{\"user_id\": \"ada\", \"agent_name\": \"Desk\"}", "user|ada|desk|given"},
        {"{\"user_id\": null}", "root||__default__"},
        {"{\"user_id\": null, \"agent_name\": \"desk\"}", "root||desk|given"},
    };

    give_all_slots();
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        cr_expect_eq(handle("list_facts", cases[i].params), STATUS_OK, "%s", error.message);
        cr_expect_str_eq(told, cases[i].told);
    }
}

/* Nothing that is no name reaches a backend, and forgetting the user does not mean "no user". */
Test(dispatch, what_is_no_scope_is_refused_before_the_backend)
{
    static const char *const params[] = {
        "{}",
        "{\"agent_name\": \"desk\"}",
        "{\"user_id\": 5}",
        "{\"user_id\": [\"ada\"]}",
        "{\"user_id\": \"a\\u0000b\"}",
        "{\"user_id\": \"ada\", \"agent_name\": 5}",
        "{\"user_id\": \"ada\", \"agent_name\": \"de\\u0000sk\"}",
        "{\"user_id\": \"ada\", \"agent_name\": \"../other\"}",
        "{\"user_id\": \"ada\", \"agent_name\": \"\"}",
    };

    give_all_slots();
    for (size_t i = 0; i < ARRAY_SIZE(params); i++) {
        cr_expect_eq(handle("get_memory", params[i]), STATUS_INVALID, "%s", params[i]);
        cr_expect_eq(code, 0);
        cr_expect(error.message[0] != '\0');
    }
    cr_expect_eq(calls, 0);
}

Test(dispatch, where_a_user_is_optional_none_is_no_scope)
{
    static const char *const methods[] = {"search", "refresh", "scopes"};

    give_all_slots();
    for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
        cr_expect_eq(handle(methods[i], "{}"), STATUS_OK);
        cr_expect_str_eq(told, "no scope");
        cr_expect_eq(handle(methods[i], "{\"user_id\": null}"), STATUS_OK);
        cr_expect_str_eq(told, "root||__default__");
        cr_expect_eq(handle(methods[i], "{\"user_id\": 1}"), STATUS_INVALID);
    }
}

Test(dispatch, a_backends_failure_is_handed_on)
{
    give_all_slots();
    answer_with = STATUS_UNAVAILABLE;
    cr_expect_eq(handle("search", "{\"user_id\": \"ada\"}"), STATUS_UNAVAILABLE);
    cr_expect_str_eq(error.message, "as told");
    answer_with = STATUS_WOULD_BLOCK;
    cr_expect_eq(handle("search", "{\"user_id\": \"ada\"}"), STATUS_WOULD_BLOCK);
}

/* ---- what a backend leaves out ---- */

Test(dispatch, defaults_stand_in_for_slots_that_are_left_out)
{
    static const struct {
        const char *method, *answer;
    } cases[] = {
        {"warm", "{\"warmed\":null}"},          {"shutdown_flush", "{\"drained\":true}"},
        {"on_pre_compress", "{\"text\":\"\"}"}, {"on_turn_start", "{}"},
        {"status", "{\"state\":\"well\"}"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        cr_expect_eq(handle(cases[i].method, "{}"), STATUS_OK, "%s", cases[i].method);
        cr_expect_str_eq(text_string(&result), cases[i].answer);
    }
}

Test(dispatch, without_slot_and_default_a_method_is_unsupported)
{
    static const char *const methods[] = {"search",      "list_facts",      "export_memory",
                                          "create_fact", "remember_memory", "delete_memory",
                                          "get_context"};

    for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
        cr_expect_eq(handle(methods[i], "{\"user_id\": \"ada\"}"), STATUS_UNSUPPORTED);
        cr_expect(strstr(error.message, "teller") && strstr(error.message, methods[i]), "%s",
                  error.message);
        cr_expect_eq(code, 0);
    }
}

Test(dispatch, fallbacks_are_used_where_the_slot_is_left_out)
{
    static const struct {
        const char *method;
        size_t slot;
    } cases[] = {
        {"export_memory", offsetof(struct backend_table, get_memory)},
        {"reload_memory", offsetof(struct backend_table, get_memory)},
        {"add_nowait", offsetof(struct backend_table, add)},
        {"remember_memory", offsetof(struct backend_table, create_fact)},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        backend_method method = tell;
        set_up();
        memcpy((char *) &table + cases[i].slot, &method, sizeof method);
        cr_expect_eq(handle(cases[i].method, "{\"user_id\": \"ada\"}"), STATUS_OK, "%s",
                     cases[i].method);
        cr_expect_str_eq(text_string(&result), "{\"told\":true}");
    }
}

Test(dispatch, capabilities_tell_for_each_method_what_the_backend_does)
{
    const char *name;
    json_t *told_so;

    table.search = tell;
    cr_assert(handle("capabilities", "{}") == STATUS_OK);
    AUTO_JSON json_t *answer = json_loads(text_string(&result), 0, NULL);
    json_t *methods = json_object_get(answer, "methods");
    cr_expect_str_eq(json_string_value(json_object_get(answer, "backend")), "teller");
    cr_expect(json_is_true(json_object_get(methods, "search")));
    cr_expect(json_is_true(json_object_get(methods, "ping")));
    cr_expect(json_is_false(json_object_get(methods, "list_facts")));
    json_object_foreach(methods, name, told_so)
    {
        bool unsupported = handle(name, "{\"user_id\": \"ada\"}") == STATUS_UNSUPPORTED;
        cr_expect(json_is_boolean(told_so) && json_is_true(told_so) == !unsupported, "%s", name);
    }
}

Test(dispatch, ping_tells_versions_and_where_events_are)
{
    for (unsigned with_events = 0; with_events < 2; with_events++) {
        dispatch.events_endpoint = with_events ? "ipc:///run/a \"b\".sock" : NULL;
        cr_assert(handle("ping", "{\"user_id\": 5}") == STATUS_OK);
        AUTO_JSON json_t *answer = json_loads(text_string(&result), 0, NULL);
        cr_assert(answer != NULL, "%s", text_string(&result));
        cr_expect_eq(json_integer_value(json_object_get(answer, "protocol")), PROTOCOL_VERSION);
        cr_expect_eq(json_integer_value(json_object_get(answer, "pid")), getpid());
        cr_expect_str_eq(json_string_value(json_object_get(answer, "version")), MEMSYNC_VERSION);
        const json_t *events = json_object_get(answer, "events");
        cr_expect(with_events ? strcmp(json_string_value(events), dispatch.events_endpoint) == 0
                              : json_is_null(events));
    }
}
