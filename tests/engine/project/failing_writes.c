/* Makes one write on the file system fail, or all from it on. Loaded with LD_PRELOAD by test_failing_writes.py.
 *
 * FAIL_UNDER  only files whose path begins with this
 * FAIL_AT     number of the first call that fails, from 1 on; 0 fails none
 * FAIL_WITH   errno, such as 28 (ENOSPC) or 5 (EIO)
 * FAIL_ONCE   1: only that call; 0: all later ones too, as on a disk that stays full
 * FAIL_COUNT  a file that gets one byte a call, so that the calls of a run can be counted
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static atomic_long calls;

static int under(const char *path) {
    const char *prefix = getenv("FAIL_UNDER");
    return prefix && *prefix && strncmp(path, prefix, strlen(prefix)) == 0;
}

/* Whether this call fails; errno is then set. */
static int fails(const char *path) {
    if (!under(path)) return 0;
    const char *at = getenv("FAIL_AT"), *with = getenv("FAIL_WITH"), *once = getenv("FAIL_ONCE");
    const char *count = getenv("FAIL_COUNT");
    if (count) {
        int file = open(count, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        if (file >= 0) {
            (void)!syscall(SYS_write, file, ".", 1);
            close(file);
        }
    }
    long first = at ? atol(at) : 0, number = ++calls;
    if (!first || number < first || (number > first && once && *once == '1')) return 0;
    errno = with ? atoi(with) : ENOSPC;
    return 1;
}

static int fails_fd(int fd) {
    char link[64], path[PATH_MAX];
    int saved = errno;
    if (fd <= 2) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    errno = saved;
    if (length < 0) return 0;
    path[length] = 0;
    return fails(path);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define WRAP(type, name, parameters, arguments, fd) \
    type name parameters { return fails_fd(fd) ? -1 : REAL(name) arguments; }

WRAP(ssize_t, write, (int fd, const void *data, size_t size), (fd, data, size), fd)
WRAP(ssize_t, pwrite, (int fd, const void *data, size_t size, off_t at), (fd, data, size, at), fd)
WRAP(ssize_t, pwrite64, (int fd, const void *data, size_t size, off64_t at), (fd, data, size, at), fd)
WRAP(ssize_t, writev, (int fd, const struct iovec *data, int count), (fd, data, count), fd)
WRAP(int, fsync, (int fd), (fd), fd)
WRAP(int, fdatasync, (int fd), (fd), fd)
WRAP(int, ftruncate, (int fd, off_t size), (fd, size), fd)
WRAP(int, ftruncate64, (int fd, off64_t size), (fd, size), fd)

int rename(const char *from, const char *to) { return fails(to) ? -1 : REAL(rename)(from, to); }
