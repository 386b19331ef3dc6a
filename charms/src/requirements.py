"""Prints, as JSON, the Python packages that the charm in the folder argv[1] declares beyond its requirements.txt."""
import ast
import glob
import json
import os
import sys

root = sys.argv[1]
lines, missing, local = [], [], []


def caret(name, wanted):
    """A dependency of poetry's table as a requirement; its upper bounds are left to the resolver."""
    if isinstance(wanted, dict):
        wanted = wanted.get("version", "*")
    if not isinstance(wanted, str) or wanted == "*":
        return name
    if wanted[0] in "^~" and not wanted.startswith("~="):
        return name + ">=" + wanted[1:]
    return name + ("==" + wanted if wanted[0].isdigit() else wanted)


def pyproject(path):
    try:
        import tomllib
    except ImportError:  # before Python 3.11
        from pip._vendor import tomli as tomllib
    with open(path, "rb") as file:
        data = tomllib.load(file)
    tool = data.get("tool", {})
    found = list(data.get("project", {}).get("dependencies", []))
    poetry = tool.get("poetry", {}).get("dependencies", {})
    found += [caret(name, wanted) for name, wanted in poetry.items() if name != "python"]
    # A source of uv names the place a dependency comes from instead of the package index.
    for name, source in tool.get("uv", {}).get("sources", {}).items():
        if not isinstance(source, dict) or "path" not in source:
            continue
        path = os.path.abspath(os.path.join(root, source["path"]))
        if os.path.exists(path):
            local.append(path)
            found = [line for line in found if bare(line) != bare(name)] + [path]
        else:
            missing.append([name, source["path"]])
    return found


def bare(line):
    """The name a requirement begins with, as indexes compare names."""
    end = next((i for i, c in enumerate(line) if not (c.isalnum() or c in "-_.")), len(line))
    return line[:end].lower().replace("_", "-").replace(".", "-")


if not os.path.exists(os.path.join(root, "requirements.txt")):
    path = os.path.join(root, "pyproject.toml")
    if os.path.exists(path):
        lines += pyproject(path)

# Charm libraries declare what they import in a list called PYDEPS.
for path in sorted(glob.glob(os.path.join(root, "lib/charms/*/v*/*.py"))):
    with open(path, encoding="utf-8") as file:
        try:
            body = ast.parse(file.read()).body
        except SyntaxError:
            continue
    for node in body:
        if isinstance(node, ast.Assign) and any(getattr(t, "id", "") == "PYDEPS" for t in node.targets):
            lines += [line for line in ast.literal_eval(node.value) if line not in lines]

print(json.dumps({"lines": lines, "missing": missing, "local": local}))
