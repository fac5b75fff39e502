#include "agent/config_yaml.h"

#include <errno.h>
#include <math.h>
#include <string.h>

/* One conversion; the budget also bounds aliases that multiply. */
struct conversion {
    yaml_document_t *document;
    unsigned nodes_left;
    const yaml_node_t *place; /* the node at fault */
    struct error *error;
};

bool config_yaml_is_plain(const yaml_node_t *node)
{
    return node->type == YAML_SCALAR_NODE && node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
}

bool config_yaml_is_null(const yaml_node_t *node)
{
    if (!config_yaml_is_plain(node))
        return false;
    const char *text = (const char *) node->data.scalar.value;
    return !*text || strcmp(text, "~") == 0 || strcmp(text, "null") == 0;
}

static enum status fail(struct conversion *conversion, const yaml_node_t *node, const char *problem)
{
    conversion->place = node;
    return error_set(conversion->error, STATUS_INVALID, NULL, "%s", problem);
}

static enum status no_memory(struct conversion *conversion, const yaml_node_t *node)
{
    conversion->place = node;
    return error_set(conversion->error, STATUS_NO_MEMORY, NULL, "must be kept, memory is short");
}

/* -?(0|[1-9][0-9]*), and behind it the fraction and exponent of JSON's numbers. */
static bool is_number(const char *text, bool *ret_integer)
{
    const char *at = text + (*text == '-');
    size_t digits = strspn(at, "0123456789");

    if (digits == 0 || (digits > 1 && *at == '0'))
        return false;
    at += digits;
    *ret_integer = *at == '\0';
    if (*at == '.') {
        digits = strspn(++at, "0123456789");
        if (digits == 0)
            return false;
        at += digits;
    }
    if (*at == 'e' || *at == 'E') {
        at++;
        at += *at == '+' || *at == '-';
        digits = strspn(at, "0123456789");
        if (digits == 0)
            return false;
        at += digits;
    }
    return *at == '\0';
}

static enum status convert_number(struct conversion *conversion, const yaml_node_t *node,
                                  bool integer, json_t **ret)
{
    const char *text = (const char *) node->data.scalar.value;

    errno = 0;
    long long whole = integer ? strtoll(text, NULL, 10) : 0;
    double real = integer ? 0 : strtod(text, NULL);
    if ((integer && errno) || !isfinite(real))
        return fail(conversion, node, "must be a number that fits 64 bits");
    *ret = integer ? json_integer(whole) : json_real(real);
    return *ret ? STATUS_OK : no_memory(conversion, node);
}

static enum status convert_scalar(struct conversion *conversion, const yaml_node_t *node,
                                  json_t **ret)
{
    const char *text = (const char *) node->data.scalar.value;
    bool integer = false;

    if (strlen(text) != node->data.scalar.length)
        return fail(conversion, node, "must be without NUL characters");
    if (config_yaml_is_plain(node)) {
        if (is_number(text, &integer))
            return convert_number(conversion, node, integer, ret);
        if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0) {
            *ret = json_boolean(*text == 't');
            return STATUS_OK;
        }
        if (config_yaml_is_null(node)) {
            *ret = json_null();
            return STATUS_OK;
        }
    }
    *ret = json_stringn(text, node->data.scalar.length);
    return *ret ? STATUS_OK : no_memory(conversion, node);
}

static enum status convert(struct conversion *conversion, const yaml_node_t *node, unsigned depth,
                           json_t **ret);

static enum status convert_sequence(struct conversion *conversion, const yaml_node_t *node,
                                    unsigned depth, json_t **ret)
{
    AUTO_JSON json_t *array = json_array();

    if (!array)
        return no_memory(conversion, node);
    for (const yaml_node_item_t *item = node->data.sequence.items.start;
         item < node->data.sequence.items.top; item++) {
        json_t *value = NULL;
        const yaml_node_t *member = yaml_document_get_node(conversion->document, *item);
        enum status status = convert(conversion, member, depth + 1, &value);
        if (status)
            return status;
        if (json_array_append_new(array, value))
            return no_memory(conversion, node);
    }
    *ret = TAKE_PTR(array);
    return STATUS_OK;
}

static enum status convert_pair(struct conversion *conversion, const yaml_node_pair_t *pair,
                                unsigned depth, json_t *object)
{
    const yaml_node_t *key = yaml_document_get_node(conversion->document, pair->key);
    json_t *value = NULL;

    if (key->type != YAML_SCALAR_NODE ||
        strlen((const char *) key->data.scalar.value) != key->data.scalar.length)
        return fail(conversion, key, "must have texts as keys");
    if (json_object_get(object, (const char *) key->data.scalar.value))
        return fail(conversion, key, "must have each key only once");
    enum status status =
        convert(conversion, yaml_document_get_node(conversion->document, pair->value), depth + 1,
                &value);
    if (status)
        return status;
    if (json_object_set_new(object, (const char *) key->data.scalar.value, value))
        return no_memory(conversion, key);
    return STATUS_OK;
}

static enum status convert_mapping(struct conversion *conversion, const yaml_node_t *node,
                                   unsigned depth, json_t **ret)
{
    AUTO_JSON json_t *object = json_object();

    if (!object)
        return no_memory(conversion, node);
    for (const yaml_node_pair_t *pair = node->data.mapping.pairs.start;
         pair < node->data.mapping.pairs.top; pair++) {
        enum status status = convert_pair(conversion, pair, depth, object);
        if (status)
            return status;
    }
    *ret = TAKE_PTR(object);
    return STATUS_OK;
}

/* The depth also ends a mapping that contains itself by an alias. */
static enum status convert(struct conversion *conversion, const yaml_node_t *node, unsigned depth,
                           json_t **ret)
{
    if (depth > CONFIG_DEPTH_MAX)
        return fail(conversion, node, "must not be nested so deeply");
    if (conversion->nodes_left == 0)
        return fail(conversion, node, "must have fewer values");
    conversion->nodes_left--;
    switch (node->type) {
    case YAML_SCALAR_NODE:
        return convert_scalar(conversion, node, ret);
    case YAML_SEQUENCE_NODE:
        return convert_sequence(conversion, node, depth, ret);
    case YAML_MAPPING_NODE:
        return convert_mapping(conversion, node, depth, ret);
    default:
        return fail(conversion, node, "must be a value");
    }
}

enum status config_yaml_to_json(yaml_document_t *document, const yaml_node_t *node, json_t **ret,
                                const yaml_node_t **ret_place, struct error *error)
{
    struct conversion conversion = {.document = document,
                                    .nodes_left = CONFIG_NODES_MAX,
                                    .place = node,
                                    .error = error};
    enum status status = convert(&conversion, node, 1, ret);

    if (status)
        *ret_place = conversion.place;
    return status;
}
