#!/usr/bin/env bash
# Rewrites requirements/*.txt: every version pinned, every file hashed, for all supported Pythons and platforms at once.
# No index address and no path of this machine may get in (infra/check_strings.py looks).
set -euo pipefail
cd "$(dirname "$0")/.."

lock() {
  local name=$1
  shift
  .venv/bin/uv pip compile "$@" --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
    --custom-compile-command "make lock" --quiet ${UPGRADE:+--upgrade} --output-file "requirements/$name.txt"
  echo "requirements/$name.txt: $(grep -c '==' "requirements/$name.txt") packages"
}

lock daemon pyproject.toml                               # pipx install . --pip-args='-c requirements/daemon.txt'
lock server pyproject.toml --extra server --group build  # make demo
lock dev pyproject.toml --extra server --group dev       # make test, make check
lock lambda --group lambda                               # the bundle that template.yaml deploys
lock sam requirements/sam.in                             # sam validate
lock fuzz requirements/fuzz.in                           # make fuzz
