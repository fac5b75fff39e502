/* status_numbers.h - a status and the one before it. */
#ifndef MEMSYNC_IPC_CLI_STATUS_NUMBERS_H
#define MEMSYNC_IPC_CLI_STATUS_NUMBERS_H

#include "core/compiler.h"

#include <jansson.h>
#include <stdbool.h>

/* All zero: nothing was taken yet. */
struct status_numbers {
    json_t *now;    /* NULL: the last look failed */
    json_t *before; /* of the same process, or NULL */
    double now_s;
    double before_s;
};

/* The next status, NULL where none came; it stays the caller's, too. */
void status_numbers_take(struct status_numbers *numbers, json_t *status);
void status_numbers_clear(struct status_numbers *numbers);

/* A member of a section, of the status itself where that is NULL; NULL when there is none. */
const json_t *status_member(const struct status_numbers *numbers, const char *section,
                            const char *name);

/* The same as a number, 0 when it is none. */
json_int_t status_number(const struct status_numbers *numbers, const char *section,
                         const char *name);

/* The same as harmless text, to be freed; NULL only out of memory. */
char *status_text(const struct status_numbers *numbers, const char *section, const char *name);

/* What a counter grew by, per second. False: there is nothing to compare with. */
MUST_CHECK bool status_rate(const struct status_numbers *numbers, const char *section,
                            const char *name, double *ret);

#define AUTO_STATUS_NUMBERS CLEANUP(status_numbers_clear)

#endif
