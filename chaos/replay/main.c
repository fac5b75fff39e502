/* Plays schedules and counts. See chaos/README.md. */
#include "chaos/replay/runner.h"
#include "chaos/replay/together.h"
#include "chaos/support/options.h"
#include "core/clock.h"
#include "core/index.h"
#include "core/log.h"
#include "tests/support/files.h"
#include "tests/support/shared.h"

#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#define SCHEDULES "chaos/replay/schedules"
#define MEMORY_DIRECTORY "/dev/shm" /* a play is bound by the disk otherwise */
#define ROUNDS 100
#define SECONDS 3

enum what { PLAY_SCHEDULES, PLAY_LIST, PLAY_RANDOM, PLAY_TOGETHER, PLAY_HELP };

struct options {
    struct run_options run;
    enum what what;
    const char *schedules;
    uint64_t seed;
    unsigned rounds;
    unsigned seconds;
};

static void drop_line(void *context, enum log_level level, const char *line)
{
    (void) context;
    (void) level;
    (void) line;
}

/* What a second process of the node would do; the exit code is the status. */
static int open_index(const char *directory)
{
    struct index *index = NULL;
    bool rebuilt;
    enum status status =
        index_open(&(struct index_options){.directory = directory}, &index, &rebuilt, NULL);

    if (status == STATUS_OK)
        index_close(&index);
    return (int) status;
}

static void list_schedules(const struct schedule_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        (void) printf("%s %s\n", list->schedules[i].id, list->schedules[i].title);
}

static void play_schedules(const struct options *options, const struct schedule_list *list,
                           struct peer_process *peer, struct run_totals *totals)
{
    char listed[PATH_MAX];

    run_schedules(&options->run, list, peer, totals);
    shared_path(listed, "interleavings.json");
    if (strcmp(options->schedules, SCHEDULES) != 0)
        return;
    if (test_exists(listed))
        run_listed(&options->run, listed, list, peer, totals);
    else
        (void) printf("skipped: no list of interleavings at %s\n", listed);
}

static int run(const struct options *options)
{
    struct schedule_list list = {0};
    struct peer_process *peer = peer_process_start();
    struct run_totals totals = {0};
    uint64_t begun_ns = clock_monotonic_ns();

    switch (options->what) {
    case PLAY_LIST:
    case PLAY_SCHEDULES:
        schedule_list_load(&list, options->schedules);
        if (options->what == PLAY_LIST)
            list_schedules(&list);
        else
            play_schedules(options, &list, peer, &totals);
        break;
    case PLAY_RANDOM:
        run_random(&options->run, options->seed, options->rounds, options->seconds, peer, &totals);
        break;
    case PLAY_TOGETHER:
        run_together(options->seed, options->seconds ? options->seconds : SECONDS, peer, &totals);
        break;
    case PLAY_HELP:
        break;
    }
    schedule_list_destroy(&list);
    peer_process_stop(&peer);
    if (options->what == PLAY_LIST)
        return 0;
    (void) printf("%u pause points held, %u passed, %.1f s\n", totals.held, totals.passed_by,
                  (double) (clock_monotonic_ns() - begun_ns) / (double) NS_PER_SECOND);
    (void) printf("%u passed, %u failed\n", totals.passed, totals.failed);
    return totals.failed == 0 && totals.passed > 0 ? 0 : 1;
}

static const char help[] =
    "usage: run [--schedules PATH] [--only NAME] [--repeat N] [--verbose] [--list]\n"
    "       run --random [--seed N] [--rounds N | --seconds N] [--repeat N] [--verbose]\n"
    "       run --together [--seed N] [--seconds N]\n"
    "\n"
    "Plays schedules, some made by chance, or everything at once.\n"
    "\n"
    "  --list       the schedules\n"
    "  --only NAME  those whose names begin so\n"
    "  --repeat N   each so many times; two runs that differ are a failure\n"
    "  --verbose    what their steps do\n"
    "  --help       this text\n"
    "\n"
    "Exit codes: 0 all was right, 1 something was not, 2 wrong usage.\n";

static bool take_option(int letter, const char *name, struct options *ret)
{
    switch (letter) {
    case 'h':
        ret->what = PLAY_HELP;
        return true;
    case 'l':
        ret->what = PLAY_LIST;
        return true;
    case 'c':
        ret->what = PLAY_RANDOM;
        return true;
    case 't':
        ret->what = PLAY_TOGETHER;
        return true;
    case 'o':
        ret->run.only = optarg;
        return true;
    case 'r':
        return option_unsigned(name, optarg, 1, UINT_MAX, &ret->run.repeat);
    case 'v':
        ret->run.verbose = true;
        return true;
    case 'p':
        ret->schedules = optarg;
        return true;
    case 's':
        return option_count(name, optarg, 0, UINT64_MAX, &ret->seed);
    case 'n':
        return option_unsigned(name, optarg, 1, UINT_MAX, &ret->rounds);
    case 'd':
        return option_unsigned(name, optarg, 1, UINT_MAX, &ret->seconds);
    default:
        return false; /* getopt has told */
    }
}

static bool read_options(int argc, char **argv, struct options *ret)
{
    static const struct option known[] = {
        {"help", no_argument, NULL, 'h'},          {"list", no_argument, NULL, 'l'},
        {"only", required_argument, NULL, 'o'},    {"repeat", required_argument, NULL, 'r'},
        {"verbose", no_argument, NULL, 'v'},       {"schedules", required_argument, NULL, 'p'},
        {"random", no_argument, NULL, 'c'},        {"together", no_argument, NULL, 't'},
        {"seed", required_argument, NULL, 's'},    {"rounds", required_argument, NULL, 'n'},
        {"seconds", required_argument, NULL, 'd'}, {NULL, 0, NULL, 0},
    };
    int at = 0;

    for (int letter; (letter = getopt_long(argc, argv, "", known, &at)) != -1;) {
        if (!take_option(letter, known[at].name, ret))
            return false;
    }
    return option_no_rest(argc, argv, optind);
}

int main(int argc, char **argv)
{
    struct options options = {.schedules = SCHEDULES,
                              .run = {.repeat = 1},
                              .seed = 1,
                              .rounds = ROUNDS};

    if (!getenv("CHAOS_LOG"))
        log_set_capture(drop_line, NULL);
    if (argc == 3 && strcmp(argv[1], "--open-index") == 0)
        return open_index(argv[2]);
    if (!read_options(argc, argv, &options))
        return OPTION_WRONG;
    if (options.what == PLAY_HELP)
        return fputs(help, stdout) < 0;
    if (!getenv("TMPDIR") && access(MEMORY_DIRECTORY, W_OK) == 0)
        (void) setenv("TMPDIR", MEMORY_DIRECTORY, 1);
    return run(&options);
}
