"""A session of the user's whose own calls reach lake tables, until it is detached."""

from bucketlake.sql.attached.session import attach, detach

__all__ = ["attach", "detach"]
