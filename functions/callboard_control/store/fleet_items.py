"""Items of runtimes; the rest of the table is in `models.py`.

item     pk             sk
places   RT#<runtime>   PLACES    for a runtime with a limit of its own
"""

from __future__ import annotations

from pynamodb.attributes import BinarySetAttribute, NumberAttribute

from callboard_control.store.models import Item


class PlacesItem(Item):
    """The tasks that hold a place of a runtime with a limit, as the 16 bytes of their ids: fifty fit into a unit of
    one kilobyte. Every write raises `version`; some of the tasks may have ended."""

    taken = BinarySetAttribute(attr_name="tk", legacy_encoding=False)
    version = NumberAttribute(attr_name="vn")
