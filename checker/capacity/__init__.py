"""The check of documents about capacity: Fit, Sizing, Survival, Upgrade.

A module a document, each with ``verify_…`` over snapshots that the caller has edited as the document says.
"""
