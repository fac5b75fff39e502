#include "core/reader_pool.h"

#include <pthread.h>

/* Fewer indices than this are done by the caller alone: waking a thread costs more. */
#define ALONE_MAX 4

/* One reader_pool_run() under way; lives on its caller's stack. Guarded by the pool's lock. */
struct job {
    reader_pool_work work;
    void *context;
    size_t count;
    size_t next;    /* the first index that nobody has begun */
    size_t running; /* indices begun and not done */
    enum status status;
    struct job *next_job;
};

struct reader_pool {
    pthread_mutex_t lock; /* a leaf: no other lock is taken under it, no work is done under it */
    pthread_cond_t wanted;
    pthread_cond_t done;
    struct job *jobs;
    bool stopping;
    unsigned threads;
    pthread_t *handles;
};

static bool job_has_more(const struct job *job)
{
    return job->status == STATUS_OK && job->next < job->count;
}

/* Does one index of the job; the lock is held at the call and at the return. */
static void step_locked(struct reader_pool *pool, struct job *job)
{
    size_t index = job->next++;

    job->running++;
    pthread_mutex_unlock(&pool->lock);
    enum status status = job->work(job->context, index);
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
    struct reader_pool *pool = context;

    pthread_mutex_lock(&pool->lock);
    while (!pool->stopping) {
        struct job *job = find_job_locked(pool);
        if (job)
            step_locked(pool, job);
        else
            pthread_cond_wait(&pool->wanted, &pool->lock);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

enum status reader_pool_create(unsigned threads, struct reader_pool **ret)
{
    struct reader_pool *pool = calloc(1, sizeof *pool);

    if (!pool)
        return STATUS_NO_MEMORY;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->wanted, NULL);
    pthread_cond_init(&pool->done, NULL);
    pool->handles = calloc(threads ? threads : 1, sizeof *pool->handles);
    while (pool->handles && pool->threads < threads &&
           pthread_create(&pool->handles[pool->threads], NULL, reader_main, pool) == 0)
        pool->threads++;
    if (!pool->handles || pool->threads < threads) {
        reader_pool_destroy(&pool);
        return STATUS_NO_MEMORY;
    }
    *ret = pool;
    return STATUS_OK;
}

void reader_pool_destroy(struct reader_pool **pool_address)
{
    struct reader_pool *pool = TAKE_PTR(*pool_address);

    if (!pool)
        return;
    pthread_mutex_lock(&pool->lock);
    pool->stopping = true;
    pthread_cond_broadcast(&pool->wanted);
    pthread_mutex_unlock(&pool->lock);
    for (unsigned i = 0; i < pool->threads; i++)
        pthread_join(pool->handles[i], NULL);
    free(pool->handles);
    pthread_cond_destroy(&pool->done);
    pthread_cond_destroy(&pool->wanted);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}

static enum status run_alone(size_t count, reader_pool_work work, void *context)
{
    for (size_t i = 0; i < count; i++) {
        enum status status = work(context, i);
        if (status != STATUS_OK)
            return status;
    }
    return STATUS_OK;
}

static void remove_job_locked(struct reader_pool *pool, const struct job *job)
{
    struct job **at = &pool->jobs;

    while (*at != job)
        at = &(*at)->next_job;
    *at = job->next_job;
}

enum status reader_pool_run(struct reader_pool *pool, size_t count, reader_pool_work work,
                            void *context)
{
    struct job job = {.work = work, .context = context, .count = count};

    if (pool->threads == 0 || count <= ALONE_MAX)
        return run_alone(count, work, context);

    pthread_mutex_lock(&pool->lock);
    job.next_job = pool->jobs;
    pool->jobs = &job;
    pthread_cond_broadcast(&pool->wanted);
    while (job_has_more(&job))
        step_locked(pool, &job);
    while (job.running > 0)
        pthread_cond_wait(&pool->done, &pool->lock);
    remove_job_locked(pool, &job);
    pthread_mutex_unlock(&pool->lock);
    return job.status;
}
