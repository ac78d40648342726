"""`callboard skill list|get|import|export|delete`: the workspace's library of skills."""

from __future__ import annotations

from pathlib import Path

import click

from callboard_daemon.cli.context import Cli, output_option, pass_cli
from callboard_daemon.cli.limited import first, limit_option
from callboard_daemon.cli.output import ago, note, one_line, print_fields, print_json, print_table, working
from callboard_daemon.cli.typed import body_from
from callboard_daemon.errors import NotFound
from callboard_wire import front_matter
from callboard_wire.skill_files import MAIN_FILE, Bundle, SkillRefused, check, to_wire
from callboard_wire.skills import CreateSkillRequest, SkillFile, SkillSummary, SkillView, UpdateSkillRequest


@click.group()
def skill() -> None:
    """Keep skills: folders with a SKILL.md that agents can be given."""


@skill.command("list")
@limit_option(200)
@output_option
@pass_cli
def list_skills(cli: Cli, limit: int) -> None:
    """List the workspace's skills."""
    with cli.connect() as api, working(cli, "asking the server"):
        found = first(api.skills(), limit)
    print_skills(cli, found, empty="No skills yet. Bring one: callboard skill import FOLDER")


@skill.command("get")
@click.argument("name_or_id", metavar="NAME|ID")
@output_option
@pass_cli
def get_skill(cli: Cli, name_or_id: str) -> None:
    """Show one skill and the files it holds."""
    with cli.connect() as api, working(cli, "asking the server"):
        found = api.skill(name_or_id)
    if cli.json:
        print_json(found)
        return
    print_fields(_fields(found))
    for file in found.files:
        click.echo(f"  {one_line(file.path, 200)}")


@skill.command("import")
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@click.option("--name", metavar="NAME", help="Instead of the name in its front matter.")
@click.option("--description", metavar="TEXT", help="Instead of the description in its front matter.")
@click.option("--replace", is_flag=True, help="Change the skill of that name, where there is one.")
@output_option
@pass_cli
def import_skill(cli: Cli, path: Path, name: str | None, description: str | None, replace: bool) -> None:
    """Bring a skill into the workspace: a folder, or a zip file of one, with a SKILL.md.

    Links are refused and not followed; what version control and desktops leave behind is left out.
    """
    body = _read(path, name, description)
    with cli.connect() as api, working(cli, "sending the skill"):
        before = None
        if replace:
            try:
                before = api.skill(str(body.name))
            except NotFound:
                pass  # then it is a new one
        if before is None:
            done = api.create_skill(body)
        else:
            change = body_from(UpdateSkillRequest, **body.model_dump(), hash=before.hash)
            done = api.update_skill(before.id, change)
    if cli.json:
        print_json(done)
        return
    print_fields(_fields(done))
    note(f'Give it to an agent: callboard agent skills add AGENT "{done.name}"')


@skill.command("export")
@click.argument("name_or_id", metavar="NAME|ID")
@click.argument("folder", type=click.Path(path_type=Path))
@pass_cli
def export_skill(cli: Cli, name_or_id: str, folder: Path) -> None:
    """Write a skill's SKILL.md and files into FOLDER, which must not be there yet."""
    from callboard_daemon.skill_cache import bundle_of
    from callboard_wire.skills import SkillBody

    with cli.connect() as api, working(cli, "asking the server"):
        found = api.skill(name_or_id)
    try:
        bundle = bundle_of(SkillBody(**found.model_dump()))
        folder.mkdir(parents=True)
    except SkillRefused as error:
        raise click.ClickException(error.message) from None
    except OSError as error:
        raise click.UsageError(f"{folder} cannot be made: {error.strerror}") from None
    for name, data in {MAIN_FILE: bundle.content.encode(), **bundle.files}.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    note(f"Wrote {1 + len(bundle.files)} files to {folder}.")


@skill.command("delete")
@click.argument("name_or_id", metavar="NAME|ID")
@click.option("--yes", is_flag=True, help="Do not ask.")
@pass_cli
def delete_skill(cli: Cli, name_or_id: str, yes: bool) -> None:
    """Delete a skill. Agents that have it go on without it."""
    with cli.connect() as api:
        found = api.skill(name_or_id)
        if not yes:
            click.confirm(f"Delete the skill {one_line(found.name, 64)!r} for everybody?", abort=True, err=True)
        with working(cli, "deleting the skill"):
            api.delete_skill(found.id)
    note("Deleted.")


def print_skills(cli: Cli, skills: list[SkillSummary], *, empty: str) -> None:
    if cli.json:
        print_json(skills)
        return
    rows = [
        [s.name, str(s.file_count), f"{s.size_bytes:,}", ago(s.updated_at), one_line(s.description, 60), s.id]
        for s in skills
    ]
    print_table(["name", "files", "bytes", "changed", "description", "id"], rows, empty=empty)


def _read(path: Path, name: str | None, description: str | None) -> CreateSkillRequest:
    """The skill as a request, checked as the server will. Raises `click.UsageError`."""
    from callboard_daemon.cli.skill_source import read_skill

    try:
        source = read_skill(path)
        head = front_matter.read(source.content)
        name = name or (head.get("name") if head else "")
        description = description or (head.get("description") if head else "")
        check(Bundle("", name, description, source.content, source.files))
    except SkillRefused as error:
        raise click.UsageError(f"{path}: {error.message}") from None
    except OSError as error:
        raise click.UsageError(f"{error.filename or path} cannot be read: {error.strerror}") from None
    for what, text in (("name", name), ("description", description)):
        if not text:
            raise click.UsageError(f"{path}: its front matter has no {what}; give one with --{what}")
    if source.left_out:
        note(f"Left out: {', '.join(one_line(each, 80) for each in source.left_out[:10])}")
    files = [SkillFile(**to_wire(each, data, compact=True)) for each, data in sorted(source.files.items())]
    return body_from(CreateSkillRequest, name=name, description=description, content=source.content, files=files)


def _fields(found: SkillSummary | SkillView) -> list[tuple[str, str]]:
    return [
        ("id", found.id),
        ("name", found.name),
        ("description", one_line(found.description, 200)),
        ("files", str(found.file_count)),
        ("bytes", f"{found.size_bytes:,}"),
        ("hash", found.hash),
        ("changed", ago(found.updated_at)),
    ]
