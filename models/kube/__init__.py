"""The part of the Kubernetes API that decides placement, and what its fields mean: defaults, validation, selectors, requests.

Enter at :mod:`kubestow.models.kube.objects`. It imports nothing of the project.
"""
