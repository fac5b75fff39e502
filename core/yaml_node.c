#include "core/yaml_node.h"

#include "core/array.h"
#include "core/yaml_surrogate.h"
#include "core/yaml_value.h"

#include <string.h>
#include <yaml.h>

/* The state of reading: what is open, and the anchors so far. */
struct composer {
    struct yaml_graph graph;
    struct error *error;
    uint32_t open[YAML_VALUE_DEPTH_MAX];
    unsigned depth;
    uint32_t expanded; /* nodes so far, aliases expanded */
    json_t *anchors;   /* name to node; NULL until there is one */
    bool has_document;
    struct yaml_surrogate surrogate;
};

static void composer_destroy(struct composer *composer)
{
    yaml_graph_destroy(&composer->graph);
    json_decref(composer->anchors);
    yaml_surrogate_destroy(&composer->surrogate);
}

void yaml_graph_destroy(struct yaml_graph *graph)
{
    for (uint32_t i = 0; i < graph->node_count; i++)
        free(graph->nodes[i].text);
    free(graph->nodes);
    free(graph->links);
    *graph = (struct yaml_graph){.root = YAML_NODE_NONE};
}

static enum status no_memory(struct composer *composer)
{
    return error_set(composer->error, STATUS_NO_MEMORY, NULL, "out of memory");
}

static uint32_t line_of(const yaml_event_t *event)
{
    return (uint32_t) event->start_mark.line + 1;
}

static bool append_node(struct yaml_graph *graph, const struct yaml_node *node)
{
    if (!array_make_room(&graph->nodes, graph->node_count, &graph->node_capacity, sizeof *node))
        return false;
    graph->nodes[graph->node_count++] = *node;
    return true;
}

/* Makes `child` the last member of `parent`. */
static bool append_link(struct yaml_graph *graph, uint32_t parent, uint32_t child)
{
    if (!array_make_room(&graph->links, graph->link_count, &graph->link_capacity,
                         sizeof *graph->links))
        return false;

    struct yaml_node *node = &graph->nodes[parent];
    uint32_t link = graph->link_count++;
    graph->links[link] =
        (struct yaml_link){.node = child, .next = YAML_NODE_NONE, .previous = node->last_link};
    if (node->last_link == YAML_NODE_NONE)
        node->first_link = link;
    else
        graph->links[node->last_link].next = link;
    node->last_link = link;
    return true;
}

/* Counts a node that is `expanded` nodes large and `height` levels high, and puts it where reading
 * stands. The limits are checked here, before anything is built of it. */
static enum status place(struct composer *composer, uint32_t child, uint32_t expanded,
                         unsigned height, uint32_t line)
{
    composer->expanded += expanded; /* both are small: no overflow */
    if (composer->expanded > YAML_VALUE_NODES_MAX)
        return error_set(composer->error, STATUS_CORRUPT, NULL,
                         "line %u: more than %d values once aliases are expanded", line,
                         YAML_VALUE_NODES_MAX);
    if (composer->depth + height > YAML_VALUE_DEPTH_MAX)
        return error_set(composer->error, STATUS_CORRUPT, NULL, "line %u: nested deeper than %d",
                         line, YAML_VALUE_DEPTH_MAX);
    if (composer->depth == 0) {
        composer->graph.root = child;
        return STATUS_OK;
    }
    if (!append_link(&composer->graph, composer->open[composer->depth - 1], child))
        return no_memory(composer);
    return STATUS_OK;
}

/* Remembers the name that the latest node has been given. */
static enum status add_anchor(struct composer *composer, const char *name, uint32_t line)
{
    if (!name)
        return STATUS_OK;
    if (!composer->anchors)
        composer->anchors = json_object();
    if (json_object_get(composer->anchors, name))
        return error_set(composer->error, STATUS_CORRUPT, NULL, "line %u: anchor %s is set twice",
                         line, name);
    if (json_object_set_new_nocheck(composer->anchors, name,
                                    json_integer(composer->graph.node_count - 1)) != 0)
        return no_memory(composer);
    return STATUS_OK;
}

static enum status find_tag(struct composer *composer, const yaml_char_t *name, enum yaml_tag plain,
                            uint32_t line, enum yaml_tag *ret)
{
    if (!name || strcmp((const char *) name, "!") == 0) {
        *ret = plain;
        return STATUS_OK;
    }
    if (!yaml_tag_find((const char *) name, ret))
        return error_set(composer->error, STATUS_CORRUPT, NULL, "line %u: unknown tag", line);
    return STATUS_OK;
}

static enum status add_scalar(struct composer *composer, yaml_event_t *event)
{
    char *text = (char *) event->data.scalar.value;
    size_t size = event->data.scalar.length;

    if (composer->surrogate.bytes)
        size = yaml_surrogate_restore(&composer->surrogate, text, size);
    struct yaml_node node = {
        .kind = YAML_KIND_SCALAR,
        .height = 1,
        .expanded = 1,
        .line = line_of(event),
        .size = size,
    };
    const char *tag = (const char *) event->data.scalar.tag;
    bool by_spelling = event->data.scalar.plain_implicit || (tag && strcmp(tag, "!") == 0);
    enum yaml_tag plain = by_spelling ? yaml_tag_of_plain(text, size) : YAML_TAG_STR;

    enum status status = find_tag(composer, event->data.scalar.tag, plain, node.line, &node.tag);
    if (status != STATUS_OK)
        return status;
    if (!append_node(&composer->graph, &node))
        return no_memory(composer);
    uint32_t index = composer->graph.node_count - 1;
    composer->graph.nodes[index].text = (char *) TAKE_PTR(event->data.scalar.value);
    status = place(composer, index, 1, 1, node.line);
    if (status != STATUS_OK)
        return status;
    return add_anchor(composer, (const char *) event->data.scalar.anchor, node.line);
}

static enum status open_collection(struct composer *composer, enum yaml_kind kind,
                                   const yaml_char_t *tag, const yaml_char_t *anchor, uint32_t line)
{
    struct yaml_node node = {
        .kind = kind,
        .is_open = true,
        .height = 1,
        .line = line,
        .expanded = composer->expanded, /* where it started, until it is closed */
        .first_link = YAML_NODE_NONE,
        .last_link = YAML_NODE_NONE,
    };
    enum yaml_tag plain = kind == YAML_KIND_SEQUENCE ? YAML_TAG_SEQ : YAML_TAG_MAP;

    enum status status = find_tag(composer, tag, plain, line, &node.tag);
    if (status != STATUS_OK)
        return status;
    if (!append_node(&composer->graph, &node))
        return no_memory(composer);
    uint32_t index = composer->graph.node_count - 1;
    status = place(composer, index, 1, 1, line);
    if (status != STATUS_OK)
        return status;
    composer->open[composer->depth++] = index;
    return add_anchor(composer, (const char *) anchor, line);
}

static void raise_to(struct yaml_node *node, unsigned height)
{
    if (node->height < height)
        node->height = height;
}

static void close_collection(struct composer *composer)
{
    struct yaml_node *nodes = composer->graph.nodes;
    struct yaml_node *node = &nodes[composer->open[--composer->depth]];

    for (uint32_t link = node->first_link; link != YAML_NODE_NONE;
         link = composer->graph.links[link].next)
        raise_to(node, nodes[composer->graph.links[link].node].height + 1);
    node->expanded = composer->expanded - node->expanded;
    node->is_open = false;
}

static enum status add_alias(struct composer *composer, const yaml_event_t *event)
{
    const char *name = (const char *) event->data.alias.anchor;
    const json_t *found = json_object_get(composer->anchors, name);
    uint32_t line = line_of(event);

    if (!found)
        return error_set(composer->error, STATUS_CORRUPT, NULL, "line %u: no anchor %s", line,
                         name);
    uint32_t index = (uint32_t) json_integer_value(found);
    const struct yaml_node *target = &composer->graph.nodes[index];
    if (target->is_open)
        return error_set(composer->error, STATUS_CORRUPT, NULL, "line %u: alias %s contains itself",
                         line, name);
    return place(composer, index, target->expanded, target->height, line);
}

static enum status begin_document(struct composer *composer, const yaml_event_t *event)
{
    if (composer->has_document)
        return error_set(composer->error, STATUS_CORRUPT, NULL, "line %u: a second document",
                         line_of(event));
    composer->has_document = true;
    return STATUS_OK;
}

static enum status take_event(struct composer *composer, yaml_event_t *event)
{
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        return begin_document(composer, event);
    case YAML_ALIAS_EVENT:
        return add_alias(composer, event);
    case YAML_SCALAR_EVENT:
        return add_scalar(composer, event);
    case YAML_SEQUENCE_START_EVENT:
        return open_collection(composer, YAML_KIND_SEQUENCE, event->data.sequence_start.tag,
                               event->data.sequence_start.anchor, line_of(event));
    case YAML_MAPPING_START_EVENT:
        return open_collection(composer, YAML_KIND_MAPPING, event->data.mapping_start.tag,
                               event->data.mapping_start.anchor, line_of(event));
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        close_collection(composer);
        return STATUS_OK;
    case YAML_NO_EVENT:
    case YAML_STREAM_START_EVENT:
    case YAML_STREAM_END_EVENT:
    case YAML_DOCUMENT_END_EVENT:
        break;
    }
    return STATUS_OK;
}

static enum status parser_error(struct composer *composer, const yaml_parser_t *parser)
{
    if (parser->error == YAML_MEMORY_ERROR)
        return no_memory(composer);
    /* A reader error has no mark of its own: the scanner's is the nearest. */
    size_t line =
        parser->error == YAML_READER_ERROR ? parser->mark.line : parser->problem_mark.line;
    return error_set(composer->error, STATUS_CORRUPT, NULL, "line %zu: %s", line + 1,
                     parser->problem ? parser->problem : "not YAML");
}

static enum status compose(struct composer *composer, yaml_parser_t *parser)
{
    enum status status = STATUS_OK;

    for (bool is_done = false; status == STATUS_OK && !is_done;) {
        yaml_event_t event;
        if (!yaml_parser_parse(parser, &event))
            return parser_error(composer, parser);
        is_done = event.type == YAML_STREAM_END_EVENT;
        status = take_event(composer, &event);
        yaml_event_delete(&event);
    }
    return status;
}

enum status yaml_graph_read(const char *bytes, size_t size, struct yaml_graph *ret,
                            struct error *error)
{
    CLEANUP(composer_destroy)
    struct composer composer = {
        .graph.root = YAML_NODE_NONE,
        .error = error,
    };
    yaml_parser_t parser;

    enum status status = yaml_surrogate_hide(bytes, size, &composer.surrogate, error);
    if (status != STATUS_OK)
        return status;
    if (composer.surrogate.bytes) {
        bytes = composer.surrogate.bytes;
        size = composer.surrogate.size;
    }
    if (!yaml_parser_initialize(&parser))
        return no_memory(&composer);
    yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&parser, (const unsigned char *) bytes, size);
    status = compose(&composer, &parser);
    yaml_parser_delete(&parser);
    if (status != STATUS_OK)
        return status;

    *ret = composer.graph;
    composer.graph = (struct yaml_graph){.root = YAML_NODE_NONE};
    return STATUS_OK;
}
