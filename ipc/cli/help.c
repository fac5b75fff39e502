/* help.c - help on everything and on one command. */
#include "ipc/cli/commands.h"

#include <string.h>

#define LINE_WIDTH 78

void help_print_overview(FILE *file)
{
    (void) fputs("usage: memsync [OPTION]... COMMAND [ARGUMENT]...\n\nCommands:\n", file);
    for (size_t i = 0; command_at(i); i++)
        (void) fprintf(file, "  %-13s %s\n", command_at(i)->name, command_at(i)->summary);
    (void) fputs("\nOptions:\n", file);
    options_print_help(file, OPTIONS_GLOBAL);
    (void) fputs("\n`memsync help COMMAND` tells more; memsync(1) has everything.\n"
                 "Exit codes: 0 done, 1 no result, 2 usage, 3 no agent, 4 refused, 5 corrupt.\n",
                 file);
}

/* Prints a paragraph in lines of at most LINE_WIDTH. */
static void print_wrapped(FILE *file, const char *text)
{
    size_t column = 0;

    while (*text) {
        size_t size = strcspn(text, " ");
        if (column > 0 && column + 1 + size > LINE_WIDTH) {
            (void) fputc('\n', file);
            column = 0;
        }
        (void) fprintf(file, "%s%.*s", column > 0 ? " " : "", (int) size, text);
        column += size + (column > 0);
        text += size + (text[size] == ' ');
    }
    (void) fputc('\n', file);
}

void help_print_command(FILE *file, const struct command *command)
{
    (void) fprintf(file, "usage: memsync %s%s%s%s\n\n%s.\n", command->name,
                   command->options ? " [OPTION]..." : "", *command->synopsis ? " " : "",
                   command->synopsis, command->summary);
    if (command->help) {
        (void) fputc('\n', file);
        print_wrapped(file, command->help);
    }
    if (command->options) {
        (void) fputs("\nOptions:\n", file);
        options_print_help(file, command->options);
    }
    (void) fputs("\nOptions of all commands:\n", file);
    options_print_help(file, OPTIONS_GLOBAL);
}

enum exit_code run_help(struct cli *cli)
{
    const struct options *options = &cli->options;

    if (options->argument_count < 2) {
        help_print_overview(stdout);
        return EXIT_DONE;
    }
    const char *name = options->arguments[1];
    const struct command *command = command_find(name);
    if (!command) {
        const char *nearest = command_nearest(name);
        complain(NULL, "there is no command \"%s\"%s%s%s", name, nearest ? "; did you mean " : "",
                 nearest ? nearest : "", nearest ? "?" : "");
        return EXIT_USAGE;
    }
    help_print_command(stdout, command);
    return EXIT_DONE;
}

enum exit_code run_version(struct cli *cli)
{
    (void) cli;
    (void) printf("memsync %s (protocol %d)\n", memsync_version(), MEMSYNC_PROTOCOL);
    return EXIT_DONE;
}
