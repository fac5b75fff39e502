#include "core/fact_write.h"

#include "core/fact_text.h"
#include "core/json_text.h"
#include "core/yaml_text.h"
#include "core/yaml_write.h"

#include <string.h>

_Static_assert(YAML_WRITE_BYTES_MAX > FACT_FILE_BYTES_MAX, "what is cut short must be too large");

static enum status no_memory(struct error *error)
{
    return error_set(error, STATUS_NO_MEMORY, NULL, "out of memory");
}

/* ---- writing ---- */

/* The text of a member that stands in the file as it is. */
static enum status read_text(const json_t *document, const char *name, struct text *ret,
                             struct error *error)
{
    const json_t *value = json_object_get(document, name);

    if (!yaml_text_is(value) || !json_text_is_unicode(value))
        return error_set(error, STATUS_INVALID, NULL, "field %s must be sound text", name);
    yaml_text_restore(ret, json_string_value(value), json_string_length(value));
    return text_ok(ret) ? STATUS_OK : no_memory(error);
}

/* The document as reading will give it: a title that was cut may end in blanks, which a line of its
 * own cannot keep. */
static enum status settle_title(const json_t *document, json_t **ret, struct error *error)
{
    AUTO_TEXT struct text text = {0};
    AUTO_FREE char *title = NULL;
    AUTO_JSON json_t *settled = json_text_copy(document);
    size_t size;

    enum status status = read_text(document, "title", &text, error);
    if (status != STATUS_OK)
        return status;
    title = fact_text_title(text_string(&text), text.size, &size);
    if (!title || json_object_set_new_nocheck(settled, "title", yaml_text_value(title, size)) != 0)
        return no_memory(error);
    *ret = TAKE_PTR(settled);
    return STATUS_OK;
}

/* Moves a member to the end, where it is one. */
static bool move_last(json_t *object, const char *name)
{
    AUTO_JSON json_t *value = json_incref(json_object_get(object, name));

    if (!value)
        return true;
    (void) json_object_del(object, name);
    return json_object_set_nocheck(object, name, value) == 0;
}

/* The mapping of the front matter; NULL without memory. Members whose keys are no text come last of
 * what is not ours, since that is where reading puts them. */
static json_t *make_front(const json_t *document)
{
    static const char *const others[] = {"title", "content", "scope", "user_id", "agent_name"};
    const json_t *scope = json_object_get(document, "scope");
    json_t *user = json_object_get(scope, "userId");
    json_t *agent = json_object_get(scope, "agentName");
    AUTO_JSON json_t *front = json_text_copy(document);

    for (size_t i = 0; i < ARRAY_SIZE(others); i++)
        (void) json_object_del(front, others[i]);
    if (!move_last(front, "$pairs") ||
        json_object_set_nocheck(front, "user_id", user ? user : json_null()) != 0 ||
        json_object_set_nocheck(front, "agent_name", agent ? agent : json_null()) != 0)
        return NULL;
    return TAKE_PTR(front);
}

static enum status render(const json_t *document, struct text *ret, struct error *error)
{
    AUTO_TEXT struct text title = {0};
    AUTO_TEXT struct text content = {0};
    AUTO_JSON json_t *front = make_front(document);

    if (!front)
        return no_memory(error);
    enum status status = read_text(document, "title", &title, error);
    if (status == STATUS_OK)
        status = read_text(document, "content", &content, error);
    if (status != STATUS_OK)
        return status;
    text_append_string(ret, "---\n");
    yaml_write_mapping(ret, front);
    text_append_string(ret, "---\n\n# ");
    text_append(ret, title.bytes, title.size);
    text_append_string(ret, "\n\n");
    text_append(ret, content.bytes, content.size);
    text_append_char(ret, '\n');
    return text_ok(ret) ? STATUS_OK : no_memory(error);
}

/* ---- reading back ---- */

/* The name of a member in which the two differ. */
static const char *find_difference(const json_t *a, const json_t *b)
{
    const char *name;
    json_t *value;

    json_object_foreach(json_unconst(a), name, value)
    {
        if (!json_equal(value, json_object_get(b, name)))
            return name;
    }
    json_object_foreach(json_unconst(b), name, value)
    {
        if (!json_object_get(a, name))
            return name;
    }
    return NULL;
}

static enum status check(const json_t *document, const struct scope *scope, const struct text *file,
                         struct error *error)
{
    AUTO_FACT struct fact *fact = NULL;
    struct error fault = {0};
    const char *id = json_string_value(json_object_get(document, "id"));

    if (!id)
        return error_set(error, STATUS_INVALID, NULL, "field id must be text");
    enum status status = fact_parse(file->bytes, file->size, scope, id, 0, &fact, NULL, &fault);
    if (status == STATUS_CORRUPT)
        return error_set(error, STATUS_INVALID, NULL, "readers would refuse the fact: %s",
                         fault.message);
    if (status != STATUS_OK)
        return error_set(error, status, NULL, "%s", fault.message);
    const char *name = find_difference(document, fact->document);
    if (name)
        return error_set(error, STATUS_INVALID, NULL, "field %s would not read back as it is",
                         name);
    return STATUS_OK;
}

enum status fact_write(const json_t *document, const struct scope *scope, struct text *ret,
                       struct error *error)
{
    AUTO_TEXT struct text file = {0};
    AUTO_JSON json_t *settled = NULL;

    enum status status = settle_title(document, &settled, error);
    if (status == STATUS_OK)
        status = render(settled, &file, error);
    if (status == STATUS_OK && file.size > FACT_FILE_BYTES_MAX)
        status = error_set(error, STATUS_TOO_LARGE, NULL, "the fact would be larger than %u bytes",
                           FACT_FILE_BYTES_MAX);
    if (status == STATUS_OK)
        status = check(settled, scope, &file, error);
    if (status != STATUS_OK)
        return status;
    text_append(ret, file.bytes, file.size);
    return text_ok(ret) ? STATUS_OK : no_memory(error);
}
