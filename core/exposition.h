/* core/exposition.h - a page of metrics in the text format of Prometheus, version 0.0.4.
 *
 * A zeroed struct exposition is empty and valid; what was appended is in `text`, which says whether
 * memory sufficed. Each family is begun once, and its samples follow it. Not thread-safe.
 */
#ifndef MEMSYNC_CORE_EXPOSITION_H
#define MEMSYNC_CORE_EXPOSITION_H

#include "core/histogram.h"
#include "core/text.h"

#define EXPOSITION_TYPE "text/plain; version=0.0.4; charset=utf-8"

enum exposition_kind {
    EXPOSITION_COUNTER, /* only grows while the process lives; the name ends in _total */
    EXPOSITION_GAUGE,
};

struct exposition {
    struct text text;
    const char *family; /* the name of the one that was begun last */
};

/* Labels of a sample: names and values in turn, up to a NULL. Values may be any text; there must be
 * few of them, and none from outside. */
#define LABELS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define NO_LABELS ((const char *const[]){NULL})

/* `name` is a literal, `help` a line. */
void exposition_begin(struct exposition *page, const char *name, enum exposition_kind kind,
                      const char *help);

/* A sample of the family that was begun last. */
void exposition_count(struct exposition *page, const char *const *labels, uint64_t value);
/* The same for a time, told in seconds. */
void exposition_seconds(struct exposition *page, const char *const *labels, uint64_t ns);

/* Families of one sample without labels. */
void exposition_counter(struct exposition *page, const char *name, const char *help,
                        uint64_t value);
void exposition_gauge(struct exposition *page, const char *name, const char *help, uint64_t value);
void exposition_age(struct exposition *page, const char *name, const char *help, uint64_t ns);

/* The family of a histogram, which is told in seconds: classes, sum and count. */
void exposition_histogram(struct exposition *page, const char *name, const char *help,
                          const struct histogram *histogram);

#endif
