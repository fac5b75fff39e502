#include "core/yaml_value.h"

#include "core/array.h"
#include "core/yaml_node.h"
#include "core/yaml_scalar.h"
#include "core/yaml_text.h"

#include <string.h>

/* A member of a mapping after its merge keys have been resolved. */
struct entry {
    uint32_t key;
    uint32_t value;
};

/* The entries of all mappings that are being built, innermost last. */
struct builder {
    const struct yaml_graph *graph;
    struct error *error;
    struct entry *entries;
    size_t entry_count;
    size_t entry_capacity;
    bool has_duplicate;
};

static enum status build(struct builder *builder, uint32_t index, json_t **ret);

static void builder_destroy(struct builder *builder)
{
    free(builder->entries);
}

static const struct yaml_node *node_at(const struct builder *builder, uint32_t index)
{
    return &builder->graph->nodes[index];
}

static const struct yaml_link *link_at(const struct builder *builder, uint32_t index)
{
    return &builder->graph->links[index];
}

static enum status no_memory(struct builder *builder)
{
    return error_set(builder->error, STATUS_NO_MEMORY, NULL, "out of memory");
}

static enum status refuse(struct builder *builder, const struct yaml_node *node, const char *reason)
{
    return error_set(builder->error, STATUS_CORRUPT, NULL, "line %u: %s", node->line, reason);
}

/* A value that is none of its type. */
static enum status misfit(struct builder *builder, const struct yaml_node *node)
{
    return error_set(builder->error, STATUS_CORRUPT, NULL, "line %u: not a valid %s", node->line,
                     yaml_tag_name(node->tag));
}

static enum status push_entry(struct builder *builder, uint32_t key, uint32_t value)
{
    if (!array_make_room(&builder->entries, builder->entry_count, &builder->entry_capacity,
                         sizeof *builder->entries))
        return no_memory(builder);
    builder->entries[builder->entry_count++] = (struct entry){key, value};
    return STATUS_OK;
}

static enum status flatten(struct builder *builder, const struct yaml_node *node, bool *ret_merges);

/* Pushes what the value of one `<<` brings: a mapping, or a list of mappings of which the first
 * counts most and so comes last. */
static enum status merge(struct builder *builder, const struct yaml_node *value)
{
    bool merges;

    if (value->kind == YAML_KIND_MAPPING)
        return flatten(builder, value, &merges);
    if (value->kind == YAML_KIND_SCALAR)
        return refuse(builder, value, "only mappings can be merged with <<");
    for (uint32_t link = value->last_link; link != YAML_NODE_NONE;
         link = link_at(builder, link)->previous) {
        const struct yaml_node *item = node_at(builder, link_at(builder, link)->node);
        if (item->kind != YAML_KIND_MAPPING)
            return refuse(builder, item, "only mappings can be merged with <<");
        enum status status = flatten(builder, item, &merges);
        if (status != STATUS_OK)
            return status;
    }
    return STATUS_OK;
}

/* Pushes the members of a mapping: first what it merges, so that its own override it. */
static enum status flatten(struct builder *builder, const struct yaml_node *node, bool *ret_merges)
{
    *ret_merges = false;
    for (int own = 0; own <= 1; own++) {
        for (uint32_t link = node->first_link; link != YAML_NODE_NONE;) {
            const struct yaml_link *key = link_at(builder, link);
            const struct yaml_link *value = link_at(builder, key->next);
            enum status status = STATUS_OK;

            if (node_at(builder, key->node)->tag == YAML_TAG_MERGE) {
                *ret_merges = true;
                if (!own)
                    status = merge(builder, node_at(builder, value->node));
            } else if (own) {
                status = push_entry(builder, key->node, value->node);
            }
            if (status != STATUS_OK)
                return status;
            link = value->next;
        }
    }
    return STATUS_OK;
}

static bool is_text_key(const struct yaml_node *key)
{
    return key->kind == YAML_KIND_SCALAR &&
           (key->tag == YAML_TAG_STR || key->tag == YAML_TAG_VALUE);
}

static enum yaml_tag key_tag(const struct yaml_node *key)
{
    return key->tag == YAML_TAG_VALUE ? YAML_TAG_STR : key->tag;
}

/* The text of a key, in `ret_owned` too when it had to be disguised. */
static const char *key_text(const struct yaml_node *key, char **ret_owned)
{
    if (yaml_text_is_plain_key(key->text, key->size))
        return key->text;
    *ret_owned = yaml_text_key(key->text, key->size);
    return *ret_owned;
}

static enum status build_object(struct builder *builder, size_t first, bool merges, json_t **ret)
{
    size_t end = builder->entry_count;
    AUTO_JSON json_t *object = json_object();

    for (size_t i = first; i < end; i++) {
        struct entry entry = builder->entries[i];
        AUTO_FREE char *owned = NULL;
        const char *name = key_text(node_at(builder, entry.key), &owned);
        json_t *value = NULL;

        if (!name)
            return no_memory(builder);
        enum status status = build(builder, entry.value, &value);
        if (status != STATUS_OK)
            return status;
        size_t size_before = json_object_size(object);
        if (json_object_set_new_nocheck(object, name, value) != 0)
            return no_memory(builder);
        /* Overriding what was merged is what merging is for. */
        if (json_object_size(object) == size_before && !merges)
            builder->has_duplicate = true;
    }
    *ret = TAKE_PTR(object);
    return STATUS_OK;
}

/* Builds a key and the text that equal keys share. */
static enum status build_key(struct builder *builder, uint32_t index, json_t **ret, char **ret_name)
{
    const struct yaml_node *key = node_at(builder, index);
    AUTO_JSON json_t *value = NULL;

    if (key->kind != YAML_KIND_SCALAR)
        return refuse(builder, key, "a sequence or mapping cannot be a key");
    enum status status = yaml_scalar_value(key_tag(key), key->text, key->size, &value);
    if (status != STATUS_OK)
        return status == STATUS_NO_MEMORY ? no_memory(builder) : misfit(builder, key);
    *ret_name = yaml_scalar_identity(key_tag(key), key->text, key->size, value);
    if (!*ret_name)
        return no_memory(builder);
    *ret = TAKE_PTR(value);
    return STATUS_OK;
}

/* One [key, value] of a mapping whose keys are not all text. Of equal keys the first stays and the
 * last value counts. */
static enum status add_pair(struct builder *builder, struct entry entry, json_t *pairs,
                            json_t *positions, bool merges)
{
    AUTO_JSON json_t *key = NULL;
    AUTO_FREE char *name = NULL;
    json_t *value = NULL;

    enum status status = build_key(builder, entry.key, &key, &name);
    if (status == STATUS_OK)
        status = build(builder, entry.value, &value);
    if (status != STATUS_OK)
        return status;

    const json_t *position = json_object_get(positions, name);
    if (position) {
        size_t at = (size_t) json_integer_value(position);
        builder->has_duplicate = builder->has_duplicate || !merges;
        if (json_array_set_new(json_array_get(pairs, at), 1, value) != 0)
            return no_memory(builder);
        return STATUS_OK;
    }
    json_int_t at = (json_int_t) json_array_size(pairs);
    json_t *pair = json_pack("[oo]", TAKE_PTR(key), value);
    if (!pair || json_array_append_new(pairs, pair) != 0 ||
        json_object_set_new_nocheck(positions, name, json_integer(at)) != 0)
        return no_memory(builder);
    return STATUS_OK;
}

/* Wraps `value`, which it takes, as {name: value}. */
static enum status wrap(struct builder *builder, const char *name, json_t *value, json_t **ret)
{
    AUTO_JSON json_t *object = json_object();

    if (json_object_set_new_nocheck(object, name, value) != 0)
        return no_memory(builder);
    *ret = TAKE_PTR(object);
    return STATUS_OK;
}

static enum status build_pairs(struct builder *builder, size_t first, bool merges, json_t **ret)
{
    size_t end = builder->entry_count;
    AUTO_JSON json_t *pairs = json_array();
    AUTO_JSON json_t *positions = json_object();

    for (size_t i = first; i < end; i++) {
        enum status status = add_pair(builder, builder->entries[i], pairs, positions, merges);
        if (status != STATUS_OK)
            return status;
    }
    return wrap(builder, "$pairs", TAKE_PTR(pairs), ret);
}

static enum status build_mapping(struct builder *builder, const struct yaml_node *node,
                                 json_t **ret)
{
    size_t first = builder->entry_count;
    bool all_text = true;
    bool merges;

    enum status status = flatten(builder, node, &merges);
    if (status != STATUS_OK)
        return status;
    for (size_t i = first; i < builder->entry_count && all_text; i++)
        all_text = is_text_key(node_at(builder, builder->entries[i].key));
    status = all_text ? build_object(builder, first, merges, ret)
                      : build_pairs(builder, first, merges, ret);
    builder->entry_count = first;
    return status;
}

static enum status build_set(struct builder *builder, const struct yaml_node *node, json_t **ret)
{
    size_t first = builder->entry_count;
    AUTO_JSON json_t *items = json_array();
    AUTO_JSON json_t *seen = json_object();
    bool merges;

    enum status status = flatten(builder, node, &merges);
    for (size_t i = first; status == STATUS_OK && i < builder->entry_count; i++) {
        AUTO_JSON json_t *key = NULL;
        AUTO_JSON json_t *value = NULL;
        AUTO_FREE char *name = NULL;

        status = build_key(builder, builder->entries[i].key, &key, &name);
        if (status == STATUS_OK)
            status = build(builder, builder->entries[i].value, &value);
        if (status != STATUS_OK || json_object_get(seen, name))
            continue;
        if (json_array_append(items, key) != 0 ||
            json_object_set_new_nocheck(seen, name, json_true()) != 0)
            status = no_memory(builder);
    }
    builder->entry_count = first;
    return status == STATUS_OK ? wrap(builder, "$set", TAKE_PTR(items), ret) : status;
}

static enum status build_sequence(struct builder *builder, const struct yaml_node *node,
                                  json_t **ret)
{
    AUTO_JSON json_t *array = json_array();

    for (uint32_t link = node->first_link; link != YAML_NODE_NONE;
         link = link_at(builder, link)->next) {
        json_t *item = NULL;
        enum status status = build(builder, link_at(builder, link)->node, &item);
        if (status != STATUS_OK)
            return status;
        if (json_array_append_new(array, item) != 0)
            return no_memory(builder);
    }
    *ret = TAKE_PTR(array);
    return STATUS_OK;
}

/* !!omap and !!pairs: a sequence of mappings with one member each becomes [[key, value], ...]. */
static enum status build_list_of_pairs(struct builder *builder, const struct yaml_node *node,
                                       json_t **ret)
{
    AUTO_JSON json_t *array = json_array();

    for (uint32_t link = node->first_link; link != YAML_NODE_NONE;
         link = link_at(builder, link)->next) {
        const struct yaml_node *item = node_at(builder, link_at(builder, link)->node);
        AUTO_JSON json_t *key = NULL;
        json_t *value = NULL;

        if (item->kind != YAML_KIND_MAPPING || item->first_link == YAML_NODE_NONE ||
            link_at(builder, item->first_link)->next != item->last_link)
            return refuse(builder, item, "expected a mapping with one member");
        enum status status = build(builder, link_at(builder, item->first_link)->node, &key);
        if (status == STATUS_OK)
            status = build(builder, link_at(builder, item->last_link)->node, &value);
        if (status != STATUS_OK)
            return status;
        if (json_array_append_new(array, json_pack("[oo]", TAKE_PTR(key), value)) != 0)
            return no_memory(builder);
    }
    *ret = TAKE_PTR(array);
    return STATUS_OK;
}

static enum status build_scalar(struct builder *builder, const struct yaml_node *node, json_t **ret)
{
    enum status status = yaml_scalar_value(node->tag, node->text, node->size, ret);

    if (status == STATUS_OK)
        return STATUS_OK;
    return status == STATUS_NO_MEMORY ? no_memory(builder) : misfit(builder, node);
}

/* Recursion ends with YAML_VALUE_DEPTH_MAX, which reading has checked. */
static enum status build(struct builder *builder, uint32_t index, json_t **ret)
{
    const struct yaml_node *node = node_at(builder, index);

    switch (node->kind) {
    case YAML_KIND_SCALAR:
        return build_scalar(builder, node, ret);
    case YAML_KIND_SEQUENCE:
        if (node->tag == YAML_TAG_SEQ)
            return build_sequence(builder, node, ret);
        if (node->tag == YAML_TAG_OMAP || node->tag == YAML_TAG_PAIRS)
            return build_list_of_pairs(builder, node, ret);
        break;
    case YAML_KIND_MAPPING:
        if (node->tag == YAML_TAG_MAP)
            return build_mapping(builder, node, ret);
        if (node->tag == YAML_TAG_SET)
            return build_set(builder, node, ret);
        break;
    }
    return misfit(builder, node);
}

enum status yaml_value_read(const char *bytes, size_t size, json_t **ret, bool *ret_duplicate,
                            struct error *error)
{
    AUTO_YAML_GRAPH struct yaml_graph graph = {.root = YAML_NODE_NONE};
    CLEANUP(builder_destroy) struct builder builder = {.graph = &graph, .error = error};
    json_t *value = NULL;

    enum status status = yaml_graph_read(bytes, size, &graph, error);
    if (status != STATUS_OK)
        return status;
    if (graph.root == YAML_NODE_NONE)
        value = json_null();
    else
        status = build(&builder, graph.root, &value);
    if (status != STATUS_OK)
        return status;

    if (ret_duplicate)
        *ret_duplicate = builder.has_duplicate;
    *ret = value;
    return STATUS_OK;
}
