"""The Kubernetes API over HTTP, for ``kubestow apply``: one request at a time, or a whole cluster kept current by lists and watches.

Only this package knows the client library (extra ``kubestow[apply]``); it is imported when a connection is made, not before.
"""
