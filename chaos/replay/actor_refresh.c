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
    ret->progress = store->progress;
    ret->own_writes = store->own_writes;
    ret->errands = store->errands;
    ret->read_only = store->read_only;
    if (refresh_table_create(&ret->refreshes) != STATUS_OK)
        test_die("no memory for a refresh");
}

static void run_in(struct store *store, struct index_reader *reader, const struct scope *scope,
                   unsigned wishes, struct refresh_result *ret)
{
    struct refresh_run run;
    uint64_t number;

    if (refresh_request(store->refreshes, scope, REFRESH_URGENT, REFRESH_CAUSE_SEARCH, wishes,
                        &number) != STATUS_OK ||
        !refresh_claim(store->refreshes, scope, &run))
        test_die("the scope is being refreshed already");
    refresher_run(store, reader, &run, ret);
}

static void run_refresh(struct actor_thread *thread)
{
    struct actor *actor = thread->actor;
    struct store *view = calloc(1, sizeof *view);
    struct index_reader *reader = NULL;
    struct refresh_result result;

    if (!view || index_reader_create(actor->store->store->index, &reader, NULL) != STATUS_OK)
        test_die("no memory for a refresh");
    make_view(actor->store->store, view);
    run_in(actor->kind == REFRESH_IN_TABLE ? actor->store->store : view, reader,
           &actor->scopes[thread - actor->threads],
           actor->kind == REFRESH_INCREMENTAL ? REFRESH_WISH_NONE : REFRESH_WISH_FULL, &result);
    thread->status = result.status;
    refresh_table_destroy(&view->refreshes);
    index_reader_destroy(&reader);
    free(view);
}

struct actor *actor_refresh(struct temp_store *store, const struct step_scope *scopes, size_t count,
                            unsigned first_number, enum refresh_kind kind)
{
    struct actor *actor = actor_create(store, count, first_number, run_refresh);

    actor->kind = kind;
    for (size_t i = 0; i < count; i++) {
        char name[2 * STEP_NAME_SIZE];
        (void) snprintf(name, sizeof name, "%s/%s", scopes[i].user, scopes[i].agent);
        temp_store_scope(name, &actor->scopes[i]);
    }
    return actor;
}
