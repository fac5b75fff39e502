#include "chaos/netvol/listing.h"

#include "core/array.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

static int add_entry(struct listing *listing, const struct dirent *entry)
{
    if (!array_make_room(&listing->entries, listing->count, &listing->capacity,
                         sizeof *listing->entries))
        return ENOMEM;
    char *name = strdup(entry->d_name);
    if (!name)
        return ENOMEM;
    listing->entries[listing->count++] =
        (struct listing_entry){.name = name,
                               .number = entry->d_ino,
                               .type = (mode_t) DTTOIF(entry->d_type)};
    return 0;
}

static int add_all(struct listing *listing, DIR *directory)
{
    int error = 0;

    while (!error) {
        errno = 0;
        const struct dirent *entry = readdir(directory);
        if (!entry)
            return errno;
        error = add_entry(listing, entry);
    }
    return error;
}

int listing_read(int path_fd, struct listing **ret)
{
    int fd = openat(path_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return errno;
    DIR *directory = fdopendir(fd);
    struct listing *listing = calloc(1, sizeof *listing);
    if (!directory || !listing) {
        (void) (directory ? closedir(directory) : close(fd));
        free(listing);
        return ENOMEM;
    }
    atomic_store(&listing->owners, 1);
    int error = add_all(listing, directory);
    (void) closedir(directory);
    if (error)
        listing_drop(&listing);
    else
        *ret = listing;
    return error;
}

struct listing *listing_share(struct listing *listing)
{
    atomic_fetch_add(&listing->owners, 1);
    return listing;
}

void listing_drop(struct listing **listing)
{
    struct listing *dropped = TAKE_PTR(*listing);

    if (!dropped || atomic_fetch_sub(&dropped->owners, 1) > 1)
        return;
    for (size_t i = 0; i < dropped->count; i++)
        free(dropped->entries[i].name);
    free(dropped->entries);
    free(dropped);
}
