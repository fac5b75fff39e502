#include "ipc/server_private.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static bool receive(void *router, zmq_msg_t *frame)
{
    for (;;) {
        if (zmq_msg_recv(frame, router, ZMQ_DONTWAIT) >= 0)
            return true;
        if (errno != EINTR)
            return false;
    }
}

/* Reads the digits of one number up to `end`; no sign, no blanks, nothing beyond 32 bits. */
static bool read_number(const char **at, char end, uint32_t *ret)
{
    uint64_t number = 0;
    const char *digit = *at;

    if (*digit < '0' || *digit > '9')
        return false;
    for (; *digit >= '0' && *digit <= '9'; digit++) {
        number = number * 10 + (uint64_t) (*digit - '0');
        if (number > UINT32_MAX)
            return false;
    }
    if (*digit != end)
        return false;
    *at = end ? digit + 1 : digit;
    *ret = (uint32_t) number;
    return true;
}

struct server_peer frames_parse_peer(const char *address)
{
    static const char prefix[] = "localhost:";
    uint32_t uid = 0;
    uint32_t gid = 0;
    uint32_t pid = 0;

    if (!address || strncmp(address, prefix, strlen(prefix)) != 0)
        return (struct server_peer){0};
    address += strlen(prefix);
    if (!read_number(&address, ':', &uid) || !read_number(&address, ':', &gid) ||
        !read_number(&address, '\0', &pid) || pid > INT32_MAX)
        return (struct server_peer){0};
    return (struct server_peer){.known = true, .uid = uid, .gid = gid, .pid = (pid_t) pid};
}

bool frames_id_is_chosen(zmq_msg_t *id)
{
    const unsigned char *bytes = zmq_msg_data(id);

    return zmq_msg_size(id) > 0 && bytes[0] != 0;
}

static void envelope_clear(struct envelope *envelope)
{
    for (unsigned i = 0; i < envelope->count; i++)
        (void) zmq_msg_close(&envelope->frames[i]);
    envelope->count = 0;
}

/* What an answer needs at the least: the routing id, and the delimiter when there was one. */
static void envelope_shorten(struct envelope *envelope)
{
    unsigned keep = 1;

    if (envelope->count > 1 && zmq_msg_size(&envelope->frames[1]) == 0)
        keep = 2;
    while (envelope->count > keep)
        (void) zmq_msg_close(&envelope->frames[--envelope->count]);
}

/* Who sent it, by what libzmq hands over with each frame of the connection. */
static void note_sender(struct job *job, zmq_msg_t *body, bool is_ipc)
{
    job->connection = zmq_msg_get(body, ZMQ_SRCFD);
    if (is_ipc)
        job->peer = frames_parse_peer(zmq_msg_gets(body, "Peer-Address"));
}

enum frames_result frames_receive(void *router, bool is_ipc, struct job *job, zmq_msg_t *body)
{
    struct envelope *envelope = &job->envelope;
    size_t bytes = 0;
    bool too_much = false;

    if (!receive(router, body))
        return FRAMES_NONE;
    while (zmq_msg_more(body)) {
        bytes += zmq_msg_size(body);
        if (envelope->count == ENVELOPE_FRAMES_MAX || bytes > ENVELOPE_BYTES_MAX) {
            too_much = true;
        } else {
            zmq_msg_t *frame = &envelope->frames[envelope->count++];
            (void) zmq_msg_init(frame);
            (void) zmq_msg_move(frame, body);
        }
        /* The parts of a message arrive together. */
        if (!receive(router, body))
            break;
    }
    note_sender(job, body, is_ipc);
    if (!too_much)
        return FRAMES_MESSAGE;
    envelope_shorten(envelope);
    return FRAMES_MALFORMED;
}

static bool send_frame(void *router, zmq_msg_t *frame, int flags)
{
    for (;;) {
        if (zmq_msg_send(frame, router, flags | ZMQ_DONTWAIT) >= 0)
            return true;
        if (errno != EINTR)
            return false;
    }
}

static void free_reply(void *bytes, void *hint UNUSED)
{
    free(bytes);
}

/* Moves the text into a message without copying it. */
static bool load_reply(zmq_msg_t *message, struct text *reply)
{
    size_t size = 0;
    char *bytes = text_take(reply, &size);

    if (!bytes)
        return false;
    if (zmq_msg_init_data(message, bytes, size, free_reply, NULL) < 0) {
        free(bytes);
        return false;
    }
    return true;
}

bool frames_send(void *router, struct envelope *envelope, struct text *reply)
{
    zmq_msg_t message;
    bool sent = envelope->count > 0 && load_reply(&message, reply);

    if (sent) {
        for (unsigned i = 0; i < envelope->count && sent; i++)
            sent = send_frame(router, &envelope->frames[i], ZMQ_SNDMORE);
        if (sent)
            sent = send_frame(router, &message, 0);
        if (!sent)
            (void) zmq_msg_close(&message);
    }
    envelope_clear(envelope);
    text_destroy(reply);
    return sent;
}

struct job *job_create(void)
{
    struct job *job = calloc(1, sizeof *job);

    if (!job)
        return NULL;
    job->references = 1;
    (void) zmq_msg_init(&job->body);
    return job;
}

void job_free(struct job *job)
{
    if (!job)
        return;
    envelope_clear(&job->envelope);
    (void) zmq_msg_close(&job->body);
    request_clear(&job->request);
    text_destroy(&job->reply);
    free(job);
}
