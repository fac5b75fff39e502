#include "core/fact_normalise.h"

#include "core/fact_field.h"
#include "core/fact_text.h"
#include "core/json_text.h"
#include "core/yaml_text.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

static enum status no_memory(struct error *error)
{
    return error_set(error, STATUS_NO_MEMORY, NULL, "out of memory");
}

static enum status refuse(struct error *error, const char *name, const char *rule)
{
    return error_set(error, STATUS_INVALID, NULL, "field %s must be %s", name, rule);
}

/* Sets a member; takes `value`, which may be NULL when memory ran out. */
static enum status set(json_t *document, const char *name, json_t *value, struct error *error)
{
    return json_object_set_new_nocheck(document, name, value) == 0 ? STATUS_OK : no_memory(error);
}

static bool is_one_of(const char *name, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(name, names[i]) == 0)
            return true;
    }
    return false;
}

/* ---- the id ---- */

static enum status make_up_id(char id[FACT_ID_MAX + 1], struct error *error)
{
    unsigned char bits[16];
    size_t used = (size_t) snprintf(id, FACT_ID_MAX + 1, "fact_");

    if (getrandom(bits, sizeof bits, 0) != (ssize_t) sizeof bits)
        return error_set(error, STATUS_INTERNAL, NULL, "no random bits for an id");
    for (size_t i = 0; i < sizeof bits; i++)
        used += (size_t) snprintf(id + used, FACT_ID_MAX + 1 - used, "%02x", bits[i]);
    return STATUS_OK;
}

static enum status set_id(const json_t *input, json_t *document, struct error *error)
{
    const json_t *given = json_object_get(input, "id");
    const char *id = json_string_value(given);
    char made_up[FACT_ID_MAX + 1];

    if (!given || json_is_null(given) || (id && json_string_length(given) == 0)) {
        enum status status = make_up_id(made_up, error);
        return status ? status : set(document, "id", json_string_nocheck(made_up), error);
    }
    if (!id || strlen(id) != json_string_length(given) || !fact_id_is_valid(id))
        return refuse(error, "id", "letters, digits, _ and - (252 at most)");
    return set(document, "id", json_string_nocheck(id), error);
}

/* ---- members as they came ---- */

/* Copies what is neither made anew below nor the store's own. */
static enum status copy_members(const json_t *input, json_t *document, struct error *error)
{
    static const char *const others[] = {"id",    "title",   "content",
                                         "scope", "user_id", "agent_name"};
    const char *name;
    json_t *value;

    json_object_foreach(json_unconst(input), name, value)
    {
        if (is_one_of(name, others, ARRAY_SIZE(others)))
            continue;
        if (!json_text_string_is_unicode(name, strlen(name)))
            return error_set(error, STATUS_INVALID, NULL,
                             "the name of a field holds half of a surrogate pair");
        if (!json_text_is_unicode(value))
            return refuse(error, name, "text without half of a surrogate pair");
        enum status status = set(document, name, json_text_deep_copy(value), error);
        if (status != STATUS_OK)
            return status;
    }
    return STATUS_OK;
}

/* The extension follows the category: it stays with "other" alone, and a word of the caller's own
 * replaces it. */
static enum status settle_category(json_t *document, struct error *error)
{
    const json_t *category = json_object_get(document, "category");
    const json_t *extension = json_object_get(document, "categoryExtension");

    if (extension && !yaml_text_is(extension))
        return refuse(error, "categoryExtension", "text");
    if (category && yaml_text_is(category) && strcmp(json_string_value(category), "other") != 0)
        (void) json_object_del(document, "categoryExtension");
    return STATUS_OK;
}

/* ---- the text ---- */

/* Fills `text` with the plain bytes of a member. */
static enum status read_text(const json_t *value, const char *name, struct text *text,
                             struct error *error)
{
    if (!yaml_text_is(value))
        return refuse(error, name, "text");
    if (!json_text_is_unicode(value))
        return refuse(error, name, "text without half of a surrogate pair");
    yaml_text_restore(text, json_string_value(value), json_string_length(value));
    return text_ok(text) ? STATUS_OK : no_memory(error);
}

static enum status set_title(json_t *document, const char *bytes, size_t size, struct error *error)
{
    AUTO_FREE char *title = fact_text_title(bytes, size, &size);

    return title ? set(document, "title", yaml_text_value(title, size), error) : no_memory(error);
}

/* The title that is given, or the first line of the content. */
static enum status choose_title(const json_t *input, const char *content, size_t content_size,
                                json_t *document, struct error *error)
{
    AUTO_TEXT struct text given = {0};
    const json_t *title = json_object_get(input, "title");
    const char *newline = memchr(content, '\n', content_size);
    size_t line_size = newline ? (size_t) (newline - content) : content_size;
    enum status status = STATUS_OK;

    if (title && !json_is_null(title))
        status = read_text(title, "title", &given, error);
    if (status == STATUS_OK)
        status = set_title(document, text_string(&given), given.size, error);
    if (status == STATUS_OK && json_string_length(json_object_get(document, "title")) == 0)
        status = set_title(document, content, line_size, error);
    return status;
}

static enum status set_body(const json_t *input, json_t *document, struct error *error)
{
    AUTO_TEXT struct text given = {0};
    AUTO_FREE char *content = NULL;
    size_t size = 0;

    enum status status = read_text(json_object_get(input, "content"), "content", &given, error);
    if (status != STATUS_OK)
        return status;
    content = fact_text_clean(text_string(&given), given.size, &size);
    if (!content)
        return no_memory(error);
    if (size == 0)
        return refuse(error, "content", "more than white space");
    status = choose_title(input, content, size, document, error);
    return status ? status : set(document, "content", yaml_text_value(content, size), error);
}

/* ---- the whole ---- */

/* How the input spells the agent, if it names the scope's: case does not count, but readers keep
 * it. */
static const char *spelt_agent(const json_t *input, const struct scope *scope)
{
    const json_t *given = json_object_get(json_object_get(input, "scope"), "agentName");
    const char *agent = json_string_value(given);
    char folded[SCOPE_NAME_MAX + 1];

    if (agent && strlen(agent) == json_string_length(given) &&
        scope_agent_fold(agent, folded, NULL) == STATUS_OK && strcmp(folded, scope->agent) == 0)
        return agent;
    return scope->agent;
}

static enum status set_scope(const json_t *input, const struct scope *scope, json_t *document,
                             struct error *error)
{
    json_t *user =
        scope->has_user ? yaml_text_value(scope->user, strlen(scope->user)) : json_null();

    return set(document, "scope",
               json_pack("{s:o, s:s}", "userId", user, "agentName", spelt_agent(input, scope)),
               error);
}

/* The rules of reading, of which a fault is the caller's here. */
static enum status complete(json_t *document, uint64_t wall_ns, struct error *error)
{
    enum status status = fact_field_complete(document, wall_ns, error);

    if (status == STATUS_CORRUPT && error)
        error->status = STATUS_INVALID;
    return status == STATUS_CORRUPT ? STATUS_INVALID : status;
}

enum status fact_normalise(const json_t *input, const struct scope *scope, uint64_t wall_ns,
                           json_t **ret, struct error *error)
{
    AUTO_JSON json_t *document = json_object();

    if (!json_is_object(input))
        return error_set(error, STATUS_INVALID, NULL, "the fact must be an object");
    enum status status = set_id(input, document, error);
    if (status == STATUS_OK)
        status = copy_members(input, document, error);
    if (status == STATUS_OK)
        status = settle_category(document, error);
    if (status == STATUS_OK)
        status = complete(document, wall_ns, error);
    if (status == STATUS_OK)
        status = set_body(input, document, error);
    if (status == STATUS_OK)
        status = set_scope(input, scope, document, error);
    if (status == STATUS_OK)
        *ret = TAKE_PTR(document);
    return status;
}

static size_t count_material(const json_t *document)
{
    return json_object_size(document) - (json_object_get(document, "revision") ? 1 : 0) -
           (json_object_get(document, "updatedAt") ? 1 : 0);
}

bool fact_same_material(const json_t *a, const json_t *b)
{
    static const char *const immaterial[] = {"revision", "updatedAt"};
    const char *name;
    json_t *value;

    json_object_foreach(json_unconst(a), name, value)
    {
        if (!is_one_of(name, immaterial, ARRAY_SIZE(immaterial)) &&
            !json_equal(value, json_object_get(b, name)))
            return false;
    }
    return count_material(a) == count_material(b);
}
