#include "chaos/faults/scenario.h"

#include "tests/support/files.h"

#include <stdio.h>
#include <string.h>

/* ---- the volume before the agent's start ---- */

void scenario_fill_usual(struct world *world)
{
    static const struct temp_change changes[] = {
        {.kind = TEMP_ADD, .id = "f1", .text = "note one"},
        {.kind = TEMP_ADD, .id = "f2", .text = "note two"},
        {.kind = TEMP_ADD, .id = "f3", .text = "note three"},
        {.kind = TEMP_SUMMARY, .text = "old"},
    };
    const struct temp_commit commit = {.user = "u",
                                       .agent = "a",
                                       .changes = changes,
                                       .count = ARRAY_SIZE(changes)};

    (void) temp_volume_commit(world->volume, &commit);
    (void) temp_volume_add(world->volume, "u", "b", "g1", "note bee");
}

static void put(struct world *world, const char *path, const char *bytes)
{
    temp_volume_write(world->volume, path, bytes, strlen(bytes));
}

#define OLD_HEAD "{\"version\":\"1.0\",\"lastUpdated\":\"2025-12-01T10:00:00Z\","
#define OLD_FACT(id, text)                                                                         \
    "{\"id\":\"" id "\",\"content\":\"note " text "\",\"category\":\"context\","                   \
    "\"confidence\":0.7,\"createdAt\":\"2025-06-01T08:00:00Z\"}"

/* All in one file, as an earlier version had it; a fact is there twice, in one form. */
static void fill_list(struct world *world)
{
    put(world, "users/u/memory.json",
        OLD_HEAD "\"revision\":4,\"user\":{\"workContext\":{\"summary\":\"old\","
                 "\"updatedAt\":\"\"}},\"facts\":[" OLD_FACT("f1", "one") "," OLD_FACT(
                     "f2", "two") "," OLD_FACT("f1", "one") "]}");
}

/* With a summary, which becomes the user's. */
static void fill_agent_list(struct world *world)
{
    temp_volume_set_revision(world->volume, "u", 3);
    put(world, "users/u/agents/a/memory.json",
        OLD_HEAD "\"user\":{\"workContext\":{\"summary\":\"old\",\"updatedAt\":\"\"}},"
                 "\"facts\":[" OLD_FACT("f1", "one") "," OLD_FACT("f2", "two") "]}");
}

/* The default agent had a name once. */
static void fill_lead(struct world *world)
{
    static const struct temp_change changes[] = {
        {.kind = TEMP_ADD, .id = "f1", .text = "note one"},
        {.kind = TEMP_ADD, .id = "f2", .text = "note two"},
    };

    temp_volume_set_revision(world->volume, "u", 3);
    temp_volume_raw(world->volume, "u", SCOPE_LEGACY_AGENT, changes, ARRAY_SIZE(changes));
}

static void fill_other_user(struct world *world)
{
    (void) temp_volume_add(world->volume, "other", "a", "o1", "note other");
}

/* ---- what others do before the first fault ---- */

static void peer_adds(struct world *world)
{
    (void) temp_volume_add(world->volume, "u", "a", "f4", "note four");
}

static void peer_adds_bee(struct world *world)
{
    (void) temp_volume_add(world->volume, "u", "b", "g2", "note second bee");
}

static void peer_updates(struct world *world)
{
    (void) temp_volume_update(world->volume, "u", "a", "f2", "note zwei");
}

static void peer_updates_and_is_seen(struct world *world)
{
    peer_updates(world);
    act_search(world);
}

static void peer_deletes(struct world *world)
{
    (void) temp_volume_delete(world->volume, "u", "a", "f2");
}

static void somebody_removes_all(struct world *world)
{
    temp_volume_remove(world->volume, "users/u");
}

static void commit_and_die(struct world *world, enum temp_step step)
{
    static const struct temp_change changes[] = {
        {.kind = TEMP_UPDATE, .id = "f1", .text = "note dead"},
        {.kind = TEMP_ADD, .id = "f4", .text = "note dead too"},
        {.kind = TEMP_DELETE, .id = "f3"},
    };
    const struct temp_commit commit = {
        .user = "u", .agent = "a", .changes = changes, .count = ARRAY_SIZE(changes), .stop = step};

    (void) temp_volume_commit(world->volume, &commit);
}

static void peer_dies_prepared(struct world *world)
{
    commit_and_die(world, TEMP_STEP_MANIFEST);
}

static void peer_dies_committed(struct world *world)
{
    commit_and_die(world, TEMP_STEP_COMMITTED);
}

static void index_file(const struct world *world, const char *end, char ret[PATH_MAX])
{
    (void) snprintf(ret, PATH_MAX, "%.3000s/" INDEX_FILE_NAME "%s", world->index_directory, end);
}

static void delete_index(struct world *world)
{
    static const char *const ends[] = {"", "-wal", "-shm"};
    char path[PATH_MAX];

    for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
        index_file(world, ends[i], path);
        test_remove_file(path);
    }
}

/* Every page but the first, in the file and in its log. */
static void damage_index(struct world *world)
{
    static const char *const ends[] = {"", "-wal"};
    char path[PATH_MAX];

    for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
        size_t size;
        index_file(world, ends[i], path);
        free(test_read_file(path, &size)); /* only how long it is */
        FILE *file = fopen(path, "r+");
        if (!file || fseek(file, 4096, SEEK_SET) != 0)
            test_die("cannot open %s", path);
        for (size_t at = 4096; at < size; at++)
            (void) fputc(0x5a, file);
        if (fclose(file) != 0)
            test_die("cannot write %s", path);
    }
}

/* ---- the scenarios ---- */

static const char *const default_scope[] = {"u/-", NULL};
static const char *const one_scope[] = {"u/a", NULL};

const struct scenario scenarios[] = {
    {.name = "open-cold",
     .title = "the first start, and searches",
     .start = START_NEVER,
     .act = act_open_and_search},
    {.name = "open-warm",
     .title = "a start on an index that is in step",
     .start = START_AGAIN,
     .act = act_open_and_search},
    {.name = "open-behind",
     .title = "a start after a peer's commit",
     .start = START_AGAIN,
     .change = peer_updates,
     .act = act_open_and_search},
    {.name = "open-unclean",
     .title = "a start after an agent that was killed",
     .start = START_DIED,
     .act = act_open_and_search},
    {.name = "first-build",
     .title = "searches that build their scopes",
     .start = START_UNBUILT,
     .act = act_search_both},
    {.name = "search", .title = "a search in step", .act = act_search},
    {.name = "search-parts", .title = "... for a part of a word", .act = act_search_parts},
    {.name = "peer-adds",
     .title = "a search after a peer added a fact",
     .change = peer_adds,
     .act = act_search},
    {.name = "peer-updates", .title = "... changed one", .change = peer_updates, .act = act_search},
    {.name = "peer-deletes", .title = "... removed one", .change = peer_deletes, .act = act_search},
    {.name = "user-removed",
     .title = "searches after a user's directory went away",
     .change = somebody_removes_all,
     .act = act_search_both},
    {.name = "second-look",
     .title = "the second look at stamps that were young",
     .change = peer_updates_and_is_seen,
     .act = act_settle},
    {.name = "index-deleted",
     .title = "a search after the index was deleted",
     .change = delete_index,
     .act = act_watch_and_search,
     .loses_index = true},
    {.name = "index-damaged",
     .title = "a search after the index was written over",
     .change = damage_index,
     .act = act_search,
     .loses_index = true},
    {.name = "documents",
     .title = "get_memory, list_facts, get_fact, get_summaries, scopes",
     .change = peer_adds,
     .act = act_read_documents},
    {.name = "reload", .title = "reload_memory and a full refresh", .act = act_reload},
    {.name = "verify", .title = "verify", .act = act_verify},
    {.name = "volume-returns",
     .title = "the volume goes away and comes back",
     .act = act_volume_returns},
    {.name = "create", .title = "create_fact", .act = act_create},
    {.name = "create-behind",
     .title = "create_fact after a peer's commit to another agent",
     .change = peer_adds_bee,
     .act = act_create},
    {.name = "update", .title = "update_fact", .act = act_update},
    {.name = "delete", .title = "delete_fact", .act = act_delete},
    {.name = "apply",
     .title = "apply_changes: two written, one removed, a summary",
     .act = act_apply},
    {.name = "import", .title = "import_memory", .act = act_import},
    {.name = "clear", .title = "clear_memory", .act = act_clear},
    {.name = "summaries", .title = "update_summaries", .act = act_summaries},
    {.name = "first-write",
     .title = "create_fact for a user who was not there",
     .scopes = one_scope,
     .fill = fill_other_user,
     .act = act_first_write},
    {.name = "write-and-search",
     .title = "create_fact, search, delete_fact, search",
     .act = act_write_and_search},
    {.name = "dead-search",
     .title = "a search that takes back a dead writer's commit",
     .change = peer_dies_prepared,
     .act = act_search},
    {.name = "dead-write",
     .title = "a write that does",
     .change = peer_dies_prepared,
     .act = act_create},
    {.name = "dead-committed",
     .title = "a search behind a writer who died when all was done",
     .change = peer_dies_committed,
     .act = act_search},
    {.name = "migrate",
     .title = "migrate: a list",
     .scopes = default_scope,
     .fill = fill_list,
     .act = act_migrate},
    {.name = "migrate-lead",
     .title = "migrate: the facts of the earlier default agent",
     .scopes = default_scope,
     .fill = fill_lead,
     .act = act_migrate},
    {.name = "migrate-tried",
     .title = "a dry run of an import into an agent's list",
     .scopes = one_scope,
     .fill = fill_agent_list,
     .act = act_try_import},
    {.name = "migrating-write",
     .title = "a write that migrates an agent's list first",
     .scopes = one_scope,
     .fill = fill_agent_list,
     .act = act_migrating_write},
};
const unsigned scenario_count = ARRAY_SIZE(scenarios);

const struct scenario *scenario_find(const char *name)
{
    for (unsigned i = 0; i < scenario_count; i++) {
        if (strcmp(scenarios[i].name, name) == 0)
            return &scenarios[i];
    }
    return NULL;
}
