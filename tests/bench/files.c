/* The floor of a build: lists a tree and reads every file in it.
 *
 *     files DIRECTORY
 *
 * One thread, directories in the order in which they are listed. */
#include "tests/support/files.h"
#include "core/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static size_t read_file(const char *path)
{
    char bytes[65536];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = fd < 0 ? -1 : read(fd, bytes, sizeof bytes);

    if (size < 0)
        test_die("cannot read %s: %s", path, strerror(errno));
    (void) close(fd);
    return (size_t) size;
}

int main(int argc, char **argv)
{
    size_t files = 0;
    size_t bytes = 0;

    if (argc != 2) {
        (void) fprintf(stderr, "usage: files DIRECTORY\n");
        return 2;
    }
    uint64_t begun_ns = clock_monotonic_ns();
    char *const roots[] = {argv[1], NULL};
    FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR | FTS_NOSTAT, NULL);
    if (!tree)
        test_die("cannot walk %s: %s", argv[1], strerror(errno));
    for (const FTSENT *entry = fts_read(tree); entry; entry = fts_read(tree)) {
        if (entry->fts_info != FTS_F && entry->fts_info != FTS_NSOK)
            continue;
        bytes += read_file(entry->fts_accpath);
        files++;
    }
    (void) fts_close(tree);
    double seconds = (double) (clock_monotonic_ns() - begun_ns) / (double) NS_PER_SECOND;
    (void) printf("{\"files\": %zu, \"bytes\": %zu, \"files_per_second\": %.0f}\n", files, bytes,
                  (double) files / seconds);
    return 0;
}
