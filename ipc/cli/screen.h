/* screen.h - what standard output is, and text that is safe and measured on it.
 *
 * Facts are other people's text. Nothing of it reaches a terminal as a control sequence: control
 * characters, C1 included, and those that turn the writing direction are shown as escapes.
 */
#ifndef MEMSYNC_IPC_CLI_SCREEN_H
#define MEMSYNC_IPC_CLI_SCREEN_H

#include "core/compiler.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum style {
    STYLE_PLAIN,
    STYLE_STRONG,
    STYLE_FAINT,
    STYLE_GOOD,
    STYLE_WARNING,
    STYLE_BAD,
    STYLE_KEY
};

struct screen {
    bool is_terminal;
    bool has_color;
    bool can_redraw; /* a terminal whose cursor can be moved */
    size_t width;    /* columns; of a terminal */
    size_t height;   /* rows */
};

/* Looks at standard output, $NO_COLOR, $TERM, $COLUMNS and $LINES. `color` is auto, always or
 * never. Sets the locale for character widths. */
void screen_setup(struct screen *screen, const char *color);

/* What switches a style on, "" without colour; and what ends it. */
const char *screen_style(const struct screen *screen, enum style style);
const char *screen_end(const struct screen *screen);

/* A harmless copy of UTF-8 text, to be freed. On one line: line ends and tabs become spaces
 * (`for_people`) or \n and \t. NULL when out of memory. */
char *screen_line(const char *bytes, size_t size, bool for_people);

/* A harmless copy that keeps its line ends and tabs. */
char *screen_block(const char *bytes, size_t size);

/* Columns that a harmless text takes. */
size_t screen_width(const char *text);

/* How many bytes of the text fit into `columns`. */
size_t screen_fit(const char *text, size_t columns, size_t *ret_columns);

/* Prints a harmless line in lines of at most `width` columns, broken at spaces, in the middle of a
 * word only where it is too long for a line. It begins in column `indent`, where the cursor is, and
 * goes on there; a newline ends it. */
void screen_wrap(FILE *file, const char *text, size_t indent, size_t width);

#endif
