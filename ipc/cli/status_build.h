/* status_build.h - how far the agent is with building its index, in a line. */
#ifndef MEMSYNC_IPC_CLI_STATUS_BUILD_H
#define MEMSYNC_IPC_CLI_STATUS_BUILD_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* Whether there is more to build, by the member `build` of a status (NULL: there is none). */
bool status_build_is_under_way(const json_t *build);

/* Prints "43 %, 430 of 1000 scopes, 43000 facts, 18000 facts/s, 12 s left" without a line end;
 * after the end how long it took. */
void status_build_print(FILE *file, const json_t *build);

#endif
