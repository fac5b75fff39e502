#include "tests/support/temp_store.h"

#include "core/clock.h"
#include "core/refresher.h"
#include "tests/support/files.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define WORD "note"
#define DEADLINE_MS 20000

static void die_of(const char *what, enum status status, const struct error *error)
{
    test_die("%s: %s (%s %s)", what, status_name(status), error->message, error->path);
}

struct temp_store *temp_store_create(void)
{
    struct temp_store *store = calloc(1, sizeof *store);

    if (!store)
        test_die("no memory for a store");
    store->volume = temp_volume_create();
    const char *root = temp_volume_path(store->volume);
    (void) snprintf(store->index_directory, sizeof store->index_directory, "%.*s/index",
                    (int) (strrchr(root, '/') - root), root);
    store->options = (struct store_options){
        .volume_path = temp_volume_path(store->volume),
        .recovery_grace_ms = 60000,
        .manifest_name = "memory.json",
        .index_directory = store->index_directory,
        .pool_threads = 2,
        .request_threads = TEMP_STORE_THREADS,
    };
    return store;
}

static void *serve_urgent(void *context)
{
    struct temp_store *store = context;
    struct refresh_run run;
    struct refresh_result result;

    while (refresh_take(store->store->refreshes, true, &run))
        refresher_run(store->store, store->urgent_reader, &run, &result);
    return NULL;
}

void temp_store_open(struct temp_store *store)
{
    struct error error = {0};
    enum status status = store_open(&store->options, &store->store, &error);

    if (status == STATUS_OK)
        status = index_reader_create(store->store->index, &store->reader, &error);
    if (status == STATUS_OK)
        status = index_reader_create(store->store->index, &store->urgent_reader, &error);
    if (status != STATUS_OK)
        die_of("cannot open the store", status, &error);
    if (!store->without_refresher && pthread_create(&store->urgent, NULL, serve_urgent, store) != 0)
        test_die("no thread");
}

void temp_store_close(struct temp_store *store)
{
    if (!store->store)
        return;
    refresh_table_stop(store->store->refreshes);
    if (!store->without_refresher)
        (void) pthread_join(store->urgent, NULL);
    index_reader_destroy(&store->urgent_reader);
    index_reader_destroy(&store->reader);
    store_close(&store->store);
}

void temp_store_destroy(struct temp_store **store)
{
    if (!*store)
        return;
    temp_store_close(*store);
    temp_volume_destroy(&(*store)->volume);
    free(*store);
    *store = NULL;
}

void temp_store_usual(struct temp_store *store, bool two_users)
{
    const struct temp_change two[] = {
        {.kind = TEMP_ADD, .id = "f1", .text = WORD " one"},
        {.kind = TEMP_ADD, .id = "f2", .text = WORD " two"},
    };
    const struct temp_commit commit = {.user = "u", .agent = "a", .changes = two, .count = 2};

    (void) temp_volume_commit(store->volume, &commit);
    (void) temp_volume_add(store->volume, "u", "b", "g1", WORD " bee");
    if (two_users)
        (void) temp_volume_add(store->volume, "v", "a", "h1", WORD " aitch");
    temp_store_open(store);
    struct temp_answer answer = temp_store_ask(store, two_users ? "u/a u/b v/a" : "u/a u/b");
    if (answer.status != STATUS_OK)
        die_of("cannot search", answer.status, &answer.error);
}

void temp_store_scope(const char *name, struct scope *ret)
{
    char user[64];
    char agent[64];
    struct error error = {0};

    if (sscanf(name, "%63[^/]/%63s", user, agent) != 2)
        test_die("no scope: %s", name);
    enum status status = scope_create(strcmp(user, "-") == 0 ? NULL : user,
                                      strcmp(agent, "-") == 0 ? NULL : agent, ret, &error);
    if (status != STATUS_OK)
        die_of(name, status, &error);
}

static size_t parse_scopes(const char *names, struct scope ret[READING_SCOPES_MAX])
{
    size_t count = 0;

    for (const char *at = names; *at && count < READING_SCOPES_MAX;) {
        char name[128];
        size_t length = strcspn(at, " ");
        (void) snprintf(name, sizeof name, "%.*s", (int) length, at);
        temp_store_scope(name, &ret[count++]);
        at += length + (at[length] == ' ');
    }
    return count;
}

/* ---- answers ---- */

struct line {
    char text[256];
};

static int by_text(const void *a, const void *b)
{
    return strcmp(((const struct line *) a)->text, ((const struct line *) b)->text);
}

static void describe_hit(const struct index_hit *hit, struct line *ret)
{
    AUTO_JSON json_t *document = json_loadb(hit->document, hit->document_size, 0, NULL);
    const char *id = json_string_value(json_object_get(document, "id"));
    const char *content = json_string_value(json_object_get(document, "content"));

    if (!id || !content)
        test_die("a hit without id or content");
    if (strncmp(content, WORD " ", sizeof WORD) == 0)
        content += sizeof WORD;
    (void) snprintf(ret->text, sizeof ret->text, "%.100s=%.100s", id, content);
}

static void describe_hits(const struct search_result *result, struct temp_answer *answer)
{
    AUTO_FREE struct line *lines = calloc(result->count + 1, sizeof *lines);
    size_t used = 0;

    if (!lines)
        test_die("no memory for an answer");
    for (size_t i = 0; i < result->count; i++)
        describe_hit(&result->hits[i].hit, &lines[i]);
    qsort(lines, result->count, sizeof *lines, by_text);
    for (size_t i = 0; i < result->count && used < sizeof answer->facts; i++)
        used += (size_t) snprintf(answer->facts + used, sizeof answer->facts - used, "%s%s",
                                  i > 0 ? " " : "", lines[i].text);
    answer->count = result->count;
}

static void describe_states(const struct search_result *result, struct temp_answer *answer)
{
    size_t used = 0;

    for (size_t i = 0; i < result->report_count && used < sizeof answer->states; i++)
        used += (size_t) snprintf(answer->states + used, sizeof answer->states - used, "%s%s",
                                  i > 0 ? " " : "", scope_state_name(result->reports[i].state));
    answer->has_age = result->reports[0].has_age;
    answer->age_ns = result->reports[0].age_ns;
    answer->revision = result->reports[0].row.synced.mark.signature.revision;
    (void) snprintf(answer->path, sizeof answer->path, "%s", result->reports[0].error.path);
}

struct temp_answer temp_store_ask_as(struct temp_store *store, const struct temp_question *question)
{
    struct scope scopes[READING_SCOPES_MAX];
    struct temp_answer answer = {0};
    AUTO_SEARCH struct search_result result = {0};
    const struct search_request request = {
        .reading =
            {
                .scopes = scopes,
                .count = parse_scopes(question->scopes, scopes),
                .mode = question->mode,
                .max_staleness_ns = question->max_staleness_ms * NS_PER_MS,
                .deadline_ns =
                    clock_deadline_ms(question->deadline_ms ? question->deadline_ms : DEADLINE_MS),
                .may_block = !question->inline_only,
                .thread = question->thread,
            },
        .query = WORD,
        .query_size = sizeof WORD - 1,
        .top_k = question->inline_only ? 20 : SEARCH_TOP_K_MAX,
    };
    const struct store_counters *counters = &store->store->counters;
    uint64_t refreshes = atomic_load(&counters->refreshes);
    uint64_t files_read = atomic_load(&counters->files_read);
    uint64_t begun_ns = clock_monotonic_ns();

    answer.status = searcher_run(store->store, &request, &result, &answer.error);
    answer.took_ns = clock_monotonic_ns() - begun_ns;
    answer.refreshes = atomic_load(&counters->refreshes) - refreshes;
    answer.files_read = atomic_load(&counters->files_read) - files_read;
    if (answer.status == STATUS_OK) {
        describe_hits(&result, &answer);
        describe_states(&result, &answer);
    }
    return answer;
}

struct temp_answer temp_store_ask(struct temp_store *store, const char *scopes)
{
    return temp_store_ask_as(store, &(struct temp_question){.scopes = scopes});
}

/* ---- searches and refreshes in threads of their own ---- */

struct temp_search {
    struct temp_store *store;
    struct temp_question question;
    struct temp_answer answer;
    atomic_bool ended;
    pthread_t thread;
};

static void *search_main(void *context)
{
    struct temp_search *search = context;

    search->answer = temp_store_ask_as(search->store, &search->question);
    atomic_store(&search->ended, true);
    return NULL;
}

struct temp_search *temp_search_start(struct temp_store *store,
                                      const struct temp_question *question)
{
    struct temp_search *search = calloc(1, sizeof *search);

    if (!search)
        test_die("no memory for a search");
    search->store = store;
    search->question = *question;
    if (pthread_create(&search->thread, NULL, search_main, search) != 0)
        test_die("no thread");
    return search;
}

void temp_nap(void)
{
    (void) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* Real time, since tests move the other clock. */
static uint64_t real_ms(void)
{
    struct timespec now;

    (void) clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t) now.tv_sec * 1000 + (uint64_t) now.tv_nsec / 1000000;
}

bool temp_search_ends(struct temp_search *search, unsigned timeout_ms)
{
    uint64_t until_ms = real_ms() + timeout_ms;

    while (!atomic_load(&search->ended) && real_ms() < until_ms)
        temp_nap();
    return atomic_load(&search->ended);
}

struct temp_answer temp_search_join(struct temp_search **search)
{
    (void) pthread_join((*search)->thread, NULL);
    struct temp_answer answer = (*search)->answer;
    free(*search);
    *search = NULL;
    return answer;
}

static struct refresh_result run_scope(struct temp_store *store, struct index_reader *reader,
                                       const char *name, unsigned wishes)
{
    struct scope scope;
    struct refresh_run run;
    struct refresh_result result = {0};
    uint64_t number;

    temp_store_scope(name, &scope);
    if (refresh_request(store->store->refreshes, &scope, REFRESH_BACKGROUND, REFRESH_CAUSE_SEARCH,
                        wishes, &number) != STATUS_OK ||
        !refresh_claim(store->store->refreshes, &scope, &run))
        test_die("the scope is being refreshed already: %s", name);
    refresher_run(store->store, reader, &run, &result);
    return result;
}

struct refresh_result temp_store_refresh(struct temp_store *store, const char *scope,
                                         unsigned wishes)
{
    return run_scope(store, store->reader, scope, wishes);
}

struct temp_refresh {
    struct temp_store *store;
    const char *scope;
    unsigned wishes;
    struct index_reader *reader;
    struct refresh_result result;
    pthread_t thread;
};

static void *refresh_main(void *context)
{
    struct temp_refresh *refresh = context;

    refresh->result = run_scope(refresh->store, refresh->reader, refresh->scope, refresh->wishes);
    return NULL;
}

struct temp_refresh *temp_refresh_start(struct temp_store *store, const char *scope,
                                        unsigned wishes)
{
    struct temp_refresh *refresh = calloc(1, sizeof *refresh);

    if (!refresh || index_reader_create(store->store->index, &refresh->reader, NULL) != STATUS_OK)
        test_die("no memory for a refresh");
    refresh->store = store;
    refresh->scope = scope;
    refresh->wishes = wishes;
    if (pthread_create(&refresh->thread, NULL, refresh_main, refresh) != 0)
        test_die("no thread");
    return refresh;
}

struct refresh_result temp_refresh_join(struct temp_refresh **refresh)
{
    (void) pthread_join((*refresh)->thread, NULL);
    struct refresh_result result = (*refresh)->result;
    index_reader_destroy(&(*refresh)->reader);
    free(*refresh);
    *refresh = NULL;
    return result;
}

unsigned temp_store_settle(struct temp_store *store)
{
    clock_advance_for_test(volume_settle_ns(store->store->volume) + 10 * NS_PER_MS);
    return temp_store_take_due(store);
}

unsigned temp_store_take_due(struct temp_store *store)
{
    struct refresh_table_counts counts;
    unsigned runs = 0;

    refresh_table_counts(store->store->refreshes, &counts);
    for (uint64_t left = counts.delayed + counts.wanted_background; left > 0; left--) {
        struct refresh_run run;
        struct refresh_result result;
        if (!refresh_take(store->store->refreshes, false, &run))
            test_die("the refresh table was stopped");
        refresher_run(store->store, store->reader, &run, &result);
        runs++;
    }
    return runs;
}

/* ---- the index ---- */

bool temp_store_row(struct temp_store *store, const char *scope_name, struct index_scope *ret)
{
    struct scope scope;
    struct error error = {0};

    temp_store_scope(scope_name, &scope);
    enum status status = index_begin(store->reader, &error);
    if (status == STATUS_OK) {
        status = index_read_scope(store->reader, &scope, ret, &error);
        index_end(store->reader);
    }
    /* An index that was lost has no rows either. */
    if (status != STATUS_OK && status != STATUS_NOT_FOUND && status != STATUS_CORRUPT)
        die_of("cannot read the index", status, &error);
    return status == STATUS_OK;
}

const char *temp_store_state(struct temp_store *store, const char *scope_name)
{
    struct scope scope;
    struct live_state live;
    struct index_scope row;
    struct error error = {0};

    temp_store_scope(scope_name, &scope);
    enum status status = store_compare(store->store, &scope, CLOCK_NEVER, &live, &error);
    if (status != STATUS_OK)
        return status_name(status);
    if (!temp_store_row(store, scope_name, &row))
        return live.mark.signature.absent && live.bare ? "synced" : "unsynced";
    if (!row.synced.known)
        return "unsynced";
    return freshness_in_step(&row.synced, row.facts, &live, true) ? "synced" : "behind";
}

bool temp_wait_counter(const _Atomic uint64_t *counter, uint64_t value, unsigned timeout_ms)
{
    uint64_t until_ms = real_ms() + timeout_ms;

    while (atomic_load(counter) < value && real_ms() < until_ms)
        temp_nap();
    return atomic_load(counter) >= value;
}
