#include "ipc/events.h"

#include "core/json_text.h"
#include "core/log.h"
#include "core/signature.h"
#include "ipc/protocol.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/random.h>
#include <zmq.h>

/* Events that wait for the thread. */
#define QUEUE_MAX 4096

/* Topics with a counter of their own; one more and all counters start anew in a new epoch. */
#define TOPICS_MAX 65536
#define TOPIC_SLOTS (2 * TOPICS_MAX)

struct event {
    struct event *next;
    struct text topic;
    struct text body;
};

/* A topic is known by its hash. Two topics with one hash share a counter, so that a subscriber sees
 * gaps where there are none: it looks once more than needed, which is the harmless side. */
struct topic_counter {
    uint64_t hash; /* 0: free */
    uint64_t n;
};

struct events {
    void *socket; /* the thread's, once it runs */
    pthread_t thread;
    bool thread_runs;
    pthread_mutex_t lock; /* all below; a leaf */
    pthread_cond_t changed;
    struct event *first;
    struct event **last;
    unsigned waiting;
    bool quit;
    uint64_t epoch;
    unsigned topics;
    struct topic_counter *counters;
    _Atomic uint64_t dropped;
};

void events_topic(struct text *text, const char *user, const char *agent)
{
    text_append_string(text, "scope/");
    protocol_write_percent(text, user ? user : "");
    text_append_char(text, '/');
    protocol_write_percent(text, agent);
    text_append_char(text, '/');
}

static void event_free(struct event *event)
{
    if (!event)
        return;
    text_destroy(&event->topic);
    text_destroy(&event->body);
    free(event);
}

/* Numbers that differ from one run to the next and that every JSON reader keeps exactly. */
static uint64_t new_epoch(void)
{
    uint64_t number = 0;

    while (getrandom(&number, sizeof number, 0) != sizeof number)
        continue;
    return (number & ((UINT64_C(1) << 52) - 1)) + 1;
}

/* 0 marks an empty slot. */
static uint64_t hash_of(const struct text *topic)
{
    uint64_t hash = signature_digest(topic->bytes, topic->size);

    return hash ? hash : 1;
}

static uint64_t next_number_locked(struct events *events, uint64_t hash)
{
    size_t slot = (size_t) (hash % TOPIC_SLOTS);

    while (events->counters[slot].hash && events->counters[slot].hash != hash)
        slot = (slot + 1) % TOPIC_SLOTS;
    if (!events->counters[slot].hash && events->topics == TOPICS_MAX) {
        memset(events->counters, 0, TOPIC_SLOTS * sizeof *events->counters);
        events->topics = 0;
        events->epoch = new_epoch();
        slot = (size_t) (hash % TOPIC_SLOTS);
    }
    if (!events->counters[slot].hash)
        events->topics++;
    events->counters[slot].hash = hash;
    return ++events->counters[slot].n;
}

static void send_event(struct events *events, struct event *event)
{
    while (zmq_send(events->socket, event->topic.bytes, event->topic.size,
                    ZMQ_SNDMORE | ZMQ_DONTWAIT) < 0) {
        if (errno != EINTR) {
            atomic_fetch_add(&events->dropped, 1);
            return;
        }
    }
    while (zmq_send(events->socket, event->body.bytes, event->body.size, ZMQ_DONTWAIT) < 0) {
        if (errno != EINTR) {
            atomic_fetch_add(&events->dropped, 1);
            return;
        }
    }
}

/* All that wait, oldest first; NULL: the end. */
static struct event *take_all(struct events *events)
{
    pthread_mutex_lock(&events->lock);
    while (!events->first && !events->quit)
        (void) pthread_cond_wait(&events->changed, &events->lock);
    struct event *list = events->first;
    events->first = NULL;
    events->last = &events->first;
    events->waiting = 0;
    pthread_mutex_unlock(&events->lock);
    return list;
}

static void *run_thread(void *argument)
{
    struct events *events = argument;
    struct event *list = NULL;

    while ((list = take_all(events))) {
        while (list) {
            struct event *event = list;
            list = event->next;
            send_event(events, event);
            event_free(event);
        }
    }
    return NULL;
}

static enum status open_socket(struct events *events, const struct events_options *options,
                               struct error *error)
{
    const int high_water_mark = (int) options->high_water_mark;
    const int linger_ms = 0;

    events->socket = zmq_socket(options->zmq_context, ZMQ_PUB);
    if (!events->socket ||
        zmq_setsockopt(events->socket, ZMQ_SNDHWM, &high_water_mark, sizeof high_water_mark) < 0 ||
        zmq_setsockopt(events->socket, ZMQ_LINGER, &linger_ms, sizeof linger_ms) < 0)
        return error_set(error, STATUS_INTERNAL, NULL, "cannot make the events socket: %s",
                         zmq_strerror(errno));
    if (zmq_bind(events->socket, options->endpoint) < 0)
        return error_set(error, errno == EADDRINUSE ? STATUS_BUSY : STATUS_UNAVAILABLE, NULL,
                         "cannot publish events at %s: %s", options->endpoint, zmq_strerror(errno));
    return STATUS_OK;
}

static enum status start(struct events *events, const struct events_options *options,
                         struct error *error)
{
    events->counters = calloc(TOPIC_SLOTS, sizeof *events->counters);
    if (!events->counters)
        return error_set(error, STATUS_NO_MEMORY, NULL, "out of memory");
    enum status status = open_socket(events, options, error);
    if (status != STATUS_OK)
        return status;
    int failed = pthread_create(&events->thread, NULL, run_thread, events);
    if (failed)
        return error_set_errno(error, failed, NULL, "cannot start the events thread");
    events->thread_runs = true;
    return STATUS_OK;
}

enum status events_create(const struct events_options *options, struct events **ret,
                          struct error *error)
{
    if (options->high_water_mark < 1 || options->high_water_mark > INT32_MAX)
        return error_set(error, STATUS_INVALID, NULL, "the events' high water mark must not be 0");
    struct events *events = calloc(1, sizeof *events);
    if (!events)
        return error_set(error, STATUS_NO_MEMORY, NULL, "out of memory");
    events->last = &events->first;
    events->epoch = new_epoch();
    (void) pthread_mutex_init(&events->lock, NULL);
    (void) pthread_cond_init(&events->changed, NULL);
    enum status status = start(events, options, error);
    if (status != STATUS_OK) {
        events_destroy(&events);
        return status;
    }
    *ret = events;
    return STATUS_OK;
}

void events_destroy(struct events **events)
{
    if (!events || !*events)
        return;
    struct events *gone = TAKE_PTR(*events);
    pthread_mutex_lock(&gone->lock);
    gone->quit = true;
    (void) pthread_cond_signal(&gone->changed);
    pthread_mutex_unlock(&gone->lock);
    if (gone->thread_runs)
        (void) pthread_join(gone->thread, NULL);
    if (gone->socket)
        (void) zmq_close(gone->socket);
    (void) pthread_cond_destroy(&gone->changed);
    (void) pthread_mutex_destroy(&gone->lock);
    free(gone->counters);
    free(gone);
}

static void write_string_member(struct text *text, const char *name, const char *value)
{
    text_append_format(text, "\"%s\":", name);
    json_text_write_string(text, value, strlen(value));
    text_append_char(text, ',');
}

static struct event *create_event(const struct scope *scope, const char *name)
{
    struct event *event = calloc(1, sizeof *event);

    if (!event)
        return NULL;
    events_topic(&event->topic, scope->has_user ? scope->user : NULL, scope->agent);
    text_append_char(&event->body, '{');
    write_string_member(&event->body, "event", name);
    if (scope->has_user)
        write_string_member(&event->body, "user_id", scope->user);
    else
        text_append_string(&event->body, "\"user_id\":null,");
    write_string_member(&event->body, "agent_name", scope->agent);
    return event;
}

static void finish_body(struct text *body, uint64_t epoch, uint64_t n, const char *members)
{
    text_append_format(body, "\"epoch\":%llu,\"n\":%llu", (unsigned long long) epoch,
                       (unsigned long long) n);
    if (members && *members) {
        text_append_char(body, ',');
        text_append_string(body, members);
    }
    text_append_char(body, '}');
}

/* The number is taken even when the event is then dropped, so that the gap shows. */
static bool enqueue(struct events *events, struct event *event, const char *members)
{
    uint64_t hash = hash_of(&event->topic);

    pthread_mutex_lock(&events->lock);
    uint64_t n = next_number_locked(events, hash);
    bool fits = events->waiting < QUEUE_MAX;
    if (fits) {
        finish_body(&event->body, events->epoch, n, members);
        fits = text_ok(&event->body);
    }
    if (fits) {
        *events->last = event;
        events->last = &event->next;
        events->waiting++;
        (void) pthread_cond_signal(&events->changed);
    }
    pthread_mutex_unlock(&events->lock);
    return fits;
}

void events_publish(struct events *events, const struct scope *scope, const char *event,
                    const char *members)
{
    struct event *entry = create_event(scope, event);

    if (entry && text_ok(&entry->topic) && text_ok(&entry->body) && enqueue(events, entry, members))
        return;
    event_free(entry);
    atomic_fetch_add(&events->dropped, 1);
}

uint64_t events_dropped(const struct events *events)
{
    return atomic_load(&events->dropped);
}
