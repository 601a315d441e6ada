"""A Graph in an order: A-normal form, its text, expressions, lifespans."""
