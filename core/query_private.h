/* core/query_private.h - what the two halves of the query module share: the phrases and their
 * rendering. */
#ifndef MEMSYNC_CORE_QUERY_PRIVATE_H
#define MEMSYNC_CORE_QUERY_PRIVATE_H

#include "core/query.h"

struct query_phrase {
    double weight;
    bool optional;
};

struct query {
    const char *strategy;
    bool truncated;
    size_t count;
    struct query_phrase phrases[QUERY_TOKENS_MAX];
    struct text expression;
};

/* Appends one token to a rendered phrase, inside its quotes. */
void query_render_token(struct text *expression, const char *bytes, size_t size);

/* Parses advanced syntax into `query` (zeroed). False: it is no advanced query; `query` is then
 * to be thrown away. STATUS_NO_MEMORY and the like come through `ret_status`. */
bool query_parse_advanced(const char *bytes, size_t size, struct query *query,
                          enum status *ret_status);

#endif
