#include "ipc/server_private.h"

#include "core/clock.h"
#include "core/log.h"

#include <string.h>
#include <time.h>

/* How often those that run are looked after. */
#define HANGING_LOOK_NS (250 * NS_PER_MS)

/* How long the end waits for threads that have a request, which has had its time. Those that have
 * none leave as soon as the scheduler lets them. */
#define THREADS_END_MS 200
#define THREADS_LOOK_NS (20 * NS_PER_MS)

static void run_job(struct worker *worker, struct job *job)
{
    struct server *server = worker->server;

    atomic_store(&worker->started_ns, clock_monotonic_ns());
    request_run(server, job, worker->number);
    atomic_store(&worker->started_ns, 0);
    if (queue_finish(&server->queue, job))
        server_wake(server);
}

/* The last thread of a server that was destroyed meanwhile frees it. */
static void leave(struct worker *worker)
{
    struct server *server = worker->server;
    struct queue *queue = &server->queue;

    pthread_mutex_lock(&queue->lock);
    worker->alive = false;
    queue->threads_alive--;
    queue->threads_leaving--;
    bool last = server->orphaned && queue->threads_alive == 0;
    (void) pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
    if (last)
        server_free(server);
}

static void *run_thread(void *argument)
{
    struct worker *worker = argument;
    struct job *job = NULL;

    while ((job = queue_take(&worker->server->queue, volume_stuck_seat_here())))
        run_job(worker, job);
    leave(worker);
    return NULL;
}

static int start_detached(struct worker *worker)
{
    pthread_attr_t detached;
    int failed = pthread_attr_init(&detached);

    if (failed)
        return failed;
    (void) pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    failed = pthread_create(&worker->thread, &detached, run_thread, worker);
    (void) pthread_attr_destroy(&detached);
    return failed;
}

/* Starts one in the first place that is free, which there must be. */
static enum status start_thread_locked(struct server *server, struct error *error)
{
    struct worker *worker = server->workers;

    while (worker->alive)
        worker++;
    worker->server = server;
    worker->number = (unsigned) (worker - server->workers) + 1;
    int failed = start_detached(worker);
    if (failed)
        return error_set_errno(error, failed, NULL, "cannot start request thread %u",
                               worker->number);
    worker->alive = true;
    server->queue.threads_alive++;
    return STATUS_OK;
}

enum status threads_start(struct server *server, struct error *error)
{
    struct queue *queue = &server->queue;
    enum status status = STATUS_OK;

    pthread_mutex_lock(&queue->lock);
    queue->threads_wanted = server->options.threads;
    while (status == STATUS_OK && queue->threads_alive < queue->threads_wanted)
        status = start_thread_locked(server, error);
    pthread_mutex_unlock(&queue->lock);
    return status;
}

/* A call that hangs may do so for long before its request has to be answered. */
static void lose_hanging(struct server *server)
{
    uint64_t now_ns = clock_monotonic_ns();

    if (now_ns < server->hanging_due_ns)
        return;
    server->hanging_due_ns = now_ns + HANGING_LOOK_NS;
    queue_lose_hanging(&server->queue);
}

void threads_replace_lost(struct server *server)
{
    struct queue *queue = &server->queue;
    struct error error = {0};
    enum status status = STATUS_OK;

    if (atomic_load(&queue->outstanding) > 0)
        lose_hanging(server);
    unsigned lost = atomic_load(&queue->lost);
    if (lost == 0)
        return;
    pthread_mutex_lock(&queue->lock);
    lost = atomic_load(&queue->lost);
    unsigned wanted =
        queue->threads_wanted + (lost < SERVER_THREADS_SPARE ? lost : SERVER_THREADS_SPARE);
    if (!queue->quit && queue->threads_alive < wanted)
        status = start_thread_locked(server, &error);
    pthread_mutex_unlock(&queue->lock);
    if (status != STATUS_OK)
        log_debug("server.thread", "reason=%s", LOG_VALUE(error.message));
}

static unsigned count_busy_locked(const struct server *server)
{
    unsigned count = 0;

    for (size_t i = 0; i < ARRAY_SIZE(server->workers); i++)
        count += server->workers[i].alive && atomic_load(&server->workers[i].started_ns) != 0;
    return count;
}

static unsigned wait_for_end(struct server *server)
{
    struct queue *queue = &server->queue;
    uint64_t until_ns = clock_deadline_ms(THREADS_END_MS);

    pthread_mutex_lock(&queue->lock);
    while (queue->threads_alive > 0 &&
           (clock_remaining_ms(until_ns) > 0 || count_busy_locked(server) < queue->threads_alive)) {
        struct timespec until = clock_real_after(THREADS_LOOK_NS);
        (void) pthread_cond_timedwait(&queue->changed, &queue->lock, &until);
    }
    unsigned alive = queue->threads_alive;
    pthread_mutex_unlock(&queue->lock);
    return alive;
}

unsigned threads_stop(struct server *server)
{
    queue_quit(&server->queue);
    return wait_for_end(server);
}
