"""The scheduler plugin InterPodAffinity: required affinity and anti-affinity between pods.

Source: https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/scheduler/framework/plugins/interpodaffinity/filtering.go.
"""
