/* options.h - the options of the command line; one table gives parser and help. */
#ifndef MEMSYNC_IPC_CLI_OPTIONS_H
#define MEMSYNC_IPC_CLI_OPTIONS_H

#include "core/compiler.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* More than an int has bits, which the compilers' C allows. */
enum option_bit {
    OPTION_ENDPOINT = UINT64_C(1) << 0,
    OPTION_JSON = UINT64_C(1) << 1,
    OPTION_TIMEOUT = UINT64_C(1) << 2,
    OPTION_COLOR = UINT64_C(1) << 3,
    OPTION_HELP = UINT64_C(1) << 4,
    OPTION_VERSION = UINT64_C(1) << 5,
    OPTION_USER = UINT64_C(1) << 6,
    OPTION_NO_USER = UINT64_C(1) << 7,
    OPTION_AGENT = UINT64_C(1) << 8,
    OPTION_TOP_K = UINT64_C(1) << 9,
    OPTION_CATEGORY = UINT64_C(1) << 10,
    OPTION_FRESHNESS = UINT64_C(1) << 11,
    OPTION_MAX_STALENESS = UINT64_C(1) << 12,
    OPTION_FULL = UINT64_C(1) << 13,
    OPTION_ALL = UINT64_C(1) << 14,
    OPTION_ACCEPT_VOLUME = UINT64_C(1) << 15,
    OPTION_WATCH = UINT64_C(1) << 16,
    OPTION_COUNT = UINT64_C(1) << 17,
    OPTION_LIMIT = UINT64_C(1) << 18,
    OPTION_OFFSET = UINT64_C(1) << 19,
    OPTION_INTERVAL = UINT64_C(1) << 20,
    OPTION_YES = UINT64_C(1) << 21,
    OPTION_CONTENT = UINT64_C(1) << 22,
    OPTION_CONFIDENCE = UINT64_C(1) << 23,
    OPTION_TOPIC = UINT64_C(1) << 24,
    OPTION_SOURCE = UINT64_C(1) << 25,
    OPTION_SOURCE_ERROR = UINT64_C(1) << 26,
    OPTION_EXPECT_REVISION = UINT64_C(1) << 27,
    OPTION_OUTPUT = UINT64_C(1) << 28,
    OPTION_DRY_RUN = UINT64_C(1) << 29,
    OPTION_SET = UINT64_C(1) << 30,
    OPTION_SET_FILE = UINT64_C(1) << 31,
    OPTION_ERASE = UINT64_C(1) << 32,
};
#define OPTION_LAST OPTION_ERASE

/* Every command takes these. */
#define OPTIONS_GLOBAL                                                                             \
    (OPTION_ENDPOINT | OPTION_JSON | OPTION_TIMEOUT | OPTION_COLOR | OPTION_HELP | OPTION_VERSION)
/* Whose memory. */
#define OPTIONS_SCOPE (OPTION_USER | OPTION_NO_USER | OPTION_AGENT)
/* How current the answer has to be. */
#define OPTIONS_FRESHNESS (OPTION_FRESHNESS | OPTION_MAX_STALENESS)

/* What a new fact is. */
#define OPTIONS_FACT (OPTION_CATEGORY | OPTION_CONFIDENCE | OPTION_TOPIC | OPTION_SOURCE_ERROR)

#define OPTION_VALUES_MAX 100

/* The values of an option that may be given again and again. */
struct option_list {
    const char *values[OPTION_VALUES_MAX];
    size_t count;
};

/* Texts point into argv or the environment. */
struct options {
    uint64_t given; /* enum option_bit, those of the command line only */
    const char *endpoint;
    const char *color; /* "auto", "always", "never" */
    const char *user;
    const char *agent;
    const char *category;
    const char *freshness;
    const char *content;
    const char *source;
    const char *source_error;
    const char *output;
    const char *set_file;
    struct option_list topics; /* without empty ones */
    struct option_list sets;   /* SECTION=TEXT, as given */
    double confidence;
    long expected_revision;
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
const char *options_find_misplaced(const struct options *options, uint64_t allowed);

/* The words behind the command's name as one text, to be freed; NULL when out of memory. */
char *options_join_words(const struct options *options);

/* Prints help for each of these, in lines of at most `width` columns. */
void options_print_help(FILE *file, uint64_t bits, size_t width);

#endif
