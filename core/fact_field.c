#include "core/fact_field.h"

#include "core/clock.h"
#include "core/yaml_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SCHEMA_VERSION 2
#define CONFIDENCE_DEFAULT 0.5

static enum status no_memory(struct error *error)
{
    return error_set(error, STATUS_NO_MEMORY, NULL, "out of memory");
}

static enum status refuse(struct error *error, const char *name, const char *rule)
{
    return error_set(error, STATUS_CORRUPT, NULL, "field %s must be %s", name, rule);
}

/* Sets a member; takes `value`, which may be NULL when memory ran out. */
static enum status set(json_t *document, const char *name, json_t *value, struct error *error)
{
    return json_object_set_new_nocheck(document, name, value) == 0 ? STATUS_OK : no_memory(error);
}

/* Categories beyond the core set become "other", and the word is kept beside it. */
static enum status complete_category(json_t *document, struct error *error)
{
    static const char *const core[] = {
        "preference", "correction", "context",  "goal",  "behavior",
        "identity",   "constraint", "decision", "other", "",
    };
    json_t *category = json_object_get(document, "category");

    if (!category)
        return STATUS_OK;
    if (!yaml_text_is(category))
        return refuse(error, "category", "text");
    for (size_t i = 0; i < ARRAY_SIZE(core); i++) {
        if (json_string_length(category) == strlen(core[i]) &&
            memcmp(json_string_value(category), core[i], strlen(core[i])) == 0)
            return STATUS_OK;
    }
    if (!json_object_get(document, "categoryExtension") &&
        json_object_set_nocheck(document, "categoryExtension", category) != 0)
        return no_memory(error);
    return set(document, "category", json_string_nocheck("other"), error);
}

static enum status complete_confidence(json_t *document, struct error *error)
{
    const json_t *confidence = json_object_get(document, "confidence");
    double value = CONFIDENCE_DEFAULT;

    if (confidence) {
        value = json_number_value(confidence);
        if (!json_is_number(confidence) || !(value >= 0 && value <= 1))
            return refuse(error, "confidence", "a number from 0 to 1");
    }
    return set(document, "confidence", json_real(value), error);
}

static enum status complete_status(json_t *document, struct error *error)
{
    const json_t *status = json_object_get(document, "status");

    if (!status)
        return set(document, "status", json_string_nocheck("active"), error);
    if (!json_is_string(status) || json_string_length(status) != strlen("active") ||
        strcmp(json_string_value(status), "active") != 0)
        return refuse(error, "status", "active");
    return STATUS_OK;
}

static enum status complete_list(json_t *document, const char *name, struct error *error)
{
    json_t *list = json_object_get(document, name);
    json_t *item;
    size_t i;

    if (!list)
        return set(document, name, json_array(), error);
    if (!json_is_array(list))
        return refuse(error, name, "a list of texts");
    json_array_foreach(list, i, item)
    {
        if (!yaml_text_is(item))
            return refuse(error, name, "a list of texts");
    }
    return STATUS_OK;
}

/* A whole number of at least 1; one beyond 64 bits counts when `ret` is NULL. */
static bool is_count(const json_t *value, int64_t *ret)
{
    if (json_is_integer(value)) {
        if (ret)
            *ret = json_integer_value(value);
        return json_integer_value(value) >= 1;
    }
    return !ret && yaml_text_is_big_integer(value) &&
           json_string_value(value)[strlen(YAML_TEXT_BIG_INTEGER)] != '-';
}

static enum status check_confirmations(const json_t *document, struct error *error)
{
    const json_t *at = json_object_get(document, "lastConfirmedAt");
    const json_t *count = json_object_get(document, "confirmationCount");

    if (at && !json_is_null(at) && !yaml_text_is(at))
        return refuse(error, "lastConfirmedAt", "text");
    if (count && !json_is_null(count) && !is_count(count, NULL))
        return refuse(error, "confirmationCount", "a whole number from 1 on");
    return STATUS_OK;
}

/* True for a mapping of the file, false for the markers of values that JSON lacks. */
static bool is_mapping(const json_t *value)
{
    static const char *const markers[] = {"$float", "$date", "$datetime", "$binary", "$set"};

    if (!json_is_object(value))
        return false;
    for (size_t i = 0; json_object_size(value) == 1 && i < ARRAY_SIZE(markers); i++) {
        if (json_object_get(value, markers[i]))
            return false;
    }
    return true;
}

/* A member of a mapping, also of one whose keys are not all text. */
static json_t *member(const json_t *mapping, const char *name)
{
    const json_t *pairs = json_object_get(mapping, "$pairs");
    json_t *pair;
    size_t i;

    if (json_object_size(mapping) != 1 || !json_is_array(pairs))
        return json_object_get(mapping, name);
    json_array_foreach(pairs, i, pair)
    {
        const char *key = json_string_value(json_array_get(pair, 0));
        if (key && strcmp(key, name) == 0)
            return json_array_get(pair, 1);
    }
    return NULL;
}

static enum status add_member(json_t *mapping, const char *name, const char *value,
                              struct error *error)
{
    json_t *pairs = json_object_get(mapping, "$pairs");

    if (json_object_size(mapping) != 1 || !json_is_array(pairs))
        return set(mapping, name, json_string_nocheck(value), error);
    if (json_array_append_new(pairs, json_pack("[ss]", name, value)) != 0)
        return no_memory(error);
    return STATUS_OK;
}

/* A plain word is what earlier versions wrote: a type, or else the thread's id. */
static json_t *source_of_word(const char *word, size_t size)
{
    static const char *const types[] = {"manual", "consolidation", "import", "unknown"};

    for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
        if (strlen(types[i]) == size && memcmp(types[i], word, size) == 0)
            return json_pack("{s:s, s:n}", "type", types[i], "threadId");
    }
    return json_pack("{s:s, s:o}", "type", "conversation", "threadId",
                     json_stringn_nocheck(word, size));
}

static enum status complete_source(json_t *document, struct error *error)
{
    json_t *source = json_object_get(document, "source");

    if (yaml_text_is(source))
        return set(document, "source",
                   source_of_word(json_string_value(source), json_string_length(source)), error);
    if (!is_mapping(source))
        return set(document, "source", source_of_word("unknown", strlen("unknown")), error);

    const json_t *type = member(source, "type");
    const json_t *thread = member(source, "threadId");
    if (thread && !json_is_null(thread) && !yaml_text_is(thread))
        return refuse(error, "source.threadId", "text or null");
    if (!type)
        return add_member(source, "type", "unknown", error);
    return yaml_text_is(type) ? STATUS_OK : refuse(error, "source.type", "text");
}

static enum status complete_dates(json_t *document, uint64_t file_time_ns, struct error *error)
{
    char now[CLOCK_TEXT_SIZE];

    if (!json_object_get(document, "createdAt")) {
        clock_format(file_time_ns, now);
        if (json_object_set_new_nocheck(document, "createdAt", json_string_nocheck(now)) != 0)
            return no_memory(error);
    }
    json_t *created = json_object_get(document, "createdAt");
    if (!yaml_text_is(created))
        return refuse(error, "createdAt", "text");
    if (!json_object_get(document, "updatedAt"))
        return json_object_set_nocheck(document, "updatedAt", created) == 0 ? STATUS_OK
                                                                            : no_memory(error);
    return yaml_text_is(json_object_get(document, "updatedAt"))
               ? STATUS_OK
               : refuse(error, "updatedAt", "text");
}

static enum status complete_revision(json_t *document, struct error *error)
{
    const json_t *revision = json_object_get(document, "revision");
    int64_t value;

    if (!revision)
        return set(document, "revision", json_integer(1), error);
    return is_count(revision, &value) ? STATUS_OK
                                      : refuse(error, "revision", "a whole number from 1 on");
}

/* A fact that replaced others tells since when. */
static enum status complete_consolidation(json_t *document, struct error *error)
{
    if (json_array_size(json_object_get(document, "consolidatedFrom")) == 0 ||
        json_object_get(document, "consolidatedAt"))
        return STATUS_OK;
    return json_object_set_nocheck(document, "consolidatedAt",
                                   json_object_get(document, "updatedAt")) == 0
               ? STATUS_OK
               : no_memory(error);
}

enum status fact_field_complete(json_t *document, uint64_t file_time_ns, struct error *error)
{
    enum status status = set(document, "schemaVersion", json_integer(SCHEMA_VERSION), error);

    if (status == STATUS_OK)
        status = complete_category(document, error);
    if (status == STATUS_OK)
        status = complete_confidence(document, error);
    if (status == STATUS_OK)
        status = complete_status(document, error);
    if (status == STATUS_OK)
        status = complete_list(document, "topics", error);
    if (status == STATUS_OK)
        status = complete_list(document, "consolidatedFrom", error);
    if (status == STATUS_OK)
        status = check_confirmations(document, error);
    if (status == STATUS_OK)
        status = complete_source(document, error);
    if (status == STATUS_OK)
        status = complete_dates(document, file_time_ns, error);
    if (status == STATUS_OK)
        status = complete_revision(document, error);
    if (status == STATUS_OK)
        status = complete_consolidation(document, error);
    return status;
}

bool fact_field_is_id(const json_t *value, const char *text)
{
    char number[24];
    const char *date = json_string_value(json_object_get(value, "$date"));

    if (yaml_text_is_big_integer(value))
        return strcmp(json_string_value(value) + strlen(YAML_TEXT_BIG_INTEGER), text) == 0;
    if (json_is_string(value))
        return json_string_length(value) == strlen(text) &&
               strcmp(json_string_value(value), text) == 0;
    if (json_is_true(value))
        return strcmp(text, "True") == 0;
    if (date && json_object_size(value) == 1)
        return strcmp(text, date) == 0;
    if (!json_is_integer(value))
        return false;
    (void) snprintf(number, sizeof number, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    return strcmp(text, number) == 0;
}
