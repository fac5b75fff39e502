#include "core/content_key.h"

#include "core/signature.h"
#include "core/text_trim.h"

#include <string.h>
#include <unicode/ucasemap.h>

#define GROWTH_MAX 3u /* of UTF-8 that is folded: U+0390 becomes three letters of two bytes */

static void cleanup_map(UCaseMap **map)
{
    ucasemap_close(*map);
}
#define AUTO_MAP CLEANUP(cleanup_map)

static enum status status_of(UErrorCode failure)
{
    return failure == U_MEMORY_ALLOCATION_ERROR ? STATUS_NO_MEMORY : STATUS_INTERNAL;
}

enum status content_key_fold(const char *bytes, size_t size, struct text *ret)
{
    UErrorCode failure = U_ZERO_ERROR;

    if (size > CONTENT_KEY_BYTES_MAX)
        return STATUS_TOO_LARGE;
    text_trim(&bytes, &size);
    text_reserve(ret, size * GROWTH_MAX);
    if (!text_ok(ret))
        return STATUS_NO_MEMORY;

    AUTO_MAP UCaseMap *map = ucasemap_open("", U_FOLD_CASE_DEFAULT, &failure);
    if (U_FAILURE(failure))
        return status_of(failure);
    int32_t length =
        ucasemap_utf8FoldCase(map, ret->bytes + ret->size, (int32_t) (size * GROWTH_MAX), bytes,
                              (int32_t) size, &failure);
    if (U_FAILURE(failure))
        return status_of(failure);
    ret->size += (size_t) length;
    ret->bytes[ret->size] = '\0';
    return STATUS_OK;
}

enum status content_key_hash(const char *bytes, size_t size, uint64_t *ret)
{
    AUTO_TEXT struct text key = {0};
    enum status status = content_key_fold(bytes, size, &key);

    if (status == STATUS_OK)
        *ret = signature_digest(key.bytes, key.size);
    return status;
}

enum status content_key_equal(const char *a, size_t a_size, const char *b, size_t b_size, bool *ret)
{
    AUTO_TEXT struct text a_key = {0};
    AUTO_TEXT struct text b_key = {0};
    enum status status = content_key_fold(a, a_size, &a_key);

    if (status == STATUS_OK)
        status = content_key_fold(b, b_size, &b_key);
    if (status == STATUS_OK)
        *ret = a_key.size == b_key.size && memcmp(a_key.bytes, b_key.bytes, a_key.size) == 0;
    return status;
}
