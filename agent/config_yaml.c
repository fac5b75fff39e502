#include "agent/config_yaml.h"

#include "agent/config_table.h"

#include <string.h>

#define CONFIG_VERSION "1"

/* What is told of one file; more would only repeat itself. */
#define ERRORS_MAX 20

/* What one reading of a file needs to know. */
struct reading {
    struct config *config;
    const char *name; /* stands for the file in messages */
    yaml_document_t *document;
    struct text *warnings;
    struct text *errors;   /* a line each */
    unsigned *error_count; /* of those lines */
    struct error *error;   /* the first of them, or what ended the reading */
};

/* An error at a place of the file; ends a return statement. What does not depend on it can still
 * be read. */
static enum status fail_at(const struct reading *reading, const yaml_node_t *node, const char *key,
                           const char *problem)
{
    struct error own;

    (void) error_set(&own, STATUS_INVALID, NULL, "%s:%zu:%zu: %s%s%s", reading->name,
                     node->start_mark.line + 1, node->start_mark.column + 1, key, *key ? ": " : "",
                     problem);
    for (char *at = own.message; (at = strchr(at, '\n')) != NULL;)
        *at = ' ';
    text_append_format(reading->errors, "%s\n", own.message);
    if (++*reading->error_count == 1 && reading->error)
        *reading->error = own;
    if (*reading->error_count == ERRORS_MAX)
        text_append_format(reading->errors, "%s: the rest is not looked at\n", reading->name);
    return STATUS_INVALID;
}

/* False when it makes no sense to go on behind a failure. */
static bool may_go_on(const struct reading *reading, enum status status)
{
    return status == STATUS_OK || (status == STATUS_INVALID && *reading->error_count < ERRORS_MAX);
}

static void warn_at(const struct reading *reading, const yaml_node_t *node, const char *message)
{
    text_append_format(reading->warnings, "%s:%zu:%zu: %s\n", reading->name,
                       node->start_mark.line + 1, node->start_mark.column + 1, message);
}

static yaml_node_t *node_at(const struct reading *reading, int index)
{
    return yaml_document_get_node(reading->document, index);
}

static const char *scalar_text(const yaml_node_t *node)
{
    return (const char *) node->data.scalar.value;
}

/* The scalar's text when it can be a name: short, printable, no NUL. NULL else. */
static const char *key_text(const yaml_node_t *node)
{
    if (node->type != YAML_SCALAR_NODE || node->data.scalar.length == 0 ||
        node->data.scalar.length > 100)
        return NULL;
    for (size_t i = 0; i < node->data.scalar.length; i++) {
        if (node->data.scalar.value[i] < 0x20 || node->data.scalar.value[i] == 0x7f)
            return NULL;
    }
    return scalar_text(node);
}

/* Called for each pair of a mapping whose key is proper and not a repetition. `section` is "" at
 * the top. */
typedef enum status (*pair_visitor)(struct reading *reading, const char *section,
                                    const yaml_node_t *key, const yaml_node_t *value);

static bool is_repeated(const struct reading *reading, const yaml_node_t *mapping,
                        const yaml_node_pair_t *pair)
{
    const char *name = scalar_text(node_at(reading, pair->key));

    for (const yaml_node_pair_t *at = mapping->data.mapping.pairs.start; at < pair; at++) {
        const char *other = key_text(node_at(reading, at->key));
        if (other && strcmp(other, name) == 0)
            return true;
    }
    return false;
}

static enum status visit_pair(struct reading *reading, const char *section,
                              const yaml_node_t *mapping, const yaml_node_pair_t *pair,
                              pair_visitor visit)
{
    const yaml_node_t *key = node_at(reading, pair->key);
    const char *name = key_text(key);

    if (!name)
        return fail_at(reading, key, section, "a key must be a short plain word");
    if (is_repeated(reading, mapping, pair)) {
        AUTO_TEXT struct text full = {0};
        text_append_format(&full, "%s%s%s", section, *section ? "." : "", name);
        return fail_at(reading, key, text_string(&full), "must be given only once");
    }
    return visit(reading, section, key, node_at(reading, pair->value));
}

static enum status visit_pairs(struct reading *reading, const char *section,
                               const yaml_node_t *mapping, pair_visitor visit)
{
    const yaml_node_pair_t *pair = mapping->data.mapping.pairs.start;
    enum status first = STATUS_OK;

    if (mapping->data.mapping.pairs.top - pair > CONFIG_MEMBERS_MAX)
        return fail_at(reading, mapping, section, "has too many keys");
    for (; pair < mapping->data.mapping.pairs.top; pair++) {
        enum status status = visit_pair(reading, section, mapping, pair, visit);
        if (!may_go_on(reading, status))
            return status;
        first = first ? first : status;
    }
    return first;
}

/* Quotes make a text, also of digits; so a quoted number is a mistake, while the bare word off is
 * a fine text for ipc.events. */
static bool quotes_are_allowed(enum config_kind kind)
{
    return kind != CONFIG_BOOL && kind != CONFIG_NUMBER && kind != CONFIG_MS &&
           kind != CONFIG_BYTES;
}

static enum status refuse_kind(const struct reading *reading, const struct config_key *key,
                               const yaml_node_t *value, const char *found)
{
    AUTO_TEXT struct text problem = {0};

    text_append_string(&problem, "must be ");
    config_key_describe(key, &problem);
    text_append_format(&problem, ", not %s", found);
    return fail_at(reading, value, key->name, text_string(&problem));
}

static enum status read_object(struct reading *reading, const struct config_key *key,
                               const yaml_node_t *value)
{
    AUTO_JSON json_t *object = NULL;
    const yaml_node_t *place = value;
    struct error problem;

    if (value->type != YAML_MAPPING_NODE)
        return refuse_kind(reading, key, value, "a single value or a list");
    enum status status = config_yaml_to_json(reading->document, value, &object, &place, &problem);
    if (status)
        return fail_at(reading, place, key->name, problem.message);
    config_key_set_object(key, reading->config, TAKE_PTR(object));
    return STATUS_OK;
}

static enum status read_scalar(struct reading *reading, const struct config_key *key,
                               const yaml_node_t *value)
{
    const char *text = scalar_text(value);
    struct error problem;

    if (strlen(text) != value->data.scalar.length)
        return fail_at(reading, value, key->name, "must be without control characters");
    if (!config_yaml_is_plain(value) && !quotes_are_allowed(key->kind))
        return refuse_kind(reading, key, value, "a quoted text");
    if (config_key_set(key, reading->config, text, &problem))
        return fail_at(reading, value, key->name, problem.message);
    return STATUS_OK;
}

static enum status read_value(struct reading *reading, const struct config_key *key,
                              const yaml_node_t *value)
{
    if (config_yaml_is_null(value))
        return STATUS_OK; /* as if the key were not there */
    if (key->kind == CONFIG_OBJECT)
        return read_object(reading, key, value);
    if (value->type != YAML_SCALAR_NODE)
        return refuse_kind(reading, key, value,
                           value->type == YAML_MAPPING_NODE ? "a mapping" : "a list");
    return read_scalar(reading, key, value);
}

static void warn_unknown_key(const struct reading *reading, const yaml_node_t *node,
                             const char *name)
{
    AUTO_TEXT struct text message = {0};
    const struct config_key *nearest = config_key_nearest(name);

    text_append_format(&message, "unknown key %s is ignored", name);
    if (nearest)
        text_append_format(&message, "; did you mean %s?", nearest->name);
    warn_at(reading, node, text_string(&message));
}

static enum status visit_key(struct reading *reading, const char *section, const yaml_node_t *key,
                             const yaml_node_t *value)
{
    AUTO_TEXT struct text name = {0};

    text_append_format(&name, "%s.%s", section, scalar_text(key));
    if (!text_ok(&name))
        return error_set(reading->error, STATUS_NO_MEMORY, NULL, "%s: not enough memory",
                         reading->name);
    const struct config_key *row = config_key_find(text_string(&name), name.size);
    if (row)
        return read_value(reading, row, value);
    warn_unknown_key(reading, key, text_string(&name));
    return STATUS_OK;
}

static void warn_unknown_section(const struct reading *reading, const yaml_node_t *node,
                                 const char *name)
{
    AUTO_TEXT struct text message = {0};
    char nearest[CONFIG_SECTION_NAME_SIZE];
    const struct config_key *key = config_key_find(name, strlen(name));

    text_append_format(&message, "unknown section %s is ignored", name);
    if (key) {
        config_key_section(key, nearest);
        text_append_format(&message, "; write \"%s:\" and below it, indented, \"%s:\"", nearest,
                           config_key_word(key));
    } else if (config_section_nearest(name, nearest)) {
        text_append_format(&message, "; did you mean %s?", nearest);
    } else if ((key = config_key_nearest(name)) != NULL) {
        text_append_format(&message, "; did you mean the key %s?", key->name);
    }
    warn_at(reading, node, text_string(&message));
}

static enum status read_version(const struct reading *reading, const yaml_node_t *value)
{
    if (value->type != YAML_SCALAR_NODE || !config_yaml_is_plain(value) ||
        strcmp(scalar_text(value), CONFIG_VERSION) != 0)
        return fail_at(reading, value, "config_version",
                       "must be " CONFIG_VERSION ", the only version that this agent knows");
    return STATUS_OK;
}

/* Access rules that nobody enforces would be worse than none. */
static enum status check_access(const struct reading *reading, const yaml_node_t *section)
{
    if (section->data.mapping.pairs.start == section->data.mapping.pairs.top)
        return STATUS_OK;
    for (const yaml_node_pair_t *pair = section->data.mapping.pairs.start;
         pair < section->data.mapping.pairs.top; pair++) {
        const yaml_node_t *key = node_at(reading, pair->key);
        const yaml_node_t *value = node_at(reading, pair->value);
        if (strcmp(scalar_text(key), "enabled") == 0 && value->type == YAML_SCALAR_NODE &&
            strcmp(scalar_text(value), "false") == 0)
            return STATUS_OK;
    }
    return fail_at(reading, section, "access",
                   "must be empty or say \"enabled: false\": this version does not enforce it");
}

static enum status visit_section(struct reading *reading, const char *top, const yaml_node_t *key,
                                 const yaml_node_t *value)
{
    const char *name = scalar_text(key);

    (void) top;
    if (strcmp(name, "config_version") == 0)
        return read_version(reading, value);
    if (!config_section_exists(name)) {
        warn_unknown_section(reading, key, name);
        return STATUS_OK;
    }
    if (config_yaml_is_null(value))
        return STATUS_OK;
    if (value->type != YAML_MAPPING_NODE)
        return fail_at(reading, value, name, "must be a mapping of keys");
    enum status status = visit_pairs(reading, name, value, visit_key);
    if (status || strcmp(name, "access") != 0)
        return status;
    return check_access(reading, value);
}

static bool has_version(const struct reading *reading, const yaml_node_t *root)
{
    for (const yaml_node_pair_t *pair = root->data.mapping.pairs.start;
         pair < root->data.mapping.pairs.top; pair++) {
        const char *name = key_text(node_at(reading, pair->key));
        if (name && strcmp(name, "config_version") == 0)
            return true;
    }
    return false;
}

static enum status read_document(struct reading *reading, const yaml_node_t *root)
{
    if (root->type == YAML_SCALAR_NODE && config_yaml_is_null(root)) {
        warn_at(reading, root, "the file is empty; config_version: " CONFIG_VERSION " is missing");
        return STATUS_OK;
    }
    if (root->type != YAML_MAPPING_NODE)
        return fail_at(reading, root, "", "must be a mapping of sections");
    enum status status = visit_pairs(reading, "", root, visit_section);
    if (!has_version(reading, root))
        warn_at(reading, root, "config_version: " CONFIG_VERSION " is missing");
    return status;
}

static enum status fail_parse(const struct reading *reading, const yaml_parser_t *parser)
{
    size_t line = parser->problem_mark.line + 1;
    size_t column = parser->problem_mark.column + 1;

    if (parser->error == YAML_MEMORY_ERROR)
        return error_set(reading->error, STATUS_NO_MEMORY, NULL, "%s: not enough memory",
                         reading->name);
    if (parser->error == YAML_READER_ERROR)
        return error_set(reading->error, STATUS_INVALID, NULL, "%s: byte %zu: %s", reading->name,
                         parser->problem_offset + 1,
                         parser->problem ? parser->problem : "not a text");
    return error_set(reading->error, STATUS_INVALID, NULL, "%s:%zu:%zu: not YAML: %s%s%s",
                     reading->name, line, column, parser->problem ? parser->problem : "",
                     parser->context ? " " : "", parser->context ? parser->context : "");
}

/* Anything behind the first document would silently be left out. */
static enum status check_last(struct reading *reading, yaml_parser_t *parser)
{
    CLEANUP(yaml_document_delete) yaml_document_t second = {0};

    if (!yaml_parser_load(parser, &second))
        return fail_parse(reading, parser);
    const yaml_node_t *root = yaml_document_get_root_node(&second);
    if (root)
        return fail_at(reading, root, "", "must be one document, not several");
    return STATUS_OK;
}

/* Takes its own copy, since the document does not outlive it. */
static enum status read_parsed(struct reading reading, yaml_parser_t *parser)
{
    CLEANUP(yaml_document_delete) yaml_document_t document = {0};

    if (!yaml_parser_load(parser, &document))
        return fail_parse(&reading, parser);
    const yaml_node_t *root = yaml_document_get_root_node(&document);
    if (!root) {
        text_append_format(reading.warnings,
                           "%s:1:1: the file is empty; config_version: " CONFIG_VERSION
                           " is missing\n",
                           reading.name);
        return STATUS_OK;
    }
    reading.document = &document;
    enum status status = read_document(&reading, root);
    if (status)
        return status;
    return check_last(&reading, parser);
}

enum status config_read(struct config *config, const char *name, const char *bytes, size_t size,
                        struct text *warnings, struct text *errors, struct error *error)
{
    unsigned error_count = 0;
    struct reading reading = {
        .config = config,
        .name = name,
        .warnings = warnings,
        .errors = errors,
        .error_count = &error_count,
        .error = error,
    };
    CLEANUP(yaml_parser_delete) yaml_parser_t parser = {0};

    if (size > CONFIG_FILE_BYTES_MAX)
        return error_set(error, STATUS_TOO_LARGE, NULL, "%s: larger than %zu bytes", name,
                         CONFIG_FILE_BYTES_MAX);
    enum status status = config_yaml_check(name, bytes, size, error);
    if (status)
        return status;
    if (!yaml_parser_initialize(&parser))
        return error_set(error, STATUS_NO_MEMORY, NULL, "%s: not enough memory", name);
    yaml_parser_set_input_string(&parser, (const unsigned char *) bytes, size);
    status = read_parsed(reading, &parser);
    if (status == STATUS_OK && !text_ok(warnings))
        return error_set(error, STATUS_NO_MEMORY, NULL, "%s: not enough memory", name);
    return status;
}
