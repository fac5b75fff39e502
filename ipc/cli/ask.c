/* ask.c - asks on the terminal. */
#include "ipc/cli/ask.h"

#include "ipc/cli/input.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define ANSWER_BYTES 16

bool ask_is_answered(const struct cli *cli)
{
    return cli->options.given & OPTION_YES;
}

/* A descriptor that the caller closes, or -1. */
static int open_terminal(bool stdin_is_taken)
{
    if (stdin_is_taken)
        return open("/dev/tty", O_RDWR | O_CLOEXEC);
    return isatty(STDIN_FILENO) ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0) : -1;
}

/* The question goes to standard error, or where that is not seen, to the terminal itself. */
static bool read_answer(int terminal, bool stdin_is_taken, const char *statement)
{
    char answer[ANSWER_BYTES] = "";
    int out = stdin_is_taken || !isatty(STDERR_FILENO) ? terminal : STDERR_FILENO;

    if (dprintf(out, "%s\ngo on? [y/N] ", statement) < 0)
        return false;
    bool is_read = input_read_line(terminal, answer, sizeof answer);
    if (!is_read)
        (void) dprintf(out, "\n");
    return is_read && (strcasecmp(answer, "y") == 0 || strcasecmp(answer, "yes") == 0);
}

enum exit_code ask(const struct cli *cli, bool stdin_is_taken, const char *statement)
{
    if (ask_is_answered(cli))
        return EXIT_DONE;
    AUTO_CLOSE int terminal = open_terminal(stdin_is_taken);
    if (terminal < 0) {
        complain(cli->command,
                 "nothing was changed: there is no terminal to ask on, and --yes was not given; %s",
                 statement);
        return EXIT_USAGE;
    }
    AUTO_FREE char *harmless = screen_block(statement, strlen(statement));
    bool is_yes = harmless && read_answer(terminal, stdin_is_taken, harmless);
    if (stop_signal())
        return EXIT_SIGNAL;
    if (!is_yes)
        complain(cli->command, "nothing was changed");
    return is_yes ? EXIT_DONE : EXIT_NOTHING;
}
