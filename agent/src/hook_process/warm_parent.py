# The warm parent of a Python charm (docs/explanation/warm-dispatch.md).
#
# pintle-agent writes this file, after warm_observer.py, as sitecustomize.py into a folder of its own, and puts that folder
# first in PYTHONPATH when it starts the program of the charm. Python imports sitecustomize before it runs the program. This
# process imports the modules that the program imports first, and then waits here for requests. For each one it forks: the
# fork returns from this file, and Python runs the program as usual. The parent itself never returns.
#
# The first request forks twice: a child that becomes the shim of the run (pintle-hook --forked), and its child, the hook.
#
# File 3 is the socket to the agent. A request has its length in 4 bytes, then fields that end with a zero byte: the
# program of the shim, the folder of the run, the program of the run, the shell that would wait for the hook or nothing,
# and the environment. One file comes with it: the socket of the run, whose other end the agent has. The answers are lines:
# "ready" or "cold REASON" once, then "started", "stale REASON" or "differs NAME".
#
# The handlers that libraries have registered for a fork run in the child and in the hook, and may never return
# (agent/src/hook_process/hand_off.rs). Once they have returned, the child writes FORKED into the socket of the run and gets
# the gate of the shim and the hook lock from it, and the hook writes HOOK_WAITS. The shim keeps the socket open.

CONTROL = 3
# The shim receives its files as 0 to 5; they are moved through numbers that are certainly free.
FREE = 100
SIGCHLD = 17
PR_SET_NAME, PR_SET_MM, PR_SET_MM_MAP = 15, 35, 14
FORKED, HOOK_WAITS = b"f", b"h"


def answer(text):
    os.write(CONTROL, text.encode("utf-8", "replace").replace(b"\n", b" ")[:1000] + b"\n")


def cold(reason):
    answer("cold " + reason)
    os._exit(0)


class Modules:
    """The modules of Python that this file needs. The charm sees those only that it imports itself."""

    def __init__(self):
        before, importers = set(sys.modules), set(sys.path_importer_cache)
        import _signal
        import _socket
        import _struct
        import ctypes
        import posix
        import time

        self.signal, self.socket, self.struct, self.ctypes = _signal, _socket, _struct, ctypes
        self.posix, self.time = posix, time
        for name in set(sys.modules) - before:
            del sys.modules[name]
        for path in set(sys.path_importer_cache) - importers:
            del sys.path_importer_cache[path]


class Kernel:
    """What the kernel shows of this process: its environment, its arguments and its name."""

    def __init__(self, modules):
        ctypes = modules.ctypes
        self.ctypes = ctypes
        self.pack = modules.struct.pack
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
        fields = shown("stat").rpartition(b")")[2].split()
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
        memory = self.pack("12QIi", *(addresses + (0, 0, -1)))
        size = self.ctypes.c_ulong(len(memory))
        return self.libc.prctl(PR_SET_MM, self.ctypes.c_ulong(PR_SET_MM_MAP), memory, size, self.ctypes.c_ulong(0)) == 0

    def rename(self, name):
        self.libc.prctl(PR_SET_NAME, name)


class Request:
    def __init__(self, fields, run):
        self.shim, self.run_folder, self.program, self.shell = fields[:4]
        self.variables = fields[4:]
        # the socket of the run
        self.run = run

    def environment(self):
        return dict(variable.split(b"=", 1) for variable in self.variables)


def receive_files(message, count):
    """The part of a message that has arrived, and up to this number of files that came with it."""
    content, ancillary = message
    numbers = b"".join(data for _, _, data in ancillary)
    return content, [int.from_bytes(numbers[at : at + 4], sys.byteorder) for at in range(0, len(numbers), 4)][:count]


def receive(socket, modules):
    """The next request. This process ends if the agent has closed the socket."""
    content, files = b"", []
    while len(content) < 4 or len(content) < 4 + int.from_bytes(content[:4], "little"):
        part, more = receive_files(socket.recvmsg(1 << 16, modules.socket.CMSG_SPACE(4))[:2], 1)
        if not part:
            os._exit(0)
        content += part
        files += more
    return Request(content[4:].split(b"\0")[:-1], files[0] if files else None)


def receive_run(run, modules):
    """The gate of the shim and the hook lock. This process ends if the agent has closed the socket of the run."""
    socket = modules.socket.socket(modules.socket.AF_UNIX, modules.socket.SOCK_STREAM, 0, run)
    content, files = receive_files(socket.recvmsg(1, modules.socket.CMSG_SPACE(8))[:2], 2)
    socket.detach()
    if not content or len(files) != 2:
        os._exit(127)
    return files


def reset_signals(modules):
    for number in SIGNALS:
        try:
            modules.signal.signal(number, modules.signal.SIG_DFL)
        except (OSError, ValueError):
            pass


def fork_run(request, kernel, modules):
    """Forks the shim and the hook. Returns True in the hook, once its gate is open, and False in this process."""
    try:
        child = os.fork()
    except OSError:
        # the hook starts as usual
        os.close(request.run)
        answer("busy")
        return False
    if child != 0:
        os.close(request.run)
        answer("started")
        return False
    try:
        modules.signal.signal(SIGCHLD, modules.signal.SIG_DFL)
        os.setpgid(0, 0)
        output, output_end = os.pipe()
        errors, errors_end = os.pipe()
        start, starter = os.pipe()
        hook = os.fork()
        if hook == 0:
            become_hook(request, kernel, modules, start, (output_end, errors_end))
            return True
        os.setpgid(hook, hook)
        os.write(request.run, FORKED)
        files = receive_run(request.run, modules) + [request.run, output, errors, starter]
        for number, file in enumerate(files):
            os.dup2(file, FREE + number)
        for number in range(len(files)):
            os.dup2(FREE + number, number)
        os.closerange(len(files), FREE + len(files))
        arguments = [b"pintle-hook", b"--forked", request.run_folder, request.program, str(hook).encode()]
        os.execve(request.shim, arguments, request.environment())
    except BaseException:
        # the agent starts the hook as usual
        os._exit(127)


def become_hook(request, kernel, modules, start, outputs):
    try:
        # the shim does the same: whoever is first
        os.setpgid(0, 0)
        null = os.open(os.devnull, os.O_RDONLY)
        for number, file in enumerate((null,) + outputs):
            os.dup2(file, number)
        os.dup2(start, FREE)
        os.dup2(request.run, FREE + 1)
        os.closerange(3, FREE)
        variables = request.environment()
        os.environ.clear()
        for name, value in variables.items():
            os.environ[os.fsdecode(name)] = os.fsdecode(value)
        modules.posix.environ.clear()
        modules.posix.environ.update(variables)
        # a process that a handler of this fork delays is found by the environment of the parent
        if request.shell:
            waits, waiter = os.pipe()
            child = os.fork()
            if child != 0:
                wait_as_shell(request, kernel, modules, child, (FREE, FREE + 1, waits, waiter))
            # the process that stands for the shell closes it when its own handlers have returned
            os.close(waiter)
            os.read(waits, 1)
            os.close(waits)
        if not kernel.show(variables=request.variables):
            os._exit(127)
        os.write(FREE + 1, HOOK_WAITS)
        os.close(FREE + 1)
        if os.read(FREE, 1) == b"":
            os._exit(127)
        os.close(FREE)
        if "logging" in sys.modules:
            # the times of records are relative to the import of the module
            logging = sys.modules["logging"]
            logging._startTime = modules.time.time() if isinstance(logging._startTime, float) else modules.time.time_ns()
        if "threading" in sys.modules:
            # up to Python 3.12 the number is that of the parent
            main_thread = sys.modules["threading"].main_thread()
            if hasattr(main_thread, "_set_native_id"):
                main_thread._set_native_id()
    except BaseException:
        os._exit(127)


def wait_as_shell(request, kernel, modules, child, files):
    """Waits for the program as dash does that runs a script, and ends as dash does."""
    reset_signals(modules)
    kernel.show(variables=request.variables, arguments=[request.shell, request.program])
    kernel.rename(os.path.basename(request.program))
    for file in files:
        os.close(file)
    status = os.waitpid(child, 0)[1]
    if os.WIFEXITED(status):
        os._exit(os.WEXITSTATUS(status))
    number = os.WTERMSIG(status)
    if number not in (modules.signal.SIGINT, modules.signal.SIGPIPE):
        dumped = " (core dumped)" if os.WCOREDUMP(status) else ""
        os.write(2, ((modules.signal.strsignal(number) or "")[:32] + dumped + "\n").encode())
    os._exit(128 + number)


def import_hidden_sitecustomize():
    """Imports the sitecustomize of the host, which this one hides. False if there is none."""
    own_folder = os.path.dirname(__file__)
    sys.path.remove(own_folder)
    sys.path_importer_cache.pop(own_folder, None)
    del sys.modules[__name__]
    try:
        __import__(__name__)
    except ImportError as error:
        if error.name != __name__:
            cold("sitecustomize: " + str(error))
        return False
    except Exception as error:
        cold("sitecustomize: " + str(error))
    return True


def serve():
    """Returns in a hook only: whether the host has a sitecustomize."""
    rest = os.environ.pop("PYTHONPATH").partition(":")[2]
    if rest:
        os.environ["PYTHONPATH"] = rest
    if sys.version_info < (3, 8):
        cold("Python before 3.8")
    modules = Modules()
    kernel, observer, replaced = Kernel(modules), Observer(), Replaced()
    if not kernel.show():
        cold("the kernel does not let a process replace the environment that it shows")
    variables = {name: os.environ[name] for name in os.environ}
    folder, charm, host = os.getcwd(), signature(".")[3:], os.uname()
    sys.addaudithook(observer.audit)
    process_state(modules.signal)
    before = process_state(modules.signal)
    if before["threads"] != 1 or before["child processes"]:
        cold("Python starts a thread or a process before it")
    if set(before["open files"]) != {0, 1, 2, CONTROL}:
        cold("Python opens a file before it")
    stop_observing = [observe_variables(observer), observe_stat(observer, replaced)]
    observe_calls(observer, replaced, modules.time)
    replaced.replace_copies()
    start_ns = modules.time.time_ns() - CLOCK_STEP_NS
    observer.active = True
    has_sitecustomize = import_hidden_sitecustomize()
    before["sys.path"] = list(sys.path)
    program_folder = preload(sys.argv[0])
    observer.active = False
    for stop in stop_observing + [replaced.restore]:
        stop()
    observer.paths.setdefault(program_folder, signature(program_folder))
    if observer.reason:
        cold(observer.reason)
    if holds_random_numbers():
        cold("make random numbers of their own")
    if imports_usercustomize():
        cold("Python imports usercustomize")
    after = process_state(modules.signal)
    for name, value in before.items():
        if after[name] != value:
            cold("changes " + name)
    watched = watched_paths(observer)
    changed = changed_since(watched, start_ns)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    # children that have ended need not be waited for
    modules.signal.signal(SIGCHLD, modules.signal.SIG_IGN)
    socket = modules.socket.socket(modules.socket.AF_UNIX, modules.socket.SOCK_STREAM, 0, CONTROL)
    answer("ready")
    while True:
        request = receive(socket, modules)
        refusal = "stale " + changed if changed else None
        new = {os.fsdecode(name): os.fsdecode(value) for name, value in request.environment().items()}
        for name in set(variables) | set(new):
            if is_read_at_start(name) and new.get(name) != variables.get(name):
                refusal = "stale " + name
        if os.uname() != host:
            refusal = "stale the name of the host"
        if None in observer.variables:
            refusal = "differs os.environ" if new != variables else refusal
        else:
            for name in observer.variables:
                if new.get(name) != variables.get(name):
                    refusal = ("stale " if name in variables else "differs ") + name
        if signature(folder) is None or signature(folder)[3:] != charm:
            refusal = "stale " + folder
        for path, mark in watched.items():
            if signature(path) != mark:
                refusal = "stale " + path
        if refusal:
            if request.run is not None:
                os.close(request.run)
            answer(refusal)
        elif fork_run(request, kernel, modules):
            socket.detach()
            return has_sitecustomize


try:
    has_sitecustomize = serve()
except BaseException as error:
    # without this the parent would run the charm
    try:
        cold(type(error).__name__ + ": " + str(error))
    finally:
        os._exit(1)
if not has_sitecustomize:
    # Python continues as if this file did not exist
    raise ImportError(name="sitecustomize")
