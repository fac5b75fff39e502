/* chaos/netvol/rules.h - rules for what goes wrong: which operation, on which path, how often.
 *
 * Rules are asked in the order of their numbers. A rule that holds an operation lets it on to the
 * rules behind it; of the others the first that fires decides. Thread-safe; one list for all nodes.
 */
#ifndef MEMSYNC_CHAOS_RULES_H
#define MEMSYNC_CHAOS_RULES_H

#include "chaos/netvol/operations.h"
#include "core/text.h"

#define RULES_ALL 0 /* in place of a number */
#define NODE_ALL UINT32_MAX

enum rule_effect {
    RULE_FAIL,  /* it fails with `error` */
    RULE_HANG,  /* it waits until it is released */
    RULE_SHORT, /* a read or write does `amount` bytes at the most */
    RULE_DELAY, /* it takes `amount` microseconds longer */
};

struct rule_order {
    enum rule_effect effect;
    uint32_t node; /* or NODE_ALL */
    enum operation operation;
    const char *pattern; /* of fnmatch(); * matches slashes as well */
    int error;
    bool late; /* it is done, and fails only then */
    uint64_t amount;
    uint64_t after;     /* so many operations are let pass first */
    uint64_t count_max; /* then so many are caught; UINT64_MAX: all */
    double probability;
    uint64_t seed;
};

/* An operation as rules see it. */
struct rule_case {
    uint32_t node;
    enum operation operation;
    const char *path;
    const char *to_path; /* of a rename or link, else NULL; it is enough if one matches */
    /* Has whoever waits for it been killed? Asked ever again while it hangs. */
    bool (*is_given_up)(void *context);
    void *context;
};

struct rule_verdict {
    int error;      /* 0: none */
    bool late;      /* only after it was done */
    uint64_t bytes; /* for a read or write, at the most */
    uint64_t delay_us;
};

/* Returns the new rule's number; 0: no memory. */
unsigned rules_add(const struct rule_order *order);

/* Takes a rule away, or all, and lets go what hangs by it. False: there is no such rule. */
bool rules_remove(unsigned number);

/* Lets go what hangs at this moment; the rules stay. */
bool rules_release(unsigned number);

/* From here on nothing hangs any more: the program ends. */
void rules_stop(void);

/* Whether it is worth to work out a path. */
bool rules_exist(void);

/* What happens to an operation; waits as long as one of the rules holds it. */
struct rule_verdict rules_decide(const struct rule_case *about);

/* Append JSON: the rules, and what hangs. */
void rules_append(struct text *text);
void rules_append_hanging(struct text *text);

#endif
