#include "core/index_needle.h"

#include "core/analyzer.h"
#include "core/index_private.h"
#include "core/json_scan.h"

#include <stdlib.h>
#include <string.h>

struct needle {
    char *bytes; /* folded; ends in a NUL */
    size_t size;
    bool is_plain; /* it stands in JSON text as it is: nothing in it would be escaped */
    char *scratch; /* a document's bytes, folded */
    size_t capacity;
};

static void strip(const char **bytes, size_t *size)
{
    static const char blanks[] = " \t\n\r\v\f";

    while (*size > 0 && memchr(blanks, **bytes, sizeof blanks - 1)) {
        (*bytes)++;
        (*size)--;
    }
    while (*size > 0 && memchr(blanks, (*bytes)[*size - 1], sizeof blanks - 1))
        (*size)--;
}

static bool is_plain(const char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        unsigned char byte = (unsigned char) bytes[i];
        if (byte < 0x20 || byte == 0x7f || byte == '"' || byte == '\\')
            return false;
    }
    return true;
}

enum status needle_create(const char *text, size_t size, struct needle **ret)
{
    AUTO_NEEDLE struct needle *needle = calloc(1, sizeof *needle);

    if (!needle)
        return STATUS_NO_MEMORY;
    strip(&text, &size);
    enum status status = analyzer_fold(text, size, &needle->bytes, &needle->size);
    if (status != STATUS_OK)
        return status;
    needle->is_plain = is_plain(needle->bytes, needle->size);
    *ret = TAKE_PTR(needle);
    return STATUS_OK;
}

void needle_destroy(struct needle **needle)
{
    if (!*needle)
        return;
    free((*needle)->bytes);
    free((*needle)->scratch);
    free(*needle);
    *needle = NULL;
}

bool needle_is_empty(const struct needle *needle)
{
    return needle->size == 0;
}

static bool make_room(struct needle *needle, size_t size)
{
    if (size <= needle->capacity)
        return true;
    char *larger = realloc(needle->scratch, 2 * size);
    if (!larger)
        return false;
    needle->scratch = larger;
    needle->capacity = 2 * size;
    return true;
}

/* True when the document's bytes, all members of it, tell that it is not there: none is escaped,
 * and none folds to other letters than it shows. */
static bool is_ruled_out(struct needle *needle, const char *document, size_t size)
{
    size_t folded = 0;

    if (!needle->is_plain || !make_room(needle, size + 1) ||
        !analyzer_fold_lone(document, size, needle->scratch, &folded))
        return false;
    needle->scratch[folded] = '\0'; /* for strstr(), which is quicker than memmem() */
    return !strstr(needle->scratch, needle->bytes) && !strstr(document, "\\u");
}

static int find_in_text(const struct needle *needle, const char *text, size_t size, bool *ret)
{
    AUTO_FREE char *folded = NULL;
    size_t folded_size = 0;
    enum status status = analyzer_fold(text, size, &folded, &folded_size);

    if (status != STATUS_OK)
        return status == STATUS_NO_MEMORY ? SQLITE_NOMEM : SQLITE_TOOBIG;
    *ret = memmem(folded, folded_size, needle->bytes, needle->size) != NULL;
    return SQLITE_OK;
}

/* Where the content stands in the document, when it stands there as it is: nothing escaped. */
static bool find_content(const char *document, size_t size, struct json_token *ret)
{
    static const char key[] = "\"content\"";
    struct json_scan scan;
    bool is_next = false;

    json_scan_start(&scan, document, size, JSON_TEXT_DEPTH_MAX);
    while (json_scan_next(&scan, ret) && ret->kind != JSON_TOKEN_END) {
        if (is_next)
            return ret->kind == JSON_TOKEN_STRING && !ret->escaped;
        is_next = ret->kind == JSON_TOKEN_KEY && scan.depth == 1 &&
                  ret->end - ret->start == sizeof key - 1 &&
                  memcmp(document + ret->start, key, sizeof key - 1) == 0;
    }
    return false;
}

int needle_find(struct needle *needle, const char *document, size_t size, bool *ret)
{
    AUTO_JSON json_t *tree = NULL;
    struct json_token token;
    size_t content_size;

    *ret = false;
    if (is_ruled_out(needle, document, size))
        return SQLITE_OK;
    if (find_content(document, size, &token))
        return find_in_text(needle, document + token.start + 1, token.end - token.start - 2, ret);
    int result = document_read(document, size, &tree);
    if (result != SQLITE_OK)
        return result;
    const char *content = document_content(tree, &content_size);
    return find_in_text(needle, content, content_size, ret);
}
