/* Whole texts, folded: byte by byte where each character folds by itself, through ICU where not. */
#include "core/analyzer_text.h"
#include "core/text.h"

#include <stdatomic.h>
#include <string.h>
#include <unicode/unorm2.h>
#include <unicode/ustring.h>

/* ---- characters that fold to themselves, whatever stands around them ---- */

#define BLOCK 64u /* characters */
#define BLOCKS (0x10000u / BLOCK)

/* Asked of ICU a block at a time, when a text first has a character of it: most blocks never are.
 * Two threads that ask at once find the same. */
static _Atomic uint64_t lone_characters[BLOCKS];
static atomic_bool is_known[BLOCKS];

static bool folds_to_itself(const UNormalizer2 *form, UChar unit)
{
    UErrorCode failure = U_ZERO_ERROR;
    UChar folded[8];

    if (U16_IS_SURROGATE(unit) || !unorm2_hasBoundaryBefore(form, unit) ||
        !unorm2_isNormalized(form, &unit, 1, &failure))
        return false;
    int32_t length = u_strFoldCase(folded, 8, &unit, 1, U_FOLD_CASE_DEFAULT, &failure);
    return U_SUCCESS(failure) && length == 1 && folded[0] == unit;
}

static uint64_t look_up_block(uint32_t block)
{
    const UNormalizer2 *form = compatibility_form();
    uint64_t found = 0;

    for (uint32_t i = 0; form && i < BLOCK; i++)
        found |= (uint64_t) folds_to_itself(form, (UChar) (block * BLOCK + i)) << i;
    atomic_store_explicit(&lone_characters[block], found, memory_order_relaxed);
    atomic_store_explicit(&is_known[block], true, memory_order_release);
    return found;
}

static bool is_lone(uint32_t character)
{
    uint32_t block = character / BLOCK;

    if (block >= BLOCKS || character == 0xfffd) /* which may stand for malformed bytes */
        return false;
    uint64_t characters = atomic_load_explicit(&is_known[block], memory_order_acquire)
                              ? atomic_load_explicit(&lone_characters[block], memory_order_relaxed)
                              : look_up_block(block);
    return characters >> character % BLOCK & 1;
}

/* ---- folding ---- */

static char lower(unsigned char byte)
{
    return (char) (byte >= 'A' && byte <= 'Z' ? byte + ('a' - 'A') : byte);
}

#define EACH_BYTE(value) (UINT64_C(0x0101010101010101) * (value))

/* Folds as many bytes of plain ASCII as stand in front, eight at a time; how many. */
static size_t lower_eights(const char *bytes, size_t size, char *ret)
{
    size_t at = 0;

    for (; size - at >= 8; at += 8) {
        uint64_t eight;
        memcpy(&eight, bytes + at, sizeof eight);
        if (eight & EACH_BYTE(0x80))
            break;
        /* The top bit of each byte: at least 'A', and beyond 'Z'. */
        uint64_t from_a = eight + EACH_BYTE(0x80 - 'A');
        uint64_t from_z = eight + EACH_BYTE(0x7f - 'Z');
        eight |= ((from_a ^ from_z) & EACH_BYTE(0x80)) >> 2;
        memcpy(ret + at, &eight, sizeof eight);
    }
    return at;
}

/* Punctuation of East Asian texts: the same as in ASCII, but as wide as an ideograph. */
static char narrow_form(uint32_t character)
{
    if (character >= 0xff01 && character <= 0xff5e)
        return lower((unsigned char) (character - 0xff01 + '!'));
    return character == 0x3000 ? ' ' : '\0';
}

bool analyzer_fold_lone(const char *bytes, size_t size, char *ret, size_t *ret_size)
{
    size_t kept = 0;

    for (size_t at = 0; at < size;) {
        size_t length = lower_eights(bytes + at, size - at, ret + kept);
        at += length;
        kept += length;
        if (at == size)
            break;
        if ((unsigned char) bytes[at] < 0x80) {
            ret[kept++] = lower((unsigned char) bytes[at++]);
            continue;
        }
        uint32_t character = text_decode(bytes + at, size - at, &length);
        char narrow = narrow_form(character);
        if (narrow) {
            ret[kept++] = narrow;
        } else if (is_lone(character)) {
            memcpy(ret + kept, bytes + at, length);
            kept += length;
        } else {
            return false;
        }
        at += length;
    }
    *ret_size = kept;
    return true;
}

static enum status to_utf8(const UChar *units, int32_t length, char **ret, size_t *ret_size)
{
    size_t capacity = (size_t) length * 3 + 1;
    UErrorCode failure = U_ZERO_ERROR;
    int32_t size = 0;
    AUTO_FREE char *bytes = NULL;

    if (capacity > INT32_MAX)
        return STATUS_TOO_LARGE;
    bytes = malloc(capacity);
    if (!bytes)
        return STATUS_NO_MEMORY;
    (void) u_strToUTF8WithSub(bytes, (int32_t) capacity, &size, units, length, 0xFFFD, NULL,
                              &failure);
    if (U_FAILURE(failure))
        return STATUS_INTERNAL;
    *ret = TAKE_PTR(bytes);
    *ret_size = (size_t) size;
    return STATUS_OK;
}

static enum status fold_whole(const char *bytes, size_t size, char **ret, size_t *ret_size)
{
    AUTO_WIDE struct wide_text wide = {.owned = NULL};
    AUTO_FREE UChar *folded = NULL;
    UErrorCode failure = U_ZERO_ERROR;

    enum status status = wide_text_create(bytes, size, &wide);
    if (status != STATUS_OK)
        return status;
    if (wide.length > INT32_MAX / 4)
        return STATUS_TOO_LARGE;

    int32_t capacity = 3 * wide.length + 1;
    folded = malloc((size_t) capacity * sizeof *folded);
    if (!folded)
        return STATUS_NO_MEMORY;
    int32_t length =
        u_strFoldCase(folded, capacity, wide.units, wide.length, U_FOLD_CASE_DEFAULT, &failure);
    if (U_FAILURE(failure))
        return STATUS_INTERNAL;
    return to_utf8(folded, length, ret, ret_size);
}

enum status analyzer_fold(const char *bytes, size_t size, char **ret, size_t *ret_size)
{
    if (size > ANALYZER_TEXT_BYTES_MAX)
        return STATUS_TOO_LARGE;
    AUTO_FREE char *folded = malloc(size + 1);
    if (!folded)
        return STATUS_NO_MEMORY;
    if (!analyzer_fold_lone(bytes, size, folded, ret_size))
        return fold_whole(bytes, size, ret, ret_size);
    folded[*ret_size] = '\0';
    *ret = TAKE_PTR(folded);
    return STATUS_OK;
}
