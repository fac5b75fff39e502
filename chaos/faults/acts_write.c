/* Writing while something fails. Each act ends with the first write that is refused. */
#include "chaos/faults/scenario.h"

#define CREATE "{\"content\": \"note new\"}"
#define MEMBERS "\"category\": \"context\", \"confidence\": 0.8"

void act_create(struct world *world)
{
    (void) judge_write(world, deermem_create_fact, CREATE, "new,one,three,two");
}

void act_update(struct world *world)
{
    (void) judge_write(world, deermem_update_fact,
                       "{\"fact_id\": \"f1\", \"content\": \"note uno\"}", "three,two,uno");
}

void act_delete(struct world *world)
{
    (void) judge_write(world, deermem_delete_fact, "{\"fact_id\": \"f2\"}", "one,three");
}

void act_apply(struct world *world)
{
    (void) judge_write(
        world, deermem_apply_changes,
        "{\"upserts\": [{\"id\": \"f1\", \"content\": \"note uno\", \"revision\": 1," MEMBERS "},"
        "{\"id\": \"f4\", \"content\": \"note four\"," MEMBERS "}], \"deletes\": [\"f3\"],"
        "\"summaries\": {\"user\": {\"workContext\": {\"summary\": \"new\"}}}}",
        "four,two,uno|new");
}

void act_import(struct world *world)
{
    (void) judge_write(
        world, deermem_import_memory,
        "{\"memory_data\": {\"facts\": [{\"id\": \"f1\", \"content\": \"note one\"," MEMBERS "},"
        "{\"id\": \"f7\", \"content\": \"note seven\"," MEMBERS "}],"
        "\"user\": {\"workContext\": {\"summary\": \"imported\"}}}}",
        "one,seven|imported");
}

void act_clear(struct world *world)
{
    (void) judge_write(world, deermem_clear_memory, "{\"agent_name\": \"a\"}", "");
}

void act_summaries(struct world *world)
{
    (void) judge_write(world, deermem_update_summaries,
                       "{\"summaries\": {\"user\": {\"workContext\": {\"summary\": \"new\"}}}}",
                       "one,three,two|new");
}

void act_first_write(struct world *world)
{
    (void) judge_write(world, deermem_create_fact, CREATE, "new");
}

void act_write_and_search(struct world *world)
{
    if (!judge_write(world, deermem_create_fact, CREATE, "new,one,three,two"))
        return;
    (void) judge_read(world, deermem_search, "u/a", SEARCH_ALL);
    if (judge_write(world, deermem_delete_fact, "{\"fact_id\": \"f1\"}", "new,three,two"))
        (void) judge_read(world, deermem_search, "u/a", SEARCH_ALL);
}

void act_migrate(struct world *world)
{
    (void) judge_write(world, deermem_migrate, "{}", "one,two");
}

void act_migrating_write(struct world *world)
{
    (void) judge_write(world, deermem_create_fact, CREATE, "new,one,two");
}

/* Told what would come of it, and nothing has changed. */
void act_try_import(struct world *world)
{
    (void) judge_write(world, deermem_import_memory,
                       "{\"dry_run\": true, \"memory_data\": {\"facts\": [{\"id\": \"f7\","
                       "\"content\": \"note seven\"," MEMBERS "}]}}",
                       "one,two");
}
