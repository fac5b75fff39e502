/* progress.h - what the command is doing, for whoever waits at a terminal.
 *
 * A thread draws one line on standard error once a step has taken long enough to be asked about,
 * and counts its seconds. Where standard error is no terminal, and with --json, nothing is drawn
 * and no thread is made.
 */
#ifndef MEMSYNC_IPC_CLI_PROGRESS_H
#define MEMSYNC_IPC_CLI_PROGRESS_H

#include "ipc/cli/cli.h"

struct progress;

/* Begins to tell of a step; `step` must outlive it, e.g. "waiting for the agent". NULL when nothing
 * is to be drawn, which progress_end() takes. */
struct progress *progress_begin(const struct cli *cli, const char *step);

/* Takes the line away, waits for the thread, and clears the caller's pointer. Nothing else may be
 * printed on standard error between the two calls. */
void progress_end(struct progress **progress);

#define AUTO_PROGRESS CLEANUP(progress_end)

#endif
