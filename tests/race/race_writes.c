/* Writes of many threads, in groups and alone, beside searches, refreshes, peers and another node.
 */
#include "tests/race/race.h"

#include "core/clock.h"
#include "core/json_text.h"
#include "core/refresher.h"
#include "core/writer.h"
#include "tests/support/temp_calls.h"
#include "tests/support/temp_store.h"
#include "tests/support/temp_tree.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define WRITERS 8
#define WRITES 12 /* of each */
#define PEER_WRITES 20
#define REVISIONS_MAX 1000

/* ---- one store with its writer ---- */

struct node {
    struct temp_store *store;
    struct writer *writer;
};

static void node_open(struct node *node, struct temp_volume *volume, enum store_locks locks)
{
    const struct writer_options options = {.lock_timeout_ms = 60000};

    node->store = temp_store_create();
    node->store->options.request_threads = WRITERS + 2;
    node->store->options.calls = temp_calls();
    node->store->options.locks = locks;
    if (volume)
        node->store->options.volume_path = temp_volume_path(volume);
    temp_store_open(node->store);
    RACE_CHECK(writer_create(node->store->store, &options, &node->writer) == STATUS_OK);
}

static void node_close(struct node *node)
{
    writer_destroy(&node->writer);
    temp_store_destroy(&node->store);
}

/* ---- writers ---- */

struct crew {
    struct node *node;
    const char *agents[2]; /* who they write, in turn */
    bool gives_up;         /* a conflict is an answer */
    _Atomic unsigned next;
    _Atomic unsigned granted[REVISIONS_MAX]; /* writes by the revision that they made */
    _Atomic unsigned refused;
    atomic_bool stop; /* for those who only look */
};

struct wish {
    char id[16];
    char text[32];
};

static enum status build(void *context, struct draft *draft, struct change_set *set,
                         struct error *error)
{
    const struct wish *wish = context;
    AUTO_JSON json_t *fact = json_pack("{s:s,s:s}", "id", wish->id, "content", wish->text);
    struct change_upsert *upsert;

    enum status status =
        change_set_add_upsert(set, draft_scope(draft), fact, draft_wall_ns(draft), &upsert, error);
    if (status == STATUS_OK)
        upsert->expects = CHANGE_EXPECTS_ANYTHING;
    return status;
}

/* Whoever was told that it is written and indexed finds it, whatever others do. */
static void check_found(struct crew *crew, unsigned thread, const char *scope,
                        const struct wish *wish)
{
    char expected[64];
    struct temp_answer answer =
        temp_store_ask_as(crew->node->store,
                          &(struct temp_question){.scopes = scope, .thread = thread});

    (void) snprintf(expected, sizeof expected, "%s=%s", wish->id, wish->text + strlen("note "));
    /* Where no lock tells whether a journal is alive, an answer may have to be an older one. */
    if (crew->gives_up && strcmp(answer.states, "fresh") != 0 &&
        strcmp(answer.states, "refreshed") != 0)
        return;
    RACE_CHECK(answer.status == STATUS_OK);
    RACE_CHECK(strstr(answer.facts, expected) != NULL);
}

static void write_once(struct crew *crew, unsigned thread, unsigned round)
{
    const char *agent = crew->agents[thread % 2];
    struct wish wish;
    struct scope scope;
    struct write_result result = {0};
    struct error error = {0};
    char name[32];

    (void) snprintf(name, sizeof name, "u/%s", agent);
    temp_store_scope(name, &scope);
    (void) snprintf(wish.id, sizeof wish.id, "w%u", thread);
    (void) snprintf(wish.text, sizeof wish.text, "note %u-%u.", thread, round);
    const struct write_request request = {
        .scope = &scope,
        .has_agent = true,
        .need = round % 4 == 3 ? WRITE_SOURCE_ALL : WRITE_SOURCE_SOME,
        .retries = !crew->gives_up,
        .build = build,
        .context = &wish,
        .deadline_ns = clock_deadline_ms(60000),
        .thread = thread,
    };
    enum status status = writer_run(crew->node->writer, &request, &result, &error);
    if (status != STATUS_OK) {
        /* busy: all facts were wanted, and the other node never stood still */
        RACE_CHECK(crew->gives_up && (status == STATUS_CONFLICT || status == STATUS_BUSY));
        atomic_fetch_add(&crew->refused, 1);
        return;
    }
    RACE_CHECK(result.changed);
    RACE_CHECK(json_array_size(result.upserted) == 1);
    RACE_CHECK(result.revision > 0 && result.revision < REVISIONS_MAX);
    if (result.revision > 0 && result.revision < REVISIONS_MAX)
        atomic_fetch_add(&crew->granted[result.revision], 1);
    write_result_destroy(&result);
    check_found(crew, thread, name, &wish);
}

static void *write_many(void *context)
{
    struct crew *crew = context;
    unsigned thread = atomic_fetch_add(&crew->next, 1);

    for (unsigned i = 0; i < WRITES; i++)
        write_once(crew, thread, i);
    return NULL;
}

static void *refresh_until_stopped(void *context)
{
    struct crew *crew = context;

    while (!atomic_load(&crew->stop)) {
        struct scope scope;
        struct refresh_run run;
        struct refresh_result result = {0};
        uint64_t number;
        struct temp_store *store = crew->node->store;

        temp_store_scope("u/a", &scope);
        if (refresh_request(store->store->refreshes, &scope, REFRESH_BACKGROUND,
                            REFRESH_CAUSE_SEARCH, REFRESH_WISH_FULL, &number) == STATUS_OK &&
            refresh_claim(store->store->refreshes, &scope, &run))
            refresher_run(store->store, store->reader, &run, &result);
        temp_nap();
    }
    return NULL;
}

static void *search_until_stopped(void *context)
{
    struct crew *crew = context;

    while (!atomic_load(&crew->stop)) {
        struct temp_answer answer =
            temp_store_ask_as(crew->node->store,
                              &(struct temp_question){.scopes = "u/a u/b", .thread = WRITERS + 1});
        RACE_CHECK(answer.status == STATUS_OK);
    }
    return NULL;
}

static void *commit_as_a_peer(void *context)
{
    struct crew *crew = context;
    char text[32];

    for (unsigned i = 0; i < PEER_WRITES; i++) {
        (void) snprintf(text, sizeof text, "note peer %u", i);
        if (i == 0)
            (void) temp_volume_add(crew->node->store->volume, "u", "a", "peer", text);
        else
            (void) temp_volume_update(crew->node->store->volume, "u", "a", "peer", text);
        temp_nap();
    }
    return NULL;
}

/* ---- what must hold afterwards ---- */

/* Commits by the revisions that were told; every revision has one maker. */
static unsigned count_revisions(struct crew *const *crews, size_t count)
{
    unsigned revisions = 0;

    for (unsigned revision = 1; revision < REVISIONS_MAX; revision++) {
        unsigned makers = 0;
        for (size_t i = 0; i < count; i++)
            makers += atomic_load(&crews[i]->granted[revision]) > 0;
        RACE_CHECK(makers <= 1);
        revisions += makers > 0;
    }
    return revisions;
}

static unsigned count_granted(const struct crew *crew)
{
    unsigned granted = 0;

    for (unsigned i = 0; i < REVISIONS_MAX; i++)
        granted += atomic_load(&crew->granted[i]);
    return granted;
}

static void check_nothing_left(const struct temp_volume *volume)
{
    char left[2000];

    temp_tree_leftovers(volume, "users/u", left, sizeof left);
    RACE_CHECK(left[0] == '\0');
    if (left[0])
        (void) fprintf(stderr, "left: %s\n", left);
}

static void start(pthread_t *thread, void *(*run)(void *), struct crew *crew)
{
    if (pthread_create(thread, NULL, run, crew) != 0)
        abort();
}

static void write_in_groups(const char *first_agent, const char *second_agent, bool with_peer)
{
    struct node node;
    struct crew crew = {.node = &node, .agents = {first_agent, second_agent}};
    struct crew *const crews[] = {&crew};
    pthread_t writers[WRITERS];
    pthread_t others[3];
    size_t other_count = 0;

    node_open(&node, NULL, STORE_LOCKS_AUTO);
    (void) temp_volume_add(node.store->volume, "u", "a", "f1", "note one");
    start(&others[other_count++], search_until_stopped, &crew);
    start(&others[other_count++], refresh_until_stopped, &crew);
    if (with_peer)
        start(&others[other_count++], commit_as_a_peer, &crew);
    for (unsigned i = 0; i < WRITERS; i++)
        start(&writers[i], write_many, &crew);
    for (unsigned i = 0; i < WRITERS; i++)
        (void) pthread_join(writers[i], NULL);
    atomic_store(&crew.stop, true);
    for (size_t i = 0; i < other_count; i++)
        (void) pthread_join(others[i], NULL);

    const struct store_counters *counters = &node.store->store->counters;
    unsigned revisions = count_revisions(crews, 1);
    int64_t peers = 1 + (with_peer ? PEER_WRITES : 0);
    RACE_CHECK(count_granted(&crew) == WRITERS * WRITES);
    RACE_CHECK(atomic_load(&counters->writes) == WRITERS * WRITES);
    RACE_CHECK(atomic_load(&counters->commits) == revisions);
    RACE_CHECK(temp_volume_revision(node.store->volume, "u") == peers + revisions);
    check_nothing_left(node.store->volume);
    struct temp_answer answer = temp_store_ask(node.store, "u/a u/b");
    RACE_CHECK(answer.status == STATUS_OK);
    RACE_CHECK(answer.count == WRITERS + 1u + with_peer);
    node_close(&node);
}

void race_writes_of_one_agent(void)
{
    write_in_groups("a", "a", false);
}

void race_writes_of_two_agents(void)
{
    write_in_groups("a", "b", false);
}

void race_writes_beside_a_peer(void)
{
    write_in_groups("a", "a", true);
}

/* Two nodes on one volume where a lock keeps nobody out: what was granted is there, each revision
 * has one maker, and what was refused has left nothing. */
void race_writes_of_two_nodes_without_locks(void)
{
    struct node here;
    struct node there;
    struct crew crew_here = {.node = &here, .agents = {"a", "a"}, .gives_up = true};
    struct crew crew_there = {.node = &there, .agents = {"b", "b"}, .gives_up = true};
    struct crew *const crews[] = {&crew_here, &crew_there};
    pthread_t writers[4];

    node_open(&here, NULL, STORE_LOCKS_LOCAL);
    (void) temp_volume_add(here.store->volume, "u", "a", "f1", "note one");
    node_open(&there, here.store->volume, STORE_LOCKS_LOCAL);
    temp_calls_ignore_locks();
    for (unsigned i = 0; i < ARRAY_SIZE(writers); i++)
        start(&writers[i], write_many, crews[i % 2]);
    for (unsigned i = 0; i < ARRAY_SIZE(writers); i++)
        (void) pthread_join(writers[i], NULL);

    unsigned revisions = count_revisions(crews, 2);
    RACE_CHECK(count_granted(&crew_here) + atomic_load(&crew_here.refused) == 2 * WRITES);
    RACE_CHECK(count_granted(&crew_there) + atomic_load(&crew_there.refused) == 2 * WRITES);
    RACE_CHECK(temp_volume_revision(here.store->volume, "u") == 1 + (int64_t) revisions);
    check_nothing_left(here.store->volume);
    node_close(&there);
    temp_calls_reset();
    node_close(&here);
}
