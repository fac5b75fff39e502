/* core/yaml_surrogate.h - the escapes of surrogates, which libyaml refuses and the peers write.
 *
 * A Python string may hold half of a surrogate pair; the peers' dumper writes it as "\ud83d" and
 * their loader takes it back. Before libyaml sees such a text, each of these escapes is put behind
 * the escape of a stand-in character; afterwards the scalars are set right. Pure; one owner.
 */
#ifndef MEMSYNC_CORE_YAML_SURROGATE_H
#define MEMSYNC_CORE_YAML_SURROGATE_H

#include "core/status.h"

#include <stddef.h>

struct yaml_surrogate {
    char *bytes; /* the text for libyaml; NULL when the given one can be taken as it is */
    size_t size;
    unsigned stand_in; /* a code point that the given text has nowhere */
};

/* Looks for such escapes and hides them. STATUS_CORRUPT when no stand-in is free, STATUS_NO_MEMORY.
 */
MUST_CHECK enum status yaml_surrogate_hide(const char *bytes, size_t size,
                                           struct yaml_surrogate *ret, struct error *error);

/* Sets a scalar of the hidden text right, in place (it only ever shrinks); returns its new size. An
 * escape becomes the three bytes that UTF-8 would give the surrogate (yaml_text_value() knows
 * them); what only looked like one becomes what it was. */
size_t yaml_surrogate_restore(const struct yaml_surrogate *surrogate, char *text, size_t size);

void yaml_surrogate_destroy(struct yaml_surrogate *surrogate);

#define AUTO_YAML_SURROGATE CLEANUP(yaml_surrogate_destroy)

#endif
