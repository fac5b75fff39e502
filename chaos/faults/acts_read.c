/* Starting and reading while something fails. */
#include "chaos/faults/scenario.h"
#include "tests/support/files.h"

#include <stdio.h>

void act_search(struct world *world)
{
    (void) judge_read(world, deermem_search, world->scopes[0], SEARCH_ALL);
}

void act_open_and_search(struct world *world)
{
    if (world_open(world) == STATUS_OK)
        act_search_both(world);
}

void act_search_both(struct world *world)
{
    for (size_t i = 0; world->scopes[i]; i++)
        (void) judge_read(world, deermem_search, world->scopes[i], SEARCH_ALL);
}

/* No word begins so: the documents are searched for the text itself. */
void act_search_parts(struct world *world)
{
    (void) judge_read(world, deermem_search, world->scopes[0],
                      "{\"query\": \"ote\", \"top_k\": 1000}");
}

void act_read_documents(struct world *world)
{
    (void) judge_read(world, deermem_get_memory, "u/a", "{}");
    (void) judge_read(world, deermem_list_facts, "u/a", "{}");
    (void) judge_read(world, deermem_get_fact, "u/a", "{\"fact_id\": \"f1\"}");
    (void) judge_read(world, deermem_get_summaries, "u/a", "{}");
    (void) judge_read(world, deermem_scopes, "u/a", "{}");
}

void act_reload(struct world *world)
{
    (void) judge_read(world, deermem_reload_memory, "u/a", "{}");
    (void) judge_read(world, deermem_refresh, "u/a", "{\"full\": true}");
}

void act_verify(struct world *world)
{
    (void) judge_read(world, deermem_verify, "u/a", "{}");
}

void act_watch_and_search(struct world *world)
{
    world_watch(world);
    act_search(world);
}

void act_settle(struct world *world)
{
    world_settle(world);
    act_search(world);
}

/* The volume goes away, another one lies there, and it comes back. */
void act_volume_returns(struct world *world)
{
    const char *root = temp_volume_path(world->volume);
    char away[PATH_MAX];

    (void) snprintf(away, sizeof away, "%s.away", root);
    test_rename(root, away);
    world_watch(world);
    test_make_dirs(root);
    world_watch(world);
    test_remove_tree(root);
    test_rename(away, root);
    world_watch(world);
    act_search(world);
}
