"""Prints as JSON the Python packages that a charm declares, and the versions that its lock file pins.

argv[1] is the charm's folder; argv[2] is what charmcraft.yaml declares (`PythonRequirements`), as JSON.
Prints {"error": {"file": ..., "text": ...}} instead if a file of the charm cannot be read.
"""
import ast
import glob
import json
import os
import re
import sys

root, build = sys.argv[1], json.loads(sys.argv[2])
reading = "pyproject.toml"  # the file that is being read


def print_unreadable(kind, error, trace):
    """Prints the error that ends this program, with the file in which it occurred."""
    text = str(error) if kind.__name__ in ("TOMLDecodeError", "OSError") else f"{kind.__name__}: {error}"
    print(json.dumps({"error": {"file": reading, "text": text}}))


sys.excepthook = print_unreadable


def normal(name):
    """Returns a package name in the form in which package indexes compare names."""
    return re.sub(r"[-_.]+", "-", name).lower()


def split(line):
    """Returns name, extras, version and marker of a requirement; the name is empty for a path or URL."""
    match = re.match(r"\s*([A-Za-z0-9][\w.-]*)\s*(\[[^\]]*\])?\s*([^;@]*)(?:;(.*))?$", line)
    return [(part or "").strip() for part in match.groups()] if match else ["", "", "", ""]


def text(line):
    """Returns the requirement of the parts that `split` returns."""
    name, extras, version, marker = line
    return name + extras + version + (" ; " + marker if marker else "")


def load(name):
    """Returns a TOML file of the charm; nothing if it does not exist."""
    global reading
    path, reading = os.path.join(root, name), name
    if not os.path.exists(path):
        return {}
    try:
        import tomllib
    except ImportError:  # before Python 3.11
        from pip._vendor import tomli as tomllib
    with open(path, "rb") as file:
        return tomllib.load(file)


def poetry_version(version):
    """Returns a version of Poetry in the form that pip reads. A union has no such form; the resolver chooses."""
    if "|" in version:
        return ""
    bounds = []
    for part in re.findall(r"(?:[\^~<>=!]+\s*)?[^\s,]+", version):
        operator, number = re.match(r"([\^~<>=!]*)\s*(.*)", part).groups()
        if number == "*" and not operator:
            continue
        if operator not in ("^", "~"):
            bounds.append((operator or "==").replace("===", "==") + number)
            continue
        digits = [int(digit) for digit in re.match(r"\d+(?:\.\d+)*", number).group().split(".")]
        if operator == "^":  # up to the next change of the first number that is not zero
            last = next((i for i, digit in enumerate(digits) if digit), len(digits) - 1)
        else:
            last = min(1, len(digits) - 1)
        upper = digits[:last] + [digits[last] + 1]
        bounds.append(f">={number},<{'.'.join(map(str, upper))}")
    return ",".join(bounds).replace("=<", "<=")


def git_url(source, revision):
    return "git+" + source + ("@" + revision if revision else "")


def locked_versions():
    """Returns a constraint for each package of the lock file, by name: a version, or the URL of a fixed source."""
    entries = {}
    if tool != "poetry":
        for package in load("uv.lock").get("package", []):
            source, version = package.get("source", {}), package.get("version")
            if "git" in source:
                url, _, commit = source["git"].partition("#")
                version = " @ " + git_url(url.partition("?")[0], commit)
            elif "url" in source:
                version = " @ " + source["url"]
            elif "registry" in source and version:
                version = "==" + version
            else:
                continue
            marker = " or ".join(f"({marker})" for marker in package.get("resolution-markers", []))
            entries.setdefault(normal(package["name"]), []).append((version, marker))
    if tool != "uv" and not entries:
        for package in load("poetry.lock").get("package", []):
            source, version = package.get("source", {}), "==" + package["version"]
            if source.get("type") == "git":
                version = " @ " + git_url(source["url"], source.get("resolved_reference", ""))
            elif source.get("type") == "url":
                version = " @ " + source["url"]
            elif source.get("type") in ("directory", "file"):
                continue
            marker = package.get("markers", "")
            if isinstance(marker, dict):
                marker = marker.get("main", "")
            entries.setdefault(normal(package["name"]), []).append((version, marker))
    # A package with several versions that no marker tells apart is left to the resolver.
    return {
        name: [name + version + (" ; " + marker if marker else "") for version, marker in found]
        for name, found in entries.items()
        if len(found) == 1 or all(marker for _, marker in found)
    }


def fixed_source(name, extras, source, marker):
    """Returns the requirement of a package from a declared source; None if the package index has it."""
    if not isinstance(source, dict):
        return None
    if "path" in source:
        path = os.path.abspath(os.path.join(root, source["path"]))
        if os.path.exists(path):
            local.append(path)
            return path
        missing.append([name, source["path"]])
    elif normal(name) not in locked and ("git" in source or "url" in source):
        revision = source.get("rev") or source.get("tag") or source.get("branch") or ""
        url = git_url(source["git"], revision) if "git" in source else source["url"]
        return f"{name}{extras} @ {url}" + (" ; " + marker if marker else "")
    return None


def poetry_requirements(dependencies):
    for name, entries in dependencies.items():
        if normal(name) == "python":
            continue
        for entry in entries if isinstance(entries, list) else [entries]:
            entry = {"version": entry} if isinstance(entry, str) else entry
            if entry.get("optional") and not entry.get("extras"):
                continue
            extras = f"[{','.join(entry['extras'])}]" if entry.get("extras") else ""
            markers = [f"({entry['markers']})"] if entry.get("markers") else []
            for bound in filter(None, poetry_version(entry.get("python", "*")).split(",")):
                operator, number = re.match(r"([<>=!~]+)(.*)", bound).groups()
                markers.append(f'python_full_version {operator} "{number}"')
            marker = " and ".join(markers)
            fixed = fixed_source(name, extras, entry, marker)
            yield fixed or text([name, extras, poetry_version(entry.get("version", "*")), marker])


def pyproject_requirements(data):
    """Returns the requirements that pyproject.toml declares for the charm that runs."""
    project, settings = data.get("project", {}), data.get("tool", {})
    groups = data.get("dependency-groups", {})
    found = list(project.get("dependencies", []))
    for extra in build["extras"]:
        found += project.get("optional-dependencies", {}).get(extra, [])

    def group(name, seen=()):
        for line in groups.get(name, []) if name not in seen else []:
            if isinstance(line, str):
                found.append(line)
            else:
                group(line.get("include-group", ""), (*seen, name))

    for name in build["groups"]:
        group(name)
    sources = settings.get("uv", {}).get("sources", {})
    sources = {normal(name): source for name, source in sources.items()}
    for index, line in enumerate(found):
        name, extras, _, marker = split(line)
        found[index] = fixed_source(name, extras, sources.get(normal(name)), marker) or line
    named = {normal(split(line)[0]) for line in found}
    poetry = settings.get("poetry", {})
    for name in ["", *build["groups"]]:
        table = poetry.get("group", {}).get(name, {}) if name else poetry
        table = {key: value for key, value in table.get("dependencies", {}).items() if normal(key) not in named}
        found += poetry_requirements(table)
    return found


def index_options(data):
    """Returns the package indexes that pyproject.toml declares, as lines of a requirements file."""
    settings, found = data.get("tool", {}), []
    uv = settings.get("uv", {})
    for index in uv.get("index", []):
        if not index.get("explicit") and "url" in index:
            found.append(("--index-url " if index.get("default") else "--extra-index-url ") + index["url"])
    found += ["--find-links " + os.path.join(root, path) for path in uv.get("find-links", [])]
    found += ["--no-index"] if uv.get("no-index") else []
    for source in settings.get("poetry", {}).get("source", []):
        if source.get("priority") != "explicit" and "url" in source:
            found.append("--extra-index-url " + source["url"])
    return found


def unmet_python(data):
    """Returns the versions of Python that pyproject.toml requires, if this one is none of them."""
    wanted, own = data.get("project", {}).get("requires-python", ""), sys.version_info[:3]
    for part in wanted.split(","):
        match = re.fullmatch(r"\s*(~=|==|!=|>=|<=|>|<)\s*(\d+(?:\.\d+)*)(\.\*)?\s*", part)
        if not match:  # another form, which uv and Poetry read
            continue
        operator, number = match.group(1), tuple(map(int, match.group(2).split(".")))
        whole = (*number, 0, 0)[:3]
        is_equal = own[: len(number)] == number if match.group(3) else own == whole
        is_met = {
            "==": is_equal,
            "!=": not is_equal,
            "~=": own >= whole and own[: len(number) - 1] == number[:-1],
            ">=": own >= whole,
            ">": own > whole,
            "<=": own <= whole,
            "<": own < whole,
        }
        if not is_met[operator]:
            return wanted
    return ""


def library_requirements():
    """Returns, for each charm library, the packages that it imports: a list called PYDEPS."""
    global reading
    for path in sorted(glob.glob(os.path.join(root, "lib/charms/*/v*/*.py"))):
        reading = os.path.relpath(path, root)
        with open(path, encoding="utf-8") as file:
            try:
                body = ast.parse(file.read()).body
            except (SyntaxError, ValueError):
                continue
        for node in body:
            targets = getattr(node, "targets", [getattr(node, "target", None)])
            if any(getattr(target, "id", "") == "PYDEPS" for target in targets):
                try:
                    lines = ast.literal_eval(node.value)
                except (ValueError, TypeError):
                    continue
                yield [reading, [line for line in lines if isinstance(line, str)]]


tool, missing, local = build["tool"], [], []
has_file = bool(build["files"]) or os.path.exists(os.path.join(root, "requirements.txt"))
# Without requirements files, pip and the uv and Poetry plugins all build from pyproject.toml.
locked = locked_versions() if tool != "pip" or not has_file else {}
pyproject = load("pyproject.toml")
declared = pyproject_requirements(pyproject) if tool != "pip" or not has_file else []
# pyproject.toml lists the packages, unless a requirements file does and no lock file belongs to pyproject.toml.
decides = tool in ("uv", "poetry") or not has_file or bool(locked)
constraints = [line for lines in locked.values() for line in lines]
if not decides:  # its bounds still hold for the packages that the requirements file lists
    bounds = [split(line) for line in declared]
    constraints += [text([name, "", version, marker]) for name, _, version, marker in bounds if name and version]
print(json.dumps({
    "indexes": index_options(pyproject),
    "lines": (declared if decides else []) + build["lines"],
    "use_requirements_txt": has_file and tool not in ("uv", "poetry"),
    "constraints": constraints,
    "libraries": list(library_requirements()),
    "missing": missing if decides else [],
    "local": local,
    "unmet_python": unmet_python(pyproject) if decides else "",
}))
