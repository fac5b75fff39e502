/* chaos/netvol/lowlevel.h - libfuse's low-level interface, in the one version that all files use.
 */
#ifndef MEMSYNC_CHAOS_LOWLEVEL_H
#define MEMSYNC_CHAOS_LOWLEVEL_H

#define FUSE_USE_VERSION 312
#include <fuse_lowlevel.h>

#endif
