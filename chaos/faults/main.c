/* Lets everything fail once at every place. See chaos/faults/README.md. */
#include "chaos/faults/batch.h"
#include "chaos/support/dice.h"
#include "chaos/support/jobs.h"
#include "chaos/support/options.h"
#include "core/clock.h"
#include "core/log.h"
#include "tests/support/files.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum mode {
    MODE_ONCE = 1,
    MODE_PERSISTENT = 2,
    MODE_BOTH = MODE_ONCE | MODE_PERSISTENT,
};

#define JOBS_MOST 256 /* processes at a time */
#define BUDGET_LEAST 0.1

struct settings {
    const char *scenario;
    const char *fault;
    const char *source;
    enum mode modes;
    uint64_t at; /* 0: all of them */
    bool distinct;
    uint64_t stride;
    uint64_t seed;
    double budget_seconds; /* 0: all of it */
    unsigned jobs;
    bool list;
    bool help;
    bool details;
};

static void drop_line(void *context UNUSED, enum log_level level UNUSED, const char *line UNUSED)
{
}

/* ---- what is to be done ---- */

struct plan {
    const char *program;
    const struct settings *settings;
    char base[PATH_MAX];
    struct batch *batches;
    size_t count;
    struct batch_counts *counts; /* one a batch; shared with the jobs */
    uint64_t begun_ns;
    int terminal; /* where progress is told; -1: nowhere */
};

static bool is_wanted(const struct settings *settings, const struct scenario *scenario,
                      const struct fault_kind *kind)
{
    return (!settings->scenario || strcmp(settings->scenario, scenario->name) == 0) &&
           (!settings->fault || strcmp(settings->fault, kind->name) == 0) &&
           (!settings->source || strcmp(settings->source, fault_source_name(kind->source)) == 0);
}

static void add_batches(struct plan *plan, const struct scenario *scenario,
                        const struct fault_kind *kind)
{
    for (int persists = 0; persists < 2; persists++) {
        if (!(plan->settings->modes & (persists ? MODE_PERSISTENT : MODE_ONCE)) ||
            (persists && kind->once_only))
            continue;
        plan->batches[plan->count++] = (struct batch){
            .scenario = scenario,
            .kind = kind,
            .persists = persists,
            .distinct = plan->settings->distinct,
            .stride = plan->settings->stride,
            .seed = plan->settings->seed,
            .program = plan->program,
        };
    }
}

static void make_batches(struct plan *plan)
{
    plan->batches = calloc((size_t) scenario_count * fault_kind_count * 2, sizeof *plan->batches);
    if (!plan->batches)
        test_die("no memory for a plan");
    for (unsigned i = 0; i < scenario_count; i++) {
        for (unsigned j = 0; j < fault_kind_count; j++) {
            if (is_wanted(plan->settings, &scenarios[i], &fault_kinds[j]))
                add_batches(plan, &scenarios[i], &fault_kinds[j]);
        }
    }
}

/* With a limit on the time: which ones it is too short for is a matter of the seed. */
static void shuffle(struct plan *plan)
{
    struct dice dice = {.state = plan->settings->seed};

    for (size_t left = plan->count; left > 1; left--) {
        size_t other = dice_roll(&dice, (unsigned) left);
        struct batch batch = plan->batches[left - 1];
        plan->batches[left - 1] = plan->batches[other];
        plan->batches[other] = batch;
    }
}

/* ---- doing it ---- */

#define TOO_LATE 1

/* What is left of the time goes to those that are left. */
static uint64_t end_of(const struct plan *plan, size_t job, uint64_t now_ns)
{
    double left = plan->settings->budget_seconds -
                  (double) (now_ns - plan->begun_ns) / (double) NS_PER_SECOND;
    double share = left * plan->settings->jobs / (double) (plan->count - job);

    if (plan->settings->budget_seconds <= 0)
        return 0;
    return left > 0 ? now_ns + (uint64_t) (share * (double) NS_PER_SECOND) : TOO_LATE;
}

static void tell_progress(const struct plan *plan, size_t job)
{
    const struct batch *batch = &plan->batches[job];

    if (plan->terminal >= 0)
        (void) dprintf(plan->terminal, "\r\033[K%zu of %zu: %s %s ", job + 1, plan->count,
                       batch->scenario->name, batch->kind->name);
}

static bool do_job(const void *context, size_t job)
{
    const struct plan *plan = context;
    struct batch batch = plan->batches[job];
    struct batch_counts *counts = &plan->counts[job];
    char name[32];
    char directory[PATH_MAX];

    batch.end_ns = end_of(plan, job, batch_real_ns());
    if (batch.end_ns == TOO_LATE)
        return true;
    tell_progress(plan, job);
    (void) snprintf(name, sizeof name, "%zu", job);
    test_join(directory, plan->base, name);
    batch_run(&batch, directory, counts);
    if (plan->settings->details)
        (void) printf("%s %s %s %s: %" PRIu64 " places, %" PRIu64 " runs, %" PRIu64
                      " requests refused\n",
                      counts->failures ? "FAILED" : "ok    ", batch.scenario->name,
                      batch.kind->name, batch.persists ? "persistent" : "once", counts->places,
                      counts->runs, counts->refused);
    return counts->failures == 0;
}

/* Where worlds live: in memory where there is a place for that. */
static void make_base(char ret[PATH_MAX])
{
    const char *base = getenv("TMPDIR");

    if (!base || !*base)
        base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    test_join(ret, base, "memsync-faults-XXXXXX");
    if (!mkdtemp(ret) || setenv("TMPDIR", ret, 1) != 0)
        test_die("cannot make %s", ret);
}

static void sum_up(const struct plan *plan, const struct job_counts *jobs)
{
    struct batch_counts sum = {0};
    unsigned late = 0;

    for (size_t i = 0; i < plan->count; i++) {
        late += plan->counts[i].runs == 0 && plan->counts[i].failures == 0;
        sum.runs += plan->counts[i].runs;
        sum.places += plan->counts[i].places;
        sum.strikes += plan->counts[i].strikes;
        sum.refused += plan->counts[i].refused;
    }
    if (plan->terminal >= 0)
        (void) dprintf(plan->terminal, "\r\033[K");
    if (late > 0)
        (void) printf("%u of %zu batches were not reached in the time\n", late, plan->count);
    (void) printf("%" PRIu64 " runs, %" PRIu64 " places, %" PRIu64 " faults, %" PRIu64
                  " requests refused for them, %.0f s, seed %" PRIu64 "\n%u passed, %u failed\n",
                  sum.runs, sum.places, sum.strikes, sum.refused,
                  (double) (batch_real_ns() - plan->begun_ns) / (double) NS_PER_SECOND,
                  plan->settings->seed, jobs->passed - late, jobs->failed);
}

static int run_all(struct plan *plan)
{
    make_batches(plan);
    if (plan->count == 0) {
        (void) fprintf(stderr, "no fault is of that source, of that name and of that mode\n");
        return OPTION_WRONG;
    }
    if (plan->settings->budget_seconds > 0)
        shuffle(plan);
    plan->counts = mmap(NULL, (plan->count + 1) * sizeof *plan->counts, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (plan->counts == MAP_FAILED)
        test_die("no memory for a plan");
    plan->terminal = isatty(STDERR_FILENO) ? dup(STDERR_FILENO) : -1;
    plan->begun_ns = batch_real_ns();
    struct job_counts jobs = jobs_run(plan->count, plan->settings->jobs, false, do_job, plan);
    sum_up(plan, &jobs);
    free(plan->batches);
    return jobs.failed == 0 && jobs.passed > 0 ? 0 : 1; /* without any batch nothing is proved */
}

/* ---- one run, or names ---- */

static int run_one(struct plan *plan)
{
    make_batches(plan);
    if (plan->count != 1) {
        (void) fprintf(stderr,
                       "--at needs one scenario, one fault and one mode that go together\n");
        return OPTION_WRONG;
    }
    bool passed = batch_run_one(&plan->batches[0], plan->settings->at);
    free(plan->batches);
    return passed ? 0 : 1;
}

static void list(void)
{
    for (unsigned i = 0; i < scenario_count; i++)
        (void) printf("%-18s %s\n", scenarios[i].name, scenarios[i].title);
    (void) printf("\nfaults:");
    for (unsigned i = 0; i < fault_kind_count; i++)
        (void) printf(" %s/%s", fault_source_name(fault_kinds[i].source), fault_kinds[i].name);
    (void) printf("\n");
}

/* ---- options ---- */

static const char help[] =
    "usage: run [--scenario NAME] [--source SOURCE] [--fault KIND] [--mode once|persistent|both]\n"
    "           [--distinct] [--stride N] [--budget SECONDS] [--seed N] [--jobs N] [--details]\n"
    "       run --scenario NAME --fault KIND --mode once|persistent --at N\n"
    "       run --list\n"
    "\n"
    "Lets everything fail once at every place of every scenario, or of those that are named.\n"
    "\n"
    "  --list         scenarios, and faults as SOURCE/KIND\n"
    "  --mode         that operation alone fails, or all that follow do as well (both: each in "
    "turn)\n"
    "  --at N         one run, in which the Nth operation fails\n"
    "  --distinct     each place of the program once\n"
    "  --stride N     every Nth operation\n"
    "  --budget S     what fits into so many seconds, spread by the seed\n"
    "  --jobs N       so many processes\n"
    "  --details      a line for each batch\n"
    "  --help         this text\n"
    "\n"
    "Exit codes: 0 all was right, 1 something was not, 2 wrong usage.\n";

static bool parse_mode(const char *text, enum mode *ret)
{
    static const struct {
        const char *name;
        enum mode mode;
    } modes[] = {{"once", MODE_ONCE}, {"persistent", MODE_PERSISTENT}, {"both", MODE_BOTH}};

    for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
        if (strcmp(modes[i].name, text) != 0)
            continue;
        *ret = modes[i].mode;
        return true;
    }
    return false;
}

static bool is_source(const char *name)
{
    for (unsigned i = 0; i < FAULT_SOURCE_COUNT; i++) {
        if (strcmp(name, fault_source_name((enum fault_source) i)) == 0)
            return true;
    }
    return false;
}

static bool take_name(const char *option, bool is_known, const char *allowed, const char **ret)
{
    *ret = optarg;
    return is_known || option_refuse(option, optarg, allowed);
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
    case 'd':
        settings->details = true;
        return true;
    case 's':
        return take_name(name, scenario_find(optarg), "a scenario (--list names them)",
                         &settings->scenario);
    case 'f':
        return take_name(name, fault_kind_find(optarg),
                         "a fault (--list names them, behind their source)", &settings->fault);
    case 'o':
        return take_name(name, is_source(optarg), "file, sqlite, step or allocation",
                         &settings->source);
    case 'm':
        return parse_mode(optarg, &settings->modes) ||
               option_refuse(name, optarg, "once, persistent or both");
    case 'a':
        return option_count(name, optarg, 1, UINT64_MAX, &settings->at);
    case 'i':
        settings->distinct = true;
        return true;
    case 't':
        return option_count(name, optarg, 1, UINT32_MAX, &settings->stride);
    case 'b':
        return option_seconds(name, optarg, BUDGET_LEAST, &settings->budget_seconds);
    case 'r':
        return option_count(name, optarg, 0, UINT64_MAX, &settings->seed);
    case 'j':
        return option_unsigned(name, optarg, 1, JOBS_MOST, &settings->jobs);
    default:
        return false; /* getopt has told */
    }
}

static bool parse(int argc, char **argv, struct settings *settings)
{
    static const struct option names[] = {
        {"help", no_argument, NULL, 'h'},         {"list", no_argument, NULL, 'l'},
        {"details", no_argument, NULL, 'd'},      {"scenario", required_argument, NULL, 's'},
        {"fault", required_argument, NULL, 'f'},  {"source", required_argument, NULL, 'o'},
        {"mode", required_argument, NULL, 'm'},   {"at", required_argument, NULL, 'a'},
        {"distinct", no_argument, NULL, 'i'},     {"stride", required_argument, NULL, 't'},
        {"budget", required_argument, NULL, 'b'}, {"seed", required_argument, NULL, 'r'},
        {"jobs", required_argument, NULL, 'j'},   {0},
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
    struct settings settings = {.modes = MODE_BOTH, .stride = 1, .seed = 1, .jobs = 1};
    struct plan plan = {.program = argv[0], .settings = &settings};

    if (!parse(argc, argv, &settings))
        return OPTION_WRONG;
    if (settings.help)
        return fputs(help, stdout) < 0;
    if (settings.list) {
        list();
        return 0;
    }
    if (!getenv("CHAOS_LOG"))
        log_set_capture(drop_line, NULL);
    fault_set_up();
    make_base(plan.base);
    batch_warm_up();
    int code = settings.at > 0 ? run_one(&plan) : run_all(&plan);
    test_remove_tree(plan.base);
    return code;
}
