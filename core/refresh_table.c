#include "core/refresh_table.h"

#include "core/array.h"
#include "core/clock.h"
#include "core/condition.h"

#include <assert.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

/* Slots that ended lately are kept, so that whoever asked for a run learns how it ended even when
 * it was over before he began to wait. */
#define LATELY_MAX 256
#define RELIST_TURN_NS (5 * NS_PER_SECOND)

enum slot_state { SLOT_IDLE, SLOT_WANTED, SLOT_RUNNING, SLOT_AGAIN };

/* One scope's slot. It lives as long as there is something to remember: a state that is not IDLE, a
 * waiter, a run to come, stamps that are not settled, failures, or a run that ended lately. Guarded
 * by the table's lock, but for `racy`, which belongs to the run under way. */
struct refresh_slot {
    struct scope_key {
        bool has_user;
        char *user;
        char *agent;
    } key;
    uint64_t hash;
    struct refresh_slot *next_in_bucket;
    struct refresh_slot *previous, *next; /* in the queue that `queued` names */
    enum slot_state state;
    struct slot_queue *queued;
    enum refresh_urgency urgency;          /* of the run that is wanted */
    enum refresh_cause cause;              /* the same */
    unsigned wishes;                       /* for the run that is wanted */
    bool must_yield;                       /* the run under way must not wait for the user's lock */
    uint64_t running_number, ended_number; /* 0: none */
    uint64_t begun_ns;
    uint64_t due_ns;   /* the earlier one of the two below; 0: no run is due later */
    size_t heap_at;    /* where it is in the table's `delayed`; only with due_ns */
    uint64_t retry_ns; /* a run that failed or was refused files is tried again then; 0: none */
    unsigned retry_wishes;
    bool put_off;     /* a background request waits for that run (back-off) */
    uint64_t look_ns; /* another look was asked for, not before that; 0: none */
    unsigned look_wishes;
    uint64_t relist_ns;     /* and one with REFRESH_WISH_RELIST then, later than that; 0: none */
    unsigned relist_wishes; /* of one that is due by now and has not begun; 0: none is */
    unsigned failures, refusals; /* in a row */
    unsigned waiters;
    bool is_late; /* it is in the table's `lately` */
    void *result; /* bytes of a struct refresh_result; NULL: none, or no memory for it */
    size_t result_size;
    struct racy racy;
};

struct slot_queue {
    struct refresh_slot *first, *last;
    uint64_t length;
};

struct refresh_table {
    pthread_mutex_t
        lock; /* below the user lock, above the install queue's; nothing is done under it */
    /* Each call wakes one waiter, who wakes the next if there is more to do: waking all for a run
     * that one of them takes cost more than many a run. */
    pthread_cond_t wanted;        /* whoever takes any run waits here, and for what is due later */
    pthread_cond_t urgent_wanted; /* whoever takes urgent ones alone */
    pthread_cond_t ended;
    struct refresh_slot **buckets; /* chained; a power of two */
    size_t bucket_count, slot_count;
    struct slot_queue urgent, background;
    struct slot_queue relists;      /* background runs for nothing but a look at all listings */
    struct refresh_slot *relisting; /* whose run is such a one; NULL: none */
    struct refresh_slot **delayed;  /* a binary heap by due_ns */
    size_t delayed_count, delayed_capacity;
    struct refresh_slot *lately[LATELY_MAX]; /* a ring */
    size_t lately_next;
    uint64_t running;
    uint64_t sequence; /* numbers requests and runs: a run is newer than the requests it serves */
    bool stopping;
};

enum status refresh_table_create(struct refresh_table **ret)
{
    struct refresh_table *table = calloc(1, sizeof *table);

    if (!table)
        return STATUS_NO_MEMORY;
    pthread_mutex_init(&table->lock, NULL);
    condition_init(&table->wanted);
    condition_init(&table->urgent_wanted);
    condition_init(&table->ended);
    table->bucket_count = 256;
    table->buckets = calloc(table->bucket_count, sizeof(struct refresh_slot *));
    if (!table->buckets) {
        refresh_table_destroy(&table);
        return STATUS_NO_MEMORY;
    }
    *ret = table;
    return STATUS_OK;
}

static void slot_free(struct refresh_slot *slot)
{
    racy_clear(&slot->racy);
    free(slot->result);
    free(slot->key.user);
    free(slot->key.agent);
    free(slot);
}

void refresh_table_destroy(struct refresh_table **table_address)
{
    struct refresh_table *table = TAKE_PTR(*table_address);

    if (!table)
        return;
    for (size_t i = 0; table->buckets && i < table->bucket_count; i++) {
        while (table->buckets[i]) {
            struct refresh_slot *slot = table->buckets[i];
            table->buckets[i] = slot->next_in_bucket;
            slot_free(slot);
        }
    }
    free(table->buckets);
    free(table->delayed);
    pthread_cond_destroy(&table->ended);
    pthread_cond_destroy(&table->urgent_wanted);
    pthread_cond_destroy(&table->wanted);
    pthread_mutex_destroy(&table->lock);
    free(table);
}

/* ---- slots by scope ---- */

static bool key_equals(const struct scope_key *key, const struct scope *scope)
{
    return key->has_user == scope->has_user && strcmp(key->user, scope->user) == 0 &&
           strcmp(key->agent, scope->agent) == 0;
}

static struct refresh_slot *find_locked(const struct refresh_table *table,
                                        const struct scope *scope)
{
    uint64_t hash = scope_hash(scope);
    struct refresh_slot *slot = table->buckets[hash & (table->bucket_count - 1)];

    while (slot && (slot->hash != hash || !key_equals(&slot->key, scope)))
        slot = slot->next_in_bucket;
    return slot;
}

static void grow_locked(struct refresh_table *table)
{
    size_t count = table->bucket_count * 2;
    struct refresh_slot **buckets = calloc(count, sizeof *buckets);

    if (!buckets)
        return; /* longer chains, nothing worse */
    for (size_t i = 0; i < table->bucket_count; i++) {
        while (table->buckets[i]) {
            struct refresh_slot *slot = table->buckets[i];
            table->buckets[i] = slot->next_in_bucket;
            slot->next_in_bucket = buckets[slot->hash & (count - 1)];
            buckets[slot->hash & (count - 1)] = slot;
        }
    }
    free(table->buckets);
    table->buckets = buckets;
    table->bucket_count = count;
}

static struct refresh_slot *obtain_locked(struct refresh_table *table, const struct scope *scope)
{
    struct refresh_slot *slot = find_locked(table, scope);

    if (slot)
        return slot;
    slot = calloc(1, sizeof *slot);
    if (!slot)
        return NULL;
    slot->key.has_user = scope->has_user;
    slot->key.user = strdup(scope->user);
    slot->key.agent = strdup(scope->agent);
    if (!slot->key.user || !slot->key.agent) {
        slot_free(slot);
        return NULL;
    }
    if (table->slot_count >= table->bucket_count)
        grow_locked(table);
    slot->hash = scope_hash(scope);
    struct refresh_slot **bucket = &table->buckets[slot->hash & (table->bucket_count - 1)];
    slot->next_in_bucket = *bucket;
    *bucket = slot;
    table->slot_count++;
    return slot;
}

static bool is_over(const struct refresh_slot *slot)
{
    return slot->state == SLOT_IDLE && slot->waiters == 0 && !slot->due_ns && slot->failures == 0 &&
           !slot->racy.base_ns;
}

static void remove_locked(struct refresh_table *table, struct refresh_slot *slot)
{
    struct refresh_slot **at = &table->buckets[slot->hash & (table->bucket_count - 1)];
    while (*at != slot)
        at = &(*at)->next_in_bucket;
    *at = slot->next_in_bucket;
    table->slot_count--;
    slot_free(slot);
}

/* A slot that is over makes the one go that has been so for longest. */
static void release_locked(struct refresh_table *table, struct refresh_slot *slot)
{
    if (!is_over(slot) || slot->is_late)
        return;
    struct refresh_slot **place = &table->lately[table->lately_next++ % LATELY_MAX];
    struct refresh_slot *oldest = *place;
    *place = slot;
    slot->is_late = true;
    if (!oldest)
        return;
    oldest->is_late = false;
    if (is_over(oldest))
        remove_locked(table, oldest);
}

/* ---- queues ---- */

static void queue_remove(struct refresh_slot *slot)
{
    struct slot_queue *queue = slot->queued;

    if (!queue)
        return;
    if (slot->previous)
        slot->previous->next = slot->next;
    else
        queue->first = slot->next;
    if (slot->next)
        slot->next->previous = slot->previous;
    else
        queue->last = slot->previous;
    slot->previous = slot->next = NULL;
    slot->queued = NULL;
    queue->length--;
}

static void queue_append(struct slot_queue *queue, struct refresh_slot *slot)
{
    slot->previous = queue->last;
    slot->next = NULL;
    if (queue->last)
        queue->last->next = slot;
    else
        queue->first = slot;
    queue->last = slot;
    slot->queued = queue;
    queue->length++;
}

/* Makes the slot want the run that is due for its listings alone. */
static void enqueue_relist_locked(struct refresh_table *table, struct refresh_slot *slot)
{
    slot->state = SLOT_WANTED;
    slot->urgency = REFRESH_BACKGROUND;
    slot->cause = REFRESH_CAUSE_SETTLE;
    queue_append(&table->relists, slot);
    pthread_cond_signal(&table->wanted);
}

/* Puts a WANTED slot where its urgency says. */
static void enqueue_locked(struct refresh_table *table, struct refresh_slot *slot)
{
    queue_remove(slot);
    queue_append(slot->urgency == REFRESH_URGENT ? &table->urgent : &table->background, slot);
    pthread_cond_signal(&table->wanted);
    if (slot->urgency == REFRESH_URGENT)
        pthread_cond_signal(&table->urgent_wanted);
}

/* ---- delayed runs: a heap ---- */

static void heap_swap(struct refresh_table *table, size_t a, size_t b)
{
    struct refresh_slot *slot = table->delayed[a];

    table->delayed[a] = table->delayed[b];
    table->delayed[b] = slot;
    table->delayed[a]->heap_at = a;
    table->delayed[b]->heap_at = b;
}

static void heap_up(struct refresh_table *table, size_t at)
{
    while (at > 0 && table->delayed[at]->due_ns < table->delayed[(at - 1) / 2]->due_ns) {
        heap_swap(table, at, (at - 1) / 2);
        at = (at - 1) / 2;
    }
}

static void heap_down(struct refresh_table *table, size_t at)
{
    for (;;) {
        size_t least = at;
        for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < table->delayed_count;
             child++) {
            if (table->delayed[child]->due_ns < table->delayed[least]->due_ns)
                least = child;
        }
        if (least == at)
            return;
        heap_swap(table, at, least);
        at = least;
    }
}

static bool heap_enter(struct refresh_table *table, struct refresh_slot *slot)
{
    if (!array_make_room(&table->delayed, table->delayed_count, &table->delayed_capacity,
                         sizeof *table->delayed))
        return false;
    slot->heap_at = table->delayed_count++;
    table->delayed[slot->heap_at] = slot;
    return true;
}

/* Has the slot woken at `due_ns` at the latest. */
static bool delay_locked(struct refresh_table *table, struct refresh_slot *slot, uint64_t due_ns)
{
    if (slot->due_ns && slot->due_ns <= due_ns)
        return true;
    if (!slot->due_ns && !heap_enter(table, slot))
        return false;
    slot->due_ns = due_ns;
    heap_up(table, slot->heap_at);
    if (table->delayed[0] == slot)
        pthread_cond_signal(&table->wanted);
    return true;
}

/* What of the two is due by now goes to the wishes; the other stays for its time. True: a run is
 * due, other than one for the listings alone. */
static bool take_due(struct refresh_slot *slot, uint64_t now_ns)
{
    bool is_due = false;

    if (slot->retry_ns && slot->retry_ns <= now_ns) {
        slot->wishes |= slot->retry_wishes;
        slot->retry_wishes = 0;
        slot->retry_ns = 0;
        slot->put_off = false;
        is_due = true;
    }
    if (slot->look_ns && slot->look_ns <= now_ns) {
        if (slot->look_wishes & REFRESH_WISH_RELIST) {
            slot->relist_wishes |= slot->look_wishes;
        } else {
            slot->wishes |= slot->look_wishes;
            is_due = true;
        }
        slot->look_wishes = slot->relist_ns ? REFRESH_WISH_RELIST : REFRESH_WISH_NONE;
        slot->look_ns = slot->relist_ns;
        slot->relist_ns = 0;
    }
    return is_due;
}

/* The first one of the heap, which is due, leaves it, or waits there for what is due later. */
static void heap_advance(struct refresh_table *table)
{
    struct refresh_slot *slot = table->delayed[0];

    slot->due_ns = slot->retry_ns ? slot->retry_ns : slot->look_ns;
    if (!slot->due_ns)
        heap_swap(table, 0, --table->delayed_count);
    heap_down(table, 0);
}

static void want_in_background_locked(struct refresh_table *table, struct refresh_slot *slot,
                                      enum refresh_cause cause)
{
    if (slot->state == SLOT_RUNNING) {
        slot->state = SLOT_AGAIN;
        slot->urgency = REFRESH_BACKGROUND;
        slot->cause = cause;
    } else if (slot->state == SLOT_IDLE || slot->queued == &table->relists) {
        slot->state = SLOT_WANTED;
        slot->urgency = REFRESH_BACKGROUND;
        slot->cause = cause;
        enqueue_locked(table, slot);
    }
}

/* Moves what has become due into its queue. */
static void wake_delayed_locked(struct refresh_table *table, uint64_t now_ns)
{
    while (table->delayed_count > 0 && table->delayed[0]->due_ns <= now_ns) {
        struct refresh_slot *slot = table->delayed[0];
        bool is_retry = slot->retry_ns && slot->retry_ns <= now_ns;
        bool is_due = take_due(slot, now_ns);
        heap_advance(table);
        if (is_due)
            want_in_background_locked(table, slot,
                                      is_retry ? REFRESH_CAUSE_RETRY : REFRESH_CAUSE_SETTLE);
        else if (slot->relist_wishes && slot->state == SLOT_IDLE)
            enqueue_relist_locked(table, slot); /* else it is one when that run has ended */
    }
}

/* ---- requests ---- */

/* Leaves a background request to the retry that is due. */
static void put_off(struct refresh_slot *slot, unsigned wishes)
{
    slot->retry_wishes |= wishes;
    slot->put_off = true;
}

/* Makes the slot want a run that has not begun; returns its number. */
static uint64_t want_locked(struct refresh_table *table, struct refresh_slot *slot,
                            enum refresh_urgency urgency, enum refresh_cause cause, unsigned wishes)
{
    if (slot->state == SLOT_IDLE && urgency == REFRESH_BACKGROUND && slot->failures > 0 &&
        slot->retry_ns) {
        put_off(slot, wishes);
        return ++table->sequence;
    }
    slot->wishes |= wishes;
    switch (slot->state) {
    case SLOT_IDLE:
        slot->state = SLOT_WANTED;
        slot->urgency = urgency;
        slot->cause = cause;
        enqueue_locked(table, slot);
        break;
    case SLOT_WANTED:
        if (slot->queued == &table->relists ||
            (urgency == REFRESH_URGENT && slot->urgency != REFRESH_URGENT)) {
            slot->urgency = urgency;
            slot->cause = cause;
            enqueue_locked(table, slot);
        }
        break;
    case SLOT_RUNNING:
        slot->state = SLOT_AGAIN;
        slot->urgency = urgency;
        slot->cause = cause;
        break;
    case SLOT_AGAIN:
        if (urgency == REFRESH_URGENT && slot->urgency != REFRESH_URGENT) {
            slot->urgency = urgency;
            slot->cause = cause;
        }
        break;
    }
    return ++table->sequence;
}

enum status refresh_request(struct refresh_table *table, const struct scope *scope,
                            enum refresh_urgency urgency, enum refresh_cause cause, unsigned wishes,
                            uint64_t *ret_run)
{
    pthread_mutex_lock(&table->lock);
    struct refresh_slot *slot = obtain_locked(table, scope);
    if (slot)
        *ret_run = want_locked(table, slot, urgency, cause, wishes);
    pthread_mutex_unlock(&table->lock);
    return slot ? STATUS_OK : STATUS_NO_MEMORY;
}

enum status refresh_join(struct refresh_table *table, const struct scope *scope, uint64_t *ret_run)
{
    pthread_mutex_lock(&table->lock);
    struct refresh_slot *slot = obtain_locked(table, scope);
    if (slot && (slot->state == SLOT_RUNNING || slot->state == SLOT_AGAIN))
        *ret_run = slot->running_number;
    else if (slot)
        *ret_run =
            want_locked(table, slot, REFRESH_URGENT, REFRESH_CAUSE_SEARCH, REFRESH_WISH_NONE);
    pthread_mutex_unlock(&table->lock);
    return slot ? STATUS_OK : STATUS_NO_MEMORY;
}

uint64_t refresh_running_age(struct refresh_table *table, const struct scope *scope)
{
    uint64_t age_ns = 0;

    pthread_mutex_lock(&table->lock);
    const struct refresh_slot *slot = find_locked(table, scope);
    if (slot && (slot->state == SLOT_RUNNING || slot->state == SLOT_AGAIN))
        age_ns = clock_monotonic_ns() - slot->begun_ns;
    pthread_mutex_unlock(&table->lock);
    return age_ns;
}

/* One run is due already. What it would settle, the next one can settle as well; but a listing that
 * may be old has to be read after that time, not before. */
static void gather_later(struct refresh_slot *slot, unsigned wishes, uint64_t due_ns)
{
    slot->look_wishes |= wishes;
    if ((wishes & REFRESH_WISH_RELIST) && due_ns > slot->look_ns && due_ns > slot->relist_ns)
        slot->relist_ns = due_ns;
}

enum status refresh_request_later(struct refresh_table *table, const struct scope *scope,
                                  unsigned wishes, uint64_t due_ns)
{
    bool done = false;

    pthread_mutex_lock(&table->lock);
    struct refresh_slot *slot = obtain_locked(table, scope);
    if (slot) {
        done = slot->look_ns != 0 || delay_locked(table, slot, due_ns);
        if (done && !slot->look_ns)
            slot->look_ns = due_ns;
        if (done)
            gather_later(slot, wishes, due_ns);
    }
    pthread_mutex_unlock(&table->lock);
    return done ? STATUS_OK : STATUS_NO_MEMORY;
}

/* ---- runs ---- */

static void begin_locked(struct refresh_table *table, struct refresh_slot *slot,
                         struct refresh_run *ret)
{
    assert(slot->state == SLOT_WANTED);
    if (slot->queued == &table->relists) {
        slot->wishes |= slot->relist_wishes;
        slot->relist_wishes = 0;
        table->relisting = slot;
    }
    queue_remove(slot);
    slot->state = SLOT_RUNNING;
    slot->running_number = ++table->sequence;
    slot->begun_ns = clock_monotonic_ns();
    slot->must_yield = false;
    table->running++;
    *ret = (struct refresh_run){
        .cause = slot->cause,
        .wishes = slot->wishes,
        .number = slot->running_number,
        .racy = &slot->racy,
        .refusals = slot->refusals,
        .failures = slot->failures,
        .slot = slot,
    };
    slot->wishes = 0;
    /* The key passed these checks when its scope was made. */
    enum status status = scope_create(slot->key.has_user ? slot->key.user : NULL, slot->key.agent,
                                      &ret->scope, NULL);
    assert(status == STATUS_OK);
    (void) status;
}

/* The next look at all listings of a scope, one at a time: each asks about every file, and eight
 * together kept each other, and searches of their scopes, waiting for eight times as long. One
 * that takes very long may hang, and is not waited for. */
static struct refresh_slot *next_relist_locked(const struct refresh_table *table)
{
    bool is_taken =
        table->relisting && clock_monotonic_ns() - table->relisting->begun_ns < RELIST_TURN_NS;

    return is_taken ? NULL : table->relists.first;
}

static void wait_for_work_locked(struct refresh_table *table, bool urgent_only)
{
    if (urgent_only) {
        pthread_cond_wait(&table->urgent_wanted, &table->lock);
        return;
    }
    if (table->delayed_count == 0 && !table->relists.first) {
        pthread_cond_wait(&table->wanted, &table->lock);
        return;
    }
    /* In slices, since tests move the clock. */
    uint64_t due_ns = table->delayed_count > 0 ? table->delayed[0]->due_ns : CLOCK_NEVER;
    uint64_t now_ns = clock_monotonic_ns();
    uint64_t wait_ns = due_ns > now_ns ? due_ns - now_ns : 0;
    if (wait_ns > NS_PER_SECOND / 4)
        wait_ns = NS_PER_SECOND / 4;
    struct timespec until = clock_real_after(wait_ns);
    (void) pthread_cond_timedwait(&table->wanted, &table->lock, &until);
}

/* Whoever goes to work wakes another for what is left, and to wait for what is due later. */
static void hand_over_locked(struct refresh_table *table, bool urgent_only)
{
    if (table->urgent.first)
        pthread_cond_signal(&table->urgent_wanted);
    if (!urgent_only && (table->urgent.first || table->background.first || table->relists.first ||
                         table->delayed_count > 0))
        pthread_cond_signal(&table->wanted);
}

bool refresh_take(struct refresh_table *table, bool urgent_only, struct refresh_run *ret)
{
    struct refresh_slot *slot = NULL;

    pthread_mutex_lock(&table->lock);
    while (!table->stopping) {
        wake_delayed_locked(table, clock_monotonic_ns());
        slot = table->urgent.first;
        if (!slot && !urgent_only)
            slot = table->background.first ? table->background.first : next_relist_locked(table);
        if (slot)
            break;
        wait_for_work_locked(table, urgent_only);
    }
    if (slot)
        begin_locked(table, slot, ret);
    hand_over_locked(table, urgent_only);
    pthread_mutex_unlock(&table->lock);
    return slot != NULL;
}

bool refresh_claim(struct refresh_table *table, const struct scope *scope, struct refresh_run *ret)
{
    pthread_mutex_lock(&table->lock);
    struct refresh_slot *slot = find_locked(table, scope);
    bool mine = slot && slot->state == SLOT_WANTED && !table->stopping;
    if (mine)
        begin_locked(table, slot, ret);
    pthread_mutex_unlock(&table->lock);
    return mine;
}

enum status refresh_begin(struct refresh_table *table, const struct scope *scope,
                          struct refresh_run *ret, bool *ret_begun, uint64_t *ret_run)
{
    pthread_mutex_lock(&table->lock);
    struct refresh_slot *slot = obtain_locked(table, scope);
    *ret_begun = false;
    if (slot && (slot->state == SLOT_RUNNING || slot->state == SLOT_AGAIN)) {
        *ret_run = slot->running_number;
    } else if (slot) {
        if (slot->state == SLOT_IDLE)
            slot->cause = REFRESH_CAUSE_SEARCH;
        queue_remove(slot);
        slot->state = SLOT_WANTED; /* by the caller, so that nobody is woken for it */
        begin_locked(table, slot, ret);
        *ret_begun = true;
    }
    pthread_mutex_unlock(&table->lock);
    return slot ? STATUS_OK : STATUS_NO_MEMORY;
}

void refresh_ask_to_yield(struct refresh_table *table, const struct scope *scope)
{
    pthread_mutex_lock(&table->lock);
    struct refresh_slot *slot = find_locked(table, scope);
    if (slot && (slot->state == SLOT_RUNNING || slot->state == SLOT_AGAIN))
        slot->must_yield = true;
    pthread_mutex_unlock(&table->lock);
}

bool refresh_must_yield(struct refresh_table *table, const struct refresh_run *run)
{
    pthread_mutex_lock(&table->lock);
    bool must_yield = run->slot->must_yield;
    pthread_mutex_unlock(&table->lock);
    return must_yield;
}

/* With 100,000 scopes the errors of runs that did not fail were most of what the table took. */
static void keep_result(struct refresh_slot *slot, const struct refresh_result *result)
{
    size_t size =
        result->status == STATUS_OK ? offsetof(struct refresh_result, error) : sizeof *result;

    if (slot->result_size != size) {
        free(slot->result);
        slot->result = malloc(size);
        slot->result_size = slot->result ? size : 0;
    }
    if (slot->result)
        memcpy(slot->result, result, size);
}

static void give_result(const struct refresh_slot *slot, struct refresh_result *ret)
{
    if (slot->result)
        memcpy(ret, slot->result, slot->result_size);
    else
        ret->status = STATUS_NO_MEMORY;
}

/* Somebody who writes is no fault that had better be left alone for longer and longer. Nor do the
 * searches count that meet a fault meanwhile: it has lasted no longer for being met by many. */
static unsigned failures_after(const struct refresh_slot *slot, enum status status)
{
    if (status == STATUS_OK)
        return 0;
    if (status == STATUS_BUSY)
        return 1;
    return slot->failures + !slot->retry_ns;
}

static bool was_done(const struct refresh_result *result)
{
    return result->status == STATUS_OK && result->installed;
}

/* Runs in between that found the rows in step have not looked at the files. */
static unsigned refusals_after(const struct refresh_slot *slot, const struct refresh_result *result)
{
    if (!was_done(result))
        return slot->refusals;
    return result->refused ? slot->refusals + !slot->retry_ns : 0;
}

/* The run is tried again; without memory the next request has to do. */
static void retry_locked(struct refresh_table *table, struct refresh_slot *slot, unsigned wishes,
                         uint64_t retry_ns)
{
    if (!slot->retry_ns && delay_locked(table, slot, retry_ns))
        slot->retry_ns = retry_ns;
    if (slot->retry_ns)
        slot->retry_wishes |= wishes;
}

void refresh_done(struct refresh_table *table, struct refresh_run *run,
                  const struct refresh_result *result, uint64_t retry_ns)
{
    pthread_mutex_lock(&table->lock);
    struct refresh_slot *slot = TAKE_PTR(run->slot);
    slot->ended_number = run->number;
    keep_result(slot, result);
    slot->failures = failures_after(slot, result->status);
    slot->refusals = refusals_after(slot, result);
    table->running--;
    /* What a failed run wanted is wanted still; one that was refused files has done it. */
    if (retry_ns)
        retry_locked(table, slot, was_done(result) ? REFRESH_WISH_SETTLE : run->wishes, retry_ns);
    bool again = slot->state == SLOT_AGAIN;
    if (again && retry_ns && !was_done(result) && slot->retry_ns &&
        slot->urgency == REFRESH_BACKGROUND) {
        put_off(slot, slot->wishes);
        slot->wishes = 0;
        again = false;
    }
    if (table->relisting == slot)
        table->relisting = NULL;
    slot->state = again ? SLOT_WANTED : SLOT_IDLE;
    if (again)
        enqueue_locked(table, slot);
    else if (slot->relist_wishes)
        enqueue_relist_locked(table, slot);
    if (table->relists.first)
        pthread_cond_signal(&table->wanted);
    pthread_cond_broadcast(&table->ended);
    release_locked(table, slot);
    pthread_mutex_unlock(&table->lock);
}

static struct timespec in_slices(uint64_t deadline_ns)
{
    uint64_t wait_ns = NS_PER_SECOND / 4;
    int remaining_ms = clock_remaining_ms(deadline_ns);

    if ((uint64_t) remaining_ms * NS_PER_MS < wait_ns)
        wait_ns = (uint64_t) remaining_ms * NS_PER_MS;
    return clock_real_after(wait_ns);
}

/* A slot that is idle (or gone) has ended everything that was asked of it and not put off. */
static bool must_wait_locked(const struct refresh_table *table, const struct refresh_slot *slot,
                             uint64_t number)
{
    return slot->ended_number < number && (slot->state != SLOT_IDLE || slot->put_off) &&
           !table->stopping;
}

bool refresh_wait(struct refresh_table *table, const struct scope *scope, uint64_t number,
                  uint64_t deadline_ns, struct refresh_result *ret)
{
    pthread_mutex_lock(&table->lock);
    struct refresh_slot *slot = find_locked(table, scope);
    bool ended = true;

    *ret = (struct refresh_result){0};
    if (slot) {
        slot->waiters++;
        while (must_wait_locked(table, slot, number) && clock_remaining_ms(deadline_ns) > 0) {
            struct timespec until = in_slices(deadline_ns);
            (void) pthread_cond_timedwait(&table->ended, &table->lock, &until);
        }
        ended = !must_wait_locked(table, slot, number) && !table->stopping;
        if (slot->ended_number >= number)
            give_result(slot, ret);
        slot->waiters--;
        release_locked(table, slot);
    }
    pthread_mutex_unlock(&table->lock);
    return ended;
}

void refresh_table_stop(struct refresh_table *table)
{
    pthread_mutex_lock(&table->lock);
    table->stopping = true;
    pthread_cond_broadcast(&table->wanted);
    pthread_cond_broadcast(&table->urgent_wanted);
    pthread_cond_broadcast(&table->ended);
    pthread_mutex_unlock(&table->lock);
}

void refresh_table_running(struct refresh_table *table, refresh_running_sink sink, void *context)
{
    uint64_t now_ns = clock_monotonic_ns();

    pthread_mutex_lock(&table->lock);
    for (size_t i = 0; table->running > 0 && i < table->bucket_count; i++) {
        for (struct refresh_slot *slot = table->buckets[i]; slot; slot = slot->next_in_bucket) {
            struct scope scope;
            if ((slot->state == SLOT_RUNNING || slot->state == SLOT_AGAIN) &&
                scope_create(slot->key.has_user ? slot->key.user : NULL, slot->key.agent, &scope,
                             NULL) == STATUS_OK)
                sink(context, &scope, now_ns - slot->begun_ns);
        }
    }
    pthread_mutex_unlock(&table->lock);
}

static void note_oldest(void *context, const struct scope *scope, uint64_t age_ns)
{
    uint64_t *oldest_ns = context;

    (void) scope;
    if (age_ns > *oldest_ns)
        *oldest_ns = age_ns;
}

void refresh_table_counts(struct refresh_table *table, struct refresh_table_counts *ret)
{
    uint64_t oldest_ns = 0;
    uint64_t over = 0;

    refresh_table_running(table, note_oldest, &oldest_ns);
    pthread_mutex_lock(&table->lock);
    for (size_t i = 0; i < LATELY_MAX; i++)
        over += table->lately[i] && is_over(table->lately[i]);
    *ret = (struct refresh_table_counts){
        .slots = table->slot_count - over,
        .wanted_urgent = table->urgent.length,
        .wanted_background = table->background.length + table->relists.length,
        .delayed = table->delayed_count,
        .next_due_ns = table->delayed_count > 0 ? table->delayed[0]->due_ns : 0,
        .running = table->running,
        .oldest_running_ns = oldest_ns,
    };
    pthread_mutex_unlock(&table->lock);
}
