#include "core/json_text.h"

#include "core/json_disguise.h"
#include "core/json_scan.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The value that is being built. jansson's own reader is not used: where it has no memory for one
 * more byte of a string it goes on without that byte. */
struct building {
    const char *bytes;
    json_t *open[JSON_TEXT_DEPTH_MAX + 1]; /* containers, from the outermost on; the root's */
    unsigned depth;
    struct text key; /* of the member to come */
    json_t *root;    /* owned */
};

static void building_clear(struct building *building)
{
    text_destroy(&building->key);
    json_decref(building->root);
}
#define AUTO_BUILDING CLEANUP(building_clear)

/* ---- single values; NULL without memory ---- */

static void append_code_unit(struct text *text, uint32_t code_point)
{
    text_append(text, DISGUISE_CHARACTER, DISGUISE_SIZE);
    text_append_format(text, "%04x", (unsigned) code_point);
}

/* What stands behind a backslash that begins no \u. */
static char escaped_character(char letter)
{
    static const char letters[] = "bfnrt";
    static const char meant[] = "\b\f\n\r\t";
    const char *found = strchr(letters, letter);

    if (!found)
        return letter;
    return meant[found - letters];
}

/* One character at `bytes`, as it is spelt; returns the length of its spelling. */
static size_t append_character(struct text *text, const char *bytes, size_t size, bool is_key)
{
    uint32_t code_point = 0;
    size_t length = 0;
    char encoded[4];

    if (bytes[0] == '\\' && bytes[1] != 'u') {
        text_append_char(text, escaped_character(bytes[1]));
        return 2;
    }
    bool is_escape = bytes[0] == '\\';
    if (is_escape)
        length = json_scan_escape(bytes, size, &code_point);
    else
        code_point = text_decode(bytes, size, &length);
    if ((code_point >= 0xd800 && code_point <= 0xdfff) || code_point == 0xfdd0 ||
        code_point == 0xfdd1 || (code_point == 0 && is_key))
        append_code_unit(text, code_point);
    else if (is_escape)
        text_append(text, encoded, text_encode(code_point, encoded));
    else
        text_append(text, bytes, length);
    return length;
}

/* Appends what a string token means, odd characters in disguise. */
static void append_string(struct text *text, const char *bytes, const struct json_token *token)
{
    const char *at = bytes + token->start + 1;
    const char *end = bytes + token->end - 1;

    if (!token->escaped && !token->disguise)
        text_append(text, at, (size_t) (end - at));
    else
        while (at < end)
            at += append_character(text, at, (size_t) (end - at), token->kind == JSON_TOKEN_KEY);
}

static json_t *string_value(const char *bytes, const struct json_token *token)
{
    AUTO_TEXT struct text text = {0};

    if (!token->escaped && !token->disguise)
        return json_stringn_nocheck(bytes + token->start + 1, token->end - token->start - 2);
    append_string(&text, bytes, token);
    return text_ok(&text) ? json_stringn_nocheck(text_string(&text), text.size) : NULL;
}

static json_t *integer_value(const char *digits, size_t size)
{
    AUTO_TEXT struct text text = {0};
    int64_t integer;

    if (json_scan_integer(digits, size, &integer))
        return json_integer(integer);
    text_append_string(&text, DISGUISE_INTEGER);
    text_append(&text, digits, size);
    return text_ok(&text) ? json_stringn_nocheck(text_string(&text), text.size) : NULL;
}

static json_t *float_value(const char *name)
{
    AUTO_JSON json_t *object = json_object();

    return json_object_set_new_nocheck(object, DISGUISE_FLOAT_KEY, json_string_nocheck(name)) == 0
               ? TAKE_PTR(object)
               : NULL;
}

/* What is beyond a double is infinite to the peers. */
static json_t *real_value(const char *digits, size_t size)
{
    char few[64];
    AUTO_FREE char *many = size < sizeof few ? NULL : strndup(digits, size);

    if (size >= sizeof few && !many)
        return NULL;
    if (!many) {
        memcpy(few, digits, size);
        few[size] = '\0';
    }
    double value = strtod(many ? many : few, NULL);
    return isinf(value) ? float_value(value < 0 ? "-inf" : "inf") : json_real(value);
}

static json_t *value_of(const char *bytes, const struct json_token *token)
{
    const char *start = bytes + token->start;
    size_t size = token->end - token->start;

    switch (token->kind) {
    case JSON_TOKEN_OBJECT_OPEN:
        return json_object();
    case JSON_TOKEN_ARRAY_OPEN:
        return json_array();
    case JSON_TOKEN_STRING:
        return string_value(bytes, token);
    case JSON_TOKEN_INTEGER:
        return integer_value(start, size);
    case JSON_TOKEN_REAL:
        return real_value(start, size);
    case JSON_TOKEN_WORD:
        return *start == 't' ? json_true() : *start == 'f' ? json_false() : json_null();
    case JSON_TOKEN_FLOAT:
        return float_value(*start == 'N' ? "nan" : *start == '-' ? "-inf" : "inf");
    case JSON_TOKEN_END:
    case JSON_TOKEN_OBJECT_CLOSE:
    case JSON_TOKEN_ARRAY_CLOSE:
    case JSON_TOKEN_KEY:
        break;
    }
    return NULL;
}

/* ---- the tree ---- */

/* Of several equal keys the last one counts. False: no memory. */
static bool put(struct building *building, json_t *value)
{
    if (!value)
        return false;
    if (building->depth == 0) {
        building->root = value;
        return true;
    }
    json_t *parent = building->open[building->depth - 1];
    return json_is_array(parent)
               ? json_array_append_new(parent, value) == 0
               : json_object_set_new_nocheck(parent, text_string(&building->key), value) == 0;
}

/* False: no memory. */
static bool take_token(struct building *building, const struct json_token *token)
{
    json_t *value;

    switch (token->kind) {
    case JSON_TOKEN_END:
        return true;
    case JSON_TOKEN_OBJECT_CLOSE:
    case JSON_TOKEN_ARRAY_CLOSE:
        building->depth--;
        return true;
    case JSON_TOKEN_KEY:
        text_clear(&building->key);
        append_string(&building->key, building->bytes, token);
        return text_ok(&building->key);
    default:
        value = value_of(building->bytes, token);
        if (!put(building, value))
            return false;
        if (token->kind == JSON_TOKEN_OBJECT_OPEN || token->kind == JSON_TOKEN_ARRAY_OPEN)
            building->open[building->depth++] = value;
        return true;
    }
}

/* The path is left alone. */
static enum status no_memory(struct error *error)
{
    if (error) {
        error->status = STATUS_NO_MEMORY;
        error->sys_errno = 0;
        (void) snprintf(error->message, sizeof error->message, "out of memory");
    }
    return STATUS_NO_MEMORY;
}

enum status json_text_read(const char *bytes, size_t size, unsigned depth_max, json_t **ret,
                           struct error *error)
{
    struct json_scan scan;
    struct json_token token = {0};
    AUTO_BUILDING struct building building = {.bytes = bytes};

    json_scan_start(&scan, bytes, size, depth_max);
    do {
        if (!json_scan_next(&scan, &token))
            return json_scan_fail(&scan, error);
        if (!take_token(&building, &token))
            return no_memory(error);
    } while (token.kind != JSON_TOKEN_END);
    *ret = TAKE_PTR(building.root);
    return STATUS_OK;
}

bool json_text_is_integer(const json_t *value, bool *ret_fits, int64_t *ret)
{
    size_t size = 0;
    const char *bytes = NULL;

    if (json_is_integer(value)) {
        *ret_fits = true;
        *ret = json_integer_value(value);
        return true;
    }
    if (!json_is_string(value))
        return false;
    bytes = json_string_value(value);
    size = json_string_length(value);
    if (!json_disguised_integer(&bytes, &size))
        return false;
    *ret_fits = json_scan_integer(bytes, size, ret);
    return true;
}

bool json_text_string_is_unicode(const char *bytes, size_t size)
{
    const char *end = bytes + size;
    uint32_t unit = 0;

    while ((bytes = memmem(bytes, (size_t) (end - bytes), DISGUISE_CHARACTER, DISGUISE_SIZE))) {
        if (json_disguised_character(bytes, (size_t) (end - bytes), &unit) && unit >= 0xd800 &&
            unit <= 0xdfff)
            return false;
        bytes += DISGUISE_SIZE;
    }
    return true;
}

bool json_text_is_unicode(const json_t *value)
{
    json_t *fields = json_unconst(value);
    size_t count = json_array_size(value);

    if (json_is_string(value))
        return json_text_string_is_unicode(json_string_value(value), json_string_length(value));
    for (size_t i = 0; i < count; i++) {
        if (!json_text_is_unicode(json_array_get(value, i)))
            return false;
    }
    for (void *at = json_object_iter(fields); at; at = json_object_iter_next(fields, at)) {
        if (!json_text_string_is_unicode(json_object_iter_key(at), json_object_iter_key_len(at)) ||
            !json_text_is_unicode(json_object_iter_value(at)))
            return false;
    }
    return true;
}

json_t *json_text_copy(const json_t *value)
{
    AUTO_JSON json_t *copy = json_copy(json_unconst(value));

    if (json_object_size(copy) != json_object_size(value) ||
        json_array_size(copy) != json_array_size(value))
        return NULL;
    return TAKE_PTR(copy);
}

json_t *json_text_deep_copy(const json_t *value)
{
    AUTO_JSON json_t *copy = json_deep_copy(value);

    return json_equal(copy, value) ? TAKE_PTR(copy) : NULL;
}
