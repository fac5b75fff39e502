#include "chaos/explorer/run.h"

#include "chaos/explorer/calls.h"
#include "chaos/explorer/world_private.h"
#include "tests/support/files.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

_Static_assert(CALLS_PARTS == HISTORY_PARTS, "the same parts");

/* The world and who is in it; on the heap, since a deadlock leaves threads behind that stand in it
 * for ever. */
struct stage {
    struct world world;
    struct player players[SCENARIO_PARTS_MAX];
    unsigned count;
    struct history history;
};

#define HASH_START UINT64_C(0xcbf29ce484222325)

static void add_to_hash(uint64_t *hash, const char *text)
{
    for (; *text; text++)
        *hash = (*hash ^ (unsigned char) *text) * UINT64_C(0x100000001b3);
}

static void add_to_trace(struct run *run, const char *text)
{
    add_to_hash(&run->trace, text);
}

static struct stage *set_stage(const struct scenario *scenario)
{
    struct stage *stage = calloc(1, sizeof *stage);
    const struct world_options options = {
        .agents = scenario->agents ? scenario->agents : 1,
        .locks_work = !scenario->locks_do_nothing,
        .locks = scenario->locks_do_nothing ? STORE_LOCKS_LOCAL : STORE_LOCKS_AUTO,
    };

    if (!stage)
        test_die("no memory for a world");
    sched_reset();
    world_open(&options, &stage->world);
    while (stage->count < SCENARIO_PARTS_MAX && scenario->parts[stage->count].kind != PART_NONE) {
        player_join(&stage->players[stage->count], &stage->world, &scenario->parts[stage->count],
                    stage->count);
        stage->count++;
    }
    return stage;
}

static void clear_stage(struct stage *stage)
{
    for (unsigned i = 0; i < stage->world.agent_count; i++)
        refresh_table_stop(stage->world.agents[i].store->refreshes);
    sched_drain();
    world_close(&stage->world);
    sched_end();
    free(stage);
}

/* ---- telling ---- */

static void tell_step(struct run *run, const struct choice choice)
{
    const struct sched_actor *actor = choice.kind == CHOICE_KILL ? NULL : sched_current();
    static const char *const what[] = {
        [CHOICE_RUN] = "", [CHOICE_EXPIRE] = "has waited long enough; ", [CHOICE_DIE] = "dies; "};

    if (actor)
        text_append_format(&run->story, "    %3u. %-12s %s%s\n", sched_step(), actor->name,
                           what[choice.kind], actor->at);
    else
        text_append_format(&run->story, "    %3u. agent %u is killed\n", sched_step(),
                           choice.actor);
}

static void trace_step(struct run *run, const struct choice choice)
{
    char text[64];

    (void) snprintf(text, sizeof text, "%d %u ", (int) choice.kind, choice.actor);
    add_to_trace(run, text);
    if (choice.kind != CHOICE_KILL)
        add_to_trace(run, sched_current()->at);
}

static void tell_end(struct run *run, const struct stage *stage, bool tell_story)
{
    for (unsigned i = 0; i < stage->count; i++) {
        const struct player *player = &stage->players[i];
        add_to_trace(run, player->outcome);
        add_to_hash(&run->end, player->outcome);
        add_to_hash(&run->end, ";");
        if (tell_story)
            text_append_format(&run->story, "         %-12s %s\n", player->part->name,
                               player->outcome);
    }
}

/* ---- crashes ---- */

/* What is being played. */
static const struct scenario *playing;
static const struct run *played;

/* The program is lost anyway, so more is done here than a handler may: at worst nothing is told. */
static void report_crash(int number)
{
    static struct schedule schedule;
    AUTO_TEXT struct text text = {0};

    (void) signal(number, SIG_DFL);
    if (played && played->decisions) {
        run_get_schedule(played, &schedule);
        schedule_format(&schedule, &text);
        (void) printf("FAILED %s: crashed in the last step of --replay %s:%s\n", playing->name,
                      playing->name, text_string(&text));
        (void) fflush(stdout);
    }
    (void) raise(number);
}

void run_watch_for_crashes(void)
{
    (void) signal(SIGABRT, report_crash);
#ifndef __SANITIZE_ADDRESS__
    (void) signal(SIGSEGV, report_crash);
#endif
}

/* ---- steps ---- */

static void add_decision(struct run *run, const struct sched_option *options, unsigned count)
{
    struct decision *decision = &run->decisions[run->count];

    *decision = (struct decision){.count = count};
    memcpy(decision->options, options, count * sizeof *options);
    if (run->count > 0) {
        const struct decision *before = &run->decisions[run->count - 1];
        decision->cost = before->cost + before->options[before->chosen].cost;
    }
    run->count++;
}

/* A kill is nobody's step: it counts as one of the last of the dead. */
static unsigned actor_of(const struct stage *stage, struct choice choice)
{
    unsigned actor = choice.actor;

    for (unsigned i = 0; choice.kind == CHOICE_KILL && i < stage->count; i++) {
        if (stage->players[i].actor.process == choice.actor)
            actor = i;
    }
    return actor;
}

static void note_step(struct stage *stage, struct choice choice)
{
    unsigned number = actor_of(stage, choice);
    const struct sched_actor *actor = sched_actor(number);
    const struct calls_touched touched = calls_take_touched();
    const struct history_touch touch = {
        .reads = actor->touches ? touched.reads : CALLS_ALL, /* a peer's looks are not seen */
        .writes = touched.writes,
        .locks = touched.locks,
        .everything = choice.kind != CHOICE_RUN,
        .agent = actor->touches,
    };

    history_add(&stage->history, choice, number, actor->at, &touch);
}

static void perform(struct stage *stage, struct choice choice)
{
    sched_perform(choice);
    if (choice.kind == CHOICE_KILL) {
        stage->world.agents[choice.actor - 1].is_dead = true;
        calls_release_locks_of(choice.actor);
    }
    note_step(stage, choice);
    world_check_step(&stage->world);
}

/* False: nobody will ever go on. */
static bool play(struct stage *stage, run_chooser chooser, void *context, bool tell_story,
                 struct run *run)
{
    struct sched_option options[SCHED_OPTIONS_MAX];
    const char *stuck = NULL;
    unsigned count;

    while (!world_has_failed(&stage->world) && (count = sched_options(options, &stuck)) > 0) {
        add_decision(run, options, count);
        struct decision *decision = &run->decisions[run->count - 1];
        decision->chosen =
            chooser(context, run, decision, history_state(&stage->history, sched_current()));
        if (decision->chosen == RUN_CUT) {
            run->is_cut = true;
            run->count--;
            return true;
        }
        struct choice choice = options[decision->chosen].choice;
        perform(stage, choice);
        trace_step(run, choice);
        if (tell_story)
            tell_step(run, choice);
    }
    if (stuck)
        world_fail(&stage->world, "%s", stuck);
    return !stuck;
}

static void take_stops(struct run *run)
{
    memcpy(run->points, sched_points_met(), sizeof run->points);
    run->stops = sched_step();
}

void run_schedule(const struct scenario *scenario, run_chooser chooser, void *context,
                  bool tell_story, struct run *ret)
{
    struct stage *stage = set_stage(scenario);

    *ret = (struct run){.decisions = calloc(SCHED_STEPS_MAX + 1, sizeof *ret->decisions),
                        .trace = HASH_START,
                        .end = HASH_START};
    if (!ret->decisions)
        test_die("no memory for a run");
    playing = scenario;
    played = ret;
    sched_begin(scenario->mortal_agent);
    bool ended = play(stage, chooser, context, tell_story, ret);
    take_stops(ret);
    if (!world_has_failed(&stage->world) && !ret->is_cut)
        world_check_end(&stage->world);
    tell_end(ret, stage, tell_story);
    text_append_string(&ret->failure, text_string(&stage->world.failure));
    add_to_trace(ret, text_string(&ret->failure));
    played = NULL;
    if (ended)
        clear_stage(stage);
    else
        sched_end(); /* the threads stay where they are, and so does all they hold */
}

void run_destroy(struct run *run)
{
    free(run->decisions);
    text_destroy(&run->failure);
    text_destroy(&run->story);
    *run = (struct run){0};
}

bool run_has_failed(const struct run *run)
{
    return run->failure.size > 0;
}

void run_get_schedule(const struct run *run, struct schedule *ret)
{
    ret->count = run->count;
    for (unsigned i = 0; i < run->count; i++)
        ret->choices[i] = run->decisions[i].options[run->decisions[i].chosen].choice;
}
