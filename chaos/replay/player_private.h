/* chaos/replay/player_private.h - one play, as its parts see it.
 */
#ifndef MEMSYNC_CHAOS_PLAYER_PRIVATE_H
#define MEMSYNC_CHAOS_PLAYER_PRIVATE_H

#include "chaos/replay/actor.h"
#include "chaos/replay/player.h"

#define PLAYER_READERS                                                                             \
    12                   /* 0 is the player's own, then come the own writes', then the searches'   \
                          */
#define PLAYER_ACTORS 10 /* refreshes, and as many writes */
#define PLAYER_TABLE 5   /* the first of the refreshes that are in the node's table: T1 is R6 */
#define PLAYER_ASKERS 2
#define PLAYER_BROKEN 4

/* An actor and what the player knows of it. */
struct led {
    struct actor *actor;
    bool blocked;    /* it was let go on and must wait for another one */
    unsigned since;  /* blocked: its place among those that are */
    bool to_the_end; /* blocked: and is not to be held when it goes on */
    bool again;      /* blocked: because it has lost its compare-and-set */
    char user[STEP_NAME_SIZE];
};

/* What one search has seen. */
struct search_seen {
    enum status status;
    struct error error;
    json_t *found;   /* "a/f1" to its text */
    bool unverified; /* of some scope nobody knows whether it is in step */
    uint64_t refreshes;
    unsigned files;
};

/* A search in a thread of its own. */
struct asking {
    struct player *player;
    struct actor *actor;
    struct step step; /* its scopes are what counts */
    unsigned reader;
    struct search_seen seen;
};

/* Something that cannot be read. */
struct broken {
    char path_end[PATH_MAX];
    char user[STEP_NAME_SIZE];
    bool is_fact;
    bool by_system;
    bool has_live;
    struct live_state live; /* of the manifest before it broke */
};

struct player {
    const struct schedule *schedule;
    const struct play_options *options;
    struct play_result *result;
    struct temp_store *store;
    struct writer *writer;
    struct step_scope scopes[STEP_SCOPES_MAX]; /* of the start */
    size_t scope_count;
    const struct step *step;
    size_t step_number;
    size_t looks; /* searches and states so far */
    unsigned held, wanted;
    unsigned blocked; /* how many have been so far */
    struct led refreshes[PLAYER_ACTORS];
    struct led writes[PLAYER_ACTORS];
    struct asking askings[PLAYER_ASKERS + 1];
    struct led *installing; /* stands in an open transaction of the index */
    struct broken broken[PLAYER_BROKEN];
    size_t broken_count;
};

/* Says what is wrong with the step that is played. */
void player_found(struct player *player, const char *format, ...) PRINTF(2, 3);

void player_open(struct player *player);
void player_open_writer(struct player *player);
void player_close_writer(struct player *player);

/* Lets every actor run to its end. */
void player_end_actors(struct player *player);

/* Everything can be read again. */
void player_repair_all(struct player *player);

/* "u/a" */
void player_scope_name(const struct step_scope *scope, char ret[2 * STEP_NAME_SIZE]);

/* The text of a fact as it lies on the volume: with a word in front that every fact has. */
json_t *player_text(const char *text);
const char *player_text_without_word(const char *text);

/* After the end: one search a scope gives what lies on the volume. */
void judge_truth(struct player *player);

void play_peer_commit(struct player *player, const struct step *step);
void play_peer_raw(struct player *player, const struct step *step);
void play_peer_die(struct player *player, const struct step *step);
void play_peer_manifest(struct player *player, const struct step *step);
void play_peer_rollback(struct player *player, const struct step *step);
void play_peer_restore(struct player *player, const struct step *step);
void play_peer_touch(struct player *player, const struct step *step);
void play_peer_freeze(struct player *player, const struct step *step);
void play_peer_recover(struct player *player, const struct step *step);
void play_hide(struct player *player, const struct step *step);
void play_show(struct player *player, const struct step *step);
void play_break(struct player *player, const struct step *step);
void play_repair(struct player *player, const struct step *step);
void play_break_fact(struct player *player, const struct step *step);
void play_repair_fact(struct player *player, const struct step *step);
void play_refresh_capture(struct player *player, const struct step *step);
void play_refresh_facts(struct player *player, const struct step *step);
void play_refresh_read(struct player *player, const struct step *step);
void play_refresh_install(struct player *player, const struct step *step);
void play_refresh_publish(struct player *player, const struct step *step);
void play_refresh_all(struct player *player, const struct step *step);
void play_refresh_refuse(struct player *player, const struct step *step);
void play_write_commit(struct player *player, const struct step *step);
void play_write_install(struct player *player, const struct step *step);
void play_write_all(struct player *player, const struct step *step);
void play_write_refuse(struct player *player, const struct step *step);
void play_ask_looks(struct player *player, const struct step *step);
void play_ask_joins(struct player *player, const struct step *step);
void play_ask_goes_on(struct player *player, const struct step *step);
void play_ask_answers(struct player *player, const struct step *step);
void play_search(struct player *player, const struct step *step);
void play_state(struct player *player, const struct step *step);
void play_open(struct player *player, const struct step *step);
void play_owner(struct player *player, const struct step *step);

#endif
