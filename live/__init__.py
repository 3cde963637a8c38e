"""Access to live clusters: read-only capture of a snapshot with kubectl, and application of documents.

Start at :func:`kubestow.live.capture.capture`, :class:`kubestow.live.apply.run.Execution` and :class:`kubestow.live.gates.gates.Gates`. May
import ``models``, but nothing that searches, checks or renders. The checker is passed in.
"""
