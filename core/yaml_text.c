#include "core/yaml_text.h"

#include "core/json_disguise.h"

#include <string.h>

#define SPECIAL_SIZE 3

/* True at U+FDD0, U+FDD1 and surrogates, which all have three bytes. */
static bool is_special(const char *bytes, size_t size)
{
    const unsigned char *at = (const unsigned char *) bytes;

    if (size < SPECIAL_SIZE)
        return false;
    return (at[0] == 0xef && at[1] == 0xb7 && (at[2] == 0x90 || at[2] == 0x91)) ||
           (at[0] == 0xed && at[1] >= 0xa0);
}

static bool has_special(const char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if ((unsigned char) bytes[i] >= 0xed && is_special(bytes + i, size - i))
            return true;
    }
    return false;
}

/* The code point of a special character. */
static unsigned special_character(const char *bytes)
{
    return ((unsigned) bytes[0] & 0x0f) << 12 | ((unsigned) bytes[1] & 0x3f) << 6 |
           ((unsigned) bytes[2] & 0x3f);
}

static void append_disguised(struct text *text, const char *bytes, size_t size)
{
    size_t copied = 0;

    for (size_t at = 0; at < size;) {
        bool special = is_special(bytes + at, size - at);
        if (!special && bytes[at]) {
            at++;
            continue;
        }
        text_append(text, bytes + copied, at - copied);
        text_append_format(text, "%s%04x", DISGUISE_CHARACTER,
                           special ? special_character(bytes + at) : 0);
        at += special ? SPECIAL_SIZE : 1;
        copied = at;
    }
    text_append(text, bytes + copied, size - copied);
}

bool yaml_text_is_plain_key(const char *bytes, size_t size)
{
    return !memchr(bytes, '\0', size) && !has_special(bytes, size);
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

void yaml_text_restore(struct text *text, const char *string, size_t size)
{
    const char *end = string + size;
    const char *mark;
    uint32_t character;

    while ((mark = memmem(string, (size_t) (end - string), DISGUISE_CHARACTER, DISGUISE_SIZE))) {
        char bytes[4];
        text_append(text, string, (size_t) (mark - string));
        if (json_disguised_character(mark, (size_t) (end - mark), &character)) {
            text_append(text, bytes, text_encode(character, bytes));
            string = mark + DISGUISE_CHARACTER_SIZE;
        } else {
            text_append(text, mark, DISGUISE_SIZE);
            string = mark + DISGUISE_SIZE;
        }
    }
    text_append(text, string, (size_t) (end - string));
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
