#include "core/json_disguise.h"
#include "core/json_text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- numbers ---- */

#define REAL_DIGITS_MAX 17

/* Makes the last digit before the exponent one larger; false when that would carry over. */
static bool next_digit(char *spelt)
{
    char *last = strchr(spelt, 'e') - 1;

    if (*last == '9')
        return false;
    ++*last;
    return true;
}

/* Writes the shortest digits that read back as `value`, as d.ddde+xx. A double of full precision
 * never needs fewer than fifteen to be found again, and trailing zeros tell nothing. Above a power
 * of two the doubles lie farther apart than below, so there the digits next to the nearest ones may
 * do as well. */
static void shortest_digits(double value, char *spelt, size_t size)
{
    int first = fabs(value) < 2.2250738585072014e-308 ? 1 : 15;
    int exponent = 0;
    bool is_power = fabs(frexp(value, &exponent)) == 0.5;

    for (int precision = first; precision <= REAL_DIGITS_MAX; precision++) {
        (void) snprintf(spelt, size, "%.*e", precision - 1, value);
        if (strtod(spelt, NULL) == value)
            return;
        if (is_power && next_digit(spelt) && strtod(spelt, NULL) == value)
            return;
    }
}

/* Spells a real as Python does: plain between 1e-4 and 1e16, else with an exponent. */
static void append_real(struct text *text, double value)
{
    char spelt[40];
    char digits[REAL_DIGITS_MAX + 1];
    size_t count = 0;
    int exponent = 0;

    shortest_digits(value, spelt, sizeof spelt);
    const char *mark = strchr(spelt, 'e');
    for (const char *at = spelt; at < mark; at++) {
        if (*at >= '0' && *at <= '9' && count < REAL_DIGITS_MAX)
            digits[count++] = *at;
    }
    while (count > 1 && digits[count - 1] == '0')
        count--;
    digits[count] = '\0';
    exponent = (int) strtol(mark + 1, NULL, 10);

    if (spelt[0] == '-')
        text_append_char(text, '-');
    if (exponent < -4 || exponent >= 16) {
        text_append_format(text, "%c%s%se%c%02d", digits[0], count > 1 ? "." : "", digits + 1,
                           exponent < 0 ? '-' : '+', abs(exponent));
    } else if (exponent < 0) {
        text_append_format(text, "0.%.*s%s", -exponent - 1, "000", digits);
    } else if ((size_t) exponent + 1 >= count) {
        text_append_format(text, "%s%.*s.0", digits, exponent + 1 - (int) count,
                           "0000000000000000");
    } else {
        text_append_format(text, "%.*s.%s", exponent + 1, digits, digits + exponent + 1);
    }
}

/* ---- strings ---- */

bool json_disguised_integer(const char **bytes, size_t *size)
{
    size_t at = DISGUISE_SIZE;

    if (*size < DISGUISE_SIZE + 1 || memcmp(*bytes, DISGUISE_INTEGER, DISGUISE_SIZE) != 0)
        return false;
    if ((*bytes)[at] == '-')
        at++;
    if (at == *size || ((*bytes)[at] == '0' && at + 1 < *size))
        return false;
    for (; at < *size; at++) {
        if ((*bytes)[at] < '0' || (*bytes)[at] > '9')
            return false;
    }
    *bytes += DISGUISE_SIZE;
    *size -= DISGUISE_SIZE;
    return true;
}

bool json_disguised_character(const char *bytes, size_t size, uint32_t *ret)
{
    uint32_t unit = 0;

    if (size < DISGUISE_CHARACTER_SIZE || memcmp(bytes, DISGUISE_CHARACTER, DISGUISE_SIZE) != 0)
        return false;
    for (size_t i = DISGUISE_SIZE; i < DISGUISE_CHARACTER_SIZE; i++) {
        bool is_decimal = bytes[i] >= '0' && bytes[i] <= '9';
        if (!is_decimal && (bytes[i] < 'a' || bytes[i] > 'f'))
            return false;
        unit = unit << 4;
        unit |= (uint32_t) (is_decimal ? bytes[i] - '0' : bytes[i] - 'a' + 10);
    }
    *ret = unit;
    return true;
}

static void append_code_unit(struct text *text, uint32_t unit)
{
    char bytes[4];

    if (unit == 0 || (unit >= 0xd800 && unit <= 0xdfff))
        text_append_format(text, "\\u%04x", (unsigned) unit);
    else
        text_append(text, bytes, text_encode(unit, bytes));
}

static void append_escape(struct text *text, char character)
{
    static const char names[] = "\"\\\b\f\n\r\t";
    static const char letters[] = "\"\\bfnrt";
    const char *name = memchr(names, character, sizeof names - 1);

    if (name)
        text_append_format(text, "\\%c", letters[name - names]);
    else
        text_append_format(text, "\\u%04x", (unsigned) (unsigned char) character);
}

void json_text_write_string(struct text *text, const char *bytes, size_t size)
{
    size_t plain = 0; /* where the run that can be copied as it is begins */

    text_append_char(text, '"');
    for (size_t at = 0; at < size;) {
        uint32_t unit = 0;
        size_t length = 1;
        bool disguised = bytes[at] == DISGUISE_CHARACTER[0] &&
                         json_disguised_character(bytes + at, size - at, &unit);

        if (disguised)
            length = DISGUISE_CHARACTER_SIZE;
        else if ((unsigned char) bytes[at] >= 0x20 && bytes[at] != '"' && bytes[at] != '\\') {
            at++;
            continue;
        }
        text_append(text, bytes + plain, at - plain);
        if (disguised)
            append_code_unit(text, unit);
        else
            append_escape(text, bytes[at]);
        at += length;
        plain = at;
    }
    text_append(text, bytes + plain, size - plain);
    text_append_char(text, '"');
}

/* ---- values ---- */

#define PRETTY_NONE (-1)

static void write_value(struct text *text, const json_t *value, int indent);

static void append_break(struct text *text, int indent)
{
    if (indent != PRETTY_NONE)
        text_append_format(text, "\n%*s", 2 * indent, "");
}

static int deeper(int indent)
{
    return indent == PRETTY_NONE ? PRETTY_NONE : indent + 1;
}

static void write_object(struct text *text, const json_t *object, int indent)
{
    const char *separator = "";
    json_t *fields = json_unconst(object);

    text_append_char(text, '{');
    for (void *at = json_object_iter(fields); at; at = json_object_iter_next(fields, at)) {
        text_append_string(text, separator);
        append_break(text, deeper(indent));
        json_text_write_string(text, json_object_iter_key(at), json_object_iter_key_len(at));
        text_append_string(text, indent == PRETTY_NONE ? ":" : ": ");
        write_value(text, json_object_iter_value(at), deeper(indent));
        separator = ",";
    }
    if (json_object_size(object) > 0)
        append_break(text, indent);
    text_append_char(text, '}');
}

static void write_array(struct text *text, const json_t *array, int indent)
{
    size_t count = json_array_size(array);

    text_append_char(text, '[');
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            text_append_char(text, ',');
        append_break(text, deeper(indent));
        write_value(text, json_array_get(array, i), deeper(indent));
    }
    if (count > 0)
        append_break(text, indent);
    text_append_char(text, ']');
}

static void write_string(struct text *text, const json_t *string)
{
    const char *bytes = json_string_value(string);
    size_t size = json_string_length(string);

    if (json_disguised_integer(&bytes, &size))
        text_append(text, bytes, size);
    else
        json_text_write_string(text, bytes, size);
}

/* The word that the peers write for a disguised NaN or infinity, NULL for any other value. */
static const char *float_word(const json_t *value)
{
    const char *name = json_string_value(json_object_get(value, DISGUISE_FLOAT_KEY));

    if (!name || json_object_size(value) != 1)
        return NULL;
    return strcmp(name, "nan") == 0    ? "NaN"
           : strcmp(name, "inf") == 0  ? "Infinity"
           : strcmp(name, "-inf") == 0 ? "-Infinity"
                                       : NULL;
}

static void write_value(struct text *text, const json_t *value, int indent)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        if (indent != PRETTY_NONE && float_word(value))
            text_append_string(text, float_word(value));
        else
            write_object(text, value, indent);
        break;
    case JSON_ARRAY:
        write_array(text, value, indent);
        break;
    case JSON_STRING:
        write_string(text, value);
        break;
    case JSON_INTEGER:
        text_append_format(text, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        break;
    case JSON_REAL:
        append_real(text, json_real_value(value));
        break;
    case JSON_TRUE:
        text_append_string(text, "true");
        break;
    case JSON_FALSE:
        text_append_string(text, "false");
        break;
    case JSON_NULL:
        text_append_string(text, "null");
        break;
    }
}

void json_text_write(struct text *text, const json_t *value)
{
    write_value(text, value, PRETTY_NONE);
}

void json_text_write_pretty(struct text *text, const json_t *value)
{
    write_value(text, value, 0);
}
