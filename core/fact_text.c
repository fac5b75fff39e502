#include "core/fact_text.h"

#include "core/text.h"
#include "core/text_trim.h"

#include <string.h>

#define OPENING "---\n"
#define CLOSING "\n---\n"
#define NO_OPENING "line 1: expected --- and the front matter"

/* A part of the text. */
struct span {
    const char *at;
    size_t size;
};

void fact_text_destroy(struct fact_text *text)
{
    free(text->bytes);
    *text = (struct fact_text){0};
}

/* Copies, with LF for CRLF and CR; returns the new size. */
static size_t copy_lines(const char *bytes, size_t size, char *ret)
{
    size_t used = 0;

    if (!memchr(bytes, '\r', size)) {
        memcpy(ret, bytes, size);
        return size;
    }
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] != '\r') {
            ret[used++] = bytes[i];
        } else {
            ret[used++] = '\n';
            i += i + 1 < size && bytes[i + 1] == '\n';
        }
    }
    return used;
}

/* Length of the line separator (one that is not LF) at `bytes`, 0 when there is none. */
static size_t separator_length(const char *bytes, size_t size)
{
    unsigned char first = (unsigned char) bytes[0];

    if (first < 0x80)
        return first == 0x0b || first == 0x0c || (first >= 0x1c && first <= 0x1e);
    if (first == 0xc2)
        return size > 1 && bytes[1] == '\x85' ? 2 : 0;
    if (first == 0xe2 && size > 2 && bytes[1] == '\x80')
        return bytes[2] == '\xa8' || bytes[2] == '\xa9' ? 3 : 0;
    return 0;
}

/* Puts LF for all other line separators, in place; returns the new size. */
static size_t unify_separators(char *bytes, size_t size)
{
    size_t used = 0;

    for (size_t i = 0; i < size;) {
        size_t length = separator_length(bytes + i, size - i);
        bytes[used++] = bytes[i];
        if (length > 0)
            bytes[used - 1] = '\n';
        i += length > 0 ? length : 1;
    }
    return used;
}

static struct span trim(struct span span)
{
    text_trim(&span.at, &span.size);
    return span;
}

/* Takes the first line, without its end, off `rest`. */
static struct span take_line(struct span *rest)
{
    const char *newline = memchr(rest->at, '\n', rest->size);
    size_t size = newline ? (size_t) (newline - rest->at) : rest->size;
    struct span line = {rest->at, size};

    rest->at += size + (newline ? 1 : 0);
    rest->size -= size + (newline ? 1 : 0);
    return line;
}

static struct span cut_title(struct span title)
{
    size_t used = 0;

    for (unsigned count = 0; count < FACT_TITLE_CHARACTERS_MAX && used < title.size; count++) {
        size_t length;
        (void) text_decode(title.at + used, title.size - used, &length);
        used += length;
    }
    title.size = used;
    return title;
}

char *fact_text_clean(const char *bytes, size_t size, size_t *ret_size)
{
    char *text = malloc(size + 1);

    if (!text)
        return NULL;
    size = copy_lines(bytes, size, text);
    struct span span = trim((struct span){text, unify_separators(text, size)});
    memmove(text, span.at, span.size);
    text[span.size] = '\0';
    *ret_size = span.size;
    return text;
}

char *fact_text_title(const char *bytes, size_t size, size_t *ret_size)
{
    char *title = fact_text_clean(bytes, size, &size);

    if (!title)
        return NULL;
    for (char *at = title; (at = memchr(at, '\n', size - (size_t) (at - title)));)
        *at = ' ';
    *ret_size = trim(cut_title((struct span){title, size})).size;
    return title;
}

static enum status read_body(char *bytes, size_t size, struct fact_text *ret, struct error *error)
{
    struct span title = {0};

    for (; size > 0 && *bytes == '\n'; size--)
        bytes++;
    struct span content = {bytes, unify_separators(bytes, size)};
    if (content.size >= 2 && memcmp(content.at, "# ", 2) == 0) {
        title = take_line(&content);
        title = trim((struct span){title.at + 2, title.size - 2});
    }
    content = trim(content);
    if (content.size == 0)
        return error_set(error, STATUS_CORRUPT, NULL, "the fact has no content");
    if (title.size == 0) {
        struct span rest = content;
        title = trim(take_line(&rest));
    }
    title = cut_title(title);

    ret->title = title.at;
    ret->title_size = title.size;
    ret->content = content.at;
    ret->content_size = content.size;
    return STATUS_OK;
}

enum status fact_text_read(const char *bytes, size_t size, struct fact_text *ret,
                           struct error *error)
{
    AUTO_FACT_TEXT struct fact_text text = {0};

    if (size < strlen(OPENING))
        return error_set(error, STATUS_CORRUPT, NULL, NO_OPENING);
    if (!text_is_utf8(bytes, size))
        return error_set(error, STATUS_CORRUPT, NULL, "not UTF-8");
    text.bytes = malloc(size + 1);
    if (!text.bytes)
        return error_set(error, STATUS_NO_MEMORY, NULL, "out of memory");
    size = copy_lines(bytes, size, text.bytes);

    if (size < strlen(OPENING) || memcmp(text.bytes, OPENING, strlen(OPENING)) != 0)
        return error_set(error, STATUS_CORRUPT, NULL, NO_OPENING);
    char *front = text.bytes + strlen(OPENING);
    char *end = text.bytes + size;
    char *closing = memmem(front, (size_t) (end - front), CLOSING, strlen(CLOSING));
    if (!closing)
        return error_set(error, STATUS_CORRUPT, NULL, "no line --- ends the front matter");
    text.front = front - 1;
    text.front_size = (size_t) (closing - text.front);

    char *body = closing + strlen(CLOSING);
    enum status status = read_body(body, (size_t) (end - body), &text, error);
    if (status != STATUS_OK)
        return status;
    *ret = text;
    text.bytes = NULL;
    return STATUS_OK;
}
