"""The licenses of all installed dependencies, as their packages state them.

`python -m tests.licenses > docs/reference/licenses.md` writes the page anew. A test holds that those of the program
itself are known and permissive.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib import metadata

from packaging.requirements import Requirement

PROGRAM = "conversation-workbench"

EXTRAS = ("embed", "train", "formats")
"""What a person may install; `dev` is for tests only."""

PERMITTED = frozenset(
    {
        "0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "BSD", "CC0-1.0", "ISC", "MIT", "MPL-2.0", "PSF-2.0",
        "Public Domain", "Unlicense", "Zlib",
    }
)  # fmt: skip
"""Licenses that let any program use a package; MPL-2.0 asks for the source of changed files of the package only."""

NAMES = {
    "apache 2.0": "Apache-2.0",
    "apache license 2.0": "Apache-2.0",
    "apache license, version 2.0": "Apache-2.0",
    "apache software license": "Apache-2.0",
    "bsd license": "BSD",
    "isc license (iscl)": "ISC",
    "mit license": "MIT",
    "mozilla public license 2.0 (mpl 2.0)": "MPL-2.0",
    "python software foundation license": "PSF-2.0",
    "public domain": "Public Domain",
}
"""Identifiers of SPDX, or the nearest, for what packages write."""

READ = {"hnswlib": "Apache-2.0"}
"""Packages that state no license, with that of the file LICENSE in their source."""


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _required(name: str, extras: tuple[str, ...]) -> Iterator[Requirement]:
    for line in metadata.requires(name) or ():
        one = Requirement(line)
        if one.marker is None or any(one.marker.evaluate({"extra": e}) for e in ("", *extras)):
            yield one


def _needed(extras: tuple[str, ...]) -> list[str]:
    """Names of the installed packages that the program with these extras needs, in alphabetical order."""
    found: set[str] = set()
    waiting = list(_required(PROGRAM, extras))
    while waiting:
        one = waiting.pop()
        name = _normal(one.name)
        if name in found or name == PROGRAM:
            continue
        try:
            metadata.distribution(name)
        except metadata.PackageNotFoundError:  # of another system
            continue
        found.add(name)
        waiting.extend(_required(name, tuple(one.extras)))
    return sorted(found)


def core() -> list[str]:
    """Names of the packages that the program needs without extras."""
    return _needed(())


def licenses_of(name: str) -> frozenset[str]:
    """The licenses of an installed package, all of which apply or from which one may be chosen; empty if unknown."""
    about = metadata.metadata(name).json
    if name in READ:
        return frozenset({READ[name]})
    stated = about.get("license_expression")
    if isinstance(stated, str):
        return _parts_of(stated)
    found = [
        text.rpartition(" :: ")[2]
        for text in about.get("classifier", ())
        if text.startswith("License :: ") and text != "License :: OSI Approved"
    ]
    short = str(about.get("license", "")).strip()
    if not found and short and "\n" not in short:
        return frozenset(NAMES.get(part.lower(), part) for part in _parts_of(short))
    return frozenset(NAMES.get(text.lower(), text) for text in found)


def _parts_of(expression: str) -> frozenset[str]:
    """Returns the licenses that an expression of SPDX names."""
    parts = re.split(r" (?:AND|OR|WITH) |[()]", expression)
    return frozenset(part.strip() for part in parts if part.strip())


def main() -> None:
    """Writes the page."""
    own = set(core())
    rows = [
        f"| {name} | {metadata.version(name)} | {', '.join(sorted(licenses_of(name))) or 'not stated'} |"
        f" {'yes' if name in own else ''} |"
        for name in _needed(EXTRAS)
    ]
    sys.stdout.write(
        "# Licenses of dependencies\n\n"
        "Written by `python -m tests.licenses` from what the packages of an installation on Linux state."
        " Packages marked *core* come with every installation, the others with an extra.\n\n"
        "| package | version | license | core |\n|---|---|---|---|\n" + "\n".join(rows) + "\n"
    )


if __name__ == "__main__":
    main()
