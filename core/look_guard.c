#include "core/look_guard.h"

#include "core/clock.h"

#include <inttypes.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

struct look {
    uint64_t key; /* of the user; 0: nobody sits here */
    uint64_t begun_ns;
};

struct look_guard {
    pthread_mutex_t lock; /* a leaf */
    pthread_cond_t left;
    struct look looks[LOOKS_MAX];
};

enum status look_guard_create(struct look_guard **ret)
{
    struct look_guard *guard = calloc(1, sizeof *guard);
    pthread_condattr_t monotonic;

    if (!guard)
        return STATUS_NO_MEMORY;
    pthread_mutex_init(&guard->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&guard->left, &monotonic);
    pthread_condattr_destroy(&monotonic);
    *ret = guard;
    return STATUS_OK;
}

void look_guard_destroy(struct look_guard **guard_address)
{
    struct look_guard *guard = TAKE_PTR(*guard_address);

    if (!guard)
        return;
    pthread_cond_destroy(&guard->left);
    pthread_mutex_destroy(&guard->lock);
    free(guard);
}

/* All agents of a user share the manifest that is looked at. Two users with one key would only wait
 * for each other. */
static uint64_t key_of(const struct scope *scope)
{
    struct scope user = *scope;

    memcpy(user.agent, SCOPE_DEFAULT_AGENT, sizeof SCOPE_DEFAULT_AGENT);
    return scope_hash(&user) | 1;
}

struct crowd {
    unsigned looks;     /* of the user */
    uint64_t oldest_ns; /* how long the oldest of them is under way */
    unsigned free_seat; /* LOOKS_MAX: none */
};

static struct crowd look_around_locked(const struct look_guard *guard, uint64_t key,
                                       uint64_t now_ns)
{
    struct crowd crowd = {.free_seat = LOOKS_MAX};

    for (unsigned i = LOOKS_MAX; i-- > 0;) {
        const struct look *look = &guard->looks[i];
        if (look->key == 0)
            crowd.free_seat = i;
        if (look->key != key)
            continue;
        crowd.looks++;
        if (now_ns - look->begun_ns > crowd.oldest_ns)
            crowd.oldest_ns = now_ns - look->begun_ns;
    }
    return crowd;
}

/* Waits until there is room for one more look at the user. */
static struct crowd wait_for_room_locked(struct look_guard *guard, uint64_t key)
{
    uint64_t begun_ns = clock_monotonic_ns();

    for (;;) {
        uint64_t now_ns = clock_monotonic_ns();
        struct crowd crowd = look_around_locked(guard, key, now_ns);
        bool room = crowd.looks < LOOKS_OF_A_USER_MAX && crowd.free_seat < LOOKS_MAX;
        if ((room && crowd.oldest_ns < LOOK_HANGS_NS) || crowd.oldest_ns >= LOOK_HANGS_NS ||
            now_ns - begun_ns >= LOOK_HANGS_NS)
            return crowd;
        struct timespec until = clock_real_after(LOOK_HANGS_NS / 10);
        (void) pthread_cond_timedwait(&guard->left, &guard->lock, &until);
    }
}

enum status look_guard_enter(struct look_guard *guard, const struct scope *scope,
                             unsigned *ret_seat, struct error *error)
{
    uint64_t key = key_of(scope);
    bool seated = false;

    pthread_mutex_lock(&guard->lock);
    struct crowd crowd = wait_for_room_locked(guard, key);
    if (crowd.oldest_ns < LOOK_HANGS_NS && crowd.looks < LOOKS_OF_A_USER_MAX &&
        crowd.free_seat < LOOKS_MAX) {
        guard->looks[crowd.free_seat] = (struct look){.key = key, .begun_ns = clock_monotonic_ns()};
        *ret_seat = crowd.free_seat;
        seated = true;
    }
    pthread_mutex_unlock(&guard->lock);
    return seated ? STATUS_OK
                  : error_set(error, STATUS_UNAVAILABLE, NULL,
                              "the volume does not answer: a look at this user's files is under "
                              "way since %" PRIu64 " ms",
                              crowd.oldest_ns / NS_PER_MS);
}

void look_guard_leave(struct look_guard *guard, unsigned seat)
{
    pthread_mutex_lock(&guard->lock);
    guard->looks[seat] = (struct look){0};
    pthread_cond_broadcast(&guard->left);
    pthread_mutex_unlock(&guard->lock);
}

unsigned look_guard_hanging(struct look_guard *guard, uint64_t *ret_oldest_ns)
{
    uint64_t now_ns = clock_monotonic_ns();
    unsigned hanging = 0;

    *ret_oldest_ns = 0;
    pthread_mutex_lock(&guard->lock);
    for (unsigned i = 0; i < LOOKS_MAX; i++) {
        const struct look *look = &guard->looks[i];
        if (look->key == 0 || now_ns - look->begun_ns < LOOK_HANGS_NS)
            continue;
        hanging++;
        if (now_ns - look->begun_ns > *ret_oldest_ns)
            *ret_oldest_ns = now_ns - look->begun_ns;
    }
    pthread_mutex_unlock(&guard->lock);
    return hanging;
}
