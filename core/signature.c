#include "core/signature.h"

#include <xxhash.h>

bool file_stamp_equal(const struct file_stamp *a, const struct file_stamp *b)
{
    return a->inode == b->inode && a->size == b->size && a->mtime_ns == b->mtime_ns &&
           a->ctime_ns == b->ctime_ns;
}

bool signature_equal(const struct signature *a, const struct signature *b)
{
    if (a->absent || b->absent)
        return a->absent && b->absent;
    return a->mtime_ns == b->mtime_ns && a->size == b->size && a->revision == b->revision &&
           a->digest == b->digest;
}

uint64_t signature_digest(const void *bytes, size_t size)
{
    return XXH3_64bits(bytes, size);
}

void signature_digest_wide(const void *bytes, size_t size, uint64_t seed, uint64_t ret[2])
{
    XXH128_hash_t hash = XXH3_128bits_withSeed(bytes, size, seed);

    ret[0] = hash.low64;
    ret[1] = hash.high64;
}
