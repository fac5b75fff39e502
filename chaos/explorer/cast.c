#include "chaos/explorer/cast.h"

#include "chaos/explorer/calls.h"
#include "chaos/explorer/world_private.h"
#include "core/clock.h"
#include "core/refresher.h"
#include "tests/support/files.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define DEADLINE_MS 40000
#define QUERY "note"
#define FIRST_PEER 100

static struct world_agent *agent_of(const struct player *player)
{
    return &player->world->agents[player->part->agent];
}

static void note(struct player *player, const char *text)
{
    size_t used = strlen(player->outcome);

    (void) snprintf(player->outcome + used, sizeof player->outcome - used, "%s%s", used ? ", " : "",
                    text);
}

/* ---- search ---- */

static void search_once(struct player *player, struct world_agent *agent)
{
    struct scope scope;
    AUTO_SEARCH struct search_result result = {0};
    struct error error = {0};
    unsigned since = sched_step();
    char line[96];

    world_scope(player->part->scope, &scope);
    const struct search_request request = {
        .reading =
            {
                .scopes = &scope,
                .count = 1,
                .mode = FRESHNESS_STRICT,
                .deadline_ns = clock_deadline_ms(DEADLINE_MS),
                .may_block = true,
                .thread = player->actor.number,
            },
        .query = QUERY,
        .query_size = sizeof QUERY - 1,
        .top_k = SEARCH_TOP_K_MAX,
    };
    calls_note_look(CALLS_ALL);
    enum status status = searcher_run(agent->store, &request, &result, &error);
    calls_note_look(CALLS_ALL);
    if (sched_is_draining())
        return;
    if (status != STATUS_OK) {
        note(player, status_name(status));
        if (status != STATUS_UNAVAILABLE)
            world_fail(player->world, "a search of %s failed: %s %s", player->part->scope,
                       status_name(status), error.message);
        return;
    }
    world_check_search(player->world, player->user, player->agent_name, &result, since,
                       &player->last_revision);
    (void) snprintf(line, sizeof line, "%s at %" PRId64 " with %zu",
                    scope_state_name(result.reports[0].state),
                    result.reports[0].in_index
                        ? result.reports[0].row.synced.mark.signature.revision
                        : 0,
                    result.count);
    note(player, line);
}

static void play_search(struct sched_actor *actor)
{
    struct player *player = actor->context;

    for (unsigned i = 0; i < player->part->count; i++) {
        if (i > 0 && !sched_stop("between two searches"))
            return;
        search_once(player, agent_of(player));
    }
}

/* ---- write ---- */

static enum status add_change(struct draft *draft, struct change_set *set,
                              const struct temp_change *change, struct error *error)
{
    AUTO_JSON json_t *fact = NULL;
    struct change_upsert *upsert = NULL;
    json_t *stored = NULL;
    enum status status = STATUS_OK;

    if (change->kind == TEMP_DELETE)
        return change_set_add_delete(set, change->id, NULL, error);
    if (change->kind == TEMP_SUMMARY) {
        AUTO_JSON json_t *summaries =
            json_pack("{s:{s:{s:s}}}", "user", "workContext", "summary", change->text);
        return change_set_set_summaries(set, summaries, error);
    }
    if (change->kind == TEMP_UPDATE) {
        status = draft_find(draft, change->id, &stored, error);
        fact = status == STATUS_OK ? json_deep_copy(stored) : NULL;
        if (fact)
            (void) json_object_set_new(fact, "content", json_string(change->text));
    } else {
        fact = json_pack("{s:s, s:s, s:s}", "id", change->id, "content", change->text, "category",
                         "context");
    }
    if (status == STATUS_OK)
        status = change_set_add_upsert(set, draft_scope(draft), fact, draft_wall_ns(draft), &upsert,
                                       error);
    if (status == STATUS_OK && change->kind == TEMP_ADD)
        upsert->expects = CHANGE_EXPECTS_ABSENT;
    return status;
}

static enum status build(void *context, struct draft *draft, struct change_set *set,
                         struct error *error)
{
    const struct player *player = context;
    enum status status = STATUS_OK;

    for (unsigned i = 0; status == STATUS_OK && i < player->part->count; i++)
        status = add_change(draft, set, &player->part->changes[i], error);
    return status;
}

/* What the judge has to know of the answer. */
static void take_answer(struct player *player, enum status status,
                        const struct write_result *result, const struct error *error)
{
    struct world_op *op = player->op;
    char line[96];

    op->refused = status != STATUS_OK;
    op->acknowledged = status == STATUS_OK && result->changed;
    op->is_behind = op->acknowledged && result->index_behind;
    op->revision = result->revision;
    if (status == STATUS_OK)
        (void) snprintf(line, sizeof line, "%s at %" PRId64 "%s",
                        result->changed ? "written" : "unchanged", result->revision,
                        result->index_behind ? " behind" : "");
    else
        (void) snprintf(line, sizeof line, "%s %.60s", status_name(status), error->members);
    note(player, line);
    if (op->acknowledged)
        player->last_revision = result->revision;
    switch (status) {
    case STATUS_OK:
    case STATUS_NOT_FOUND: /* what it wanted to update is gone */
    case STATUS_CONFLICT:
    case STATUS_TIMEOUT:
        break;
    default:
        world_fail(player->world, "a write failed: %s %s", status_name(status), error->message);
    }
}

static void play_write(struct sched_actor *actor)
{
    struct player *player = actor->context;
    AUTO_WRITE_RESULT struct write_result result = {0};
    struct error error = {0};
    struct scope scope;

    world_scope(player->part->scope, &scope);
    const struct write_request request = {
        .scope = &scope,
        .has_agent = true,
        .need = player->part->needs_facts ? WRITE_SOURCE_ALL : WRITE_SOURCE_SOME,
        .retries = true,
        .build = build,
        .context = player,
        .deadline_ns = clock_deadline_ms(DEADLINE_MS),
        .thread = player->actor.number,
    };
    enum status status = writer_run(agent_of(player)->writer, &request, &result, &error);
    if (sched_is_draining())
        return;
    take_answer(player, status, &result, &error);
    if (player->part->then_searches && sched_stop("has its answer"))
        search_once(player, agent_of(player));
}

/* ---- refreshes ---- */

static void play_refresh(struct sched_actor *actor)
{
    struct player *player = actor->context;
    struct store *store = agent_of(player)->store;
    struct refresh_result result = {0};
    struct refresh_run run;
    struct scope scope;
    uint64_t number;

    world_scope(player->part->scope, &scope);
    if (refresh_request(store->refreshes, &scope, REFRESH_URGENT, REFRESH_CAUSE_SEARCH,
                        player->part->wishes, &number) != STATUS_OK)
        test_die("no memory for a refresh");
    player->world->reasons_to_refresh += player->part->wishes != REFRESH_WISH_NONE;
    /* A run under way may have looked too early: this one comes after it, by whoever is faster. */
    while (!refresh_claim(store->refreshes, &scope, &run)) {
        if (refresh_join(store->refreshes, &scope, &number) != STATUS_OK)
            test_die("no memory for a refresh");
        if (!refresh_wait(store->refreshes, &scope, number, clock_deadline_ms(DEADLINE_MS),
                          &result))
            return;
    }
    refresher_run(store, store->readers[actor->number], &run, &result);
    if (!sched_is_draining())
        note(player, result.status != STATUS_OK ? status_name(result.status)
                     : result.installed         ? "installed"
                                                : "nothing to do");
}

static void play_serve(struct sched_actor *actor)
{
    struct player *player = actor->context;
    struct store *store = agent_of(player)->store;
    struct refresh_result result;
    struct refresh_run run;

    while (refresh_take(store->refreshes, false, &run)) {
        refresher_run(store, store->readers[actor->number], &run, &result);
        if (sched_is_draining())
            return;
    }
}

/* ---- others ---- */

static void play_peer(struct sched_actor *actor)
{
    struct player *player = actor->context;
    struct peer *peer = &player->peer;

    peer_run(peer);
    if (player->op) {
        player->op->acknowledged = peer->committed;
        player->op->revision = peer->revision;
    }
    note(player, peer->committed ? "committed" : "did not commit");
    if (peer->recovered)
        note(player, "recovered");
}

static void play_restart(struct sched_actor *actor)
{
    struct player *player = actor->context;
    struct world *world = player->world;

    struct world_agent *agent = world_reopen(world, agent_of(player));
    for (unsigned i = 0; i < player->part->count; i++) {
        if (sched_stop("before a search"))
            search_once(player, agent);
    }
}

/* ---- joining ---- */

static void set_op(struct player *player)
{
    const struct part *part = player->part;

    if ((part->kind != PART_WRITE && part->kind != PART_PEER) || part->count == 0)
        return;
    player->op = world_add_op(player->world, &(struct world_op){
                                                 .user = player->user,
                                                 .agent = player->agent_name,
                                                 .changes = part->changes,
                                                 .count = part->count,
                                                 .is_own = part->kind == PART_WRITE,
                                                 .process = player->actor.process,
                                             });
}

static void set_peer(struct player *player)
{
    const struct part *part = player->part;

    player->peer = (struct peer){
        .volume = player->world->volume,
        .commit =
            {
                .user = player->user,
                .agent = player->agent_name,
                .summaries_only = part->count > 0 && part->changes[0].kind == TEMP_SUMMARY,
                .changes = part->changes,
                .count = part->count,
            },
        .manifest_first = part->manifest_first,
    };
}

void player_join(struct player *player, struct world *world, const struct part *part,
                 unsigned number)
{
    static void (*const bodies[])(struct sched_actor *) = {
        [PART_WRITE] = play_write, [PART_SEARCH] = play_search, [PART_REFRESH] = play_refresh,
        [PART_SERVE] = play_serve, [PART_PEER] = play_peer,     [PART_RESTART] = play_restart,
    };

    *player = (struct player){
        .world = world,
        .part = part,
        .agent_name = strchr(part->scope, '/') + 1,
        .actor =
            {
                .name = part->name,
                .body = bodies[part->kind],
                .context = player,
                .process = part->kind == PART_PEER      ? FIRST_PEER + number
                           : part->kind == PART_RESTART ? WORLD_AGENTS_MAX + 1
                                                        : part->agent + 1,
                .touches = part->kind == PART_PEER ? 0 : part->agent + 1,
                .is_mortal = part->is_mortal,
                .is_server = part->kind == PART_SERVE,
                .waits_for_death = part->kind == PART_RESTART,
            },
    };
    (void) snprintf(player->user, sizeof player->user, "%.*s", (int) strcspn(part->scope, "/"),
                    part->scope);
    if (part->kind == PART_PEER)
        set_peer(player);
    set_op(player);
    sched_add(&player->actor);
}
