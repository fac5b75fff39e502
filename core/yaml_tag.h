/* core/yaml_tag.h - the types that YAML 1.1 knows, and how a scalar gets one.
 *
 * A plain scalar is typed by its spelling, by the rules of the peers' loader; they differ from the
 * YAML 1.1 papers in places (a float needs a dot, its exponent a sign). Pure.
 */
#ifndef MEMSYNC_CORE_YAML_TAG_H
#define MEMSYNC_CORE_YAML_TAG_H

#include <stdbool.h>
#include <stddef.h>

enum yaml_tag {
    YAML_TAG_STR,
    YAML_TAG_NULL,
    YAML_TAG_BOOL,
    YAML_TAG_INT,
    YAML_TAG_FLOAT,
    YAML_TAG_TIMESTAMP,
    YAML_TAG_BINARY,
    YAML_TAG_MERGE, /* `<<`, which has a meaning as a key only */
    YAML_TAG_VALUE, /* `=`, text as a key and refused elsewhere */
    YAML_TAG_SEQ,
    YAML_TAG_MAP,
    YAML_TAG_SET,
    YAML_TAG_OMAP,
    YAML_TAG_PAIRS,
};

/* The short name, e.g. "int"; never NULL. */
const char *yaml_tag_name(enum yaml_tag tag);

/* Looks up a full tag ("tag:yaml.org,2002:int"); false when the peers' loader refuses it. */
bool yaml_tag_find(const char *name, enum yaml_tag *ret);

/* The type of a plain scalar. */
enum yaml_tag yaml_tag_of_plain(const char *text, size_t size);

#endif
