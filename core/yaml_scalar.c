#include "core/yaml_scalar.h"

#include "core/text.h"
#include "core/yaml_number.h"
#include "core/yaml_text.h"
#include "core/yaml_time.h"

#include <inttypes.h>
#include <math.h>
#include <sodium.h>
#include <string.h>

/* Hands a new value over; NULL means that memory ran out. */
static enum status give(json_t *value, json_t **ret)
{
    if (!value)
        return STATUS_NO_MEMORY;
    *ret = value;
    return STATUS_OK;
}

static enum status bool_value(const char *text, size_t size, json_t **ret)
{
    static const struct {
        const char *word;
        bool value;
    } words[] = {
        {"yes", true},    {"no", false}, {"true", true},
        {"false", false}, {"on", true},  {"off", false},
    };

    for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
        if (strlen(words[i].word) == size && strncasecmp(words[i].word, text, size) == 0)
            return give(json_boolean(words[i].value), ret);
    }
    return STATUS_CORRUPT;
}

static enum status time_value(const char *text, size_t size, json_t **ret)
{
    struct yaml_time time;
    char iso[YAML_TIME_TEXT_SIZE];

    if (!yaml_time_parse(text, size, &time) || !yaml_time_is_valid(&time))
        return STATUS_CORRUPT;
    yaml_time_format(&time, iso);
    return give(json_pack("{s:s}", time.has_clock ? "$datetime" : "$date", iso), ret);
}

static unsigned base64_digit(char byte)
{
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *found = byte ? strchr(alphabet, byte) : NULL;

    return found ? (unsigned) (found - alphabet) : 64;
}

/* Decodes as the peers do: characters outside of the alphabet do not count, reading ends with a
 * complete padding, and only what is left over at the end is an error. */
static bool decode_base64(const char *text, size_t size, unsigned char *ret, size_t *ret_size)
{
    unsigned bits = 0;
    unsigned held = 0; /* digits of the group that is being read */
    unsigned pads = 0;
    size_t used = 0;

    for (size_t i = 0; i < size; i++) {
        if (text[i] == '=') {
            if (held >= 2 && held + ++pads >= 4) {
                *ret_size = used;
                return true;
            }
            continue;
        }
        unsigned digit = base64_digit(text[i]);
        if (digit == 64)
            continue;
        pads = 0;
        bits = (bits << 6 | digit) & 0xffff;
        if (held > 0)
            ret[used++] = (unsigned char) (bits >> (6 - 2 * held));
        held = (held + 1) % 4;
    }
    *ret_size = used;
    return held == 0;
}

static enum status binary_value(const char *text, size_t size, json_t **ret)
{
    AUTO_FREE unsigned char *bytes = malloc(size + 1);
    AUTO_FREE char *encoded = NULL;
    size_t used = 0;

    for (size_t i = 0; i < size; i++) {
        if ((unsigned char) text[i] >= 0x80)
            return STATUS_CORRUPT;
    }
    if (!bytes)
        return STATUS_NO_MEMORY;
    if (!decode_base64(text, size, bytes, &used))
        return STATUS_CORRUPT;
    size_t encoded_size = sodium_base64_ENCODED_LEN(used, sodium_base64_VARIANT_ORIGINAL);
    encoded = malloc(encoded_size);
    if (!encoded)
        return STATUS_NO_MEMORY;
    (void) sodium_bin2base64(encoded, encoded_size, bytes, used, sodium_base64_VARIANT_ORIGINAL);
    return give(json_pack("{s:s}", "$binary", encoded), ret);
}

enum status yaml_scalar_value(enum yaml_tag tag, const char *text, size_t size, json_t **ret)
{
    switch (tag) {
    case YAML_TAG_STR:
        return give(yaml_text_value(text, size), ret);
    case YAML_TAG_NULL:
        return give(json_null(), ret);
    case YAML_TAG_BOOL:
        return bool_value(text, size, ret);
    case YAML_TAG_INT:
        return yaml_number_read_int(text, size, ret);
    case YAML_TAG_FLOAT:
        return yaml_number_read_float(text, size, ret);
    case YAML_TAG_TIMESTAMP:
        return time_value(text, size, ret);
    case YAML_TAG_BINARY:
        return binary_value(text, size, ret);
    case YAML_TAG_MERGE:
    case YAML_TAG_VALUE:
    case YAML_TAG_SEQ:
    case YAML_TAG_MAP:
    case YAML_TAG_SET:
    case YAML_TAG_OMAP:
    case YAML_TAG_PAIRS:
        break;
    }
    return STATUS_CORRUPT;
}

/* A float that is a whole number equals the integer of that value. */
static void append_float_identity(struct text *identity, const json_t *value)
{
    const char *word = json_string_value(json_object_get(value, "$float"));
    double number = json_real_value(value);

    if (word)
        text_append_format(identity, "number %s", word);
    else if (number == 0)
        text_append_string(identity, "number 0");
    else if (trunc(number) == number)
        text_append_format(identity, "number %.0f", number);
    else
        text_append_format(identity, "number %.17g", number);
}

static void append_int_identity(struct text *identity, const json_t *value)
{
    if (json_is_integer(value))
        text_append_format(identity, "number %" JSON_INTEGER_FORMAT, json_integer_value(value));
    else
        text_append_format(identity, "number %s",
                           json_string_value(value) + strlen(YAML_TEXT_BIG_INTEGER));
}

static void append_time_identity(struct text *identity, const char *text, size_t size)
{
    struct yaml_time time;
    char instant[YAML_TIME_TEXT_SIZE] = "";

    if (yaml_time_parse(text, size, &time))
        yaml_time_identity(&time, instant);
    text_append_format(identity, "time %s", instant);
}

char *yaml_scalar_identity(enum yaml_tag tag, const char *text, size_t size, const json_t *value)
{
    AUTO_TEXT struct text identity = {0};
    AUTO_FREE char *key = NULL;

    switch (tag) {
    case YAML_TAG_NULL:
        text_append_string(&identity, "null");
        break;
    case YAML_TAG_BOOL:
        text_append_format(&identity, "number %d", json_is_true(value));
        break;
    case YAML_TAG_INT:
        append_int_identity(&identity, value);
        break;
    case YAML_TAG_FLOAT:
        append_float_identity(&identity, value);
        break;
    case YAML_TAG_TIMESTAMP:
        append_time_identity(&identity, text, size);
        break;
    case YAML_TAG_BINARY:
        text_append_format(&identity, "binary %s",
                           json_string_value(json_object_get(value, "$binary")));
        break;
    default:
        key = yaml_text_key(text, size);
        if (!key)
            return NULL;
        text_append_format(&identity, "text %s", key);
        break;
    }
    return text_take(&identity, NULL);
}
