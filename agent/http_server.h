/* agent/http_server.h - small answers over HTTP, for monitoring; a thread of its own.
 *
 * GET and HEAD only, one answer a connection. Whatever a client does, it costs no more than a place
 * of HTTP_CONNECTIONS_MAX, and that for HTTP_PATIENCE_MS: who has not had his answer by then is cut
 * off, however busily he sends. Nobody else waits for this thread, so it may be kept busy.
 */
#ifndef MEMSYNC_AGENT_HTTP_SERVER_H
#define MEMSYNC_AGENT_HTTP_SERVER_H

#include "agent/http_address.h"
#include "core/status.h"
#include "core/text.h"

#define HTTP_CONNECTIONS_MAX 32 /* further ones wait in the kernel for one to end */
#define HTTP_PATIENCE_MS 5000
#define HTTP_REQUEST_BYTES_MAX 8192 /* of its head; a longer one is refused */

struct http_server; /* opaque */

struct http_answer {
    unsigned code;    /* 0: there is nothing at that path */
    const char *type; /* of the body */
    struct text body;
};

/* Answers a request for `path`, which comes without its query. On the server's thread; must wait
 * for nobody. */
typedef void (*http_handler)(void *context, const char *path, struct http_answer *answer);

/* Listens and starts the thread. The error names the address. */
MUST_CHECK enum status http_server_start(const struct http_address *address, http_handler handler,
                                         void *context, struct http_server **ret,
                                         struct error *error);

/* Where it listens, with the port that it got. */
const struct http_address *http_server_address(const struct http_server *server);

/* Cuts off who is connected and ends the thread; waits for no client. */
void http_server_stop(struct http_server **server);

#endif
