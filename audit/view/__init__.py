"""What checks look at: workloads with their pods and terms, who matches whom, which nodes a workload could use.

Enter at :mod:`audit.view.view`; a code and a finding are made by :mod:`audit.view.finding`. It may import ``solver.rules`` and ``models``.
"""
