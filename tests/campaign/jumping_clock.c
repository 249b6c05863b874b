/* Loaded before the C library: the time of day jumps by up to a day, back or forth, at each tenth time that it is asked
   for. Clocks that only run forward are left alone. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static long offset(void) {
    static _Thread_local unsigned seed = 7, asked;
    static _Thread_local long now;
    if (asked++ % 10 == 0) now = rand_r(&seed) % (2 * 86400) - 86400;
    return now;
}

int clock_gettime(clockid_t clock, struct timespec *out) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int status = real(clock, out);
    if (status == 0 && clock == CLOCK_REALTIME) out->tv_sec += offset();
    return status;
}

int gettimeofday(struct timeval *restrict out, void *restrict zone) {
    struct timespec now;
    int status = clock_gettime(CLOCK_REALTIME, &now);
    out->tv_sec = now.tv_sec;
    out->tv_usec = now.tv_nsec / 1000;
    return status;
}

time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}
