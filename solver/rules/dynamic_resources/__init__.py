"""The scheduler plugin DynamicResources: devices for ResourceClaims.

Source: https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go.
"""
