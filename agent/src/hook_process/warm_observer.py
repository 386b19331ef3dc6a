# What a warm parent observes while it imports the modules of a charm (docs/explanation/warm-dispatch.md): everything that a
# fork would not repeat, so that the charm runs without a warm parent, and everything that the modules have read, so that a
# parent is not used any more once that has changed.
#
# This is the first part of the program of the warm parent; warm_parent.py is the second.

import os
import sys

SIGNALS = range(1, 65)
AST_ONLY = 0x400
CHANGES_FILES = (
    "os.mkdir", "os.rmdir", "os.remove", "os.rename", "os.link", "os.symlink", "os.chmod", "os.chown", "os.truncate", "os.utime",
    "os.setxattr", "os.removexattr",
)
CONNECTS = (
    "socket.connect", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr",
    "sqlite3.connect", "os.kill", "os.killpg",
)
# The time of a file has the resolution of the kernel's timer.
CLOCK_STEP_NS = 10_000_000
STARTS_PROCESSES = ("subprocess.Popen", "os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn")
# What the C library reads: users, groups, and the time zone.
READ_BY_LIBC = ("/etc/passwd", "/etc/group", "/etc/localtime")
# The variables that Python and the C library read when they start.
READ_AT_START = ("PATH", "HOME", "TZ", "LANG", "LANGUAGE", "MALLOC_ARENA_MAX", "GLIBC_TUNABLES", "OPENSSL_CONF")
READ_AT_START_BEGINNINGS = ("LC_", "LD_", "PYTHON", "SSL_CERT_")
# The lines of /proc/self/status that an import may not change.
STATUS = ("Uid", "Gid", "Groups", "VmLck", "SigIgn", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp")
# The modules whose random numbers are keys within one process, and with which those of multiprocessing recognise each other.
MAKE_KEYS = ("multiprocessing.process", "opentelemetry.context")
# The index in the state of Python's generator of random numbers that has made none yet.
UNUSED_GENERATOR = 624


class Observer:
    """Notes what happens while the modules of the charm are imported."""

    def __init__(self):
        self.active = False
        self.reason = None
        # what was read, as it was before it was read
        self.paths = {}
        self.variables = set()

    def refuse(self, reason):
        self.reason = self.reason or reason

    def audit(self, event, args):
        if not self.active:
            return
        if event == "open":
            self.opened(args[0], args[2] or 0)
        elif event in ("os.listdir", "os.scandir"):
            self.read(args[0] or ".")
        elif event in STARTS_PROCESSES:
            self.refuse("starts a process")
        elif event in CONNECTS:
            self.refuse("calls " + event)
        elif event == "sys.addaudithook":
            self.refuse("observes what Python does")
        elif event in CHANGES_FILES and not any("__pycache__" in str(path) for path in args[:2]):
            self.refuse("changes " + str(args[0]))

    def opened(self, path, flags):
        if isinstance(path, int):
            return
        path = os.fsdecode(path)
        if "__pycache__" in path or path.startswith("/dev/"):
            return
        if flags & (os.O_WRONLY | os.O_RDWR):
            self.refuse("writes " + path)
        else:
            self.read(path)

    def read(self, path):
        if isinstance(path, int):
            return
        path = os.path.abspath(os.fsdecode(path))
        if path.startswith(("/proc/", "/sys/")):
            self.refuse("reads " + path)
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


class Replaced:
    """Functions of Python that are replaced by observed ones, until `restore` is called."""

    def __init__(self):
        self.originals = []
        self.observed = {}

    def replace(self, module, name, observed_of):
        original = getattr(module, name, None)
        if original is not None:
            observed = observed_of(original)
            self.observed[observed] = original
            self.originals.append((module, name, original))
            setattr(module, name, observed)

    def replace_copies(self):
        """Also in the modules that have imported a function by its name: files of the host (.pth) import some before."""
        copies = {original: observed for observed, original in self.observed.items()}
        self.exchange(type(len), copies, [module for name, module in sys.modules.items() if name not in ("posix", "time")])

    def restore(self):
        for module, name, original in self.originals:
            setattr(module, name, original)
        self.exchange(type(signature), self.observed, sys.modules.values())

    @staticmethod
    def exchange(kind, copies, modules):
        for module in list(modules):
            names = getattr(module, "__dict__", {})
            for name, value in list(names.items()):
                if type(value) is kind and value in copies:
                    names[name] = copies[value]


def observe_stat(observer, replaced):
    """Notes which files are examined and not opened."""
    sets = (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks, os.supports_effective_ids)

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

    for name in ("stat", "lstat", "access", "readlink"):
        replaced.replace(os, name, observed)

    def stop():
        for functions in sets:
            functions.difference_update(replaced.observed)

    return stop


def observe_calls(observer, replaced, time):
    """Notes which functions are called whose results belong to one process."""
    library = os.path.dirname(os.__file__)

    def is_of_python(file):
        return file.startswith(library + "/") and not file.startswith((library + "/site-packages/", library + "/dist-packages/"))

    def refused(reason, excepted):
        def observed(original):
            def call(*args, **named):
                if observer.active:
                    caller = sys._getframe(1)
                    while caller.f_back and caller.f_globals.get("__name__") in ("uuid", "secrets"):
                        caller = caller.f_back
                    if not excepted(caller.f_globals.get("__name__"), caller.f_code.co_filename):
                        observer.refuse(reason)
                return original(*args, **named)

            return call

        return observed

    nothing = refused("reads the number of its process", lambda name, file: False)
    replaced.replace(os, "getpid", nothing)
    replaced.replace(os, "getppid", nothing)
    random = refused("makes random numbers", lambda name, file: name in MAKE_KEYS)
    replaced.replace(os, "urandom", random)
    replaced.replace(os, "getrandom", random)
    # corrected in each hook
    clock = refused("notes the time", lambda name, file: name == "logging")
    for name in ("time", "monotonic", "perf_counter"):
        replaced.replace(time, name, clock)
        replaced.replace(time, name + "_ns", clock)
    # those of Python only renew locks and random numbers
    handlers = refused("registers a handler of forks", lambda name, file: is_of_python(file))
    replaced.replace(os, "register_at_fork", handlers)


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


def shown(name):
    """A file of this process in /proc. None if the kernel has none."""
    try:
        file = os.open("/proc/self/" + name, os.O_RDONLY)
    except OSError:
        return None
    content = b""
    while True:
        part = os.read(file, 1 << 16)
        if not part:
            os.close(file)
            return content
        content += part


def open_files():
    """The numbers of the open files, with what each of them is."""
    found = {}
    for number in os.listdir("/proc/self/fd"):
        try:
            found[int(number)] = os.readlink("/proc/self/fd/" + number)
        except OSError:
            # the folder itself
            pass
    return found


def shared_memory():
    """The parts of the memory that a fork would share."""
    lines = [line.split(None, 5) for line in shown("maps").splitlines()]
    return [(line[0], line[-1]) for line in lines if line[1][1:2] == b"w" and line[1][3:4] == b"s"]


def process_state(signal):
    """What an import may not change, with the name of each."""
    umask = os.umask(0o22)
    os.umask(umask)
    try:
        os.waitpid(-1, os.WNOHANG)
        children = True
    except ChildProcessError:
        children = False
    status = dict(line.partition(b":")[::2] for line in shown("status").splitlines())
    return {
        "threads": len(os.listdir("/proc/self/task")),
        "open files": open_files(),
        "child processes": children,
        "the working directory": os.getcwd(),
        "the umask": umask,
        "signal handlers": [signal.getsignal(number) for number in SIGNALS],
        "blocked signals": signal.pthread_sigmask(signal.SIG_BLOCK, []),
        "timers": (
            [signal.getitimer(number)[1] > 0 or signal.getitimer(number)[0] > 0 for number in range(3)],
            shown("timers"),
        ),
        "environment variables": dict(os.environ),
        "sys.path": list(sys.path),
        "sys.argv": list(sys.argv),
        "standard streams": [sys.stdin, sys.stdout, sys.stderr],
        "shared memory": shared_memory(),
        "limits": shown("limits"),
        "the process": (
            [status.get(name.encode()) for name in STATUS],
            [shown(name) for name in ("cmdline", "environ", "comm", "cgroup", "oom_score_adj")],
            os.readlink("/proc/self/root"),
            (os.getpgid(0), os.getsid(0)),
        ),
        "priorities": (os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0), os.sched_getaffinity(0)),
    }


def signature(path, stat=os.stat):
    try:
        found = stat(path)
    except (OSError, ValueError):
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino, found.st_dev, found.st_mode


def holds_random_numbers():
    """Whether the modules have made random numbers, or have a generator of their own, whose sequence would be that of each
    hook."""
    # it has a generator that no fork renews
    if "numpy.random" in sys.modules:
        return True
    random = sys.modules.get("random")
    if random is None:
        return False
    if random._inst.getstate()[1][-1] != UNUSED_GENERATOR:
        return True
    import gc

    generators = [value for value in gc.get_objects() if issubclass(type(value), random.Random)]
    return any(value is not random._inst and not isinstance(value, random.SystemRandom) for value in generators)


def imports_usercustomize():
    """Whether Python imports another module before the program: it would be imported too late."""
    site = sys.modules.get("site")
    if site is None or not site.ENABLE_USER_SITE:
        return False
    names = ("usercustomize.py", "usercustomize")
    return any(os.path.exists(os.path.join(folder, name)) for folder in sys.path for name in names)


def watched_paths(observer):
    """Every file and folder on which the imported modules depend."""
    paths = set(READ_BY_LIBC)
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


def is_read_at_start(name):
    return name in READ_AT_START or name.startswith(READ_AT_START_BEGINNINGS)
