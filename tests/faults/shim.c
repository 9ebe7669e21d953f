/* Between the program and the C library: has the n-th call of a kind fail.
 *
 *   FAULT_CALL   write, read, sync, rename, mkdir, open, truncate, opendir, send, recv, connect
 *   FAULT_NTH    which of them, from 1
 *   FAULT_THEN   "on": all that follow fail too; otherwise only this one
 *   FAULT_ERRNO  the number of the error; 0: half of the bytes are written or read
 *   FAULT_UNTIL  instead of failing, the call waits until there is this file
 *   FAULT_WHERE  count only calls on files below this directory; "stdio": on standard output and standard error;
 *                "sockets": on sockets of the network
 *   FAULT_FIRED  a file that is made when a call has failed
 *
 * Calls that do not go through the C library's functions are not reached: what the C library does inside itself, and
 * raw system calls.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { GO_ON = 0, FAIL = 1, SHORT = 2 };

static const char *call_wanted, *where, *fired, *until;
static long nth, then_on, error_wanted;
static atomic_long seen;

__attribute__((constructor)) static void start(void) {
    const char *text;
    call_wanted = getenv("FAULT_CALL");
    where = getenv("FAULT_WHERE");
    fired = getenv("FAULT_FIRED");
    until = getenv("FAULT_UNTIL");
    nth = (text = getenv("FAULT_NTH")) ? atol(text) : 0;
    error_wanted = (text = getenv("FAULT_ERRNO")) ? atol(text) : 0;
    then_on = (text = getenv("FAULT_THEN")) && !strcmp(text, "on");
}

static int is_call(const char *call) { return call_wanted && where && nth > 0 && !strcmp(call, call_wanted); }

/* Counts a call that is one of those, and says what becomes of it. */
static int count(void) {
    long number = atomic_fetch_add(&seen, 1) + 1;
    if (number < nth || (number > nth && !then_on)) return GO_ON;
    if (fired) {
        long fd = syscall(SYS_openat, AT_FDCWD, fired, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        if (fd >= 0) syscall(SYS_close, fd);
    }
    if (until) {
        while (syscall(SYS_faccessat, AT_FDCWD, until, F_OK) != 0) usleep(10000);
        return GO_ON;
    }
    if (error_wanted == 0) return SHORT;
    errno = (int)error_wanted;
    return FAIL;
}

static int is_below(const char *path) {
    size_t length = strlen(where);
    return !strncmp(path, where, length) && (path[length] == '/' || path[length] == 0);
}

static int by_fd(const char *call, int fd) {
    char link[64], path[4096];
    int error = errno, is_meant;
    if (!is_call(call)) return GO_ON;
    if (!strcmp(where, "stdio")) {
        is_meant = fd == 1 || fd == 2;
    } else if (!strcmp(where, "sockets")) {
        /* Of the network: what a program sends to itself, such as the news of a signal, never fails. */
        int family = 0;
        socklen_t size = sizeof family;
        is_meant = syscall(SYS_getsockopt, fd, SOL_SOCKET, SO_DOMAIN, &family, &size) == 0;
        is_meant = is_meant && (family == AF_INET || family == AF_INET6);
    } else {
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        long length = syscall(SYS_readlinkat, AT_FDCWD, link, path, sizeof path - 1);
        is_meant = length > 0;
        if (is_meant) {
            path[length] = 0;
            is_meant = is_below(path);
        }
    }
    errno = error;
    return is_meant ? count() : GO_ON;
}

static int by_path(const char *call, const char *path) {
    char whole[8192], folder[4000];
    int error = errno;
    if (!is_call(call) || !path) return GO_ON;
    if (path[0] != '/' && syscall(SYS_getcwd, folder, sizeof folder) > 0) {
        snprintf(whole, sizeof whole, "%s/%s", folder, path);
        path = whole;
    }
    errno = error;
    return is_below(path) ? count() : GO_ON;
}

#define REAL(name, type, ...)                                                                                         \
    static type (*real)(__VA_ARGS__);                                                                                 \
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, #name)

#define BYTES(call, name, type, bytes_t, offset_arg, ...)                                                             \
    ssize_t name(int fd, bytes_t bytes, size_t size __VA_ARGS__) {                                                    \
        REAL(name, ssize_t, int, bytes_t, size_t __VA_ARGS__);                                                        \
        int what = by_fd(call, fd);                                                                                   \
        if (what == FAIL) return -1;                                                                                  \
        return real(fd, bytes, what == SHORT && size > 1 ? size / 2 : size offset_arg);                               \
    }

#define COMMA ,
BYTES("write", write, ssize_t, const void *, )
BYTES("read", read, ssize_t, void *, )
BYTES("write", pwrite, ssize_t, const void *, COMMA offset, , off_t offset)
BYTES("write", pwrite64, ssize_t, const void *, COMMA offset, , off64_t offset)
BYTES("read", pread, ssize_t, void *, COMMA offset, , off_t offset)
BYTES("read", pread64, ssize_t, void *, COMMA offset, , off64_t offset)
BYTES("send", send, ssize_t, const void *, COMMA flags, , int flags)
BYTES("recv", recv, ssize_t, void *, COMMA flags, , int flags)

ssize_t writev(int fd, const struct iovec *parts, int count_of) {
    REAL(writev, ssize_t, int, const struct iovec *, int);
    int is_socket_call = is_call("send");
    int what = is_socket_call ? by_fd("send", fd) : by_fd("write", fd);
    if (what == FAIL) return -1;
    return real(fd, parts, what == SHORT && count_of > 1 ? count_of / 2 : count_of);
}

ssize_t readv(int fd, const struct iovec *parts, int count_of) {
    REAL(readv, ssize_t, int, const struct iovec *, int);
    int is_socket_call = is_call("recv");
    int what = is_socket_call ? by_fd("recv", fd) : by_fd("read", fd);
    if (what == FAIL) return -1;
    return real(fd, parts, what == SHORT && count_of > 1 ? count_of / 2 : count_of);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
    REAL(sendmsg, ssize_t, int, const struct msghdr *, int);
    return by_fd("send", fd) == FAIL ? -1 : real(fd, message, flags);
}

ssize_t sendto(int fd, const void *bytes, size_t size, int flags, const struct sockaddr *to, socklen_t length) {
    REAL(sendto, ssize_t, int, const void *, size_t, int, const struct sockaddr *, socklen_t);
    return by_fd("send", fd) == FAIL ? -1 : real(fd, bytes, size, flags, to, length);
}

ssize_t recvfrom(int fd, void *bytes, size_t size, int flags, struct sockaddr *from, socklen_t *length) {
    REAL(recvfrom, ssize_t, int, void *, size_t, int, struct sockaddr *, socklen_t *);
    return by_fd("recv", fd) == FAIL ? -1 : real(fd, bytes, size, flags, from, length);
}

ssize_t recvmsg(int fd, struct msghdr *message, int flags) {
    REAL(recvmsg, ssize_t, int, struct msghdr *, int);
    return by_fd("recv", fd) == FAIL ? -1 : real(fd, message, flags);
}

int connect(int fd, const struct sockaddr *to, socklen_t length) {
    REAL(connect, int, int, const struct sockaddr *, socklen_t);
    return by_fd("connect", fd) == FAIL ? -1 : real(fd, to, length);
}

#define ON_FD(call, name, type, ...)                                                                                  \
    int name(int fd __VA_ARGS__) {                                                                                    \
        REAL(name, int, int __VA_ARGS__);                                                                             \
        return by_fd(call, fd) == FAIL ? -1 : real(fd type);                                                          \
    }

ON_FD("sync", fsync, )
ON_FD("sync", fdatasync, )
ON_FD("sync", syncfs, )
ON_FD("truncate", ftruncate, COMMA length, , off_t length)
ON_FD("truncate", ftruncate64, COMMA length, , off64_t length)

int rename(const char *from, const char *to) {
    REAL(rename, int, const char *, const char *);
    return by_path("rename", to) == FAIL ? -1 : real(from, to);
}

int renameat(int from_folder, const char *from, int to_folder, const char *to) {
    REAL(renameat, int, int, const char *, int, const char *);
    int what = to_folder == AT_FDCWD ? by_path("rename", to) : by_fd("rename", to_folder);
    return what == FAIL ? -1 : real(from_folder, from, to_folder, to);
}

int renameat2(int from_folder, const char *from, int to_folder, const char *to, unsigned flags) {
    REAL(renameat2, int, int, const char *, int, const char *, unsigned);
    int what = to_folder == AT_FDCWD ? by_path("rename", to) : by_fd("rename", to_folder);
    return what == FAIL ? -1 : real(from_folder, from, to_folder, to, flags);
}

int linkat(int from_folder, const char *from, int to_folder, const char *to, int flags) {
    REAL(linkat, int, int, const char *, int, const char *, int);
    int what = to_folder == AT_FDCWD ? by_path("rename", to) : by_fd("rename", to_folder);
    return what == FAIL ? -1 : real(from_folder, from, to_folder, to, flags);
}

int mkdir(const char *path, mode_t mode) {
    REAL(mkdir, int, const char *, mode_t);
    return by_path("mkdir", path) == FAIL ? -1 : real(path, mode);
}

int mkdirat(int folder, const char *path, mode_t mode) {
    REAL(mkdirat, int, int, const char *, mode_t);
    int what = folder == AT_FDCWD ? by_path("mkdir", path) : by_fd("mkdir", folder);
    return what == FAIL ? -1 : real(folder, path, mode);
}

DIR *opendir(const char *path) {
    REAL(opendir, DIR *, const char *);
    return by_path("opendir", path) == FAIL ? NULL : real(path);
}

#define MODE                                                                                                          \
    mode_t mode = 0;                                                                                                  \
    if (flags & (O_CREAT | O_TMPFILE)) {                                                                              \
        va_list more;                                                                                                 \
        va_start(more, flags);                                                                                        \
        mode = va_arg(more, mode_t);                                                                                  \
        va_end(more);                                                                                                 \
    }

#define OPEN(name)                                                                                                    \
    int name(const char *path, int flags, ...) {                                                                      \
        REAL(name, int, const char *, int, ...);                                                                      \
        MODE return by_path("open", path) == FAIL ? -1 : real(path, flags, mode);                                     \
    }

#define OPENAT(name)                                                                                                  \
    int name(int folder, const char *path, int flags, ...) {                                                          \
        REAL(name, int, int, const char *, int, ...);                                                                 \
        MODE int what = folder == AT_FDCWD ? by_path("open", path) : by_fd("open", folder);                           \
        return what == FAIL ? -1 : real(folder, path, flags, mode);                                                   \
    }

OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)
