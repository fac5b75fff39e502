/* chaos/netvol/commands.h - what can be said over the control socket: a line in, a line out.
 *
 * README.md in this folder lists the commands. Called by the main thread.
 */
#ifndef MEMSYNC_CHAOS_COMMANDS_H
#define MEMSYNC_CHAOS_COMMANDS_H

#include "chaos/netvol/node.h"

struct volume {
    struct node nodes[NODES_MAX];
    unsigned count;
};

/* Does what a line says, which is cut up, and appends "ok ..." or "error ...", without a newline.
 */
void commands_run(struct volume *volume, char *line, struct text *reply);

#endif
