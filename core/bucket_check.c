#include "core/bucket_check.h"

#include "core/bucket_owner.h"
#include "core/clock.h"
#include "core/log.h"
#include "core/watch_hash.h"

#include <pthread.h>
#include <string.h>

/* Which manifest a bucket had when its agents were listed; one slot a hash, so a clash only costs
 * another listing. */
#define SEEN_SLOTS 262144

struct seen_slot {
    uint32_t key;
    uint32_t digest;
};

struct bucket_check {
    struct store *store;
    pthread_mutex_t lock; /* guards `reader` and `seen`; the reader's local file is the only thing
                             touched under it */
    struct index_reader *reader;
    struct seen_slot *seen;
    uint64_t
        epoch; /* of the index when `seen` was begun: rows that are lost must be found missing */
};

enum status bucket_check_create(struct store *store, struct bucket_check **ret, struct error *error)
{
    struct bucket_check *check = calloc(1, sizeof *check);

    if (!check)
        return STATUS_NO_MEMORY;
    check->store = store;
    pthread_mutex_init(&check->lock, NULL);
    check->seen = calloc(SEEN_SLOTS, sizeof *check->seen);
    enum status status =
        check->seen ? index_reader_create(store->index, &check->reader, error) : STATUS_NO_MEMORY;
    if (status != STATUS_OK) {
        bucket_check_destroy(&check);
        return status;
    }
    *ret = check;
    return STATUS_OK;
}

void bucket_check_destroy(struct bucket_check **check_address)
{
    struct bucket_check *check = TAKE_PTR(*check_address);

    if (!check)
        return;
    index_reader_destroy(&check->reader);
    free(check->seen);
    pthread_mutex_destroy(&check->lock);
    free(check);
}

/* One look at a bucket. */
struct look {
    struct bucket_check *check;
    bool has_user;
    bool in_pass; /* one of the looks at everything, whose progress is told */
    enum refresh_cause cause;
    const char *bucket;
    uint64_t epoch; /* of the index, before its rows were read */
    struct live_state live;
    char owner[SCOPE_USER_MAX + 1];
    bool owner_known;
    char **agents; /* that have rows */
    size_t agent_count;
    bool out_of_step;
    bool failed;
};

static void look_clear(struct look *look)
{
    for (size_t i = 0; i < look->agent_count; i++)
        free(look->agents[i]);
    free(look->agents);
}
#define AUTO_LOOK CLEANUP(look_clear)

static void ask(struct look *look, const struct scope *scope)
{
    uint64_t number;

    look->out_of_step = true;
    if (look->in_pass)
        build_progress_asked(look->check->store->progress, scope);
    if (refresh_request(look->check->store->refreshes, scope, REFRESH_BACKGROUND, look->cause,
                        REFRESH_WISH_NONE, &number) != STATUS_OK)
        look->failed = true;
}

static void remember_agent(struct look *look, const char *agent)
{
    char **agents = realloc(look->agents, (look->agent_count + 1) * sizeof *agents);
    char *copy = agents ? strdup(agent) : NULL;

    if (agents)
        look->agents = agents;
    if (!copy) {
        look->failed = true;
        return;
    }
    look->agents[look->agent_count++] = copy;
}

/* A scope that could not be read for a while and has not changed meanwhile gets no refresh that
 * would tell. */
static void note_readable(const struct look *look, const struct scope *scope)
{
    if (scope_notes_outcome(look->check->store->notes, scope, STATUS_OK, 0, clock_monotonic_ns()))
        log_notice("scope.readable", "user=%s agent=%s",
                   LOG_VALUE(scope->has_user ? scope->user : NULL), scope->agent);
}

static void note_in_step(const struct look *look, const struct scope *scope,
                         const struct index_scope *row)
{
    note_readable(look, scope);
    if (look->in_pass)
        build_progress_in_step(look->check->store->progress, row->facts);
}

/* A scope that the index holds. */
static enum status take_row(void *context, const struct scope *scope, const struct index_scope *row)
{
    struct look *look = context;

    remember_agent(look, scope->agent);
    if (scope->has_user && !look->owner_known) {
        memcpy(look->owner, scope->user, strlen(scope->user) + 1);
        look->owner_known = true;
    }
    /* Without a manifest the bucket tells nothing of the single agents; the refresher looks at
     * each. */
    if (look->live.mark.signature.absent
            ? row->synced.known && !row->synced.mark.signature.absent
            : !freshness_in_step(&row->synced, row->facts, &look->live, true))
        ask(look, scope);
    else
        note_in_step(look, scope, row);
    return STATUS_OK;
}

static enum status read_rows(struct look *look, struct error *error)
{
    struct bucket_check *check = look->check;

    pthread_mutex_lock(&check->lock);
    enum status status = index_begin(check->reader, error);
    if (status == STATUS_OK) {
        status =
            index_list_bucket(check->reader, look->has_user, look->bucket, take_row, look, error);
        index_end(check->reader);
    }
    pthread_mutex_unlock(&check->lock);
    return status;
}

static uint64_t bucket_hash(const struct look *look)
{
    return watch_hash_bucket(look->has_user, look->bucket);
}

static bool agents_were_listed(struct look *look)
{
    uint64_t hash = bucket_hash(look);

    pthread_mutex_lock(&look->check->lock);
    if (look->epoch > look->check->epoch) {
        memset(look->check->seen, 0, SEEN_SLOTS * sizeof *look->check->seen);
        look->check->epoch = look->epoch;
    }
    const struct seen_slot *slot = &look->check->seen[hash % SEEN_SLOTS];
    bool listed = slot->key == (uint32_t) (hash >> 32) &&
                  slot->digest == (uint32_t) look->live.mark.signature.digest;
    pthread_mutex_unlock(&look->check->lock);
    return listed;
}

static void note_agents_listed(struct look *look)
{
    uint64_t hash = bucket_hash(look);

    pthread_mutex_lock(&look->check->lock);
    if (index_epoch(look->check->store->index) == look->epoch)
        look->check->seen[hash % SEEN_SLOTS] = (struct seen_slot){
            .key = (uint32_t) (hash >> 32),
            .digest = (uint32_t) look->live.mark.signature.digest,
        };
    pthread_mutex_unlock(&look->check->lock);
}

/* A scope without a row is asked for. */
static void ask_for_agent(struct look *look, const char *agent)
{
    struct scope scope;

    for (size_t i = 0; i < look->agent_count; i++) {
        if (strcmp(look->agents[i], agent) == 0)
            return;
    }
    if (scope_create(look->has_user ? look->owner : NULL, agent, &scope, NULL) == STATUS_OK)
        ask(look, &scope);
}

/* An agent's directory. In the default agent's earlier one may lie what belongs to it now. */
static enum status take_agent(void *context, const char *agent)
{
    struct look *look = context;

    ask_for_agent(look, agent);
    if (strcmp(agent, SCOPE_LEGACY_AGENT) == 0)
        ask_for_agent(look, SCOPE_DEFAULT_AGENT);
    return STATUS_OK;
}

/* A manifest of an earlier layout holds facts of the default agent, which may have no directory. */
static enum status take_manifest(struct look *look, const struct scope *scope, struct error *error)
{
    AUTO_IMAGE struct file_image image = {0};
    AUTO_MANIFEST struct manifest manifest = {0};

    if (look->live.mark.signature.absent)
        return STATUS_OK;
    enum status status =
        bucket_read_manifest(look->check->store->source.buckets, scope, &image, error);
    if (status == STATUS_NOT_FOUND)
        return STATUS_STALE; /* it was there a moment ago */
    if (status == STATUS_OK)
        status = manifest_parse(image.bytes, image.size, &manifest, error);
    if (status == STATUS_OK && manifest.layout == MANIFEST_LAYOUT_1)
        ask_for_agent(look, SCOPE_DEFAULT_AGENT);
    return status;
}

static enum status list_agents(struct look *look, const struct scope *scope, struct error *error)
{
    const struct snapshot_source *source = &look->check->store->source;
    AUTO_CLOSE int fd = -1;
    enum status status = STATUS_OK;

    if (look->has_user && !look->owner_known) {
        status = bucket_owner_find(source, look->bucket, look->owner, error);
        if (status == STATUS_NOT_FOUND)
            return STATUS_OK; /* no fact, so nothing to index */
    }
    if (status == STATUS_OK)
        status = bucket_open(source->buckets, scope, &fd, error);
    if (status == STATUS_NOT_FOUND)
        return STATUS_OK;
    if (status == STATUS_OK)
        status = bucket_list_agents(source->buckets, fd, take_agent, look, error);
    if (status == STATUS_OK)
        status = take_manifest(look, scope, error);
    if (status == STATUS_OK && !look->failed)
        note_agents_listed(look);
    return status;
}

enum status bucket_check_run(struct bucket_check *check, bool has_user, const char *bucket,
                             enum refresh_cause cause, struct bucket_verdict *ret,
                             struct error *error)
{
    bool quick = cause == REFRESH_CAUSE_PASS;
    AUTO_LOOK struct look look = {.check = check,
                                  .has_user = has_user,
                                  .in_pass = quick,
                                  .cause = cause,
                                  .bucket = bucket,
                                  .epoch = index_epoch(check->store->index)};
    struct scope scope;

    enum status status = scope_create(has_user ? bucket : NULL, NULL, &scope, error);
    if (status == STATUS_OK)
        status = store_compare(check->store, &scope, CLOCK_NEVER, &look.live, error);
    if (status == STATUS_OK)
        status = read_rows(&look, error);
    bool warm = quick && look.agent_count > 0 && !look.out_of_step;
    /* A pass counts what there is to build, whoever has asked for it before. */
    if (status == STATUS_OK && !warm && (quick || !agents_were_listed(&look)))
        status = list_agents(&look, &scope, error);
    *ret = (struct bucket_verdict){
        .changed = look.out_of_step,
        .empty = status == STATUS_OK && look.live.mark.signature.absent && look.live.bare &&
                 look.agent_count == 0 && !look.out_of_step,
    };
    return status;
}
