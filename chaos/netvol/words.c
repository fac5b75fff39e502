#include "chaos/netvol/words.h"

#include <string.h>

#define ERRNO_MAX 133
#define CODE_POINT_BAD 0xfffd

/* Moves a quoted word's bytes together; returns what follows the quote, NULL when there is none. */
static char *unquote(char *from)
{
    char *to = from;

    for (; *from && *from != '"'; from++) {
        bool escaped = *from == '\\' && from[1];
        from += escaped ? 1 : 0;
        *to++ = *from;
        if (escaped && *from == 'n')
            to[-1] = '\n';
    }
    if (!*from)
        return NULL;
    *to = '\0';
    return from + 1;
}

bool words_split(char *line, char *words[WORDS_MAX], unsigned *ret_count)
{
    unsigned count = 0;

    for (line += strspn(line, " "); *line; line += strspn(line, " ")) {
        bool quoted = *line == '"';
        if (count == WORDS_MAX)
            return false;
        words[count++] = quoted ? line + 1 : line;
        line = quoted ? unquote(line + 1) : line + strcspn(line, " ");
        if (!line || (*line && *line != ' '))
            return false;
        if (*line)
            *line++ = '\0';
    }
    *ret_count = count;
    return true;
}

bool words_errno(const char *name, int *ret)
{
    for (int i = 1; i <= ERRNO_MAX; i++) {
        const char *known = strerrorname_np(i);
        if (known && strcmp(known, name) == 0) {
            *ret = i;
            return true;
        }
    }
    return false;
}

static void append_character(struct text *text, const char *bytes, size_t length, uint32_t code)
{
    if (code == CODE_POINT_BAD && length == 1)
        text_append_format(text, "\\udc%02x", (unsigned char) *bytes);
    else if (code < ' ')
        text_append_format(text, "\\u%04x", code);
    else if (code == '"' || code == '\\')
        text_append_format(text, "\\%c", (char) code);
    else
        text_append(text, bytes, length);
}

void words_append_json(struct text *text, const char *bytes)
{
    size_t left = strlen(bytes);

    text_append_char(text, '"');
    while (left > 0) {
        size_t length = 0;
        uint32_t code = text_decode(bytes, left, &length);
        append_character(text, bytes, length, code);
        bytes += length;
        left -= length;
    }
    text_append_char(text, '"');
}
