/* core/capacity.h - which facts of an agent stay when there are more than it may have.
 *
 * Two rules give every fact a score; the lowest go. `confidence` counts what the fact says of
 * itself. `hybrid-v1` also counts how lately it was confirmed and how much it is searched for, and
 * keeps some slots for corrections. Scores are the peers' to the last digits that matter, so that
 * every node evicts the same facts. Pure, thread-safe.
 */
#ifndef MEMSYNC_CORE_CAPACITY_H
#define MEMSYNC_CORE_CAPACITY_H

#include "core/status.h"

#include <stddef.h>
#include <stdint.h>

enum capacity_rule {
    CAPACITY_CONFIDENCE,
    CAPACITY_HYBRID_V1,
};

#define CAPACITY_FACTS_MIN 10u
#define CAPACITY_FACTS_MAX 500u

struct capacity_policy {
    enum capacity_rule rule;
    bool shadow;        /* with `confidence`: hybrid-v1 is tried as well, for the audit only */
    unsigned max_facts; /* of one agent; 0: as many as come */

    /* The rest is hybrid-v1's. */
    double confidence_weight, confirmation_weight, access_weight; /* sum 1 */
    double confirmation_half_life_days;
    double access_half_life_days;
    double reserve_fraction; /* of the facts that stay, for corrections */
    unsigned reserve_max;
};

/* The peers' defaults. */
#define CAPACITY_POLICY_DEFAULT                                                                    \
    {                                                                                              \
        .rule = CAPACITY_CONFIDENCE, .max_facts = 100, .confidence_weight = 0.65,                  \
        .confirmation_weight = 0.25, .access_weight = 0.10, .confirmation_half_life_days = 90,     \
        .access_half_life_days = 30, .reserve_fraction = 0.10, .reserve_max = 10,                  \
    }

/* STATUS_INVALID when a member is out of its range or the weights do not sum up to 1; the message
 * begins with the member's name, or with `weights`. */
MUST_CHECK enum status capacity_policy_check(const struct capacity_policy *policy,
                                             struct error *error);

/* "confidence", "hybrid-v1": as written to the audit. */
const char *capacity_rule_name(enum capacity_rule rule);

/* What is left of 1 after so many days; days that are not over yet do not count. */
double capacity_decay(double days, double half_life_days);

/* How many facts an agent may have by the policy; SIZE_MAX: as many as come. */
size_t capacity_limit(const struct capacity_policy *policy);

struct capacity_fact {
    const json_t *document;
    const json_t *usage; /* its entry in fact-usage.json, or NULL */
};

struct capacity_score {
    double total;
    double confidence;   /* the parts are from 0 to 1, not weighted yet */
    double confirmation; /* the last two by hybrid-v1 only */
    double access;
};

/* Indices are those of the facts that were given. */
struct capacity_choice {
    struct capacity_score *scores; /* by index; NULL when nothing had to be scored */
    size_t *kept;                  /* highest score first; as given when nothing had to be scored */
    size_t kept_count;
    size_t *evicted; /* lowest score first */
    size_t evicted_count;
    size_t reserved; /* corrections that had their slots before all others */
};

/* Chooses at most `max_facts` of the facts by `rule`; of equal ones the first stay. `policy` gives
 * weights and half-lives; its own rule and maximum do not count here, and 0 keeps nothing.
 * `now_ns` is the wall clock. STATUS_NO_MEMORY. */
MUST_CHECK enum status capacity_choose(const struct capacity_policy *policy,
                                       enum capacity_rule rule, size_t max_facts,
                                       const struct capacity_fact *facts, size_t count,
                                       uint64_t now_ns, struct capacity_choice *ret);
void capacity_choice_destroy(struct capacity_choice *choice);
#define AUTO_CHOICE CLEANUP(capacity_choice_destroy)

#endif
