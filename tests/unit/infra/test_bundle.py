"""What is shipped to Lambda: every dependency the code imports, nothing for one machine, bytecode's conditions."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
import yaml

from infra import package
from tests.unit.infra import template

ROOT = template.ROOT
LEFT_OUT = tuple(ROOT / "functions" / path for path in package.LEFT_OUT)


def shipped() -> Iterator[Path]:
    for name in package.PACKAGES:
        for path in (ROOT / "functions" / name).rglob("*.py"):
            if not any(path.is_relative_to(folder) for folder in LEFT_OUT):
                yield path


def imported(path: Path) -> set[str]:
    """The top-level names of what a module imports."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return names


def test_every_import_of_the_shipped_code_is_in_the_bundles_lock_file() -> None:
    locked = set(re.findall(r"^([a-z0-9-]+)==", (ROOT / "requirements/lambda.txt").read_text(), re.MULTILINE))
    distributions = packages_distributions()
    missing = set()
    for path in shipped():
        for name in {full.partition(".")[0] for full in imported(path)}:
            if name in sys.stdlib_module_names or name in package.PACKAGES:
                continue
            provided = {found.lower().replace("_", "-") for found in distributions[name]}
            if not provided & locked:
                missing.add(f"{path.relative_to(ROOT)}: {name}")
    assert not missing


def test_shipped_code_imports_nothing_of_what_is_left_out() -> None:
    assert not [path for path in shipped() if any("callboard_control.embedded" in name for name in imported(path))]


def test_the_packaged_template_differs_in_where_the_code_is_and_in_nothing_else(tmp_path: Path) -> None:
    package.write_template(ROOT / "template.yaml", tmp_path / "template.yaml")
    before = (ROOT / "template.yaml").read_text().splitlines()
    after = (tmp_path / "template.yaml").read_text().splitlines()
    changed = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
    assert changed == [("    CodeUri: functions/", "    CodeUri: bundle/")]


def test_a_template_that_names_its_code_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "in.yaml").write_text("    CodeUri: functions/\n      CodeUri: elsewhere/\n")
    with pytest.raises(SystemExit, match="exactly one CodeUri"):
        package.write_template(tmp_path / "in.yaml", tmp_path / "out.yaml")


def test_only_descriptions_of_services_in_use_are_kept(tmp_path: Path) -> None:
    for name in ("dynamodb", "ec2", "secretsmanager", "zzz"):
        (tmp_path / name).mkdir()
    for name in ("endpoints.json.gz", "partitions.json", "unknown.json"):
        (tmp_path / name).touch()
    assert package.strip_botocore(tmp_path) == {"dynamodb", "secretsmanager"}
    assert {path.name for path in tmp_path.iterdir() if path.is_file()} == {"endpoints.json.gz", "partitions.json"}


def test_the_bundle_is_made_for_the_templates_runtime() -> None:
    assert template.load()["Globals"]["Function"]["Runtime"] == f"python{package.PYTHON}"


def test_alarms_import_what_the_template_exports() -> None:
    text = (ROOT / "infra/alarms.yaml").read_text()
    imported_names = set(re.findall(r'ImportValue": !Sub "([^"]+)"', text))
    exported = {out["Export"]["Name"]["Fn::Sub"] for out in template.load()["Outputs"].values() if "Export" in out}
    assert imported_names == exported


def test_no_metric_has_an_id_as_a_dimension() -> None:
    """Each set of dimensions is a metric that is billed."""
    alarms = yaml.load((ROOT / "infra/alarms.yaml").read_text(), Loader=template.Loader)["Resources"]
    own = [body["Properties"] for body in alarms.values() if body.get("Properties", {}).get("Namespace") == "Callboard"]
    assert own
    assert all([d["Name"] for d in alarm["Dimensions"]] == ["service"] for alarm in own)
