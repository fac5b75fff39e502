/* How much facts are used: fact-usage.json. */
#include "core/side_data.h"

#include "core/clock.h"
#include "core/iso_time.h"
#include "core/json_number.h"
#include "core/json_text.h"

#define HEAT_KEY "accessHeat"
#define COUNT_KEY "accessCount"
#define TIME_KEY "lastAccessedAt"

enum status usage_parse(const char *bytes, size_t size, json_t **ret, bool *ret_malformed)
{
    AUTO_JSON json_t *usage = NULL;
    enum status status = json_text_read(bytes, size, JSON_TEXT_DEPTH_MAX, &usage, NULL);

    if (status == STATUS_NO_MEMORY)
        return status;
    *ret_malformed = status != STATUS_OK || !json_is_object(usage);
    *ret = *ret_malformed ? json_object() : TAKE_PTR(usage);
    return *ret ? STATUS_OK : STATUS_NO_MEMORY;
}

/* The heat of the last access and how long ago that was; false when either is unknown. */
static bool read_heat(const json_t *entry, uint64_t at_ns, double *ret_heat, double *ret_days)
{
    const json_t *time = json_object_get(entry, TIME_KEY);
    int64_t time_us = 0;

    if (!json_number_read(json_object_get(entry, HEAT_KEY), ret_heat) || *ret_heat <= 0 ||
        !json_is_string(time) ||
        !iso_time_read(json_string_value(time), json_string_length(time), &time_us))
        return false;
    *ret_days = (double) ((int64_t) (at_ns / NS_PER_US) - time_us) / (double) ISO_TIME_DAY;
    return true;
}

static json_int_t next_count(const json_t *entry)
{
    json_int_t count = json_integer_value(json_object_get(entry, COUNT_KEY));

    return count > 0 && count < INT64_MAX ? count + 1 : 1;
}

/* The fact's entry, made where there is no sound one. */
static json_t *entry_of(json_t *usage, const char *fact_id)
{
    json_t *entry = json_object_get(usage, fact_id);

    if (json_is_object(entry))
        return entry;
    return json_object_set_new(usage, fact_id, json_object()) == 0 ? json_object_get(usage, fact_id)
                                                                   : NULL;
}

enum status usage_count_hit(json_t *usage, const struct usage_hit *hit, double half_life_days)
{
    char time[CLOCK_TEXT_SIZE];
    double heat = 0;
    double days = 0;
    json_t *entry = entry_of(usage, hit->fact_id);

    if (!entry)
        return STATUS_NO_MEMORY;
    bool was_hot = read_heat(entry, hit->at_ns, &heat, &days);
    heat = was_hot ? heat * capacity_decay(days, half_life_days) : 0;
    clock_format(hit->at_ns, time);
    if (json_object_set_new(entry, HEAT_KEY, json_real(heat + 1)) < 0 ||
        json_object_set_new(entry, COUNT_KEY, json_integer(next_count(entry))) < 0)
        return STATUS_NO_MEMORY;
    if (was_hot && days < 0)
        return STATUS_OK;
    return json_object_set_new(entry, TIME_KEY, json_string(time)) < 0 ? STATUS_NO_MEMORY
                                                                       : STATUS_OK;
}

bool usage_forget(json_t *usage, const char *const *fact_ids, size_t count)
{
    size_t before = json_object_size(usage);

    for (size_t i = 0; i < count; i++)
        (void) json_object_del(usage, fact_ids[i]);
    return json_object_size(usage) != before;
}
