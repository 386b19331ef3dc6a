"""Prints as JSON the Python packages that the charm in the folder argv[1] declares outside requirements.txt."""
import ast
import glob
import json
import os
import sys

root = sys.argv[1]
lines, missing, local = [], [], []


def poetry_requirement(name, version):
    """Returns a dependency of Poetry's table as a requirement. Upper bounds are omitted; the resolver chooses."""
    if isinstance(version, dict):
        version = version.get("version", "*")
    if not isinstance(version, str) or version == "*":
        return name
    if version[0] in "^~" and not version.startswith("~="):
        return name + ">=" + version[1:]
    return name + ("==" + version if version[0].isdigit() else version)


def pyproject_requirements(path):
    """Returns the requirements that a pyproject.toml declares."""
    try:
        import tomllib
    except ImportError:  # before Python 3.11
        from pip._vendor import tomli as tomllib
    with open(path, "rb") as file:
        data = tomllib.load(file)
    tool = data.get("tool", {})
    found = list(data.get("project", {}).get("dependencies", []))
    poetry = tool.get("poetry", {}).get("dependencies", {})
    found += [poetry_requirement(name, version) for name, version in poetry.items() if name != "python"]
    # A source of uv replaces the package index for one dependency.
    for name, source in tool.get("uv", {}).get("sources", {}).items():
        if not isinstance(source, dict) or "path" not in source:
            continue
        path = os.path.abspath(os.path.join(root, source["path"]))
        if os.path.exists(path):
            local.append(path)
            found = [line for line in found if package_name(line) != package_name(name)] + [path]
        else:
            missing.append([name, source["path"]])
    return found


def package_name(line):
    """Returns the package name of a requirement, normalised as package indexes compare names."""
    end = next((i for i, c in enumerate(line) if not (c.isalnum() or c in "-_.")), len(line))
    return line[:end].lower().replace("_", "-").replace(".", "-")


if not os.path.exists(os.path.join(root, "requirements.txt")):
    path = os.path.join(root, "pyproject.toml")
    if os.path.exists(path):
        lines += pyproject_requirements(path)

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
