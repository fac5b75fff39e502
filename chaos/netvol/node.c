#include "chaos/netvol/node.h"

#include "chaos/netvol/handles.h"
#include "chaos/netvol/ops.h"
#include "core/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>

#define THREADS_MAX 256
#define NUDGE_NS (20 * NS_PER_MS)
#define SLICE_NS (100 * NS_PER_MS)
#define DELETED " (deleted)"

static int open_root(struct node *node, const char *backing, uint64_t epoch, struct inode **ret)
{
    int fd = open(backing, O_PATH | O_DIRECTORY | O_CLOEXEC);

    return fd < 0 ? errno : inodes_take(&node->inodes, fd, epoch, ret);
}

int node_init(struct node *node, const char *backing)
{
    struct inode *root = NULL;

    node->ended_fd = -1;
    knobs_init(&node->knobs);
    if (!inodes_init(&node->inodes))
        return ENOMEM;
    int error = open_root(node, backing, 0, &root);
    if (error)
        return error;
    atomic_store(&node->root, root);
    node->ended_fd = eventfd(0, EFD_CLOEXEC);
    return node->ended_fd < 0 ? errno : 0;
}

int node_swap(struct node *node, const char *backing)
{
    struct inode *root = NULL;
    int error = open_root(node, backing, atomic_load(&node->epoch) + 1, &root);

    if (error)
        return error;
    atomic_store(&node->root, root);
    atomic_fetch_add(&node->epoch, 1);
    atomic_store(&node->gone, 0);
    return 0;
}

/* ---- mount and threads ---- */

enum node_mount node_mount(struct node *node, const char *program)
{
    char name[] = "netvol";
    char options[] = "-ofsname=netvol,subtype=netvol";
    char for_all[] = "-oallow_other";
    char *words[] = {name, options, for_all, NULL};
    /* Others than root must be allowed to let others in by a file of the system. */
    struct fuse_args arguments = FUSE_ARGS_INIT(geteuid() == 0 ? 3 : 2, words);
    AUTO_CLOSE int device = open("/dev/fuse", O_RDWR | O_CLOEXEC);

    if (device < 0) {
        (void) fprintf(stderr, "%s: /dev/fuse: %s\n", program, strerror(errno));
        return NODE_NOT_PERMITTED;
    }
    node->session = fuse_session_new(&arguments, &ops_table, sizeof ops_table, node);
    fuse_opt_free_args(&arguments);
    if (!node->session)
        return NODE_FAILED;
    errno = 0;
    if (fuse_session_mount(node->session, node->mountpoint) == 0)
        return NODE_MOUNTED;
    enum node_mount result = errno == EPERM ? NODE_NOT_PERMITTED : NODE_FAILED;
    (void) fprintf(stderr, "%s: cannot mount at %s\n", program, node->mountpoint);
    fuse_session_destroy(TAKE_PTR(node->session));
    return result;
}

static void *serve(void *context)
{
    struct node *node = context;
    struct fuse_loop_config *loop = fuse_loop_cfg_create();

    if (loop) {
        fuse_loop_cfg_set_max_threads(loop, THREADS_MAX);
        fuse_loop_cfg_set_idle_threads(loop, THREADS_MAX);
        (void) fuse_session_loop_mt(node->session, loop);
        fuse_loop_cfg_destroy(loop);
    }
    atomic_store(&node->ended, true);
    (void) eventfd_write(node->ended_fd, 1);
    return NULL;
}

static void on_nudge(int signal_number)
{
    (void) signal_number;
}

int node_start(struct node *node)
{
    const struct sigaction nudge = {.sa_handler = on_nudge}; /* interrupts what waits */

    if (sigaction(SIGUSR1, &nudge, NULL) < 0)
        return errno;
    int error = pthread_create(&node->thread, NULL, serve, node);
    if (error)
        node->thread = 0;
    return error;
}

/* The loop waits for a semaphore and looks whether it is over when a signal wakes it; it may have
 * looked just before. */
static void end_thread(struct node *node)
{
    atomic_store(&node->stopping, true);
    fuse_session_exit(node->session);
    while (!atomic_load(&node->ended)) {
        const struct timespec pause = {.tv_nsec = (long) NUDGE_NS};
        (void) pthread_kill(node->thread, SIGUSR1);
        (void) nanosleep(&pause, NULL);
    }
    (void) pthread_join(node->thread, NULL);
    node->thread = 0;
}

void node_close(struct node *node)
{
    if (node->thread)
        end_thread(node);
    if (node->session) {
        fuse_session_unmount(node->session);
        fuse_session_destroy(TAKE_PTR(node->session));
    }
    handles_close_all(node);
    if (node->inodes.buckets)
        inodes_destroy(&node->inodes);
    cleanup_close(&node->ended_fd);
    node->ended_fd = -1;
}

/* ---- what operations need ---- */

void node_sleep(const struct node *node, uint64_t ns)
{
    static _Thread_local bool exact;

    /* Else the kernel lets each sleep take 50 us longer. */
    if (!exact)
        exact = prctl(PR_SET_TIMERSLACK, 1) == 0;
    while (ns > 0 && !atomic_load(&node->stopping)) {
        uint64_t slice = ns < SLICE_NS ? ns : SLICE_NS;
        struct timespec left = {.tv_nsec = (long) slice};
        while (nanosleep(&left, &left) < 0 && errno == EINTR)
            ;
        ns -= slice;
    }
}

bool node_is_stale(const struct node *node, const struct inode *inode)
{
    struct stat info;

    return inode->epoch != atomic_load(&node->epoch) || fstat(inode->fd, &info) < 0 ||
           info.st_nlink == 0;
}

struct inode *node_inode(struct node *node, fuse_ino_t number)
{
    union {
        fuse_ino_t number;
        struct inode *inode;
    } both = {.number = number};

    return number == FUSE_ROOT_ID ? atomic_load(&node->root) : both.inode;
}

void node_forget(struct node *node, struct inode *inode, uint64_t lookups)
{
    /* The kernel never looks the root up. */
    inodes_forget(&node->inodes, inode, lookups);
}

static size_t read_path(const struct inode *inode, char ret[PATH_MAX])
{
    char link[INODE_PATH_SIZE];

    inode_path(inode, link);
    ssize_t length = readlink(link, ret, PATH_MAX - 1);
    ret[length < 0 ? 0 : length] = '\0';
    return length < 0 ? 0 : (size_t) length;
}

void node_path(const struct node *node, const struct inode *inode, const char *name,
               struct text *ret)
{
    char root[PATH_MAX];
    char path[PATH_MAX];
    size_t root_length = read_path(atomic_load(&node->root), root);
    size_t length = read_path(inode, path);
    const char *below = path;

    if (length >= root_length && strncmp(path, root, root_length) == 0 &&
        (!path[root_length] || path[root_length] == '/'))
        below = path[root_length] ? path + root_length + 1 : "";
    length = strlen(below);
    if (length > strlen(DELETED) && strcmp(below + length - strlen(DELETED), DELETED) == 0)
        length -= strlen(DELETED);
    text_append(ret, below, length);
    if (name && length > 0)
        text_append_char(ret, '/');
    text_append_string(ret, name ? name : "");
    if (ret->size == 0)
        text_append_char(ret, '.');
}
