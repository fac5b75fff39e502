/* core/yaml_node.h - a YAML document as a graph of typed nodes, before it becomes a value.
 *
 * Aliases are links to the node that they name, so the graph is as small as the text, while each
 * node knows how large it is once aliases are expanded. Merge keys need this step: what they do
 * depends on nodes, not on values. Not thread-safe; one owner.
 */
#ifndef MEMSYNC_CORE_YAML_NODE_H
#define MEMSYNC_CORE_YAML_NODE_H

#include "core/status.h"
#include "core/yaml_tag.h"

#include <stdint.h>

#define YAML_NODE_NONE UINT32_MAX

enum yaml_kind { YAML_KIND_SCALAR, YAML_KIND_SEQUENCE, YAML_KIND_MAPPING };

struct yaml_node {
    enum yaml_kind kind;
    enum yaml_tag tag;
    bool is_open;        /* while it is being read: an alias to it would contain itself */
    unsigned height;     /* levels of nesting, itself included */
    uint32_t expanded;   /* nodes below and itself, aliases expanded */
    uint32_t line;       /* counted from 1 */
    char *text;          /* of a scalar */
    size_t size;         /* bytes of text */
    uint32_t first_link; /* of a collection: its members; keys and values by turns in a mapping */
    uint32_t last_link;
};

/* Membership of a node in a collection; an aliased node has several. */
struct yaml_link {
    uint32_t node;
    uint32_t next;
    uint32_t previous;
};

struct yaml_graph {
    struct yaml_node *nodes;
    struct yaml_link *links;
    uint32_t node_count;
    size_t node_capacity;
    uint32_t link_count;
    size_t link_capacity;
    uint32_t root; /* YAML_NODE_NONE when there is no document */
};

/* Reads one document within the limits of core/yaml_value.h. Errors as of yaml_value_read(). */
MUST_CHECK enum status yaml_graph_read(const char *bytes, size_t size, struct yaml_graph *ret,
                                       struct error *error);

void yaml_graph_destroy(struct yaml_graph *graph);

#define AUTO_YAML_GRAPH CLEANUP(yaml_graph_destroy)

#endif
