#include "core/clock.h"
#include "ipc/events.h"
#include "tests/support/memory.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <zmq.h>

/* Criterion keeps truth values in bit fields and texts in pointers to char. */
#pragma GCC diagnostic ignored "-Wconversion"
#define STR(text) ((char *) (uintptr_t) (text))

#define PATIENCE_MS 10000

static char directory[64];
static char endpoint[96];
static void *context;
static struct events *events;

static void start(unsigned high_water_mark)
{
    struct error error = {0};

    (void) snprintf(directory, sizeof directory, "/tmp/memsync-events-XXXXXX");
    cr_assert(ne(ptr, mkdtemp(directory), NULL));
    (void) snprintf(endpoint, sizeof endpoint, "ipc://%s/e", directory);
    context = zmq_ctx_new();
    const struct events_options options = {.endpoint = endpoint,
                                           .zmq_context = context,
                                           .high_water_mark = high_water_mark};
    cr_assert(eq(int, events_create(&options, &events, &error), STATUS_OK), "%s", error.message);
}

static void start_default(void)
{
    start(1000);
}

static void stop(void)
{
    char command[128];

    events_destroy(&events);
    events_destroy(&events);
    cr_expect(zero(int, zmq_ctx_term(context)));
    (void) snprintf(command, sizeof command, "rm -rf '%s'", directory);
    cr_expect(zero(int, system(command)));
}

TestSuite(events, .init = start_default, .fini = stop, .timeout = 60);
TestSuite(events_with, .fini = stop, .timeout = 60);

static struct scope scope_named(const char *user, const char *agent)
{
    struct scope scope = {.has_user = user != NULL};

    (void) snprintf(scope.user, sizeof scope.user, "%s", user ? user : "");
    (void) snprintf(scope.agent, sizeof scope.agent, "%s", agent);
    return scope;
}

static json_t *receive(void *subscriber, char *topic, size_t topic_size, int timeout_ms)
{
    zmq_msg_t body;
    json_t *event = NULL;

    (void) zmq_setsockopt(subscriber, ZMQ_RCVTIMEO, &timeout_ms, sizeof timeout_ms);
    int size = zmq_recv(subscriber, topic, topic_size - 1, 0);
    if (size < 0)
        return NULL;
    topic[(size_t) size < topic_size ? (size_t) size : topic_size - 1] = '\0';
    (void) zmq_msg_init(&body);
    size = zmq_msg_recv(&body, subscriber, 0);
    if (size >= 0)
        event = json_loadb(zmq_msg_data(&body), (size_t) size, 0, NULL);
    (void) zmq_msg_close(&body);
    return event;
}

static int64_t member(const json_t *event, const char *name)
{
    return json_integer_value(json_object_get(event, name));
}

/* Publishes until the subscription has reached the publisher and everything of that is read. */
static void settle(void *subscriber, const char *user)
{
    const struct scope scope = scope_named(user, "settle");
    uint64_t deadline = clock_deadline_ms(PATIENCE_MS);
    char topic[256];
    json_t *event = NULL;

    while (!event && clock_monotonic_ns() < deadline) {
        events_publish(events, &scope, "settle", "");
        event = receive(subscriber, topic, sizeof topic, 10);
    }
    cr_assert(ne(ptr, event, NULL));
    while (event) {
        json_decref(event);
        event = receive(subscriber, topic, sizeof topic, 50);
    }
}

static void *subscriber_create(const char *prefix, const char *user)
{
    void *subscriber = zmq_socket(context, ZMQ_SUB);
    const int linger_ms = 0;

    (void) zmq_setsockopt(subscriber, ZMQ_LINGER, &linger_ms, sizeof linger_ms);
    (void) zmq_setsockopt(subscriber, ZMQ_SUBSCRIBE, prefix, strlen(prefix));
    cr_assert(zero(int, zmq_connect(subscriber, endpoint)));
    settle(subscriber, user);
    return subscriber;
}

Test(events_topic, parts_are_percent_encoded_and_closed)
{
    static const struct {
        const char *user;
        const char *agent;
        const char *topic;
    } cases[] = {
        {"u1", "__default__", "scope/u1/__default__/"},
        {NULL, "__default__", "scope//__default__/"},
        {"", "coder", "scope//coder/"},
        {"a/b@c.d", "x-1", "scope/a%2Fb%40c.d/x-1/"},
        {"\xe6\x9d\x8e", "x", "scope/%E6%9D%8E/x/"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        AUTO_TEXT struct text text = {0};

        events_topic(&text, cases[i].user, cases[i].agent);
        cr_expect(eq(str, STR(text_string(&text)), STR(cases[i].topic)), "row %zu", i);
    }
}

Test(events, an_event_has_topic_scope_number_and_members)
{
    void *subscriber = subscriber_create("scope/u", "u");
    const struct scope scope = scope_named("u \"1\"", "coder");
    char topic[256];

    events_publish(events, &scope, "refreshed", "\"revision\":7,\"cause\":\"search\"");
    AUTO_JSON json_t *event = receive(subscriber, topic, sizeof topic, PATIENCE_MS);
    cr_assert(ne(ptr, event, NULL));
    cr_expect(eq(str, topic, STR("scope/u%20%221%22/coder/")));
    cr_expect(eq(str, STR(json_string_value(json_object_get(event, "event"))), STR("refreshed")));
    cr_expect(eq(str, STR(json_string_value(json_object_get(event, "user_id"))), STR("u \"1\"")));
    cr_expect(eq(str, STR(json_string_value(json_object_get(event, "agent_name"))), STR("coder")));
    cr_expect(eq(str, STR(json_string_value(json_object_get(event, "cause"))), STR("search")));
    cr_expect(eq(i64, member(event, "revision"), 7));
    cr_expect(eq(i64, member(event, "n"), 1));
    cr_expect(gt(i64, member(event, "epoch"), 0));
    (void) zmq_close(subscriber);
}

Test(events, without_a_user_the_id_is_null)
{
    void *subscriber = subscriber_create("scope//", NULL);
    const struct scope scope = scope_named(NULL, "__default__");
    char topic[256];

    events_publish(events, &scope, "refreshed", "");
    AUTO_JSON json_t *event = receive(subscriber, topic, sizeof topic, PATIENCE_MS);
    cr_expect(eq(str, topic, STR("scope//__default__/")));
    cr_expect(eq(int, json_typeof(json_object_get(event, "user_id")), JSON_NULL));
    (void) zmq_close(subscriber);
}

Test(events, numbers_grow_by_one_per_topic)
{
    void *subscriber = subscriber_create("scope/", "other");
    const struct scope scopes[] = {scope_named("u1", "a"), scope_named("u1", "b"),
                                   scope_named("u10", "a")};
    char topic[256];

    for (int64_t n = 1; n <= 3; n++) {
        for (size_t i = 0; i < ARRAY_SIZE(scopes); i++) {
            events_publish(events, &scopes[i], "refreshed", "");
            AUTO_JSON json_t *event = receive(subscriber, topic, sizeof topic, PATIENCE_MS);
            cr_expect(eq(i64, member(event, "n"), n), "%s", topic);
        }
    }
    (void) zmq_close(subscriber);
}

Test(events, a_prefix_selects_one_scope)
{
    void *subscriber = subscriber_create("scope/u1/", "u1");
    const struct scope other = scope_named("u10", "a");
    const struct scope mine = scope_named("u1", "a");
    char topic[256];

    events_publish(events, &other, "refreshed", "");
    events_publish(events, &mine, "refreshed", "");
    AUTO_JSON json_t *event = receive(subscriber, topic, sizeof topic, PATIENCE_MS);
    cr_assert(ne(ptr, event, NULL));
    cr_expect(eq(str, topic, STR("scope/u1/a/")));
    (void) zmq_close(subscriber);
}

/* More than all queues and the kernel's buffers hold together: then a gap in the numbers tells. */
Test(events_with, a_subscriber_that_does_not_read_misses_events_and_can_tell)
{
    start(100);
    void *subscriber = subscriber_create("scope/u1/", "u1");
    const struct scope scope = scope_named("u1", "a");
    char topic[256];
    int64_t last = 0;
    int64_t gaps = 0;
    int64_t epoch = 0;

    long before = memory_resident_kib();
    for (int i = 0; i < 200000; i++)
        events_publish(events, &scope, "refreshed", "\"revision\":1");
    if (MEMORY_IS_MEASURABLE)
        cr_expect(lt(long, memory_resident_kib() - before, 32768));

    json_t *event = NULL;
    while ((event = receive(subscriber, topic, sizeof topic, last ? 200 : PATIENCE_MS))) {
        cr_expect(gt(i64, member(event, "n"), last), "in order");
        cr_expect(epoch == 0 || epoch == member(event, "epoch"));
        epoch = member(event, "epoch");
        gaps += member(event, "n") != last + 1;
        last = member(event, "n");
        json_decref(event);
    }
    /* The end may be among the lost; the next event shows it then. */
    events_publish(events, &scope, "refreshed", "");
    event = receive(subscriber, topic, sizeof topic, PATIENCE_MS);
    cr_assert(ne(ptr, event, NULL));
    cr_expect(eq(i64, member(event, "n"), 200001));
    gaps += member(event, "n") != last + 1;
    json_decref(event);
    cr_expect(gt(i64, gaps, 0));
    (void) zmq_close(subscriber);
}

Test(events, more_topics_than_counters_begin_a_new_epoch)
{
    void *subscriber = subscriber_create("scope/u1/", "u1");
    const struct scope mine = scope_named("u1", "a");
    struct scope other = scope_named("x", "a");
    char topic[256];

    events_publish(events, &mine, "refreshed", "");
    AUTO_JSON json_t *first = receive(subscriber, topic, sizeof topic, PATIENCE_MS);
    for (int i = 0; i < 65536; i++) {
        (void) snprintf(other.user, sizeof other.user, "x%d", i);
        events_publish(events, &other, "refreshed", "");
    }
    json_t *second = NULL;
    uint64_t deadline = clock_deadline_ms(PATIENCE_MS);
    /* The publisher's own queue may be full for a moment. */
    while (!second && clock_monotonic_ns() < deadline) {
        events_publish(events, &mine, "refreshed", "");
        second = receive(subscriber, topic, sizeof topic, 100);
    }
    cr_assert(ne(ptr, second, NULL));
    cr_expect(ne(i64, member(first, "epoch"), member(second, "epoch")));
    cr_expect(ge(i64, member(second, "n"), 1));
    json_decref(second);
    (void) zmq_close(subscriber);
}

static void *publish_many(void *argument)
{
    const struct scope *scope = argument;

    for (int i = 0; i < 500; i++)
        events_publish(events, scope, "refreshed", "");
    return NULL;
}

Test(events_with, several_threads_publish_in_the_order_of_their_numbers)
{
    start(100000);
    void *subscriber = zmq_socket(context, ZMQ_SUB);
    const int unlimited = 0;
    pthread_t threads[4];
    struct scope scope = scope_named("u1", "a");
    char topic[256];

    (void) zmq_setsockopt(subscriber, ZMQ_RCVHWM, &unlimited, sizeof unlimited);
    (void) zmq_setsockopt(subscriber, ZMQ_SUBSCRIBE, "scope/u1/", 9);
    cr_assert(zero(int, zmq_connect(subscriber, endpoint)));
    settle(subscriber, "u1");
    for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
        cr_assert(zero(int, pthread_create(&threads[i], NULL, publish_many, &scope)));
    for (int64_t n = 1; n <= 2000; n++) {
        AUTO_JSON json_t *event = receive(subscriber, topic, sizeof topic, PATIENCE_MS);
        cr_assert(eq(i64, member(event, "n"), n));
    }
    for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
        (void) pthread_join(threads[i], NULL);
    cr_expect(eq(u64, events_dropped(events), 0));
    (void) zmq_close(subscriber);
}

Test(events, an_endpoint_that_cannot_be_bound_is_named)
{
    struct events *other = NULL;
    struct error error = {0};
    struct events_options options = {.endpoint = "ipc:///nowhere/at/all/e",
                                     .zmq_context = context,
                                     .high_water_mark = 10};

    cr_expect(eq(int, events_create(&options, &other, &error), STATUS_UNAVAILABLE));
    cr_expect(ne(ptr, strstr(error.message, "/nowhere/at/all/e"), NULL), "%s", error.message);
    options.endpoint = endpoint;
    options.high_water_mark = 0;
    cr_expect(eq(int, events_create(&options, &other, &error), STATUS_INVALID));
    cr_expect(eq(ptr, other, NULL));
}
