/* table.c - keeps the cells until the widths are known. */
#include "ipc/cli/table.h"

#include "ipc/cli/json_print.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define COLUMNS_MAX 12
#define GAP 2
#define LAST_WIDTH_MIN 12
#define TEXT_WIDTH_MIN 4

struct table {
    const struct screen *screen;
    const struct column *columns;
    size_t column_count;
    char **cells;
    size_t count;
    size_t capacity;
};

struct table *table_create(const struct screen *screen, const struct column *columns, size_t count)
{
    struct table *table = count > 0 && count <= COLUMNS_MAX ? calloc(1, sizeof *table) : NULL;

    if (table) {
        table->screen = screen;
        table->columns = columns;
        table->column_count = count;
    }
    return table;
}

void table_destroy(struct table **table)
{
    if (!*table)
        return;
    for (size_t i = 0; i < (*table)->count; i++)
        free((*table)->cells[i]);
    free((*table)->cells);
    free(*table);
    *table = NULL;
}

/* Out of memory, a table is short of its last cells, which is better than no output. */
static void add_sized(struct table *table, const char *bytes, size_t size)
{
    if (table->count == table->capacity) {
        size_t capacity = table->capacity ? 2 * table->capacity : 64;
        char **cells = realloc(table->cells, capacity * sizeof *cells);
        if (!cells)
            return;
        table->cells = cells;
        table->capacity = capacity;
    }
    char *cell = screen_line(bytes, size, table->screen->is_terminal);
    if (cell)
        table->cells[table->count++] = cell;
}

void table_add(struct table *table, const char *text)
{
    text = text ? text : "";
    add_sized(table, text, strlen(text));
}

void table_add_format(struct table *table, const char *format, ...)
{
    char text[200];
    va_list arguments;

    va_start(arguments, format);
    (void) vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    table_add(table, text);
}

void table_add_json(struct table *table, const json_t *value)
{
    char number[JSON_NUMBER_BYTES];

    if (json_is_string(value))
        add_sized(table, json_string_value(value), json_string_length(value));
    else
        table_add(table, json_scalar_text(value, number));
}

static void measure(const struct table *table, size_t widths[])
{
    for (size_t i = 0; i < table->column_count; i++)
        widths[i] = screen_width(table->columns[i].title);
    for (size_t i = 0; i < table->count; i++) {
        size_t width = screen_width(table->cells[i]);
        size_t column = i % table->column_count;
        if (width > widths[column])
            widths[column] = width;
    }
}

/* Takes from one column until `excess` is gone or the column has only `least`. */
static void take_from(size_t *width, size_t least, size_t *excess)
{
    size_t spare = *width > least ? *width - least : 0;
    size_t taken = spare < *excess ? spare : *excess;

    *width -= taken;
    *excess -= taken;
}

/* The widest column that has more than `least`: of those of text before the last, or of all. */
static size_t *find_widest(const struct table *table, size_t widths[], size_t least, bool of_all)
{
    size_t *widest = NULL;

    for (size_t i = 0; i < table->column_count; i++) {
        bool is_last = i + 1 == table->column_count;
        bool counts = of_all || (!is_last && !table->columns[i].is_number);
        if (counts && widths[i] > (widest ? *widest : least))
            widest = &widths[i];
    }
    return widest;
}

/* The last column gives way first, then the others of text, the widest first, and only then all. */
static void squeeze(const struct table *table, size_t widths[])
{
    size_t total = GAP * (table->column_count - 1);
    size_t *widest;

    for (size_t i = 0; i < table->column_count; i++)
        total += widths[i];
    size_t excess = total > table->screen->width ? total - table->screen->width : 0;
    take_from(&widths[table->column_count - 1], LAST_WIDTH_MIN, &excess);
    while (excess > 0 && (widest = find_widest(table, widths, TEXT_WIDTH_MIN, false)))
        take_from(widest, *widest - 1, &excess);
    while (excess > 0 && (widest = find_widest(table, widths, 1, true)))
        take_from(widest, *widest - 1, &excess);
}

static void print_spaces(size_t count)
{
    (void) printf("%*s", (int) count, "");
}

static void print_cell(const struct table *table, size_t column, const char *text, size_t width,
                       enum style style)
{
    bool is_last = column + 1 == table->column_count;
    size_t used;
    size_t size = screen_fit(text, width, &used);
    bool is_cut = text[size] != '\0';

    if (is_cut)
        size = screen_fit(text, width - 1, &used);
    if (table->columns[column].is_number)
        print_spaces(width - used - is_cut);
    (void) printf("%s%.*s%s%s", screen_style(table->screen, style), (int) size, text,
                  is_cut ? "…" : "", screen_end(table->screen));
    if (!is_last)
        print_spaces((table->columns[column].is_number ? 0 : width - used - is_cut) + GAP);
}

static void print_for_people(const struct table *table)
{
    size_t widths[COLUMNS_MAX];

    measure(table, widths);
    squeeze(table, widths);
    for (size_t i = 0; i < table->column_count; i++)
        print_cell(table, i, table->columns[i].title, widths[i], STYLE_FAINT);
    (void) putchar('\n');
    for (size_t i = 0; i < table->count; i++) {
        size_t column = i % table->column_count;
        print_cell(table, column, table->cells[i], widths[column], table->columns[column].style);
        if (column + 1 == table->column_count)
            (void) putchar('\n');
    }
}

static void print_for_programs(const struct table *table)
{
    for (size_t i = 0; i < table->count; i++) {
        bool is_last = (i + 1) % table->column_count == 0;
        (void) printf("%s%c", table->cells[i], is_last ? '\n' : '\t');
    }
}

void table_print(const struct table *table)
{
    assert(table->column_count > 0);
    if (table->count == 0)
        return;
    if (table->screen->is_terminal)
        print_for_people(table);
    else
        print_for_programs(table);
}
