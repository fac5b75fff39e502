#include "ipc/server_private.h"

#include "core/clock.h"
#include "core/log.h"

#include <string.h>
#include <time.h>

/* How long the end waits for threads that have nothing to do any more. */
#define THREADS_END_MS 200

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
static void leave(struct server *server)
{
    pthread_mutex_lock(&server->queue.lock);
    server->workers_alive--;
    bool last = server->orphaned && server->workers_alive == 0;
    (void) pthread_cond_broadcast(&server->queue.changed);
    pthread_mutex_unlock(&server->queue.lock);
    if (last)
        server_free(server);
}

static void *run_thread(void *argument)
{
    struct worker *worker = argument;
    struct job *job = NULL;

    while ((job = queue_take(&worker->server->queue)))
        run_job(worker, job);
    leave(worker->server);
    return NULL;
}

enum status threads_start(struct server *server, struct error *error)
{
    for (unsigned i = 0; i < server->options.threads; i++) {
        struct worker *worker = &server->workers[i];

        worker->server = server;
        worker->number = i + 1;
        pthread_mutex_lock(&server->queue.lock);
        int failed = pthread_create(&worker->thread, NULL, run_thread, worker);
        if (!failed) {
            server->workers_started++;
            server->workers_alive++;
        }
        pthread_mutex_unlock(&server->queue.lock);
        if (failed)
            return error_set_errno(error, failed, NULL, "cannot start request thread %u", i + 1);
    }
    return STATUS_OK;
}

static unsigned wait_for_end(struct server *server)
{
    struct timespec until;

    (void) clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += THREADS_END_MS * (long) NS_PER_MS;
    until.tv_sec += until.tv_nsec / (long) NS_PER_SECOND;
    until.tv_nsec %= (long) NS_PER_SECOND;

    pthread_mutex_lock(&server->queue.lock);
    while (server->workers_alive > 0 &&
           pthread_cond_timedwait(&server->queue.changed, &server->queue.lock, &until) == 0)
        continue;
    unsigned alive = server->workers_alive;
    pthread_mutex_unlock(&server->queue.lock);
    return alive;
}

unsigned threads_stop(struct server *server)
{
    queue_quit(&server->queue);
    unsigned stuck = wait_for_end(server);

    for (unsigned i = 0; i < server->workers_started; i++) {
        if (stuck > 0)
            (void) pthread_detach(server->workers[i].thread);
        else
            (void) pthread_join(server->workers[i].thread, NULL);
    }
    server->workers_started = 0;
    return stuck;
}
