/* core/text.h - a growable byte string that is always terminated by a NUL.
 *
 * A zeroed struct text is empty and valid. Appending to one that has failed (out of memory) does
 * nothing, so a chain of appends needs one check at its end: text_ok(). Not thread-safe.
 */
#ifndef MEMSYNC_CORE_TEXT_H
#define MEMSYNC_CORE_TEXT_H

#include "core/compiler.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct text {
    char *bytes; /* NULL while nothing was appended */
    size_t size;
    size_t capacity;
    bool failed;
};

/* They copy what they append; whether one failed is text_ok(). */
void text_append(struct text *text, const void *bytes, size_t size);
void text_append_string(struct text *text, const char *string);
void text_append_char(struct text *text, char character);
void text_append_format(struct text *text, const char *format, ...) PRINTF(2, 3);

/* A number as JSON has it, with up to nine decimals and none that are zero at the end; 0 for what
 * is no number, and digits and exponent from a thousand million on. */
void text_append_decimal(struct text *text, double value);

/* Makes room for `size` more bytes. */
void text_reserve(struct text *text, size_t size);

/* Empties it and keeps its memory. */
void text_clear(struct text *text);

static inline bool text_ok(const struct text *text)
{
    return !text->failed;
}

/* The bytes as a C string, "" when empty; owned by `text`. */
const char *text_string(const struct text *text);

/* Hands the bytes over to the caller, who frees them; `text` is empty afterwards. NULL when an
 * append had failed. An empty text gives "". */
char *text_take(struct text *text, size_t *ret_size);

void text_destroy(struct text *text);

#define AUTO_TEXT CLEANUP(text_destroy)

/* True when the bytes are well-formed UTF-8 (no surrogates, no overlong forms, at most U+10FFFF).
 */
bool text_is_utf8(const char *bytes, size_t size);

/* Decodes the character at `bytes` (at least 1 byte of `size`); writes its length. Malformed bytes
 * give U+FFFD and length 1. */
uint32_t text_decode(const char *bytes, size_t size, size_t *ret_length);

/* Encodes a code point; returns its length (1 to 4). */
size_t text_encode(uint32_t code_point, char bytes[4]);

/* The largest n <= limit so that cutting well-formed UTF-8 at n falls between characters. */
size_t text_cut(const char *bytes, size_t size, size_t limit);

/* True when no byte is above 127. */
bool text_is_ascii(const char *bytes, size_t size);

#endif
