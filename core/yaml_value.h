/* core/yaml_value.h - one YAML document read as the peers read it.
 *
 * The peers use PyYAML's safe loader, which follows YAML 1.1: yes/no/on/off are booleans, 012 is
 * 10, 1:30 is 90, 1_000 is 1000, 2026-02-10 is a date, << merges, the last of equal keys wins,
 * !!binary,
 * !!set, !!omap and !!pairs are known, any other tag is refused, as is a lone `=`, a sequence or
 * mapping as a key, a second document. The result is a jansson tree with the disguises of
 * core/json_text.h for what JSON lacks. Dates are kept as {"$date"|"$datetime": ...}.
 */
#ifndef MEMSYNC_CORE_YAML_VALUE_H
#define MEMSYNC_CORE_YAML_VALUE_H

#include "core/status.h"

#define YAML_VALUE_NODES_MAX 20000 /* counted after aliases are expanded */
#define YAML_VALUE_DEPTH_MAX 64

/* Parses one document. STATUS_CORRUPT: the message names line (1 = the first line of `bytes`) and
 * reason; also for an alias that contains itself and for documents beyond the limits above.
 * `ret_duplicate` (may be NULL) is set true when some mapping had the same key twice. */
MUST_CHECK enum status yaml_value_read(const char *bytes, size_t size, json_t **ret,
                                       bool *ret_duplicate, struct error *error);

#endif
