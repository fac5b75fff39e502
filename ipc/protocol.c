#include "ipc/protocol.h"

#include "core/json_text.h"

#include <string.h>

/* The one table of codes: word, whether repeating helps, and the message of an error that brings
 * none. */
struct code_row {
    int code;
    const char *kind;
    bool retryable;
    const char *message;
};

static const struct code_row code_rows[] = {
    {PROTOCOL_PARSE_ERROR, "parse_error", false, "not a JSON text"},
    {PROTOCOL_INVALID_REQUEST, "invalid_request", false, "not a JSON-RPC 2.0 request"},
    {PROTOCOL_NO_METHOD, "no_method", false, "no such method"},
    {PROTOCOL_INVALID_PARAMS, "invalid_params", false, "invalid parameters"},
    {PROTOCOL_INTERNAL, "internal", false, "internal error"},
    {-32001, "not_found", false, "not found"},
    {-32002, "conflict", true, "changed by somebody else; read again"},
    {-32003, "corrupt", false, "the stored bytes cannot be understood"},
    {-32004, "timeout", true, "the deadline passed"},
    {-32005, "denied", false, "not permitted"},
    {-32006, "unsupported", false, "not supported by this backend or version"},
    {-32007, "unavailable", true, "cannot be answered now"},
    {-32008, "storage_full", true, "no space left on the volume"},
    {-32009, "busy", true, "a limit was reached; try later"},
    {-32010, "too_large", false, "too large"},
};

static const int status_codes[STATUS_COUNT] = {
    [STATUS_OK] = PROTOCOL_INTERNAL,
    [STATUS_INVALID] = PROTOCOL_INVALID_PARAMS,
    [STATUS_NOT_FOUND] = -32001,
    [STATUS_CONFLICT] = -32002,
    [STATUS_CORRUPT] = -32003,
    [STATUS_TIMEOUT] = -32004,
    [STATUS_DENIED] = -32005,
    [STATUS_UNSUPPORTED] = -32006,
    [STATUS_UNAVAILABLE] = -32007,
    [STATUS_STORAGE_FULL] = -32008,
    [STATUS_BUSY] = -32009,
    [STATUS_TOO_LARGE] = -32010,
    [STATUS_STALE] = -32007,
    [STATUS_IO] = -32007,
    [STATUS_NO_MEMORY] = PROTOCOL_INTERNAL,
    [STATUS_WOULD_BLOCK] = PROTOCOL_INTERNAL,
    [STATUS_INTERNAL] = PROTOCOL_INTERNAL,
};

static const struct code_row *row_of(int code)
{
    const struct code_row *internal = NULL;

    for (size_t i = 0; i < ARRAY_SIZE(code_rows); i++) {
        if (code_rows[i].code == code)
            return &code_rows[i];
        if (code_rows[i].code == PROTOCOL_INTERNAL)
            internal = &code_rows[i];
    }
    return internal;
}

int protocol_code_of(enum status status)
{
    return (size_t) status < ARRAY_SIZE(status_codes) ? status_codes[status] : PROTOCOL_INTERNAL;
}

bool protocol_is_retryable(enum status status)
{
    return row_of(protocol_code_of(status))->retryable;
}

/* Notes what is wrong and passes the code on, so that it can end a return statement. */
static int refuse(struct error *error, int code, const char *message)
{
    (void) error_set(error, STATUS_INVALID, NULL, "%s", message);
    return code;
}

static int refuse_memory(struct error *error)
{
    (void) error_set(error, STATUS_NO_MEMORY, NULL, "out of memory");
    return PROTOCOL_INTERNAL;
}

/* Strings, integers of any size and null are ids. Anything else could not be echoed exactly. */
static int read_id(const json_t *id, struct request *ret, struct error *error)
{
    AUTO_TEXT struct text text = {0};
    bool fits = false;
    int64_t number = 0;

    if (!id) {
        ret->is_notification = true;
        return 0;
    }
    bool is_integer = json_text_is_integer(id, &fits, &number);
    if (!is_integer && !json_is_string(id) && !json_is_null(id))
        return refuse(error, PROTOCOL_INVALID_REQUEST, "id must be a string, an integer or null");
    if (!is_integer && json_string_length(id) > PROTOCOL_ID_BYTES_MAX)
        return refuse(error, PROTOCOL_INVALID_REQUEST, "id is longer than 256 bytes");

    json_text_write(&text, id);
    if (is_integer && text.size > PROTOCOL_ID_BYTES_MAX)
        return refuse(error, PROTOCOL_INVALID_REQUEST, "id is longer than 256 digits");
    char *copy = text_take(&text, NULL);
    if (!copy)
        return refuse_memory(error);
    free(ret->id);
    ret->id = copy;
    return 0;
}

static int read_version(const json_t *version, struct error *error)
{
    if (json_is_string(version) && strcmp(json_string_value(version), "2.0") == 0)
        return 0;
    return refuse(error, PROTOCOL_INVALID_REQUEST, "jsonrpc must be \"2.0\"");
}

static int read_method(const json_t *method, struct request *ret, struct error *error)
{
    const char *name = json_string_value(method);
    size_t size = json_string_length(method);

    /* A NUL inside would make two methods look alike. */
    if (!name || size == 0 || size > PROTOCOL_METHOD_BYTES_MAX || strlen(name) != size)
        return refuse(error, PROTOCOL_INVALID_REQUEST, "method must be a string of 1 to 64 bytes");
    ret->method = strdup(name);
    return ret->method ? 0 : refuse_memory(error);
}

static int read_params(json_t *params, struct request *ret, struct error *error)
{
    if (params && !json_is_object(params))
        return refuse(error, PROTOCOL_INVALID_PARAMS, "params must be an object");
    ret->params = params ? json_incref(params) : json_object();
    return ret->params ? 0 : refuse_memory(error);
}

/* The id comes first, so that the reply to whatever else is wrong carries it. */
static int read_members(const json_t *root, struct request *ret, struct error *error)
{
    int code = read_id(json_object_get(root, "id"), ret, error);

    if (code == 0)
        code = read_version(json_object_get(root, "jsonrpc"), error);
    if (code == 0)
        code = read_method(json_object_get(root, "method"), ret, error);
    if (code == 0)
        code = read_params(json_object_get(root, "params"), ret, error);
    return code;
}

int protocol_read_request(const char *bytes, size_t size, struct request *ret, struct error *error)
{
    AUTO_JSON json_t *root = NULL;

    *ret = (struct request){.id = strdup("null")};
    if (!ret->id)
        return refuse_memory(error);
    enum status status = json_text_read(bytes, size, PROTOCOL_DEPTH_MAX, &root, error);
    if (status == STATUS_NO_MEMORY)
        return PROTOCOL_INTERNAL;
    if (status != STATUS_OK)
        return PROTOCOL_PARSE_ERROR;
    if (json_is_array(root))
        return refuse(error, PROTOCOL_INVALID_REQUEST, "batches are not supported");
    if (!json_is_object(root))
        return refuse(error, PROTOCOL_INVALID_REQUEST, "a request must be an object");
    return read_members(root, ret, error);
}

void request_clear(struct request *request)
{
    free(request->id);
    free(request->method);
    json_decref(request->params);
    *request = (struct request){0};
}

static void write_head(struct text *text, const char *id, const char *member)
{
    text_append_string(text, "{\"jsonrpc\":\"2.0\",\"id\":");
    text_append_string(text, id ? id : "null");
    text_append_string(text, member);
}

void protocol_write_result(struct text *text, const char *id, const char *result, size_t size)
{
    write_head(text, id, ",\"result\":");
    if (size > 0)
        text_append(text, result, size);
    else
        text_append_string(text, "null");
    text_append_char(text, '}');
}

/* A copy that is one line of UTF-8 whatever it was before. */
static void append_line(struct text *text, const char *bytes)
{
    size_t size = strlen(bytes);

    while (size > 0) {
        size_t length = 1;
        uint32_t character = text_decode(bytes, size, &length);
        char encoded[4];

        if (character < 0x20 || character == 0x7f)
            character = ' ';
        text_append(text, encoded, text_encode(character, encoded));
        bytes += length;
        size -= length;
    }
}

static void write_line(struct text *text, const char *bytes)
{
    AUTO_TEXT struct text line = {0};

    append_line(&line, bytes);
    if (!text_ok(&line))
        text->failed = true;
    json_text_write_string(text, text_string(&line), line.size);
}

/* As the request had it: with other characters it would be another's. */
static void write_name(struct text *text, const char *name)
{
    if (name && text_is_utf8(name, strlen(name)))
        json_text_write_string(text, name, strlen(name));
    else
        text_append_string(text, "null");
}

static void write_line_or_null(struct text *text, const char *bytes)
{
    if (bytes)
        write_line(text, bytes);
    else
        text_append_string(text, "null");
}

void protocol_write_error(struct text *text, const char *id, int code, const struct error *error,
                          const char *user_id, const char *agent_name)
{
    if (code == 0)
        code = protocol_code_of(error->status);
    const struct code_row *row = row_of(code);

    write_head(text, id, ",\"error\":{\"code\":");
    text_append_format(text, "%d,\"message\":", code);
    write_line(text, error->message[0] ? error->message : row->message);
    text_append_format(text, ",\"data\":{\"kind\":\"%s\",\"user_id\":", row->kind);
    write_name(text, user_id);
    text_append_string(text, ",\"agent_name\":");
    write_name(text, agent_name);
    text_append_string(text, ",\"path\":");
    write_line_or_null(text, error->path[0] ? error->path : NULL);
    text_append_format(text, ",\"retryable\":%s%s}}}", row->retryable ? "true" : "false",
                       error->members);
}

static bool is_unreserved(unsigned char byte)
{
    return (byte >= 'A' && byte <= 'Z') || (byte >= 'a' && byte <= 'z') ||
           (byte >= '0' && byte <= '9') || byte == '-' || byte == '_' || byte == '.' || byte == '~';
}

void protocol_write_percent(struct text *text, const char *bytes)
{
    for (; *bytes; bytes++) {
        unsigned char byte = (unsigned char) *bytes;

        if (is_unreserved(byte))
            text_append_char(text, *bytes);
        else
            text_append_format(text, "%%%02X", byte);
    }
}
