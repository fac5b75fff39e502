#include "core/legacy_collect.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum status legacy_collect_start(struct legacy_collect *collect, const json_t *current)
{
    *collect = (struct legacy_collect){
        .by_id = json_object(),
        .problems = json_array(),
        .files = json_object(),
        .current = current,
    };
    return collect->by_id && collect->problems && collect->files ? STATUS_OK : STATUS_NO_MEMORY;
}

/* Whether a member makes two facts of one id the same: everything does but where and when they were
 * written. */
static bool is_substance(const char *name)
{
    static const char *const others[] = {"scope", "revision", "createdAt", "updatedAt"};

    for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
        if (strcmp(name, others[i]) == 0)
            return false;
    }
    return true;
}

static bool has_all_of(const json_t *a, const json_t *b)
{
    const char *name;
    json_t *value;

    json_object_foreach(json_unconst(b), name, value)
    {
        if (is_substance(name) && !json_equal(value, json_object_get(a, name)))
            return false;
    }
    return true;
}

static bool says_the_same(const json_t *a, const json_t *b)
{
    return has_all_of(a, b) && has_all_of(b, a);
}

enum status legacy_collect_fact(struct legacy_collect *collect, const char *path, json_t *document)
{
    const char *id = json_string_value(json_object_get(document, "id"));
    const json_t *other = id ? json_object_get(collect->current, id) : NULL;
    bool has_file = other != NULL;
    enum status status = STATUS_OK;

    if (!id)
        status = STATUS_NO_MEMORY;
    if (id && !other)
        other = json_object_get(collect->by_id, id);
    if (id && other) {
        if (json_is_object(other) && !says_the_same(other, document))
            status = legacy_collect_problem(
                collect, path,
                has_file ? "fact %s is there in another form, in a file of its own, which is shown "
                           "instead"
                         : "fact %s is there twice, in two forms; the first is shown",
                id);
    } else if (id && json_object_set(collect->by_id, id, document) < 0) {
        status = STATUS_NO_MEMORY;
    }
    json_decref(document);
    return status;
}

/* Names on a volume may be any bytes, and a message may have been cut: what is no UTF-8 shows as
 * U+FFFD. NULL without memory. */
static json_t *text_of(const char *bytes)
{
    AUTO_TEXT struct text text = {0};
    size_t size = strlen(bytes);
    size_t length = 0;

    for (size_t at = 0; at < size; at += length) {
        char encoded[4];
        uint32_t code_point = text_decode(bytes + at, size - at, &length);
        text_append(&text, encoded, text_encode(code_point, encoded));
    }
    return text_ok(&text) ? json_stringn(text_string(&text), text.size) : NULL;
}

enum status legacy_collect_problem(struct legacy_collect *collect, const char *path,
                                   const char *format, ...)
{
    char message[ERROR_MESSAGE_MAX];
    va_list arguments;

    va_start(arguments, format);
    int length = vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    if (length < 0)
        return STATUS_INTERNAL;
    json_t *problem = json_pack("{s:o, s:o}", "path", text_of(path), "problem", text_of(message));
    return json_array_append_new(collect->problems, problem) < 0 ? STATUS_NO_MEMORY : STATUS_OK;
}

enum status legacy_collect_file(struct legacy_collect *collect, const char *path, uint64_t digest)
{
    return json_object_set_new_nocheck(collect->files, path, json_integer((json_int_t) digest)) < 0
               ? STATUS_NO_MEMORY
               : STATUS_OK;
}

static int compare_keys(const void *a, const void *b)
{
    return strcmp(*(const char *const *) a, *(const char *const *) b);
}

enum status legacy_collect_end(struct legacy_collect *collect, struct legacy_view *ret)
{
    size_t count = 0;
    AUTO_FREE const char **ids = calloc(json_object_size(collect->by_id) + 1, sizeof *ids);
    AUTO_JSON json_t *facts = json_array();
    const char *id = NULL;
    json_t *document = NULL;

    if (!ids || !facts)
        return STATUS_NO_MEMORY;
    json_object_foreach(collect->by_id, id, document) ids[count++] = id;
    qsort(ids, count, sizeof *ids, compare_keys);
    for (size_t i = 0; i < count; i++) {
        if (json_array_append(facts, json_object_get(collect->by_id, ids[i])) < 0)
            return STATUS_NO_MEMORY;
    }
    ret->found = collect->found;
    ret->has_lead = collect->has_lead;
    ret->facts = TAKE_PTR(facts);
    ret->problems = TAKE_PTR(collect->problems);
    ret->files = TAKE_PTR(collect->files);
    ret->agent_file = collect->agent_file;
    collect->agent_file = (struct file_image){0};
    ret->agent_root = TAKE_PTR(collect->agent_root);
    return STATUS_OK;
}

void legacy_collect_destroy(struct legacy_collect *collect)
{
    json_decref(collect->by_id);
    json_decref(collect->problems);
    json_decref(collect->files);
    file_image_destroy(&collect->agent_file);
    json_decref(collect->agent_root);
    *collect = (struct legacy_collect){0};
}
