/* core/json_text.h - JSON as the peers read and write it, on jansson's trees.
 *
 * The peers are Python programs. Their reader takes NaN, Infinity and -Infinity, integers of any
 * size, floats beyond the range of a double (as infinity), the escape of a lone surrogate, and the
 * last of several equal keys; it refuses a byte order mark, control characters inside strings,
 * comments, trailing commas and anything after the value. jansson takes none of the first four, so
 * they are carried through its trees in disguise and json_text_write() puts them back:
 *
 *   NaN, infinities      an object {"$float": "nan" | "inf" | "-inf"}; it stays so on our wire, and
 *                        only json_text_write_pretty() writes the peers' NaN, Infinity, -Infinity
 *   a big integer        a string that begins with U+FDD0, its digits after it; written as a number
 *   a lone surrogate     U+FDD1 and four hexadecimal digits inside a string; written as \uXXXX
 *   NUL inside a key     the same with 0000 (NUL inside a value is an ordinary character here)
 *   U+FDD0, U+FDD1       the same with fdd0, fdd1
 *
 * A real is written with the fewest digits that read back as the same number, in Python's spelling
 * (0.8, 1e-09, 1000.0). The process must keep LC_NUMERIC at "C", as it starts.
 *
 * Other values that JSON lacks (YAML has them) are told on our wire as {"$date": "2026-02-10"},
 * {"$datetime": "2026-02-10T09:30:00+00:00"}, {"$binary": base64}, {"$set": [...]} and
 * {"$pairs": [[key, value], ...]} (a mapping with keys that are no strings).
 */
#ifndef MEMSYNC_CORE_JSON_TEXT_H
#define MEMSYNC_CORE_JSON_TEXT_H

#include "core/status.h"
#include "core/text.h"

#define JSON_TEXT_DEPTH_MAX 500 /* the peers' own recursion ends near 1,000 */

/* Parses one JSON value of any type. STATUS_CORRUPT tells line, column and reason in `error`'s
 * message; its path is left alone. The caller owns `ret`. Bounded by `depth_max` levels of nesting,
 * JSON_TEXT_DEPTH_MAX at most. Integers beyond 4300 digits are refused, as the peers do. */
MUST_CHECK enum status json_text_read(const char *bytes, size_t size, unsigned depth_max,
                                      json_t **ret, struct error *error);

/* Appends the value as compact JSON, UTF-8 unescaped except where JSON needs it. Key order is kept.
 */
void json_text_write(struct text *text, const json_t *value);

/* The same, indented by two blanks, as the peers write manifests (no final newline). */
void json_text_write_pretty(struct text *text, const json_t *value);

/* Appends a JSON string literal with quotes. `bytes` must be UTF-8 (disguises are put back). */
void json_text_write_string(struct text *text, const char *bytes, size_t size);

/* True, with the value, when `value` is an integer or a disguised big integer: `ret_fits` says
 * whether it fits an int64_t (then `ret` is set). */
bool json_text_is_integer(const json_t *value, bool *ret_fits, int64_t *ret);

/* Copies as json_copy() and json_deep_copy() make them, but whole or NULL: those leave out what
 * they have no memory for and say nothing. `value` may be NULL. */
json_t *json_text_copy(const json_t *value);
json_t *json_text_deep_copy(const json_t *value);

/* False when a string or a member's name somewhere in `value` (NULL: in nothing) holds a lone
 * surrogate: such text is no Unicode, and UTF-8 cannot spell it. */
bool json_text_is_unicode(const json_t *value);

/* The same for the text of one string or name. */
bool json_text_string_is_unicode(const char *bytes, size_t size);

#endif
