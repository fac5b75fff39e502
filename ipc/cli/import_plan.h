/* import_plan.h - what an import would do to a memory. */
#ifndef MEMSYNC_IPC_CLI_IMPORT_PLAN_H
#define MEMSYNC_IPC_CLI_IMPORT_PLAN_H

#include "core/compiler.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* `sections` are those whose text is lost, "user.workContext", a list that the plan owns. */
struct import_plan {
    bool has_facts;  /* the document names facts; else they are left alone */
    size_t now;      /* facts that are there */
    size_t incoming; /* facts of the document */
    size_t added;
    size_t replaced; /* same id, other contents */
    size_t unchanged;
    size_t deleted; /* there, and not in the document */
    json_t *sections;
};

/* What is wrong with a document, or NULL; the words are never freed. What is inside of facts is the
 * agent's affair. */
const char *import_plan_refuse(const json_t *document);

/* Compares a document that import_plan_refuse() takes with the memory as it is. False when out of
 * memory. */
MUST_CHECK bool import_plan_make(const json_t *document, const json_t *memory,
                                 struct import_plan *ret);

void import_plan_release(struct import_plan *plan);

/* Whether something would be lost. */
bool import_plan_destroys(const struct import_plan *plan);

/* "this adds 3 facts, ..." */
void import_plan_describe(FILE *file, const struct import_plan *plan);

/* The same for programs; the caller owns it. */
json_t *import_plan_json(const struct import_plan *plan);

#define AUTO_PLAN CLEANUP(import_plan_release)

#endif
