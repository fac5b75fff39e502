#include "core/capacity.h"

#include "core/clock.h"
#include "core/json_text.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#define NOW_NS (UINT64_C(20678) * 86400 * NS_PER_SECOND) /* 2026-08-13 */
#define FACTS_MAX 128

static const struct capacity_policy policy = CAPACITY_POLICY_DEFAULT;

/* Facts as JSON, each with a usage or without one. */
struct given {
    json_t *trees[2 * FACTS_MAX];
    size_t tree_count;
    struct capacity_fact facts[FACTS_MAX];
    size_t count;
};

static void given_destroy(struct given *given)
{
    for (size_t i = 0; i < given->tree_count; i++)
        json_decref(given->trees[i]);
}
#define AUTO_GIVEN CLEANUP(given_destroy)

static json_t *parse(struct given *given, const char *json)
{
    json_t *tree = NULL;
    struct error error;

    if (!json)
        return NULL;
    cr_assert_eq(json_text_read(json, strlen(json), 8, &tree, &error), STATUS_OK, "%s: %s", json,
                 error.message);
    given->trees[given->tree_count++] = tree;
    return tree;
}

static void give(struct given *given, const char *document, const char *usage)
{
    given->facts[given->count++] = (struct capacity_fact){
        .document = parse(given, document),
        .usage = parse(given, usage),
    };
}

/* The facts a to f of the peers' test set. */
static struct given give_the_set(void)
{
    struct given given = {0};

    give(
        &given,
        "{\"category\": \"context\", \"confidence\": 0.9, \"createdAt\": \"2026-02-14T00:00:00Z\"}",
        "{\"accessHeat\": 8, \"lastAccessedAt\": \"2026-08-13T00:00:00Z\"}");
    give(&given,
         "{\"category\": \"context\", \"confidence\": 0.7, \"createdAt\": \"2026-02-14T00:00:00Z\","
         " \"lastConfirmedAt\": \"2026-08-06T00:00:00Z\"}",
         NULL);
    give(&given,
         "{\"category\": \"correction\", \"confidence\": 0.1,"
         " \"createdAt\": \"2026-08-13T00:00:00Z\"}",
         NULL);
    give(&given, "{\"category\": \"context\", \"confidence\": \"0.85\", \"createdAt\": \"bad\"}",
         "{\"accessHeat\": 1, \"lastAccessedAt\": \"2026-07-14T00:00:00Z\"}");
    give(&given,
         "{\"category\": \"context\", \"confidence\": null,"
         " \"createdAt\": \"2026-05-15T00:00:00Z\"}",
         "{\"accessHeat\": 100000, \"lastAccessedAt\": \"2026-08-13T00:00:00Z\"}");
    give(&given,
         "{\"category\": \"context\", \"confidence\": 0.5, \"createdAt\": \"2026-08-13T00:00:00\"}",
         "{\"accessHeat\": true, \"lastAccessedAt\": \"2026-08-13T00:00:00Z\"}");
    return given;
}

static struct capacity_choice choose(const struct given *given, enum capacity_rule rule,
                                     size_t max_facts)
{
    struct capacity_choice choice;

    cr_assert_eq(capacity_choose(&policy, rule, max_facts, given->facts, given->count, NOW_NS,
                                 &choice),
                 STATUS_OK);
    return choice;
}

/* The indices as letters. */
static const char *letters(const size_t *indices, size_t count, char ret[FACTS_MAX])
{
    for (size_t i = 0; i < count; i++)
        ret[i] = (char) ('a' + indices[i]);
    ret[count] = '\0';
    return ret;
}

static void expect_choice(const struct given *given, enum capacity_rule rule, size_t max_facts,
                          const char *kept, const char *evicted, size_t reserved)
{
    AUTO_CHOICE struct capacity_choice choice = choose(given, rule, max_facts);
    char text[FACTS_MAX];

    cr_expect_str_eq(letters(choice.kept, choice.kept_count, text), kept, "%s %zu: kept %s",
                     capacity_rule_name(rule), max_facts, text);
    cr_expect_str_eq(letters(choice.evicted, choice.evicted_count, text), evicted,
                     "%s %zu: evicted %s", capacity_rule_name(rule), max_facts, text);
    cr_expect_eq(choice.reserved, reserved, "%s %zu: reserved %zu", capacity_rule_name(rule),
                 max_facts, choice.reserved);
}

static bool is_near(double a, double b)
{
    return fabs(a - b) <= 1e-9;
}

/* ---- the peers' tables ---- */

Test(capacity, scores_are_the_peers)
{
    static const struct capacity_score expected[] = {
        {0.71625, 0.9, 0.125, 1}, {0.691879002, 0.7, 0.947516008, 0},
        {0.19, 0.1, 0.5, 0},      {0.570953512, 0.85, 0, 0.184535123},
        {0.4875, 0.5, 0.25, 1},   {0.45, 0.5, 0.5, 0},
    };
    AUTO_GIVEN struct given given = give_the_set();
    AUTO_CHOICE struct capacity_choice hybrid = choose(&given, CAPACITY_HYBRID_V1, 5);
    AUTO_CHOICE struct capacity_choice plain = choose(&given, CAPACITY_CONFIDENCE, 5);

    for (size_t i = 0; i < ARRAY_SIZE(expected); i++) {
        const struct capacity_score *score = &hybrid.scores[i];
        cr_expect(is_near(score->total, expected[i].total), "%zu: %.10f", i, score->total);
        cr_expect(is_near(score->confidence, expected[i].confidence), "%zu", i);
        cr_expect(is_near(score->confirmation, expected[i].confirmation), "%zu: %.10f", i,
                  score->confirmation);
        cr_expect(is_near(score->access, expected[i].access), "%zu: %.10f", i, score->access);
        cr_expect(is_near(plain.scores[i].total, expected[i].confidence), "%zu", i);
        cr_expect_eq(plain.scores[i].confirmation, 0);
        cr_expect_eq(plain.scores[i].access, 0);
    }
}

Test(capacity, choices_are_the_peers)
{
    AUTO_GIVEN struct given given = give_the_set();

    expect_choice(&given, CAPACITY_CONFIDENCE, 6, "abcdef", "", 0);
    expect_choice(&given, CAPACITY_HYBRID_V1, 6, "abcdef", "", 0);
    expect_choice(&given, CAPACITY_CONFIDENCE, 3, "adb", "cfe", 0);
    expect_choice(&given, CAPACITY_CONFIDENCE, 1, "a", "cfebd", 0);
    expect_choice(&given, CAPACITY_HYBRID_V1, 3, "abc", "fed", 1);
    expect_choice(&given, CAPACITY_HYBRID_V1, 1, "c", "fedba", 1);
    expect_choice(&given, CAPACITY_HYBRID_V1, 0, "", "cfedba", 0);
}

Test(capacity, of_equal_ones_the_first_stay)
{
    AUTO_GIVEN struct given given = {0};

    for (size_t i = 0; i < 4; i++)
        give(&given, "{\"confidence\": 0.5}", NULL);
    expect_choice(&given, CAPACITY_CONFIDENCE, 2, "ab", "dc", 0);
}

Test(capacity, a_new_fact_needs_more_than_the_lowest)
{
    AUTO_GIVEN struct given given = {0};

    give(&given, "{\"confidence\": 0.5}", NULL);
    give(&given, "{\"confidence\": 0.9}", NULL);
    give(&given, "{\"confidence\": 0.5}", NULL);
    expect_choice(&given, CAPACITY_CONFIDENCE, 2, "ba", "c", 0);
}

Test(capacity, a_confirmed_fact_outlives_a_surer_one_that_is_old)
{
    AUTO_GIVEN struct given given = {0};

    give(&given, "{\"confidence\": 0.9, \"createdAt\": \"2026-02-14T00:00:00Z\"}", NULL);
    give(&given,
         "{\"confidence\": 0.7, \"createdAt\": \"2026-02-14T00:00:00Z\","
         " \"lastConfirmedAt\": \"2026-08-06T00:00:00Z\"}",
         NULL);
    expect_choice(&given, CAPACITY_HYBRID_V1, 1, "b", "a", 0);
    expect_choice(&given, CAPACITY_CONFIDENCE, 1, "a", "b", 0);
}

/* ---- reserved slots ---- */

static size_t reserved_of(size_t max_facts, size_t corrections)
{
    AUTO_GIVEN struct given given = {0};

    for (size_t i = 0; i <= max_facts; i++)
        give(&given,
             i < corrections ? "{\"category\": \" Correction\\n\", \"confidence\": 0.1}"
                             : "{\"category\": \"context\", \"confidence\": 0.9}",
             NULL);
    AUTO_CHOICE struct capacity_choice choice = choose(&given, CAPACITY_HYBRID_V1, max_facts);
    cr_expect_eq(choice.kept_count, max_facts);
    return choice.reserved;
}

Test(capacity, a_tenth_is_reserved_and_ten_at_most)
{
    cr_expect_eq(reserved_of(1, 1), 1);
    cr_expect_eq(reserved_of(10, 5), 1);
    cr_expect_eq(reserved_of(11, 5), 2);
    cr_expect_eq(reserved_of(99, 50), 10);
    cr_expect_eq(reserved_of(100, 50), 10);
    cr_expect_eq(reserved_of(120, 50), 10);
}

Test(capacity, slots_that_no_correction_takes_are_for_all)
{
    cr_expect_eq(reserved_of(100, 3), 3);
    cr_expect_eq(reserved_of(100, 0), 0);
}

Test(capacity, the_best_corrections_have_the_slots)
{
    AUTO_GIVEN struct given given = {0};

    give(&given, "{\"category\": \"correction\", \"confidence\": 0.1}", NULL);
    give(&given, "{\"category\": \"correction\", \"confidence\": 0.2}", NULL);
    give(&given, "{\"category\": \"corrections\", \"confidence\": 0.3}", NULL);
    give(&given, "{\"category\": 5, \"confidence\": 0.4}", NULL);
    expect_choice(&given, CAPACITY_HYBRID_V1, 2, "db", "ac", 1);
}

/* ---- odd values ---- */

static double confidence_of(const char *json)
{
    AUTO_GIVEN struct given given = {0};

    give(&given, json, NULL);
    AUTO_CHOICE struct capacity_choice choice = choose(&given, CAPACITY_CONFIDENCE, 0);
    return choice.scores[0].total;
}

Test(capacity, a_confidence_that_is_no_number_is_a_half)
{
    cr_expect_eq(confidence_of("{}"), 0.5);
    cr_expect_eq(confidence_of("{\"confidence\": null}"), 0.5);
    cr_expect_eq(confidence_of("{\"confidence\": true}"), 0.5);
    cr_expect_eq(confidence_of("{\"confidence\": NaN}"), 0.5);
    cr_expect_eq(confidence_of("{\"confidence\": -Infinity}"), 0.5);
    cr_expect_eq(confidence_of("{\"confidence\": \"high\"}"), 0.5);
    cr_expect_eq(confidence_of("{\"confidence\": []}"), 0.5);
    cr_expect_eq(confidence_of("{\"confidence\": 7}"), 1);
    cr_expect_eq(confidence_of("{\"confidence\": \"7\"}"), 1);
    cr_expect_eq(confidence_of("{\"confidence\": -1}"), 0);
    cr_expect_eq(confidence_of("{\"confidence\": 1}"), 1);
}

static double confirmation_of(const char *json)
{
    AUTO_GIVEN struct given given = {0};

    give(&given, json, NULL);
    AUTO_CHOICE struct capacity_choice choice = choose(&given, CAPACITY_HYBRID_V1, 0);
    return choice.scores[0].confirmation;
}

Test(capacity, times_without_a_zone_are_in_utc)
{
    cr_expect_eq(confirmation_of("{\"lastConfirmedAt\": \"2026-05-15T00:00:00\"}"), 0.5);
    cr_expect_eq(confirmation_of("{\"lastConfirmedAt\": \"2026-05-15T02:00:00+02:00\"}"), 0.5);
    cr_expect_eq(confirmation_of("{\"lastConfirmedAt\": \"2026-05-15\"}"), 0.5);
    cr_expect(is_near(confirmation_of("{\"lastConfirmedAt\": \"2026-08-12T12:00:00.5\"}"),
                      exp2(-(0.5 - 0.5 / 86400) / 90)));
}

Test(capacity, times_to_come_are_as_good_as_now)
{
    cr_expect_eq(confirmation_of("{\"lastConfirmedAt\": \"2027-01-01T00:00:00Z\"}"), 1);
    cr_expect_eq(confirmation_of("{\"createdAt\": \"2027-01-01T00:00:00Z\"}"), 0.5);
}

Test(capacity, a_bad_confirmation_gives_way_to_the_creation)
{
    cr_expect_eq(confirmation_of("{\"lastConfirmedAt\": \"soon\", \"createdAt\": \"2026-05-15\"}"),
                 0.25);
    cr_expect_eq(confirmation_of("{\"lastConfirmedAt\": 1, \"createdAt\": \"2026-05-15\"}"), 0.25);
    cr_expect_eq(confirmation_of("{\"lastConfirmedAt\": null, \"createdAt\": \"\"}"), 0);
    cr_expect_eq(confirmation_of("{\"createdAt\": \"2026-02-30\"}"), 0);
    cr_expect_eq(confirmation_of("{}"), 0);
}

static double access_of(const char *usage)
{
    AUTO_GIVEN struct given given = {0};

    give(&given, "{}", usage);
    AUTO_CHOICE struct capacity_choice choice = choose(&given, CAPACITY_HYBRID_V1, 0);
    return choice.scores[0].access;
}

#define AT_NOW ", \"lastAccessedAt\": \"2026-08-13T00:00:00Z\"}"

Test(capacity, access_needs_a_heat_and_a_time)
{
    cr_expect(is_near(access_of("{\"accessHeat\": 2.0" AT_NOW), 0.5));
    cr_expect_eq(access_of("{\"accessHeat\": 8" AT_NOW), 1);
    cr_expect_eq(access_of("{\"accessHeat\": 0" AT_NOW), 0);
    cr_expect_eq(access_of("{\"accessHeat\": -1" AT_NOW), 0);
    cr_expect_eq(access_of("{\"accessHeat\": Infinity" AT_NOW), 0);
    cr_expect_eq(access_of("{\"accessHeat\": NaN" AT_NOW), 0);
    cr_expect_eq(access_of("{\"accessHeat\": \"8\"" AT_NOW), 0);
    cr_expect_eq(access_of("{\"accessHeat\": null" AT_NOW), 0);
    cr_expect_eq(access_of("{\"accessHeat\": 8}"), 0);
    cr_expect_eq(access_of("{\"accessHeat\": 8, \"lastAccessedAt\": \"never\"}"), 0);
    cr_expect_eq(access_of("[]"), 0);
    cr_expect_eq(access_of(NULL), 0);
}

/* ---- the policy ---- */

static void expect_refused(const struct capacity_policy *wrong, const char *name)
{
    struct error error = {0};

    cr_expect_eq(capacity_policy_check(wrong, &error), STATUS_INVALID, "%s", name);
    cr_expect_eq(strncmp(error.message, name, strlen(name)), 0, "\"%s\" for %s", error.message,
                 name);
}

#define EXPECT_REFUSED(member, value)                                                              \
    do {                                                                                           \
        struct capacity_policy wrong_ = policy;                                                    \
        wrong_.member = (value);                                                                   \
        expect_refused(&wrong_, #member);                                                          \
    } while (0)

Test(capacity, a_policy_names_its_wrong_member)
{
    EXPECT_REFUSED(rule, (enum capacity_rule) 2);
    EXPECT_REFUSED(max_facts, 9);
    EXPECT_REFUSED(max_facts, 501);
    EXPECT_REFUSED(confidence_weight, -0.1);
    EXPECT_REFUSED(confirmation_weight, 1.1);
    EXPECT_REFUSED(access_weight, (double) NAN);
    EXPECT_REFUSED(confirmation_half_life_days, 0.5);
    EXPECT_REFUSED(access_half_life_days, 3651);
    EXPECT_REFUSED(reserve_fraction, 1.5);
    EXPECT_REFUSED(reserve_max, 101);

    struct capacity_policy wrong = policy;
    wrong.access_weight = 0.11;
    expect_refused(&wrong, "weights");
}

Test(capacity, a_policy_at_its_limits_is_fine)
{
    struct capacity_policy right = policy;

    cr_expect_eq(capacity_policy_check(&right, NULL), STATUS_OK);
    cr_expect_eq(capacity_limit(&right), 100);
    right.max_facts = 0;
    cr_expect_eq(capacity_limit(&right), SIZE_MAX);
    right.confidence_weight = 1;
    right.confirmation_weight = 0;
    right.access_weight = 5e-10;
    right.confirmation_half_life_days = 1;
    right.access_half_life_days = 3650;
    right.reserve_fraction = 0;
    right.reserve_max = 0;
    cr_expect_eq(capacity_policy_check(&right, NULL), STATUS_OK);
    right.max_facts = 10;
    right.reserve_fraction = 1;
    right.reserve_max = 100;
    cr_expect_eq(capacity_policy_check(&right, NULL), STATUS_OK);
    right.max_facts = 500;
    cr_expect_eq(capacity_policy_check(&right, NULL), STATUS_OK);
}

Test(capacity, weights_half_lives_and_reserve_are_the_policys)
{
    AUTO_GIVEN struct given given = give_the_set();
    struct capacity_policy other = policy;
    struct capacity_choice choice;

    other.confidence_weight = 0;
    other.confirmation_weight = 0.5;
    other.access_weight = 0.5;
    other.confirmation_half_life_days = 180;
    other.access_half_life_days = 15;
    other.reserve_max = 0;
    cr_assert_eq(capacity_choose(&other, CAPACITY_HYBRID_V1, 2, given.facts, given.count, NOW_NS,
                                 &choice),
                 STATUS_OK);
    cr_expect(is_near(choice.scores[0].total, 0.5 * 0.25 + 0.5));
    cr_expect(is_near(choice.scores[3].access, log(1.25) / log(9)));
    cr_expect_eq(choice.reserved, 0);
    cr_expect_eq(choice.evicted[0], 3);
    capacity_choice_destroy(&choice);
}

Test(capacity, nothing_is_scored_where_nothing_goes)
{
    AUTO_GIVEN struct given given = {0};
    AUTO_CHOICE struct capacity_choice none = choose(&given, CAPACITY_HYBRID_V1, 0);

    cr_expect_eq(none.kept_count + none.evicted_count, 0);
    give(&given, "{}", NULL);
    AUTO_CHOICE struct capacity_choice all = choose(&given, CAPACITY_HYBRID_V1, SIZE_MAX);
    cr_expect_null(all.scores);
    cr_expect_eq(all.kept_count, 1);
    cr_expect_eq(all.kept[0], 0);
}
