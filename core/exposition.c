#include "core/exposition.h"

#include "core/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SECONDS_SIZE 40

static void begin(struct exposition *page, const char *name, const char *type, const char *help)
{
    page->family = name;
    text_append_format(&page->text, "# HELP %s ", name);
    for (const char *at = help; *at; at++) {
        if (*at == '\\' || *at == '\n')
            text_append_string(&page->text, *at == '\n' ? "\\n" : "\\\\");
        else
            text_append_char(&page->text, *at);
    }
    text_append_format(&page->text, "\n# TYPE %s %s\n", name, type);
}

void exposition_begin(struct exposition *page, const char *name, enum exposition_kind kind,
                      const char *help)
{
    begin(page, name, kind == EXPOSITION_COUNTER ? "counter" : "gauge", help);
}

static void write_label_value(struct text *text, const char *value)
{
    for (const char *at = value; *at; at++) {
        if (*at == '\n')
            text_append_string(text, "\\n");
        else if (*at == '"' || *at == '\\')
            text_append_format(text, "\\%c", *at);
        else
            text_append_char(text, *at);
    }
}

static void write_sample(struct exposition *page, const char *suffix, const char *const *labels,
                         const char *value)
{
    struct text *text = &page->text;

    text_append_format(text, "%s%s", page->family, suffix);
    for (size_t i = 0; labels[i]; i += 2) {
        text_append_format(text, "%s%s=\"", i > 0 ? "," : "{", labels[i]);
        write_label_value(text, labels[i + 1]);
        text_append_char(text, '"');
    }
    text_append_format(text, "%s %s\n", labels[0] ? "}" : "", value);
}

static void write_count(struct exposition *page, const char *suffix, const char *const *labels,
                        uint64_t value)
{
    char digits[24];

    (void) snprintf(digits, sizeof digits, "%" PRIu64, value);
    write_sample(page, suffix, labels, digits);
}

/* All nine decimals, without those at the end that say nothing. */
static void format_seconds(uint64_t ns, char ret[SECONDS_SIZE])
{
    (void) snprintf(ret, SECONDS_SIZE, "%" PRIu64 ".%09" PRIu64, ns / NS_PER_SECOND,
                    ns % NS_PER_SECOND);
    size_t length = strlen(ret);
    while (ret[length - 1] == '0')
        length--;
    ret[ret[length - 1] == '.' ? length - 1 : length] = '\0';
}

void exposition_count(struct exposition *page, const char *const *labels, uint64_t value)
{
    write_count(page, "", labels, value);
}

void exposition_seconds(struct exposition *page, const char *const *labels, uint64_t ns)
{
    char seconds[SECONDS_SIZE];

    format_seconds(ns, seconds);
    write_sample(page, "", labels, seconds);
}

void exposition_counter(struct exposition *page, const char *name, const char *help, uint64_t value)
{
    exposition_begin(page, name, EXPOSITION_COUNTER, help);
    exposition_count(page, NO_LABELS, value);
}

void exposition_gauge(struct exposition *page, const char *name, const char *help, uint64_t value)
{
    exposition_begin(page, name, EXPOSITION_GAUGE, help);
    exposition_count(page, NO_LABELS, value);
}

void exposition_age(struct exposition *page, const char *name, const char *help, uint64_t ns)
{
    exposition_begin(page, name, EXPOSITION_GAUGE, help);
    exposition_seconds(page, NO_LABELS, ns);
}

void exposition_histogram(struct exposition *page, const char *name, const char *help,
                          const struct histogram *histogram)
{
    struct histogram_reading reading;
    char seconds[SECONDS_SIZE];

    histogram_read(histogram, &reading);
    begin(page, name, "histogram", help);
    for (unsigned i = 0; i < HISTOGRAM_BOUNDS; i++) {
        format_seconds(histogram_bounds_ns[i], seconds);
        write_count(page, "_bucket", LABELS("le", seconds), reading.up_to[i]);
    }
    write_count(page, "_bucket", LABELS("le", "+Inf"), reading.up_to[HISTOGRAM_BOUNDS]);
    format_seconds(reading.sum_ns, seconds);
    write_sample(page, "_sum", NO_LABELS, seconds);
    write_count(page, "_count", NO_LABELS, reading.up_to[HISTOGRAM_BOUNDS]);
}
