#include "core/reader_pool.h"

#include "core/clock.h"
#include "core/thread_kind.h"
#include "core/volume_stuck.h"

#include <pthread.h>

/* The caller begins alone, for that long and for that many indices at the least: what is quick,
 * since the volume is local or its answers are cached, is over before a thread has woken up. */
#define ALONE_NS (50 * NS_PER_US)
#define ALONE_MIN 2
/* Each thread that is woken should find that much to do: waking one costs as much as 50 looks. */
#define WORTH_WAKING_NS (500 * NS_PER_US)
/* Indices are taken in bunches of about that much work, so that the lock is not what it costs. */
#define BUNCH_NS (50 * NS_PER_US)
#define BUNCH_MAX 32

/* One reader_pool_run() under way; lives on its caller's stack. Guarded by the pool's lock. */
struct job {
    reader_pool_work work;
    void *context;
    size_t count;
    size_t next;    /* the first index that nobody has begun */
    size_t bunch;   /* how many are begun at a time */
    size_t running; /* indices begun and not done */
    enum status status;
    struct job *next_job;
};

/* A place for one thread. FREE -> WORKING -> LOST, when its call hangs; FREE again once it has
 * left. */
enum place_state { PLACE_FREE, PLACE_WORKING, PLACE_LOST };

struct place {
    struct reader_pool *pool;
    enum place_state state;
    struct volume_stuck_seat *seat; /* set by its thread */
};

struct reader_pool {
    pthread_mutex_t lock; /* a leaf: no other lock is taken under it, no work is done under it */
    pthread_cond_t wanted;
    pthread_cond_t done; /* a job, or a thread */
    struct job *jobs;
    bool stopping;
    enum reader_pool_mode mode;
    unsigned threads; /* that work; set once */
    unsigned alive;
    unsigned place_count;
    struct place *places;
};

static bool job_has_more(const struct job *job)
{
    return job->status == STATUS_OK && job->next < job->count;
}

/* Calls it for the indices from `from` up to `end`, until one fails. */
static enum status run_range(const struct job *job, size_t from, size_t end)
{
    enum status status = STATUS_OK;

    for (size_t i = from; status == STATUS_OK && i < end; i++)
        status = job->work(job->context, i);
    return status;
}

/* Does a bunch of the job; the lock is held at the call and at the return. */
static void step_locked(struct reader_pool *pool, struct job *job)
{
    size_t from = job->next;
    size_t left = job->count - from;
    size_t end = from + (left < job->bunch ? left : job->bunch);

    job->next = end;
    job->running++;
    pthread_mutex_unlock(&pool->lock);
    enum status status = run_range(job, from, end);
    pthread_mutex_lock(&pool->lock);
    job->running--;
    if (job->status == STATUS_OK)
        job->status = status;
    if (job->running == 0 && !job_has_more(job))
        pthread_cond_broadcast(&pool->done);
}

static struct job *find_job_locked(const struct reader_pool *pool)
{
    for (struct job *job = pool->jobs; job; job = job->next_job) {
        if (job_has_more(job))
            return job;
    }
    return NULL;
}

static void *reader_main(void *context)
{
    struct place *place = context;
    struct reader_pool *pool = place->pool;

    thread_kind_set(THREAD_BACKGROUND);
    pthread_mutex_lock(&pool->lock);
    place->seat = volume_stuck_seat_here();
    while (!pool->stopping && place->state == PLACE_WORKING) {
        struct job *job = find_job_locked(pool);
        if (job)
            step_locked(pool, job);
        else
            pthread_cond_wait(&pool->wanted, &pool->lock);
    }
    place->seat = NULL;
    place->state = PLACE_FREE;
    pool->alive--;
    pthread_cond_broadcast(&pool->done);
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

/* False when none can be started, or all places are taken. */
static bool start_thread_locked(struct reader_pool *pool)
{
    struct place *place = pool->places;
    pthread_attr_t detached;
    pthread_t thread;

    while (place < pool->places + pool->place_count && place->state != PLACE_FREE)
        place++;
    if (place == pool->places + pool->place_count || pthread_attr_init(&detached) != 0)
        return false;
    (void) pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    *place = (struct place){.pool = pool, .state = PLACE_WORKING};
    bool started = pthread_create(&thread, &detached, reader_main, place) == 0;
    (void) pthread_attr_destroy(&detached);
    if (!started)
        place->state = PLACE_FREE;
    pool->alive += started;
    return started;
}

enum status reader_pool_create(unsigned threads, enum reader_pool_mode mode,
                               struct reader_pool **ret)
{
    struct reader_pool *pool = calloc(1, sizeof *pool);
    bool started = true;

    if (!pool)
        return STATUS_NO_MEMORY;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->wanted, NULL);
    pthread_cond_init(&pool->done, NULL);
    pool->mode = mode;
    pool->threads = threads;
    pool->place_count = threads + READER_POOL_SPARES;
    pool->places = calloc(pool->place_count, sizeof *pool->places);
    pthread_mutex_lock(&pool->lock);
    while (pool->places && started && pool->alive < threads)
        started = start_thread_locked(pool);
    pthread_mutex_unlock(&pool->lock);
    if (!pool->places || !started) {
        reader_pool_destroy(&pool);
        return STATUS_NO_MEMORY;
    }
    *ret = pool;
    return STATUS_OK;
}

unsigned reader_pool_size(const struct reader_pool *pool)
{
    return pool->threads + 1;
}

void reader_pool_oversee(struct reader_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    for (unsigned i = 0; i < pool->place_count && !pool->stopping; i++) {
        struct place *place = &pool->places[i];
        if (place->state == PLACE_WORKING && place->seat &&
            volume_stuck_age(place->seat) >= VOLUME_STUCK_NS && start_thread_locked(pool))
            place->state = PLACE_LOST;
    }
    pthread_mutex_unlock(&pool->lock);
}

void reader_pool_destroy(struct reader_pool **pool_address)
{
    struct reader_pool *pool = TAKE_PTR(*pool_address);

    if (!pool)
        return;
    pthread_mutex_lock(&pool->lock);
    pool->stopping = true;
    pthread_cond_broadcast(&pool->wanted);
    while (pool->alive > 0)
        pthread_cond_wait(&pool->done, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
    free(pool->places);
    pthread_cond_destroy(&pool->done);
    pthread_cond_destroy(&pool->wanted);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}

static void remove_job_locked(struct reader_pool *pool, const struct job *job)
{
    struct job **at = &pool->jobs;

    while (*at != job)
        at = &(*at)->next_job;
    *at = job->next_job;
}

/* The beginning, without the lock. How many threads should help with what is left. */
static unsigned begin_alone(struct reader_pool *pool, struct job *job)
{
    uint64_t begun_ns = clock_monotonic_ns();
    uint64_t took_ns = 0;

    while (job_has_more(job) && (job->next < ALONE_MIN || took_ns < ALONE_NS)) {
        job->status = job->work(job->context, job->next++);
        took_ns = clock_monotonic_ns() - begun_ns;
    }
    if (!job_has_more(job))
        return 0;
    uint64_t each_ns = took_ns / job->next + 1;
    uint64_t bunch = BUNCH_NS / each_ns;
    job->bunch = bunch < 1 ? 1 : bunch > BUNCH_MAX ? BUNCH_MAX : bunch;
    uint64_t helpers = each_ns * (job->count - job->next) / WORTH_WAKING_NS;
    return helpers < pool->threads ? (unsigned) helpers : pool->threads;
}

/* All of the job that is left, by this thread and by `helpers` others. */
static enum status run_shared(struct reader_pool *pool, struct job *job, unsigned helpers)
{
    pthread_mutex_lock(&pool->lock);
    job->next_job = pool->jobs;
    pool->jobs = job;
    for (unsigned i = 0; i < helpers; i++)
        pthread_cond_signal(&pool->wanted);
    while (job_has_more(job))
        step_locked(pool, job);
    bool waits = job->running > 0;
    if (waits)
        volume_stuck_begin(VOLUME_STUCK_FOR_OTHERS, -1, "");
    while (job->running > 0)
        pthread_cond_wait(&pool->done, &pool->lock);
    if (waits)
        volume_stuck_end();
    remove_job_locked(pool, job);
    pthread_mutex_unlock(&pool->lock);
    return job->status;
}

enum status reader_pool_run(struct reader_pool *pool, size_t count, reader_pool_work work,
                            void *context)
{
    struct job job = {.work = work, .context = context, .count = count, .bunch = 1};
    unsigned helpers = pool->threads;

    if (helpers > 0 && pool->mode == READER_POOL_MEASURE)
        helpers = begin_alone(pool, &job);
    if (job.status != STATUS_OK)
        return job.status;
    return helpers > 0 ? run_shared(pool, &job, helpers) : run_range(&job, job.next, count);
}
