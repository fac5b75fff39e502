#include "agent/http_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define PORT_MAX 65535

/* Decimal digits without sign, leading zeros or anything behind them. */
static bool parse_port(const char *text, in_port_t *ret)
{
    size_t digits = strspn(text, "0123456789");

    if (digits == 0 || digits > 5 || text[digits] != '\0' || (digits > 1 && text[0] == '0'))
        return false;
    unsigned long port = strtoul(text, NULL, 10);
    if (port > PORT_MAX)
        return false;
    *ret = htons((uint16_t) port);
    return true;
}

static bool parse_ipv4(const char *host, in_port_t port, struct http_address *ret)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = port};

    if (inet_pton(AF_INET, host, &address.sin_addr) != 1)
        return false;
    memcpy(&ret->storage, &address, sizeof address);
    ret->size = sizeof address;
    return true;
}

static bool parse_ipv6(const char *host, in_port_t port, struct http_address *ret)
{
    struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_port = port};

    if (inet_pton(AF_INET6, host, &address.sin6_addr) != 1)
        return false;
    memcpy(&ret->storage, &address, sizeof address);
    ret->size = sizeof address;
    return true;
}

bool http_address_parse(const char *text, struct http_address *ret)
{
    char host[INET6_ADDRSTRLEN] = "127.0.0.1";
    const char *colon = strrchr(text, ':');
    bool in_brackets = text[0] == '[' && colon > text && colon[-1] == ']';
    in_port_t port = 0;

    *ret = (struct http_address){0};
    if (!parse_port(colon ? colon + 1 : text, &port))
        return false;
    if (colon) {
        const char *begin = text + in_brackets;
        size_t length = (size_t) (colon - begin) - in_brackets;
        if (length >= sizeof host)
            return false;
        memcpy(host, begin, length);
        host[length] = '\0';
    }
    return in_brackets ? parse_ipv6(host, port, ret) : parse_ipv4(host, port, ret);
}

bool http_address_is_loopback(const struct http_address *address)
{
    if (address->storage.ss_family == AF_INET) {
        struct sockaddr_in ipv4;
        memcpy(&ipv4, &address->storage, sizeof ipv4);
        return ntohl(ipv4.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    }
    struct sockaddr_in6 ipv6;
    memcpy(&ipv6, &address->storage, sizeof ipv6);
    return IN6_IS_ADDR_LOOPBACK(&ipv6.sin6_addr);
}

void http_address_format(const struct http_address *address, char ret[HTTP_ADDRESS_TEXT_SIZE])
{
    char host[INET6_ADDRSTRLEN] = "";

    if (address->storage.ss_family == AF_INET) {
        struct sockaddr_in ipv4;
        memcpy(&ipv4, &address->storage, sizeof ipv4);
        (void) inet_ntop(AF_INET, &ipv4.sin_addr, host, sizeof host);
        (void) snprintf(ret, HTTP_ADDRESS_TEXT_SIZE, "%s:%u", host, ntohs(ipv4.sin_port));
        return;
    }
    struct sockaddr_in6 ipv6;
    memcpy(&ipv6, &address->storage, sizeof ipv6);
    (void) inet_ntop(AF_INET6, &ipv6.sin6_addr, host, sizeof host);
    (void) snprintf(ret, HTTP_ADDRESS_TEXT_SIZE, "[%s]:%u", host, ntohs(ipv6.sin6_port));
}
