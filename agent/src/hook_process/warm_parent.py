# The warm parent of a Python charm (docs/explanation/warm-dispatch.md).
#
# pintle-agent writes this file as sitecustomize.py into a folder of its own, and puts that folder first in PYTHONPATH when
# it starts the program of the charm. Python imports sitecustomize before it runs the program. This process imports the
# modules that the program imports first, and then waits here for requests. For each one it forks: the fork returns from
# this file, and Python runs the program as usual. The parent itself never returns.
#
# The first request forks twice: a child that becomes the shim of the run (pintle-hook --forked), and its child, the hook.
#
# File 3 is the socket to the agent. A request has its length in 4 bytes, then fields that end with a zero byte: the
# program of the shim, the folder of the run, the program of the run, the shell that would wait for the hook or nothing,
# and the environment. Three files come with it: the gate of the shim, the hook lock, and a pipe that the shim keeps open.
# The answers are lines: "ready" or "cold REASON" once, then "started", "stale REASON" or "differs NAME".

import os
import sys

CONTROL = 3
# The shim receives its files as 0 to 5; they are moved through numbers that are certainly free.
FREE = 100
SIGNALS = range(1, 65)
SIGCHLD = 17
AST_ONLY = 0x400
PR_SET_NAME, PR_SET_MM, PR_SET_MM_MAP = 15, 35, 14
CHANGES_FILES = (
    "os.mkdir", "os.rmdir", "os.remove", "os.rename", "os.link", "os.symlink", "os.chmod", "os.chown", "os.truncate", "os.utime",
    "os.setxattr", "os.removexattr",
)
CONNECTS = ("socket.connect", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo", "sqlite3.connect", "os.kill", "os.killpg")
# The time of a file has the resolution of the kernel's timer.
CLOCK_STEP_NS = 10_000_000
STARTS_PROCESSES = ("subprocess.Popen", "os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn")


def answer(text):
    os.write(CONTROL, text.encode("utf-8", "replace").replace(b"\n", b" ")[:1000] + b"\n")


def cold(reason):
    answer("cold " + reason)
    os._exit(0)


class Observer:
    """Notes what happens while the modules of the charm are imported."""

    def __init__(self):
        self.active = False
        self.reason = None
        # what was read, as it was before it was read
        self.paths = {}
        self.variables = set()

    def audit(self, event, args):
        if not self.active:
            return
        if event == "open":
            self.opened(args[0], args[2] or 0)
        elif event in ("os.listdir", "os.scandir"):
            self.read(args[0] or ".")
        elif event in STARTS_PROCESSES:
            self.reason = self.reason or "starts a process"
        elif event in CONNECTS:
            self.reason = self.reason or "calls " + event
        elif event in CHANGES_FILES and not any("__pycache__" in str(path) for path in args[:2]):
            self.reason = self.reason or "changes " + str(args[0])

    def opened(self, path, flags):
        if isinstance(path, int):
            return
        path = os.fsdecode(path)
        if "__pycache__" in path or path.startswith("/dev/"):
            return
        if flags & (os.O_WRONLY | os.O_RDWR):
            self.reason = self.reason or "writes " + path
        else:
            self.read(path)

    def read(self, path):
        if isinstance(path, int):
            return
        path = os.path.abspath(os.fsdecode(path))
        if path.startswith(("/proc/", "/sys/")):
            self.reason = self.reason or "reads " + path
        if path not in self.paths:
            self.paths[path] = signature(path)


def observe_variables(observer):
    """Notes which environment variables are read, until the returned function is called. None means all of them."""
    kind = type(os.environ)
    names = ("__getitem__", "__iter__", "__len__")
    originals = [getattr(kind, name) for name in names]

    def getitem(self, key):
        observer.variables.add(os.fsdecode(key))
        return originals[0](self, key)

    def iterate(self):
        observer.variables.add(None)
        return originals[1](self)

    def length(self):
        observer.variables.add(None)
        return originals[2](self)

    for name, function in zip(names, (getitem, iterate, length)):
        setattr(kind, name, function)
    return lambda: [setattr(kind, name, original) for name, original in zip(names, originals)]


def observe_stat(observer):
    """Notes which files are examined and not opened, until the returned function is called."""
    sets = (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks, os.supports_effective_ids)
    originals = {name: getattr(os, name) for name in ("stat", "lstat", "access", "readlink")}

    def observed(original):
        def call(path, *args, **named):
            if observer.active and isinstance(path, (str, bytes, os.PathLike)):
                examined = os.fsdecode(path)
                if not examined.startswith("/dev/") and "__pycache__" not in examined:
                    observer.read(examined)
            return original(path, *args, **named)

        for functions in sets:
            if original in functions:
                functions.add(call)
        return call

    replaced = {name: observed(original) for name, original in originals.items()}
    for name, call in replaced.items():
        setattr(os, name, call)

    def stop():
        for name, original in originals.items():
            setattr(os, name, original)
            for functions in sets:
                functions.discard(replaced[name])

    return stop


def leading_imports(program):
    """The modules and names that the program imports before it does anything else, in order."""
    with open(program, "rb") as file:
        tree = compile(file.read(), program, "exec", AST_ONLY, True)
    for node in tree.body:
        kind = type(node).__name__
        if kind == "Import":
            for alias in node.names:
                yield alias.name, []
        elif kind == "ImportFrom" and node.level == 0:
            yield node.module, [alias.name for alias in node.names]
        elif kind == "Expr" and type(node.value).__name__ in ("Constant", "Str"):
            pass
        elif kind == "If" and not node.orelse and is_type_checking(node.test):
            pass
        else:
            return


def is_type_checking(test):
    return "TYPE_CHECKING" in (getattr(test, "id", None), getattr(test, "attr", None))


def preload(program):
    """Imports them. The first one that fails ends this: the program fails in the same place. Returns the folder of the
    program, where Python looks for modules first."""
    folder = os.path.dirname(os.path.realpath(program))
    main = sys.modules["__main__"]
    sys.path.insert(0, folder)
    main.__file__ = os.path.join(os.getcwd(), program) if sys.version_info >= (3, 9) else program
    try:
        for module, names in leading_imports(program):
            __import__(module, {"__name__": "__main__"}, None, names)
    except Exception:
        pass
    del main.__file__
    if sys.path[:1] == [folder]:
        del sys.path[0]
    return folder


def process_state():
    """What an import may not change, with the name of each."""
    import _signal

    umask = os.umask(0o22)
    os.umask(umask)
    try:
        os.waitpid(-1, os.WNOHANG)
        children = True
    except ChildProcessError:
        children = False
    return {
        "threads": len(os.listdir("/proc/self/task")),
        "open files": sorted(os.listdir("/proc/self/fd")),
        "child processes": children,
        "the working directory": os.getcwd(),
        "the umask": umask,
        "signal handlers": [_signal.getsignal(number) for number in SIGNALS],
        "blocked signals": _signal.pthread_sigmask(_signal.SIG_BLOCK, []),
        "timers": [_signal.getitimer(number)[1] > 0 or _signal.getitimer(number)[0] > 0 for number in range(3)],
        "environment variables": dict(os.environ),
        "sys.path": list(sys.path),
        "sys.argv": list(sys.argv),
        "standard streams": [sys.stdin, sys.stdout, sys.stderr],
    }


def signature(path, stat=os.stat):
    try:
        found = stat(path)
    except (OSError, ValueError):
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino, found.st_dev, found.st_mode


def holds_random_numbers():
    """Whether a module has a generator of random numbers of its own, whose sequence would be that of each hook."""
    import_of_random = sys.modules.get("random")
    if import_of_random is None:
        return False
    generator, shared = import_of_random.Random, import_of_random._inst
    for module in list(sys.modules.values()):
        for value in list(getattr(module, "__dict__", {}).values()):
            if isinstance(value, generator) and value is not shared and not isinstance(value, import_of_random.SystemRandom):
                return True
    return False


def watched_paths(observer):
    """Every file and folder on which the imported modules depend."""
    paths = set()
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str):
            paths.add(os.path.abspath(file))
    # the folders in which modules were looked for: a new file there may hide or provide one
    paths.update(os.path.abspath(path) for path in sys.path_importer_cache)
    watched = {path: signature(path) for path in paths}
    watched.update(observer.paths)
    # a file comes after its folder: the last one that has changed is named
    return dict(sorted(watched.items()))


def changed_since(watched, start_ns):
    """A path that may have changed after the import has read it: its signature is newer than the import."""
    for path, mark in watched.items():
        if mark is not None and max(mark[:2]) >= start_ns:
            return path
    return None


class Kernel:
    """What the kernel shows of this process: its environment, its arguments and its name."""

    def __init__(self):
        import ctypes

        self.ctypes = ctypes
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.libc.sbrk.restype = self.libc.malloc.restype = ctypes.c_void_p

    def area(self, texts):
        """The first and the last address of these texts, in memory that is never freed."""
        content = b"".join(text + b"\0" for text in texts)
        start = self.libc.malloc(self.ctypes.c_size_t(len(content) or 1))
        self.ctypes.memmove(start, content, len(content))
        return start, start + len(content)

    def show(self, variables=None, arguments=None):
        """Shows these instead of those with which the program was started. False if the kernel refuses."""
        import _struct

        file = os.open("/proc/self/stat", os.O_RDONLY)
        fields = os.read(file, 4096).rpartition(b")")[2].split()
        os.close(file)
        # by their numbers in proc(5), of which the first is field 3
        code_start, code_end, stack, data_start, data_end, heap, args_start, args_end, env_start, env_end = (
            int(fields[number - 3]) for number in (26, 27, 28, 45, 46, 47, 48, 49, 50, 51)
        )
        if variables is not None:
            env_start, env_end = self.area(variables)
        if arguments is not None:
            args_start, args_end = self.area(arguments)
        addresses = (
            code_start, code_end, data_start, data_end, heap, self.libc.sbrk(0), stack, args_start, args_end, env_start, env_end,
        )
        memory = _struct.pack("12QIi", *(addresses + (0, 0, -1)))
        size = self.ctypes.c_ulong(len(memory))
        return self.libc.prctl(PR_SET_MM, self.ctypes.c_ulong(PR_SET_MM_MAP), memory, size, self.ctypes.c_ulong(0)) == 0

    def rename(self, name):
        self.libc.prctl(PR_SET_NAME, name)


class Request:
    def __init__(self, fields, files):
        self.shim, self.run_folder, self.program, self.shell = fields[:4]
        self.variables = fields[4:]
        self.files = files

    def close_files(self):
        for file in self.files:
            os.close(file)

    def environment(self):
        return dict(variable.split(b"=", 1) for variable in self.variables)


def receive(socket):
    """The next request. This process ends if the agent has closed the socket."""
    import _socket

    content, files = b"", b""
    while len(content) < 4 or len(content) < 4 + int.from_bytes(content[:4], "little"):
        part, ancillary = socket.recvmsg(1 << 16, _socket.CMSG_SPACE(12))[:2]
        if not part:
            os._exit(0)
        content += part
        files += b"".join(data for _, _, data in ancillary)
    numbers = [int.from_bytes(files[at : at + 4], sys.byteorder) for at in range(0, len(files), 4)]
    return Request(content[4:].split(b"\0")[:-1], numbers)


def reset_signals():
    import _signal

    for number in SIGNALS:
        try:
            _signal.signal(number, _signal.SIG_DFL)
        except (OSError, ValueError):
            pass


def fork_run(request, kernel):
    """Forks the shim and the hook. Returns True in the hook, once its gate is open, and False in this process."""
    import _signal

    try:
        child = os.fork()
    except OSError:
        # the hook starts as usual
        request.close_files()
        answer("busy")
        return False
    if child != 0:
        request.close_files()
        answer("started")
        return False
    try:
        _signal.signal(SIGCHLD, _signal.SIG_DFL)
        os.setpgid(0, 0)
        output, output_end = os.pipe()
        errors, errors_end = os.pipe()
        start, starter = os.pipe()
        hook = os.fork()
        if hook == 0:
            become_hook(request, kernel, start, (output_end, errors_end))
            return True
        os.setpgid(hook, hook)
        files = request.files + [output, errors, starter]
        for number, file in enumerate(files):
            os.dup2(file, FREE + number)
        for number in range(len(files)):
            os.dup2(FREE + number, number)
        os.closerange(len(files), FREE + len(files))
        arguments = [b"pintle-hook", b"--forked", request.run_folder, request.program, str(hook).encode()]
        os.execve(request.shim, arguments, request.environment())
    except BaseException:
        # the agent finds a run without an outcome
        os._exit(127)


def become_hook(request, kernel, start, outputs):
    try:
        # the shim does the same: whoever is first
        os.setpgid(0, 0)
        null = os.open(os.devnull, os.O_RDONLY)
        for number, file in enumerate((null,) + outputs):
            os.dup2(file, number)
        os.dup2(start, FREE)
        os.closerange(3, FREE)
        variables = request.environment()
        os.environ.clear()
        for name, value in variables.items():
            os.environ[os.fsdecode(name)] = os.fsdecode(value)
        import posix

        posix.environ.clear()
        posix.environ.update(variables)
        if not kernel.show(variables=request.variables) or os.read(FREE, 1) == b"":
            os._exit(127)
        os.close(FREE)
        if request.shell:
            child = os.fork()
            if child != 0:
                wait_as_shell(request, kernel, child)
        if "logging" in sys.modules:
            import time

            # the times of records are relative to the import of the module
            logging = sys.modules["logging"]
            logging._startTime = time.time() if isinstance(logging._startTime, float) else time.time_ns()
    except BaseException:
        os._exit(127)


def wait_as_shell(request, kernel, child):
    """Waits for the program as dash does that runs a script, and ends as dash does."""
    import signal

    reset_signals()
    kernel.show(arguments=[request.shell, request.program])
    kernel.rename(os.path.basename(request.program))
    status = os.waitpid(child, 0)[1]
    if os.WIFEXITED(status):
        os._exit(os.WEXITSTATUS(status))
    number = os.WTERMSIG(status)
    if number not in (signal.SIGINT, signal.SIGPIPE):
        dumped = " (core dumped)" if os.WCOREDUMP(status) else ""
        os.write(2, ((signal.strsignal(number) or "")[:32] + dumped + "\n").encode())
    os._exit(128 + number)


def import_hidden_sitecustomize(own_name, own_folder):
    """Imports the sitecustomize of the host, which this one hides."""
    sys.path.remove(own_folder)
    sys.path_importer_cache.pop(own_folder, None)
    own = sys.modules.pop(own_name)
    try:
        __import__(own_name)
    except Exception:
        pass
    sys.modules.setdefault(own_name, own)


def serve():
    own_folder = os.path.dirname(__file__)
    rest = os.environ.pop("PYTHONPATH").partition(":")[2]
    if rest:
        os.environ["PYTHONPATH"] = rest
    if sys.version_info < (3, 8):
        cold("Python before 3.8")
    import_hidden_sitecustomize(__name__, own_folder)
    import _signal
    import _socket

    kernel, observer = Kernel(), Observer()
    if not kernel.show():
        cold("the kernel does not let a process replace the environment that it shows")
    import time

    variables = {name: os.environ[name] for name in os.environ}
    folder, charm = os.getcwd(), signature(".")[3:]
    sys.addaudithook(observer.audit)
    process_state()
    before = process_state()
    if before["threads"] != 1 or before["child processes"]:
        cold("Python starts a thread or a process before it")
    stop_observing = [observe_variables(observer), observe_stat(observer)]
    start_ns = time.time_ns() - CLOCK_STEP_NS
    observer.active = True
    program_folder = preload(sys.argv[0])
    observer.active = False
    for stop in stop_observing:
        stop()
    observer.paths.setdefault(program_folder, signature(program_folder))
    if observer.reason:
        cold(observer.reason)
    if holds_random_numbers():
        cold("make random numbers of their own")
    after = process_state()
    for name, value in before.items():
        if after[name] != value:
            cold("changes " + name)
    watched = watched_paths(observer)
    changed = changed_since(watched, start_ns)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    # children that have ended need not be waited for
    _signal.signal(SIGCHLD, _signal.SIG_IGN)
    socket = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, CONTROL)
    answer("ready")
    while True:
        request = receive(socket)
        refusal = "stale " + changed if changed else None
        new = {os.fsdecode(name): os.fsdecode(value) for name, value in request.environment().items()}
        if None in observer.variables:
            refusal = "differs os.environ" if new != variables else refusal
        else:
            for name in observer.variables:
                if new.get(name) != variables.get(name):
                    refusal = "differs " + name
        if signature(folder) is None or signature(folder)[3:] != charm:
            refusal = "stale " + folder
        for path, mark in watched.items():
            if signature(path) != mark:
                refusal = "stale " + path
        if refusal:
            request.close_files()
            answer(refusal)
        elif fork_run(request, kernel):
            socket.detach()
            return


try:
    serve()
except BaseException as error:
    # without this the parent would run the charm
    try:
        cold(type(error).__name__ + ": " + str(error))
    finally:
        os._exit(1)
