/* core/query.h - what a search asks for: words, or a bounded tree of AND, OR, NOT, NEAR, phrases,
 * prefixes.
 *
 * User text never reaches SQLite unparsed. What does not parse as advanced syntax is searched as
 * plain words. A query without any word finds nothing, without an error.
 */
#ifndef MEMSYNC_CORE_QUERY_H
#define MEMSYNC_CORE_QUERY_H

#include "core/analyzer.h"
#include "core/text.h"

#define QUERY_BYTES_MAX 65536
#define QUERY_TOKENS_MAX 256 /* distinct; the rest of a longer query is ignored, and said so */
#define QUERY_DEPTH_MAX 32

/* Cuts the tokens of one phrase in a rendered query. */
#define QUERY_TOKEN_SEPARATOR '\x1f'

struct query; /* opaque, immutable after parsing */

/* Any bytes make a query; STATUS_NO_MEMORY is the only failure. What lies beyond QUERY_BYTES_MAX is
 * ignored. The caller destroys `ret`. */
MUST_CHECK enum status query_parse(const char *bytes, size_t size, struct query **ret);
void query_destroy(struct query **query);
#define AUTO_QUERY CLEANUP(query_destroy)

/* No word in it. */
bool query_is_empty(const struct query *query);
/* Words beyond the limit were ignored. */
bool query_is_truncated(const struct query *query);
/* "words" or "advanced". */
const char *query_strategy(const struct query *query);

/* The distinct tokens, in the order in which the rendered query's phrases stand (FTS5 numbers
 * phrases in that order), with their weights. */
size_t query_phrase_count(const struct query *query);
double query_phrase_weight(const struct query *query, size_t phrase);
/* True for phrases that alone do not make a text a hit (single characters of a longer run of
 * ideographs). */
bool query_phrase_is_optional(const struct query *query, size_t phrase);

/* The FTS5 expression. Every phrase is quoted; its tokens are separated by QUERY_TOKEN_SEPARATOR,
 * which the index's tokenizer cuts at. */
const char *query_expression(const struct query *query);

#endif
