"""CALL sys.<procedure>(…)."""
