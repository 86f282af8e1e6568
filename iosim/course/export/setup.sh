#!/usr/bin/env bash
# Run once, when the image is built: makes a virtual environment beside this file and installs iosim, which lies here, and what it needs.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"

usable() {  # a Python that is new enough and can make virtual environments
    for name in python3 python3.14 python3.13 python3.12 python3.11; do
        "$name" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo "$name"; return; }
    done
    return 1
}

if ! usable >/dev/null; then
    apt-get update
    apt-get install -y --no-install-recommends python3-venv
    usable >/dev/null || apt-get install -y --no-install-recommends python3.11 python3.11-venv
fi
python="$(usable)" || { echo "iosim needs Python 3.11 or newer: choose a newer base image" >&2; exit 1; }
"$python" -m venv "$here/venv"
"$here/venv/bin/pip" install -r "$here/requirements.txt"
# By name, but from here alone: no index is asked for it.
"$here/venv/bin/pip" install --no-index --no-deps --find-links "$here" "iosim==VERSION"
