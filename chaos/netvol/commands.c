#include "chaos/netvol/commands.h"

#include "chaos/netvol/rules.h"
#include "chaos/netvol/trace.h"
#include "chaos/netvol/words.h"
#include "chaos/support/numbers.h"

#include <inttypes.h>
#include <string.h>

#define RULE_SEED 1

/* What a command gets: the words behind its name, and where its answer goes. */
struct order {
    struct volume *volume;
    char **words;
    unsigned count;
    uint32_t node; /* of those commands whose first word is one; or NODE_ALL */
    struct text *reply;
};

/* NULL: done. Else what is wrong. */
typedef const char *(*command_function)(struct order *order);

struct command {
    const char *name;
    const char *words;
    unsigned least;
    unsigned most;
    bool has_node; /* as its first word, "all" or a number */
    command_function run;
};

static bool is_chosen(const struct order *order, unsigned node)
{
    return order->node == NODE_ALL || order->node == node;
}

/* ---- knobs ---- */

static const char *run_knobs(struct order *order)
{
    knobs_append_table(order->reply);
    return NULL;
}

static const char *run_set(struct order *order)
{
    enum operation operation = OPERATION_ANY;
    enum knob knob;

    if (!knob_of(order->words[1], &knob))
        return "no such knob";
    if (order->count > 3 && !operation_of(order->words[3], &operation))
        return "no such operation";
    for (unsigned i = 0; i < order->volume->count; i++)
        if (is_chosen(order, i) &&
            !knobs_set(&order->volume->nodes[i].knobs, knob, operation, order->words[2]))
            return "no value for this knob";
    return NULL;
}

static const char *run_get(struct order *order)
{
    enum knob knob;

    if (order->node == NODE_ALL)
        return "of one node only";
    if (order->count == 1)
        knobs_append_all(&order->volume->nodes[order->node].knobs, order->reply);
    else if (!knob_of(order->words[1], &knob))
        return "no such knob";
    else
        knobs_append(&order->volume->nodes[order->node].knobs, knob, order->reply);
    return NULL;
}

/* ---- rules ---- */

static bool take_option(struct rule_order *rule, char *word)
{
    uint64_t late = 0;
    char *value = strchr(word, '=');

    if (!value)
        return false;
    *value++ = '\0';
    if (strcmp(word, "after") == 0)
        return number_count(value, 0, UINT64_MAX, &rule->after);
    if (strcmp(word, "count") == 0)
        return number_count(value, 0, UINT64_MAX, &rule->count_max);
    if (strcmp(word, "seed") == 0)
        return number_count(value, 0, UINT64_MAX, &rule->seed);
    if (strcmp(word, "probability") == 0)
        return number_real(value, 0, 1, &rule->probability);
    if (strcmp(word, "late") != 0 || rule->effect != RULE_FAIL ||
        !number_count(value, 0, UINT64_MAX, &late))
        return false;
    rule->late = late == 1;
    return late <= 1;
}

/* Words: node, operation, pattern, then from `options` on what narrows the rule down. */
static const char *add_rule(struct order *order, struct rule_order *rule, unsigned options)
{
    rule->node = order->node;
    rule->pattern = order->words[2];
    rule->count_max = UINT64_MAX;
    rule->probability = 1;
    rule->seed = RULE_SEED;
    if (!operation_of(order->words[1], &rule->operation))
        return "no such operation";
    for (unsigned i = options; i < order->count; i++)
        if (!take_option(rule, order->words[i]))
            return "no option of this rule";
    unsigned number = rules_add(rule);
    if (number == 0)
        return "no memory";
    text_append_format(order->reply, "%u", number);
    return NULL;
}

static const char *run_fail(struct order *order)
{
    struct rule_order rule = {.effect = RULE_FAIL};

    if (!words_errno(order->words[3], &rule.error))
        return "no such errno";
    return add_rule(order, &rule, 4);
}

static const char *run_hang(struct order *order)
{
    struct rule_order rule = {.effect = RULE_HANG};

    return add_rule(order, &rule, 3);
}

static const char *run_short(struct order *order)
{
    struct rule_order rule = {.effect = RULE_SHORT};

    if (!number_count(order->words[3], 0, UINT64_MAX, &rule.amount))
        return "no number of bytes";
    return add_rule(order, &rule, 4);
}

static const char *run_delay(struct order *order)
{
    struct rule_order rule = {.effect = RULE_DELAY};

    if (!number_count(order->words[3], 0, UINT64_MAX, &rule.amount))
        return "no number of microseconds";
    return add_rule(order, &rule, 4);
}

static const char *run_rules(struct order *order)
{
    rules_append(order->reply);
    return NULL;
}

static const char *run_hanging(struct order *order)
{
    rules_append_hanging(order->reply);
    return NULL;
}

static const char *for_rule(const struct order *order, bool (*act)(unsigned number))
{
    uint64_t number = RULES_ALL;

    if (strcmp(order->words[0], "all") != 0 &&
        (!number_count(order->words[0], 0, UINT32_MAX, &number) || number == RULES_ALL))
        return "no number of a rule";
    return act((unsigned) number) ? NULL : "no such rule";
}

static const char *run_remove(struct order *order)
{
    return for_rule(order, rules_remove);
}

static const char *run_release(struct order *order)
{
    return for_rule(order, rules_release);
}

/* ---- the volume as a whole ---- */

static void set_gone(const struct order *order, int error)
{
    for (unsigned i = 0; i < order->volume->count; i++)
        if (is_chosen(order, i))
            atomic_store(&order->volume->nodes[i].gone, error);
}

static const char *run_gone(struct order *order)
{
    int error = 0;

    if (!words_errno(order->words[1], &error))
        return "no such errno";
    set_gone(order, error);
    return NULL;
}

static const char *run_back(struct order *order)
{
    set_gone(order, 0);
    return NULL;
}

static const char *run_swap(struct order *order)
{
    for (unsigned i = 0; i < order->volume->count; i++) {
        int error = is_chosen(order, i) ? node_swap(&order->volume->nodes[i], order->words[1]) : 0;
        if (error)
            return strerror(error);
    }
    return NULL;
}

/* ---- what there is to know ---- */

static const char *run_counts(struct order *order)
{
    for (unsigned i = 0; i < OPERATION_COUNT; i++) {
        uint64_t count = 0;
        for (unsigned n = 0; n < order->volume->count; n++)
            count += is_chosen(order, n) ? atomic_load(&order->volume->nodes[n].counts[i]) : 0;
        text_append_format(order->reply, "%s\"%s\": %" PRIu64, i ? ", " : "{",
                           operation_name((enum operation) i), count);
    }
    text_append_char(order->reply, '}');
    return NULL;
}

static const char *run_nodes(struct order *order)
{
    for (unsigned i = 0; i < order->volume->count; i++) {
        struct node *node = &order->volume->nodes[i];
        int gone = atomic_load(&node->gone);
        text_append_format(order->reply, "%s{\"node\": %u, \"path\": ", i ? ", " : "[", i);
        words_append_json(order->reply, node->mountpoint);
        (void) pthread_mutex_lock(&node->inodes.lock);
        text_append_format(order->reply,
                           ", \"inodes\": %zu, \"open\": %u, \"gone\": ", node->inodes.count,
                           node->handle_count);
        (void) pthread_mutex_unlock(&node->inodes.lock);
        text_append_format(order->reply, gone ? "\"%s\"}" : "null}",
                           gone ? strerrorname_np(gone) : "");
    }
    text_append_char(order->reply, ']');
    return NULL;
}

static const char *run_trace(struct order *order)
{
    if (strcmp(order->words[0], "take") == 0)
        trace_take(order->reply);
    else if (strcmp(order->words[0], "on") == 0)
        trace_switch(true);
    else if (strcmp(order->words[0], "off") == 0)
        trace_switch(false);
    else
        return "on, off or take";
    return NULL;
}

static const char *run_help(struct order *order);

#define OPTIONS "[after=N] [count=N] [probability=P] [seed=N]"
static const struct command commands[] = {
    {"help", "", 0, 0, false, run_help},
    {"nodes", "", 0, 0, false, run_nodes},
    {"knobs", "", 0, 0, false, run_knobs},
    {"get", "NODE [KNOB]", 1, 2, true, run_get},
    {"set", "NODE KNOB VALUE [OPERATION]", 3, 4, true, run_set},
    {"fail", "NODE OPERATION PATTERN ERRNO " OPTIONS " [late=1]", 4, 9, true, run_fail},
    {"hang", "NODE OPERATION PATTERN " OPTIONS, 3, 7, true, run_hang},
    {"short", "NODE OPERATION PATTERN BYTES " OPTIONS, 4, 8, true, run_short},
    {"delay", "NODE OPERATION PATTERN MICROSECONDS " OPTIONS, 4, 8, true, run_delay},
    {"rules", "", 0, 0, false, run_rules},
    {"remove", "RULE|all", 1, 1, false, run_remove},
    {"hanging", "", 0, 0, false, run_hanging},
    {"release", "RULE|all", 1, 1, false, run_release},
    {"gone", "NODE ERRNO", 2, 2, true, run_gone},
    {"back", "NODE", 1, 1, true, run_back},
    {"swap", "NODE DIRECTORY", 2, 2, true, run_swap},
    {"counts", "NODE", 1, 1, true, run_counts},
    {"trace", "on|off|take", 1, 1, false, run_trace},
};

static const char *run_help(struct order *order)
{
    for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
        text_append_format(order->reply, "%s%s%s%s", i ? "; " : "", commands[i].name,
                           *commands[i].words ? " " : "", commands[i].words);
    return NULL;
}

static const char *find_node(struct order *order)
{
    uint64_t number = 0;

    order->node = NODE_ALL;
    if (strcmp(order->words[0], "all") == 0)
        return NULL;
    if (!number_count(order->words[0], 0, UINT64_MAX, &number) || number >= order->volume->count)
        return "no such node";
    order->node = (uint32_t) number;
    return NULL;
}

static const char *run_words(struct order *order, const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
        const struct command *command = &commands[i];
        if (strcmp(command->name, name) != 0)
            continue;
        if (order->count < command->least || order->count > command->most)
            return *command->words ? command->words : "takes no words";
        const char *problem = command->has_node ? find_node(order) : NULL;
        return problem ? problem : command->run(order);
    }
    return "no such command: see help";
}

void commands_run(struct volume *volume, char *line, struct text *reply)
{
    char *words[WORDS_MAX];
    unsigned count = 0;
    AUTO_TEXT struct text result = {0};
    struct order order = {.volume = volume, .words = words + 1, .node = NODE_ALL, .reply = &result};
    const char *problem = NULL;

    if (!words_split(line, words, &count) || count == 0) {
        problem = "no words";
    } else {
        order.count = count - 1;
        problem = run_words(&order, words[0]);
    }
    if (!problem && !text_ok(&result))
        problem = "no memory";
    if (problem) {
        text_append_format(reply, "error %s", problem);
    } else {
        text_append_string(reply, result.size > 0 ? "ok " : "ok");
        text_append_string(reply, text_string(&result));
    }
}
