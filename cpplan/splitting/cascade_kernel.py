"""The compiled loop that runs a region depth first."""

# Arrays are described in ``run_cascade``; the compiler infers their types.
# mypy: disable-error-code="no-untyped-def,no-any-return,untyped-decorator"

from __future__ import annotations

from typing import NamedTuple

from cpplan.model.problem import Ints
from cpplan.runtime.loop_compiler import compiled_loop
from cpplan.splitting.problem import Floats

WHOLE = -1


class Scratch(NamedTuple):
    """Scratch arrays of a run: one entry per op, per tensor, or per op and one more.

    Attributes
    ----------
    done
        Steps of each op that have run.
    made, freed
        Positions of each tensor that have been made, and that have been freed.
    ran
        Runs of each op, in all strips.
    weight
        Bytes of one position of each tensor.
    stack, until
        Stack of ops under way, and the step up to which each must run.
    """

    done: Ints
    ran: Ints
    made: Ints
    freed: Ints
    weight: Floats
    stack: Ints
    until: Ints


@compiled_loop
def run_cascade(ops, reads, tensors, tables, sinks, sizes, strips, events, scratch):
    """Run the ops of a region in pieces along one axis, each as late as its readers allow.

    Parameters
    ----------
    ops
        ``(extent, adds, read_start, write_start, write)``: steps of each op along the axis; 1 if
        its outputs are sums over it; where its rows in ``reads`` and in ``write`` start; the
        tensors that it writes.
    reads
        ``(tensor, table, in_place)``: the tensor read; where the window's intervals start in
        ``tables``, or -1 if the tensor is read whole; 1 if the op may write over it.
    tensors
        ``(extent, writer, table, reader_start, reader)``: positions; the op that writes the tensor
        or -1; where the intervals of the writer's window start, or -1; where the tensor's rows in
        ``reader`` start; rows of its readers in ``reads``.
    tables
        ``(low, high, reader)``: intervals of the windows, and the op of each row of ``reads``.
    sinks
        Ops to run, each to its end.
    sizes
        ``(step, longest)``: steps of a sink at a time, and most steps of any piece.
    strips
        ``(base, nbytes, kept)``: for each strip, the live bytes that it does not access; for each
        strip and tensor, the bytes that it accesses, and 1 if they stay live to its end. All ops
        run once for each strip.
    events
        Receives ``(strip, op, start, stop)`` of every piece, while there are rows left.
    scratch
        A :class:`Scratch`.

    Returns
    -------
    tuple
        Peak of the live bytes, and the number of pieces.
    """
    extent, adds, read_start, write_start, write = ops
    read, read_table, in_place = reads
    length, writer, table, reader_start, reader = tensors
    low, high, reading = tables
    step, longest = sizes
    base, nbytes, keeps = strips
    steps, several = len(extent), len(length)
    done, ran, made, freed, weight, stack, until = scratch
    most, count = 0.0, 0
    for k in range(steps):
        ran[k] = 0
    for strip in range(len(base)):
        kept = keeps[strip]
        for k in range(steps):
            done[k] = 0
        for m in range(several):
            freed[m] = 0
            weight[m] = nbytes[strip, m] / length[m]
            made[m] = length[m] if writer[m] < 0 else 0
        live = 0.0
        for m in range(several):
            live += weight[m] * (made[m] - freed[m])
        peak = live
        for number in range(len(sinks)):
            sink = sinks[number]
            while done[sink] < extent[sink]:
                stack[0], until[0], depth = sink, min(extent[sink], done[sink] + step), 1
                while depth:
                    k, needed = stack[depth - 1], until[depth - 1]
                    start = done[k]
                    if start >= needed:
                        depth -= 1
                        continue
                    stop = min(needed, start + longest)
                    blocked = False
                    for e in range(read_start[k], read_start[k + 1]):
                        m = read[e]
                        w = writer[m]
                        if w < 0:
                            continue
                        # An op that runs in one piece reads the whole tensor.
                        need = length[m]
                        if read_table[e] >= 0 and stop - start < extent[k]:
                            need = high[read_table[e] + stop - 1]
                        if adds[w] and done[w] < extent[w]:
                            if need == 0:
                                continue
                            target = extent[w]
                        elif made[m] >= need:
                            continue
                        elif table[m] < 0:
                            target = extent[w]
                        else:
                            target = done[w] + 1
                            while high[table[m] + target - 1] < need:
                                target += 1
                        stack[depth], until[depth] = w, target
                        depth += 1
                        blocked = True
                        break
                    if blocked:
                        continue
                    if count < len(events):
                        events[count, 0], events[count, 1] = strip, k
                        events[count, 2], events[count, 3] = start, stop
                    count += 1
                    ran[k] += 1
                    done[k] = stop
                    added = 0.0
                    for position in range(write_start[k], write_start[k + 1]):
                        m = write[position]
                        now = length[m]
                        if table[m] >= 0 and not adds[k]:
                            now = high[table[m] + stop - 1]
                        added += weight[m] * (now - made[m])
                        made[m] = now
                    gone, over = 0.0, 0.0
                    for e in range(read_start[k], read_start[k + 1]):
                        m = read[e]
                        if kept[m]:
                            continue
                        least = made[m]
                        if writer[m] < 0:
                            least = length[m]
                        for position in range(reader_start[m], reader_start[m + 1]):
                            other = reader[position]
                            user = reading[other]
                            if done[user] < extent[user]:
                                if read_table[other] < 0:
                                    least = 0
                                else:
                                    least = min(least, low[read_table[other] + done[user]])
                        if least > freed[m]:
                            part = weight[m] * (least - freed[m])
                            freed[m] = least
                            gone += part
                            if in_place[e]:
                                over = max(over, min(part, added))
                    peak = max(peak, live + added - over)
                    live += added - gone
                    for position in range(write_start[k], write_start[k + 1]):
                        # A result without readers is freed as soon as it is written.
                        m = write[position]
                        if not kept[m] and reader_start[m] == reader_start[m + 1]:
                            live -= weight[m] * (made[m] - freed[m])
                            freed[m] = made[m]
        most = max(most, base[strip] + peak)
    return most, count
