"""The LLVM module of one loop: what it calls, and an entry that takes its arguments from memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cpplan.runtime.loop_compiler.draws import integers_text
from cpplan.runtime.loop_compiler.kinds import NOTHING, Kind, LoopError, llvm_types, pointer
from cpplan.runtime.loop_compiler.machine_code import ENTRY
from cpplan.runtime.loop_compiler.numbers import DECLARED
from cpplan.runtime.loop_compiler.translation import Translation, result_type

if TYPE_CHECKING:
    from cpplan.runtime.loop_compiler.loop import CompiledLoop


def module_text(loop: CompiledLoop, kinds: tuple[Kind, ...]) -> tuple[str, Kind]:
    """LLVM instructions of a loop for these kinds of arguments, and the kind of its result."""
    translation = Translation()
    name, returns = translation.function(loop, kinds)
    lines, arguments = [], []
    types = [part for kind in kinds for part in llvm_types(kind)]
    for k, wanted in enumerate(types):
        lines += [f"%p{k} = getelementptr i64, {pointer('i64')} %words, i64 {k}"]
        lines += [f"%w{k} = load i64, {pointer('i64')} %p{k}"]
        if wanted == "i64":
            arguments.append(f"i64 %w{k}")
            continue
        turned = {"double": "bitcast", "i1": "trunc"}.get(wanted, "inttoptr")
        lines += [f"%a{k} = {turned} i64 %w{k} to {wanted}"]
        arguments.append(f"{wanted} %a{k}")
    call = f'call {result_type(returns)} @"{name}"({", ".join(arguments)})'
    lines.append(call if returns == NOTHING else f"%result = {call}")
    for k, given in enumerate(llvm_types(returns)):
        lines.append(f"%r{k} = extractvalue {result_type(returns)} %result, {k}")
        if given == "i64":
            word = f"%r{k}"
        elif given in ("double", "i1"):
            word = f"%x{k}"
            lines.append(f"{word} = {'zext' if given == 'i1' else 'bitcast'} {given} %r{k} to i64")
        else:
            raise LoopError(f"{loop.__name__} returns an array")
        lines.append(f"%o{k} = getelementptr i64, {pointer('i64')} %words, i64 {k}")
        lines.append(f"store i64 {word}, {pointer('i64')} %o{k}")
    body = "\n".join([*lines, "ret void"])
    entry = f"define void @{ENTRY}({pointer('i64')} %words) {{\n{body}\n}}"
    return "\n\n".join([*DECLARED, integers_text(), *translation.texts, entry]), returns
