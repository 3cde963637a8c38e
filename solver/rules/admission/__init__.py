"""Admission plugins of the API server: LimitRanger, ResourceQuota, PodNodeSelector and PodTolerationRestriction."""
