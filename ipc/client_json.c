/* client_json.c - walks JSON as text, strictly, without building a tree. */
#include "ipc/client_private.h"

#include <string.h>

#define DEPTH_MAX 128

struct cursor {
    const char *at;
    const char *end;
};

static bool skip_value(struct cursor *cursor, unsigned depth);

static void skip_space(struct cursor *cursor)
{
    while (cursor->at < cursor->end && (*cursor->at == ' ' || *cursor->at == '\t' ||
                                        *cursor->at == '\n' || *cursor->at == '\r'))
        cursor->at++;
}

static bool take(struct cursor *cursor, char character)
{
    if (cursor->at == cursor->end || *cursor->at != character)
        return false;
    cursor->at++;
    return true;
}

static bool take_word(struct cursor *cursor, const char *word)
{
    size_t size = strlen(word);

    if ((size_t) (cursor->end - cursor->at) < size || memcmp(cursor->at, word, size) != 0)
        return false;
    cursor->at += size;
    return true;
}

static bool is_hex(char character)
{
    return (character >= '0' && character <= '9') || (character >= 'a' && character <= 'f') ||
           (character >= 'A' && character <= 'F');
}

/* After the backslash. */
static bool skip_escape(struct cursor *cursor)
{
    if (cursor->at == cursor->end)
        return false;
    char kind = *cursor->at++;
    if (kind != 'u')
        return kind != '\0' && strchr("\"\\/bfnrt", kind) != NULL;
    for (int i = 0; i < 4; i++) {
        if (cursor->at == cursor->end || !is_hex(*cursor->at++))
            return false;
    }
    return true;
}

static bool skip_string(struct cursor *cursor)
{
    if (!take(cursor, '"'))
        return false;
    while (cursor->at < cursor->end) {
        unsigned char character = (unsigned char) *cursor->at++;
        if (character == '"')
            return true;
        if (character < 0x20 || (character == '\\' && !skip_escape(cursor)))
            return false;
    }
    return false;
}

static bool skip_digits(struct cursor *cursor)
{
    const char *start = cursor->at;

    while (cursor->at < cursor->end && *cursor->at >= '0' && *cursor->at <= '9')
        cursor->at++;
    return cursor->at > start;
}

static bool skip_number(struct cursor *cursor)
{
    (void) take(cursor, '-');
    if (!take(cursor, '0') && !skip_digits(cursor))
        return false;
    if (take(cursor, '.') && !skip_digits(cursor))
        return false;
    if (take(cursor, 'e') || take(cursor, 'E')) {
        if (!take(cursor, '-'))
            (void) take(cursor, '+');
        return skip_digits(cursor);
    }
    return true;
}

static bool skip_array(struct cursor *cursor, unsigned depth)
{
    if (!take(cursor, '['))
        return false;
    skip_space(cursor);
    if (take(cursor, ']'))
        return true;
    do {
        if (!skip_value(cursor, depth))
            return false;
    } while (take(cursor, ','));
    return take(cursor, ']');
}

/* One `"name": value`; the name without its quotes, the value without the space around it. */
static bool skip_member(struct cursor *cursor, unsigned depth, struct json_span *ret_name,
                        struct json_span *ret_value)
{
    skip_space(cursor);
    const char *name = cursor->at;
    if (!skip_string(cursor))
        return false;
    *ret_name = (struct json_span){name + 1, (size_t) (cursor->at - name) - 2};
    skip_space(cursor);
    if (!take(cursor, ':'))
        return false;
    skip_space(cursor);
    const char *value = cursor->at;
    if (!skip_value(cursor, depth))
        return false;
    const char *end = cursor->at;
    while (end > value && strchr(" \t\n\r", end[-1]) != NULL)
        end--;
    *ret_value = (struct json_span){value, (size_t) (end - value)};
    return true;
}

static bool skip_object(struct cursor *cursor, unsigned depth)
{
    struct json_span name, value;

    if (!take(cursor, '{'))
        return false;
    skip_space(cursor);
    if (take(cursor, '}'))
        return true;
    do {
        if (!skip_member(cursor, depth, &name, &value))
            return false;
    } while (take(cursor, ','));
    return take(cursor, '}');
}

static bool skip_bare_value(struct cursor *cursor, unsigned depth)
{
    if (cursor->at == cursor->end)
        return false;
    switch (*cursor->at) {
    case '{':
        return depth < DEPTH_MAX && skip_object(cursor, depth + 1);
    case '[':
        return depth < DEPTH_MAX && skip_array(cursor, depth + 1);
    case '"':
        return skip_string(cursor);
    case 't':
        return take_word(cursor, "true");
    case 'f':
        return take_word(cursor, "false");
    case 'n':
        return take_word(cursor, "null");
    default:
        return skip_number(cursor);
    }
}

/* The value and the space on both sides of it. */
static bool skip_value(struct cursor *cursor, unsigned depth)
{
    skip_space(cursor);
    if (!skip_bare_value(cursor, depth))
        return false;
    skip_space(cursor);
    return true;
}

static void note_member(const struct json_span *name, const struct json_span *value,
                        const char *const *names, size_t count, struct json_span *ret)
{
    for (size_t i = 0; i < count; i++) {
        if (strlen(names[i]) == name->size && memcmp(names[i], name->bytes, name->size) == 0)
            ret[i] = *value;
    }
}

bool client_json_members(const char *bytes, size_t size, const char *const *names, size_t count,
                         struct json_span *ret, size_t *ret_members)
{
    struct cursor cursor = {bytes, bytes + size};
    struct json_span name, value;
    size_t members = 0;

    for (size_t i = 0; i < count; i++)
        ret[i] = (struct json_span){NULL, 0};
    skip_space(&cursor);
    if (!take(&cursor, '{'))
        return false;
    skip_space(&cursor);
    if (!take(&cursor, '}')) {
        do {
            if (!skip_member(&cursor, 1, &name, &value))
                return false;
            note_member(&name, &value, names, count, ret);
            members++;
        } while (take(&cursor, ','));
        if (!take(&cursor, '}'))
            return false;
    }
    skip_space(&cursor);
    *ret_members = members;
    return cursor.at == cursor.end;
}
