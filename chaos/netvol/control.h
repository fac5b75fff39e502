/* chaos/netvol/control.h - the control socket: takes lines, has them done, and sends the answers.
 *
 * One thread serves all who are connected; no command waits for anything.
 */
#ifndef MEMSYNC_CHAOS_CONTROL_H
#define MEMSYNC_CHAOS_CONTROL_H

#include "chaos/netvol/commands.h"

/* Listens at a path, where nobody else may be listening. An errno, or 0. */
MUST_CHECK int control_listen(const char *path, int *ret_fd);

/* Serves until `stop_fd` can be read from, `end_fd` (-1: none) has come to its end, or all nodes
 * have ended by themselves, as when somebody else takes their mounts away: false. */
MUST_CHECK bool control_serve(struct volume *volume, int listen_fd, int stop_fd, int end_fd);

#endif
