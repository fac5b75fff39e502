/* json_text.c - walks JSON that is known to be well-formed. */
#include "ipc/cli/json_text.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#define READ_FLAGS (JSON_DECODE_ANY | JSON_ALLOW_NUL)
#define SAFE_DIGITS 18 /* so many always fit into 64 bits */
#define GROWTH_MAX 3   /* a number of one digit in quotes */

/* Behind the string whose opening quote is at `at`. */
static const char *skip_string(const char *at)
{
    for (at++; *at && *at != '"'; at++) {
        if (*at == '\\' && at[1])
            at++;
    }
    return *at ? at + 1 : at;
}

static const char *skip_space(const char *at)
{
    return at + strspn(at, " \t\r\n");
}

static bool starts_number(char character)
{
    return character == '-' || (character >= '0' && character <= '9');
}

static size_t number_size(const char *at)
{
    return strspn(at, "+-.0123456789eE");
}

static bool number_is_refused(const char *at, size_t size)
{
    bool is_integer = strcspn(at, ".eE") >= size;

    return is_integer ? size > SAFE_DIGITS : isinf(strtod(at, NULL));
}

/* The code unit of an escape \uXXXX, or -1. */
static long code_unit(const char *at)
{
    char digits[5] = {0};

    if (at[0] != '\\' || at[1] != 'u')
        return -1;
    (void) snprintf(digits, sizeof digits, "%.4s", at + 2);
    return strtol(digits, NULL, 16);
}

static bool is_high(long unit)
{
    return unit >= 0xd800 && unit < 0xdc00;
}

static bool is_low(long unit)
{
    return unit >= 0xdc00 && unit < 0xe000;
}

/* Copies one escape or character of a string; tells how many bytes it took. */
static size_t copy_character(const char *at, bool is_name, char **ret)
{
    long unit = code_unit(at);
    size_t size = unit >= 0 ? 6 : at[0] == '\\' ? 2 : 1;

    if (is_high(unit) && is_low(code_unit(at + 6)))
        size = 12;
    else if (is_high(unit) || is_low(unit) || (is_name && unit == 0))
        at = "\\ufffd";
    memcpy(*ret, at, size);
    *ret += size;
    return size;
}

static void copy_string(const char *at, const char *end, bool is_name, char **ret)
{
    *(*ret)++ = *at++;
    while (at < end - 1)
        at += copy_character(at, is_name, ret);
    *(*ret)++ = '"';
}

static void copy_number(const char *at, size_t size, char **ret)
{
    bool is_refused = number_is_refused(at, size);

    if (is_refused)
        *(*ret)++ = '"';
    memcpy(*ret, at, size);
    *ret += size;
    if (is_refused)
        *(*ret)++ = '"';
}

static char *make_loadable(const char *text)
{
    char *copy = malloc(GROWTH_MAX * strlen(text) + 1);
    char *end = copy;

    while (copy && *text) {
        const char *start = text;
        if (*text == '"') {
            text = skip_string(text);
            copy_string(start, text, *skip_space(text) == ':', &end);
        } else if (starts_number(*text)) {
            text += number_size(text);
            copy_number(start, (size_t) (text - start), &end);
        } else {
            *end++ = *text++;
        }
    }
    if (copy)
        *end = '\0';
    return copy;
}

json_t *json_text_load(const char *text)
{
    json_t *value = json_loads(text, READ_FLAGS, NULL);

    if (value)
        return value;
    AUTO_FREE char *loadable = make_loadable(text);
    return loadable ? json_loads(loadable, READ_FLAGS, NULL) : NULL;
}

/* Behind the value that begins at `at`. */
static const char *skip_value(const char *at)
{
    unsigned depth = 0;

    do {
        if (*at == '"') {
            at = skip_string(at);
        } else {
            if (*at == '{' || *at == '[')
                depth++;
            else if (*at == '}' || *at == ']')
                depth--;
            at++;
        }
    } while (*at && (depth > 0 || !strchr(",}] \t\r\n", *at)));
    return at;
}

const char *json_text_member(const char *text, const char *name, size_t *ret_size)
{
    size_t size = strlen(name);
    const char *at = skip_space(text);

    if (*at != '{')
        return NULL;
    do {
        const char *key = skip_space(at + 1);
        if (*key != '"')
            return NULL;
        const char *key_end = skip_string(key);
        const char *value = skip_space(skip_space(key_end) + 1);
        const char *end = skip_value(value);
        if ((size_t) (key_end - key) == size + 2 && strncmp(key + 1, name, size) == 0) {
            *ret_size = (size_t) (end - value);
            return value;
        }
        at = skip_space(end);
    } while (*at == ',');
    return NULL;
}

static void break_line(FILE *file, int depth)
{
    (void) fprintf(file, "\n%*s", 2 * depth, "");
}

void json_text_print(FILE *file, const char *text, size_t size)
{
    const char *end = text + size;
    int depth = 0;

    while (text < end) {
        const char *start = text;
        char character = *text;
        text = character == '"' ? skip_string(text) : text + 1;
        if (strchr(" \t\r\n", character))
            continue;
        bool is_close = character == '}' || character == ']';
        depth -= is_close;
        if (is_close)
            break_line(file, depth);
        (void) fwrite(start, 1, (size_t) (text - start), file);
        if (character == ':')
            (void) fputc(' ', file);
        if (character == ',')
            break_line(file, depth);
        if (character != '{' && character != '[')
            continue;
        text = skip_space(text);
        if (*text == '}' || *text == ']') { /* an empty one stays on its line */
            (void) fputc(*text++, file);
            continue;
        }
        depth++;
        break_line(file, depth);
    }
    (void) fputc('\n', file);
}
