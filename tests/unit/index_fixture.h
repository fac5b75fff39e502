/* tests/unit/index_fixture.h - an index in a directory of its own, and facts to put into it. */
#ifndef MEMSYNC_TESTS_INDEX_FIXTURE_H
#define MEMSYNC_TESTS_INDEX_FIXTURE_H

#include "core/clock.h"
#include "core/index.h"
#include "core/index_install.h"
#include "core/index_search.h"
#include "core/text.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <string.h>

/* Criterion's macros convert. */
#pragma GCC diagnostic ignored "-Wconversion"

struct fixture {
    char parent[64];
    char directory[80];
    struct index *index;
    struct index_reader *reader;
    bool rebuilt;
};

static UNUSED void fixture_open_with(struct fixture *fixture, uint64_t wal_bytes_max)
{
    const struct index_options options = {.directory = fixture->directory,
                                          .mmap_bytes = UINT64_C(1) << 30,
                                          .wal_bytes_max = wal_bytes_max};
    struct error error = {0};

    cr_assert(eq(int, index_open(&options, &fixture->index, &fixture->rebuilt, &error), STATUS_OK),
              "%s", error.message);
    cr_assert(eq(int, index_reader_create(fixture->index, &fixture->reader, NULL), STATUS_OK));
}

static UNUSED void fixture_reopen(struct fixture *fixture)
{
    fixture_open_with(fixture, 0);
}

static UNUSED void fixture_close(struct fixture *fixture)
{
    index_reader_destroy(&fixture->reader);
    index_close(&fixture->index);
}

static UNUSED void fixture_create(struct fixture *fixture)
{
    memset(fixture, 0, sizeof *fixture);
    (void) snprintf(fixture->parent, sizeof fixture->parent, "%s", "/tmp/memsync-index-XXXXXX");
    cr_assert(mkdtemp(fixture->parent) != NULL);
    (void) snprintf(fixture->directory, sizeof fixture->directory, "%s/index", fixture->parent);
    fixture_reopen(fixture);
}

static UNUSED void fixture_destroy(struct fixture *fixture)
{
    char command[160];

    fixture_close(fixture);
    (void) snprintf(command, sizeof command, "rm -rf '%s'", fixture->parent);
    cr_assert(zero(int, system(command)));
}
#define AUTO_FIXTURE CLEANUP(fixture_destroy)

static UNUSED struct scope scope_of(const char *user, const char *agent)
{
    struct scope scope = {0};

    scope.has_user = user != NULL;
    (void) snprintf(scope.user, sizeof scope.user, "%s", user ? user : "");
    (void) snprintf(scope.bucket, sizeof scope.bucket, "%s", user ? user : "");
    (void) snprintf(scope.agent, sizeof scope.agent, "%s", agent);
    return scope;
}

/* ---- facts ---- */

static UNUSED struct fact *fact_with(const char *id, const char *content, size_t size,
                                     const char *category, const char *created_at,
                                     double confidence)
{
    struct fact *fact = calloc(1, sizeof *fact);

    cr_assert(fact != NULL);
    fact->document =
        json_pack("{s:s, s:s%, s:s, s:s, s:f}", "id", id, "content", content, size, "category",
                  category, "createdAt", created_at, "confidence", confidence);
    cr_assert(fact->document != NULL);
    fact->id = json_string_value(json_object_get(fact->document, "id"));
    fact->content = json_string_value(json_object_get(fact->document, "content"));
    fact->content_size = size;
    fact->category = json_string_value(json_object_get(fact->document, "category"));
    fact->created_at = json_string_value(json_object_get(fact->document, "createdAt"));
    fact->confidence = confidence;
    return fact;
}

static UNUSED struct fact *fact_of(const char *id, const char *content)
{
    return fact_with(id, content, strlen(content), "context", "2026-03-01T09:00:00Z", 0.5);
}

/* Rows that own their facts and paths. */
struct rows {
    struct index_row *rows;
    size_t count;
};

static UNUSED void rows_add_at(struct rows *rows, const char *path, struct fact *fact)
{
    rows->rows = reallocarray(rows->rows, rows->count + 1, sizeof *rows->rows);
    cr_assert(rows->rows != NULL);
    rows->rows[rows->count++] = (struct index_row){.path = strdup(path), .fact = fact};
}

static UNUSED void rows_add(struct rows *rows, struct fact *fact)
{
    char path[300];

    (void) snprintf(path, sizeof path, "aa/%s.md", fact->id);
    rows_add_at(rows, path, fact);
}

static UNUSED void rows_clear(struct rows *rows)
{
    for (size_t i = 0; i < rows->count; i++) {
        json_decref(rows->rows[i].fact->document);
        free((void *) (uintptr_t) rows->rows[i].fact);
        free((void *) (uintptr_t) rows->rows[i].path);
    }
    free(rows->rows);
    memset(rows, 0, sizeof *rows);
}
#define AUTO_ROWS CLEANUP(rows_clear)

/* ---- installing ---- */

static UNUSED struct manifest_mark mark_of(int64_t revision)
{
    return (struct manifest_mark){
        .signature = {.mtime_ns = UINT64_MAX - (uint64_t) revision,
                      .size = 100,
                      .revision = revision,
                      .digest = UINT64_MAX - 7},
        .inode = UINT64_MAX - 1,
        .ctime_ns = 5,
    };
}

static UNUSED struct synced_mark synced_at(int64_t revision)
{
    return (struct synced_mark){.known = true, .mark = mark_of(revision)};
}

/* The text of a manifest, which install_rows() stores. */
#define MANIFEST_TEXT_SIZE 40
static UNUSED const char *manifest_of(int64_t revision, char ret[MANIFEST_TEXT_SIZE])
{
    (void) snprintf(ret, MANIFEST_TEXT_SIZE, "manifest %lld", (long long) revision);
    return ret;
}

/* Installs and returns the new generation. */
static UNUSED uint64_t install_change(struct fixture *fixture, const struct index_change *change)
{
    enum install_outcome outcome = INSTALL_LOST;
    struct error error = {0};
    uint64_t generation = 0;

    cr_assert(eq(int, index_install_refresh(fixture->index, change, &outcome, &generation, &error),
                 STATUS_OK),
              "%s", error.message);
    cr_assert(eq(int, outcome, INSTALL_DONE));
    return generation;
}

static UNUSED uint64_t install_rows(struct fixture *fixture, const struct scope *scope,
                                    uint64_t generation, int64_t revision, const struct rows *rows)
{
    char manifest[MANIFEST_TEXT_SIZE];
    const struct index_change change = {
        .scope = scope,
        .expected_generation = generation,
        .put = rows->rows,
        .put_count = rows->count,
        .synced = synced_at(revision),
        .manifest = manifest_of(revision, manifest),
        .manifest_size = strlen(manifest),
    };

    return install_change(fixture, &change);
}

static UNUSED uint64_t install_contents(struct fixture *fixture, const struct scope *scope,
                                        const char *const (*facts)[2], size_t count)
{
    AUTO_ROWS struct rows rows = {0};

    for (size_t i = 0; i < count; i++)
        rows_add(&rows, fact_of(facts[i][0], facts[i][1]));
    return install_rows(fixture, scope, 0, 1, &rows);
}

/* ---- searching ---- */

static UNUSED void begin(struct fixture *fixture)
{
    struct error error = {0};

    cr_assert(eq(int, index_begin(fixture->reader, &error), STATUS_OK), "%s", error.message);
}

/* The state of a scope, in a snapshot of its own. */
static UNUSED enum status scope_state(struct fixture *fixture, const struct scope *scope,
                                      struct index_scope *ret)
{
    begin(fixture);
    enum status status = index_read_scope(fixture->reader, scope, ret, NULL);
    index_end(fixture->reader);
    return status;
}

/* The manifest that the index holds of a scope; "" for none. */
static UNUSED void stored_manifest(struct fixture *fixture, const struct scope *scope,
                                   char ret[MANIFEST_TEXT_SIZE])
{
    AUTO_FREE char *bytes = NULL;
    struct index_scope state;
    size_t size = 4711;

    begin(fixture);
    cr_assert(eq(int, index_read_scope(fixture->reader, scope, &state, NULL), STATUS_OK));
    cr_assert(
        eq(int, index_read_manifest(fixture->reader, state.id, &bytes, &size, NULL), STATUS_OK));
    index_end(fixture->reader);
    cr_expect(eq(int, bytes == NULL, size == 0));
    (void) snprintf(ret, MANIFEST_TEXT_SIZE, "%.*s", (int) size, bytes ? bytes : "");
}

/* ... is the one of a revision, or none with 0. */
static UNUSED void expect_manifest(struct fixture *fixture, const struct scope *scope,
                                   int64_t revision, const char *what)
{
    char found[MANIFEST_TEXT_SIZE];
    char wanted[MANIFEST_TEXT_SIZE] = "";

    if (revision != 0)
        (void) manifest_of(revision, wanted);
    stored_manifest(fixture, scope, found);
    cr_expect(zero(int, strcmp(found, wanted)), "%s: {%s} instead of {%s}", what, found, wanted);
}

static UNUSED const char *hit_id(const struct index_hit *hit, char *ret, size_t size)
{
    json_t *document = json_loadb(hit->document, hit->document_size, JSON_ALLOW_NUL, NULL);

    cr_assert(document != NULL);
    (void) snprintf(ret, size, "%s", json_string_value(json_object_get(document, "id")));
    json_decref(document);
    return ret;
}

static UNUSED void join_ids(const struct index_hits *hits, char *ret, size_t size)
{
    char id[300];
    size_t used = 0;

    ret[0] = '\0';
    for (size_t i = 0; i < hits->count && used < size; i++)
        used += (size_t) snprintf(ret + used, size - used, "%s%s", i > 0 ? " " : "",
                                  hit_id(&hits->hits[i], id, sizeof id));
}

/* Searches within the current snapshot. */
static UNUSED enum status search_in_snapshot(struct fixture *fixture, const struct scope *scope,
                                             const char *text, size_t size,
                                             const struct index_filter *filter, size_t limit,
                                             struct index_hits *ret, struct error *error)
{
    AUTO_QUERY struct query *query = NULL;
    struct index_scope state;
    enum status status = index_read_scope(fixture->reader, scope, &state, error);

    if (status == STATUS_OK)
        status = query_parse(text, size, &query);
    if (status == STATUS_OK)
        status =
            index_search(fixture->reader, state.id, query, filter, limit, CLOCK_NEVER, ret, error);
    return status;
}

static UNUSED enum status search(struct fixture *fixture, const struct scope *scope,
                                 const char *text, const struct index_filter *filter, size_t limit,
                                 struct index_hits *ret)
{
    struct error error = {0};
    enum status status = index_begin(fixture->reader, &error);

    if (status == STATUS_OK)
        status = search_in_snapshot(fixture, scope, text, strlen(text), filter, limit, ret, &error);
    index_end(fixture->reader);
    return status;
}

/* The ids found, best first, separated by blanks. The caller frees. */
static UNUSED char *found(struct fixture *fixture, const struct scope *scope, const char *text)
{
    AUTO_HITS struct index_hits hits = {0};
    char *ids = malloc(65536);

    cr_assert(ids != NULL);
    cr_assert(eq(int, search(fixture, scope, text, NULL, 1000, &hits), STATUS_OK), "%s", text);
    join_ids(&hits, ids, 65536);
    return ids;
}

#define EXPECT_FOUND(fixture, scope, text, ids)                                                    \
    do {                                                                                           \
        AUTO_FREE char *found_ = found(fixture, scope, text);                                      \
        cr_expect(zero(int, strcmp(found_, ids)), "%s: %s instead of %s", text, found_, ids);      \
    } while (0)

#endif
