#include "core/index_mapping.h"

#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

static _Thread_local volatile sig_atomic_t has_lost;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static uintptr_t page_size;

static uintptr_t page_of(uintptr_t address)
{
    return address & ~(page_size - 1);
}

/* Code that is not there any more cannot go on, whatever lies in its place. */
static bool is_code(uintptr_t page, const ucontext_t *context)
{
#if defined(__x86_64__)
    return page == page_of((uintptr_t) context->uc_mcontext.gregs[REG_RIP]);
#elif defined(__aarch64__)
    return page == page_of((uintptr_t) context->uc_mcontext.pc);
#else
    (void) context;
    return page == 0;
#endif
}

/* mmap() is a bare system call, so a handler may make it. The signal comes again where nothing was
 * done about it, and ends the process then. */
static void put_zeros(int number, siginfo_t *info, void *context)
{
    uintptr_t page = page_of((uintptr_t) info->si_addr);

    if (info->si_code == BUS_ADRERR && !is_code(page, context) &&
        mmap((void *) page, page_size, PROT_READ | PROT_WRITE, // NOLINT(performance-no-int-to-ptr)
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED)
        has_lost = 1;
    else
        (void) signal(number, SIG_DFL);
}

static void take_signal(void)
{
    struct sigaction action = {.sa_sigaction = put_zeros, .sa_flags = SA_SIGINFO};

    page_size = (uintptr_t) sysconf(_SC_PAGESIZE);
    (void) sigemptyset(&action.sa_mask);
    (void) sigaction(SIGBUS, &action, NULL); /* fails only for numbers that are no signals */
}

void index_mapping_guard(void)
{
    (void) pthread_once(&once, take_signal);
}

bool index_mapping_has_lost(void)
{
    return has_lost != 0;
}

void index_mapping_forget(void)
{
    has_lost = 0;
}
