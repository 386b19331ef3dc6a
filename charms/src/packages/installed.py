"""Compares the packages that are installed in argv[1] with the requirements of charm libraries.

argv[2] holds, as JSON, the requirements of each library, and the constraints that pin versions. Prints as JSON a pin
for each package that is installed or constrained, the requirements whose package is missing, and those of which another
version is installed: library, requirement, name and version. Run by a Python that has pip, which contains `packaging`.
"""
import json
import re
import sys
from importlib.metadata import distributions

from pip._vendor.packaging.requirements import InvalidRequirement, Requirement


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def pin(found):
    """Returns the constraint that keeps an installed package: its version, or the source that it came from."""
    direct = json.loads(found.read_text("direct_url.json") or "{}")
    url, vcs = direct.get("url"), direct.get("vcs_info", {})
    if vcs:
        url = f"{vcs['vcs']}+{url}@{vcs['commit_id']}"
    return found.metadata["Name"] + (f" @ {url}" if url else f"=={found.version}")


libraries, constraints = json.loads(sys.argv[2])
installed = {normal(found.metadata["Name"]): found for found in distributions(path=[sys.argv[1]])}
missing, conflicts = [], []
for library, lines in libraries:
    for line in lines:
        try:
            required = Requirement(line)
        except InvalidRequirement:
            missing.append(line)
            continue
        if required.marker and not required.marker.evaluate():
            continue
        found = installed.get(normal(required.name))
        if found is None:
            missing.append(line)
        elif not required.specifier.contains(found.version, prereleases=True):
            conflict = {"library": library, "requirement": line}
            conflicts.append(conflict | {"name": required.name, "version": found.version})
        elif required.extras:
            missing.append(line)
pins = [pin(found) for _, found in sorted(installed.items())]
pins += [line for line in constraints if normal(re.match(r"[\w.-]*", line).group()) not in installed]
print(json.dumps({"pins": pins, "missing": sorted(set(missing)), "conflicts": conflicts}))
