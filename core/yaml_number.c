#include "core/yaml_number.h"

#include "core/yaml_text.h"

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define INT_DIGITS_MAX 4300
#define LIMB_BASE 1000000000u
#define LIMB_DIGITS 9
#define LIMBS_MAX 600 /* 4,300 hexadecimal digits need 576 */

/* A magnitude, least significant limb first. */
struct magnitude {
    uint32_t limbs[LIMBS_MAX];
    size_t used;
};

/* What is left of a number, without its underscores. */
struct digits {
    const char *at;
    const char *end;
};

static bool is_next(const struct digits *digits, char byte)
{
    return digits->at < digits->end && *digits->at == byte;
}

static bool is_blank_next(const char *at)
{
    return *at == ' ' || (*at >= '\t' && *at <= '\r') || (*at >= '\x1c' && *at <= '\x1f');
}

/* The peers' int() and float() allow blanks around the number. */
static void trim(struct digits *digits)
{
    while (digits->at < digits->end && is_blank_next(digits->at))
        digits->at++;
    while (digits->at < digits->end && is_blank_next(digits->end - 1))
        digits->end--;
}

/* Returns true for a minus. */
static bool take_sign(struct digits *digits)
{
    bool is_minus = is_next(digits, '-');

    if (is_minus || is_next(digits, '+'))
        digits->at++;
    return is_minus;
}

static void multiply_add(struct magnitude *number, uint32_t factor, uint32_t addend)
{
    uint64_t carry = addend;

    for (size_t i = 0; i < number->used; i++) {
        carry += (uint64_t) number->limbs[i] * factor;
        number->limbs[i] = (uint32_t) (carry % LIMB_BASE);
        carry /= LIMB_BASE;
    }
    if (carry > 0 && number->used < LIMBS_MAX)
        number->limbs[number->used++] = (uint32_t) carry;
}

static unsigned digit_value(char byte)
{
    if (byte >= '0' && byte <= '9')
        return (unsigned) (byte - '0');
    if (byte >= 'a' && byte <= 'f')
        return (unsigned) (byte - 'a') + 10;
    if (byte >= 'A' && byte <= 'F')
        return (unsigned) (byte - 'A') + 10;
    return UINT32_MAX;
}

/* Reads all digits to the end; several at a time, so that a long number stays cheap. */
static bool read_digits(struct digits digits, unsigned base, struct magnitude *ret)
{
    uint32_t factor = 1;
    uint32_t addend = 0;

    if (digits.at == digits.end)
        return false;
    ret->used = 0;
    for (; digits.at < digits.end; digits.at++) {
        unsigned value = digit_value(*digits.at);
        if (value >= base)
            return false;
        if (factor > LIMB_BASE / base) {
            multiply_add(ret, factor, addend);
            factor = 1;
            addend = 0;
        }
        factor *= base;
        addend = addend * base + value;
    }
    multiply_add(ret, factor, addend);
    return true;
}

/* Hours, minutes and seconds, or any number of such parts; a part may have a sign of its own only
 * in texts that nobody writes, which are refused. */
static bool read_sixties(struct digits digits, struct magnitude *ret)
{
    struct magnitude part;
    const char *colon = memchr(digits.at, ':', (size_t) (digits.end - digits.at));

    if (!read_digits((struct digits){digits.at, colon}, 10, ret))
        return false;
    while (colon < digits.end) {
        const char *start = colon + 1;
        colon = memchr(start, ':', (size_t) (digits.end - start));
        if (!colon)
            colon = digits.end;
        if (!read_digits((struct digits){start, colon}, 10, &part) || part.used > 1)
            return false;
        multiply_add(ret, 60, part.used ? part.limbs[0] : 0);
    }
    return true;
}

/* The part behind the first sign: its prefix decides the base. */
static bool read_magnitude(struct digits digits, struct magnitude *ret, bool *is_negative)
{
    unsigned base = 10;

    if (is_next(&digits, '0') && digits.end - digits.at > 1) {
        char mark = digits.at[1];
        base = mark == 'b' ? 2 : mark == 'x' ? 16 : 8;
        digits.at += mark == 'b' || mark == 'x' || mark == 'o' || mark == 'O' ? 2 : 0;
    } else if (memchr(digits.at, ':', (size_t) (digits.end - digits.at))) {
        return read_sixties(digits, ret);
    }
    trim(&digits);
    if (base != 8 && take_sign(&digits))
        *is_negative = !*is_negative;
    return read_digits(digits, base, ret);
}

static bool fits_int64(const struct magnitude *number, bool is_negative, int64_t *ret)
{
    uint64_t limit = (uint64_t) INT64_MAX + (is_negative ? 1 : 0);
    uint64_t value = 0;

    for (size_t i = number->used; i-- > 0;) {
        if (__builtin_mul_overflow(value, (uint64_t) LIMB_BASE, &value) ||
            __builtin_add_overflow(value, (uint64_t) number->limbs[i], &value))
            return false;
    }
    if (value > limit)
        return false;
    *ret = is_negative ? (int64_t) (0 - value) : (int64_t) value;
    return true;
}

static json_t *big_integer(const struct magnitude *number, bool is_negative)
{
    char text[sizeof YAML_TEXT_BIG_INTEGER + 1 + LIMBS_MAX * LIMB_DIGITS + 1];
    size_t used = strlen(YAML_TEXT_BIG_INTEGER);

    memcpy(text, YAML_TEXT_BIG_INTEGER, used + 1);
    if (is_negative)
        text[used++] = '-';
    used +=
        (size_t) snprintf(text + used, sizeof text - used, "%u", number->limbs[number->used - 1]);
    for (size_t i = number->used - 1; i-- > 0;)
        used += (size_t) snprintf(text + used, sizeof text - used, "%09u", number->limbs[i]);
    return json_stringn_nocheck(text, used);
}

/* Copies without underscores into `buffer`; false when it is empty or does not fit. */
static bool drop_underscores(const char *text, size_t size, char *buffer, size_t buffer_size,
                             struct digits *ret)
{
    size_t used = 0;

    for (size_t i = 0; i < size; i++) {
        if (text[i] == '_')
            continue;
        if (used + 1 >= buffer_size)
            return false;
        buffer[used++] = text[i];
    }
    buffer[used] = '\0';
    *ret = (struct digits){buffer, buffer + used};
    return used > 0;
}

enum status yaml_number_read_int(const char *text, size_t size, json_t **ret)
{
    char buffer[INT_DIGITS_MAX + 8];
    struct digits digits;
    struct magnitude number;
    int64_t value;

    if (!drop_underscores(text, size, buffer, sizeof buffer, &digits))
        return STATUS_CORRUPT;
    bool is_negative = take_sign(&digits);
    if (digits.end - digits.at > INT_DIGITS_MAX || !read_magnitude(digits, &number, &is_negative))
        return STATUS_CORRUPT;
    json_t *integer = fits_int64(&number, is_negative, &value) ? json_integer(value)
                                                               : big_integer(&number, is_negative);
    if (!integer)
        return STATUS_NO_MEMORY;
    *ret = integer;
    return STATUS_OK;
}

static json_t *real_value(double value)
{
    if (isfinite(value))
        return json_real(value);
    return json_pack("{s:s}", "$float", isnan(value) ? "nan" : value < 0 ? "-inf" : "inf");
}

static size_t skip_decimals(const char *at)
{
    return strspn(at, "0123456789");
}

/* What the peers' float() takes, less the words: digits with a dot somewhere, an exponent. */
static bool is_decimal(const char *at, const char *end)
{
    at += *at == '+' || *at == '-';
    size_t whole = skip_decimals(at);
    at += whole;
    size_t fraction = 0;
    if (*at == '.') {
        fraction = skip_decimals(++at);
        at += fraction;
    }
    if (whole + fraction == 0)
        return false;
    if (*at == 'e') {
        at++;
        at += *at == '+' || *at == '-';
        size_t exponent = skip_decimals(at);
        if (exponent == 0)
            return false;
        at += exponent;
    }
    return at == end;
}

static bool read_word(const char *text, double *ret)
{
    bool is_minus = *text == '-';

    text += *text == '+' || *text == '-';
    if (strcmp(text, "nan") == 0)
        *ret = (double) NAN;
    else if (strcmp(text, "inf") == 0 || strcmp(text, "infinity") == 0)
        *ret = is_minus ? -(double) INFINITY : (double) INFINITY;
    else
        return false;
    return true;
}

/* One number; `digits` ends in a NUL when it ends at all. */
static bool read_real(struct digits digits, double *ret)
{
    trim(&digits);
    if (digits.at == digits.end)
        return false;
    if (is_decimal(digits.at, digits.end)) {
        *ret = strtod(digits.at, NULL);
        return true;
    }
    return *digits.end == '\0' && read_word(digits.at, ret);
}

/* Sums from the last part on, as the peers do, so that the rounding is theirs. */
static bool read_real_sixties(struct digits digits, double *ret)
{
    long double base = 1;
    double sum = 0;

    for (const char *colon = digits.end; colon;) {
        struct digits part = digits;
        double value;

        colon = memrchr(digits.at, ':', (size_t) (digits.end - digits.at));
        if (colon) {
            part.at = colon + 1;
            digits.end = colon;
        }
        if (base > (long double) DBL_MAX || !read_real(part, &value))
            return false;
        sum += value * (double) base;
        base *= 60;
    }
    *ret = sum;
    return true;
}

/* A copy without underscores and in lower case; NULL when memory ran out. */
static char *normalise_float(const char *text, size_t size, struct digits *ret)
{
    char *copy = calloc(1, size + 1);
    size_t used = 0;

    if (!copy)
        return NULL;
    for (size_t i = 0; i < size; i++) {
        if (text[i] != '_')
            copy[used++] =
                (char) (text[i] >= 'A' && text[i] <= 'Z' ? text[i] - 'A' + 'a' : text[i]);
    }
    *ret = (struct digits){copy, copy + used};
    return copy;
}

enum status yaml_number_read_float(const char *text, size_t size, json_t **ret)
{
    struct digits digits;
    AUTO_FREE char *copy = normalise_float(text, size, &digits);
    double value;

    if (!copy)
        return STATUS_NO_MEMORY;
    bool is_negative = take_sign(&digits);
    if (strcmp(digits.at, ".inf") == 0)
        value = (double) INFINITY;
    else if (strcmp(digits.at, ".nan") == 0)
        value = (double) NAN;
    else if (!read_real_sixties(digits, &value))
        return STATUS_CORRUPT;
    json_t *real = real_value(is_negative ? -value : value);
    if (!real)
        return STATUS_NO_MEMORY;
    *ret = real;
    return STATUS_OK;
}
