"""Maintenance as a service: rules, one leader by a lease in the warehouse, a loop."""
