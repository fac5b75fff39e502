/* agent/health.h - whether the process is alive, and whether it serves; for /healthz and /readyz.
 *
 * Threads that must come round leave the time at which they last did, and whoever asks compares.
 * Thread-safe, without a lock.
 */
#ifndef MEMSYNC_AGENT_HEALTH_H
#define MEMSYNC_AGENT_HEALTH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum health_stage {
    HEALTH_STARTING, /* zeroed: not everything is there yet */
    HEALTH_SERVING,
    HEALTH_STOPPING,
};

struct health {
    _Atomic enum health_stage stage;
    atomic_bool ended;            /* the serving loop has ended by itself */
    _Atomic uint64_t serving_ns;  /* when the serving loop last came round */
    _Atomic uint64_t overseer_ns; /* when the main thread did */
};

/* Everything is there from here on; until the threads come round they count as if they had. */
void health_serve(struct health *health, uint64_t now_ns);

/* What has begun to serve is being stopped. */
void health_stop(struct health *health);

/* How long a thread may be silent where no watchdog says it. */
#define HEALTH_PATIENCE_NS UINT64_C(30000000000)

/* Until the threads are started, and once they are being stopped, nobody expects them to come
 * round. False: `ret_reason` says who does not. */
bool health_is_alive(const struct health *health, uint64_t now_ns, uint64_t patience_ns,
                     const char **ret_reason);

/* False: `ret_reason` says why no requests are served. */
bool health_is_serving(const struct health *health, const char **ret_reason);

#endif
