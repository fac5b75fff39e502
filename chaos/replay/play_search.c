/* What the node's clients see, and what the index says of itself. */
#include "chaos/replay/actor_private.h"
#include "chaos/replay/player_private.h"
#include "core/clock.h"
#include "core/refresher.h"
#include "tests/support/files.h"
#include "tests/support/temp_calls.h"

#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#define WORD "note"
#define DEADLINE_MS 20000
#define NOBODYS_SCOPE "nobody/nobody"

extern char **environ;

/* ---- one search ---- */

static void seen_destroy(struct search_seen *seen)
{
    json_decref(seen->found);
}
#define AUTO_SEARCH_SEEN CLEANUP(seen_destroy)

static void add_hit(json_t *found, const struct scope *scope, const struct index_hit *hit)
{
    AUTO_JSON json_t *document = json_loadb(hit->document, hit->document_size, 0, NULL);
    const char *id = json_string_value(json_object_get(document, "id"));
    const char *content = json_string_value(json_object_get(document, "content"));
    char key[512];

    if (!id || !content)
        test_die("a hit without id or content");
    (void) snprintf(key, sizeof key, "%s/%s", scope->agent, id);
    if (json_object_get(found, key)) /* a row that is there twice */
        (void) snprintf(key, sizeof key, "%s/%s again", scope->agent, id);
    (void) json_object_set_new(found, key, json_string(player_text_without_word(content)));
}

/* A scope that was never built is built by a refresher, not by the search; so there is one while
 * such a search goes on, and none otherwise. */
struct builder {
    struct temp_store *store;
    pthread_t thread;
    bool runs;
};

static bool is_nobodys(const struct scope *scope)
{
    return scope->has_user && strcmp(scope->user, "nobody") == 0;
}

static void *build_what_is_wanted(void *context)
{
    struct temp_store *store = context;
    struct refresh_run run;
    struct refresh_result result = {0};

    while (refresh_take(store->store->refreshes, true, &run)) {
        if (is_nobodys(&run.scope)) {
            refresh_done(store->store->refreshes, &run, &result, 0);
            return NULL;
        }
        refresher_run(store->store, store->urgent_reader, &run, &result);
    }
    return NULL;
}

static void builder_start(struct builder *builder, const struct step *step)
{
    for (size_t i = 0; i < step->scope_count; i++) {
        char name[2 * STEP_NAME_SIZE];
        struct index_scope row;
        player_scope_name(&step->scopes[i], name);
        if (!temp_store_row(builder->store, name, &row))
            builder->runs = true;
    }
    if (builder->runs &&
        pthread_create(&builder->thread, NULL, build_what_is_wanted, builder->store) != 0)
        test_die("no thread");
}

static void builder_stop(struct builder *builder)
{
    struct scope scope;
    uint64_t number;

    if (!builder->runs)
        return;
    temp_store_scope(NOBODYS_SCOPE, &scope);
    if (refresh_request(builder->store->store->refreshes, &scope, REFRESH_URGENT,
                        REFRESH_CAUSE_SEARCH, REFRESH_WISH_NONE, &number) != STATUS_OK)
        test_die("no memory for a request");
    (void) pthread_join(builder->thread, NULL);
}

static void take_result(const struct search_request *request, const struct search_result *result,
                        struct search_seen *seen)
{
    for (size_t i = 0; i < result->count; i++)
        add_hit(seen->found, &request->reading.scopes[result->hits[i].scope], &result->hits[i].hit);
    for (size_t i = 0; i < result->report_count; i++)
        seen->unverified |=
            result->reports[i].state == SCOPE_STALE || result->reports[i].state == SCOPE_UNVERIFIED;
}

static void search(struct player *player, const struct step *step, unsigned reader,
                   struct search_seen *seen)
{
    struct store *store = player->store->store;
    struct scope scopes[STEP_SCOPES_MAX];
    AUTO_SEARCH struct search_result result = {0};
    struct builder builder = {.store = player->store};
    const struct search_request request = {
        .reading = {.scopes = scopes,
                    .count = step->scope_count,
                    .deadline_ns = clock_deadline_ms(DEADLINE_MS),
                    .may_block = true,
                    .thread = reader},
        .query = WORD,
        .query_size = sizeof WORD - 1,
        .top_k = SEARCH_TOP_K_MAX,
    };

    for (size_t i = 0; i < step->scope_count; i++) {
        char name[2 * STEP_NAME_SIZE];
        player_scope_name(&step->scopes[i], name);
        temp_store_scope(name, &scopes[i]);
    }
    seen->found = json_object();
    /* From before the builder begins until after it has ended: what a write has asked for in the
     * background is done meanwhile, sooner or later. */
    uint64_t refreshes = atomic_load(&store->counters.refreshes);
    if (reader == 0)
        builder_start(&builder, step);
    if (step->files != NOT_SAID)
        temp_calls_count(TEMP_CALL_OPEN, ".md");
    seen->status = searcher_run(store, &request, &result, &seen->error);
    seen->files = step->files != NOT_SAID ? temp_calls_counted() : 0;
    builder_stop(&builder);
    seen->refreshes = atomic_load(&store->counters.refreshes) - refreshes;
    if (seen->status == STATUS_OK)
        take_result(&request, &result, seen);
}

/* ---- states ---- */

static const struct broken *broken_manifest(const struct player *player, const char *user)
{
    for (size_t i = 0; i < player->broken_count; i++) {
        const struct broken *broken = &player->broken[i];
        if (!broken->is_fact && broken->has_live && strcmp(broken->user, user) == 0)
            return broken;
    }
    return NULL;
}

/* Against the manifest as it was before it became unreadable, when it is. */
static const char *state_of(struct player *player, const struct step_scope *scope)
{
    const struct broken *broken = broken_manifest(player, scope->user);
    char name[2 * STEP_NAME_SIZE];
    struct index_scope row;

    player_scope_name(scope, name);
    if (!broken)
        return temp_store_state(player->store, name);
    if (!temp_store_row(player->store, name, &row) || !row.synced.known)
        return "unsynced";
    return freshness_in_step(&row.synced, row.facts, &broken->live, true) ? "synced" : "behind";
}

/* ---- judging ---- */

static const struct step *our_look(const struct player *player)
{
    return player->options->ours ? schedule_look(player->options->ours, player->looks) : NULL;
}

static json_t *truth_of(struct player *player, const struct step *step)
{
    json_t *truth = json_object();

    for (size_t i = 0; i < step->scope_count; i++) {
        const struct step_scope *scope = &step->scopes[i];
        AUTO_JSON json_t *facts =
            peer_process_facts(player->options->peer, scope->user, scope->agent);
        const char *id;
        json_t *text;
        json_object_foreach(facts, id, text)
        {
            char key[512];
            (void) snprintf(key, sizeof key, "%s/%s", scope->agent, id);
            (void) json_object_set_new(truth, key,
                                       json_string(
                                           player_text_without_word(json_string_value(text))));
        }
    }
    return truth;
}

static bool is_word(const json_t *result, const char *word)
{
    return json_is_string(result) && strcmp(json_string_value(result), word) == 0;
}

/* What is to be found, or NULL where the step does not say. */
static json_t *expected_facts(struct player *player, const struct step *step)
{
    if (is_word(step->result, "truth"))
        return truth_of(player, step);
    return json_incref(step->result);
}

static void judge_found(struct player *player, const struct step *step,
                        const struct search_seen *seen)
{
    const struct step *ours = our_look(player);
    AUTO_JSON json_t *expected = expected_facts(player, step);
    bool fresh = seen->status == STATUS_OK && !seen->unverified;
    bool as_said =
        is_word(expected, "error") ? !fresh : !expected || json_equal(expected, seen->found);

    if (is_word(step->result, "truth") && !fresh)
        player_found(player, "the answer is not fresh");
    if (as_said || (ours && json_equal(ours->result, seen->found)))
        return;
    AUTO_FREE char *wanted = json_dumps(expected, JSON_ENCODE_ANY | JSON_SORT_KEYS);
    AUTO_FREE char *found = json_dumps(seen->found, JSON_SORT_KEYS);
    player_found(player, "expected %s, found %s", wanted, found);
}

static void judge_counts(struct player *player, const struct step *step,
                         const struct search_seen *seen)
{
    bool moved = player->options->kind != BROKEN_SYSTEM && step->refreshes_moved != NOT_SAID;
    long most = moved ? step->refreshes_moved : step->refreshes;

    if (most != NOT_SAID && seen->refreshes > (uint64_t) most)
        player_found(player, "expected at most %ld refreshes, found %llu", most,
                     (unsigned long long) seen->refreshes);
    if (step->files != NOT_SAID && seen->files > (unsigned long) step->files)
        player_found(player, "expected at most %ld files to be opened, found %u", step->files,
                     seen->files);
}

static void judge_state(struct player *player, const struct step *step, size_t i)
{
    const struct step *ours = our_look(player);
    const char *found = state_of(player, &step->scopes[i]);

    text_append_format(&player->result->outcome, " %s", found);
    if (i >= step->state_count || strcmp(found, step->states[i].name) == 0)
        return;
    if (ours && i < ours->state_count && strcmp(found, ours->states[i].name) == 0)
        return;
    player_found(player, "expected %s to be %s, found %s", step->scopes[i].agent,
                 step->states[i].name, found);
}

static void note_seen(struct player *player, const struct search_seen *seen)
{
    AUTO_FREE char *found = json_dumps(seen->found, JSON_SORT_KEYS | JSON_COMPACT);

    text_append_format(&player->result->outcome, "search: %s%s %s, %llu refreshes, states",
                       status_name(seen->status), seen->unverified ? " unverified" : "", found,
                       (unsigned long long) seen->refreshes);
    if (player->options->verbose)
        (void) printf("       found %s%s %s, %llu refreshes\n", status_name(seen->status),
                      seen->unverified ? " unverified" : "", found,
                      (unsigned long long) seen->refreshes);
}

static void judge(struct player *player, const struct step *step, const struct search_seen *seen)
{
    note_seen(player, seen);
    if (seen->status != STATUS_OK && !is_word(step->result, "error"))
        player_found(player, "the search fails: %s", seen->error.message);
    judge_found(player, step, seen);
    judge_counts(player, step, seen);
    for (size_t i = 0; i < step->scope_count; i++)
        judge_state(player, step, i);
    text_append_char(&player->result->outcome, '\n');
    player->looks++;
}

void play_search(struct player *player, const struct step *step)
{
    AUTO_SEARCH_SEEN struct search_seen seen = {0};

    if (player->installing) {
        player_found(player, "a transaction is open; it would wait for ever");
        return;
    }
    search(player, step, 0, &seen);
    judge(player, step, &seen);
}

/* ---- a search in a thread of its own ---- */

static void run_search(struct actor_thread *thread)
{
    struct asking *asking = thread->actor->asking;

    search(asking->player, &asking->step, asking->reader, &asking->seen);
    thread->status = asking->seen.status;
}

struct actor *actor_search(struct temp_store *store, struct asking *asking, unsigned number)
{
    struct actor *actor = actor_create(store, 1, number, run_search);

    actor->asking = asking;
    return actor;
}

/* The one of the step's number; begins when the step names scopes. */
static struct asking *asking_of(struct player *player, const struct step *step)
{
    if (step->number == 0 || step->number > PLAYER_ASKERS)
        test_die("no such search: %s", step->text);
    struct asking *asking = &player->askings[step->number];
    if (step->scope_count > 0) {
        actor_destroy(&asking->actor);
        json_decref(asking->seen.found);
        *asking = (struct asking){.player = player,
                                  .step = *step,
                                  .reader = PLAYER_ACTORS + step->number - 1};
        asking->step.files = NOT_SAID;
        asking->actor = actor_search(player->store, asking,
                                     PLAYER_ACTORS * (STEP_SCOPES_MAX + 1) + step->number);
    }
    if (!asking->actor)
        test_die("it has not begun: %s", step->text);
    return asking;
}

static void lead_search(struct player *player, const struct step *step, uint64_t stops)
{
    struct asking *asking = asking_of(player, step);

    player->wanted++;
    actor_lead(asking->actor, stops);
    if (actor_await(asking->actor) == ACTOR_HELD)
        player->held++;
    else
        player_found(player, "it has ended on the way: %s", actor_outcome(asking->actor));
}

void play_ask_looks(struct player *player, const struct step *step)
{
    lead_search(player, step, PAUSE_SET(SEARCH_BEFORE_QUERY));
}

void play_ask_joins(struct player *player, const struct step *step)
{
    lead_search(player, step, PAUSE_SET(SEARCH_AFTER_JOIN));
}

/* Where it looks at the index once only, it ends here. */
void play_ask_goes_on(struct player *player, const struct step *step)
{
    struct asking *asking = asking_of(player, step);

    actor_lead(asking->actor, PAUSE_SET(SEARCH_BEFORE_QUERY));
    (void) actor_await(asking->actor);
}

void play_ask_answers(struct player *player, const struct step *step)
{
    struct asking *asking = asking_of(player, step);
    struct step answered = *step;

    actor_lead(asking->actor, PAUSE_SET_NONE);
    (void) actor_await(asking->actor);
    memcpy(answered.scopes, asking->step.scopes, sizeof answered.scopes);
    answered.scope_count = asking->step.scope_count;
    judge(player, &answered, &asking->seen);
}

void play_state(struct player *player, const struct step *step)
{
    text_append_string(&player->result->outcome, "state:");
    judge_state(player, step, 0);
    text_append_char(&player->result->outcome, '\n');
    player->looks++;
}

/* ---- the truth at the end ---- */

/* A change that a dead peer has left half done counts as the next one who has the lock would leave
 * it; the search, which comes first, must have known that. */
static void recover(struct player *player, const struct step_scope *scope)
{
    json_decref(peer_process_do(player->options->peer,
                                json_pack("{s:s, s:s}", "do", "recover", "user", scope->user)));
}

void judge_truth(struct player *player)
{
    for (size_t i = 0; i < player->scope_count; i++) {
        AUTO_SEARCH_SEEN struct search_seen seen = {0};
        const struct step step = {.scopes = {player->scopes[i]},
                                  .scope_count = 1,
                                  .files = NOT_SAID};
        search(player, &step, 0, &seen);
        recover(player, &player->scopes[i]);
        AUTO_JSON json_t *truth = truth_of(player, &step);
        if (seen.status == STATUS_OK && !seen.unverified && json_equal(truth, seen.found))
            continue;
        AUTO_FREE char *expected = json_dumps(truth, JSON_SORT_KEYS);
        AUTO_FREE char *found = json_dumps(seen.found, JSON_SORT_KEYS);
        player_found(player, "on the volume lies %s, found (%s%s) %s", expected,
                     status_name(seen.status), seen.unverified ? ", unverified" : "", found);
    }
}

/* ---- the node itself ---- */

void play_open(struct player *player, const struct step *step)
{
    (void) step;
    player_open(player);
}

/* Another process of the node wants the same index: it must be refused, for it would know nothing
 * of our table. */
void play_owner(struct player *player, const struct step *step)
{
    char program[] = "/proc/self/exe";
    char option[] = "--open-index";
    char *const arguments[] = {program, option, player->store->index_directory, NULL};
    pid_t child;
    int status = 0;

    (void) step;
    if (posix_spawn(&child, program, NULL, NULL, arguments, environ) != 0 ||
        waitpid(child, &status, 0) != child)
        test_die("no second process");
    if (!WIFEXITED(status) || WEXITSTATUS(status) != STATUS_BUSY)
        player_found(player, "a second process may open the index");
}
