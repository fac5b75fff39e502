/* json_text.h - JSON as text: what a tree of jansson's cannot hold.
 *
 * Facts may carry integers of any size and escapes of lone surrogates, as their other writers do.
 * The texts here come from the client library, which has checked that they are JSON.
 */
#ifndef MEMSYNC_IPC_CLI_JSON_TEXT_H
#define MEMSYNC_IPC_CLI_JSON_TEXT_H

#include "core/compiler.h"

#include <stddef.h>
#include <stdio.h>

/* Reads a text into a tree for showing it: numbers that jansson refuses become strings of their
 * digits, lone surrogates and the NULs of names become U+FFFD. NULL when that does not help either.
 * The caller owns it. */
MUST_CHECK json_t *json_text_load(const char *text);

/* Where the value of an object's member stands in the text, or NULL. */
const char *json_text_member(const char *text, const char *name, size_t *ret_size);

/* Prints a text indented by two columns a level, every value as it is spelt, and a newline. */
void json_text_print(FILE *file, const char *text, size_t size);

#endif
