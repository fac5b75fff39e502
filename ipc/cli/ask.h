/* ask.h - the question before something is destroyed. */
#ifndef MEMSYNC_IPC_CLI_ASK_H
#define MEMSYNC_IPC_CLI_ASK_H

#include "ipc/cli/cli.h"

/* True with --yes: nothing is asked, so nothing has to be looked up for a question. */
bool ask_is_answered(const struct cli *cli);

/* Says what will happen ("this deletes 3 facts") and asks on the terminal whether to go on, unless
 * --yes was given. `stdin_is_taken`: standard input is data, so another way to the terminal is
 * tried. EXIT_DONE: yes. Else something has been said: EXIT_NOTHING: no; EXIT_USAGE: there is no
 * terminal; EXIT_SIGNAL: interrupted. */
enum exit_code ask(const struct cli *cli, bool stdin_is_taken, const char *statement);

#endif
