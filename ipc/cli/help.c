/* help.c - help on everything and on one command. */
#include "ipc/cli/commands.h"

#include <string.h>

#define WIDTH_MAX 80
#define WIDTH_MIN 60
#define NAME_WIDTH 16

static size_t width_of(const struct screen *screen)
{
    if (!screen->is_terminal || screen->width > WIDTH_MAX)
        return WIDTH_MAX;
    return screen->width < WIDTH_MIN ? WIDTH_MIN : screen->width;
}

void help_print_overview(FILE *file, const struct screen *screen)
{
    size_t width = width_of(screen);

    (void) fputs("usage: memsync [OPTION]... COMMAND [ARGUMENT]...\n\nCommands:\n", file);
    for (size_t i = 0; command_at(i); i++) {
        (void) fprintf(file, "  %-*s ", NAME_WIDTH - 3, command_at(i)->name);
        screen_wrap(file, command_at(i)->summary, NAME_WIDTH, width);
    }
    (void) fputs("\nOptions:\n", file);
    options_print_help(file, OPTIONS_GLOBAL, width);
    (void) fputc('\n', file);
    screen_wrap(file, "`memsync help COMMAND` tells more; memsync(1) has everything.", 0, width);
    screen_wrap(file, "Exit codes: 0 done, 1 no result, 2 usage, 3 no agent, 4 refused, 5 corrupt.",
                0, width);
}

void help_print_command(FILE *file, const struct screen *screen, const struct command *command)
{
    size_t width = width_of(screen);

    (void) fprintf(file, "usage: memsync %s%s%s%s\n\n", command->name,
                   command_option_words(command), *command->synopsis ? " " : "", command->synopsis);
    (void) fprintf(file, "%s.\n", command->summary);
    if (command->help) {
        (void) fputc('\n', file);
        screen_wrap(file, command->help, 0, width);
    }
    if (command->options) {
        (void) fputs("\nOptions:\n", file);
        options_print_help(file, command->options, width);
    }
    (void) fputs("\nOptions of all commands:\n", file);
    options_print_help(file, OPTIONS_GLOBAL, width);
}

enum exit_code run_help(struct cli *cli)
{
    const struct options *options = &cli->options;

    if (options->argument_count < 2) {
        help_print_overview(stdout, &cli->screen);
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
    help_print_command(stdout, &cli->screen, command);
    return EXIT_DONE;
}

enum exit_code run_version(struct cli *cli)
{
    const char *form = cli->options.given & OPTION_JSON
                           ? "{\"name\":\"memsync\",\"version\":\"%s\",\"protocol\":%d}\n"
                           : "memsync %s (protocol %d)\n";

    (void) printf(form, memsync_version(), MEMSYNC_PROTOCOL);
    return EXIT_DONE;
}
