"""Look up the locked packages in PyPI's database of vulnerabilities, with pip-audit.

    pip install pip-audit && python deploy/audit.py

Exit code 1: a vulnerability was found. If the database cannot be reached, a message says that the audit was skipped.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

LOCKS = sorted((Path(__file__).parent / "locks").glob("*.txt"))
#: Timeout in seconds of each request to the database.
TIMEOUT_SECONDS = "15"


def audited(lock: Path) -> list[dict[str, Any]] | None:
    """Return pip-audit's entry for each package, or None if it could not reach the database."""
    options = "--format json --no-deps --disable-pip --progress-spinner off --timeout"
    command = ["pip-audit", *options.split(), TIMEOUT_SECONDS, "--requirement", str(lock)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        return list(json.loads(run.stdout)["dependencies"])
    except ValueError:
        print(run.stderr.strip()[-2000:], file=sys.stderr)
        return None


def main() -> None:
    num_vulnerable = 0
    for lock in LOCKS:
        packages = audited(lock)
        if packages is None or all("skip_reason" in package for package in packages):
            print(f"{lock.name}: skipped, since the database of vulnerabilities cannot be reached")
            continue
        for package in packages:
            name = f"{package['name']} {package.get('version', '')}".strip()
            if "skip_reason" in package:
                print(f"{lock.name}: {name} was not audited: {package['skip_reason']}")
            for vulnerability in package.get("vulns", []):
                num_vulnerable += 1
                fixed = ", ".join(vulnerability["fix_versions"]) or "no version"
                print(f"{lock.name}: {name} has {vulnerability['id']}, fixed in {fixed}")
        print(f"{lock.name}: {len(packages)} packages")
    sys.exit(1 if num_vulnerable else 0)


if __name__ == "__main__":
    main()
