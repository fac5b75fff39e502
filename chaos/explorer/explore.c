#include "chaos/explorer/explore.h"

#include "chaos/explorer/wrap.h"
#include "chaos/support/dice.h"
#include "tests/support/files.h"

#include <string.h>

static double now_s(void)
{
    struct timespec now;

    wrap_real_clock(CLOCK_MONOTONIC, &now);
    return (double) now.tv_sec + (double) now.tv_nsec / 1e9;
}

static void count_run(struct explore_result *result, struct seen_states *ends,
                      const struct run *run)
{
    result->schedules++;
    result->cut += run->is_cut;
    result->ends += !run->is_cut && !seen_states_knows(ends, run->end, 0);
    result->stops += run->stops;
    for (unsigned i = 0; i < PAUSE_POINT_COUNT; i++)
        result->points[i] += run->points[i];
    if (run->count > result->longest.count)
        run_get_schedule(run, &result->longest);
    if (run_has_failed(run)) {
        result->has_failed = true;
        run_get_schedule(run, &result->schedule);
    }
}

/* ---- one schedule again ---- */

struct replay {
    const struct schedule *schedule;
    unsigned next;
    bool is_strict; /* what does not fit is an error, and is left out else */
    bool differs;
    unsigned differs_at;
};

static unsigned find_option(const struct decision *decision, struct choice choice)
{
    unsigned i = 0;

    while (i < decision->count && !choice_equal(decision->options[i].choice, choice))
        i++;
    return i;
}

static unsigned follow_schedule(void *context, const struct run *run,
                                const struct decision *decision, uint64_t state)
{
    struct replay *replay = context;

    (void) state;
    while (replay->next < replay->schedule->count) {
        unsigned i = find_option(decision, replay->schedule->choices[replay->next++]);
        if (i < decision->count)
            return i;
        if (replay->is_strict && !replay->differs) {
            replay->differs = true;
            replay->differs_at = run->count;
        }
    }
    return 0;
}

bool explore_replay(const struct scenario *scenario, const struct schedule *schedule,
                    struct run *ret, unsigned *ret_step)
{
    struct replay replay = {.schedule = schedule, .is_strict = true};

    run_schedule(scenario, follow_schedule, &replay, true, ret);
    *ret_step = replay.differs_at;
    return !replay.differs;
}

/* Whether the same schedule does the same again. */
static bool is_same_again(const struct scenario *scenario, const struct run *run)
{
    struct schedule schedule;
    struct replay replay = {.schedule = &schedule, .is_strict = true};
    AUTO_RUN struct run again = {0};

    run_get_schedule(run, &schedule);
    run_schedule(scenario, follow_schedule, &replay, false, &again);
    return !replay.differs && again.trace == run->trace;
}

/* ---- all up to a bound ---- */

/* The beginning of the next schedule; after it, the first option is taken. */
struct branch {
    unsigned *chosen; /* by step */
    unsigned count;
    unsigned bound;
    struct seen_states *states; /* NULL: no run is cut short */
};

static unsigned follow_branch(void *context, const struct run *run, const struct decision *decision,
                              uint64_t state)
{
    const struct branch *branch = context;
    unsigned step = run->count - 1;

    if (step >= branch->count && branch->states &&
        seen_states_knows(branch->states, state, branch->bound - decision->cost))
        return RUN_CUT;
    if (step >= branch->count)
        return 0;
    if (branch->chosen[step] >= decision->count)
        test_die("the same schedule went another way");
    return branch->chosen[step];
}

/* The next schedule after `run`, depth first; false: that was the last one. */
static bool next_branch(const struct run *run, unsigned bound, struct branch *branch)
{
    for (unsigned step = run->count; step-- > 0;) {
        const struct decision *decision = &run->decisions[step];
        for (unsigned i = decision->chosen + 1; i < decision->count; i++) {
            if (decision->cost + decision->options[i].cost > bound)
                continue;
            for (unsigned j = 0; j < step; j++)
                branch->chosen[j] = run->decisions[j].chosen;
            branch->chosen[step] = i;
            branch->count = step + 1;
            return true;
        }
    }
    return false;
}

static void explore_all(const struct scenario *scenario, const struct explore_options *options,
                        double begun_s, struct seen_states *ends, struct explore_result *result)
{
    AUTO_FREE unsigned *chosen = calloc(SCHED_STEPS_MAX + 1, sizeof *chosen);
    AUTO_STATES struct seen_states *states = options->no_states ? NULL : seen_states_create();
    struct branch branch = {.chosen = chosen, .bound = options->bound, .states = states};
    bool more = true;

    if (!chosen)
        test_die("no memory to explore");
    while (more && !result->has_failed) {
        AUTO_RUN struct run run = {0};
        run_schedule(scenario, follow_branch, &branch, false, &run);
        count_run(result, ends, &run);
        if (result->schedules <= options->twice && !run.is_cut && !is_same_again(scenario, &run)) {
            result->differs = result->has_failed = true;
            run_get_schedule(&run, &result->schedule);
        }
        if (options->number && result->schedules == options->number) {
            run_get_schedule(&run, &result->schedule);
            return;
        }
        more = next_branch(&run, options->bound, &branch);
        if (more && options->seconds > 0 && now_s() - begun_s > options->seconds)
            return;
    }
    result->is_complete = !result->has_failed;
}

/* ---- chance ---- */

static unsigned choose_by_chance(void *context, const struct run *run,
                                 const struct decision *decision, uint64_t state)
{
    struct dice *dice = context;

    (void) run;
    (void) state;
    return dice_hit(dice, 4) ? dice_roll(dice, decision->count) : 0;
}

static void explore_by_chance(const struct scenario *scenario,
                              const struct explore_options *options, double begun_s,
                              struct seen_states *ends, struct explore_result *result)
{
    struct dice dice = {.state = options->seed};

    for (unsigned i = 0; i < options->walks && !result->has_failed; i++) {
        AUTO_RUN struct run run = {0};
        if (options->seconds > 0 && now_s() - begun_s > options->seconds)
            return;
        run_schedule(scenario, choose_by_chance, &dice, false, &run);
        count_run(result, ends, &run);
    }
}

void explore(const struct scenario *scenario, const struct explore_options *options,
             struct explore_result *ret)
{
    AUTO_STATES struct seen_states *ends = seen_states_create();
    double begun_s = now_s();

    *ret = (struct explore_result){0};
    explore_all(scenario, options, begun_s, ends, ret);
    if (!ret->has_failed && !options->number)
        explore_by_chance(scenario, options, now_s(), ends, ret);
    ret->seconds = now_s() - begun_s;
}

/* ---- shorter ---- */

/* Takes the shorter schedule if it fails as well. */
static bool try_shorter(const struct scenario *scenario, const struct schedule *candidate,
                        struct schedule *best)
{
    struct replay replay = {.schedule = candidate};
    AUTO_RUN struct run run = {0};
    struct schedule taken;

    run_schedule(scenario, follow_schedule, &replay, false, &run);
    if (!run_has_failed(&run))
        return false;
    run_get_schedule(&run, &taken);
    unsigned switches = schedule_switches(&taken);
    unsigned best_switches = schedule_switches(best);
    if (switches > best_switches || (switches == best_switches && taken.count >= best->count))
        return false;
    *best = taken;
    return true;
}

static void leave_out(const struct schedule *schedule, unsigned first, unsigned count,
                      struct schedule *ret)
{
    ret->count = schedule->count - count;
    memcpy(ret->choices, schedule->choices, first * sizeof ret->choices[0]);
    memcpy(ret->choices + first, schedule->choices + first + count,
           (schedule->count - first - count) * sizeof ret->choices[0]);
}

static unsigned same_from(const struct schedule *schedule, unsigned first)
{
    unsigned count = 1;

    while (first + count < schedule->count &&
           choice_equal(schedule->choices[first + count], schedule->choices[first]))
        count++;
    return count;
}

/* Tries to do without each stretch of one actor, and with it later. True: it helped. */
static bool shrink_once(const struct scenario *scenario, struct schedule *schedule, double until_s)
{
    struct schedule candidate;

    for (unsigned first = 0, count; first < schedule->count; first += count) {
        count = same_from(schedule, first);
        for (unsigned part = count; part > 0; part /= 2) {
            leave_out(schedule, first, part, &candidate);
            if (now_s() > until_s)
                return false;
            if (try_shorter(scenario, &candidate, schedule))
                return true;
        }
    }
    return false;
}

/* Without what comes after the last switch: that goes by itself. */
static void cut_tail(const struct scenario *scenario, struct schedule *schedule)
{
    struct schedule candidate = *schedule;
    struct replay replay;

    for (unsigned count = 0; count < schedule->count; count++) {
        AUTO_RUN struct run run = {0};
        struct schedule taken;
        candidate.count = count;
        replay = (struct replay){.schedule = &candidate};
        run_schedule(scenario, follow_schedule, &replay, false, &run);
        run_get_schedule(&run, &taken);
        if (run_has_failed(&run) && taken.count <= schedule->count) {
            *schedule = candidate;
            return;
        }
    }
}

void explore_shrink(const struct scenario *scenario, struct schedule *schedule, double seconds)
{
    double until_s = now_s() + seconds;

    while (shrink_once(scenario, schedule, until_s))
        continue;
    cut_tail(scenario, schedule);
}
