/* What the agent does for a request, without sockets: searches and compares, each beside its floor.
 *
 *     inside VOLUME INDEX REQUESTS SECONDS
 *     inside VOLUME INDEX REQUESTS KIND CALLS
 *
 * REQUESTS is a file with the params of a search in each line. The volume is indexed into the
 * directory INDEX first, if it is not yet. One JSON object comes out: what the build took, and of
 * each measurement the number of samples, p50 and p99 in microseconds. With KIND that one alone is
 * called so often, without a look at the clock, for whoever counts instructions instead.
 *
 * Floors: a search's is the same words in a bare FTS5 table of one user's facts, with the documents
 * of the best five; a compare's is opening, reading and closing the same manifests. */
#include "backends/deermem.h"
#include "core/clock.h"
#include "core/json_text.h"
#include "tests/bench/samples.h"
#include "tests/support/files.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BUILD_DEADLINE_MS (3600 * 1000)
#define SAMPLES_MAX 200000u /* of one measurement */
#define WARM_UPS 200
#define REQUESTS_MAX 100000u
#define SECONDS_MAX 3600
#define CALLS_MAX 1000000

struct request {
    json_t *params;
    struct scope scope;
};

struct bench {
    struct backend *backend;
    struct request *requests;
    size_t count;
};

/* ---- the agent's own ---- */

static enum status call(struct bench *bench, backend_method method, const struct request *request,
                        struct text *result, struct error *error)
{
    const struct backend_call call = {
        .scope = &request->scope,
        .params = request->params,
        .deadline_ns = clock_deadline_ms(60000),
        .may_block = true,
    };

    return method(bench->backend, &call, result, error);
}

static void search(struct bench *bench, const struct request *request)
{
    AUTO_TEXT struct text result = {0};
    struct error error = {0};

    if (call(bench, backend_deermem.search, request, &result, &error) != STATUS_OK)
        test_die("a search failed: %s", error.message);
    if (!strstr(text_string(&result), "\"state\":\"fresh\""))
        test_die("a search is not fresh: %s", text_string(&result));
}

static void compare(struct bench *bench, const struct request *request)
{
    struct live_state live;
    struct error error = {0};

    if (store_compare(bench->backend->store, &request->scope, CLOCK_NEVER, &live, &error) !=
        STATUS_OK)
        test_die("a compare failed: %s", error.message);
}

/* ---- floors ---- */

static const char *volume;

static void read_manifest(struct bench *bench, const struct request *request)
{
    char path[4096];
    char bytes[65536];

    (void) bench;
    (void) snprintf(path, sizeof path, "%s/users/%s/memory.json", volume, request->scope.bucket);
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = fd < 0 ? -1 : read(fd, bytes, sizeof bytes);
    if (size < 0 || !memmem(bytes, (size_t) size, "\"revision\"", 10))
        test_die("cannot read %s: %s", path, strerror(errno));
}

static sqlite3 *bare;
static sqlite3_stmt *bare_match;
static sqlite3_stmt *bare_document;

static void must(int result, const char *what)
{
    if (result != SQLITE_OK && result != SQLITE_DONE && result != SQLITE_ROW)
        test_die("%s: %s", what, sqlite3_errmsg(bare));
}

static void fill_bare(const json_t *facts)
{
    sqlite3_stmt *insert = NULL;
    sqlite3_stmt *keep = NULL;
    json_t *fact;
    size_t i;

    must(sqlite3_exec(bare, "BEGIN", NULL, NULL, NULL), "begin");
    must(sqlite3_prepare_v2(bare, "INSERT INTO word(rowid, text) VALUES (?1, ?2)", -1, &insert,
                            NULL),
         "prepare");
    must(sqlite3_prepare_v2(bare, "INSERT INTO fact VALUES (?1, ?2)", -1, &keep, NULL), "prepare");
    json_array_foreach(facts, i, fact)
    {
        AUTO_FREE char *text = json_dumps(fact, JSON_COMPACT);
        const char *content = json_string_value(json_object_get(fact, "content"));
        must(sqlite3_bind_int64(insert, 1, (sqlite3_int64) i), "bind");
        must(sqlite3_bind_text(insert, 2, content, -1, SQLITE_STATIC), "bind");
        must(sqlite3_step(insert), "insert");
        must(sqlite3_reset(insert), "reset");
        must(sqlite3_bind_int64(keep, 1, (sqlite3_int64) i), "bind");
        must(sqlite3_bind_text(keep, 2, text, -1, SQLITE_STATIC), "bind");
        must(sqlite3_step(keep), "insert");
        must(sqlite3_reset(keep), "reset");
    }
    (void) sqlite3_finalize(insert);
    (void) sqlite3_finalize(keep);
    must(sqlite3_exec(bare, "COMMIT", NULL, NULL, NULL), "commit");
}

static void open_bare(struct bench *bench)
{
    AUTO_TEXT struct text listed = {0};
    struct error error = {0};
    struct request request = bench->requests[0];
    AUTO_JSON json_t *params = json_object();

    request.params = params;
    if (call(bench, backend_deermem.list_facts, &request, &listed, &error) != STATUS_OK)
        test_die("cannot list: %s", error.message);
    AUTO_JSON json_t *tree = json_loads(text_string(&listed), 0, NULL);
    must(sqlite3_open(":memory:", &bare), "open");
    must(sqlite3_exec(bare,
                      "CREATE VIRTUAL TABLE word USING fts5(text, content='', columnsize=0);"
                      "CREATE TABLE fact(id INTEGER PRIMARY KEY, document TEXT)",
                      NULL, NULL, NULL),
         "create");
    fill_bare(json_object_get(tree, "facts"));
    must(sqlite3_prepare_v2(bare, "SELECT rowid FROM word WHERE word MATCH ?1", -1, &bare_match,
                            NULL),
         "prepare");
    must(sqlite3_prepare_v2(bare, "SELECT document FROM fact WHERE id = ?1", -1, &bare_document,
                            NULL),
         "prepare");
}

static void search_bare(struct bench *bench, const struct request *request)
{
    const char *query = json_string_value(json_object_get(request->params, "query"));
    AUTO_TEXT struct text match = {0};
    int64_t best[5] = {0};
    size_t found = 0;

    (void) bench;
    for (const char *at = query; *at; at++) {
        if (*at == ' ')
            text_append_string(&match, " OR ");
        else
            text_append_char(&match, *at);
    }
    must(sqlite3_bind_text(bare_match, 1, text_string(&match), (int) match.size, SQLITE_STATIC),
         "bind");
    while (sqlite3_step(bare_match) == SQLITE_ROW)
        best[found++ % ARRAY_SIZE(best)] = sqlite3_column_int64(bare_match, 0);
    must(sqlite3_reset(bare_match), "match");
    for (size_t i = 0; i < found && i < ARRAY_SIZE(best); i++) {
        must(sqlite3_bind_int64(bare_document, 1, best[i]), "bind");
        must(sqlite3_step(bare_document), "read");
        if (!sqlite3_column_text(bare_document, 0))
            test_die("no document");
        must(sqlite3_reset(bare_document), "reset");
    }
}

static void close_bare(void)
{
    (void) sqlite3_finalize(bare_match);
    (void) sqlite3_finalize(bare_document);
    (void) sqlite3_close(bare);
}

/* ---- what is measured ---- */

static const struct kind {
    const char *name;
    void (*call)(struct bench *bench, const struct request *request);
} kinds[] = {
    {"search", search},
    {"compare", compare},
    {"read", read_manifest},
    {"sqlite", search_bare},
};

static const struct kind *kind_named(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
        if (strcmp(kinds[i].name, name) == 0)
            return &kinds[i];
    test_die("no such kind: %s", name);
}

static void warm_up(struct bench *bench, const struct kind *kind)
{
    for (size_t i = 0; i < bench->count && i < WARM_UPS; i++)
        kind->call(bench, &bench->requests[i]);
}

/* Calls it with one request after another until the time is up, and prints what it took. */
static void measure(struct bench *bench, const struct kind *kind, uint64_t seconds)
{
    AUTO_SAMPLES struct samples samples = {0};

    warm_up(bench, kind);
    uint64_t now_ns = clock_monotonic_ns();
    uint64_t end_ns = now_ns + seconds * NS_PER_SECOND;
    while (samples.count < SAMPLES_MAX && now_ns < end_ns) {
        const struct request *request = &bench->requests[samples.count % bench->count];
        uint64_t begun_ns = clock_monotonic_ns();
        kind->call(bench, request);
        now_ns = clock_monotonic_ns();
        samples_add(&samples, now_ns - begun_ns);
    }
    (void) printf(", ");
    samples_print(&samples, kind->name);
}

/* What callgrind collects in, by this name (counts.py): so it must remain a function. */
__attribute__((noinline)) static void counted_calls(struct bench *bench, const struct kind *kind,
                                                    size_t calls)
{
    for (size_t i = 0; i < calls; i++)
        kind->call(bench, &bench->requests[i % bench->count]);
}

/* ---- everything around ---- */

static void read_requests(struct bench *bench, const char *path)
{
    FILE *file = fopen(path, "re");
    char line[4096];

    bench->requests = calloc(REQUESTS_MAX, sizeof *bench->requests);
    if (!file || !bench->requests)
        test_die("cannot read %s", path);
    while (bench->count < REQUESTS_MAX && fgets(line, sizeof line, file)) {
        struct request *request = &bench->requests[bench->count++];
        struct error error = {0};

        request->params = json_loads(line, 0, NULL);
        const char *user = json_string_value(json_object_get(request->params, "user_id"));
        if (!user || scope_create(user, NULL, &request->scope, &error) != STATUS_OK)
            test_die("no request: %s", line);
    }
    (void) fclose(file);
    if (bench->count == 0)
        test_die("no requests in %s", path);
}

static void open_backend(struct bench *bench, const char *index)
{
    struct deermem_options options = {
        .store =
            {
                .volume_path = volume,
                .locks = STORE_LOCKS_TRUSTED,
                .recovery_grace_ms = 60000,
                .manifest_name = "memory.json",
                .index_directory = index,
                .index_mmap_bytes = UINT64_C(1) << 30,
                .index_wal_bytes_max = UINT64_C(64) << 20,
                .pool_threads = 4,
            },
        .keeper = {.refreshers = 2,
                   .poll_interval_min_ms = 3600000,
                   .poll_interval_max_ms = 3600000,
                   .operations_per_second = 1000000},
    };
    const struct backend_setup setup = {.thread_count = 1, .store_options = &options};
    struct keeper_state state = {0};
    struct refresh_table_counts counts = {.running = 1};
    struct error error = {0};
    uint64_t begun_ns = clock_monotonic_ns();

    if (backend_deermem.create(&setup, &bench->backend, &error) != STATUS_OK)
        test_die("cannot open the volume: %s", error.message);
    uint64_t deadline_ns = clock_deadline_ms(BUILD_DEADLINE_MS);
    while (!state.first_pass_done ||
           counts.running + counts.wanted_background + counts.delayed > 0) {
        if (clock_remaining_ms(deadline_ns) == 0)
            test_die("the index is not built in an hour");
        (void) usleep(2000);
        keeper_state(bench->backend->keeper, &state);
        refresh_table_counts(bench->backend->store->refreshes, &counts);
    }
    (void) printf("{\"build_seconds\": %.3f",
                  (double) (clock_monotonic_ns() - begun_ns) / (double) NS_PER_SECOND);
}

int main(int argc, char **argv)
{
    struct bench bench = {0};

    if (argc != 5 && argc != 6) {
        (void) fprintf(stderr, "usage: inside VOLUME INDEX REQUESTS SECONDS\n"
                               "       inside VOLUME INDEX REQUESTS KIND CALLS\n");
        return 2;
    }
    volume = argv[1];
    read_requests(&bench, argv[3]);
    open_backend(&bench, argv[2]);
    open_bare(&bench);
    if (argc == 5) {
        uint64_t seconds = bench_number(argv[4], SECONDS_MAX);
        for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
            measure(&bench, &kinds[i], seconds);
    } else {
        const struct kind *kind = kind_named(argv[4]);
        warm_up(&bench, kind);
        counted_calls(&bench, kind, bench_number(argv[5], CALLS_MAX));
    }
    close_bare();
    (void) printf("}\n");
    backend_deermem.destroy(bench.backend);
    for (size_t i = 0; i < bench.count; i++)
        json_decref(bench.requests[i].params);
    free(bench.requests);
    return 0;
}
