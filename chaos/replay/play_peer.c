/* What the peer does, and what happens to the files it has written. */
#include "chaos/replay/player_private.h"
#include "core/clock.h"
#include "tests/support/files.h"
#include "tests/support/temp_calls.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define WORD "note"

json_t *player_text(const char *text)
{
    return json_sprintf(WORD " %s", text);
}

const char *player_text_without_word(const char *text)
{
    return strncmp(text, WORD " ", sizeof WORD) == 0 ? text + sizeof WORD : text;
}

void player_scope_name(const struct step_scope *scope, char ret[2 * STEP_NAME_SIZE])
{
    (void) snprintf(ret, 2 * STEP_NAME_SIZE, "%s/%s", scope->user, scope->agent);
}

/* ---- the peer ---- */

/* The step's changes with the texts as they lie on the volume. */
static json_t *changes_of(const struct step *step)
{
    json_t *changes = json_deep_copy(step->changes);
    size_t i;
    json_t *change;

    json_array_foreach(changes, i, change)
    {
        const char *text = json_string_value(json_array_get(change, 2));
        if (text && json_array_set_new(change, 2, player_text(text)) != 0)
            test_die("no memory for a change");
    }
    return changes;
}

static void ask_peer(struct player *player, const char *action, const struct step *step)
{
    const struct step_scope *scope = &step->scopes[0];
    json_t *request = json_pack("{s:s, s:s, s:s, s:o}", "do", action, "user", scope->user, "agent",
                                scope->agent, "changes", changes_of(step));

    if (step->summary)
        (void) json_object_set_new(request, "summary",
                                   json_sprintf("of step %04zu", player->step_number));
    if (step->verb == STEP_PEER_DIE)
        (void) json_object_set_new(request, "stop", json_string(step->word));
    json_decref(peer_process_do(player->options->peer, request));
}

void play_peer_commit(struct player *player, const struct step *step)
{
    ask_peer(player, "commit", step);
}

void play_peer_raw(struct player *player, const struct step *step)
{
    ask_peer(player, "raw", step);
}

void play_peer_die(struct player *player, const struct step *step)
{
    ask_peer(player, "commit", step);
}

void play_peer_manifest(struct player *player, const struct step *step)
{
    ask_peer(player, "manifest", step);
}

void play_peer_rollback(struct player *player, const struct step *step)
{
    ask_peer(player, "rollback", step);
}

void play_peer_restore(struct player *player, const struct step *step)
{
    ask_peer(player, "restore", step);
}

void play_peer_touch(struct player *player, const struct step *step)
{
    ask_peer(player, "touch", step);
}

void play_peer_freeze(struct player *player, const struct step *step)
{
    ask_peer(player, "freeze", step);
}

void play_peer_recover(struct player *player, const struct step *step)
{
    ask_peer(player, "recover", step);
}

void play_hide(struct player *player, const struct step *step)
{
    ask_peer(player, "hide", step);
}

void play_show(struct player *player, const struct step *step)
{
    ask_peer(player, "show", step);
}

/* ---- what cannot be read ---- */

static const char *const kind_names[] = {
    [BROKEN_SYSTEM] = "system",     [BROKEN_CUT] = "cut",           [BROKEN_EMPTY] = "empty",
    [BROKEN_ENCODING] = "encoding", [BROKEN_REVISION] = "revision",
};

const char *broken_kind_name(enum broken_kind kind)
{
    return kind_names[kind];
}

static void order_faults(const struct player *player)
{
    temp_calls_reset();
    for (size_t i = 0; i < player->broken_count; i++) {
        const struct broken *broken = &player->broken[i];
        if (!broken->by_system)
            continue;
        temp_calls_fail(TEMP_CALL_OPEN, broken->path_end, EIO, 0, 0);
        temp_calls_fail(TEMP_CALL_READ, broken->path_end, EIO, 0, 0);
        if (broken->is_fact)
            temp_calls_fail(TEMP_CALL_STAT, broken->path_end, EIO, 0, 0);
    }
}

static struct broken *add_broken(struct player *player, const char *user)
{
    if (player->broken_count == PLAYER_BROKEN)
        test_die("too much is broken");
    struct broken *broken = &player->broken[player->broken_count++];
    *broken = (struct broken){.by_system = true};
    (void) snprintf(broken->user, sizeof broken->user, "%s", user);
    return broken;
}

/* Any scope of the user will do: they share the manifest. */
static void remember_live(struct player *player, struct broken *broken)
{
    struct scope scope;
    char name[2 * STEP_NAME_SIZE];

    (void) snprintf(name, sizeof name, "%s/a", broken->user);
    temp_store_scope(name, &scope);
    broken->has_live =
        store_compare(player->store->store, &scope, CLOCK_NEVER, &broken->live, NULL) == STATUS_OK;
}

void play_break(struct player *player, const struct step *step)
{
    struct broken *broken = add_broken(player, step->scopes[0].user);

    remember_live(player, broken);
    (void) snprintf(broken->path_end, sizeof broken->path_end, "/users/%s/memory.json",
                    step->scopes[0].user);
    if (player->options->kind != BROKEN_SYSTEM) {
        broken->by_system = false;
        json_decref(
            peer_process_do(player->options->peer,
                            json_pack("{s:s, s:s, s:s}", "do", "break", "user", broken->user,
                                      "kind", kind_names[player->options->kind])));
    }
    order_faults(player);
}

void play_break_fact(struct player *player, const struct step *step)
{
    struct broken *broken = add_broken(player, step->scopes[0].user);
    char path[SCOPE_PATH_MAX];

    broken->is_fact = true;
    temp_volume_fact_path(step->scopes[0].user, step->scopes[0].agent, step->word, path);
    (void) snprintf(broken->path_end, sizeof broken->path_end, "/%s", path);
    order_faults(player);
}

static void repair(struct player *player, const char *user, bool is_fact)
{
    for (size_t i = 0; i < player->broken_count; i++) {
        const struct broken *broken = &player->broken[i];
        if (strcmp(broken->user, user) != 0 || broken->is_fact != is_fact)
            continue;
        if (!broken->by_system)
            json_decref(peer_process_do(player->options->peer,
                                        json_pack("{s:s, s:s}", "do", "repair", "user", user)));
        player->broken[i--] = player->broken[--player->broken_count];
    }
    order_faults(player);
}

void play_repair(struct player *player, const struct step *step)
{
    repair(player, step->scopes[0].user, false);
}

void play_repair_fact(struct player *player, const struct step *step)
{
    repair(player, step->scopes[0].user, true);
}

void player_repair_all(struct player *player)
{
    while (player->broken_count > 0) {
        const struct broken broken = player->broken[0];
        repair(player, broken.user, broken.is_fact);
    }
}
