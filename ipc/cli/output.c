/* output.c - a temporary file beside the wanted one, and a rename. */
#include "ipc/cli/output.h"

#include "ipc/cli/input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct output {
    FILE *file;
    char *path;      /* NULL: standard output */
    char *temporary; /* NULL: written to directly */
};

FILE *output_file(const struct output *output)
{
    return output->file;
}

void output_drop(struct output **output)
{
    struct output *gone = *output;

    if (!gone)
        return;
    if (gone->file && gone->path)
        (void) fclose(gone->file);
    if (gone->temporary)
        (void) unlink(gone->temporary);
    free(gone->temporary);
    free(gone->path);
    free(gone);
    *output = NULL;
}

/* The mode that a new file gets. */
static mode_t usual_mode(void)
{
    mode_t mask = umask(0);

    (void) umask(mask);
    return 0666 & ~mask;
}

static int open_temporary(struct output *output, mode_t mode)
{
    if (asprintf(&output->temporary, "%s.XXXXXX", output->path) < 0) {
        output->temporary = NULL;
        return -1;
    }
    int fd = mkostemp(output->temporary, O_CLOEXEC);
    if (fd < 0) {
        free(output->temporary); /* there is no such file */
        output->temporary = NULL;
    } else if (fchmod(fd, mode) < 0) {
        (void) close(fd);
        return -1;
    }
    return fd;
}

/* A link is followed, so that it stays one. What is no file is opened by the name that was given:
 * that of a pipe behind /dev/stdout leads nowhere. */
static bool open_path(struct output *output, const char *path)
{
    struct stat st;
    bool is_there = stat(path, &st) == 0;
    bool is_file = !is_there || S_ISREG(st.st_mode);

    output->path = is_there && is_file ? realpath(path, NULL) : strdup(path);
    if (!output->path)
        return false;
    int fd = !is_file ? open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY)
                      : open_temporary(output, is_there ? st.st_mode & 07777 : usual_mode());
    if (fd < 0)
        return false;
    output->file = fdopen(fd, "w");
    return output->file != NULL;
}

struct output *output_open(const struct cli *cli)
{
    const char *path = cli->options.output;
    struct output *output = calloc(1, sizeof *output);

    if (!output) {
        complain(cli->command, "out of memory");
        return NULL;
    }
    if (!path || input_is_standard(path)) {
        output->file = stdout;
    } else if (!open_path(output, path)) {
        complain(cli->command, "cannot write to %s: %s", path, strerror(errno));
        output_drop(&output);
    }
    return output;
}

/* Without a durable file a rename could leave an empty one after a power cut. */
static bool put_in_place(struct output *output)
{
    if (fflush(output->file) != 0 || ferror(output->file))
        return false;
    if (output->temporary && fsync(fileno(output->file)) < 0)
        return false;
    FILE *file = TAKE_PTR(output->file);
    if (fclose(file) != 0)
        return false;
    if (!output->temporary)
        return true;
    if (rename(output->temporary, output->path) < 0)
        return false;
    free(TAKE_PTR(output->temporary));
    return true;
}

bool output_finish(const struct cli *cli, struct output **output)
{
    bool is_good = true;

    if ((*output)->path && !stop_signal()) { /* main() looks after standard output */
        is_good = put_in_place(*output);
        if (!is_good)
            complain(cli->command, "cannot write to %s: %s", (*output)->path, strerror(errno));
    }
    output_drop(output);
    return is_good;
}
