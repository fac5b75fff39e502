/* output.h - a file that is there as a whole or not at all. */
#ifndef MEMSYNC_IPC_CLI_OUTPUT_H
#define MEMSYNC_IPC_CLI_OUTPUT_H

#include "ipc/cli/cli.h"

struct output;

/* Opens what -o says, or standard output without it and with "-". NULL after a complaint. What is
 * no plain file, a pipe for instance, is written to directly. */
struct output *output_open(const struct cli *cli);

/* Where to print to. */
FILE *output_file(const struct output *output);

/* Makes the file durable and puts it in its place, in the mode of the one that was there. False,
 * after a complaint, when it cannot be: what was there before is there still. Clears the caller's
 * pointer. */
MUST_CHECK bool output_finish(const struct cli *cli, struct output **output);

/* Throws away what was not finished; NULL is fine. */
void output_drop(struct output **output);

#define AUTO_OUTPUT CLEANUP(output_drop)

#endif
