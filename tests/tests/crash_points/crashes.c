/* Loaded into every program of a Pintle under test; acts in agents and the controller only. One that finds a
   file $PINTLE_CRASHES/<tag>.<n> (the tag of a unit: its folder's name; of any machine: machine; controller) takes
   the first one and kills itself with SIGKILL at the call it names: "fdatasync 3 before" is the third
   fdatasync, not done; "after" is the same call, done. Each file is one crash: a program that is started again takes
   the next one, or does not crash. When it crashes it leaves <tag>.<n>.crashed.
   Nothing is loaded into the shim of a hook, which is static: its agent takes shim-<tag of the unit>.<n> for it and starts
   it under strace, which kills it before its n-th system call of this name, and leaves <tag>.<n>.trace. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define CRASHES_MAX 16
#define SHIM_WORDS_MAX 8

static char file[PATH_MAX], call[16], when[8];
static int left;

/* Takes the next crash with this tag: its file, and what the file says. */
static int take_next(const char *tag, char *file, char *call, int *left, char *when) {
    char *dir = getenv("PINTLE_CRASHES");
    for (int n = 1; dir && n <= CRASHES_MAX; n++) {
        char taken[PATH_MAX + 8];
        snprintf(file, PATH_MAX, "%s%s.%d", dir, tag, n);
        snprintf(taken, sizeof taken, "%s.taken", file);
        if (syscall(SYS_rename, file, taken)) continue;
        FILE *point = fopen(taken, "r");
        if (!point || fscanf(point, "%15s %d %7s", call, left, when) != 3) abort();
        fclose(point);
        return 1;
    }
    return 0;
}

__attribute__((constructor)) static void take(void) {
    char line[2 * PATH_MAX] = {0};
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read(fd, line, sizeof line - 1);
    if (fd >= 0) close(fd);
    /* pintle-agent unit --dir FOLDER, pintle-agent machine --data FOLDER, pintle-controller --data FOLDER */
    char *words[4] = {0};
    for (int i = 0, at = 0; i < 4 && at < length; i++, at += (int)strlen(line + at) + 1) words[i] = line + at;
    if (!words[2]) return;
    char *name = strrchr(words[0], '/'), *tag = 0;
    if (name && !strcmp(name, "/pintle-controller")) tag = "/controller";
    else if (!strcmp(words[1], "machine")) tag = "/machine";
    else if (!strcmp(words[1], "unit") && words[3]) tag = strrchr(words[3], '/');
    if (tag) take_next(tag, file, call, &left, when);
}

static void crash(void) {
    char crashed[PATH_MAX + 8];
    snprintf(crashed, sizeof crashed, "%s.crashed", file);
    syscall(SYS_close, syscall(SYS_openat, AT_FDCWD, crashed, O_CREAT | O_WRONLY, 0600));
    kill(getpid(), SIGKILL);
}

/* True: this is the call, and the program crashes after it. The controller's threads call at once. */
static int meet(const char *name) {
    if (!left || strcmp(name, call) || __atomic_sub_fetch(&left, 1, __ATOMIC_SEQ_CST)) return 0;
    if (!strcmp(when, "before")) crash();
    return 1;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define DO(name, real)                                                                                            \
    int now = meet(name);                                                                                         \
    __auto_type result = real;                                                                                    \
    if (now) crash();                                                                                               \
    return result

int fsync(int fd) { DO("fsync", REAL(fsync)(fd)); }
int fdatasync(int fd) { DO("fdatasync", REAL(fdatasync)(fd)); }
int rename(const char *from, const char *to) { DO("rename", REAL(rename)(from, to)); }
int renameat2(int in, const char *from, int at, const char *to, unsigned flags) {
    DO("rename", REAL(renameat2)(in, from, at, to, flags));
}

/* pintle-hook --shim FOLDER/hooks/RUN PROGRAM */
int posix_spawnp(pid_t *pid, const char *program, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *how,
                 char *const words[], char *const environment[]) {
    char folder[PATH_MAX], tag[NAME_MAX], file[PATH_MAX], call[16], when[8], trace[PATH_MAX + 8], inject[64];
    int number;
    if (!words[0] || !words[1] || strcmp(words[1], "--shim"))
        return REAL(posix_spawnp)(pid, program, actions, how, words, environment);
    snprintf(folder, sizeof folder, "%s", words[2]);
    char *hooks = strstr(folder, "/hooks/");
    if (!hooks) abort();
    *hooks = 0;
    snprintf(tag, sizeof tag, "/shim-%s", strrchr(folder, '/') + 1);
    if (!take_next(tag, file, call, &number, when))
        return REAL(posix_spawnp)(pid, program, actions, how, words, environment);
    snprintf(trace, sizeof trace, "%s.trace", file);
    snprintf(inject, sizeof inject, "inject=%s:signal=KILL:when=%d", call, number);
    /* -D: the shim is the process that is started, not strace */
    char *traced[SHIM_WORDS_MAX + 8] = {"strace", "-D", "-o", trace, "-e", inject};
    for (int i = 0; words[i]; i++)
        if (i == SHIM_WORDS_MAX) abort();
        else traced[6 + i] = words[i];
    return REAL(posix_spawnp)(pid, "strace", actions, how, traced, environment);
}

/* The temporary file of an atomic write: its name ends in random digits. */
static int end_is_open(const char *name) { return name[strlen(name) - 1] == '.'; }

/* What is written where: send = to the controller or by it, answer = to a hook's tool; append = to the journal, note = a
   tool's call; log, page, mark = to the store's log, its database, and how far it has come; else nothing that counts. */
static int meet_write(int fd) {
    struct sockaddr_storage own;
    socklen_t size = sizeof own;
    char link[32], path[PATH_MAX] = {0};
    if (!left) return 0;
    if (!getsockname(fd, (struct sockaddr *)&own, &size)) return meet(own.ss_family == AF_UNIX ? "answer" : "send");
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    char *name = length > 0 ? strrchr(path, '/') : 0;
    static const char *const files[][2] = {{"/journal.yaml", "append"}, {"/calls.yaml", "note"},
        {"/store.sqlite-wal", "log"}, {"/store.sqlite", "page"}, {"/generation.yaml", "mark"}};
    for (size_t i = 0; name && i < sizeof files / sizeof *files; i++)
        if (!strcmp(name, files[i][0]) || (end_is_open(files[i][0]) && !strncmp(name, files[i][0], strlen(files[i][0]))))
            return meet(files[i][1]);
    return 0;
}

#define WRITE(real)                                                                                               \
    int now = meet_write(fd);                                                                                     \
    ssize_t result = real;                                                                                        \
    if (now) crash();                                                                                               \
    return result

ssize_t write(int fd, const void *bytes, size_t size) { WRITE(REAL(write)(fd, bytes, size)); }
ssize_t send(int fd, const void *bytes, size_t size, int flags) { WRITE(REAL(send)(fd, bytes, size, flags)); }
ssize_t writev(int fd, const struct iovec *parts, int count) { WRITE(REAL(writev)(fd, parts, count)); }
ssize_t pwrite64(int fd, const void *bytes, size_t size, off64_t at) { WRITE(REAL(pwrite64)(fd, bytes, size, at)); }
