// The floor of a hook tool's cost: a static program without libc that connects to the unix socket named by its first
// argument, sends the smallest request of hook_client::frame, reads the answer once, and exits with the answer's code.
// It checks nothing, prints nothing, and retries nothing.

#if defined(__x86_64__)
enum { READ = 0, SOCKET = 41, CONNECT = 42, SENDTO = 44, EXIT_GROUP = 231 };
static long system_call(long number, long a, long b, long c, long d) {
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = 0;
    register long r9 __asm__("r9") = 0;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}
__asm__(".globl _start\n_start: xor %ebp, %ebp\nmov %rsp, %rdi\nand $-16, %rsp\ncall begin\n");
#elif defined(__aarch64__)
enum { READ = 63, SOCKET = 198, CONNECT = 203, SENDTO = 206, EXIT_GROUP = 94 };
static long system_call(long number, long a, long b, long c, long d) {
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = 0;
    register long x5 __asm__("x5") = 0;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
    return x0;
}
__asm__(".globl _start\n_start: mov x29, xzr\nmov x30, xzr\nmov x0, sp\nbl begin\n");
#else
#error "Linux on x86_64 or aarch64"
#endif

// Header (magic, version 1, kind 'q', body of 32 bytes); call id; context id, cwd and tool empty; no arguments.
static const unsigned char request[8 + 16 + 4 * 4] = {'P', 'H', 1, 'q', 32};

__attribute__((used, noreturn)) void begin(const long *stack) {
    const char *path = (const char *)stack[2];
    struct {
        unsigned short family;
        char path[108];
    } address = {1, {0}};
    for (int i = 0; path && path[i] && i < 107; i++) {
        ((volatile char *)address.path)[i] = path[i];
    }
    unsigned char answer[256];
    long code = 101;
    long socket = system_call(SOCKET, 1, 1, 0, 0);
    if (system_call(CONNECT, socket, (long)&address, sizeof address, 0) == 0 &&
        system_call(SENDTO, socket, (long)request, sizeof request, 0x4000) == (long)sizeof request &&
        system_call(READ, socket, (long)answer, sizeof answer, 0) > 8) {
        code = answer[8];
    }
    for (;;) {
        system_call(EXIT_GROUP, code, 0, 0, 0);
    }
}
