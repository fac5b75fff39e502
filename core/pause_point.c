#include "core/pause_point.h"

#include "core/compiler.h"

#include <string.h>

#define PAUSE_POINT_NAME(name) [PAUSE_##name] = #name,
static const char *const point_names[PAUSE_POINT_COUNT] = {PAUSE_POINTS(PAUSE_POINT_NAME)};

const char *pause_point_name(enum pause_point point)
{
    return (unsigned) point < PAUSE_POINT_COUNT ? point_names[point] : "unknown";
}

bool pause_point_from_name(const char *name, enum pause_point *ret)
{
    for (unsigned i = 0; i < PAUSE_POINT_COUNT; i++) {
        if (strcmp(point_names[i], name) == 0) {
            *ret = (enum pause_point) i;
            return true;
        }
    }
    return false;
}

#ifdef MEMSYNC_PAUSE_POINTS

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define ORDER_BYTES_MAX 512

/* IDLE  -> ARMED  pause_arm()       a test
 * ARMED -> HELD   pause_here()      the thread that arrives, once `skip` others have passed
 * HELD  -> IDLE   pause_release()   the test; the thread goes on
 *
 * Everything is guarded by `lock`; both sides wait on `changed`. */
enum point_state { POINT_IDLE, POINT_ARMED, POINT_HELD };

struct point {
    enum point_state state;
    unsigned skip;    /* arrivals that still pass */
    unsigned kill_in; /* 0: never; 1: the next arrival kills the process */
    unsigned visits;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct point points[PAUSE_POINT_COUNT];
static const char *orders_path; /* where a test leaves its orders; NULL: it has none */
static int trace_fd = -1;

static void obey_locked(const char *order)
{
    char name[64];
    unsigned nth = 1;
    enum pause_point point;

    if (strncmp(order, "trace:", strlen("trace:")) == 0) {
        cleanup_close(&trace_fd);
        trace_fd = open(order + strlen("trace:"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    } else if (sscanf(order, "kill:%63[A-Z_]:%u", name, &nth) >= 1 &&
               pause_point_from_name(name, &point)) {
        points[point].kill_in = nth;
    }
}

static void look_for_orders_locked(void)
{
    char order[ORDER_BYTES_MAX];
    AUTO_CLOSE int fd = orders_path ? open(orders_path, O_RDONLY | O_CLOEXEC) : -1;

    if (fd < 0)
        return;
    ssize_t size = read(fd, order, sizeof order - 1);
    (void) unlink(orders_path);
    order[size > 0 ? size : 0] = '\0';
    obey_locked(order);
}

static void trace_locked(enum pause_point point)
{
    char line[64];
    int length = snprintf(line, sizeof line, "%s\n", pause_point_name(point));

    if (trace_fd >= 0 && write(trace_fd, line, (size_t) length) != length)
        abort(); /* a trace with gaps would mislead whoever reads it */
}

_Static_assert(PAUSE_POINT_COUNT <= 64, "a set of points is a 64-bit word");

struct actor {
    enum pause_actor_state state;
    enum pause_point at; /* while it is held */
    uint64_t stops;
    unsigned fail_in[PAUSE_POINT_COUNT]; /* 0: never; 1: the next step there fails */
    unsigned visits[PAUSE_POINT_COUNT];
};

static struct actor actors[PAUSE_ACTORS_MAX];
static _Thread_local unsigned own_actor; /* 0: nobody */
static _Atomic(pause_visitor) visitor;

static void hold_actor_locked(struct actor *actor, enum pause_point point)
{
    actor->visits[point]++;
    if (!(actor->stops >> point & 1))
        return;
    actor->stops = PAUSE_SET_NONE;
    actor->state = PAUSE_ACTOR_HELD;
    actor->at = point;
    pthread_cond_broadcast(&changed);
    while (actor->state == PAUSE_ACTOR_HELD)
        pthread_cond_wait(&changed, &lock);
}

static void hold_anybody_locked(struct point *here)
{
    if (here->state == POINT_ARMED && here->skip > 0) {
        here->skip--;
    } else if (here->state == POINT_ARMED) {
        here->state = POINT_HELD;
        pthread_cond_broadcast(&changed);
        while (here->state == POINT_HELD)
            pthread_cond_wait(&changed, &lock);
    }
}

void pause_here(enum pause_point point)
{
    pause_visitor visit = visitor;

    if (visit)
        visit(point);
    pthread_mutex_lock(&lock);
    struct point *here = &points[point];
    look_for_orders_locked();
    trace_locked(point);
    here->visits++;
    if (here->kill_in > 0 && --here->kill_in == 0)
        (void) raise(SIGKILL);
    if (own_actor)
        hold_actor_locked(&actors[own_actor], point);
    else
        hold_anybody_locked(here);
    pthread_mutex_unlock(&lock);
}

bool pause_fails(enum pause_point point)
{
    pthread_mutex_lock(&lock);
    unsigned *fail_in = &actors[own_actor].fail_in[point];
    bool fails = *fail_in > 0 && --*fail_in == 0;
    pthread_mutex_unlock(&lock);
    return fails;
}

void pause_actor_enter(unsigned actor)
{
    own_actor = actor;
    pthread_mutex_lock(&lock);
    actors[actor].state = PAUSE_ACTOR_RUNNING;
    pthread_mutex_unlock(&lock);
}

void pause_actor_leave(void)
{
    pthread_mutex_lock(&lock);
    actors[own_actor].state = PAUSE_ACTOR_ENDED;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    own_actor = 0;
}

void pause_actor_go(unsigned actor, uint64_t stops)
{
    pthread_mutex_lock(&lock);
    actors[actor].stops = stops;
    if (actors[actor].state == PAUSE_ACTOR_HELD)
        actors[actor].state = PAUSE_ACTOR_RUNNING;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

void pause_actor_forget(unsigned actor)
{
    pthread_mutex_lock(&lock);
    memset(&actors[actor], 0, sizeof actors[actor]);
    pthread_mutex_unlock(&lock);
}

void pause_actor_fail_at(unsigned actor, enum pause_point point, unsigned nth)
{
    pthread_mutex_lock(&lock);
    actors[actor].fail_in[point] = nth;
    pthread_mutex_unlock(&lock);
}

unsigned pause_actor_visits(unsigned actor, enum pause_point point)
{
    pthread_mutex_lock(&lock);
    unsigned visits = actors[actor].visits[point];
    pthread_mutex_unlock(&lock);
    return visits;
}

void pause_set_visitor(pause_visitor new_visitor)
{
    visitor = new_visitor;
}

void pause_arm_after(enum pause_point point, unsigned skip)
{
    pthread_mutex_lock(&lock);
    points[point].state = POINT_ARMED;
    points[point].skip = skip;
    pthread_mutex_unlock(&lock);
}

void pause_arm(enum pause_point point)
{
    pause_arm_after(point, 0);
}

static struct timespec time_ahead(unsigned timeout_ms)
{
    struct timespec until;

    (void) clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += timeout_ms / 1000;
    until.tv_nsec += (long) (timeout_ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    return until;
}

enum pause_actor_state pause_actor_wait(unsigned actor, unsigned timeout_ms,
                                        enum pause_point *ret_point)
{
    const struct timespec until = time_ahead(timeout_ms);

    pthread_mutex_lock(&lock);
    const struct actor *waited = &actors[actor];
    while (waited->state != PAUSE_ACTOR_HELD && waited->state != PAUSE_ACTOR_ENDED &&
           pthread_cond_timedwait(&changed, &lock, &until) == 0)
        continue;
    enum pause_actor_state state = waited->state;
    if (state == PAUSE_ACTOR_HELD)
        *ret_point = waited->at;
    pthread_mutex_unlock(&lock);
    return state;
}

bool pause_wait_reached(enum pause_point point, unsigned timeout_ms)
{
    const struct timespec until = time_ahead(timeout_ms);

    pthread_mutex_lock(&lock);
    while (points[point].state != POINT_HELD &&
           pthread_cond_timedwait(&changed, &lock, &until) == 0)
        continue;
    bool reached = points[point].state == POINT_HELD;
    pthread_mutex_unlock(&lock);
    return reached;
}

void pause_release(enum pause_point point)
{
    pthread_mutex_lock(&lock);
    points[point].state = POINT_IDLE;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

void pause_kill_at(enum pause_point point, unsigned nth)
{
    pthread_mutex_lock(&lock);
    points[point].kill_in = nth;
    pthread_mutex_unlock(&lock);
}

unsigned pause_visits(enum pause_point point)
{
    pthread_mutex_lock(&lock);
    unsigned visits = points[point].visits;
    pthread_mutex_unlock(&lock);
    return visits;
}

void pause_reset(void)
{
    pthread_mutex_lock(&lock);
    memset(points, 0, sizeof points);
    memset(actors, 0, sizeof actors);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

void pause_configure_from_environment(void)
{
    const char *wish = getenv("MEMSYNC_PAUSE");

    if (!wish)
        return;
    pthread_mutex_lock(&lock);
    if (strncmp(wish, "orders:", strlen("orders:")) == 0)
        orders_path = wish + strlen("orders:");
    else
        obey_locked(wish);
    pthread_mutex_unlock(&lock);
}

#endif
