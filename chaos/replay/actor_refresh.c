#include "chaos/replay/actor_private.h"
#include "core/refresher.h"
#include "tests/support/files.h"

#include <stdio.h>

/* The store as this run sees it: the same volume, index and queue, another table and other
 * counters. */
static void make_view(const struct store *store, struct store *ret)
{
    ret->volume = store->volume;
    ret->buckets = store->buckets;
    ret->locks = store->locks;
    ret->recovery = store->recovery;
    ret->pool = store->pool;
    ret->source = store->source;
    ret->index = store->index;
    ret->installs = store->installs;
    ret->notes = store->notes;
    ret->looks = store->looks;
    ret->read_only = store->read_only;
    if (refresh_table_create(&ret->refreshes) != STATUS_OK)
        test_die("no memory for a refresh");
}

static void run_refresh(struct actor_thread *thread)
{
    struct actor *actor = thread->actor;
    struct store *view = calloc(1, sizeof *view);
    struct index_reader *reader = NULL;
    struct refresh_run run;
    struct refresh_result result;
    uint64_t number;

    if (!view || index_reader_create(actor->store->store->index, &reader, NULL) != STATUS_OK)
        test_die("no memory for a refresh");
    make_view(actor->store->store, view);
    const struct scope *scope = &actor->scopes[thread - actor->threads];
    if (refresh_request(view->refreshes, scope, REFRESH_URGENT, REFRESH_WISH_FULL, &number) !=
            STATUS_OK ||
        !refresh_claim(view->refreshes, scope, &run))
        test_die("no memory for a refresh");
    refresher_run(view, reader, &run, &result);
    thread->status = result.status;
    refresh_table_destroy(&view->refreshes);
    index_reader_destroy(&reader);
    free(view);
}

struct actor *actor_refresh(struct temp_store *store, const struct step_scope *scopes, size_t count,
                            unsigned first_number)
{
    struct actor *actor = actor_create(store, count, first_number, run_refresh);

    for (size_t i = 0; i < count; i++) {
        char name[2 * STEP_NAME_SIZE];
        (void) snprintf(name, sizeof name, "%s/%s", scopes[i].user, scopes[i].agent);
        temp_store_scope(name, &actor->scopes[i]);
    }
    return actor;
}
