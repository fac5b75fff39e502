/* chaos/explorer/memory.h - a user's facts as plain values: read from the files, compared, changed.
 *
 * Reads by itself, without core's readers: the judge must not share the accused's eyes. It knows
 * the facts that this program writes, not all that the format allows.
 */
#ifndef MEMSYNC_CHAOS_MEMORY_H
#define MEMSYNC_CHAOS_MEMORY_H

#include "core/text.h"
#include "tests/support/temp_volume.h"

#define MEMORY_FACTS_MAX 24
#define MEMORY_WORD_SIZE 32
#define MEMORY_TEXT_SIZE 64

struct memory_fact {
    char agent[MEMORY_WORD_SIZE];
    char id[MEMORY_WORD_SIZE];
    char text[MEMORY_TEXT_SIZE];
};

/* Sorted by agent and id; unused places are zeros, so that equal memories have equal bytes. */
struct memory {
    unsigned count;
    struct memory_fact facts[MEMORY_FACTS_MAX];
};

/* All facts below `bucket`, a directory; none where it does not exist. */
void memory_read(const char *bucket, struct memory *ret);

bool memory_equal(const struct memory *a, const struct memory *b);

/* Adds a fact or replaces its text. */
void memory_put(struct memory *memory, const char *agent, const char *id, const char *text);
void memory_remove(struct memory *memory, const char *agent, const char *id);
const struct memory_fact *memory_find(const struct memory *memory, const char *agent,
                                      const char *id);

/* What changes of one agent make of it. */
void memory_apply(struct memory *memory, const char *agent, const struct temp_change *changes,
                  size_t count);

/* Only one agent's facts. */
void memory_only(const struct memory *memory, const char *agent, struct memory *ret);

/* "a/f1=note one b/g1=note bee", or "nothing" */
void memory_describe(const struct memory *memory, struct text *text);

#endif
