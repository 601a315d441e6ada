"""One layout for a set of sizes: offsets stay, and what is needed of the arena follows."""
