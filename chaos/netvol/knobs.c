#include "chaos/netvol/knobs.h"

#include "chaos/netvol/words.h"
#include "chaos/support/numbers.h"
#include "core/clock.h"

#include <math.h>
#include <string.h>

#define DAY_S 86400.0
#define MINUTE_US 60e6

struct knob_info {
    const char *name;
    const char *unit;
    double least;
    double most;
    double at_start;
    bool whole;
    const char *const *choices; /* the words for 0, 1, ..., NULL at the end; or NULL */
    const char *what;
};

static const char *const flock_choices[] = {"across", "node", "none", NULL};
static const char *const switch_choices[] = {"off", "on", NULL};

static const struct knob_info knobs_table[KNOB_COUNT] = {
    [KNOB_LATENCY_US] = {"latency_us", "us", 0, MINUTE_US, 0, false, NULL,
                         "how long an operation of this kind takes"},
    [KNOB_ATTR_CACHE_S] = {"attr_cache_s", "s", 0, DAY_S, 0, false, NULL,
                           "how long the kernel keeps attributes"},
    [KNOB_ENTRY_CACHE_S] = {"entry_cache_s", "s", 0, DAY_S, 0, false, NULL,
                            "how long the kernel keeps what a name stands for"},
    [KNOB_NEGATIVE_CACHE_S] = {"negative_cache_s", "s", 0, DAY_S, 0, false, NULL,
                               "how long the kernel keeps that a name does not exist"},
    [KNOB_LISTING_CACHE_S] = {"listing_cache_s", "s", 0, DAY_S, 0, false, NULL,
                              "how long the kernel keeps a listing"},
    [KNOB_DATA_CACHE_S] = {"data_cache_s", "s", 0, DAY_S, 0, false, NULL,
                           "how long the kernel keeps what was read; 0: each read is an operation"},
    [KNOB_ATTR_LAG_S] = {"attr_lag_s", "s", 0, DAY_S, 0, false, NULL,
                         "how old attributes may be, even when asked for by force"},
    [KNOB_LISTING_LAG_S] = {"listing_lag_s", "s", 0, DAY_S, 0, false, NULL,
                            "how old a listing may be, even where attributes are new"},
    [KNOB_NEGATIVE_LAG_S] = {"negative_lag_s", "s", 0, DAY_S, 0, false, NULL,
                             "how long a name that was not there is said not to be there"},
    [KNOB_TIME_GRAIN_NS] = {"time_grain_ns", "ns", 1, 1e10, 1, true, NULL,
                            "file times are cut to a multiple of this"},
    [KNOB_CLOCK_OFFSET_MS] = {"clock_offset_ms", "ms", -DAY_S * 1000, DAY_S * 1000, 0, false, NULL,
                              "how far the server's clock is ahead"},
    [KNOB_RENAME_GAP_MS] = {"rename_gap_ms", "ms", 0, MINUTE_US / 1000, 0, false, NULL,
                            "how long the target does not exist when it is replaced"},
    [KNOB_SILLY_RENAME] = {"silly_rename", "", 0, 1, 1, true, switch_choices,
                           "is a file kept that is removed while it is open here?"},
    [KNOB_FLOCK] = {"flock", "", 0, 2, FLOCK_ACROSS, true, flock_choices,
                    "whom a lock keeps out: all nodes, this one's processes, nobody"},
};

void knobs_init(struct knobs *knobs)
{
    for (unsigned i = 0; i < KNOB_COUNT; i++)
        atomic_store(&knobs->values[i], knobs_table[i].at_start);
    for (unsigned i = 0; i < OPERATION_COUNT; i++)
        atomic_store(&knobs->latency_us[i], knobs_table[KNOB_LATENCY_US].at_start);
}

bool knob_of(const char *name, enum knob *ret)
{
    for (unsigned i = 0; i < KNOB_COUNT; i++) {
        if (strcmp(knobs_table[i].name, name) == 0) {
            *ret = (enum knob) i;
            return true;
        }
    }
    return false;
}

static bool value_of(const struct knob_info *info, const char *text, double *ret)
{
    for (unsigned i = 0; info->choices && info->choices[i]; i++) {
        if (strcmp(info->choices[i], text) == 0) {
            *ret = i;
            return true;
        }
    }
    return number_real(text, info->least, info->most, ret) && (!info->whole || trunc(*ret) >= *ret);
}

bool knobs_set(struct knobs *knobs, enum knob knob, enum operation operation, const char *value)
{
    double number = 0;

    if (!value_of(&knobs_table[knob], value, &number))
        return false;
    if (knob != KNOB_LATENCY_US) {
        if (operation != OPERATION_ANY)
            return false;
        atomic_store(&knobs->values[knob], number);
        return true;
    }
    for (unsigned i = 0; i < OPERATION_COUNT; i++)
        if (operation == OPERATION_ANY || operation == (enum operation) i)
            atomic_store(&knobs->latency_us[i], number);
    return true;
}

double knobs_get(const struct knobs *knobs, enum knob knob)
{
    return atomic_load(&knobs->values[knob]);
}

uint64_t knobs_ns(const struct knobs *knobs, enum knob knob)
{
    bool is_ms = strcmp(knobs_table[knob].unit, "ms") == 0;

    return (uint64_t) (knobs_get(knobs, knob) * (double) (is_ms ? NS_PER_MS : NS_PER_SECOND));
}

uint64_t knobs_latency_ns(const struct knobs *knobs, enum operation operation)
{
    return (uint64_t) (atomic_load(&knobs->latency_us[operation]) * (double) NS_PER_US);
}

static void append_latencies(const struct knobs *knobs, struct text *text)
{
    for (unsigned i = 0; i < OPERATION_COUNT; i++)
        text_append_format(text, "%s\"%s\": %.12g", i ? ", " : "{",
                           operation_name((enum operation) i), atomic_load(&knobs->latency_us[i]));
    text_append_char(text, '}');
}

void knobs_append(const struct knobs *knobs, enum knob knob, struct text *text)
{
    const struct knob_info *info = &knobs_table[knob];

    if (knob == KNOB_LATENCY_US)
        append_latencies(knobs, text);
    else if (info->choices)
        words_append_json(text, info->choices[(unsigned) knobs_get(knobs, knob)]);
    else
        text_append_format(text, "%.12g", knobs_get(knobs, knob));
}

static void append_choices(const char *const *choices, struct text *text)
{
    for (unsigned i = 0; choices[i]; i++)
        text_append_format(text, "%s\"%s\"", i ? ", " : ", \"values\": [", choices[i]);
    text_append_char(text, ']');
}

void knobs_append_table(struct text *text)
{
    for (unsigned i = 0; i < KNOB_COUNT; i++) {
        const struct knob_info *info = &knobs_table[i];
        text_append_format(text,
                           "%s{\"name\": \"%s\", \"unit\": \"%s\", \"least\": %.12g, "
                           "\"most\": %.12g, \"at_start\": %.12g, \"what\": \"%s\"",
                           i ? ", " : "[", info->name, info->unit, info->least, info->most,
                           info->at_start, info->what);
        if (info->choices)
            append_choices(info->choices, text);
        text_append_char(text, '}');
    }
    text_append_char(text, ']');
}

void knobs_append_all(const struct knobs *knobs, struct text *text)
{
    for (unsigned i = 0; i < KNOB_COUNT; i++) {
        text_append_format(text, "%s\"%s\": ", i ? ", " : "{", knobs_table[i].name);
        knobs_append(knobs, (enum knob) i, text);
    }
    text_append_char(text, '}');
}
