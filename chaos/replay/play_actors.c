/* Refreshes and own writes: who goes on, who must wait for whom. */
#include "chaos/replay/player_private.h"
#include "tests/support/files.h"

#include <stdio.h>
#include <string.h>

static unsigned number_of(const struct step *step)
{
    unsigned number = step->number + (step->in_table ? PLAYER_TABLE : 0);

    if (step->number == 0 || number >= PLAYER_ACTORS)
        test_die("no such actor: %s", step->text);
    return number;
}

static struct led *led_of(struct led leds[PLAYER_ACTORS], const struct step *step)
{
    return &leds[number_of(step)];
}

static struct led *begun(struct player *player, struct led leds[PLAYER_ACTORS],
                         const struct step *step)
{
    struct led *led = led_of(leds, step);

    if (!led->actor)
        player_found(player, "it has not begun");
    return led->actor ? led : NULL;
}

static void say_outcome(struct player *player, const struct led *led)
{
    text_append_format(&player->result->outcome, "%s: %s\n", player->step->text,
                       actor_outcome(led->actor));
}

/* The step wanted somebody to be held: is he, or has he ended as he should? */
static void judge_stop(struct player *player, const struct led *led, enum actor_where where)
{
    if (where == ACTOR_HELD) {
        player->held++;
        if (player->step->fails)
            player_found(player, "it should have failed");
        return;
    }
    say_outcome(player, led);
    bool in_order = strcmp(actor_outcome(led->actor), "ok") == 0;
    if (!player->step->fails && !player->options->ours && !(in_order && player->options->by_chance))
        player_found(player, "it has ended on the way: %s", actor_outcome(led->actor));
    if (player->step->fails && in_order)
        player_found(player, "it should have failed");
}

static void want_stop(struct player *player)
{
    player->wanted += !player->step->fails && !player->step->blocked && !player->options->ours &&
                      !player->options->by_chance;
}

static void lead_to(struct player *player, struct led *led, uint64_t stops)
{
    want_stop(player);
    actor_lead(led->actor, stops);
    judge_stop(player, led, actor_await(led->actor));
}

/* ---- blocked ones ---- */

/* It has been let go on and must not arrive while somebody else is in its way. */
static void note_blocked(struct player *player, struct led *led)
{
    led->blocked = true;
    led->since = ++player->blocked;
    if (!player->step->blocked && !player->options->ours)
        player_found(player, "it has to wait for another one");
}

static struct led *longest_blocked(struct led leds[PLAYER_ACTORS], const char *user)
{
    struct led *longest = NULL;

    for (size_t i = 0; i < PLAYER_ACTORS; i++) {
        if (leds[i].blocked && (!user || strcmp(leds[i].user, user) == 0) &&
            (!longest || leds[i].since < longest->since))
            longest = &leds[i];
    }
    return longest;
}

/* ---- refreshes ---- */

static void wait_in_queue(struct player *player, struct actor *actor, unsigned before)
{
    struct install_queue *installs = player->store->store->installs;

    for (unsigned i = 0; i < ACTOR_PATIENCE_MS; i++) {
        if (install_queue_length(installs) >= before + actor_alive(actor))
            return;
        temp_nap();
    }
    test_die("nobody has come into the install queue");
}

static void begin_refresh(struct player *player, const struct step *step)
{
    struct led *led = led_of(player->refreshes, step);
    bool everything = step->scope_count == 0;

    actor_destroy(&led->actor);
    *led = (struct led){
        .actor = actor_refresh(player->store, everything ? player->scopes : step->scopes,
                               everything ? player->scope_count : step->scope_count,
                               (number_of(step) - 1) * STEP_SCOPES_MAX + 1,
                               step->in_table       ? REFRESH_IN_TABLE
                               : step->changes_only ? REFRESH_INCREMENTAL
                                                    : REFRESH_COMPLETE),
    };
}

void play_refresh_capture(struct player *player, const struct step *step)
{
    begin_refresh(player, step);
    lead_to(player, led_of(player->refreshes, step), PAUSE_SET(SNAPSHOT_AFTER_CAPTURE));
}

void play_refresh_facts(struct player *player, const struct step *step)
{
    struct led *led = begun(player, player->refreshes, step);

    if (led)
        lead_to(player, led, PAUSE_SET(SNAPSHOT_AFTER_READ));
}

void play_refresh_read(struct player *player, const struct step *step)
{
    struct led *led = begun(player, player->refreshes, step);

    if (led)
        lead_to(player, led, PAUSE_SET(REFRESH_BEFORE_INSTALL));
}

/* Its first run stands in the open transaction, the others wait for their turn. */
static void install_first(struct player *player, struct led *led)
{
    want_stop(player);
    if (!actor_lead_first(led->actor, PAUSE_SET(INSTALL_BEFORE_COMMIT))) {
        judge_stop(player, led, ACTOR_ENDED);
        return;
    }
    enum actor_where where = actor_await_first(led->actor);
    judge_stop(player, led, where);
    if (where == ACTOR_ENDED)
        return;
    player->installing = led;
    actor_lead_others(led->actor, PAUSE_SET_NONE);
    wait_in_queue(player, led->actor, 0);
}

static void install_blocked(struct player *player, struct led *led)
{
    unsigned before = install_queue_length(player->store->store->installs);

    actor_lead(led->actor, PAUSE_SET(INSTALL_BEFORE_COMMIT));
    wait_in_queue(player, led->actor, before);
    note_blocked(player, led);
    if (!actor_has_not_reached(led->actor, PAUSE_INSTALL_BEFORE_COMMIT))
        player_found(player, "it installs inside another one's transaction");
}

void play_refresh_install(struct player *player, const struct step *step)
{
    struct led *led = begun(player, player->refreshes, step);

    if (!led)
        return;
    if (player->installing && player->installing != led)
        install_blocked(player, led);
    else
        install_first(player, led);
    if (step->blocked && !led->blocked)
        player_found(player, "nothing was in its way");
}

/* The turn is free: who has waited longest has it. */
static void wake_refreshes(struct player *player)
{
    for (struct led *led;
         !player->installing && (led = longest_blocked(player->refreshes, NULL));) {
        led->blocked = false;
        if (actor_await_any(led->actor) == ACTOR_ENDED) {
            say_outcome(player, led);
            continue;
        }
        player->held++;
        player->installing = led;
        if (led->to_the_end) {
            actor_lead(led->actor, PAUSE_SET_NONE);
            (void) actor_await(led->actor);
            say_outcome(player, led);
            player->installing = NULL;
        }
    }
}

/* The places in the queue of those who were in it before. */
static unsigned places_of_blocked(struct player *player)
{
    unsigned places = 0;

    for (size_t i = 0; i < PLAYER_ACTORS; i++) {
        if (player->refreshes[i].blocked)
            places += actor_alive(player->refreshes[i].actor);
    }
    return places;
}

/* Waits for its end; false when it has lost its compare-and-set and waits now, with what it has
 * read anew, behind another one that stands in a transaction. */
static bool comes_to_its_end(struct player *player, struct led *led)
{
    struct install_queue *installs = player->store->store->installs;

    for (unsigned i = 0; i < ACTOR_PATIENCE_MS; i++) {
        unsigned alive = actor_alive(led->actor);
        if (alive == 0)
            return true;
        const struct led *next = longest_blocked(player->refreshes, NULL);
        if (next && actor_stands(next->actor) &&
            install_queue_length(installs) >= places_of_blocked(player) + alive)
            return false;
        temp_nap();
    }
    test_die("%s: it does not end", player->step->text);
}

static void finish_refresh(struct player *player, struct led *led)
{
    if (led->blocked) {
        led->to_the_end = true;
        return;
    }
    for (size_t i = 0; i < PLAYER_ACTORS; i++) {
        const struct led *other = &player->refreshes[i];
        if (other->blocked && !other->again &&
            !actor_has_not_reached(other->actor, PAUSE_INSTALL_BEFORE_COMMIT))
            player_found(player, "R%zu has not waited for it", i);
    }
    actor_lead(led->actor, PAUSE_SET_NONE);
    if (comes_to_its_end(player, led)) {
        say_outcome(player, led);
    } else {
        led->blocked = true;
        led->since = ++player->blocked;
        led->to_the_end = true;
        led->again = true;
    }
    if (player->installing == led)
        player->installing = NULL;
    wake_refreshes(player);
}

void play_refresh_publish(struct player *player, const struct step *step)
{
    struct led *led = begun(player, player->refreshes, step);

    if (led)
        finish_refresh(player, led);
}

void play_refresh_all(struct player *player, const struct step *step)
{
    if (player->installing) {
        player_found(player, "another one's transaction is open; it would wait for ever");
        return;
    }
    begin_refresh(player, step);
    finish_refresh(player, led_of(player->refreshes, step));
}

/* ---- own writes ---- */

/* Another write of the user that is committed and not yet installed keeps the user's seat. */
static bool seat_is_taken(const struct player *player, const struct led *led)
{
    for (size_t i = 0; i < PLAYER_ACTORS; i++) {
        const struct led *other = &player->writes[i];
        if (other != led && other->actor && !other->blocked &&
            strcmp(other->user, led->user) == 0 && actor_alive(other->actor) > 0)
            return true;
    }
    return false;
}

static struct led *begin_write(struct player *player, const struct step *step)
{
    struct led *led = led_of(player->writes, step);

    actor_destroy(&led->actor);
    *led = (struct led){
        .actor = actor_write(player->store, player->writer, step,
                             PLAYER_ACTORS * STEP_SCOPES_MAX + step->number, step->number),
    };
    (void) snprintf(led->user, sizeof led->user, "%s", step->scopes[0].user);
    return led;
}

void play_write_commit(struct player *player, const struct step *step)
{
    struct led *led = begin_write(player, step);

    if (!seat_is_taken(player, led)) {
        lead_to(player, led, PAUSE_SET(WRITE_AFTER_UNLOCK));
        if (step->blocked)
            player_found(player, "nothing was in its way");
        return;
    }
    actor_lead(led->actor, PAUSE_SET(WRITE_AFTER_UNLOCK));
    note_blocked(player, led);
    if (!actor_has_not_reached(led->actor, PAUSE_COMMIT_AFTER_LOCK))
        player_found(player, "it commits before the other one is in the index");
}

static void wake_writes(struct player *player, const char *user)
{
    struct led *led;

    while ((led = longest_blocked(player->writes, user))) {
        led->blocked = false;
        if (actor_await(led->actor) == ACTOR_HELD) {
            player->held++;
            if (!led->to_the_end)
                return;
            actor_lead(led->actor, PAUSE_SET_NONE);
            (void) actor_await(led->actor);
        }
        say_outcome(player, led);
    }
}

static void finish_write(struct player *player, struct led *led)
{
    if (led->blocked) {
        led->to_the_end = true;
        return;
    }
    for (size_t i = 0; i < PLAYER_ACTORS; i++) {
        const struct led *other = &player->writes[i];
        if (other->blocked && strcmp(other->user, led->user) == 0 &&
            !actor_has_not_reached(other->actor, PAUSE_COMMIT_AFTER_LOCK))
            player_found(player, "W%zu has not waited for it", i);
    }
    actor_lead(led->actor, PAUSE_SET_NONE);
    (void) actor_await(led->actor);
    say_outcome(player, led);
    if (strcmp(actor_outcome(led->actor), "ok") != 0)
        player_found(player, "the write has failed: %s", actor_outcome(led->actor));
    wake_writes(player, led->user);
}

void play_write_install(struct player *player, const struct step *step)
{
    struct led *led = begun(player, player->writes, step);

    if (led)
        finish_write(player, led);
}

void play_write_all(struct player *player, const struct step *step)
{
    struct led *led = begin_write(player, step);

    if (seat_is_taken(player, led) || player->installing)
        player_found(player, "another one is in its way; it would wait for ever");
    finish_write(player, led);
}

void play_write_refuse(struct player *player, const struct step *step)
{
    struct led *led = begun(player, player->writes, step);

    if (led)
        actor_refuse(led->actor, step->second ? 2 : 1);
}

void play_refresh_refuse(struct player *player, const struct step *step)
{
    struct led *led = begun(player, player->refreshes, step);

    if (led)
        actor_refuse(led->actor, step->second ? 2 : 1);
}

/* ---- the end ---- */

void player_end_actors(struct player *player)
{
    for (size_t i = 0; i < PLAYER_ACTORS; i++) {
        if (player->refreshes[i].actor)
            actor_lead(player->refreshes[i].actor, PAUSE_SET_NONE);
        if (player->writes[i].actor)
            actor_lead(player->writes[i].actor, PAUSE_SET_NONE);
    }
    for (size_t i = 0; i <= PLAYER_ASKERS; i++) {
        if (player->askings[i].actor)
            actor_lead(player->askings[i].actor, PAUSE_SET_NONE);
    }
    for (size_t i = 0; i < PLAYER_ACTORS; i++) {
        actor_destroy(&player->refreshes[i].actor);
        actor_destroy(&player->writes[i].actor);
    }
    for (size_t i = 0; i <= PLAYER_ASKERS; i++) {
        actor_destroy(&player->askings[i].actor);
        json_decref(player->askings[i].seen.found);
    }
}
