"""Bodies about skills: the workspace's library, what an agent has of it, and what a claim says of that.

A claim names skills by `SkillRef` to a daemon that says `SKILL_BUNDLES` in `CAPABILITIES_HEADER`; it asks for
the bundles it does not have. A daemon that does not say so gets `SkillBody`s in the claim, as far as they fit.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final, Literal

from pydantic import Field, StringConstraints

from callboard_wire.bodies import Body, Fenced, Id
from callboard_wire.skill_files import (
    MAX_BUNDLE_BYTES,
    MAX_DESCRIPTION_CHARS,
    MAX_FILE_BYTES,
    MAX_FILES,
    MAX_NAME_CHARS,
    MAX_PATH_BYTES,
    MAX_SKILL_MD_BYTES,
)

MAX_SKILLS: Final = 50
"""Of one agent. A CLI reads the head of each at its start, and a model has to choose among them."""
MAX_REFS: Final = 50

SkillName = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=MAX_NAME_CHARS)]
Description = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=MAX_DESCRIPTION_CHARS)]
Content = Annotated[str, Field(max_length=MAX_SKILL_MD_BYTES)]
Hash = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class SkillFile(Body):
    """A file beside SKILL.md. `encoding` says how `content` is to be read; base64 is for what is not text."""

    path: str = Field(min_length=1, max_length=MAX_PATH_BYTES)
    content: str = Field("", max_length=MAX_FILE_BYTES * 4 // 3 + 4)
    encoding: Literal["utf-8", "base64"] = "utf-8"


class CreateSkillRequest(Body):
    """`content` is the whole SKILL.md. A `name` or `description` that is left out is taken from its front matter."""

    name: SkillName | None = None
    description: Description | None = None
    content: Content
    files: list[SkillFile] = Field(default_factory=list, max_length=MAX_FILES)


class UpdateSkillRequest(Body):
    """Absent fields stay; `files` replaces all files. `hash`: the state that was read, to notice another's change."""

    name: SkillName | None = None
    description: Description | None = None
    content: Content | None = None
    files: list[SkillFile] | None = Field(None, max_length=MAX_FILES)
    hash: Hash | None = None


class SkillSummary(Body):
    """`hash` names this state of the skill for ever; `size_bytes` is SKILL.md and all files, unpacked."""

    id: str
    workspace_id: str
    name: str
    description: str
    hash: str
    size_bytes: int = Field(le=MAX_BUNDLE_BYTES)
    file_count: int
    created_by: str = ""
    created_at: datetime
    updated_at: datetime


class SkillView(SkillSummary):
    content: str
    files: list[SkillFile] = Field(default_factory=list)


class AgentSkills(Body):
    """What an agent has, in its order."""

    skills: list[SkillSummary] = Field(default_factory=list)


class AgentSkillIds(Body):
    """Ids of the workspace's skills, in the order wanted: the whole list, or what is added to it."""

    skill_ids: list[Id] = Field(max_length=MAX_SKILLS)


class SkillRef(Body):
    """A skill in a claim, by name. What it holds is asked for where it is not known under its hash."""

    id: str
    source: str = "workspace"
    name: str = ""
    hash: str = ""
    size_bytes: int = 0
    file_count: int = 0


class ResolveSkills(Fenced):
    refs: list[SkillRef] = Field(min_length=1, max_length=MAX_REFS)


class SkillBody(Body):
    """A skill with all it holds: one state of it, whose hash can be computed from what is here."""

    id: str
    source: str = "workspace"
    name: str
    description: str = ""
    content: str = ""
    hash: str = ""
    files: list[SkillFile] = Field(default_factory=list)


class ResolvedSkills(Body):
    """As many of the bundles asked for, in their order, as fit into one answer; at least one. Ask for the others again.
    A skill that was changed since the claim is there in its newer state, under its own hash."""

    bundles: list[SkillBody] = Field(default_factory=list)
