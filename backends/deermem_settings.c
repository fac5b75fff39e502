/* backend.config of the deermem backend. */
#include "backends/deermem.h"

#include "backends/params.h"
#include "core/json_number.h"
#include "core/log.h"
#include "core/side_data.h"

#include <string.h>

#define LOCK_TIMEOUT_SECONDS 10
#define LOCK_TIMEOUT_SECONDS_MAX 120

static const char *const known_keys[] = {
    "max_facts",
    "capacity_policy",
    "capacity_shadow",
    "confidence_weight",
    "confirmation_weight",
    "access_weight",
    "confirmation_half_life_days",
    "access_half_life_days",
    "reserve_fraction",
    "reserve_max",
    "eviction_audit_entries",
    "file_lock_timeout_seconds",
};

static void warn_of_unknown_keys(const json_t *config)
{
    const char *key;
    json_t *value;

    json_object_foreach(json_unconst(config), key, value)
    {
        bool known = false;
        for (size_t i = 0; i < ARRAY_SIZE(known_keys); i++)
            known = known || strcmp(key, known_keys[i]) == 0;
        if (!known)
            log_warning("config.unknown", "key=%s what=\"the deermem backend does not know it\"",
                        LOG_VALUE(key));
    }
}

static enum status read_number(const json_t *config, const char *key, double *ret,
                               struct error *error)
{
    const json_t *value = json_object_get(config, key);

    if (!value || json_is_null(value))
        return STATUS_OK;
    if (!json_number_read(value, ret))
        return error_set(error, STATUS_INVALID, NULL, "%s must be a number", key);
    return STATUS_OK;
}

static enum status read_numbers(const json_t *config, struct capacity_policy *policy,
                                struct error *error)
{
    const struct {
        const char *key;
        double *value;
    } numbers[] = {
        {"confidence_weight", &policy->confidence_weight},
        {"confirmation_weight", &policy->confirmation_weight},
        {"access_weight", &policy->access_weight},
        {"confirmation_half_life_days", &policy->confirmation_half_life_days},
        {"access_half_life_days", &policy->access_half_life_days},
        {"reserve_fraction", &policy->reserve_fraction},
    };
    enum status status = STATUS_OK;

    for (size_t i = 0; status == STATUS_OK && i < ARRAY_SIZE(numbers); i++)
        status = read_number(config, numbers[i].key, numbers[i].value, error);
    return status;
}

static enum status read_rule(const json_t *config, struct capacity_policy *policy,
                             struct error *error)
{
    const char *name = NULL;

    enum status status = params_name(config, "capacity_policy", false, &name, error);
    if (status != STATUS_OK || !name)
        return status;
    if (strcmp(name, capacity_rule_name(CAPACITY_CONFIDENCE)) == 0)
        policy->rule = CAPACITY_CONFIDENCE;
    else if (strcmp(name, capacity_rule_name(CAPACITY_HYBRID_V1)) == 0)
        policy->rule = CAPACITY_HYBRID_V1;
    else
        return error_set(error, STATUS_INVALID, NULL,
                         "capacity_policy must be \"confidence\" or \"hybrid-v1\"");
    return STATUS_OK;
}

static enum status read_capacity(const json_t *config, struct capacity_policy *policy,
                                 struct error *error)
{
    int64_t max_facts = policy->max_facts;
    int64_t reserve_max = policy->reserve_max;

    enum status status = read_rule(config, policy, error);
    if (status == STATUS_OK)
        status = params_integer(config, "max_facts", 0, CAPACITY_FACTS_MAX, &max_facts, error);
    if (status == STATUS_OK)
        status = params_integer(config, "reserve_max", 0, 100, &reserve_max, error);
    if (status == STATUS_OK)
        status = params_boolean(config, "capacity_shadow", &policy->shadow, error);
    if (status == STATUS_OK)
        status = read_numbers(config, policy, error);
    if (status != STATUS_OK)
        return status;
    policy->max_facts = (unsigned) max_facts;
    policy->reserve_max = (unsigned) reserve_max;
    return capacity_policy_check(policy, error);
}

enum status deermem_settings_read(const json_t *config, struct deermem_settings *ret,
                                  struct error *error)
{
    struct deermem_settings settings = {.capacity = CAPACITY_POLICY_DEFAULT};
    int64_t audit_entries = AUDIT_ENTRIES_DEFAULT;
    int64_t lock_seconds = LOCK_TIMEOUT_SECONDS;

    warn_of_unknown_keys(config);
    enum status status = read_capacity(config, &settings.capacity, error);
    if (status == STATUS_OK)
        status = params_integer(config, "eviction_audit_entries", 0, AUDIT_ENTRIES_MAX,
                                &audit_entries, error);
    if (status == STATUS_OK)
        status = params_integer(config, "file_lock_timeout_seconds", 1, LOCK_TIMEOUT_SECONDS_MAX,
                                &lock_seconds, error);
    if (status != STATUS_OK)
        return status;
    settings.audit_entries_max = (size_t) audit_entries;
    settings.lock_timeout_ms = (uint64_t) lock_seconds * 1000;
    *ret = settings;
    return STATUS_OK;
}
