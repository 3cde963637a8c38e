"""Shared data of the checks: workloads with their pods and terms, label matches, and the nodes that a workload
could use.

Enter at :mod:`kubestow.audit.view.view`; :mod:`kubestow.audit.view.finding` defines codes and creates findings. The
package may import ``kubestow.solver.rules`` and ``models``.
"""
