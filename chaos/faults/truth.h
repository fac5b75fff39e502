/* chaos/faults/truth.h - what a scope's memory is, read from its files without the library's help.
 *
 * Functions work or end the program; no fault may be counted meanwhile.
 */
#ifndef MEMSYNC_CHAOS_FAULTS_TRUTH_H
#define MEMSYNC_CHAOS_FAULTS_TRUTH_H

#include "tests/support/temp_volume.h"

#define TRUTH_TEXT_MAX 1024
#define TRUTH_OLD_SUMMARY "old" /* what summaries say at first */

struct truth {
    int64_t revision;
    char facts[TRUTH_TEXT_MAX];    /* "f1=one,f2=two", by id */
    char contents[TRUTH_TEXT_MAX]; /* "one,two", sorted; and "|new" where the summary is not old */
    char summary[128];             /* of workContext; "" when there is none */
    bool is_whole;                 /* no commit is half done, as far as its journal tells */
};

/* `scope` as "user/agent"; "-" for the default agent. */
void truth_read(const struct temp_volume *volume, const char *scope, struct truth *ret);

/* Collects facts for the two texts; documents are taken as answers have them. */
struct fact_list;
struct fact_list *fact_list_create(void);
void fact_list_add(struct fact_list *list, const char *id, const char *content);
/* Writes what was collected to `ret` (facts and contents) and frees the list. */
void fact_list_finish(struct fact_list **list, struct truth *ret);

/* Splits "user/agent"; `ret_agent` is SCOPE_DEFAULT_AGENT for "-". */
void scope_name_split(const char *scope, char ret_user[64], char ret_agent[64]);

#endif
