#include "core/iso_time.h"

#include "core/compiler.h"

#include <criterion/criterion.h>
#include <string.h>

#define SECOND ISO_TIME_SECOND
#define DAY ISO_TIME_DAY
#define AUGUST_13 (20678 * DAY) /* 2026 */

struct row {
    const char *text;
    int64_t time;
};

static bool read_text(const char *text, int64_t *ret)
{
    return iso_time_read(text, strlen(text), ret);
}

Test(iso_time, reads_what_the_peers_read)
{
    static const struct row rows[] = {
        {"1970-01-01T00:00:00Z", 0},
        {"2026-08-13", AUGUST_13},
        {"20260813", AUGUST_13},
        {"2026-W33-4", AUGUST_13},
        {"2026W334", AUGUST_13},
        {"2026-W33", AUGUST_13 - 3 * DAY},
        {"2026-W33T10", AUGUST_13 - 3 * DAY + 36000 * SECOND},
        {"2020-W53-7", 18630 * DAY}, /* the 3rd of January 2021 */
        {"2026-08-13T00:00:00Z", AUGUST_13},
        {"2026-08-13T00:00:00", AUGUST_13},
        {"2026-08-13T10", AUGUST_13 + 36000 * SECOND},
        {"2026-08-13 10:11", AUGUST_13 + 36660 * SECOND},
        {"2026-08-13\xc3\xa9"
         "10:11:12",
         AUGUST_13 + 36672 * SECOND},
        {"20260813T101112", AUGUST_13 + 36672 * SECOND},
        {"2026-08-13T10:11:12.5", AUGUST_13 + 36672 * SECOND + 500000},
        {"2026-08-13T10:11:12,000001Z", AUGUST_13 + 36672 * SECOND + 1},
        {"2026-08-13T10:11:12.1234567Z", AUGUST_13 + 36672 * SECOND + 123456},
        {"2026-08-13T02:00:00+02:00", AUGUST_13},
        {"2026-08-13T02:00:00+02", AUGUST_13},
        {"2026-08-12T19:30:00-0430", AUGUST_13},
        {"2026-08-13T00:00:01.5+00:00:01.5", AUGUST_13},
        {"2024-02-29", 19782 * DAY},
        {"0001-01-01T00:00:00Z", -719162 * DAY},
        {"9999-12-31T23:59:59.999999Z", 2932897 * DAY - 1},
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        int64_t time = -1;
        cr_expect(read_text(rows[i].text, &time), "%s", rows[i].text);
        cr_expect_eq(time, rows[i].time, "%s gave %lld", rows[i].text, (long long) time);
    }
}

Test(iso_time, refuses_all_else_and_leaves_the_answer_alone)
{
    static const char *const texts[] = {
        "",
        "bad",
        "2026",
        "2026-08",
        "2026-8-13",
        "2026-0813",
        "202608-13",
        "2026-02-29",
        "2026-13-01",
        "2026-00-01",
        "2026-01-00",
        "0000-01-01",
        "2026-W00",
        "2026-W54",
        "2025-W53",
        "2026-W33-0",
        "2026-W33-8",
        "0000-W01",
        "2026-08-13T",
        "2026-08-13T1",
        "2026-08-13T24:00:00",
        "2026-08-13T10:60",
        "2026-08-13T10:11:60",
        "2026-08-13T10:1",
        "2026-08-13T10:1112",
        "2026-08-13T1011:12",
        "2026-08-13T10:11:12.",
        "2026-08-13T10:11:12z",
        "2026-08-13T10:11:12Z ",
        "2026-08-13T10:11:12+24:00",
        "2026-08-13T10:11:12+5",
        "2026-08-13T10:11:12+05:60",
        "2026-08-13T10:11:12Z+05",
        "2026-08-13Z",
        " 2026-08-13",
        "-2026-08-13",
    };

    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        int64_t time = 42;
        cr_expect_not(read_text(texts[i], &time), "%s gave %lld", texts[i], (long long) time);
        cr_expect_eq(time, 42, "%s", texts[i]);
    }
}

Test(iso_time, the_size_counts_and_not_a_nul)
{
    int64_t time = 0;

    cr_expect(iso_time_read("2026-08-13T10", 10, &time));
    cr_expect_eq(time, AUGUST_13);
    cr_expect_not(iso_time_read("2026-08-13T10", 12, &time));
    cr_expect_not(iso_time_read("2026-08-13T10:11\0:12", 20, &time));
}
