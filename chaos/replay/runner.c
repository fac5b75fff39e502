#include "chaos/replay/runner.h"

#include "chaos/replay/listed.h"
#include "chaos/replay/random.h"
#include "core/clock.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define PLAY_SECONDS_MAX 120

/* What is played now, for whoever aborts the program in the middle of it. */
static const char *playing = "";

static void tell_what_was_playing(int signal_number)
{
    static const char head[] = "while this was played:\n";

    (void) signal(signal_number, SIG_DFL);
    if (write(STDERR_FILENO, head, sizeof head - 1) > 0)
        (void) !write(STDERR_FILENO, playing, strlen(playing));
    (void) raise(signal_number);
}

static bool play_once(const struct schedule *schedule, const struct play_options *options,
                      struct play_result *ret)
{
    playing = schedule->source;
    (void) signal(SIGABRT, tell_what_was_playing);
    (void) signal(SIGALRM, tell_what_was_playing);
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

static bool run_one(const struct run_options *options, const struct schedule *schedule,
                    const struct play_options *play_options, const char *suffix,
                    struct run_totals *totals)
{
    AUTO_PLAY_RESULT struct play_result result = {0};

    if (options->verbose)
        (void) printf("       %s%s\n", schedule->id, suffix);
    bool passed = play_often(schedule, play_options, options->repeat, &result);
    bool is_told = !passed || !play_options->by_chance;
    if (is_told)
        (void) printf("%s %s%s %s (%u held, %u passed)\n", passed ? "ok    " : "FAILED",
                      schedule->id, suffix, schedule->title, result.held, result.passed_by);
    if (!passed)
        (void) printf("%s", text_string(&result.findings));
    (void) fflush(stdout);
    totals->passed += passed;
    totals->failed += !passed;
    totals->held += result.held;
    totals->passed_by += result.passed_by;
    return passed;
}

static bool is_wanted(const struct run_options *options, const struct schedule *schedule)
{
    return !options->only || strncmp(schedule->id, options->only, strlen(options->only)) == 0;
}

void run_schedules(const struct run_options *options, const struct schedule_list *list,
                   struct peer_process *peer, struct run_totals *totals)
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
            (void) run_one(options, schedule, &play_options, suffix, totals);
        }
    }
}

void run_listed(const struct run_options *options, const char *path,
                const struct schedule_list *ours, struct peer_process *peer,
                struct run_totals *totals)
{
    struct schedule_list listed = {0};

    schedule_list_load_json(&listed, path);
    for (size_t i = 0; i < listed.count; i++) {
        const struct schedule *schedule = &listed.schedules[i];
        const struct schedule *own = schedule_list_find(ours, schedule->id);
        if (!is_wanted(options, schedule))
            continue;
        bool retold = listed_is_retold(schedule, own);
        totals->passed += retold;
        totals->failed += !retold;
        if (!own)
            continue;
        const struct play_options play_options = {.peer = peer,
                                                  .verbose = options->verbose,
                                                  .ours = own};
        (void) run_one(options, schedule, &play_options, "/listed", totals);
    }
    schedule_list_destroy(&listed);
}

static void run_seed(const struct run_options *options, uint64_t seed, struct peer_process *peer,
                     struct run_totals *totals)
{
    AUTO_TEXT struct text text = {0};
    struct schedule_list list = {0};
    const struct play_options play_options = {.peer = peer,
                                              .verbose = options->verbose,
                                              .judges_truth = true,
                                              .by_chance = true};

    random_schedule(seed, &text);
    schedule_list_parse(&list, "seed", text_string(&text));
    if (!run_one(options, &list.schedules[0], &play_options, "", totals))
        (void) printf("%s", text_string(&text));
    schedule_list_destroy(&list);
}

void run_random(const struct run_options *options, uint64_t seed, unsigned rounds, unsigned seconds,
                struct peer_process *peer, struct run_totals *totals)
{
    uint64_t until_ns = clock_deadline_ms((uint64_t) seconds * 1000);
    unsigned done = 0;

    while (seconds > 0 ? clock_remaining_ms(until_ns) > 0 : done < rounds)
        run_seed(options, seed + done++, peer, totals);
    (void) printf("schedules made by chance: seeds %" PRIu64 " to %" PRIu64 "\n", seed,
                  seed + done - 1);
}
