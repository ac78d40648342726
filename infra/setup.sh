#!/usr/bin/env bash
# Makes the environment $1 from the hash-pinned requirements/$2.txt, with Python ≥ 3.11 and nothing else on the machine.
# With "project" as $3 this checkout is installed into it, editable.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=$1 set=$2 project=${3:-}

say() { printf '%s\n' "callboard set-up: $*" >&2; }

new_enough() { "$1" -c 'import sys; raise SystemExit(sys.version_info < (3, 11))' 2>/dev/null; }

find_python() {
  local name
  for name in ${PYTHON:-} python3 python3.13 python3.12 python3.11 python3.14; do
    # By running it, not by name: a version manager's shim may be on PATH without a Python behind it.
    if command -v "$name" >/dev/null && new_enough "$name"; then
      "$name" -c 'import sys; print(sys.executable)'
      return
    fi
  done
  say "needs Python 3.11 or newer on PATH (on Debian 12 or later: apt-get install python3). PYTHON=/path/to/python also works."
  return 1
}

make_venv() {
  "$1" -m venv --clear "$venv" >/dev/null 2>&1 && return
  # Debian ships Python without ensurepip; its package python3-venv has it.
  if command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
    say "installs Debian's python3-venv, which making an environment needs"
    apt-get install -y -qq python3-venv >/dev/null 2>&1 ||
      { apt-get update -qq >/dev/null && apt-get install -y -qq python3-venv >/dev/null; }
    "$1" -m venv --clear "$venv" && return
  fi
  say "cannot make an environment with $1; on Debian: sudo apt-get install python3-venv"
  return 1
}

if ! { [ -x "$venv/bin/python" ] && new_enough "$venv/bin/python" && "$venv/bin/python" -m pip --version >/dev/null 2>&1; }; then
  python=$(find_python)
  say "makes $venv with $python"
  make_venv "$python"
fi

pip() { "$venv/bin/python" -m pip --disable-pip-version-check --quiet --no-input "$@"; }

say "installs $(grep -c '==' "requirements/$set.txt") pinned packages into $venv"
pip install --require-hashes --no-deps --requirement "requirements/$set.txt"
if [ "$project" = project ]; then
  # A uv- or pip-made install of another checkout would win otherwise. No index is asked: everything needed is there.
  pip install --no-deps --no-build-isolation --no-index --editable .
fi
touch "$venv/.$set"
