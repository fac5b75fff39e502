/* chaos/replay/step.h - reading one step of a schedule. The language is in chaos/README.md.
 */
#ifndef MEMSYNC_CHAOS_STEP_H
#define MEMSYNC_CHAOS_STEP_H

#include "chaos/replay/schedule.h"

/* False: it cannot be understood; `why` says what is wrong with it. `ret` is destroyed then. */
MUST_CHECK bool step_parse(const char *line, struct step *ret, char *why, size_t why_size);
void step_destroy(struct step *step);

/* The words of a line: what stands between blanks, quotes taken away and what they hold left whole.
 */
struct step_words {
    char **words;
    size_t count;
};
void step_words_split(const char *line, struct step_words *ret);
void step_words_destroy(struct step_words *words);
#define AUTO_WORDS CLEANUP(step_words_destroy)

/* "u/a", or "u" (then false, and the agent is empty). */
bool step_scope_parse(const char *word, struct step_scope *ret);

/* Adds to an object what the word says: "f1=one", or "f000..f129" for that many facts "text 0",
 * "text 1" and so on. Keys get `prefix` in front. */
MUST_CHECK bool step_facts_parse(const char *word, const char *prefix, json_t *facts);

#endif
