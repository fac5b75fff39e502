#include "core/watch_poll.h"

#include "core/clock.h"
#include "core/watch_hash.h"

#include <string.h>

/* Each bucket waits in one queue: in that of its level (level n waits interval_min * 2^n, at most
 * interval_max) or, when it is due at once, in the urgent one. All buckets of a queue wait equally
 * long, so each queue stays in the order of due times by appending, and every operation is O(1) in
 * the number of buckets.
 *
 * Of the queues whose first bucket is due, that one comes first which is latest in proportion to
 * its interval. When the budget does not reach, all intervals grow by the same factor: busy buckets
 * are still looked at more often than idle ones, and nobody starves. */

/* Doubling one nanosecond more often would leave 64 bits. */
#define LEVELS_MAX 65

/* How much unused budget is kept: a tenth of a second's worth. */
#define CREDIT_MAX_NS (NS_PER_SECOND / 10)

struct queue {
    struct entry *head;
    struct entry *tail;
    uint64_t interval_ns;
};

struct entry {
    struct watch_link link; /* first, so that a link is an entry */
    struct entry *previous;
    struct entry *next;
    struct queue *queue; /* NULL while the caller compares it */
    uint64_t due_ns;
    unsigned level; /* how long it waits after the next compare that finds no change */
    bool touched;   /* searched while the caller compared it */
    bool again;     /* made due meanwhile: what the caller sees may be too old */
    bool has_user;
    char bucket[];
};

struct watch_poll {
    struct watch_hash entries;
    struct queue urgent;
    struct queue levels[LEVELS_MAX];
    unsigned level_count;
    /* The budget: one compare costs cost_ns, each nanosecond earns one. */
    uint64_t cost_ns;
    uint64_t credit_ns;
    uint64_t credit_max_ns;
    uint64_t counted_ns; /* when credit_ns was right, or will be: nothing is earned until then */
};

static uint64_t add_time(uint64_t now_ns, uint64_t interval_ns)
{
    return interval_ns > CLOCK_NEVER - now_ns ? CLOCK_NEVER : now_ns + interval_ns;
}

static void create_levels(struct watch_poll *poll, const struct watch_poll_options *options)
{
    uint64_t interval = options->interval_min_ns;

    for (;;) {
        poll->levels[poll->level_count++].interval_ns = interval;
        if (interval >= options->interval_max_ns || poll->level_count == LEVELS_MAX)
            break;
        interval =
            interval > options->interval_max_ns / 2 ? options->interval_max_ns : 2 * interval;
    }
    /* What is new or suspect is urgent only while there is budget to spare: buckets in use go on
     * being looked at while ten thousand new ones wait. */
    poll->urgent.interval_ns = options->interval_max_ns;
}

enum status watch_poll_create(const struct watch_poll_options *options, struct watch_poll **ret)
{
    if (options->interval_min_ns == 0 || options->interval_max_ns < options->interval_min_ns ||
        options->operations_per_second == 0)
        return STATUS_INVALID;

    struct watch_poll *poll = calloc(1, sizeof *poll);
    if (!poll)
        return STATUS_NO_MEMORY;
    create_levels(poll, options);
    poll->cost_ns = NS_PER_SECOND / options->operations_per_second;
    poll->credit_max_ns = poll->cost_ns > CREDIT_MAX_NS ? poll->cost_ns : CREDIT_MAX_NS;
    poll->credit_ns = poll->credit_max_ns;
    *ret = poll;
    return STATUS_OK;
}

static void free_entry(void *context UNUSED, struct watch_link *link)
{
    free(link);
}

void watch_poll_destroy(struct watch_poll **poll)
{
    if (!*poll)
        return;
    watch_hash_each(&(*poll)->entries, free_entry, NULL);
    watch_hash_destroy(&(*poll)->entries);
    free(*poll);
    *poll = NULL;
}

/* ---- queues ---- */

static void append(struct queue *queue, struct entry *entry, uint64_t due_ns)
{
    entry->queue = queue;
    entry->due_ns = due_ns;
    entry->next = NULL;
    entry->previous = queue->tail;
    if (queue->tail)
        queue->tail->next = entry;
    else
        queue->head = entry;
    queue->tail = entry;
}

static void unlink_entry(struct entry *entry)
{
    struct queue *queue = entry->queue;

    if (!queue)
        return;
    if (entry->previous)
        entry->previous->next = entry->next;
    else
        queue->head = entry->next;
    if (entry->next)
        entry->next->previous = entry->previous;
    else
        queue->tail = entry->previous;
    entry->queue = NULL;
}

static struct entry *find(const struct watch_poll *poll, bool has_user, const char *bucket)
{
    struct watch_link *link = watch_hash_first(&poll->entries, watch_hash_bucket(has_user, bucket));

    for (; link; link = watch_hash_next(link)) {
        struct entry *entry = (struct entry *) link;
        if (entry->has_user == has_user && strcmp(entry->bucket, bucket) == 0)
            return entry;
    }
    return NULL;
}

enum status watch_poll_add(struct watch_poll *poll, bool has_user, const char *bucket,
                           uint64_t now_ns)
{
    size_t size = strlen(bucket) + 1;

    if (find(poll, has_user, bucket))
        return STATUS_OK;
    struct entry *entry = calloc(1, sizeof *entry + size);
    if (!entry)
        return STATUS_NO_MEMORY;
    entry->has_user = has_user;
    entry->level = poll->level_count - 1; /* idle until it changes or somebody asks for it */
    memcpy(entry->bucket, bucket, size);
    if (watch_hash_insert(&poll->entries, &entry->link, watch_hash_bucket(has_user, bucket)) !=
        STATUS_OK) {
        free(entry);
        return STATUS_NO_MEMORY;
    }
    append(&poll->urgent, entry, now_ns);
    return STATUS_OK;
}

void watch_poll_remove(struct watch_poll *poll, bool has_user, const char *bucket)
{
    struct entry *entry = find(poll, has_user, bucket);

    if (!entry)
        return;
    unlink_entry(entry);
    watch_hash_remove(&poll->entries, &entry->link);
    free(entry);
}

void watch_poll_touch(struct watch_poll *poll, bool has_user, const char *bucket, uint64_t now_ns)
{
    uint64_t due_ns = add_time(now_ns, poll->levels[0].interval_ns);
    struct entry *entry = find(poll, has_user, bucket);

    if (!entry) {
        /* Without memory it is left out; the next listing of the users offers it again. */
        (void) !watch_poll_add(poll, has_user, bucket, now_ns);
        return;
    }
    entry->level = 0;
    entry->touched = true;
    /* Only once, or steady searches that don't compare (`local`) would keep it from being polled.
     */
    if (entry->queue && (entry->queue == &poll->urgent || entry->due_ns > due_ns)) {
        unlink_entry(entry);
        append(&poll->levels[0], entry, due_ns);
    }
}

/* ---- who is next ---- */

static uint64_t credit_at(const struct watch_poll *poll, uint64_t now_ns)
{
    uint64_t earned = now_ns > poll->counted_ns ? now_ns - poll->counted_ns : 0;

    return earned > poll->credit_max_ns - poll->credit_ns ? poll->credit_max_ns
                                                          : poll->credit_ns + earned;
}

static double lateness(const struct queue *queue, uint64_t now_ns)
{
    if (!queue->head || queue->head->due_ns > now_ns)
        return -1;
    return (double) (now_ns - queue->head->due_ns) / (double) queue->interval_ns;
}

static struct queue *latest_queue(struct watch_poll *poll, uint64_t now_ns)
{
    struct queue *latest = &poll->urgent;
    double most = lateness(latest, now_ns);

    for (unsigned i = 0; i < poll->level_count; i++) {
        double late = lateness(&poll->levels[i], now_ns);
        if (late > most) {
            most = late;
            latest = &poll->levels[i];
        }
    }
    return most >= 0 ? latest : NULL;
}

bool watch_poll_next(struct watch_poll *poll, uint64_t now_ns, bool *ret_has_user,
                     const char **ret_bucket)
{
    poll->credit_ns = credit_at(poll, now_ns);
    if (now_ns > poll->counted_ns)
        poll->counted_ns = now_ns;
    if (poll->credit_ns < poll->cost_ns)
        return false;

    struct queue *queue = latest_queue(poll, now_ns);
    if (!queue)
        return false;
    struct entry *entry = queue->head;
    unlink_entry(entry);
    entry->touched = false;
    entry->again = false;
    poll->credit_ns -= poll->cost_ns;
    *ret_has_user = entry->has_user;
    *ret_bucket = entry->bucket;
    return true;
}

void watch_poll_charge(struct watch_poll *poll, uint64_t operations, uint64_t now_ns)
{
    uint64_t cost_ns =
        operations > CLOCK_NEVER / poll->cost_ns ? CLOCK_NEVER : operations * poll->cost_ns;

    poll->credit_ns = credit_at(poll, now_ns);
    if (now_ns > poll->counted_ns)
        poll->counted_ns = now_ns;
    uint64_t paid_ns = cost_ns < poll->credit_ns ? cost_ns : poll->credit_ns;
    poll->credit_ns -= paid_ns;
    poll->counted_ns = add_time(poll->counted_ns, cost_ns - paid_ns);
}

void watch_poll_done(struct watch_poll *poll, bool has_user, const char *bucket, bool changed,
                     uint64_t now_ns)
{
    struct entry *entry = find(poll, has_user, bucket);

    if (!entry)
        return;
    if (entry->queue) {
        /* Nobody asked for this compare, e.g. an event did: it counts all the same. */
        entry->touched = entry->again = false;
        unlink_entry(entry);
    }
    if (changed || entry->touched)
        entry->level = 0;
    else if (entry->level + 1 < poll->level_count)
        entry->level++;

    struct queue *queue = &poll->levels[entry->level];
    if (entry->again)
        append(&poll->urgent, entry, now_ns);
    else
        append(queue, entry, add_time(now_ns, queue->interval_ns));
}

struct due_request {
    struct watch_poll *poll;
    uint64_t now_ns;
};

static void make_due(void *context, struct watch_link *link)
{
    struct due_request *request = context;
    struct entry *entry = (struct entry *) link;

    if (!entry->queue) {
        entry->again = true;
    } else if (entry->due_ns > request->now_ns) {
        unlink_entry(entry);
        append(&request->poll->urgent, entry, request->now_ns);
    }
}

void watch_poll_all_due(struct watch_poll *poll, uint64_t now_ns)
{
    struct due_request request = {.poll = poll, .now_ns = now_ns};

    watch_hash_each(&poll->entries, make_due, &request);
}

static uint64_t earliest_due(const struct watch_poll *poll)
{
    uint64_t due_ns = poll->urgent.head ? poll->urgent.head->due_ns : CLOCK_NEVER;

    for (unsigned i = 0; i < poll->level_count; i++) {
        const struct entry *head = poll->levels[i].head;
        if (head && head->due_ns < due_ns)
            due_ns = head->due_ns;
    }
    return due_ns;
}

uint64_t watch_poll_wait_ns(const struct watch_poll *poll, uint64_t now_ns)
{
    uint64_t due_ns = earliest_due(poll);
    uint64_t credit_ns = credit_at(poll, now_ns);

    if (due_ns == CLOCK_NEVER)
        return CLOCK_NEVER;
    uint64_t until_due_ns = due_ns > now_ns ? due_ns - now_ns : 0;
    uint64_t until_paid_ns = credit_ns < poll->cost_ns ? poll->cost_ns - credit_ns : 0;
    if (until_paid_ns > 0 && poll->counted_ns > now_ns)
        until_paid_ns = add_time(until_paid_ns, poll->counted_ns - now_ns);
    return until_due_ns > until_paid_ns ? until_due_ns : until_paid_ns;
}

size_t watch_poll_count(const struct watch_poll *poll)
{
    return poll->entries.count;
}
