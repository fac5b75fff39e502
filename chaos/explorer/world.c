#include "chaos/explorer/world.h"

#include "chaos/explorer/calls.h"
#include "chaos/explorer/world_private.h"
#include "core/clock.h"
#include "core/refresher.h"
#include "tests/support/files.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define LOCK_TIMEOUT_MS 20000
#define GRACE_MS 60000

const char *const world_users[WORLD_USERS] = {"u", "v", "n"};
const char *const world_scopes[WORLD_SCOPES] = {"u/a", "u/b", "n/a", "v/a"};

static struct {
    char directory[PATH_MAX];
    char pattern[PATH_MAX]; /* a volume and an index to be copied */
    unsigned number;
} places;

void world_fail(struct world *world, const char *format, ...)
{
    char line[4096];
    va_list arguments;

    if (world_has_failed(world))
        return;
    va_start(arguments, format);
    (void) vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    text_append_string(&world->failure, line);
}

bool world_has_failed(const struct world *world)
{
    return world->failure.size > 0;
}

void world_scope(const char *name, struct scope *ret)
{
    char user[MEMORY_WORD_SIZE];
    const char *slash = strchr(name, '/');

    (void) snprintf(user, sizeof user, "%.*s", (int) (slash - name), name);
    if (scope_create(user, slash + 1, ret, NULL) != STATUS_OK)
        test_die("no scope: %s", name);
}

/* ---- agents ---- */

static void open_agent(struct world *world, struct world_agent *agent)
{
    const struct store_options options = {
        .volume_path = temp_volume_path(world->volume),
        .calls = calls_table(),
        .locks = world->options.locks,
        .recovery_grace_ms = GRACE_MS,
        .manifest_name = "memory.json",
        .index_directory = agent->index_directory,
        .request_threads = WORLD_READERS,
    };
    const struct writer_options writer_options = {.lock_timeout_ms = LOCK_TIMEOUT_MS};
    struct error error = {0};

    enum status status = store_open(&options, &agent->store, &error);
    if (status == STATUS_OK)
        status = writer_create(agent->store, &writer_options, &agent->writer);
    if (status == STATUS_OK)
        status = index_reader_create(agent->store->index, &agent->checker, &error);
    if (status != STATUS_OK)
        test_die("cannot open a store: %s %s %s", status_name(status), error.message, error.path);
}

static void close_agent(struct world_agent *agent)
{
    index_reader_destroy(&agent->checker);
    writer_destroy(&agent->writer);
    store_close(&agent->store);
}

static struct world_agent *add_agent(struct world *world)
{
    struct world_agent *agent = &world->agents[world->agent_count++];
    char name[32];

    *agent = (struct world_agent){.process = world->agent_count};
    (void) snprintf(name, sizeof name, "index%u", agent->process);
    test_join(agent->index_directory, world->directory, name);
    return agent;
}

struct refresh_result world_refresh(struct world_agent *agent, const char *name, unsigned wishes)
{
    struct refresh_result result = {.status = STATUS_BUSY};
    struct refresh_run run;
    struct scope scope;
    uint64_t number;

    world_scope(name, &scope);
    if (refresh_request(agent->store->refreshes, &scope, REFRESH_URGENT, REFRESH_CAUSE_SEARCH,
                        wishes, &number) != STATUS_OK)
        test_die("no memory for a refresh");
    if (refresh_claim(agent->store->refreshes, &scope, &run))
        refresher_run(agent->store, agent->checker, &run, &result);
    return result;
}

static void bring_in_step(struct world_agent *agent, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        if (world_refresh(agent, world_scopes[i], REFRESH_WISH_NONE).status != STATUS_OK)
            test_die("cannot build %s", world_scopes[i]);
    }
}

struct world_agent *world_reopen(struct world *world, const struct world_agent *dead)
{
    struct world_agent *agent = add_agent(world);

    test_make_dirs(agent->index_directory);
    test_copy_tree(dead->index_directory, agent->index_directory);
    open_agent(world, agent);
    return agent;
}

/* ---- the volume ---- */

static void fill(struct temp_volume *volume)
{
    const struct temp_change two[] = {
        {.kind = TEMP_ADD, .id = "f1", .text = "note one"},
        {.kind = TEMP_ADD, .id = "f2", .text = "note two"},
    };
    const struct temp_commit commit = {.user = "u", .agent = "a", .changes = two, .count = 2};

    (void) temp_volume_commit(volume, &commit);
    (void) temp_volume_add(volume, "u", "b", "g1", "note bee");
    (void) temp_volume_add(volume, "v", "a", "h1", "note aitch");
}

static void place(struct world *world, const char *directory)
{
    char root[PATH_MAX];

    (void) snprintf(world->directory, sizeof world->directory, "%s", directory);
    test_join(root, directory, "volume");
    test_make_dirs(root);
    world->volume = temp_volume_create_at(root);
}

void world_prepare(const char *directory)
{
    struct world world = {.options = {.agents = 1, .locks_work = true}};

    (void) snprintf(places.directory, sizeof places.directory, "%s", directory);
    test_join(places.pattern, directory, "pattern");
    calls_reset(true);
    place(&world, places.pattern);
    fill(world.volume);
    struct world_agent *agent = add_agent(&world);
    open_agent(&world, agent);
    bring_in_step(agent, WORLD_SCOPES);
    close_agent(agent);
    temp_volume_destroy(&world.volume);
}

void world_forget(void)
{
    test_remove_tree(places.directory);
}

void world_open(const struct world_options *options, struct world *ret)
{
    char directory[PATH_MAX];
    char index[PATH_MAX];
    char name[32];

    memset(ret, 0, sizeof *ret);
    ret->options = *options;
    calls_reset(options->locks_work);
    (void) snprintf(name, sizeof name, "%u", ++places.number);
    test_join(directory, places.directory, name);
    place(ret, directory);
    test_join(index, places.pattern, "volume");
    test_copy_tree(index, temp_volume_path(ret->volume));
    test_join(index, places.pattern, "index1");
    while (ret->agent_count < options->agents) {
        struct world_agent *agent = add_agent(ret);
        test_make_dirs(agent->index_directory);
        test_copy_tree(index, agent->index_directory);
        open_agent(ret, agent);
        bring_in_step(agent, WORLD_SCOPES_BUILT);
    }
    world_check_step(ret);
    ret->reasons_to_refresh = 0;
    for (unsigned i = 0; i < ret->agent_count; i++)
        atomic_store(&ret->agents[i].store->counters.refreshes, 0);
}

void world_close(struct world *world)
{
    for (unsigned i = 0; i < world->agent_count; i++)
        close_agent(&world->agents[i]);
    temp_volume_destroy(&world->volume);
    test_remove_tree(world->directory);
    text_destroy(&world->failure);
}

struct world_op *world_add_op(struct world *world, const struct world_op *op)
{
    if (world->op_count == WORLD_OPS_MAX)
        test_die("too many ops");
    world->ops[world->op_count] = *op;
    return &world->ops[world->op_count++];
}
