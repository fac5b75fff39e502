#include "chaos/replay/together.h"

#include "chaos/replay/player_private.h"
#include "chaos/replay/step.h"
#include "chaos/support/dice.h"
#include "core/clock.h"
#include "core/keeper.h"
#include "core/writer.h"
#include "tests/support/files.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define SEARCHERS 2
#define WRITERS 3
#define REFRESHERS 2
#define WORKERS (SEARCHERS + WRITERS + REFRESHERS)
#define IDS 4
#define STANDSTILL_MS 30000
#define PAUSE_SIDES 24 /* one arrival in so many pauses */
#define PAUSE_NS_MAX 1500000

static const char *const scopes[] = {"u/a", "u/b", "v/a", "v/b"};

struct crowd;

struct worker {
    struct crowd *crowd;
    const char *name;
    unsigned number;
    struct dice dice;
    pthread_t thread;
    _Atomic unsigned done; /* rounds */
    unsigned seen;         /* by the watchdog */
    uint64_t moved_ns;
    bool has[ARRAY_SIZE(scopes)][IDS]; /* a writer's own facts */
    unsigned texts[ARRAY_SIZE(scopes)][IDS];
};

struct crowd {
    struct temp_store *store;
    struct writer *writer;
    struct keeper *keeper;
    struct worker workers[WORKERS];
    atomic_bool stop;
    _Atomic unsigned failures;
    uint64_t seed;
};

/* ---- pauses by chance ---- */

static _Thread_local struct dice pauses;
static _Atomic unsigned threads_seen;
static uint64_t pause_seed;

static void pause_by_chance(enum pause_point point)
{
    (void) point;
    if (pauses.state == 0)
        pauses.state = pause_seed + 1000 + atomic_fetch_add(&threads_seen, 1);
    if (!dice_hit(&pauses, PAUSE_SIDES))
        return;
    const struct timespec pause = {.tv_nsec = (long) dice_roll(&pauses, PAUSE_NS_MAX)};
    (void) nanosleep(&pause, NULL);
}

/* ---- workers ---- */

static void fail(struct worker *worker, const char *what, enum status status,
                 const struct error *error)
{
    if (atomic_fetch_add(&worker->crowd->failures, 1) < 10)
        (void) printf("    %s %u: %s: %s (%s)\n", worker->name, worker->number, what,
                      status_name(status), error->message);
}

static void search_once(struct worker *worker)
{
    const struct temp_question question = {
        .scopes = dice_hit(&worker->dice, 3) ? "u/a v/b"
                                             : scopes[dice_roll(&worker->dice, ARRAY_SIZE(scopes))],
        .thread = worker->number,
    };
    struct temp_answer answer = temp_store_ask_as(worker->crowd->store, &question);

    if (answer.status != STATUS_OK)
        fail(worker, "a search", answer.status, &answer.error);
}

/* The ids begin with the writer's letter, so that nobody else has them. */
static void write_once(struct worker *worker)
{
    unsigned scope = dice_roll(&worker->dice, ARRAY_SIZE(scopes));
    unsigned id = dice_roll(&worker->dice, IDS);
    bool *has = &worker->has[scope][id];
    bool removes = *has && dice_hit(&worker->dice, 3);
    char letter = (char) ('k' + worker->number);
    char line[128];
    char why[128] = "";
    struct step step;
    struct error error = {0};

    if (removes)
        (void) snprintf(line, sizeof line, "W1 all %s -%c%u", scopes[scope], letter, id);
    else
        (void) snprintf(line, sizeof line, "W1 all %s %c%c%u=t%u", scopes[scope], *has ? '~' : '+',
                        letter, id, ++worker->texts[scope][id]);
    if (!step_parse(line, &step, why, sizeof why))
        test_die("%s: %s", line, why);
    enum status status = write_step(worker->crowd->writer, &step, worker->number, &error);
    step_destroy(&step);
    if (status != STATUS_OK)
        fail(worker, line, status, &error);
    else
        *has = !removes;
}

static void refresh_once(struct worker *worker)
{
    struct refresh_table *table = worker->crowd->store->store->refreshes;
    struct refresh_result result = {0};
    struct scope scope;
    uint64_t number;

    temp_store_scope(scopes[dice_roll(&worker->dice, ARRAY_SIZE(scopes))], &scope);
    unsigned wishes = dice_hit(&worker->dice, 2) ? REFRESH_WISH_FULL : REFRESH_WISH_NONE;
    if (refresh_request(table, &scope, REFRESH_BACKGROUND, REFRESH_CAUSE_SEARCH, wishes, &number) !=
        STATUS_OK)
        test_die("no memory for a request");
    if (!refresh_wait(table, &scope, number, clock_deadline_ms(STANDSTILL_MS), &result))
        fail(worker, "a refresh", STATUS_TIMEOUT, &result.error);
    if (result.status != STATUS_OK && result.status != STATUS_BUSY &&
        result.status != STATUS_TIMEOUT)
        fail(worker, "a refresh", result.status, &result.error);
}

static void *work(void *context)
{
    struct worker *worker = context;

    while (!atomic_load(&worker->crowd->stop)) {
        if (worker->number < SEARCHERS)
            search_once(worker);
        else if (worker->number < SEARCHERS + WRITERS)
            write_once(worker);
        else
            refresh_once(worker);
        atomic_fetch_add(&worker->done, 1);
    }
    return NULL;
}

/* ---- the crowd ---- */

static void open_crowd(struct crowd *crowd, struct peer_process *peer)
{
    const struct keeper_options keeper_options = {.refreshers = 2,
                                                  .inotify = true,
                                                  .poll_interval_min_ms = 10,
                                                  .poll_interval_max_ms = 100,
                                                  .operations_per_second = 1000};
    const struct writer_options writer_options = {.lock_timeout_ms = STANDSTILL_MS};
    struct error error = {0};

    crowd->store = temp_store_create();
    crowd->store->without_refresher = true;
    crowd->store->options.request_threads = PLAYER_READERS;
    peer_process_move(peer, temp_volume_path(crowd->store->volume));
    for (size_t i = 0; i < ARRAY_SIZE(scopes); i++)
        json_decref(
            peer_process_do(peer, json_pack("{s:s, s:s#, s:s, s:[[s, s, s]]}", "do", "commit",
                                            "user", scopes[i], 1, "agent", scopes[i] + 2, "changes",
                                            "add", "f0", "note at the start")));
    temp_store_open(crowd->store);
    if (writer_create(crowd->store->store, &writer_options, &crowd->writer) != STATUS_OK ||
        keeper_start(crowd->store->store, &keeper_options, &crowd->keeper, &error) != STATUS_OK)
        test_die("no keeper or no writer");
}

static void start_workers(struct crowd *crowd)
{
    for (unsigned i = 0; i < WORKERS; i++) {
        struct worker *worker = &crowd->workers[i];
        worker->crowd = crowd;
        worker->number = i;
        worker->name = i < SEARCHERS             ? "searcher"
                       : i < SEARCHERS + WRITERS ? "writer"
                                                 : "refresher";
        worker->dice.state = crowd->seed * 1000 + i;
        worker->moved_ns = clock_monotonic_ns();
        if (pthread_create(&worker->thread, NULL, work, worker) != 0)
            test_die("no thread");
    }
}

/* Ends the program when somebody has stood still for too long: there is nothing left to be joined.
 */
static void watch(struct crowd *crowd)
{
    uint64_t now_ns = clock_monotonic_ns();

    for (unsigned i = 0; i < WORKERS; i++) {
        struct worker *worker = &crowd->workers[i];
        unsigned done = atomic_load(&worker->done);
        if (done != worker->seen)
            worker->moved_ns = now_ns;
        worker->seen = done;
        if (now_ns - worker->moved_ns > STANDSTILL_MS * NS_PER_MS)
            test_die("seed %" PRIu64 ": %s %u stands still after %u rounds", crowd->seed,
                     worker->name, worker->number, done);
    }
}

/* The peer is led by this thread, which is the watchdog too. */
static void lead_peer(struct crowd *crowd, struct peer_process *peer, unsigned seconds)
{
    struct dice dice = {.state = crowd->seed};
    bool has[ARRAY_SIZE(scopes)][IDS] = {0};
    uint64_t until_ns = clock_deadline_ms((uint64_t) seconds * 1000);

    for (unsigned texts = 0; clock_remaining_ms(until_ns) > 0; texts++) {
        unsigned scope = dice_roll(&dice, ARRAY_SIZE(scopes));
        unsigned id = dice_roll(&dice, IDS);
        bool *there = &has[scope][id];
        const char *kind = !*there ? "add" : dice_hit(&dice, 2) ? "delete" : "update";
        json_decref(
            peer_process_do(peer,
                            json_pack("{s:s, s:s#, s:s, s:[[s, o, o]]}", "do", "commit", "user",
                                      scopes[scope], 1, "agent", scopes[scope] + 2, "changes", kind,
                                      json_sprintf("p%u", id), json_sprintf("note p%u", texts))));
        *there = strcmp(kind, "delete") != 0;
        watch(crowd);
    }
}

static void stop_workers(struct crowd *crowd)
{
    atomic_store(&crowd->stop, true);
    for (unsigned i = 0; i < WORKERS; i++) {
        struct worker *worker = &crowd->workers[i];
        struct timespec until;
        (void) clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += STANDSTILL_MS / 1000;
        if (pthread_timedjoin_np(worker->thread, NULL, &until) != 0)
            test_die("seed %" PRIu64 ": %s %u does not end", crowd->seed, worker->name,
                     worker->number);
    }
    (void) !keeper_stop(&crowd->keeper, CLOCK_NEVER);
}

/* What the writers were told is written is on the volume. */
static void judge_writers(struct crowd *crowd, struct peer_process *peer)
{
    for (size_t scope = 0; scope < ARRAY_SIZE(scopes); scope++) {
        char user[2] = {scopes[scope][0], '\0'};
        AUTO_JSON json_t *facts = peer_process_facts(peer, user, scopes[scope] + 2);
        for (unsigned i = SEARCHERS; i < SEARCHERS + WRITERS; i++) {
            const struct worker *worker = &crowd->workers[i];
            for (unsigned id = 0; id < IDS; id++) {
                char key[16];
                char text[32];
                (void) snprintf(key, sizeof key, "%c%u", (char) ('k' + i), id);
                (void) snprintf(text, sizeof text, "note t%u", worker->texts[scope][id]);
                const char *found = json_string_value(json_object_get(facts, key));
                if (worker->has[scope][id] ? found && strcmp(found, text) == 0 : !found)
                    continue;
                (void) printf("    %s %s should be %s, is %s\n", scopes[scope], key,
                              worker->has[scope][id] ? text : "gone", found ? found : "gone");
                atomic_fetch_add(&crowd->failures, 1);
            }
        }
    }
}

static void judge_searches(struct crowd *crowd, struct peer_process *peer)
{
    AUTO_PLAY_RESULT struct play_result result = {0};
    const struct play_options options = {.peer = peer};
    struct player player = {.options = &options, .result = &result, .store = crowd->store};

    for (size_t i = 0; i < ARRAY_SIZE(scopes); i++)
        (void) step_scope_parse(scopes[i], &player.scopes[player.scope_count++]);
    judge_truth(&player);
    if (text_string(&result.findings)[0] == '\0')
        return;
    (void) printf("%s", text_string(&result.findings));
    atomic_fetch_add(&crowd->failures, 1);
}

static void tell(const struct crowd *crowd, unsigned seconds)
{
    unsigned rounds[3] = {0};

    for (unsigned i = 0; i < WORKERS; i++)
        rounds[i < SEARCHERS             ? 0
               : i < SEARCHERS + WRITERS ? 1
                                         : 2] += atomic_load(&crowd->workers[i].done);
    (void) printf("%s everything at once for %u s, seed %" PRIu64
                  ": %u searches, %u own writes, %u refreshes asked for\n",
                  atomic_load(&crowd->failures) == 0 ? "ok    " : "FAILED", seconds, crowd->seed,
                  rounds[0], rounds[1], rounds[2]);
}

void run_together(uint64_t seed, unsigned seconds, struct peer_process *peer,
                  struct run_totals *totals)
{
    struct crowd crowd = {.seed = seed};

    pause_reset();
    pause_seed = seed;
    pause_set_visitor(pause_by_chance);
    open_crowd(&crowd, peer);
    start_workers(&crowd);
    lead_peer(&crowd, peer, seconds);
    stop_workers(&crowd);
    pause_set_visitor(NULL);
    for (unsigned i = 0; i < PAUSE_POINT_COUNT; i++)
        totals->passed_by += pause_visits((enum pause_point) i);
    judge_searches(&crowd, peer);
    judge_writers(&crowd, peer);
    writer_destroy(&crowd.writer);
    temp_store_destroy(&crowd.store);
    tell(&crowd, seconds);
    bool passed = atomic_load(&crowd.failures) == 0;
    totals->passed += passed;
    totals->failed += !passed;
}
