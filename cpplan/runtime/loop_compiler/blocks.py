"""Basic blocks of one LLVM function under construction."""

from __future__ import annotations

from cpplan.runtime.loop_compiler.kinds import Kind, Value, llvm_types, pointer


class Block:
    """Instructions that run one after another; ``reached`` once a jump leads there."""

    def __init__(self, label: str):
        self.label = label
        self.lines: list[str] = []
        self.reached = False
        self.ended = False


class Blocks:
    """Blocks of a function; instructions are added to ``current``.

    Variables live in slots on the stack, which LLVM turns into registers.
    """

    def __init__(self) -> None:
        self._slots: list[str] = []
        self._count = 0
        self._blocks: list[Block] = []
        self.current = self.begin(self.block())
        self.current.reached = True

    def block(self) -> Block:
        """A new block that has not begun yet."""
        self._count += 1
        return Block(f"b{self._count}")

    def begin(self, block: Block) -> Block:
        """Begin a block: instructions go there from now on."""
        self._blocks.append(block)
        self.current = block
        return block

    def name(self) -> str:
        """A new operand."""
        self._count += 1
        return f"%t{self._count}"

    def add(self, instruction: str) -> str:
        """Add an instruction; returns the operand that holds its result."""
        name = self.name()
        self.current.lines.append(f"{name} = {instruction}")
        return name

    def act(self, instruction: str) -> None:
        """Add an instruction without a result."""
        self.current.lines.append(instruction)

    def end(self, instruction: str) -> None:
        """End the block; instructions added to it afterwards are never reached."""
        if not self.current.ended:
            self.current.lines.append(instruction)
            self.current.ended = True
        self.begin(self.block())

    def jump(self, block: Block) -> None:
        """End the block with a jump to another block."""
        if self.current.reached and not self.current.ended:
            block.reached = True
        self.end(f"br label %{block.label}")

    def branch(self, condition: str, then: Block, other: Block) -> None:
        """End the block with a jump to one of two blocks."""
        if self.current.reached and not self.current.ended:
            then.reached = other.reached = True
        self.end(f"br i1 {condition}, label %{then.label}, label %{other.label}")

    def demand(self, condition: str, *otherwise: str) -> None:
        """Go on if the condition holds; else run instructions that end the function."""
        holds, fails = self.block(), self.block()
        self.branch(condition, holds, fails)
        self.begin(fails)
        self.current.lines += otherwise
        self.current.ended = True
        self.begin(holds)

    def slots(self, kind: Kind) -> list[tuple[str, str]]:
        """Slots for a value of this kind, each with the LLVM type that it holds."""
        made = []
        for stored in llvm_types(kind):
            self._count += 1
            name = f"%s{self._count}"
            self._slots.append(f"{name} = alloca {stored}")
            made.append((name, stored))
        return made

    def store(self, slots: list[tuple[str, str]], value: Value) -> None:
        """Write a value into its slots."""
        for (slot, stored), part in zip(slots, value.parts, strict=True):
            self.act(f"store {stored} {part}, {pointer(stored)} {slot}")

    def load(self, slots: list[tuple[str, str]], kind: Kind) -> Value:
        """Read a value from its slots."""
        parts = [self.add(f"load {stored}, {pointer(stored)} {slot}") for slot, stored in slots]
        return Value(kind, tuple(parts))

    def text(self) -> str:
        """The body of the function."""
        lines = ["entry:", *self._slots, f"br label %{self._blocks[0].label}"]
        for block in self._blocks:
            ended = [] if block.ended else ["unreachable"]
            lines += [f"{block.label}:", *block.lines, *ended]
        return "\n".join(lines)
