"""Training in PyTorch within a memory limit: what forward saves, what backward computes again.

AOTAutograd traces forward and backward as one *joint graph*. A schedule of its ops, some of them
run again, is searched for; one op more, the *turn*, stands between the two halves: it reads what
the forward pass returns and writes what comes back, the gradients of that. So every schedule is two
graphs, one for the ops before the turn and one for those after it, and what crosses it is saved.
"""
