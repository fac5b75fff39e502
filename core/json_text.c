#include "core/json_text.h"

#include "core/json_disguise.h"
#include "core/json_scan.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* What jansson is given instead of the text: nothing until something must be written otherwise. */
struct rewriting {
    const char *bytes;
    size_t copied; /* the text up to here is in `text` */
    struct text text;
};

static void append_code_unit(struct text *text, uint32_t code_point)
{
    text_append(text, DISGUISE_CHARACTER, DISGUISE_SIZE);
    text_append_format(text, "%04x", (unsigned) code_point);
}

/* Copies a string token with its quotes, odd characters in disguise, all else as it was spelt. */
static void rewrite_string(struct text *text, const char *bytes, size_t size, bool is_key)
{
    size_t at = 0;

    while (at < size) {
        uint32_t code_point = 0;
        size_t length = 0;

        if (bytes[at] == '\\' && bytes[at + 1] != 'u') {
            length = 2;
            code_point = 'x';
        } else if (bytes[at] == '\\') {
            length = json_scan_escape(bytes + at, size - at, &code_point);
        } else {
            code_point = text_decode(bytes + at, size - at, &length);
        }

        if ((code_point >= 0xd800 && code_point <= 0xdfff) || code_point == 0xfdd0 ||
            code_point == 0xfdd1 || (code_point == 0 && is_key))
            append_code_unit(text, code_point);
        else
            text_append(text, bytes + at, length);
        at += length;
    }
}

static void append_float(struct text *text, const char *name)
{
    text_append_format(text, "{\"" DISGUISE_FLOAT_KEY "\":\"%s\"}", name);
}

/* "inf" or "-inf" when the number is beyond a double, else NULL; short ones without an exponent
 * never are. `text` fails without memory. */
static const char *overflow_name(struct text *text, const char *bytes, size_t size)
{
    AUTO_FREE char *number = NULL;

    if (size < 300 && !memchr(bytes, 'e', size) && !memchr(bytes, 'E', size))
        return NULL;
    number = strndup(bytes, size);
    text->failed |= !number;
    if (!number || !isinf(strtod(number, NULL)))
        return NULL;
    return bytes[0] == '-' ? "-inf" : "inf";
}

/* Appends what stands for the token; false: it can stay as it is. */
static bool append_disguised(struct text *text, const char *bytes, const struct json_token *token)
{
    const char *start = bytes + token->start;
    size_t size = token->end - token->start;
    const char *name = NULL;
    int64_t integer = 0;

    switch (token->kind) {
    case JSON_TOKEN_KEY:
    case JSON_TOKEN_STRING:
        if (!token->disguise)
            return false;
        rewrite_string(text, start, size, token->kind == JSON_TOKEN_KEY);
        return true;
    case JSON_TOKEN_INTEGER:
        if (json_scan_integer(start, size, &integer))
            return false;
        text_append_format(text, "\"" DISGUISE_INTEGER "%.*s\"", (int) size, start);
        return true;
    case JSON_TOKEN_REAL:
        name = overflow_name(text, start, size);
        if (!name)
            return false;
        append_float(text, name);
        return true;
    case JSON_TOKEN_FLOAT:
        append_float(text, start[0] == 'N' ? "nan" : start[0] == '-' ? "-inf" : "inf");
        return true;
    default:
        return false;
    }
}

static void rewrite_token(struct rewriting *rewriting, const struct json_token *token)
{
    AUTO_TEXT struct text disguised = {0};

    bool changed = append_disguised(&disguised, rewriting->bytes, token);
    rewriting->text.failed |= disguised.failed;
    if (!changed)
        return;
    text_append(&rewriting->text, rewriting->bytes + rewriting->copied,
                token->start - rewriting->copied);
    text_append(&rewriting->text, disguised.bytes, disguised.size);
    rewriting->copied = token->end;
}

/* jansson takes everything that the scan has let through, so a failure here is one of memory. */
static enum status load(const char *bytes, size_t size, json_t **ret, struct error *error)
{
    json_error_t problem;
    json_t *value = json_loadb(bytes, size, JSON_DECODE_ANY | JSON_ALLOW_NUL, &problem);

    if (!value) {
        bool memory = json_error_code(&problem) == json_error_out_of_memory;
        if (error) {
            error->status = memory ? STATUS_NO_MEMORY : STATUS_CORRUPT;
            error->sys_errno = 0;
            (void) snprintf(error->message, sizeof error->message, "line %d column %d: %s",
                            problem.line, problem.column,
                            memory ? "out of memory" : "the text cannot be read as JSON");
        }
        return memory ? STATUS_NO_MEMORY : STATUS_CORRUPT;
    }
    *ret = value;
    return STATUS_OK;
}

enum status json_text_read(const char *bytes, size_t size, unsigned depth_max, json_t **ret,
                           struct error *error)
{
    struct json_scan scan;
    struct json_token token = {0};
    struct rewriting rewriting = {.bytes = bytes};
    enum status status;

    json_scan_start(&scan, bytes, size, depth_max);
    do {
        if (!json_scan_next(&scan, &token)) {
            text_destroy(&rewriting.text);
            return json_scan_fail(&scan, error);
        }
        rewrite_token(&rewriting, &token);
    } while (token.kind != JSON_TOKEN_END);

    if (rewriting.copied == 0 && text_ok(&rewriting.text))
        return load(bytes, size, ret, error);
    text_append(&rewriting.text, bytes + rewriting.copied, size - rewriting.copied);
    status = text_ok(&rewriting.text) ? load(rewriting.text.bytes, rewriting.text.size, ret, error)
                                      : STATUS_NO_MEMORY;
    text_destroy(&rewriting.text);
    return status;
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
