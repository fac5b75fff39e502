#include "core/own_writes.h"

#include "core/clock.h"
#include "core/condition.h"
#include "core/signature.h"

#include <pthread.h>
#include <string.h>

#define SLOTS 256u

struct slot {
    unsigned active;
    uint64_t ended;
};

struct own_writes {
    pthread_mutex_t lock;
    pthread_cond_t ended;
    struct slot slots[SLOTS];
};

enum status own_writes_create(struct own_writes **ret)
{
    struct own_writes *writes = calloc(1, sizeof *writes);

    if (!writes)
        return STATUS_NO_MEMORY;
    (void) pthread_mutex_init(&writes->lock, NULL);
    condition_init(&writes->ended);
    *ret = writes;
    return STATUS_OK;
}

void own_writes_destroy(struct own_writes **writes)
{
    if (!*writes)
        return;
    (void) pthread_cond_destroy(&(*writes)->ended);
    (void) pthread_mutex_destroy(&(*writes)->lock);
    free(*writes);
    *writes = NULL;
}

static struct slot *slot_of(struct own_writes *writes, const struct scope *scope)
{
    return &writes->slots[signature_digest(scope->bucket, strlen(scope->bucket)) % SLOTS];
}

void own_writes_enter(struct own_writes *writes, const struct scope *scope)
{
    (void) pthread_mutex_lock(&writes->lock);
    slot_of(writes, scope)->active++;
    (void) pthread_mutex_unlock(&writes->lock);
}

void own_writes_leave(struct own_writes *writes, const struct scope *scope)
{
    (void) pthread_mutex_lock(&writes->lock);
    struct slot *slot = slot_of(writes, scope);
    slot->active--;
    slot->ended++;
    (void) pthread_cond_broadcast(&writes->ended);
    (void) pthread_mutex_unlock(&writes->lock);
}

bool own_writes_wait(struct own_writes *writes, const struct scope *scope, unsigned wait_ms)
{
    const struct timespec until = clock_real_after(wait_ms * NS_PER_MS);

    (void) pthread_mutex_lock(&writes->lock);
    const struct slot *slot = slot_of(writes, scope);
    uint64_t ended = slot->ended;
    bool waits = slot->active > 0;
    while (slot->active > 0 && slot->ended == ended &&
           pthread_cond_timedwait(&writes->ended, &writes->lock, &until) == 0)
        continue;
    (void) pthread_mutex_unlock(&writes->lock);
    return waits;
}
