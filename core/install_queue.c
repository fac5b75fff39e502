#include "core/install_queue.h"

#include <assert.h>
#include <pthread.h>

struct install_queue {
    pthread_mutex_t lock; /* a leaf */
    pthread_cond_t turn;
    uint64_t next; /* the place that the next comer gets */
    uint64_t now;  /* whose turn it is */
};

enum status install_queue_create(struct install_queue **ret)
{
    struct install_queue *queue = calloc(1, sizeof *queue);

    if (!queue)
        return STATUS_NO_MEMORY;
    pthread_mutex_init(&queue->lock, NULL);
    pthread_cond_init(&queue->turn, NULL);
    *ret = queue;
    return STATUS_OK;
}

void install_queue_destroy(struct install_queue **queue_address)
{
    struct install_queue *queue = TAKE_PTR(*queue_address);

    if (!queue)
        return;
    pthread_cond_destroy(&queue->turn);
    pthread_mutex_destroy(&queue->lock);
    free(queue);
}

uint64_t install_queue_enter(struct install_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    uint64_t place = queue->next++;
    pthread_mutex_unlock(&queue->lock);
    return place;
}

void install_queue_wait(struct install_queue *queue, uint64_t place)
{
    pthread_mutex_lock(&queue->lock);
    while (queue->now != place)
        pthread_cond_wait(&queue->turn, &queue->lock);
    pthread_mutex_unlock(&queue->lock);
}

void install_queue_leave(struct install_queue *queue, uint64_t place)
{
    pthread_mutex_lock(&queue->lock);
    assert(queue->now == place);
    queue->now++;
    pthread_cond_broadcast(&queue->turn);
    pthread_mutex_unlock(&queue->lock);
}

bool install_queue_try(struct install_queue *queue, uint64_t *ret_place)
{
    pthread_mutex_lock(&queue->lock);
    bool idle = queue->now == queue->next;
    if (idle)
        *ret_place = queue->next++;
    pthread_mutex_unlock(&queue->lock);
    return idle;
}

unsigned install_queue_length(struct install_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    unsigned length = (unsigned) (queue->next - queue->now);
    pthread_mutex_unlock(&queue->lock);
    return length;
}
