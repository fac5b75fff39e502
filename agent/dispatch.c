#include "agent/dispatch.h"

#include "core/json_text.h"

#include <stddef.h>
#include <string.h>

/* What a method needs to know of whom it is called for. */
enum scope_need {
    SCOPE_NONE,     /* about the agent itself */
    SCOPE_OPTIONAL, /* a user may be given */
    SCOPE_NEEDED,
};

/* Answers instead of a slot that the backend leaves out. */
typedef enum status (*default_method)(const struct dispatch *dispatch,
                                      const struct server_call *call, struct text *result,
                                      struct error *error);

struct method {
    const char *name;
    enum scope_need need;
    size_t slot;              /* offset in struct backend_table; NO_SLOT: answered here */
    size_t fallback;          /* the slot that is used when the first is left out; NO_SLOT: none */
    default_method otherwise; /* when both are left out; NULL: unsupported */
};

#define NO_SLOT SIZE_MAX
#define SLOT(name) offsetof(struct backend_table, name)

static enum status answer_ping(const struct dispatch *dispatch, const struct server_call *call,
                               struct text *result, struct error *error)
{
    (void) call;
    (void) error;
    text_append_format(
        result,
        "{\"protocol\":%d,\"name\":\"memsyncd\",\"version\":\"%s\",\"backend\":\"%s\","
        "\"pid\":%ld,\"events\":",
        PROTOCOL_VERSION, MEMSYNC_VERSION, dispatch->table->name, (long) getpid());
    if (dispatch->events_endpoint)
        json_text_write_string(result, dispatch->events_endpoint,
                               strlen(dispatch->events_endpoint));
    else
        text_append_string(result, "null");
    text_append_char(result, '}');
    return STATUS_OK;
}

static enum status answer_status(const struct dispatch *dispatch, const struct server_call *call,
                                 struct text *result, struct error *error)
{
    (void) call;
    (void) error;
    dispatch->write_status(dispatch->status_context, result);
    return STATUS_OK;
}

/* Below the table of methods, in which answer_capabilities() stands. */
static void write_methods(const struct dispatch *dispatch, struct text *result);

static enum status answer_capabilities(const struct dispatch *dispatch,
                                       const struct server_call *call, struct text *result,
                                       struct error *error)
{
    (void) call;
    (void) error;
    text_append_format(result, "{\"backend\":\"%s\",\"methods\":{", dispatch->table->name);
    write_methods(dispatch, result);
    text_append_string(result, "}}");
    return STATUS_OK;
}

static enum status answer_drained(const struct dispatch *dispatch, const struct server_call *call,
                                  struct text *result, struct error *error)
{
    (void) dispatch;
    (void) call;
    (void) error;
    text_append_string(result, "{\"drained\":true}");
    return STATUS_OK;
}

static enum status answer_warmed(const struct dispatch *dispatch, const struct server_call *call,
                                 struct text *result, struct error *error)
{
    (void) dispatch;
    (void) call;
    (void) error;
    text_append_string(result, "{\"warmed\":null}");
    return STATUS_OK;
}

static enum status answer_no_text(const struct dispatch *dispatch, const struct server_call *call,
                                  struct text *result, struct error *error)
{
    (void) dispatch;
    (void) call;
    (void) error;
    text_append_string(result, "{\"text\":\"\"}");
    return STATUS_OK;
}

static enum status answer_nothing(const struct dispatch *dispatch, const struct server_call *call,
                                  struct text *result, struct error *error)
{
    (void) dispatch;
    (void) call;
    (void) error;
    text_append_string(result, "{}");
    return STATUS_OK;
}

static const struct method methods[] = {
    {"ping", SCOPE_NONE, NO_SLOT, NO_SLOT, answer_ping},
    {"status", SCOPE_NONE, NO_SLOT, NO_SLOT, answer_status},
    {"capabilities", SCOPE_NONE, NO_SLOT, NO_SLOT, answer_capabilities},
    {"search", SCOPE_OPTIONAL, SLOT(search), NO_SLOT, NULL},
    {"list_facts", SCOPE_NEEDED, SLOT(list_facts), NO_SLOT, NULL},
    {"get_fact", SCOPE_NEEDED, SLOT(get_fact), NO_SLOT, NULL},
    {"get_memory", SCOPE_NEEDED, SLOT(get_memory), NO_SLOT, NULL},
    {"get_summaries", SCOPE_NEEDED, SLOT(get_summaries), NO_SLOT, NULL},
    {"export_memory", SCOPE_NEEDED, SLOT(export_memory), SLOT(get_memory), NULL},
    {"reload_memory", SCOPE_NEEDED, SLOT(reload_memory), SLOT(get_memory), NULL},
    {"get_context", SCOPE_NEEDED, SLOT(get_context), NO_SLOT, NULL},
    {"refresh", SCOPE_OPTIONAL, SLOT(refresh), NO_SLOT, NULL},
    {"verify", SCOPE_NEEDED, SLOT(verify), NO_SLOT, NULL},
    {"migrate", SCOPE_NEEDED, SLOT(migrate), NO_SLOT, NULL},
    {"scopes", SCOPE_OPTIONAL, SLOT(scopes), NO_SLOT, NULL},
    {"warm", SCOPE_NONE, SLOT(warm), NO_SLOT, answer_warmed},
    {"shutdown_flush", SCOPE_NONE, SLOT(shutdown_flush), NO_SLOT, answer_drained},
    {"on_pre_compress", SCOPE_OPTIONAL, SLOT(on_pre_compress), NO_SLOT, answer_no_text},
    {"on_turn_start", SCOPE_OPTIONAL, SLOT(on_turn_start), NO_SLOT, answer_nothing},
    {"add", SCOPE_NEEDED, SLOT(add), NO_SLOT, NULL},
    {"add_nowait", SCOPE_NEEDED, SLOT(add_nowait), SLOT(add), NULL},
    {"create_fact", SCOPE_NEEDED, SLOT(create_fact), NO_SLOT, NULL},
    {"remember_memory", SCOPE_NEEDED, SLOT(create_fact), NO_SLOT, NULL},
    {"update_fact", SCOPE_NEEDED, SLOT(update_fact), NO_SLOT, NULL},
    {"delete_fact", SCOPE_NEEDED, SLOT(delete_fact), NO_SLOT, NULL},
    {"apply_changes", SCOPE_NEEDED, SLOT(apply_changes), NO_SLOT, NULL},
    {"update_summaries", SCOPE_NEEDED, SLOT(update_summaries), NO_SLOT, NULL},
    {"clear_memory", SCOPE_NEEDED, SLOT(clear_memory), NO_SLOT, NULL},
    {"import_memory", SCOPE_NEEDED, SLOT(import_memory), NO_SLOT, NULL},
    {"delete_memory", SCOPE_NEEDED, SLOT(delete_memory), NO_SLOT, NULL},
};

static backend_method slot_of(const struct backend_table *table, size_t slot)
{
    backend_method function = NULL;

    if (slot != NO_SLOT)
        memcpy(&function, (const char *) table + slot, sizeof function);
    return function;
}

static backend_method function_of(const struct dispatch *dispatch, const struct method *method)
{
    backend_method function = slot_of(dispatch->table, method->slot);

    return function ? function : slot_of(dispatch->table, method->fallback);
}

/* Supported is what the backend offers by itself or by a default. */
static void write_methods(const struct dispatch *dispatch, struct text *result)
{
    for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
        bool supported = methods[i].otherwise || function_of(dispatch, &methods[i]);
        text_append_format(result, "%s\"%s\":%s", i ? "," : "", methods[i].name,
                           supported ? "true" : "false");
    }
}

static const struct method *find_method(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
        if (strcmp(methods[i].name, name) == 0)
            return &methods[i];
    }
    return NULL;
}

/* A string or null; `ret` NULL stands for null. A NUL inside would cut the name short, so it is
 * refused. */
static enum status take_name(const json_t *params, const char *name, const char **ret,
                             struct error *error)
{
    const json_t *value = json_object_get(params, name);

    *ret = NULL;
    if (!value || json_is_null(value))
        return STATUS_OK;
    if (!json_is_string(value) || strlen(json_string_value(value)) != json_string_length(value))
        return error_set(error, STATUS_INVALID, NULL, "%s must be a string without NUL, or null",
                         name);
    *ret = json_string_value(value);
    return STATUS_OK;
}

/* Missing is not null: forgetting the user must not read the scope that has none. */
static enum status take_scope(const struct method *method, const json_t *params, struct scope *ret,
                              bool *ret_given, bool *ret_agent_given, struct error *error)
{
    const char *user;
    const char *agent;

    *ret_given = json_object_get(params, "user_id") != NULL;
    if (!*ret_given && method->need == SCOPE_NEEDED)
        return error_set(error, STATUS_INVALID, NULL, "user_id is missing (null means no user)");
    enum status status = take_name(params, "user_id", &user, error);
    if (status == STATUS_OK)
        status = take_name(params, "agent_name", &agent, error);
    if (status != STATUS_OK)
        return status;
    *ret_agent_given = agent != NULL;
    return *ret_given ? scope_create(user, agent, ret, error) : STATUS_OK;
}

enum status dispatch_handle(void *context, const struct server_call *call, struct text *result,
                            int *ret_code, struct error *error)
{
    const struct dispatch *dispatch = context;
    const struct method *method = find_method(call->method);
    struct scope scope;
    bool given = false;
    bool agent_given = false;

    if (!method) {
        *ret_code = PROTOCOL_NO_METHOD;
        return error_set(error, STATUS_INVALID, NULL, "there is no method \"%.64s\"", call->method);
    }
    backend_method function = function_of(dispatch, method);
    if (!function && method->otherwise)
        return method->otherwise(dispatch, call, result, error);
    if (!function)
        return error_set(error, STATUS_UNSUPPORTED, NULL, "the %s backend does not do %s",
                         dispatch->table->name, method->name);
    enum status status = STATUS_OK;
    if (method->need != SCOPE_NONE)
        status = take_scope(method, call->params, &scope, &given, &agent_given, error);
    if (status != STATUS_OK)
        return status;

    struct backend_call backend_call = {
        .scope = given ? &scope : NULL,
        .agent_given = agent_given,
        .params = call->params,
        .deadline_ns = call->deadline_ns,
        .may_block = call->may_block,
        .thread = call->thread,
    };
    status = function(dispatch->backend, &backend_call, result, error);
    if (status == STATUS_OK && !text_ok(result))
        return error_set(error, STATUS_NO_MEMORY, NULL, "out of memory");
    return status;
}
