/* core/signature.h - a cheap proof that a manifest has not changed.
 *
 * All parts come from one open file, so they describe the same bytes. Time and size alone prove
 * nothing: two commits within the volume's timestamp granularity can share both. Pure, no I/O.
 */
#ifndef MEMSYNC_CORE_SIGNATURE_H
#define MEMSYNC_CORE_SIGNATURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the file system says of one file or directory. */
struct file_stamp {
    uint64_t inode;
    uint64_t size;
    uint64_t mtime_ns; /* the file server's clock, not ours */
    uint64_t ctime_ns;
};

struct signature {
    bool absent; /* there is no manifest; the rest is 0 */
    uint64_t mtime_ns;
    uint64_t size;
    int64_t revision;
    uint64_t digest; /* XXH3 of the bytes: tells equal triples apart */
};

/* A signature and what is kept beside it: equal inode and ctime prove nothing (inode numbers come
 * back), different ones are a reason to look although the signature is equal. */
struct manifest_mark {
    struct signature signature;
    uint64_t inode;
    uint64_t ctime_ns;
};

/* What the rows of a scope were built from. */
struct synced_mark {
    bool known; /* false: never built, or forgotten; the rest is 0, but for the revision, which
                   stays that of the rows */
    struct manifest_mark mark;
};

/* Equal in all parts. */
bool file_stamp_equal(const struct file_stamp *a, const struct file_stamp *b);

/* Equal in all parts; two absent ones are equal. */
bool signature_equal(const struct signature *a, const struct signature *b);

/* XXH3, 64 bits. The hash tables use it as well, and compare their keys: clashes can be made. */
uint64_t signature_digest(const void *bytes, size_t size);

/* 128 bits, different for each seed: for where the hash stands for the bytes. */
void signature_digest_wide(const void *bytes, size_t size, uint64_t seed, uint64_t ret[2]);

#endif
