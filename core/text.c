#include "core/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void text_reserve(struct text *text, size_t size)
{
    if (text->failed)
        return;
    if (size < text->capacity - text->size && text->bytes)
        return;
    if (size > SIZE_MAX / 2 - text->size - 1) {
        text->failed = true;
        return;
    }

    size_t wanted = text->size + size + 1;
    size_t capacity = text->capacity ? text->capacity : 64;
    while (capacity < wanted)
        capacity *= 2;

    char *bytes = realloc(text->bytes, capacity);
    if (!bytes) {
        text->failed = true;
        return;
    }
    text->bytes = bytes;
    text->capacity = capacity;
    text->bytes[text->size] = '\0';
}

void text_append(struct text *text, const void *bytes, size_t size)
{
    text_reserve(text, size);
    if (text->failed || size == 0)
        return;
    memcpy(text->bytes + text->size, bytes, size);
    text->size += size;
    text->bytes[text->size] = '\0';
}

void text_append_string(struct text *text, const char *string)
{
    text_append(text, string, strlen(string));
}

void text_append_char(struct text *text, char character)
{
    text_append(text, &character, 1);
}

/* Most formats fit into what is left, so that they are worked out once. */
void text_append_format(struct text *text, const char *format, ...)
{
    va_list arguments;
    size_t room = text->bytes && !text->failed ? text->capacity - text->size : 0;

    va_start(arguments, format);
    int length = vsnprintf(room ? text->bytes + text->size : NULL, room, format, arguments);
    va_end(arguments);
    if (length < 0) {
        text->failed = true;
        return;
    }
    if ((size_t) length >= room) {
        text_reserve(text, (size_t) length);
        if (text->failed)
            return;
        va_start(arguments, format);
        (void) vsnprintf(text->bytes + text->size, (size_t) length + 1, format, arguments);
        va_end(arguments);
    }
    text->size += (size_t) length;
}

#define DECIMALS 9
#define DECIMALS_SCALE 1e9

void text_append_decimal(struct text *text, double value)
{
    char digits[1 + 10 + 1 + DECIMALS]; /* filled from its end */
    char *const end = digits + sizeof digits;
    char *at = end;
    int decimals = DECIMALS;

    if (!(fabs(value) < DECIMALS_SCALE)) {
        text_append_format(text, "%.*g", DECIMALS, isfinite(value) ? value : 0.0);
        return;
    }
    uint64_t scaled = (uint64_t) llround(fabs(value) * DECIMALS_SCALE);
    bool negative = value < 0 && scaled > 0;
    for (; decimals > 0 && scaled % 10 == 0; decimals--)
        scaled /= 10;
    for (int i = 0; i < decimals; i++, scaled /= 10)
        *--at = (char) ('0' + scaled % 10);
    if (decimals > 0)
        *--at = '.';
    do
        *--at = (char) ('0' + scaled % 10);
    while ((scaled /= 10) > 0);
    if (negative)
        *--at = '-';
    text_append(text, at, (size_t) (end - at));
}

void text_clear(struct text *text)
{
    text->size = 0;
    text->failed = false;
    if (text->bytes)
        text->bytes[0] = '\0';
}

const char *text_string(const struct text *text)
{
    return text->bytes ? text->bytes : "";
}

char *text_take(struct text *text, size_t *ret_size)
{
    text_reserve(text, 0);
    if (text->failed) {
        text_destroy(text);
        return NULL;
    }

    char *bytes = TAKE_PTR(text->bytes);
    if (ret_size)
        *ret_size = text->size;
    *text = (struct text){0};
    return bytes;
}

void text_destroy(struct text *text)
{
    free(text->bytes);
    *text = (struct text){0};
}

static bool is_continuation(unsigned char byte)
{
    return (byte & 0xc0) == 0x80;
}

/* Length of the well-formed character at `bytes`, 0 when malformed; the table of Unicode 15, 3.9.
 */
static size_t character_length(const unsigned char *bytes, size_t size)
{
    unsigned char first = bytes[0];

    if (first < 0x80)
        return 1;
    if (first < 0xc2 || first > 0xf4)
        return 0;

    size_t length = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    if (size < length)
        return 0;

    unsigned char low = 0x80;
    unsigned char high = 0xbf;
    if (first == 0xe0)
        low = 0xa0; /* shorter forms exist */
    else if (first == 0xed)
        high = 0x9f; /* surrogates */
    else if (first == 0xf0)
        low = 0x90; /* shorter forms exist */
    else if (first == 0xf4)
        high = 0x8f; /* beyond U+10FFFF */
    if (bytes[1] < low || bytes[1] > high)
        return 0;
    for (size_t i = 2; i < length; i++) {
        if (!is_continuation(bytes[i]))
            return 0;
    }
    return length;
}

bool text_is_utf8(const char *bytes, size_t size)
{
    const unsigned char *at = (const unsigned char *) bytes;

    while (size > 0) {
        size_t length = character_length(at, size);
        if (length == 0)
            return false;
        at += length;
        size -= length;
    }
    return true;
}

uint32_t text_decode(const char *bytes, size_t size, size_t *ret_length)
{
    const unsigned char *at = (const unsigned char *) bytes;
    size_t length = character_length(at, size);

    *ret_length = length ? length : 1;
    switch (length) {
    case 1:
        return at[0];
    case 2:
        return ((uint32_t) at[0] & 0x1f) << 6 | (at[1] & 0x3f);
    case 3:
        return ((uint32_t) at[0] & 0x0f) << 12 | ((uint32_t) at[1] & 0x3f) << 6 | (at[2] & 0x3f);
    case 4:
        return ((uint32_t) at[0] & 0x07) << 18 | ((uint32_t) at[1] & 0x3f) << 12 |
               ((uint32_t) at[2] & 0x3f) << 6 | (at[3] & 0x3f);
    default:
        return 0xfffd;
    }
}

size_t text_encode(uint32_t code_point, char bytes[4])
{
    if (code_point < 0x80) {
        bytes[0] = (char) code_point;
        return 1;
    }
    if (code_point < 0x800) {
        bytes[0] = (char) (0xc0 | code_point >> 6);
        bytes[1] = (char) (0x80 | (code_point & 0x3f));
        return 2;
    }
    if (code_point < 0x10000) {
        bytes[0] = (char) (0xe0 | code_point >> 12);
        bytes[1] = (char) (0x80 | (code_point >> 6 & 0x3f));
        bytes[2] = (char) (0x80 | (code_point & 0x3f));
        return 3;
    }
    bytes[0] = (char) (0xf0 | code_point >> 18);
    bytes[1] = (char) (0x80 | (code_point >> 12 & 0x3f));
    bytes[2] = (char) (0x80 | (code_point >> 6 & 0x3f));
    bytes[3] = (char) (0x80 | (code_point & 0x3f));
    return 4;
}

size_t text_cut(const char *bytes, size_t size, size_t limit)
{
    if (size <= limit)
        return size;
    while (limit > 0 && is_continuation((unsigned char) bytes[limit]))
        limit--;
    return limit;
}

bool text_is_ascii(const char *bytes, size_t size)
{
    unsigned char all = 0;

    for (size_t i = 0; i < size; i++)
        all |= (unsigned char) bytes[i];
    return all < 0x80;
}
