#include "ipc/server_private.h"

#include "core/clock.h"
#include "core/json_text.h"
#include "core/scope.h"

#include <string.h>

/* What a request may cost of its time so that the handler answers before the server does. */
#define HANDLER_RESERVE_MS_MAX 50

/* Replies larger than this do not leave their memory behind on the serving thread. */
#define SCRATCH_BYTES_KEPT (1u << 20)

/* NULL also where a NUL inside would make it another's name. */
static const char *string_member(const json_t *params, const char *name, size_t size_max)
{
    const json_t *value = json_object_get(params, name);
    const char *text = json_string_value(value);
    size_t size = json_string_length(value);

    return text && size <= size_max && strlen(text) == size ? text : NULL;
}

void request_count_reply(struct server *server, int code)
{
    if (code == 0)
        return;
    atomic_fetch_add(&server->counters.errors, 1);
    if (code == protocol_code_of(STATUS_TIMEOUT))
        atomic_fetch_add(&server->counters.timeouts, 1);
    else if (code == protocol_code_of(STATUS_BUSY))
        atomic_fetch_add(&server->counters.busy, 1);
    else if (code == PROTOCOL_PARSE_ERROR || code == PROTOCOL_INVALID_REQUEST)
        atomic_fetch_add(&server->counters.malformed, 1);
}

/* Returns the code that it wrote. */
static int write_error(const struct request *request, int code, const struct error *error,
                       struct text *reply)
{
    if (code == 0)
        code = protocol_code_of(error->status);
    text_clear(reply);
    protocol_write_error(reply, request->id, code, error,
                         string_member(request->params, "user_id", SCOPE_USER_MAX),
                         string_member(request->params, "agent_name", SCOPE_NAME_MAX));
    return code;
}

/* The reply of a handler's call; returns the error code that it carries, 0: a result. */
static int write_reply(const struct request *request, enum status status, int code,
                       const struct text *result, const struct error *error, struct text *reply)
{
    struct error own = *error;

    if (status == STATUS_OK && code == 0 && text_ok(result)) {
        protocol_write_result(reply, request->id, text_string(result), result->size);
        if (text_ok(reply))
            return 0;
    }
    if (status == STATUS_OK && code == 0)
        status = error_set(&own, STATUS_NO_MEMORY, NULL, "out of memory while answering");
    if (own.status == STATUS_OK)
        own.status = status == STATUS_OK ? STATUS_INVALID : status;
    return write_error(request, code, &own, reply);
}

static enum status call_handler(struct server *server, const struct job *job,
                                const struct request *request, unsigned thread, struct text *result,
                                int *ret_code, struct error *error)
{
    const struct server_call call = {
        .method = request->method,
        .params = request->params,
        .peer = job->peer,
        .deadline_ns = job->handler_deadline_ns,
        .may_block = thread > 0,
        .thread = thread,
    };

    return server->handler.handle(server->handler.context, &call, result, ret_code, error);
}

void request_send(struct server *server, struct job *job, struct text *reply)
{
    if (!frames_send(server->router, &job->envelope, reply))
        atomic_fetch_add(&server->counters.undelivered, 1);
}

static void answer_error(struct server *server, struct job *job, int code,
                         const struct error *error)
{
    AUTO_TEXT struct text reply = {0};

    request_count_reply(server, write_error(&job->request, code, error, &reply));
    request_send(server, job, &reply);
}

void request_answer(struct server *server, struct job *job, enum status status, const char *message)
{
    struct error error = {0};

    (void) error_set(&error, status, NULL, "%s", message);
    answer_error(server, job, 0, &error);
}

/* params.timeout_ms, clamped; the default without one. */
static enum status read_timeout(const struct server *server, const json_t *params, uint64_t *ret,
                                struct error *error)
{
    const json_t *value = json_object_get(params, "timeout_ms");
    const struct server_options *options = &server->options;
    bool fits = false;
    int64_t number = options->timeout_default_ms;

    if (value && !json_is_null(value)) {
        if (!json_text_is_integer(value, &fits, &number))
            return error_set(error, STATUS_INVALID, NULL, "timeout_ms must be an integer");
        if (!fits) {
            const char *digits = json_string_value(value);
            number = digits && strchr(digits, '-') ? 1 : INT64_MAX;
        }
    }
    if (number < 1)
        number = 1;
    *ret = number > options->timeout_max_ms ? options->timeout_max_ms : (uint64_t) number;
    return STATUS_OK;
}

static void set_deadlines(struct job *job, uint64_t timeout_ms)
{
    uint64_t reserve_ns = timeout_ms * NS_PER_MS / 8;

    if (reserve_ns > HANDLER_RESERVE_MS_MAX * NS_PER_MS)
        reserve_ns = HANDLER_RESERVE_MS_MAX * NS_PER_MS;
    job->deadline_ns = clock_deadline_ms(timeout_ms);
    job->handler_deadline_ns = job->deadline_ns - reserve_ns;
}

/* Calls the handler on this thread. False: the job was queued and is no longer the caller's. */
static bool answer_or_queue(struct server *server, struct job *job)
{
    AUTO_TEXT struct text reply = {0};
    struct error error = {0};
    int code = 0;

    text_clear(&server->result);
    enum status status =
        call_handler(server, job, &job->request, 0, &server->result, &code, &error);
    if (status == STATUS_WOULD_BLOCK && code == 0) {
        error_clear(&error);
        status = queue_put(&server->queue, job, &error);
        if (status == STATUS_OK) {
            atomic_fetch_add(&server->counters.queued, 1);
            return false;
        }
    } else {
        atomic_fetch_add(&server->counters.inline_replies, 1);
    }
    code = write_reply(&job->request, status, code, &server->result, &error, &reply);
    request_count_reply(server, code);
    if (server->result.capacity > SCRATCH_BYTES_KEPT)
        text_destroy(&server->result);
    request_send(server, job, &reply);
    return true;
}

/* 0, or what is wrong with the frame; `ret` must be cleared in any case. */
static int read_frame(const struct server *server, zmq_msg_t *body, struct request *ret,
                      struct error *error)
{
    uint64_t ignored = 0;
    int code = protocol_read_request(zmq_msg_data(body), zmq_msg_size(body), ret, error);

    if (code == 0 && read_timeout(server, ret->params, &ignored, error) != STATUS_OK)
        code = PROTOCOL_INVALID_PARAMS;
    return code;
}

static void run_request(struct server *server, struct job *job, const struct request *request,
                        unsigned thread)
{
    AUTO_TEXT struct text result = {0};
    struct error error = {0};
    int code = 0;

    enum status status = call_handler(server, job, request, thread, &result, &code, &error);
    job->code = write_reply(request, status, code, &result, &error, &job->reply);
}

void request_run(struct server *server, struct job *job, unsigned thread)
{
    struct request whole = {0};
    struct error error = {0};

    if (zmq_msg_size(&job->body) == 0) {
        run_request(server, job, &job->request, thread);
        return;
    }
    /* The job's own request stays as it is, since the serving thread may be answering from it. */
    int code = read_frame(server, &job->body, &whole, &error);
    if (code == 0)
        run_request(server, job, &whole, thread);
    else
        job->code = write_error(&whole, code, &error, &job->reply);
    request_clear(&whole);
}

/* A client that came back under its name gets nothing that its predecessor asked for. */
static void note_handover(struct server *server, struct job *job)
{
    zmq_msg_t *id = &job->envelope.frames[0];

    if (!frames_id_is_chosen(id))
        return;
    monitor_read(server);
    queue_abandon(&server->queue, job->connection, id);
}

/* Large: whatever it asks for, a request thread reads it. What the skimming does not find in a
 * frame that nobody can read either is the default. */
static bool queue_unread(struct server *server, struct job *job, zmq_msg_t *body)
{
    struct error error = {0};
    uint64_t timeout_ms = server->options.timeout_default_ms;

    skim_request(zmq_msg_data(body), job->size, &job->request);
    if (atomic_load(&server->stopping)) {
        request_answer(server, job, STATUS_UNAVAILABLE, "shutting down");
        return true;
    }
    if (read_timeout(server, job->request.params, &timeout_ms, &error) != STATUS_OK)
        error_clear(&error);
    set_deadlines(job, timeout_ms);
    (void) zmq_msg_move(&job->body, body);
    if (queue_put(&server->queue, job, &error) != STATUS_OK) {
        answer_error(server, job, 0, &error);
        return true;
    }
    atomic_fetch_add(&server->counters.queued, 1);
    return false;
}

/* Answers it, or hands it to the queue; false: it is no longer the caller's. */
static bool handle_message(struct server *server, struct job *job, zmq_msg_t *body)
{
    struct error error = {0};
    uint64_t timeout_ms = 0;

    job->size = zmq_msg_size(body);
    note_handover(server, job);
    if (job->size > server->options.message_bytes_max) {
        (void) error_set(&error, STATUS_TOO_LARGE, NULL, "a request of %zu bytes, the limit is %zu",
                         job->size, server->options.message_bytes_max);
        answer_error(server, job, 0, &error);
        return true;
    }
    if (job->size > SERVER_INLINE_BYTES_MAX)
        return queue_unread(server, job, body);
    int code = protocol_read_request(zmq_msg_data(body), job->size, &job->request, &error);
    if (code == 0 && atomic_load(&server->stopping)) {
        request_answer(server, job, STATUS_UNAVAILABLE, "shutting down");
        return true;
    }
    if (code == 0 && read_timeout(server, job->request.params, &timeout_ms, &error) != STATUS_OK)
        code = PROTOCOL_INVALID_PARAMS;
    if (code) {
        answer_error(server, job, code, &error);
        return true;
    }
    set_deadlines(job, timeout_ms);
    return answer_or_queue(server, job);
}

static void refuse_envelope(struct server *server, struct job *job)
{
    struct error error = {0};

    (void) error_set(&error, STATUS_INVALID, NULL,
                     "more than %d frames before the request, or more than %d bytes in them and "
                     "the routing id",
                     ENVELOPE_FRAMES_MAX - 1, ENVELOPE_BYTES_MAX);
    answer_error(server, job, PROTOCOL_INVALID_REQUEST, &error);
}

bool request_serve_one(struct server *server)
{
    struct job *job = job_create();
    enum frames_result result = FRAMES_NONE;
    bool ours = true;
    zmq_msg_t body;

    if (!job)
        return false;
    (void) zmq_msg_init(&body);
    result = frames_receive(server->router, server->is_ipc, job, &body);
    if (result != FRAMES_NONE)
        atomic_fetch_add(&server->counters.requests, 1);
    if (result == FRAMES_MALFORMED || (result == FRAMES_MESSAGE && job->envelope.count == 0))
        refuse_envelope(server, job);
    else if (result == FRAMES_MESSAGE)
        ours = handle_message(server, job, &body);
    if (ours)
        job_free(job);
    (void) zmq_msg_close(&body);
    return result != FRAMES_NONE;
}
