#include "core/analyzer_text.h"

#include "core/text.h"

#include <string.h>
#include <unicode/uchar.h>
#include <unicode/unorm2.h>
#include <unicode/uscript.h>
#include <unicode/ustring.h>

/* A word is cut before it is folded; canonical decomposition makes at most four units of one, full
 * case folding at most three. */
#define FOLD_UNITS_MAX ANALYZER_TOKEN_BYTES_MAX
#define FOLD_DECOMPOSED_MAX (4 * FOLD_UNITS_MAX)
#define FOLD_FOLDED_MAX (3 * FOLD_DECOMPOSED_MAX)

const UNormalizer2 *compatibility_form(void)
{
    UErrorCode failure = U_ZERO_ERROR;
    const UNormalizer2 *form = unorm2_getNFKCInstance(&failure);

    return U_SUCCESS(failure) ? form : NULL;
}

/* ---- classes ---- */

static enum character_class classify_ascii(UChar32 character)
{
    if ((character >= 'a' && character <= 'z') || (character >= 'A' && character <= 'Z') ||
        (character >= '0' && character <= '9'))
        return CHARACTER_WORD;
    if (character != 0 && strchr("-_./:@',+#&", (int) character))
        return CHARACTER_JOINT;
    return CHARACTER_SEPARATOR;
}

/* Accents and points. The vowel signs of Indic and South-East Asian scripts are marks too, but
 * words differ by them. */
static bool is_dropped(UChar32 character)
{
    UErrorCode failure = U_ZERO_ERROR;

    if (character < 0x300)
        return character == 0xAD;
    if (character == 0x200C || character == 0x200D)
        return true;
    int8_t type = u_charType(character);
    if (type != U_NON_SPACING_MARK && type != U_ENCLOSING_MARK)
        return false;
    UScriptCode script = uscript_getScript(character, &failure);
    return script == USCRIPT_INHERITED || script == USCRIPT_ARABIC || script == USCRIPT_HEBREW ||
           script == USCRIPT_CYRILLIC;
}

static bool is_ideograph(UChar32 character)
{
    UErrorCode failure = U_ZERO_ERROR;

    if (character < 0x1100 || !u_hasBinaryProperty(character, UCHAR_ALPHABETIC))
        return character == 0x3005;
    if (character == 0x30FC) /* lengthens the kana before it, belongs to no script */
        return true;
    switch (uscript_getScript(character, &failure)) {
    case USCRIPT_HAN:
    case USCRIPT_HIRAGANA:
    case USCRIPT_KATAKANA:
    case USCRIPT_HANGUL:
    case USCRIPT_BOPOMOFO:
        return true;
    default:
        return false;
    }
}

static bool is_emoji(UChar32 character)
{
    return u_hasBinaryProperty(character, UCHAR_EXTENDED_PICTOGRAPHIC) ||
           u_hasBinaryProperty(character, UCHAR_REGIONAL_INDICATOR);
}

enum character_class character_classify(UChar32 character)
{
    if (character < 0x80)
        return classify_ascii(character);
    if (character == 0x2019 || character == 0x2010) /* the typographic apostrophe and hyphen */
        return CHARACTER_JOINT;
    if (is_dropped(character))
        return CHARACTER_DROPPED;
    if (is_ideograph(character))
        return CHARACTER_IDEOGRAPH;
    if (U_MASK(u_charType(character)) & (U_GC_L_MASK | U_GC_N_MASK | U_GC_M_MASK))
        return CHARACTER_WORD;
    return is_emoji(character) ? CHARACTER_EMOJI : CHARACTER_SEPARATOR;
}

/* ---- normal form ---- */

static enum status reserve_units(struct wide_text *text, int32_t count, UChar **ret)
{
    if (count <= WIDE_TEXT_LOCAL) {
        *ret = text->local;
        return STATUS_OK;
    }
    text->owned = malloc((size_t) count * sizeof *text->owned);
    if (!text->owned)
        return STATUS_NO_MEMORY;
    *ret = text->owned;
    return STATUS_OK;
}

static enum status widen_ascii(const char *bytes, size_t size, struct wide_text *ret)
{
    UChar *units;
    enum status status = reserve_units(ret, (int32_t) size, &units);

    if (status != STATUS_OK)
        return status;
    for (size_t i = 0; i < size; i++)
        units[i] = (UChar) (unsigned char) bytes[i];
    ret->units = units;
    ret->length = (int32_t) size;
    ret->is_ascii = true;
    return STATUS_OK;
}

/* Normalises `decoded` into `ret`; text that is in normal form already is handed over as it is. */
static enum status normalise(const UNormalizer2 *form, UChar **decoded, int32_t length,
                             struct wide_text *ret)
{
    UErrorCode failure = U_ZERO_ERROR;
    UChar *units;

    int32_t safe = unorm2_spanQuickCheckYes(form, *decoded, length, &failure);
    if (U_SUCCESS(failure) && safe == length) {
        ret->owned = TAKE_PTR(*decoded);
        ret->units = ret->owned;
        ret->length = length;
        return STATUS_OK;
    }

    failure = U_ZERO_ERROR;
    int32_t needed = unorm2_normalize(form, *decoded, length, NULL, 0, &failure);
    if (failure != U_BUFFER_OVERFLOW_ERROR && U_FAILURE(failure))
        return failure == U_MEMORY_ALLOCATION_ERROR ? STATUS_NO_MEMORY : STATUS_INTERNAL;
    enum status status = reserve_units(ret, needed + 1, &units);
    if (status != STATUS_OK)
        return status;
    failure = U_ZERO_ERROR;
    ret->length = unorm2_normalize(form, *decoded, length, units, needed + 1, &failure);
    ret->units = units;
    return U_SUCCESS(failure) ? STATUS_OK : STATUS_INTERNAL;
}

enum status wide_text_create(const char *bytes, size_t size, struct wide_text *ret)
{
    const UNormalizer2 *form = compatibility_form();
    AUTO_FREE UChar *decoded = NULL;
    UErrorCode failure = U_ZERO_ERROR;
    int32_t length = 0;

    ret->owned = NULL;
    ret->is_ascii = false;
    if (size > ANALYZER_TEXT_BYTES_MAX)
        return STATUS_TOO_LARGE;
    if (text_is_ascii(bytes, size))
        return widen_ascii(bytes, size, ret);
    if (!form)
        return STATUS_INTERNAL;

    decoded = malloc((size + 1) * sizeof *decoded); /* UTF-16 never has more units than bytes */
    if (!decoded)
        return STATUS_NO_MEMORY;
    (void) u_strFromUTF8WithSub(decoded, (int32_t) size + 1, &length, bytes, (int32_t) size, 0xFFFD,
                                NULL, &failure);
    if (U_FAILURE(failure))
        return STATUS_INTERNAL;
    return normalise(form, &decoded, length, ret);
}

void wide_text_destroy(struct wide_text *text)
{
    free(text->owned);
    text->owned = NULL;
}

/* ---- folding of words ---- */

/* Lower-cases plain ASCII words; false when there is anything else. */
static bool fold_ascii(const UChar *units, int32_t length, char *ret)
{
    for (int32_t i = 0; i < length; i++) {
        UChar unit = units[i];

        if (unit >= 0x80)
            return false;
        ret[i] = (char) (unit >= 'A' && unit <= 'Z' ? unit + ('a' - 'A') : unit);
    }
    return true;
}

static int32_t drop_marks(UChar *units, int32_t length)
{
    int32_t kept = 0;

    for (int32_t at = 0; at < length;) {
        UChar32 character = wide_next(units, &at, length);
        if (!is_dropped(character))
            U16_APPEND_UNSAFE(units, kept, character);
    }
    return kept;
}

static size_t narrow(const UChar *units, int32_t length, char ret[ANALYZER_TOKEN_BYTES_MAX])
{
    char bytes[4];
    size_t size = 0;

    for (int32_t at = 0; at < length;) {
        UChar32 character = wide_next(units, &at, length);
        size_t wanted = text_encode((uint32_t) character, bytes);
        if (size + wanted > ANALYZER_TOKEN_BYTES_MAX)
            break;
        memcpy(ret + size, bytes, wanted);
        size += wanted;
    }
    return size;
}

size_t word_fold(const UChar *units, int32_t length, char ret[ANALYZER_TOKEN_BYTES_MAX])
{
    UChar decomposed[FOLD_DECOMPOSED_MAX];
    UChar folded[FOLD_FOLDED_MAX];
    UErrorCode failure = U_ZERO_ERROR;

    if (length > FOLD_UNITS_MAX) {
        length = FOLD_UNITS_MAX;
        U16_SET_CP_START(units, 0, length);
    }
    if (fold_ascii(units, length, ret))
        return (size_t) length;

    const UNormalizer2 *form = unorm2_getNFDInstance(&failure);
    length = unorm2_normalize(form, units, length, decomposed, FOLD_DECOMPOSED_MAX, &failure);
    if (U_FAILURE(failure))
        return 0;
    length = drop_marks(decomposed, length);
    length =
        u_strFoldCase(folded, FOLD_FOLDED_MAX, decomposed, length, U_FOLD_CASE_DEFAULT, &failure);
    return U_SUCCESS(failure) ? narrow(folded, length, ret) : 0;
}
