/* input.h - text from files, standard input and the terminal; a signal ends every wait. */
#ifndef MEMSYNC_IPC_CLI_INPUT_H
#define MEMSYNC_IPC_CLI_INPUT_H

#include "ipc/cli/cli.h"

/* Twice what the client sends in a request, which has no indentation. */
#define INPUT_BYTES_MAX (128u << 20)

/* True for "-", which stands for standard input. */
bool input_is_standard(const char *path);

/* True when reading it means that somebody types. */
bool input_is_typed(const char *path);

/* Reads all of a file, or of standard input when `path` is "-"; who is to type is told so. The
 * caller owns the bytes, which a NUL follows. EXIT_USAGE or EXIT_REFUSED after a complaint;
 * EXIT_SIGNAL when one came. */
enum exit_code input_read(const struct cli *cli, const char *path, char **ret, size_t *ret_size);

/* Reads a line from a terminal, at most `size` - 1 bytes, without its end. False: end of input, an
 * error, or a signal. */
bool input_read_line(int fd, char *line, size_t size);

#endif
