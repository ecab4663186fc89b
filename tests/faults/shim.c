/* For LD_PRELOAD: counts the calls that change files. At a given call it kills the process, or from then on the disk is full, or it sends a signal.

   A forked process is armed by fault_arm(); a process that is started anew, by the variables FAULT_AT and FAULT_KIND. FAULT_UNDER: only files below
   this folder count. FAULT_ONCE: a file that is removed by the first process that fails, so that no other one does. FAULT_COUNT: a file for the count. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { KILL, FULL, INTERRUPT, TERMINATE };
static long count = 0, at = -1;
static int kind = KILL, failing = 0;
static char under[4096], once[4096];

void fault_arm(long number, int what) { count = 0; at = number; kind = what; failing = 0; }
void fault_once(const char *path) { strncpy(once, path, sizeof once - 1); }
void fault_under(const char *path) { strncpy(under, path, sizeof under - 1); }
long fault_count(void) { return count; }

__attribute__((constructor)) static void start(void) {
    const char *number = getenv("FAULT_AT"), *what = getenv("FAULT_KIND"), *folder = getenv("FAULT_UNDER"), *token = getenv("FAULT_ONCE");
    if (folder) fault_under(folder);
    if (token) fault_once(token);
    if (number && what) fault_arm(atol(number), atoi(what));
}

__attribute__((destructor)) static void end(void) {
    const char *path = getenv("FAULT_COUNT");
    char text[32];
    if (!path || !getenv("FAULT_AT") || !count) return; /* other processes that Python starts write nothing */
    int fd = syscall(SYS_openat, AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, 0644);
    if (fd >= 0 && syscall(SYS_write, fd, text, snprintf(text, sizeof text, "%ld", count)) >= 0) close(fd);
}

static int is_under(const char *path) { return !under[0] || strncmp(path, under, strlen(under)) == 0; }

static int on_disk(int fd) {
    struct stat found;
    char name[64], path[4096];
    if (fstat(fd, &found) || !S_ISREG(found.st_mode)) return 0;
    if (!under[0]) return 1;
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(name, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return is_under(path);
}

/* Returns whether the call must fail. Calls that need no disk space never fail. */
static int step(int takes_room) {
    long now = __atomic_fetch_add(&count, 1, __ATOMIC_SEQ_CST);
    if (at < 0) return 0;
    if (now == at && (!once[0] || syscall(SYS_unlinkat, AT_FDCWD, once, 0) == 0)) {
        failing = 1;
        if (kind == KILL) kill(getpid(), SIGKILL);
        if (kind == INTERRUPT) kill(0, SIGINT); /* as a terminal does: the whole group */
        if (kind == TERMINATE) kill(getpid(), SIGTERM);
    }
    if (kind == FULL && failing && takes_room) { errno = ENOSPC; return 1; }
    return 0;
}

#define REAL(name) ({ static __typeof__(&name) real; if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name); real; })
#define MODE(flags) ({ mode_t m = 0; if ((flags) & O_CREAT) { va_list rest; va_start(rest, flags); m = va_arg(rest, int); va_end(rest); } m; })
#define CREATES(path, flags) ((flags) & O_CREAT && !((flags) & O_DIRECTORY) && is_under(path) && strncmp(path, "/dev/", 5) && step(1))

int open(const char *p, int f, ...) { mode_t m = MODE(f); if (CREATES(p, f)) return -1; return REAL(open)(p, f, m); }
int open64(const char *p, int f, ...) { mode_t m = MODE(f); if (CREATES(p, f)) return -1; return REAL(open64)(p, f, m); }
ssize_t write(int fd, const void *b, size_t n) { if (on_disk(fd) && step(1)) return -1; return REAL(write)(fd, b, n); }
ssize_t pwrite(int fd, const void *b, size_t n, off_t o) { if (on_disk(fd) && step(1)) return -1; return REAL(pwrite)(fd, b, n, o); }
ssize_t pwrite64(int fd, const void *b, size_t n, off64_t o) { if (on_disk(fd) && step(1)) return -1; return REAL(pwrite64)(fd, b, n, o); }
ssize_t writev(int fd, const struct iovec *v, int n) { if (on_disk(fd) && step(1)) return -1; return REAL(writev)(fd, v, n); }
size_t fwrite(const void *b, size_t s, size_t n, FILE *f) { if (on_disk(fileno(f)) && step(1)) return 0; return REAL(fwrite)(b, s, n, f); }
int ftruncate(int fd, off_t n) { if (on_disk(fd) && step(1)) return -1; return REAL(ftruncate)(fd, n); }
int ftruncate64(int fd, off64_t n) { if (on_disk(fd) && step(1)) return -1; return REAL(ftruncate64)(fd, n); }
int posix_fallocate(int fd, off_t o, off_t n) { if (on_disk(fd) && step(1)) return ENOSPC; return REAL(posix_fallocate)(fd, o, n); }
int posix_fallocate64(int fd, off64_t o, off64_t n) { if (on_disk(fd) && step(1)) return ENOSPC; return REAL(posix_fallocate64)(fd, o, n); }
ssize_t sendfile(int o, int i, off_t *p, size_t n);
ssize_t sendfile64(int o, int i, off64_t *p, size_t n);
ssize_t sendfile(int o, int i, off_t *p, size_t n) { if (on_disk(o) && step(1)) return -1; return REAL(sendfile)(o, i, p, n); }
ssize_t sendfile64(int o, int i, off64_t *p, size_t n) { if (on_disk(o) && step(1)) return -1; return REAL(sendfile64)(o, i, p, n); }
int mkdir(const char *p, mode_t m) { if (is_under(p) && step(1)) return -1; return REAL(mkdir)(p, m); }
int rename(const char *a, const char *b) { if (is_under(a)) step(0); return REAL(rename)(a, b); }
int unlink(const char *p) { if (is_under(p)) step(0); return REAL(unlink)(p); }
int rmdir(const char *p) { if (is_under(p)) step(0); return REAL(rmdir)(p); }
int link(const char *a, const char *b) { if (is_under(a) && step(1)) return -1; return REAL(link)(a, b); }
