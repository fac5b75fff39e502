#include "core/legacy_text.h"

#include "core/text_trim.h"

#include <string.h>

static bool is_line_end(uint32_t code_point)
{
    return (code_point >= 0x0a && code_point <= 0x0d) ||
           (code_point >= 0x1c && code_point <= 0x1e) || code_point == 0x85 ||
           code_point == 0x2028 || code_point == 0x2029;
}

/* Copies with `line_end` for each line end, CR LF being one. */
static void append_lines(struct text *text, const char *bytes, size_t size, char line_end)
{
    size_t length = 0;

    for (size_t at = 0; at < size; at += length) {
        if (!is_line_end(text_decode(bytes + at, size - at, &length))) {
            text_append(text, bytes + at, length);
            continue;
        }
        if (bytes[at] == '\r' && at + 1 < size && bytes[at + 1] == '\n')
            length = 2;
        text_append_char(text, line_end);
    }
}

void legacy_text_content(struct text *text, const char *bytes, size_t size)
{
    text_trim(&bytes, &size);
    append_lines(text, bytes, size, '\n');
}

static size_t cut_characters(const char *bytes, size_t size, size_t characters)
{
    size_t at = 0;
    size_t length = 0;

    for (; at < size && characters > 0; characters--) {
        (void) text_decode(bytes + at, size - at, &length);
        at += length;
    }
    return at;
}

void legacy_text_title(struct text *text, const char *bytes, size_t size)
{
    text_trim(&bytes, &size);
    size = cut_characters(bytes, size, LEGACY_TITLE_MAX);
    text_trim(&bytes, &size);
    append_lines(text, bytes, size, ' ');
}

size_t legacy_text_first_line(const char *bytes, size_t size)
{
    const char *end = memchr(bytes, '\n', size);

    return end ? (size_t) (end - bytes) : size;
}
