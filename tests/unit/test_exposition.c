/* core/exposition.h: the text as the format wants it, to the byte. */
#include "core/exposition.h"

#include "core/clock.h"

#include <criterion/criterion.h>
#include <string.h>

static struct exposition page;

static void tear_down(void)
{
    text_destroy(&page.text);
}

TestSuite(exposition, .fini = tear_down, .timeout = 30);

Test(exposition, a_family_comes_with_its_help_and_type_and_then_its_samples)
{
    exposition_begin(&page, "a_total", EXPOSITION_COUNTER, "What a is.");
    exposition_count(&page, LABELS("state", "fresh"), 7);
    exposition_count(&page, LABELS("state", "stale", "kind", "b"), UINT64_MAX);
    exposition_gauge(&page, "c", "What c is.", 0);
    cr_expect_str_eq(text_string(&page.text), "# HELP a_total What a is.\n"
                                              "# TYPE a_total counter\n"
                                              "a_total{state=\"fresh\"} 7\n"
                                              "a_total{state=\"stale\",kind=\"b\"} "
                                              "18446744073709551615\n"
                                              "# HELP c What c is.\n"
                                              "# TYPE c gauge\n"
                                              "c 0\n");
}

Test(exposition, help_and_labels_are_escaped)
{
    exposition_begin(&page, "a", EXPOSITION_GAUGE, "One \\ and\ntwo \"three\".");
    exposition_count(&page, LABELS("b", "q\"\\\n'{}"), 1);
    cr_expect_str_eq(text_string(&page.text), "# HELP a One \\\\ and\\ntwo \"three\".\n"
                                              "# TYPE a gauge\n"
                                              "a{b=\"q\\\"\\\\\\n'{}\"} 1\n");
}

Test(exposition, times_are_seconds_to_the_nanosecond)
{
    static const struct {
        uint64_t ns;
        const char *text;
    } cases[] = {
        {0, "0"},
        {1, "0.000000001"},
        {25 * NS_PER_US, "0.000025"},
        {100 * NS_PER_MS, "0.1"},
        {NS_PER_SECOND, "1"},
        {10 * NS_PER_SECOND, "10"},
        {5 * NS_PER_SECOND / 2, "2.5"},
        {UINT64_C(1796075747535742349), "1796075747.535742349"},
        {UINT64_MAX, "18446744073.709551615"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        text_clear(&page.text);
        page.family = "t";
        exposition_seconds(&page, NO_LABELS, cases[i].ns);
        cr_expect(strncmp(text_string(&page.text), "t ", 2) == 0);
        cr_expect_eq(strncmp(text_string(&page.text) + 2, cases[i].text, strlen(cases[i].text)), 0,
                     "row %zu: %s", i, text_string(&page.text));
        cr_expect_eq(page.text.size, strlen(cases[i].text) + 3, "row %zu", i);
    }
}

static bool has_line(const char *line)
{
    const char *at = strstr(text_string(&page.text), line);

    return at && (at == text_string(&page.text) || at[-1] == '\n') && at[strlen(line)] == '\n';
}

Test(exposition, classes_of_a_histogram_are_cumulative_and_end_with_all)
{
    struct histogram histogram = {0};

    histogram_observe(&histogram, 25 * NS_PER_US);
    histogram_observe(&histogram, 30 * NS_PER_US);
    histogram_observe(&histogram, 90 * NS_PER_SECOND);
    exposition_histogram(&page, "d_seconds", "How long.", &histogram);
    cr_expect(has_line("# TYPE d_seconds histogram"));
    cr_expect(has_line("d_seconds_bucket{le=\"0.000025\"} 1"));
    cr_expect(has_line("d_seconds_bucket{le=\"0.00005\"} 2"));
    cr_expect(has_line("d_seconds_bucket{le=\"2.5\"} 2"));
    cr_expect(has_line("d_seconds_bucket{le=\"60\"} 2"));
    cr_expect(has_line("d_seconds_bucket{le=\"+Inf\"} 3"));
    cr_expect(has_line("d_seconds_sum 90.000055"));
    cr_expect(has_line("d_seconds_count 3"));
    cr_expect_not_null(strstr(text_string(&page.text), "_sum 90.000055\nd_seconds_count 3\n"));
}
