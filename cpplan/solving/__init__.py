"""solve(): from a request through the stages to a plan."""
