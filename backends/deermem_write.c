#include "backends/deermem_write.h"

#include "backends/params.h"
#include "core/json_number.h"
#include "core/json_text.h"
#include "core/manifest_write.h"
#include "core/text_trim.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* With what the call tells of it. */
static struct write_request request_of(const struct deermem_write *write,
                                       const struct write_request *how)
{
    struct write_request request = *how;

    if (!request.scope)
        request.scope = write->call->scope;
    request.deadline_ns = write->call->deadline_ns;
    request.thread = write->call->thread;
    keeper_touch(write->backend->keeper, request.scope);
    return request;
}

enum status deermem_write_run(const struct deermem_write *write, const struct write_request *how,
                              struct write_result *ret, struct error *error)
{
    struct write_request request;

    if (!write->call->may_block)
        return STATUS_WOULD_BLOCK;
    request = request_of(write, how);
    return writer_run(write->backend->writer, &request, ret, error);
}

enum status deermem_write_try(const struct deermem_write *write, const struct write_request *how,
                              struct write_result *ret, bool *ret_unmigrated, struct error *error)
{
    struct write_request request;

    if (!write->call->may_block)
        return STATUS_WOULD_BLOCK;
    request = request_of(write, how);
    return writer_try(write->backend->writer, &request, ret, ret_unmigrated, error);
}

void deermem_write_common(struct text *result, const struct write_result *write)
{
    text_append_format(result,
                       "\"revision\":%" PRId64 ",\"changed\":%s,\"last_updated\":", write->revision,
                       write->changed ? "true" : "false");
    json_text_write_string(result, write->last_updated, strlen(write->last_updated));
    text_append_format(result, ",\"index\":\"%s\",\"attempts\":%u",
                       write->index_behind ? "behind" : "current", write->attempts);
}

enum status deermem_append_answer(struct backend *backend, const struct backend_call *call,
                                  backend_method method, struct text *result, struct error *error)
{
    AUTO_TEXT struct text answer = {0};
    enum status status = method(backend, call, &answer, error);

    if (status != STATUS_OK)
        return status;
    if (!text_ok(&answer) || answer.size < 2)
        return error_set(error, STATUS_NO_MEMORY, NULL, "out of memory");
    text_append_char(result, ',');
    text_append(result, answer.bytes + 1, answer.size - 2); /* without its braces */
    return STATUS_OK;
}

enum status deermem_end_answer(struct text *result, enum status status,
                               const struct write_result *written, struct error *error)
{
    text_append_char(result, '}');
    if (status == STATUS_OK && !text_ok(result))
        status = error_set(error, STATUS_NO_MEMORY, NULL, "out of memory");
    bool has_reason = error && strstr(error->members, "\"reason\"");
    if (status != STATUS_OK && error && written && written->changed && !has_reason) {
        const struct error why = *error;
        (void) error_set(error, status, why.path,
                         "the write was done, its answer cannot be made: %s", why.message);
        error_add_member(error, "reason", "\"unconfirmed\"");
        error_add_member(error, "attempts", "%u", written->attempts);
    }
    return status;
}

static enum status add_broken(struct backend *backend, const struct backend_call *call, json_t *ret,
                              struct error *error)
{
    AUTO_TEXT struct text answer = {0};
    AUTO_JSON json_t *list = NULL;

    enum status status = deermem_list_facts(backend, call, &answer, error);
    if (status == STATUS_OK && !text_ok(&answer))
        status = error_set(error, STATUS_NO_MEMORY, NULL, "out of memory");
    if (status == STATUS_OK)
        status =
            json_text_read(text_string(&answer), answer.size, JSON_TEXT_DEPTH_MAX, &list, error);
    if (status != STATUS_OK)
        return status;
    return json_array_extend(ret, json_object_get(list, "broken")) == 0
               ? STATUS_OK
               : error_set(error, STATUS_NO_MEMORY, NULL, "out of memory");
}

enum status deermem_append_kept(struct backend *backend, const struct backend_call *call,
                                const json_t *agents, struct text *result, struct error *error)
{
    AUTO_JSON json_t *kept = json_array();
    const json_t *name;
    size_t i;

    if (!kept)
        return error_set(error, STATUS_NO_MEMORY, NULL, "out of memory");
    json_array_foreach(agents, i, name)
    {
        struct scope scope = *call->scope;
        struct backend_call of_agent = *call;
        (void) snprintf(scope.agent, sizeof scope.agent, "%s", json_string_value(name));
        of_agent.scope = &scope;
        enum status status = add_broken(backend, &of_agent, kept, error);
        if (status != STATUS_OK)
            return status;
    }
    text_append_string(result, ",\"kept\":");
    json_text_write(result, kept);
    return STATUS_OK;
}

enum status deermem_check_memory(const struct backend_call *call, struct error *error)
{
    bool wanted = false;

    return params_boolean(call->params, "memory", &wanted, error);
}

enum status deermem_append_memory(struct backend *backend, const struct backend_call *call,
                                  struct text *result, struct error *error)
{
    if (!json_is_true(json_object_get(call->params, "memory")))
        return STATUS_OK;
    return deermem_append_answer(backend, call, deermem_get_memory, result, error);
}

enum status deermem_take_revision(const json_t *params, bool *ret_given, int64_t *ret,
                                  struct error *error)
{
    *ret_given = json_is_integer(json_object_get(params, "expected_revision"));
    return params_integer(params, "expected_revision", INT64_MIN, INT64_MAX, ret, error);
}

enum status deermem_take_id(const json_t *params, const char **ret, struct error *error)
{
    enum status status = params_name(params, "fact_id", true, ret, error);

    if (status == STATUS_OK && !fact_id_is_valid(*ret))
        status = error_set(error, STATUS_INVALID, NULL,
                           "fact_id must consist of letters, digits, '_' and '-', at most %d",
                           FACT_ID_MAX);
    return status;
}

/* ---- fields ---- */

static enum status no_memory(struct error *error)
{
    return error_set(error, STATUS_NO_MEMORY, NULL, "out of memory");
}

static enum status copy_content(const json_t *params, json_t *fact, struct error *error)
{
    const char *content = NULL;
    size_t size = 0;

    enum status status = params_string(params, "content", false, &content, &size, error);
    if (status != STATUS_OK || !content)
        return status;
    text_trim(&content, &size);
    if (size == 0)
        return error_set(error, STATUS_INVALID, NULL, "content must not be empty");
    return json_object_set_new(fact, "content", json_stringn_nocheck(content, size)) == 0
               ? STATUS_OK
               : no_memory(error);
}

/* The extension is that of the word which becomes `other`, so it goes with the old category. */
static enum status copy_category(const json_t *params, json_t *fact, struct error *error)
{
    const char *category = NULL;
    size_t size = 0;

    enum status status = params_string(params, "category", false, &category, &size, error);
    if (status != STATUS_OK || !category)
        return status;
    text_trim(&category, &size);
    if (size == 0) {
        category = "context";
        size = strlen(category);
    }
    (void) json_object_del(fact, "categoryExtension");
    return json_object_set_new(fact, "category", json_stringn_nocheck(category, size)) == 0
               ? STATUS_OK
               : no_memory(error);
}

static enum status copy_confidence(const json_t *params, json_t *fact, struct error *error)
{
    json_t *confidence = json_object_get(params, "confidence");
    double value;

    if (!confidence || json_is_null(confidence))
        return STATUS_OK;
    if (!json_number_read(confidence, &value) || value < 0 || value > 1)
        return error_set(error, STATUS_INVALID, NULL, "confidence must be a number from 0 to 1");
    return json_object_set(fact, "confidence", confidence) == 0 ? STATUS_OK : no_memory(error);
}

/* Members whose rules fact_normalise() knows. */
static enum status copy_as_given(const json_t *params, const char *name, json_t *fact,
                                 const char *member, struct error *error)
{
    json_t *value = json_object_get(params, name);

    if (!value || json_is_null(value))
        return STATUS_OK;
    return json_object_set(fact, member, value) == 0 ? STATUS_OK : no_memory(error);
}

enum status deermem_copy_fields(const json_t *params, json_t *fact, struct error *error)
{
    const char *text = NULL;
    size_t size;

    enum status status = copy_content(params, fact, error);
    if (status == STATUS_OK)
        status = copy_category(params, fact, error);
    if (status == STATUS_OK)
        status = copy_confidence(params, fact, error);
    if (status == STATUS_OK)
        status = copy_as_given(params, "topics", fact, "topics", error);
    if (status == STATUS_OK)
        status = copy_as_given(params, "source", fact, "source", error);
    if (status == STATUS_OK)
        status = params_string(params, "source_error", false, &text, &size, error);
    if (status == STATUS_OK)
        status = copy_as_given(params, "source_error", fact, "sourceError", error);
    return status;
}

enum status deermem_add_deletes(struct change_set *set, const json_t *facts, struct error *error)
{
    const json_t *fact;
    size_t i;

    json_array_foreach(facts, i, fact)
    {
        struct change_delete *removal;
        const char *id = json_string_value(json_object_get(fact, "id"));
        enum status status = change_set_add_delete(set, id ? id : "", &removal, error);
        if (status != STATUS_OK)
            return status;
        removal->has_revision = true;
        removal->revision = json_integer_value(json_object_get(fact, "revision"));
    }
    return STATUS_OK;
}

enum status deermem_check_section(const json_t *section, const char *param, const char *group,
                                  const char *name, struct error *error)
{
    const json_t *summary = json_object_get(section, "summary");

    if (json_is_string(section) && !manifest_section_is_known(group, name))
        return STATUS_OK;
    if (!json_is_object(section))
        return error_set(error, STATUS_INVALID, NULL, "%s.%s.%.64s must be an object", param, group,
                         name);
    if (summary && !json_is_string(summary))
        return error_set(error, STATUS_INVALID, NULL, "%s.%s.%.64s.summary must be text", param,
                         group, name);
    return STATUS_OK;
}
