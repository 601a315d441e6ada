"""Data of a planning task and its answer: graphs, problems, plans, and errors about them."""
