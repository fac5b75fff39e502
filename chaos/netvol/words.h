/* chaos/netvol/words.h - the words of a command line, and values in answers. No state.
 */
#ifndef MEMSYNC_CHAOS_WORDS_H
#define MEMSYNC_CHAOS_WORDS_H

#include "core/text.h"

#define WORDS_MAX 16

/* Cuts `line` in place into words, which point into it. They are separated by blanks; one in double
 * quotes may hold blanks, and behind a backslash whatever follows, \n being a newline. False: too
 * many of them, or quotes that do not end. */
bool words_split(char *line, char *words[WORDS_MAX], unsigned *ret_count);

/* An error of the system by its name, as "EIO". */
bool words_errno(const char *name, int *ret);

/* Appends a JSON string. Bytes that are no UTF-8 become lone surrogates (U+DC80 and up), as Python
 * has them in names of files. */
void words_append_json(struct text *text, const char *bytes);

#endif
