/* core/analyzer_text.h - characters for the analyzer: normal form, classes, folding.
 *
 * Internal to the analyzer. Everything here is pure and safe for any bytes; malformed UTF-8 becomes
 * U+FFFD, which separates. Text of plain ASCII never reaches ICU.
 */
#ifndef MEMSYNC_CORE_ANALYZER_TEXT_H
#define MEMSYNC_CORE_ANALYZER_TEXT_H

#include "core/analyzer.h"

#include <unicode/unorm2.h>
#include <unicode/utf16.h>
#include <unicode/utypes.h>

enum character_class {
    CHARACTER_SEPARATOR,
    CHARACTER_WORD,      /* letters, digits, and marks that carry meaning (vowel signs) */
    CHARACTER_IDEOGRAPH, /* Han, kana, hangul, bopomofo: scripts that are not cut into words */
    CHARACTER_EMOJI,
    CHARACTER_JOINT,   /* holds a compound together when it stands alone between two parts */
    CHARACTER_DROPPED, /* accents, points, joiners, soft hyphens: not part of the token */
};

/* What a code point is to the analyzer; unassigned ones and surrogates separate. */
enum character_class character_classify(UChar32 character);

/* The code point at `*at`, which moves behind it. */
static inline UChar32 wide_next(const UChar *units, int32_t *at, int32_t length)
{
    UChar lead = units[(*at)++];

    if (!U16_IS_LEAD(lead) || *at >= length || !U16_IS_TRAIL(units[*at]))
        return lead;
    UChar trail = units[(*at)++];
    return (lead - 0xD800) * 0x400 + (trail - 0xDC00) + 0x10000;
}

#define WIDE_TEXT_LOCAL 1024

/* A text in NFKC as UTF-16. */
struct wide_text {
    const UChar *units;
    int32_t length;
    bool is_ascii; /* then units and bytes correspond one to one */
    UChar *owned;  /* NULL when `local` was enough */
    UChar local[WIDE_TEXT_LOCAL];
};

/* ICU's NFKC; NULL when it cannot load its data. */
const UNormalizer2 *compatibility_form(void);

/* STATUS_TOO_LARGE above ANALYZER_TEXT_BYTES_MAX; STATUS_NO_MEMORY. */
MUST_CHECK enum status wide_text_create(const char *bytes, size_t size, struct wide_text *ret);
void wide_text_destroy(struct wide_text *text);
#define AUTO_WIDE CLEANUP(wide_text_destroy)

/* Folds one word: decomposed, accents dropped, case folded, UTF-8, cut at a character to
 * ANALYZER_TOKEN_BYTES_MAX bytes. Returns its size, 0 when nothing is left. */
size_t word_fold(const UChar *units, int32_t length, char ret[ANALYZER_TOKEN_BYTES_MAX]);

#endif
