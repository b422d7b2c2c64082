"""Operations of batch-invariant mode: every bit of a row's result depends on that row alone.

Each has one kernel for any number of rows, and tiles that do not change the order of a sum: no library's products, no
sums divided by how many programs there are. Operations that are not here treat rows alike in either mode.
"""
