"""The scheduler plugin NodeResourcesFit: requests fit in what is allocatable.

Source: https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/scheduler/framework/plugins/noderesources/fit.go.
"""
