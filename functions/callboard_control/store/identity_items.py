"""Items of logging in and of counting calls; the rest of the table is in `models.py`.

item         pk                 sk
device       DV#<digest>        D         a machine that waits to be let in; the key is its device code's digest
user code    UC#<digest>        C         the short code a person types, while somebody may still answer it
calls        RL#<rate>#<whom>   <window>  calls counted in one window, over all processes
"""

from __future__ import annotations

from pynamodb.attributes import NumberAttribute, UnicodeAttribute

from callboard_control.store.models import Item


class DeviceItem(Item):
    """`status`: pending → approved or denied; the item is deleted when its token is fetched."""

    status = UnicodeAttribute(attr_name="st")
    client_name = UnicodeAttribute(attr_name="cn")
    address = UnicodeAttribute(attr_name="ad", null=True)
    user_id = UnicodeAttribute(attr_name="us", null=True)
    workspace_id = UnicodeAttribute(attr_name="ws", null=True)
    approved_by_token = UnicodeAttribute(attr_name="to", null=True)
    interval_s = NumberAttribute(attr_name="iv")
    polled = NumberAttribute(attr_name="po", null=True)
    expires = NumberAttribute(attr_name="ex")
    created = NumberAttribute(attr_name="ct")


class UserCodeItem(Item):
    """Which device a user code stands for."""

    device = UnicodeAttribute(attr_name="dv")


class CallsItem(Item):
    calls = NumberAttribute(attr_name="n")
