/* table.h - rows and columns: aligned, titled and cut to the width on a terminal; else one line per
 * row with tabs between the cells, whole and without titles, for other programs. */
#ifndef MEMSYNC_IPC_CLI_TABLE_H
#define MEMSYNC_IPC_CLI_TABLE_H

#include "ipc/cli/screen.h"

#include <jansson.h>

struct column {
    const char *title;
    bool is_number; /* to the right */
    enum style style;
};

/* When the terminal is narrow, the last column gives way first, then the widest ones. */
struct table;

/* `screen` and `columns` must outlive it. NULL: no memory, or more columns than a table has, or
 * none. */
MUST_CHECK struct table *table_create(const struct screen *screen, const struct column *columns,
                                      size_t count);
void table_destroy(struct table **table);

/* Appends a cell; rows fill up from left to right. Strings are made harmless, null and absent ones
 * are empty. */
void table_add(struct table *table, const char *text);
void table_add_format(struct table *table, const char *format, ...) PRINTF(2, 3);
void table_add_json(struct table *table, const json_t *value);

/* Prints it to standard output; nothing without rows. */
void table_print(const struct table *table);

#define AUTO_TABLE CLEANUP(table_destroy)

#endif
