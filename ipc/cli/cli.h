/* cli.h - what the files of the `memsync` command share.
 *
 * The command talks to the agent through memsync.h alone. One thread; a signal handler interrupts
 * the client's waits.
 */
#ifndef MEMSYNC_IPC_CLI_CLI_H
#define MEMSYNC_IPC_CLI_CLI_H

#include "core/compiler.h"
#include "ipc/cli/options.h"
#include "ipc/cli/screen.h"
#include "ipc/memsync.h"

#include <stdbool.h>

/* What the command exits with; described in memsync(1). */
enum exit_code {
    EXIT_DONE = 0,
    EXIT_NOTHING = 1, /* no result, or a check found something */
    EXIT_USAGE = 2,
    EXIT_NO_AGENT = 3,
    EXIT_REFUSED = 4,
    EXIT_CORRUPT = 5,
    EXIT_SIGNAL = 128, /* plus the signal's number */
};

struct command;

struct cli {
    struct options options;
    struct screen screen;
    const struct command *command;
    memsync_client *client; /* NULL until the first request */
};

/* Prints "memsync COMMAND: message" on standard error. `command` may be NULL. */
void complain(const struct command *command, const char *format, ...) PRINTF(2, 3);

/* The signal that asked us to stop, 0 while there was none. */
int stop_signal(void);

/* From now on a signal ends the client's waits. */
void stop_interrupts(memsync_client *client);

#endif
