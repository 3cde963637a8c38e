"""The scheduler plugin NodePorts: no two pods of a node share a host port.

Source: https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/scheduler/framework/plugins/nodeports/node_ports.go.
"""
