/* tests/support/child.h - how a process that a test has forked ends. */
#ifndef MEMSYNC_TESTS_CHILD_H
#define MEMSYNC_TESTS_CHILD_H

/* As _exit() does, without what the parent has registered for its own end; but in a build that
 * counts lines, those that the child has run count. */
_Noreturn void child_exit(int code);

#endif
