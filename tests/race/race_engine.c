/* Searches against everything that changes rows: peers, refreshes, own deltas, keeper, damage.
 *
 * Every commit of these peers sets all facts of a scope to one number, the revision that it makes.
 * So an answer tells which revision it shows, and whether it shows half of one.
 */
#include "tests/race/race.h"

#include "core/clock.h"
#include "core/keeper.h"
#include "core/pause_point.h"
#include "tests/support/files.h"
#include "tests/support/temp_store.h"

#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#define FACTS 6
#define PEER_COMMITS 40
#define SEARCHERS 2

static void fill_changes(struct temp_change changes[FACTS], char ids[FACTS][8], const char *text,
                         enum temp_change_kind kind)
{
    for (unsigned i = 0; i < FACTS; i++) {
        (void) snprintf(ids[i], sizeof ids[i], "f%u", i);
        changes[i] = (struct temp_change){.kind = kind, .id = ids[i], .text = text};
    }
}

/* One commit that sets every fact to "note <number>"; `stop`: the writer dies there. */
static void commit_number(struct temp_volume *volume, const char *user, const char *agent,
                          unsigned number, enum temp_step stop)
{
    char ids[FACTS][8];
    char text[32];
    struct temp_change changes[FACTS];

    (void) snprintf(text, sizeof text, "note %u", number);
    fill_changes(changes, ids, text, TEMP_UPDATE);
    const struct temp_commit commit = {.user = user,
                                       .agent = agent,
                                       .changes = changes,
                                       .count = FACTS,
                                       .stop = stop,
                                       .stop_number = FACTS / 2};
    (void) temp_volume_commit(volume, &commit);
}

/* The number that an answer of one scope shows; 0 for none, UINT32_MAX for half a commit. */
static unsigned number_shown(const struct temp_answer *answer)
{
    unsigned shown = 0;

    if (answer->count == 0)
        return 0;
    if (answer->count != FACTS)
        return UINT32_MAX;
    const char *at = answer->facts;
    for (unsigned i = 0; i < FACTS; i++) {
        unsigned fact;
        unsigned number;
        int used = 0;
        if (sscanf(at, "f%u=%u%n", &fact, &number, &used) != 2 || fact != i ||
            (i > 0 && number != shown))
            return UINT32_MAX;
        shown = number;
        at += used + (at[used] == ' ');
    }
    return shown;
}

static bool is_verified(const struct temp_answer *answer)
{
    return strcmp(answer->states, "fresh") == 0 || strcmp(answer->states, "refreshed") == 0;
}

/* ---- one scope, several writers and searchers ---- */

struct engine_race {
    struct temp_store *store;
    atomic_uint committed; /* the number of the last commit that is done */
    atomic_uint begun;     /* the number of the last commit that was begun */
    atomic_uint thread;
    atomic_bool stop;
    bool index_is_lost; /* again and again: a busy scope may be unbuilt for a moment */
};

static void *search_until_stopped(void *context)
{
    struct engine_race *race = context;
    struct temp_question question = {.scopes = "u/a",
                                     .thread = atomic_fetch_add(&race->thread, 1) + 1};
    unsigned last = 0;
    unsigned verified = 0;

    while (!atomic_load(&race->stop) || verified == 0) {
        unsigned before = atomic_load(&race->committed);
        struct temp_answer answer = temp_store_ask_as(race->store, &question);
        if (race->index_is_lost &&
            (answer.status == STATUS_UNAVAILABLE || answer.status == STATUS_IO))
            continue;
        RACE_CHECK(answer.status == STATUS_OK);
        if (answer.status != STATUS_OK)
            return NULL;
        unsigned shown = number_shown(&answer);
        RACE_CHECK(shown != UINT32_MAX);
        if (is_verified(&answer)) {
            verified++;
            RACE_CHECK(shown >= before);
            RACE_CHECK(shown <= atomic_load(&race->begun));
        }
        RACE_CHECK(shown >= last);
        last = shown;
    }
    return NULL;
}

static void *commit_often(void *context)
{
    struct engine_race *race = context;
    /* Only a thread's own handle: the helper remembers what it wrote. */
    struct temp_volume *volume = temp_volume_create_at(temp_volume_path(race->store->volume));

    for (unsigned i = 2; i < 2 + PEER_COMMITS; i++) {
        atomic_store(&race->begun, i);
        commit_number(volume, "u", "a", i, TEMP_STEP_NONE);
        atomic_store(&race->committed, i);
        if (i % 3 == 0)
            temp_nap();
    }
    temp_volume_destroy(&volume);
    return NULL;
}

static void *refresh_fully(void *context)
{
    struct engine_race *race = context;
    struct scope scope;
    uint64_t number;

    temp_store_scope("u/a", &scope);
    while (!atomic_load(&race->stop)) {
        struct refresh_result result;
        enum status status = refresh_request(race->store->store->refreshes, &scope, REFRESH_URGENT,
                                             REFRESH_CAUSE_SEARCH, REFRESH_WISH_FULL, &number);
        RACE_CHECK(status == STATUS_OK);
        RACE_CHECK(refresh_wait(race->store->store->refreshes, &scope, number,
                                clock_deadline_ms(60000), &result));
    }
    return NULL;
}

static void begin_race(struct engine_race *race)
{
    race->store = temp_store_create();
    commit_number(race->store->volume, "u", "a", 1, TEMP_STEP_NONE);
    atomic_store(&race->committed, 1);
    atomic_store(&race->begun, 1);
    temp_store_open(race->store);
    /* The first build: what follows always has rows to answer from. */
    RACE_CHECK(temp_store_ask(race->store, "u/a").status == STATUS_OK);
}

/* After the last change one search gives the truth of the volume, and a second one does nothing. */
static void end_race(struct engine_race *race)
{
    struct temp_answer answer = temp_store_ask(race->store, "u/a");

    RACE_CHECK(answer.status == STATUS_OK && is_verified(&answer));
    RACE_CHECK(number_shown(&answer) == atomic_load(&race->committed));
    answer = temp_store_ask(race->store, "u/a");
    RACE_CHECK(strcmp(answer.states, "fresh") == 0 && answer.refreshes == 0);
    temp_store_destroy(&race->store);
}

/* `writer` ends by itself, the others are stopped then. */
static void run_engine_race(struct engine_race *race, void *(*writer)(void *),
                            void *(*companion)(void *) )
{
    pthread_t searchers[SEARCHERS];
    pthread_t writing;
    pthread_t accompanying;

    for (unsigned i = 0; i < SEARCHERS; i++)
        (void) pthread_create(&searchers[i], NULL, search_until_stopped, race);
    (void) pthread_create(&writing, NULL, writer, race);
    if (companion)
        (void) pthread_create(&accompanying, NULL, companion, race);
    (void) pthread_join(writing, NULL);
    atomic_store(&race->stop, true);
    if (companion)
        (void) pthread_join(accompanying, NULL);
    for (unsigned i = 0; i < SEARCHERS; i++)
        (void) pthread_join(searchers[i], NULL);
}

void race_search_against_peer_commits(void)
{
    struct engine_race race = {0};

    begin_race(&race);
    run_engine_race(&race, commit_often, NULL);
    end_race(&race);
}

void race_search_against_full_refreshes(void)
{
    struct engine_race race = {0};

    begin_race(&race);
    run_engine_race(&race, commit_often, refresh_fully);
    end_race(&race);
}

/* Every second writer dies half way; the next who has the lock takes its commit back. */
static void *commit_and_die(void *context)
{
    static const enum temp_step deaths[] = {TEMP_STEP_JOURNAL, TEMP_STEP_FACT, TEMP_STEP_MANIFEST};
    struct engine_race *race = context;
    struct temp_volume *volume = temp_volume_create_at(temp_volume_path(race->store->volume));

    for (unsigned i = 2; i < 2 + PEER_COMMITS / 2; i++) {
        commit_number(volume, "u", "a", 1000 + i, deaths[i % ARRAY_SIZE(deaths)]);
        temp_nap();
        atomic_store(&race->begun, i);
        commit_number(volume, "u", "a", i, TEMP_STEP_NONE);
        atomic_store(&race->committed, i);
    }
    temp_volume_destroy(&volume);
    return NULL;
}

void race_search_against_dying_writers(void)
{
    struct engine_race race = {0};

    begin_race(&race);
    run_engine_race(&race, commit_and_die, NULL);
    end_race(&race);
}

/* ---- a search of two scopes ---- */

static void *search_two(void *context)
{
    struct engine_race *race = context;
    struct temp_question question = {.scopes = "u/a v/a",
                                     .thread = atomic_fetch_add(&race->thread, 1) + 1};

    while (!atomic_load(&race->stop)) {
        struct temp_answer answer = temp_store_ask_as(race->store, &question);
        RACE_CHECK(answer.status == STATUS_OK);
        RACE_CHECK(answer.count == 2 * FACTS);
    }
    return NULL;
}

static void *commit_to_two(void *context)
{
    struct engine_race *race = context;
    struct temp_volume *volume = temp_volume_create_at(temp_volume_path(race->store->volume));

    for (unsigned i = 2; i < 2 + PEER_COMMITS; i++) {
        atomic_store(&race->begun, i);
        commit_number(volume, "v", "a", i, TEMP_STEP_NONE);
        commit_number(volume, "u", "a", i, TEMP_STEP_NONE);
        atomic_store(&race->committed, i);
    }
    temp_volume_destroy(&volume);
    return NULL;
}

void race_search_of_two_scopes_against_commits(void)
{
    struct engine_race race = {0};

    begin_race(&race);
    commit_number(race.store->volume, "v", "a", 1, TEMP_STEP_NONE);
    pthread_t two;
    (void) pthread_create(&two, NULL, search_two, &race);
    atomic_store(&race.thread, 1);
    pthread_t one;
    (void) pthread_create(&one, NULL, search_until_stopped, &race);
    (void) commit_to_two(&race);
    atomic_store(&race.stop, true);
    (void) pthread_join(one, NULL);
    (void) pthread_join(two, NULL);
    end_race(&race);
}

/* ---- a first build ---- */

void race_first_build_asked_for_by_many(void)
{
    for (unsigned i = 0; i < 10; i++) {
        struct temp_store *store = temp_store_create();
        struct temp_search *searches[TEMP_STORE_THREADS];

        commit_number(store->volume, "u", "a", 7, TEMP_STEP_NONE);
        temp_store_open(store);
        for (unsigned t = 0; t < TEMP_STORE_THREADS; t++) {
            struct temp_question question = {.scopes = "u/a", .thread = t};
            searches[t] = temp_search_start(store, &question);
        }
        for (unsigned t = 0; t < TEMP_STORE_THREADS; t++) {
            struct temp_answer answer = temp_search_join(&searches[t]);
            RACE_CHECK(answer.status == STATUS_OK && is_verified(&answer));
            RACE_CHECK(number_shown(&answer) == 7);
        }
        /* They shared it: a joined run is compared with, not repeated. */
        RACE_CHECK(atomic_load(&store->store->counters.refreshes) == 1);
        temp_store_destroy(&store);
    }
}

/* ---- own writes, as the writer to come will do them ---- */

struct own_write {
    struct temp_store *store;
    struct scope scope;
    struct index_row rows[FACTS];
    char paths[FACTS][300];
};

static void take_fact(struct own_write *write, unsigned i)
{
    char path[SCOPE_PATH_MAX];
    char whole[PATH_MAX];
    char id[8];
    struct fact *fact = NULL;
    enum fact_fault fault;
    size_t size = 0;

    (void) snprintf(id, sizeof id, "f%u", i);
    temp_volume_fact_path("u", "a", id, path);
    temp_volume_file(write->store->volume, path, whole);
    AUTO_FREE char *bytes = test_read_file(whole, &size);
    enum status status = fact_parse(bytes, size, &write->scope, id, 1, &fact, &fault, NULL);
    RACE_CHECK(status == STATUS_OK);
    (void) snprintf(write->paths[i], sizeof write->paths[i], "%s",
                    strstr(path, "/facts/") + strlen("/facts/"));
    write->rows[i] = (struct index_row){.path = write->paths[i], .fact = fact};
}

static struct manifest_mark mark_under_lock(struct own_write *write)
{
    struct live_state live = {0};
    enum status status =
        store_compare(write->store->store, &write->scope, CLOCK_NEVER, &live, NULL);

    RACE_CHECK(status == STATUS_OK);
    return live.mark;
}

/* Commits as a peer does, and hands the delta to the index in the order of the commits. */
static void write_own(struct temp_store *store, struct temp_volume *volume, unsigned number)
{
    struct own_write write = {.store = store};
    struct temp_change changes[FACTS];
    char ids[FACTS][8];
    char text[32];
    enum own_write_outcome outcome;

    temp_store_scope("u/a", &write.scope);
    (void) snprintf(text, sizeof text, "note %u", number);
    fill_changes(changes, ids, text, TEMP_UPDATE);
    const struct temp_commit commit = {.user = "u",
                                       .agent = "a",
                                       .changes = changes,
                                       .count = FACTS};
    struct temp_writer *writer = temp_writer_begin(volume, &commit);
    struct index_own_write own = {.scope = &write.scope, .facts_changed = true};
    own.pre = mark_under_lock(&write);
    temp_writer_run(writer, TEMP_STEP_END, 0);
    own.post = mark_under_lock(&write);
    for (unsigned i = 0; i < FACTS; i++)
        take_fact(&write, i);
    own.put = write.rows;
    own.put_count = FACTS;
    uint64_t place = install_queue_enter(store->store->installs);
    (void) temp_writer_finish(&writer); /* lets go of the user's lock */
    install_queue_wait(store->store->installs, place);
    enum status status = index_install_own_write(store->store->index, &own, &outcome, NULL);
    install_queue_leave(store->store->installs, place);
    RACE_CHECK(status == STATUS_OK);
    for (unsigned i = 0; i < FACTS; i++) {
        struct fact *fact = (struct fact *) (uintptr_t) write.rows[i].fact;
        fact_destroy(&fact);
    }
}

/* Own writes and a peer's in turns. */
static void *write_in_turns(void *context)
{
    struct engine_race *race = context;
    struct temp_volume *volume = temp_volume_create_at(temp_volume_path(race->store->volume));

    for (unsigned i = 2; i < 2 + PEER_COMMITS; i++) {
        atomic_store(&race->begun, i);
        if (i % 4 == 1)
            commit_number(volume, "u", "a", i, TEMP_STEP_NONE);
        else
            write_own(race->store, volume, i);
        atomic_store(&race->committed, i);
    }
    temp_volume_destroy(&volume);
    return NULL;
}

void race_own_writes_against_peers(void)
{
    struct engine_race race = {0};

    begin_race(&race);
    run_engine_race(&race, write_in_turns, NULL);
    end_race(&race);
}

void race_own_writes_against_full_refreshes(void)
{
    struct engine_race race = {0};

    begin_race(&race);
    run_engine_race(&race, write_in_turns, refresh_fully);
    end_race(&race);
}

/* ---- keeper ---- */

#define USERS 4

static const struct keeper_options keeper_options = {
    .refreshers = 2,
    .inotify = true,
    .poll_interval_min_ms = 20,
    .poll_interval_max_ms = 200,
    .operations_per_second = 2000,
};

static struct keeper *start_keeper(struct temp_store *store)
{
    struct keeper *keeper = NULL;
    struct error error = {0};
    enum status status = keeper_start(store->store, &keeper_options, &keeper, &error);

    if (status != STATUS_OK)
        test_die("no keeper: %s", error.message);
    return keeper;
}

static bool wait_synced(struct temp_store *store, const char *scope)
{
    for (unsigned i = 0; i < 60000; i++) {
        if (strcmp(temp_store_state(store, scope), "synced") == 0)
            return true;
        temp_nap();
    }
    return false;
}

static void *commit_to_users(void *context)
{
    struct engine_race *race = context;
    struct temp_volume *volume = temp_volume_create_at(temp_volume_path(race->store->volume));
    char user[8];

    for (unsigned i = 0; i < PEER_COMMITS; i++) {
        (void) snprintf(user, sizeof user, "w%u", i % USERS);
        commit_number(volume, user, i % 3 ? "a" : "b", i + 1, TEMP_STEP_NONE);
    }
    temp_volume_destroy(&volume);
    return NULL;
}

/* Nobody searches these users: liveness is the keeper's. */
void race_keeper_follows_peers(void)
{
    struct engine_race race = {0};
    pthread_t users;

    begin_race(&race);
    struct keeper *keeper = start_keeper(race.store);
    (void) pthread_create(&users, NULL, commit_to_users, &race);
    run_engine_race(&race, commit_often, NULL);
    (void) pthread_join(users, NULL);
    for (unsigned i = 0; i < USERS; i++) {
        char scope[16];
        (void) snprintf(scope, sizeof scope, "w%u/a", i);
        RACE_CHECK(wait_synced(race.store, scope));
        (void) snprintf(scope, sizeof scope, "w%u/b", i);
        RACE_CHECK(wait_synced(race.store, scope));
    }
    (void) !keeper_stop(&keeper, CLOCK_NEVER);
    /* The table was stopped with it, so a new store takes the last look. */
    temp_store_close(race.store);
    temp_store_open(race.store);
    end_race(&race);
}

void race_keeper_starts_and_stops(void)
{
    for (unsigned i = 0; i < 15; i++) {
        struct temp_store *store = temp_store_create();

        commit_number(store->volume, "u", "a", 3, TEMP_STEP_NONE);
        temp_store_open(store);
        struct keeper *keeper = start_keeper(store);
        struct scope scope;
        temp_store_scope("u/a", &scope);
        keeper_touch(keeper, &scope);
        if (i % 3 == 1)
            temp_nap();
        if (i % 3 == 2)
            RACE_CHECK(wait_synced(store, "u/a"));
        (void) !keeper_stop(&keeper, CLOCK_NEVER);
        temp_store_destroy(&store);
    }
}

/* ---- damage ---- */

static void *lose_index(void *context)
{
    struct engine_race *race = context;

    for (unsigned i = 0; i < 6; i++) {
        char path[PATH_MAX];
        test_join(path, race->store->index_directory, INDEX_FILE_NAME);
        test_remove_file(path);
        for (unsigned naps = 0; naps < 20; naps++)
            temp_nap();
    }
    return NULL;
}

/* The file is deleted again and again while keeper and searches use it. */
void race_keeper_and_a_lost_index(void)
{
    struct engine_race race = {.index_is_lost = true};
    pthread_t losing;

    begin_race(&race);
    struct keeper *keeper = start_keeper(race.store);
    (void) pthread_create(&losing, NULL, lose_index, &race);
    run_engine_race(&race, commit_often, NULL);
    (void) pthread_join(losing, NULL);
    RACE_CHECK(wait_synced(race.store, "u/a"));
    (void) !keeper_stop(&keeper, CLOCK_NEVER);
    temp_store_close(race.store);
    temp_store_open(race.store);
    end_race(&race);
}

/* ---- the volume itself ---- */

static void *search_whatever_comes(void *context)
{
    struct engine_race *race = context;
    struct temp_question question = {.scopes = "u/a",
                                     .thread = atomic_fetch_add(&race->thread, 1) + 1};

    while (!atomic_load(&race->stop)) {
        struct temp_answer answer = temp_store_ask_as(race->store, &question);
        RACE_CHECK(answer.status == STATUS_OK);
        /* Gone or not, no fact is lost. */
        RACE_CHECK(number_shown(&answer) == 1);
    }
    return NULL;
}

void race_volume_goes_and_returns(void)
{
    struct engine_race race = {0};
    pthread_t searchers[SEARCHERS];
    char away[PATH_MAX];

    begin_race(&race);
    const char *root = temp_volume_path(race.store->volume);
    (void) snprintf(away, sizeof away, "%.*s.away", (int) strlen(root), root);
    RACE_CHECK(temp_store_ask(race.store, "u/a").count == FACTS);
    for (unsigned i = 0; i < SEARCHERS; i++)
        (void) pthread_create(&searchers[i], NULL, search_whatever_comes, &race);
    for (unsigned i = 0; i < 30; i++) {
        test_rename(root, away);
        test_make_dirs(root);
        enum status status = store_check_volume(race.store->store, NULL);
        RACE_CHECK(status == STATUS_UNAVAILABLE);
        test_remove_tree(root);
        test_rename(away, root);
        status = store_check_volume(race.store->store, NULL);
        RACE_CHECK(status == STATUS_OK);
    }
    atomic_store(&race.stop, true);
    for (unsigned i = 0; i < SEARCHERS; i++)
        (void) pthread_join(searchers[i], NULL);
    end_race(&race);
}
