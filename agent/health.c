#include "agent/health.h"

void health_serve(struct health *health, uint64_t now_ns)
{
    atomic_store(&health->serving_ns, now_ns);
    atomic_store(&health->overseer_ns, now_ns);
    atomic_store(&health->stage, HEALTH_SERVING);
}

/* A start that failed half-way never served. */
void health_stop(struct health *health)
{
    enum health_stage expected = HEALTH_SERVING;

    (void) atomic_compare_exchange_strong(&health->stage, &expected, HEALTH_STOPPING);
}

static bool is_silent(const _Atomic uint64_t *turn_ns, uint64_t now_ns, uint64_t patience_ns)
{
    uint64_t turned_ns = atomic_load(turn_ns);

    return now_ns > turned_ns && now_ns - turned_ns > patience_ns;
}

bool health_is_alive(const struct health *health, uint64_t now_ns, uint64_t patience_ns,
                     const char **ret_reason)
{
    if (atomic_load(&health->stage) != HEALTH_SERVING)
        return true;
    if (atomic_load(&health->ended))
        *ret_reason = "the serving loop has ended";
    else if (is_silent(&health->serving_ns, now_ns, patience_ns))
        *ret_reason = "the serving loop does not come round";
    else if (is_silent(&health->overseer_ns, now_ns, patience_ns))
        *ret_reason = "the main thread does not come round";
    else
        return true;
    return false;
}

bool health_is_serving(const struct health *health, const char **ret_reason)
{
    switch (atomic_load(&health->stage)) {
    case HEALTH_STARTING:
        *ret_reason = "starting";
        return false;
    case HEALTH_STOPPING:
        *ret_reason = "stopping";
        return false;
    case HEALTH_SERVING:
        break;
    }
    if (!atomic_load(&health->ended))
        return true;
    *ret_reason = "the serving loop has ended";
    return false;
}
