/* Stored documents and the dates in them. */
#include "core/index_private.h"

#include "core/json_text.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define MICROSECONDS INT64_C(1000000)

int document_read(const char *bytes, size_t size, json_t **ret_tree)
{
    enum status status = json_text_read(bytes, size, JSON_TEXT_DEPTH_MAX, ret_tree, NULL);

    if (status == STATUS_OK)
        return SQLITE_OK;
    return status == STATUS_NO_MEMORY ? SQLITE_NOMEM : SQLITE_CORRUPT;
}

const char *document_content(const json_t *tree, size_t *ret_size)
{
    const json_t *content = json_object_get(tree, "content");

    *ret_size = json_is_string(content) ? json_string_length(content) : 0;
    return json_is_string(content) ? json_string_value(content) : "";
}

/* Reads `digits` digits; moves `*text` behind them. */
static bool read_number(const char **text, unsigned digits, int *ret)
{
    int number = 0;

    for (unsigned i = 0; i < digits; i++) {
        char digit = (*text)[i];
        if (digit < '0' || digit > '9')
            return false;
        number = number * 10 + (digit - '0');
    }
    *text += digits;
    *ret = number;
    return true;
}

static bool read_expected(const char **text, const char *allowed)
{
    if (**text == '\0' || !strchr(allowed, **text))
        return false;
    (*text)++;
    return true;
}

static int read_fraction(const char **text)
{
    int microseconds = 0;
    int unit = MICROSECONDS / 10;

    if (!read_expected(text, ".,"))
        return 0;
    for (; **text >= '0' && **text <= '9'; (*text)++, unit /= 10)
        microseconds += (**text - '0') * unit;
    return microseconds;
}

/* Z, +hh, +hhmm, +hh:mm or nothing, to the end of the text. */
static bool read_offset(const char *text, int *ret_seconds)
{
    int hours = 0, minutes = 0;
    int sign = *text == '-' ? -1 : 1;

    *ret_seconds = 0;
    if (*text == '\0' || strcmp(text, "Z") == 0 || strcmp(text, "z") == 0)
        return true;
    if (!read_expected(&text, "+-") || !read_number(&text, 2, &hours))
        return false;
    if (*text != '\0') {
        (void) read_expected(&text, ":");
        if (!read_number(&text, 2, &minutes))
            return false;
    }
    *ret_seconds = sign * (hours * 3600 + minutes * 60);
    return *text == '\0';
}

static bool read_day(const char **text, struct tm *day)
{
    if (!read_number(text, 4, &day->tm_year) || !read_expected(text, "-") ||
        !read_number(text, 2, &day->tm_mon) || !read_expected(text, "-") ||
        !read_number(text, 2, &day->tm_mday))
        return false;
    day->tm_year -= 1900;
    day->tm_mon -= 1;
    return day->tm_mon >= 0 && day->tm_mon < 12 && day->tm_mday >= 1 && day->tm_mday <= 31;
}

static bool read_time_of_day(const char **text, struct tm *day)
{
    if (!read_expected(text, "Tt ") || !read_number(text, 2, &day->tm_hour) ||
        !read_expected(text, ":") || !read_number(text, 2, &day->tm_min))
        return false;
    return !read_expected(text, ":") || read_number(text, 2, &day->tm_sec);
}

int64_t date_read(const char *text)
{
    struct tm day = {0};
    int offset = 0;

    if (!text || !read_day(&text, &day))
        return 0;
    if (*text != '\0' && !read_time_of_day(&text, &day))
        return 0;
    int fraction = read_fraction(&text);
    if (!read_offset(text, &offset))
        return 0;
    return ((int64_t) timegm(&day) - offset) * MICROSECONDS + fraction;
}
