/* A network volume that misbehaves as asked: a directory behind one FUSE mount for each node.
 *
 * See README.md in this folder. */
#include "chaos/netvol/control.h"
#include "chaos/netvol/rules.h"
#include "chaos/netvol/trace.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>

#define PROGRAM "netvol"
#define DESCRIPTORS_MAX 1048576

enum exit_code { EXIT_DONE, EXIT_FAILED, EXIT_USAGE, EXIT_NO_FUSE };

static const char help[] =
    "usage: netvol --control SOCKET [--stdin] BACKING MOUNTPOINT [MOUNTPOINT...]\n"
    "\n"
    "Shows the directory BACKING at each MOUNTPOINT, as one node of a network volume would see "
    "it,\n"
    "prints \"ready\", and runs until SIGTERM or SIGINT takes all mounts away.\n"
    "\n"
    "  --control SOCKET  where commands are taken, a line each; \"help\" lists them\n"
    "  --stdin           ends as well when standard input does\n"
    "  --help            this text\n"
    "\n"
    "Exit codes: 0 ended as asked, 1 failed, 2 wrong usage, 3 no mounts by FUSE are possible "
    "here.\n";

struct options {
    const char *control;
    bool until_stdin_ends;
    const char *backing;
    char **mountpoints;
    unsigned nodes;
};

static enum exit_code usage_error(void)
{
    (void) fputs(help, stderr);
    return EXIT_USAGE;
}

/* False: the program is over, with `ret_code`. */
static bool parse_arguments(int argc, char **argv, struct options *ret, enum exit_code *ret_code)
{
    static const struct option known[] = {
        {"control", required_argument, NULL, 'c'},
        {"stdin", no_argument, NULL, 's'},
        {"help", no_argument, NULL, 'h'},
        {0},
    };

    for (int option = 0; option != -1;) {
        option = getopt_long(argc, argv, "", known, NULL);
        if (option == 'c') {
            ret->control = optarg;
        } else if (option == 's') {
            ret->until_stdin_ends = true;
        } else if (option == 'h') {
            (void) fputs(help, stdout);
            *ret_code = EXIT_DONE;
            return false;
        } else if (option != -1) {
            *ret_code = usage_error();
            return false;
        }
    }
    if (!ret->control || argc - optind < 2 || argc - optind - 1 > NODES_MAX) {
        *ret_code = usage_error();
        return false;
    }
    ret->backing = argv[optind];
    ret->mountpoints = argv + optind + 1;
    ret->nodes = (unsigned) (argc - optind - 1);
    return true;
}

static enum exit_code fail(const char *what, int error)
{
    (void) fprintf(stderr, PROGRAM ": %s: %s\n", what, strerror(error));
    return EXIT_FAILED;
}

/* Each file that a kernel remembers is a descriptor here. */
static void raise_limit(void)
{
    struct rlimit limit = {.rlim_cur = DESCRIPTORS_MAX, .rlim_max = DESCRIPTORS_MAX};

    if (setrlimit(RLIMIT_NOFILE, &limit) == 0 || getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    (void) setrlimit(RLIMIT_NOFILE, &limit);
}

static enum exit_code open_nodes(struct volume *volume, const struct options *options)
{
    for (unsigned i = 0; i < options->nodes; i++) {
        struct node *node = &volume->nodes[volume->count++];
        node->number = i;
        node->mountpoint = options->mountpoints[i];
        int error = node_init(node, options->backing);
        if (error)
            return fail(options->backing, error);
    }
    for (unsigned i = 0; i < volume->count; i++) {
        enum node_mount result = node_mount(&volume->nodes[i], PROGRAM);
        if (result != NODE_MOUNTED)
            return result == NODE_NOT_PERMITTED ? EXIT_NO_FUSE : EXIT_FAILED;
    }
    return EXIT_DONE;
}

static enum exit_code start_nodes(struct volume *volume)
{
    struct stat info;

    for (unsigned i = 0; i < volume->count; i++) {
        int error = node_start(&volume->nodes[i]);
        if (error)
            return fail("cannot start a thread", error);
    }
    for (unsigned i = 0; i < volume->count; i++)
        if (stat(volume->nodes[i].mountpoint, &info) < 0)
            return fail(volume->nodes[i].mountpoint, errno);
    return EXIT_DONE;
}

static enum exit_code run(struct volume *volume, const struct options *options, int listen_fd,
                          int signal_fd)
{
    enum exit_code code = open_nodes(volume, options);

    if (code == EXIT_DONE)
        code = start_nodes(volume);
    if (code != EXIT_DONE)
        return code;
    if (puts("ready") < 0 || fflush(stdout) != 0)
        return fail("standard output", errno);
    if (!control_serve(volume, listen_fd, signal_fd, options->until_stdin_ends ? 0 : -1)) {
        (void) fprintf(stderr, PROGRAM ": all mounts have gone\n");
        return EXIT_FAILED;
    }
    return EXIT_DONE;
}

static void close_nodes(struct volume *volume)
{
    AUTO_TEXT struct text left = {0};

    rules_stop();
    for (unsigned i = 0; i < volume->count; i++)
        node_close(&volume->nodes[i]);
    (void) rules_remove(RULES_ALL);
    trace_take(&left);
}

int main(int argc, char **argv)
{
    static struct volume volume;
    struct options options = {0};
    enum exit_code code = EXIT_DONE;
    int listen_fd = -1;
    sigset_t signals;

    if (!parse_arguments(argc, argv, &options, &code))
        return (int) code;
    raise_limit();
    (void) umask(0); /* the kernel has applied the callers' */
    (void) sigemptyset(&signals);
    (void) sigaddset(&signals, SIGTERM);
    (void) sigaddset(&signals, SIGINT);
    (void) pthread_sigmask(SIG_BLOCK, &signals, NULL);
    int signal_fd = signalfd(-1, &signals, SFD_CLOEXEC);
    if (signal_fd < 0)
        return (int) fail("signals", errno);
    int error = control_listen(options.control, &listen_fd);
    if (error)
        return (int) fail(options.control, error);
    code = run(&volume, &options, listen_fd, signal_fd);
    close_nodes(&volume);
    (void) unlink(options.control);
    (void) close(listen_fd);
    (void) close(signal_fd);
    return (int) code;
}
