"""The Kubernetes API over HTTP for ``kubestow apply``: single requests, and a copy of the cluster kept current by lists and watches.

Only this package uses the client library (extra ``kubestow[apply]``). The library is imported when a connection is made.
"""
