/* main.c - the `memsync` command: options in, one command run, an exit code out. */
#include "ipc/cli/commands.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>

static volatile sig_atomic_t caught_signal;
static memsync_client *volatile waiting_client;

/* The second signal of a kind kills, should the first get nowhere. */
static void on_signal(int number)
{
    caught_signal = number;
    memsync_interrupt(waiting_client);
}

int stop_signal(void)
{
    return caught_signal;
}

void stop_interrupts(memsync_client *client)
{
    waiting_client = client;
}

static void catch_signals(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int) SA_RESETHAND};

    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
        struct sigaction before;
        if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            (void) sigaction(numbers[i], &action, NULL);
    }
}

void complain(const struct command *command, const char *format, ...)
{
    char message[2000];
    va_list arguments;

    va_start(arguments, format);
    (void) vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    AUTO_FREE char *line = screen_line(message, strlen(message), true);
    (void) fprintf(stderr, "memsync%s%s: %s\n", command ? " " : "", command ? command->name : "",
                   line ? line : "");
}

static enum exit_code refuse_command(const char *name)
{
    const char *nearest = command_nearest(name);

    complain(NULL, "there is no command \"%s\"%s%s%s", name, nearest ? "; did you mean " : "",
             nearest ? nearest : " (see `memsync help`)", nearest ? "?" : "");
    return EXIT_USAGE;
}

/* The argument's name in the synopsis, without what marks it as optional or repeated. */
static void complain_about_missing(const struct command *command, size_t words)
{
    const char *name = command->synopsis;

    while (words-- > 0)
        name += strcspn(name, " ") + 1;
    complain(command, "%.*s is missing; usage: memsync %s%s %s", (int) strcspn(name, " ."), name,
             command->name, command_option_words(command), command->synopsis);
}

static enum exit_code check_usage(const struct cli *cli)
{
    const struct command *command = cli->command;
    size_t words = cli->options.argument_count - 1;

    const char *misplaced =
        options_find_misplaced(&cli->options, command->options | OPTIONS_GLOBAL);
    if (misplaced) {
        complain(command, "takes no option --%s", misplaced);
        return EXIT_USAGE;
    }
    if (words < command->words_min) {
        complain_about_missing(command, words);
        return EXIT_USAGE;
    }
    if (words > command->words_max) {
        complain(command, "takes no \"%s\"; usage: memsync %s%s%s%s",
                 cli->options.arguments[command->words_max + 1], command->name,
                 command_option_words(command), *command->synopsis ? " " : "", command->synopsis);
        return EXIT_USAGE;
    }
    return EXIT_DONE;
}

static enum exit_code run_command(struct cli *cli)
{
    const struct options *options = &cli->options;

    if (options->given & OPTION_VERSION)
        return run_version(cli);
    if (options->argument_count == 0) {
        bool is_wanted = options->given & OPTION_HELP;
        help_print_overview(is_wanted ? stdout : stderr, &cli->screen);
        return is_wanted ? EXIT_DONE : EXIT_USAGE;
    }
    cli->command = command_find(options->arguments[0]);
    if (!cli->command)
        return refuse_command(options->arguments[0]);
    if (options->given & OPTION_HELP) {
        help_print_command(stdout, &cli->screen, cli->command);
        return EXIT_DONE;
    }
    enum exit_code code = check_usage(cli);
    return code == EXIT_DONE ? cli->command->run(cli) : code;
}

int main(int argc, char **argv)
{
    struct cli cli = {0};

    screen_setup(&cli.screen, "auto");
    if (!options_parse(argc, argv, &cli.options))
        return EXIT_USAGE;
    screen_setup(&cli.screen, cli.options.color);
    catch_signals();
    enum exit_code code = run_command(&cli);
    stop_interrupts(NULL);
    memsync_close(&cli.client);
    if (caught_signal)
        return EXIT_SIGNAL + caught_signal;
    if (fflush(stdout) != 0 || ferror(stdout)) {
        complain(cli.command, "cannot write the answer: %s", strerror(errno));
        return EXIT_REFUSED;
    }
    return (int) code;
}
