#include "core/yaml_text.h"

#include "core/text.h"

#include <string.h>

/* U+FDD1, which begins a disguised character. */
#define DISGUISE "\xef\xb7\x91"
#define DISGUISE_SIZE 3

/* U+FDD0 and U+FDD1 share their first two bytes. */
static bool is_special(const char *bytes, size_t size)
{
    return size >= DISGUISE_SIZE && memcmp(bytes, DISGUISE, 2) == 0 &&
           (bytes[2] == '\x90' || bytes[2] == '\x91');
}

static bool has_special(const char *bytes, size_t size)
{
    const char *end = bytes + size;

    for (const char *at = bytes; (at = memchr(at, DISGUISE[0], (size_t) (end - at))); at++) {
        if (is_special(at, (size_t) (end - at)))
            return true;
    }
    return false;
}

static void append_disguised(struct text *text, const char *bytes, size_t size)
{
    size_t copied = 0;

    for (size_t at = 0; at < size; at++) {
        bool special = is_special(bytes + at, size - at);
        if (!special && bytes[at])
            continue;
        text_append(text, bytes + copied, at - copied);
        text_append_string(text, DISGUISE);
        text_append_string(text, !special ? "0000" : bytes[at + 2] == '\x90' ? "fdd0" : "fdd1");
        copied = at + (special ? DISGUISE_SIZE : 1);
        at = copied - 1;
    }
    text_append(text, bytes + copied, size - copied);
}

json_t *yaml_text_value(const char *bytes, size_t size)
{
    AUTO_TEXT struct text text = {0};

    if (!has_special(bytes, size))
        return json_stringn_nocheck(bytes, size);

    /* NUL needs no disguise in a value, so the pieces between are disguised one by one. */
    const char *end = bytes + size;
    while (bytes < end) {
        size_t length = strnlen(bytes, (size_t) (end - bytes));
        append_disguised(&text, bytes, length);
        bytes += length;
        if (bytes < end) {
            text_append_char(&text, '\0');
            bytes++;
        }
    }
    return text_ok(&text) ? json_stringn_nocheck(text.bytes, text.size) : NULL;
}

char *yaml_text_key(const char *bytes, size_t size)
{
    AUTO_TEXT struct text text = {0};

    append_disguised(&text, bytes, size);
    return text_take(&text, NULL);
}

bool yaml_text_is_big_integer(const json_t *value)
{
    const char *text = json_string_value(value);

    return text && strncmp(text, YAML_TEXT_BIG_INTEGER, strlen(YAML_TEXT_BIG_INTEGER)) == 0;
}

bool yaml_text_is(const json_t *value)
{
    return json_is_string(value) && !yaml_text_is_big_integer(value);
}
