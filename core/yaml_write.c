#include "core/yaml_write.h"

#include "core/json_text.h"
#include "core/yaml_emitter.h"
#include "core/yaml_scalar.h"
#include "core/yaml_text.h"

#include <string.h>

#define PAIRS "$pairs"
#define KEY_CHARACTERS_MAX 127 /* before a colon, with the tag that the peers count in */

/* A scalar, spelt. */
struct scalar {
    enum yaml_tag tag;
    struct text text;
};

/* Where a node stands. */
enum place { PLACE_MEMBER, PLACE_ITEM };

static void write_node(struct yaml_emitter *emitter, const json_t *value, enum place place);

static void scalar_destroy(struct scalar *scalar)
{
    text_destroy(&scalar->text);
}
#define AUTO_SCALAR CLEANUP(scalar_destroy)

/* ---- scalars ---- */

/* The peers' spelling, in which an exponent needs a dot before it. */
static void spell_real(struct text *text, const json_t *value)
{
    AUTO_TEXT struct text json = {0};

    json_text_write(&json, value);
    const char *spelt = text_string(&json);
    const char *exponent = strchr(spelt, 'e');
    text->failed |= json.failed;
    if (!exponent || strchr(spelt, '.')) {
        text_append(text, spelt, json.size);
        return;
    }
    text_append(text, spelt, (size_t) (exponent - spelt));
    text_append_string(text, ".0");
    text_append_string(text, exponent);
}

static void spell_string(struct scalar *scalar, const json_t *value)
{
    const char *string = json_string_value(value);
    size_t size = json_string_length(value);

    if (!yaml_text_is_big_integer(value)) {
        yaml_text_restore(&scalar->text, string, size);
        return;
    }
    scalar->tag = YAML_TAG_INT;
    text_append(&scalar->text, string + strlen(YAML_TEXT_BIG_INTEGER),
                size - strlen(YAML_TEXT_BIG_INTEGER));
}

/* True when reading it as a scalar of its type gives `value` again. Without memory it counts as
 * spelt, and as failed. */
static bool reads_back(struct scalar *scalar, const json_t *value)
{
    AUTO_JSON json_t *read = NULL;

    if (scalar->text.failed)
        return true;
    enum status status =
        yaml_scalar_value(scalar->tag, text_string(&scalar->text), scalar->text.size, &read);
    scalar->text.failed = status == STATUS_NO_MEMORY;
    return scalar->text.failed || (status == STATUS_OK && json_equal(read, value));
}

/* Spells an object that stands for a scalar; false for any other. */
static bool spell_disguise(const json_t *object, struct scalar *scalar)
{
    static const struct {
        const char *name;
        enum yaml_tag tag;
        const char *prefix;
    } disguises[] = {
        {"$float", YAML_TAG_FLOAT, "."},
        {"$date", YAML_TAG_TIMESTAMP, ""},
        {"$datetime", YAML_TAG_TIMESTAMP, ""},
        {"$binary", YAML_TAG_BINARY, ""},
    };

    if (json_object_size(object) != 1)
        return false;
    for (size_t i = 0; i < ARRAY_SIZE(disguises); i++) {
        const char *spelt = json_string_value(json_object_get(object, disguises[i].name));
        if (!spelt)
            continue;
        bool is_negative = spelt[0] == '-' && disguises[i].tag == YAML_TAG_FLOAT;
        text_append_format(&scalar->text, "%s%s%s", is_negative ? "-" : "", disguises[i].prefix,
                           spelt + is_negative);
        scalar->tag = disguises[i].tag;
        if (strcmp(disguises[i].name, "$datetime") == 0 && scalar->text.size > 10)
            scalar->text.bytes[10] = ' ';
        return reads_back(scalar, object);
    }
    return false;
}

/* Spells a scalar; false for lists and mappings. */
static bool spell(const json_t *value, struct scalar *scalar)
{
    *scalar = (struct scalar){.tag = YAML_TAG_STR};
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return spell_disguise(value, scalar);
    case JSON_ARRAY:
        return false;
    case JSON_STRING:
        spell_string(scalar, value);
        return true;
    case JSON_INTEGER:
        scalar->tag = YAML_TAG_INT;
        break;
    case JSON_REAL:
        scalar->tag = YAML_TAG_FLOAT;
        spell_real(&scalar->text, value);
        return true;
    case JSON_TRUE:
    case JSON_FALSE:
        scalar->tag = YAML_TAG_BOOL;
        break;
    case JSON_NULL:
        scalar->tag = YAML_TAG_NULL;
        break;
    }
    json_text_write(&scalar->text, value);
    return true;
}

/* Base64 needs its tag, and the block that the peers give it. */
static void write_binary(struct yaml_emitter *emitter, const struct scalar *scalar)
{
    yaml_emitter_mark(emitter, "!!binary");
    if (scalar->text.size == 0)
        yaml_emitter_scalar(emitter, YAML_STYLE_DOUBLE, "", 0, false);
    else
        yaml_emitter_block(emitter, scalar->text.bytes, scalar->text.size);
}

static void write_scalar(struct yaml_emitter *emitter, const struct scalar *scalar, bool is_key)
{
    const char *bytes = text_string(&scalar->text);
    size_t size = scalar->text.size;
    enum yaml_style style = YAML_STYLE_PLAIN;

    emitter->text->failed |= scalar->text.failed;
    if (scalar->tag == YAML_TAG_BINARY) {
        write_binary(emitter, scalar);
        return;
    }
    if (scalar->tag == YAML_TAG_STR) {
        struct yaml_analysis analysis = yaml_style_analyse(bytes, size);
        style = yaml_style_of_text(&analysis, bytes, size, is_key);
    }
    yaml_emitter_scalar(emitter, style, bytes, size, is_key);
}

/* ---- mappings ---- */

/* May the key stand before a colon? Else it is announced by a question mark. */
static bool is_simple_key(const struct scalar *key)
{
    struct yaml_analysis analysis = yaml_style_analyse(text_string(&key->text), key->text.size);
    size_t tag_size = strlen("!!") + strlen(yaml_tag_name(key->tag));

    return analysis.characters > 0 && !analysis.is_multiline && key->tag != YAML_TAG_BINARY &&
           analysis.characters + tag_size <= KEY_CHARACTERS_MAX;
}

/* One member; `value` NULL stands for null. */
static void write_member(struct yaml_emitter *emitter, const struct scalar *key,
                         const json_t *value)
{
    yaml_emitter_line(emitter);
    if (is_simple_key(key)) {
        write_scalar(emitter, key, true);
        yaml_emitter_close(emitter, ":");
    } else {
        yaml_emitter_member(emitter, "?");
        write_scalar(emitter, key, false);
        yaml_emitter_line(emitter);
        yaml_emitter_member(emitter, ":");
    }
    if (value)
        write_node(emitter, value, PLACE_MEMBER);
    else
        yaml_emitter_scalar(emitter, YAML_STYLE_PLAIN, "null", strlen("null"), false);
}

/* The keys of a mapping to come, each once. */
struct key_set {
    json_t *seen;
    bool failed; /* without memory */
};

/* False for what can be no key, or is one already. */
static bool add_key(struct key_set *keys, const json_t *value, enum yaml_tag *ret)
{
    AUTO_SCALAR struct scalar key = {0};

    if (!spell(value, &key))
        return false;
    const char *text = text_string(&key.text);
    AUTO_FREE char *identity = yaml_scalar_identity(key.tag, text, key.text.size, value);
    if (identity && json_object_get(keys->seen, identity))
        return false;
    keys->failed |= key.text.failed || !identity ||
                    json_object_set_new_nocheck(keys->seen, identity, json_true()) != 0;
    *ret = key.tag;
    return true;
}

/* [[key, value], ...] with keys that a mapping can have, at least one of them (`all`: each) no
 * text. */
static bool are_pairs(struct yaml_emitter *emitter, const json_t *pairs, bool all)
{
    AUTO_JSON json_t *seen = json_object();
    struct key_set keys = {.seen = seen};
    size_t count = json_array_size(pairs);
    size_t others = 0;

    for (size_t i = 0; i < count; i++) {
        const json_t *pair = json_array_get(pairs, i);
        enum yaml_tag tag = YAML_TAG_STR;
        if (json_array_size(pair) != 2 || !add_key(&keys, json_array_get(pair, 0), &tag))
            return false;
        others += tag != YAML_TAG_STR;
    }
    emitter->text->failed |= keys.failed;
    return others > 0 && (!all || others == count);
}

static void write_pairs(struct yaml_emitter *emitter, const json_t *pairs)
{
    size_t count = json_array_size(pairs);

    for (size_t i = 0; i < count; i++) {
        AUTO_SCALAR struct scalar key = {0};
        const json_t *pair = json_array_get(pairs, i);
        (void) spell(json_array_get(pair, 0), &key);
        write_member(emitter, &key, json_array_get(pair, 1));
    }
}

static void write_members(struct yaml_emitter *emitter, const json_t *object, bool is_document)
{
    const char *name;
    json_t *value;

    json_object_foreach(json_unconst(object), name, value)
    {
        AUTO_SCALAR struct scalar key = {.tag = YAML_TAG_STR};
        bool is_sole = json_object_size(object) == 1;
        if ((is_sole || is_document) && strcmp(name, PAIRS) == 0 &&
            are_pairs(emitter, value, !is_sole)) {
            write_pairs(emitter, value);
            continue;
        }
        yaml_text_restore(&key.text, name, strlen(name));
        write_member(emitter, &key, value);
    }
}

/* True for {"$set": [...]} of keys. */
static bool is_set(struct yaml_emitter *emitter, const json_t *object)
{
    AUTO_JSON json_t *seen = json_object();
    struct key_set keys = {.seen = seen};
    const json_t *items = json_object_get(object, "$set");
    size_t count = json_array_size(items);
    enum yaml_tag tag;

    if (json_object_size(object) != 1 || !json_is_array(items))
        return false;
    for (size_t i = 0; i < count; i++) {
        if (!add_key(&keys, json_array_get(items, i), &tag))
            return false;
    }
    emitter->text->failed |= keys.failed;
    return true;
}

static void write_set(struct yaml_emitter *emitter, const json_t *items)
{
    size_t count = json_array_size(items);

    yaml_emitter_mark(emitter, "!!set");
    if (count == 0)
        yaml_emitter_mark(emitter, "{}");
    for (size_t i = 0; i < count; i++) {
        AUTO_SCALAR struct scalar key = {0};
        (void) spell(json_array_get(items, i), &key);
        write_member(emitter, &key, NULL);
    }
}

static void write_object(struct yaml_emitter *emitter, const json_t *object)
{
    if (json_object_size(object) == 0) {
        yaml_emitter_mark(emitter, "{}");
        return;
    }
    emitter->indent += YAML_EMITTER_INDENT;
    if (is_set(emitter, object))
        write_set(emitter, json_object_get(object, "$set"));
    else
        write_members(emitter, object, false);
    emitter->indent -= YAML_EMITTER_INDENT;
}

/* ---- lists ---- */

/* The items of a member's list stand below its key, not further in. */
static void write_array(struct yaml_emitter *emitter, const json_t *array, enum place place)
{
    size_t count = json_array_size(array);
    unsigned indent = place == PLACE_MEMBER && !emitter->is_margin ? 0 : YAML_EMITTER_INDENT;

    if (count == 0) {
        yaml_emitter_mark(emitter, "[]");
        return;
    }
    emitter->indent += indent;
    for (size_t i = 0; i < count; i++) {
        yaml_emitter_line(emitter);
        yaml_emitter_member(emitter, "-");
        write_node(emitter, json_array_get(array, i), PLACE_ITEM);
    }
    emitter->indent -= indent;
}

static void write_node(struct yaml_emitter *emitter, const json_t *value, enum place place)
{
    AUTO_SCALAR struct scalar scalar = {0};

    if (spell(value, &scalar))
        write_scalar(emitter, &scalar, false);
    else if (json_is_array(value))
        write_array(emitter, value, place);
    else
        write_object(emitter, value);
}

void yaml_write_mapping(struct text *text, const json_t *mapping)
{
    struct yaml_emitter emitter;

    yaml_emitter_start(&emitter, text);
    if (json_object_size(mapping) == 0)
        yaml_emitter_mark(&emitter, "{}");
    write_members(&emitter, mapping, true);
    yaml_emitter_line(&emitter);
}
