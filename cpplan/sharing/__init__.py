"""Which tensors share bytes by choice: links between storages, and the clusters they form."""
