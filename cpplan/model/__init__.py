"""What is planned and what is answered: data, and the errors that concern them."""
