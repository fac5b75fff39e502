#include "core/usage_log.h"

#include <pthread.h>
#include <string.h>

/* The hits of one search in one scope, in one piece of memory. */
struct batch {
    struct batch *next; /* a newer one */
    size_t bytes;
    uint64_t number; /* counts up */
    uint64_t at_ns;
    size_t count;
    bool has_user;
    const char *user; /* these point into `text` */
    const char *bucket;
    const char *agent;
    const char *ids; /* each with its NUL */
    char text[];
};

struct usage_log {
    size_t bytes_max;
    pthread_mutex_t lock; /* a leaf; guards what follows */
    struct batch *oldest;
    struct batch **end; /* where the next one is hung */
    size_t bytes;
    uint64_t number;
    uint64_t dropped;
};

enum status usage_log_create(size_t bytes_max, struct usage_log **ret)
{
    struct usage_log *log = calloc(1, sizeof *log);

    if (!log)
        return STATUS_NO_MEMORY;
    log->bytes_max = bytes_max;
    log->end = &log->oldest;
    (void) pthread_mutex_init(&log->lock, NULL);
    *ret = log;
    return STATUS_OK;
}

/* Frees a chain of batches; returns how many hits were in it. */
static uint64_t free_batches(struct batch *batch)
{
    uint64_t hits = 0;

    while (batch) {
        struct batch *next = batch->next;
        hits += batch->count;
        free(batch);
        batch = next;
    }
    return hits;
}

void usage_log_destroy(struct usage_log **log_address)
{
    struct usage_log *log = TAKE_PTR(*log_address);

    if (!log)
        return;
    (void) free_batches(log->oldest);
    (void) pthread_mutex_destroy(&log->lock);
    free(log);
}

static void count_dropped(struct usage_log *log, uint64_t hits)
{
    (void) pthread_mutex_lock(&log->lock);
    log->dropped += hits;
    (void) pthread_mutex_unlock(&log->lock);
}

uint64_t usage_log_dropped(struct usage_log *log)
{
    (void) pthread_mutex_lock(&log->lock);
    uint64_t dropped = log->dropped;
    (void) pthread_mutex_unlock(&log->lock);
    return dropped;
}

/* ---- adding ---- */

/* Copies a string with its NUL to `*at` and moves on; returns the copy. */
static const char *put_string(char **at, const char *string)
{
    char *copy = *at;
    size_t size = strlen(string) + 1;

    memcpy(copy, string, size);
    *at += size;
    return copy;
}

static struct batch *batch_create(const struct scope *scope, const char *const *fact_ids,
                                  size_t count, uint64_t at_ns)
{
    size_t bytes = sizeof(struct batch) + strlen(scope->user) + strlen(scope->bucket) +
                   strlen(scope->agent) + 3;

    for (size_t i = 0; i < count; i++)
        bytes += strlen(fact_ids[i]) + 1;
    struct batch *batch = malloc(bytes);
    if (!batch)
        return NULL;
    *batch =
        (struct batch){.bytes = bytes, .at_ns = at_ns, .count = count, .has_user = scope->has_user};
    char *at = batch->text;
    batch->user = put_string(&at, scope->user);
    batch->bucket = put_string(&at, scope->bucket);
    batch->agent = put_string(&at, scope->agent);
    batch->ids = at;
    for (size_t i = 0; i < count; i++)
        (void) put_string(&at, fact_ids[i]);
    return batch;
}

/* Unhangs the oldest batches until the rest fits; returns them, one after the other. */
static struct batch *make_room_locked(struct usage_log *log)
{
    struct batch *gone = log->oldest;
    struct batch **end = &gone;

    while (log->bytes > log->bytes_max) {
        log->bytes -= (*end)->bytes;
        end = &(*end)->next;
    }
    log->oldest = *end;
    *end = NULL;
    if (!log->oldest)
        log->end = &log->oldest;
    return gone;
}

void usage_log_add(struct usage_log *log, const struct scope *scope, const char *const *fact_ids,
                   size_t count, uint64_t at_ns)
{
    if (count == 0)
        return;
    struct batch *batch = batch_create(scope, fact_ids, count, at_ns);
    if (!batch) {
        count_dropped(log, count);
        return;
    }
    (void) pthread_mutex_lock(&log->lock);
    batch->number = log->number++;
    *log->end = batch;
    log->end = &batch->next;
    log->bytes += batch->bytes;
    struct batch *gone = make_room_locked(log);
    (void) pthread_mutex_unlock(&log->lock);
    if (gone)
        count_dropped(log, free_batches(gone));
}

/* ---- draining ---- */

static int compare_scopes(const struct batch *a, const struct batch *b)
{
    if (a->has_user != b->has_user)
        return a->has_user ? 1 : -1;
    int order = strcmp(a->user, b->user);
    return order != 0 ? order : strcmp(a->agent, b->agent);
}

static int compare_batches(const void *a, const void *b)
{
    const struct batch *first = *(const struct batch *const *) a;
    const struct batch *second = *(const struct batch *const *) b;
    int order = compare_scopes(first, second);

    return order != 0 ? order : first->number < second->number ? -1 : 1;
}

static void restore_scope(const struct batch *batch, struct scope *ret)
{
    *ret = (struct scope){.has_user = batch->has_user};
    memcpy(ret->user, batch->user, strlen(batch->user) + 1);
    memcpy(ret->bucket, batch->bucket, strlen(batch->bucket) + 1);
    memcpy(ret->agent, batch->agent, strlen(batch->agent) + 1);
}

/* Writes the batch's hits to `ret`; returns how many there are. */
static size_t unpack(const struct batch *batch, struct usage_hit *ret)
{
    const char *id = batch->ids;

    for (size_t i = 0; i < batch->count; i++) {
        ret[i] = (struct usage_hit){.fact_id = id, .at_ns = batch->at_ns};
        id += strlen(id) + 1;
    }
    return batch->count;
}

/* Calls the sink for each run of batches of one scope; `hits` has room for all of them. */
static void tell(struct batch *const *batches, size_t count, struct usage_hit *hits,
                 usage_sink sink, void *context)
{
    struct scope scope;

    for (size_t first = 0; first < count;) {
        size_t next = first;
        size_t hit_count = 0;
        while (next < count && compare_scopes(batches[first], batches[next]) == 0)
            hit_count += unpack(batches[next++], hits + hit_count);
        restore_scope(batches[first], &scope);
        sink(context, &scope, hits, hit_count);
        first = next;
    }
}

static struct batch *take_all(struct usage_log *log)
{
    (void) pthread_mutex_lock(&log->lock);
    struct batch *taken = TAKE_PTR(log->oldest);
    log->end = &log->oldest;
    log->bytes = 0;
    (void) pthread_mutex_unlock(&log->lock);
    return taken;
}

void usage_log_drain(struct usage_log *log, usage_sink sink, void *context)
{
    struct batch *taken = take_all(log);
    size_t count = 0;
    size_t hit_count = 0;

    for (const struct batch *batch = taken; batch; batch = batch->next) {
        count++;
        hit_count += batch->count;
    }
    if (count == 0)
        return;
    AUTO_FREE struct batch **batches = calloc(count, sizeof(struct batch *));
    AUTO_FREE struct usage_hit *hits = calloc(hit_count, sizeof *hits);
    if (batches && hits) {
        count = 0;
        for (struct batch *batch = taken; batch; batch = batch->next)
            batches[count++] = batch;
        qsort(batches, count, sizeof(struct batch *), compare_batches);
        tell(batches, count, hits, sink, context);
    } else {
        count_dropped(log, hit_count);
    }
    (void) free_batches(taken);
}
