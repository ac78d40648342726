"""Items of the skills; the rest of the table is in `models.py`.

item        pk             sk
skill       WS#<ws>        SK#<skill>
skill name  WS#<ws>        SN#<name>
bundle      SK#<skill>     B#<revision>#<hash>#<part>
"""

from __future__ import annotations

from pynamodb.attributes import BinaryAttribute, NumberAttribute, UnicodeAttribute

from callboard_control.store.models import Item


class SkillItem(Item):
    """A skill as it is now. What it holds lies in `parts` items under `revision` and `hash`. `revision` rises with
    every change: a state that was left and came back is still another write."""

    id = UnicodeAttribute(attr_name="id")
    workspace_id = UnicodeAttribute(attr_name="ws")
    name = UnicodeAttribute(attr_name="nm")
    description = UnicodeAttribute(attr_name="ds")
    hash = UnicodeAttribute(attr_name="hs")
    size = NumberAttribute(attr_name="sz")
    file_count = NumberAttribute(attr_name="fc")
    parts = NumberAttribute(attr_name="np")
    revision = NumberAttribute(attr_name="rv")
    created_by = UnicodeAttribute(attr_name="cb", null=True)
    created = NumberAttribute(attr_name="ct")
    updated = NumberAttribute(attr_name="ut")


class SkillNameItem(Item):
    """Holds a name for one skill of the workspace."""

    skill_id = UnicodeAttribute(attr_name="ki")


class BundlePart(Item):
    """A part of one state of a skill, deflated. Written once, before anything refers to it."""

    body = BinaryAttribute(attr_name="b", legacy_encoding=False)
