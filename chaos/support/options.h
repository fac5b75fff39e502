/* chaos/support/options.h - values of the options of a program. One that cannot be is told on
 * standard error, with what it must be, and false is returned.
 */
#ifndef MEMSYNC_CHAOS_OPTIONS_H
#define MEMSYNC_CHAOS_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#define OPTION_SECONDS_MOST 1e7
#define OPTION_WRONG 2 /* the exit code of wrong usage */

bool option_count(const char *option, const char *text, uint64_t least, uint64_t most,
                  uint64_t *ret);
bool option_unsigned(const char *option, const char *text, unsigned least, unsigned most,
                     unsigned *ret);
bool option_seconds(const char *option, const char *text, double least, double *ret);

/* "--OPTION TEXT: must be ALLOWED"; always false. */
bool option_refuse(const char *option, const char *text, const char *allowed);

/* Is there no word behind the options, of which getopt() has found `next` words? */
bool option_no_rest(int argc, char **argv, int next);

#endif
