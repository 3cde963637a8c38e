"""Panels of the page about capacity.

A module a document, each giving plain values for the page.
"""
