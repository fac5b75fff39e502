/* options.h - the options of the command line; one table gives parser and help. */
#ifndef MEMSYNC_IPC_CLI_OPTIONS_H
#define MEMSYNC_IPC_CLI_OPTIONS_H

#include "core/compiler.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum option_bit {
    OPTION_ENDPOINT = 1 << 0,
    OPTION_JSON = 1 << 1,
    OPTION_TIMEOUT = 1 << 2,
    OPTION_COLOR = 1 << 3,
    OPTION_HELP = 1 << 4,
    OPTION_VERSION = 1 << 5,
    OPTION_USER = 1 << 6,
    OPTION_NO_USER = 1 << 7,
    OPTION_AGENT = 1 << 8,
    OPTION_TOP_K = 1 << 9,
    OPTION_CATEGORY = 1 << 10,
    OPTION_FRESHNESS = 1 << 11,
    OPTION_MAX_STALENESS = 1 << 12,
    OPTION_FULL = 1 << 13,
    OPTION_ALL = 1 << 14,
    OPTION_ACCEPT_VOLUME = 1 << 15,
    OPTION_WATCH = 1 << 16,
    OPTION_COUNT = 1 << 17,
    OPTION_LIMIT = 1 << 18,
    OPTION_OFFSET = 1 << 19,
    OPTION_INTERVAL = 1 << 20,
};
#define OPTION_LAST OPTION_INTERVAL

/* Every command takes these. */
#define OPTIONS_GLOBAL                                                                             \
    (OPTION_ENDPOINT | OPTION_JSON | OPTION_TIMEOUT | OPTION_COLOR | OPTION_HELP | OPTION_VERSION)
/* Whose memory. */
#define OPTIONS_SCOPE (OPTION_USER | OPTION_NO_USER | OPTION_AGENT)
/* How current the answer has to be. */
#define OPTIONS_FRESHNESS (OPTION_FRESHNESS | OPTION_MAX_STALENESS)

/* Texts point into argv or the environment. */
struct options {
    unsigned given; /* enum option_bit, those of the command line only */
    const char *endpoint;
    const char *color; /* "auto", "always", "never" */
    const char *user;
    const char *agent;
    const char *category;
    const char *freshness;
    long timeout_ms;
    long top_k;
    long max_staleness_ms;
    long count;
    long limit;
    long offset;
    long interval_ms;
    char *const *arguments; /* the command's name and what follows */
    size_t argument_count;
};

/* Reads the command line (which getopt reorders) and the environment. False: it is wrong, and that
 * has been said. */
MUST_CHECK bool options_parse(int argc, char **argv, struct options *ret);

/* The first option given that is not among `allowed`, as it is written, or NULL. */
const char *options_find_misplaced(const struct options *options, unsigned allowed);

/* Prints help for each of these, in lines of at most `width` columns. */
void options_print_help(FILE *file, unsigned bits, size_t width);

#endif
