#include "agent/config_table.h"

#include "agent/http_address.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Paths are bounded by the system, everything else is short. */
#define VALUE_BYTES_MAX 4095

/* The member of a key; each kind has one type of member. */
static void *member(const struct config_key *key, struct config *config)
{
    return (char *) config + key->offset;
}

static const void *member_of(const struct config_key *key, const struct config *config)
{
    return (const char *) config + key->offset;
}

static bool is_number(enum config_kind kind)
{
    return kind == CONFIG_NUMBER || kind == CONFIG_MS || kind == CONFIG_BYTES;
}

static void describe_number(const struct config_key *key, struct text *text)
{
    text_append_format(text, "a whole number%s from %" PRIu64 " to %" PRIu64 "%s",
                       key->kind == CONFIG_MS      ? " of milliseconds"
                       : key->kind == CONFIG_BYTES ? " of bytes"
                                                   : "",
                       key->min, key->max,
                       key->kind == CONFIG_BYTES ? ", or one with the suffix K, M or G" : "");
}

static void describe_choices(const char *choices, struct text *text)
{
    text_append_string(text, "one of ");
    for (const char *at = choices; *at; at++) {
        if (*at == '|')
            text_append_string(text, ", ");
        else
            text_append_char(text, *at);
    }
}

void config_key_describe(const struct config_key *key, struct text *text)
{
    static const char *const words[] = {
        [CONFIG_STRING] = "a text that is not empty",
        [CONFIG_FILENAME] = "a file name without a slash",
        [CONFIG_ABSOLUTE] = "an absolute path",
        [CONFIG_PATH] = "a path, or \"\"",
        [CONFIG_ENDPOINT] = "ipc:///PATH or tcp://ADDRESS:PORT",
        [CONFIG_EVENTS] = "ipc:///PATH, tcp://ADDRESS:PORT, off or \"\"",
        [CONFIG_LISTEN] = "PORT, IPV4:PORT or [IPV6]:PORT, or \"\"",
        [CONFIG_MODE] = "octal permissions from 0600 to 0777",
        [CONFIG_BOOL] = "true or false",
        [CONFIG_OBJECT] = "a mapping",
    };

    if (is_number(key->kind))
        describe_number(key, text);
    else if (key->kind == CONFIG_CHOICE)
        describe_choices(key->choices, text);
    else if (key->kind == CONFIG_ABSENT)
        text_append_format(text, "%s in this version, which does not have it",
                           *key->standard ? key->standard : "\"\"");
    else
        text_append_string(text, words[key->kind]);
}

static enum status refuse(const struct config_key *key, const char *value, struct error *error)
{
    AUTO_TEXT struct text allowed = {0};

    config_key_describe(key, &allowed);
    return error_set(error, STATUS_INVALID, NULL, "must be %s, not \"%.*s\"", text_string(&allowed),
                     (int) text_cut(value, strlen(value), 80), value);
}

static bool has_control_characters(const char *value)
{
    for (const unsigned char *at = (const unsigned char *) value; *at; at++) {
        if (*at < 0x20 || *at == 0x7f)
            return true;
    }
    return false;
}

static bool is_choice(const char *choices, const char *value)
{
    size_t length = strlen(value);

    for (const char *at = choices; at; at = strchr(at, '|') ? strchr(at, '|') + 1 : NULL) {
        if (length > 0 && strncmp(at, value, length) == 0 &&
            (at[length] == '|' || at[length] == '\0'))
            return true;
    }
    return false;
}

static bool is_filename(const char *value)
{
    return *value && !strchr(value, '/') && strcmp(value, ".") != 0 && strcmp(value, "..") != 0 &&
           strlen(value) <= 255;
}

/* The form only: ipc/endpoint.h knows what can be bound. */
static bool is_endpoint(const char *value)
{
    const char *scheme = strstr(value, "://");

    return scheme && scheme[3] != '\0' &&
           (strncmp(value, "ipc://", 6) == 0 || strncmp(value, "tcp://", 6) == 0);
}

static bool is_listen(const char *value)
{
    struct http_address address;

    return *value == '\0' || http_address_parse(value, &address);
}

/* Others must not be able to lock the agent out of its own sockets. */
static bool is_mode(const char *value)
{
    size_t length = strlen(value);

    if (length < 3 || length > 4 || strspn(value, "01234567") != length)
        return false;
    unsigned long mode = strtoul(value, NULL, 8);
    return mode <= 0777 && (mode & 0600) == 0600;
}

static bool text_is_allowed(const struct config_key *key, const char *value)
{
    switch (key->kind) {
    case CONFIG_STRING:
        return *value != '\0';
    case CONFIG_CHOICE:
        return is_choice(key->choices, value);
    case CONFIG_FILENAME:
        return is_filename(value);
    case CONFIG_ABSOLUTE:
        return *value == '/';
    case CONFIG_PATH:
        return true;
    case CONFIG_ENDPOINT:
        return is_endpoint(value);
    case CONFIG_EVENTS:
        return *value == '\0' || strcmp(value, "off") == 0 || is_endpoint(value);
    case CONFIG_LISTEN:
        return is_listen(value);
    case CONFIG_MODE:
        return is_mode(value);
    case CONFIG_ABSENT:
        return strcmp(value, key->standard) == 0;
    default:
        return false;
    }
}

static enum status set_text(const struct config_key *key, struct config *config, const char *value,
                            struct error *error)
{
    char **slot = member(key, config);
    size_t size = strlen(value) + 1;

    if (size > VALUE_BYTES_MAX + 1)
        return error_set(error, STATUS_INVALID, NULL, "must be at most %d bytes long, not %zu",
                         VALUE_BYTES_MAX, size - 1);
    if (has_control_characters(value))
        return error_set(error, STATUS_INVALID, NULL, "must be without control characters");
    if (!text_is_allowed(key, value))
        return refuse(key, value, error);

    char *copy = malloc(size);
    if (!copy)
        return error_set(error, STATUS_NO_MEMORY, NULL, "must be kept, but memory is short");
    memcpy(copy, value, size);
    free(*slot);
    *slot = copy;
    return STATUS_OK;
}

static uint64_t suffix_factor(char suffix)
{
    switch (suffix) {
    case 'K':
        return UINT64_C(1) << 10;
    case 'M':
        return UINT64_C(1) << 20;
    case 'G':
        return UINT64_C(1) << 30;
    default:
        return 0;
    }
}

/* Decimal digits without sign or leading zeros, since YAML readers disagree about both. */
static bool read_number(const struct config_key *key, const char *value, uint64_t *ret)
{
    size_t digits = strspn(value, "0123456789");
    uint64_t factor = 1;

    if (digits == 0 || digits > 19 || (digits > 1 && *value == '0'))
        return false;
    if (value[digits] != '\0') {
        factor = key->kind == CONFIG_BYTES ? suffix_factor(value[digits]) : 0;
        if (factor == 0 || value[digits + 1] != '\0')
            return false;
    }
    uint64_t number = strtoull(value, NULL, 10);
    if (number > UINT64_MAX / factor)
        return false;
    *ret = number * factor;
    return true;
}

static enum status set_number(const struct config_key *key, struct config *config,
                              const char *value, struct error *error)
{
    uint64_t number = 0;

    if (!read_number(key, value, &number) || number < key->min || number > key->max)
        return refuse(key, value, error);
    *(uint64_t *) member(key, config) = number;
    return STATUS_OK;
}

static enum status set_bool(const struct config_key *key, struct config *config, const char *value,
                            struct error *error)
{
    bool yes = strcmp(value, "true") == 0;

    if (!yes && strcmp(value, "false") != 0)
        return refuse(key, value, error);
    *(bool *) member(key, config) = yes;
    return STATUS_OK;
}

static enum status set_object(const struct config_key *key, struct config *config,
                              const char *value, struct error *error)
{
    json_error_t problem;
    json_t *object = json_loads(value, JSON_REJECT_DUPLICATES, &problem);

    if (!json_is_object(object)) {
        json_decref(object);
        return error_set(error, STATUS_INVALID, NULL, "must be a JSON object here%s%s",
                         object ? "" : ": ", object ? "" : problem.text);
    }
    config_key_set_object(key, config, object);
    return STATUS_OK;
}

/* There is nothing to keep. */
static enum status check_absent(const struct config_key *key, const char *value,
                                struct error *error)
{
    return text_is_allowed(key, value) ? STATUS_OK : refuse(key, value, error);
}

enum status config_key_set(const struct config_key *key, struct config *config, const char *value,
                           struct error *error)
{
    if (is_number(key->kind))
        return set_number(key, config, value, error);
    if (key->kind == CONFIG_BOOL)
        return set_bool(key, config, value, error);
    if (key->kind == CONFIG_OBJECT)
        return set_object(key, config, value, error);
    if (key->kind == CONFIG_ABSENT)
        return check_absent(key, value, error);
    return set_text(key, config, value, error);
}

void config_key_set_object(const struct config_key *key, struct config *config, json_t *object)
{
    json_t **slot = member(key, config);

    json_decref(*slot);
    *slot = object;
}

static void write_object(const json_t *object, struct text *text)
{
    AUTO_FREE char *dump = json_dumps(object, JSON_SORT_KEYS);

    if (dump)
        text_append_string(text, dump);
    else
        text->failed = true;
}

void config_key_write(const struct config_key *key, const struct config *config, struct text *text)
{
    const void *slot = member_of(key, config);

    if (is_number(key->kind)) {
        text_append_format(text, "%" PRIu64, *(const uint64_t *) slot);
    } else if (key->kind == CONFIG_BOOL) {
        text_append_string(text, *(const bool *) slot ? "true" : "false");
    } else if (key->kind == CONFIG_OBJECT) {
        write_object(*(json_t *const *) slot, text);
    } else {
        const char *value =
            key->kind == CONFIG_ABSENT ? key->standard : *(const char *const *) slot;
        text_append_string(text, !value ? "not given" : *value ? value : "\"\"");
    }
}

void config_key_release(const struct config_key *key, struct config *config)
{
    if (key->kind == CONFIG_OBJECT) {
        json_decref(*(json_t **) member(key, config));
    } else if (!is_number(key->kind) && key->kind != CONFIG_BOOL && key->kind != CONFIG_ABSENT) {
        free(*(char **) member(key, config));
    }
}
