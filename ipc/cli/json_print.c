/* json_print.c - trees of names and values. */
#include "ipc/cli/json_print.h"

#include <stdio.h>
#include <string.h>

static void format_real(double value, char number[JSON_NUMBER_BYTES])
{
    for (int digits = 15; digits <= 17; digits++) {
        (void) snprintf(number, JSON_NUMBER_BYTES, "%.*g", digits, value);
        if (strtod(number, NULL) == value)
            break;
    }
    if (!strpbrk(number, ".eE")) /* a real stays one */
        memcpy(number + strlen(number), ".0", sizeof ".0");
}

const char *json_scalar_text(const json_t *value, char number[JSON_NUMBER_BYTES])
{
    switch (value ? json_typeof(value) : JSON_NULL) {
    case JSON_STRING:
        return json_string_value(value);
    case JSON_INTEGER:
        (void) snprintf(number, JSON_NUMBER_BYTES, "%" JSON_INTEGER_FORMAT,
                        json_integer_value(value));
        return number;
    case JSON_REAL:
        format_real(json_real_value(value), number);
        return number;
    case JSON_TRUE:
        return "true";
    case JSON_FALSE:
        return "false";
    default:
        return "";
    }
}

static void print_scalar(const json_t *value)
{
    char number[JSON_NUMBER_BYTES];

    if (json_is_string(value)) {
        AUTO_FREE char *line =
            screen_line(json_string_value(value), json_string_length(value), true);
        (void) fputs(line ? line : "", stdout);
    } else if (json_is_null(value)) {
        (void) fputs("-", stdout);
    } else {
        (void) fputs(json_scalar_text(value, number), stdout);
    }
}

static void print_key(const struct screen *screen, const char *name, unsigned indent, size_t width)
{
    AUTO_FREE char *line = screen_line(name, strlen(name), true);
    size_t used = screen_width(line ? line : "");

    (void) printf("%*s%s%s%s%*s", (int) indent, "", screen_style(screen, STYLE_KEY),
                  line ? line : "", screen_end(screen), width > used ? (int) (width - used) : 0,
                  "");
}

/* A value that JSON lacks, e.g. {"$date": "2026-02-10"}, or NULL. */
static json_t *special_value(json_t *value)
{
    void *member = json_object_size(value) == 1 ? json_object_iter(value) : NULL;

    if (!member || json_object_iter_key(member)[0] != '$')
        return NULL;
    json_t *inner = json_object_iter_value(member);
    return json_is_object(inner) || json_is_array(inner) ? NULL : inner;
}

static bool is_section(json_t *value)
{
    return (json_is_object(value) && !special_value(value)) ||
           (json_is_array(value) && json_is_object(json_array_get(value, 0)));
}

static void print_list(const struct screen *screen, const json_t *array, unsigned indent)
{
    size_t count = json_array_size(array);

    for (size_t i = 0; i < count; i++) {
        json_t *item = json_array_get(array, i);
        if (json_is_object(item)) {
            if (i > 0)
                (void) putchar('\n');
            json_print_tree(screen, item, indent);
        } else {
            (void) fputs(i > 0 ? ", " : "", stdout);
            print_scalar(item);
        }
    }
}

static size_t widest_name(json_t *object)
{
    const char *name;
    json_t *member;
    size_t widest = 0;

    json_object_foreach(object, name, member)
    {
        size_t width = screen_width(name);
        if (!is_section(member) && width > widest)
            widest = width;
    }
    return widest;
}

static void print_member(const struct screen *screen, json_t *value, unsigned indent)
{
    json_t *special = special_value(value);

    if (special)
        print_scalar(special);
    else if (json_is_object(value))
        json_print_tree(screen, value, indent);
    else if (json_is_array(value))
        print_list(screen, value, indent);
    else
        print_scalar(value);
}

void json_print_tree(const struct screen *screen, json_t *object, unsigned indent)
{
    size_t widest = widest_name(object);
    const char *name;
    json_t *member;

    json_object_foreach(object, name, member)
    {
        bool has_lines = is_section(member);
        print_key(screen, name, indent, has_lines ? 0 : widest + 2);
        if (has_lines)
            (void) putchar('\n');
        print_member(screen, member, indent + 2);
        if (!has_lines)
            (void) putchar('\n');
    }
}
