/* For LD_PRELOAD: counts the calls that change files. At a given call it kills the process, or from then on the disk is full. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static long count = 0, at = -1;
static int full = 0; /* 0: kill, 1: the disk is full */

void fault_arm(long number, int kind) { count = 0; at = number; full = kind; }
long fault_count(void) { return count; }

static int on_disk(int fd) {
    struct stat found;
    return fstat(fd, &found) == 0 && S_ISREG(found.st_mode);
}

/* Returns whether the call must fail. Calls that need no disk space never fail. */
static int step(int takes_room) {
    long now = count++;
    if (at < 0) return 0;
    if (!full && now == at) kill(getpid(), SIGKILL);
    if (full && now >= at && takes_room) { errno = ENOSPC; return 1; }
    return 0;
}

#define REAL(name) ({ static __typeof__(&name) real; if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name); real; })

ssize_t write(int fd, const void *b, size_t n) { if (on_disk(fd) && step(1)) return -1; return REAL(write)(fd, b, n); }
ssize_t pwrite(int fd, const void *b, size_t n, off_t o) { if (step(1)) return -1; return REAL(pwrite)(fd, b, n, o); }
ssize_t pwrite64(int fd, const void *b, size_t n, off64_t o) { if (step(1)) return -1; return REAL(pwrite64)(fd, b, n, o); }
ssize_t writev(int fd, const struct iovec *v, int n) { if (on_disk(fd) && step(1)) return -1; return REAL(writev)(fd, v, n); }
size_t fwrite(const void *b, size_t s, size_t n, FILE *f) { if (on_disk(fileno(f)) && step(1)) return 0; return REAL(fwrite)(b, s, n, f); }
int ftruncate(int fd, off_t n) { if (step(1)) return -1; return REAL(ftruncate)(fd, n); }
int ftruncate64(int fd, off64_t n) { if (step(1)) return -1; return REAL(ftruncate64)(fd, n); }
int posix_fallocate(int fd, off_t o, off_t n) { if (step(1)) return ENOSPC; return REAL(posix_fallocate)(fd, o, n); }
int posix_fallocate64(int fd, off64_t o, off64_t n) { if (step(1)) return ENOSPC; return REAL(posix_fallocate64)(fd, o, n); }
ssize_t sendfile(int o, int i, off_t *p, size_t n);
ssize_t sendfile64(int o, int i, off64_t *p, size_t n);
ssize_t sendfile(int o, int i, off_t *p, size_t n) { if (on_disk(o) && step(1)) return -1; return REAL(sendfile)(o, i, p, n); }
ssize_t sendfile64(int o, int i, off64_t *p, size_t n) { if (on_disk(o) && step(1)) return -1; return REAL(sendfile64)(o, i, p, n); }
int mkdir(const char *p, mode_t m) { if (step(1)) return -1; return REAL(mkdir)(p, m); }
int rename(const char *a, const char *b) { step(0); return REAL(rename)(a, b); }
int unlink(const char *p) { step(0); return REAL(unlink)(p); }
int rmdir(const char *p) { step(0); return REAL(rmdir)(p); }
int link(const char *a, const char *b) { if (step(1)) return -1; return REAL(link)(a, b); }
