#include "core/capacity.h"

#include "core/clock.h"
#include "core/iso_time.h"
#include "core/json_number.h"
#include "core/text_trim.h"

#include <math.h>
#include <string.h>
#include <strings.h>

#define WEIGHT_SLACK 1e-9
#define HALF_LIFE_DAYS_MAX 3650.0
#define RESERVE_LIMIT 100u
#define CONFIDENCE_UNTOLD 0.5
#define CREATION_COUNTS 0.5 /* a fact that nobody confirmed yet, against a confirmed one */
#define HEAT_ENOUGH 8.0     /* gives the full part */
#define RESERVED_CATEGORY "correction"

/* ---- the policy ---- */

static enum status check_range(const char *name, double value, double least, double most,
                               struct error *error)
{
    if (value >= least && value <= most)
        return STATUS_OK;
    return error_set(error, STATUS_INVALID, NULL, "%s must be from %g to %g", name, least, most);
}

static enum status check_weights(const struct capacity_policy *policy, struct error *error)
{
    enum status status = check_range("confidence_weight", policy->confidence_weight, 0, 1, error);

    if (status == STATUS_OK)
        status = check_range("confirmation_weight", policy->confirmation_weight, 0, 1, error);
    if (status == STATUS_OK)
        status = check_range("access_weight", policy->access_weight, 0, 1, error);
    if (status != STATUS_OK)
        return status;
    double sum = policy->confidence_weight + policy->confirmation_weight + policy->access_weight;
    if (fabs(sum - 1) > WEIGHT_SLACK)
        return error_set(error, STATUS_INVALID, NULL, "weights must sum up to 1, not %g", sum);
    return STATUS_OK;
}

enum status capacity_policy_check(const struct capacity_policy *policy, struct error *error)
{
    if (policy->rule != CAPACITY_CONFIDENCE && policy->rule != CAPACITY_HYBRID_V1)
        return error_set(error, STATUS_INVALID, NULL, "rule must be confidence or hybrid-v1");
    if (policy->max_facts != 0 &&
        (policy->max_facts < CAPACITY_FACTS_MIN || policy->max_facts > CAPACITY_FACTS_MAX))
        return error_set(error, STATUS_INVALID, NULL, "max_facts must be 0 or from %u to %u",
                         CAPACITY_FACTS_MIN, CAPACITY_FACTS_MAX);
    enum status status = check_weights(policy, error);
    if (status == STATUS_OK)
        status = check_range("confirmation_half_life_days", policy->confirmation_half_life_days, 1,
                             HALF_LIFE_DAYS_MAX, error);
    if (status == STATUS_OK)
        status = check_range("access_half_life_days", policy->access_half_life_days, 1,
                             HALF_LIFE_DAYS_MAX, error);
    if (status == STATUS_OK)
        status = check_range("reserve_fraction", policy->reserve_fraction, 0, 1, error);
    if (status == STATUS_OK)
        status = check_range("reserve_max", policy->reserve_max, 0, RESERVE_LIMIT, error);
    return status;
}

const char *capacity_rule_name(enum capacity_rule rule)
{
    return rule == CAPACITY_HYBRID_V1 ? "hybrid-v1" : "confidence";
}

size_t capacity_limit(const struct capacity_policy *policy)
{
    return policy->max_facts ? policy->max_facts : SIZE_MAX;
}

/* ---- scores ---- */

double capacity_decay(double days, double half_life_days)
{
    return exp2(-fmax(0, days) / half_life_days);
}

/* How many days ago it was; false for what is no time. */
static bool age_of(const json_t *time, int64_t now_us, double *ret_days)
{
    int64_t time_us = 0;

    if (!json_is_string(time) ||
        !iso_time_read(json_string_value(time), json_string_length(time), &time_us))
        return false;
    *ret_days = (double) (now_us - time_us) / (double) ISO_TIME_DAY;
    return true;
}

static double confidence_of(const json_t *document)
{
    double confidence = 0;

    if (!json_number_read_text(json_object_get(document, "confidence"), &confidence))
        return CONFIDENCE_UNTOLD;
    return fmin(1, fmax(0, confidence));
}

static double confirmation_of(const json_t *document, int64_t now_us, double half_life_days)
{
    double days = 0;

    if (age_of(json_object_get(document, "lastConfirmedAt"), now_us, &days))
        return capacity_decay(days, half_life_days);
    if (age_of(json_object_get(document, "createdAt"), now_us, &days))
        return CREATION_COUNTS * capacity_decay(days, half_life_days);
    return 0;
}

static double access_of(const json_t *usage, int64_t now_us, double half_life_days)
{
    double heat = 0;
    double days = 0;

    if (!json_number_read(json_object_get(usage, "accessHeat"), &heat) || heat <= 0 ||
        !age_of(json_object_get(usage, "lastAccessedAt"), now_us, &days))
        return 0;
    heat *= capacity_decay(days, half_life_days);
    return fmin(1, log1p(heat) / log1p(HEAT_ENOUGH));
}

static struct capacity_score score_of(const struct capacity_policy *policy, enum capacity_rule rule,
                                      const struct capacity_fact *fact, int64_t now_us)
{
    struct capacity_score score = {.confidence = confidence_of(fact->document)};

    score.total = score.confidence;
    if (rule == CAPACITY_CONFIDENCE)
        return score;
    score.confirmation =
        confirmation_of(fact->document, now_us, policy->confirmation_half_life_days);
    score.access = access_of(fact->usage, now_us, policy->access_half_life_days);
    score.total = policy->confidence_weight * score.confidence +
                  policy->confirmation_weight * score.confirmation +
                  policy->access_weight * score.access;
    return score;
}

/* ---- the choice ---- */

static int compare_ranks(const void *a, const void *b, void *context)
{
    const struct capacity_score *scores = context;
    size_t first = *(const size_t *) a;
    size_t second = *(const size_t *) b;

    if (scores[first].total != scores[second].total)
        return scores[first].total > scores[second].total ? -1 : 1;
    return first < second ? -1 : 1;
}

/* All indices, the highest score first. */
static size_t *rank_all(struct capacity_score *scores, size_t count)
{
    size_t *ranked = calloc(count, sizeof *ranked);

    if (!ranked)
        return NULL;
    for (size_t i = 0; i < count; i++)
        ranked[i] = i;
    qsort_r(ranked, count, sizeof *ranked, compare_ranks, scores);
    return ranked;
}

static bool is_reserved_category(const json_t *document)
{
    const json_t *category = json_object_get(document, "category");
    const char *bytes = json_string_value(category);
    size_t size = json_string_length(category);

    if (!bytes)
        return false;
    text_trim(&bytes, &size);
    return size == strlen(RESERVED_CATEGORY) && strncasecmp(bytes, RESERVED_CATEGORY, size) == 0;
}

/* Marks the best corrections that have slots of their own; returns how many. */
static size_t mark_reserved(const struct capacity_policy *policy, size_t max_facts,
                            const struct capacity_fact *facts, const size_t *ranked, size_t count,
                            bool *stays)
{
    double share = ceil((double) max_facts * policy->reserve_fraction);
    size_t slots = policy->reserve_max;
    size_t marked = 0;

    if (share < (double) slots)
        slots = (size_t) share;
    if (slots > max_facts)
        slots = max_facts;
    for (size_t i = 0; i < count && marked < slots; i++) {
        if (!is_reserved_category(facts[ranked[i]].document))
            continue;
        stays[ranked[i]] = true;
        marked++;
    }
    return marked;
}

static void fill_by_rank(const size_t *ranked, size_t count, size_t free_slots, bool *stays)
{
    for (size_t i = 0; i < count && free_slots > 0; i++) {
        if (stays[ranked[i]])
            continue;
        stays[ranked[i]] = true;
        free_slots--;
    }
}

static enum status choice_create(size_t kept, size_t evicted, struct capacity_choice *ret)
{
    *ret = (struct capacity_choice){.kept = calloc(kept + 1, sizeof *ret->kept),
                                    .evicted = calloc(evicted + 1, sizeof *ret->evicted)};
    if (ret->kept && ret->evicted)
        return STATUS_OK;
    capacity_choice_destroy(ret);
    return STATUS_NO_MEMORY;
}

void capacity_choice_destroy(struct capacity_choice *choice)
{
    free(choice->scores);
    free(choice->kept);
    free(choice->evicted);
    *choice = (struct capacity_choice){0};
}

static void split(const size_t *ranked, size_t count, const bool *stays,
                  struct capacity_choice *choice)
{
    for (size_t i = 0; i < count; i++) {
        if (stays[ranked[i]])
            choice->kept[choice->kept_count++] = ranked[i];
    }
    for (size_t i = count; i-- > 0;) {
        if (!stays[ranked[i]])
            choice->evicted[choice->evicted_count++] = ranked[i];
    }
}

static enum status keep_all(size_t count, struct capacity_choice *ret)
{
    enum status status = choice_create(count, 0, ret);

    if (status != STATUS_OK)
        return status;
    for (size_t i = 0; i < count; i++)
        ret->kept[ret->kept_count++] = i;
    return STATUS_OK;
}

enum status capacity_choose(const struct capacity_policy *policy, enum capacity_rule rule,
                            size_t max_facts, const struct capacity_fact *facts, size_t count,
                            uint64_t now_ns, struct capacity_choice *ret)
{
    AUTO_CHOICE struct capacity_choice choice = {0};
    AUTO_FREE size_t *ranked = NULL;
    AUTO_FREE bool *stays = NULL;
    int64_t now_us = (int64_t) (now_ns / NS_PER_US);

    if (count <= max_facts)
        return keep_all(count, ret);
    enum status status = choice_create(max_facts, count - max_facts, &choice);
    if (status != STATUS_OK)
        return status;
    choice.scores = calloc(count, sizeof *choice.scores);
    stays = calloc(count, sizeof *stays);
    if (!choice.scores || !stays)
        return STATUS_NO_MEMORY;
    for (size_t i = 0; i < count; i++)
        choice.scores[i] = score_of(policy, rule, &facts[i], now_us);
    ranked = rank_all(choice.scores, count);
    if (!ranked)
        return STATUS_NO_MEMORY;

    if (rule == CAPACITY_HYBRID_V1)
        choice.reserved = mark_reserved(policy, max_facts, facts, ranked, count, stays);
    fill_by_rank(ranked, count, max_facts - choice.reserved, stays);
    split(ranked, count, stays, &choice);
    *ret = choice;
    choice = (struct capacity_choice){0};
    return STATUS_OK;
}
