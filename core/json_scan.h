/* core/json_scan.h - a reader of JSON tokens that neither copies nor recurses.
 *
 * It decides what the peers' reader (Python's) would take, so that json_text.c and manifest.c agree
 * on every input: a text is sound when the scan reaches JSON_TOKEN_END. Bounded by a nesting limit.
 */
#ifndef MEMSYNC_CORE_JSON_SCAN_H
#define MEMSYNC_CORE_JSON_SCAN_H

#include "core/json_text.h"

enum json_token_kind {
    JSON_TOKEN_END, /* the value is complete and only blanks follow */
    JSON_TOKEN_OBJECT_OPEN,
    JSON_TOKEN_OBJECT_CLOSE,
    JSON_TOKEN_ARRAY_OPEN,
    JSON_TOKEN_ARRAY_CLOSE,
    JSON_TOKEN_KEY,
    JSON_TOKEN_STRING,
    JSON_TOKEN_INTEGER,
    JSON_TOKEN_REAL,
    JSON_TOKEN_WORD,  /* true, false or null */
    JSON_TOKEN_FLOAT, /* NaN, Infinity or -Infinity */
};

struct json_token {
    enum json_token_kind kind;
    size_t start; /* offsets of the whole token; strings with their quotes */
    size_t end;
    bool escaped;  /* strings: there is a backslash inside */
    bool disguise; /* strings: a lone surrogate, U+FDD0, U+FDD1 or (in keys) NUL is inside */
};

struct json_scan {
    const char *bytes;
    size_t size;
    size_t at;
    unsigned depth; /* containers open now */
    unsigned depth_max;
    unsigned state;                                    /* what may come next; private */
    const char *problem;                               /* after a failure: what is wrong at `at` */
    uint64_t objects[(JSON_TEXT_DEPTH_MAX + 64) / 64]; /* a bit per open container: object or not */
};

/* Starts at the first byte. `bytes` must live as long as the scan. */
void json_scan_start(struct json_scan *scan, const char *bytes, size_t size, unsigned depth_max);

/* Reads the next token. False: the text is no JSON, `problem` tells why. */
MUST_CHECK bool json_scan_next(struct json_scan *scan, struct json_token *ret);

/* Fills `error` with line, column and reason of a failed scan; its path is left alone. */
enum status json_scan_fail(const struct json_scan *scan, struct error *error);

/* Reads one \uXXXX (or a pair of surrogates) at a backslash; returns its length in bytes. Lone
 * surrogates come out as they are. Only for text that a scan has accepted. */
size_t json_scan_escape(const char *bytes, size_t size, uint32_t *ret_code_point);

/* Converts decimal digits with an optional sign. False: beyond int64_t, or no such number. */
MUST_CHECK bool json_scan_integer(const char *bytes, size_t size, int64_t *ret);

#endif
