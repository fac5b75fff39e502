#include "core/manifest_revision.h"

#include <math.h>

#define BEYOND "the revision does not fit 64 bits"
#define NO_NUMBER "the revision is no number"

/* The zeros of the decimal digits of Unicode 14, which the peers' int() all takes; nine more digits
 * follow each. */
static const uint32_t digit_zeros[] = {
    0x00030, 0x00660, 0x006f0, 0x007c0, 0x00966, 0x009e6, 0x00a66, 0x00ae6, 0x00b66, 0x00be6,
    0x00c66, 0x00ce6, 0x00d66, 0x00de6, 0x00e50, 0x00ed0, 0x00f20, 0x01040, 0x01090, 0x017e0,
    0x01810, 0x01946, 0x019d0, 0x01a80, 0x01a90, 0x01b50, 0x01bb0, 0x01c40, 0x01c50, 0x0a620,
    0x0a8d0, 0x0a900, 0x0a9d0, 0x0a9f0, 0x0aa50, 0x0abf0, 0x0ff10, 0x104a0, 0x10d30, 0x11066,
    0x110f0, 0x11136, 0x111d0, 0x112f0, 0x11450, 0x114d0, 0x11650, 0x116c0, 0x11730, 0x118e0,
    0x11950, 0x11c50, 0x11d50, 0x11da0, 0x16a60, 0x16ac0, 0x16b50, 0x1d7ce, 0x1d7d8, 0x1d7e2,
    0x1d7ec, 0x1d7f6, 0x1e140, 0x1e2f0, 0x1e950, 0x1fbf0,
};

static int digit_of(uint32_t code_point)
{
    for (size_t i = 0; i < ARRAY_SIZE(digit_zeros) && digit_zeros[i] <= code_point; i++) {
        if (code_point - digit_zeros[i] < 10)
            return (int) (code_point - digit_zeros[i]);
    }
    return -1;
}

static bool is_blank(uint32_t code_point)
{
    return (code_point >= 0x09 && code_point <= 0x0d) || code_point == 0x20 || code_point == 0x85 ||
           code_point == 0xa0 || code_point == 0x1680 ||
           (code_point >= 0x2000 && code_point <= 0x200a) || code_point == 0x2028 ||
           code_point == 0x2029 || code_point == 0x202f || code_point == 0x205f ||
           code_point == 0x3000;
}

/* Text read character by character. */
struct reader {
    const char *bytes;
    size_t size;
};

#define NOTHING_LEFT UINT32_MAX

static uint32_t peek(const struct reader *reader, size_t *ret_length)
{
    *ret_length = 0;
    return reader->size ? text_decode(reader->bytes, reader->size, ret_length) : NOTHING_LEFT;
}

static void skip(struct reader *reader, size_t length)
{
    reader->bytes += length;
    reader->size -= length;
}

static void skip_blanks(struct reader *reader)
{
    size_t length = 0;

    while (is_blank(peek(reader, &length)))
        skip(reader, length);
}

static bool skip_sign(struct reader *reader)
{
    size_t length = 0;
    uint32_t sign = peek(reader, &length);

    if (sign == '-' || sign == '+')
        skip(reader, length);
    return sign == '-';
}

/* Digits with single underscores between them. The value is held below zero, where there is one
 * number more. `ret_fits` turns false beyond int64_t, and the rest is still looked at. */
static bool read_digits(struct reader *reader, int64_t *ret_negated, bool *ret_fits)
{
    int64_t value = 0;
    bool fits = true;
    size_t length = 0;
    int digit = digit_of(peek(reader, &length));

    if (digit < 0)
        return false;
    while (digit >= 0) {
        fits = fits && !__builtin_mul_overflow(value, INT64_C(10), &value) &&
               !__builtin_sub_overflow(value, (int64_t) digit, &value);
        skip(reader, length);
        if (peek(reader, &length) == '_') {
            skip(reader, length);
            if (digit_of(peek(reader, &length)) < 0)
                return false;
        }
        digit = digit_of(peek(reader, &length));
    }
    *ret_negated = value;
    *ret_fits = fits;
    return true;
}

static bool revision_of_text(const char *bytes, size_t size, int64_t *ret, const char **ret_problem)
{
    struct reader reader = {bytes, size};
    int64_t value = 0;
    bool fits = false;

    if (size == 0) {
        *ret = 0;
        return true;
    }
    skip_blanks(&reader);
    bool negative = skip_sign(&reader);
    if (!read_digits(&reader, &value, &fits)) {
        *ret_problem = NO_NUMBER;
        return false;
    }
    skip_blanks(&reader);
    if (reader.size > 0) {
        *ret_problem = NO_NUMBER;
        return false;
    }
    if (!fits || (!negative && value == INT64_MIN)) {
        *ret_problem = BEYOND;
        return false;
    }
    *ret = negative ? value : -value;
    return true;
}

static bool revision_of_real(double value, int64_t *ret, const char **ret_problem)
{
    if (!(value >= -9223372036854775808.0 && value < 9223372036854775808.0)) {
        *ret_problem = BEYOND;
        return false;
    }
    *ret = (int64_t) trunc(value);
    return true;
}

bool manifest_revision_of(const json_t *value, int64_t *ret, const char **ret_problem)
{
    bool fits = false;

    if (json_text_is_integer(value, &fits, ret)) {
        *ret_problem = BEYOND;
        return fits;
    }
    if (json_is_string(value))
        return revision_of_text(json_string_value(value), json_string_length(value), ret,
                                ret_problem);
    if (json_is_real(value))
        return revision_of_real(json_real_value(value), ret, ret_problem);
    if (json_array_size(value) > 0 || json_object_size(value) > 0) {
        *ret_problem = NO_NUMBER;
        return false;
    }
    *ret = json_is_true(value) ? 1 : 0;
    return true;
}
