/* json_print.c - jansson's own printer spells 0.9 with seventeen digits; this one does not. */
#include "ipc/cli/json_print.h"

#include <string.h>

static void format_real(double value, char number[JSON_NUMBER_BYTES])
{
    for (int digits = 15; digits <= 17; digits++) {
        (void) snprintf(number, JSON_NUMBER_BYTES, "%.*g", digits, value);
        if (strtod(number, NULL) == value)
            break;
    }
    if (!strpbrk(number, ".eE")) /* a real stays one */
        (void) strcat(number, ".0");
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

static void print_string(FILE *file, const json_t *value)
{
    char *text = json_dumps(value, JSON_ENCODE_ANY);

    if (text)
        (void) fputs(text, file);
    free(text);
}

static void print_name(FILE *file, const char *name)
{
    AUTO_JSON json_t *value = json_string_nocheck(name);

    print_string(file, value);
    (void) fputs(": ", file);
}

static void print_value(FILE *file, json_t *value, int indent);

static void print_array(FILE *file, json_t *array, int indent)
{
    size_t count = json_array_size(array);

    (void) fputc('[', file);
    for (size_t i = 0; i < count; i++) {
        (void) fprintf(file, "%s\n%*s", i > 0 ? "," : "", indent + 2, "");
        print_value(file, json_array_get(array, i), indent + 2);
    }
    if (count > 0)
        (void) fprintf(file, "\n%*s", indent, "");
    (void) fputc(']', file);
}

static void print_object(FILE *file, json_t *object, int indent)
{
    const char *name;
    json_t *member;
    bool is_first = true;

    (void) fputc('{', file);
    json_object_foreach(object, name, member)
    {
        (void) fprintf(file, "%s\n%*s", is_first ? "" : ",", indent + 2, "");
        print_name(file, name);
        print_value(file, member, indent + 2);
        is_first = false;
    }
    if (!is_first)
        (void) fprintf(file, "\n%*s", indent, "");
    (void) fputc('}', file);
}

static void print_value(FILE *file, json_t *value, int indent)
{
    char number[JSON_NUMBER_BYTES];

    if (json_is_object(value))
        print_object(file, value, indent);
    else if (json_is_array(value))
        print_array(file, value, indent);
    else if (json_is_string(value))
        print_string(file, value);
    else if (json_is_null(value))
        (void) fputs("null", file);
    else
        (void) fputs(json_scalar_text(value, number), file);
}

void json_print_document(FILE *file, json_t *value)
{
    print_value(file, value, 0);
    (void) fputc('\n', file);
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

static bool holds_objects(const json_t *value)
{
    return json_is_array(value) && json_is_object(json_array_get(value, 0));
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
        if (!json_is_object(member) && !holds_objects(member) && width > widest)
            widest = width;
    }
    return widest;
}

void json_print_tree(const struct screen *screen, json_t *object, unsigned indent)
{
    size_t widest = widest_name(object);
    const char *name;
    json_t *member;

    json_object_foreach(object, name, member)
    {
        bool is_section = json_is_object(member) || holds_objects(member);
        print_key(screen, name, indent, is_section ? 0 : widest + 2);
        if (is_section)
            (void) putchar('\n');
        if (json_is_object(member))
            json_print_tree(screen, member, indent + 2);
        else if (json_is_array(member))
            print_list(screen, member, indent + 2);
        else
            print_scalar(member);
        if (!is_section)
            (void) putchar('\n');
    }
}
