#include "core/yaml_surrogate.h"

#include "core/text.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* Stand-ins are U+F8D0 to U+F8DF, of the private use area. */
#define STAND_IN_FIRST 0xf8d0u
#define STAND_IN_COUNT 16
#define STAND_IN_LEAD "\xef\xa3" /* their first two bytes; the third is 0x90 to 0x9f */

#define ESCAPE_SIZE 6 /* \ud83d */
#define DIGITS 4

void yaml_surrogate_destroy(struct yaml_surrogate *surrogate)
{
    free(surrogate->bytes);
    *surrogate = (struct yaml_surrogate){0};
}

static unsigned hex_value(char digit)
{
    return isdigit((unsigned char) digit) ? (unsigned) (digit - '0')
                                          : (unsigned) ((digit | 0x20) - 'a') + 10;
}

/* Reads the four hexadecimal digits of a surrogate. */
static bool read_surrogate(const char *digits, size_t size, unsigned *ret)
{
    unsigned value = 0;

    if (size < DIGITS)
        return false;
    for (size_t i = 0; i < DIGITS; i++) {
        if (!isxdigit((unsigned char) digits[i]))
            return false;
        value = value << 4 | hex_value(digits[i]);
    }
    *ret = value;
    return value >= 0xd800 && value <= 0xdfff;
}

/* The next escape of a surrogate, or the end. */
static const char *find_escape(const char *at, const char *end)
{
    unsigned surrogate;

    while ((at = memmem(at, (size_t) (end - at), "\\u", 2))) {
        if (read_surrogate(at + 2, (size_t) (end - at) - 2, &surrogate))
            return at;
        at++;
    }
    return end;
}

/* Finds a stand-in whose character and whose digits are nowhere in the text; 0 when there is none.
 */
static unsigned find_stand_in(const char *bytes, size_t size)
{
    bool used[STAND_IN_COUNT] = {false};

    for (size_t i = 0; i + 2 < size; i++) {
        const char *at = bytes + i;
        if (memcmp(at, STAND_IN_LEAD, 2) == 0)
            used[(unsigned char) at[2] & 0x0f] = true;
        if (i + 3 < size && strncasecmp(at, "f8d", 3) == 0 && isxdigit((unsigned char) at[3]))
            used[hex_value(at[3])] = true;
    }
    for (unsigned i = 0; i < STAND_IN_COUNT; i++) {
        if (!used[i])
            return STAND_IN_FIRST + i;
    }
    return 0;
}

enum status yaml_surrogate_hide(const char *bytes, size_t size, struct yaml_surrogate *ret,
                                struct error *error)
{
    const char *end = bytes + size;
    const char *escape = find_escape(bytes, end);
    AUTO_TEXT struct text text = {0};

    *ret = (struct yaml_surrogate){0};
    if (escape == end)
        return STATUS_OK;
    unsigned stand_in = find_stand_in(bytes, size);
    if (stand_in == 0)
        return error_set(error, STATUS_CORRUPT, NULL, "too many private characters");
    while (escape < end) {
        text_append(&text, bytes, (size_t) (escape - bytes));
        text_append_format(&text, "\\u%04x", stand_in);
        bytes = escape + 2;
        escape = find_escape(bytes, end);
    }
    text_append(&text, bytes, (size_t) (end - bytes));

    size_t hidden_size;
    char *hidden = text_take(&text, &hidden_size);
    if (!hidden)
        return error_set(error, STATUS_NO_MEMORY, NULL, "out of memory");
    *ret = (struct yaml_surrogate){hidden, hidden_size, stand_in};
    return STATUS_OK;
}

size_t yaml_surrogate_restore(const struct yaml_surrogate *surrogate, char *text, size_t size)
{
    char escape[ESCAPE_SIZE + 1];
    char character[4];
    size_t length = text_encode(surrogate->stand_in, character);
    size_t used = 0;
    unsigned value;

    (void) snprintf(escape, sizeof escape, "\\u%04x", surrogate->stand_in & 0xffff);
    for (size_t i = 0; i < size;) {
        size_t left = size - i;
        if (left > length && memcmp(text + i, character, length) == 0 &&
            read_surrogate(text + i + length, left - length, &value)) {
            text[used++] = '\xed';
            text[used++] = (char) (0x80 | (value >> 6 & 0x3f));
            text[used++] = (char) (0x80 | (value & 0x3f));
            i += length + DIGITS;
        } else if (left >= ESCAPE_SIZE && memcmp(text + i, escape, ESCAPE_SIZE) == 0) {
            text[used++] = '\\';
            text[used++] = 'u';
            i += ESCAPE_SIZE;
        } else {
            text[used++] = text[i++];
        }
    }
    text[used] = '\0';
    return used;
}
