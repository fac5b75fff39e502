/* core/analyzer.h - text into tokens: the one preparation that texts and queries share.
 *
 * First working form: NFKC, case folding, accents dropped; runs of letters and digits are words,
 * compounds (held together by single - _ . / : @ ' , + # &) give their parts and the whole without
 * its joints; a run of ideographs gives every character and every pair of neighbours, and so do
 * kana and hangul, alone or mixed with them; emoji are tokens; all else separates. Any byte
 * sequence is safe (malformed UTF-8 separates). Thread-safe: an analyzer may be shared.
 */
#ifndef MEMSYNC_CORE_ANALYZER_H
#define MEMSYNC_CORE_ANALYZER_H

#include "core/status.h"

#include <stddef.h>
#include <stdint.h>

/* Changes whenever the same text may give other tokens; with the ICU version it is part of the
 * index's version, since a row can only be deleted with exactly the tokens it was inserted with. */
#define ANALYZER_VERSION 1

/* e.g. "1-icu72.1" */
const char *analyzer_version(void);

#define ANALYZER_TEXT_BYTES_MAX (256u << 20)
#define ANALYZER_TOKEN_BYTES_MAX 128 /* longer words are cut at a character */

enum token_kind {
    TOKEN_WORD,
    TOKEN_COMPOUND,  /* a compound's parts glued together; at the position of its first part */
    TOKEN_CHARACTER, /* one ideograph */
    TOKEN_PAIR,      /* two neighbouring ideographs; at the position of the first */
};

struct token {
    enum token_kind kind;
    const char *bytes; /* valid during the callback */
    size_t size;
    unsigned position; /* words and characters count up; the others share one */
    size_t start, end; /* bytes of the text it came from; 0, 0 unless the text is plain ASCII */
};

/* Returns STATUS_OK to go on; anything else ends the analysis with that status. */
typedef enum status (*analyzer_sink)(void *context, const struct token *token);

/* Calls `sink` for each token of the text, in order. STATUS_NO_MEMORY, STATUS_TOO_LARGE above
 * ANALYZER_TEXT_BYTES_MAX, or what the sink ended it with. */
MUST_CHECK enum status analyzer_run(const char *bytes, size_t size, analyzer_sink sink,
                                    void *context);

/* Case folding as the substring fallback compares: NFKC and full case folding, nothing dropped. The
 * caller frees `ret`. */
MUST_CHECK enum status analyzer_fold(const char *bytes, size_t size, char **ret, size_t *ret_size);

/* The same without an allocation, for texts whose characters all fold by themselves, which is most
 * of them: `ret` has room for `size` bytes, which is enough. False, and `ret` in disorder, when the
 * text has a character that does not, or malformed UTF-8. */
bool analyzer_fold_lone(const char *bytes, size_t size, char *ret, size_t *ret_size);

#endif
