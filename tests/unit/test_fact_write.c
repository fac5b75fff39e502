#include "core/fact_write.h"
#include "core/json_text.h"
#include "tests/support/files.h"
#include "tests/support/shared.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>

/* Criterion's macros convert, and their strings are not const. */
#pragma GCC diagnostic ignored "-Wconversion"

#define FILE_TIME_NS UINT64_C(1770715800000000000)

/* ---- the files of the peers ---- */

static struct {
    unsigned sound;
    unsigned identical;
} counts;

static void check_file(const char *path, const char *name)
{
    AUTO_TEXT struct text written = {0};
    AUTO_FACT struct fact *fact = NULL;
    AUTO_FACT struct fact *again = NULL;
    struct error error = {0};
    char id[NAME_MAX + 1];
    size_t size;
    AUTO_FREE char *bytes = test_read_file(path, &size);

    (void) snprintf(id, sizeof id, "%.*s", (int) (strlen(name) - strlen(".md")), name);
    if (fact_parse(bytes, size, NULL, id, FILE_TIME_NS, &fact, NULL, NULL) != STATUS_OK)
        return;
    counts.sound++;
    cr_assert(eq(int, fact_write(fact->document, NULL, &written, &error), STATUS_OK), "%s: %s",
              path, error.message);
    cr_assert(eq(int,
                 fact_parse(written.bytes, written.size, NULL, id, FILE_TIME_NS, &again, NULL,
                            &error),
                 STATUS_OK),
              "%s: %s", path, error.message);
    cr_expect(json_equal(fact->document, again->document), "%s", path);
    bool identical = written.size == size && memcmp(written.bytes, bytes, size) == 0;
    counts.identical += identical;
    if (!identical && getenv("SHOW_DIFFERENT"))
        (void) fprintf(stderr, "different: %s\n", path);
}

static int visit(const char *path, const struct stat *status, int type, struct FTW *position)
{
    const char *name = path + position->base;
    size_t length = strlen(name);

    (void) status;
    if (type == FTW_F && length > 3 && strcmp(name + length - 3, ".md") == 0)
        check_file(path, name);
    return 0;
}

Test(fact_write, gives_back_every_sound_file_of_the_shared_volumes)
{
    char root[PATH_MAX];

    if (!shared_is_there())
        return;
    shared_path(root, "volumes");
    cr_assert(eq(int, nftw(root, visit, 16, FTW_PHYS), 0));
    (void) fprintf(stderr, "%u sound facts, %u written to the byte\n", counts.sound,
                   counts.identical);
    cr_expect(counts.sound > 700 && counts.identical > 600);
}
