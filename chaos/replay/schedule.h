/* chaos/replay/schedule.h - a schedule: where it starts, who does what in which order, and what is
 * to be found on the way.
 *
 * A schedule is text, one step a line; chaos/README.md describes the language. Whoever makes a
 * schedule (a file, the list of interleavings, chance) makes text, so that each one can be printed
 * and run again. Plain data, one thread at a time. Functions that meet a mistake in the text abort
 * the program and name the line.
 */
#ifndef MEMSYNC_CHAOS_SCHEDULE_H
#define MEMSYNC_CHAOS_SCHEDULE_H

#include "core/compiler.h"

#include <stdbool.h>
#include <stddef.h>

#define STEP_SCOPES_MAX 4
#define STEP_NAME_SIZE 32
#define NOT_SAID (-1)

enum step_verb {
    /* the peer */
    STEP_PEER_COMMIT,
    STEP_PEER_RAW,      /* fact files change, the manifest does not */
    STEP_PEER_DIE,      /* a commit that ends at a step, with its journal left behind */
    STEP_PEER_MANIFEST, /* one revision up, without facts */
    STEP_PEER_ROLLBACK, /* the manifest of the revision before */
    STEP_PEER_RESTORE,  /* the same manifest as another file */
    STEP_PEER_TOUCH,    /* the same manifest with a newer time */
    STEP_PEER_FREEZE,   /* from here on time and size of manifests stay */
    STEP_PEER_RECOVER,
    STEP_HIDE, /* the user's directory is not there */
    STEP_SHOW,
    STEP_BREAK, /* the manifest cannot be read */
    STEP_REPAIR,
    STEP_BREAK_FACT,
    STEP_REPAIR_FACT,
    /* a refresh in a thread of its own */
    STEP_REFRESH_CAPTURE, /* the signature is captured, no fact read */
    STEP_REFRESH_FACTS,   /* the facts are read, the signature not looked at again */
    STEP_REFRESH_READ,    /* the snapshot is validated, not yet in the queue of installs */
    STEP_REFRESH_INSTALL, /* the rows are in the transaction, which is still open */
    STEP_REFRESH_PUBLISH, /* to the end */
    STEP_REFRESH_ALL,
    STEP_REFRESH_REFUSE, /* the index will refuse the install of this refresh */
    /* an own write in a thread of its own */
    STEP_WRITE_COMMIT,  /* committed, the user's lock is free, the index has not heard of it */
    STEP_WRITE_INSTALL, /* to the end */
    STEP_WRITE_ALL,
    STEP_WRITE_REFUSE, /* the index will refuse the install of this write */
    /* a search in a thread of its own */
    STEP_ASK_LOOKS,   /* it has looked at the manifest, not yet at the index */
    STEP_ASK_JOINS,   /* it will wait for somebody else's refresh */
    STEP_ASK_GOES_ON, /* to where it looks at the index again, or to the end */
    STEP_ASK_ANSWERS, /* to the end */
    /* the node */
    STEP_SEARCH,
    STEP_STATE,
    STEP_OPEN,  /* the node starts */
    STEP_OWNER, /* a second process tries to open the index */
};

struct step_scope {
    char user[STEP_NAME_SIZE];
    char agent[STEP_NAME_SIZE];
};

/* What a scope's recorded signature is, against the live one. `better_than` is what the list of
 * interleavings expects where ours is better; "" otherwise. */
struct step_state {
    char name[STEP_NAME_SIZE];
    char better_than[STEP_NAME_SIZE];
};

struct step {
    enum step_verb verb;
    char *text;      /* as it was written */
    unsigned number; /* of the refresh or the write, from 1 */
    struct step_scope scopes[STEP_SCOPES_MAX];
    size_t scope_count; /* 0 with a refresh: of everything */
    json_t *changes;    /* [["add", "f1", "one"], ...] */
    bool summary;
    char word[STEP_NAME_SIZE]; /* of STEP_PEER_DIE: after which step; of a fact's: its id */
    bool blocked;              /* it must not get there now */
    bool fails;                /* it must end in an error on the way */
    bool changes_only;         /* the refresh reads only what has changed */
    bool second;               /* not the next transaction, the one after it */
    bool in_table;             /* the refresh is one of the node's own table */
    /* what a search must find */
    json_t *result; /* "a/f1" to its text; "error": no fresh answer; "truth": what lies on the
                       volume now; NULL: not said */
    long refreshes; /* at most; NOT_SAID */
    long refreshes_listed;
    long refreshes_moved; /* at most, when another kind of error has moved the manifest's ctime */
    long files;           /* opened, at most */
    struct step_state states[STEP_SCOPES_MAX];
    size_t state_count;
};

struct schedule {
    char id[STEP_NAME_SIZE];
    char *title;
    json_t *start; /* user to agent to id to text; a user without agents has nothing on the disk */
    bool cold;     /* nothing is built yet */
    bool closed;   /* the node is not running yet */
    bool kinds;    /* breaks something: worth running with every kind of error */
    struct step *steps;
    size_t count;
    char *source; /* all of it, as it can be read again */
};

struct schedule_list {
    struct schedule *schedules;
    size_t count;
};

/* Appends the schedules of a text; `name` is for messages. */
void schedule_list_parse(struct schedule_list *list, const char *name, const char *text);

/* Appends those of a file, or of all *.txt files of a directory in the order of their names. */
void schedule_list_load(struct schedule_list *list, const char *path);

/* Appends those of a file in the form of interleavings.json. */
void schedule_list_load_json(struct schedule_list *list, const char *path);

const struct schedule *schedule_list_find(const struct schedule_list *list, const char *id);

void schedule_list_destroy(struct schedule_list *list);

/* The nth step (from 0) that looks: a search or a state; NULL: there are fewer. */
const struct step *schedule_look(const struct schedule *schedule, size_t nth);

#endif
