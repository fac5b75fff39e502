/* status_view.h - the main numbers of a status, with what they grew by since the one before. */
#ifndef MEMSYNC_IPC_CLI_STATUS_VIEW_H
#define MEMSYNC_IPC_CLI_STATUS_VIEW_H

#include "ipc/cli/screen.h"
#include "ipc/cli/status_numbers.h"

/* One line of name=value on standard output; names ending in _s are per second. */
void status_view_print_line(const struct status_numbers *numbers);

/* Draws over a terminal whose cursor can be moved; keeps to its size. `trouble` tells why there is
 * no status, or is NULL. */
void status_view_draw(const struct status_numbers *numbers, const struct screen *screen,
                      const char *trouble);

#endif
