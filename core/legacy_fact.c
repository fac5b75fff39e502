#include "core/legacy_fact.h"

#include "core/json_disguise.h"
#include "core/json_text.h"
#include "core/legacy_text.h"
#include "core/scope.h"

#include <sodium.h>
#include <string.h>

#define MADE_UP_BYTES 16 /* of a digest: 32 digits, as the peers' own ids have */

/* The conversion of one fact. */
struct conversion {
    const json_t *fact;
    const struct legacy_owner *owner;
    json_t *document;
    const char *extension; /* a category outside the core set, to be kept beside "other" */
    const char *problem;
    bool failed; /* out of memory */
};

static const char *const core_categories[] = {"preference", "correction", "context",
                                              "goal",       "behavior",   "identity",
                                              "constraint", "decision",   "other"};

static const char *const plain_sources[] = {"manual", "consolidation", "import", "unknown"};

static bool is_among(const char *text, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(text, words[i]) == 0)
            return true;
    }
    return false;
}

static void put(struct conversion *conversion, const char *key, json_t *value)
{
    if (json_object_set_new(conversion->document, key, value) < 0)
        conversion->failed = true;
}

static void refuse(struct conversion *conversion, const char *problem)
{
    if (!conversion->problem)
        conversion->problem = problem;
}

/* ---- ids ---- */

/* An id that depends on nothing but the fact and how many equal ones came before it. */
static bool make_up_id(const json_t *fact, json_int_t copy, char ret[2 * MADE_UP_BYTES + 6])
{
    AUTO_TEXT struct text text = {0};
    unsigned char digest[crypto_hash_sha256_BYTES];

    json_text_write(&text, fact);
    text_append_format(&text, "%" JSON_INTEGER_FORMAT, copy);
    if (!text_ok(&text))
        return false;
    (void) crypto_hash_sha256(digest, (const unsigned char *) text.bytes, text.size);
    memcpy(ret, "fact_", sizeof "fact_");
    (void) sodium_bin2hex(ret + 5, 2 * MADE_UP_BYTES + 1, digest, MADE_UP_BYTES);
    return true;
}

static json_t *new_id(const json_t *fact, json_t *made_up)
{
    char id[2 * MADE_UP_BYTES + 6];

    if (!make_up_id(fact, 0, id))
        return NULL;
    json_int_t copy = json_integer_value(json_object_get(made_up, id));
    if (json_object_set_new(made_up, id, json_integer(copy + 1)) < 0)
        return NULL;
    if (copy > 0 && !make_up_id(fact, copy, id))
        return NULL;
    return json_string(id);
}

static json_t *integer_as_text(const json_t *value)
{
    AUTO_TEXT struct text text = {0};

    json_text_write(&text, value);
    return text_ok(&text) ? json_stringn(text_string(&text), text.size) : NULL;
}

/* The document's id: numbers become text, a missing one is made up. */
static json_t *id_of(struct conversion *conversion, json_t *made_up)
{
    const json_t *value = json_object_get(conversion->fact, "id");
    bool fits = false;
    int64_t number = 0;

    if (!value || json_is_null(value) || (json_is_string(value) && !json_string_length(value)))
        return new_id(conversion->fact, made_up);

    AUTO_JSON json_t *id = json_text_is_integer(value, &fits, &number)
                               ? integer_as_text(value)
                               : json_stringn(json_string_value(value), json_string_length(value));
    if (!json_is_string(value) && !json_is_integer(value)) {
        refuse(conversion, "the id is no text");
        return NULL;
    }
    if (id && (strlen(json_string_value(id)) != json_string_length(id) ||
               !fact_id_is_valid(json_string_value(id)))) {
        refuse(conversion, "the id holds what no fact id may");
        return NULL;
    }
    return TAKE_PTR(id);
}

/* ---- members ---- */

static void put_category(struct conversion *conversion, json_t *value)
{
    const char *category = json_string_value(value);

    if (!category && !json_is_null(value)) {
        refuse(conversion, "the category is no text");
        return;
    }
    if (!category || !*category ||
        is_among(category, core_categories, ARRAY_SIZE(core_categories))) {
        put(conversion, "category", json_incref(value));
        return;
    }
    conversion->extension = category;
    put(conversion, "category", json_string("other"));
}

static void put_confidence(struct conversion *conversion, const json_t *value)
{
    double number = json_number_value(value);

    if (!json_is_number(value) || number < 0 || number > 1) {
        refuse(conversion, "the confidence is no number from 0 to 1");
        return;
    }
    put(conversion, "confidence", json_real(number));
}

static json_t *source_of(json_t *value)
{
    const char *text = json_string_value(value);

    if (json_is_object(value)) {
        json_t *source = json_text_copy(value);
        if (source && !json_object_get(source, "type") &&
            json_object_set_new(source, "type", json_string("unknown")) < 0) {
            json_decref(source);
            return NULL;
        }
        return source;
    }
    if (!text)
        return json_pack("{s:s, s:n}", "type", "unknown", "threadId");
    if (is_among(text, plain_sources, ARRAY_SIZE(plain_sources)))
        return json_pack("{s:s, s:n}", "type", text, "threadId");
    return json_pack("{s:s, s:O}", "type", "conversation", "threadId", value);
}

static void put_texts(struct conversion *conversion, const char *key, json_t *value)
{
    size_t index = 0;
    json_t *item = NULL;

    if (!json_is_array(value))
        refuse(conversion, "topics or consolidatedFrom is no list");
    json_array_foreach(value, index, item)
    {
        if (!json_is_string(item))
            refuse(conversion, "topics or consolidatedFrom holds what is no text");
    }
    put(conversion, key, json_incref(value));
}

static void put_status(struct conversion *conversion, json_t *value)
{
    const char *status = json_string_value(value);

    if (!status || strcmp(status, "active") != 0)
        refuse(conversion, "the status is not \"active\"");
    put(conversion, "status", json_incref(value));
}

static void put_revision(struct conversion *conversion, json_t *value)
{
    if (!json_is_integer(value) || json_integer_value(value) < 1)
        refuse(conversion, "the revision is no number from 1 up");
    put(conversion, "revision", json_incref(value));
}

/* A date that is empty or null counts as missing; its default comes later, in its own place. */
static void put_date(struct conversion *conversion, const char *key, json_t *value)
{
    if (json_is_null(value) || (json_is_string(value) && !json_string_length(value)))
        return;
    if (!json_is_string(value))
        refuse(conversion, "a date is no text");
    put(conversion, key, json_incref(value));
}

static bool is_set_elsewhere(const char *key)
{
    static const char *const keys[] = {"id", "content", "title", "scope", "user_id", "agent_name"};

    return is_among(key, keys, ARRAY_SIZE(keys));
}

static void put_member(struct conversion *conversion, const char *key, json_t *value)
{
    if (strcmp(key, "category") == 0)
        put_category(conversion, value);
    else if (strcmp(key, "confidence") == 0)
        put_confidence(conversion, value);
    else if (strcmp(key, "source") == 0)
        put(conversion, key, source_of(value));
    else if (strcmp(key, "topics") == 0 || strcmp(key, "consolidatedFrom") == 0)
        put_texts(conversion, key, value);
    else if (strcmp(key, "status") == 0)
        put_status(conversion, value);
    else if (strcmp(key, "revision") == 0)
        put_revision(conversion, value);
    else if (strcmp(key, "createdAt") == 0 || strcmp(key, "updatedAt") == 0)
        put_date(conversion, key, value);
    else if (strcmp(key, "schemaVersion") == 0)
        put(conversion, key, json_integer(2));
    else
        put(conversion, key, json_incref(value));
}

static void put_missing(struct conversion *conversion, const char *key, json_t *value)
{
    if (json_object_get(conversion->document, key))
        json_decref(value);
    else
        put(conversion, key, value);
}

/* The peers add what is missing in this order. */
static void put_defaults(struct conversion *conversion)
{
    put_missing(conversion, "schemaVersion", json_integer(2));
    if (conversion->extension)
        put_missing(conversion, "categoryExtension", json_string(conversion->extension));
    put_missing(conversion, "confidence", json_real(0.5));
    put_missing(conversion, "status", json_string("active"));
    put_missing(conversion, "topics", json_array());
    put_missing(conversion, "consolidatedFrom", json_array());
    put_missing(conversion, "source", source_of(NULL));
    put_missing(conversion, "createdAt", json_string(conversion->owner->date));
    put_missing(conversion, "updatedAt",
                json_incref(json_object_get(conversion->document, "createdAt")));
    put_missing(conversion, "revision", json_integer(1));
}

/* ---- title and content ---- */

static bool has_lone_surrogate(const char *bytes, size_t size)
{
    uint32_t unit = 0;

    for (size_t at = 0; at < size; at++) {
        if (bytes[at] == DISGUISE_CHARACTER[0] &&
            json_disguised_character(bytes + at, size - at, &unit) && unit >= 0xd800 &&
            unit <= 0xdfff)
            return true;
    }
    return false;
}

static void put_title(struct conversion *conversion, const struct text *content)
{
    AUTO_TEXT struct text title = {0};
    const json_t *value = json_object_get(conversion->fact, "title");

    if (json_is_string(value))
        legacy_text_title(&title, json_string_value(value), json_string_length(value));
    if (title.size == 0)
        legacy_text_title(&title, content->bytes,
                          legacy_text_first_line(content->bytes, content->size));
    conversion->failed |= !text_ok(&title);
    put(conversion, "title", json_stringn(text_string(&title), title.size));
}

static void put_text(struct conversion *conversion)
{
    AUTO_TEXT struct text content = {0};
    const json_t *value = json_object_get(conversion->fact, "content");

    if (json_is_string(value))
        legacy_text_content(&content, json_string_value(value), json_string_length(value));
    if (!text_ok(&content)) { /* for want of memory: nothing is known of the content */
        conversion->failed = true;
        return;
    }
    if (content.size == 0) {
        refuse(conversion, "there is no content");
        return;
    }
    if (has_lone_surrogate(content.bytes, content.size))
        refuse(conversion, "the content holds half of a surrogate pair");
    put_title(conversion, &content);
    put(conversion, "content", json_stringn(content.bytes, content.size));
}

json_t *legacy_fact_scope(const struct legacy_owner *owner)
{
    return json_pack("{s:s?, s:s}", "userId", owner->user, "agentName", owner->agent);
}

/* ---- the whole ---- */

/* An id that is missing comes first. */
static void put_all(struct conversion *conversion, json_t *fact, json_t *made_up)
{
    const char *key = NULL;
    json_t *value = NULL;
    AUTO_JSON json_t *id = id_of(conversion, made_up);

    if (conversion->problem)
        return;
    if (!json_object_get(fact, "id"))
        put(conversion, "id", json_incref(id));
    json_object_foreach(fact, key, value)
    {
        if (strcmp(key, "id") == 0)
            put(conversion, "id", json_incref(id));
        else if (!is_set_elsewhere(key))
            put_member(conversion, key, value);
    }
    put_defaults(conversion);
    put_text(conversion);
    put(conversion, "scope", legacy_fact_scope(conversion->owner));
}

enum status legacy_fact_convert(const json_t *fact, const struct legacy_owner *owner,
                                json_t *made_up, json_t **ret, const char **ret_problem)
{
    AUTO_JSON json_t *document = json_object();
    struct conversion conversion = {.fact = fact, .owner = owner, .document = document};

    if (!json_is_object(fact)) {
        *ret_problem = "it is no mapping";
        return STATUS_CORRUPT;
    }
    if (!document)
        return STATUS_NO_MEMORY;
    put_all(&conversion, json_unconst(fact), made_up);
    if (conversion.problem) {
        *ret_problem = conversion.problem;
        return STATUS_CORRUPT;
    }
    if (conversion.failed)
        return STATUS_NO_MEMORY;
    *ret = TAKE_PTR(document);
    return STATUS_OK;
}
