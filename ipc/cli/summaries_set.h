/* summaries_set.h - replaces summaries by what --set and --set-file say. */
#ifndef MEMSYNC_IPC_CLI_SUMMARIES_SET_H
#define MEMSYNC_IPC_CLI_SUMMARIES_SET_H

#include "ipc/cli/cli.h"

/* Checks the sections' names against those that every memory may have and those that this one has,
 * writes, and tells what was written. Members of a section beside its text and time stay. */
enum exit_code summaries_set(struct cli *cli);

#endif
