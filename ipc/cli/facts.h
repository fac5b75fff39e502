/* facts.h - how facts are shown. */
#ifndef MEMSYNC_IPC_CLI_FACTS_H
#define MEMSYNC_IPC_CLI_FACTS_H

#include "ipc/cli/cli.h"

#include <jansson.h>

/* A table of facts, in their order. */
void facts_print_table(const struct screen *screen, const json_t *facts);

/* Complains about each of a list of {path, problem}: "WHAT PATH: PROBLEM". */
void complain_about_files(const struct cli *cli, const char *what, const json_t *files);

#endif
