/* fuzz_request.c - any bytes as a request: a code or a request, and always a sound reply. */
#include "ipc/protocol.h"

#include "core/json_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* Whatever came in, what goes out must be one JSON object in UTF-8 that carries the id. */
static void check_reply(const struct text *reply)
{
    AUTO_JSON json_t *root = NULL;
    struct error error = {0};

    if (!text_ok(reply) || !text_is_utf8(reply->bytes, reply->size))
        abort();
    if (json_text_read(reply->bytes, reply->size, JSON_TEXT_DEPTH_MAX, &root, &error) !=
            STATUS_OK ||
        !json_object_get(root, "id"))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    AUTO_TEXT struct text params = {0};
    AUTO_TEXT struct text reply = {0};
    struct request request;
    struct error error = {0};

    int code = protocol_read_request((const char *) bytes, size, &request, &error);
    if (code) {
        protocol_write_error(&reply, request.id, code, &error, NULL, NULL);
    } else {
        if (!request.method || !json_is_object(request.params))
            abort();
        json_text_write(&params, request.params);
        protocol_write_result(&reply, request.id, text_string(&params), params.size);
    }
    check_reply(&reply);
    request_clear(&request);
    return 0;
}
