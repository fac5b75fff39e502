/* agent/config_yaml.h - what a YAML node is worth to the configuration.
 *
 * Deliberately less than YAML 1.1: quoted is a text; true, false, null, decimal integers and
 * floats are what they look like; everything else is a text. Tags are refused, so nobody relies on
 * readings that differ between libraries. Only for the config_*.c files and their tests.
 */
#ifndef MEMSYNC_AGENT_CONFIG_YAML_H
#define MEMSYNC_AGENT_CONFIG_YAML_H

#include "core/status.h"

#include <yaml.h>

/* How deep the bytes of a file may be nested. */
#define CONFIG_NESTING_MAX 20

/* Members of one mapping, nodes of one free mapping (each alias counts again), and its depth,
 * which an alias to something around it would make endless. */
#define CONFIG_MEMBERS_MAX 256
#define CONFIG_NODES_MAX 4096
#define CONFIG_DEPTH_MAX 16

/* True for a scalar without quotes (a block scalar counts as quoted). */
bool config_yaml_is_plain(const yaml_node_t *node);

/* True for a plain scalar that is empty, ~ or null. */
bool config_yaml_is_null(const yaml_node_t *node);

/* A first pass over the bytes: refuses tags, and nesting beyond what a configuration can mean, on
 * which libyaml spends time that grows with the square of the depth. What is no YAML at all passes
 * here; the second pass tells. The message begins with `name` and the place. */
MUST_CHECK enum status config_yaml_check(const char *name, const char *bytes, size_t size,
                                         struct error *error);

/* Turns a node and all below into JSON, which the caller owns. STATUS_INVALID: `ret_place` is the
 * node at fault and the message begins with "must"; repeated keys and numbers beyond the range of
 * their type are faults too. */
MUST_CHECK enum status config_yaml_to_json(yaml_document_t *document, const yaml_node_t *node,
                                           json_t **ret, const yaml_node_t **ret_place,
                                           struct error *error);

#endif
