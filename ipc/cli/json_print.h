/* json_print.h - JSON for people. */
#ifndef MEMSYNC_IPC_CLI_JSON_PRINT_H
#define MEMSYNC_IPC_CLI_JSON_PRINT_H

#include "ipc/cli/screen.h"

#include <jansson.h>

#define JSON_NUMBER_BYTES 40

/* Text of a number, a boolean or a string; "" for everything else. `number` is scratch space. Reals
 * get the fewest digits that read back as the same number. */
const char *json_scalar_text(const json_t *value, char number[JSON_NUMBER_BYTES]);

/* Prints an object as lines of "name  value", its objects as sections. Strings are made harmless.
 */
void json_print_tree(const struct screen *screen, json_t *object, unsigned indent);

#endif
