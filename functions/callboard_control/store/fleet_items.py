"""Items of runtimes; the rest of the table is in `models.py`.

item           pk             sk
places         RT#<runtime>   PLACES        for a runtime with a limit of its own
profile        WS#<ws>        RP#<profile>
profile name   WS#<ws>        RN#<name>
"""

from __future__ import annotations

from typing import Final

from pynamodb.attributes import (
    BinarySetAttribute,
    BooleanAttribute,
    ListAttribute,
    NumberAttribute,
    UnicodeAttribute,
)

from callboard_control.store.models import Item

WITHDRAWN: Final = frozenset({"owner_left", "handed_over", "profile_disabled"})
"""Codes of a runtime's `offline_reason` that are somebody's will: nothing is handed out there until it is registered
anew, not even to a call that was let in before. Other reasons are the machine's own, and may be older than its last
registration."""


class PlacesItem(Item):
    """The tasks that hold a place of a runtime with a limit, as the 16 bytes of their ids: fifty fit into a unit of
    one kilobyte. Every write raises `version`; some of the tasks may have ended."""

    taken = BinarySetAttribute(attr_name="tk", legacy_encoding=False)
    version = NumberAttribute(attr_name="vn")


class ProfileItem(Item):
    """A runtime profile. `author_id` is who last wrote what is run."""

    id = UnicodeAttribute(attr_name="id")
    workspace_id = UnicodeAttribute(attr_name="ws")
    name = UnicodeAttribute(attr_name="nm")
    family = UnicodeAttribute(attr_name="pv")
    command = UnicodeAttribute(attr_name="cm")
    args: ListAttribute[str] = ListAttribute(attr_name="ag", null=True)
    description = UnicodeAttribute(attr_name="ds", null=True)
    enabled = BooleanAttribute(attr_name="en")
    created_by = UnicodeAttribute(attr_name="cb")
    author_id = UnicodeAttribute(attr_name="au")
    created = NumberAttribute(attr_name="ct")


class ProfileNameItem(Item):
    """Holds a name for one profile of the workspace."""

    profile_id = UnicodeAttribute(attr_name="pf")
