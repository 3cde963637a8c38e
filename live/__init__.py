"""Whatever talks to a cluster: the capture of a snapshot by way of kubectl, which only ever reads, and carrying a document out.

Enter at :func:`kubestow.live.capture.capture`, :class:`kubestow.live.apply.run.Execution` and :class:`kubestow.live.gates.gates.Gates`. May
import ``models``, and nothing of searching, checking or rendering: a judge is handed in.
"""
