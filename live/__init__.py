"""Whatever talks to a cluster: the capture of a snapshot by way of kubectl, which only ever reads, and carrying a document out.

Enter at :func:`live.capture.capture`, :class:`live.apply.run.Execution` and :class:`live.gates.gates.Gates`. May import ``models``, and
nothing of searching, checking or rendering: a judge is handed in.
"""
