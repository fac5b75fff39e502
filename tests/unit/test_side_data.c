/* core/side_data.h: the peers' notes as values. */
#include "core/side_data.h"

#include "core/clock.h"
#include "core/json_text.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#define DAY_NS (86400 * NS_PER_SECOND)
#define NOW_NS (20678 * DAY_NS) /* 2026-08-13 */
#define NOW_TEXT "2026-08-13T00:00:00.000000Z"
#define HALF_LIFE 30

static json_t *read_usage(const char *json, bool *ret_malformed)
{
    json_t *usage = NULL;

    *ret_malformed = false;
    cr_assert_eq(usage_parse(json, strlen(json), &usage, ret_malformed), STATUS_OK);
    return usage;
}

static json_t *read_audit(const char *json, bool *ret_malformed)
{
    json_t *audit = NULL;

    *ret_malformed = false;
    cr_assert_eq(audit_parse(json, strlen(json), &audit, ret_malformed), STATUS_OK);
    return audit;
}

static json_t *sound_usage(const char *json)
{
    bool malformed;
    json_t *usage = read_usage(json, &malformed);

    cr_assert_not(malformed, "%s", json);
    return usage;
}

static json_t *sound_audit(const char *json)
{
    bool malformed;
    json_t *audit = read_audit(json, &malformed);

    cr_assert_not(malformed, "%s", json);
    return audit;
}

static void expect_json(const json_t *value, const char *expected)
{
    AUTO_TEXT struct text text = {0};

    json_text_write(&text, value);
    cr_expect_str_eq(text_string(&text), expected, "%s", text_string(&text));
}

static void hit(json_t *usage, const char *fact_id, uint64_t at_ns)
{
    const struct usage_hit given = {fact_id, at_ns};

    cr_assert_eq(usage_count_hit(usage, &given, HALF_LIFE), STATUS_OK);
}

/* ---- usage ---- */

Test(side_data, a_hit_adds_to_what_is_left_of_the_heat)
{
    AUTO_JSON json_t *usage = json_object();

    hit(usage, "f_1", NOW_NS - 30 * DAY_NS);
    expect_json(usage, "{\"f_1\":{\"accessHeat\":1.0,\"accessCount\":1,"
                       "\"lastAccessedAt\":\"2026-07-14T00:00:00.000000Z\"}}");
    hit(usage, "f_1", NOW_NS);
    expect_json(usage, "{\"f_1\":{\"accessHeat\":1.5,\"accessCount\":2,"
                       "\"lastAccessedAt\":\"" NOW_TEXT "\"}}");
}

Test(side_data, a_hit_keeps_what_it_does_not_know)
{
    AUTO_JSON json_t *usage =
        sound_usage("{\"x\":7,\"f_1\":{\"note\":\"n\",\"accessHeat\":2,\"accessCount\":5,"
                    "\"lastAccessedAt\":\"2026-08-13\"}}");

    hit(usage, "f_1", NOW_NS);
    expect_json(usage, "{\"x\":7,\"f_1\":{\"note\":\"n\",\"accessHeat\":3.0,\"accessCount\":6,"
                       "\"lastAccessedAt\":\"" NOW_TEXT "\"}}");
}

Test(side_data, entries_without_sense_begin_anew)
{
    static const char *const entries[] = {
        "{\"f\":5}",
        "{\"f\":null}",
        "{\"f\":{}}",
        "{\"f\":{\"accessHeat\":9,\"accessCount\":-3}}",
        "{\"f\":{\"accessHeat\":9,\"lastAccessedAt\":\"yesterday\"}}",
        "{\"f\":{\"accessHeat\":true,\"lastAccessedAt\":\"2026-08-13\"}}",
        "{\"f\":{\"accessHeat\":Infinity,\"lastAccessedAt\":\"2026-08-13\"}}",
        "{\"f\":{\"accessHeat\":-9,\"accessCount\":\"2\",\"lastAccessedAt\":\"2026-08-13\"}}",
        "{\"f\":{\"accessCount\":9223372036854775807}}",
    };

    for (size_t i = 0; i < ARRAY_SIZE(entries); i++) {
        AUTO_JSON json_t *usage = sound_usage(entries[i]);
        AUTO_JSON json_t *expected = sound_usage("{\"f\":{\"accessHeat\":1.0,\"accessCount\":1,"
                                                 "\"lastAccessedAt\":\"" NOW_TEXT "\"}}");
        hit(usage, "f", NOW_NS);
        cr_expect(json_equal(usage, expected), "%s", entries[i]);
    }
}

Test(side_data, a_late_hit_does_not_turn_the_time_back)
{
    AUTO_JSON json_t *usage = json_object();

    hit(usage, "f_1", NOW_NS);
    hit(usage, "f_1", NOW_NS - DAY_NS);
    expect_json(usage, "{\"f_1\":{\"accessHeat\":2.0,\"accessCount\":2,"
                       "\"lastAccessedAt\":\"" NOW_TEXT "\"}}");
}

Test(side_data, what_is_malformed_counts_as_empty)
{
    static const char *const texts[] = {"", "{", "[]", "7", "\xff", "{\"a\":1}{"};

    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        bool malformed;
        AUTO_JSON json_t *usage = read_usage(texts[i], &malformed);
        cr_expect(malformed, "%s", texts[i]);
        expect_json(usage, "{}");
        AUTO_JSON json_t *audit = read_audit(i == 2 ? "{}" : texts[i], &malformed);
        cr_expect(malformed, "%s", texts[i]);
        expect_json(audit, "[]");
    }
}

Test(side_data, usage_forgets_facts)
{
    AUTO_JSON json_t *usage = sound_usage("{\"a\":{},\"b\":{},\"c\":1}");
    const char *const ids[] = {"a", "x", "c"};

    cr_expect(usage_forget(usage, ids, ARRAY_SIZE(ids)));
    expect_json(usage, "{\"b\":{}}");
    cr_expect_not(usage_forget(usage, ids, ARRAY_SIZE(ids)));
    cr_expect_not(side_data_is_empty(usage));
    cr_expect(usage_forget(usage, (const char *const[]){"b"}, 1));
    cr_expect(side_data_is_empty(usage));
}

/* ---- audit ---- */

/* Three facts; `a` and then `b` have to go by confidence, `c` and `b` by hybrid-v1. */
struct eviction_case {
    json_t *documents[3];
    struct capacity_fact facts[3];
    struct capacity_choice choice;
    struct capacity_choice shadow;
    struct capacity_policy policy;
};

static void eviction_case_destroy(struct eviction_case *given)
{
    for (size_t i = 0; i < ARRAY_SIZE(given->documents); i++)
        json_decref(given->documents[i]);
    capacity_choice_destroy(&given->choice);
    capacity_choice_destroy(&given->shadow);
}
#define AUTO_EVICTION CLEANUP(eviction_case_destroy)

static struct eviction_case make_case(enum capacity_rule rule)
{
    struct eviction_case given = {.policy = CAPACITY_POLICY_DEFAULT};

    given.policy.rule = rule;
    given.documents[0] =
        json_pack("{s:s, s:s, s:f, s:s, s:s}", "id", "a", "category", "goal", "confidence", 0.0,
                  "content", "secret", "lastConfirmedAt", "2027-01-01T00:00:00Z");
    given.documents[1] =
        json_pack("{s:s, s:f, s:s}", "id", "b", "confidence", 0.25, "content", "secret");
    given.documents[2] =
        json_pack("{s:s, s:s, s:f}", "id", "c", "category", "context", "confidence", 0.3);
    for (size_t i = 0; i < ARRAY_SIZE(given.facts); i++)
        given.facts[i].document = given.documents[i];
    cr_assert_eq(capacity_choose(&given.policy, rule, 1, given.facts, 3, NOW_NS, &given.choice),
                 STATUS_OK);
    cr_assert_eq(capacity_choose(&given.policy, CAPACITY_HYBRID_V1, 1, given.facts, 3, NOW_NS,
                                 &given.shadow),
                 STATUS_OK);
    return given;
}

static json_t *entry_of(const struct eviction_case *given, bool shadow)
{
    struct eviction eviction = {.at_ns = NOW_NS,
                                .policy = &given->policy,
                                .facts = given->facts,
                                .choice = &given->choice,
                                .shadow = shadow ? &given->shadow : NULL};
    json_t *entry = audit_entry_create(&eviction);

    cr_assert_not_null(entry);
    return entry;
}

Test(side_data, an_entry_tells_who_went_and_why)
{
    AUTO_EVICTION struct eviction_case given = make_case(CAPACITY_CONFIDENCE);
    AUTO_JSON json_t *entry = entry_of(&given, false);

    expect_json(entry,
                "{\"occurredAt\":\"" NOW_TEXT "\",\"reason\":\"capacity\","
                "\"policyVersion\":\"confidence\",\"maxFacts\":100,\"reservedCorrectionSlots\":0,"
                "\"evicted\":["
                "{\"factId\":\"a\",\"category\":\"goal\",\"score\":0.0,"
                "\"components\":{\"confidence\":0.0}},"
                "{\"factId\":\"b\",\"category\":\"\",\"score\":0.25,"
                "\"components\":{\"confidence\":0.25}}]}");
}

Test(side_data, an_entry_of_hybrid_tells_all_components)
{
    AUTO_EVICTION struct eviction_case given = make_case(CAPACITY_HYBRID_V1);
    AUTO_JSON json_t *entry = entry_of(&given, false);

    expect_json(json_array_get(json_object_get(entry, "evicted"), 0),
                "{\"factId\":\"b\",\"category\":\"\",\"score\":0.1625,\"components\":"
                "{\"confidence\":0.25,\"confirmation\":0.0,\"access\":0.0}}");
    cr_expect_str_eq(json_string_value(json_object_get(entry, "policyVersion")), "hybrid-v1");
}

Test(side_data, a_shadow_tells_what_the_other_rule_would_have_done)
{
    AUTO_EVICTION struct eviction_case given = make_case(CAPACITY_CONFIDENCE);
    AUTO_JSON json_t *entry = entry_of(&given, true);

    expect_json(json_object_get(entry, "shadow"),
                "{\"policyVersion\":\"hybrid-v1\",\"wouldEvict\":[\"b\",\"c\"],"
                "\"disagrees\":true}");
}

Test(side_data, a_shadow_agrees_whatever_the_order)
{
    AUTO_EVICTION struct eviction_case given = make_case(CAPACITY_CONFIDENCE);

    for (size_t i = 0; i < 2; i++)
        given.shadow.evicted[i] = given.choice.evicted[1 - i];
    AUTO_JSON json_t *entry = entry_of(&given, true);
    expect_json(json_object_get(entry, "shadow"),
                "{\"policyVersion\":\"hybrid-v1\",\"wouldEvict\":[\"a\",\"b\"],"
                "\"disagrees\":false}");
    given.shadow.evicted_count = 1;
    AUTO_JSON json_t *shorter = entry_of(&given, true);
    cr_expect(json_is_true(json_object_get(json_object_get(shorter, "shadow"), "disagrees")));
}

Test(side_data, the_oldest_entries_make_room)
{
    AUTO_JSON json_t *audit = json_array();

    for (json_int_t i = 0; i < 5; i++) {
        AUTO_JSON json_t *entry = json_integer(i);
        cr_assert_eq(audit_append(audit, entry, 3), STATUS_OK);
    }
    expect_json(audit, "[2,3,4]");
    AUTO_JSON json_t *entry = json_integer(5);
    cr_assert_eq(audit_append(audit, entry, 0), STATUS_OK);
    expect_json(audit, "[2,3,4]");
    cr_assert_eq(audit_append(audit, entry, 1), STATUS_OK);
    expect_json(audit, "[5]");
}

Test(side_data, the_audit_forgets_facts)
{
    AUTO_JSON json_t *audit = sound_audit(
        "[{\"n\":1,\"evicted\":[{\"factId\":\"a\"}]},"
        "{\"n\":2,\"evicted\":[{\"factId\":\"a\"},{\"factId\":\"b\"}],"
        "\"shadow\":{\"wouldEvict\":[\"a\",\"c\"]}},"
        "{\"n\":3,\"evicted\":[{\"factId\":\"b\"}],\"shadow\":{\"wouldEvict\":[\"a\"]}},"
        "{\"n\":4,\"evicted\":[]},7,{\"n\":5,\"evicted\":{\"factId\":\"a\"}}]");
    bool changed = false;

    cr_assert_eq(audit_forget(audit, (const char *const[]){"a", "x"}, 2, &changed), STATUS_OK);
    cr_expect(changed);
    expect_json(audit, "[{\"n\":2,\"evicted\":[{\"factId\":\"b\"}],"
                       "\"shadow\":{\"wouldEvict\":[\"c\"]}},"
                       "{\"n\":3,\"evicted\":[{\"factId\":\"b\"}],\"shadow\":{\"wouldEvict\":[]}},"
                       "{\"n\":4,\"evicted\":[]},7,{\"n\":5,\"evicted\":{\"factId\":\"a\"}}]");
    cr_assert_eq(audit_forget(audit, (const char *const[]){"a", "x"}, 2, &changed), STATUS_OK);
    cr_expect_not(changed);
}

/* ---- both ---- */

Test(side_data, is_rendered_as_the_peers_do)
{
    static const char json[] = "{\n"
                               "  \"f_1\": {\n"
                               "    \"accessHeat\": 1.5,\n"
                               "    \"accessCount\": 2,\n"
                               "    \"lastAccessedAt\": \"2026-03-22T12:00:00Z\"\n"
                               "  }\n"
                               "}";
    AUTO_JSON json_t *usage = sound_usage(json);
    AUTO_TEXT struct text text = {0};

    cr_assert_eq(side_data_render(usage, &text), STATUS_OK);
    cr_expect_str_eq(text_string(&text), json);
}

Test(side_data, is_bounded)
{
    AUTO_FREE char *bytes = calloc(1, SIDE_DATA_BYTES_MAX);
    AUTO_TEXT struct text fits = {0};
    AUTO_TEXT struct text too_large = {0};

    cr_assert_not_null(bytes);
    memset(bytes, 'x', SIDE_DATA_BYTES_MAX);
    AUTO_JSON json_t *value = json_stringn(bytes, SIDE_DATA_BYTES_MAX - 2);
    AUTO_JSON json_t *larger = json_stringn(bytes, SIDE_DATA_BYTES_MAX - 1);
    cr_expect_eq(side_data_render(value, &fits), STATUS_OK);
    cr_expect_eq(side_data_render(larger, &too_large), STATUS_TOO_LARGE);
}
