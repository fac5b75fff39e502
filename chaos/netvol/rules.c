#include "chaos/netvol/rules.h"

#include "chaos/netvol/words.h"
#include "chaos/support/dice.h"
#include "core/clock.h"

#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#define CHANCES 1000000
#define LOOK_AROUND_NS (50 * NS_PER_MS)

struct rule {
    struct rule_order order; /* its pattern is the rule's own */
    char *pattern;
    unsigned number;
    uint64_t met;
    uint64_t fired;
    uint64_t releases; /* how often what hangs was let go */
    unsigned held;     /* operations that hang by it: it must stay as long */
    bool removed;
    struct dice dice;
    struct rule *next; /* by number */
};

struct hanging {
    const struct rule *rule;
    const struct rule_case *about;
    uint64_t since_ns;
    struct hanging *next;
};

/* `lock` guards everything here, but for the count of rules. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct rule *first;
    struct hanging *hanging;
    unsigned last_number;
    bool stopped;
    _Atomic unsigned count;
} rules = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static const char *const effect_names[] = {"fail", "hang", "short", "delay"};

static void free_rule(struct rule *rule)
{
    free(rule->pattern);
    free(rule);
}

unsigned rules_add(const struct rule_order *order)
{
    struct rule *rule = calloc(1, sizeof *rule);
    struct rule **end = &rules.first;

    if (!rule)
        return 0;
    rule->pattern = strdup(order->pattern);
    if (!rule->pattern) {
        free(rule);
        return 0;
    }
    rule->order = *order;
    rule->order.pattern = rule->pattern;
    rule->dice.state = order->seed;
    (void) pthread_mutex_lock(&rules.lock);
    unsigned number = rule->number = ++rules.last_number;
    while (*end)
        end = &(*end)->next;
    *end = rule;
    atomic_fetch_add(&rules.count, 1);
    (void) pthread_mutex_unlock(&rules.lock);
    return number;
}

/* Out of the list; the last that hangs by it frees it. */
static void take_out_locked(struct rule **place)
{
    struct rule *rule = *place;

    *place = rule->next;
    rule->removed = true;
    atomic_fetch_sub(&rules.count, 1);
    if (rule->held == 0)
        free_rule(rule);
}

bool rules_remove(unsigned number)
{
    bool found = number == RULES_ALL;

    (void) pthread_mutex_lock(&rules.lock);
    for (struct rule **place = &rules.first; *place;) {
        if (number == RULES_ALL || (*place)->number == number) {
            found = true;
            take_out_locked(place);
        } else {
            place = &(*place)->next;
        }
    }
    (void) pthread_cond_broadcast(&rules.changed);
    (void) pthread_mutex_unlock(&rules.lock);
    return found;
}

bool rules_release(unsigned number)
{
    bool found = number == RULES_ALL;

    (void) pthread_mutex_lock(&rules.lock);
    for (struct rule *rule = rules.first; rule; rule = rule->next) {
        if (number == RULES_ALL || rule->number == number) {
            found = true;
            rule->releases++;
        }
    }
    (void) pthread_cond_broadcast(&rules.changed);
    (void) pthread_mutex_unlock(&rules.lock);
    return found;
}

void rules_stop(void)
{
    (void) pthread_mutex_lock(&rules.lock);
    rules.stopped = true;
    (void) pthread_cond_broadcast(&rules.changed);
    (void) pthread_mutex_unlock(&rules.lock);
}

bool rules_exist(void)
{
    return atomic_load(&rules.count) > 0;
}

static bool is_meant(const struct rule_order *order, const struct rule_case *about)
{
    if (order->node != NODE_ALL && order->node != about->node)
        return false;
    if (order->operation != OPERATION_ANY && order->operation != about->operation)
        return false;
    if (order->effect == RULE_SHORT && about->operation != OPERATION_read &&
        about->operation != OPERATION_write)
        return false;
    return fnmatch(order->pattern, about->path, 0) == 0 ||
           (about->to_path && fnmatch(order->pattern, about->to_path, 0) == 0);
}

static bool fires_locked(struct rule *rule)
{
    const struct rule_order *order = &rule->order;

    rule->met++;
    if (rule->met <= order->after || rule->fired >= order->count_max)
        return false;
    if (order->probability < 1 &&
        dice_roll(&rule->dice, CHANCES) >= (unsigned) (order->probability * CHANCES))
        return false;
    rule->fired++;
    return true;
}

/* Waits with the lock let go meanwhile; true when nobody waits for the operation any more. */
static bool hang_locked(struct rule *rule, const struct rule_case *about)
{
    struct hanging here = {.rule = rule, .about = about, .since_ns = clock_monotonic_ns()};
    struct hanging **place = &rules.hanging;
    uint64_t releases = rule->releases;
    bool given_up = false;

    here.next = rules.hanging;
    rules.hanging = &here;
    rule->held++;
    while (!rules.stopped && !rule->removed && rule->releases == releases && !given_up) {
        struct timespec until = clock_real_after(LOOK_AROUND_NS);
        (void) pthread_cond_clockwait(&rules.changed, &rules.lock, CLOCK_MONOTONIC, &until);
        given_up = about->is_given_up(about->context);
    }
    while (*place != &here)
        place = &(*place)->next;
    *place = here.next;
    if (--rule->held == 0 && rule->removed)
        free_rule(rule);
    return given_up;
}

/* The next rule behind `number` that fires: while something hung the list may have become another.
 */
static struct rule *next_to_fire_locked(unsigned number, const struct rule_case *about)
{
    for (struct rule *rule = rules.first; rule; rule = rule->next)
        if (rule->number > number && is_meant(&rule->order, about) && fires_locked(rule))
            return rule;
    return NULL;
}

struct rule_verdict rules_decide(const struct rule_case *about)
{
    struct rule_verdict verdict = {.bytes = UINT64_MAX};
    unsigned number = 0;

    (void) pthread_mutex_lock(&rules.lock);
    struct rule *rule = next_to_fire_locked(number, about);
    while (rule && rule->order.effect == RULE_HANG && verdict.error == 0) {
        number = rule->number;
        if (hang_locked(rule, about))
            verdict.error = EINTR;
        rule = verdict.error ? NULL : next_to_fire_locked(number, about);
    }
    if (rule && rule->order.effect == RULE_FAIL) {
        verdict.error = rule->order.error;
        verdict.late = rule->order.late;
    } else if (rule && rule->order.effect == RULE_SHORT) {
        verdict.bytes = rule->order.amount;
    } else if (rule) {
        verdict.delay_us = rule->order.amount;
    }
    (void) pthread_mutex_unlock(&rules.lock);
    return verdict;
}

static void append_node(struct text *text, uint32_t node)
{
    if (node == NODE_ALL)
        text_append_string(text, "\"node\": \"all\"");
    else
        text_append_format(text, "\"node\": %" PRIu32, node);
}

static void append_rule(struct text *text, const struct rule *rule)
{
    const struct rule_order *order = &rule->order;

    text_append_format(text, "{\"rule\": %u, \"effect\": \"%s\", ", rule->number,
                       effect_names[order->effect]);
    append_node(text, order->node);
    text_append_format(text,
                       ", \"operation\": \"%s\", \"pattern\": ", operation_name(order->operation));
    words_append_json(text, order->pattern);
    if (order->effect == RULE_FAIL)
        text_append_format(text, ", \"error\": \"%s\", \"late\": %s", strerrorname_np(order->error),
                           order->late ? "true" : "false");
    else
        text_append_format(text, ", \"amount\": %" PRIu64, order->amount);
    text_append_format(text, ", \"after\": %" PRIu64, order->after);
    if (order->count_max != UINT64_MAX)
        text_append_format(text, ", \"count\": %" PRIu64, order->count_max);
    text_append_format(text,
                       ", \"probability\": %.9g, \"seed\": %" PRIu64 ", \"met\": %" PRIu64
                       ", \"fired\": %" PRIu64 ", \"hanging\": %u}",
                       order->probability, order->seed, rule->met, rule->fired, rule->held);
}

void rules_append(struct text *text)
{
    text_append_char(text, '[');
    (void) pthread_mutex_lock(&rules.lock);
    for (const struct rule *rule = rules.first; rule; rule = rule->next) {
        append_rule(text, rule);
        text_append_string(text, rule->next ? ", " : "");
    }
    (void) pthread_mutex_unlock(&rules.lock);
    text_append_char(text, ']');
}

void rules_append_hanging(struct text *text)
{
    text_append_char(text, '[');
    (void) pthread_mutex_lock(&rules.lock);
    for (const struct hanging *one = rules.hanging; one; one = one->next) {
        text_append_format(text,
                           "{\"rule\": %u, \"node\": %" PRIu32
                           ", \"operation\": \"%s\", \"ms\": %" PRIu64 ", \"path\": ",
                           one->rule->number, one->about->node,
                           operation_name(one->about->operation),
                           (clock_monotonic_ns() - one->since_ns) / NS_PER_MS);
        words_append_json(text, one->about->path);
        text_append_string(text, one->next ? "}, " : "}");
    }
    (void) pthread_mutex_unlock(&rules.lock);
    text_append_char(text, ']');
}
