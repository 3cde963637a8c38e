"""Forty manifests, each a sound one with one defect planted in it, and the cluster that they are for.

Enter at :data:`tests.planted_defects.defects.DEFECTS`; :mod:`tests.planted_defects.sound` has the sound manifests and the cluster.
"""
