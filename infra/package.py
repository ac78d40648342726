"""Builds what Lambda runs: build/bundle (our packages, their dependencies, bytecode) and build/template.yaml.

    make package && sam deploy --template-file build/template.yaml --resolve-s3 --capabilities CAPABILITY_IAM …

Bytecode is shipped because a function's file system is read-only: without it every cold start compiles everything again
(measured: 921 ms of CPU against 354). It is hash-based and unchecked, so that no timestamp in the archive matters.
botocore's descriptions of 400 services are cut down to those in use: 28 MB less to unpack.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build"
BUNDLE = BUILD / "bundle"
PACKAGES = ("callboard_wire", "callboard_control")
# Not for the cloud: the engine, the gateway, and what they alone need.
LEFT_OUT = ("callboard_control/embedded",)
PYTHON = "3.13"
SERVICES = frozenset({"dynamodb", "secretsmanager", "sts"})
# Files of botocore's data that belong to no service.
SHARED_DATA = frozenset({"_retry.json", "endpoints.json", "partitions.json", "sdk-default-configuration.json"})


def main() -> int:
    shutil.rmtree(BUILD, ignore_errors=True)
    install_dependencies(BUNDLE)
    copy_packages(BUNDLE)
    kept = strip_botocore(BUNDLE / "botocore" / "data")
    compile_all(BUNDLE)
    write_template(ROOT / "template.yaml", BUILD / "template.yaml")
    size_mb = sum(path.stat().st_size for path in BUNDLE.rglob("*") if path.is_file()) / 2**20
    print(f"{BUNDLE.relative_to(ROOT)}: {size_mb:.1f} MB, botocore knows {', '.join(sorted(kept))}")
    return 0


def install_dependencies(target: Path) -> None:
    """The hash-pinned set, as wheels for Lambda's machine whatever this one is."""
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install"),
            *("--target", str(target), "--require-hashes", "--no-deps", "--no-compile"),
            *("--only-binary", ":all:", "--implementation", "cp", "--python-version", PYTHON),
            *("--platform", "manylinux2014_aarch64", "--platform", "manylinux_2_28_aarch64"),
            *("--requirement", str(ROOT / "requirements" / "lambda.txt")),
        ],
        check=True,
    )
    shutil.rmtree(target / "bin", ignore_errors=True)


def copy_packages(target: Path) -> None:
    for package in PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
        shutil.copytree(ROOT / "functions" / package, target / package, ignore=ignored)
    for path in LEFT_OUT:
        shutil.rmtree(target / path)


def strip_botocore(data: Path) -> set[str]:
    """Delete every service's description but `SERVICES`; return what is kept."""
    for path in data.iterdir():
        if path.is_dir() and path.name not in SERVICES:
            shutil.rmtree(path)
        elif path.is_file() and path.name.removesuffix(".gz") not in SHARED_DATA:
            path.unlink()
    return {path.name for path in data.iterdir() if path.is_dir()}


def compile_all(target: Path) -> None:
    """Bytecode of the version Lambda runs; only that interpreter can make it.

    Raises:
        SystemExit: no Python of that version is here.
    """
    python = shutil.which(f"python{PYTHON}")
    runs = python and subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0
    if not python or not runs:
        raise SystemExit(
            f"python{PYTHON} is needed to make the bundle's bytecode (Lambda runs {PYTHON}); put it on PATH"
        )
    subprocess.run(
        [python, "-m", "compileall", "-q", "-j", "0", "--invalidation-mode", "unchecked-hash", str(target)], check=True
    )


def write_template(source: Path, target: Path) -> None:
    """The same template, pointing at the bundle.

    Raises:
        SystemExit: the template does not name its code in exactly one line.
    """
    text = source.read_text()
    line = "    CodeUri: functions/\n"
    if text.count("CodeUri:") != 1 or line not in text:
        raise SystemExit("template.yaml must have exactly one CodeUri, functions/")
    target.write_text(text.replace(line, f"    CodeUri: {BUNDLE.name}/\n"))


if __name__ == "__main__":
    sys.exit(main())
