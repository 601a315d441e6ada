"""Training in PyTorch within a memory limit: tensors are saved, or computed again in backward.

AOTAutograd traces forward and backward pass as one *joint graph*. The search is for a schedule of
its ops, in which some ops run again. One more op, the *turn*, stands between the two halves: it
reads the results of the forward pass and writes their gradients. So every schedule gives two
graphs, for the ops before and after the turn. Tensors that cross the turn are saved.
"""
