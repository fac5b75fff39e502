#include "core/fact.h"

#include "core/fact_field.h"
#include "core/fact_text.h"
#include "core/yaml_text.h"
#include "core/yaml_value.h"

#include <string.h>

void fact_destroy(struct fact **fact)
{
    if (!*fact)
        return;
    json_decref((*fact)->document);
    free(*fact);
    *fact = NULL;
}

const char *fact_owner(const struct fact *fact)
{
    return json_string_value(json_object_get(json_object_get(fact->document, "scope"), "userId"));
}

static enum status no_memory(struct error *error)
{
    return error_set(error, STATUS_NO_MEMORY, NULL, "out of memory");
}

/* Gives the front matter an object's shape also when some of its keys are no text: those stay
 * together as the member "$pairs". */
static json_t *separate_pairs(const json_t *pairs)
{
    AUTO_JSON json_t *object = json_object();
    json_t *others = json_array();
    json_t *pair;
    size_t i;

    json_array_foreach(pairs, i, pair)
    {
        const json_t *key = json_array_get(pair, 0);
        int failed = yaml_text_is(key) ? json_object_set_nocheck(object, json_string_value(key),
                                                                 json_array_get(pair, 1))
                                       : json_array_append(others, pair);
        if (failed) {
            json_decref(others);
            return NULL;
        }
    }
    if (json_object_set_new_nocheck(object, "$pairs", others) != 0)
        return NULL;
    return TAKE_PTR(object);
}

static enum status read_front(const struct fact_text *text, json_t **ret, bool *ret_duplicate,
                              struct error *error)
{
    AUTO_JSON json_t *front = NULL;

    enum status status =
        yaml_value_read(text->front, text->front_size, &front, ret_duplicate, error);
    if (status != STATUS_OK)
        return status;
    if (!json_is_object(front))
        return error_set(error, STATUS_CORRUPT, NULL, "the front matter is no mapping");

    const json_t *pairs = json_object_get(front, "$pairs");
    if (json_object_size(front) == 1 && json_is_array(pairs)) {
        *ret = separate_pairs(pairs);
        return *ret ? STATUS_OK : no_memory(error);
    }
    *ret = TAKE_PTR(front);
    return STATUS_OK;
}

static enum status check_id(json_t *document, const char *expected_id, struct error *error)
{
    const json_t *id = json_object_get(document, "id");

    if (!id)
        return error_set(error, STATUS_CORRUPT, NULL, "field id is missing");
    if (!fact_id_is_valid(expected_id) || !fact_field_is_id(id, expected_id))
        return error_set(error, STATUS_CORRUPT, NULL, "field id is not the file's name");
    if (json_object_set_new_nocheck(document, "id", json_string_nocheck(expected_id)) != 0)
        return no_memory(error);
    return STATUS_OK;
}

/* Tells whether `user`, which is not the one asked for, has the same directory. */
static bool shares_bucket(const json_t *user, const struct scope *scope)
{
    char bucket[SCOPE_NAME_MAX + 1];
    const char *id = json_string_value(user);

    return scope->has_user && id && strlen(id) == json_string_length(user) &&
           scope_bucket_of_user(id, bucket, NULL) == STATUS_OK &&
           strcmp(bucket, scope->bucket) == 0;
}

static enum status check_user(const json_t *user, const struct scope *scope, bool *ret_foreign,
                              struct error *error)
{
    AUTO_JSON json_t *expected = NULL;

    if (!json_is_null(user) && !yaml_text_is(user))
        return error_set(error, STATUS_CORRUPT, NULL, "field user_id must be text or null");
    if (!scope)
        return STATUS_OK;
    expected = scope->has_user ? yaml_text_value(scope->user, strlen(scope->user)) : json_null();
    if (!expected)
        return no_memory(error);
    if (json_equal(user, expected))
        return STATUS_OK;
    if (!shares_bucket(user, scope))
        return error_set(error, STATUS_CORRUPT, NULL, "field user_id names another user");
    *ret_foreign = true;
    return STATUS_OK;
}

static enum status check_agent(const json_t *agent, const struct scope *scope, struct error *error)
{
    char folded[SCOPE_NAME_MAX + 1];

    if (!yaml_text_is(agent) || strlen(json_string_value(agent)) != json_string_length(agent) ||
        scope_agent_fold(json_string_value(agent), folded, NULL) != STATUS_OK)
        return error_set(error, STATUS_CORRUPT, NULL, "field agent_name must be an agent's name");
    if (scope && strcmp(folded, scope->agent) != 0)
        return error_set(error, STATUS_CORRUPT, NULL, "field agent_name names another agent");
    return STATUS_OK;
}

/* Takes a member out; null stands for none. */
static json_t *take_member(json_t *document, const char *name)
{
    json_t *value = json_incref(json_object_get(document, name));

    (void) json_object_del(document, name);
    return value ? value : json_null();
}

/* Turns user_id and agent_name into the member scope, at its place after title and content. */
static enum status move_scope(json_t *document, const struct scope *scope, bool *ret_foreign,
                              struct error *error)
{
    AUTO_JSON json_t *user = take_member(document, "user_id");
    AUTO_JSON json_t *agent = take_member(document, "agent_name");

    enum status status = check_user(user, scope, ret_foreign, error);
    if (status == STATUS_OK)
        status = check_agent(agent, scope, error);
    if (status != STATUS_OK)
        return status;
    json_t *value = json_object();
    if (json_object_set_nocheck(value, "userId", user) != 0 ||
        json_object_set_nocheck(value, "agentName", agent) != 0) {
        json_decref(value);
        return no_memory(error);
    }
    if (json_object_set_new_nocheck(document, "scope", value) != 0)
        return no_memory(error);
    return STATUS_OK;
}

static enum status set_body(json_t *document, const struct fact_text *text, struct error *error)
{
    if (json_object_set_new_nocheck(document, "title",
                                    yaml_text_value(text->title, text->title_size)) != 0 ||
        json_object_set_new_nocheck(document, "content",
                                    yaml_text_value(text->content, text->content_size)) != 0)
        return no_memory(error);
    return STATUS_OK;
}

static enum status read_document(const struct fact_text *text, const struct scope *scope,
                                 const char *expected_id, uint64_t file_time_ns, struct fact *fact,
                                 bool *ret_foreign, struct error *error)
{
    bool is_foreign = false;
    enum status status = read_front(text, &fact->document, &fact->duplicate_key, error);

    if (status == STATUS_OK)
        status = check_id(fact->document, expected_id, error);
    if (status == STATUS_OK)
        status = set_body(fact->document, text, error);
    if (status == STATUS_OK)
        status = move_scope(fact->document, scope, &is_foreign, error);
    if (status == STATUS_OK)
        status = fact_field_complete(fact->document, file_time_ns, error);
    if (status != STATUS_OK)
        return status;
    *ret_foreign = is_foreign;
    if (is_foreign)
        return error_set(error, STATUS_CORRUPT, NULL,
                         "belongs to another user whose directory is the same");
    return STATUS_OK;
}

/* Points the struct's fields into the document, which is complete. */
static void link_fields(struct fact *fact)
{
    const json_t *content = json_object_get(fact->document, "content");
    const json_t *category = json_object_get(fact->document, "category");

    fact->id = json_string_value(json_object_get(fact->document, "id"));
    fact->content = json_string_value(content);
    fact->content_size = json_string_length(content);
    fact->category = category ? json_string_value(category) : "";
    fact->created_at = json_string_value(json_object_get(fact->document, "createdAt"));
    fact->confidence = json_real_value(json_object_get(fact->document, "confidence"));
    fact->revision = json_integer_value(json_object_get(fact->document, "revision"));
}

static enum status parse(const char *bytes, size_t size, const struct scope *scope,
                         const char *expected_id, uint64_t file_time_ns, struct fact **ret,
                         bool *ret_foreign, struct error *error)
{
    AUTO_FACT_TEXT struct fact_text text = {0};
    AUTO_FACT struct fact *fact = NULL;

    if (size > FACT_FILE_BYTES_MAX)
        return error_set(error, STATUS_CORRUPT, NULL, "larger than %u bytes", FACT_FILE_BYTES_MAX);
    enum status status = fact_text_read(bytes, size, &text, error);
    if (status != STATUS_OK)
        return status;
    fact = calloc(1, sizeof *fact);
    if (!fact)
        return no_memory(error);
    status = read_document(&text, scope, expected_id, file_time_ns, fact, ret_foreign, error);
    if (status != STATUS_OK)
        return status;
    link_fields(fact);
    *ret = TAKE_PTR(fact);
    return STATUS_OK;
}

enum status fact_parse(const char *bytes, size_t size, const struct scope *scope,
                       const char *expected_id, uint64_t file_time_ns, struct fact **ret,
                       enum fact_fault *ret_fault, struct error *error)
{
    bool is_foreign = false;
    enum fact_fault fault = FACT_FAULT_NONE;
    enum status status =
        parse(bytes, size, scope, expected_id, file_time_ns, ret, &is_foreign, error);

    if (status == STATUS_CORRUPT)
        fault = is_foreign ? FACT_FAULT_FOREIGN : FACT_FAULT_BROKEN;
    if (ret_fault)
        *ret_fault = fault;
    return status;
}
