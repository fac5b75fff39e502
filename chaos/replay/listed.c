#include "chaos/replay/listed.h"

#include <stdio.h>
#include <string.h>

/* Where the list says that there is no fresh answer, ours may have one. */
static bool same_result(const json_t *ours, const json_t *theirs)
{
    return ours == theirs || json_equal(ours, theirs) || json_is_string(theirs);
}

static void compare_look(const struct schedule *listed, const struct step *theirs,
                         const struct step *ours, unsigned *differences)
{
    bool same = ours != NULL && ours->verb == theirs->verb &&
                same_result(ours->result, theirs->result) &&
                (theirs->refreshes == NOT_SAID || ours->refreshes_listed == theirs->refreshes);

    for (size_t i = 0; same && i < theirs->state_count; i++) {
        const struct step_state *state = &ours->states[i];
        const char *said = state->better_than[0] ? state->better_than : state->name;
        same = i < ours->state_count && strcmp(said, theirs->states[i].name) == 0;
    }
    if (same)
        return;
    (void) printf("    %s: '%s' has become '%s'\n", listed->id, theirs->text,
                  ours ? ours->text : "nothing");
    ++*differences;
}

bool listed_is_retold(const struct schedule *listed, const struct schedule *ours)
{
    unsigned differences = 0;
    const struct step *theirs;

    if (!ours) {
        (void) printf("    %s is not among ours\n", listed->id);
        return false;
    }
    for (size_t i = 0; (theirs = schedule_look(listed, i)); i++)
        compare_look(listed, theirs, schedule_look(ours, i), &differences);
    return differences == 0;
}
