#include "core/json_number.h"

#include "core/json_disguise.h"
#include "core/text_trim.h"

#include <math.h>

#define NUMBER_BYTES_MAX 300

static bool is_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

static size_t skip_digits(const char **at)
{
    const char *start = *at;

    while (is_digit(**at))
        ++*at;
    return (size_t) (*at - start);
}

/* A sign, digits with a dot somewhere, an exponent; nothing after it. */
static bool is_decimal(const char *at)
{
    at += *at == '+' || *at == '-';
    size_t digits = skip_digits(&at);
    if (*at == '.') {
        at++;
        digits += skip_digits(&at);
    }
    if (digits == 0)
        return false;
    if (*at == 'e' || *at == 'E') {
        at++;
        at += *at == '+' || *at == '-';
        if (skip_digits(&at) == 0)
            return false;
    }
    return *at == '\0';
}

/* Copies without the underscores; false where one does not stand between two digits, and for a NUL.
 */
static bool drop_underscores(const char *bytes, size_t size, char ret[NUMBER_BYTES_MAX + 1])
{
    size_t used = 0;

    for (size_t i = 0; i < size; i++) {
        if (bytes[i] == '\0')
            return false;
        if (bytes[i] != '_')
            ret[used++] = bytes[i];
        else if (i == 0 || i + 1 == size || !is_digit(bytes[i - 1]) || !is_digit(bytes[i + 1]))
            return false;
    }
    ret[used] = '\0';
    return true;
}

static bool read_text(const char *bytes, size_t size, double *ret)
{
    char plain[NUMBER_BYTES_MAX + 1] = "";

    text_trim(&bytes, &size);
    if (size > NUMBER_BYTES_MAX || !drop_underscores(bytes, size, plain) || !is_decimal(plain))
        return false;
    double value = strtod(plain, NULL);
    if (!isfinite(value))
        return false;
    *ret = value;
    return true;
}

/* A big integer is a text in disguise. */
static bool read_string(const json_t *value, bool text_counts, double *ret)
{
    const char *bytes = json_string_value(value);
    size_t size = json_string_length(value);

    if (!json_disguised_integer(&bytes, &size) && !text_counts)
        return false;
    return read_text(bytes, size, ret);
}

bool json_number_read(const json_t *value, double *ret)
{
    if (json_is_string(value))
        return read_string(value, false, ret);
    if (!json_is_number(value))
        return false;
    *ret = json_number_value(value);
    return true;
}

bool json_number_read_text(const json_t *value, double *ret)
{
    if (json_is_string(value))
        return read_string(value, true, ret);
    return json_number_read(value, ret);
}
