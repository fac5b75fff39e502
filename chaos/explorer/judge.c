/* The judge: what must be true after every step, of every answer, and in the end. */
#include "chaos/explorer/calls.h"
#include "chaos/explorer/sched.h"
#include "chaos/explorer/world_private.h"
#include "core/clock.h"
#include "tests/support/files.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define JOURNAL ".memory.journal.json"

static struct world_user *user_of(struct world *world, const char *name)
{
    for (unsigned i = 0; i < WORLD_USERS; i++) {
        if (strcmp(world_users[i], name) == 0)
            return &world->users[i];
    }
    test_die("no user: %s", name);
}

static void bucket_of(const struct world *world, const char *user, char ret[PATH_MAX])
{
    char path[SCOPE_PATH_MAX];

    temp_volume_bucket_path(user, path);
    temp_volume_file(world->volume, path, ret);
}

static void describe_pair(struct world *world, const char *what, const struct memory *found,
                          const struct memory *wanted)
{
    AUTO_TEXT struct text text = {0};

    text_append_string(&text, what);
    text_append_string(&text, "\n      found  ");
    memory_describe(found, &text);
    text_append_string(&text, "\n      wanted ");
    memory_describe(wanted, &text);
    world_fail(world, "%s", text_string(&text));
}

/* ---- files ---- */

struct look {
    bool has_journal, is_prepared;
    uint64_t inode;   /* of the manifest */
    int64_t revision; /* 0: no manifest */
    uint64_t digest;
};

static void look_at(const struct world *world, const char *user, struct look *ret)
{
    char bucket[PATH_MAX];
    char path[PATH_MAX];

    *ret = (struct look){0};
    bucket_of(world, user, bucket);
    test_join(path, bucket, JOURNAL);
    if (test_exists(path)) {
        AUTO_FREE char *bytes = test_read_file(path, NULL);
        ret->has_journal = true;
        ret->is_prepared = strstr(bytes, "\"prepared\"") != NULL;
    }
    test_join(path, bucket, "memory.json");
    if (!test_exists(path))
        return;
    size_t size = 0;
    struct stat status;
    AUTO_FREE char *bytes = test_read_file(path, &size);
    if (stat(path, &status) == 0)
        ret->inode = status.st_ino;
    AUTO_JSON json_t *manifest = json_loadb(bytes, size, 0, NULL);
    ret->revision = json_integer_value(json_object_get(manifest, "revision"));
    ret->digest = signature_digest(bytes, size);
}

static struct world_version *live(struct world_user *user)
{
    return user->span_count > 0 ? &user->versions[user->spans[user->span_count - 1].version] : NULL;
}

const struct world_version *world_live(const struct world *world, const char *name)
{
    for (unsigned i = 0; i < WORLD_USERS; i++) {
        const struct world_user *user = &world->users[i];
        if (strcmp(world_users[i], name) == 0)
            return &user->versions[user->spans[user->span_count - 1].version];
    }
    return NULL;
}

static struct world_version *find_version(struct world_user *user, uint64_t digest)
{
    for (unsigned i = 0; i < user->version_count; i++) {
        if (user->versions[i].digest == digest)
            return &user->versions[i];
    }
    return NULL;
}

/* ---- who made a version ---- */

/* Whether `count` of the ops that are still to come, in some order, make `wanted` of `memory`;
 * marks them. Only agents' writers share a commit. */
static bool explain_with(struct world *world, const char *user, unsigned process,
                         const struct memory *memory, const struct memory *wanted, unsigned count,
                         unsigned version)
{
    if (count == 0)
        return memory_equal(memory, wanted);
    for (unsigned i = 0; i < world->op_count; i++) {
        struct world_op *op = &world->ops[i];
        struct memory next = *memory;
        if (op->version || strcmp(op->user, user) != 0 || op->process != process)
            continue;
        memory_apply(&next, op->agent, op->changes, op->count);
        op->version = version;
        if (explain_with(world, user, process, &next, wanted, count - 1, version))
            return true;
        op->version = 0;
    }
    return false;
}

/* The fewest that explain it. */
static bool explain(struct world *world, const char *user, unsigned process,
                    const struct memory *memory, const struct memory *wanted, unsigned version)
{
    for (unsigned count = 1; count <= world->op_count; count++) {
        if (explain_with(world, user, process, memory, wanted, count, version))
            return true;
    }
    return false;
}

static void explain_version(struct world *world, const char *name, struct world_user *user,
                            const struct world_version *version)
{
    const struct world_version *parent = &user->versions[version->parent - 1];
    const struct sched_actor *actor = sched_current();
    char what[128];

    if (version->revision != parent->revision + 1)
        world_fail(world, "revision %" PRId64 " of %s follows revision %" PRId64, version->revision,
                   name, parent->revision);
    if (actor && explain(world, name, actor->process, &parent->memory, &version->memory,
                         (unsigned) (version - user->versions) + 1))
        return;
    (void) snprintf(what, sizeof what,
                    "revision %" PRId64 " of %s is not the one before with what %s set out to do",
                    version->revision, name, actor ? actor->name : "nobody");
    describe_pair(world, what, &version->memory, &parent->memory);
}

/* ---- versions ---- */

static struct world_version *add_version(struct world *world, const char *name,
                                         struct world_user *user, const struct look *look)
{
    char bucket[PATH_MAX];
    const struct world_version *parent = live(user);

    if (user->version_count == WORLD_VERSIONS_MAX)
        test_die("too many versions");
    struct world_version *version = &user->versions[user->version_count++];
    *version = (struct world_version){
        .revision = look->revision,
        .digest = look->digest,
        .parent = parent ? (unsigned) (parent - user->versions) + 1 : 0,
    };
    bucket_of(world, name, bucket);
    memory_read(bucket, &version->memory);
    if (parent && world->options.locks_work)
        explain_version(world, name, user, version);
    return version;
}

static void begin_span(struct world_user *user, const struct world_version *version)
{
    if (user->span_count == WORLD_SPANS_MAX)
        test_die("too many spans");
    if (user->span_count > 0)
        user->spans[user->span_count - 1].to = sched_step();
    user->spans[user->span_count++] = (struct world_span){
        .version = (unsigned) (version - user->versions),
        .from = sched_step(),
    };
}

/* Agents put the manifest back last, so that whoever sees it finds its facts. */
static void check_restored(struct world *world, const char *name,
                           const struct world_version *version)
{
    const struct sched_actor *actor = sched_current();
    struct memory memory;
    char bucket[PATH_MAX];

    if (!actor || !actor->touches || !world->options.locks_work)
        return;
    bucket_of(world, name, bucket);
    memory_read(bucket, &memory);
    if (!memory_equal(&memory, &version->memory))
        describe_pair(world, "an agent has put the manifest back before the facts", &memory,
                      &version->memory);
}

/* A version that was taken back gives up what it did. */
static void take_back(struct world *world, const char *name, struct world_user *user,
                      const struct world_version *version)
{
    unsigned number = (unsigned) (version - user->versions) + 1;

    if (version->is_committed)
        world_fail(world, "revision %" PRId64 " of %s stood and was taken back", version->revision,
                   name);
    for (unsigned i = 0; i < world->op_count; i++) {
        struct world_op *op = &world->ops[i];
        if (strcmp(op->user, name) == 0 && op->version == number)
            op->version = 0;
    }
}

static void check_files(struct world *world, const char *name, struct world_user *user)
{
    struct world_version *before = live(user);
    struct look look;
    struct memory memory;
    char bucket[PATH_MAX];

    look_at(world, name, &look);
    struct world_version *version = find_version(user, look.digest);
    if (!version) {
        version = add_version(world, name, user, &look);
    } else if (before && version != before) {
        take_back(world, name, user, before);
        check_restored(world, name, version);
    }
    if (version != before)
        begin_span(user, version);
    /* Another file with the same bytes is a reason to look as well. */
    world->reasons_to_refresh += look.inode != user->manifest_inode ? WORLD_SCOPES : 0;
    user->manifest_inode = look.inode;
    if (look.is_prepared)
        return;
    version->is_committed = true;
    if (look.has_journal || !world->options.locks_work)
        return;
    bucket_of(world, name, bucket);
    memory_read(bucket, &memory);
    if (!memory_equal(&memory, &version->memory))
        describe_pair(world, "no commit is under way, and the files are not those of the revision",
                      &memory, &version->memory);
}

/* ---- rows ---- */

static enum status take_row(void *context, const char *document, size_t size, const char *path)
{
    struct memory *memory = context;
    AUTO_JSON json_t *fact = json_loadb(document, size, 0, NULL);

    (void) path;
    memory_put(memory, "?", json_string_value(json_object_get(fact, "id")),
               json_string_value(json_object_get(fact, "content")));
    return STATUS_OK;
}

static void name_agent(struct memory *memory, const char *agent)
{
    for (unsigned i = 0; i < memory->count; i++)
        (void) snprintf(memory->facts[i].agent, sizeof memory->facts[i].agent, "%.31s", agent);
}

/* The row of a scope; false when it has none. The checker's snapshot is open. */
static bool read_row(struct world_agent *agent, const char *scope_name, struct index_scope *ret)
{
    struct scope scope;
    struct error error = {0};

    world_scope(scope_name, &scope);
    enum status status = index_read_scope(agent->checker, &scope, ret, &error);
    if (status != STATUS_OK && status != STATUS_NOT_FOUND)
        test_die("cannot read the index: %s", error.message);
    return status == STATUS_OK;
}

static void read_facts(struct world_agent *agent, const char *scope_name, int64_t scope_id,
                       struct memory *ret)
{
    struct error error = {0};

    memset(ret, 0, sizeof *ret);
    if (index_list(agent->checker, scope_id, NULL, 0, UINT32_MAX, take_row, ret, NULL, &error) !=
        STATUS_OK)
        test_die("cannot read the index: %s", error.message);
    name_agent(ret, strchr(scope_name, '/') + 1);
}

static void begin_reading(struct world_agent *agent)
{
    struct error error = {0};

    if (index_begin(agent->checker, &error) != STATUS_OK)
        test_die("cannot read the index: %s", error.message);
}

static void check_rows(struct world *world, struct world_agent *agent, unsigned number)
{
    const char *name = world_scopes[number];
    char user_name[MEMORY_WORD_SIZE];
    struct index_scope row;
    struct memory rows;
    struct memory wanted;
    char what[160];

    (void) snprintf(user_name, sizeof user_name, "%.*s", (int) strcspn(name, "/"), name);
    if (!read_row(agent, name, &row) || !row.synced.known)
        return;
    uint64_t digest = row.synced.mark.signature.absent ? 0 : row.synced.mark.signature.digest;
    if (row.generation == agent->seen_generation[number] && digest == agent->seen_digest[number])
        return;
    agent->seen_generation[number] = row.generation;
    agent->seen_digest[number] = digest;
    const struct world_version *version = find_version(user_of(world, user_name), digest);
    if (!version) {
        world_fail(world, "rows of %s are in step with a manifest that was never there", name);
        return;
    }
    read_facts(agent, name, row.id, &rows);
    memory_only(&version->memory, strchr(name, '/') + 1, &wanted);
    (void) snprintf(what, sizeof what,
                    "the index says that %s is as revision %" PRId64 ", and its rows are not", name,
                    version->revision);
    if (!memory_equal(&rows, &wanted))
        describe_pair(world, what, &rows, &wanted);
}

static void check_all_rows(struct world *world, struct world_agent *agent)
{
    begin_reading(agent);
    for (unsigned i = 0; i < WORLD_SCOPES; i++)
        check_rows(world, agent, i);
    index_end(agent->checker);
}

void world_check_step(struct world *world)
{
    if (calls_take_change()) {
        for (unsigned i = 0; i < WORLD_USERS; i++)
            check_files(world, world_users[i], &world->users[i]);
    }
    for (unsigned i = 0; i < world->agent_count; i++) {
        if (!world->agents[i].is_dead)
            check_all_rows(world, &world->agents[i]);
    }
}

/* ---- answers ---- */

static void collect_hits(const struct search_result *result, size_t scope, const char *agent,
                         struct memory *ret)
{
    memset(ret, 0, sizeof *ret);
    for (size_t i = 0; i < result->count; i++) {
        const struct index_hit *hit = &result->hits[i].hit;
        if (result->hits[i].scope == scope)
            (void) take_row(ret, hit->document, hit->document_size, NULL);
    }
    name_agent(ret, agent);
}

static bool was_live_since(const struct world_user *user, const struct world_version *version,
                           unsigned since)
{
    unsigned number = (unsigned) (version - user->versions);

    for (unsigned i = 0; i < user->span_count; i++) {
        const struct world_span *span = &user->spans[i];
        bool ended_before = i + 1 < user->span_count && span->to < since;
        if (span->version == number && !ended_before)
            return true;
    }
    return false;
}

void world_check_search(struct world *world, const char *user_name, const char *agent,
                        const struct search_result *result, unsigned since, int64_t *last_revision)
{
    const struct scope_report *report = &result->reports[0];
    struct world_user *user = user_of(world, user_name);
    const struct manifest_mark *mark =
        report->in_index ? &report->row.synced.mark : &report->live.mark;
    struct memory hits;
    struct memory wanted;
    char what[160];

    if (report->state == SCOPE_UNVERIFIED)
        world_fail(world, "a search of %s/%s could not look at the volume: %s", user_name, agent,
                   report->error.message);
    if (report->state == SCOPE_UNVERIFIED || report->state == SCOPE_STALE)
        return;
    const struct world_version *version =
        find_version(user, mark->signature.absent ? 0 : mark->signature.digest);
    if (!version) {
        world_fail(world, "a search of %s/%s is fresh at a revision that was never there",
                   user_name, agent);
        return;
    }
    collect_hits(result, 0, agent, &hits);
    memory_only(&version->memory, agent, &wanted);
    (void) snprintf(what, sizeof what, "a search of %s/%s says %s at revision %" PRId64, user_name,
                    agent, scope_state_name(report->state), version->revision);
    if (!memory_equal(&hits, &wanted))
        describe_pair(world, what, &hits, &wanted);
    if (!version->is_committed)
        world_fail(world, "%s, which does not stand yet", what);
    if (!was_live_since(user, version, since))
        world_fail(world, "%s, which was over before it began", what);
    if (version->revision < *last_revision)
        world_fail(world, "%s, after this worker had seen revision %" PRId64, what, *last_revision);
    *last_revision = version->revision;
}

/* ---- the end ---- */

static bool is_ancestor(const struct world_user *user, unsigned version, unsigned of)
{
    while (of && of != version)
        of = user->versions[of - 1].parent;
    return of == version;
}

/* A write that another one of its group has covered left nothing to see: whether the version that
 * it was told of is explained with it as well. */
static bool is_explained_by_group(struct world *world, struct world_op *op, struct world_user *user)
{
    unsigned number = 0;
    unsigned count = 1;

    for (unsigned i = 0; i < user->version_count; i++) {
        if (user->versions[i].revision == op->revision && user->versions[i].is_committed)
            number = i + 1;
    }
    if (!number || !op->is_own || !user->versions[number - 1].parent)
        return false;
    for (unsigned i = 0; i < world->op_count; i++) {
        count += world->ops[i].version == number;
        if (world->ops[i].version == number)
            world->ops[i].version = 0;
    }
    const struct world_version *version = &user->versions[number - 1];
    return explain_with(world, op->user, op->process, &user->versions[version->parent - 1].memory,
                        &version->memory, count, number) &&
           op->version == number;
}

/* Acknowledged is on the volume, refused is not. */
static void check_ops(struct world *world)
{
    for (unsigned i = 0; i < world->op_count; i++) {
        struct world_op *op = &world->ops[i];
        struct world_user *user = user_of(world, op->user);
        unsigned now = user->spans[user->span_count - 1].version + 1;
        if (op->acknowledged && !op->version && is_explained_by_group(world, op, user))
            continue;
        if (op->acknowledged && (!op->version || !is_ancestor(user, op->version, now)))
            world_fail(world, "a write that was acknowledged with revision %" PRId64 " is lost",
                       op->revision);
        else if (op->acknowledged && user->versions[op->version - 1].revision != op->revision)
            world_fail(world,
                       "a write was acknowledged with revision %" PRId64 " and is in another",
                       op->revision);
        if (op->refused && op->version)
            world_fail(world, "a write that was refused is on the volume");
    }
}

/* Without the lock nobody knows who has made a version: only its facts count. */
static void check_ops_by_facts(struct world *world)
{
    for (unsigned i = 0; i < world->op_count; i++) {
        const struct world_op *op = &world->ops[i];
        const struct world_version *version = live(user_of(world, op->user));
        const struct memory_fact *fact =
            memory_find(&version->memory, op->agent, op->changes[0].id);
        if (op->acknowledged && (!fact || strcmp(fact->text, op->changes[0].text) != 0))
            world_fail(world, "a write that was acknowledged with revision %" PRId64 " is lost",
                       op->revision);
    }
}

static void check_files_at_end(struct world *world)
{
    for (unsigned i = 0; i < WORLD_USERS; i++) {
        struct world_version *version = live(&world->users[i]);
        struct look look;
        struct memory memory;
        char bucket[PATH_MAX];

        look_at(world, world_users[i], &look);
        bucket_of(world, world_users[i], bucket);
        memory_read(bucket, &memory);
        if (look.is_prepared)
            world_fail(world, "a dead writer's journal of %s is still there", world_users[i]);
        if (!memory_equal(&memory, &version->memory))
            describe_pair(world, "in the end the files are not those of the revision", &memory,
                          &version->memory);
    }
}

static bool is_in_step(struct world_agent *agent, const char *name)
{
    struct scope scope;
    struct live_state state;
    struct index_scope row;

    world_scope(name, &scope);
    if (store_compare(agent->store, &scope, CLOCK_NEVER, &state, NULL) != STATUS_OK)
        return false;
    begin_reading(agent);
    bool has_row = read_row(agent, name, &row);
    index_end(agent->checker);
    return has_row ? freshness_in_step(&row.synced, row.facts, &state, true)
                   : store_knows_empty(agent->store, &scope, &state);
}

/* A dead writer's journal beside the manifest that is known is nobody's reason to look; whoever
 * reads everything anew has to deal with it. */
static void take_dead_commits_back(struct world *world, struct world_agent *agent, const char *name,
                                   const char *user)
{
    struct look look;

    look_at(world, user, &look);
    if (!look.is_prepared)
        return;
    struct refresh_result result = world_refresh(agent, name, REFRESH_WISH_FULL);
    if (result.status != STATUS_OK)
        world_fail(world, "in the end %s cannot be read: %s %s", name, status_name(result.status),
                   result.error.message);
    world->reasons_to_refresh++;
    world_check_step(world);
}

static void check_scope_at_end(struct world *world, struct world_agent *agent, const char *name)
{
    struct index_scope row;
    struct memory rows;
    struct memory wanted;
    char user[MEMORY_WORD_SIZE];

    (void) snprintf(user, sizeof user, "%.*s", (int) strcspn(name, "/"), name);
    take_dead_commits_back(world, agent, name, user);
    if (!is_in_step(agent, name)) {
        struct refresh_result result = world_refresh(agent, name, REFRESH_WISH_NONE);
        if (result.status != STATUS_OK)
            world_fail(world, "in the end %s cannot be refreshed: %s %s", name,
                       status_name(result.status), result.error.message);
        world_check_step(world); /* it may have taken a dead writer's commit back */
    }
    if (!is_in_step(agent, name))
        world_fail(world, "in the end one refresh does not bring %s in step", name);
    memset(&rows, 0, sizeof rows);
    begin_reading(agent);
    if (read_row(agent, name, &row))
        read_facts(agent, name, row.id, &rows);
    index_end(agent->checker);
    memory_only(&live(user_of(world, user))->memory, strchr(name, '/') + 1, &wanted);
    if (!memory_equal(&rows, &wanted))
        describe_pair(world, "in the end the rows are not the facts", &rows, &wanted);
}

/* Every refresh that installed had something to find, and was lost only where an own write had
 * changed the rows. */
static void check_refreshes(struct world *world, const struct world_agent *agent)
{
    const struct store_counters *counters = &agent->store->counters;
    uint64_t refreshes = atomic_load(&counters->refreshes);
    uint64_t reasons = world->reasons_to_refresh + atomic_load(&counters->forgotten);
    uint64_t lost = atomic_load(&counters->refreshes_lost);
    uint64_t promoted = atomic_load(&counters->promoted);

    if (refreshes > reasons)
        world_fail(world, "%" PRIu64 " refreshes for %" PRIu64 " reasons", refreshes, reasons);
    if (lost > promoted)
        world_fail(world, "%" PRIu64 " refreshes were lost to %" PRIu64 " own writes", lost,
                   promoted);
}

/* Who was told `behind` need not care: a refresh has been asked for, or has been done. */
static void check_behind(struct world *world)
{
    for (unsigned i = 0; i < world->op_count; i++) {
        const struct world_op *op = &world->ops[i];
        struct refresh_table_counts counts;
        char name[2 * MEMORY_WORD_SIZE];

        if (!op->is_behind || world->agents[op->process - 1].is_dead)
            continue;
        (void) snprintf(name, sizeof name, "%s/%s", op->user, op->agent);
        refresh_table_counts(world->agents[op->process - 1].store->refreshes, &counts);
        if (counts.wanted_urgent == 0 && !is_in_step(&world->agents[op->process - 1], name))
            world_fail(world, "%s is behind after an own write, and nobody is asked to refresh it",
                       name);
    }
}

void world_check_end(struct world *world)
{
    check_behind(world);
    for (unsigned i = 0; i < world->agent_count; i++) {
        struct world_agent *agent = &world->agents[i];
        for (unsigned j = 0; !agent->is_dead && j < WORLD_SCOPES_USED; j++)
            check_scope_at_end(world, agent, world_scopes[j]);
        if (!agent->is_dead)
            check_refreshes(world, agent);
    }
    check_files_at_end(world);
    if (world->options.locks_work)
        check_ops(world);
    else
        check_ops_by_facts(world);
}
