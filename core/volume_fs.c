/* Which file systems are known, and what they let us believe. */
#include "core/volume_private.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

/* The magic numbers as statfs(2) tells them; several are in no public header. */
static const struct {
    uint32_t type;
    enum volume_kind kind;
    const char *name;
} known[] = {
    {0x0000ef53, VOLUME_LOCAL, "ext4"},     {0x58465342, VOLUME_LOCAL, "xfs"},
    {0x9123683e, VOLUME_LOCAL, "btrfs"},    {0x01021994, VOLUME_LOCAL, "tmpfs"},
    {0x794c7630, VOLUME_LOCAL, "overlay"},  {0xf2f52010, VOLUME_LOCAL, "f2fs"},
    {0x2fc12fc1, VOLUME_LOCAL, "zfs"},      {0xca451a4e, VOLUME_LOCAL, "bcachefs"},
    {0x73717368, VOLUME_LOCAL, "squashfs"}, {0x858458f6, VOLUME_LOCAL, "ramfs"},
    {0xe0f5e1e2, VOLUME_LOCAL, "erofs"},    {0x3153464a, VOLUME_LOCAL, "jfs"},
    {0x52654973, VOLUME_LOCAL, "reiserfs"}, {0x00003434, VOLUME_LOCAL, "nilfs2"},
    {0x00009660, VOLUME_LOCAL, "iso9660"},  {0x0000f15f, VOLUME_LOCAL, "ecryptfs"},
    {0x00006969, VOLUME_CLUSTER, "nfs"},    {0x00c36400, VOLUME_CLUSTER, "ceph"},
    {0x7461636f, VOLUME_CLUSTER, "ocfs2"},  {0x01161970, VOLUME_CLUSTER, "gfs2"},
    {0x0bd00bd0, VOLUME_CLUSTER, "lustre"}, {0x47504653, VOLUME_CLUSTER, "gpfs"},
    {0x5346414f, VOLUME_CLUSTER, "afs"},    {0x6b414653, VOLUME_CLUSTER, "afs"},
    {0x19830326, VOLUME_CLUSTER, "beegfs"}, {0xaad7aaea, VOLUME_CLUSTER, "panfs"},
    {0x65735546, VOLUME_UNKNOWN, "fuse"},   {0x0000517b, VOLUME_UNKNOWN, "smb"},
    {0xff534d42, VOLUME_UNKNOWN, "cifs"},   {0xfe534d42, VOLUME_UNKNOWN, "smb2"},
    {0x01021997, VOLUME_UNKNOWN, "9p"},     {0x786f4256, VOLUME_UNKNOWN, "vboxsf"},
};

enum volume_kind volume_kind_of_fs(uint32_t type, char ret_name[VOLUME_FS_NAME_SIZE])
{
    for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
        if (known[i].type == type) {
            (void) snprintf(ret_name, VOLUME_FS_NAME_SIZE, "%s", known[i].name);
            return known[i].kind;
        }
    }
    (void) snprintf(ret_name, VOLUME_FS_NAME_SIZE, "0x%x", type);
    return VOLUME_UNKNOWN;
}

const char *volume_kind_name(enum volume_kind kind)
{
    switch (kind) {
    case VOLUME_LOCAL:
        return "local";
    case VOLUME_CLUSTER:
        return "cluster";
    case VOLUME_UNKNOWN:
        break;
    }
    return "unknown";
}
