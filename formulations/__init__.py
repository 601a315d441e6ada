"""The mathematical models, one a file, each readable as a paper's section."""
