/* ipc/protocol.h - JSON-RPC 2.0 as the agent speaks it: envelope, limits, error numbers.
 *
 * docs/protocol.md is the reference. Pure: no I/O. Every function may be called from any thread.
 */
#ifndef MEMSYNC_IPC_PROTOCOL_H
#define MEMSYNC_IPC_PROTOCOL_H

#include "core/status.h"
#include "core/text.h"

#define PROTOCOL_VERSION 1
#define PROTOCOL_DEPTH_MAX 32
#define PROTOCOL_REQUEST_BYTES_MAX (4u << 20) /* default; ipc.max_message_bytes */
#define PROTOCOL_ID_BYTES_MAX 256             /* of a string id, or digits of a number */
#define PROTOCOL_METHOD_BYTES_MAX 64

/* JSON-RPC's own codes. */
enum protocol_code {
    PROTOCOL_PARSE_ERROR = -32700,
    PROTOCOL_INVALID_REQUEST = -32600,
    PROTOCOL_NO_METHOD = -32601,
    PROTOCOL_INVALID_PARAMS = -32602,
    PROTOCOL_INTERNAL = -32603,
};

/* The number of a status on the wire: -32001 not_found ... -32010 too_large, STATUS_INVALID is
 * -32602, STATUS_IO and STATUS_STALE are -32007 unavailable, the rest -32603. */
int protocol_code_of(enum status status);

/* True when repeating the same request later may work: busy, timeout, conflict, storage_full and
 * whatever is unavailable on the wire. */
bool protocol_is_retryable(enum status status);

struct request {
    char *id;             /* the id as JSON text, "null" when it could not be read; owned */
    bool is_notification; /* no id member: still gets exactly one reply, with id null */
    char *method;         /* owned */
    json_t *params;       /* an object; owned */
};

/* Reads one frame. Everything wrong gives a code (0 when fine) and `error`; `ret->id` is then as
 * good as it could be read, so that the reply can carry it. Batches are PROTOCOL_INVALID_REQUEST.
 * `ret` is always filled (what is missing is NULL) and always needs request_clear(). */
int protocol_read_request(const char *bytes, size_t size, struct request *ret, struct error *error);
void request_clear(struct request *request);

/* Appends {"jsonrpc":"2.0","id":ID,"result":RESULT}; `result` is JSON text, an empty one stands for
 * null. `id` NULL is null. */
void protocol_write_result(struct text *text, const char *id, const char *result, size_t size);

/* Appends the error reply; data = {kind, user_id, agent_name, path, retryable}. `user_id` and
 * `agent_name` are NULL where unknown, and written exactly or not at all. `code` 0: from
 * error->status. Elsewhere bytes that are not UTF-8 become U+FFFD and control characters blanks,
 * since messages may quote file names. */
void protocol_write_error(struct text *text, const char *id, int code, const struct error *error,
                          const char *user_id, const char *agent_name);

/* Percent-encodes all but A-Z a-z 0-9 - _ . ~ (for event topics). */
void protocol_write_percent(struct text *text, const char *bytes);

#endif
