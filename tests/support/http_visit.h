/* tests/support/http_visit.h - a visitor of the HTTP server, by the byte.
 *
 * No Criterion, so that race bodies can use it. Thread-safe.
 */
#ifndef MEMSYNC_TESTS_HTTP_VISIT_H
#define MEMSYNC_TESTS_HTTP_VISIT_H

#include "agent/http_address.h"

#include <stddef.h>

/* A connected socket, which the caller closes; aborts the program when nobody listens. */
int http_visit(const struct http_address *address);

/* Sends a text; what is not taken, since the other side has left, is lost. */
void http_say(int fd, const char *text);

/* What comes until the end, or until it is reset, as a string; false when no end comes within ten
 * seconds, or it has no room. */
MUST_CHECK bool http_hear(int fd, char *ret, size_t size);

/* The whole reply to GET `path`, as http_hear() gives it. */
MUST_CHECK bool http_get(const struct http_address *address, const char *path, char *ret,
                         size_t size);

#endif
