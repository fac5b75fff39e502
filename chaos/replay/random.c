#include "chaos/replay/random.h"

#include "chaos/support/dice.h"
#include "core/compiler.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define USERS 2
#define AGENTS 2
#define FACTS 4
#define ACTORS 3
#define STEPS_MIN 8
#define STEPS_MORE 18

static const char *const users[USERS] = {"u", "v"};
static const char *const agents[AGENTS] = {"a", "b"};

/* What is true of a user's memory while the schedule is made. */
struct memory {
    bool facts[AGENTS][FACTS];
    bool dead; /* a peer has died here; the next one who has the lock takes it back */
    bool half; /* fact files have changed without the manifest */
};

enum refresh_phase {
    REFRESH_AWAY,
    REFRESH_CAPTURED,
    REFRESH_READ,
    REFRESH_INSTALLS,
    REFRESH_WAITS
};

struct refresh {
    enum refresh_phase phase;
};

enum write_phase { WRITE_AWAY, WRITE_COMMITTED, WRITE_WAITS };

struct own_write {
    enum write_phase phase;
    unsigned user;
};

struct maker {
    struct dice dice;
    struct text *text;
    struct memory memories[USERS];
    struct refresh refreshes[ACTORS];
    struct own_write writes[ACTORS];
    bool installing; /* a transaction of the index is open */
    bool frozen;
    unsigned texts; /* so that each is another one */
};

static void say(struct maker *maker, const char *format, ...) PRINTF(2, 3);
static void say(struct maker *maker, const char *format, ...)
{
    char line[256];
    va_list arguments;

    va_start(arguments, format);
    (void) vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    text_append_format(maker->text, "    %s\n", line);
}

/* ---- where, and what ---- */

static void pick_place(struct maker *maker, char name[8], unsigned *ret_user, unsigned *ret_agent)
{
    *ret_user = dice_roll(&maker->dice, USERS);
    *ret_agent = dice_roll(&maker->dice, AGENTS);
    (void) snprintf(name, 8, "%s/%s", users[*ret_user], agents[*ret_agent]);
}

static bool is_waited_for(const struct maker *maker, unsigned user)
{
    for (unsigned i = 0; i < ACTORS; i++) {
        if (maker->writes[i].phase == WRITE_WAITS && maker->writes[i].user == user)
            return true;
    }
    return false;
}

static bool has_commit(const struct maker *maker, unsigned user)
{
    for (unsigned i = 0; i < ACTORS; i++) {
        if (maker->writes[i].phase == WRITE_COMMITTED && maker->writes[i].user == user)
            return true;
    }
    return false;
}

static bool is_anybody_waiting(const struct maker *maker)
{
    for (unsigned i = 0; i < ACTORS; i++) {
        if (maker->refreshes[i].phase == REFRESH_WAITS)
            return true;
    }
    return false;
}

static bool is_anybody_seated(const struct maker *maker)
{
    return has_commit(maker, 0) || has_commit(maker, 1);
}

/* One change of one fact; the ids are another set for each agent. */
static void change(struct maker *maker, bool *there, unsigned agent, unsigned fact,
                   struct text *changes)
{
    const char *letter = agent == 0 ? "f" : "g";

    if (*there && dice_hit(&maker->dice, 2)) {
        text_append_format(changes, " -%s%u", letter, fact);
        *there = false;
        return;
    }
    text_append_format(changes, " %s%s%u=t%u", *there ? "~" : "+", letter, fact, ++maker->texts);
    *there = true;
}

/* One or two facts of an agent change. `keep`: only what is said, not the memory itself. */
static const char *change_some(struct maker *maker, struct memory *memory, unsigned agent,
                               unsigned count, struct text *changes)
{
    unsigned first = dice_roll(&maker->dice, FACTS);

    for (unsigned i = 0; i < count; i++) {
        unsigned fact = (first + i) % FACTS;
        change(maker, &memory->facts[agent][fact], agent, fact, changes);
    }
    return text_string(changes);
}

/* ---- steps of the peer ---- */

static bool peer_commits(struct maker *maker)
{
    AUTO_TEXT struct text changes = {0};
    char name[8];
    unsigned user;
    unsigned agent;

    pick_place(maker, name, &user, &agent);
    if (is_waited_for(maker, user))
        return false;
    struct memory *memory = &maker->memories[user];
    if (!maker->frozen && dice_hit(&maker->dice, 5))
        say(maker, "peer commit %s summary", users[user]);
    else
        say(maker, "peer commit %s%s", name,
            change_some(maker, memory, agent, 1 + dice_roll(&maker->dice, 2), &changes));
    memory->dead = false;
    memory->half = false;
    return true;
}

/* It dies with its journal prepared, so all of it will be taken back; or just after it has said
 * that it is done. */
static bool peer_dies(struct maker *maker)
{
    static const char *const stops[] = {"journal", "fact:1", "fact:2", "manifest", "committed"};
    AUTO_TEXT struct text changes = {0};
    char name[8];
    unsigned user;
    unsigned agent;

    pick_place(maker, name, &user, &agent);
    struct memory *memory = &maker->memories[user];
    /* A held write keeps its user's seat in this process, which taking the change back needs. */
    if (is_waited_for(maker, user) || has_commit(maker, user) || memory->half)
        return false;
    struct memory after = *memory;
    const char *stop = stops[dice_roll(&maker->dice, ARRAY_SIZE(stops))];
    say(maker, "peer die %s %s%s", name, stop, change_some(maker, &after, agent, 2, &changes));
    if (strcmp(stop, "committed") == 0)
        *memory = after;
    memory->dead = true;
    return true;
}

static bool peer_touches(struct maker *maker)
{
    unsigned user = dice_roll(&maker->dice, USERS);

    if (maker->memories[user].dead)
        return false;
    say(maker, dice_hit(&maker->dice, 2) ? "peer touch %s" : "peer restore %s", users[user]);
    return true;
}

static bool peer_recovers(struct maker *maker)
{
    unsigned user = dice_roll(&maker->dice, USERS);

    if (!maker->memories[user].dead)
        return false;
    say(maker, "peer recover %s", users[user]);
    maker->memories[user].dead = false;
    return true;
}

/* A file changes, perhaps somebody reads it, it changes back, and the same manifest is written. */
static bool half_and_back(struct maker *maker)
{
    char name[8];
    unsigned user;
    unsigned agent;
    unsigned fact = dice_roll(&maker->dice, FACTS);

    pick_place(maker, name, &user, &agent);
    struct memory *memory = &maker->memories[user];
    if (maker->installing || is_waited_for(maker, user) || memory->dead || memory->half ||
        memory->facts[agent][fact])
        return false;
    const char *letter = agent == 0 ? "f" : "g";
    say(maker, "peer raw %s +%s%u=never", name, letter, fact);
    if (dice_hit(&maker->dice, 2))
        say(maker, "R9 all %s", name);
    else if (dice_hit(&maker->dice, 2))
        say(maker, "search %s -> anything", name);
    say(maker, "peer raw %s -%s%u", name, letter, fact);
    say(maker, "peer restore %s", users[user]);
    return true;
}

/* A commit is read, taken back with its revision, and the revision is used for another one. */
static bool revision_again(struct maker *maker)
{
    char name[8];
    unsigned user;
    unsigned agent;
    unsigned fact = dice_roll(&maker->dice, FACTS);

    pick_place(maker, name, &user, &agent);
    struct memory *memory = &maker->memories[user];
    unsigned other = (fact + 1) % FACTS;
    if (maker->installing || is_waited_for(maker, user) || memory->dead || memory->half ||
        memory->facts[agent][fact] || memory->facts[agent][other])
        return false;
    const char *letter = agent == 0 ? "f" : "g";
    say(maker, "peer commit %s +%s%u=once", name, letter, fact);
    if (!dice_hit(&maker->dice, 3))
        say(maker, "R9 all %s", name);
    say(maker, "peer raw %s -%s%u +%s%u=again", name, letter, fact, letter, other);
    say(maker, "peer rollback %s", users[user]);
    say(maker, "peer manifest %s", users[user]);
    memory->facts[agent][other] = true;
    return true;
}

/* Half of a change lies there until the manifest is written, at the latest at the end. */
static bool half_commit(struct maker *maker)
{
    AUTO_TEXT struct text changes = {0};
    char name[8];
    unsigned user;
    unsigned agent;

    pick_place(maker, name, &user, &agent);
    struct memory *memory = &maker->memories[user];
    if (is_waited_for(maker, user) || memory->dead)
        return false;
    if (memory->half && dice_hit(&maker->dice, 2)) {
        say(maker, "peer manifest %s", users[user]);
        memory->half = false;
        return true;
    }
    say(maker, "peer raw %s%s", name, change_some(maker, memory, agent, 1, &changes));
    memory->half = true;
    return true;
}

/* ---- refreshes ---- */

static void publish(struct maker *maker, unsigned number)
{
    say(maker, "R%u publish", number + 1);
    maker->refreshes[number].phase = REFRESH_AWAY;
    maker->installing = false;
    for (unsigned i = 0; i < ACTORS; i++) {
        if (maker->refreshes[i].phase == REFRESH_WAITS) {
            maker->refreshes[i].phase = REFRESH_INSTALLS;
            maker->installing = true;
            return;
        }
    }
}

static void begin_refresh(struct maker *maker, unsigned number)
{
    char name[8];
    unsigned user;
    unsigned agent;

    pick_place(maker, name, &user, &agent);
    bool everything = dice_hit(&maker->dice, 4);
    if (!maker->installing && dice_hit(&maker->dice, 4)) {
        say(maker, "R%u all %s", number + 1, everything ? "everything" : name);
        return;
    }
    say(maker, "R%u capture %s", number + 1, everything ? "everything" : name);
    maker->refreshes[number].phase = REFRESH_CAPTURED;
}

static bool refresh_goes_on(struct maker *maker)
{
    unsigned number = dice_roll(&maker->dice, ACTORS);
    struct refresh *refresh = &maker->refreshes[number];

    switch (refresh->phase) {
    case REFRESH_AWAY:
        begin_refresh(maker, number);
        return true;
    case REFRESH_CAPTURED:
        if (dice_hit(&maker->dice, 3))
            say(maker, "R%u facts", number + 1);
        say(maker, "R%u read", number + 1);
        refresh->phase = REFRESH_READ;
        return true;
    case REFRESH_READ:
        /* One that waits at most: who of two comes first would be another question. None while a
         * write keeps its user's seat: a refresh that has lost twice takes the user's lock. */
        if (is_anybody_waiting(maker) || (maker->installing && is_anybody_seated(maker)))
            return false;
        say(maker, "R%u install%s", number + 1, maker->installing ? " blocked" : "");
        refresh->phase = maker->installing ? REFRESH_WAITS : REFRESH_INSTALLS;
        maker->installing = true;
        return true;
    case REFRESH_INSTALLS:
        publish(maker, number);
        return true;
    case REFRESH_WAITS:
        return false;
    }
    return false;
}

/* ---- own writes ---- */

static void install_write(struct maker *maker, unsigned number)
{
    unsigned user = maker->writes[number].user;

    say(maker, "W%u install", number + 1);
    maker->writes[number].phase = WRITE_AWAY;
    for (unsigned i = 0; i < ACTORS; i++) {
        if (maker->writes[i].phase == WRITE_WAITS && maker->writes[i].user == user) {
            maker->writes[i].phase = WRITE_COMMITTED;
            maker->memories[user].dead = false;
            return;
        }
    }
}

static bool begin_write(struct maker *maker, unsigned number)
{
    AUTO_TEXT struct text changes = {0};
    char name[8];
    unsigned user;
    unsigned agent;

    pick_place(maker, name, &user, &agent);
    struct memory *memory = &maker->memories[user];
    if (is_waited_for(maker, user) || memory->half || is_anybody_waiting(maker))
        return false;
    bool taken = has_commit(maker, user);
    bool at_once = !taken && !maker->installing && dice_hit(&maker->dice, 3);
    if (dice_hit(&maker->dice, 8))
        text_append_string(&changes, " nothing");
    else
        (void) change_some(maker, memory, agent, 1 + dice_roll(&maker->dice, 2), &changes);
    bool nothing = strcmp(text_string(&changes), " nothing") == 0;
    if (nothing && !at_once)
        return false;
    say(maker, "W%u %s %s%s%s", number + 1, at_once ? "all" : "commit", name, text_string(&changes),
        taken ? " blocked" : "");
    memory->dead = memory->dead && taken;
    if (!at_once)
        maker->writes[number] =
            (struct own_write){.phase = taken ? WRITE_WAITS : WRITE_COMMITTED, .user = user};
    return true;
}

static bool write_goes_on(struct maker *maker)
{
    unsigned number = dice_roll(&maker->dice, ACTORS);

    switch (maker->writes[number].phase) {
    case WRITE_AWAY:
        return begin_write(maker, number);
    case WRITE_COMMITTED:
        if (maker->installing)
            return false;
        if (dice_hit(&maker->dice, 6))
            say(maker, "W%u refuse", number + 1);
        install_write(maker, number);
        return true;
    case WRITE_WAITS:
        return false;
    }
    return false;
}

/* ---- searches ---- */

static bool search(struct maker *maker)
{
    char name[8];
    unsigned user;
    unsigned agent;

    pick_place(maker, name, &user, &agent);
    if (maker->installing)
        return false;
    const struct memory *memory = &maker->memories[user];
    bool whole = !memory->half && !memory->dead;
    say(maker, "search %s -> %s", name, whole ? "truth" : "anything");
    return true;
}

/* ---- schedules ---- */

static bool (*const moves[])(struct maker *maker) = {
    peer_commits,    peer_commits,  refresh_goes_on, refresh_goes_on, refresh_goes_on,
    refresh_goes_on, write_goes_on, write_goes_on,   write_goes_on,   search,
    search,          peer_dies,     peer_recovers,   peer_touches,    half_and_back,
    revision_again,  half_commit,
};

static void start(struct maker *maker)
{
    for (unsigned user = 0; user < USERS; user++) {
        for (unsigned agent = 0; agent < AGENTS; agent++) {
            text_append_format(maker->text, "    start %s/%s", users[user], agents[agent]);
            for (unsigned fact = 0; fact < FACTS; fact++) {
                bool *there = &maker->memories[user].facts[agent][fact];
                *there = fact == 0 || dice_hit(&maker->dice, 2);
                if (*there)
                    text_append_format(maker->text, " %s%u=t%u", agent == 0 ? "f" : "g", fact,
                                       ++maker->texts);
            }
            text_append_char(maker->text, '\n');
        }
    }
    if (dice_hit(&maker->dice, 4))
        text_append_string(maker->text, "    cold\n");
    maker->frozen = dice_hit(&maker->dice, 2);
    if (maker->frozen)
        say(maker, "peer freeze");
}

/* Everybody gets to his end, and every change is whole. */
static void finish(struct maker *maker)
{
    for (unsigned round = 0; round < ACTORS; round++) {
        for (unsigned i = 0; i < ACTORS; i++) {
            if (maker->refreshes[i].phase == REFRESH_INSTALLS)
                publish(maker, i);
        }
    }
    for (unsigned round = 0; round < ACTORS; round++) {
        for (unsigned i = 0; i < ACTORS; i++) {
            if (maker->writes[i].phase == WRITE_COMMITTED)
                install_write(maker, i);
        }
    }
    for (unsigned user = 0; user < USERS; user++) {
        if (maker->memories[user].half)
            say(maker, "peer manifest %s", users[user]);
    }
    for (unsigned i = 0; i < ACTORS; i++) {
        if (maker->refreshes[i].phase != REFRESH_AWAY)
            say(maker, "R%u publish", i + 1);
    }
}

void random_schedule(uint64_t seed, struct text *ret)
{
    struct maker maker = {.dice = {.state = seed}, .text = ret};

    text_append_format(ret, "schedule seed-%" PRIu64 " made by chance\n", seed);
    start(&maker);
    unsigned steps = STEPS_MIN + dice_roll(&maker.dice, STEPS_MORE);
    for (unsigned made = 0; made < steps;)
        made += moves[dice_roll(&maker.dice, ARRAY_SIZE(moves))](&maker);
    finish(&maker);
}
