#include "chaos/replay/player.h"

#include "chaos/replay/player_private.h"
#include "tests/support/files.h"
#include "tests/support/temp_calls.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define START_REVISION 5

void play_result_destroy(struct play_result *result)
{
    text_destroy(&result->findings);
    text_destroy(&result->outcome);
}

void player_found(struct player *player, const char *format, ...)
{
    char message[1024];
    va_list arguments;

    va_start(arguments, format);
    (void) vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    text_append_format(&player->result->findings, "    step %zu: %s: %s\n", player->step_number,
                       player->step ? player->step->text : "at the end", message);
}

/* ---- the volume at the start ---- */

static void start_scope(struct player *player, const char *user, const char *agent,
                        const json_t *facts)
{
    json_t *changes = json_array();
    const char *id;
    json_t *text;

    json_object_foreach(json_unconst(facts), id, text)(void)
        json_array_append_new(changes, json_pack("[s, s, o]", "add", id,
                                                 player_text(json_string_value(text))));
    json_decref(
        peer_process_do(player->options->peer,
                        json_pack("{s:s, s:s, s:s, s:i, s:o}", "do", "start", "user", user, "agent",
                                  agent, "revision", START_REVISION, "changes", changes)));
    if (player->scope_count < ARRAY_SIZE(player->scopes)) {
        struct step_scope *scope = &player->scopes[player->scope_count++];
        (void) snprintf(scope->user, sizeof scope->user, "%s", user);
        (void) snprintf(scope->agent, sizeof scope->agent, "%s", agent);
    }
}

static void start_volume(struct player *player)
{
    const char *user;
    json_t *agents;

    peer_process_move(player->options->peer, temp_volume_path(player->store->volume));
    json_object_foreach(player->schedule->start, user, agents)
    {
        const char *agent;
        json_t *facts;
        json_object_foreach(agents, agent, facts) start_scope(player, user, agent, facts);
    }
}

void player_open(struct player *player)
{
    temp_store_open(player->store);
    player_open_writer(player);
}

static void start_node(struct player *player)
{
    if (player->schedule->closed)
        return;
    player_open(player);
    for (size_t i = 0; i < player->scope_count && !player->schedule->cold; i++) {
        char name[2 * STEP_NAME_SIZE];
        player_scope_name(&player->scopes[i], name);
        struct refresh_result result = temp_store_refresh(player->store, name, REFRESH_WISH_FULL);
        if (result.status != STATUS_OK)
            test_die("the first build of %s: %s", name, result.error.message);
    }
}

/* ---- steps ---- */

typedef void (*step_player)(struct player *player, const struct step *step);

static const step_player players[] = {
    [STEP_PEER_COMMIT] = play_peer_commit,
    [STEP_PEER_RAW] = play_peer_raw,
    [STEP_PEER_DIE] = play_peer_die,
    [STEP_PEER_MANIFEST] = play_peer_manifest,
    [STEP_PEER_ROLLBACK] = play_peer_rollback,
    [STEP_PEER_RESTORE] = play_peer_restore,
    [STEP_PEER_TOUCH] = play_peer_touch,
    [STEP_PEER_FREEZE] = play_peer_freeze,
    [STEP_PEER_RECOVER] = play_peer_recover,
    [STEP_HIDE] = play_hide,
    [STEP_SHOW] = play_show,
    [STEP_BREAK] = play_break,
    [STEP_REPAIR] = play_repair,
    [STEP_BREAK_FACT] = play_break_fact,
    [STEP_REPAIR_FACT] = play_repair_fact,
    [STEP_REFRESH_CAPTURE] = play_refresh_capture,
    [STEP_REFRESH_FACTS] = play_refresh_facts,
    [STEP_REFRESH_READ] = play_refresh_read,
    [STEP_REFRESH_INSTALL] = play_refresh_install,
    [STEP_REFRESH_PUBLISH] = play_refresh_publish,
    [STEP_REFRESH_ALL] = play_refresh_all,
    [STEP_REFRESH_REFUSE] = play_refresh_refuse,
    [STEP_WRITE_COMMIT] = play_write_commit,
    [STEP_WRITE_INSTALL] = play_write_install,
    [STEP_WRITE_ALL] = play_write_all,
    [STEP_WRITE_REFUSE] = play_write_refuse,
    [STEP_ASK_LOOKS] = play_ask_looks,
    [STEP_ASK_JOINS] = play_ask_joins,
    [STEP_ASK_GOES_ON] = play_ask_goes_on,
    [STEP_ASK_ANSWERS] = play_ask_answers,
    [STEP_SEARCH] = play_search,
    [STEP_STATE] = play_state,
    [STEP_OPEN] = play_open,
    [STEP_OWNER] = play_owner,
};

static void play_steps(struct player *player)
{
    for (size_t i = 0; i < player->schedule->count; i++) {
        player->step = &player->schedule->steps[i];
        player->step_number = i + 1;
        if (player->options->verbose) {
            (void) printf("    %zu. %s\n", i + 1, player->step->text);
            (void) fflush(stdout);
        }
        players[player->step->verb](player, player->step);
    }
    player->step = NULL;
}

static void count_points(struct player *player)
{
    for (unsigned i = 0; i < PAUSE_POINT_COUNT; i++)
        player->result->passed_by += pause_visits((enum pause_point) i);
    player->result->held = player->held;
    if (player->held < player->wanted)
        player_found(player, "%u pause points were wanted, %u met", player->wanted, player->held);
}

void play(const struct schedule *schedule, const struct play_options *options,
          struct play_result *ret)
{
    struct player player = {.schedule = schedule, .options = options, .result = ret};

    *ret = (struct play_result){0};
    pause_reset();
    temp_calls_reset();
    player.store = temp_store_create();
    player.store->without_refresher = true; /* nothing happens but what the schedule says */
    player.store->options.calls = temp_calls();
    player.store->options.request_threads = PLAYER_READERS;
    start_volume(&player);
    start_node(&player);
    pause_reset();
    play_steps(&player);
    player_end_actors(&player);
    player_repair_all(&player);
    if (options->judges_truth)
        judge_truth(&player);
    count_points(&player);
    player_close_writer(&player);
    temp_store_destroy(&player.store);
    ret->passed = text_string(&ret->findings)[0] == '\0';
}
