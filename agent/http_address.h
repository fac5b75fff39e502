/* agent/http_address.h - where metrics are served: the text of metrics.listen as an address.
 *
 * A port alone stands for 127.0.0.1, so that nothing is served to other hosts unless an address
 * says so: PORT, IPV4:PORT or [IPV6]:PORT, addresses by number only. Port 0 is any that is free.
 */
#ifndef MEMSYNC_AGENT_HTTP_ADDRESS_H
#define MEMSYNC_AGENT_HTTP_ADDRESS_H

#include "core/compiler.h"

#include <stdbool.h>
#include <sys/socket.h>

struct http_address {
    struct sockaddr_storage storage;
    socklen_t size;
};

/* False for a text of another form. */
MUST_CHECK bool http_address_parse(const char *text, struct http_address *ret);

/* True when only this host can reach it. */
bool http_address_is_loopback(const struct http_address *address);

/* Writes it as it is parsed, with its address: 127.0.0.1:9464, [::1]:9464. */
#define HTTP_ADDRESS_TEXT_SIZE 80
void http_address_format(const struct http_address *address, char ret[HTTP_ADDRESS_TEXT_SIZE]);

#endif
