/* agent/options.h - the command line of memsyncd, and the configuration that comes out of it.
 *
 * options_parse() understands argv; options_load_config() puts file, environment and command line
 * together (the later ones win) and checks the whole. Both only report: printing and exit codes
 * are the caller's.
 */
#ifndef MEMSYNC_AGENT_OPTIONS_H
#define MEMSYNC_AGENT_OPTIONS_H

#include "agent/config.h"

/* Read when there is no --config; may be missing then. */
#define OPTIONS_CONFIG_PATH "/etc/memsyncd/memsyncd.yaml"

enum options_exit {
    OPTIONS_EXIT_OK = 0,
    OPTIONS_EXIT_FAILURE = 1, /* the configuration is wrong, or the start failed */
    OPTIONS_EXIT_USAGE = 2,   /* the command line is wrong */
};

enum options_action {
    OPTIONS_RUN,
    OPTIONS_CHECK_CONFIG,
    OPTIONS_PRINT_CONFIG,
    OPTIONS_PRINT_SAMPLE_CONFIG,
    OPTIONS_PRINT_VERSION,
    OPTIONS_PRINT_HELP,
};

/* The texts point into argv; NULL: not given. */
struct options {
    enum options_action action; /* the last one that was given */
    const char *config_path;
    const char *volume;
    const char *index;
    const char *endpoint;
    const char *log_level;
};

/* Understands argv, which getopt may reorder, and checks each value by itself. STATUS_INVALID with
 * a message for the user; the exit code is OPTIONS_EXIT_USAGE then. Not thread-safe: getopt has
 * state of its own. */
MUST_CHECK enum status options_parse(int argc, char **argv, struct options *ret,
                                     struct error *error);

/* The configuration in force: defaults, the file, `environment`, the command line; checked by
 * config_check(). A relative --volume is taken against the working directory. Called again, with
 * the same options, at SIGHUP. Warnings are appended, a line each, and
 * so are all `errors` that can be told at once, the first of which is in `error` as well. The
 * caller owns `ret`. */
MUST_CHECK enum status options_load_config(const struct options *options, char *const *environment,
                                           struct config **ret, struct text *warnings,
                                           struct text *errors, struct error *error);

/* Appends what --help prints. */
void options_write_help(struct text *text);

/* Appends what --version prints. */
void options_write_version(struct text *text);

#endif
