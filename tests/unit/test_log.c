#include "core/log.h"

#include "core/text.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

struct captured {
    unsigned count;
    enum log_level level;
    char line[8192];
};

static struct captured captured;

static void keep(void *context, enum log_level level, const char *line)
{
    struct captured *kept = context;

    kept->count++;
    kept->level = level;
    (void) snprintf(kept->line, sizeof kept->line, "%s", line);
}

static void start(void)
{
    log_set_capture(keep, &captured);
}

static void finish(void)
{
    log_set_capture(NULL, NULL);
}

TestSuite(log, .init = start, .fini = finish);

Test(log, a_line_is_level_event_and_members)
{
    log_warning("refresh.retry", "user=%s revision=%d", "u42", 17);
    cr_expect_eq(captured.level, LOG_WARNING);
    cr_expect_str_eq(captured.line, "level=warning event=refresh.retry user=u42 revision=17");
    log_info("start", "%s", "");
    cr_expect_str_eq(captured.line, "level=info event=start");
}

Test(log, levels_have_names_that_lead_back)
{
    static const char *const names[] = {"error", "warning", "notice", "info", "debug"};
    enum log_level level = LOG_ERROR;

    for (int i = 0; i < LOG_LEVEL_COUNT; i++) {
        cr_expect(log_level_from_name(names[i], &level));
        cr_expect_eq(level, (enum log_level) i);
    }
    cr_expect_not(log_level_from_name("loud", &level));
    cr_expect_not(log_level_from_name("", &level));
    cr_expect_not(log_level_from_name("Error", &level));
    cr_expect_eq(level, LOG_DEBUG, "untouched");
}

static int evaluated;

static int evaluate(void)
{
    return ++evaluated;
}

Test(log, what_is_beyond_the_level_is_dropped)
{
    log_debug("x", "n=%d", evaluate());
    cr_expect_eq(evaluated, 0, "not even computed");
    cr_expect_eq(captured.count, 0);
    log_set_level(LOG_ERROR);
    log_warning("x", "n=%d", 1);
    cr_expect_eq(captured.count, 0);
    cr_expect(log_enabled(LOG_ERROR));
    cr_expect_not(log_enabled(LOG_WARNING));
    log_set_level(LOG_DEBUG);
    log_debug("x", "n=%d", evaluate());
    cr_expect_str_eq(captured.line, "level=debug event=x n=1");
}

Test(log, values_from_outside_stay_one_value)
{
    static const struct {
        const char *value;
        const char *written;
    } cases[] = {
        {"plain", "plain"},
        {"/a/b-c_d.md", "/a/b-c_d.md"},
        {NULL, "null"},
        {"", "\"\""},
        {"two words", "\"two words\""},
        {"a=b", "\"a=b\""},
        {"say \"x\"", "\"say \\\"x\\\"\""},
        {"back\\slash", "\"back\\\\slash\""},
        {"line\nbreak\r\t\x1b\x7f", "\"line\\nbreak\\x0d\\x09\\x1b\\x7f\""},
        {"caf\xc3\xa9 \xe2\x82\xac", "\"caf\xc3\xa9 \xe2\x82\xac\""},
        {"\xff\xc3", "\"\\xff\\xc3\""},
        {"\xef\xbf\xbd", "\"\xef\xbf\xbd\""}, /* a real U+FFFD */
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        cr_expect_str_eq(LOG_VALUE(cases[i].value), cases[i].written, "row %zu", i);
}

Test(log, a_long_value_is_cut_and_still_closed)
{
    char value[3 * LOG_VALUE_SIZE];

    for (size_t offset = 0; offset < 3; offset++) {
        struct log_value buffer;
        memset(value, 'x', offset);
        for (size_t at = offset; at + 3 < sizeof value; at += 3)
            memcpy(value + at, "\xe2\x82\xac", 4);
        const char *written = log_value_format(&buffer, value);
        cr_expect_lt(strlen(written), LOG_VALUE_SIZE);
        cr_expect_gt(strlen(written), LOG_VALUE_SIZE - 8);
        cr_expect_eq(written[strlen(written) - 1], '"');
        cr_expect(text_is_utf8(written, strlen(written)), "offset %zu", offset);
    }
    memset(value, 'p', sizeof value);
    value[LOG_VALUE_SIZE - 1] = '\0'; /* the longest plain one */
    cr_expect_str_eq(LOG_VALUE(value), value);
    value[LOG_VALUE_SIZE - 1] = 'p';
    value[LOG_VALUE_SIZE] = '\0';
    cr_expect_eq(strlen(LOG_VALUE(value)), LOG_VALUE_SIZE - 1);
}

Test(log, a_long_line_is_cut_between_characters)
{
    AUTO_TEXT struct text words = {0};

    for (size_t i = 0; i < 3000; i++)
        text_append_string(&words, "\xf0\x9f\x98\x80");
    for (int offset = 0; offset < 4; offset++) {
        log_info("long", "%.*s%s", offset, "xxx", text_string(&words));
        cr_expect_gt(strlen(captured.line), 3000);
        cr_expect(text_is_utf8(captured.line, strlen(captured.line)), "offset %d", offset);
    }
}

Test(log, the_journal_gets_its_priority_before_each_line)
{
    char path[] = "/tmp/memsync-log-XXXXXX";
    AUTO_CLOSE int fd = mkostemp(path, O_CLOEXEC);
    char bytes[256] = "";

    cr_assert_geq(fd, 0);
    log_set_capture(NULL, NULL);
    (void) fflush(stderr);
    int saved = dup(STDERR_FILENO);
    cr_assert_geq(dup2(fd, STDERR_FILENO), 0);
    log_set_journal_prefix(true);
    log_error("a", "n=%d", 1);
    log_info("b", "n=%d", 2);
    log_set_journal_prefix(false);
    log_info("c", "n=%d", 3);
    cr_assert_geq(dup2(saved, STDERR_FILENO), 0);
    (void) close(saved);
    (void) unlink(path);
    cr_assert_gt(pread(fd, bytes, sizeof bytes - 1, 0), 0);
    static const char prefixed[] = "<3>level=error event=a n=1\n"
                                   "<6>level=info event=b n=2\n"
                                   "time=2";
    cr_expect_eq(strncmp(bytes, prefixed, strlen(prefixed)), 0, "%s", bytes);
    cr_expect_str_eq(bytes + strlen(prefixed) + strlen("026-03-01T08:00:00.750000"),
                     "Z level=info event=c n=3\n");
}

Test(log, a_gate_lets_each_change_through_once)
{
    struct log_gate gate = {0};

    cr_expect_not(log_gate_change(&gate, 0));
    cr_expect(log_gate_change(&gate, 5));
    cr_expect_not(log_gate_change(&gate, 5));
    cr_expect(log_gate_change(&gate, 0));
    cr_expect_not(log_gate_change(&gate, 0));
}

static void *log_many(void *argument)
{
    for (int i = 0; i < 1000; i++)
        log_info("many", "thread=%s", (const char *) argument);
    return NULL;
}

Test(log, threads_may_log_at_once)
{
    static char names[4][2] = {"a", "b", "c", "d"};
    pthread_t threads[4];

    for (size_t i = 0; i < 4; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, log_many, names[i]), 0);
    for (size_t i = 0; i < 4; i++)
        (void) pthread_join(threads[i], NULL);
    cr_expect_eq(captured.count, 4000);
}
