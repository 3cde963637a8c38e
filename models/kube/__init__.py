"""The part of the Kubernetes API that decides placement, and the meaning of its fields: defaults, validation, selectors, requests.

Enter at :mod:`kubestow.models.kube.objects`. It imports no other part of the project.
"""
