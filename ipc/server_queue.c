#include "ipc/server_private.h"

#include "core/clock.h"
#include "core/condition.h"
#include "core/signature.h"

#include <string.h>

enum status queue_init(struct queue *queue, const struct queue_limits *limits)
{
    queue->limits = *limits;
    queue->done_last = &queue->done;
    queue->next_deadline_ns = CLOCK_NEVER;
    if (pthread_mutex_init(&queue->lock, NULL))
        return STATUS_NO_MEMORY;
    condition_init(&queue->changed);
    return STATUS_OK;
}

static size_t slot_of(const void *id, size_t size)
{
    return (size_t) (signature_digest(id, size) % CLIENT_SLOTS);
}

static struct client **find_client_locked(struct queue *queue, const void *id, size_t size)
{
    struct client **link = &queue->slots[slot_of(id, size)];

    while (*link && ((*link)->id_size != size || memcmp((*link)->id, id, size) != 0))
        link = &(*link)->hash_next;
    return link;
}

static struct client *get_client_locked(struct queue *queue, const void *id, size_t size)
{
    struct client **link = find_client_locked(queue, id, size);

    if (*link || size > sizeof(*link)->id)
        return *link;
    struct client *client = calloc(1, sizeof *client);
    if (!client)
        return NULL;
    memcpy(client->id, id, size);
    client->id_size = size;
    client->last = &client->first;
    *link = client;
    atomic_fetch_add(&queue->clients, 1);
    return client;
}

static void forget_idle_client_locked(struct queue *queue, struct client *client)
{
    if (client->waiting > 0 || client->running > 0 || client->lost > 0)
        return;
    *find_client_locked(queue, client->id, client->id_size) = client->hash_next;
    atomic_fetch_sub(&queue->clients, 1);
    free(client);
}

/* A newcomer is served last. */
static void join_ring_locked(struct queue *queue, struct client *client)
{
    if (!queue->ring) {
        client->ring_next = client;
        client->ring_previous = client;
        queue->ring = client;
        return;
    }
    client->ring_next = queue->ring;
    client->ring_previous = queue->ring->ring_previous;
    client->ring_previous->ring_next = client;
    client->ring_next->ring_previous = client;
}

static void leave_ring_locked(struct queue *queue, struct client *client)
{
    if (queue->ring == client)
        queue->ring = client->ring_next == client ? NULL : client->ring_next;
    client->ring_previous->ring_next = client->ring_next;
    client->ring_next->ring_previous = client->ring_previous;
    client->ring_next = NULL;
    client->ring_previous = NULL;
}

static void join_all_locked(struct queue *queue, struct job *job)
{
    job->all_next = queue->all;
    if (queue->all)
        queue->all->all_previous = job;
    queue->all = job;
    atomic_fetch_add(&queue->outstanding, 1);
}

static void leave_all_locked(struct queue *queue, struct job *job)
{
    if (job->all_previous)
        job->all_previous->all_next = job->all_next;
    else
        queue->all = job->all_next;
    if (job->all_next)
        job->all_next->all_previous = job->all_previous;
    job->all_next = NULL;
    job->all_previous = NULL;
}

static enum status check_limits_locked(const struct queue *queue, const struct client *client,
                                       const struct job *job, struct error *error)
{
    const struct queue_limits *limits = &queue->limits;

    if (client->waiting >= limits->per_client ||
        client->waiting_bytes + job->size > limits->bytes_per_client)
        return error_set(error, STATUS_BUSY, NULL, "this client has %u requests waiting already",
                         client->waiting);
    if (atomic_load(&queue->waiting) >= limits->total ||
        queue->waiting_bytes + job->size > limits->bytes_total)
        return error_set(error, STATUS_BUSY, NULL, "too many requests are waiting");
    return STATUS_OK;
}

static void append_locked(struct queue *queue, struct client *client, struct job *job)
{
    if (client->waiting == 0)
        join_ring_locked(queue, client);
    job->client = client;
    job->next = NULL;
    *client->last = job;
    client->last = &job->next;
    client->waiting++;
    client->waiting_bytes += job->size;
    queue->waiting_bytes += job->size;
    atomic_fetch_add(&queue->waiting, 1);
    join_all_locked(queue, job);
}

enum status queue_put(struct queue *queue, struct job *job, struct error *error)
{
    zmq_msg_t *id = &job->envelope.frames[0];
    enum status status = STATUS_OK;

    pthread_mutex_lock(&queue->lock);
    struct client *client = get_client_locked(queue, zmq_msg_data(id), zmq_msg_size(id));
    if (client) {
        status = check_limits_locked(queue, client, job, error);
        if (status == STATUS_OK)
            append_locked(queue, client, job);
        else
            forget_idle_client_locked(queue, client);
    } else {
        status = error_set(error, STATUS_NO_MEMORY, NULL, "out of memory");
    }
    pthread_mutex_unlock(&queue->lock);
    if (status != STATUS_OK)
        return status;
    if (job->deadline_ns < queue->next_deadline_ns)
        queue->next_deadline_ns = job->deadline_ns;
    (void) pthread_cond_signal(&queue->changed);
    return STATUS_OK;
}

/* Takes a waiting job out of its client's queue; `link` is what points to it. */
static void unlink_waiting_locked(struct queue *queue, struct job **link)
{
    struct job *job = *link;
    struct client *client = job->client;

    *link = job->next;
    if (!job->next)
        client->last = link;
    job->next = NULL;
    client->waiting--;
    client->waiting_bytes -= job->size;
    queue->waiting_bytes -= job->size;
    atomic_fetch_sub(&queue->waiting, 1);
    if (client->waiting == 0)
        leave_ring_locked(queue, client);
}

/* The client whose turn it is and that does not run on its share of threads already. */
static struct client *pick_client_locked(const struct queue *queue)
{
    struct client *client = queue->ring;

    if (!client)
        return NULL;
    do {
        if (client->running < queue->limits.running_per_client)
            return client;
        client = client->ring_next;
    } while (client != queue->ring);
    return NULL;
}

static struct job *take_locked(struct queue *queue)
{
    struct client *client = pick_client_locked(queue);

    if (!client)
        return NULL;
    queue->ring = client->ring_next;
    struct job *job = client->first;
    unlink_waiting_locked(queue, &client->first);
    client->running++;
    job->running = true;
    return job;
}

static bool should_leave_locked(const struct queue *queue)
{
    return queue->quit || queue->threads_alive - queue->threads_leaving >
                              queue->threads_wanted + atomic_load(&queue->lost);
}

struct job *queue_take(struct queue *queue, struct volume_stuck_seat *seat)
{
    struct job *job = NULL;

    pthread_mutex_lock(&queue->lock);
    while (!should_leave_locked(queue) && !(job = take_locked(queue)))
        (void) pthread_cond_wait(&queue->changed, &queue->lock);
    if (job)
        job->seat = seat;
    queue->threads_leaving += job == NULL;
    pthread_mutex_unlock(&queue->lock);
    return job;
}

static bool drop_reference_locked(struct job *job)
{
    return --job->references == 0;
}

/* Its client may have another one run. */
static void leave_client_locked(struct queue *queue, struct job *job)
{
    if (job->lost)
        job->client->lost--;
    else
        job->client->running--;
    forget_idle_client_locked(queue, job->client);
    job->client = NULL;
}

bool queue_finish(struct queue *queue, struct job *job)
{
    bool wake = false;
    bool dead = false;

    pthread_mutex_lock(&queue->lock);
    if (!job->answered)
        leave_client_locked(queue, job);
    job->running = false;
    atomic_fetch_sub(&queue->lost, job->lost);
    leave_all_locked(queue, job);
    if (job->answered) {
        atomic_fetch_add(&queue->late, 1);
        atomic_fetch_sub(&queue->outstanding, 1);
        dead = drop_reference_locked(job);
    } else {
        wake = !queue->done;
        *queue->done_last = job;
        queue->done_last = &job->next;
    }
    /* A client that had reached its share may run again. */
    if (queue->ring)
        (void) pthread_cond_signal(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
    if (dead)
        job_free(job);
    return wake;
}

struct job *queue_take_done(struct queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    struct job *list = queue->done;
    queue->done = NULL;
    queue->done_last = &queue->done;
    for (const struct job *job = list; job; job = job->next)
        atomic_fetch_sub(&queue->outstanding, 1);
    pthread_mutex_unlock(&queue->lock);
    return list;
}

void job_release(struct queue *queue, struct job *job)
{
    pthread_mutex_lock(&queue->lock);
    bool dead = drop_reference_locked(job);
    pthread_mutex_unlock(&queue->lock);
    if (dead)
        job_free(job);
}

static void remove_waiting_locked(struct queue *queue, struct job *job)
{
    struct client *client = job->client;
    struct job **link = &client->first;

    while (*link != job)
        link = &(*link)->next;
    unlink_waiting_locked(queue, link);
    forget_idle_client_locked(queue, client);
    job->client = NULL;
    leave_all_locked(queue, job);
    atomic_fetch_sub(&queue->outstanding, 1);
}

/* Marks it answered; one that waits is taken out, one that runs is kept by its thread as well, of
 * which nobody knows when it comes back. */
static void settle_locked(struct queue *queue, struct job *job)
{
    job->answered = true;
    if (job->running) {
        job->references++;
        leave_client_locked(queue, job);
        atomic_fetch_add(&queue->lost, !job->lost);
        job->lost = true;
    } else {
        remove_waiting_locked(queue, job);
    }
}

static bool hangs(const struct job *job)
{
    return job->running && !job->lost && job->seat &&
           volume_stuck_age(job->seat) >= VOLUME_STUCK_NS;
}

void queue_lose_hanging(struct queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    for (struct job *job = queue->all; job; job = job->all_next) {
        if (!hangs(job))
            continue;
        job->lost = true;
        job->client->running--;
        job->client->lost++;
        atomic_fetch_add(&queue->lost, 1);
        /* Its client may have another one run. */
        (void) pthread_cond_signal(&queue->changed);
    }
    pthread_mutex_unlock(&queue->lock);
}

struct job *queue_expire(struct queue *queue, uint64_t now_ns, bool all)
{
    struct job *list = NULL;
    uint64_t earliest = CLOCK_NEVER;

    if (!all && now_ns < queue->next_deadline_ns)
        return NULL;
    pthread_mutex_lock(&queue->lock);
    for (struct job *job = queue->all, *next = NULL; job; job = next) {
        next = job->all_next;
        if (job->answered)
            continue;
        if (!all && now_ns < job->deadline_ns) {
            if (job->deadline_ns < earliest)
                earliest = job->deadline_ns;
            continue;
        }
        settle_locked(queue, job);
        job->next = list;
        list = job;
    }
    pthread_mutex_unlock(&queue->lock);
    queue->next_deadline_ns = earliest;
    return list;
}

static bool is_client(const struct client *client, zmq_msg_t *id)
{
    return client->id_size == zmq_msg_size(id) &&
           memcmp(client->id, zmq_msg_data(id), client->id_size) == 0;
}

static bool is_orphan(const struct job *job, int connection, zmq_msg_t *id)
{
    if (job->answered)
        return false;
    if (id)
        return job->connection != connection && is_client(job->client, id);
    return job->connection == connection && job->client->id[0] != 0;
}

void queue_abandon(struct queue *queue, int connection, zmq_msg_t *id)
{
    struct job *dropped = NULL;

    if (atomic_load(&queue->outstanding) == 0)
        return;
    pthread_mutex_lock(&queue->lock);
    for (struct job *job = queue->all, *next = NULL; job; job = next) {
        next = job->all_next;
        if (!is_orphan(job, connection, id))
            continue;
        settle_locked(queue, job);
        job->next = dropped;
        dropped = job;
    }
    pthread_mutex_unlock(&queue->lock);
    while (dropped) {
        struct job *job = dropped;
        dropped = job->next;
        job_release(queue, job);
    }
}

void queue_quit(struct queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    queue->quit = true;
    (void) pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
}

void queue_clear(struct queue *queue)
{
    struct job *list = queue_expire(queue, 0, true);

    while (list) {
        struct job *job = list;
        list = job->next;
        job_free(job);
    }
    list = queue_take_done(queue);
    while (list) {
        struct job *job = list;
        list = job->next;
        job_free(job);
    }
    (void) pthread_cond_destroy(&queue->changed);
    (void) pthread_mutex_destroy(&queue->lock);
}
