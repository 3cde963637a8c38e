"""What checks look at: workloads with their pods and terms, who matches whom, which nodes a workload could use.

Enter at :mod:`kubestow.audit.view.view`; a code and a finding are made by :mod:`kubestow.audit.view.finding`. It may import
``kubestow.solver.rules`` and ``models``.
"""
