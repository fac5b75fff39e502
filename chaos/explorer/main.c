/* Explores scenarios, or plays one schedule again. See chaos/explorer/README.md. */
#include "chaos/explorer/explore.h"
#include "chaos/support/jobs.h"
#include "chaos/support/numbers.h"
#include "chaos/support/options.h"
#include "core/log.h"
#include "tests/support/files.h"

#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#define SHRINK_SECONDS 60
#define TWICE_DEFAULT 50
#define JOBS_MOST 256 /* processes at a time */

struct settings {
    const char *only;
    const char *replay;
    bool has_bound; /* or else it is the scenario's own, and `bound` more */
    unsigned bound;
    unsigned jobs;
    double shrink_seconds; /* 0: not */
    bool until_failure;    /* what comes after a scenario that fails is left out */
    bool list;
    bool help;
    bool details;
    struct explore_options explore;
};

static void drop_line(void *context, enum log_level level, const char *line)
{
    (void) context;
    (void) level;
    (void) line;
}

/* ---- telling ---- */

static void print_schedule(const char *program, const struct scenario *scenario,
                           const struct schedule *schedule)
{
    AUTO_RUN struct run run = {0};
    AUTO_TEXT struct text text = {0};
    unsigned step;

    schedule_format(schedule, &text);
    if (!explore_replay(scenario, schedule, &run, &step))
        (void) printf("    (it went another way this time, at step %u)\n", step);
    (void) printf("%s", text_string(&run.story));
    (void) printf("    %s\n", run_has_failed(&run) ? text_string(&run.failure) : "all was right");
    (void) printf("    again: %s --replay %s:%s\n", program, scenario->name, text_string(&text));
}

static void print_points(const struct explore_result *result)
{
    for (unsigned i = 0; i < PAUSE_POINT_COUNT; i++) {
        if (result->points[i] > 0)
            (void) printf("    %10" PRIu64 " %s\n", result->points[i],
                          pause_point_name((enum pause_point) i));
    }
}

static uint64_t sum_of_points(const struct explore_result *result)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < PAUSE_POINT_COUNT; i++)
        sum += result->points[i];
    return sum;
}

static void report_failure(const char *program, const struct scenario *scenario,
                           const struct explore_result *result, double shrink_seconds)
{
    struct schedule shorter = result->schedule;

    (void) printf("  the schedule:\n");
    print_schedule(program, scenario, &result->schedule);
    if (shrink_seconds <= 0)
        return;
    explore_shrink(scenario, &shorter, shrink_seconds);
    (void) printf("  the shortest one found:\n");
    print_schedule(program, scenario, &shorter);
}

/* ---- one scenario ---- */

static unsigned bound_of(const struct settings *settings, const struct scenario *scenario)
{
    return settings->bound + (settings->has_bound ? 0 : scenario->bound);
}

static bool explore_one(const char *program, const struct settings *settings,
                        const struct scenario *scenario)
{
    struct explore_options options = settings->explore;
    struct explore_result result;

    options.bound = bound_of(settings, scenario);
    explore(scenario, &options, &result);
    (void) printf("%s %s: %" PRIu64 " schedules up to bound %u%s (%" PRIu64 " cut short), %" PRIu64
                  " ends, %" PRIu64 " pause points met, %" PRIu64 " steps, longest %u, %.1f s\n",
                  result.has_failed ? "FAILED" : "ok    ", scenario->name, result.schedules,
                  options.bound, result.is_complete || result.has_failed ? "" : " (not all)",
                  result.cut, result.ends, sum_of_points(&result), result.stops,
                  result.longest.count, result.seconds);
    if (settings->details) {
        print_points(&result);
        (void) printf("  the longest:\n");
        print_schedule(program, scenario, &result.longest);
    }
    if (result.differs)
        (void) printf("  two runs of one schedule were not the same\n");
    if (result.has_failed)
        report_failure(program, scenario, &result, settings->shrink_seconds);
    (void) fflush(stdout);
    return !result.has_failed;
}

/* Where worlds live: in memory where there is a place for that. */
static void make_base(char ret[PATH_MAX])
{
    const char *base = getenv("TMPDIR");

    if (!base || !*base)
        base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    test_join(ret, base, "memsync-explore-XXXXXX");
    if (!mkdtemp(ret))
        test_die("cannot make %s", ret);
}

struct plan {
    const char *program;
    const struct settings *settings;
    const struct scenario **scenarios;
    char base[PATH_MAX];
};

static bool explore_job(const void *context, size_t job)
{
    const struct plan *plan = context;
    char directory[PATH_MAX];

    test_join(directory, plan->base, plan->scenarios[job]->name);
    world_prepare(directory);
    bool passed = explore_one(plan->program, plan->settings, plan->scenarios[job]);
    world_forget();
    return passed;
}

static int explore_them(const char *program, const struct settings *settings)
{
    AUTO_FREE const struct scenario **wanted = calloc(scenario_count + 1, sizeof(void *));
    struct plan plan = {.program = program, .settings = settings, .scenarios = wanted};
    size_t count = 0;

    if (!wanted)
        test_die("no memory for a plan");
    for (unsigned i = 0; i < scenario_count; i++) {
        if (!settings->only || strcmp(settings->only, scenarios[i].name) == 0)
            wanted[count++] = &scenarios[i];
    }
    make_base(plan.base);
    struct job_counts counts =
        jobs_run(count, settings->jobs, settings->until_failure, explore_job, &plan);
    test_remove_tree(plan.base); /* what jobs that crashed have left */
    (void) printf("%u passed, %u failed\n", counts.passed, counts.failed);
    return counts.failed == 0 && counts.passed > 0 ? 0 : 1;
}

/* ---- replay ---- */

static int replay_number(const char *program, const struct settings *settings,
                         const struct scenario *scenario, const char *number)
{
    struct explore_options options = {.bound = bound_of(settings, scenario)};
    struct explore_result result;

    if (!number_count(number, 1, UINT64_MAX, &options.number)) {
        (void) fprintf(stderr, "no number of a schedule: #%s\n", number);
        return OPTION_WRONG;
    }
    explore(scenario, &options, &result);
    if (result.schedules < options.number) {
        (void) fprintf(stderr, "%s has %" PRIu64 " schedules up to bound %u\n", scenario->name,
                       result.schedules, options.bound);
        return OPTION_WRONG;
    }
    print_schedule(program, scenario, &result.schedule);
    return result.has_failed ? 1 : 0;
}

static int replay(const char *program, const struct settings *settings)
{
    const char *colon = strchr(settings->replay, ':');
    char name[64];
    struct schedule schedule;
    AUTO_RUN struct run run = {0};
    unsigned step;

    (void) snprintf(name, sizeof name, "%.*s", (int) strcspn(settings->replay, ":"),
                    settings->replay);
    const struct scenario *scenario = scenario_find(name);
    if (!scenario || !colon) {
        (void) fprintf(stderr, "no scenario: %s (--list names them)\n", name);
        return OPTION_WRONG;
    }
    if (colon[1] == '#')
        return replay_number(program, settings, scenario, colon + 2);
    if (!schedule_parse(colon + 1, &schedule)) {
        (void) fprintf(stderr, "no schedule: %s\n", colon + 1);
        return OPTION_WRONG;
    }
    bool fits = explore_replay(scenario, &schedule, &run, &step);
    (void) printf("%s%s%s\n", text_string(&run.story),
                  run_has_failed(&run) ? text_string(&run.failure) : "all was right",
                  fits ? "" : "\n(the schedule did not fit)");
    if (!fits)
        (void) printf("it differed at step %u\n", step);
    return run_has_failed(&run) ? 1 : 0;
}

static void list(void)
{
    for (unsigned i = 0; i < scenario_count; i++) {
        (void) printf("%-22s %s\n", scenarios[i].name, scenarios[i].title);
        for (unsigned j = 0; j < SCENARIO_PARTS_MAX && scenarios[i].parts[j].kind != PART_NONE; j++)
            (void) printf("    %u %s\n", j, scenarios[i].parts[j].name);
    }
}

/* ---- options ---- */

static const char help[] =
    "usage: run [--scenario NAME] [--bound N|+N] [--seconds S] [--walks N] [--seed N] [--twice N]\n"
    "           [--jobs N] [--shrink S] [--slice mutants] [--no-states] [--details]\n"
    "       run --replay NAME:SCHEDULE|NAME:#NUMBER [--bound N|+N]\n"
    "       run --list\n"
    "\n"
    "Takes the actors of scenarios through every order of their steps up to a bound.\n"
    "\n"
    "  --list           the scenarios and their actors\n"
    "  --bound N|+N     switches away from somebody who could go on; +N: so many more than usual\n"
    "  --seconds S      at most for each scenario; 0: without a limit\n"
    "  --walks N        schedules by chance behind those, which the seed gives\n"
    "  --twice N        so many schedules are run again and must go the same way\n"
    "  --jobs N         so many processes\n"
    "  --shrink S       seconds for the search of a shorter schedule that fails\n"
    "  --slice mutants  as a mutant wants it: all processors, until the first failure\n"
    "  --no-states      go on from states that were seen, too\n"
    "  --details        pause points and the longest schedule\n"
    "  --replay         one schedule again\n"
    "  --help           this text\n"
    "\n"
    "Exit codes: 0 all was right, 1 something was not, 2 wrong usage.\n";

/* A mutant only has to be noticed, soon. */
static void set_for_mutants(struct settings *settings)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);

    settings->jobs = processors > 1 ? (unsigned) processors : 1;
    settings->shrink_seconds = 0;
    settings->until_failure = true;
    settings->explore.twice = 0;
}

static bool take_bound(const char *name, struct settings *settings)
{
    uint64_t bound = 0;

    settings->has_bound = optarg[0] != '+';
    if (!number_count(optarg + !settings->has_bound, 0, SCHED_STEPS_MAX, &bound))
        return option_refuse(name, optarg, "a number, or + and a number");
    settings->bound = (unsigned) bound;
    return true;
}

static bool take_scenario(const char *name, struct settings *settings)
{
    settings->only = optarg;
    return scenario_find(optarg) || option_refuse(name, optarg, "a scenario (--list names them)");
}

static bool take_slice(const char *name, struct settings *settings)
{
    if (strcmp(optarg, "mutants") != 0)
        return option_refuse(name, optarg, "mutants");
    set_for_mutants(settings);
    return true;
}

static bool take_option(int letter, const char *name, struct settings *settings)
{
    switch (letter) {
    case 'h':
        settings->help = true;
        return true;
    case 'l':
        settings->list = true;
        return true;
    case 's':
        return take_scenario(name, settings);
    case 'b':
        return take_bound(name, settings);
    case 't':
        return option_seconds(name, optarg, 0, &settings->explore.seconds);
    case 'w':
        return option_unsigned(name, optarg, 0, UINT_MAX, &settings->explore.walks);
    case 'r':
        return option_count(name, optarg, 0, UINT64_MAX, &settings->explore.seed);
    case '2':
        return option_count(name, optarg, 0, UINT64_MAX, &settings->explore.twice);
    case 'k':
        return option_seconds(name, optarg, 0, &settings->shrink_seconds);
    case 'j':
        return option_unsigned(name, optarg, 1, JOBS_MOST, &settings->jobs);
    case 'c':
        return take_slice(name, settings);
    case 'n':
        settings->explore.no_states = true;
        return true;
    case 'p':
        settings->details = true;
        return true;
    case 'y':
        settings->replay = optarg;
        return true;
    default:
        return false; /* getopt has told */
    }
}

static bool parse(int argc, char **argv, struct settings *settings)
{
    static const struct option names[] = {
        {"help", no_argument, NULL, 'h'},
        {"list", no_argument, NULL, 'l'},
        {"scenario", required_argument, NULL, 's'},
        {"bound", required_argument, NULL, 'b'},
        {"seconds", required_argument, NULL, 't'},
        {"walks", required_argument, NULL, 'w'},
        {"seed", required_argument, NULL, 'r'},
        {"twice", required_argument, NULL, '2'},
        {"jobs", required_argument, NULL, 'j'},
        {"shrink", required_argument, NULL, 'k'},
        {"slice", required_argument, NULL, 'c'},
        {"no-states", no_argument, NULL, 'n'},
        {"details", no_argument, NULL, 'p'},
        {"replay", required_argument, NULL, 'y'},
        {0},
    };
    int at = 0;

    for (int letter; (letter = getopt_long(argc, argv, "", names, &at)) != -1;) {
        if (!take_option(letter, names[at].name, settings))
            return false;
    }
    return option_no_rest(argc, argv, optind);
}

int main(int argc, char **argv)
{
    char directory[PATH_MAX];
    struct settings settings = {.jobs = 1,
                                .shrink_seconds = SHRINK_SECONDS,
                                .explore = {.seed = 1, .twice = TWICE_DEFAULT}};

    if (!parse(argc, argv, &settings))
        return OPTION_WRONG;
    if (settings.help)
        return fputs(help, stdout) < 0;
    if (settings.list) {
        list();
        return 0;
    }
    log_set_capture(drop_line, NULL);
    run_watch_for_crashes();
    if (!settings.replay)
        return explore_them(argv[0], &settings);
    make_base(directory);
    world_prepare(directory);
    int code = replay(argv[0], &settings);
    world_forget();
    return code;
}
