/* commands.h - the commands, one row each: what they are called, take and do. */
#ifndef MEMSYNC_IPC_CLI_COMMANDS_H
#define MEMSYNC_IPC_CLI_COMMANDS_H

#include "ipc/cli/cli.h"

struct command {
    const char *name;
    enum exit_code (*run)(struct cli *cli);
    uint64_t options;            /* enum option_bit, besides the global ones */
    size_t words_min, words_max; /* arguments after the name */
    const char *synopsis;        /* what follows the name */
    const char *summary;         /* one line */
    const char *help;            /* further lines, or NULL */
};

/* " [OPTION]..." behind the name of one that has options of its own, else "". */
const char *command_option_words(const struct command *command);

/* NULL when there is none of that name. */
const struct command *command_find(const char *name);

/* NULL past the last. */
const struct command *command_at(size_t i);

/* The name most like `name`, or NULL when none is like it. */
const char *command_nearest(const char *name);

/* help.c */
enum exit_code run_help(struct cli *cli);
enum exit_code run_version(struct cli *cli);
void help_print_overview(FILE *file, const struct screen *screen);
void help_print_command(FILE *file, const struct screen *screen, const struct command *command);

/* facts.c */
enum exit_code run_search(struct cli *cli);
enum exit_code run_list(struct cli *cli);
enum exit_code run_get(struct cli *cli);

/* memory.c */
enum exit_code run_memory(struct cli *cli);
enum exit_code run_summaries(struct cli *cli);
enum exit_code run_export(struct cli *cli);
enum exit_code run_context(struct cli *cli);

/* edit.c */
enum exit_code run_add(struct cli *cli);
enum exit_code run_update(struct cli *cli);
enum exit_code run_delete(struct cli *cli);

/* import.c */
enum exit_code run_import(struct cli *cli);

/* clear.c */
enum exit_code run_clear(struct cli *cli);
enum exit_code run_migrate(struct cli *cli);

/* agent.c */
enum exit_code run_ping(struct cli *cli);
enum exit_code run_capabilities(struct cli *cli);
enum exit_code run_scopes(struct cli *cli);

/* status.c */
enum exit_code run_status(struct cli *cli);

/* upkeep.c */
enum exit_code run_refresh(struct cli *cli);
enum exit_code run_verify(struct cli *cli);

/* watch.c */
enum exit_code run_events(struct cli *cli);

/* doctor.c */
enum exit_code run_doctor(struct cli *cli);

#endif
