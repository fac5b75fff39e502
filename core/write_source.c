#include "core/write_source.h"

#include "core/fact_walk.h"
#include "core/json_text.h"
#include "core/log.h"
#include "core/refresher.h"
#include "core/volume_private.h"
#include "core/volume_side_data.h"

#include <stdio.h>
#include <string.h>

#define REFRESH_TRIES 3

/* ---- the index ---- */

static enum status read_row(struct write_source *source, struct error *error)
{
    enum status status = index_begin(source->session->reader, error);

    if (status != STATUS_OK)
        return status;
    source->is_open = true;
    status = index_read_scope(source->session->reader, &source->scope, &source->row, error);
    source->in_index = status == STATUS_OK;
    return status == STATUS_NOT_FOUND ? STATUS_OK : status;
}

void write_source_close(struct write_source *source)
{
    if (source->is_open)
        index_end(source->session->reader);
    source->is_open = false;
}

/* Rows of this very manifest. Facts without a manifest have nothing that vouches for them. */
static bool is_in_step(const struct write_source *source)
{
    const struct live_state live = {.mark = source->session->mark};

    return source->in_index && !live.mark.signature.absent &&
           freshness_in_step(&source->row.synced, source->row.facts, &live, true);
}

/* In step, or at least read under this lock: facts without a manifest never count as in step. */
static enum status read_whole_scope(struct write_source *source, bool relist, struct error *error)
{
    struct write_session *session = source->session;
    unsigned wishes = relist ? REFRESH_WISH_RELIST : REFRESH_WISH_NONE;
    enum status status = read_row(source, error);

    if (status == STATUS_OK && !relist && is_in_step(source))
        return STATUS_OK;
    write_source_close(source);
    if (store_has_lost_index(session->store, status, error))
        status = store_heal_index(session->store, error);
    for (unsigned i = 0; status == STATUS_OK && i < REFRESH_TRIES; i++) {
        status = refresher_bring_in_step(session->store, session->reader, &source->scope, wishes,
                                         session->deadline_ns, error);
        wishes = REFRESH_WISH_NONE;
        if (status == STATUS_OK)
            status = read_row(source, error);
        /* Without a row, and without an error, there are no facts. */
        source->is_empty = status == STATUS_OK && !source->in_index;
        if (status == STATUS_OK &&
            (source->is_empty || session->mark.signature.absent || is_in_step(source)))
            return STATUS_OK;
        write_source_close(source);
    }
    if (store_has_lost_index(session->store, status, error)) /* once more */
        return error_set(error, STATUS_UNAVAILABLE, NULL, INDEX_LOST_TEXT);
    return status == STATUS_OK
               ? error_set(error, STATUS_BUSY, NULL, "the index cannot keep up with the scope")
               : status;
}

enum status write_source_open(struct write_session *session, const struct scope *scope,
                              enum write_source_need need, struct write_source *ret,
                              struct error *error)
{
    *ret = (struct write_source){.session = session, .scope = *scope};
    if (need != WRITE_SOURCE_SOME)
        return read_whole_scope(ret, need == WRITE_SOURCE_RELISTED, error);
    /* The index only helps to find facts outside of their shards: without it there are none. */
    if (read_row(ret, NULL) != STATUS_OK)
        ret->in_index = false;
    ret->is_empty = !session->has_agents;
    return STATUS_OK;
}

void write_source_reread(struct write_session *session, const struct scope *scope)
{
    enum status status = refresher_bring_in_step(session->store, session->reader, scope,
                                                 REFRESH_WISH_FULL, session->deadline_ns, NULL);

    (void) status; /* told by the run; what it did not mend fails as it did before */
}

/* ---- single facts ---- */

static enum status parse(const struct write_source *source, const char *id,
                         const struct file_image *image, json_t **ret, struct error *error)
{
    AUTO_FACT struct fact *fact = NULL;
    enum fact_fault fault;

    enum status status = fact_parse(image->bytes, image->size, &source->scope, id,
                                    image->stamp.mtime_ns, &fact, &fault, error);
    if (status == STATUS_OK)
        *ret = json_incref(fact->document);
    return status;
}

/* A name below the bucket, looked up only where a listing shows it or look-ups are safe. */
static enum status read_listed(const struct write_source *source, const char *path,
                               struct file_image *ret, struct error *error)
{
    const struct volume *volume = source->session->store->volume;
    AUTO_CLOSE int directory_fd = -1;
    AUTO_LISTING struct listing listing = {0};
    const char *slash = strrchr(path, '/');
    char directory[SCOPE_PATH_MAX];

    (void) snprintf(directory, sizeof directory, "%.*s", (int) (slash - path), path);
    enum status status =
        volume_walk(volume, source->session->bucket_fd, directory, false, &directory_fd, error);
    if (status != STATUS_OK)
        return status;
    if (!volume_lookups_are_safe(volume)) {
        status = volume_list_fd(volume, directory_fd, &listing, error);
        if (status != STATUS_OK)
            return status;
        if (!listing_find(&listing, slash + 1))
            return error_set(error, STATUS_NOT_FOUND, path, "no such file");
    }
    for (unsigned i = 0; i < 3; i++) {
        status = volume_read_file(volume, directory_fd, slash + 1, FACT_FILE_BYTES_MAX, ret, error);
        if (status != STATUS_STALE)
            break;
    }
    return volume_error_at(error, status, path);
}

/* The first place that the index knows of besides the fact's own, where it is not. */
struct other_place {
    const char *own; /* both relative to the facts directory */
    char path[SCOPE_PATH_MAX];
};

static enum status take_first_place(void *context, const char *document, size_t size,
                                    const char *path)
{
    struct other_place *place = context;

    (void) document;
    (void) size;
    if (!place->path[0] && strcmp(path, place->own) != 0)
        (void) snprintf(place->path, sizeof place->path, "%s", path);
    return STATUS_OK;
}

/* Of agents/<agent>/facts/ */
static size_t facts_prefix_length(const struct write_source *source)
{
    return strlen("agents/") + strlen(source->scope.agent) + strlen("/facts/");
}

/* A fact that somebody put into another directory than its shard stays there. `ret_path` is its
 * own place before. */
static enum status find_elsewhere(const struct write_source *source, const char *id, char *ret_path,
                                  struct file_image *ret, struct error *error)
{
    struct other_place place = {.own = ret_path + facts_prefix_length(source)};
    enum status status = STATUS_OK;

    if (source->in_index)
        status = index_find_places(source->session->reader, source->row.id, id, take_first_place,
                                   &place, error);
    if (status != STATUS_OK)
        return status;
    if (!place.path[0])
        return error_set(error, STATUS_NOT_FOUND, NULL, "there is no fact with the id %s", id);
    if ((size_t) snprintf(ret_path, SCOPE_PATH_MAX, "agents/%s/facts/%s", source->scope.agent,
                          place.path) >= SCOPE_PATH_MAX)
        return error_set(error, STATUS_INVALID, NULL, "the fact %s lies too deep", id);
    return read_listed(source, ret_path, ret, error);
}

struct known_place {
    const char *path; /* relative to the facts directory */
    bool found;
};

static enum status compare_place(void *context, const char *document, size_t size, const char *path)
{
    struct known_place *place = context;

    (void) document;
    (void) size;
    place->found = place->found || strcmp(path, place->path) == 0;
    return STATUS_OK;
}

/* Once the index knows that the file is broken it has no row for it: nothing is read again for a
 * fault that is known. */
static bool has_row(const struct write_source *source, const char *id, const char *path)
{
    struct known_place place = {.path = path + facts_prefix_length(source)};

    return source->is_open && source->in_index &&
           index_find_places(source->session->reader, source->row.id, id, compare_place, &place,
                             NULL) == STATUS_OK &&
           place.found;
}

static enum status find(void *context, const char *id, json_t **ret, char *ret_path,
                        struct error *error)
{
    struct write_source *source = context;
    AUTO_IMAGE struct file_image image = {0};
    char path[SCOPE_PATH_MAX];
    char shard[3];

    fact_id_shard(id, shard);
    (void) snprintf(ret_path, SCOPE_PATH_MAX, "agents/%s/facts/%s/%s.md", source->scope.agent,
                    shard, id);
    enum status status = read_listed(source, ret_path, &image, error);
    if (status == STATUS_NOT_FOUND)
        status = find_elsewhere(source, id, ret_path, &image, error);
    if (status == STATUS_OK)
        status = parse(source, id, &image, ret, error);
    if (fact_walk_is_fault_of_the_file(status) && has_row(source, id, ret_path))
        *(source->was_listed ? &source->is_misled : &source->contradicts) = true;
    if (status != STATUS_OK && status != STATUS_NOT_FOUND) {
        scope_file_path(&source->scope, ret_path, path);
        return volume_error_at(error, status, path);
    }
    return status;
}

/* ---- files that contradict the index ---- */

/* The index keeps a fact as the text that this writes. */
static bool is_document(const json_t *fact, const char *document, size_t size)
{
    AUTO_TEXT struct text text = {0};

    json_text_write(&text, fact);
    return !text_ok(&text) || (text.size == size && memcmp(text.bytes, document, size) == 0);
}

struct comparison {
    const char *path;     /* relative to the facts directory */
    const json_t *stored; /* NULL: there is no such fact */
    bool agrees;
};

static enum status compare_row(void *context, const char *document, size_t size, const char *path)
{
    struct comparison *comparison = context;

    if (!comparison->stored)
        comparison->agrees = false;
    else if (strcmp(path, comparison->path) == 0)
        comparison->agrees = is_document(comparison->stored, document, size);
    return STATUS_OK;
}

static void check_kept(void *context, const char *id, const char *path, const json_t *stored)
{
    struct write_source *source = context;
    struct comparison comparison = {
        .path = path + facts_prefix_length(source),
        .stored = stored,
        .agrees = !stored,
    };

    if (index_find_places(source->session->reader, source->row.id, id, compare_row, &comparison,
                          NULL) == STATUS_OK &&
        !comparison.agrees)
        source->contradicts = true;
}

void write_source_check(struct write_source *source, const struct draft *draft)
{
    if (source->is_open && is_in_step(source))
        draft_each_kept(draft, check_kept, source);
    else
        source->contradicts = false; /* the next look at the scope reads it anyhow */
}

/* ---- all facts ---- */

struct document_reader {
    struct write_source *source;
    draft_fact_sink sink;
    void *context;
};

static enum status read_document(void *context, const char *document, size_t size, const char *path)
{
    const struct document_reader *reader = context;
    AUTO_JSON json_t *fact = NULL;

    (void) path;
    enum status status = json_text_read(document, size, JSON_TEXT_DEPTH_MAX, &fact, NULL);
    return status == STATUS_OK ? reader->sink(reader->context, fact) : status;
}

static enum status list(void *context, draft_fact_sink sink, void *sink_context,
                        struct error *error)
{
    struct write_source *source = context;
    struct document_reader reader = {.sink = sink, .context = sink_context};

    source->was_listed = true;
    if (!source->in_index)
        return STATUS_OK;
    return index_list(source->session->reader, source->row.id, NULL, 0, UINT64_MAX, read_document,
                      &reader, NULL, error);
}

/* Whether the file at a place of the index still says what the row says; also when nobody can tell
 * now. */
static bool is_as_listed(const struct write_source *source, const char *document, size_t size,
                         const json_t *row, const char *place)
{
    AUTO_IMAGE struct file_image image = {0};
    AUTO_JSON json_t *fact = NULL;
    const char *id = json_string_value(json_object_get(row, "id"));
    char path[SCOPE_PATH_MAX];

    if (!id || snprintf(path, sizeof path, "agents/%s/facts/%s", source->scope.agent, place) >=
                   (int) sizeof path)
        return true;
    enum status status = read_listed(source, path, &image, NULL);
    if (status == STATUS_OK)
        status = parse(source, id, &image, &fact, NULL);
    if (status == STATUS_OK)
        return is_document(fact, document, size);
    return status != STATUS_NOT_FOUND && !fact_walk_is_fault_of_the_file(status);
}

/* Whoever is refused because of a fact is refused because of its file. */
static enum status read_twin(void *context, const char *document, size_t size, const char *path)
{
    const struct document_reader *reader = context;
    struct write_source *source = reader->source;
    AUTO_JSON json_t *fact = NULL;

    enum status status = json_text_read(document, size, JSON_TEXT_DEPTH_MAX, &fact, NULL);
    if (status != STATUS_OK)
        return status;
    if (is_in_step(source) && !is_as_listed(source, document, size, fact, path))
        source->is_misled = true;
    return reader->sink(reader->context, fact);
}

static enum status find_content(void *context, uint64_t key, draft_fact_sink sink,
                                void *sink_context, struct error *error)
{
    struct write_source *source = context;
    struct document_reader reader = {.source = source, .sink = sink, .context = sink_context};

    if (!source->in_index)
        return STATUS_OK;
    return index_find_content(source->session->reader, source->row.id, key, read_twin, &reader,
                              error);
}

static uint64_t count(void *context)
{
    const struct write_source *source = context;

    return source->in_index ? source->row.facts : 0;
}

/* Notes that cannot be read count as none: they only weigh. */
static json_t *usage(void *context)
{
    const struct write_source *source = context;
    const struct scope *scope = &source->scope;
    struct error error = {0};
    char path[SCOPE_PATH_MAX];
    json_t *usage = NULL;
    bool malformed = false;

    enum status status =
        volume_usage_read(source->session->store->volume, source->session->bucket_fd, scope->agent,
                          &usage, &malformed, &error);
    if (write_session_tells_side_data(source->session, scope, SIDE_DATA_READ,
                                      status != STATUS_OK || malformed, &error, path))
        log_warning("side_data.read", "user=%s agent=%s path=%s reason=%s",
                    LOG_VALUE(scope->has_user ? scope->user : NULL), scope->agent, LOG_VALUE(path),
                    LOG_VALUE(malformed ? "malformed" : error.message));
    return status == STATUS_OK ? usage : json_object();
}

struct draft_source write_source_functions(struct write_source *source)
{
    return (struct draft_source){
        .context = source,
        .find = find,
        .list = list,
        .find_content = find_content,
        .count = count,
        .usage = usage,
    };
}
