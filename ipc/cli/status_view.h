/* status_view.h - the main numbers of a status, with what they grew by since the one before. */
#ifndef MEMSYNC_IPC_CLI_STATUS_VIEW_H
#define MEMSYNC_IPC_CLI_STATUS_VIEW_H

#include "ipc/cli/screen.h"

#include <jansson.h>

/* All zero: nothing was taken yet. */
struct status_view {
    json_t *now;    /* NULL: the last look failed */
    json_t *before; /* of the same process, or NULL */
    double now_s;
    double before_s;
};

/* The next status, NULL where none came. */
void status_view_take(struct status_view *view, json_t *status);
void status_view_clear(struct status_view *view);

/* One line of name=value on standard output; names ending in _s are per second. */
void status_view_print_line(const struct status_view *view);

/* Draws over a terminal whose cursor can be moved; keeps to its size. `trouble` tells why there is
 * no status, or is NULL. */
void status_view_draw(const struct status_view *view, const struct screen *screen,
                      const char *trouble);

#define AUTO_STATUS_VIEW CLEANUP(status_view_clear)

#endif
