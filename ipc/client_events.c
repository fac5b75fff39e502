/* client_events.c - subscriptions to what the agent tells about changes. */
#include "ipc/client_private.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEFAULT_AGENT "__default__"

struct memsync_subscriber {
    memsync_client *client; /* for its interrupts; outlives the subscriber */
    char *endpoint;
    char *prefix;
    struct connection connection;
};

/* Asks the agent where it publishes. */
static int ask_endpoint(memsync_client *client, char **ret)
{
    char *reply = NULL;

    int code = memsync_call(client, "ping", NULL, 0, &reply);
    if (code != MEMSYNC_OK) {
        memsync_free(reply);
        return code;
    }
    json_t *result = json_loads(reply, JSON_ALLOW_NUL, NULL);
    const char *events = json_string_value(json_object_get(result, "events"));
    if (!events || !*events || strcmp(events, "off") == 0) {
        code = client_fail(MEMSYNC_UNSUPPORTED, "the agent publishes no events (ipc.events)");
    } else {
        *ret = strdup(events);
        if (!*ret)
            code = client_fail(MEMSYNC_NO_MEMORY, "out of memory");
    }
    json_decref(result);
    memsync_free(reply);
    return code;
}

static int connect_subscriber(memsync_subscriber *subscriber)
{
    struct connection *connection = &subscriber->connection;

    int code = connection_ready(connection);
    if (code == MEMSYNC_OK)
        code = connection_wait_up(connection, client_wake(subscriber->client),
                                  client_deadline_ns(MEMSYNC_DEFAULT_TIMEOUT_MS));
    if (code == CLIENT_TIMED_OUT) {
        connection_drop(connection);
        code = client_fail(MEMSYNC_NO_AGENT, "nobody answers at %s within %d ms",
                           subscriber->endpoint, MEMSYNC_DEFAULT_TIMEOUT_MS);
    }
    connection->is_patient = code == MEMSYNC_OK;
    return code;
}

static int make_subscriber(memsync_subscriber *subscriber, const char *endpoint, const char *prefix)
{
    if (endpoint) {
        subscriber->endpoint = strdup(endpoint);
    } else {
        int code = ask_endpoint(subscriber->client, &subscriber->endpoint);
        if (code != MEMSYNC_OK)
            return code;
    }
    subscriber->prefix = strdup(prefix ? prefix : "");
    if (!subscriber->endpoint || !subscriber->prefix)
        return client_fail(MEMSYNC_NO_MEMORY, "out of memory");
    const char *wrong = memsync_endpoint_error(subscriber->endpoint);
    if (wrong)
        return client_fail(MEMSYNC_BAD_ENDPOINT, "%s", wrong);
    subscriber->connection = (struct connection){.kind = ZMQ_SUB,
                                                 .endpoint = subscriber->endpoint,
                                                 .prefix = subscriber->prefix};
    return connect_subscriber(subscriber);
}

int memsync_subscribe(memsync_client *client, const char *endpoint, const char *prefix,
                      memsync_subscriber **ret)
{
    if (!client || !ret)
        return client_fail(MEMSYNC_BAD_PARAMS, "there is no client, or no place for the result");
    *ret = NULL;
    client_adopt(client);
    memsync_subscriber *subscriber = calloc(1, sizeof *subscriber);
    if (!subscriber)
        return client_fail(MEMSYNC_NO_MEMORY, "out of memory");
    subscriber->client = client;
    int code = make_subscriber(subscriber, endpoint, prefix);
    if (code != MEMSYNC_OK) {
        memsync_unsubscribe(&subscriber);
        return code;
    }
    *ret = subscriber;
    return MEMSYNC_OK;
}

static int take_event(struct connection *connection, char **ret_topic, char **ret_body)
{
    zmq_msg_t first, last;

    int code = connection_receive(connection, &first, &last);
    if (code == MEMSYNC_OK) {
        *ret_topic = client_copy(zmq_msg_data(&first), zmq_msg_size(&first));
        *ret_body = client_copy(zmq_msg_data(&last), zmq_msg_size(&last));
        if (!*ret_topic || !*ret_body) {
            free(*ret_topic);
            free(*ret_body);
            *ret_topic = *ret_body = NULL;
            code = client_fail(MEMSYNC_NO_MEMORY, "out of memory");
        }
    }
    (void) zmq_msg_close(&first);
    (void) zmq_msg_close(&last);
    return code;
}

int memsync_next_event(memsync_subscriber *subscriber, int timeout_ms, char **ret_topic,
                       char **ret_body)
{
    if (!subscriber || !ret_topic || !ret_body)
        return client_fail(MEMSYNC_BAD_PARAMS, "there is no subscriber, or no place for the event");
    *ret_topic = *ret_body = NULL;
    uint64_t deadline_ns = timeout_ms < 0 ? UINT64_MAX : client_deadline_ns(timeout_ms);
    client_adopt(subscriber->client);
    int code = connection_ready(&subscriber->connection);
    while (code == MEMSYNC_OK) {
        code =
            connection_wait(&subscriber->connection, client_wake(subscriber->client), deadline_ns);
        if (code == MEMSYNC_OK)
            code = take_event(&subscriber->connection, ret_topic, ret_body);
        if (code == MEMSYNC_OK)
            return MEMSYNC_OK;
    }
    if (code == CLIENT_TIMED_OUT)
        code = client_fail(MEMSYNC_NO_AGENT, "no event within %d ms", timeout_ms);
    return code;
}

void memsync_unsubscribe(memsync_subscriber **subscriber)
{
    if (!subscriber || !*subscriber)
        return;
    connection_drop(&(*subscriber)->connection);
    free((*subscriber)->endpoint);
    free((*subscriber)->prefix);
    free(*subscriber);
    *subscriber = NULL;
}

static bool is_plain(unsigned char byte)
{
    return (byte >= 'A' && byte <= 'Z') || (byte >= 'a' && byte <= 'z') ||
           (byte >= '0' && byte <= '9') || byte == '-' || byte == '_' || byte == '.' || byte == '~';
}

static char *put_percent(char *at, const char *bytes, bool in_lower_case)
{
    static const char digits[] = "0123456789ABCDEF";

    for (; *bytes; bytes++) {
        unsigned char byte = (unsigned char) *bytes;
        if (in_lower_case && byte >= 'A' && byte <= 'Z')
            byte = (unsigned char) (byte + ('a' - 'A'));
        if (is_plain(byte)) {
            *at++ = (char) byte;
        } else {
            *at++ = '%';
            *at++ = digits[byte >> 4];
            *at++ = digits[byte & 15];
        }
    }
    return at;
}

char *memsync_topic(const char *user, const char *agent)
{
    static const char start[] = "scope/";

    user = user ? user : "";
    agent = agent ? agent : DEFAULT_AGENT;
    char *topic = malloc(sizeof start + 3 * strlen(user) + 3 * strlen(agent) + 3);
    if (!topic) {
        (void) client_fail(MEMSYNC_NO_MEMORY, "out of memory");
        return NULL;
    }
    memcpy(topic, start, sizeof start);
    char *at = put_percent(topic + sizeof start - 1, user, false);
    *at++ = '/';
    at = put_percent(at, agent, true); /* agents differ by more than case */
    *at++ = '/';
    *at = '\0';
    return topic;
}
