/* Plays the schedules and counts. See chaos/README.md. */
#include "chaos/replay/player.h"
#include "core/clock.h"
#include "core/index.h"
#include "core/log.h"
#include "tests/support/files.h"

#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define SCHEDULES "chaos/replay/schedules"
#define PLAY_SECONDS_MAX 120

struct options {
    const char *directory;
    const char *json; /* a list of interleavings to be compared and played as well */
    const char *only;
    unsigned repeat;
    bool list;
    bool verbose;
};

struct totals {
    unsigned passed, failed;
    unsigned held, passed_by;
};

static void drop_line(void *context, enum log_level level, const char *line)
{
    (void) context;
    (void) level;
    (void) line;
}

/* ---- one schedule, once or often ---- */

static bool play_once(const struct schedule *schedule, const struct play_options *options,
                      struct play_result *ret)
{
    (void) alarm(PLAY_SECONDS_MAX); /* a play that stands still ends the program */
    play(schedule, options, ret);
    (void) alarm(0);
    return ret->passed;
}

/* Plays it `repeat` times; two runs that see different things are a failure, whatever they see. */
static bool play_often(const struct schedule *schedule, const struct play_options *options,
                       unsigned repeat, struct play_result *ret)
{
    bool passed = play_once(schedule, options, ret);

    for (unsigned i = 1; passed && i < repeat; i++) {
        AUTO_PLAY_RESULT struct play_result again;
        passed = play_once(schedule, options, &again);
        if (passed && strcmp(text_string(&ret->outcome), text_string(&again.outcome)) != 0) {
            text_append_format(&again.findings, "    run %u saw\n%s    and the first one\n%s",
                               i + 1, text_string(&again.outcome), text_string(&ret->outcome));
            passed = false;
        }
        if (!passed) {
            play_result_destroy(ret);
            *ret = again;
            again = (struct play_result){0};
        }
    }
    return passed;
}

static void run_one(const struct options *options, const struct schedule *schedule,
                    const struct play_options *play_options, const char *suffix,
                    struct totals *totals)
{
    AUTO_PLAY_RESULT struct play_result result = {0};

    if (options->verbose)
        (void) printf("     %s%s\n", schedule->id, suffix);
    bool passed = play_often(schedule, play_options, options->repeat, &result);
    (void) printf("%s %s%s %s (%u held, %u passed)\n", passed ? "ok    " : "FAILED", schedule->id,
                  suffix, schedule->title, result.held, result.passed_by);
    if (!passed)
        (void) printf("%s", text_string(&result.findings));
    (void) fflush(stdout);
    totals->passed += passed;
    totals->failed += !passed;
    totals->held += result.held;
    totals->passed_by += result.passed_by;
}

static bool is_wanted(const struct options *options, const struct schedule *schedule)
{
    return !options->only || strncmp(schedule->id, options->only, strlen(options->only)) == 0;
}

static void run_ours(const struct options *options, const struct schedule_list *list,
                     struct peer_process *peer, struct totals *totals)
{
    for (size_t i = 0; i < list->count; i++) {
        const struct schedule *schedule = &list->schedules[i];
        struct play_options play_options = {.peer = peer,
                                            .verbose = options->verbose,
                                            .judges_truth = true};
        if (!is_wanted(options, schedule))
            continue;
        unsigned kinds = schedule->kinds ? BROKEN_KINDS : 1;
        for (unsigned kind = 0; kind < kinds; kind++) {
            char suffix[32] = "";
            play_options.kind = (enum broken_kind) kind;
            if (kind > 0)
                (void) snprintf(suffix, sizeof suffix, "/%s", broken_kind_name(play_options.kind));
            run_one(options, schedule, &play_options, suffix, totals);
        }
    }
}

/* ---- the list of interleavings ---- */

/* Where the list says that there is no fresh answer, ours may have one. */
static bool same_result(const json_t *ours, const json_t *theirs)
{
    return ours == theirs || json_equal(ours, theirs) || json_is_string(theirs);
}

static void compare_look(const struct schedule *listed, const struct step *theirs,
                         const struct step *ours, unsigned *differences)
{
    bool same = ours != NULL && ours->verb == theirs->verb &&
                same_result(ours->result, theirs->result) &&
                (theirs->refreshes == NOT_SAID || ours->refreshes_listed == theirs->refreshes);

    for (size_t i = 0; same && i < theirs->state_count; i++) {
        const struct step_state *state = &ours->states[i];
        const char *said = state->better_than[0] ? state->better_than : state->name;
        same = i < ours->state_count && strcmp(said, theirs->states[i].name) == 0;
    }
    if (same)
        return;
    (void) printf("    %s: '%s' has become '%s'\n", listed->id, theirs->text,
                  ours ? ours->text : "nothing");
    ++*differences;
}

/* True when ours is the same schedule, told again: nothing was left out, and where ours expects
 * more it says what the list does. */
static bool is_retold(const struct schedule *listed, const struct schedule *ours)
{
    unsigned differences = 0;

    if (!ours) {
        (void) printf("    %s is not among ours\n", listed->id);
        return false;
    }
    for (size_t i = 0; schedule_look(listed, i) || schedule_look(ours, i); i++) {
        if (schedule_look(listed, i))
            compare_look(listed, schedule_look(listed, i), schedule_look(ours, i), &differences);
        else if (i == 0 || schedule_look(listed, 0)) /* ours may look more often, at the end */
            break;
    }
    return differences == 0;
}

static void run_listed(const struct options *options, const struct schedule_list *ours,
                       struct peer_process *peer, struct totals *totals)
{
    struct schedule_list listed = {0};

    schedule_list_load_json(&listed, options->json);
    for (size_t i = 0; i < listed.count; i++) {
        const struct schedule *schedule = &listed.schedules[i];
        const struct schedule *own = schedule_list_find(ours, schedule->id);
        if (!is_wanted(options, schedule))
            continue;
        bool retold = is_retold(schedule, own);
        totals->passed += retold;
        totals->failed += !retold;
        if (!own)
            continue;
        const struct play_options play_options = {.peer = peer,
                                                  .verbose = options->verbose,
                                                  .ours = own};
        run_one(options, schedule, &play_options, "/listed", totals);
    }
    schedule_list_destroy(&listed);
}

/* ---- the program ---- */

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

static int usage(void)
{
    (void) fprintf(
        stderr,
        "replay [--list] [--only NAME] [--repeat N] [--verbose] [--schedules DIRECTORY]\n"
        "       [--listed FILE]   compares with a list of interleavings and plays it too\n");
    return 2;
}

static bool read_options(int argc, char **argv, struct options *ret)
{
    static const struct option known[] = {
        {"list", no_argument, NULL, 'l'},
        {"only", required_argument, NULL, 'o'},
        {"repeat", required_argument, NULL, 'r'},
        {"verbose", no_argument, NULL, 'v'},
        {"schedules", required_argument, NULL, 's'},
        {"listed", required_argument, NULL, 'j'},
        {NULL, 0, NULL, 0},
    };

    for (int option; (option = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        switch (option) {
        case 'l':
            ret->list = true;
            break;
        case 'o':
            ret->only = optarg;
            break;
        case 'r':
            ret->repeat = (unsigned) strtoul(optarg, NULL, 10);
            break;
        case 'v':
            ret->verbose = true;
            break;
        case 's':
            ret->directory = optarg;
            break;
        case 'j':
            ret->json = optarg;
            break;
        default:
            return false;
        }
    }
    return optind == argc && ret->repeat > 0;
}

static int run(const struct options *options, const struct schedule_list *list)
{
    struct peer_process *peer = peer_process_start();
    struct totals totals = {0};
    uint64_t begun_ns = clock_monotonic_ns();

    run_ours(options, list, peer, &totals);
    if (options->json)
        run_listed(options, list, peer, &totals);
    peer_process_stop(&peer);
    (void) printf("%u pause points held, %u passed, %.1f s\n", totals.held, totals.passed_by,
                  (double) (clock_monotonic_ns() - begun_ns) / (double) NS_PER_SECOND);
    (void) printf("%u passed, %u failed\n", totals.passed, totals.failed);
    return totals.failed == 0 && totals.passed > 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    struct options options = {.directory = SCHEDULES, .repeat = 1};
    struct schedule_list list = {0};
    int code = 0;

    (void) signal(SIGALRM, SIG_DFL);
    if (!getenv("CHAOS_LOG"))
        log_set_capture(drop_line, NULL);
    if (argc == 3 && strcmp(argv[1], "--open-index") == 0)
        return open_index(argv[2]);
    if (!read_options(argc, argv, &options))
        return usage();
    schedule_list_load(&list, options.directory);
    if (options.list)
        list_schedules(&list);
    else
        code = run(&options, &list);
    schedule_list_destroy(&list);
    return code;
}
