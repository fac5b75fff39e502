/* import_plan.h - what an import would do to a memory. */
#ifndef MEMSYNC_IPC_CLI_IMPORT_PLAN_H
#define MEMSYNC_IPC_CLI_IMPORT_PLAN_H

#include "core/compiler.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct import_plan {
    bool has_facts;  /* the document names facts; else they are left alone */
    size_t incoming; /* facts of the document */
    size_t added;
    size_t replaced; /* same id, other contents */
    size_t unchanged;
    size_t deleted;             /* there, and not afterwards */
    size_t left_out;            /* of the document, for lack of room */
    bool is_unmigrated;         /* the memory has to be migrated first */
    const json_t *sections;     /* whose texts are lost, "user.workContext"; the answer's */
    const json_t *new_sections; /* those that have had no text; the same */
};

/* What is wrong with a document, or NULL; the words are never freed. What is inside of facts is the
 * agent's affair. */
const char *import_plan_refuse(const json_t *document);

/* What the agent answers to a dry run with the document; `answer` must outlive it. */
struct import_plan import_plan_read(const json_t *document, const json_t *answer);

/* Whether something would be lost. */
bool import_plan_destroys(const struct import_plan *plan);

/* "this adds 3 facts, ..." */
void import_plan_describe(FILE *file, const struct import_plan *plan);

#endif
