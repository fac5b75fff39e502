#include "ipc/server_private.h"

#include <string.h>

/* Longer values are left out: none of those wanted may be as long, even written in escapes. */
#define VALUE_BYTES_MAX 8192

struct cursor {
    const char *at;
    const char *end;
};

/* One wanted member of an object; `value` as it stands in the frame, NULL: not there. */
struct member {
    const char *name;
    struct member *members; /* of its value, when that is an object */
    size_t count;
    const char *value;
    size_t size;
};

static char peek(const struct cursor *cursor)
{
    char here = '\0';

    if (cursor->at < cursor->end)
        here = *cursor->at;
    return here;
}

static bool is_space(char byte)
{
    return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r';
}

static void skip_space(struct cursor *cursor)
{
    while (is_space(peek(cursor)))
        cursor->at++;
}

static bool skip_char(struct cursor *cursor, char wanted)
{
    skip_space(cursor);
    if (peek(cursor) != wanted)
        return false;
    cursor->at++;
    return true;
}

/* From the opening quote until behind the closing one. */
static bool skip_string(struct cursor *cursor)
{
    for (const char *at = cursor->at + 1; at < cursor->end; at++) {
        if (*at == '"') {
            cursor->at = at + 1;
            return true;
        }
        if (*at == '\\' && at + 1 < cursor->end)
            at++;
    }
    return false;
}

/* An array or object. Kinds of brackets are not compared: whoever reads it will. */
static bool skip_nested(struct cursor *cursor)
{
    size_t depth = 0;

    while (cursor->at < cursor->end) {
        char byte = *cursor->at;

        if (byte == '"') {
            if (!skip_string(cursor))
                return false;
            continue;
        }
        cursor->at++;
        if (byte == '[' || byte == '{')
            depth++;
        else if ((byte == ']' || byte == '}') && --depth == 0)
            return true;
    }
    return false;
}

static bool skip_value(struct cursor *cursor)
{
    const char *start = cursor->at;
    char byte = peek(cursor);

    if (byte == '"')
        return skip_string(cursor);
    if (byte == '[' || byte == '{')
        return skip_nested(cursor);
    while (cursor->at < cursor->end && !is_space(*cursor->at) && *cursor->at != ',' &&
           *cursor->at != '}')
        cursor->at++;
    return cursor->at > start;
}

static struct member *find_member(struct member *members, size_t count, const char *name,
                                  size_t size)
{
    for (size_t i = 0; i < count; i++) {
        if (strlen(members[i].name) == size && memcmp(members[i].name, name, size) == 0)
            return &members[i];
    }
    return NULL;
}

static bool skim_object(struct cursor *cursor, struct member *members, size_t count);

static bool skim_value(struct cursor *cursor, struct member *member)
{
    const char *start = cursor->at;
    bool whole = false;

    for (size_t i = 0; member && i < member->count; i++)
        member->members[i].value = NULL;
    if (member && member->count > 0 && peek(cursor) == '{')
        whole = skim_object(cursor, member->members, member->count);
    else
        whole = skip_value(cursor);
    if (member) {
        member->value = start;
        member->size = (size_t) (cursor->at - start);
    }
    return whole;
}

/* As in a frame that is read, the last of equal names counts. False: cut off, or no JSON. */
static bool skim_object(struct cursor *cursor, struct member *members, size_t count)
{
    if (!skip_char(cursor, '{'))
        return false;
    if (skip_char(cursor, '}'))
        return true;
    do {
        skip_space(cursor);
        const char *name = cursor->at + 1;
        if (peek(cursor) != '"' || !skip_string(cursor))
            return false;
        struct member *member = find_member(members, count, name, (size_t) (cursor->at - 1 - name));
        if (!skip_char(cursor, ':'))
            return false;
        skip_space(cursor);
        if (!skim_value(cursor, member))
            return false;
    } while (skip_char(cursor, ','));
    return skip_char(cursor, '}');
}

static void append_member(struct text *text, const struct member *member)
{
    if (!member->value || member->size > VALUE_BYTES_MAX)
        return;
    text_append_format(text, ",\"%s\":", member->name);
    text_append(text, member->value, member->size);
}

void skim_request(const char *bytes, size_t size, struct request *ret)
{
    struct member params[] = {{.name = "timeout_ms"}, {.name = "user_id"}, {.name = "agent_name"}};
    struct member root[] = {{.name = "id"},
                            {.name = "params", .members = params, .count = ARRAY_SIZE(params)}};
    struct cursor cursor = {.at = bytes, .end = bytes + size};
    AUTO_TEXT struct text small = {0};
    struct error ignored = {0};

    bool whole = skim_object(&cursor, root, ARRAY_SIZE(root));
    text_append_string(&small, "{\"jsonrpc\":\"2.0\",\"method\":\"-\"");
    if (whole)
        append_member(&small, &root[0]);
    text_append_string(&small, ",\"params\":{\"\":0");
    for (size_t i = 0; whole && i < ARRAY_SIZE(params); i++)
        append_member(&small, &params[i]);
    text_append_string(&small, "}}");
    (void) protocol_read_request(text_string(&small), small.size, ret, &ignored);
}
