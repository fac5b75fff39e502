#include "core/analyzer.h"

#include "core/analyzer_text.h"
#include "core/text.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unicode/uversion.h>

struct walk {
    const UChar *units;
    int32_t length;
    int32_t at;
    bool has_places; /* units and bytes of the text correspond */
    unsigned position;
    analyzer_sink sink;
    void *context;
};

static char version_text[64];
static pthread_once_t version_once = PTHREAD_ONCE_INIT;

static void version_make(void)
{
    UVersionInfo version;

    u_getVersion(version);
    (void) snprintf(version_text, sizeof version_text, "%d-icu%d.%d", ANALYZER_VERSION, version[0],
                    version[1]);
}

const char *analyzer_version(void)
{
    (void) pthread_once(&version_once, version_make);
    return version_text;
}

static enum character_class class_at(const struct walk *walk, int32_t at, int32_t *ret_next)
{
    UChar32 character = wide_next(walk->units, &at, walk->length);

    *ret_next = at;
    return character_classify(character);
}

static enum status emit(const struct walk *walk, enum token_kind kind, const char *bytes,
                        size_t size, int32_t from, int32_t to)
{
    struct token token = {
        .kind = kind,
        .bytes = bytes,
        .size = size,
        .position = walk->position,
        .start = walk->has_places ? (size_t) from : 0,
        .end = walk->has_places ? (size_t) to : 0,
    };

    return walk->sink(walk->context, &token);
}

/* ---- words and compounds ---- */

/* Where the part of a compound that begins at `from` ends. */
static int32_t part_end(const struct walk *walk, int32_t from)
{
    int32_t next;

    while (from < walk->length) {
        enum character_class class = class_at(walk, from, &next);
        if (class != CHARACTER_WORD && class != CHARACTER_DROPPED)
            break;
        from = next;
    }
    return from;
}

/* Where the next part begins when a single joint at `end` holds one, else -1. */
static int32_t next_part(const struct walk *walk, int32_t end)
{
    int32_t after, next;

    if (end >= walk->length || class_at(walk, end, &after) != CHARACTER_JOINT)
        return -1;
    if (after >= walk->length || class_at(walk, after, &next) != CHARACTER_WORD)
        return -1;
    return after;
}

/* Folds the parts from `from` on into one token without the joints; tells where the run ends. */
static size_t glue_parts(const struct walk *walk, int32_t from, char *glue, int32_t *ret_end)
{
    char part[ANALYZER_TOKEN_BYTES_MAX];
    size_t size = 0;
    int32_t end = from;
    bool full = false;

    while (from >= 0) {
        end = part_end(walk, from);
        if (!full) {
            size_t wanted = word_fold(walk->units + from, end - from, part);
            size_t fits = text_cut(part, wanted, ANALYZER_TOKEN_BYTES_MAX - size);
            memcpy(glue + size, part, fits);
            size += fits;
            full = fits < wanted || size == ANALYZER_TOKEN_BYTES_MAX;
        }
        from = next_part(walk, end);
    }
    *ret_end = end;
    return size;
}

/* A run of parts: each part, and after the first one all of them glued together. */
static enum status walk_word(struct walk *walk)
{
    char part[ANALYZER_TOKEN_BYTES_MAX];
    char glue[ANALYZER_TOKEN_BYTES_MAX];
    int32_t from = walk->at;
    int32_t run_end = 0;
    int32_t end = part_end(walk, from);
    size_t glue_size = next_part(walk, end) >= 0 ? glue_parts(walk, walk->at, glue, &run_end) : 0;
    enum status status = STATUS_OK;

    while (from >= 0 && status == STATUS_OK) {
        end = part_end(walk, from);
        size_t size = word_fold(walk->units + from, end - from, part);
        if (size > 0) {
            status = emit(walk, TOKEN_WORD, part, size, from, end);
            if (status == STATUS_OK && glue_size > size)
                status = emit(walk, TOKEN_COMPOUND, glue, glue_size, walk->at, run_end);
            glue_size = 0;
            walk->position++;
        }
        from = next_part(walk, end);
    }
    walk->at = end;
    return status;
}

/* ---- ideographs ---- */

/* The next ideograph of the run, past variation selectors and the like; -1 at its end. */
static int32_t next_ideograph(const struct walk *walk, int32_t at, int32_t *ret_end)
{
    int32_t next;

    while (at < walk->length) {
        enum character_class class = class_at(walk, at, &next);
        if (class == CHARACTER_IDEOGRAPH) {
            *ret_end = next;
            return at;
        }
        if (class != CHARACTER_DROPPED)
            break;
        at = next;
    }
    return -1;
}

static size_t encode_at(const struct walk *walk, int32_t at, char bytes[4])
{
    return text_encode((uint32_t) wide_next(walk->units, &at, walk->length), bytes);
}

static enum status walk_ideographs(struct walk *walk)
{
    char pair[8];
    int32_t at = walk->at;
    int32_t end = at;
    enum status status = STATUS_OK;

    at = next_ideograph(walk, at, &end);
    while (at >= 0 && status == STATUS_OK) {
        int32_t next_end = end;
        int32_t next = next_ideograph(walk, end, &next_end);
        size_t size = encode_at(walk, at, pair);

        status = emit(walk, TOKEN_CHARACTER, pair, size, at, end);
        if (status == STATUS_OK && next >= 0) {
            size += encode_at(walk, next, pair + size);
            status = emit(walk, TOKEN_PAIR, pair, size, at, next_end);
        }
        walk->position++;
        walk->at = end;
        at = next;
        end = next_end;
    }
    return status;
}

static enum status walk_emoji(struct walk *walk, int32_t end)
{
    char bytes[4];
    size_t size = encode_at(walk, walk->at, bytes);
    enum status status = emit(walk, TOKEN_WORD, bytes, size, walk->at, end);

    walk->position++;
    walk->at = end;
    return status;
}

enum status analyzer_run(const char *bytes, size_t size, analyzer_sink sink, void *context)
{
    AUTO_WIDE struct wide_text wide = {.owned = NULL};
    enum status status = wide_text_create(bytes, size, &wide);
    struct walk walk = {
        .units = wide.units,
        .length = wide.length,
        .has_places = wide.is_ascii,
        .sink = sink,
        .context = context,
    };

    while (status == STATUS_OK && walk.at < walk.length) {
        int32_t next;

        switch (class_at(&walk, walk.at, &next)) {
        case CHARACTER_WORD:
            status = walk_word(&walk);
            break;
        case CHARACTER_IDEOGRAPH:
            status = walk_ideographs(&walk);
            break;
        case CHARACTER_EMOJI:
            status = walk_emoji(&walk, next);
            break;
        default:
            walk.at = next;
        }
    }
    return status;
}
